//! JSON whose every value keeps the text it was written with.
//!
//! What an edit does not touch must come out as it came in: `1.10`, `1e400` and `"\u00e9"` have no
//! other spelling that all readers would take for the same. So values are never decoded. An object is
//! the list of its members' texts, and only the space between the tokens is made anew.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object, in their order, the same name twice included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Object<'a>(Vec<Member<'a>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Member<'a> {
    name: String,
    /// The name as it is written, with its quotes.
    key: Cow<'a, str>,
    value: Cow<'a, str>,
}

impl<'a> Object<'a> {
    /// `None` when the text is no JSON object.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The text of a member's value. Of members with one name the last counts, as for most readers.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rfind(|member| member.name == name).map(|member| member.value.as_ref())
    }

    /// The text of a member's value, while it is the one that was read.
    pub(super) fn as_read(&self, name: &str) -> Option<&'a str> {
        match self.0.iter().rfind(|member| member.name == name)?.value {
            Cow::Borrowed(text) => Some(text),
            Cow::Owned(_) => None,
        }
    }

    /// The value of a member that is a string.
    pub(super) fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// The value of a member that is a number from 0.
    pub(super) fn unsigned(&self, name: &str) -> Option<u64> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Sets a member. A new one goes before the first that sorts behind it: notebooks are written with
    /// sorted names.
    pub(super) fn set(&mut self, name: &str, value: String) {
        if let Some(member) = self.0.iter_mut().rfind(|member| member.name == name) {
            member.value = value.into();
            return;
        }
        let at = self.0.iter().position(|member| member.name.as_str() > name).unwrap_or(self.0.len());
        self.0.insert(at, Member { name: name.to_owned(), key: quoted(name).into(), value: value.into() });
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|member| member.name != name);
    }

    /// Prints the object. The value of the member that `list` names is that list of objects.
    pub(super) fn print(&self, printer: &mut Printer, list: Option<(&str, &[Object<'_>])>) {
        let replaced = list.and_then(|(name, _)| self.0.iter().rposition(|member| member.name == name));
        printer.push("{");
        for (at, member) in self.0.iter().enumerate() {
            if at > 0 {
                printer.push(",");
            }
            printer.push(&member.key);
            printer.push(":");
            match list {
                Some((_, objects)) if replaced == Some(at) => print_list(printer, objects),
                _ => printer.push(&member.value),
            }
        }
        printer.push("}");
    }
}

fn print_list(printer: &mut Printer, objects: &[Object<'_>]) {
    printer.push("[");
    for (at, object) in objects.iter().enumerate() {
        if at > 0 {
            printer.push(",");
        }
        object.print(printer, None);
    }
    printer.push("]");
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<&'de RawValue, &'de RawValue>()? {
                    let key = key.get();
                    // A name that is no text, half of a character for example, is known by its spelling.
                    let name = serde_json::from_str(key).unwrap_or_else(|_| key.to_owned());
                    members.push(Member { name, key: key.into(), value: value.get().into() });
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// A text as JSON, with nothing escaped that need not be.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Prints JSON with one space of indent for each level, as Jupyter writes it. Nothing but the space
/// between tokens is its own.
pub(super) struct Printer {
    out: String,
    newline: &'static str,
    depth: usize,
    /// The last token opened something, which may turn out to be empty.
    opened: bool,
    limit: usize,
}

impl Printer {
    /// A printer that keeps no more than about `limit` bytes: deep nesting makes much space out of
    /// little text.
    pub(super) fn new(newline: &'static str, limit: usize) -> Self {
        Printer { out: String::new(), newline, depth: 0, opened: false, limit }
    }

    /// Prints the tokens of a piece of valid JSON that ends where a token does.
    pub(super) fn push(&mut self, json: &str) {
        let mut rest = json.trim_ascii_start();
        while let Some((token, after)) = split_token(rest)
            && self.out.len() <= self.limit
        {
            self.token(token);
            rest = after.trim_ascii_start();
        }
    }

    /// The text, unless it has more bytes than the limit.
    pub(super) fn finish(self) -> Option<String> {
        (self.out.len() <= self.limit).then_some(self.out)
    }

    fn token(&mut self, token: &str) {
        let closes = matches!(token, "}" | "]");
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if self.opened != closes {
            self.break_line();
        }
        self.opened = matches!(token, "{" | "[");
        self.out.push_str(token);
        match token {
            "{" | "[" => self.depth += 1,
            "," => self.break_line(),
            ":" => self.out.push(' '),
            _ => {}
        }
    }

    fn break_line(&mut self) {
        self.out.push_str(self.newline);
        self.out.extend(std::iter::repeat_n(' ', self.depth));
    }
}

/// The first token of a valid JSON text that does not start with space, and what follows it.
fn split_token(text: &str) -> Option<(&str, &str)> {
    let length = match text.as_bytes().first()? {
        b'"' => string_length(text.as_bytes()),
        b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
        _ => text.find([',', ']', '}', ':', ' ', '\t', '\n', '\r']).unwrap_or(text.len()),
    };
    text.split_at_checked(length)
}

/// How long the string is that a text starts with, its quotes included.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    loop {
        let found = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest));
        let Some(found) = found else { return text.len() };
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Serialize as _;
    use serde_json::ser::{PrettyFormatter, Serializer};
    use serde_json::{Map, Value, json};

    use super::*;

    fn reprinted(text: &str) -> String {
        let mut printer = Printer::new("\n", 1 << 20);
        Object::parse(text).unwrap().print(&mut printer, None);
        printer.finish().unwrap()
    }

    /// What the library for JSON makes of a value, with the same indent.
    fn by_the_library(value: &Value) -> String {
        let mut out = Vec::new();
        value
            .serialize(&mut Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b" ")))
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    // BUILTIN-98: all other JSON is kept, as it is spelled
    #[test]
    fn spelling_and_order_survive() {
        let text = "{\n \"b\": 1e400,\n \"a\": 1.10,\n \"big\": 123456789012345678901234567890,\n \
                    \"\\u0062\": \"\\u00e9\\ud800é\\/\",\n \"a\": -0.0,\n \"\\ud800\": [],\n \"e\": {}\n}";
        assert_eq!(reprinted(text), text);
        assert_eq!(Object::parse(text).unwrap().get("b"), Some("\"\\u00e9\\ud800é\\/\""));
        assert_eq!(Object::parse(text).unwrap().get("a"), Some("-0.0"), "the last of two");
    }

    #[test]
    fn only_objects_are_objects() {
        for text in ["", "[]", "1", "null", "{", "{} {}", "{\"a\":}", "{\"a\":NaN}", "\u{feff}{}"] {
            assert_eq!(Object::parse(text), None, "{text}");
        }
        assert_eq!(Object::parse(" {} \n"), Some(Object::default()));
    }

    #[test]
    fn members_are_set_in_sorted_places_and_removed() {
        let mut object = Object::parse(r#"{"b":1,"d":2}"#).unwrap();
        object.set("c", "3".into());
        object.set("z", "4".into());
        object.set("b", "5".into());
        object.remove("d");
        object.remove("nothing");
        let mut printer = Printer::new("", 100);
        object.print(&mut printer, Some(("c", &[Object::default(), Object::default()])));
        assert_eq!(printer.finish().unwrap().replace(' ', ""), r#"{"b":5,"c":[{},{}],"z":4}"#);
        assert_eq!((object.unsigned("b"), object.unsigned("x"), object.string("b")), (Some(5), None, None));
    }

    // BUILTIN-98: outputs nest as they like, but not to fill the disk with space
    #[test]
    fn deep_values_are_no_trouble() {
        let deep = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        let again = reprinted(&deep(900));
        assert_eq!(again.split_ascii_whitespace().collect::<String>(), deep(900));
        let within = |text: &str, limit: usize| {
            let mut printer = Printer::new("\n", limit);
            printer.push(text);
            printer.finish()
        };
        assert_eq!(within(&deep(100_000), 1 << 20), None);
        assert_eq!(within("[ 1 ]", 6).as_deref(), Some("[\n 1\n]"));
        assert_eq!(within("[ 1 ]", 5), None);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\\[\\]{}:,\"\\\\ \n]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::vec((any::<String>(), inner), 0..5)
                    .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        // BUILTIN-98
        #[test]
        fn whatever_the_space_was_the_result_is_the_librarys(value in value(), indent in " {0,3}") {
            let value = json!({"value": value});
            let mut spaced = Vec::new();
            let formatter = PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut spaced, formatter)).unwrap();
            let spaced = String::from_utf8(spaced).unwrap();
            let expected = by_the_library(&value);
            prop_assert_eq!(&reprinted(&spaced), &expected);
            prop_assert_eq!(&reprinted(&value.to_string()), &expected);
            prop_assert_eq!(&reprinted(&expected), &expected);
        }

        #[test]
        fn any_text_can_be_quoted(text in any::<String>()) {
            prop_assert_eq!(serde_json::from_str::<String>(&quoted(&text)).unwrap(), text);
        }
    }
}
