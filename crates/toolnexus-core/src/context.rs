//! What a tool call is given beside its arguments.

use ::http::Extensions;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::Answer;

/// The surroundings of one tool call. Passed by value; `Default` is a call outside any run.
///
/// ```
/// use toolnexus_core::ToolContext;
/// let context = ToolContext { timeout_ms: Some(500), ..Default::default() };
/// assert!(!context.cancel.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct ToolContext {
    /// Fires when the run ends early; a tool should then return a failure promptly.
    pub cancel: CancellationToken,
    /// How long the call may take, in milliseconds. `None`: the tool's own default.
    pub timeout_ms: Option<u64>,
    /// Set only on the one execution that follows a resolved suspension.
    pub answer: Option<Answer>,
    /// The model's id for this call, which tells concurrent calls apart; empty outside a run.
    pub call_id: String,
    /// State of the host, opaque to the library: in a run, a copy of the run's `data`.
    pub data: Map<String, Value>,
    /// The same in every attempt of this call, for tools that can deduplicate. Set in durable runs.
    pub idempotency_key: Option<String>,
    /// Typed values that a host attaches, found by their type.
    pub extensions: Extensions,
}

impl std::fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call_id)
            .field("cancelled", &self.cancel.is_cancelled())
            .field("timeout_ms", &self.timeout_ms)
            .field("answered", &self.answer.is_some())
            .finish_non_exhaustive()
    }
}
