//! One message of a transcript, serialised at most once.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::readable::readable;

/// One message of a transcript, in the provider's own shape.
///
/// It reads like a [`serde_json::Value`] (it dereferences to one) and is made from one. A clone
/// shares the message: transcripts, stores, events and request bodies hold the same one, and its
/// JSON text is made once, when the first request needs it. A message that came from a provider
/// keeps the provider's bytes and is parsed when somebody looks inside.
///
/// ```
/// use serde_json::json;
/// use toolnexus_llm::Message;
/// let message = Message::from(json!({"role": "user", "content": "hi"}));
/// assert_eq!(message["content"], "hi");
/// assert_eq!(message.json(), r#"{"role":"user","content":"hi"}"#.as_bytes());
/// ```
#[derive(Clone)]
pub struct Message(Arc<Forms>);

/// At least one of the two is set from the beginning.
struct Forms {
    json: OnceLock<Bytes>,
    value: OnceLock<Value>,
    /// Whether content parts may be in it; looked up once.
    parts: OnceLock<bool>,
}

impl Message {
    /// A message from its JSON text, kept byte for byte.
    ///
    /// # Errors
    /// When `json` is not one JSON value, or one that is nested deeper than 100 levels.
    pub fn from_json(json: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let json = json.into();
        readable(&json)?;
        Ok(Message::of_json(json, None))
    }

    /// A message from text that is known to be JSON, and what is known of content parts in it.
    fn of_json(json: Bytes, holds_parts: Option<bool>) -> Self {
        Message(Arc::new(Forms {
            json: OnceLock::from(json),
            value: OnceLock::new(),
            parts: holds_parts.map_or_else(OnceLock::new, OnceLock::from),
        }))
    }

    /// A message of a wire's own, from a value that always serialises. The wire knows whether
    /// content parts are in it, so nobody will look for them.
    pub(crate) fn of_wire(value: &impl Serialize, holds_parts: bool) -> Self {
        let json = serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec());
        Message::of_json(json.into(), Some(holds_parts))
    }

    /// A model's message, which holds blocks of the provider's and never content parts.
    pub(crate) fn of_model(json: Bytes) -> Self {
        Message::of_json(json, Some(false))
    }

    /// The message as a JSON value.
    pub fn value(&self) -> &Value {
        self.0.value.get_or_init(|| {
            let json = self.0.json.get().map(Bytes::as_ref).unwrap_or_default();
            serde_json::from_slice(json).unwrap_or(Value::Null)
        })
    }

    /// The message's JSON text.
    pub fn json(&self) -> &Bytes {
        self.0.json.get_or_init(|| self.value().to_string().into())
    }

    /// Appends the JSON text to `out`, without keeping a copy that was not there.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) {
        match self.0.json.get() {
            Some(json) => out.extend_from_slice(json),
            // A value always serialises into memory.
            None => drop(serde_json::to_writer(out, self.value())),
        }
    }

    /// The role, or the empty string where there is none.
    pub fn role(&self) -> &str {
        self.value().get("role").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether content parts may be in it: false is certain.
    pub(crate) fn may_hold_parts(&self) -> bool {
        *self.0.parts.get_or_init(|| {
            let json = self.json();
            memchr::memmem::find(json, b"\"mimeType\"").is_some()
                || memchr::memmem::find(json, b"\"parts\"").is_some()
        })
    }

    /// Whether the role may be `system`: a look at the bytes that saves parsing most messages.
    pub(crate) fn may_be_system(&self) -> bool {
        match self.0.value.get() {
            Some(value) => value.get("role").is_some_and(|role| role == "system"),
            None => memchr::memmem::find(self.json(), b"\"system\"").is_some() && self.role() == "system",
        }
    }
}

impl Deref for Message {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value()
    }
}

impl From<Value> for Message {
    fn from(value: Value) -> Self {
        Message(Arc::new(Forms {
            json: OnceLock::new(),
            value: OnceLock::from(value),
            parts: OnceLock::new(),
        }))
    }
}

impl From<Message> for Value {
    fn from(message: Message) -> Self {
        message.value().clone()
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.value() == other.value()
    }
}

impl PartialEq<Value> for Message {
    fn eq(&self, other: &Value) -> bool {
        self.value() == other
    }
}

/// Shows role and size: a transcript in a log is a leak.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({}, {} bytes)", self.role(), self.json().len())
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(self.json()).map_err(serde::ser::Error::custom)?;
        let raw: &RawValue = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    // Through a value: inside a tagged enum serde buffers its input, where raw JSON is not to be
    // had any more.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Message::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // RUN-8: a clone shares the message and its JSON text
    #[test]
    fn clones_share_their_bytes() {
        let message = Message::from(json!({"role": "user", "content": "hi"}));
        let clone = message.clone();
        assert_eq!(message.json().as_ptr(), clone.json().as_ptr());
    }

    // CLIENT-41: a provider's message survives byte for byte
    #[test]
    fn foreign_json_is_kept_verbatim() {
        let text = r#"{ "role":"assistant", "x": 1e2, "content":null }"#;
        let message = Message::from_json(text).unwrap();
        assert_eq!(message.json(), text.as_bytes());
        assert_eq!(message["x"], json!(100.0));
        assert_eq!(serde_json::to_string(&vec![message]).unwrap(), format!("[{text}]"));
        assert!(Message::from_json("{\"role\":").is_err());
    }

    #[test]
    fn debug_shows_no_content() {
        let message = Message::from(json!({"role": "user", "content": "a secret"}));
        assert_eq!(format!("{message:?}"), "Message(user, 36 bytes)");
    }

    #[test]
    fn the_look_at_the_bytes_agrees_with_the_role() {
        for (json, expected) in [
            (r#"{"role":"system","content":"x"}"#, true),
            (r#"{"role": "system"}"#, true),
            (r#"{"role":"user","content":"\"system\" is a word"}"#, false),
            (r#"{"role":"user","content":"system"}"#, false),
        ] {
            assert_eq!(Message::from_json(json).unwrap().may_be_system(), expected, "{json}");
            let parsed = Message::from(serde_json::from_str::<Value>(json).unwrap());
            assert_eq!(parsed.may_be_system(), expected, "{json}");
        }
    }
}
