//! Contents of a transcript: the calls in them, and their parts as they are sent.

use std::borrow::Cow;

use serde_json::{Map, Value};
use toolnexus_core::content::{ContentPartError, PartEncoder, PartView, Provenance};

use crate::Message;
use crate::wire::body::Field;
use crate::wire::parts::{derived_block, entries_of};

/// A call as the transcript holds it.
pub(in crate::wire) struct StoredCall {
    /// `None` where the model gave none.
    pub(in crate::wire) id: Option<String>,
    pub(in crate::wire) name: String,
}

/// The calls that a content asks for, in order.
pub(in crate::wire) fn calls_of(message: &Message) -> Vec<StoredCall> {
    let calls =
        parts_of(message).iter().filter_map(|part| part.get("functionCall")).filter(|call| !call.is_null());
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    calls
        .map(|call| StoredCall {
            id: Some(text(call, "id")).filter(|id| !id.is_empty()),
            name: text(call, "name"),
        })
        .collect()
}

/// Whether a part holds the result of a call.
pub(in crate::wire) fn is_function_response(part: &Value) -> bool {
    part.get("functionResponse").is_some()
}

fn parts_of(message: &Message) -> &[Value] {
    message.get("parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The messages with every content part in its block. Those without any are sent as they are.
pub(super) fn with_blocks<'a>(
    messages: Field<'a>,
    encoder: &mut PartEncoder,
) -> Result<Field<'a>, ContentPartError> {
    let messages: Vec<Cow<'a, Message>> = match messages {
        Field::Transcript(all) if all.messages().any(holds_parts) => all.iter().map(Cow::Borrowed).collect(),
        Field::Messages(some) => some,
        untouched => return Ok(untouched),
    };
    let encode = |message: Cow<'a, Message>| {
        if holds_parts(&message) { encoded(&message, encoder).map(Cow::Owned) } else { Ok(message) }
    };
    messages.into_iter().map(encode).collect::<Result<_, _>>().map(Field::Messages)
}

/// Whether content parts are in it. Every content has the key `parts`, so the look at the bytes is
/// not enough for one that comes from a store.
fn holds_parts(message: &Message) -> bool {
    let carries = |entry: &Value| PartView::read(entry).is_some() || carries_parts(entry);
    message.may_hold_parts() && parts_of(message).iter().any(carries)
}

/// Whether it is a tool's result with content parts beside it.
fn carries_parts(entry: &Value) -> bool {
    is_function_response(entry) && entry.get("parts").is_some()
}

fn encoded(message: &Message, encoder: &mut PartEncoder) -> Result<Message, ContentPartError> {
    let mut sent = Vec::new();
    // The parts of results follow behind the last of the results.
    let mut behind = Vec::new();
    let mut after_results = 0;
    for entry in parts_of(message) {
        if !is_function_response(entry) {
            sent.push(attached(entry, encoder)?);
            continue;
        }
        if carries_parts(entry) {
            sent.push(without(entry, &["name", "parts"]));
            behind.push(encoder.text(&heading(entry)));
            for part in entries_of(entry) {
                behind.push(derived_block(part, encoder)?);
            }
        } else {
            sent.push(entry.clone());
        }
        after_results = sent.len();
    }
    sent.splice(after_results..after_results, behind);
    let keys = message.as_object().into_iter().flatten().filter(|(key, _)| *key != "parts");
    let mut map: Map<String, Value> = keys.map(|(key, value)| (key.clone(), value.clone())).collect();
    map.insert("parts".into(), sent.into());
    Ok(Message::from(Value::Object(map)))
}

/// What stands before the parts of a result.
fn heading(entry: &Value) -> String {
    let response = entry.get("functionResponse");
    let text = |key: &str| response.and_then(|response| response.get(key)?.as_str()).unwrap_or_default();
    match (text("name"), text("id")) {
        (name, "") => format!("Output of tool {name}:"),
        (name, id) => format!("Output of tool {name} ({id}):"),
    }
}

/// An entry of a prompt as it is sent. What is no part is a block already.
fn attached(entry: &Value, encoder: &mut PartEncoder) -> Result<Value, ContentPartError> {
    match PartView::read(entry) {
        // Perhaps with keys of the provider's, which stay.
        Some(part) if part.text().is_some() => Ok(without(entry, &["type"])),
        Some(part) => encoder.block(part, Provenance::Attached),
        None => Ok(entry.clone()),
    }
}

fn without(object: &Value, keys: &[&str]) -> Value {
    let kept = object.as_object().into_iter().flatten().filter(|(key, _)| !keys.contains(&key.as_str()));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}
