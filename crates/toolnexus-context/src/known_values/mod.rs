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

use crate::syntax::is_free_left;
use prefix_tree::PrefixTree;

/// Values to be found in text, each with what it stands for.
///
/// Adding one costs its length. Looking through a text costs its length, and where values are met, theirs,
/// within bounds that only texts made for it reach.
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
        let mut pass = Pass::new(&self.tree, text, judge);
        let mut replaced = pass.first_round();
        if !pass.waiting.is_empty() {
            replaced = pass.later_rounds(replaced);
        }
        if replaced.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for Candidate { start, end, target } in replaced {
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

/// How many occurrences may wait, for each byte of the text. Only texts that were made for it have more;
/// there the rest stays as it is.
const WAITING_PER_BYTE: usize = 4;

/// How much looking a text is worth, for each byte of it and in any case. Real texts need a tenth. A text
/// made of the beginnings of long nested values would need the square of its length; there what is behind
/// stays as it is, which is only longer.
const EFFORT_PER_BYTE: usize = 32;
const LEAST_EFFORT: usize = 1 << 16;

/// One text on its way.
struct Pass<'v, 't, T, J> {
    tree: &'v PrefixTree<T>,
    text: &'t str,
    judge: J,
    /// What was replaced where this round looks: start to end and target.
    replaced: BTreeMap<usize, (usize, T)>,
    /// Candidates by the place that they wait for.
    waiting: HashMap<usize, Vec<Candidate<T>>>,
    /// How many more may wait.
    room: usize,
    /// How much looking is left.
    effort: usize,
    /// The occurrences of one place, kept for their memory.
    occurrences: Vec<(usize, T)>,
}

impl<'v, 't, T: Copy, J: Fn(Occurrence<'t>, T) -> Verdict> Pass<'v, 't, T, J> {
    fn new(tree: &'v PrefixTree<T>, text: &'t str, judge: J) -> Self {
        Pass {
            tree,
            text,
            judge,
            replaced: BTreeMap::new(),
            waiting: HashMap::new(),
            room: text.len().saturating_mul(WAITING_PER_BYTE),
            effort: text.len().saturating_mul(EFFORT_PER_BYTE).saturating_add(LEAST_EFFORT),
            occurrences: Vec::new(),
        }
    }

    /// Replaces what waits for nothing, in the order of the text. Candidates that do not touch each other
    /// do not matter to each other either; most stand alone.
    fn first_round(&mut self) -> Vec<Candidate<T>> {
        let bytes = self.text.as_bytes();
        let (mut replaced, mut group, mut reached) = (Vec::new(), Vec::new(), 0);
        self.tree.for_each_beginning(bytes, |start| {
            if !is_free_left(self.text, start) {
                return;
            }
            let Some(candidate) = self.longest(start, bytes.len()) else { return };
            if start > reached {
                self.settle(&mut group, &mut replaced);
            }
            reached = reached.max(candidate.end);
            group.push(candidate);
        });
        self.settle(&mut group, &mut replaced);
        replaced
    }

    /// Replaces what it can of candidates that touch.
    fn settle(&mut self, group: &mut Vec<Candidate<T>>, replaced: &mut Vec<Candidate<T>>) {
        if group.len() > 1 {
            self.choose(group.drain(..).collect());
            replaced.extend(candidates_of(std::mem::take(&mut self.replaced)));
        } else {
            replaced.append(group);
        }
    }

    /// Replaces what waited for something that was replaced, until there is nothing more.
    fn later_rounds(&mut self, replaced: Vec<Candidate<T>>) -> Vec<Candidate<T>> {
        let mut places: Vec<_> = replaced.iter().map(|candidate| candidate.start).collect();
        self.replaced = replaced.into_iter().map(|found| (found.start, (found.end, found.target))).collect();
        while !places.is_empty() {
            let freed = places.iter().filter_map(|place| self.waiting.remove(place)).flatten().collect();
            places = self.choose(freed);
        }
        candidates_of(std::mem::take(&mut self.replaced)).collect()
    }

    /// The longest occurrence at `start` that ends before or at `limit` and may be replaced. Longer ones
    /// that depend on a place that is not replaced yet wait for it.
    fn longest(&mut self, start: usize, limit: usize) -> Option<Candidate<T>> {
        let rest = self.text.as_bytes().get(start..limit).filter(|_| self.effort > 0)?;
        self.occurrences.clear();
        let work = self.tree.prefixes_of(rest, &mut self.occurrences);
        self.effort = self.effort.saturating_sub(work);
        while let Some((length, target)) = self.occurrences.pop() {
            let candidate = Candidate { start, end: start + length, target };
            match (self.judge)(Occurrence { text: self.text, start, end: candidate.end }, target) {
                Verdict::Replace => return Some(candidate),
                Verdict::Keep => {}
                Verdict::ReplaceWith(place) if self.replaced.contains_key(&place) => return Some(candidate),
                Verdict::ReplaceWith(place) => {
                    if let Some(room) = self.room.checked_sub(1) {
                        self.room = room;
                        self.waiting.entry(place).or_default().push(candidate);
                    }
                }
            }
        }
        None
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
                    candidates.extend(self.longest(start, limit.saturating_sub(1)));
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

fn candidates_of<T>(replaced: BTreeMap<usize, (usize, T)>) -> impl Iterator<Item = Candidate<T>> {
    replaced.into_iter().map(|(start, (end, target))| Candidate { start, end, target })
}
