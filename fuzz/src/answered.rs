//! One answer of a model, put through a whole run.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use toolnexus_core::{Style, Toolkit, define_sync_tool};
use toolnexus_llm::{
    Client, ClientError, ClientOptions, RunOptions, RunResult, RunStatus, StreamEvent, create_client,
};

use crate::Double;

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().unwrap();
    static TOOLKIT: Toolkit = {
        let echo = define_sync_tool("echo", "Gives back its arguments", None, |args, _| Ok::<_, String>(args));
        Toolkit::from_tools(vec![echo])
    };
}

/// What a consumer hears of a streamed run.
#[derive(Debug, PartialEq)]
pub struct Told {
    /// The events as JSON, the result in the last of them.
    pub events: Vec<String>,
    /// What it ended with, if not with a result.
    pub error: Option<String>,
}

fn client(style: Style, double: &Arc<Double>) -> Client {
    create_client(ClientOptions {
        base_url: "http://double.test/v1".into(),
        style,
        model: "m".into(),
        api_key: "sk-fuzz-1234567890".into(),
        // The tools of the first answer run, and that is all.
        max_turns: 1,
        retries: Some(0),
        http_client: Some(Arc::<Double>::clone(double)),
        ..Default::default()
    })
}

/// Runs a prompt over a streamed answer in these pieces.
pub fn streamed(style: Style, pieces: Vec<Bytes>) -> (Told, Option<RunResult>) {
    let double = Double::new(pieces);
    let toolkit = TOOLKIT.with(Toolkit::clone);
    let mut stream = client(style, &double).stream("hi", &toolkit);
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let mut told = Told { events: Vec::new(), error: None };
            let mut result = None;
            while let Some(item) = stream.next().await {
                assert!(result.is_none() && told.error.is_none(), "something follows the end");
                match item {
                    Ok(event) => {
                        told.events.push(serde_json::to_string(&event).unwrap());
                        if let StreamEvent::Done { result: done } = event {
                            result = Some(*done);
                        }
                    }
                    Err(error) => told.error = Some(shown(&error)),
                }
            }
            (told, result)
        })
    })
}

/// Runs a prompt over a whole answer.
pub fn buffered(style: Style, body: &[u8]) -> Result<RunResult, ClientError> {
    let double = Double::new(vec![Bytes::copy_from_slice(body)]);
    let toolkit = TOOLKIT.with(Toolkit::clone);
    RUNTIME.with(|runtime| runtime.block_on(client(style, &double).run("hi", &toolkit))).inspect_err(
        |error| {
            shown(error);
        },
    )
}

/// The error's text, which names neither a secret nor more of the body than it may.
fn shown(error: &ClientError) -> String {
    let text = error.to_string();
    assert!(text.chars().count() < 1000, "the error is as long as the answer: {text}");
    text
}

/// Checks that a result is one that a store, a provider and another run can work with.
pub fn ends_well(style: Style, result: &RunResult) {
    assert_eq!(result.tool_calls.len(), result.tool_call_count);
    let called = result.tool_call_count > 0;
    assert_eq!(result.status, if called { RunStatus::Incomplete } else { RunStatus::Done });
    let roles: Vec<&str> = result.messages.iter().map(|message| message.role()).collect();
    assert!(roles.iter().all(|role| !role.is_empty()), "a message has no role: {roles:?}");
    let (asked, answered) =
        calls(style, &result.messages.iter().map(|m| m.value().clone()).collect::<Vec<_>>());
    assert_eq!((asked.len(), &asked), (result.tool_call_count, &answered), "calls and their results");

    let text = serde_json::to_string(result).unwrap();
    let read: RunResult = serde_json::from_str(&text).expect("a stored result can be read");
    assert_eq!(serde_json::to_string(&read).unwrap(), normal(&text), "a stored result is read as it was");

    // The next run sends the same conversation: the double refuses what is no JSON.
    let double = Double::new(vec![Bytes::from_static(b"{}")]);
    let options = RunOptions { history: result.messages.clone(), ..Default::default() };
    let (client, toolkit) = (client(style, &double), Toolkit::default());
    let next = client.run_with("and?", &toolkit, options);
    assert!(RUNTIME.with(|runtime| runtime.block_on(next)).is_err(), "{{}} is no answer");
    let sent = double.asked();
    let list = if style == Style::Gemini { "contents" } else { "messages" };
    let sent = sent[list].as_array().unwrap();
    assert_eq!(sent.len(), result.messages.len() + 1, "the history is sent whole");
    assert_eq!(calls(style, sent), (asked, answered), "the history is sent as it is");
}

/// JSON text as this library writes it.
fn normal(text: &str) -> String {
    serde_json::from_str::<Value>(text).unwrap().to_string()
}

/// The ids of the calls in a transcript, and those that results name, in order.
fn calls(style: Style, messages: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for message in messages {
        match style {
            Style::Anthropic => {
                for block in list(&message["content"]) {
                    if block["type"] == "tool_use" {
                        asked.push(block["id"].clone());
                    } else if block["type"] == "tool_result" {
                        answered.push(block["tool_use_id"].clone());
                    }
                }
            }
            // Calls may come without an id; their results then have none either.
            Style::Gemini => {
                for part in list(&message["parts"]) {
                    let id = |value: &Value| {
                        value
                            .get("id")
                            .filter(|id| id.as_str().is_some_and(|id| !id.is_empty()))
                            .cloned()
                            .unwrap_or_default()
                    };
                    if part.get("functionCall").is_some_and(|call| !call.is_null())
                        && message["role"] != "user"
                    {
                        asked.push(id(&part["functionCall"]));
                    } else if part.get("functionResponse").is_some() && message["role"] == "user" {
                        answered.push(id(&part["functionResponse"]));
                    }
                }
            }
            Style::OpenAI => {
                asked.extend(list(&message["tool_calls"]).iter().map(|call| call["id"].clone()));
                if message["role"] == "tool" {
                    answered.push(message["tool_call_id"].clone());
                }
            }
        }
    }
    (asked, answered)
}
