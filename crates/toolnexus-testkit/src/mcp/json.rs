//! JSON kept as it was written.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// A JSON text that reaches the wire as it was written: key order, spelling of numbers, repeated
/// keys and unknown keywords survive.
///
/// Line breaks between tokens become blanks, since a message is one line on stdio.
///
/// ```
/// use toolnexus_testkit::mcp::RawJson;
///
/// let schema = RawJson::parse(r#"{"type":"object","x-b":1e2,"x-a":1}"#).unwrap();
/// assert_eq!(schema.get(), r#"{"type":"object","x-b":1e2,"x-a":1}"#);
/// assert!(RawJson::parse("{oops").is_err());
/// ```
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Takes a JSON text over verbatim.
    ///
    /// # Errors
    /// When the text is not one JSON value.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        RawValue::from_string(one_line(text)).map(Self)
    }

    /// The JSON text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

/// Line breaks inside a JSON string are always escaped, so those in the text are whitespace.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

impl Default for RawJson {
    /// The JSON value `null`.
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> Self {
        to_raw_value(&value).map(Self).unwrap_or_default()
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RawJson {}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().contains(['\n', '\r']) {
            return Self::parse(raw.get()).map_err(serde::de::Error::custom);
        }
        Ok(Self(raw))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::RawJson;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_spelling_becomes_one_line_of_the_same_value(value in json()) {
            let compact = value.to_string();
            let kept = RawJson::parse(&compact).unwrap();
            prop_assert_eq!(kept.get(), &compact);
            let pretty = RawJson::parse(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
            prop_assert!(!pretty.get().contains('\n'));
            prop_assert_eq!(&serde_json::from_str::<Value>(pretty.get()).unwrap(), &value);
            let again: RawJson = serde_json::from_str(&serde_json::to_string(&pretty).unwrap()).unwrap();
            prop_assert_eq!(again, pretty);
        }
    }
}
