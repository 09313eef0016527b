//! Reading single values of OpenAI's shapes. Nothing here fails: what cannot be read is empty.

use serde_json::{Map, Value};

use super::TranslatedToolCall;

/// The text of a message's content: a string as it is, the concatenated `text` fields of an
/// array, else nothing.
///
/// ```
/// use serde_json::json;
/// use toolnexus_llm::translate::content_text;
/// assert_eq!(content_text(&json!([{"type": "text", "text": "29"}, {"type": "text", "text": "C"}])), "29C");
/// ```
pub fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(entries) => {
            entries.iter().filter_map(|entry| entry.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

/// Whether one of the messages is a `system` or `developer` message.
pub fn has_system_message(messages: &[Value]) -> bool {
    messages.iter().any(|message| is_system(role(message)))
}

/// The tool calls of an assistant message, in order. Entries without an object `function` are
/// skipped.
pub fn tool_calls_of(message: &Value) -> Vec<TranslatedToolCall> {
    entries(message)
        .map(|(id, function)| TranslatedToolCall {
            id: id.to_owned(),
            name: string(function.get("name")).to_owned(),
            arguments: args_string(function.get("arguments").unwrap_or(&Value::Null)),
        })
        .collect()
}

/// A call's arguments as text: a string byte for byte, an object as compact JSON, else `{}`.
pub fn args_string(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        Value::Object(_) => arguments.to_string(),
        _ => "{}".into(),
    }
}

/// A call's arguments as an object: an object as it is, or the object that a string holds. Blank,
/// malformed or other text gives an empty one.
pub fn args_object(arguments: &Value) -> Map<String, Value> {
    match arguments {
        Value::Object(map) => map.clone(),
        Value::String(text) => serde_json::from_str(text.trim()).unwrap_or_default(),
        _ => Map::new(),
    }
}

/// The id and the `function` object of each call.
pub(super) fn entries(message: &Value) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    calls.filter_map(|call| Some((string(call.get("id")), call.get("function")?.as_object()?)))
}

pub(super) fn role(message: &Value) -> &str {
    string(message.get("role"))
}

pub(super) fn is_system(role: &str) -> bool {
    matches!(role, "system" | "developer")
}

pub(super) fn string(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}
