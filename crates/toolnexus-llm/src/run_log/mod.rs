//! Where the events of durable runs are kept.
//!
//! A [`RunLog`] holds, for each run id, a list of [`RunEvent`]s that only grows at its end. Whoever
//! appends says how long it believes the list is, so that of two processes which continue one run
//! exactly one succeeds. Everything else of a durable run is the fold of these events.
//!
//! [`MemoryRunLog`] lives as long as its process, [`FileRunLog`] keeps one file for each run. A log of
//! your own can be put through the testkit's `run_log_suite`.

mod file;
mod memory;
mod page;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;

use toolnexus_core::{BoxError, BoxFuture};

use crate::run::RunEvent;

pub use file::FileRunLog;
#[doc(hidden)]
pub use file::whole_appends;
pub use memory::MemoryRunLog;
pub use summary::{RunFilter, RunSummary, RunSummaryStatus};

/// The most characters of a run id.
const ID_LIMIT: usize = 128;

/// Keeps the events of runs by run id.
pub trait RunLog: Send + Sync {
    /// Adds events behind the `at` that the run has: all of them or none.
    ///
    /// When it returns, the events survive a crash of the process and, for a log on disk, of the
    /// machine. With `at` 0 the run is created; an append of no events creates none, but `at` is
    /// checked. An implementation calls [`check_run_id`] first.
    ///
    /// # Errors
    /// [`RunLogError::Conflict`] when the run does not have exactly `at` events,
    /// [`RunLogError::InvalidId`], and what the store itself reports.
    fn append<'a>(
        &'a self,
        run_id: &'a str,
        at: u64,
        events: &'a [RunEvent],
    ) -> BoxFuture<'a, Result<(), RunLogError>>;

    /// The events of a run from position `from` on.
    ///
    /// # Errors
    /// [`RunLogError::NotFound`], [`RunLogError::InvalidId`], and what the store itself reports.
    fn read<'a>(&'a self, run_id: &'a str, from: u64) -> BoxFuture<'a, Result<Vec<RunEvent>, RunLogError>>;

    /// The runs that fit the filter, newest first: by when they began, those of the same moment by id.
    /// Runs whose events cannot be read are left out.
    ///
    /// # Errors
    /// [`RunLogError::NotFound`] and [`RunLogError::InvalidId`] for the filter's `after`, and what the
    /// store itself reports.
    fn list<'a>(&'a self, filter: RunFilter) -> BoxFuture<'a, Result<Vec<RunSummary>, RunLogError>>;

    /// Forgets a run.
    ///
    /// # Errors
    /// [`RunLogError::NotFound`], [`RunLogError::InvalidId`], and what the store itself reports.
    fn remove<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Result<(), RunLogError>>;
}

/// A shared log is a log.
impl<L: RunLog + ?Sized> RunLog for Arc<L> {
    fn append<'a>(
        &'a self,
        run_id: &'a str,
        at: u64,
        events: &'a [RunEvent],
    ) -> BoxFuture<'a, Result<(), RunLogError>> {
        (**self).append(run_id, at, events)
    }

    fn read<'a>(&'a self, run_id: &'a str, from: u64) -> BoxFuture<'a, Result<Vec<RunEvent>, RunLogError>> {
        (**self).read(run_id, from)
    }

    fn list<'a>(&'a self, filter: RunFilter) -> BoxFuture<'a, Result<Vec<RunSummary>, RunLogError>> {
        (**self).list(filter)
    }

    fn remove<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Result<(), RunLogError>> {
        (**self).remove(run_id)
    }
}

/// Why a run log did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunLogError {
    /// The run does not have as many events as the caller believes: another process continued it.
    #[error("the run \"{run_id}\" has {len} events, not as many as expected: another process continued it")]
    Conflict {
        /// The run.
        run_id: String,
        /// How many events it has.
        len: u64,
    },
    /// There is no such run.
    #[error("there is no run \"{run_id}\" in this log")]
    NotFound {
        /// The id that was asked for.
        run_id: String,
    },
    /// The id is none that a log takes.
    #[error(
        "\"{run_id}\" is no run id: use 1 to 128 of A-Z, a-z, 0-9, \".\", \"_\" and \"-\", not beginning with \".\""
    )]
    InvalidId {
        /// The id that was given.
        run_id: String,
    },
    /// A stored event was changed from outside. Nothing is written to that run any more.
    #[error("line {line} of {path} is damaged: restore the file, or remove the run")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// The events were written by a newer build, or cannot be read for another reason.
    #[error(transparent)]
    Event(#[from] crate::run::RunError),
    /// The store failed.
    #[error("the run log failed to {action}: {source}")]
    Store {
        /// What was attempted.
        action: String,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
}

/// Checks that an id can be given to a log: 1 to 128 of `[A-Za-z0-9._-]`, not beginning with `.`.
///
/// ```
/// use toolnexus_llm::run_log::check_run_id;
/// assert!(check_run_id("2026-11-30_import.2").is_ok());
/// assert!(check_run_id("../x").is_err());
/// ```
///
/// # Errors
/// [`RunLogError::InvalidId`].
pub fn check_run_id(run_id: &str) -> Result<(), RunLogError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let fits =
        (1..=ID_LIMIT).contains(&run_id.len()) && !run_id.starts_with('.') && run_id.bytes().all(legal);
    if fits { Ok(()) } else { Err(RunLogError::InvalidId { run_id: run_id.to_owned() }) }
}
