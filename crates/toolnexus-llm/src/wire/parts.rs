//! Content parts of a transcript on their way to a provider.
//!
//! The transcript keeps parts as they are; each request writes them in the provider's blocks, on
//! a copy. The one encoder is [`PartEncoder`]; here is where the parts of a message are found and
//! who put them there: the `parts` of a tool's entry are the tool's, everything else the caller's.

use std::borrow::Cow;

use serde_json::{Map, Value};
use toolnexus_core::Style;
use toolnexus_core::content::{ContentPartError, PartEncoder, PartView, Provenance, UnsupportedPart};

use crate::{ClientOptions, Message};

/// What the client's options say about parts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartRules {
    pub(crate) max_part_bytes: Option<u64>,
    pub(crate) on_unsupported_part: Option<UnsupportedPart>,
}

impl PartRules {
    pub(crate) fn of(options: &ClientOptions) -> Self {
        PartRules {
            max_part_bytes: Some(options.max_part_bytes).filter(|limit| *limit > 0),
            on_unsupported_part: options.on_unsupported_part,
        }
    }

    pub(crate) fn encoder(self, style: Style) -> PartEncoder {
        PartEncoder::new(style)
            .with_max_part_bytes(self.max_part_bytes)
            .with_on_unsupported_part(self.on_unsupported_part)
    }
}

/// The parts that a tool's entry in the transcript carries, each as a part if it is one.
pub(super) fn entries_of(entry: &Value) -> impl Iterator<Item = (&Value, Option<PartView<'_>>)> {
    let entries = entry.get("parts").and_then(Value::as_array).into_iter().flatten();
    entries.map(|entry| (entry, PartView::read(entry)))
}

/// An entry of a tool's `parts` as it is sent. What is no part is a provider's own block.
pub(super) fn derived_block(
    (entry, part): (&Value, Option<PartView<'_>>),
    encoder: &mut PartEncoder,
) -> Result<Value, ContentPartError> {
    match part {
        Some(part) => encoder.block(part, Provenance::Derived),
        None => Ok(entry.clone()),
    }
}

/// An entry of a content list as it is sent. A text part is a block already, perhaps with keys of
/// the provider's, which stay; so do all other blocks of the provider's own.
pub(super) fn attached_block(entry: &Value, encoder: &mut PartEncoder) -> Result<Value, ContentPartError> {
    match PartView::read(entry).filter(|part| part.text().is_none()) {
        Some(part) => encoder.block(part, Provenance::Attached),
        None => Ok(entry.clone()),
    }
}

/// A message whose content list is encoded; the message itself if there is nothing to encode.
pub(super) fn encoded<'a>(
    message: &'a Message,
    encoder: &mut PartEncoder,
) -> Result<Cow<'a, Message>, ContentPartError> {
    let Some(content) = message.get("content").and_then(Value::as_array) else {
        return Ok(Cow::Borrowed(message));
    };
    let blocks: Result<Vec<Value>, _> = content.iter().map(|entry| attached_block(entry, encoder)).collect();
    Ok(Cow::Owned(with_content(message, Value::Array(blocks?))))
}

/// A copy of the message with other content.
pub(super) fn with_content(message: &Message, content: Value) -> Message {
    Message::from(replaced(message.value(), content, |_| true))
}

/// A tool's entry as it is sent: with this content, and without the two keys that it has only when
/// it carries parts.
pub(super) fn as_sent(entry: &Value, content: Value) -> Value {
    let carries_parts = entry.get("parts").is_some();
    replaced(entry, content, |key| !carries_parts || (key != "parts" && key != "name"))
}

/// A copy of an object with another `content`. What is replaced or left out is not copied first: it
/// may be large.
fn replaced(object: &Value, content: Value, kept: impl Fn(&str) -> bool) -> Value {
    let keys = object.as_object().into_iter().flatten().filter(|(key, _)| kept(key));
    let mut map: Map<String, Value> = keys
        .map(|(key, value)| (key.clone(), if key == "content" { Value::Null } else { value.clone() }))
        .collect();
    map.insert("content".into(), content);
    Value::Object(map)
}
