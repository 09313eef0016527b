//! JSON text read one level at a time, so that each value is known by its place in the text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A value, and where its text begins in the document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'j> {
    text: &'j str,
    start: usize,
}

impl<'j> Piece<'j> {
    /// The whole document.
    pub(super) fn document(json: &'j str) -> Self {
        let start = json.len() - json.trim_ascii_start().len();
        Piece { text: json.trim_ascii(), start }
    }

    pub(super) fn text(&self) -> &'j str {
        self.text
    }

    pub(super) fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }

    /// What a string spells; `None` for anything else, and for half of a surrogate pair.
    pub(super) fn string(&self) -> Option<Cow<'j, str>> {
        let Borrowed(text) = self.text.starts_with('"').then(|| serde_json::from_str(self.text).ok())??;
        Some(text)
    }

    pub(super) fn is_true(&self) -> bool {
        self.text == "true"
    }

    /// The members of an object, in order, each as often as it stands there; none for anything else.
    pub(super) fn members(&self) -> Vec<(Cow<'j, str>, Piece<'j>)> {
        let read = self.text.starts_with('{').then(|| serde_json::from_str::<Members<'j>>(self.text).ok());
        let members = read.flatten().map(|members| members.0).unwrap_or_default();
        members.into_iter().map(|(Borrowed(name), raw)| (name, self.inner(raw))).collect()
    }

    /// The elements of an array; none for anything else.
    pub(super) fn elements(&self) -> Vec<Piece<'j>> {
        let read = self.text.starts_with('[').then(|| serde_json::from_str::<Elements<'j>>(self.text).ok());
        let elements = read.flatten().map(|elements| elements.0).unwrap_or_default();
        elements.into_iter().map(|raw| self.inner(raw)).collect()
    }

    /// A value within this one: its text is borrowed from here.
    fn inner(&self, raw: &'j RawValue) -> Piece<'j> {
        let text = raw.get();
        let offset = text.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        Piece { text, start: self.start + offset }
    }
}

#[derive(Deserialize)]
struct Borrowed<'j>(#[serde(borrow)] Cow<'j, str>);

struct Members<'j>(Vec<(Borrowed<'j>, &'j RawValue)>);

impl<'j> Deserialize<'j> for Members<'j> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'j> Visitor<'j> for Read {
            type Value = Members<'j>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    members.push(entry);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

struct Elements<'j>(Vec<&'j RawValue>);

impl<'j> Deserialize<'j> for Elements<'j> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'j> Visitor<'j> for Read {
            type Value = Elements<'j>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'j>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element()? {
                    elements.push(element);
                }
                Ok(Elements(elements))
            }
        }
        deserializer.deserialize_seq(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_where_they_stand() {
        let json = " { \"a\" : [ 1.50 , \"x\\u0041\" ] , \"\\u0061\":{\"b\": true} }";
        let root = Piece::document(json);
        let members = root.members();
        let names: Vec<_> = members.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(names, ["a", "a"]);
        let elements = members.first().unwrap().1.elements();
        assert_eq!(elements.iter().map(Piece::text).collect::<Vec<_>>(), ["1.50", "\"x\\u0041\""]);
        assert_eq!(elements.get(1).unwrap().string().as_deref(), Some("xA"));
        for piece in elements.iter().chain(members.iter().map(|(_, piece)| piece)) {
            assert_eq!(json.get(piece.span()), Some(piece.text()));
        }
    }

    #[test]
    fn what_is_something_else_has_no_inside() {
        for json in ["1", "\"{}\"", "null", "[1", "{\"a\"", "", "\"\\ud800\""] {
            let root = Piece::document(json);
            assert!(root.members().is_empty() && root.elements().is_empty(), "{json}");
        }
        assert_eq!(Piece::document("\"\\ud800\"").string(), None);
    }
}
