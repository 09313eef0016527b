//! Suspension: a tool asks somebody outside the loop, somebody outside answers.
//!
//! A tool that cannot go on alone returns [`pending`] with a [`Request`]. Whoever drives the run
//! hands the request to a resolver ([`WaitFor`]) or stops with status `pending`; with an
//! [`Answer`] that says ok the same tool runs once more and finds the answer in its context.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BoxError, BoxFuture, ToolResult};

/// What a suspended tool asks for.
///
/// `input` and `question` must never collect secrets: those go through `authorization` with a
/// `url`, where the person gives them to the service itself.
///
/// ```
/// use toolnexus_core::{Request, pending, pending_of};
/// let result = pending(Request { kind: "input".into(), prompt: "Which city?".into(), ..Default::default() });
/// assert_eq!(pending_of(&result).unwrap().prompt, "Which city?");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Identifies the request; generated when left empty. Opaque: nothing may parse it.
    #[serde(default)]
    pub id: String,
    /// An open label: `authorization`, `input`, `approval`, `question`, `tool_call`, or your own.
    #[serde(default)]
    pub kind: String,
    /// What to show to the person or system that answers.
    #[serde(default)]
    pub prompt: String,
    /// Where to go to answer, for example a login page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Anything else; `schema` is the conventional place for the expected answer's JSON schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// When the request loses its point, RFC 3339. Advisory: the loop does not enforce it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// The answer to a [`Request`].
///
/// ```
/// use toolnexus_core::Answer;
/// let answer = Answer { id: "sus-1".into(), ok: true, ..Default::default() };
/// assert_eq!(serde_json::to_string(&answer).unwrap(), r#"{"id":"sus-1","ok":true}"#);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Read")]
pub struct Answer {
    /// The id of the request that is answered.
    pub id: String,
    /// True runs the tool again with this answer; false declines.
    pub ok: bool,
    /// What the tool asked for.
    pub data: Option<Map<String, Value>>,
    /// Why not: `declined`, `cancelled`, `expired`, or any text. Only with `ok: false`.
    pub reason: Option<String>,
}

/// An [`Answer`] as others write it.
#[derive(Deserialize)]
struct Read {
    #[serde(default)]
    id: String,
    ok: bool,
    #[serde(default)]
    data: Option<Map<String, Value>>,
    #[serde(default)]
    reason: Option<String>,
}

impl From<Read> for Answer {
    fn from(Read { id, ok, data, reason }: Read) -> Self {
        // What is not written is not read either: an answer is the same again after a log.
        Answer { id, ok, data, reason: reason.filter(|_| !ok) }
    }
}

impl Serialize for Answer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("ok", &self.ok)?;
        if let Some(data) = &self.data {
            map.serialize_entry("data", data)?;
        }
        if let (false, Some(reason)) = (self.ok, &self.reason) {
            map.serialize_entry("reason", reason)?;
        }
        map.end()
    }
}

/// Resolves a suspension: is given the request, answers it in its own time.
///
/// An `Err` ends the run; to refuse one request, answer with `ok: false` instead.
pub type WaitFor = Arc<dyn Fn(Request) -> BoxFuture<'static, Result<Answer, BoxError>> + Send + Sync>;

/// The key of a result's metadata that makes it a suspension.
pub(crate) const PENDING_KEY: &str = "pending";

/// A suspension: the result a tool returns to ask `request`.
///
/// The model-visible output is the request's prompt; use [`pending_with_output`] for another
/// text. An empty id is replaced by a generated one.
pub fn pending(request: Request) -> ToolResult {
    let output = request.prompt.clone();
    pending_with_output(request, output)
}

/// [`pending`] with its own transcript text.
pub fn pending_with_output(mut request: Request, output: impl Into<String>) -> ToolResult {
    if request.id.is_empty() {
        request.id = new_request_id();
    }
    let mut metadata = Map::new();
    metadata.insert(PENDING_KEY.into(), request_value(&request));
    ToolResult { output: output.into(), is_error: true, metadata: Some(metadata), ..Default::default() }
}

/// A suspension of kind `authorization`: somebody has to log in at `url`.
///
/// ```
/// let result = toolnexus_core::auth_required("https://login.example", None);
/// assert_eq!(result.output, "Login required: https://login.example");
/// ```
pub fn auth_required(url: impl Into<String>, prompt: Option<&str>) -> ToolResult {
    let url = url.into();
    let output = format!("Login required: {url}");
    let prompt = prompt.map_or_else(|| output.clone(), str::to_owned);
    pending_with_output(
        Request { kind: "authorization".into(), prompt, url: Some(url), ..Default::default() },
        output,
    )
}

/// The request of a suspension, or `None` for an ordinary result.
///
/// A result is a suspension if and only if its metadata holds a readable request under
/// `pending`; `is_error` plays no part.
pub fn pending_of(result: &ToolResult) -> Option<Request> {
    let value = result.metadata.as_ref()?.get(PENDING_KEY)?;
    if !value.is_object() {
        return None;
    }
    Request::deserialize(value).ok()
}

/// A new id for a request: `sus-<epoch milliseconds>-<counter>`, unique in this process.
pub fn new_request_id() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    format!("sus-{now}-{}", COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// The key of an answer's data that holds the text the tool asked for.
pub(crate) const ANSWER_OUTPUT: &str = "output";

/// The key that says that this text is an error.
pub(crate) const ANSWER_OUTPUT_ERROR: &str = "isError";

/// What a text that is none is called.
pub(crate) const fn not_a_string() -> &'static str {
    "toolnexus: Answer output must be a string"
}

/// An answer that grants `output` as the text the tool asked for. The empty text is one too.
pub fn answer_output(id: impl Into<String>, output: impl Into<String>) -> Answer {
    let data = Map::from_iter([(ANSWER_OUTPUT.to_owned(), Value::String(output.into()))]);
    Answer { id: id.into(), ok: true, data: Some(data), reason: None }
}

/// [`answer_output`] for a text that says what went wrong: the call's result is an error.
///
/// ```
/// let answer = toolnexus_core::answer_output_error("r", "no such city");
/// assert_eq!(answer.data.unwrap()["isError"], true);
/// ```
pub fn answer_output_error(id: impl Into<String>, output: impl Into<String>) -> Answer {
    let mut answer = answer_output(id, output);
    answer.data.get_or_insert_default().insert(ANSWER_OUTPUT_ERROR.to_owned(), Value::Bool(true));
    answer
}

/// The text of an answer was not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", not_a_string())]
pub struct NotAString;

/// [`answer_output`] for a value that somebody else made.
///
/// # Errors
/// [`NotAString`]: nothing is made into text, so that no `[object]` reaches a model.
///
/// ```
/// use serde_json::json;
/// use toolnexus_core::{answer_output, answer_output_value};
/// assert_eq!(answer_output_value("r", &json!("text")), Ok(answer_output("r", "text")));
/// let error = answer_output_value("r", &json!(7)).unwrap_err();
/// assert_eq!(error.to_string(), "toolnexus: Answer output must be a string");
/// ```
pub fn answer_output_value(id: impl Into<String>, output: &Value) -> Result<Answer, NotAString> {
    output.as_str().map(|output| answer_output(id, output)).ok_or(NotAString)
}

/// An answer that declines, with a reason or without.
pub fn answer_declined(id: impl Into<String>, reason: Option<&str>) -> Answer {
    Answer { id: id.into(), ok: false, data: None, reason: reason.map(str::to_owned) }
}

fn request_value(request: &Request) -> Value {
    // A `Request` has only strings and JSON values, so this cannot fail; the fallback is an
    // unreadable request, which makes the result an ordinary error.
    serde_json::to_value(request).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // SUSPEND-1, SUSPEND-2
    #[test]
    fn wire_keys_are_camel_case_and_absent_when_unset() {
        let request = Request {
            id: "r".into(),
            kind: "input".into(),
            prompt: "p".into(),
            expires_at: Some("2030-01-01T00:00:00Z".into()),
            ..Default::default()
        };
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            r#"{"id":"r","kind":"input","prompt":"p","expiresAt":"2030-01-01T00:00:00Z"}"#
        );
        assert_eq!(
            serde_json::to_string(&answer_declined("r", Some("expired"))).unwrap(),
            r#"{"id":"r","ok":false,"reason":"expired"}"#
        );
        let granted = Answer { id: "r".into(), ok: true, reason: Some("ignored".into()), data: None };
        assert_eq!(serde_json::to_string(&granted).unwrap(), r#"{"id":"r","ok":true}"#);
    }

    // SUSPEND-3
    #[test]
    fn an_answer_without_ok_is_a_read_error() {
        assert!(serde_json::from_value::<Answer>(json!({"id": "r"})).is_err());
        assert!(serde_json::from_value::<Answer>(json!({"id": "r", "ok": "yes"})).is_err());
        let answer: Answer =
            serde_json::from_value(json!({"id":"r","ok":true,"data":null,"extra":1})).unwrap();
        assert_eq!(answer, Answer { id: "r".into(), ok: true, ..Default::default() });
    }

    // SUSPEND-1: found by fuzzing
    #[test]
    fn an_answer_that_was_read_is_written_whole() {
        for text in [r#"{"id":"r","ok":true,"reason":"x"}"#, r#"{"id":"r","ok":false,"reason":"x"}"#] {
            let answer: Answer = serde_json::from_str(text).unwrap();
            let written = serde_json::to_string(&answer).unwrap();
            assert_eq!(serde_json::from_str::<Answer>(&written).unwrap(), answer, "{text}");
        }
    }

    // SUSPEND-7, SUSPEND-8, CORE-11
    #[test]
    fn a_suspension_is_known_by_its_metadata_alone() {
        let result = pending(Request { prompt: "Which city?".into(), ..Default::default() });
        assert!(result.is_error);
        assert_eq!(result.output, "Which city?");
        let request = pending_of(&result).unwrap();
        assert!(request.id.starts_with("sus-"), "{}", request.id);

        let other = pending_with_output(Request { id: "mine".into(), ..Default::default() }, "shown");
        assert_eq!(other.output, "shown");
        assert_eq!(pending_of(&other).unwrap().id, "mine");

        assert_eq!(pending_of(&ToolResult::failure("no")), None);
        let mut broken = Map::new();
        broken.insert("pending".into(), json!("not a request"));
        assert_eq!(pending_of(&ToolResult::success("x").with_metadata(broken)), None);
    }

    // SUSPEND-9
    #[test]
    fn generated_ids_are_unique() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| new_request_id()).collect();
        assert_eq!(ids.len(), 1000);
    }

    // SUSPEND-11
    #[test]
    fn a_granted_text_may_be_an_error_and_must_be_text() {
        let json = |answer: Answer| serde_json::to_string(&answer).unwrap();
        assert_eq!(json(answer_output("r", "x")), r#"{"id":"r","ok":true,"data":{"output":"x"}}"#);
        let error = r#"{"id":"r","ok":true,"data":{"output":"x","isError":true}}"#;
        assert_eq!(json(answer_output_error("r", "x")), error);
        assert_eq!(answer_output_value("r", &json!("")), Ok(answer_output("r", "")));
        for value in [json!(null), json!(1), json!({"output": "x"}), json!(["x"])] {
            let error = answer_output_value("r", &value).unwrap_err();
            assert_eq!(error.to_string(), "toolnexus: Answer output must be a string");
        }
    }

    // SUSPEND-10, SUSPEND-12
    #[test]
    fn login_requests_and_refusals() {
        let request = pending_of(&auth_required("https://l", Some("Please log in"))).unwrap();
        assert_eq!((request.kind.as_str(), request.prompt.as_str()), ("authorization", "Please log in"));
        assert_eq!(request.url.as_deref(), Some("https://l"));
        assert_eq!(answer_declined("r", None), Answer { id: "r".into(), ..Default::default() });
        assert_eq!(answer_output("r", "").data.unwrap()["output"], "");
    }
}
