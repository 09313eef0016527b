//! Servers over streamable HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{inherited, legacy, output, output_within, servers, tool, with};
use toolnexus_core::ToolContext;
use toolnexus_mcp::{
    LoadMcpOptions, McpContext, McpContextError, McpSource, McpStatus, load_mcp, load_mcp_with,
    load_mcp_with_context,
};
use toolnexus_testkit::mcp::{
    AnswerMode, FixtureTool, HttpEffect, HttpFault, HttpOptions, McpFixture, McpHttpFixture, MessageRoute,
    RawJson, Step,
};
use toolnexus_testkit::warnings::Warnings;

async fn serve(fixture: McpFixture, options: HttpOptions) -> McpHttpFixture {
    McpHttpFixture::start(fixture, options).await.unwrap()
}

/// Serves an echo server on which something goes wrong.
async fn broken(fault: HttpFault) -> McpHttpFixture {
    serve(echo(), HttpOptions { faults: vec![fault], ..Default::default() }).await
}

async fn load(server: &McpHttpFixture, more: Value) -> McpSource {
    load_mcp(&servers(json!({"docs": with(legacy(server.server_json()), more)}))).await
}

async fn connected(server: &McpHttpFixture, more: Value) -> McpSource {
    let source = load(server, more).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

fn echo() -> McpFixture {
    McpFixture::new().tool(FixtureTool::echo("say"))
}

fn called(text: &str) -> String {
    format!("mcp server \"docs\" failed at tools/call: {text}")
}

/// Loads a server that fails and gives what follows the head of its message.
async fn failure(server: &McpHttpFixture, more: Value) -> String {
    let source = load(server, more).await;
    let text = source.errors["docs"].clone();
    text.strip_prefix("mcp server \"docs\" failed at initialize: ").unwrap_or(&text).to_owned()
}

// MCP-36, MCP-37, MCP-118: what is sent, with sessions and without, answered either way
#[tokio::test]
async fn a_remote_server_is_loaded_and_called() {
    for answers in [AnswerMode::Auto, AnswerMode::Json, AnswerMode::Sse] {
        for sessions in [true, false] {
            let server = serve(echo(), HttpOptions { sessions, answers, ..Default::default() }).await;
            let source = connected(&server, json!({"headers": {"X-Key": "k"}})).await;
            assert_eq!(output(&source, "docs_say").await, "{}");
            let posts: Vec<_> =
                server.requests().into_iter().filter(|request| request.method == "POST").collect();
            let methods: Vec<_> = posts.iter().filter_map(|request| request.rpc_method()).collect();
            assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list", "tools/call"]);
            assert_eq!(posts[0].json["params"]["protocolVersion"], "2025-11-25");
            assert_eq!(posts[0].json["params"]["capabilities"], json!({}));
            assert_eq!(posts[0].json["params"]["clientInfo"]["name"], "toolnexus");
            for (at, post) in posts.iter().enumerate() {
                assert_eq!(post.header("content-type"), Some("application/json"));
                assert_eq!(post.header("accept"), Some("application/json, text/event-stream"));
                assert_eq!(post.header("x-key"), Some("k"));
                let later = at > 0;
                assert_eq!(post.header("mcp-session-id"), (sessions && later).then_some("session-1"));
                assert_eq!(post.header("mcp-protocol-version"), later.then_some("2025-11-25"));
            }
            source.close().await;
        }
    }
}

// MCP-15, MCP-184: configured headers go out, values filled in, those of the protocol left alone
#[tokio::test]
async fn configured_headers_are_sent() {
    let (name, value) = inherited();
    let required = Some(("authorization".to_owned(), format!("Bearer {value}")));
    let server = serve(echo(), HttpOptions { required_header: required, ..Default::default() }).await;
    let headers =
        json!({"Authorization": format!("Bearer ${{{name}}}"), "Mcp-Session-Id": "forged", "Accept": "x/y"});
    let source = connected(&server, json!({"headers": headers})).await;
    assert_eq!(server.requests()[0].header("mcp-session-id"), None);
    source.close().await;
    assert_eq!(failure(&server, json!({})).await, "http-status (HTTP 401)");
}

// MCP-185: a standing stream belongs to a session, comes after the handshake and is not needed
#[tokio::test]
async fn the_standing_stream_is_opened_for_a_session() {
    let server = serve(echo(), HttpOptions::default()).await;
    let source = connected(&server, json!({})).await;
    server.wait_for_streams(1).await.unwrap();
    let requests = server.requests();
    let place = |method: &str| {
        requests
            .iter()
            .position(|request| request.method == method || request.rpc_method() == Some(method))
            .unwrap()
    };
    assert!(place("GET") > place("notifications/initialized"));
    let get = &requests[place("GET")];
    assert_eq!(
        (get.header("accept"), get.header("mcp-session-id")),
        (Some("text/event-stream"), Some("session-1"))
    );
    source.close().await;

    let stateless = serve(echo(), HttpOptions { sessions: false, ..Default::default() }).await;
    let source = connected(&stateless, json!({})).await;
    assert_eq!(output(&source, "docs_say").await, "{}");
    assert!(stateless.requests().iter().all(|request| request.method == "POST"));
    source.close().await;

    for effect in [HttpEffect::status(405), HttpEffect::status(500), HttpEffect::Silence, HttpEffect::HangUp]
    {
        let server = broken(HttpFault::on_http("GET", effect)).await;
        let source = connected(&server, json!({})).await;
        assert_eq!(output(&source, "docs_say").await, "{}");
        source.close().await;
    }
}

// MCP-185: a handshake whose end is refused has failed
#[tokio::test]
async fn a_refused_notification_fails_the_handshake() {
    for status in [400, 404, 500] {
        let server = broken(HttpFault::on("notifications/initialized", HttpEffect::status(status))).await;
        assert_eq!(failure(&server, json!({})).await, format!("http-status (HTTP {status})"));
    }
}

// MCP-41, MCP-46, MCP-47, case 30
#[tokio::test]
async fn a_dead_host_fails_at_initialize() {
    let server = serve(echo(), HttpOptions::default()).await;
    let url = server.url();
    let entries = json!({
        "dead": {"url": "http://127.0.0.1:1/mcp", "timeout": 2000},
        "live": {"url": url},
        "off": {"url": url, "enabled": false},
    });
    let source = load_mcp(&servers(entries)).await;
    let status: Vec<_> = source.status.values().copied().collect();
    assert_eq!(status, [McpStatus::Failed, McpStatus::Connected, McpStatus::Disabled]);
    assert_eq!(source.errors.len(), 1);
    assert_eq!(source.errors["dead"], "mcp server \"dead\" failed at initialize: transport (connect-failed)");
    source.close().await;
}

// MCP-44, MCP-45, MCP-48, case 35
#[tokio::test]
async fn a_refusing_server_is_told_by_its_status() {
    let refuse =
        |status: u16| HttpEffect::status(status).header("content-type", "text/plain").text("secret words");
    for status in [401, 403, 404, 429, 500, 503] {
        let server = broken(HttpFault::on("initialize", refuse(status))).await;
        assert_eq!(failure(&server, json!({})).await, format!("http-status (HTTP {status})"));
        // What may mean "not this transport" is looked into once.
        assert_eq!(server.requests().len(), if status == 404 { 2 } else { 1 });
    }
    let error = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"secret words"}}"#;
    for (status, text) in
        [(400, "rpc-error (code -32000)"), (200, "rpc-error (code -32000)"), (401, "http-status (HTTP 401)")]
    {
        let effect = HttpEffect::status(status).header("content-type", "application/json").text(error);
        assert_eq!(failure(&broken(HttpFault::on("initialize", effect)).await, json!({})).await, text);
    }
}

// MCP-44: an answer that is none
#[tokio::test]
async fn an_answer_that_is_none_is_malformed() {
    for effect in [
        HttpEffect::status(202),
        HttpEffect::status(200),
        HttpEffect::empty_stream(),
        HttpEffect::body("text/html", "<html>"),
        HttpEffect::body("application/json", "{oops"),
        HttpEffect::body("application/json", "{}"),
        HttpEffect::body(
            "application/json",
            r#"{"jsonrpc":"2.0","id":99,"result":{"protocolVersion":"2025-11-25"}}"#,
        ),
        HttpEffect::body("application/json", r#"{"jsonrpc":"2.0","id":0,"result":{}}"#),
        HttpEffect::body("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":0,\"result\":7}\n\n"),
    ] {
        let server = broken(HttpFault::on("initialize", effect.clone())).await;
        assert_eq!(failure(&server, json!({})).await, "malformed-body", "{effect:?}");
    }
    let version = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"1999-01-01"}}"#;
    let server = broken(HttpFault::on("initialize", HttpEffect::body("application/json", version))).await;
    assert_eq!(failure(&server, json!({})).await, "malformed-body (unsupported protocol version)");
}

// MCP-56, MCP-118: the sparse handshake of the stdio tests, over either kind of answer
#[tokio::test]
async fn a_sparse_handshake_is_accepted() {
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2024-11-05","capabilities":null}}"#;
    for effect in [
        HttpEffect::body("application/json; charset=utf-8", answer),
        HttpEffect::body("text/event-stream", format!(": hello\n\nevent: message\ndata: {answer}\n\n")),
    ] {
        let options = HttpOptions {
            sessions: false,
            faults: vec![HttpFault::on("initialize", effect)],
            ..Default::default()
        };
        let server = serve(echo(), options).await;
        let source = connected(&server, json!({})).await;
        assert_eq!(source.connection("docs").unwrap().protocol_version(), Some("2024-11-05"));
        assert_eq!(output(&source, "docs_say").await, "{}");
        source.close().await;
    }
}

// MCP-38, MCP-45: silence of every kind is bounded, and the exchange is given up
#[tokio::test]
async fn silence_times_out() {
    for effect in [HttpEffect::Silence, HttpEffect::SilentStream] {
        let server = broken(HttpFault::on("initialize", effect)).await;
        let started = Instant::now();
        assert_eq!(failure(&server, json!({"timeout": 200})).await, "timeout");
        assert!(started.elapsed() < Duration::from_secs(1));
        server.wait_for_silence().await.unwrap();
    }
    let server = broken(HttpFault::on("tools/list", HttpEffect::Silence)).await;
    assert_eq!(
        failure(&server, json!({"timeout": 1500})).await,
        "mcp server \"docs\" failed at tools/list: timeout"
    );
    server.wait_for_silence().await.unwrap();
}

// MCP-22, MCP-48, MCP-51, case 36: no message, log or Debug has a part of the address
#[tokio::test]
async fn an_address_is_never_shown() {
    let warnings = Warnings::listen();
    let server = broken(HttpFault::on("tools/call", HttpEffect::HangUp)).await;
    let live = server.origin().replace("http://", "http://user-1:pass-1@") + "/mcp?api_key=key-1";
    let config = servers(json!({
        "dead": {"url": "http://user-1:pass-1@127.0.0.1:1/mcp?api_key=key-1"},
        "live": {"url": live},
    }));
    let source = load_mcp(&config).await;
    assert_eq!(source.errors["dead"], "mcp server \"dead\" failed at initialize: transport (connect-failed)");
    let failed = output(&source, "live_say").await;
    assert_eq!(failed, "mcp server \"live\" failed at tools/call: transport (stream-failed)");
    let shown = format!("{config:?} {source:?} {:?} {:?}", source.connections, warnings.all());
    for secret in ["user-1", "pass-1", "api_key", "key-1"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    source.close().await;
}

// MCP-39: were they loaded one after another, the first would never answer
#[tokio::test]
async fn servers_are_loaded_side_by_side() {
    let slow = echo().on(
        "initialize",
        [Step::AwaitGate("go".into()), Step::Answer(toolnexus_testkit::mcp::Reply::Standard)],
    );
    let slow = Arc::new(serve(slow, HttpOptions::default()).await);
    let fast = serve(echo(), HttpOptions::default()).await;
    let gate = Arc::clone(&slow);
    let opts = LoadMcpOptions {
        on_server: Some(Arc::new(move |event| {
            if event.name == "b-fast" {
                gate.open_gate("go");
            }
        })),
        ..Default::default()
    };
    let config = servers(json!({"a-slow": legacy(slow.server_json()), "b-fast": legacy(fast.server_json())}));
    let source = load_mcp_with(&config, opts).await;
    let names: Vec<_> = source.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a-slow_say", "b-fast_say"]);
    source.close().await;
}

// MCP-57, MCP-58, case 38: an ended load gives up its exchanges, those of standing connections too
#[tokio::test]
async fn an_ended_load_leaves_no_socket() {
    let good = serve(echo(), HttpOptions::default()).await;
    let stuck = broken(HttpFault::on("initialize", HttpEffect::Silence)).await;
    let config = servers(json!({"good": legacy(good.server_json()), "stuck": legacy(stuck.server_json())}));
    let context = McpContext::default();
    let cancel = context.cancel.clone();
    let (result, ()) =
        tokio::join!(load_mcp_with_context(&config, &context, LoadMcpOptions::default()), async {
            good.wait_for_method("tools/list", 1).await.unwrap();
            stuck.wait_for_method("initialize", 1).await.unwrap();
            cancel.cancel();
        });
    assert_eq!(result.err(), Some(McpContextError::Cancelled));
    good.wait_for_silence().await.unwrap();
    stuck.wait_for_silence().await.unwrap();
}

// MCP-76, MCP-77: a session is left, streams and calls end
#[tokio::test]
async fn closing_leaves_the_session() {
    let fixture = echo().tool(FixtureTool::hangs("stuck"));
    let server = serve(fixture, HttpOptions { answers: AnswerMode::Sse, ..Default::default() }).await;
    let source = connected(&server, json!({})).await;
    server.wait_for_streams(1).await.unwrap();
    let stuck = tool(&source, "docs_stuck").clone();
    let running = tokio::spawn(async move { stuck.execute(json!({})).await });
    server.wait_for_method("tools/call", 1).await.unwrap();
    source.close().await;
    assert_eq!(running.await.unwrap().output, called("closed"));
    let deletes: Vec<_> =
        server.requests().into_iter().filter(|request| request.method == "DELETE").collect();
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0].header("mcp-session-id"), Some("session-1"));
    assert!(server.sessions().is_empty());
    server.wait_for_silence().await.unwrap();
    let before = server.requests().len();
    assert_eq!(output(&source, "docs_say").await, called("closed"));
    assert_eq!(server.requests().len(), before);
    source.close().await;

    let stateless = serve(echo(), HttpOptions { sessions: false, ..Default::default() }).await;
    connected(&stateless, json!({})).await.close().await;
    assert!(stateless.requests().iter().all(|request| request.method != "DELETE"));
}

// MCP-74, MCP-76: a goodbye that is not answered is not waited for long
#[tokio::test]
async fn closing_is_bounded() {
    for effect in [HttpEffect::Silence, HttpEffect::status(500), HttpEffect::HangUp] {
        let server = broken(HttpFault::on_http("DELETE", effect)).await;
        let source = connected(&server, json!({})).await;
        let started = Instant::now();
        source.close().await;
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        server.wait_for_silence().await.unwrap();
    }
}

// MCP-77: the last handle takes the connection with it
#[tokio::test]
async fn dropping_the_last_handle_ends_the_connection() {
    let server = serve(echo(), HttpOptions::default()).await;
    let source = connected(&server, json!({})).await;
    server.wait_for_streams(1).await.unwrap();
    drop(source);
    server.wait_for_silence().await.unwrap();
}

// MCP-88, MCP-89, MCP-90, cases 51 and 52
#[tokio::test]
async fn limits_hold_over_http() {
    for answers in [AnswerMode::Json, AnswerMode::Sse] {
        let fixture = echo().tool(FixtureTool::late("late"));
        let server = serve(fixture, HttpOptions { answers, ..Default::default() }).await;
        let source = connected(&server, json!({})).await;
        assert_eq!(output_within(&source, "docs_late", 200).await, called("timeout"));
        let notices = server.wait_for_method("notifications/cancelled", 1).await.unwrap();
        assert_eq!(notices[0].json["params"]["requestId"], server.requests_of("tools/call")[0].json["id"]);
        assert_eq!(output(&source, "docs_say").await, "{}");
        source.close().await;
    }
    for messages in [MessageRoute::Call, MessageRoute::Standing] {
        let fixture = McpFixture::new().tool(FixtureTool::progress("busy", 8, 100));
        let server = serve(fixture, HttpOptions { messages, ..Default::default() }).await;
        let source = connected(&server, json!({})).await;
        server.wait_for_streams(1).await.unwrap();
        assert_eq!(output_within(&source, "docs_busy", 600).await, "done", "{messages:?}");
        source.close().await;
    }
}

// MCP-90: a cancelled call gives up its POST
#[tokio::test]
async fn a_cancelled_call_gives_up_its_exchange() {
    let server = serve(echo().tool(FixtureTool::hangs("stuck")), HttpOptions::default()).await;
    let source = connected(&server, json!({})).await;
    let context = ToolContext::default();
    let cancel = context.cancel.clone();
    let (result, ()) = tokio::join!(tool(&source, "docs_stuck").execute_with(json!({}), context), async {
        server.wait_for_method("tools/call", 1).await.unwrap();
        cancel.cancel();
    });
    assert_eq!(result.output, called("cancelled"));
    server.wait_for_method("notifications/cancelled", 1).await.unwrap();
    let abandoned = server.wait_for_abandoned(1).await.unwrap();
    assert_eq!(abandoned[0].rpc_method(), Some("tools/call"));
    assert_eq!(output(&source, "docs_say").await, "{}");
    source.close().await;
}

// MCP-127, case 68, and MCP-89: what goes wrong with one call goes wrong with that call
#[tokio::test]
async fn a_failing_exchange_fails_one_call() {
    let event = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n";
    for (effect, text) in [
        (HttpEffect::status(500), "http-status (HTTP 500)"),
        (HttpEffect::status(401), "http-status (HTTP 401)"),
        (HttpEffect::HangUp, "transport (stream-failed)"),
        (HttpEffect::CutStream("data: {\"jso".into()), "transport (stream-failed)"),
        (HttpEffect::CutStream(event.into()), "transport (stream-failed)"),
        (HttpEffect::empty_stream(), "transport (stream-failed)"),
        (HttpEffect::body("text/html", "<html>secret"), "malformed-body"),
        (HttpEffect::body("application/json", "secret"), "malformed-body"),
    ] {
        let server = broken(HttpFault::on("tools/call", effect.clone()).after(1).once()).await;
        let source = connected(&server, json!({})).await;
        assert_eq!(output(&source, "docs_say").await, "{}");
        let (failed, works) = tokio::join!(
            tool(&source, "docs_say").execute(json!({})),
            tool(&source, "docs_say").execute(json!({}))
        );
        let (failed, works) = if failed.is_error { (failed, works) } else { (works, failed) };
        assert_eq!((failed.output, works.output.as_str()), (called(text), "{}"), "{effect:?}");
        assert_eq!(output(&source, "docs_say").await, "{}");
        assert_eq!(source.connected_count(), 1);
        source.close().await;
    }
}

// MCP-81 to MCP-87: results over both kinds of answer, odd keys and all
#[tokio::test]
async fn results_are_read_whole() {
    let odd =
        json!({"content": [{"type": "text", "text": "x"}], "action": "accept", "tools": [], "isError": true});
    let structured = json!({"structuredContent": {"z": [1, "\u{2028}\"é\\"], "a": null}, "content": []});
    for answers in [AnswerMode::Json, AnswerMode::Sse] {
        let fixture = McpFixture::new()
            .tool(FixtureTool::result("odd", odd.clone()))
            .tool(FixtureTool::result("data", structured.clone()))
            .tool(FixtureTool::error("bad", -32602, "no such file"))
            .tool(FixtureTool::string_id("id"))
            .tool(FixtureTool::huge("big", 2 << 20));
        let server = serve(fixture, HttpOptions { answers, ..Default::default() }).await;
        let source = connected(&server, json!({})).await;
        let result = tool(&source, "docs_odd").execute(json!({})).await;
        assert_eq!((result.is_error, result.output.as_str()), (true, "x"));
        assert_eq!(output(&source, "docs_data").await, structured["structuredContent"].to_string());
        assert_eq!(output(&source, "docs_bad").await, called("rpc-error (code -32602): no such file"));
        assert_eq!(output(&source, "docs_id").await, "string id");
        assert_eq!(output(&source, "docs_big").await.len(), 2 << 20);
        source.close().await;
    }
}

// MCP-44: bodies and events over the limit
#[tokio::test]
async fn an_answer_without_measure_is_malformed() {
    for answers in [AnswerMode::Json, AnswerMode::Sse] {
        let fixture = echo().tool(FixtureTool::huge("monster", 17 << 20));
        let server = serve(fixture, HttpOptions { answers, ..Default::default() }).await;
        let source = connected(&server, json!({})).await;
        assert_eq!(output(&source, "docs_monster").await, called("malformed-body (response too long)"));
        assert_eq!(output(&source, "docs_say").await, "{}");
        source.close().await;
    }
}

// MCP-101: on the call's own stream and on the standing one
#[tokio::test]
async fn requests_of_the_server_are_answered() {
    for messages in [MessageRoute::Call, MessageRoute::Standing] {
        let elicitation = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
        let fixture = McpFixture::new()
            .tool(FixtureTool::asks("ping", "ping", json!({})))
            .tool(FixtureTool::asks("roots", "roots/list", json!({})))
            .tool(FixtureTool::asks(
                "sample",
                "sampling/createMessage",
                json!({"messages": [], "maxTokens": 1}),
            ))
            .tool(FixtureTool::asks("elicit", "elicitation/create", elicitation))
            .tool(FixtureTool::asks("other", "server/anything", json!({})));
        let server = serve(fixture, HttpOptions { messages, ..Default::default() }).await;
        let source = connected(&server, json!({})).await;
        server.wait_for_streams(1).await.unwrap();
        assert_eq!(output(&source, "docs_ping").await, r#"{"result":{}}"#);
        for name in ["docs_roots", "docs_sample", "docs_elicit", "docs_other"] {
            let reply: Value = serde_json::from_str(&output(&source, name).await).unwrap();
            assert_eq!(reply, json!({"error": {"code": -32601, "message": "Method not found"}}), "{name}");
        }
        source.close().await;
    }
}

// MCP-123: a session that the server has lost is made anew, once
#[tokio::test]
async fn a_lost_session_is_made_anew() {
    let server = serve(echo(), HttpOptions::default()).await;
    let source = connected(&server, json!({})).await;
    server.wait_for_streams(1).await.unwrap();
    server.forget_sessions();
    assert_eq!(output(&source, "docs_say").await, "{}");
    assert_eq!(server.requests_of("initialize").len(), 2);
    source.close().await;

    let server = broken(HttpFault::on("tools/call", HttpEffect::status(404))).await;
    let source = connected(&server, json!({})).await;
    assert_eq!(output(&source, "docs_say").await, called("http-status (HTTP 404)"));
    assert_eq!(server.requests_of("tools/call").len(), 2);
    assert_eq!(source.connected_count(), 1);
    source.close().await;
}

// As the transport seam demands: a redirect is followed within its origin only
#[tokio::test]
async fn a_redirect_to_another_origin_is_refused() {
    let other = serve(echo(), HttpOptions::default()).await;
    let server = broken(HttpFault::on("initialize", HttpEffect::redirect(other.url()))).await;
    assert_eq!(
        failure(&server, json!({"headers": {"Authorization": "secret"}})).await,
        "http-status (HTTP 307)"
    );
    assert!(other.requests().is_empty());

    let server = broken(HttpFault::on("tools/call", HttpEffect::redirect("/mcp?again")).once()).await;
    let source = connected(&server, json!({})).await;
    assert_eq!(output(&source, "docs_say").await, "{}");
    assert_eq!(server.requests_of("tools/call").len(), 2);
    source.close().await;

    let see_other = HttpEffect::status(303).header("location", "/mcp");
    let server = broken(HttpFault::on("initialize", see_other)).await;
    assert_eq!(failure(&server, json!({})).await, "http-status (HTTP 303)");
}

// MCP-79: what no string holds costs one character each, in bodies and in events
#[tokio::test]
async fn what_no_string_holds_is_replaced() {
    for answers in [AnswerMode::Json, AnswerMode::Sse] {
        let half = RawJson::parse(r#"{"content":[{"type":"text","text":"a\ud800b"}]}"#).unwrap();
        let fixture = McpFixture::new().tool(FixtureTool::result("half", half));
        let server = serve(fixture, HttpOptions { answers, ..Default::default() }).await;
        let source = connected(&server, json!({})).await;
        assert_eq!(output(&source, "docs_half").await, "a\u{fffd}b");
        source.close().await;
    }

    // Bytes that are no UTF-8, here before the answer, do not end the stream.
    let words = Step::Bytes(b"data: caf\xe9\n\n".to_vec());
    let fixture = McpFixture::new().tool(FixtureTool::scripted("latin", [words, Step::text("read")]));
    let server = serve(fixture, HttpOptions { answers: AnswerMode::Sse, ..Default::default() }).await;
    let source = connected(&server, json!({})).await;
    assert_eq!(output(&source, "docs_latin").await, "read");
    source.close().await;
}

// MCP-44, MCP-185: a request is "accepted" with nowhere for its answer to come from
#[tokio::test]
async fn an_accepted_call_without_a_stream_is_malformed() {
    for sessions in [true, false] {
        let accepted = HttpFault::on("tools/call", HttpEffect::status(202));
        let faults = vec![accepted];
        let options = HttpOptions { sessions, standing_stream: false, faults, ..Default::default() };
        let server = serve(echo(), options).await;
        let source = connected(&server, json!({})).await;
        assert_eq!(output_within(&source, "docs_say", 5_000).await, called("malformed-body"));
        source.close().await;
    }
}

// MCP-185: an accepted call is answered on the session's standing stream
#[tokio::test]
async fn an_accepted_call_is_answered_on_the_standing_stream() {
    let faults = vec![HttpFault::on("tools/call", HttpEffect::status(202))];
    let server = serve(echo(), HttpOptions { faults, ..Default::default() }).await;
    let source = connected(&server, json!({})).await;
    let (text, ()) = tokio::join!(output(&source, "docs_say"), async {
        let id = loop {
            match server.requests_of("tools/call").first() {
                Some(call) => break call.json["id"].clone(),
                None => tokio::task::yield_now().await,
            }
        };
        let result = json!({"content": [{"type": "text", "text": "later"}]});
        server.push(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    });
    assert_eq!(text, "later");
    source.close().await;
}
