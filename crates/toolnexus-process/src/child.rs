//! A child process that one talks with: its life and its end.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::job::{Exit, Job, Streams};
use crate::tail::Tail;

/// How long standard error may take to drain once the child is gone: a process that left the group
/// may hold the pipe open for ever.
const DRAIN_WAIT: Duration = Duration::from_millis(300);

/// How a child process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildExit {
    /// By itself, with this exit status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl ChildExit {
    fn of(status: ExitStatus) -> Option<Self> {
        if let Some(code) = status.code() {
            return Some(ChildExit::Code(code));
        }
        #[cfg(unix)]
        {
            use std::os::unix::process::ExitStatusExt as _;
            status.signal().map(ChildExit::Signal)
        }
        #[cfg(not(unix))]
        None
    }
}

/// What is known of a child's end.
#[derive(Debug, Clone, Copy, Default)]
struct End {
    /// The child is gone and reaped; the inner value is how it ended, if the system said so.
    exit: Option<Option<ChildExit>>,
    /// Standard error was closed or given up.
    drained: bool,
}

struct Shared {
    job: Job,
    stderr: Mutex<Tail>,
    end: watch::Sender<End>,
}

/// A running child with its whole process tree. Dropping it kills the tree at once; a task of the
/// child's own reaps it.
///
/// ```
/// # #[cfg(unix)]
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// use tokio::io::AsyncReadExt as _;
/// use tokio::process::Command;
/// use toolnexus_process::{ChildExit, ChildProcess};
///
/// let mut command = Command::new("sh");
/// command.args(["-c", "echo hello; echo why >&2; exit 3"]);
/// let (child, mut pipes) = ChildProcess::spawn(command, ())?;
/// let mut said = String::new();
/// pipes.stdout.read_to_string(&mut said).await?;
/// let exit = child.view().ended(std::time::Duration::from_secs(5)).await;
/// assert_eq!((said.as_str(), exit), ("hello\n", Some(ChildExit::Code(3))));
/// assert_eq!(child.view().stderr(), ["why"]);
/// # Ok(()) }
/// # #[cfg(not(unix))] fn main() {}
/// ```
pub struct ChildProcess {
    shared: Arc<Shared>,
}

/// Looks at a child without keeping it alive. Cheap to clone.
#[derive(Clone)]
pub struct ChildView {
    shared: Arc<Shared>,
}

/// The two pipes that messages go through.
#[derive(Debug)]
pub struct Pipes {
    /// What is written here the child reads.
    pub stdin: ChildStdin,
    /// What the child writes is read here.
    pub stdout: ChildStdout,
}

impl ChildProcess {
    /// Starts a command as the leader of a process group of its own, all three of its standard
    /// streams piped. `held` is dropped when the child is reaped and nothing of it runs any more: a
    /// token to count children with, or `()`.
    ///
    /// # Errors
    /// The system's, when the command cannot be started.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn(mut command: Command, held: impl Send + 'static) -> io::Result<(Self, Pipes)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (job, exit, streams) = Job::start_piped(command)?;
        let Streams { stdin: Some(stdin), stdout: Some(stdout), stderr: Some(stderr) } = streams else {
            return Err(io::Error::other("the child has no pipes"));
        };
        let shared =
            Arc::new(Shared { job, stderr: Mutex::default(), end: watch::Sender::new(End::default()) });
        let process = ChildProcess { shared: Arc::clone(&shared) };
        tokio::spawn(async move {
            shared.attend(exit, stderr).await;
            drop(held);
        });
        Ok((process, Pipes { stdin, stdout }))
    }

    /// Kills the process tree at once. Safe at any time, any number of times.
    pub fn kill(&self) {
        self.shared.job.kill();
    }

    /// A look at the child that does not keep it alive.
    pub fn view(&self) -> ChildView {
        ChildView { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl std::fmt::Debug for ChildProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChildProcess").field("end", &*self.shared.end.borrow()).finish_non_exhaustive()
    }
}

impl ChildView {
    /// How the child ended, as far as that is known by now.
    pub fn exit(&self) -> Option<ChildExit> {
        self.shared.end.borrow().exit.flatten()
    }

    /// Waits until the child is gone and reaped.
    pub async fn gone(&self) {
        let _ = self.shared.end.subscribe().wait_for(|end| end.exit.is_some()).await;
    }

    /// Waits until the child is gone and its standard error read to the end, for `limit` at the most,
    /// and tells how it ended. `None`: it is not gone by then, or the system did not say.
    pub async fn ended(&self, limit: Duration) -> Option<ChildExit> {
        let mut end = self.shared.end.subscribe();
        let ended = async { end.wait_for(|end| end.exit.is_some() && end.drained).await.is_ok() };
        let _ = timeout(limit, ended).await;
        self.exit()
    }

    /// Whether the child is gone and reaped.
    pub fn is_gone(&self) -> bool {
        self.shared.end.borrow().exit.is_some()
    }

    /// The last lines of standard error, an unfinished one included: up to 200 lines and 64 KiB.
    pub fn stderr(&self) -> Vec<String> {
        lock(&self.shared.stderr).lines()
    }

    /// Kills the process tree at once. Safe at any time, any number of times.
    pub fn kill(&self) {
        self.shared.job.kill();
    }
}

impl std::fmt::Debug for ChildView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChildView").field("end", &*self.shared.end.borrow()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Reads standard error and reaps the child.
    async fn attend(&self, mut exit: Exit, stderr: ChildStderr) {
        let reading = self.read_stderr(stderr);
        tokio::pin!(reading);
        tokio::select! {
            () = self.reap(&mut exit) => {
                let _ = timeout(DRAIN_WAIT, &mut reading).await;
            }
            () = &mut reading => {
                self.end.send_modify(|end| end.drained = true);
                self.reap(&mut exit).await;
            }
        }
        self.end.send_modify(|end| end.drained = true);
    }

    /// Waits for the child, and kills what it left behind in its group.
    async fn reap(&self, exit: &mut Exit) {
        let exit = exit.wait_and_kill().await.ok().and_then(ChildExit::of);
        self.end.send_modify(|end| end.exit = Some(exit));
    }

    async fn read_stderr(&self, mut stderr: ChildStderr) {
        let mut buffer = vec![0_u8; 4096];
        loop {
            match stderr.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => lock(&self.stderr).push(buffer.get(..read).unwrap_or_default()),
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
