//! Which of a server's tools are taken.

use std::collections::{BTreeMap, HashSet};

/// A server's `tools` map, ready to be asked.
pub(crate) struct ToolFilter<'a> {
    map: &'a BTreeMap<String, bool>,
    allowlist: bool,
}

impl<'a> ToolFilter<'a> {
    pub(crate) fn new(map: &'a BTreeMap<String, bool>) -> Self {
        ToolFilter { map, allowlist: map.values().any(|wanted| *wanted) }
    }

    /// Whether the tool of this original name is taken.
    pub(crate) fn takes(&self, name: &str) -> bool {
        match self.map.get(name) {
            Some(wanted) => *wanted,
            None => !self.allowlist,
        }
    }

    /// The names in the map that the server does not list, sorted.
    pub(crate) fn unmatched<'n>(&self, listed: impl Iterator<Item = &'n str>) -> Vec<String> {
        let listed: HashSet<&str> = listed.collect();
        self.map.keys().filter(|name| !listed.contains(name.as_str())).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(map: &[(&str, bool)]) -> Vec<&'static str> {
        let map = map.iter().map(|(name, wanted)| ((*name).to_owned(), *wanted)).collect();
        let filter = ToolFilter::new(&map);
        ["a", "b", "c"].into_iter().filter(|name| filter.takes(name)).collect()
    }

    // MCP-28, MCP-30, cases 21 to 26
    #[test]
    fn one_true_makes_an_allowlist_and_false_alone_drops() {
        assert_eq!(taken(&[]), ["a", "b", "c"]);
        assert_eq!(taken(&[("a", true), ("b", true)]), ["a", "b"]);
        assert_eq!(taken(&[("c", false)]), ["a", "b"]);
        assert_eq!(taken(&[("a", true), ("b", false)]), ["a"]);
        assert_eq!(taken(&[("a", true), ("nope", true)]), ["a"]);
        assert!(taken(&[("srv_a", true)]).is_empty());
        assert!(taken(&[("A", true)]).is_empty());
    }

    // MCP-29, MCP-66
    #[test]
    fn names_that_match_nothing_are_told() {
        let map = [("zz".to_owned(), true), ("a".to_owned(), true), ("bb".to_owned(), false)].into();
        assert_eq!(ToolFilter::new(&map).unmatched(["a", "b"].into_iter()), ["bb", "zz"]);
    }
}
