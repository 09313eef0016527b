//! What stands at a place of the model's text.
//!
//! Each kind of token is asked in its turn, and the first that is not ordinary decides. "Undecided" is
//! said only where the text comes to its end inside of what is, or could become, a token; so what is held
//! back is never more than one token.

use std::sync::Arc;

use crate::Registry;
use crate::settings::Settings;
use crate::syntax::{MOST_DIGITS, RESOURCE, SourceHandle, is_word, number};

/// A source handle of more digits is not worth holding back until its right edge is seen: it stands for
/// nothing whatever follows.
const LONGEST_HELD_NUMBER: usize = 64;

/// A text, or the piece of it that is not decided yet.
pub(super) struct Input<'t> {
    pub(super) text: &'t str,
    /// The two bytes of the model's text before it, or zeros.
    pub(super) before: [u8; 2],
    /// Whether nothing follows.
    pub(super) is_end: bool,
    /// From the place that is looked at up to here there is no `>`. Kept so that many beginnings of tags
    /// do not each search the same text.
    pub(super) searched: usize,
}

/// What stands at a place.
#[derive(Debug, PartialEq)]
pub(super) enum Found<'t> {
    /// A character that means itself.
    Ordinary,
    /// That depends on what follows.
    Undecided,
    /// A token, and where it ends.
    Token(Token<'t>, usize),
}

/// Something that stands for something else.
#[derive(Debug, PartialEq)]
pub(super) enum Token<'t> {
    /// A tag of the model's own, or the beginning of something at the end of the text: nothing is left
    /// of it.
    Dropped,
    /// The `<` of a tag of the model's own that is longer than any. It stays, and what follows it, but it
    /// begins a tag no more.
    Broken,
    /// A handle of so many digits that nothing is left of it. Digits that follow belong to it.
    Endless,
    /// `<ref id="…"/>`, with what is in the quotes.
    Citation(&'t str),
    /// A resource handle, by its digits.
    Resource(&'t str),
    /// A source handle.
    Source(SourceHandle),
    /// A known private or routing handle, with what it stands for.
    Known(Arc<str>),
}

/// How far a text goes along with a spelling.
enum Spelled {
    Not,
    /// The text ends after so many bytes, which are spelled so.
    Begun(usize),
    /// The spelling ends here.
    Whole(usize),
}

impl<'t> Input<'t> {
    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// The two bytes of the model's text before a place, or zeros.
    pub(super) fn two_before(&self, at: usize) -> [u8; 2] {
        let [first, second] = self.before;
        match at {
            0 => [first, second],
            1 => [second, self.byte(0).unwrap_or_default()],
            _ => [at - 2, at - 1].map(|at| self.byte(at).unwrap_or_default()),
        }
    }

    /// What stands at `at`.
    pub(super) fn token_at(&mut self, registry: &Registry, at: usize) -> Found<'t> {
        let settings = registry.settings();
        if self.byte(at) == Some(b'<') {
            return self.tag_at(settings, at);
        }
        let [_, before] = self.two_before(at);
        let found = self.resource_at(at);
        if found != Found::Ordinary || is_word(before) {
            return found;
        }
        match self.source_at(settings, at) {
            Found::Ordinary => self.known_at(registry, at),
            found => found,
        }
    }

    /// `res://` and digits, with anything around.
    pub(super) fn resource_at(&self, at: usize) -> Found<'t> {
        let start = match self.spelled(at, [RESOURCE], false) {
            Spelled::Not => return Found::Ordinary,
            Spelled::Begun(length) => return self.begun(length > "res:".len()),
            Spelled::Whole(start) => start,
        };
        let end = self.number_end(start, MOST_DIGITS);
        if end - start > MOST_DIGITS {
            Found::Token(Token::Endless, end)
        } else if end == self.text.len() && (!self.is_end || end == start) {
            self.begun(true)
        } else if end == start {
            Found::Ordinary
        } else {
            Found::Token(Token::Resource(self.text.get(start..end).unwrap_or_default()), end)
        }
    }

    /// `<kind>://` and digits, where a handle may end. The left edge was looked at.
    fn source_at(&self, settings: &Settings, at: usize) -> Found<'t> {
        for (kind, definition) in settings.kinds() {
            let name = &definition.name;
            let start = match self.spelled(at, [name, "://"], true) {
                Spelled::Not => continue,
                Spelled::Begun(length) => match self.begun(length > name.len() + 1) {
                    // The name of a kind may go on as that of another, or as a private handle.
                    Found::Ordinary => continue,
                    found => return found,
                },
                Spelled::Whole(start) => start,
            };
            let end = self.number_end(start, LONGEST_HELD_NUMBER);
            if end - start > LONGEST_HELD_NUMBER {
                return Found::Token(Token::Endless, end);
            }
            if end == start {
                return if end == self.text.len() { self.begun(true) } else { Found::Ordinary };
            }
            let goes_on = match (self.byte(end), self.byte(end + 1)) {
                (None, _) | (Some(b'.'), None) if !self.is_end => return Found::Undecided,
                (Some(b'.'), Some(digit)) => digit.is_ascii_digit(),
                (Some(byte), _) => is_word(byte),
                (None, _) => false,
            };
            if goes_on {
                return Found::Ordinary;
            }
            let number = self.text.get(start..end).and_then(number);
            return Found::Token(Token::Source(SourceHandle { kind, number }), end);
        }
        Found::Ordinary
    }

    /// The prefix of a private or routing space and a number that it knows, where no word goes on. The
    /// left edge was looked at.
    fn known_at(&self, registry: &Registry, at: usize) -> Found<'t> {
        for (id, space) in registry.settings().spaces() {
            let start = match self.spelled(at, [&space.definition.prefix], false) {
                Spelled::Not => continue,
                Spelled::Begun(_) if self.is_end => continue,
                Spelled::Begun(_) => return Found::Undecided,
                Spelled::Whole(start) => start,
            };
            let longest = space.definition.width.max(MOST_DIGITS);
            let end = self.number_end(start, longest);
            if end - start > longest {
                continue;
            }
            match self.byte(end) {
                None if !self.is_end => return Found::Undecided,
                Some(byte) if is_word(byte) => continue,
                _ => {}
            }
            let digits = self.text.get(start..end).filter(|digits| !digits.is_empty());
            let value =
                digits.and_then(|digits| registry.tables().space(id)?.resolve_digits(digits).cloned());
            if let Some(value) = value {
                return Found::Token(Token::Known(value), end);
            }
        }
        Found::Ordinary
    }

    /// What the beginning of a handle is that reaches the end of the text. Where nothing follows, one that
    /// can hardly be anything else is dropped.
    fn begun(&self, is_dropped: bool) -> Found<'t> {
        if !self.is_end {
            Found::Undecided
        } else if is_dropped {
            Found::Token(Token::Dropped, self.text.len())
        } else {
            Found::Ordinary
        }
    }

    /// How far the text at `at` is spelled as the parts, one after the other.
    fn spelled<const N: usize>(&self, at: usize, parts: [&str; N], ignores_case: bool) -> Spelled {
        let mut end = at;
        for byte in parts.iter().flat_map(|part| part.bytes()) {
            match self.byte(end) {
                None => return Spelled::Begun(end - at),
                Some(other) if other == byte || (ignores_case && other.eq_ignore_ascii_case(&byte)) => {
                    end += 1
                }
                Some(_) => return Spelled::Not,
            }
        }
        Spelled::Whole(end)
    }

    /// Where the digits at `start` end, or one more than `longest` of them.
    fn number_end(&self, start: usize, longest: usize) -> usize {
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        start + rest.iter().take(longest.saturating_add(1)).take_while(|byte| byte.is_ascii_digit()).count()
    }
}
