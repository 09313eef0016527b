//! Relay tools: a declaration here, an execution elsewhere.
//!
//! A gateway declares the tools of its own caller to the model and hands the calls back. A relay
//! tool never does work: its first execution suspends with a request of kind [`RELAY_KIND`] that
//! holds the call, and the answer's text is its result.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::suspension::{ANSWER_OUTPUT, ANSWER_OUTPUT_ERROR, not_a_string};
use crate::{Answer, Request, Tool, ToolContext, ToolResult, ToolSource, new_request_id, pending};

/// The kind of a relay tool's request.
pub const RELAY_KIND: &str = "tool_call";

/// One call that waits for its caller, as `data.calls` of a relay request lists it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayCall {
    /// The model's id for the call; empty outside a run.
    #[serde(default)]
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, parsed.
    #[serde(default)]
    pub input: Map<String, Value>,
    /// The arguments as JSON text.
    #[serde(default)]
    pub arguments: String,
}

/// The result that a caller gives for one call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelayResult {
    /// The id of the call.
    pub id: String,
    /// The text that the model reads.
    pub output: String,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// A tool that is declared to the model and executed by the caller of this program.
///
/// `None` for the schema means `{"type":"object","properties":{}}`. For a stateless proxy prefer
/// the client's `translate`, which makes one model call and never executes anything.
///
/// ```
/// use toolnexus_core::{ToolContext, answer_output, pending_of, relay_calls_of, relay_tool};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let tool = relay_tool("get_weather", "Weather of a city", None);
/// let args = serde_json::json!({"city": "Kochi"});
///
/// let request = pending_of(&tool.execute(args.clone()).await).unwrap();
/// assert_eq!(relay_calls_of(&request).unwrap()[0].arguments, r#"{"city":"Kochi"}"#);
///
/// let context = ToolContext { answer: Some(answer_output(request.id, "29C")), ..Default::default() };
/// assert_eq!(tool.execute_with(args, context).await.output, "29C");
/// # }
/// ```
pub fn relay_tool(
    name: impl Into<String>,
    description: impl Into<String>,
    input_schema: Option<Value>,
) -> Tool {
    let name = name.into();
    let relayed = name.clone();
    let schema = input_schema.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    Tool::new(name, move |args, context| {
        let result = match &context.answer {
            Some(answer) => relayed_result(&relayed, &context.call_id, answer),
            None => relayed_call(&relayed, args, &context),
        };
        std::future::ready(result)
    })
    .description(description)
    .source(ToolSource::Relay)
    .input_schema(schema)
}

/// The first execution: the call waits for its caller.
fn relayed_call(name: &str, args: Value, context: &ToolContext) -> ToolResult {
    let arguments = args.to_string();
    let input = match args {
        Value::Object(input) => input,
        _ => Map::new(),
    };
    let call = RelayCall { id: context.call_id.clone(), name: name.to_owned(), input, arguments };
    pending(relay_request(&[call]))
}

/// The request for the first call's caller, which holds all of `calls`.
fn relay_request(calls: &[RelayCall]) -> Request {
    let name = calls.first().map_or("", |call| call.name.as_str());
    Request {
        id: new_request_id(),
        kind: RELAY_KIND.into(),
        prompt: format!("relay tool call {name} to the caller for execution"),
        data: Some(Map::from_iter([("calls".to_owned(), json!(calls))])),
        ..Default::default()
    }
}

/// What an answer says the result of one call is.
fn relayed_result(name: &str, call_id: &str, answer: &Answer) -> ToolResult {
    if !answer.ok {
        let reason = answer.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("declined");
        return ToolResult::failure(format!("relay declined for {name}: {reason}"));
    }
    relay_result_for(answer, name, call_id)
}

/// The result that a granted answer holds for the call of this id: `data.output`, else the entry of
/// `data.results`.
///
/// ```
/// use toolnexus_core::{RelayResult, relay_answer, relay_result_for};
/// let answer = relay_answer("r", [RelayResult { id: "c1".into(), output: "29C".into(), is_error: false }]);
/// assert_eq!(relay_result_for(&answer, "weather", "c1").output, "29C");
/// let missing = relay_result_for(&answer, "weather", "c2");
/// assert_eq!((missing.is_error, &*missing.output), (true, "no result supplied on resume for weather"));
/// ```
pub fn relay_result_for(answer: &Answer, name: &str, call_id: &str) -> ToolResult {
    let Some(data) = &answer.data else { return ToolResult::failure(not_a_string()) };
    let entry = if data.contains_key(ANSWER_OUTPUT) {
        data
    } else {
        let Some(results) = data.get("results").and_then(Value::as_array) else {
            return ToolResult::failure(not_a_string());
        };
        let mine = results.iter().filter_map(Value::as_object);
        let mut mine = mine.filter(|entry| entry.get("id").and_then(Value::as_str) == Some(call_id));
        match mine.next() {
            Some(entry) => entry,
            None => return ToolResult::failure(format!("no result supplied on resume for {name}")),
        }
    };
    match entry.get(ANSWER_OUTPUT) {
        Some(Value::String(output)) => ToolResult {
            output: output.clone(),
            is_error: entry.get(ANSWER_OUTPUT_ERROR).and_then(Value::as_bool).unwrap_or(false),
            ..Default::default()
        },
        _ => ToolResult::failure(not_a_string()),
    }
}

/// Whether a request is that of a relay tool.
pub fn is_relay_request(request: &Request) -> bool {
    relay_calls_of(request).is_some()
}

/// The calls that a relay request holds, in call order; `None` for any other request.
pub fn relay_calls_of(request: &Request) -> Option<Vec<RelayCall>> {
    if request.kind != RELAY_KIND {
        return None;
    }
    let calls = request.data.as_ref()?.get("calls")?;
    Vec::<RelayCall>::deserialize(calls).ok()
}

/// One relay request that holds the calls of all of these, in order: what a run without a resolver
/// stops with. It has the id of the first; `None` if any is no relay request, or there is none.
pub fn merged_relay_requests<'a>(requests: impl IntoIterator<Item = &'a Request>) -> Option<Request> {
    let mut requests = requests.into_iter();
    let mut merged = requests.next()?.clone();
    let mut calls = relay_calls_of(&merged)?;
    for request in requests {
        calls.extend(relay_calls_of(request)?);
    }
    merged.data.get_or_insert_default().insert("calls".into(), json!(calls));
    Some(merged)
}

/// An answer that gives the results of one or more relay calls.
///
/// ```
/// use toolnexus_core::{RelayResult, relay_answer};
/// let answer = relay_answer("r", [RelayResult { id: "c1".into(), output: "29C".into(), is_error: false }]);
/// assert_eq!(serde_json::to_string(&answer).unwrap(), r#"{"id":"r","ok":true,"data":{"results":[{"id":"c1","output":"29C"}]}}"#);
/// ```
pub fn relay_answer(id: impl Into<String>, results: impl IntoIterator<Item = RelayResult>) -> Answer {
    let results: Vec<RelayResult> = results.into_iter().collect();
    let data = Map::from_iter([("results".to_owned(), json!(results))]);
    Answer { id: id.into(), ok: true, data: Some(data), reason: None }
}
