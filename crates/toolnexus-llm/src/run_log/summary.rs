//! What a list of runs says of each.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use toolnexus_core::Request;

use crate::RunStatus;
use crate::run::{Run, RunError, RunEvent, Step};

/// Which runs of a log are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only runs in this state. `None`: all.
    pub status: Option<RunSummaryStatus>,
    /// Only runs behind the one of this id in the list: the last one of the page before.
    pub after: Option<String>,
    /// The most runs to give. 0 means 100.
    pub limit: usize,
}

/// Where a run of a log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunSummaryStatus {
    /// It is going on in some process, or its process ended in the midst of it.
    Running,
    /// It waits for an answer from outside.
    Pending,
    /// The model answered.
    Done,
    /// A limit stopped it.
    Incomplete,
    /// A driver gave up; the run can be resumed.
    Failed,
}

impl RunSummaryStatus {
    /// The spelling in lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            RunSummaryStatus::Running => "running",
            RunSummaryStatus::Pending => "pending",
            RunSummaryStatus::Done => "done",
            RunSummaryStatus::Incomplete => "incomplete",
            RunSummaryStatus::Failed => "failed",
        }
    }
}

/// One run of a log. The times are the store's.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// The run.
    pub run_id: String,
    /// Where it stands.
    pub status: RunSummaryStatus,
    /// Model calls made.
    pub turns: u32,
    /// Tool calls that have their result.
    pub tool_calls: usize,
    /// Tokens of all model calls.
    pub total_tokens: u64,
    /// When its first event was written.
    pub started_at: SystemTime,
    /// When its last event was written.
    pub updated_at: SystemTime,
    /// The requests it waits for, in call order.
    pub pending: Vec<Request>,
}

impl RunSummary {
    /// The summary of a run from all of its events, for stores of your own.
    ///
    /// # Errors
    /// Events that are not those of one run.
    pub fn of(
        run_id: impl Into<String>,
        events: &[RunEvent],
        started_at: SystemTime,
        updated_at: SystemTime,
    ) -> Result<Self, RunError> {
        let run = Run::replay(events)?;
        let status = match run.next() {
            Step::Done(result) if result.status == RunStatus::Incomplete => RunSummaryStatus::Incomplete,
            Step::Done(_) => RunSummaryStatus::Done,
            _ if matches!(events.last(), Some(RunEvent::Failed { .. })) => RunSummaryStatus::Failed,
            Step::Ask(_) if !run.has_running_calls() => RunSummaryStatus::Pending,
            _ => RunSummaryStatus::Running,
        };
        Ok(RunSummary {
            run_id: run_id.into(),
            status,
            turns: run.turns(),
            tool_calls: run.finished_calls(),
            total_tokens: run.usage().total_tokens,
            started_at,
            updated_at,
            pending: run.open_requests().into_iter().map(|open| open.request.clone()).collect(),
        })
    }
}
