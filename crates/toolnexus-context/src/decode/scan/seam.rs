//! What comes together where something was dropped.
//!
//! Out of `<k<kb/>b chunk_id="x"/>` the middle is dropped, and what is left would be a tag that nobody
//! issued; of `do<kb/>c://1` it would be a handle. A `_` keeps the two sides apart where that is so, and
//! only there: it is a letter to every edge, and no kind or tag goes on with it.

use std::cmp::Ordering;

use crate::Registry;

use super::starts::Starts;
use super::tag::is_named_out;
use super::token::{Found, Input, Token};
use crate::decode::Named;

/// What stands between two sides that must not come together.
pub(super) const APART: &str = "_";

/// How much of the output is looked at; no handle that stands for something is longer.
const SIDE: usize = 96;

/// The end of the output, in case that something is dropped behind it.
#[derive(Default)]
pub(super) struct Seam {
    /// Its last bytes, as far as they are the model's own.
    side: String,
    /// The byte before them, or zero.
    before: u8,
    /// Whether something was dropped or put in right behind it.
    is_open: bool,
}

/// What an open seam needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// That depends on what follows.
    Undecided,
    /// This between its sides.
    With(&'static str),
}

impl Seam {
    /// The model's own text goes on.
    pub(super) fn add(&mut self, text: &str) {
        self.side.push_str(text);
        let cut = self.side.floor_char_boundary(self.side.len().saturating_sub(SIDE));
        if let Some(last) = cut.checked_sub(1).and_then(|last| self.side.as_bytes().get(last)) {
            self.before = *last;
        }
        self.side.drain(..cut);
    }

    /// A token stood here, and this was written for it.
    pub(super) fn put(&mut self, written: &str) {
        self.is_open = true;
        let Some(last) = written.as_bytes().last() else { return };
        if self.side.ends_with('<') || self.side.ends_with("</") {
            // An id may be the name of a tag.
            self.add(written);
        } else {
            self.side.clear();
            self.before = *last;
        }
    }

    /// Whether both sides together would be something else than the ordinary text that they are.
    /// `is_in_word`: the rest follows a letter in the model's own text, so that no handle begins with it
    /// there.
    pub(super) fn close(
        &mut self,
        registry: &Registry,
        starts: &Starts,
        (rest, is_in_word): (&str, bool),
        is_end: bool,
    ) -> Closed {
        if !self.is_open {
            return Closed::With("");
        }
        if rest.is_empty() && !is_end {
            return Closed::Undecided;
        }
        let near = rest.get(..rest.floor_char_boundary(SIDE)).unwrap_or_default();
        let both = format!("{}{near}", self.side);
        let is_end = is_end && near.len() == rest.len();
        let mut input = Input { text: &both, before: [0, self.before], is_end, searched: 0 };
        // No tag's name goes on across another `<`, nor when it has ended.
        let tag = self.side.rfind('<').filter(|start| !is_named_out(&self.side, *start));
        let mut at = 0;
        while let Some(start) = starts.next(&input, at) {
            let found = match start.cmp(&self.side.len()) {
                Ordering::Less if input.byte(start) == Some(b'<') && Some(start) != tag => Found::Ordinary,
                Ordering::Less => input.joined_at(registry, start),
                Ordering::Equal if is_in_word => input.freed_at(registry, start),
                _ => break,
            };
            match found {
                Found::Ordinary => at = start + 1,
                // It is as it was: its right edge is on this side.
                Found::Token(_, end) if end + 1 < self.side.len() => at = start + 1,
                Found::Undecided if near.len() == rest.len() => return Closed::Undecided,
                Found::Undecided | Found::Token(..) => {
                    self.side.push_str(APART);
                    self.is_open = false;
                    return Closed::With(APART);
                }
            }
        }
        self.is_open = false;
        Closed::With("")
    }
}

impl<'t> Input<'t> {
    /// What stands at a place of joined text: of a tag the name is enough, and what would be dropped for
    /// standing at the end may stay.
    fn joined_at(&mut self, registry: &Registry, at: usize) -> Found<'t> {
        if self.byte(at) != Some(b'<') {
            return match self.token_at(registry, at) {
                Found::Token(Token::Dropped, _) => Found::Ordinary,
                found => found,
            };
        }
        match self.named_at(registry.settings(), at) {
            Named::Is { .. } if self.is_end || is_named_out(self.text, at) => {
                Found::Token(Token::Dropped, self.text.len())
            }
            Named::Begun if self.is_end => Found::Ordinary,
            Named::Not => Found::Ordinary,
            Named::Begun | Named::Is { .. } => Found::Undecided,
        }
    }

    /// What begins where a word ended that is gone. Tags and resources begin there in any case.
    fn freed_at(&mut self, registry: &Registry, at: usize) -> Found<'t> {
        match self.resource_at(at) {
            _ if self.byte(at) == Some(b'<') => Found::Ordinary,
            Found::Ordinary => self.joined_at(registry, at),
            Found::Undecided => Found::Undecided,
            Found::Token(..) => Found::Ordinary,
        }
    }
}
