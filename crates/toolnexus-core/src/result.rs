//! What a tool gives back, and how ordinary Rust values become that.

use std::any::Any;
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ContentPart;
use crate::suspended::suspension;

/// The outcome of one tool call.
///
/// A failure is a result with `is_error: true`: the model reads it and can react. It is never a
/// Rust `Err`.
///
/// ```
/// use toolnexus_core::ToolResult;
/// let json = serde_json::to_string(&ToolResult::success(42)).unwrap();
/// assert_eq!(json, r#"{"output":"42","isError":false}"#);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The text the model reads. Always present, also beside parts.
    #[serde(default)]
    pub output: String,
    /// True when the call failed, and on suspensions.
    #[serde(default)]
    pub is_error: bool,
    /// Images, files, audio and extra text beside the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ContentPart>,
    /// Facts for the host; never sent to a model. The key `pending` is reserved for suspensions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The result as data, for callers that want more than text.
    #[serde(default, rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
}

impl ToolResult {
    /// A result whose output is the text of `output`.
    pub fn success(output: impl ToString) -> Self {
        ToolResult { output: output.to_string(), ..Default::default() }
    }

    /// A failure whose output is the text of `output`.
    pub fn failure(output: impl ToString) -> Self {
        ToolResult { output: output.to_string(), is_error: true, ..Default::default() }
    }

    /// A result that is data; its output is the data's compact JSON.
    pub fn structured(value: Value) -> Self {
        ToolResult { output: value.to_string(), structured: Some(value), ..Default::default() }
    }

    /// The same result with `metadata`.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// The same result with `parts`; an empty list changes nothing.
    #[must_use]
    pub fn with_parts(mut self, parts: Vec<ContentPart>) -> Self {
        if !parts.is_empty() {
            self.parts = parts;
        }
        self
    }
}

/// Wraps any serialisable value as a tool's return value: the output is its compact JSON.
///
/// ```
/// use toolnexus_core::{IntoToolResult, Json};
/// assert_eq!(Json(vec![1, 2]).into_tool_result().output, "[1,2]");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// A value that a tool may return.
///
/// Text is the output verbatim; `()`, `None` and JSON `null` give the empty output; a JSON string
/// gives the bare string and other JSON, numbers and booleans their compact JSON; a
/// [`ToolResult`] passes through unchanged.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    note = "wrap what implements `serde::Serialize`: `toolnexus::Json(value)`"
)]
pub trait IntoToolResult {
    /// Converts the value.
    fn into_tool_result(self) -> ToolResult;
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> ToolResult {
        self
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::default()
    }
}

impl<T: IntoToolResult> IntoToolResult for Option<T> {
    fn into_tool_result(self) -> ToolResult {
        self.map_or_else(ToolResult::default, T::into_tool_result)
    }
}

impl IntoToolResult for Value {
    fn into_tool_result(self) -> ToolResult {
        match self {
            Value::Null => ToolResult::default(),
            Value::String(text) => ToolResult { output: text, ..Default::default() },
            other => ToolResult::success(other),
        }
    }
}

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> ToolResult {
        match serde_json::to_value(&self.0) {
            Ok(value) => value.into_tool_result(),
            Err(error) => ToolResult::failure(format!("the tool's answer is not JSON: {error}")),
        }
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> ToolResult {
        ToolResult { output: self, ..Default::default() }
    }
}

macro_rules! by_display {
    ($($type:ty),*) => {$(
        impl IntoToolResult for $type {
            fn into_tool_result(self) -> ToolResult {
                ToolResult::success(self)
            }
        }

        impl IntoToolOutcome for $type {
            fn into_outcome(self) -> ToolResult {
                self.into_tool_result()
            }
        }
    )*};
}
by_display!(&str, std::borrow::Cow<'_, str>, bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

macro_rules! by_json {
    ($($type:ty),*) => {$(
        impl IntoToolResult for $type {
            fn into_tool_result(self) -> ToolResult {
                Value::from(self).into_tool_result()
            }
        }

        impl IntoToolOutcome for $type {
            fn into_outcome(self) -> ToolResult {
                self.into_tool_result()
            }
        }
    )*};
}
by_json!(f32, f64);

/// What a tool function may return: anything [`IntoToolResult`], or a `Result` of anything
/// [`IntoToolResult`] and any displayable error. The error's text is the failure's output, but for
/// [`Suspended`](crate::Suspended), bare or boxed, which suspends the call.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    note = "wrap what implements `serde::Serialize`: `toolnexus::Json(value)`"
)]
pub trait IntoToolOutcome {
    /// Converts the outcome.
    fn into_outcome(self) -> ToolResult;
}

impl IntoToolOutcome for ToolResult {
    fn into_outcome(self) -> ToolResult {
        self
    }
}

impl<R: IntoToolResult, E: Display + 'static> IntoToolOutcome for Result<R, E> {
    fn into_outcome(self) -> ToolResult {
        match self {
            Ok(value) => value.into_tool_result(),
            Err(error) => suspension(&error).unwrap_or_else(|| ToolResult::failure(error)),
        }
    }
}

impl<T: Serialize> IntoToolOutcome for Json<T> {
    fn into_outcome(self) -> ToolResult {
        self.into_tool_result()
    }
}

impl<T: IntoToolResult> IntoToolOutcome for Option<T> {
    fn into_outcome(self) -> ToolResult {
        self.into_tool_result()
    }
}

impl IntoToolOutcome for () {
    fn into_outcome(self) -> ToolResult {
        self.into_tool_result()
    }
}

impl IntoToolOutcome for Value {
    fn into_outcome(self) -> ToolResult {
        self.into_tool_result()
    }
}

impl IntoToolOutcome for String {
    fn into_outcome(self) -> ToolResult {
        self.into_tool_result()
    }
}

/// The message of a caught panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "tool panicked".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // CORE-8, CORE-10, cases 5 and 6
    #[test]
    fn a_text_result_has_two_keys() {
        assert_eq!(
            serde_json::to_string(&ToolResult::success(42)).unwrap(),
            r#"{"output":"42","isError":false}"#
        );
        let result = ToolResult::success("hi").with_parts(vec![]);
        assert_eq!(serde_json::to_string(&result).unwrap(), r#"{"output":"hi","isError":false}"#);
        let result = ToolResult::failure("no").with_parts(vec![ContentPart::text("t")]);
        assert_eq!(
            serde_json::to_string(&result).unwrap(),
            r#"{"output":"no","isError":true,"parts":[{"type":"text","text":"t"}]}"#
        );
        let read: ToolResult = serde_json::from_str(r#"{"output":"x"}"#).unwrap();
        assert_eq!(read, ToolResult::success("x"));
    }

    // CORE-76, cases 8 and 9
    #[test]
    fn ordinary_values_become_results() {
        fn output(value: impl IntoToolResult) -> String {
            value.into_tool_result().output
        }
        assert_eq!(output(()), "");
        assert_eq!(output(None::<String>), "");
        assert_eq!(output(Value::Null), "");
        assert_eq!(output("text"), "text");
        assert_eq!(output(json!("bare")), "bare");
        assert_eq!(output(json!({"celsius": 21.5, "ok": true})), r#"{"celsius":21.5,"ok":true}"#);
        assert_eq!(output(7_u8), "7");
        assert_eq!(output(5.0_f64), "5.0");
        assert_eq!(output(true), "true");
        assert_eq!(output(Json(vec!["a"])), r#"["a"]"#);
        let own = ToolResult::failure("kept").with_parts(vec![ContentPart::text("t")]);
        assert_eq!(own.clone().into_tool_result(), own);
    }

    // CORE-77
    #[test]
    fn an_error_is_its_text() {
        let outcome: Result<String, String> = Err("kaboom".into());
        assert_eq!(outcome.into_outcome(), ToolResult::failure("kaboom"));
    }
}
