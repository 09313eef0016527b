//! A toolkit under a profile: what each message is answered with.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

#[path = "support/profile.rs"]
mod profile;
mod support;

use std::sync::{Arc, Mutex};

use profile::{ask, echo, error, post, post_until, result, served, text, tool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{
    ContentPart, Request, Tool, ToolContext, ToolResult, ToolSource, Toolkit, pending, relay_tool,
};
use toolnexus_mcp::server::{McpProfile, McpServeConfig, McpServeError, OnCall, OnCallEvent, exposed_tools};

fn named(name: &str) -> Tool {
    tool(name, |_| async { ToolResult::success("ran") })
}

fn under(config: McpServeConfig, tools: impl IntoIterator<Item = Tool>) -> McpProfile {
    McpProfile::new(&Toolkit::from_tools(tools), config)
}

fn only(names: &[&str]) -> McpServeConfig {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    McpServeConfig { tools: Some(names), ..Default::default() }
}

async fn listed(profile: &McpProfile) -> Vec<String> {
    let listing = result(profile, "tools/list", json!({})).await;
    let tools = listing["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

// MCP-151, MCP-145, SERVE-66, case 74
#[tokio::test]
async fn initialize_says_who_answers() {
    let config = McpServeConfig { name: "tn-mcp".into(), version: "1.0.0".into(), ..Default::default() };
    let profile = under(config, []);
    let answer = result(&profile, "initialize", json!({})).await;
    assert_eq!(
        answer.to_string(),
        r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"tn-mcp","version":"1.0.0"}}"#
    );
    let unnamed = result(&served([]), "initialize", json!({})).await;
    assert_eq!(unnamed["serverInfo"], json!({"name": "toolnexus", "version": "0.1.0"}));
}

// MCP-151, MCP-145, SERVE-66
#[tokio::test]
async fn known_revisions_are_echoed_unless_one_is_configured() {
    async fn revision(profile: &McpProfile, asked: Value) -> Value {
        result(profile, "initialize", json!({ "protocolVersion": asked })).await["protocolVersion"].take()
    }
    let open = served([]);
    for known in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(revision(&open, json!(known)).await, known);
    }
    for unknown in [json!("2026-07-28"), json!("1999-01-01"), json!(7), json!(null)] {
        assert_eq!(revision(&open, unknown).await, "2024-11-05");
    }
    let config = McpServeConfig { protocol_version: "2025-03-26".into(), ..Default::default() };
    let fixed = under(config, []);
    for asked in [json!("2025-11-25"), json!("1999-01-01"), json!(null)] {
        assert_eq!(revision(&fixed, asked).await, "2025-03-26");
    }
}

// MCP-151: each request stands alone, whatever its headers say
#[tokio::test]
async fn nothing_has_to_come_first() {
    let profile = served([echo()]);
    let headers =
        [("mcp-session-id", "made-up"), ("mcp-protocol-version", "1999-01-01"), ("accept", "text/html")];
    let body = r#"{"id":"x","method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}"#;
    let response = post(&profile, &headers, body).await;
    assert_eq!(response.status(), 200);
    assert!(response.headers().get("mcp-session-id").is_none());
    // Case 78.
    assert_eq!(
        text(response).await,
        r#"{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"hi"}],"isError":false}}"#
    );
    assert_eq!(result(&profile, "ping", json!({})).await, json!({}));
}

// MCP-148, MCP-151, SERVE-67
#[tokio::test]
async fn tools_of_every_source_are_listed_by_name() {
    let schema = json!({"properties": {"z": {"$ref": "#/$defs/a"}}, "type": "object", "x-a": [1]});
    let toolkit = Toolkit::from_tools([
        named("zebra").source(ToolSource::Builtin),
        relay_tool("relay", "Elsewhere", None),
        named("alpha").source(ToolSource::Mcp).title("Alpha").input_schema(schema.clone()),
    ]);
    let profile = McpProfile::new(&toolkit, McpServeConfig::default());
    let listing = result(&profile, "tools/list", json!({"cursor": "anything"})).await;
    assert_eq!(
        listing.to_string(),
        json!({"tools": [
            {"name": "alpha", "description": "", "inputSchema": schema},
            {"name": "relay", "description": "Elsewhere", "inputSchema": {"type": "object", "properties": {}}},
            {"name": "zebra", "description": "", "inputSchema": {"type": "object"}},
        ]})
        .to_string()
    );
    let exposed = exposed_tools(&toolkit, profile.config());
    let names: Vec<&str> = exposed.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["alpha", "relay", "zebra"]);

    // The toolkit goes on living.
    toolkit.register([named("later")]);
    assert_eq!(listed(&profile).await, ["alpha", "later", "relay", "zebra"]);
}

// MCP-148, MCP-149, SERVE-68, SERVE-70, cases 75 and 76
#[tokio::test]
async fn what_is_not_exposed_is_as_good_as_unknown() {
    let profile = under(only(&["skill", "no-such-tool"]), [named("skill"), named("bash")]);
    assert_eq!(listed(&profile).await, ["skill"]);
    let unknown = (-32602, "Unknown tool: bash".to_owned());
    assert_eq!(error(&profile, "tools/call", json!({"name": "bash"})).await, unknown);
    let missing = served([named("skill")]);
    assert_eq!(error(&missing, "tools/call", json!({"name": "bash"})).await, unknown);
    // Also with arguments that would be refused.
    assert_eq!(error(&profile, "tools/call", json!({"name": "bash", "arguments": 1})).await, unknown);

    let nothing = under(only(&[]), [named("skill")]);
    assert!(listed(&nothing).await.is_empty());
    assert_eq!(error(&nothing, "tools/call", json!({"name": "skill"})).await.0, -32602);
}

// MCP-150, SERVE-67, case 77
#[tokio::test]
async fn names_are_not_sanitized_again() {
    let profile = served([named("calc.sum")]);
    assert_eq!(listed(&profile).await, ["calc.sum"]);
    let call = json!({"name": "calc_sum"});
    assert_eq!(error(&profile, "tools/call", call).await, (-32602, "Unknown tool: calc_sum".into()));
    let called = result(&profile, "tools/call", json!({"name": "calc.sum"})).await;
    assert_eq!(called["content"][0]["text"], "ran");
}

// MCP-152, SERVE-69
#[tokio::test]
async fn arguments_are_an_object_or_absent() {
    let show = Tool::new("show", |args: Value, _context| async move { ToolResult::success(args) });
    let profile = served([show]);
    for absent in [json!({"name": "show"}), json!({"name": "show", "arguments": null})] {
        assert_eq!(result(&profile, "tools/call", absent).await["content"][0]["text"], "{}");
    }
    let given = json!({"name": "show", "arguments": {"b": 1, "a": null}});
    assert_eq!(result(&profile, "tools/call", given).await["content"][0]["text"], r#"{"b":1,"a":null}"#);
    for odd in [json!([1]), json!("x"), json!(1), json!(false)] {
        let call = json!({"name": "show", "arguments": odd});
        assert_eq!(error(&profile, "tools/call", call).await, (-32602, "arguments must be an object".into()));
    }
}

// MCP-152: text, then parts; neither metadata nor structured content
#[tokio::test]
async fn results_go_out_as_text_and_parts() {
    let rich = tool("rich", |_| async {
        let metadata = json!({"secret": "/home/me"}).as_object().cloned().unwrap();
        let mut result = ToolResult::structured(json!({"n": 1})).with_metadata(metadata);
        result.parts.push(ContentPart::from_base64("image/png", "AAAA", None));
        result
    });
    let asks =
        tool("asks", |_| async { pending(Request { prompt: "Which city?".into(), ..Default::default() }) });
    let profile = served([rich, asks]);
    assert_eq!(
        result(&profile, "tools/call", json!({"name": "rich"})).await,
        json!({"content": [
            {"type": "text", "text": r#"{"n":1}"#},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        ], "isError": false})
    );
    assert_eq!(
        result(&profile, "tools/call", json!({"name": "asks"})).await,
        json!({"content": [{"type": "text", "text": "Which city?"}], "isError": true})
    );
}

// MCP-153, SERVE-69, case 79
#[tokio::test]
async fn a_failing_tool_is_a_result() {
    let panics = Tool::new("panics", |_args, _context: ToolContext| async {
        if true {
            panic!("out of beans")
        }
    });
    let fails = Tool::new("fails", |_args, _context| async { Err::<(), _>("no such city") });
    let profile = served([panics, fails, echo()]);
    let failed = result(&profile, "tools/call", json!({"name": "panics"})).await;
    assert_eq!(failed["isError"], true);
    assert!(failed["content"][0]["text"].as_str().unwrap().contains("out of beans"), "{failed}");
    let failed = result(&profile, "tools/call", json!({"name": "fails"})).await;
    assert_eq!(failed, json!({"content": [{"type": "text", "text": "no such city"}], "isError": true}));
    assert_eq!(ask(&profile, "tools/call", json!({"name": "echo"})).await["result"]["isError"], false);
}

// MCP-154, SERVE-70, case 80
#[tokio::test]
async fn what_cannot_be_carried_out_has_a_code_on_http_200() {
    let profile = served([echo()]);
    for (body, answer) in [
        (r#"{oops"#, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}"#,
        ),
        (
            r#"{"id":"a","method":7}"#,
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32600,"message":"Invalid Request"}}"#,
        ),
        (
            r#"{"id":1.5,"method":"resources/list"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"error":{"code":-32601,"message":"Method not found"}}"#,
        ),
        (
            r#"{"id":1,"method":"server/discover"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#,
        ),
        (
            r#"{"id":1,"method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: "}}"#,
        ),
        (
            r#"{"id":1,"method":"tools/call","params":{"name":["echo"]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: "}}"#,
        ),
    ] {
        let response = post(&profile, &[], body).await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"application/json".parse().unwrap())
        );
        assert_eq!(text(response).await, answer, "{body}");
    }
}

// MCP-155, SERVE-72, case 81
#[tokio::test]
async fn what_wants_no_answer_gets_an_empty_one() {
    let profile = served([]);
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/of/the/future","params":[1]}"#,
        // Not a request: its sender wants to hear nothing.
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"no"}}"#,
    ] {
        let response = post(&profile, &[], body).await;
        assert_eq!(
            (response.status().as_u16(), response.headers().contains_key("content-type")),
            (202, false)
        );
        assert_eq!(text(response).await, "", "{body}");
    }
}

fn noting() -> (Arc<Mutex<Vec<OnCallEvent>>>, OnCall) {
    let events: Arc<Mutex<Vec<OnCallEvent>>> = Arc::default();
    let noted = Arc::clone(&events);
    (events, Arc::new(move |event| noted.lock().unwrap().push(event)))
}

// MCP-158, SERVE-71
#[tokio::test]
async fn the_host_is_told_of_each_call_once() {
    let (events, on_call) = noting();
    let fails = named("fails").source(ToolSource::Http);
    let fails = Tool::new(fails.name, |_args, _context| async { Err::<(), _>("no") }).source(fails.source);
    let profile = under(only(&["echo", "fails"]), [echo(), fails, named("kept")]).on_call(on_call);
    ask(&profile, "tools/call", json!({"name": "echo"})).await;
    ask(&profile, "tools/call", json!({"name": "fails"})).await;
    ask(&profile, "tools/call", json!({"name": "kept"})).await;
    ask(&profile, "tools/call", json!({"name": "none"})).await;
    ask(&profile, "tools/list", json!({})).await;
    let told = events.lock().unwrap().clone();
    let shown: Vec<_> =
        told.iter().map(|event| (event.name.as_str(), event.source, event.is_error)).collect();
    assert_eq!(shown, [("echo", ToolSource::Custom, false), ("fails", ToolSource::Http, true)]);
    let wire = serde_json::to_value(&told[1]).unwrap();
    assert_eq!(wire, json!({"name": "fails", "source": "http", "ms": told[1].ms, "is_error": true}));
}

// MCP-158, SERVE-7, SERVE-71
#[tokio::test]
async fn a_panic_of_the_host_changes_nothing() {
    let profile = served([echo()]).on_call(Arc::new(|_| panic!("the host is broken")));
    let call = json!({"name": "echo", "arguments": {"text": "hi"}});
    for _ in 0..2 {
        assert_eq!(result(&profile, "tools/call", call.clone()).await["content"][0]["text"], "hi");
    }
}

// MCP-152, MCP-158, MCP-159: the client goes away, or the server stops
#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_and_told() {
    let (tokens, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let hangs = tool("hangs", move |context| {
        tokens.send(context.cancel).unwrap();
        std::future::pending()
    });
    let (events, on_call) = noting();
    let profile = served([hangs]).on_call(on_call);
    let body = r#"{"id":1,"method":"tools/call","params":{"name":"hangs"}}"#;

    let stop = CancellationToken::new();
    let call = tokio::spawn({
        let (profile, stop) = (profile.clone(), stop.clone());
        async move { text(post_until(&profile, &[], body, stop).await).await }
    });
    let token = begun.recv().await.unwrap();
    stop.cancel();
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error: the call was cancelled"}}"#;
    assert_eq!(call.await.unwrap(), answer);
    assert!(token.is_cancelled());

    let call = tokio::spawn(async move { text(post(&profile, &[], body).await).await });
    let token = begun.recv().await.unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert!(token.is_cancelled());
    let told = events.lock().unwrap();
    assert_eq!(told.iter().map(|event| event.is_error).collect::<Vec<_>>(), [true, true]);
}

// RUN-22: a caller that repeats a call can say so
#[tokio::test]
async fn an_idempotency_key_reaches_the_tool() {
    let key =
        tool("key", |context| async move { ToolResult::success(format!("{:?}", context.idempotency_key)) });
    let profile = served([key]);
    let call = json!({"name": "key", "_meta": {"toolnexus/idempotencyKey": "r1-c2"}});
    assert_eq!(result(&profile, "tools/call", call).await["content"][0]["text"], "Some(\"r1-c2\")");
    let call = json!({"name": "key", "_meta": {"toolnexus/idempotencyKey": 5}});
    assert_eq!(result(&profile, "tools/call", call).await["content"][0]["text"], "None");
}

// MCP-146, MCP-145
#[test]
fn a_documents_section_is_a_profile() {
    let read = |section: Value| McpServeConfig::from_value(&section);
    assert_eq!(read(json!({})), Ok(McpServeConfig::default()));
    let all =
        json!({"name": "n", "version": "2", "protocolVersion": "2025-06-18", "tools": ["a"], "other": 1});
    let config = McpServeConfig {
        name: "n".into(),
        version: "2".into(),
        protocol_version: "2025-06-18".into(),
        tools: Some(vec!["a".into()]),
    };
    assert_eq!(read(all), Ok(config));
    assert_eq!(read(json!({"name": null, "tools": null})), Ok(McpServeConfig::default()));
    assert_eq!(read(json!({"tools": []})).unwrap().tools, Some(vec![]));
    for (odd, message) in [
        (json!([]), "mcpServer must be a JSON object"),
        (json!({"name": 1}), "mcpServer.name must be a string"),
        (json!({"tools": "a"}), "mcpServer.tools must be an array of tool names"),
        (json!({"tools": ["a", 1]}), "mcpServer.tools must be an array of tool names"),
        (json!({"tools": {"a": true}}), "mcpServer.tools must be an array of tool names"),
    ] {
        let error: McpServeError = read(odd).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

// A span for each call, named as OpenTelemetry has it, without payloads.
#[tokio::test]
async fn calls_are_traced() {
    let fails = Tool::new("fails", |_args, _context| async { Err::<(), _>("s3cret") });
    let profile = served([echo(), fails]);
    let (spans, _listening) = support::Spans::listen();
    ask(&profile, "tools/call", json!({"name": "echo", "arguments": {"text": "s3cret"}})).await;
    ask(&profile, "tools/call", json!({"name": "fails"})).await;
    let seen = spans.named("mcp.call");
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[0]["gen_ai.tool.name"].contains("echo") && !seen[0].contains_key("error.type"), "{seen:?}");
    assert!(seen[1]["error.type"].contains("tool_error"), "{seen:?}");
    assert!(!format!("{seen:?}").contains("s3cret"), "{seen:?}");
}
