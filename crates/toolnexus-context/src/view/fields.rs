//! Reading the rows of structured results. They are loosely typed: what is missing or of another type is
//! blank.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// One object of structured data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'v>(pub(super) &'v Map<String, Value>);

impl<'v> Fields<'v> {
    /// The objects of the array in this field.
    pub(super) fn rows(self, field: &str) -> impl Iterator<Item = Fields<'v>> + use<'v> {
        self.values(field).filter_map(Value::as_object).map(Fields)
    }

    /// The texts of the array in this field, without blank ones.
    pub(super) fn texts(self, field: &str) -> impl Iterator<Item = Cow<'v, str>> + use<'v> {
        self.values(field).filter_map(text_of)
    }

    fn values(self, field: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
        self.0.get(field).and_then(Value::as_array).into_iter().flatten()
    }

    /// The first of these fields that is not blank; empty if all are.
    pub(super) fn text(self, fields: &[&str]) -> Cow<'v, str> {
        fields.iter().find_map(|field| self.0.get(*field).and_then(text_of)).unwrap_or_default()
    }

    /// The first of these fields, but an object or array as its JSON.
    pub(super) fn text_or_json(self, field: &str) -> Cow<'v, str> {
        match self.0.get(field) {
            Some(value @ (Value::Object(_) | Value::Array(_))) => Cow::Owned(value.to_string()),
            _ => self.text(&[field]),
        }
    }

    /// A whole number that is not negative.
    pub(super) fn number(self, fields: &[&str]) -> Option<u64> {
        self.text(fields).trim().parse().ok()
    }

    pub(super) fn is_true(self, field: &str) -> bool {
        self.0.get(field).and_then(Value::as_bool) == Some(true)
    }
}

/// A text that is not blank, or a number's digits.
fn text_of(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}
