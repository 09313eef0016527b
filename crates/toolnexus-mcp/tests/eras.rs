//! Which era a remote server is of, found out and remembered.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Spans, noted, output, servers, stdio, tool, with};
use toolnexus_core::ToolContext;
use toolnexus_mcp::transport::{McpRequest, SeamError, SessionMode};
use toolnexus_mcp::{ConcurrencyPolicy, LoadMcpOptions, McpEra, McpSource, load_mcp, load_mcp_with};
use toolnexus_testkit::mcp::{
    AnswerMode, FixtureTool, HttpEffect, HttpFault, HttpOptions, McpFixture, McpHttpFixture, Step,
};
use toolnexus_testkit::warnings::Warnings;

/// Options with a path that no other server of this process has had, so that nothing is known of it.
fn fresh(options: HttpOptions) -> HttpOptions {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    HttpOptions { path: format!("/mcp/{}", NEXT.fetch_add(1, Ordering::Relaxed)), ..options }
}

async fn serve(fixture: McpFixture, options: HttpOptions) -> McpHttpFixture {
    McpHttpFixture::start(fixture, fresh(options)).await.unwrap()
}

/// A legacy server without sessions on which that goes wrong.
async fn legacy(faults: Vec<HttpFault>) -> McpHttpFixture {
    let fixture = McpFixture::new().tool(FixtureTool::text("search", "found"));
    serve(fixture, HttpOptions { faults, sessions: false, standing_stream: false, ..Default::default() })
        .await
}

fn modern_fixture() -> McpFixture {
    McpFixture::new().modern().never_answers("initialize").tool(FixtureTool::text("search", "found"))
}

async fn modern(faults: Vec<HttpFault>) -> McpHttpFixture {
    serve(modern_fixture(), HttpOptions { faults, standing_stream: false, ..Default::default() }).await
}

async fn load(server: &McpHttpFixture, more: Value) -> McpSource {
    load_mcp(&servers(json!({"docs": with(server.server_json(), more)}))).await
}

async fn connected(server: &McpHttpFixture) -> McpSource {
    let source = load(server, json!({})).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

/// What follows the head of a failed server's message.
async fn failure(server: &McpHttpFixture, more: Value) -> String {
    let source = load(server, more).await;
    let text = source.errors["docs"].clone();
    text.strip_prefix("mcp server \"docs\" failed at initialize: ").unwrap_or(&text).to_owned()
}

/// The methods of all that was posted.
fn posted(server: &McpHttpFixture) -> Vec<String> {
    let requests = server.requests();
    let posts = requests.iter().filter(|request| request.method == "POST");
    posts.map(|post| post.rpc_method().unwrap_or("-").to_owned()).collect()
}

fn mode(source: &McpSource) -> SessionMode {
    source.connections[0].session().unwrap().mode
}

/// A JSON-RPC error on an HTTP status.
fn error(status: u16, code: i64, data: Value) -> HttpEffect {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": "no", "data": data}});
    HttpEffect::status(status).header("content-type", "application/json").text(body.to_string())
}

/// A fault of the first so many probes, or of all.
fn probe(effect: HttpEffect) -> HttpFault {
    HttpFault::on("server/discover", effect)
}

const DISCOVER: &str = "server/discover";
const HANDSHAKE: [&str; 3] = ["initialize", "notifications/initialized", "tools/list"];
const MODERN: [&str; 2] = [DISCOVER, "tools/list"];

fn probed(then: &[&'static str]) -> Vec<&'static str> {
    [&[DISCOVER], then].concat()
}

// MCP-116, MCP-117, MCP-119, MCP-120, case 65
#[tokio::test]
async fn a_modern_server_is_found_out_and_never_greeted() {
    for answers in [AnswerMode::Auto, AnswerMode::Json, AnswerMode::Sse] {
        let fixture = modern_fixture().name("lab").version("7").instructions("Ask.");
        let server = serve(fixture, HttpOptions { answers, ..Default::default() }).await;
        let source = load(&server, json!({"headers": {"X-Key": "k"}})).await;
        assert_eq!(output(&source, "docs_search").await, "found");
        assert_eq!(posted(&server), [DISCOVER, "tools/list", "tools/call"]);

        let connection = &source.connections[0];
        let session = connection.session().unwrap();
        assert_eq!((session.mode, session.version.as_str()), (SessionMode::Ready, "2026-07-28"));
        assert_eq!(session.concurrency, ConcurrencyPolicy::Stateless);
        let info = connection.server_info().unwrap();
        assert_eq!((info.name.as_str(), info.version.as_str()), ("lab", "7"));
        assert_eq!(info.instructions.as_deref(), Some("Ask."));

        let requests = server.requests();
        for request in &requests {
            assert_eq!(request.method, "POST");
            assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
            assert_eq!(request.header("mcp-method"), request.rpc_method());
            assert_eq!(request.header("mcp-session-id"), None);
            assert_eq!(request.header("x-key"), Some("k"));
            let meta = &request.json["params"]["_meta"];
            assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
            assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "toolnexus");
            assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
        }
        assert_eq!(requests[0].header("mcp-name"), None);
        assert_eq!(requests[2].header("mcp-name"), Some("search"));
        source.close().await;
        assert_eq!(server.requests().len(), 3, "there is no session to take leave of");
    }
}

// MCP-117: names that are no plain text, and marked arguments
#[tokio::test]
async fn a_modern_call_is_routed_by_its_headers() {
    let marked = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "size": {"type": "integer", "x-mcp-header": "Size"},
        "note": {"type": "string"},
    }});
    let fixture = modern_fixture().tool(FixtureTool::text("süß", "sweet").input_schema(marked.clone())).tool(
        FixtureTool::text("odd", "x").input_schema(
            json!({"type": "object", "properties": {"a": {"type": "object", "x-mcp-header": "A"}}}),
        ),
    );
    let server = serve(fixture, HttpOptions::default()).await;
    let warnings = Warnings::listen();
    let source = connected(&server).await;
    let names: Vec<_> = source.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["docs_s__", "docs_search"]);
    assert_eq!(warnings.with("tool \"odd\" skipped").len(), 1);

    let sweet = tool(&source, "docs_s__");
    assert_eq!(sweet.input_schema, marked, "the schema stays as the server wrote it");
    sweet.execute(json!({"region": "é", "size": 3, "note": "n"})).await;
    sweet.execute(json!({"region": null})).await;
    let request = McpRequest::new("tools/call").params(json!({"name": "süß", "arguments": {"region": "eu"}}));
    source.connections[0].send(request).await.unwrap();
    let named = [
        ("resources/read", json!({"uri": "mem:1"}), Some("mem:1")),
        ("resources/subscribe", json!({"uri": "mem:2"}), Some("mem:2")),
        ("prompts/get", json!({"name": "greet"}), Some("greet")),
        ("tasks/get", json!({"taskId": "t 1"}), Some("t 1")),
        ("resources/list", json!({}), None),
    ];
    for (method, params, name) in named {
        let sent = source.connections[0].send(McpRequest::new(method).params(params)).await;
        assert!(matches!(sent, Err(SeamError::Failed(_))), "{sent:?}");
        let request = &server.requests_of(method)[0];
        assert_eq!((request.header("mcp-method"), request.header("mcp-name")), (Some(method), name));
    }

    let calls = server.requests_of("tools/call");
    assert_eq!(calls[0].header("mcp-name"), Some("=?base64?c8O8w58=?="));
    assert_eq!(calls[0].header("mcp-param-region"), Some("=?base64?w6k=?="));
    assert_eq!(calls[0].header("mcp-param-size"), Some("3"));
    assert_eq!(calls[1].headers.keys().filter(|name| name.as_str().starts_with("mcp-param-")).count(), 0);
    assert_eq!(calls[2].header("mcp-param-region"), Some("eu"));
    source.close().await;
}

// MCP-117, MCP-118: to a legacy server marks mean nothing
#[tokio::test]
async fn marks_mean_nothing_to_a_legacy_server() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"x-mcp-header": ""}}});
    let fixture = McpFixture::new().tool(FixtureTool::text("odd", "x").input_schema(schema));
    let server = serve(fixture, HttpOptions::default()).await;
    let source = load(&server, json!({"era": "legacy"})).await;
    assert_eq!(tool(&source, "docs_odd").execute(json!({"a": "1"})).await.output, "x");
    let call = &server.requests_of("tools/call")[0];
    assert!(call.header("mcp-param-a").is_none() && call.header("mcp-method").is_none());
    source.close().await;
}

// MCP-120, MCP-121, MCP-122, case 66; D12: a known legacy server is asked nothing more than before
#[tokio::test]
async fn a_legacy_server_is_found_out_once() {
    let refusals = [
        HttpEffect::status(400),
        HttpEffect::status(404),
        HttpEffect::status(405),
        HttpEffect::status(501),
        error(400, -32000, json!(null)),
        error(200, -32601, json!(null)),
        error(404, -32601, json!(null)),
        error(200, -32602, json!(null)),
        error(500, -32600, json!(null)),
    ];
    for refusal in refusals {
        let server = legacy(vec![probe(refusal.clone())]).await;
        let source = connected(&server).await;
        assert_eq!(mode(&source), SessionMode::Handshake, "{refusal:?}");
        assert_eq!(posted(&server), probed(&HANDSHAKE), "{refusal:?}");
        assert_eq!(output(&source, "docs_search").await, "found");

        let before = posted(&server).len();
        let again = connected(&server).await;
        assert_eq!(posted(&server)[before..], HANDSHAKE, "no extra request: {refusal:?}");
        // The handshake is a fresh one, with ids of its own.
        for initialize in server.requests_of("initialize") {
            assert_eq!(initialize.json["id"], 0);
            assert_eq!(initialize.header("mcp-protocol-version"), None);
        }
        source.close().await;
        again.close().await;
    }
}

// MCP-118, MCP-120, MCP-121: a server with sessions, which refuses what comes without one
#[tokio::test]
async fn a_probe_has_no_session_and_leaves_none() {
    let fixture = McpFixture::new().tool(FixtureTool::text("search", "found"));
    let server = serve(fixture, HttpOptions::default()).await;
    let source = load(&server, json!({"headers": {"X-Key": "k"}})).await;
    assert_eq!(output(&source, "docs_search").await, "found");
    let requests = server.requests();
    assert_eq!(requests[0].rpc_method(), Some(DISCOVER));
    assert_eq!((requests[0].header("mcp-session-id"), requests[0].header("x-key")), (None, Some("k")));
    assert_eq!(source.connections[0].session().unwrap().concurrency, ConcurrencyPolicy::Serialized);
    source.close().await;
    assert_eq!(server.requests().iter().filter(|request| request.method == "DELETE").count(), 1);
}

// MCP-120, case 67, case 91: final answers
#[tokio::test]
async fn a_refused_client_is_not_tried_otherwise() {
    for status in [401, 403, 429] {
        for refusal in [HttpEffect::status(status), error(status, -32601, json!(null))] {
            let server = legacy(vec![probe(refusal)]).await;
            assert_eq!(failure(&server, json!({})).await, format!("http-status (HTTP {status})"));
            assert_eq!(posted(&server), [DISCOVER]);
        }
    }
    for code in [-32020, -32021] {
        for status in [200, 400] {
            let server = legacy(vec![probe(error(status, code, json!(null)))]).await;
            assert_eq!(failure(&server, json!({})).await, format!("rpc-error (code {code})"));
            assert_eq!(posted(&server), [DISCOVER]);
        }
    }
    let source = load_mcp(&servers(json!({"docs": {"url": "http://127.0.0.1:1/mcp"}}))).await;
    assert_eq!(source.errors["docs"], "mcp server \"docs\" failed at initialize: transport (connect-failed)");
}

// MCP-120, case 91: what says nothing is not remembered
#[tokio::test]
async fn an_unclear_answer_is_not_remembered() {
    let unclear = [
        HttpEffect::status(503),
        HttpEffect::status(202),
        HttpEffect::body("text/html", "<html>"),
        HttpEffect::body("application/json", "{oops"),
        HttpEffect::body("application/json", r#"{"jsonrpc":"2.0","id":0,"result":{"tools":[]}}"#),
        HttpEffect::body(
            "application/json",
            r#"{"jsonrpc":"2.0","id":0,"result":{"supportedVersions":["2025-11-25"],"capabilities":{}}}"#,
        ),
        HttpEffect::empty_stream(),
        HttpEffect::HangUp,
        HttpEffect::redirect("http://127.0.0.1:1/mcp"),
    ];
    for effect in unclear {
        let server = legacy(vec![probe(effect.clone()).once()]).await;
        let source = connected(&server).await;
        assert_eq!(posted(&server), probed(&HANDSHAKE), "{effect:?}");
        let again = connected(&server).await;
        assert_eq!(posted(&server)[4..], probed(&HANDSHAKE), "probed again: {effect:?}");
        source.close().await;
        again.close().await;
    }
}

// MCP-120: a legacy attempt that fails is what is reported, and is not remembered
#[tokio::test]
async fn a_failed_handshake_is_reported() {
    let faults = vec![
        probe(error(200, -32602, json!(null))),
        HttpFault::on("initialize", HttpEffect::status(503)).once(),
    ];
    let server = legacy(faults).await;
    assert_eq!(failure(&server, json!({})).await, "http-status (HTTP 503)");
    assert_eq!(posted(&server), [DISCOVER, "initialize"]);
    let source = connected(&server).await;
    assert_eq!(posted(&server)[2..], probed(&HANDSHAKE));
    source.close().await;
}

// MCP-38, MCP-120: silence to the probe costs half the time at the most, and counts inside the phase
#[tokio::test]
async fn a_silent_probe_is_given_up() {
    let server = legacy(vec![probe(HttpEffect::Silence)]).await;
    let started = Instant::now();
    let source = load(&server, json!({"timeout": 4000})).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    assert!(started.elapsed() >= Duration::from_secs(2));
    assert_eq!(mode(&source), SessionMode::Handshake);
    let again = load(&server, json!({"timeout": 4000})).await;
    assert_eq!(posted(&server)[4..], probed(&HANDSHAKE), "silence is not remembered");
    source.close().await;
    again.close().await;

    let started = Instant::now();
    let server =
        legacy(vec![probe(HttpEffect::Silence), HttpFault::on("initialize", HttpEffect::Silence)]).await;
    assert_eq!(failure(&server, json!({"timeout": 600})).await, "timeout");
    assert!(started.elapsed() >= Duration::from_millis(600));
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(posted(&server), [DISCOVER, "initialize"]);
}

// MCP-120: -32022 is negotiated, and where nothing is shared legacy is tried once
#[tokio::test]
async fn an_unsupported_revision_is_negotiated() {
    for status in [200, 400] {
        let shared = error(status, -32022, json!({"supported": ["2026-07-28", "2027-01-01"]}));
        let server = modern(vec![probe(shared).once()]).await;
        let source = connected(&server).await;
        assert_eq!(mode(&source), SessionMode::Ready);
        assert_eq!(posted(&server), probed(&MODERN));
        source.close().await;

        let foreign = error(status, -32022, json!({"supported": ["2027-01-01"]}));
        let server = legacy(vec![probe(foreign.clone())]).await;
        let source = connected(&server).await;
        assert_eq!(posted(&server), probed(&HANDSHAKE));
        let again = connected(&server).await;
        assert_eq!(posted(&server)[4..], HANDSHAKE, "what has succeeded is remembered");
        source.close().await;
        again.close().await;

        let server = legacy(vec![probe(foreign)]).await;
        assert_eq!(failure(&server, json!({"era": "modern"})).await, "rpc-error (code -32022)");
        assert_eq!(posted(&server), [DISCOVER]);
    }
}

// MCP-119: a given era is neither found out nor left, and teaches nothing
#[tokio::test]
async fn a_given_era_is_final() {
    let server = legacy(vec![]).await;
    assert_eq!(failure(&server, json!({"era": "modern"})).await, "rpc-error (code -32601)");
    assert_eq!(posted(&server), [DISCOVER]);
    let source = load(&server, json!({"era": "legacy"})).await;
    assert_eq!(posted(&server)[1..], HANDSHAKE);
    source.close().await;
    let source = connected(&server).await;
    assert_eq!(posted(&server)[4..], probed(&HANDSHAKE));
    source.close().await;

    let server = modern(vec![HttpFault::on("tools/call", HttpEffect::status(404))]).await;
    let source = load(&server, json!({"era": "modern"})).await;
    assert!(output(&source, "docs_search").await.ends_with("http-status (HTTP 404)"));
    assert_eq!(posted(&server), [DISCOVER, "tools/list", "tools/call"]);
    source.close().await;
    // The load's era serves servers that do not say; the older transport is of the other era.
    let opts = LoadMcpOptions { era: Some(McpEra::Modern), ..Default::default() };
    for more in [json!({}), json!({"type": "sse"})] {
        let before = server.requests().len();
        let config = servers(json!({"docs": with(server.server_json(), more)}));
        load_mcp_with(&config, opts.clone()).await.close().await;
        let requests = server.requests();
        let sent: Vec<_> = requests[before..].iter().map(|request| request.rpc_method().unwrap()).collect();
        assert_eq!(sent, MODERN);
    }
    let refused = modern(vec![HttpFault::on("initialize", HttpEffect::status(404))]).await;
    // Of the legacy era it may still speak the older transport.
    assert_eq!(failure(&refused, json!({"era": "legacy"})).await, "http-status (HTTP 404)");
    assert_eq!(posted(&refused), ["initialize"]);
}

// MCP-122: a known modern server is not probed; its facts are still asked for
#[tokio::test]
async fn a_known_modern_server_is_asked_for_its_facts_only() {
    let server = modern(vec![]).await;
    let (first, second) = (connected(&server).await, connected(&server).await);
    assert_eq!(posted(&server), [MODERN, MODERN].concat());
    first.close().await;
    second.close().await;
}

/// Lets that much time pass on tokio's clock, at once. Nothing is under way meanwhile.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

// MCP-122: query and userinfo make no other server; fifteen minutes do
#[tokio::test]
async fn a_verdict_is_kept_by_origin_and_path() {
    let server = legacy(vec![]).await;
    let source = connected(&server).await;
    assert_eq!(posted(&server), probed(&HANDSHAKE));
    source.close().await;
    let at =
        |url: String| async move { load_mcp(&servers(json!({"docs": {"url": url}}))).await.close().await };
    at(format!("{}?key=1", server.url())).await;
    at(server.url().replace("127.0.0.1", "u:p@127.0.0.1")).await;
    assert_eq!(posted(&server)[4..], [HANDSHAKE, HANDSHAKE].concat());
    pass(Duration::from_secs(800)).await;
    at(server.url()).await;
    assert_eq!(posted(&server)[10..], HANDSHAKE);
    pass(Duration::from_secs(100)).await;
    at(server.url()).await;
    assert_eq!(posted(&server)[13..], probed(&HANDSHAKE));
}

// MCP-122: a server that has become modern is found out anew, once
#[tokio::test]
async fn a_refused_handshake_drops_the_verdict() {
    for refusal in [
        HttpEffect::status(400),
        HttpEffect::status(404),
        HttpEffect::status(501),
        error(400, -32022, json!(null)),
    ] {
        let fixture = modern_fixture();
        let faults = vec![
            probe(HttpEffect::status(404)).once(),
            HttpFault::on("initialize", HttpEffect::body("application/json", INITIALIZED)).once(),
            HttpFault::on("notifications/initialized", HttpEffect::status(202)),
            HttpFault::on("initialize", refusal),
        ];
        let server = serve(fixture, HttpOptions { faults, ..Default::default() }).await;
        let source = connected(&server).await;
        assert_eq!(mode(&source), SessionMode::Handshake);
        let again = connected(&server).await;
        assert_eq!(mode(&again), SessionMode::Ready);
        assert_eq!(posted(&server)[4..], ["initialize", DISCOVER, "tools/list"]);
        source.close().await;
        again.close().await;
    }
}

const INITIALIZED: &str =
    r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}"#;

// MCP-122: it does not happen twice
#[tokio::test]
async fn a_contradiction_is_followed_once() {
    let faults = vec![HttpFault::on("initialize", HttpEffect::status(404)).after(1)];
    let server = legacy(faults).await;
    let source = connected(&server).await;
    assert_eq!(failure(&server, json!({})).await, "http-status (HTTP 404)");
    assert_eq!(posted(&server)[4..], ["initialize", DISCOVER, "initialize"]);
    source.close().await;
}

// MCP-122: a modern server that has become a legacy one, seen when it is greeted
#[tokio::test]
async fn a_refused_discovery_drops_the_verdict() {
    for refusal in [
        HttpEffect::status(405),
        HttpEffect::status(400),
        error(200, -32601, json!(null)),
        error(400, -32022, json!({})),
    ] {
        let answer = json!({"jsonrpc": "2.0", "id": 0, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}});
        let known = HttpEffect::body("application/json", answer.to_string());
        let server = legacy(vec![probe(known).once(), probe(refusal)]).await;
        let source = connected(&server).await;
        assert_eq!(mode(&source), SessionMode::Ready);
        let again = connected(&server).await;
        assert_eq!(mode(&again), SessionMode::Handshake);
        assert_eq!(posted(&server)[2..], [&[DISCOVER, DISCOVER][..], &HANDSHAKE].concat());
        source.close().await;
        again.close().await;
    }
}

// MCP-122: the same, seen by a call on a standing connection
#[tokio::test]
async fn a_refused_call_finds_the_era_out_anew() {
    for refusal in [
        HttpEffect::status(404),
        HttpEffect::status(405),
        HttpEffect::status(400),
        error(400, -32022, json!(null)),
    ] {
        let answer = json!({"jsonrpc": "2.0", "id": 0, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}});
        let faults = vec![
            probe(HttpEffect::body("application/json", answer.to_string())).once(),
            HttpFault::on("tools/call", refusal).once(),
        ];
        let server = legacy(faults).await;
        let source = connected(&server).await;
        assert_eq!(mode(&source), SessionMode::Ready);
        assert_eq!(output(&source, "docs_search").await, "found");
        assert_eq!(mode(&source), SessionMode::Handshake);
        assert_eq!(
            posted(&server)[2..],
            ["tools/call", DISCOVER, "initialize", "notifications/initialized", "tools/call"]
        );
        assert_eq!(output(&source, "docs_search").await, "found");
        source.close().await;
    }
}

// MCP-122, MCP-124: calls that meet it together get one new session; a close ends the search
#[tokio::test]
async fn calls_share_the_new_session() {
    let answer = json!({"jsonrpc": "2.0", "id": 0, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}});
    let known = || probe(HttpEffect::body("application/json", answer.to_string())).once();
    let server = legacy(vec![known(), HttpFault::on("tools/call", HttpEffect::status(404)).times(2)]).await;
    let source = connected(&server).await;
    let both = futures::future::join(output(&source, "docs_search"), output(&source, "docs_search"));
    assert_eq!(both.await, ("found".to_owned(), "found".to_owned()));
    assert_eq!(server.requests_of("initialize").len(), 1);
    source.close().await;

    let faults =
        vec![known(), HttpFault::on("tools/call", HttpEffect::status(404)), probe(HttpEffect::Silence)];
    let server = legacy(faults).await;
    let source = connected(&server).await;
    let call = tokio::spawn({
        let tool = tool(&source, "docs_search").clone();
        async move { tool.execute(json!({})).await.output }
    });
    server.wait_for_method(DISCOVER, 2).await.unwrap();
    source.close().await;
    assert_eq!(call.await.unwrap(), "mcp server \"docs\" failed at tools/call: closed");
}

// MCP-122: what says nothing about the era
#[tokio::test]
async fn an_ordinary_refusal_is_no_contradiction() {
    for (refusal, told) in [
        (error(404, -32601, json!(null)), "rpc-error (code -32601): no"),
        (error(400, -32602, json!(null)), "rpc-error (code -32602): no"),
        (HttpEffect::status(503), "http-status (HTTP 503)"),
        (HttpEffect::status(401), "http-status (HTTP 401)"),
    ] {
        let server = modern(vec![HttpFault::on("tools/call", refusal)]).await;
        let source = connected(&server).await;
        let output = output(&source, "docs_search").await;
        assert_eq!(output, format!("mcp server \"docs\" failed at tools/call: {told}"));
        assert_eq!(posted(&server), [DISCOVER, "tools/list", "tools/call"]);
        source.close().await;
    }
}

// MCP-36, MCP-120, D12: the older transport is found by the handshake's refusal, never by the probe's,
// and is known from then on
#[tokio::test]
async fn the_older_transport_is_found_and_known() {
    let options = HttpOptions { legacy_sse: Some("/messages".into()), ..Default::default() };
    let server = serve(McpFixture::new().tool(FixtureTool::text("search", "found")), options).await;
    let source = connected(&server).await;
    assert_eq!(output(&source, "docs_search").await, "found");
    let sent = |from: usize| -> Vec<String> {
        let requests = server.requests();
        let sent = requests[from..].iter();
        sent.map(|request| format!("{} {}", request.method, request.rpc_method().unwrap_or_default()))
            .collect()
    };
    assert_eq!(sent(0)[..3], ["POST server/discover", "POST initialize", "GET "]);
    let before = server.requests().len();
    let again = connected(&server).await;
    assert_eq!(sent(before)[..3], ["POST initialize", "GET ", "POST initialize"]);
    source.close().await;
    again.close().await;
}

// MCP-122: a server of the older transport that has become a modern one
#[tokio::test]
async fn the_older_transport_that_is_gone_is_forgotten() {
    let json = |value: Value| HttpEffect::body("application/json", value.to_string());
    let answer = |id: u64, result: Value| json(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let discovered = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
    let faults = vec![
        probe(answer(0, discovered)).after(1),
        HttpFault::on_http("GET", HttpEffect::status(405)).after(1),
        HttpFault::on("tools/list", answer(1, json!({"tools": []}))).after(1),
    ];
    let options = HttpOptions { legacy_sse: Some("/messages".into()), faults, ..Default::default() };
    let server = serve(McpFixture::new(), options).await;
    let source = connected(&server).await;
    let before = posted(&server).len();
    let again = connected(&server).await;
    assert_eq!(mode(&again), SessionMode::Ready);
    assert_eq!(posted(&server)[before..], ["initialize", DISCOVER, "tools/list"]);
    source.close().await;
    again.close().await;
}

// MCP-119, MCP-120: a program is greeted, asked or found out as its entry says
#[tokio::test]
async fn a_program_has_an_era_too() {
    let legacy = McpFixture::new().tool(FixtureTool::text("search", "found"));
    for (fixture, era, expected) in [
        (&legacy, "legacy", SessionMode::Handshake),
        (&legacy, "auto", SessionMode::Handshake),
        (&modern_fixture(), "auto", SessionMode::Ready),
        (&modern_fixture(), "modern", SessionMode::Ready),
    ] {
        let source = load_mcp(&servers(json!({"docs": stdio(fixture, json!({"era": era}))}))).await;
        assert!(source.errors.is_empty(), "{:?}", source.errors);
        assert_eq!(mode(&source), expected);
        assert_eq!(output(&source, "docs_search").await, "found");
        source.close().await;
    }
    let (refusing, ledger, _folder) = noted(legacy.clone().fails("server/discover", -32021, "no"));
    let source = load_mcp(&servers(json!({"docs": stdio(&refusing, json!({"era": "auto"}))}))).await;
    assert_eq!(source.errors["docs"], "mcp server \"docs\" failed at initialize: rpc-error (code -32021)");
    assert_eq!(ledger.of_method("initialize").unwrap().len(), 0);
    let source = load_mcp(&servers(json!({"docs": {"command": ["no-such-program"], "era": "auto"}}))).await;
    assert_eq!(source.errors["docs"], "mcp server \"docs\" failed at connect: transport (spawn-failed)");
    // A child that an unknown request kills is started anew.
    let (touchy, ledger, _folder) = noted(legacy.clone().on("server/discover", [Step::Exit { code: 3 }]));
    let source = load_mcp(&servers(json!({"docs": stdio(&touchy, json!({"era": "auto"}))}))).await;
    assert_eq!(output(&source, "docs_search").await, "found");
    assert_eq!(ledger.processes().unwrap().len(), 2);
    source.close().await;

    let source = load_mcp(&servers(json!({"docs": stdio(&legacy, json!({"era": "modern"}))}))).await;
    assert_eq!(source.errors["docs"], "mcp server \"docs\" failed at initialize: rpc-error (code -32601)");
}

// MCP-120, MCP-125: in traces each request has its own name
#[tokio::test]
async fn traces_tell_the_probe_from_the_handshake() {
    let server = legacy(vec![]).await;
    let (spans, _guard) = Spans::listen();
    let source = connected(&server).await;
    let _ = source.connections[0].send(McpRequest::new("prompts/list")).await;
    let seen: Vec<_> = spans
        .named("mcp.request")
        .into_iter()
        .map(|mut fields| (fields.remove("mcp.method.name").unwrap(), fields.remove("error.type")))
        .collect();
    let name = |name: &str| format!("{name:?}");
    assert_eq!(
        seen,
        [
            (name(DISCOVER), Some(name("rpc-error"))),
            (name("initialize"), None),
            (name("tools/list"), None),
            (name("prompts/list"), Some(name("rpc-error"))),
        ]
    );
    source.close().await;
}

// MCP-132: an answer to a server that asks in the modern era can be routed
#[tokio::test]
async fn an_answer_names_the_method_it_answers() {
    let asks = FixtureTool::asks("ask", "roots/list", json!({}));
    let server = serve(modern_fixture().tool(asks.clone()), HttpOptions::default()).await;
    let source = connected(&server).await;
    let output_of = output(&source, "docs_ask").await;
    assert!(output_of.contains("\"error\""), "{output_of}");
    let answer = server.requests().into_iter().find(|request| request.rpc_method().is_none()).unwrap();
    assert_eq!(answer.header("mcp-method"), Some("roots/list"));
    assert_eq!(answer.header("mcp-protocol-version"), Some("2026-07-28"));
    source.close().await;

    let server = serve(McpFixture::new().tool(asks), HttpOptions::default()).await;
    let source = load(&server, json!({"era": "legacy"})).await;
    output(&source, "docs_ask").await;
    let answer = server
        .requests()
        .into_iter()
        .find(|request| request.method == "POST" && request.rpc_method().is_none());
    assert_eq!(answer.unwrap().header("mcp-method"), None);
    source.close().await;
}

// MCP-88, MCP-90, MCP-117: limits and withdrawal in the modern era: the request is dropped, no notice sent
#[tokio::test]
async fn a_modern_call_is_withdrawn_by_dropping_it() {
    let fixture = modern_fixture().tool(FixtureTool::scripted("stuck", [Step::progress(1.0, 2.0)]));
    let server = serve(fixture, HttpOptions::default()).await;
    let source = connected(&server).await;
    let context = ToolContext { timeout_ms: Some(100), ..Default::default() };
    let stuck = tool(&source, "docs_stuck").execute_with(json!({}), context).await;
    assert_eq!(stuck.output, "mcp server \"docs\" failed at tools/call: timeout");
    server.wait_for_abandoned(1).await.unwrap();
    assert_eq!(output(&source, "docs_search").await, "found");
    assert!(server.requests_of("notifications/cancelled").is_empty());
    source.close().await;
}
