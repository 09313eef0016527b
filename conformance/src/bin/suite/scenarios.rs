//! The list of scenarios: one a line, `name`, `passes` or `left out`, and why, with tabs between them.

use std::collections::BTreeMap;
use std::path::Path;

/// What is expected of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Passes,
    LeftOut,
}

/// The scenarios by name.
pub(crate) struct Scenarios(BTreeMap<String, Expected>);

impl Scenarios {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        parse(&text).map(Scenarios).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Expected> {
        self.0.get(name).copied()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

fn parse(text: &str) -> Result<BTreeMap<String, Expected>, String> {
    let mut scenarios = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('\t');
        let expected = match (fields.next(), fields.next(), fields.next()) {
            (Some(name), Some("passes"), _) => (name, Expected::Passes),
            (Some(name), Some("left out"), Some(reason)) if !reason.is_empty() => (name, Expected::LeftOut),
            _ => return Err(format!("no scenario: {line:?}")),
        };
        if scenarios.insert(expected.0.to_owned(), expected.1).is_some() {
            return Err(format!("listed twice: {:?}", expected.0));
        }
    }
    Ok(scenarios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_a_reason() {
        let list = parse("ping\tpasses\nsampling\tleft out\tnot built\n").unwrap();
        assert_eq!(list.get("ping"), Some(&Expected::Passes));
        assert_eq!(list.get("sampling"), Some(&Expected::LeftOut));
        for bad in
            ["ping", "ping\tfails", "sampling\tleft out", "sampling\tleft out\t", "a\tpasses\na\tpasses"]
        {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
