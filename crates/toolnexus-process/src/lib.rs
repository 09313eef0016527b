//! Child processes that never outlive their owner: started in a process group of their own, killed
//! with everything they started, always reaped.
//!
//! ```text
//! Command ──Job::start──────────▶ Job            owner: ends the tree in good order; dropping it kills the tree
//!                                 Exit           waits for the command and reaps it
//!
//! Command ──ChildProcess::spawn─▶ ChildProcess   owner: a Job that talks; dropping it kills the tree
//!                                 Pipes          standard input and output, for messages
//!                                 ChildView      looks on: exit status, tail of standard error
//! ```
//!
//! * `job`: a command and everything it starts, as one thing that can be ended.
//! * `child`: a job that one talks with. A task of the child's own reads its standard error, so that
//!   the child is never held up by it, and reaps it when it ends.
//! * `group`: the system's name for a job: a process group, on Windows a job object.
//! * `process_table`: which members of a group still live.
//! * `tail`: the last lines of standard error.
//! * `guardian`: what happens to children when this process is killed and can do nothing any more.
//!
//! # What the platforms allow
//!
//! Linux and macOS: a child leads a process group, which is asked to end with SIGTERM and killed with
//! SIGKILL. A process that leaves the group (`setsid`, daemons) is out of reach, and closes none of the
//! pipes that are waited for. When this process itself is killed, a guardian kills the groups; see there
//! why Linux's parent-death signal is not used. Windows: a job object holds the tree, and the system
//! ends it with its last handle, whatever happened to this process; there is no way to ask it to end.

mod child;
mod group;
#[cfg(unix)]
mod guardian;
mod job;
#[cfg(target_os = "linux")]
mod process_table;
mod tail;

pub use child::{ChildExit, ChildProcess, ChildView, Pipes};
pub use job::{Exit, Job};
