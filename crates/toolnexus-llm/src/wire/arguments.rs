//! The arguments of a tool call, as models write them.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::readable::not_too_deep;
use crate::run::ModelCall;

/// A call whose arguments are read from JSON text inside a string.
pub(super) fn call_from_text(id: String, name: String, text: &str) -> ModelCall {
    call(id, name, from_text(text))
}

/// A call whose arguments are a JSON value: an object, or text that holds one.
pub(super) fn call_from_json(id: String, name: String, json: Option<&RawValue>) -> ModelCall {
    let value = json.map(|json| serde_json::from_str::<Value>(json.get()));
    call(id, name, value.transpose().map_err(not_json).and_then(from_value))
}

/// The arguments in a JSON value: an object, text that holds one, or nothing, which is an empty
/// one. The error is the reason that the model reads.
pub(crate) fn from_value(value: Option<Value>) -> Result<Map<String, Value>, String> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::String(text)) => from_text(&text),
        Some(value) => object(value),
    }
}

fn from_text(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(text).map_err(not_json).and_then(object)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn not_json(error: serde_json::Error) -> String {
    format!("not valid JSON: {error}")
}

fn object(value: Value) -> Result<Map<String, Value>, String> {
    not_too_deep(&value).map_err(|problem| format!("not valid JSON: {problem}"))?;
    match value {
        Value::Object(map) => Ok(map),
        _ => Err("expected a JSON object".into()),
    }
}

fn call(id: String, name: String, args: Result<Map<String, Value>, String>) -> ModelCall {
    let (args, invalid) = match args {
        Ok(args) => (args, None),
        Err(reason) => (Map::new(), Some(reason)),
    };
    ModelCall { id, name, args: Arc::new(args), invalid, ..Default::default() }
}

/// The id of a call that the provider did not name.
pub(super) fn generated_id(turn: u32, position: usize) -> String {
    format!("call_{turn}_{position}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // CLIENT-35, case L4
    #[test]
    fn blank_is_empty_and_anything_but_an_object_is_refused() {
        let read = |text: &str| call_from_text("c".into(), "add".into(), text);
        assert_eq!(read("  ").invalid, None);
        assert!(read("").args.is_empty());
        assert_eq!(read(r#"{"a":2}"#).args["a"], 2);
        assert!(read("{bad").invalid.unwrap().starts_with("not valid JSON: "));
        assert_eq!(read("[1]").invalid.unwrap(), "expected a JSON object");

        let json = |text: &str| {
            let raw = RawValue::from_string(text.into()).unwrap();
            call_from_json("c".into(), "add".into(), Some(&raw))
        };
        assert!(json("null").invalid.is_none());
        assert_eq!(json(r#"{"a":2}"#).args["a"], 2);
        assert_eq!(json(r#""{\"a\":2}""#).args["a"], 2);
        assert_eq!(json("7").invalid.unwrap(), "expected a JSON object");
        assert!(call_from_json("c".into(), "add".into(), None).args.is_empty());
    }
}
