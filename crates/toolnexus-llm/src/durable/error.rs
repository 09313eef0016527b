//! Why a durable run was not begun, or ended without a result.

use toolnexus_core::Style;

use crate::ClientError;

/// Why a durable run cannot be begun, resumed or forked as asked. Nothing was written or called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurableError {
    /// The log has a run of this id already.
    #[error("the run \"{run_id}\" exists already: resume it, or take another id")]
    Exists {
        /// The id.
        run_id: String,
    },
    /// The answer belongs to none of the open requests: it was given before, or is another run's.
    #[error("the run has no open request \"{id}\"; open are: {}", list(open))]
    UnknownRequest {
        /// The id that the answer names.
        id: String,
        /// The ids of the open requests.
        open: Vec<String>,
    },
    /// The run was begun in another dialect.
    #[error(
        "the run was begun in style \"{log}\" and this client speaks \"{client}\": resume it with a client of the first"
    )]
    StyleMismatch {
        /// The style of the run.
        log: Style,
        /// The style of the client.
        client: Style,
    },
    /// A run cannot be forked in the midst of a step: where tools run, or between what a hook replaced
    /// for a model call and the model's answer.
    #[error("the run cannot be forked at event {at}, in the midst of a step: the nearest place is {nearest}")]
    NotABoundary {
        /// The place that was asked for.
        at: u64,
        /// The nearest place where it can be forked.
        nearest: u64,
    },
}

fn list(ids: &[String]) -> String {
    if ids.is_empty() { "none".into() } else { ids.join(", ") }
}

/// Why a durable run ended without a result, and which run it was: it can be resumed.
#[derive(Debug, thiserror::Error)]
#[error("run {run_id}: {error}")]
pub struct DurableRunError {
    /// The run in its log.
    pub run_id: String,
    /// What went wrong.
    #[source]
    pub error: ClientError,
}

impl From<DurableRunError> for ClientError {
    fn from(failed: DurableRunError) -> Self {
        failed.error
    }
}
