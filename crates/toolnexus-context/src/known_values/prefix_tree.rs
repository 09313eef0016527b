//! A tree of byte strings that share their beginnings.

/// The root's place. No node has it as a child, so among the children in [`Start`] it means that there is none.
const ROOT: usize = 0;

/// Byte strings, each with a target. A node's label is what it adds to its parent's string; the labels of
/// siblings begin with different bytes. So all strings that a text begins with lie on one way from the
/// root.
#[derive(Debug)]
pub(super) struct PrefixTree<T> {
    nodes: Vec<Node<T>>,
    /// The text of all labels.
    labels: Vec<u8>,
    /// `None` before the first string.
    start: Option<Box<Start>>,
}

/// What strings begin with.
#[derive(Debug)]
struct Start {
    /// The root's children by their first byte.
    children: [usize; 256],
    /// A bit for each pair of bytes that a string begins with; of a string of one byte all pairs. Most
    /// places in a text are passed over by it alone.
    pairs: [u64; 1024],
}

impl Start {
    fn bit_of(first: u8, second: u8) -> (usize, u64) {
        let pair = usize::from(u16::from_be_bytes([first, second]));
        (pair / 64, 1 << (pair % 64))
    }

    fn add(&mut self, string: &[u8]) {
        let seconds = match string {
            [_, second, ..] => *second..=*second,
            _ => 0..=u8::MAX,
        };
        for (first, second) in
            string.first().into_iter().flat_map(|first| seconds.clone().map(|s| (*first, s)))
        {
            let (place, bit) = Start::bit_of(first, second);
            if let Some(word) = self.pairs.get_mut(place) {
                *word |= bit;
            }
        }
    }

    fn has(&self, first: u8, second: u8) -> bool {
        let (place, bit) = Start::bit_of(first, second);
        self.pairs.get(place).is_some_and(|word| word & bit != 0)
    }
}

#[derive(Debug)]
struct Node<T> {
    /// Where its label stands.
    label: (usize, usize),
    /// The first bytes of the children's labels, in the order of `children`.
    keys: Vec<u8>,
    children: Vec<usize>,
    target: Option<T>,
}

impl<T> Default for PrefixTree<T> {
    fn default() -> Self {
        PrefixTree { nodes: Vec::new(), labels: Vec::new(), start: None }
    }
}

impl<T: Copy> PrefixTree<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Calls `visit` with the places of a text where a string may begin; not all of them are.
    pub(super) fn for_each_beginning(&self, text: &[u8], mut visit: impl FnMut(usize)) {
        let Some(start) = self.start.as_deref() else { return };
        for (at, pair) in text.windows(2).enumerate() {
            if let [first, second] = pair
                && start.has(*first, *second)
            {
                visit(at);
            }
        }
        if let Some((last, _)) = text.split_last()
            && start.has(*last, 0)
        {
            visit(text.len() - 1);
        }
    }

    fn child(&self, at: usize, byte: u8) -> Option<usize> {
        if at == ROOT {
            let child = self.start.as_ref()?.children.get(usize::from(byte))?;
            return (*child != ROOT).then_some(*child);
        }
        let node = self.nodes.get(at)?;
        let place = match node.keys.as_slice() {
            [only] => (*only == byte).then_some(0)?,
            keys => memchr::memchr(byte, keys)?,
        };
        node.children.get(place).copied()
    }

    fn label(&self, at: usize) -> &[u8] {
        let range = self.nodes.get(at).map(|node| node.label.0..node.label.1);
        range.and_then(|range| self.labels.get(range)).unwrap_or_default()
    }

    /// Adds a string that is not empty. One that is there already keeps its target.
    pub(super) fn insert(&mut self, string: &[u8], target: T) {
        if self.is_empty() {
            self.push((0, 0), None);
        }
        let start = || Box::new(Start { children: [ROOT; 256], pairs: [0; 1024] });
        self.start.get_or_insert_with(start).add(string);
        let (mut at, mut rest) = (ROOT, string);
        while let Some(byte) = rest.first() {
            let Some(child) = self.child(at, *byte) else {
                let start = self.labels.len();
                self.labels.extend_from_slice(rest);
                let leaf = self.push((start, self.labels.len()), Some(target));
                self.attach(at, *byte, leaf);
                return;
            };
            let label = self.label(child);
            let common = label.iter().zip(rest).take_while(|(ours, theirs)| ours == theirs).count();
            if common < label.len() {
                self.split(child, common);
            }
            rest = rest.get(common..).unwrap_or_default();
            at = child;
        }
        if at != ROOT
            && let Some(node) = self.nodes.get_mut(at)
        {
            node.target.get_or_insert(target);
        }
    }

    fn push(&mut self, label: (usize, usize), target: Option<T>) -> usize {
        self.nodes.push(Node { label, keys: Vec::new(), children: Vec::new(), target });
        self.nodes.len() - 1
    }

    fn attach(&mut self, parent: usize, byte: u8, child: usize) {
        if parent == ROOT {
            let children = self.start.as_mut().map(|start| &mut start.children);
            if let Some(place) = children.and_then(|children| children.get_mut(usize::from(byte))) {
                *place = child;
            }
        } else if let Some(parent) = self.nodes.get_mut(parent) {
            parent.keys.push(byte);
            parent.children.push(child);
        }
    }

    /// Cuts a node's label after `length` bytes; the rest of it becomes a child.
    fn split(&mut self, at: usize, length: usize) {
        let lower = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else { return };
        let middle = node.label.0 + length;
        let Some(byte) = self.labels.get(middle) else { return };
        let rest = Node {
            label: (middle, node.label.1),
            keys: std::mem::replace(&mut node.keys, vec![*byte]),
            children: std::mem::replace(&mut node.children, vec![lower]),
            target: node.target.take(),
        };
        node.label.1 = middle;
        self.nodes.push(rest);
    }

    /// Adds the strings that `text` begins with to `found`, shortest first: how long each is, and its
    /// target. How much work it was.
    pub(super) fn prefixes_of(&self, text: &[u8], found: &mut Vec<(usize, T)>) -> usize {
        let (mut at, mut length, mut work) = (ROOT, 0, 1);
        while let Some(rest) = text.get(length..)
            && let Some(child) = rest.first().and_then(|byte| self.child(at, *byte))
            && let label = self.label(child)
            && let Some(rest) = rest.get(..label.len())
        {
            // Comparing costs, also where the difference comes late.
            let same = same_blocks(label, rest);
            work += 1 + same;
            if same < label.len().div_ceil(BYTES_PER_WORK) {
                break;
            }
            at = child;
            length += label.len();
            found.extend(self.nodes.get(at).and_then(|node| node.target).map(|target| (length, target)));
        }
        work
    }
}

/// How many bytes are compared in the time that a step to a child takes.
const BYTES_PER_WORK: usize = 64;

/// How many blocks of that many bytes are the same, before the first that is not.
fn same_blocks(one: &[u8], other: &[u8]) -> usize {
    if one.len() <= BYTES_PER_WORK {
        // Most are this short, and need no going over blocks.
        return usize::from(one == other);
    }
    let blocks = one.chunks(BYTES_PER_WORK).zip(other.chunks(BYTES_PER_WORK));
    blocks.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    // Looking is paid for where it finds nothing: a text may differ from a long value at its end alone
    #[test]
    fn a_late_difference_is_work() {
        let mut tree = PrefixTree::default();
        tree.insert(&[b'%'; 64_000], ());
        let mut found = Vec::new();
        let mut text = [b'%'; 64_000];
        let equal = tree.prefixes_of(&text, &mut found);
        text[63_999] = b'-';
        assert_eq!((found.len(), equal, tree.prefixes_of(&text, &mut found)), (1, 1002, 1001));
        assert_eq!((found.len(), tree.prefixes_of(b"%-", &mut found)), (1, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        // The tree finds what comparing with every string finds, in the order of length, and passes over
        // no place where one begins.
        #[test]
        fn all_strings_that_a_text_begins_with_are_found(
            strings in proptest::collection::vec("[ab]{1,6}|[a-c-é]{1,4}", 0..40),
            text in "[ab]{0,8}|[a-c-é]{0,6}",
        ) {
            let mut tree = PrefixTree::default();
            let mut expected = HashMap::new();
            for (target, string) in strings.iter().enumerate() {
                tree.insert(string.as_bytes(), target);
                expected.entry(string.as_str()).or_insert(target);
            }
            let mut expected: Vec<_> = expected
                .into_iter()
                .filter(|(string, _)| text.starts_with(string))
                .map(|(string, target)| (string.len(), target))
                .collect();
            expected.sort_unstable();
            let mut found = Vec::new();
            tree.prefixes_of(text.as_bytes(), &mut found);
            prop_assert_eq!(found, expected);
            let mut beginnings = Vec::new();
            tree.for_each_beginning(text.as_bytes(), |at| beginnings.push(at));
            for (at, _) in text.char_indices() {
                let is_beginning = strings.iter().any(|string| text[at..].starts_with(string));
                prop_assert!(!is_beginning || beginnings.contains(&at));
            }
        }
    }
}
