//! The primitive: values of the host's own, numbered within one invocation.
//!
//! Both ways are the same for the private and routing spaces of a registry, so they are written on
//! [`Numbered`]. Decoding has one scan: a whole text is a stream of one piece.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::{memchr, memmem};

use crate::known_values::{Occurrence, Verdict};
use crate::syntax::{MOST_DIGITS, digits_at, is_free_left, is_word};
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

    /// The text with every registered value replaced by its handle, longer values first. Where a handle
    /// would touch a word, the value stays: decoding could not bring it back. A table without a prefix
    /// changes nothing.
    pub fn encode_known_text(&self, text: &str) -> String {
        self.numbered().encode_text(text, |_| true).into_owned()
    }

    /// The text with every handle at a word's edge replaced by its value. A table without a prefix changes
    /// nothing.
    pub fn decode_known_text(&self, text: &str) -> String {
        let mut decoder = HandleStreamDecoder::new(self);
        decoder.feed(text) + &decoder.flush()
    }
}

/// [`HandleTable::decode_known_text`] for text that comes in pieces. All that is fed and the flush
/// together are the decoded whole, however it is cut.
///
/// ```
/// use toolnexus_context::{HandleStreamDecoder, HandleTable};
/// let table = HandleTable::new("ref-", 0, 1);
/// table.register("summary/36283d3d");
/// let mut decoder = HandleStreamDecoder::new(&table);
/// assert_eq!(decoder.feed("see re"), "see ");
/// assert_eq!(decoder.feed("f-1."), "summary/36283d3d.");
/// assert_eq!(decoder.flush(), "");
/// ```
#[derive(Debug)]
pub struct HandleStreamDecoder<'t> {
    table: &'t HandleTable,
    /// The beginning of what may become a handle.
    held: String,
    /// Whether a word stands right before what is held.
    is_word_before: bool,
}

impl<'t> HandleStreamDecoder<'t> {
    /// A decoder over this table.
    pub fn new(table: &'t HandleTable) -> Self {
        HandleStreamDecoder { table, held: String::new(), is_word_before: false }
    }

    /// The decoded text, as far as it is certain.
    pub fn feed(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        self.release(false)
    }

    /// What was held back, at the end of the text. The decoder is then as new.
    pub fn flush(&mut self) -> String {
        let rest = self.release(true);
        self.is_word_before = false;
        rest
    }

    fn release(&mut self, is_end: bool) -> String {
        let numbered = self.table.numbered();
        let text = std::mem::take(&mut self.held);
        let Some(first) = numbered.prefix().bytes().next() else { return text };
        let bytes = text.as_bytes();
        let (mut out, mut copied, mut from, mut certain) = (String::new(), 0, 0, text.len());
        while let Some(found) = memchr(first, bytes.get(from..).unwrap_or_default()) {
            let at = from + found;
            from = at + 1;
            let is_free = if at == 0 { !self.is_word_before } else { is_free_left(&text, at) };
            match numbered.token_at(&text, at, is_end) {
                Token::Handle { value, end } if is_free => {
                    out.push_str(text.get(copied..at).unwrap_or_default());
                    out.push_str(value);
                    (copied, from) = (end, end);
                }
                Token::Open if is_free => {
                    certain = at;
                    break;
                }
                _ => {}
            }
        }
        out.push_str(text.get(copied..certain).unwrap_or_default());
        if let Some(last) = certain.checked_sub(1).and_then(|last| bytes.get(last)) {
            self.is_word_before = is_word(*last);
        }
        self.held.push_str(text.get(certain..).unwrap_or_default());
        out
    }
}

/// What begins at some place of a text.
enum Token<'n> {
    /// A handle of the table, up to `end`.
    Handle { value: &'n str, end: usize },
    /// What may become a handle when more text comes.
    Open,
    /// Ordinary text.
    Text,
}

impl Numbered {
    /// What begins at `at`. The left edge is not looked at.
    fn token_at(&self, text: &str, at: usize, is_end: bool) -> Token<'_> {
        let rest = text.as_bytes().get(at..).unwrap_or_default();
        let prefix = self.prefix().as_bytes();
        if !rest.starts_with(prefix) {
            return if prefix.starts_with(rest) && !is_end { Token::Open } else { Token::Text };
        }
        let digits = at + prefix.len();
        let end = digits + digits_at(text, digits);
        if end - digits > MOST_DIGITS.max(self.width()) {
            return Token::Text;
        }
        match text.as_bytes().get(end) {
            None if !is_end => return Token::Open,
            Some(byte) if is_word(*byte) => return Token::Text,
            _ => {}
        }
        match text.get(digits..end).and_then(|digits| self.resolve_digits(digits)) {
            Some(value) => Token::Handle { value, end },
            None => Token::Text,
        }
    }

    /// The handles of this table in a text.
    pub(crate) fn handles_in(&self, text: &str) -> Vec<Range<usize>> {
        let mut handles = Vec::<Range<usize>>::new();
        for at in memmem::find_iter(text.as_bytes(), self.prefix()) {
            let reached = handles.last().map_or(0, |handle| handle.end);
            if at >= reached
                && is_free_left(text, at)
                && let Token::Handle { end, .. } = self.token_at(text, at, true)
            {
                handles.push(at..end);
            }
        }
        handles
    }

    /// The text with every known value replaced by its handle where decoding restores it and
    /// `may_replace` agrees.
    pub(crate) fn encode_text<'t>(
        &self,
        text: &'t str,
        may_replace: impl Fn(Occurrence<'t>) -> bool,
    ) -> Cow<'t, str> {
        if self.prefix().is_empty() {
            return Cow::Borrowed(text);
        }
        let swallowing = self.swallowing();
        let judge = |found: Occurrence<'t>, _| {
            let before = text.as_bytes().get(..found.start).unwrap_or_default();
            let is_free = !found.after(0).is_some_and(is_word);
            let is_swallowed = || swallowing.iter().any(|beginning| before.ends_with(beginning));
            Verdict::replace_if(is_free && !is_swallowed() && may_replace(found))
        };
        self.known().replace(text, judge, |place| self.handle_of(place))
    }

    /// Text that would be read as one handle together with the beginning of a handle behind it, as `1-`
    /// before `1-2` when the prefix is `1-`. Prefixes without digits have none.
    fn swallowing(&self) -> Vec<&[u8]> {
        let prefix = self.prefix().as_bytes();
        let splits = (0..prefix.len()).filter_map(|length| prefix.split_at_checked(prefix.len() - length));
        let is_read_on = |shared: &[u8]| {
            prefix.strip_prefix(shared).and_then(<[u8]>::first).is_some_and(u8::is_ascii_digit)
        };
        splits.filter(|(_, shared)| is_read_on(shared)).map(|(beginning, _)| beginning).collect()
    }
}
