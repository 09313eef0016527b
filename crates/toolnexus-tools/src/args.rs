//! What a model passes to a tool, read leniently.
//!
//! The schemas say one thing; models say nearly that. Whatever can only have been meant one way
//! is taken that way.

use serde_json::{Map, Value};

/// The arguments of one call.
pub(crate) struct Args(Map<String, Value>);

impl Args {
    /// Arguments that are no object are none at all.
    pub(crate) fn new(arguments: Value) -> Self {
        match arguments {
            Value::Object(map) => Args(map),
            _ => Args(Map::new()),
        }
    }

    /// The value of the first of `keys` that is there and not `null`: the canonical name, then
    /// its aliases.
    fn get(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().find_map(|key| self.0.get(*key).filter(|value| !value.is_null()))
    }

    /// A text; a number or a boolean counts as the text it is written as.
    pub(crate) fn text(&self, keys: &[&str]) -> Option<String> {
        match self.get(keys)? {
            Value::String(text) => Some(text.clone()),
            value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
            _ => None,
        }
    }

    /// A text that must be there and not be empty.
    ///
    /// # Errors
    /// `<key> is required`, with the canonical key.
    pub(crate) fn required_text(&self, keys: &[&str]) -> Result<String, String> {
        let text = self.text(keys).filter(|text| !text.is_empty());
        text.ok_or_else(|| format!("{} is required", keys.first().unwrap_or(&"")))
    }

    /// A text that must be there, and may be empty.
    ///
    /// # Errors
    /// `<key> is required`, with the canonical key.
    pub(crate) fn present_text(&self, keys: &[&str]) -> Result<String, String> {
        self.text(keys).ok_or_else(|| format!("{} is required", keys.first().unwrap_or(&"")))
    }

    /// A text that must be there and be written as one: what a file is to hold is not guessed. It
    /// may be empty.
    ///
    /// # Errors
    /// `<key> is required`.
    pub(crate) fn literal_text(&self, key: &str) -> Result<String, String> {
        let text = self.get(&[key]).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| format!("{key} is required"))
    }

    /// Whether something is asked for: `true`, or that word.
    pub(crate) fn flag(&self, keys: &[&str]) -> bool {
        match self.get(keys) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => text == "true",
            _ => false,
        }
    }

    /// A list, as it was given.
    pub(crate) fn list(&self, keys: &[&str]) -> Option<&[Value]> {
        self.get(keys)?.as_array().map(Vec::as_slice)
    }

    /// A number; a text that is one counts.
    pub(crate) fn number(&self, keys: &[&str]) -> Option<f64> {
        match self.get(keys)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// A number of things: fractions are cut off toward zero.
    pub(crate) fn count(&self, keys: &[&str]) -> Option<i64> {
        if let Some(exact) = self.get(keys)?.as_i64() {
            return Some(exact);
        }
        let number = self.number(keys).filter(|number| !number.is_nan())?;
        // The cast saturates, which is what a count too large to matter should do.
        Some(number.trunc() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn args(value: Value) -> Args {
        Args::new(value)
    }

    // BUILTIN-13
    #[test]
    fn a_required_text_is_named_as_the_schema_spells_it() {
        for bad in
            [json!({}), json!(null), json!({"path": null}), json!({"path": ""}), json!({"path": ["a"]})]
        {
            let error = args(bad).required_text(&["path", "filePath"]).unwrap_err();
            assert_eq!(error, "path is required");
        }
    }

    // BUILTIN-14
    #[test]
    fn counts_are_truncated_toward_zero_and_other_types_are_absent() {
        let args = args(json!({"a": 2.9, "b": -2.9, "c": true, "d": [], "e": 1e300, "f": i64::MAX}));
        assert_eq!(args.count(&["a"]), Some(2));
        assert_eq!(args.count(&["b"]), Some(-2));
        assert_eq!(args.count(&["c"]), None);
        assert_eq!(args.count(&["d"]), None);
        assert_eq!(args.count(&["e"]), Some(i64::MAX));
        assert_eq!(args.count(&["f"]), Some(i64::MAX));
        assert_eq!(args.count(&["missing"]), None);
    }

    // BUILTIN-13, BUILTIN-15: content is taken as it is, or not at all
    #[test]
    fn content_must_be_a_text() {
        assert_eq!(args(json!({"content": ""})).literal_text("content").unwrap(), "");
        for bad in [json!({}), json!({"content": null}), json!({"content": 7}), json!({"content": {"a": 1}})]
        {
            assert_eq!(args(bad).literal_text("content").unwrap_err(), "content is required");
        }
    }

    // BUILTIN-15
    #[test]
    fn near_misses_are_understood() {
        let args = args(json!({"n": " 12.5 ", "nan": "NaN", "word": "ten", "num": 7, "yes": true}));
        assert_eq!(args.count(&["n"]), Some(12));
        assert_eq!(args.number(&["n"]), Some(12.5));
        assert_eq!(args.count(&["nan"]), None);
        assert_eq!(args.number(&["word"]), None);
        assert_eq!(args.text(&["num"]).unwrap(), "7");
        assert_eq!(args.text(&["yes"]).unwrap(), "true");
    }

    // BUILTIN-15
    #[test]
    fn an_alias_counts_only_without_the_canonical_name() {
        let keys = &["path", "filePath", "file_path"];
        assert_eq!(args(json!({"file_path": "a"})).text(keys).unwrap(), "a");
        assert_eq!(args(json!({"filePath": "b", "path": "a"})).text(keys).unwrap(), "a");
        assert_eq!(args(json!({"filePath": "b", "path": {}})).text(keys), None);
    }

    proptest! {
        // BUILTIN-14, BUILTIN-15
        #[test]
        fn a_number_means_the_same_as_text(n in any::<i32>(), fraction in 0.0f64..1.0) {
            let number = f64::from(n) + fraction;
            let plain = args(json!({"n": number}));
            let quoted = args(json!({"n": number.to_string()}));
            prop_assert_eq!(plain.count(&["n"]), quoted.count(&["n"]));
            prop_assert_eq!(plain.count(&["n"]), Some(number.trunc() as i64));
        }
    }
}
