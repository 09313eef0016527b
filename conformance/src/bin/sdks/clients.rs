//! Their clients against what we serve: a handler with everything, and the profile over both wires.

use serde_json::{Value, json};
use toolnexus::serve::{McpServeConfig, ServeOptions};
use toolnexus::{BuiltinsConfig, McpConfigInput, ToolkitOptions, create_toolkit};
use toolnexus_conformance::{Everything, Outcome, Report, equal, holds};

use crate::peers::{Peer, Setting};

pub(crate) async fn checks(report: &mut Report, setting: &Setting, peer: Peer) {
    // A client that probes for the newest era has to find its way back to a handshake.
    let modes: &[&str] = if peer.is_modern() { &["auto", "legacy"] } else { &["legacy"] };
    for mode in modes {
        let name = |what: &str| format!("{} client, {mode}: {what}", peer.as_str());
        report.check(&name("handler"), handler(setting, peer, mode)).await;
        report.check(&name("profile over http"), profile_http(setting, peer, mode)).await;
        report.check(&name("profile over stdio"), profile_stdio(setting, peer, mode)).await;
    }
}

/// The texts of a result's content.
fn text(result: &Value) -> Vec<&str> {
    let content = result.get("content").and_then(Value::as_array);
    content.into_iter().flatten().filter_map(|entry| entry.get("text")?.as_str()).collect()
}

/// The calls that a client has made, and what it saw on the way.
fn calls(seen: &Value) -> Result<Vec<(&Value, &Value)>, String> {
    let calls = seen.get("calls").and_then(Value::as_array).ok_or_else(|| format!("no calls: {seen}"))?;
    Ok(calls.iter().filter_map(|call| Some((call, call.get("result")?))).collect())
}

fn field<'v>(value: &'v Value, key: &str) -> &'v Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// Progress may be told in fewer steps on a busy machine; it grows, and its end is told.
fn progressed(call: &Value, last: Value) -> Outcome {
    let steps = field(call, "progress").as_array().cloned().unwrap_or_default();
    equal("last progress", &steps.last(), &Some(&last))?;
    let done: Vec<f64> = steps.iter().filter_map(|step| step.get(0)?.as_f64()).collect();
    holds(done.is_sorted(), || format!("progress: {steps:?}"))
}

// MCP-162, MCP-165, MCP-166, MCP-169, MCP-172, MCP-174, MCP-175, MCP-176, MCP-182, CORE-141
async fn handler(setting: &Setting, peer: Peer, mode: &str) -> Outcome {
    let server = Everything::start().await?;
    let plan = json!([
        ["test_simple_text", {}],
        ["test_multiple_content_types", {}],
        ["test_tool_with_progress", {}],
        ["test_tool_with_logging", {}],
        ["test_elicitation", {"message": "Who are you?"}],
        ["test_error_handling", {}],
    ]);
    let seen = setting.look(peer, mode, &[Some("http"), Some(server.url()), None], &plan).await?;
    server.stop().await;
    equal("revision", field(&seen, "protocol"), &json!(peer.revision()))?;
    equal("server", field(&seen, "server"), &json!("toolnexus-conformance"))?;
    let tools = field(&seen, "tools").as_array().map(Vec::len);
    equal("tools", &tools, &Some(13))?;
    let calls = calls(&seen)?;
    let [simple, mixed, progress, logging, asking, failing] = calls.as_slice() else {
        return Err(format!("{} calls", calls.len()));
    };
    equal("text", &text(simple.1), &vec!["This is a simple text response for testing."])?;
    let types = field(mixed.1, "content").as_array().cloned().unwrap_or_default();
    let types: Vec<&Value> = types.iter().map(|entry| field(entry, "type")).collect();
    equal("content", &types, &vec!["text", "image", "resource"])?;
    progressed(progress.0, json!([100, 100])).or_else(|_| progressed(progress.0, json!([100.0, 100.0])))?;
    let lines = json!([
        ["info", "Tool execution started"],
        ["info", "Tool processing data"],
        ["info", "Tool execution completed"],
    ]);
    equal("log", field(logging.0, "logs"), &lines)?;
    if peer.knows_elicitation() {
        equal("asked", field(asking.0, "asked"), &json!(["Who are you?"]))?;
        let said = text(asking.1).concat();
        holds(said.contains("action=accept") && said.contains("ada@example.test"), || said.clone())?;
    } else {
        // A client that cannot ask gets the question as a failure.
        equal("unasked", field(asking.1, "isError"), &json!(true))?;
    }
    equal("failed", field(failing.1, "isError"), &json!(true))?;
    let resource = seen.pointer("/resource/0/text");
    let expected = json!("This is the content of the static text resource.");
    equal("resource", &resource, &Some(&expected))?;
    let prompt = seen.pointer("/prompt/0/content/text");
    equal("prompt", &prompt, &Some(&json!("Prompt with arguments: arg1='a', arg2='b'")))
}

/// The configuration that is served: the server of an SDK.
fn served(setting: &Setting) -> Value {
    json!({"mcpServers": {"peer": setting.stdio_server(Peer::OldTypescript)}})
}

fn plan() -> Value {
    json!([["peer_add", {"a": 1, "b": 2}], ["peer_picture", {}], ["peer_work", {}], ["peer_fail", {}]])
}

// MCP-145, MCP-151, MCP-152, MCP-156, MCP-157, MCP-188
async fn profile_http(setting: &Setting, peer: Peer, mode: &str) -> Outcome {
    let options = ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(served(setting))),
        builtins: Some(BuiltinsConfig::off()),
        ..Default::default()
    };
    let toolkit = create_toolkit(options).await.map_err(|error| error.to_string())?;
    let profile = McpServeConfig { name: "lender".into(), ..Default::default() };
    let options = ServeOptions { mcp: Some(profile), ..Default::default() };
    let server = toolkit.serve("127.0.0.1:0", options).await.map_err(|error| error.to_string())?;
    let url = format!("{}/mcp", server.url);
    let seen = setting.look(peer, mode, &[Some("http"), Some(&url), None], &plan()).await;
    server.stop().await;
    toolkit.close().await;
    lent(&seen?, peer, "lender")
}

// MCP-160
async fn profile_stdio(setting: &Setting, peer: Peer, mode: &str) -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let config = folder.path().join("mcp.json");
    std::fs::write(&config, served(setting).to_string()).map_err(|error| error.to_string())?;
    let (command, config) = (setting.command(), config.display().to_string());
    let serve = ["serve", "--mcp-stdio", "--no-skills", "--name", "lender", "--config", &config];
    let at: Vec<Option<&str>> =
        [Some("stdio"), None, Some(command.as_str())].into_iter().chain(serve.map(Some)).collect();
    lent(&setting.look(peer, mode, &at, &plan()).await?, peer, "lender")
}

/// The tools of the served SDK's server, as a client sees them through toolnexus.
fn lent(seen: &Value, peer: Peer, name: &str) -> Outcome {
    equal("revision", field(seen, "protocol"), &json!(peer.revision()))?;
    equal("server", field(seen, "server"), &json!(name))?;
    let tools = json!(["peer_add", "peer_ask", "peer_fail", "peer_picture", "peer_work"]);
    equal("tools", field(seen, "tools"), &tools)?;
    let calls = calls(seen)?;
    let [add, picture, work, fail] = calls.as_slice() else { return Err(format!("{} calls", calls.len())) };
    equal("sum", &text(add.1), &vec![r#"{"sum":3}"#])?;
    let data = picture.1.pointer("/content/1/data");
    equal("picture", &data, &Some(&json!("iVBORw0KGgo=")))?;
    equal("work", &text(work.1), &vec!["worked"])?;
    progressed(work.0, json!([2, 2])).or_else(|_| progressed(work.0, json!([2.0, 2.0])))?;
    equal("failed", field(fail.1, "isError"), &json!(true))?;
    equal("why", &text(fail.1), &vec!["out of order"])
}
