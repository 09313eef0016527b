//! A log in memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use toolnexus_core::BoxFuture;

use super::page::page;
use super::{RunFilter, RunLog, RunLogError, RunSummary, check_run_id};
use crate::run::RunEvent;

/// Runs in memory, for as long as the log lives. Clones are the same log.
///
/// ```
/// use toolnexus_llm::run::RunEvent;
/// use toolnexus_llm::run_log::{MemoryRunLog, RunLog, RunLogError};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), RunLogError> {
/// let log = MemoryRunLog::default();
/// log.append("a", 0, &[RunEvent::Resumed { model: None }]).await?;
/// assert!(matches!(log.append("a", 0, &[]).await, Err(RunLogError::Conflict { len: 1, .. })));
/// assert_eq!(log.read("a", 0).await?, [RunEvent::Resumed { model: None }]);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct MemoryRunLog {
    runs: Arc<Mutex<HashMap<String, Recorded>>>,
}

/// The events of one run, at least one.
struct Recorded {
    events: Vec<RunEvent>,
    started_at: SystemTime,
    updated_at: SystemTime,
}

impl MemoryRunLog {
    fn runs(&self) -> MutexGuard<'_, HashMap<String, Recorded>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append_now(&self, run_id: &str, at: u64, events: &[RunEvent]) -> Result<(), RunLogError> {
        check_run_id(run_id)?;
        let mut runs = self.runs();
        let entry = runs.entry(run_id.to_owned());
        let len = match &entry {
            Entry::Occupied(run) => run.get().events.len() as u64,
            Entry::Vacant(_) => 0,
        };
        if len != at {
            return Err(RunLogError::Conflict { run_id: run_id.to_owned(), len });
        }
        if !events.is_empty() {
            let now = SystemTime::now();
            let run =
                entry.or_insert_with(|| Recorded { events: Vec::new(), started_at: now, updated_at: now });
            run.events.extend_from_slice(events);
            run.updated_at = now;
        }
        Ok(())
    }

    fn read_now(&self, run_id: &str, from: u64) -> Result<Vec<RunEvent>, RunLogError> {
        check_run_id(run_id)?;
        let runs = self.runs();
        let run = runs.get(run_id).ok_or_else(|| RunLogError::NotFound { run_id: run_id.to_owned() })?;
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        Ok(run.events.get(from..).unwrap_or_default().to_vec())
    }

    fn list_now(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, RunLogError> {
        filter.after.as_deref().map_or(Ok(()), check_run_id)?;
        let runs = self.runs().iter().map(|(run_id, run)| (run.started_at, run_id.clone())).collect();
        page(runs, filter, |run_id| {
            // Events are replayed without the lock: others go on appending meanwhile.
            let found = self.runs().get(run_id).map(|r| (r.events.clone(), r.started_at, r.updated_at));
            let Some((events, started_at, updated_at)) = found else { return Ok(None) };
            Ok(Some(RunSummary::of(run_id, &events, started_at, updated_at)?))
        })
    }

    fn remove_now(&self, run_id: &str) -> Result<(), RunLogError> {
        check_run_id(run_id)?;
        match self.runs().remove(run_id) {
            Some(_) => Ok(()),
            None => Err(RunLogError::NotFound { run_id: run_id.to_owned() }),
        }
    }
}

impl RunLog for MemoryRunLog {
    fn append<'a>(
        &'a self,
        run_id: &'a str,
        at: u64,
        events: &'a [RunEvent],
    ) -> BoxFuture<'a, Result<(), RunLogError>> {
        Box::pin(async move { self.append_now(run_id, at, events) })
    }

    fn read<'a>(&'a self, run_id: &'a str, from: u64) -> BoxFuture<'a, Result<Vec<RunEvent>, RunLogError>> {
        Box::pin(async move { self.read_now(run_id, from) })
    }

    fn list<'a>(&'a self, filter: RunFilter) -> BoxFuture<'a, Result<Vec<RunSummary>, RunLogError>> {
        Box::pin(async move { self.list_now(&filter) })
    }

    fn remove<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Result<(), RunLogError>> {
        Box::pin(async move { self.remove_now(run_id) })
    }
}

/// Shows how many runs there are.
impl fmt::Debug for MemoryRunLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryRunLog({} runs)", self.runs().len())
    }
}
