//! The call inside a `call_tool`.

use serde_json::{Map, Value};

use crate::wire::arguments_from_value;

/// What a call of `call_tool` means.
#[derive(Debug, PartialEq)]
pub(crate) struct InnerCall {
    /// The tool that is to run; empty when none was named.
    pub(crate) name: String,
    /// Its arguments, or the reason why they cannot be read, for the model.
    pub(crate) args: Result<Map<String, Value>, String>,
}

/// Reads the arguments of `call_tool`. Those of the inner call may be an object, the JSON of one in
/// a string, or missing.
pub(crate) fn inner_call(outer: &Map<String, Value>) -> InnerCall {
    InnerCall {
        name: outer.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        args: arguments_from_value(outer.get("arguments").cloned()),
    }
}
