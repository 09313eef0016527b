//! What a model in this process is asked.

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// One model call, in the shapes of OpenAI's chat completions.
#[derive(Debug, Clone, Default)]
pub struct InProcessRequest {
    /// The conversation: objects with a `role` of `system`, `user`, `assistant` or `tool`.
    pub messages: Vec<Value>,
    /// The tools that may be called; `None` when there are none.
    pub tools: Option<Vec<Value>>,
    /// The model's name.
    pub model: String,
    /// The whole body after `request_params` and `body_transform`, the three above among it.
    pub body: Map<String, Value>,
    /// Fires when the run was cancelled, dropped, or took too long.
    pub cancel: CancellationToken,
}

impl InProcessRequest {
    /// Reads a request body; `None` if it is no JSON object.
    pub(super) fn read(body: &[u8], cancel: CancellationToken) -> Option<Self> {
        let body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let list = |key: &str| body.get(key)?.as_array().cloned();
        Some(InProcessRequest {
            messages: list("messages").unwrap_or_default(),
            tools: list("tools"),
            model: body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned(),
            body,
            cancel,
        })
    }

    /// Whether the answer is to come piece by piece.
    pub(super) fn is_streamed(&self) -> bool {
        self.body.get("stream") == Some(&Value::Bool(true))
    }

    /// The text of the newest `user` message, if there is one.
    pub fn newest_user_text(&self) -> Option<String> {
        self.messages.iter().rev().find(|message| role(message) == "user").map(text_of)
    }
}

pub(crate) fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

/// The text of a message: its content, or the text parts of it, one per line.
pub(crate) fn text_of(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
