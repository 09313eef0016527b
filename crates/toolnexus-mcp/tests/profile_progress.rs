//! A served call that tells how far it has come, on the event stream that answers it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

#[path = "support/profile.rs"]
mod profile;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Response;
use http_body_util::BodyExt as _;
use profile::{post, post_until, served, text, tool};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{LogLevel, Tool, ToolResult};
use toolnexus_mcp::server::McpBody;

const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");

fn call(name: &str, token: Value) -> String {
    let params = json!({"name": name, "_meta": {"progressToken": token}});
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}).to_string()
}

/// The messages of a whole event stream.
fn events(text: &str) -> Vec<Value> {
    let events = text.strip_suffix("\n\n").unwrap().split("\n\n");
    events.map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap()).collect()
}

fn progress(token: Value, progress: Value) -> Value {
    let mut params = json!({"progressToken": token});
    params.as_object_mut().unwrap().extend(progress.as_object().unwrap().clone());
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

fn done(output: &str) -> Value {
    let result = json!({"content": [{"type": "text", "text": output}], "isError": false});
    json!({"jsonrpc": "2.0", "id": 5, "result": result})
}

/// A tool that reports each step when it is let go on.
fn steps(gate: &Arc<Semaphore>) -> Tool {
    let gate = Arc::clone(gate);
    tool("work", move |context| {
        let gate = Arc::clone(&gate);
        async move {
            for step in [1.0, 2.0] {
                gate.acquire().await.unwrap().forget();
                context.progress(step, Some(2.0), (step == 2.0).then_some("almost"));
            }
            context.log(LogLevel::Error, "nobody hears this");
            gate.acquire().await.unwrap().forget();
            ToolResult::success("done")
        }
    })
}

async fn next(response: &mut Response<McpBody>) -> Value {
    let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    events(std::str::from_utf8(&frame).unwrap()).remove(0)
}

// MCP-188, case 98
#[tokio::test]
async fn reports_come_while_the_tool_works_and_then_the_answer() {
    let gate = Arc::new(Semaphore::new(0));
    let profile = served([steps(&gate)]);
    let mut response = post(&profile, &[BOTH], call("work", json!(7))).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    gate.add_permits(1);
    assert_eq!(next(&mut response).await, progress(json!(7), json!({"progress": 1, "total": 2})));
    gate.add_permits(1);
    let second = json!({"progress": 2, "total": 2, "message": "almost"});
    assert_eq!(next(&mut response).await, progress(json!(7), second));
    gate.add_permits(1);
    assert_eq!(next(&mut response).await, done("done"));
    assert!(response.body_mut().frame().await.is_none());
}

// MCP-188: without a token, or without the type, one JSON body
#[tokio::test]
async fn who_does_not_ask_gets_json() {
    let gate = Arc::new(Semaphore::new(1000));
    let profile = served([steps(&gate)]);
    let without_token = r#"{"id":5,"method":"tools/call","params":{"name":"work"}}"#.to_owned();
    for (headers, body) in [
        (vec![BOTH], without_token),
        (vec![BOTH], call("work", json!(null))),
        (vec![BOTH], call("work", json!({"a": 1}))),
        (vec![], call("work", json!(7))),
        (vec![("accept", "application/json")], call("work", json!(7))),
        (vec![("accept", "*/*")], call("work", json!(7))),
    ] {
        let response = post(&profile, &headers, body.clone()).await;
        assert_eq!(response.headers()["content-type"], "application/json", "{headers:?} {body}");
        assert_eq!(serde_json::from_str::<Value>(&text(response).await).unwrap(), done("done"));
    }
    // What is no call is JSON whatever it carries.
    let list = r#"{"id":5,"method":"tools/list","params":{"_meta":{"progressToken":1}}}"#;
    assert_eq!(post(&profile, &[BOTH], list).await.headers()["content-type"], "application/json");
    let unknown = post(&profile, &[BOTH], call("none", json!(1))).await;
    assert_eq!(unknown.headers()["content-type"], "application/json");
}

// MCP-188: progress only grows, and the last report comes out even when the answer follows at once
#[tokio::test]
async fn reports_that_bring_no_news_are_left_out() {
    let backwards = tool("backwards", |context| async move {
        for step in [2.0, 1.0, 2.0, 2.5] {
            context.progress(step, None, None);
            tokio::task::yield_now().await;
        }
        context.progress(3.0, None, None);
        ToolResult::success("done")
    });
    let silent = tool("silent", |_| async { ToolResult::success("done") });
    let profile = served([backwards, silent]);
    let told = text(post(&profile, &[BOTH], call("backwards", json!("p"))).await).await;
    let report = |at: Value| progress(json!("p"), json!({"progress": at}));
    assert_eq!(events(&told), [report(json!(2)), report(json!(2.5)), report(json!(3)), done("done")]);
    let told = text(post(&profile, &[BOTH], call("silent", json!("p"))).await).await;
    assert_eq!(events(&told), [done("done")]);
}

// MCP-188: a token comes back as it came
#[tokio::test]
async fn tokens_are_echoed() {
    let reports = tool("reports", |context| async move {
        context.progress(1.0, None, None);
        ToolResult::success("done")
    });
    let profile = served([reports]);
    for token in [json!(0), json!(-3), json!(""), json!("a\nb"), json!(u64::MAX), json!(1.5)] {
        let told = text(post(&profile, &[BOTH], call("reports", token.clone())).await).await;
        assert_eq!(events(&told)[0]["params"]["progressToken"], token);
    }
}

// MCP-188, MCP-152, MCP-158: whoever stops reading has gone away
#[tokio::test]
async fn dropping_the_stream_cancels_the_call() {
    let (tokens, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let hangs = tool("hangs", move |context| {
        context.progress(1.0, None, None);
        tokens.send(context.cancel).unwrap();
        std::future::pending()
    });
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    let profile = served([hangs]).on_call(Arc::new(move |event| noted.lock().unwrap().push(event.is_error)));
    let mut response = post(&profile, &[BOTH], call("hangs", json!(1))).await;
    next(&mut response).await;
    let token = begun.recv().await.unwrap();
    assert!(!token.is_cancelled());
    drop(response);
    assert!(token.is_cancelled());
    assert_eq!(*told.lock().unwrap(), [true]);

    // The server stops instead.
    let stop = CancellationToken::new();
    let mut response = post_until(&profile, &[BOTH], call("hangs", json!(1)), stop.clone()).await;
    next(&mut response).await;
    stop.cancel();
    let answer = next(&mut response).await;
    assert_eq!(answer["error"], json!({"code": -32603, "message": "Internal error: the call was cancelled"}));
    assert!(response.body_mut().frame().await.is_none());
}

// MCP-188: a long silence does not look like a dead connection
#[tokio::test(start_paused = true)]
async fn silence_is_broken_by_comments() {
    let slow = tool("slow", |_| async {
        tokio::time::sleep(Duration::from_secs(40)).await;
        ToolResult::success("done")
    });
    let told = text(post(&served([slow]), &[BOTH], call("slow", json!(1))).await).await;
    let (comments, answer) = told.split_at(told.find("data:").unwrap());
    assert_eq!(comments, ": keep-alive\n\n: keep-alive\n\n");
    assert_eq!(events(answer), [done("done")]);
}
