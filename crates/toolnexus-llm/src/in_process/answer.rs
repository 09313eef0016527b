//! What a model in this process answers, and the chat completion that it becomes.

use serde_json::{Map, Value, json};

use crate::Usage;

/// A model's whole answer.
///
/// ```
/// use serde_json::json;
/// use toolnexus_llm::{InProcessResponse, InProcessToolCall};
/// let says: InProcessResponse = "Sunny.".into();
/// let asks = InProcessResponse {
///     tool_calls: vec![InProcessToolCall::new("weather", json!({"city": "Oslo"}))],
///     ..Default::default()
/// };
/// # drop((says, asks));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InProcessResponse {
    /// The text; `None` is the same as an empty one. Dropped when there are tool calls.
    pub content: Option<String>,
    /// The tools to run before the model is asked again.
    pub tool_calls: Vec<InProcessToolCall>,
    /// The tokens it took, if known. A total of 0 means the sum of prompt and completion; cache
    /// writes are not told, as in all of OpenAI's shapes.
    pub usage: Option<Usage>,
}

impl InProcessResponse {
    /// An answer that is text.
    pub fn text(text: impl Into<String>) -> Self {
        InProcessResponse { content: Some(text.into()), ..Default::default() }
    }

    /// The answer as a chat completion.
    pub(super) fn into_completion(self) -> Value {
        let (message, reason) = if self.tool_calls.is_empty() {
            (json!({"role": "assistant", "content": self.content.unwrap_or_default()}), "stop")
        } else {
            let calls: Vec<Value> = (0..)
                .zip(self.tool_calls)
                .map(|(index, call)| Value::Object(call.into_entry(index)))
                .collect();
            (json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
        };
        json!({
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": usage_json(self.usage),
        })
    }
}

impl From<&str> for InProcessResponse {
    fn from(text: &str) -> Self {
        InProcessResponse::text(text)
    }
}

impl From<String> for InProcessResponse {
    fn from(text: String) -> Self {
        InProcessResponse::text(text)
    }
}

/// A tool that a model asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InProcessToolCall {
    /// What the result will refer to. `None`: `call_<index>`, by its place in the answer.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// Its arguments: an object, or the text of one as a model wrote it. `null` is `{}`.
    pub arguments: Value,
}

impl InProcessToolCall {
    /// A call that leaves its id to the client.
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        InProcessToolCall { id: None, name: name.into(), arguments }
    }

    /// The call as an entry of `tool_calls`.
    pub(super) fn into_entry(self, index: usize) -> Map<String, Value> {
        let arguments = match self.arguments {
            Value::String(written) => written,
            Value::Null => "{}".into(),
            object => object.to_string(),
        };
        let id = self.id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{index}"));
        let mut entry = Map::new();
        entry.insert("id".into(), id.into());
        entry.insert("type".into(), "function".into());
        entry.insert("function".into(), json!({"name": self.name, "arguments": arguments}));
        entry
    }
}

/// Usage as a chat completion spells it.
pub(super) fn usage_json(usage: Option<Usage>) -> Value {
    let usage = usage.unwrap_or_default().with_total();
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
    })
}
