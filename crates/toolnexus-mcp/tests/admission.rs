//! How many calls are under way at once, who waits, and for how long.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::poll;
use serde_json::{Value, json};
use support::{noted, output, output_within, servers, stdio, tool, with};
use toolnexus_core::{Answer, ToolContext, ToolResult, WaitFor};
use toolnexus_mcp::{ConcurrencyPolicy, LoadMcpOptions, McpSource, load_mcp, load_mcp_with};
use toolnexus_testkit::mcp::{
    AnswerMode, FixtureTool, HttpEffect, HttpFault, HttpOptions, McpFixture, McpHttpFixture, ProcessFaults,
    Step,
};

fn fixture() -> McpFixture {
    let gated = [Step::AwaitGate("go".into()), Step::text("went")];
    McpFixture::new()
        .tool(FixtureTool::echo("say"))
        .tool(FixtureTool::hangs("stuck"))
        .tool(FixtureTool::scripted("wait", gated))
        .tool(FixtureTool::opens_gate("open", "go"))
        .tool(FixtureTool::report("report"))
}

async fn serve(options: HttpOptions) -> McpHttpFixture {
    McpHttpFixture::start(fixture(), options).await.unwrap()
}

fn sessionless() -> HttpOptions {
    HttpOptions { sessions: false, ..Default::default() }
}

async fn load(entry: Value) -> McpSource {
    let source = load_mcp(&servers(json!({"docs": entry}))).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

fn call(source: &McpSource, name: &str) -> impl Future<Output = ToolResult> + Send + 'static {
    call_with(source, name, ToolContext::default())
}

fn call_with(
    source: &McpSource,
    name: &str,
    context: ToolContext,
) -> impl Future<Output = ToolResult> + Send + 'static {
    let tool = tool(source, &format!("docs_{name}")).clone();
    async move { tool.execute_with(json!({}), context).await }
}

fn failed(text: &str) -> String {
    format!("mcp server \"docs\" failed at tools/call: {text}")
}

fn policy(source: &McpSource) -> ConcurrencyPolicy {
    source.connection("docs").unwrap().session().unwrap().concurrency
}

// MCP-134, MCP-135: over HTTP, what the server shows decides, and the entry overrides
#[tokio::test]
async fn the_policy_of_a_remote_server() {
    use ConcurrencyPolicy::{Pooled, Serialized, Stateless};
    let sse = || HttpOptions { legacy_sse: Some("/messages".into()), ..Default::default() };
    for (options, more, expected, peak) in [
        (HttpOptions::default(), json!({}), Serialized, 1),
        (HttpOptions::default(), json!({"concurrency": "stateless"}), Stateless, 8),
        (HttpOptions::default(), json!({"concurrency": "pooled", "poolSize": 3}), Pooled, 3),
        (sessionless(), json!({}), Stateless, 8),
        (sessionless(), json!({"poolSize": 12}), Stateless, 12),
        (sessionless(), json!({"concurrency": "serialized"}), Serialized, 1),
        (sse(), json!({}), Stateless, 8),
    ] {
        for answers in [AnswerMode::Auto, AnswerMode::Sse] {
            let server = serve(HttpOptions { answers, ..options.clone() }).await;
            let source = load(with(server.server_json(), more.clone())).await;
            assert_eq!(policy(&source), expected, "{more}");
            let calls: Vec<_> = (0..20).map(|_| tokio::spawn(call(&source, "wait"))).collect();
            for done in 0..20 {
                // As many as may are there before one of them ends.
                server.wait_for_method("tools/call", (done + peak).min(20)).await.unwrap();
                server.open_gate("go");
            }
            for call in calls {
                assert_eq!(call.await.unwrap().output, "went", "{more}");
            }
            assert_eq!(server.in_flight_peak(), peak, "{more}, {answers:?}");
            source.close().await;
        }
    }
}

// MCP-134, MCP-135: a child takes all at once unless its entry says otherwise
#[tokio::test]
async fn the_policy_of_a_child() {
    use ConcurrencyPolicy::{Pooled, Serialized, Stateless};
    for (more, expected, peak) in [
        (json!({}), Stateless, 80),
        (json!({"concurrency": "pooled", "poolSize": 16}), Pooled, 16),
        (json!({"poolSize": 20}), Stateless, 20),
        (json!({"concurrency": "serialized"}), Serialized, 1),
    ] {
        let (fixture, ledger, _folder) = noted(fixture());
        let source = load(stdio(&fixture, more.clone())).await;
        assert_eq!(policy(&source), expected, "{more}");
        let as_many = if peak < 80 { peak + 64 } else { peak };
        let all: Vec<_> = (0..as_many).map(|_| tokio::spawn(call(&source, "stuck"))).collect();
        ledger.wait_for("tools/call", peak).await.unwrap();
        if peak < 80 {
            assert_eq!(output_within(&source, "docs_say", 50).await, failed("busy"));
        }
        all.iter().for_each(tokio::task::JoinHandle::abort);
        ledger.wait_for("notifications/cancelled", peak).await.unwrap();
        let report: Value = serde_json::from_str(&output(&source, "docs_report").await).unwrap();
        assert_eq!(report["in_flight_peak"], peak, "{more}");
        source.close().await;
    }
}

// MCP-136: arrival is the order, also when some of those that wait leave
#[tokio::test]
async fn the_queue_is_in_order() {
    let server = serve(HttpOptions::default()).await;
    let source = load(server.server_json()).await;
    let stuck = tokio::spawn(call(&source, "stuck"));
    server.wait_for_method("tools/call", 1).await.unwrap();
    let numbered = |number: usize| {
        let tool = tool(&source, "docs_say").clone();
        async move { tool.execute(json!({"number": number})).await }
    };
    let mut waiting: Vec<_> = (0..6).map(|number| Some(Box::pin(numbered(number)))).collect();
    for call in waiting.iter_mut().flatten() {
        assert!(poll!(call).is_pending());
    }
    for left in [0, 3] {
        waiting[left] = None;
    }
    stuck.abort();
    let results = join_all(waiting.into_iter().flatten()).await;
    assert_eq!(results.len(), 4);
    let sent: Vec<Value> = server
        .requests_of("tools/call")
        .into_iter()
        .map(|request| request.json["params"]["arguments"]["number"].clone())
        .collect();
    assert_eq!(sent, [Value::Null, json!(1), json!(2), json!(4), json!(5)]);
    source.close().await;
}

// MCP-136: 64 wait when the entry does not say, one more does not
#[tokio::test]
async fn the_queue_has_its_default_length() {
    let server = serve(HttpOptions::default()).await;
    let source = load(server.server_json()).await;
    let stuck = tokio::spawn(call(&source, "stuck"));
    server.wait_for_method("tools/call", 1).await.unwrap();
    let mut waiting: Vec<_> = (0..64).map(|_| Box::pin(call(&source, "say"))).collect();
    for call in &mut waiting {
        assert!(poll!(call).is_pending());
    }
    assert_eq!(output(&source, "docs_say").await, failed("busy"));
    stuck.abort();
    for result in join_all(waiting).await {
        assert_eq!(result.output, "{}");
    }
    assert_eq!(server.in_flight_peak(), 1);
    source.close().await;
}

// MCP-137: waiting counts, so a call that waited has less time left when it is sent
#[tokio::test]
async fn waiting_counts() {
    let server = serve(HttpOptions::default()).await;
    let source = load(server.server_json()).await;
    let first = tokio::spawn(call_with(
        &source,
        "stuck",
        ToolContext { timeout_ms: Some(1500), ..Default::default() },
    ));
    server.wait_for_method("tools/call", 1).await.unwrap();
    let started = std::time::Instant::now();
    let second = call_with(&source, "stuck", ToolContext { timeout_ms: Some(2000), ..Default::default() });
    assert_eq!(second.await.output, failed("timeout"));
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(2000) && took < Duration::from_millis(3300), "{took:?}");
    assert_eq!(first.await.unwrap().output, failed("timeout"));
    assert_eq!((server.requests_of("tools/call").len(), server.in_flight_peak()), (2, 1));
    source.close().await;
}

// MCP-131: dropping the caller's future withdraws the call before the next is sent
#[tokio::test]
async fn a_dropped_call_is_let_go_of_first() {
    for answers in [AnswerMode::Auto, AnswerMode::Sse] {
        let server = serve(HttpOptions { answers, ..Default::default() }).await;
        let source = load(server.server_json()).await;
        for round in 0..20 {
            let stuck = tokio::spawn(call(&source, "stuck"));
            server.wait_for_method("tools/call", 2 * round + 1).await.unwrap();
            let mut next = Box::pin(call(&source, "say"));
            assert!(poll!(&mut next).is_pending());
            stuck.abort();
            assert_eq!(next.await.output, "{}");
        }
        assert_eq!(server.in_flight_peak(), 1, "{answers:?}");
        assert_eq!(server.requests_of("notifications/cancelled").len(), 20);
        source.close().await;
    }
}

// MCP-131: the next request waits for the notice, however long the server takes for it
#[tokio::test]
async fn a_slow_notice_holds_the_slot() {
    let slow = HttpFault::on("notifications/cancelled", HttpEffect::Delay { ms: 300 });
    let server = serve(HttpOptions { faults: vec![slow], ..Default::default() }).await;
    let source = load(server.server_json()).await;
    assert_eq!(output_within(&source, "docs_stuck", 50).await, failed("timeout"));
    let mut next = Box::pin(call(&source, "say"));
    assert!(poll!(&mut next).is_pending());
    server.wait_for_method("notifications/cancelled", 1).await.unwrap();
    assert_eq!(server.requests_of("tools/call").len(), 1);
    assert_eq!(next.await.output, "{}");
    source.close().await;
}

// MCP-131: nor does a pipe that takes nothing let a second request in; the caller waits for none of it
#[tokio::test]
async fn a_full_pipe_keeps_its_slot() {
    let stops = ProcessFaults { stop_reading_after: Some(3), ..Default::default() };
    let (fixture, ledger, _folder) = noted(fixture().faults(stops));
    let source = load(stdio(&fixture, json!({"concurrency": "serialized"}))).await;
    let args = json!({"text": "x".repeat(1 << 20)});
    let context = || ToolContext { timeout_ms: Some(200), ..Default::default() };
    let first = tool(&source, "docs_stuck").execute_with(args, context()).await;
    assert_eq!(first.output, failed("timeout"));
    assert_eq!(call_with(&source, "say", context()).await.output, failed("timeout"));
    assert!(ledger.of_method("tools/call").unwrap().len() <= 1);
    source.close().await;
    assert_eq!(output(&source, "docs_say").await, failed("closed"));
}

// MCP-77, MCP-136: closing ends those that wait, too
#[tokio::test]
async fn closing_empties_the_queue() {
    let server = serve(HttpOptions::default()).await;
    let source = load(server.server_json()).await;
    let stuck = tokio::spawn(call(&source, "stuck"));
    server.wait_for_method("tools/call", 1).await.unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(call(&source, "say"))).collect();
    for call in &mut waiting {
        assert!(poll!(call).is_pending());
    }
    source.close().await;
    for result in join_all(waiting).await {
        assert_eq!(result.output, failed("closed"));
    }
    assert_eq!(stuck.await.unwrap().output, failed("closed"));
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

// MCP-127, MCP-128, case 68: one refused exchange is one error, and gives its slot back
#[tokio::test]
async fn a_failed_exchange_gives_its_slot_back() {
    for effect in [
        HttpEffect::status(500),
        HttpEffect::status(404),
        HttpEffect::HangUp,
        HttpEffect::CutStream(String::new()),
        HttpEffect::empty_stream(),
    ] {
        let faults = vec![HttpFault::on("tools/call", effect.clone()).once()];
        let server = serve(HttpOptions { faults, ..sessionless() }).await;
        let source = load(with(server.server_json(), json!({"poolSize": 2}))).await;
        let (first, second) = tokio::join!(call(&source, "say"), call(&source, "say"));
        let errors = [&first, &second].into_iter().filter(|result| result.is_error).count();
        assert_eq!(errors, 1, "{effect:?}: {} / {}", first.output, second.output);
        for _ in 0..3 {
            assert_eq!(output(&source, "docs_say").await, "{}", "{effect:?}");
        }
        assert!(source.connection("docs").unwrap().is_connected());
        source.close().await;
    }
}

// MCP-131, MCP-135: whatever the runtime's threads do, a withdrawn request is never overtaken
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn withdrawing_at_once_keeps_the_order() {
    let (fixture, ledger, _folder) = noted(fixture());
    let source = load(stdio(&fixture, json!({"concurrency": "serialized"}))).await;
    for round in 0..60 {
        let context = ToolContext::default();
        let cancel = context.cancel.clone();
        let stuck = tokio::spawn(call_with(&source, "stuck", context));
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
        stuck.await.unwrap();
    }
    let report: Value = serde_json::from_str(&output(&source, "docs_report").await).unwrap();
    assert_eq!(report["in_flight_peak"], 1);
    let messages = ledger.messages().unwrap();
    for (at, message) in messages.iter().enumerate() {
        if message["method"] == "notifications/cancelled" {
            let id = &message["params"]["requestId"];
            let place = messages.iter().position(|message| message["id"] == *id).unwrap();
            assert!(place < at, "a notice came before its request");
        }
    }
    source.close().await;
}

// MCP-132, MCP-134, case 70: a question to the host inside the only call there may be
#[tokio::test]
async fn a_question_needs_no_slot() {
    let question =
        json!({"message": "Who are you?", "requestedSchema": {"type": "object", "properties": {}}});
    let fixture = fixture().tool(FixtureTool::asks("ask", "elicitation/create", question));
    let server = McpHttpFixture::start(fixture, HttpOptions::default()).await.unwrap();
    let wait_for: WaitFor = Arc::new(|_| Box::pin(async { Ok(Answer { ok: true, ..Default::default() }) }));
    let config = servers(json!({"docs": server.server_json()}));
    let source =
        load_mcp_with(&config, LoadMcpOptions { wait_for: Some(wait_for), ..Default::default() }).await;
    assert_eq!(policy(&source), ConcurrencyPolicy::Serialized);
    let (asked, next) = tokio::join!(call(&source, "ask"), call(&source, "say"));
    assert_eq!(asked.output, r#"{"result":{"action":"accept","content":{}}}"#);
    assert_eq!((next.output.as_str(), server.in_flight_peak()), ("{}", 1));
    source.close().await;
}
