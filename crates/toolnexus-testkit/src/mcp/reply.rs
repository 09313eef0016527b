//! What an answer says: from a [`Reply`] to the JSON text of a result.

use serde::Serialize;
use serde_json::{Value, json};

use super::Reply;
use super::message::{RpcError, encode};
use super::run::Run;

/// The outcome that this reply gives for the request of the run.
pub(crate) fn outcome(reply: &Reply, run: &Run) -> Result<String, RpcError> {
    Ok(match reply {
        Reply::Standard => return standard(run),
        Reply::Echo => text(&encode(arguments(run))),
        Reply::Text(content) => text(content),
        Reply::TextOfSize { bytes } => text(&"x".repeat(*bytes)),
        Reply::Result(result) => result.get().to_owned(),
        Reply::Error { code, message, data } => {
            return Err(RpcError { code: *code, message: message.clone(), data: data.clone() });
        }
        Reply::ClientReply => text(&run.client_reply.to_string()),
        Reply::Environment(name) => match std::env::var_os(name) {
            Some(value) => text(&value.to_string_lossy()),
            None => result("unset", true),
        },
        Reply::EnvironmentNames => {
            let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
            text(&encode(&sorted(names)))
        }
        Reply::WorkingDirectory => match std::env::current_dir() {
            Ok(path) => text(&path.to_string_lossy()),
            Err(error) => result(&error.to_string(), true),
        },
        Reply::Arguments => {
            let arguments =
                std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
            text(&encode(&arguments.collect::<Vec<_>>()))
        }
        Reply::Report => text(&report(run).to_string()),
    })
}

fn standard(run: &Run) -> Result<String, RpcError> {
    let Some(request) = &run.request else { return Ok("{}".to_owned()) };
    if request.method != "tools/call" {
        return run.engine.standard(&request.method, &request.params);
    }
    let name = request.params.get("name").and_then(Value::as_str).unwrap_or_default();
    if run.engine.knows(name) {
        Ok(text(&encode(arguments(run))))
    } else {
        Err(RpcError::new(-32602, format!("Unknown tool: {name}")))
    }
}

/// The arguments of the call; `null` when there are none.
fn arguments(run: &Run) -> &Value {
    run.request.as_ref().and_then(|request| request.params.get("arguments")).unwrap_or(&Value::Null)
}

fn report(run: &Run) -> Value {
    let engine = &run.engine;
    json!({
        "pid": std::process::id(),
        "grandchild": engine.grandchild,
        "calls": engine.in_flight.calls(),
        "in_flight_peak": engine.in_flight.peak(),
        "cancelled": *engine.cancelled().borrow(),
    })
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn text(text: &str) -> String {
    result(text, false)
}

/// A `tools/call` result with one text entry.
fn result(text: &str, is_error: bool) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct CallResult<'a> {
        content: [Text<'a>; 1],
        is_error: bool,
    }
    #[derive(Serialize)]
    struct Text<'a> {
        r#type: &'static str,
        text: &'a str,
    }
    encode(&CallResult { content: [Text { r#type: "text", text }], is_error })
}
