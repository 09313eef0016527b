//! Blocks that a provider signed, as the model wrote them.
//!
//! A provider refuses reasoning whose text does not fit its signature, and wants it back while a turn
//! goes on. The transcript holds the decoded text. So for this execution the registry remembers the raw
//! blocks of each message, and they are what goes back.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use toolnexus_llm::Message;

use super::messages::signed_blocks;
use crate::Registry;

/// The raw blocks of the messages of this execution, by the JSON of the durable message.
#[derive(Debug, Default)]
pub(crate) struct SignedBlocks(HashMap<Bytes, RawBlocks>);

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
            self.0.insert(durable.json().clone(), blocks);
        }
    }

    fn raw_of(&self, durable: &Message) -> RawBlocks {
        // Hashing a message costs, and most executions sign nothing.
        let known = (!self.0.is_empty()).then(|| self.0.get(durable.json())).flatten();
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
