//! A command and everything it starts, as one thing that can be ended.

use std::future::poll_fn;
use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep};

use crate::group::Group;

/// How long a killed group may take to disappear before we stop looking: a process that the
/// kernel cannot interrupt just now ends when it can.
const KILLED: Duration = Duration::from_secs(1);

/// The longest pause between two looks at a group that is ending.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A running command with its process group (on Windows: its job object). Dropping it kills the
/// whole group at once; when this process itself is killed, the group goes too.
///
/// ```
/// # #[cfg(unix)]
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// use std::time::Duration;
/// use tokio::process::Command;
/// use toolnexus_process::Job;
///
/// let mut command = Command::new("sh");
/// command.args(["-c", "sleep 600 & sleep 600"]);
/// let (job, mut exit) = Job::start(command)?;
/// // Both go: they are asked to, and killed if they have not gone two seconds later.
/// assert!(job.end(Duration::from_secs(2)).await);
/// assert_eq!(exit.wait().await?.code(), None);
/// # Ok(()) }
/// # #[cfg(not(unix))] fn main() {}
/// ```
pub struct Job {
    running: Arc<Running>,
}

/// Waits for the command of a [`Job`], and reaps it.
pub struct Exit {
    running: Arc<Running>,
}

struct Running(Mutex<Members>);

struct Members {
    leader: Box<dyn ChildWrapper>,
    group: Group,
    /// Nobody is left, so the group's number means nothing any more: it may be somebody else's.
    gone: bool,
    /// Who waits for the leader. Looking whether it has ended reaps it, after which the system has
    /// nothing more to tell.
    waiting: Option<Waker>,
    #[cfg(unix)]
    guarded: Option<crate::guardian::Guarded>,
}

/// The ends of those standard streams that the command was told to pipe.
pub(crate) struct Streams {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

impl Job {
    /// Starts a command as the leader of a group of its own, with the standard streams that it was
    /// given. This process's copies of them are closed, so that a pipe to the command ends with it.
    ///
    /// # Errors
    /// The system's, when the command cannot be started.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(command: Command) -> io::Result<(Job, Exit)> {
        let (job, exit, _streams) = Self::start_piped(command)?;
        Ok((job, exit))
    }

    pub(crate) fn start_piped(command: Command) -> io::Result<(Job, Exit, Streams)> {
        // Before the command, which is unguarded until its number is known.
        #[cfg(unix)]
        crate::guardian::stand_by();
        let mut command = CommandWrap::from(command);
        Group::lead(&mut command);
        command.wrap(KillOnDrop);
        let mut leader = command.spawn()?;
        let group = Group::of(leader.as_ref())?;
        #[cfg(unix)]
        let guarded = leader.id().map(crate::guardian::guard);
        let streams = Streams {
            stdin: leader.stdin().take(),
            stdout: leader.stdout().take(),
            stderr: leader.stderr().take(),
        };
        let members = Members {
            leader,
            group,
            gone: false,
            waiting: None,
            #[cfg(unix)]
            guarded,
        };
        let running = Arc::new(Running(Mutex::new(members)));
        Ok((Job { running: Arc::clone(&running) }, Exit { running }, streams))
    }

    /// Ends every member: asks them to, and after `grace` kills those that are left. Returns when
    /// they are gone, and tells whether anybody was there to be asked.
    ///
    /// Dropping the future leaves the job as it is by then; it can be ended again.
    pub async fn end(&self, grace: Duration) -> bool {
        if self.is_gone().await {
            return false;
        }
        let asked = self.running.members().terminate();
        if !self.disappears_within(grace).await {
            self.kill();
            self.disappears_within(KILLED).await;
        }
        asked
    }

    /// Kills every member at once. Safe at any time, any number of times.
    pub fn kill(&self) {
        self.running.members().kill();
    }

    async fn disappears_within(&self, time: Duration) -> bool {
        // A time that no clock can hold has no end.
        let deadline = Instant::now().checked_add(time);
        let mut pause = Duration::from_millis(1);
        while !self.is_gone().await {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LOOK_EVERY);
        }
        true
    }

    /// Whether no member is left alive.
    async fn is_gone(&self) -> bool {
        let group = {
            let mut members = self.running.members();
            if members.gone || !members.leader_ended() {
                return members.gone;
            }
            if !members.any() {
                members.let_go();
                return true;
            }
            members.group
        };
        if group.has_living_members().await {
            return false;
        }
        let mut members = self.running.members();
        // Only the dead are left. Should the look have missed somebody, this does not.
        members.kill();
        members.let_go();
        true
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.kill();
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("gone", &self.running.members().gone).finish_non_exhaustive()
    }
}

impl Exit {
    /// Waits for the command itself, not for what it left behind. Dropping the future loses nothing,
    /// and once the command has ended, the answer stays the same.
    ///
    /// # Errors
    /// The system's, when the command cannot be waited for.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        poll_fn(|context| self.running.members().poll_leader(context)).await
    }

    /// Waits for the command, and kills what it left behind.
    pub(crate) async fn wait_and_kill(&mut self) -> io::Result<ExitStatus> {
        poll_fn(|context| {
            let mut members = self.running.members();
            let status = ready!(members.poll_leader(context));
            // Still under the lock, so that the number cannot be used once it may be somebody else's.
            members.kill_now();
            members.let_go();
            Poll::Ready(status)
        })
        .await
    }
}

impl std::fmt::Debug for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exit").finish_non_exhaustive()
    }
}

impl Running {
    fn members(&self) -> MutexGuard<'_, Members> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn terminate(&mut self) -> bool {
        !self.gone && self.group.terminate(self.leader.as_mut())
    }

    fn kill(&mut self) {
        if self.gone {
            return;
        }
        if self.leader_ended() && !self.any() {
            self.let_go();
        } else {
            self.kill_now();
        }
    }

    fn kill_now(&mut self) {
        self.group.kill(self.leader.as_mut());
    }

    fn poll_leader(&mut self, context: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        // The group's own `wait` would wait for all members.
        let status = self.leader.inner_mut().wait().as_mut().poll(context);
        self.waiting = status.is_pending().then(|| context.waker().clone());
        status
    }

    /// Whether the command itself has ended. It is ours to wait for, and keeps the group's number
    /// taken until then.
    fn leader_ended(&mut self) -> bool {
        let ended = !matches!(self.leader.inner_mut().try_wait(), Ok(None));
        if ended && let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
        ended
    }

    fn any(&mut self) -> bool {
        self.group.has_members(self.leader.as_mut())
    }

    fn let_go(&mut self) {
        self.gone = true;
        #[cfg(unix)]
        drop(self.guarded.take());
    }
}
