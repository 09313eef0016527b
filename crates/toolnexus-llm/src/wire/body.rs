//! A request body, put together from bytes that already exist.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

use crate::Message;

/// The JSON of one top-level key.
pub(crate) enum Field<'a> {
    /// JSON text.
    Json(Bytes),
    /// JSON text that lives as long as the program.
    Static(&'static str),
    /// An array of messages, some of them written for this request alone.
    Messages(Vec<Cow<'a, Message>>),
    /// The whole transcript.
    Transcript(&'a [Message]),
}

/// The top-level keys of a request, in order.
#[derive(Default)]
pub(crate) struct RequestBody<'a> {
    fields: Vec<(&'static str, Field<'a>)>,
}

impl<'a> RequestBody<'a> {
    pub(crate) fn with(mut self, key: &'static str, field: Field<'a>) -> Self {
        self.fields.push((key, field));
        self
    }

    pub(crate) fn string(self, key: &'static str, text: &str) -> Self {
        self.with(key, Field::Json(Value::from(text).to_string().into()))
    }

    /// The body's text: one allocation, then copies of what is there.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let size = self.fields.iter().map(|(key, field)| key.len() + 4 + field.len()).sum::<usize>() + 2;
        let mut out = Vec::with_capacity(size);
        out.push(b'{');
        for (at, (key, field)) in self.fields.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            // Keys are ours: plain ASCII words.
            out.push(b'"');
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":");
            field.write(&mut out);
        }
        out.push(b'}');
        out.into()
    }
}

impl Field<'_> {
    fn len(&self) -> usize {
        match self {
            Field::Json(json) => json.len(),
            Field::Static(json) => json.len(),
            Field::Messages(messages) => messages.iter().map(|m| m.json().len() + 1).sum::<usize>() + 2,
            Field::Transcript(messages) => messages.iter().map(|m| m.json().len() + 1).sum::<usize>() + 2,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Field::Json(json) => out.extend_from_slice(json),
            Field::Static(json) => out.extend_from_slice(json.as_bytes()),
            Field::Messages(messages) => write_array(messages.iter().map(Cow::as_ref), out),
            Field::Transcript(messages) => write_array(messages.iter(), out),
        }
    }
}

fn write_array<'a>(messages: impl Iterator<Item = &'a Message>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, message) in messages.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(message.json());
    }
    out.push(b']');
}
