//! The events of a run on their way into its log.
//!
//! The driver notes every event it applies and writes what is unsaved before anything that must not
//! happen unrecorded: a tool's start, a question to somebody outside, the result. So events that become
//! due together are one append.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::run::RunEvent;
use crate::run_log::{RunLog, RunLogError};

/// Writes the events of one run.
pub(crate) struct Recorder {
    log: Arc<dyn RunLog>,
    run_id: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many events the log has of this run.
    len: u64,
    /// What happened since. Kept until the log has it: whoever drops a run in the midst of a write
    /// does not know whether it was made.
    unsaved: Vec<RunEvent>,
}

impl Recorder {
    /// A recorder for a run that has `len` events in the log.
    pub(crate) fn new(log: Arc<dyn RunLog>, run_id: String, len: u64) -> Self {
        Recorder { log, run_id, state: Mutex::new(State { len, unsaved: Vec::new() }) }
    }

    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, event: RunEvent) {
        self.state().unsaved.push(event);
    }

    /// Writes what is unsaved.
    pub(crate) async fn save(&self) -> Result<(), RunLogError> {
        let (len, events) = {
            let state = self.state();
            if state.unsaved.is_empty() {
                return Ok(());
            }
            (state.len, state.unsaved.clone())
        };
        self.log.append(&self.run_id, len, &events).await?;
        let mut state = self.state();
        state.len += events.len() as u64;
        state.unsaved.drain(..events.len());
        Ok(())
    }

    /// Writes, when it can, what the run came to before it failed, and why it did.
    pub(crate) async fn save_failure(&self, error: String) {
        let failed = RunEvent::Failed { error };
        let (len, mut events) = {
            let state = self.state();
            (state.len, state.unsaved.clone())
        };
        // What was begun on the strength of events that were never written was not begun.
        let begun =
            |event: &RunEvent| matches!(event, RunEvent::ToolStarted { .. } | RunEvent::Answered { .. });
        let unsaved = events.len() as u64;
        events.truncate(events.iter().position(begun).unwrap_or(events.len()));
        events.push(failed.clone());
        match self.log.append(&self.run_id, len, &events).await {
            // The write that was under way when the run was dropped had been made.
            Err(RunLogError::Conflict { len: now, .. }) if now == len + unsaved => {
                drop(self.log.append(&self.run_id, now, &[failed]).await);
            }
            Ok(()) | Err(_) => {}
        }
    }
}
