//! A run log that says what it was asked, and fails, waits or stops when it is told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Barrier;
use toolnexus_core::BoxFuture;
use toolnexus_llm::run::RunEvent;
use toolnexus_llm::run_log::{MemoryRunLog, RunFilter, RunLog, RunLogError, RunSummary};

/// What happens around a run, in one order.
#[derive(Clone, Default)]
pub(crate) struct Timeline(Arc<Mutex<Vec<String>>>);

impl Timeline {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// When a log does not do as it is asked.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// This append, from 0, fails and writes nothing.
    Fails(usize),
    /// This append writes and never returns: the process is gone.
    DiesAfter(usize),
    /// This append writes nothing and never returns.
    DiesBefore(usize),
}

/// A log in memory under observation.
#[derive(Clone, Default)]
pub(crate) struct WatchedLog {
    pub(crate) runs: MemoryRunLog,
    pub(crate) timeline: Timeline,
    pub(crate) fault: Option<Fault>,
    pub(crate) appends: Arc<AtomicUsize>,
    /// Reads wait here for each other.
    pub(crate) barrier: Option<Arc<Barrier>>,
}

impl WatchedLog {
    pub(crate) fn with_fault(fault: Fault) -> Self {
        WatchedLog { fault: Some(fault), ..Default::default() }
    }

    pub(crate) fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    pub(crate) fn shared(&self) -> Arc<dyn RunLog> {
        Arc::new(self.clone())
    }

    /// The kinds of all events of a run.
    pub(crate) async fn kinds(&self, run_id: &str) -> Vec<&'static str> {
        self.runs.read(run_id, 0).await.unwrap().iter().map(RunEvent::kind).collect()
    }
}

impl RunLog for WatchedLog {
    fn append<'a>(
        &'a self,
        run_id: &'a str,
        at: u64,
        events: &'a [RunEvent],
    ) -> BoxFuture<'a, Result<(), RunLogError>> {
        Box::pin(async move {
            let this = self.appends.fetch_add(1, Ordering::SeqCst);
            if self.fault == Some(Fault::Fails(this)) {
                let source = "the disk is full".into();
                return Err(RunLogError::Store { action: "append".into(), source });
            }
            if self.fault == Some(Fault::DiesBefore(this)) {
                std::future::pending::<()>().await;
            }
            let kinds: Vec<&str> = events.iter().map(RunEvent::kind).collect();
            let written = self.runs.append(run_id, at, events).await;
            if written.is_ok() {
                self.timeline.note(format!("append {}", kinds.join("+")));
            }
            if self.fault == Some(Fault::DiesAfter(this)) {
                std::future::pending::<()>().await;
            }
            written
        })
    }

    fn read<'a>(&'a self, run_id: &'a str, from: u64) -> BoxFuture<'a, Result<Vec<RunEvent>, RunLogError>> {
        Box::pin(async move {
            let read = self.runs.read(run_id, from).await;
            if let Some(barrier) = &self.barrier {
                barrier.wait().await;
            }
            read
        })
    }

    fn list<'a>(&'a self, filter: RunFilter) -> BoxFuture<'a, Result<Vec<RunSummary>, RunLogError>> {
        self.runs.list(filter)
    }

    fn remove<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Result<(), RunLogError>> {
        self.runs.remove(run_id)
    }
}
