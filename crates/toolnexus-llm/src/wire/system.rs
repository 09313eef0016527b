//! System messages of a transcript, for dialects that keep the system text outside of it.

use std::borrow::Cow;

use serde_json::Value;

use super::body::Field;
use crate::{Message, Transcript};

/// System messages leave the transcript and join the system text. If nothing else is left, the last
/// of them is sent as the `user` message of its text: a request without messages is refused.
pub(super) fn hoist_system<'a>(
    system: &str,
    messages: &'a Transcript,
    user: impl FnOnce(&str) -> Message,
) -> (String, Field<'a>) {
    if !messages.may_hold_system() {
        return (system.to_owned(), Field::Transcript(messages));
    }
    let (hoisted, sent): (Vec<&Message>, Vec<&Message>) =
        messages.iter().partition(|message| message.may_be_system());
    let (hoisted, sent) = if let (true, Some((last, before))) = (sent.is_empty(), hoisted.split_last()) {
        (before.to_vec(), vec![Cow::Owned(user(&text_of(last)))])
    } else {
        (hoisted, sent.into_iter().map(Cow::Borrowed).collect())
    };
    let texts: Vec<String> = std::iter::once(system.to_owned())
        .chain(hoisted.into_iter().map(text_of))
        .filter(|text| !text.is_empty())
        .collect();
    (texts.join("\n\n"), Field::Messages(sent))
}

/// The text of a message: its content, or Gemini's parts.
fn text_of(message: &Message) -> String {
    match message.get("content").or_else(|| message.get("parts")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}
