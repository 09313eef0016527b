//! Changing strings inside JSON text, so that every other byte stays: numbers keep their digits,
//! members their order, whitespace its place.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// One step from the root of a document to a string in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Member(String),
    Element(usize),
}

/// Where a string stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'p> {
    /// The way from the root; for a member's name the way to its object.
    pub(crate) path: &'p [Step],
    /// Whether it is a member's name.
    pub(crate) is_name: bool,
}

impl Place<'_> {
    /// The member that the string belongs to: its own, or that of the arrays around it.
    pub(crate) fn key(&self) -> Option<&str> {
        self.path.iter().rev().find_map(|step| match step {
            Step::Member(name) => Some(name.as_str()),
            Step::Element(_) => None,
        })
    }

    /// Whether the string stands in a member of the root object, within arrays or not.
    pub(crate) fn is_top_level(&self) -> bool {
        matches!(self.path, [Step::Member(_), rest @ ..] if rest.iter().all(|s| matches!(s, Step::Element(_))))
    }
}

/// The text is not one JSON document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Offers every string of the document to `edit`, in the order in which they stand, names included.
/// The new text, or `None` where nothing changed.
pub(crate) fn rewrite_strings(
    json: &str,
    edit: &mut dyn FnMut(Place<'_>, &str) -> Option<String>,
) -> Result<Option<String>, Malformed> {
    serde_json::from_str::<IgnoredAny>(json).map_err(|_| Malformed)?;
    Ok(Scan { json, at: 0, copied: 0, out: String::new(), path: Vec::new(), in_object: Vec::new() }.run(edit))
}

/// A walk over text that is known to be JSON.
struct Scan<'j> {
    json: &'j str,
    at: usize,
    /// Up to where the text was copied.
    copied: usize,
    out: String,
    /// The place of the next value within each open array or object.
    path: Vec<Step>,
    in_object: Vec<bool>,
}

impl Scan<'_> {
    fn run(mut self, edit: &mut dyn FnMut(Place<'_>, &str) -> Option<String>) -> Option<String> {
        let bytes = self.json.as_bytes();
        // Whether the next string is a member's name.
        let mut is_name = false;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'"' => {
                    let end = literal_end(bytes, self.at);
                    self.string(end, is_name, edit);
                    is_name = false;
                    self.at = end;
                    continue;
                }
                b'{' => {
                    self.in_object.push(true);
                    self.path.push(Step::Member(String::new()));
                    is_name = true;
                }
                b'[' => {
                    self.in_object.push(false);
                    self.path.push(Step::Element(0));
                    is_name = false;
                }
                b'}' | b']' => {
                    self.in_object.pop();
                    self.path.pop();
                    is_name = false;
                }
                b',' => match self.path.last_mut() {
                    Some(Step::Element(place)) => *place += 1,
                    _ => is_name = self.in_object.last() == Some(&true),
                },
                _ => {}
            }
            self.at += 1;
        }
        if self.copied == 0 {
            return None;
        }
        self.out.push_str(self.json.get(self.copied..).unwrap_or_default());
        Some(self.out)
    }

    /// The literal from here to `end`.
    fn string(&mut self, end: usize, is_name: bool, edit: &mut dyn FnMut(Place<'_>, &str) -> Option<String>) {
        let literal = self.json.get(self.at..end).unwrap_or_default();
        let Some(text) = unescaped(literal) else { return };
        let steps = if is_name { self.path.len().saturating_sub(1) } else { self.path.len() };
        let path = self.path.get(..steps).unwrap_or_default();
        let edited = edit(Place { path, is_name }, &text).filter(|edited| *edited != *text);
        if let Some(edited) = &edited {
            self.out.push_str(self.json.get(self.copied..self.at).unwrap_or_default());
            self.out.push_str(&literal_of(edited));
            self.copied = end;
        }
        if is_name && let Some(step) = self.path.last_mut() {
            *step = Step::Member(text.into_owned());
        }
    }
}

/// Where the literal that begins at `start` ends.
fn literal_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// What a literal spells; `None` for half of a surrogate pair, which is no text.
fn unescaped(literal: &str) -> Option<Cow<'_, str>> {
    let inside = literal.get(1..literal.len().checked_sub(1)?)?;
    if !inside.contains('\\') {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str(literal).ok().map(Cow::Owned)
}

/// The literal that spells `text`.
pub(crate) fn literal_of(text: &str) -> String {
    // Text always serialises.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(json: &str) -> Vec<String> {
        let mut seen = Vec::new();
        let unchanged = rewrite_strings(json, &mut |place, text| {
            seen.push(format!("{}{:?}={text}", if place.is_name { "name " } else { "" }, place.key()));
            None
        });
        assert_eq!(unchanged, Ok(None));
        seen
    }

    // CTX-43: an array's elements have its key, a member has its own
    #[test]
    fn strings_are_offered_with_their_keys() {
        assert_eq!(
            seen(r#"{"a":["x",{"b":"y"},[["z"]]],"c":"w"}"#),
            [
                "name None=a",
                r#"Some("a")=x"#,
                r#"name Some("a")=b"#,
                r#"Some("b")=y"#,
                r#"Some("a")=z"#,
                "name None=c",
                r#"Some("c")=w"#
            ]
        );
        assert_eq!(seen(r#""root""#), ["None=root"]);
    }

    // CTX-43: all but the changed string stays as it is spelled
    #[test]
    fn the_rest_keeps_its_bytes() {
        let json = "{ \"n\" : 1.00e400 ,\n\"s\":\"\\u0041\\\"\", \"t\" : \"old\" }";
        let edited = rewrite_strings(json, &mut |_, text| (text == "old").then(|| "n\"ew".to_owned()));
        assert_eq!(
            edited,
            Ok(Some("{ \"n\" : 1.00e400 ,\n\"s\":\"\\u0041\\\"\", \"t\" : \"n\\\"ew\" }".to_owned()))
        );
        assert_eq!(rewrite_strings("{\"a\":", &mut |_, _| None), Err(Malformed));
        assert_eq!(rewrite_strings("{} {}", &mut |_, _| None), Err(Malformed));
    }
}
