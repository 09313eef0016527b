//! Which JSON of foreign origin the rest of the library can work with.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// How deep foreign JSON may be nested.
///
/// serde_json reads 128 levels. A message lies some levels deep in results, events and stores,
/// and what was written there must be readable again.
pub(crate) const MAX_DEPTH: usize = 100;

/// Checks that `json` can be read as a [`Value`], without building one.
///
/// To skip a value, as raw JSON does, is not enough: that lets half surrogates, numbers out of
/// range and any depth pass, and whoever looks into such a message later finds nothing.
pub(crate) fn readable(json: &[u8]) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    Within(MAX_DEPTH).deserialize(&mut reader)?;
    reader.end()
}

/// [`readable`] for text that was skipped over as JSON already.
pub(crate) fn readable_raw(raw: &RawValue) -> Result<(), serde_json::Error> {
    let json = raw.get().as_bytes();
    if plain(json) { Ok(()) } else { readable(json) }
}

/// Whether text that is known to be JSON holds nothing that could make it unreadable: too few
/// brackets to be nested too deep, no surrogate escape, no exponent and no number of that many
/// digits. Most messages are plain, and this look is much cheaper than reading them.
fn plain(json: &[u8]) -> bool {
    let (mut brackets, mut digits, mut before) = (0_usize, 0_usize, 0_u8);
    for byte in json {
        match byte {
            b'[' | b'{' => brackets += 1,
            b'e' | b'E' if before.is_ascii_digit() => return false,
            b'u' if before == b'\\' => return false,
            _ => {}
        }
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        if brackets >= MAX_DEPTH || digits > MAX_DIGITS {
            return false;
        }
        before = *byte;
    }
    true
}

/// More digits than this may be a number out of range.
const MAX_DIGITS: usize = 300;

/// Refuses a value that is nested too deep.
pub(crate) fn not_too_deep(value: &Value) -> Result<(), String> {
    fn fits(value: &Value, levels: usize) -> bool {
        match (value, levels.checked_sub(1)) {
            (Value::Array(items), Some(levels)) => items.iter().all(|item| fits(item, levels)),
            (Value::Object(map), Some(levels)) => map.values().all(|item| fits(item, levels)),
            (Value::Array(_) | Value::Object(_), None) => false,
            _ => true,
        }
    }
    if fits(value, MAX_DEPTH) { Ok(()) } else { Err(too_deep()) }
}

/// How deep text that is known to be JSON is nested.
pub(crate) fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

/// A value of at most so many levels.
struct Within(usize);

impl Within {
    fn inner<E: Error>(&self) -> Result<Within, E> {
        self.0.checked_sub(1).map(Within).ok_or_else(|| E::custom(too_deep()))
    }
}

impl<'de> DeserializeSeed<'de> for Within {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Within {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let inner = self.inner::<A::Error>()?.0;
        while seq.next_element_seed(Within(inner))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inner = self.inner::<A::Error>()?.0;
        // Keys are texts: half a surrogate is refused in them as well.
        while map.next_key_seed(Within(0))?.is_some() {
            map.next_value_seed(Within(inner))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nested(levels: usize) -> String {
        let middle = if levels % 2 == 1 { "[]" } else { "1" };
        format!("{}{middle}{}", r#"[{"a":"#.repeat(levels / 2), "}]".repeat(levels / 2))
    }

    // CLIENT-41: found by fuzzing
    #[test]
    fn what_only_raw_json_accepts_is_refused() {
        for json in
            [r#"{"a":"\ud83d"}"#, r#"{"\udc00":1}"#, "[1e999]", "", "1 2", &nested(101), &"[".repeat(1 << 20)]
        {
            assert!(readable(json.as_bytes()).is_err(), "{}", &json[..json.len().min(40)]);
        }
        for json in [r#""\ud83e\udd80""#, "1e308", " null ", "-1", &nested(99)] {
            readable(json.as_bytes()).unwrap();
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(6, 40, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    // The quick look lets through only what the whole reading does.
    #[test]
    fn the_quick_look_is_never_wrong() {
        for json in [r#"{"a":"\ud83e"}"#, r#"{"a":9e888}"#, r#"[1.5E999]"#] {
            let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
            assert_eq!(readable_raw(&raw).is_ok(), readable(json.as_bytes()).is_ok(), "{json}");
        }
        let long = format!("[{}]", "9".repeat(400));
        let raw: Box<RawValue> = serde_json::from_str(&long).unwrap();
        assert!(readable_raw(&raw).is_err());
    }

    proptest! {
        // CLIENT-41
        #[test]
        fn every_value_of_some_depth_is_readable(value in json()) {
            prop_assert!(readable(value.to_string().as_bytes()).is_ok());
            prop_assert!(not_too_deep(&value).is_ok());
        }

        // CLIENT-41
        #[test]
        fn both_checks_draw_the_line_at_the_same_depth(levels in 90usize..110) {
            let list = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let value: Value = serde_json::from_str(&list).unwrap();
            prop_assert_eq!(not_too_deep(&value).is_ok(), levels <= MAX_DEPTH);
            prop_assert_eq!(readable(list.as_bytes()).is_ok(), levels <= MAX_DEPTH);
        }
    }
}
