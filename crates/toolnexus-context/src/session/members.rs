//! The members of a JSON object, each with the text of its value: to change one of them and leave all
//! others as they are spelled.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json_text::{Member, literal_of, members, string_value};

/// An object's members in order, also those of one name that is given twice.
pub(super) struct Members<'j> {
    members: Vec<(String, Cow<'j, str>)>,
    is_changed: bool,
}

impl<'j> Members<'j> {
    /// The members of the object that this text is; `None` for anything else.
    pub(super) fn read(json: &'j str) -> Option<Self> {
        let value =
            |member: Member<'j>| Some((member.name.into_owned(), Cow::Borrowed(json.get(member.value)?)));
        let members = members(json)?.into_iter().filter_map(value).collect();
        Some(Members { members, is_changed: false })
    }

    /// The value of the last member of that name, which is the one that counts.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// The text that the member's literal spells.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(string_value)
    }

    pub(super) fn is_text(&self, name: &str, text: &str) -> bool {
        self.text(name).is_some_and(|given| given == text)
    }

    /// Whether there is a text under that name that says something.
    pub(super) fn has_text(&self, name: &str) -> bool {
        self.text(name).is_some_and(|given| !given.is_empty())
    }

    /// Gives every member of that name this value.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        for (_, old) in self.members.iter_mut().filter(|(key, _)| key == name) {
            self.is_changed |= *old != value;
            *old = Cow::Owned(value.to_owned());
        }
    }

    /// Gives the text under that name a new one, if `edit` makes another of it.
    pub(super) fn edit_text(&mut self, name: &str, edit: impl FnOnce(&str) -> String) {
        if let Some(before) = self.text(name) {
            let after = edit(&before);
            if after != before {
                self.set_text(name, &after);
            }
        }
    }

    /// Whether anything was changed since it was read.
    pub(super) const fn is_changed(&self) -> bool {
        self.is_changed
    }

    pub(super) fn set_text(&mut self, name: &str, text: &str) {
        self.set(name, &literal_of(text));
    }

    pub(super) fn remove(&mut self, name: &str) {
        let before = self.members.len();
        self.members.retain(|(key, _)| key != name);
        self.is_changed |= before != self.members.len();
    }

    /// The object as text.
    pub(super) fn to_json(&self) -> String {
        let members = self.members.iter().map(|(key, value)| format!("{}:{value}", literal_of(key)));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }
}

/// The elements of the array that this text is; `None` for anything else.
pub(super) fn elements(json: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn one_member_changes_and_the_rest_keeps_its_spelling() {
        let mut members = Members::read(r#" { "a" : 1.50e3, "b":"x" , "\u0063":[ 1 ], "b":"y"} "#).unwrap();
        assert_eq!((members.get("c"), members.text("b").as_deref()), (Some("[ 1 ]"), Some("y")));
        members.set_text("b", "\"");
        assert_eq!(members.to_json(), r#"{"a":1.50e3,"b":"\"","c":[ 1 ],"b":"\""}"#);
        members.remove("b");
        assert_eq!(members.to_json(), r#"{"a":1.50e3,"c":[ 1 ]}"#);
        assert!(Members::read("[1]").is_none() && Members::read("{").is_none());
        assert_eq!(elements("[1, {\"a\" :2}]"), Some(vec!["1", "{\"a\" :2}"]));
        assert_eq!(
            (elements("{}"), string_value("1"), string_value("\"\\u0041\"")),
            (None, None, Some("A".into()))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // What is read and written again is the same value
        #[test]
        fn an_object_comes_back(map in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..5)) {
            let value = Value::Object(map.into_iter().map(|(key, text)| (key, Value::from(text))).collect());
            let json = value.to_string();
            prop_assert_eq!(Members::read(&json).unwrap().to_json(), json);
        }
    }
}
