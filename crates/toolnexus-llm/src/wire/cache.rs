//! Marks that ask a provider to cache the beginning of a request, put into its body.
//!
//! Everything here works on the body of one request: transcripts never see a mark.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use toolnexus_core::Style;

use super::body::{Field, RequestBody};
use crate::{Message, PromptCacheOptions};

const MARK: &str = "cache_control";

/// Marks a body in the way of its style.
pub(crate) fn mark<'a>(body: RequestBody<'a>, style: Style, options: &PromptCacheOptions) -> RequestBody<'a> {
    match style {
        Style::OpenAI => match options.key.as_deref().filter(|key| !key.is_empty()) {
            Some(key) => body.string("prompt_cache_key", key),
            None => body,
        },
        Style::Anthropic => {
            let mark = if options.long_ttl {
                json!({"type": "ephemeral", "ttl": "1h"})
            } else {
                json!({"type": "ephemeral"})
            };
            mark_anthropic(body, &mark)
        }
        Style::Gemini => body,
    }
}

fn mark_anthropic<'a>(mut body: RequestBody<'a>, mark: &Value) -> RequestBody<'a> {
    body.change("tools", |tools| marked_tools(tools, mark));
    body.change("system", |system| marked_system(system, mark));
    body.change("messages", |messages| marked_messages(messages, mark));
    body
}

/// The mark goes into the last tool; the text before it is shared as it is.
fn marked_tools<'a>(tools: Field<'a>, mark: &Value) -> Field<'a> {
    let Field::Json(json) = &tools else { return tools };
    // The array is ours, or a hook's that we wrote: compact. A tool with a mark of its own, or an odd
    // one, goes the slow way.
    let has_marks = memchr::memmem::find(json, MARK.as_bytes()).is_some();
    if !has_marks && json.ends_with(b"}]") && !json.ends_with(b"{}]") {
        let head = json.slice(..json.len() - 2);
        return Field::Pieces(vec![head, format!(",\"{MARK}\":{mark}").into(), Bytes::from_static(b"}]")]);
    }
    let Ok(mut list) = serde_json::from_slice::<Vec<Value>>(json) else { return tools };
    if let Some(last) = list.last_mut().and_then(Value::as_object_mut) {
        last.insert(MARK.into(), mark.clone());
    }
    Field::Json(Value::Array(list).to_string().into())
}

fn marked_system<'a>(system: Field<'a>, mark: &Value) -> Field<'a> {
    let Field::Json(text) = system else { return system };
    let end = format!(",\"{MARK}\":{mark}}}]");
    Field::Pieces(vec![Bytes::from_static(b"[{\"type\":\"text\",\"text\":"), text, end.into()])
}

/// The mark goes into the last block of the latest message that can bear one.
fn marked_messages<'a>(messages: Field<'a>, mark: &Value) -> Field<'a> {
    let mut messages: Vec<Cow<'a, Message>> = match messages {
        Field::Transcript(all) => all.messages().map(Cow::Borrowed).collect(),
        Field::Messages(some) => some,
        Field::Json(json) => match serde_json::from_slice::<Vec<Value>>(&json) {
            Ok(list) => list.into_iter().map(|message| Cow::Owned(Message::from(message))).collect(),
            Err(_) => return Field::Json(json),
        },
        other => return other,
    };
    if let Some(last) = messages.last_mut()
        && let Some(marked) = marked_message(last, mark)
    {
        *last = Cow::Owned(marked);
    }
    Field::Messages(messages)
}

fn marked_message(message: &Message, mark: &Value) -> Option<Message> {
    let mut marked: Map<String, Value> = message.as_object()?.clone();
    let content = marked.get_mut("content")?;
    match content {
        Value::String(text) if !text.is_empty() => {
            *content = json!([{"type": "text", "text": text, MARK: mark}]);
        }
        Value::Array(blocks) => {
            let block =
                blocks.iter_mut().rev().filter_map(Value::as_object_mut).find(|block| bears_marks(block))?;
            block.insert(MARK.into(), mark.clone());
        }
        _ => return None,
    }
    Some(Message::from(Value::Object(marked)))
}

fn bears_marks(block: &Map<String, Value>) -> bool {
    match block.get("type").and_then(Value::as_str) {
        Some("thinking" | "redacted_thinking") => false,
        Some("text") => block.get("text").and_then(Value::as_str).is_some_and(|text| !text.is_empty()),
        _ => true,
    }
}
