//! The two tools that list and read the resources of servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{StillClock, noted, servers, stdio, with};
use toolnexus_core::{ContentPart, Tool, ToolContext, ToolResult, ToolSource};
use toolnexus_mcp::{McpSource, load_mcp, resource_tools};
use toolnexus_testkit::mcp::{AnswerMode, HttpOptions, McpFixture, McpHttpFixture, Step};

async fn load(entries: Value) -> McpSource {
    load_mcp(&servers(entries)).await
}

fn list(source: &McpSource) -> Tool {
    resource_tools(source).swap_remove(0)
}

fn read(source: &McpSource) -> Tool {
    resource_tools(source).swap_remove(1)
}

async fn listed(source: &McpSource, args: Value) -> ToolResult {
    list(source).execute(args).await
}

async fn read_one(source: &McpSource, uri: &str) -> ToolResult {
    read(source).execute(json!({"server": "docs", "uri": uri})).await
}

fn resources(uris: &[&str]) -> Value {
    json!({"resources": uris.iter().map(|uri| json!({ "uri": uri })).collect::<Vec<_>>()})
}

fn offering(uris: &[&str]) -> McpFixture {
    McpFixture::new().on("resources/list", [Step::result(resources(uris))])
}

fn entry(fixture: &McpFixture) -> Value {
    stdio(fixture, json!({}))
}

fn failed(phase: &str, text: &str) -> String {
    format!("mcp server \"docs\" failed at {phase}: {text}")
}

// MCP-103, MCP-104
#[tokio::test]
async fn there_are_always_two_tools() {
    let source = load(json!({"docs": entry(&offering(&["a:1"]))})).await;
    assert!(source.tools.is_empty(), "never added by themselves");
    for tools in [
        resource_tools(&source),
        resource_tools(&source.connections[..]),
        resource_tools(&McpSource::default()),
    ] {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["list_mcp_resources", "read_mcp_resource"]);
        for tool in &tools {
            assert_eq!(tool.source, ToolSource::Mcp);
            let hints = tool.hints.unwrap();
            assert!(hints.read_only && !hints.destructive);
            assert_eq!(tool.input_schema["type"], "object");
        }
        let keys = |tool: &Tool| {
            tool.input_schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(
            (keys(&tools[0]), tools[0].input_schema.get("required")),
            (vec!["server".to_owned()], None)
        );
        assert_eq!(keys(&tools[1]), ["server", "uri"]);
        assert_eq!(tools[1].input_schema["required"], json!(["server", "uri"]));
    }
}

// MCP-105: by server name, then as listed; what is absent is left out; anew each time (MCP-108)
#[tokio::test]
async fn resources_are_listed_by_server() {
    let zeta = McpFixture::new()
        .on("resources/list", [Step::result(json!({"resources": [
            {"uri": "z:2", "name": "two", "title": "T", "description": "the second", "mimeType": "text/plain", "size": 5},
            {"name": "no uri"}, 7,
            {"uri": "z:1", "name": 5, "description": null},
        ]}))])
        .on("resources/list", [Step::result(resources(&["z:3"]))]);
    let alpha = offering(&["a:1"]);
    let nothing = McpFixture::new();
    let off = with(entry(&nothing), json!({"enabled": false}));
    let source =
        load(json!({"zeta": entry(&zeta), "alpha": entry(&alpha), "nothing": entry(&nothing), "off": off}))
            .await;
    let all = listed(&source, json!({})).await;
    assert!(!all.is_error);
    assert_eq!(
        all.output,
        r#"[{"uri":"a:1","server":"alpha"},{"uri":"z:2","name":"two","description":"the second","mimeType":"text/plain","server":"zeta"},{"uri":"z:1","server":"zeta"}]"#
    );
    assert_eq!(listed(&source, json!({"server": "zeta"})).await.output, r#"[{"uri":"z:3","server":"zeta"}]"#);
    assert_eq!(listed(&source, json!({"server": "nothing"})).await, ToolResult::success("[]"));
    assert_eq!(
        listed(&source, Value::Null).await.output,
        r#"[{"uri":"a:1","server":"alpha"},{"uri":"z:3","server":"zeta"}]"#
    );

    let mut turned = source.connections.clone();
    turned.reverse();
    let again = resource_tools(&turned)[0].execute(json!({"server": null})).await;
    assert_eq!(again.output, r#"[{"uri":"a:1","server":"alpha"},{"uri":"z:3","server":"zeta"}]"#);
}

fn page(uris: std::ops::Range<usize>, next: Option<&str>) -> Vec<Step> {
    let uris: Vec<Value> = uris.map(|uri| json!({"uri": format!("r:{uri}")})).collect();
    vec![Step::result(json!({"resources": uris, "nextCursor": next}))]
}

// MCP-105, MCP-52: page by page, a thousand shown, the others counted
#[tokio::test]
async fn long_lists_are_cut() {
    let paged = McpFixture::new()
        .on("resources/list", page(0..600, Some("a")))
        .on("resources/list", page(600..1300, Some("b")))
        .on("resources/list", page(1300..1305, None));
    let (paged, ledger, _folder) = noted(paged);
    let source = load(json!({"docs": entry(&paged), "other": entry(&offering(&["o:1", "o:2"]))})).await;
    let output = listed(&source, json!({})).await.output;
    let (array, rest) = output.split_once('\n').unwrap();
    let array: Vec<Value> = serde_json::from_str(array).unwrap();
    assert_eq!((array.len(), &array[999]["uri"]), (1000, &json!("r:999")));
    assert_eq!(rest, "… 307 more");
    let cursors: Vec<Value> = ledger
        .of_method("resources/list")
        .unwrap()
        .iter()
        .map(|list| list["params"]["cursor"].clone())
        .collect();
    assert_eq!(cursors, [json!(null), json!("a"), json!("b")]);

    let endless = McpFixture::new().on("resources/list", page(0..1, Some("again")));
    let source = load(json!({"docs": entry(&endless)})).await;
    let result = listed(&source, json!({})).await;
    let text = "malformed-body (MCP list returned duplicate cursor: again)";
    assert_eq!(result, ToolResult::failure(failed("resources/list", text)));
}

// MCP-105: one failing server costs the others nothing
#[tokio::test]
async fn failures_follow_the_list() {
    let broken = McpFixture::new().fails("resources/list", -32603, "secret");
    let entries = json!({"docs": entry(&broken), "good": entry(&offering(&["g:1"]))});
    let source = load(entries).await;
    let failure = failed("resources/list", "rpc-error (code -32603)");
    let result = listed(&source, json!({})).await;
    assert_eq!(result, ToolResult::success(format!("[{{\"uri\":\"g:1\",\"server\":\"good\"}}]\n{failure}")));
    assert_eq!(listed(&source, json!({"server": "docs"})).await, ToolResult::failure(&failure));

    let many = McpFixture::new().on("resources/list", page(0..1001, None));
    let source = load(json!({"docs": entry(&broken), "many": entry(&many)})).await;
    let output = listed(&source, json!({})).await.output;
    let lines: Vec<&str> = output.lines().skip(1).collect();
    assert_eq!(lines, [failure.as_str(), "… 1 more"]);

    let source = load(json!({"docs": entry(&broken), "docs2": entry(&broken)})).await;
    let both = listed(&source, json!({})).await;
    assert!(both.is_error);
    assert_eq!(both.output, format!("{failure}\n{}", failure.replace("docs", "docs2")));
    source.close().await;
}

// MCP-106
#[tokio::test]
async fn contents_become_text_and_parts() {
    let contents = |contents: Value| Step::result(json!({ "contents": contents }));
    let blob = json!({"uri": "b:1", "mimeType": "image/png", "blob": "AAAA"});
    let fixture = || {
        McpFixture::new()
            .on(
                "resources/read",
                [contents(json!([{"uri": "a:1", "text": "one"}, {"uri": "a:2", "text": "two"}]))],
            )
            .on("resources/read", [contents(json!([blob, {"uri": "b:2", "blob": ""}]))])
            .on("resources/read", [contents(json!([blob, {"uri": "a:1", "text": "text"}, {"uri": "c:1"}]))])
            .on("resources/read", [contents(json!([]))])
            .on("resources/read", [contents(json!(null))])
    };
    let json_mode = HttpOptions { answers: AnswerMode::Json, ..HttpOptions::default() };
    let event_mode = HttpOptions { answers: AnswerMode::Sse, ..HttpOptions::default() };
    let servers = [
        McpHttpFixture::start(fixture(), json_mode).await.unwrap(),
        McpHttpFixture::start(fixture(), event_mode).await.unwrap(),
    ];
    for entry in [entry(&fixture()), servers[0].server_json(), servers[1].server_json()] {
        let source = load(json!({ "docs": entry })).await;
        let texts = read_one(&source, "a:1").await;
        assert_eq!((texts.output.as_str(), texts.is_error, texts.parts.len()), ("one\ntwo", false, 0));
        assert_eq!(Value::Object(texts.metadata.unwrap()), json!({"server": "docs"}));

        let blobs = read_one(&source, "b:1").await;
        assert_eq!(blobs.output, "file (image/png, 3 bytes)\nfile (application/octet-stream, 0 bytes)");
        let file = ContentPart::File {
            mime_type: "image/png".into(),
            data: Some("AAAA".into()),
            url: None,
            name: Some("b:1".into()),
        };
        assert_eq!(blobs.parts[0], file);

        let mixed = read_one(&source, "a:1").await;
        assert_eq!(mixed.output, "text\nunsupported content (resource)");
        assert_eq!(mixed.parts, [file]);
        assert_eq!(read_one(&source, "d:1").await.output, "");
        let malformed = read_one(&source, "d:1").await;
        assert_eq!(
            (malformed.output, malformed.is_error),
            (failed("resources/read", "malformed-body"), true)
        );
    }
    let asked = servers[0].requests_of("resources/read");
    assert_eq!(asked[0].json["params"]["uri"], "a:1");
}

// MCP-107
#[tokio::test]
async fn wrong_arguments_are_named() {
    let none = McpSource::default();
    for tool in resource_tools(&none) {
        assert_eq!(tool.execute(json!({})).await, ToolResult::failure("no MCP server is connected"));
    }
    let broken = json!({"description": "neither url nor command"});
    let source = load(json!({"docs": entry(&offering(&[])), "broken": broken})).await;
    let says = async |tool: Tool, args: Value| {
        let result = tool.execute(args).await;
        assert!(result.is_error);
        result.output
    };
    for name in ["broken", "nowhere", ""] {
        let unknown = format!("unknown MCP server \"{name}\"");
        assert_eq!(says(list(&source), json!({ "server": name })).await, unknown);
        assert_eq!(says(read(&source), json!({"server": name, "uri": "a:1"})).await, unknown);
    }
    assert_eq!(says(read(&source), json!({"server": "docs"})).await, "missing required argument \"uri\"");
    assert_eq!(says(read(&source), json!({"uri": "a:1"})).await, "missing required argument \"server\"");
    assert_eq!(
        says(read(&source), json!({"server": "docs", "uri": 5})).await,
        "argument \"uri\" must be a string"
    );
    assert_eq!(
        says(list(&source), json!({"server": ["docs"]})).await,
        "argument \"server\" must be a string"
    );
}

// MCP-108, MCP-77
#[tokio::test]
async fn nothing_is_asked_after_a_close() {
    let (fixture, ledger, _folder) = noted(offering(&["a:1"]));
    let source = load(json!({"docs": entry(&fixture), "other": entry(&offering(&["o:1"]))})).await;
    source.disconnect("docs").await;
    let closed = failed("resources/list", "closed");
    assert_eq!(
        listed(&source, json!({})).await.output,
        format!("[{{\"uri\":\"o:1\",\"server\":\"other\"}}]\n{closed}")
    );
    source.close().await;
    let both = format!("{closed}\n{}", closed.replace("docs", "other"));
    assert_eq!(listed(&source, json!({})).await, ToolResult::failure(both));
    let result = read_one(&source, "a:1").await;
    assert_eq!((result.output, result.is_error), (failed("resources/read", "closed"), true));
    assert!(ledger.of_method("resources/list").unwrap().is_empty());
}

// MCP-108, MCP-88 to MCP-90: bounded, cancelled and withdrawn like a call
#[tokio::test(start_paused = true)]
async fn requests_have_the_limits_of_calls() {
    let _still = StillClock::hold();
    let fixture = McpFixture::new().never_answers("resources/list").never_answers("resources/read");
    let (fixture, ledger, _folder) = noted(fixture);
    let source = load(json!({"docs": entry(&fixture)})).await;
    let args = json!({"server": "docs", "uri": "a:1"});
    let mut notices = 0;
    for (tool, method) in [(list(&source), "resources/list"), (read(&source), "resources/read")] {
        let context = ToolContext { timeout_ms: Some(1000), ..Default::default() };
        let (result, ()) = tokio::join!(tool.execute_with(args.clone(), context), async {
            ledger.wait_for(method, 1).await.unwrap();
            tokio::time::advance(Duration::from_millis(1001)).await;
        });
        assert_eq!(result.output, failed(method, "timeout"));

        let context = ToolContext::default();
        let cancel = context.cancel.clone();
        let (result, ()) = tokio::join!(tool.execute_with(args.clone(), context), async {
            ledger.wait_for(method, 2).await.unwrap();
            cancel.cancel();
        });
        assert_eq!(result.output, failed(method, "cancelled"));
        notices += 2;
        let asked = ledger.of_method(method).unwrap();
        let withdrawn = ledger.wait_for("notifications/cancelled", notices).await.unwrap();
        assert_eq!(withdrawn[notices - 1]["params"]["requestId"], asked[1]["id"]);
    }
}
