//! A tree of byte strings that share their beginnings.

/// The root's place. No node has it as a child, so in [`PrefixTree::first`] it means that there is none.
const ROOT: usize = 0;

/// Byte strings, each with a target. A node's label is what it adds to its parent's string; the labels of
/// siblings begin with different bytes. So all strings that a text begins with lie on one way from the
/// root.
#[derive(Debug)]
pub(super) struct PrefixTree<T> {
    nodes: Vec<Node<T>>,
    /// The text of all labels.
    labels: Vec<u8>,
    /// The root's children by their first byte: 256 places, or none before the first string.
    first: Vec<usize>,
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
        PrefixTree { nodes: Vec::new(), labels: Vec::new(), first: Vec::new() }
    }
}

impl<T: Copy> PrefixTree<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether a string begins with this byte.
    pub(super) fn has_first(&self, byte: u8) -> bool {
        self.first.get(usize::from(byte)).is_some_and(|child| *child != ROOT)
    }

    fn child(&self, at: usize, byte: u8) -> Option<usize> {
        if at == ROOT {
            return self.first.get(usize::from(byte)).copied().filter(|child| *child != ROOT);
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
            self.first = vec![ROOT; 256];
        }
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
            if let Some(place) = self.first.get_mut(usize::from(byte)) {
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

    /// The strings that `text` begins with, shortest first: how long each is, and its target.
    pub(super) fn prefixes_of<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, T)> + 'a {
        let (mut at, mut length) = (ROOT, 0);
        std::iter::from_fn(move || {
            loop {
                let rest = text.get(length..)?;
                let child = self.child(at, *rest.first()?)?;
                let label = self.label(child);
                if !rest.starts_with(label) {
                    return None;
                }
                at = child;
                length += label.len();
                if let Some(target) = self.nodes.get(at).and_then(|node| node.target) {
                    return Some((length, target));
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        // The tree finds what comparing with every string finds, in the order of length.
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
            prop_assert_eq!(tree.prefixes_of(text.as_bytes()).collect::<Vec<_>>(), expected);
        }
    }
}
