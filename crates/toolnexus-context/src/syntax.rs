//! How handles are spelled, and where in a text they may stand.
//!
//! Edges are ASCII: a handle between two CJK characters is a handle.

use crate::settings::{KindId, Settings};

/// The prefix of resource handles.
pub(crate) const RESOURCE: &str = "res://";

/// A byte that continues a word.
pub(crate) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether no word continues to the left of `at`.
pub(crate) fn is_free_left(text: &str, at: usize) -> bool {
    at.checked_sub(1).and_then(|before| text.as_bytes().get(before)).is_none_or(|byte| !is_word(*byte))
}

/// Whether no word continues from `end`.
pub(crate) fn is_free_right(text: &str, end: usize) -> bool {
    text.as_bytes().get(end).is_none_or(|byte| !is_word(*byte))
}

/// Whether a source handle may end at `end`: no word goes on, and no number after a dot.
pub(crate) fn ends_handle(text: &str, end: usize) -> bool {
    let bytes = text.as_bytes();
    match bytes.get(end) {
        None => true,
        Some(b'.') => !bytes.get(end + 1).is_some_and(u8::is_ascii_digit),
        Some(byte) => !is_word(*byte),
    }
}

/// How many ASCII digits stand at `at`.
pub(crate) fn digits_at(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Whether the whole text is `res://` and digits.
pub(crate) fn is_resource_handle(text: &str) -> bool {
    text.strip_prefix(RESOURCE).is_some_and(|digits| is_digits(digits))
}

/// Whether the whole text is digits, at least one.
pub(crate) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The number that canonical digits spell: no leading zero.
pub(crate) fn number(digits: &str) -> Option<usize> {
    if digits.starts_with('0') { None } else { digits.parse().ok() }
}

/// Text of the shape of a source handle. `number` is `None` where it can never resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceHandle {
    pub(crate) kind: KindId,
    pub(crate) number: Option<usize>,
}

impl Settings {
    /// The scheme handle that begins at `at`, and where it ends. Edges are not looked at.
    pub(crate) fn handle_at(&self, text: &str, at: usize) -> Option<(SourceHandle, usize)> {
        let rest = text.as_bytes().get(at..)?;
        let (kind, length) = self.kinds().find_map(|(id, kind)| {
            let name = kind.name.as_bytes();
            let matches = rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
                && rest.get(name.len()..name.len() + 3) == Some(b"://");
            matches.then_some((id, name.len() + 3))
        })?;
        let start = at + length;
        let end = start + digits_at(text, start);
        let number = number(text.get(start..end).filter(|digits| !digits.is_empty())?);
        Some((SourceHandle { kind, number }, end))
    }

    /// The handle that the whole, trimmed text spells: with its scheme, or in the bare old form where
    /// those are read.
    pub(crate) fn whole_handle(&self, text: &str) -> Option<SourceHandle> {
        let text = text.trim();
        match self.handle_at(text, 0) {
            Some((handle, end)) if end == text.len() => Some(handle),
            _ => self.legacy_handle(text),
        }
    }

    /// The handle that the text spells in its bare old form.
    fn legacy_handle(&self, text: &str) -> Option<SourceHandle> {
        let mut rest = text.chars();
        let letter = rest.next().filter(|_| self.legacy_handles)?.to_ascii_lowercase();
        let digits = rest.as_str();
        if !is_digits(digits) || digits.starts_with('0') {
            return None;
        }
        let (kind, _) = self.kinds().find(|(_, kind)| kind.legacy == Some(letter))?;
        Some(SourceHandle { kind, number: number(digits) })
    }
}
