//! A provider's answer in OpenAI's shapes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolnexus_core::Style;

use super::text::{args_string, content_text, string, tool_calls_of};
use crate::Usage;

/// A tool call that the model asked for; nobody has run it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranslatedToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as JSON text; from a provider of OpenAI's style byte for byte.
    pub arguments: String,
}

/// What one call of a model gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TranslateResult {
    /// What the model said; empty for a turn of tool calls alone.
    pub text: String,
    /// The calls it asked for, in order.
    pub tool_calls: Vec<TranslatedToolCall>,
    /// How the turn ended, in OpenAI's words: see [`finish_reason_for`].
    pub finish_reason: String,
    /// Tokens, as far as they were reported.
    pub usage: Usage,
    /// The model that was asked.
    pub model: String,
    /// The provider's answer, untouched.
    pub raw: Value,
}

/// A finish reason in OpenAI's words: tool calls decide first, then what the provider said, of
/// either style; anything unknown is `stop`.
///
/// ```
/// use toolnexus_llm::translate::finish_reason_for;
/// assert_eq!(finish_reason_for(false, "max_tokens"), "length");
/// assert_eq!(finish_reason_for(true, "end_turn"), "tool_calls");
/// ```
pub fn finish_reason_for(has_calls: bool, provider_stop: &str) -> &'static str {
    match provider_stop {
        _ if has_calls => "tool_calls",
        "max_tokens" | "length" => "length",
        "refusal" | "content_filter" => "content_filter",
        _ => "stop",
    }
}

/// The calls as the `tool_calls` of an assistant message.
pub fn tool_calls_json(result: &TranslateResult) -> Vec<Value> {
    let entry = |call: &TranslatedToolCall| {
        let function = json!({"name": call.name, "arguments": call.arguments});
        json!({"id": call.id, "type": "function", "function": function})
    };
    result.tool_calls.iter().map(entry).collect()
}

/// Reads an answer that the style's wire has found readable.
pub(super) fn outbound(style: Style, raw: Value, usage: Usage, model: String) -> TranslateResult {
    let (text, tool_calls, stop) = match style {
        Style::Anthropic => anthropic(&raw),
        Style::OpenAI | Style::Gemini => openai(&raw),
    };
    let finish_reason = if style == Style::OpenAI && tool_calls.is_empty() && !stop.trim().is_empty() {
        stop
    } else {
        finish_reason_for(!tool_calls.is_empty(), &stop).to_owned()
    };
    TranslateResult { text, tool_calls, finish_reason, usage, model, raw }
}

fn openai(raw: &Value) -> (String, Vec<TranslatedToolCall>, String) {
    let choice = raw.pointer("/choices/0").unwrap_or(&Value::Null);
    let message = choice.get("message").unwrap_or(&Value::Null);
    let text = message.get("content").map(content_text).unwrap_or_default();
    (text, tool_calls_of(message), string(choice.get("finish_reason")).to_owned())
}

fn anthropic(raw: &Value) -> (String, Vec<TranslatedToolCall>, String) {
    let mut text = String::new();
    let mut calls = Vec::new();
    for block in raw.get("content").and_then(Value::as_array).into_iter().flatten() {
        match string(block.get("type")) {
            "text" => text.push_str(string(block.get("text"))),
            "tool_use" => calls.push(TranslatedToolCall {
                id: string(block.get("id")).to_owned(),
                name: string(block.get("name")).to_owned(),
                arguments: args_string(block.get("input").unwrap_or(&Value::Null)),
            }),
            _ => {}
        }
    }
    (text, calls, string(raw.get("stop_reason")).to_owned())
}
