//! Blocks that a provider signed, as the model wrote them.
//!
//! A provider refuses reasoning whose text does not fit its signature, and wants it back while a turn
//! goes on. The transcript holds the decoded text. So for this execution the registry remembers the raw
//! blocks of each message, and they are what goes back.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{MutexGuard, PoisonError};

use serde_json::Value;
use toolnexus_llm::Message;

use super::messages::signed_blocks;
use crate::Registry;

/// The raw blocks of the messages of this execution, by the durable message.
#[derive(Debug, Default)]
pub(crate) struct SignedBlocks(HashMap<Durable, RawBlocks>);

/// A message by its value: a hook may have built it anew, and then its JSON is spelled in another way.
#[derive(Debug, PartialEq)]
struct Durable(Message);

impl Eq for Durable {}

impl Hash for Durable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.value().hash(state);
    }
}

/// The raw blocks of one message: JSON text, by list and place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawBlocks(HashMap<(&'static str, usize), String>);

impl RawBlocks {
    pub(crate) fn get(&self, list: &'static str, index: usize) -> Option<&str> {
        self.0.get(&(list, index)).map(String::as_str)
    }
}

impl SignedBlocks {
    fn remember(&mut self, durable: &Message, raw: &Message) {
        let raw = std::str::from_utf8(raw.json()).unwrap_or("null");
        let mut blocks = RawBlocks::default();
        for block in signed_blocks(raw) {
            // Places are only the same where no block was added or taken away.
            let stored = durable.get(block.list).and_then(Value::as_array).map(Vec::len);
            if stored == Some(block.length) {
                blocks.0.insert((block.list, block.index), block.json.to_owned());
            }
        }
        if !blocks.0.is_empty() {
            self.0.insert(Durable(durable.clone()), blocks);
        }
    }

    fn raw_of(&self, durable: &Message) -> RawBlocks {
        // Hashing a message costs, and most executions sign nothing.
        let known = (!self.0.is_empty()).then(|| self.0.get(&Durable(durable.clone()))).flatten();
        known.cloned().unwrap_or_default()
    }
}

impl Registry {
    /// Remembers the signed blocks of a model's message. `durable` is the message as the transcript
    /// keeps it, `raw` the message as the model wrote it.
    pub(crate) fn remember_signed(&self, durable: &Message, raw: &Message) {
        self.signed_blocks().remember(durable, raw);
    }

    /// The signed blocks of a message of the transcript, raw.
    pub(crate) fn raw_blocks(&self, durable: &Message) -> RawBlocks {
        self.signed_blocks().raw_of(durable)
    }

    fn signed_blocks(&self) -> MutexGuard<'_, SignedBlocks> {
        self.inner.signed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolnexus_core::Style;

    use super::*;
    use crate::encode::{CallNames, Surroundings};

    /// Both as the model wrote them and as the transcript keeps them.
    fn both(raw: &str, durable: &str) -> [Message; 2] {
        [raw, durable].map(|json| Message::from_json(json.to_owned()).unwrap())
    }

    fn encoded(registry: &Registry, durable: &Message, style: Style) -> String {
        let surroundings = Surroundings { style: Some(style), ..Default::default() };
        let messages = std::slice::from_ref(durable);
        let encoded = registry.encode_new_messages(&mut CallNames::default(), messages, &surroundings);
        String::from_utf8(encoded.first().unwrap().json().to_vec()).unwrap()
    }

    // CTX-40: the raw signed block goes back exactly, for the same message
    #[test]
    fn a_signed_thinking_goes_back_as_it_was_written() {
        let registry = Registry::new(true);
        registry.register_document("document-1").unwrap();
        let [raw, durable] = both(
            r#"{"role":"assistant","content":[ {"signature":"czE=", "type":"thinking","thinking":"read doc:\/\/1"},{"type":"text","text":"doc://1"}]}"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"read toolnexus://doc/document-1"},{"type":"text","text":"toolnexus://doc/document-1"}]}"#,
        );
        let left_out = r#"{"role":"assistant","content":[{"type":"text","text":"doc://1"}]}"#;
        assert_eq!(encoded(&registry, &durable, Style::Anthropic), left_out, "nothing is remembered yet");
        registry.remember_signed(&durable, &raw);
        assert_eq!(
            encoded(&registry, &durable, Style::Anthropic),
            r#"{"role":"assistant","content":[{"signature":"czE=", "type":"thinking","thinking":"read doc:\/\/1"},{"type":"text","text":"doc://1"}]}"#
        );
        let mut other = durable.value().clone();
        other["content"][1]["text"] = "changed".into();
        let other = encoded(&registry, &other.into(), Style::Anthropic);
        assert!(!other.contains("thinking"), "another message is not the same: {other}");
        assert_eq!(
            encoded(&Registry::new(true), &durable, Style::Anthropic),
            left_out,
            "nor another execution"
        );
    }

    // CTX-40: an unchanged signed block needs no memory, and gets none that differs
    #[test]
    fn an_unchanged_block_is_the_same() {
        let registry = Registry::new(true);
        let json =
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"czE="}]}"#;
        let [raw, durable] = both(json, json);
        registry.remember_signed(&durable, &raw);
        assert_eq!(encoded(&registry, &durable, Style::Anthropic), json);
    }

    // CTX-40: Gemini's calls, texts and thoughts alike, and only those that are signed
    #[test]
    fn signed_parts_of_gemini_go_back_raw() {
        let registry = Registry::new(true);
        registry.register_document("document-1").unwrap();
        let parts = |id: &str| {
            json!({"role": "model", "parts": [
                {"text": id, "thought": true, "thoughtSignature": "czE="},
                {"text": id},
                {"functionCall": {"name": "f", "args": {"note": id}}, "thoughtSignature": "czI="}
            ]})
        };
        let (raw, durable) =
            (Message::from(parts("x DOC://1")), Message::from(parts("x toolnexus://doc/document-1")));
        registry.remember_signed(&durable, &raw);
        let mut expected = raw.value().clone();
        expected["parts"][1]["text"] = "x doc://1".into();
        assert_eq!(encoded(&registry, &durable, Style::Gemini), expected.to_string());
    }

    // CTX-40: places that do not fit are not guessed
    #[test]
    fn a_message_that_lost_a_block_gets_none_back() {
        let registry = Registry::new(true);
        let [raw, durable] = both(
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"czE="},{"type":"text","text":"x"}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"x"}]}"#,
        );
        registry.remember_signed(&durable, &raw);
        assert_eq!(registry.raw_blocks(&durable), RawBlocks::default());
    }
}
