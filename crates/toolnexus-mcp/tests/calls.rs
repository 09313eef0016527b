//! Calling tools: what is sent, limits, cancelling, and what a failure says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{gone, noted, output, output_within, servers, stdio, tool};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{ToolContext, ToolResult};
use toolnexus_mcp::{McpSource, load_mcp};
use toolnexus_testkit::mcp::{FixtureTool, McpFixture, ProcessFaults, RawJson, Reply, Step};

async fn load_one(fixture: &McpFixture, more: Value) -> McpSource {
    let source = load_mcp(&servers(json!({"docs": stdio(fixture, more)}))).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

async fn call(source: &McpSource, name: &str, args: Value) -> ToolResult {
    tool(source, name).execute(args).await
}

fn cancellable() -> (CancellationToken, ToolContext) {
    let context = ToolContext::default();
    (context.cancel.clone(), context)
}

fn metadata(result: &ToolResult) -> Value {
    Value::Object(result.metadata.clone().unwrap_or_default())
}

fn failed(text: &str) -> String {
    format!("mcp server \"docs\" failed at tools/call: {text}")
}

// MCP-78, MCP-25, MCP-82
#[tokio::test]
async fn arguments_go_out_as_they_are() {
    let (fixture, ledger, _folder) = noted(McpFixture::new().tool(FixtureTool::echo("say it")));
    let source = load_one(&fixture, json!({})).await;
    let args = json!({"zeta": [1, {"b": null}], "alpha": 18_446_744_073_709_551_615_u64, "unknown": "é"});
    let result = call(&source, "docs_say_it", args.clone()).await;
    assert_eq!(result.output, args.to_string());
    assert_eq!(metadata(&result), json!({"server": "docs"}));
    call(&source, "docs_say_it", Value::Null).await;
    let context = ToolContext { idempotency_key: Some("run/1/0".into()), ..Default::default() };
    tool(&source, "docs_say_it").execute_with(json!({}), context).await;

    let calls = ledger.of_method("tools/call").unwrap();
    assert_eq!(calls[0]["params"]["name"], "say it");
    assert_eq!(calls[0]["params"]["arguments"].to_string(), args.to_string());
    assert_eq!(calls[1]["params"]["arguments"], json!({}));
    // MCP-88: a progress token on every call
    assert!(calls.iter().all(|call| call["params"]["_meta"]["progressToken"].is_i64()));
    assert_eq!(calls[2]["params"]["_meta"]["toolnexus/idempotencyKey"], "run/1/0");
    assert!(calls[0]["params"]["_meta"].get("toolnexus/idempotencyKey").is_none());
    source.close().await;
}

// MCP-79 to MCP-87, cases 44 to 50 and 97: over the wire
#[tokio::test]
async fn results_are_mapped() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let fixture = McpFixture::new()
        .tool(FixtureTool::result("two", json!({"content": [text("a"), text("b")]})))
        .tool(FixtureTool::result(
            "error",
            json!({"isError": true, "content": [text("a"), text(" "), text("b")]}),
        ))
        .tool(FixtureTool::result(
            "data",
            json!({"structuredContent": {"b": 1, "a": [2]}, "content": [text("x")]}),
        ))
        .tool(FixtureTool::result(
            "link",
            json!({"content": [text("see"), {"type": "resource_link", "uri": "file:///g.md"}]}),
        ))
        .tool(FixtureTool::result(
            "other",
            json!({"content": [text("x")], "action": "accept", "isError": true}),
        ))
        .tool(FixtureTool::result(
            "lists",
            json!({"content": [text("y")], "tools": [], "messages": [], "contents": []}),
        ))
        .tool(FixtureTool::result("odd", json!({"content": [{"type": "hologram"}]})))
        .tool(FixtureTool::result("none", json!(null)));
    let source = load_one(&fixture, json!({})).await;
    assert_eq!(output(&source, "docs_two").await, "a\nb");
    let error = call(&source, "docs_error", json!({})).await;
    assert_eq!((error.is_error, error.output.as_str()), (true, "a\n\nb"));
    assert_eq!(metadata(&error), json!({"server": "docs"}));
    let data = call(&source, "docs_data", json!({})).await;
    assert_eq!(
        (data.output.as_str(), &data.structured),
        (r#"{"b":1,"a":[2]}"#, &Some(json!({"b": 1, "a": [2]})))
    );
    let link = call(&source, "docs_link", json!({})).await;
    assert_eq!((link.output.as_str(), link.parts[0].url()), ("see", Some("file:///g.md")));
    let other = call(&source, "docs_other", json!({})).await;
    assert_eq!((other.is_error, other.output.as_str()), (true, "x"));
    assert_eq!(output(&source, "docs_lists").await, "y");
    assert_eq!(output(&source, "docs_odd").await, "unsupported content (hologram)");
    let none = call(&source, "docs_none", json!({})).await;
    assert_eq!((none.is_error, none.output), (true, failed("malformed-body")));
    source.close().await;
}

// MCP-89: an error of the server has its own words, and costs the connection nothing
#[tokio::test]
async fn an_error_of_the_server_is_told() {
    let fixture = McpFixture::new()
        .tool(FixtureTool::error("bad", -32602, "no such file: a.txt"))
        .tool(FixtureTool::echo("good"));
    let source = load_one(&fixture, json!({})).await;
    let result = call(&source, "docs_bad", json!({})).await;
    assert_eq!(result.output, failed("rpc-error (code -32602): no such file: a.txt"));
    assert!(result.is_error);
    assert_eq!(metadata(&result), json!({"server": "docs"}));
    assert_eq!(output(&source, "docs_good").await, "{}");
    source.close().await;
}

// MCP-88, MCP-89, MCP-90, MCP-130, case 51: a late answer is nobody's
#[tokio::test]
async fn a_silent_call_times_out_and_is_withdrawn() {
    let fixture = McpFixture::new().tool(FixtureTool::late("late")).tool(FixtureTool::echo("good"));
    let (fixture, ledger, _folder) = noted(fixture);
    let source = load_one(&fixture, json!({"timeout": 1500})).await;
    let started = Instant::now();
    let result = call(&source, "docs_late", json!({})).await;
    let took = started.elapsed();
    assert_eq!(result.output, failed("timeout"));
    assert!(took >= Duration::from_millis(1500) && took < Duration::from_secs(5), "{took:?}");
    let notices = ledger.wait_for("notifications/cancelled", 1).await.unwrap();
    let calls = ledger.of_method("tools/call").unwrap();
    assert_eq!(notices[0]["params"]["requestId"], calls[0]["id"]);
    // The late answer is on its way or here.
    assert_eq!(output(&source, "docs_good").await, "{}");
    source.close().await;
}

// MCP-88: the caller's limit goes before the server's, which is 30 seconds here
#[tokio::test]
async fn a_context_may_set_the_limit() {
    let source = load_one(&McpFixture::new().tool(FixtureTool::hangs("stuck")), json!({})).await;
    let context = ToolContext { timeout_ms: Some(50), ..Default::default() };
    let started = Instant::now();
    let result = tool(&source, "docs_stuck").execute_with(json!({}), context).await;
    assert_eq!(result.output, failed("timeout"));
    assert!(started.elapsed() < Duration::from_secs(5));
    source.close().await;
}

// MCP-88, case 52: progress is a sign of life
#[tokio::test]
async fn progress_starts_the_limit_anew() {
    let fixture = McpFixture::new().tool(FixtureTool::progress("busy", 8, 100));
    let source = load_one(&fixture, json!({})).await;
    assert_eq!(output_within(&source, "docs_busy", 600).await, "done");
    source.close().await;
}

// MCP-88: but not for ever
#[tokio::test]
async fn the_total_limit_holds_whatever_the_progress() {
    let endless = FixtureTool::progress("busy", 1000, 20);
    let source = load_one(&McpFixture::new().tool(endless), json!({"maxTotalTimeout": 200})).await;
    let started = Instant::now();
    assert_eq!(output(&source, "docs_busy").await, failed("timeout"));
    assert!(started.elapsed() < Duration::from_secs(1));
    source.close().await;
}

// MCP-90: a cancelled call ends at once, is withdrawn, and the connection goes on
#[tokio::test]
async fn a_cancelled_call_is_withdrawn() {
    let fixture = McpFixture::new().tool(FixtureTool::hangs("stuck")).tool(FixtureTool::echo("good"));
    let (fixture, ledger, _folder) = noted(fixture);
    let source = load_one(&fixture, json!({})).await;
    let (cancel, context) = cancellable();
    let stuck = tool(&source, "docs_stuck").clone();
    let running = tokio::spawn(async move { stuck.execute_with(json!({}), context).await });
    let calls = ledger.wait_for("tools/call", 1).await.unwrap();
    cancel.cancel();
    let result = running.await.unwrap();
    assert_eq!((result.is_error, result.output), (true, failed("cancelled")));
    let notices = ledger.wait_for("notifications/cancelled", 1).await.unwrap();
    assert_eq!(notices[0]["params"]["requestId"], calls[0]["id"]);
    assert_eq!(output(&source, "docs_good").await, "{}");

    // Already cancelled: nothing is sent.
    let (cancel, context) = cancellable();
    cancel.cancel();
    let result = tool(&source, "docs_stuck").execute_with(json!({}), context).await;
    assert_eq!(result.output, failed("cancelled"));
    assert_eq!(ledger.of_method("tools/call").unwrap().len(), 2);
    source.close().await;
}

// MCP-90: dropping the caller's future withdraws the call too
#[tokio::test]
async fn a_dropped_call_is_withdrawn() {
    let fixture = McpFixture::new().tool(FixtureTool::hangs("stuck"));
    let (fixture, ledger, _folder) = noted(fixture);
    let source = load_one(&fixture, json!({})).await;
    let stuck = tool(&source, "docs_stuck").clone();
    let running = tokio::spawn(async move { stuck.execute(json!({})).await });
    let calls = ledger.wait_for("tools/call", 1).await.unwrap();
    running.abort();
    let notices = ledger.wait_for("notifications/cancelled", 1).await.unwrap();
    assert_eq!(notices[0]["params"]["requestId"], calls[0]["id"]);
    source.close().await;
}

// MCP-90, MCP-75, case 94: a child that reads nothing delays neither timeout nor close
#[tokio::test]
async fn a_full_pipe_delays_nobody() {
    let fixture = McpFixture::new()
        .tool(FixtureTool::hangs("stuck"))
        .faults(ProcessFaults { stop_reading_after: Some(3), ..Default::default() });
    let source = load_one(&fixture, json!({})).await;
    let context = ToolContext { timeout_ms: Some(300), ..Default::default() };
    let started = Instant::now();
    let args = json!({"text": "x".repeat(1 << 20)});
    let result = tool(&source, "docs_stuck").execute_with(args, context).await;
    assert_eq!(result.output, failed("timeout"));
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
    let started = Instant::now();
    source.close().await;
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

// MCP-92: calls run side by side, and a failing one fails no other
#[tokio::test]
async fn calls_run_in_parallel() {
    let fixture = McpFixture::new()
        .tool(FixtureTool::scripted("wait", [Step::AwaitGate("go".into()), Step::text("went")]))
        .tool(FixtureTool::error("bad", -32000, "no"))
        .tool(FixtureTool::opens_gate("open", "go"));
    let source = load_one(&fixture, json!({})).await;
    let (waiting, bad, open) = tokio::join!(
        call(&source, "docs_wait", json!({})),
        call(&source, "docs_bad", json!({})),
        call(&source, "docs_open", json!({})),
    );
    assert_eq!((waiting.output.as_str(), bad.is_error, open.output.as_str()), ("went", true, "opened"));
    source.close().await;
}

// MCP-44, MCP-68: a child that dies ends all calls with the same reason, also later ones
#[tokio::test]
async fn a_child_that_dies_ends_every_call() {
    let fixture = McpFixture::new()
        .tool(FixtureTool::hangs("stuck"))
        .tool(FixtureTool::scripted("crash", [Step::Stderr("oh no".into()), Step::Exit { code: 7 }]));
    let other = McpFixture::new().tool(FixtureTool::echo("t"));
    let source =
        load_mcp(&servers(json!({"docs": stdio(&fixture, json!({})), "other": stdio(&other, json!({}))})))
            .await;
    let started = Instant::now();
    let (stuck, crash) =
        tokio::join!(call(&source, "docs_stuck", json!({})), call(&source, "docs_crash", json!({})));
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    let text = failed("peer-exited (status 7); stderr: oh no");
    assert_eq!((stuck.output.as_str(), crash.output.as_str()), (text.as_str(), text.as_str()));
    assert_eq!(output(&source, "docs_stuck").await, text);
    let connection = source.connection("docs").unwrap();
    assert_eq!((connection.exit_code(), connection.is_connected()), (Some(7), false));
    assert_eq!(source.status["docs"].as_str(), "connected", "as the load found it");
    assert_eq!(source.connected_count(), 1);
    assert_eq!(output(&source, "other_t").await, "{}");
    source.close().await;
}

// MCP-50, MCP-44: a child that only closes its output is gone all the same
#[tokio::test]
async fn a_closed_output_ends_every_call() {
    let fixture = McpFixture::new()
        .tool(FixtureTool::closes_stdout("close"))
        .faults(ProcessFaults { ignore_stdin_close: true, ..Default::default() });
    let (fixture, ledger, _folder) = noted(fixture);
    let source = load_one(&fixture, json!({})).await;
    let started = Instant::now();
    let text = failed("peer-eof (stdout closed, exit status unknown)");
    assert_eq!(output(&source, "docs_close").await, text);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(output(&source, "docs_close").await, text);
    source.close().await;
    gone(ledger.started().await.unwrap().0).await;
}

// MCP-126: an id that comes back as text
#[tokio::test]
async fn an_answer_may_spell_its_id_as_text() {
    let fixture = McpFixture::new()
        .tool(FixtureTool::string_id("t"))
        .on("initialize", [Step::AnswerWithStringId(Reply::Standard)])
        .on("tools/list", [Step::AnswerWithStringId(Reply::Standard)]);
    let source = load_one(&fixture, json!({})).await;
    assert_eq!(output(&source, "docs_t").await, "string id");
    source.close().await;
}

// MCP-55: long lines are read; the wire has no line limit short of 16 MiB
#[tokio::test]
async fn long_answers_are_read() {
    let source = load_one(&McpFixture::new().tool(FixtureTool::huge("big", 3 << 20)), json!({})).await;
    assert_eq!(output(&source, "docs_big").await.len(), 3 << 20);
    source.close().await;
}

// MCP-44: an answer over the limit fails its call alone and at once
#[tokio::test]
async fn an_answer_without_measure_is_malformed() {
    let fixture =
        McpFixture::new().tool(FixtureTool::huge("monster", 17 << 20)).tool(FixtureTool::echo("good"));
    let source = load_one(&fixture, json!({})).await;
    assert_eq!(output(&source, "docs_monster").await, failed("malformed-body (response too long)"));
    assert_eq!(output(&source, "docs_good").await, "{}");
    source.close().await;
}

// MCP-101: a ping is answered, everything else refused
#[tokio::test]
async fn requests_of_the_server_are_answered() {
    let elicitation =
        json!({"message": "Who are you?", "requestedSchema": {"type": "object", "properties": {}}});
    let fixture = McpFixture::new()
        .tool(FixtureTool::asks("ping", "ping", json!({})))
        .tool(FixtureTool::asks("roots", "roots/list", json!({})))
        .tool(FixtureTool::asks("elicit", "elicitation/create", elicitation))
        .tool(FixtureTool::asks("sample", "sampling/createMessage", json!({"messages": [], "maxTokens": 1})))
        .tool(FixtureTool::asks("other", "server/anything", json!([1])));
    let source = load_one(&fixture, json!({})).await;
    assert_eq!(output(&source, "docs_ping").await, r#"{"result":{}}"#);
    for name in ["docs_roots", "docs_elicit", "docs_sample", "docs_other"] {
        let reply: Value = serde_json::from_str(&output(&source, name).await).unwrap();
        assert_eq!(reply, json!({"error": {"code": -32601, "message": "Method not found"}}), "{name}");
    }
    source.close().await;
}

// MCP-68: a changed list is no reason to list again
#[tokio::test]
async fn a_changed_list_is_ignored() {
    let notice = Step::notify("notifications/tools/list_changed", json!({}));
    let log = Step::notify("notifications/message", json!({"level": "info", "data": "hello"}));
    let fixture =
        McpFixture::new().tool(FixtureTool::scripted("t", [notice, log, Step::Answer(Reply::Echo)]));
    let (fixture, ledger, _folder) = noted(fixture);
    let source = load_one(&fixture, json!({})).await;
    assert_eq!(output(&source, "docs_t").await, "{}");
    assert_eq!(output(&source, "docs_t").await, "{}");
    assert_eq!(ledger.of_method("tools/list").unwrap().len(), 1);
    source.close().await;
}

// Every request has a span with the attributes of OpenTelemetry and no payload.
#[tokio::test]
async fn requests_have_spans() {
    let (spans, _guard) = support::Spans::listen();
    let fixture =
        McpFixture::new().tool(FixtureTool::echo("say")).tool(FixtureTool::error("bad", -1, "secret-1"));
    let source = load_one(&fixture, json!({})).await;
    call(&source, "docs_say", json!({"text": "secret-2"})).await;
    call(&source, "docs_bad", json!({})).await;
    source.close().await;
    let spans = spans.named("mcp.request");
    let told: Vec<_> = spans
        .iter()
        .map(|span| ["mcp.method.name", "gen_ai.tool.name", "error.type"].map(|key| span.get(key).cloned()))
        .collect();
    let some = |text: &str| Some(format!("\"{text}\""));
    assert_eq!(
        told,
        [
            [some("initialize"), None, None],
            [some("tools/list"), None, None],
            [some("tools/call"), some("say"), None],
            [some("tools/call"), some("bad"), some("rpc-error")],
        ]
    );
    assert!(
        spans.iter().all(|span| span["mcp.server.name"] == "\"docs\"" && span["otel.kind"] == "\"client\"")
    );
    assert!(!format!("{spans:?}").contains("secret"), "{spans:?}");
}

// MCP-55, MCP-44: an answer over the limit fails the call it names, whatever else is under way
#[tokio::test]
async fn an_answer_without_measure_fails_its_own_call() {
    let fixture = McpFixture::new()
        .tool(FixtureTool::huge("monster", 17 << 20))
        .tool(FixtureTool::scripted("waits", [Step::AwaitGate("go".into()), Step::text("went")]))
        .tool(FixtureTool::opens_gate("open", "go"));
    let source = load_one(&fixture, json!({})).await;
    let (first, second, monster) =
        tokio::join!(output(&source, "docs_waits"), output(&source, "docs_waits"), async {
            let text = output(&source, "docs_monster").await;
            output(&source, "docs_open").await;
            output(&source, "docs_open").await;
            text
        });
    assert_eq!(monster, failed("malformed-body (response too long)"));
    assert_eq!((first.as_str(), second.as_str()), ("went", "went"));
    source.close().await;
}

// MCP-55, MCP-79: bytes that are no UTF-8, and halves of surrogate pairs, cost one character each
#[tokio::test]
async fn what_no_string_holds_is_replaced() {
    let half = RawJson::parse(r#"{"content":[{"type":"text","text":"a\ud800b \ud83d\ude00"}]}"#).unwrap();
    // Only the answer to the one open request counts, so there may be one for every id.
    let latin: Vec<u8> = (0..20)
        .flat_map(|id| {
            let before =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"caf"#);
            [before.as_bytes(), b"\xe9", b"\"}]}}\n"].concat()
        })
        .collect();
    let fixture = McpFixture::new()
        .tool(FixtureTool::result("half", half))
        .tool(FixtureTool::scripted("latin", [Step::Bytes(latin)]));
    let source = load_one(&fixture, json!({})).await;
    assert_eq!(output(&source, "docs_half").await, "a\u{fffd}b \u{1f600}");
    assert_eq!(output(&source, "docs_latin").await, "caf\u{fffd}");
    source.close().await;
}
