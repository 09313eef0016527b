//! Servers that speak the HTTP+SSE transport of 2024-11-05.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{legacy as era_legacy, output, output_within, servers, tool, with};
use toolnexus_core::ToolContext;
use toolnexus_mcp::{McpSource, load_mcp};
use toolnexus_testkit::mcp::{
    FixtureTool, HttpEffect, HttpFault, HttpOptions, McpFixture, McpHttpFixture, Step,
};

fn fixture() -> McpFixture {
    McpFixture::new()
        .tool(FixtureTool::echo("say"))
        .tool(FixtureTool::hangs("stuck"))
        .tool(FixtureTool::late("late"))
        .tool(FixtureTool::error("bad", -32602, "no such file"))
        .tool(FixtureTool::asks("roots", "roots/list", json!({})))
        .tool(FixtureTool::progress("busy", 8, 100))
}

async fn serve(options: HttpOptions) -> McpHttpFixture {
    McpHttpFixture::start(fixture(), options).await.unwrap()
}

fn legacy() -> HttpOptions {
    HttpOptions { legacy_sse: Some("/messages?s=1".into()), ..Default::default() }
}

async fn load(server: &McpHttpFixture, more: Value) -> McpSource {
    load_mcp(&servers(json!({"docs": with(era_legacy(server.server_json()), more)}))).await
}

fn called(text: &str) -> String {
    format!("mcp server \"docs\" failed at tools/call: {text}")
}

// MCP-36: found out by the answer to `initialize`, headers and all
#[tokio::test]
async fn a_legacy_server_is_found_out() {
    let server = serve(legacy()).await;
    let source = load(&server, json!({"headers": {"X-Key": "k"}})).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    assert_eq!(output(&source, "docs_say").await, "{}");
    assert_eq!(output(&source, "docs_bad").await, called("rpc-error (code -32602): no such file"));
    assert_eq!(
        output(&source, "docs_roots").await,
        r#"{"error":{"code":-32601,"message":"Method not found"}}"#
    );
    let requests = server.requests();
    let sent: Vec<_> = requests
        .iter()
        .map(|request| {
            (request.method.as_str(), request.path.as_str(), request.rpc_method().unwrap_or_default())
        })
        .collect();
    assert_eq!(
        sent[..6],
        [
            ("POST", "/mcp", "initialize"),
            ("GET", "/mcp", ""),
            ("POST", "/messages?s=1", "initialize"),
            ("POST", "/messages?s=1", "notifications/initialized"),
            ("POST", "/messages?s=1", "tools/list"),
            ("POST", "/messages?s=1", "tools/call"),
        ]
    );
    assert!(requests.iter().all(|request| request.header("x-key") == Some("k")));
    source.close().await;
    server.wait_for_silence().await.unwrap();
}

// MCP-6: asked for, it is tried first, and the other one after it
#[tokio::test]
async fn an_entry_may_ask_for_it() {
    let server = serve(legacy()).await;
    let source = load(&server, json!({"type": "sse"})).await;
    assert_eq!(output(&source, "docs_say").await, "{}");
    assert_eq!(server.requests()[0].method, "GET");
    source.close().await;

    let server = serve(HttpOptions { sessions: false, standing_stream: false, ..Default::default() }).await;
    let source = load(&server, json!({"type": "sse"})).await;
    assert_eq!(output(&source, "docs_say").await, "{}");
    source.close().await;
}

// MCP-36: what does not say "not this transport" leads nowhere else
#[tokio::test]
async fn other_failures_are_final() {
    for effect in [
        HttpEffect::status(401),
        HttpEffect::status(403),
        HttpEffect::status(408),
        HttpEffect::status(429),
        HttpEffect::status(500),
        HttpEffect::HangUp,
        HttpEffect::empty_stream(),
        HttpEffect::body("application/json", "{}"),
    ] {
        let faults = vec![HttpFault::on("initialize", effect.clone())];
        let server = serve(HttpOptions { faults, ..legacy() }).await;
        let source = load(&server, json!({})).await;
        assert!(source.errors["docs"].contains("failed at initialize"), "{:?}", source.errors);
        assert_eq!(server.requests().len(), 1, "{effect:?}");
    }
}

// MCP-47, MCP-38: a start that goes wrong, or goes on for ever
#[tokio::test]
async fn a_broken_start_fails_at_connect() {
    for (effect, text) in [
        (HttpEffect::SilentStream, "timeout"),
        (HttpEffect::Silence, "timeout"),
        (HttpEffect::CutStream("event: end".into()), "transport (stream-failed)"),
        (HttpEffect::empty_stream(), "transport (stream-failed)"),
        (
            HttpEffect::body("text/event-stream", "event: endpoint\ndata: http://127.0.0.1:1/x\n\n"),
            "malformed-body",
        ),
    ] {
        let faults = vec![HttpFault::on_http("GET", effect)];
        let server = serve(HttpOptions { faults, ..legacy() }).await;
        let started = Instant::now();
        let source = load(&server, json!({"timeout": 1500})).await;
        assert_eq!(source.errors["docs"], format!("mcp server \"docs\" failed at connect: {text}"));
        assert!(started.elapsed() < Duration::from_secs(5));
        server.wait_for_silence().await.unwrap();
    }
    let refuse = HttpFault::on_http("GET", HttpEffect::status(404));
    let server = serve(HttpOptions { faults: vec![refuse], ..legacy() }).await;
    let source = load(&server, json!({"type": "sse"})).await;
    assert_eq!(source.errors["docs"], "mcp server \"docs\" failed at connect: http-status (HTTP 404)");
    let source = load(&server, json!({})).await;
    assert_eq!(source.errors["docs"], "mcp server \"docs\" failed at initialize: http-status (HTTP 405)");
}

// MCP-88, MCP-90: limits, progress and withdrawal as on every wire
#[tokio::test]
async fn limits_hold() {
    let server = serve(legacy()).await;
    let source = load(&server, json!({})).await;
    assert_eq!(output_within(&source, "docs_busy", 600).await, "done");
    assert_eq!(output_within(&source, "docs_late", 200).await, called("timeout"));
    let notices = server.wait_for_method("notifications/cancelled", 1).await.unwrap();
    assert_eq!(notices[0].json["params"]["requestId"], server.requests_of("tools/call")[1].json["id"]);
    let context = ToolContext::default();
    let cancel = context.cancel.clone();
    let (result, ()) = tokio::join!(tool(&source, "docs_stuck").execute_with(json!({}), context), async {
        server.wait_for_method("tools/call", 3).await.unwrap();
        cancel.cancel();
    });
    assert_eq!(result.output, called("cancelled"));
    server.wait_for_method("notifications/cancelled", 2).await.unwrap();
    assert_eq!(output(&source, "docs_say").await, "{}");
    source.close().await;
}

// MCP-127: a refused POST fails its call alone
#[tokio::test]
async fn a_refused_post_fails_one_call() {
    let fault = HttpFault::on("tools/call", HttpEffect::status(500)).once();
    let server = serve(HttpOptions { faults: vec![fault], ..legacy() }).await;
    let source = load(&server, json!({})).await;
    assert_eq!(output(&source, "docs_say").await, called("http-status (HTTP 500)"));
    assert_eq!(output(&source, "docs_say").await, "{}");
    source.close().await;
}

// MCP-68, MCP-77: the end of the stream is the end of the connection
#[tokio::test]
async fn the_stream_is_the_connection() {
    let server = serve(legacy()).await;
    let source = load(&server, json!({})).await;
    let (stuck, ()) = tokio::join!(tool(&source, "docs_stuck").execute(json!({})), async {
        server.wait_for_method("tools/call", 1).await.unwrap();
        server.end_streams();
    });
    assert_eq!(stuck.output, called("transport (stream-failed)"));
    assert_eq!(output(&source, "docs_say").await, called("transport (stream-failed)"));
    assert_eq!(source.connected_count(), 0);
    source.close().await;

    let source = load(&server, json!({})).await;
    let stuck = tool(&source, "docs_stuck").clone();
    let running = tokio::spawn(async move { stuck.execute(json!({})).await });
    server.wait_for_method("tools/call", 2).await.unwrap();
    source.close().await;
    assert_eq!(running.await.unwrap().output, called("closed"));
    server.wait_for_silence().await.unwrap();
}

// MCP-58: dropped or ended, nothing is left
#[tokio::test]
async fn a_dropped_load_leaves_no_stream() {
    let slow = McpFixture::new().on("initialize", [Step::AwaitGate("never".into())]);
    let server = McpHttpFixture::start(slow, legacy()).await.unwrap();
    tokio::select! {
        _ = load(&server, json!({"type": "sse"})) => unreachable!("the server is stuck"),
        ready = server.wait_for_method("initialize", 1) => drop(ready.unwrap()),
    }
    server.wait_for_silence().await.unwrap();
}
