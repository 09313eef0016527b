//! What the conformance runners share: a report of checks, comparisons that say what differs, and
//! a look at the processes of this machine.
//!
//! Each runner is a binary of this package with a folder of its own beside `src`, which has the
//! script that installs what it runs against. None of them is part of `cargo test`.

mod expect;
mod report;

pub mod processes;

pub use expect::{equal, holds};
pub use report::{Outcome, Report};
