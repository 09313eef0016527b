//! The events of a run on their way into its log.
//!
//! The driver notes every event it applies and writes what is unsaved before anything that must not
//! happen unrecorded: a tool's start, a question to somebody outside, the result. So events that become
//! due together are one append.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::run::RunEvent;
use crate::run_log::{RunLog, RunLogError};

/// How long a log may take to write why a run failed: the caller, who may have cancelled it, waits.
const LAST_WRITE: Duration = Duration::from_secs(5);

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
    /// Whether the run has its `finished` event, behind which nothing may stand.
    over: bool,
}

impl Recorder {
    /// A recorder for a run that has `len` events in the log.
    pub(crate) fn new(log: Arc<dyn RunLog>, run_id: String, len: u64) -> Self {
        Recorder { log, run_id, state: Mutex::new(State { len, ..Default::default() }) }
    }

    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, event: RunEvent) {
        let mut state = self.state();
        state.over |= matches!(event, RunEvent::Finished { .. });
        state.unsaved.push(event);
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
        let written = tokio::time::timeout(LAST_WRITE, self.write_failure(error)).await;
        if let Err(error) = written.unwrap_or_else(|_| Err(too_slow())) {
            tracing::debug!(run_id = self.run_id, %error, "why a run failed is not in its log");
        }
    }

    async fn write_failure(&self, error: String) -> Result<(), RunLogError> {
        let (len, unsaved, over) = {
            let state = self.state();
            (state.len, state.unsaved.clone(), state.over)
        };
        let failed = [RunEvent::Failed { error }];
        let mut events = good(&unsaved).to_vec();
        if !over {
            events.extend_from_slice(&failed);
        }
        if events.is_empty() {
            return Ok(());
        }
        match self.log.append(&self.run_id, len, &events).await {
            // The write that was under way when the run was dropped had been made.
            Err(RunLogError::Conflict { len: now, .. })
                if !over && self.has_written(len, &unsaved).await? =>
            {
                self.log.append(&self.run_id, now, &failed).await
            }
            written => written,
        }
    }

    /// Whether the events from `len` on are these, and this driver's. Every driver that takes a run up
    /// begins with `resumed`: two of them may well write the same, and one must not disturb the other.
    async fn has_written(&self, len: u64, events: &[RunEvent]) -> Result<bool, RunLogError> {
        if events.is_empty() || matches!(events, [RunEvent::Resumed { .. }, ..]) {
            return Ok(false);
        }
        Ok(self.log.read(&self.run_id, len).await? == events)
    }
}

/// Those of the unwritten events that a failed run is left with.
fn good(unsaved: &[RunEvent]) -> &[RunEvent] {
    // What was begun on the strength of events that were never written was not begun.
    let begun = |event: &RunEvent| matches!(event, RunEvent::ToolStarted { .. } | RunEvent::Answered { .. });
    let end = unsaved.iter().position(begun).unwrap_or(unsaved.len());
    let mut good = unsaved.get(..end).unwrap_or_default();
    // What a hook replaced for a model call that gave no answer is replaced anew before the next.
    while let [rest @ .., RunEvent::MessagesReplaced { .. } | RunEvent::ToolsReplaced { .. }] = good {
        good = rest;
    }
    good
}

fn too_slow() -> RunLogError {
    RunLogError::Store { action: "append".into(), source: "the log gave no answer in time".into() }
}
