//! What an observer is told: it reads, and keeps no mapping of its own.

use serde_json::Value;
use toolnexus_llm::Transcript;

use crate::ArgumentResolution;

/// Watches what crosses the boundary. Called within the run, so it should be quick.
pub trait ContextObserver: Send + Sync {
    /// A tool call was decoded.
    fn call_decoded(&self, call: &CallAudit) {
        let _ = call;
    }

    /// A request is about to go out: exactly what the model is shown.
    fn request_encoded(&self, payload: &ModelPayload<'_>) {
        let _ = payload;
    }

    /// The model answered: exactly what it wrote, as the message of its style.
    fn answer_received(&self, message: &Value) {
        let _ = message;
    }
}

/// A decoded tool call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CallAudit {
    /// The model's id for the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them; `None` for a sensitive tool.
    pub model_arguments: Option<String>,
    /// The arguments as they will be used; `None` for a sensitive tool.
    pub resolved_arguments: Option<String>,
    /// The top-level keys of the arguments, as they stand.
    pub argument_keys: Vec<String>,
    /// What decoding did.
    pub argument_resolution: ArgumentResolution,
    /// The handles that nobody issued; for a sensitive tool none are named.
    pub unresolved_handles: Vec<String>,
    /// How many there are.
    pub unresolved: usize,
}

/// What goes to the model.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ModelPayload<'p> {
    /// The system text, for a style that sends it apart; else empty.
    pub system: &'p str,
    /// The messages.
    pub messages: &'p Transcript,
}
