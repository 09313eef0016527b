//! What the system calls a job: a process group, on Windows a job object.

#[cfg(unix)]
pub(crate) use unix::Group;
#[cfg(windows)]
pub(crate) use windows::Group;

#[cfg(unix)]
mod unix {
    use std::io;

    use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
    use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};

    /// A process group, by the number of its leader. The number is not given away again while
    /// there are members.
    #[derive(Clone, Copy)]
    pub(crate) struct Group(Pid);

    impl Group {
        /// Makes a command the leader of a group of its own.
        pub(crate) fn lead(command: &mut CommandWrap) {
            command.wrap(ProcessGroup::leader());
        }

        pub(crate) fn of(child: &dyn ChildWrapper) -> io::Result<Self> {
            let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            pid.map(Group).ok_or_else(|| io::Error::other("the command has no process id"))
        }

        /// Asks all members to end. Whether anybody was there to be asked.
        pub(crate) fn terminate(self, _child: &mut dyn ChildWrapper) -> bool {
            kill_process_group(self.0, Signal::TERM).is_ok()
        }

        pub(crate) fn kill(self, _child: &mut dyn ChildWrapper) {
            // Fails only when there is nobody left.
            let _ = kill_process_group(self.0, Signal::KILL);
        }

        /// Whether anybody is left, the dead whom nobody waited for included. To be asked once the
        /// leader has been waited for.
        pub(crate) fn has_members(self, _child: &mut dyn ChildWrapper) -> bool {
            // Where this process is the one that orphans fall to, they are ours to wait for.
            while let Ok(Some(_)) = waitpgid(self.0, WaitOptions::NOHANG) {}
            test_kill_process_group(self.0) != Err(rustix::io::Errno::SRCH)
        }

        #[cfg(target_os = "linux")]
        pub(crate) async fn has_living_members(self) -> bool {
            let group = self.0.as_raw_nonzero().get();
            let looked = tokio::task::spawn_blocking(move || crate::process_table::has_living_member(group));
            looked.await.ok().flatten().unwrap_or(true)
        }

        /// Elsewhere, the system waits for orphans at once.
        #[cfg(not(target_os = "linux"))]
        pub(crate) async fn has_living_members(self) -> bool {
            true
        }
    }
}

#[cfg(windows)]
mod windows {
    use std::io;

    use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject};

    /// The job object lives in the child's wrapper.
    #[derive(Clone, Copy)]
    pub(crate) struct Group;

    impl Group {
        pub(crate) fn lead(command: &mut CommandWrap) {
            command.wrap(JobObject);
        }

        pub(crate) fn of(_child: &dyn ChildWrapper) -> io::Result<Self> {
            Ok(Group)
        }

        /// There is no way to ask; the job ends at once.
        pub(crate) fn terminate(self, child: &mut dyn ChildWrapper) -> bool {
            child.start_kill().is_ok()
        }

        pub(crate) fn kill(self, child: &mut dyn ChildWrapper) {
            let _ = child.start_kill();
        }

        pub(crate) fn has_members(self, child: &mut dyn ChildWrapper) -> bool {
            // Ending a job twice does no harm, and afterwards nobody is left.
            child.start_kill().is_err()
        }

        pub(crate) async fn has_living_members(self) -> bool {
            true
        }
    }
}
