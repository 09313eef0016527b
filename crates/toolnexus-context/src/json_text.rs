//! Changing strings inside JSON text, so that every other byte stays: numbers keep their digits,
//! members their order, whitespace its place.

use std::borrow::Cow;
use std::ops::Range;

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
    /// The step of `path` that names the nearest member.
    member: Option<usize>,
    /// How many of the values around it are members.
    members: usize,
}

impl<'p> Place<'p> {
    /// The member that the string belongs to: its own, or that of the arrays around it.
    pub(crate) fn key(&self) -> Option<&'p str> {
        match self.path.get(self.member?)? {
            Step::Member(name) => Some(name),
            Step::Element(_) => None,
        }
    }

    /// Whether the string stands in a member of the root object, within arrays or not.
    pub(crate) fn is_top_level(&self) -> bool {
        self.members == 1 && matches!(self.path, [Step::Member(_), ..])
    }
}

/// The text is not one JSON document, or holds half a surrogate pair, which is no text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Offers every string of the document to `edit`, in the order in which they stand, names included.
/// The new text, or `None` where nothing changed. A malformed document is not offered at all.
pub(crate) fn rewrite_strings(
    json: &str,
    edit: &mut dyn FnMut(Place<'_>, &str) -> Option<String>,
) -> Result<Option<String>, Malformed> {
    check(json)?;
    Ok(Scan { json, at: 0, copied: 0, out: String::new(), path: Vec::new(), open: Vec::new() }.run(edit))
}

/// A member of the root object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member<'j> {
    pub(crate) name: Cow<'j, str>,
    /// Where its value stands.
    pub(crate) value: Range<usize>,
}

/// The members of the object that the whole text is, in the order in which they stand, repeated ones
/// included; `None` for anything else.
pub(crate) fn members(json: &str) -> Option<Vec<Member<'_>>> {
    if !is_object(json) || check(json).is_err() {
        return None;
    }
    let bytes = json.as_bytes();
    let (mut members, mut name, mut value, mut depth, mut at) = (Vec::new(), None, 0, 0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = literal_end(bytes, at);
                if depth == 1 && name.is_none() {
                    name = json.get(at..end).and_then(unescaped);
                }
                at = end;
                continue;
            }
            b':' if depth == 1 => value = at + 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' => {
                if depth == 1
                    && let Some(name) = name.take()
                {
                    members.push(Member { name, value: trimmed(json, value..at) });
                }
                depth -= usize::from(*byte != b',');
            }
            _ => {}
        }
        at += 1;
    }
    Some(members)
}

/// Whether the text can be an object: it begins like one.
pub(crate) fn is_object(json: &str) -> bool {
    json.trim_start_matches(WHITESPACE).starts_with('{')
}

/// What JSON takes for whitespace.
pub(crate) const WHITESPACE: [char; 4] = [' ', '\n', '\r', '\t'];

fn trimmed(json: &str, range: Range<usize>) -> Range<usize> {
    let text = json.get(range.clone()).unwrap_or_default();
    let end = range.start + text.trim_end_matches(WHITESPACE).len();
    end - text.trim_matches(WHITESPACE).len()..end
}

/// The text with these parts of it replaced, which are given in order and do not overlap.
pub(crate) fn spliced(json: &str, parts: &[(Range<usize>, String)]) -> String {
    let mut out = String::with_capacity(json.len());
    let mut copied = 0;
    for (range, part) in parts {
        out.push_str(json.get(copied..range.start).unwrap_or_default());
        out.push_str(part);
        copied = range.end;
    }
    out.push_str(json.get(copied..).unwrap_or_default());
    out
}

/// The grammar is checked without recursion, so any depth will do.
fn check(json: &str) -> Result<(), Malformed> {
    serde_json::from_str::<IgnoredAny>(json).map_err(|_| Malformed)?;
    let bytes = json.as_bytes();
    if memchr::memmem::find(bytes, b"\\u").is_none() {
        return Ok(());
    }
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'"', bytes.get(at..).unwrap_or_default()) {
        let end = literal_end(bytes, at + found);
        json.get(at + found..end).and_then(unescaped).ok_or(Malformed)?;
        at = end;
    }
    Ok(())
}

/// An array or object around the place that is looked at.
struct Open {
    is_object: bool,
    /// The nearest step, from here outwards, that names a member.
    member: Option<usize>,
    /// How many there are.
    members: usize,
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
    /// As long as `path`.
    open: Vec<Open>,
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
                b'{' | b'[' => {
                    is_name = *byte == b'{';
                    self.enter(is_name);
                }
                b'}' | b']' => {
                    self.open.pop();
                    self.path.pop();
                    is_name = false;
                }
                b',' => match self.path.last_mut() {
                    Some(Step::Element(place)) => *place += 1,
                    _ => is_name = self.open.last().is_some_and(|open| open.is_object),
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

    fn enter(&mut self, is_object: bool) {
        let (member, members) = self.open.last().map_or((None, 0), |open| (open.member, open.members));
        if is_object {
            self.open.push(Open { is_object, member: Some(self.path.len()), members: members + 1 });
            self.path.push(Step::Member(String::new()));
        } else {
            self.open.push(Open { is_object, member, members });
            self.path.push(Step::Element(0));
        }
    }

    /// The literal from here to `end`.
    fn string(&mut self, end: usize, is_name: bool, edit: &mut dyn FnMut(Place<'_>, &str) -> Option<String>) {
        let literal = self.json.get(self.at..end).unwrap_or_default();
        let Some(text) = unescaped(literal) else { return };
        let steps = self.path.len().saturating_sub(usize::from(is_name));
        let path = self.path.get(..steps).unwrap_or_default();
        let around = steps.checked_sub(1).and_then(|last| self.open.get(last));
        let (member, members) = around.map_or((None, 0), |open| (open.member, open.members));
        let edited = edit(Place { path, is_name, member, members }, &text).filter(|edited| *edited != *text);
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
pub(crate) fn unescaped(literal: &str) -> Option<Cow<'_, str>> {
    let inside = literal.get(1..literal.len().checked_sub(1)?)?;
    if !inside.contains('\\') {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str(literal).ok().map(Cow::Owned)
}

/// What a JSON value that is a string spells; `None` for any other.
pub(crate) fn string_value(json: &str) -> Option<String> {
    if json.starts_with('"') { unescaped(json).map(Cow::into_owned) } else { None }
}

/// The literal that spells `text`.
pub(crate) fn literal_of(text: &str) -> String {
    // Text always serialises.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    // CTX-90: what stands in arrays of a root member is top-level, what stands in an object below is not
    #[test]
    fn top_level_is_a_member_of_the_root() {
        let mut top = Vec::new();
        let json = r#"{"a":"1","b":["2",["3",{"c":"4"}]],"d":{"e":"5"},"f":"6"}"#;
        let unchanged = rewrite_strings(json, &mut |place, text| {
            if !place.is_name && place.is_top_level() {
                top.push(text.to_owned());
            }
            None
        });
        assert_eq!((unchanged, top.join("")), (Ok(None), "1236".to_owned()));
        rewrite_strings(r#"[{"a":"x"},"y"]"#, &mut |place, _| {
            assert!(!place.is_top_level());
            None
        })
        .unwrap();
    }

    // CTX-43: half a surrogate pair is no text, so the document is none; a whole one is
    #[test]
    fn half_a_surrogate_pair_is_malformed() {
        for half in [r#"{"a":"\ud800"}"#, r#"{"\udc00":"x"}"#, r#"{"a":["b","\ud800\u0041"]}"#] {
            let seen = rewrite_strings(half, &mut |_, _| panic!("offered"));
            assert_eq!(seen, Err(Malformed), "{half}");
            assert_eq!(members(half), None, "{half}");
        }
        assert_eq!(seen(r#"{"a":"\ud83d\ude00"}"#), ["name None=a", "Some(\"a\")=😀"]);
    }

    // CTX-43: depth, repeated members and numbers without end are no obstacle
    #[test]
    fn hostile_documents_are_walked() {
        let deep = format!("{}{}{}", "[".repeat(200_000), r#""x""#, "]".repeat(200_000));
        let edited = rewrite_strings(&deep, &mut |_, _| Some("y".to_owned())).unwrap().unwrap();
        assert_eq!(edited, deep.replace('x', "y"));
        let many =
            format!(r#"{{"k":{}"a"{}{}}}"#, "[".repeat(50_000), r#","a""#.repeat(50_000), "]".repeat(50_000));
        let mut count = 0;
        let unchanged = rewrite_strings(&many, &mut |place, _| {
            count += usize::from(place.key() == Some("k") && place.is_top_level());
            None
        });
        assert_eq!((unchanged, count), (Ok(None), 50_001));
        assert_eq!(seen(r#"{"a":"1","a":"2"}"#).len(), 4);
        let number = format!(r#"{{"n":{}e{},"s":"x"}}"#, "9".repeat(1000), "9".repeat(50));
        let edited = rewrite_strings(&number, &mut |_, text| (text == "x").then(|| "y".to_owned()));
        assert_eq!(edited, Ok(Some(number.replace('x', "y"))));
    }

    #[test]
    fn members_of_the_root_are_found_where_they_stand() {
        let json = " { \"a\\u0062\" : [1, {\"x\":\"},\"}] , \"c\":\"d:,e\",\"c\": {} } ";
        let found = members(json).unwrap();
        let found: Vec<_> = found.iter().map(|m| (&*m.name, json.get(m.value.clone()).unwrap())).collect();
        assert_eq!(found, [("ab", "[1, {\"x\":\"},\"}]"), ("c", "\"d:,e\""), ("c", "{}")]);
        assert_eq!(members("{}"), Some(Vec::new()));
        for other in ["", "[]", "null", "{} {}", "{\"a\":", "\"{}\"", "{\"a\" 1}"] {
            assert_eq!(members(other), None, "{other}");
        }
    }

    /// JSON text with whitespace, escapes and numbers as nobody would write them.
    fn any_json() -> impl Strategy<Value = String> {
        let space = || prop::sample::select(vec!["", " ", "\n", "\t ", " \r\n"]);
        let string = prop::collection::vec(
            prop::sample::select(vec![
                "a",
                "old",
                "\\\"",
                "\\\\",
                "\\u0041",
                "\\ud83d\\ude00",
                "é",
                "中",
                "\\n",
                "{",
                "]",
                ":",
                ",",
                "/",
            ]),
            0..6,
        )
        .prop_map(|parts| format!("\"{}\"", parts.concat()));
        let number = prop::sample::select(vec![
            "0",
            "-0",
            "1.00",
            "1e400",
            "123456789012345678901234567890",
            "true",
            "null",
        ]);
        let leaf = prop_oneof![string.clone(), number.prop_map(str::to_owned)];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            let string = string.clone();
            prop_oneof![
                (prop::collection::vec(inner.clone(), 0..5), space()).prop_map(|(items, space)| format!(
                    "[{space}{}{space}]",
                    items.join(&format!("{space},"))
                )),
                (prop::collection::vec((string, inner), 0..5), space()).prop_map(|(items, space)| {
                    let items: Vec<_> = items.iter().map(|(k, v)| format!("{k}{space}:{space}{v}")).collect();
                    format!("{{{space}{}{space}}}", items.join(&format!("{space},{space}")))
                }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        // CTX-43: what is not edited keeps its bytes; what is edited reads as the edited document
        #[test]
        fn edits_touch_nothing_else(json in any_json()) {
            prop_assert_eq!(rewrite_strings(&json, &mut |_, _| None), Ok(None));
            prop_assert_eq!(rewrite_strings(&json, &mut |_, text| Some(text.to_owned())), Ok(None));
            let edit = |text: &str| text.replace("old", "n\"e\\w");
            let edited = rewrite_strings(&json, &mut |_, text| Some(edit(text))).unwrap();
            let back = |text: &str| text.replace("n\"e\\w", "old");
            if let Some(edited) = &edited {
                // Literals that were not edited are spelled as before, so only the edited need escapes.
                let restored = rewrite_strings(edited, &mut |_, text| Some(back(text))).unwrap().unwrap();
                let values = [&json, &restored].map(|json| serde_json::from_str::<serde_json::Value>(json).ok());
                prop_assert_eq!(&values[0], &values[1]);
                let bare = |json: &str| -> String { json.chars().filter(|c| "[]{},:".contains(*c)).collect() };
                prop_assert_eq!(bare(&json), bare(edited));
            } else {
                prop_assert!(!json.contains("old"));
            }
        }

        #[test]
        fn members_are_those_of_the_document(json in any_json()) {
            let object: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&json).ok();
            if let Some(object) = object {
                let mut read = serde_json::Map::new();
                for member in members(&json).unwrap() {
                    read.insert(member.name.into_owned(), serde_json::from_str(&json[member.value]).unwrap());
                }
                prop_assert_eq!(read, object);
            } else if !json.starts_with('{') {
                prop_assert_eq!(members(&json), None);
            }
        }

        #[test]
        fn no_text_is_too_strange(text in ".*") {
            let _ = rewrite_strings(&text, &mut |_, text| Some(format!("{text}!")));
            let _ = members(&text);
        }
    }
}
