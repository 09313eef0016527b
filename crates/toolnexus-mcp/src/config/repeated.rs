//! Keys that a document gives twice where the last one must not simply win.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The path of the first key that is given twice at or below the top-level key `section`.
pub(super) fn repeated_key(text: &str, section: &str) -> Option<String> {
    let mut found = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // The text was read before, so an error is none here.
    drop(
        Level { path: String::new(), only: Some(section), found: &mut found }.deserialize(&mut deserializer),
    );
    found
}

/// A value whose members are looked at.
struct Level<'l> {
    /// The value's path; empty for the document.
    path: String,
    /// The one member that matters.
    only: Option<&'l str>,
    found: &'l mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if self.only.is_some_and(|only| only != key) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            if !seen.insert(key) {
                self.found.get_or_insert_with(|| path.clone());
            }
            map.next_value_seed(Level { path, only: None, found: &mut *self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Level { path, found, .. } = self;
        while list.next_element_seed(Level { path: path.clone(), only: None, found })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // BUILTIN-9: what is given twice is found at any depth of the section, and nowhere else
    #[test]
    fn the_first_repeated_key_is_named() {
        for (text, expected) in [
            (r#"{"builtins":{"tools":{"bash":false},"tools":{}}}"#, Some("builtins.tools")),
            (r#"{"builtins":{"tools":{"bash":false,"b\u0061sh":true}}}"#, Some("builtins.tools.bash")),
            (r#"{"builtins":false,"x":1,"builtins":true}"#, Some("builtins")),
            (r#"{"builtins":{"shell":["a",{"b":1,"b":2}]}}"#, Some("builtins.shell.b")),
            (r#"{"mcpServers":{"a":{},"a":{}},"builtins":{"tools":{"a":1.5,"b":null,"c":-1}}}"#, None),
            (r#"["builtins","builtins"]"#, None),
        ] {
            assert_eq!(repeated_key(text, "builtins").as_deref(), expected, "{text}");
        }
    }
}
