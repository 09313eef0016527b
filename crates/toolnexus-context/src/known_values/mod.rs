//! Finding known values in text, many at once.
//!
//! A handle may not touch a word on either side. So a value can only begin where no word continues from
//! the left, and only those places are looked at, in a [`PrefixTree`] that one walk is enough for.
//!
//! # Which occurrences are replaced
//!
//! The longest value first, whatever stands where; equal lengths from the left. Replaced occurrences
//! neither overlap nor touch, because a handle begins and ends as a word does. What the caller refuses
//! stays. The pass is then repeated until nothing changes, but not over the whole text: what is replaced
//! changes nothing for the rest, with one exception that the caller names ([`Verdict::ReplaceWith`]). Those
//! occurrences wait for the one place that they depend on.

mod prefix_tree;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use crate::syntax::is_word;
use prefix_tree::PrefixTree;

/// Values to be found in text, each with what it stands for.
///
/// Adding one costs its length. Looking through a text costs its length, and where values are met, theirs.
#[derive(Debug)]
pub(crate) struct KnownValues<T> {
    tree: PrefixTree<T>,
}

impl<T: Copy> Default for KnownValues<T> {
    fn default() -> Self {
        KnownValues { tree: PrefixTree::default() }
    }
}

/// A value found in a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occurrence<'t> {
    /// The whole text.
    pub(crate) text: &'t str,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<'t> Occurrence<'t> {
    pub(crate) fn value(&self) -> &'t str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }

    pub(crate) fn before(&self) -> Option<u8> {
        self.start.checked_sub(1).and_then(|before| self.text.as_bytes().get(before)).copied()
    }

    /// The byte that stands `ahead` bytes behind the value.
    pub(crate) fn after(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.end + ahead).copied()
    }
}

/// Whether an occurrence may become its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Replace,
    Keep,
    /// Only when the occurrence that begins at this place, behind this one, is replaced.
    ReplaceWith(usize),
}

impl Verdict {
    pub(crate) fn replace_if(may: bool) -> Self {
        if may { Verdict::Replace } else { Verdict::Keep }
    }
}

impl<T: Copy> KnownValues<T> {
    /// Adds a value. One that is there already keeps what it stands for.
    pub(crate) fn insert(&mut self, value: &str, target: T) {
        self.tree.insert(value.as_bytes(), target);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// The text with occurrences replaced, as the module says.
    pub(crate) fn replace<'t>(
        &self,
        text: &'t str,
        judge: impl Fn(Occurrence<'t>, T) -> Verdict,
        handle: impl Fn(T) -> String,
    ) -> Cow<'t, str> {
        let mut pass = Pass { tree: &self.tree, text, judge, replaced: BTreeMap::new() };
        let (mut found, mut waiting) = pass.look();
        while !found.is_empty() {
            let places = pass.choose(found);
            let freed = places.iter().filter_map(|place| waiting.remove(place));
            found = freed.flatten().collect();
        }
        let replaced = pass.replaced;
        if replaced.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for (start, (end, target)) in replaced {
            out.push_str(text.get(copied..start).unwrap_or_default());
            out.push_str(&handle(target));
            copied = end;
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(out)
    }
}

/// An occurrence that may be replaced, unless a longer one takes its place.
#[derive(Debug, Clone, Copy)]
struct Candidate<T> {
    start: usize,
    end: usize,
    target: T,
}

/// Candidates in the order in which they get their way.
impl<T> Ord for Candidate<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let rank = |one: &Self| (one.end - one.start, Reverse(one.start));
        rank(self).cmp(&rank(other))
    }
}

impl<T> PartialOrd for Candidate<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Candidate<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Candidate<T> {}

/// Candidates by the place that they wait for.
type Waiting<T> = HashMap<usize, Vec<Candidate<T>>>;

/// How many occurrences may wait, for each byte of the text. Only texts that were made for it have more;
/// there the rest stays as it is.
const WAITING_PER_BYTE: usize = 4;

/// One text on its way.
struct Pass<'v, 't, T, J> {
    tree: &'v PrefixTree<T>,
    text: &'t str,
    judge: J,
    /// Start to end and target.
    replaced: BTreeMap<usize, (usize, T)>,
}

impl<'t, T: Copy, J: Fn(Occurrence<'t>, T) -> Verdict> Pass<'_, 't, T, J> {
    /// The longest occurrence of each place, and those that wait.
    fn look(&self) -> (BinaryHeap<Candidate<T>>, Waiting<T>) {
        let (mut found, mut waiting) = (Vec::new(), HashMap::<_, Vec<_>>::new());
        let mut room = self.text.len().saturating_mul(WAITING_PER_BYTE);
        let mut is_word_before = false;
        for (start, byte) in self.text.bytes().enumerate() {
            if !is_word_before && self.tree.has_first(byte) {
                found.extend(self.longest(start, self.text.len(), |candidate, place| {
                    if room > 0 {
                        room -= 1;
                        waiting.entry(place).or_default().push(candidate);
                    }
                }));
            }
            is_word_before = is_word(byte);
        }
        (BinaryHeap::from(found), waiting)
    }

    /// The longest occurrence at `start` that ends before or at `limit`. The others there that depend on
    /// another place are told to `wait`.
    fn longest(
        &self,
        start: usize,
        limit: usize,
        mut wait: impl FnMut(Candidate<T>, usize),
    ) -> Option<Candidate<T>> {
        let rest = self.text.as_bytes().get(start..limit)?;
        let mut longest = None;
        for (length, target) in self.tree.prefixes_of(rest) {
            let candidate = Candidate { start, end: start + length, target };
            let occurrence = Occurrence { text: self.text, start, end: candidate.end };
            match (self.judge)(occurrence, target) {
                Verdict::Replace => longest = Some(candidate),
                Verdict::ReplaceWith(place) => wait(candidate, place),
                Verdict::Keep => {}
            }
        }
        longest
    }

    /// Replaces what of these can be. Where each of them begins.
    fn choose(&mut self, mut candidates: BinaryHeap<Candidate<T>>) -> Vec<usize> {
        let mut places = Vec::new();
        while let Some(candidate) = candidates.pop() {
            let Candidate { start, end, target } = candidate;
            // The last replaced one that begins before the end, or just there.
            match self.replaced.range(..=end).next_back().map(|(at, (to, _))| (*at, *to)) {
                Some((at, _)) if at > start => {
                    // A shorter value may fit before it. The first one that is in the way is at most half
                    // as far as the last was, so this is not done often for one start.
                    let limit = self.replaced.range(start..).next().map_or(at, |(at, _)| *at);
                    candidates.extend(self.longest(start, limit.saturating_sub(1), |_, _| {}));
                }
                Some((_, to)) if to >= start => {}
                _ => {
                    self.replaced.insert(start, (end, target));
                    places.push(start);
                }
            }
        }
        places
    }
}
