//! Ids that a plain result labels as such: attributes, elements, `<chunk …>` tags, and members of JSON
//! whose key says what they hold. Nothing else is an id, however much it looks like one.

use std::borrow::Cow;

use memchr::{memchr, memchr2_iter};
use serde_json::{Map, Value};

use super::fields::Fields;
use crate::syntax::{holds_resource_handle, is_free_left};
use crate::{Evidence, Registry, SourceRef};

/// The labels of documents and knowledge bases.
const DOCUMENT: &[&str] = &["knowledge_id"];
const KNOWLEDGE_BASE: &[&str] = &["knowledge_base_id", "kb_id"];

impl Registry {
    /// Registers what a text labels as an id.
    pub(super) fn register_labelled(&self, text: &str, evidence: Evidence) {
        match serde_json::from_str(text) {
            Ok(value) => Labels { registry: self, evidence }.read_json(&value, None),
            Err(_) => Labels { registry: self, evidence }.read_text(text),
        }
    }

    /// Registers the value of a member or column, if the key holds ids. A URL with the handle of a
    /// resource in it is none any more: its durable text is another.
    pub(super) fn register_member(&self, key: &str, value: &str, evidence: Evidence) {
        if let Some(kinds) = self.settings().key_spaces.get(&*key.to_lowercase())
            && !holds_resource_handle(value)
        {
            self.register_keyed(kinds, value, evidence);
        }
    }
}

#[derive(Clone, Copy)]
struct Labels<'r> {
    registry: &'r Registry,
    evidence: Evidence,
}

impl Labels<'_> {
    /// The strings of a document, each under its key or that of the arrays around it.
    fn read_json(self, value: &Value, key: Option<&str>) {
        match value {
            Value::String(text) => {
                if let Some(key) = key {
                    self.registry.register_member(key, text, self.evidence);
                }
                self.read_text(text);
            }
            Value::Array(values) => values.iter().for_each(|value| self.read_json(value, key)),
            Value::Object(members) => {
                self.read_chunks(members);
                members.iter().for_each(|(key, value)| self.read_json(value, Some(key)));
            }
            _ => {}
        }
    }

    /// The piece that an object describes, with what the object says of it.
    fn read_chunks(self, members: &Map<String, Value>) {
        let Some(kind) = self.registry.settings().roles.chunk else { return };
        for key in ["chunk_id", "faq_id"] {
            if let Some(Value::String(id)) = members.get(key) {
                let source = described(Cow::Borrowed(id), |names| Fields(members).text(names));
                self.registry.register_as(kind, &source, self.evidence);
            }
        }
    }

    /// Attributes, elements and tags of a text.
    fn read_text(self, text: &str) {
        for at in memchr2_iter(b'<', b'=', text.as_bytes()) {
            let rest = text.get(at + 1..).unwrap_or_default();
            if text.as_bytes().get(at) == Some(&b'<') {
                self.read_element(rest);
                self.read_tag(rest);
            } else {
                self.read_attribute(text, at, rest);
            }
        }
    }

    /// `NAME="ID"`, with the equals sign at `at`.
    fn read_attribute(self, text: &str, at: usize, rest: &str) {
        let before = text.get(..at).unwrap_or_default();
        let is_label =
            |name: &&&str| before.ends_with(**name) && is_free_left(text, at.saturating_sub(name.len()));
        let Some(name) = DOCUMENT.iter().chain(KNOWLEDGE_BASE).find(is_label) else { return };
        let Some(value) = rest.strip_prefix('"') else { return };
        let Some(end) = memchr(b'"', value.as_bytes()) else { return };
        self.register(name, value.get(..end).unwrap_or_default());
    }

    /// `NAME>ID</NAME>`, behind its `<`.
    fn read_element(self, rest: &str) {
        for name in DOCUMENT.iter().chain(KNOWLEDGE_BASE) {
            let Some(content) = rest.strip_prefix(*name).and_then(|rest| rest.strip_prefix('>')) else {
                continue;
            };
            let Some(end) = memchr(b'<', content.as_bytes()) else { return };
            let (value, closing) = content.split_at(end);
            let closing = closing.strip_prefix("</").and_then(|rest| rest.strip_prefix(*name));
            if closing.is_some_and(|rest| rest.starts_with('>')) {
                self.register(name, value);
            }
        }
    }

    /// `chunk …>` or `faq …>`, behind its `<`.
    fn read_tag(self, rest: &str) {
        let Some(inside) = rest.strip_prefix("chunk").or_else(|| rest.strip_prefix("faq")) else { return };
        let Some(attributes) = attributes(inside, self.registry.settings().max_tag_len) else { return };
        let value = |names: &[&str]| {
            let found = names.iter().find_map(|name| attributes.iter().find(|(known, _)| known == name));
            found.map(|(_, value)| html_escape::decode_html_entities(*value)).unwrap_or_default()
        };
        let id = value(&["chunk_id", "faq_id"]);
        if let Some(kind) = self.registry.settings().roles.chunk.filter(|_| !id.is_empty()) {
            let source = described(id, value);
            self.registry.register_as(kind, &source, self.evidence);
        }
    }

    fn register(self, name: &str, value: &str) {
        let roles = self.registry.settings().roles;
        let kind = if DOCUMENT.contains(&name) { roles.document } else { roles.knowledge_base };
        if let Some(kind) = kind {
            let source = SourceRef::new(html_escape::decode_html_entities(value));
            self.registry.register_as(kind, &source, self.evidence);
        }
    }
}

/// A piece, with what is said beside its id.
fn described<'t>(id: Cow<'t, str>, field: impl Fn(&[&str]) -> Cow<'t, str>) -> SourceRef {
    SourceRef {
        id: id.into_owned(),
        document_id: field(DOCUMENT).into_owned(),
        knowledge_base_id: field(&["knowledge_base_id", "kb_id", "knowledge_base"]).into_owned(),
        title: field(&["knowledge_title", "title"]).into_owned(),
        index: field(&["chunk_index", "index"]).trim().parse().unwrap_or_default(),
        subtype: field(&["chunk_type"]).into_owned(),
    }
}

/// The attributes of a tag, behind its name: `NAME="VALUE"` each, up to `>` within `limit` bytes.
fn attributes(inside: &str, limit: usize) -> Option<Vec<(&str, &str)>> {
    let mut rest = inside.get(..inside.floor_char_boundary(limit))?;
    let mut attributes = Vec::new();
    loop {
        let trimmed = rest.trim_start();
        if trimmed.strip_prefix('/').unwrap_or(trimmed).starts_with('>') {
            return Some(attributes);
        }
        if trimmed.len() == rest.len() {
            return None;
        }
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b':');
        let length = trimmed.bytes().take_while(|byte| is_name(byte)).count();
        let (name, after) = trimmed.split_at(length);
        let value = after.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
        let (value, after) = value.split_once('"')?;
        attributes.push((name, value));
        rest = after;
    }
}
