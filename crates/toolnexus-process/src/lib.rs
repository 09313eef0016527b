//! Child processes that never outlive their owner: started in a process group of their own, killed
//! with everything they started, always reaped.
//!
//! ```text
//! Command ──ChildProcess::spawn──▶ ChildProcess   owner: dropping it kills the tree
//!                                  Pipes          standard input and output, for messages
//!                                  ChildView      looks on: exit status, tail of standard error
//! ```
//!
//! * `child`: starting, killing, reaping. A task of the child's own reads its standard error, so that
//!   the child is never held up by it, and reaps it when it ends.
//! * `tail`: the last lines of standard error.
//! * `guardian`: what happens to children when this process is killed and can do nothing any more.
//!
//! # What the platforms allow
//!
//! Linux and macOS: a child leads a process group and the group is killed with SIGKILL, at once. A
//! process that leaves the group (`setsid`, daemons) is out of reach, and closes none of the pipes
//! that are waited for. When this process itself is killed, a guardian kills the groups; see there
//! why Linux's parent-death signal is not used. Windows: a job object holds the tree, and the system
//! ends it with its last handle, whatever happened to this process.

mod child;
#[cfg(unix)]
mod guardian;
mod tail;

pub use child::{ChildExit, ChildProcess, ChildView, Pipes};
