//! A copy of a run's beginning, as a run of its own.

use super::DurableError;
use crate::ClientError;
use crate::run::{Run, RunEvent};
use crate::run_log::{RunLog, RunLogError, check_run_id};

pub(super) async fn fork(log: &dyn RunLog, run_id: &str, at: u64, new_id: &str) -> Result<(), ClientError> {
    check_run_id(run_id)?;
    check_run_id(new_id)?;
    let events = log.read(run_id, 0).await?;
    let nearest = nearest_boundary(&events, at)?;
    if nearest != at {
        return Err(DurableError::NotABoundary { at, nearest }.into());
    }
    let mut copied: Vec<RunEvent> =
        events.into_iter().take(usize::try_from(at).unwrap_or(usize::MAX)).collect();
    if let Some(RunEvent::Started(started)) = copied.first_mut() {
        started.run_id = new_id.to_owned();
    }
    log.append(new_id, 0, &copied).await.map_err(|error| exists(error, new_id))
}

/// A log that has events where a run was to begin has that run.
pub(crate) fn exists(error: RunLogError, run_id: &str) -> ClientError {
    match error {
        RunLogError::Conflict { .. } => DurableError::Exists { run_id: run_id.to_owned() }.into(),
        other => other.into(),
    }
}

/// The number of events nearest to `at` after which no step is under way.
fn nearest_boundary(events: &[RunEvent], at: u64) -> Result<u64, ClientError> {
    let mut run = Run::replay(events.iter().take(1))?;
    let mut nearest = 1;
    let mut len = 1;
    for event in events.iter().skip(1) {
        run.apply(event)?;
        len += 1;
        let asks_model = matches!(event, RunEvent::MessagesReplaced { .. } | RunEvent::ToolsReplaced { .. });
        if !asks_model && !run.has_running_calls() && at.abs_diff(len) < at.abs_diff(nearest) {
            nearest = len;
        }
    }
    Ok(nearest)
}
