//! What the conformance runners share: a report of checks, comparisons that say what differs, a look at
//! the processes of this machine, and the server that the conformance suite wants to meet.
//!
//! Each runner is a binary of this package with a folder of its own beside `src`, which has the
//! script that installs what it runs against. None of them is part of `cargo test`.

mod everything;
mod expect;
mod report;

pub mod processes;

pub use everything::Everything;
pub use expect::{equal, holds};
pub use report::{Outcome, Report};
