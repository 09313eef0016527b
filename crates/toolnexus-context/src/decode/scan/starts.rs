//! Where a token can begin: a look at each byte, so that ordinary text costs next to nothing.

use super::token::Input;
use crate::settings::Settings;
use crate::syntax::is_word;

/// What a byte may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Nothing,
    /// A token, where no word continues from the left.
    AtEdge,
    /// A token, anywhere.
    Anywhere,
}

/// What each byte may begin, in one configuration.
pub(super) struct Starts([Start; 256]);

impl Starts {
    pub(super) fn new(settings: &Settings) -> Self {
        let mut starts = Starts([Start::Nothing; 256]);
        let kinds = settings.kinds().filter_map(|(_, kind)| kind.name.bytes().next());
        let prefixes = settings.spaces().filter_map(|(_, space)| space.definition.prefix.bytes().next());
        for first in kinds.flat_map(|first| [first, first.to_ascii_uppercase()]).chain(prefixes) {
            starts.set(first, Start::AtEdge);
        }
        for first in [b'<', b'r'] {
            starts.set(first, Start::Anywhere);
        }
        starts
    }

    fn set(&mut self, byte: u8, start: Start) {
        if let Some(entry) = self.0.get_mut(usize::from(byte)) {
            *entry = start;
        }
    }

    /// The next place, from `at` on, where a token can begin.
    pub(super) fn next(&self, input: &Input<'_>, at: usize) -> Option<usize> {
        let [_, mut before] = input.two_before(at);
        for (offset, byte) in input.text.as_bytes().get(at..)?.iter().enumerate() {
            let is_start = match self.0.get(usize::from(*byte)) {
                Some(Start::AtEdge) => !is_word(before),
                Some(Start::Anywhere) => true,
                _ => false,
            };
            if is_start {
                return Some(at + offset);
            }
            before = *byte;
        }
        None
    }
}
