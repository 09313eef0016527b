//! A command and everything it starts, as one thing that can be ended.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::time::{Instant, sleep};

/// How long a killed group may take to disappear before we stop looking: a process that the
/// kernel cannot interrupt just now ends when it can.
const KILLED: Duration = Duration::from_secs(1);

/// The longest pause between two looks at a group that is ending.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A running command with its process group (on Windows: its job).
///
/// Dropping it kills the whole group at once.
pub(crate) struct Job {
    child: Box<dyn ChildWrapper>,
    group: platform::Group,
    /// Nobody is left, so the group's number means nothing any more.
    gone: bool,
}

impl Job {
    /// Starts `command` as the leader of a group of its own.
    pub(crate) fn start(mut command: CommandWrap) -> io::Result<Self> {
        command.wrap(KillOnDrop);
        platform::lead_group(&mut command);
        let child = command.spawn()?;
        let group = platform::Group::of(child.as_ref())?;
        Ok(Job { child, group, gone: false })
    }

    /// Waits for the command itself, not for what it left behind. Dropping the future loses
    /// nothing.
    pub(crate) async fn exit(&mut self) -> io::Result<ExitStatus> {
        // The group's own `wait` would wait for all members.
        self.child.inner_mut().wait().await
    }

    /// Ends every member: asks them to, and after `grace` kills those that are left. Returns
    /// whether the request reached the group.
    pub(crate) async fn end(&mut self, grace: Duration) -> bool {
        if self.is_gone().await {
            return false;
        }
        let delivered = self.group.terminate(self.child.as_mut());
        if !self.disappears_within(grace).await {
            self.group.kill(self.child.as_mut());
            self.disappears_within(KILLED).await;
        }
        delivered
    }

    async fn disappears_within(&mut self, time: Duration) -> bool {
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

    async fn is_gone(&mut self) -> bool {
        if !self.gone && self.leader_ended() {
            if !self.group.has_members(self.child.as_mut()) {
                self.gone = true;
            } else if !self.group.has_living_members().await {
                // Only the dead are left. Should the look have missed somebody, this does not.
                self.group.kill(self.child.as_mut());
                self.gone = true;
            }
        }
        self.gone
    }

    /// Whether the command itself has ended. It is ours to wait for, and keeps the group's number
    /// taken until then.
    fn leader_ended(&mut self) -> bool {
        !matches!(self.child.inner_mut().try_wait(), Ok(None))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let members = !self.leader_ended() || self.group.has_members(self.child.as_mut());
        if members && !self.gone {
            self.group.kill(self.child.as_mut());
        }
    }
}

#[cfg(unix)]
mod platform {
    use std::io;

    use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
    use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};

    pub(super) fn lead_group(command: &mut CommandWrap) {
        command.wrap(ProcessGroup::leader());
    }

    /// A process group, by the number of its leader. The number is not given away again while
    /// there are members.
    pub(super) struct Group(Pid);

    impl Group {
        pub(super) fn of(child: &dyn ChildWrapper) -> io::Result<Self> {
            let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            pid.map(Group).ok_or_else(|| io::Error::other("the command has no process id"))
        }

        pub(super) fn terminate(&self, _child: &mut dyn ChildWrapper) -> bool {
            kill_process_group(self.0, Signal::TERM).is_ok()
        }

        pub(super) fn kill(&self, _child: &mut dyn ChildWrapper) {
            // Fails only when there is nobody left.
            let _ = kill_process_group(self.0, Signal::KILL);
        }

        /// To be asked once the leader has been waited for.
        pub(super) fn has_members(&self, _child: &mut dyn ChildWrapper) -> bool {
            // Where this process is the one that orphans fall to, they are ours to wait for.
            while let Ok(Some(_)) = waitpgid(self.0, WaitOptions::NOHANG) {}
            test_kill_process_group(self.0) != Err(rustix::io::Errno::SRCH)
        }

        #[cfg(target_os = "linux")]
        pub(super) async fn has_living_members(&self) -> bool {
            let group = self.0.as_raw_nonzero().get();
            let looked = tokio::task::spawn_blocking(move || crate::process_table::has_living_member(group));
            looked.await.ok().flatten().unwrap_or(true)
        }

        /// Elsewhere, the system waits for orphans at once.
        #[cfg(not(target_os = "linux"))]
        pub(super) async fn has_living_members(&self) -> bool {
            true
        }
    }
}

#[cfg(windows)]
mod platform {
    use std::io;

    use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject};

    pub(super) fn lead_group(command: &mut CommandWrap) {
        command.wrap(JobObject);
    }

    /// The job object lives in the child's wrapper.
    pub(super) struct Group;

    impl Group {
        pub(super) fn of(_child: &dyn ChildWrapper) -> io::Result<Self> {
            Ok(Group)
        }

        /// There is no way to ask; the job ends at once.
        pub(super) fn terminate(&self, child: &mut dyn ChildWrapper) -> bool {
            child.start_kill().is_ok()
        }

        pub(super) fn kill(&self, child: &mut dyn ChildWrapper) {
            let _ = child.start_kill();
        }

        pub(super) fn has_members(&self, child: &mut dyn ChildWrapper) -> bool {
            // Ending a job twice does no harm, and afterwards nobody is left.
            child.start_kill().is_err()
        }

        pub(super) async fn has_living_members(&self) -> bool {
            true
        }
    }
}
