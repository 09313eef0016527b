//! Finding what is spelled like a handle within a text, issued or not.

use crate::settings::Settings;
use crate::syntax::{SourceHandle, digits_at, ends_handle, is_word, scheme_ends};

/// A handle as it stands in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spelled<'t> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) handle: Handle<'t>,
}

/// What a handle may stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handle<'t> {
    Source(SourceHandle),
    /// The digits of a stored resource's handle.
    Resource(&'t str),
}

impl Settings {
    /// The handles in a text, from the left. None overlaps another: each has its own `://`, and the letters
    /// before that are nobody's digits.
    pub(crate) fn handles_in<'t>(&self, text: &'t str) -> impl Iterator<Item = Spelled<'t>> {
        scheme_ends(text).filter_map(move |colon| self.handle_around(text, colon))
    }

    /// The handle whose `://` is here.
    fn handle_around<'t>(&self, text: &'t str, colon: usize) -> Option<Spelled<'t>> {
        let shape = self.shape_around(text, colon)?;
        let is_ended = matches!(shape.handle, Handle::Resource(_)) || ends_handle(text, shape.end);
        is_ended.then_some(shape)
    }

    /// What is spelled like a handle around the `://` here, whatever follows it.
    pub(crate) fn shape_around<'t>(&self, text: &'t str, colon: usize) -> Option<Spelled<'t>> {
        let before = text.as_bytes().get(..colon)?;
        let digits = colon + 3;
        let end = digits + digits_at(text, digits);
        if end == digits {
            return None;
        }
        if before.ends_with(b"res") {
            return Some(Spelled { start: colon - 3, end, handle: Handle::Resource(text.get(digits..end)?) });
        }
        // The name of the kind is the whole word before the colon.
        let start = before.iter().rposition(|byte| !is_word(*byte)).map_or(0, |other| other + 1);
        let (handle, end) = self.handle_at(text, start)?;
        Some(Spelled { start, end, handle: Handle::Source(handle) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Vec<String> {
        let settings = Settings::default_of(true);
        settings.handles_in(text).map(|spelled| text[spelled.start..spelled.end].to_owned()).collect()
    }

    // CTX-18, CTX-25: source handles have edges, handles of resources none
    #[test]
    fn handles_are_found_by_their_edges() {
        assert_eq!(
            found("见DOC://1。doc://007, (kb://2) xdoc://3 doc://4x doc://5.6 url://7."),
            ["DOC://1", "doc://007", "kb://2", "url://7"]
        );
        assert_eq!(
            found("xres://1x doc://1res://2 RES://3 res:// res://4res://5"),
            ["res://1", "res://2", "res://4", "res://5"]
        );
        assert_eq!(
            found("res://doc://1 doc://res://2 doc://1/doc://3 https://a.io"),
            ["doc://1", "res://2", "doc://1", "doc://3"]
        );
    }

    proptest! {
        // Handles come from the left and do not overlap, whatever the text
        #[test]
        fn handles_are_in_order(pieces in prop::collection::vec(prop::sample::select(vec!["res", "doc", "://", "1", "0", "x", ".", "中", " ", "/"]), 0..24)) {
            let text = pieces.concat();
            let mut at = 0;
            for spelled in Settings::default_of(true).handles_in(&text) {
                prop_assert!(at <= spelled.start && spelled.start < spelled.end, "{}", text);
                at = spelled.end;
            }
        }
    }
}
