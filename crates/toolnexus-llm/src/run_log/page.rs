//! One page of a list of runs.

use std::time::SystemTime;

use super::{RunFilter, RunLogError, RunSummary};

/// How long a page is when the filter does not say.
const DEFAULT_LIMIT: usize = 100;

/// The page that a filter wants of these runs (when each began, its id). Only runs that may be on
/// the page are summarised. A run that has no summary is left out.
pub(super) fn page(
    mut runs: Vec<(SystemTime, String)>,
    filter: &RunFilter,
    mut summary: impl FnMut(&str) -> Result<Option<RunSummary>, RunLogError>,
) -> Result<Vec<RunSummary>, RunLogError> {
    runs.sort_unstable_by(|left, right| right.cmp(left));
    let start = match &filter.after {
        None => 0,
        Some(after) => match runs.iter().position(|(_, run_id)| run_id == after) {
            Some(position) => position + 1,
            None => return Err(RunLogError::NotFound { run_id: after.clone() }),
        },
    };
    let limit = if filter.limit == 0 { DEFAULT_LIMIT } else { filter.limit };
    let mut page = Vec::new();
    for (_, run_id) in runs.iter().skip(start) {
        if page.len() == limit {
            break;
        }
        if let Some(summary) = readable(run_id, summary(run_id))?
            && filter.status.is_none_or(|status| status == summary.status)
        {
            page.push(summary);
        }
    }
    // A run may have been removed and begun again since its beginning was looked up.
    page.sort_by(|left, right| (right.started_at, &right.run_id).cmp(&(left.started_at, &left.run_id)));
    Ok(page)
}

/// One run that cannot be read must not hide the others.
fn readable(
    run_id: &str,
    summary: Result<Option<RunSummary>, RunLogError>,
) -> Result<Option<RunSummary>, RunLogError> {
    match summary {
        Err(error @ (RunLogError::Corrupt { .. } | RunLogError::Event(_))) => {
            tracing::warn!(run_id, %error, "a run is left out of the list");
            Ok(None)
        }
        other => other,
    }
}
