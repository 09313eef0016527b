//! A model's reply and its tool calls, for hosts with a loop of their own.

use serde::Serialize;

use crate::Registry;

/// What decoding did to the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentResolution {
    /// No handle was in them.
    Unchanged,
    /// All handles were replaced.
    Resolved,
    /// Some handles were replaced, others nobody issued.
    PartiallyResolved,
    /// There were handles that nobody issued, and no others.
    Unresolved,
}

/// A tool call as the model wrote it, and after decoding as it will be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelToolCall {
    /// The model's id for the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, JSON text.
    pub arguments: String,
    /// The text that the model emitted, once decoded.
    #[serde(skip)]
    pub model_arguments: Option<String>,
    /// What decoding did; `None`: not decoded yet.
    #[serde(skip)]
    pub argument_resolution: Option<ArgumentResolution>,
    /// The handles that nobody issued, each once, sorted. A call with any must not be executed.
    #[serde(skip)]
    pub unresolved_handles: Vec<String>,
}

impl ModelToolCall {
    /// A call that is not decoded yet.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        ModelToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), ..Default::default() }
    }

    /// Why the call must not be executed: the text that the model reads instead of a result. `None` for a
    /// call that may be.
    pub fn rejection(&self) -> Option<String> {
        let handles = self.unresolved_handles.join(", ");
        (!handles.is_empty()).then(|| {
            format!("unresolved model handles: {handles}. Use only handles shown in this conversation.")
        })
    }
}

/// A reply of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelReply {
    /// Its text.
    pub content: String,
    /// Its reasoning.
    pub reasoning: String,
    /// The provider's signature of the reasoning; dropped where decoding changes the reasoning.
    pub reasoning_signature: Option<String>,
    /// The calls it asks for.
    pub tool_calls: Vec<ModelToolCall>,
}

impl Registry {
    /// Decodes a whole reply: content and reasoning each for itself, then the calls.
    pub fn decode_response(&self, reply: &mut ModelReply) {
        reply.content = self.decode_output_text(&reply.content);
        let reasoning = self.decode_output_text(&reply.reasoning);
        if reasoning != reply.reasoning {
            // The provider would refuse it for another text.
            reply.reasoning_signature = None;
            reply.reasoning = reasoning;
        }
        self.decode_tool_calls(&mut reply.tool_calls);
    }
}
