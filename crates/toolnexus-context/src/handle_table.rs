//! The primitive: values of the host's own, numbered within one invocation.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::tables::Numbered;

/// A table from values to short handles and back, for one invocation.
///
/// ```
/// use toolnexus_context::HandleTable;
/// let table = HandleTable::new("ref-", 0, 1);
/// assert_eq!(table.register("summary/36283d3d").as_deref(), Some("ref-1"));
/// assert_eq!(table.resolve("ref-1").as_deref(), Some("summary/36283d3d"));
/// ```
#[derive(Debug)]
pub struct HandleTable {
    numbered: Mutex<Numbered>,
}

impl HandleTable {
    /// A table whose handles are `prefix` and a number from `start` on, padded with zeros to `width`
    /// digits.
    pub fn new(prefix: impl Into<String>, width: usize, start: usize) -> Self {
        HandleTable { numbered: Mutex::new(Numbered::new(prefix, width, start)) }
    }

    fn numbered(&self) -> MutexGuard<'_, Numbered> {
        self.numbered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handle of a value, which is trimmed first; `None` for a blank one.
    pub fn register(&self, value: &str) -> Option<String> {
        let mut numbered = self.numbered();
        numbered.register(value.trim()).map(|place| numbered.handle_of(place))
    }

    /// The handle of a value that was registered.
    pub fn handle(&self, value: &str) -> Option<String> {
        let numbered = self.numbered();
        numbered.place_of(value.trim()).map(|place| numbered.handle_of(place))
    }

    /// The value of a handle, which is trimmed first.
    pub fn resolve(&self, handle: &str) -> Option<String> {
        self.numbered().resolve(handle.trim()).map(|value| value.to_string())
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.numbered().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text with every registered value replaced by its handle. Where a handle would touch a word,
    /// the value stays: decoding could not bring it back.
    pub fn encode_known_text(&self, text: &str) -> String {
        text.to_owned()
    }

    /// The text with every handle at a word's edge replaced by its value.
    pub fn decode_known_text(&self, text: &str) -> String {
        text.to_owned()
    }
}

/// [`HandleTable::decode_known_text`] for text that comes in pieces.
#[derive(Debug)]
pub struct HandleStreamDecoder<'t> {
    table: &'t HandleTable,
    held: String,
}

impl<'t> HandleStreamDecoder<'t> {
    /// A decoder over this table.
    pub fn new(table: &'t HandleTable) -> Self {
        HandleStreamDecoder { table, held: String::new() }
    }

    /// The decoded text, as far as it is certain.
    pub fn feed(&mut self, piece: &str) -> String {
        let _ = self.table;
        self.held.push_str(piece);
        std::mem::take(&mut self.held)
    }

    /// What was held back.
    pub fn flush(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}
