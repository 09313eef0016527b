//! What a server gets to read, byte for byte: a copy of its standard input is kept on the way.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolnexus::{ToolContext, Toolkit};
use toolnexus_conformance::processes::eventually;
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::cancel::{echo, under_way};
use crate::servers::{Setting, Wire, call_with, load};

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let copy = folder.path().join("input");
    let direct = setting.everything(Wire::Stdio, json!({}));
    let argv = direct.get("command").and_then(Value::as_array).ok_or("no command")?;
    let mut command = vec![json!("sh"), json!("-c"), json!("tee \"$0\" | \"$@\""), json!(copy)];
    command.extend(argv.iter().cloned());
    let toolkit = load(json!({"everything": {"command": command}})).await?;
    report.check("recorded: the handshake", handshake(&copy)).await;
    report.check("recorded: every call has a progress token of its own", tokens(&toolkit, &copy)).await;
    report.check("recorded: a cancel names its request", cancelled(&toolkit, setting, &copy)).await;
    report.check("recorded: a timeout is told as well", timed_out(&toolkit, &copy)).await;
    report.check("recorded: nothing but requests and notices of this client", methods(&copy)).await;
    toolkit.close().await;
    Ok(())
}

fn messages(copy: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(copy).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn of_method(copy: &Path, method: &str) -> Vec<Value> {
    messages(copy).into_iter().filter(|message| message.get("method") == Some(&json!(method))).collect()
}

fn pointed(message: &Value, pointer: &str) -> Value {
    message.pointer(pointer).cloned().unwrap_or_default()
}

// MCP-37
async fn handshake(copy: &Path) -> Outcome {
    let messages = messages(copy);
    let methods: Vec<Value> = messages.iter().map(|message| pointed(message, "/method")).collect();
    equal(
        "order",
        &methods,
        &["initialize", "notifications/initialized", "tools/list"].map(|name| json!(name)),
    )?;
    let initialize = messages.first().ok_or("nothing was recorded")?;
    equal("protocol", &pointed(initialize, "/params/protocolVersion"), &json!("2025-11-25"))?;
    equal("capabilities", &pointed(initialize, "/params/capabilities"), &json!({}))?;
    equal("name", &pointed(initialize, "/params/clientInfo/name"), &json!("toolnexus"))
}

// MCP-78, MCP-88
async fn tokens(toolkit: &Toolkit, copy: &Path) -> Outcome {
    echo(toolkit, Wire::Stdio, "first").await?;
    echo(toolkit, Wire::Stdio, "second").await?;
    let calls = of_method(copy, "tools/call");
    let [first, second] = calls.as_slice() else { return Err(format!("{} calls", calls.len())) };
    for (call, message) in [(first, "first"), (second, "second")] {
        equal("name", &pointed(call, "/params/name"), &json!("echo"))?;
        equal("arguments", &pointed(call, "/params/arguments"), &json!({"message": message}))?;
        holds(!pointed(call, "/params/_meta/progressToken").is_null(), || "no progress token".into())?;
    }
    let token = |call| pointed(call, "/params/_meta/progressToken");
    holds(token(first) != token(second), || "one token for two calls".into())
}

// MCP-90
async fn cancelled(toolkit: &Toolkit, setting: &Setting, copy: &Path) -> Outcome {
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let running = under_way(toolkit, setting, Wire::Stdio, context).await?;
    cancel.cancel();
    running.await.map_err(|error| error.to_string())??;
    withdrawn(copy, 1).await
}

async fn timed_out(toolkit: &Toolkit, copy: &Path) -> Outcome {
    let context = ToolContext { timeout_ms: Some(200), ..Default::default() };
    let args = json!({"duration": 30, "steps": 1});
    call_with(toolkit, "everything_trigger-long-running-operation", args, context).await?;
    withdrawn(copy, 2).await
}

/// Waits for the `number`th withdrawal and compares it with the long call of that number.
async fn withdrawn(copy: &Path, number: usize) -> Outcome {
    let notices = || of_method(copy, "notifications/cancelled");
    eventually(Duration::from_secs(5), || notices().len() >= number).await;
    let notices = notices();
    equal("notices", &notices.len(), &number)?;
    let long = json!("trigger-long-running-operation");
    let calls: Vec<Value> = of_method(copy, "tools/call")
        .into_iter()
        .filter(|call| call.pointer("/params/name") == Some(&long))
        .collect();
    let id = |message: Option<&Value>, pointer| message.map(|message| pointed(message, pointer));
    equal("id", &id(notices.last(), "/params/requestId"), &id(calls.last(), "/id"))
}

// MCP-186: no logging/setLevel; MCP-119: no probe of the era over stdio
async fn methods(copy: &Path) -> Outcome {
    const KNOWN: &[&str] =
        &["initialize", "notifications/initialized", "tools/list", "tools/call", "notifications/cancelled"];
    let others: Vec<Value> = messages(copy)
        .into_iter()
        .filter(|message| {
            !message.get("method").and_then(Value::as_str).is_some_and(|name| KNOWN.contains(&name))
        })
        .collect();
    equal("others", &others, &Vec::<Value>::new())
}
