//! A request body, put together from bytes that already exist.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;
use toolnexus_core::http::Body;

use crate::{Message, Transcript};

/// From this size on a piece is shared; a smaller one is cheaper to copy.
const SHARED_FROM: usize = 4096;

/// The JSON of one top-level key.
pub(crate) enum Field<'a> {
    /// JSON text.
    Json(Bytes),
    /// JSON text that lives as long as the program.
    Static(&'static str),
    /// An array of messages, some of them written for this request alone.
    Messages(Vec<Cow<'a, Message>>),
    /// The whole transcript.
    Transcript(&'a Transcript),
    /// Pieces of JSON text that make one value.
    Pieces(Vec<Bytes>),
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

    /// Changes the value of a key, if there is one.
    pub(super) fn change(&mut self, key: &str, change: impl FnOnce(Field<'a>) -> Field<'a>) {
        if let Some((_, field)) = self.fields.iter_mut().find(|(name, _)| *name == key) {
            *field = change(std::mem::replace(field, Field::Static("null")));
        }
    }

    /// The body: long pieces are shared, the rest is copied between them.
    pub(crate) fn to_body(&self) -> Body {
        let mut out = Pieces::default();
        let mut separator = "{\"";
        for (key, field) in &self.fields {
            // Keys are ours: plain ASCII words.
            out.copy(separator.as_bytes());
            out.copy(key.as_bytes());
            out.copy(b"\":");
            field.write(&mut out);
            separator = ",\"";
        }
        out.copy(if self.fields.is_empty() { b"{}" } else { b"}" });
        out.finish()
    }
}

impl Field<'_> {
    fn write(&self, out: &mut Pieces) {
        match self {
            Field::Json(json) => out.share(json),
            Field::Static(json) => out.copy(json.as_bytes()),
            Field::Pieces(pieces) => pieces.iter().for_each(|piece| out.share(piece)),
            Field::Messages(messages) => {
                let mut list = List::begin(out);
                messages.iter().for_each(|message| list.entry(message.json()));
                list.end();
            }
            Field::Transcript(messages) => {
                let list = std::cell::RefCell::new(List::begin(out));
                messages.each_json(
                    |chunk| list.borrow_mut().entry(chunk),
                    |message| list.borrow_mut().entry(message.json()),
                );
                list.into_inner().end();
            }
        }
    }
}

/// A JSON array in the making.
struct List<'o> {
    out: &'o mut Pieces,
    separator: &'static [u8],
}

impl<'o> List<'o> {
    fn begin(out: &'o mut Pieces) -> Self {
        List { out, separator: b"[" }
    }

    fn entry(&mut self, json: &Bytes) {
        self.out.copy(self.separator);
        self.out.share(json);
        self.separator = b",";
    }

    fn end(self) {
        self.out.copy(if self.separator == b"[" { b"[]" } else { b"]" });
    }
}

#[derive(Default)]
struct Pieces {
    pieces: Vec<Bytes>,
    /// What was copied since the last shared piece.
    copied: Vec<u8>,
}

impl Pieces {
    fn copy(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
    }

    fn share(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARED_FROM {
            return self.copy(bytes);
        }
        if !self.copied.is_empty() {
            self.pieces.push(std::mem::take(&mut self.copied).into());
        }
        self.pieces.push(bytes.clone());
    }

    fn finish(mut self) -> Body {
        if !self.copied.is_empty() {
            self.pieces.push(self.copied.into());
        }
        self.pieces.into_iter().collect()
    }
}
