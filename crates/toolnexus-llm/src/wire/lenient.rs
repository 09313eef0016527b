//! Reading what providers send, not what they document.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::Usage;

/// A string that borrows from the input where it can. Anything that is no string reads as empty.
#[derive(Debug, Default, Clone)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_unit<E>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_bool<E>(self, _: bool) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_i64<E>(self, _: i64) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_u64<E>(self, _: u64) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_f64<E>(self, _: f64) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text<'de>, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// A count: whole or fractional numbers read as such, anything else as 0.
fn count(value: &serde_json::Value) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    value.as_u64().unwrap_or_else(|| value.as_f64().unwrap_or(0.0) as u64)
}

/// Reads a usage object; missing and odd fields are 0.
pub(super) struct UsageReader(serde_json::Value);

impl UsageReader {
    pub(super) fn new(json: &str) -> Self {
        UsageReader(serde_json::from_str(json).unwrap_or_default())
    }

    pub(super) fn get(&self, path: &[&str]) -> Option<u64> {
        let found = path.iter().try_fold(&self.0, |value, key| value.get(key))?;
        (!found.is_null()).then(|| count(found))
    }

    pub(super) fn openai(&self) -> Usage {
        Usage {
            prompt_tokens: self.get(&["prompt_tokens"]).unwrap_or(0),
            completion_tokens: self.get(&["completion_tokens"]).unwrap_or(0),
            total_tokens: self.get(&["total_tokens"]).unwrap_or(0),
            cache_read_tokens: self.get(&["prompt_tokens_details", "cached_tokens"]).unwrap_or(0),
            cache_write_tokens: 0,
        }
        .with_total()
    }
}
