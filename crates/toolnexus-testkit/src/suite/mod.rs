//! Suites that put an implementation of a store through what its trait promises.
//!
//! They fail the way tests do, with a panic that names the broken promise.

mod conversation_store;
mod run_log;

pub use conversation_store::conversation_store_suite;
pub use run_log::{RunLogSuite, run_log_suite};

use std::fmt::Debug;

/// The value, or a panic that says what should have worked.
#[track_caller]
#[allow(clippy::panic, reason = "a suite fails by a panic")]
fn works<T, E: Debug>(result: Result<T, E>, what: &str) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{what} must work: {error:?}"),
    }
}
