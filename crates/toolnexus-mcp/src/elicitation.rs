//! Elicitation: a server asks the person behind the client while it works on a call.
//!
//! The mapping is pure: [`elicitation_to_request`] and [`answer_to_elicit_result`], and
//! [`server_request_response`] for a wire of your own. On a connection of this crate the handler does
//! it (`handler`), beside the reader, for as long as the call that raised the question goes on
//! (`in_flight`); the clocks of that call stand still meanwhile. A question that nothing in flight
//! can have raised is cancelled unasked. In the era without requests from servers a result carries
//! the questions (`rounds`).

use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures::FutureExt as _;
use serde_json::{Map, Value, json};
use toolnexus_core::{Answer, Request, WaitFor};

use crate::wire::ELICITATION;

/// What a server asks with the parameters of `elicitation/create`.
///
/// With `mode` `"url"` it is an `authorization` with the `url` to go to, and never a form: credentials
/// are not collected by forms. Anything else is an `input` whose `data.schema` is the requested schema
/// as it came. Missing or odd parameters still give a request.
///
/// ```
/// use serde_json::json;
/// use toolnexus_mcp::elicitation_to_request;
/// let request = elicitation_to_request(&json!({
///     "message": "Who are you?",
///     "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
/// }));
/// assert_eq!((request.kind.as_str(), request.prompt.as_str()), ("input", "Who are you?"));
/// assert_eq!(request.data.unwrap()["schema"]["properties"]["name"]["type"], "string");
/// ```
pub fn elicitation_to_request(params: &Value) -> Request {
    let text = |key: &str| params.get(key).and_then(Value::as_str);
    let mut request = Request {
        id: new_id(),
        kind: "input".to_owned(),
        prompt: text("message").unwrap_or_default().to_owned(),
        ..Default::default()
    };
    if text("mode") == Some("url") {
        request.kind = "authorization".to_owned();
        request.url = text("url").map(str::to_owned);
    } else if let Some(schema) = params.get("requestedSchema").filter(|schema| !schema.is_null()) {
        request.data = Some(Map::from_iter([("schema".to_owned(), schema.clone())]));
    }
    request
}

/// The result of `elicitation/create` that says what `answer` says: `accept` with its data, `decline`
/// for the reason `declined`, else `cancel`.
///
/// ```
/// use toolnexus_core::answer_declined;
/// use toolnexus_mcp::answer_to_elicit_result;
/// let declined = answer_to_elicit_result(&answer_declined("elc-1-1", Some("declined")));
/// assert_eq!(declined.to_string(), r#"{"action":"decline"}"#);
/// ```
pub fn answer_to_elicit_result(answer: &Answer) -> Value {
    if answer.ok {
        return json!({"action": "accept", "content": answer.data.clone().unwrap_or_default()});
    }
    if answer.reason.as_deref() == Some("declined") { json!({"action": "decline"}) } else { cancelled() }
}

/// The response to a message of a server, for a wire of your own; connections of this crate do this
/// by themselves.
///
/// `None` for a message that is no request, that is, without an `id` or without a `method`. An
/// `elicitation/create` is put to `wait_for`; its failure or panic is answered as `cancel`. Every other
/// request, and any without a resolver, is refused with `-32601`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use serde_json::json;
/// use toolnexus_mcp::server_request_response;
/// let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"});
/// let response = server_request_response(None, &asked).await.unwrap();
/// assert_eq!(response["error"]["code"], -32601);
/// # }
/// ```
pub async fn server_request_response(wait_for: Option<&WaitFor>, msg: &Value) -> Option<Value> {
    let (id, method) = (msg.get("id")?, msg.get("method")?);
    Some(match wait_for.filter(|_| method == ELICITATION) {
        Some(wait_for) => {
            let result = ask(wait_for, msg.get("params").unwrap_or(&Value::Null)).await;
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        }
        None => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})
        }
    })
}

/// Puts the question to the host and gives the result that says what it has answered.
pub(crate) async fn ask(wait_for: &WaitFor, params: &Value) -> Value {
    let request = elicitation_to_request(params);
    match AssertUnwindSafe(async { wait_for(request).await }).catch_unwind().await {
        Ok(Ok(answer)) => answer_to_elicit_result(&answer),
        // What went wrong is the host's own affair and may be no business of the server's.
        Ok(Err(_)) | Err(_) => cancelled(),
    }
}

/// The result for a question that nobody has answered.
pub(crate) fn cancelled() -> Value {
    json!({"action": "cancel"})
}

fn new_id() -> String {
    static START: OnceLock<Instant> = OnceLock::new();
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let reading = START.get_or_init(Instant::now).elapsed().as_nanos();
    format!("elc-{reading}-{}", COUNTER.fetch_add(1, Ordering::Relaxed))
}
