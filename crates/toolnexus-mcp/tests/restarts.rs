//! The optional life of a server: states, restarts, tools that change, servers started when needed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::poll;
use serde_json::{Value, json};
use support::{gone, is_alive, noted, output, servers, stdio, tool, with};
use tokio::sync::watch;
use toolnexus_core::ToolContext;
use toolnexus_mcp::transport::{McpRequest, SeamError};
use toolnexus_mcp::{AutoRestart, LoadMcpOptions, McpSource, McpState, McpStatus, load_mcp, load_mcp_with};
use toolnexus_testkit::mcp::{
    FixtureTool, HttpEffect, HttpFault, HttpOptions, McpFixture, McpHttpFixture, Step,
};

use McpState::{Error, Running, Starting, Stopped};

fn fixture() -> McpFixture {
    McpFixture::new()
        .tool(FixtureTool::echo("say"))
        .tool(FixtureTool::hangs("stuck"))
        .tool(FixtureTool::exits("crash", 7))
}

async fn load(entry: Value, opts: LoadMcpOptions) -> McpSource {
    load_mcp_with(&servers(json!({"docs": entry})), opts).await
}

/// A server whose entry says which era it is of, so that only what is asked for is sent.
async fn serve(fixture: McpFixture, options: HttpOptions) -> (McpHttpFixture, Value) {
    let server = McpHttpFixture::start(fixture, options).await.unwrap();
    let entry = with(server.server_json(), json!({"era": "legacy"}));
    (server, entry)
}

fn restarting(max_retries: u32) -> LoadMcpOptions {
    let auto_restart = Some(AutoRestart { max_retries, backoff_ms: 20_000 });
    LoadMcpOptions { auto_restart, ..Default::default() }
}

/// The states of a source's servers from now on.
struct Seen(watch::Receiver<Vec<McpState>>);

impl Seen {
    fn of(source: &McpSource) -> Self {
        let (sender, receiver) = watch::channel(Vec::new());
        source.on_state_change(move |change| {
            assert_eq!((change.server.as_str(), change.error.is_some()), ("docs", change.state == Error));
            sender.send_modify(|states| states.push(change.state));
        });
        Seen(receiver)
    }

    /// Waits for so many changes.
    async fn first(&mut self, count: usize) -> Vec<McpState> {
        let seen = self.0.wait_for(|states| states.len() >= count);
        tokio::time::timeout(Duration::from_secs(3600), seen).await.unwrap().unwrap().clone()
    }

    fn all(&self) -> Vec<McpState> {
        self.0.borrow().clone()
    }
}

async fn advance(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

fn names(source: &McpSource) -> Vec<String> {
    source.current_tools().into_iter().map(|tool| tool.name).collect()
}

fn listed(names: &[&str]) -> Value {
    let tools: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    json!({"tools": tools})
}

fn list_changed() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

// MCP-69
#[tokio::test]
async fn every_server_has_a_state() {
    let config = servers(json!({
        "docs": stdio(&fixture(), json!({})),
        "off": {"command": ["x"], "enabled": false},
        "dead": {"command": ["no-such-program"]},
    }));
    let source = load_mcp(&config).await;
    let states = ["docs", "off", "dead", "nobody"].map(|name| source.state(name));
    assert_eq!(states, [Some(Running), None, Some(Error), None]);
    let mut seen = Seen::of(&source);
    assert!(output(&source, "docs_crash").await.contains("peer-exited (status 7)"));
    assert_eq!(seen.first(1).await, [Error]);
    assert_eq!(source.state("docs"), Some(Error));
    assert_eq!(source.status["docs"], McpStatus::Connected, "as the load found it");
    source.disconnect("docs").await;
    source.disconnect("docs").await;
    assert_eq!(seen.all(), [Error, Stopped]);
    assert_eq!(source.restart("docs").await, Err(SeamError::Closed));
    assert_eq!(source.restart("off").await, Err(SeamError::NotConnected));
    assert!(matches!(source.restart("dead").await, Err(SeamError::Failed(_))));
    source.close().await;
    let words: Vec<_> = [Stopped, Starting, Running, Error].iter().map(ToString::to_string).collect();
    assert_eq!(words, ["stopped", "starting", "running", "error"]);
}

// MCP-70: a healthy server gets a new process under the same tools, one for all who ask at once
#[tokio::test]
async fn a_server_is_restarted() {
    let (fixture, ledger, _folder) = noted(fixture());
    let source = load(stdio(&fixture, json!({})), LoadMcpOptions::default()).await;
    let before = names(&source);
    let kept = tool(&source, "docs_say").clone();
    let (old, _) = ledger.started().await.unwrap();
    let seen = Seen::of(&source);
    let stuck = tool(&source, "docs_stuck").clone();
    let lost = tokio::spawn(async move { stuck.execute(json!({})).await });
    ledger.wait_for("tools/call", 1).await.unwrap();
    let all = join_all((0..4).map(|_| source.restart("docs"))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(seen.all(), [Stopped, Starting, Running]);
    gone(old).await;
    assert_eq!(ledger.processes().unwrap().len(), 2);
    assert_eq!(lost.await.unwrap().output, "mcp server \"docs\" failed at tools/call: closed");
    assert_eq!(kept.execute(json!({})).await.output, "{}");
    assert_eq!(names(&source), before);

    source.restart("docs").await.unwrap();
    assert_eq!(ledger.processes().unwrap().len(), 3);
    assert_eq!(kept.execute(json!({})).await.output, "{}");
    source.close().await;
    for (pid, _) in ledger.processes().unwrap() {
        gone(pid).await;
    }
}

// MCP-70: also one that the load could not reach
#[tokio::test]
async fn a_failed_server_is_restarted() {
    let faults = vec![HttpFault::on("initialize", HttpEffect::status(503)).times(2)];
    let (_server, entry) = serve(fixture(), HttpOptions { faults, ..Default::default() }).await;
    let source = load(entry, LoadMcpOptions::default()).await;
    assert_eq!(source.state("docs"), Some(Error));
    assert_eq!(
        source.refresh("docs").await.map_err(|error| matches!(error, SeamError::Failed(_))),
        Err(true)
    );
    let seen = Seen::of(&source);
    let SeamError::Failed(failure) = source.restart("docs").await.unwrap_err() else { panic!() };
    assert_eq!(failure.to_string(), "mcp server \"docs\" failed at initialize: http-status (HTTP 503)");
    source.restart("docs").await.unwrap();
    assert_eq!(seen.all(), [Starting, Error, Starting, Running]);
    assert_eq!(names(&source), ["docs_crash", "docs_say", "docs_stuck"]);
    let tools = source.current_tools();
    let say = tools.iter().find(|tool| tool.name == "docs_say").unwrap();
    assert_eq!(say.execute(json!({})).await.output, "{}");
    assert!(source.tools.is_empty() && source.errors.contains_key("docs"), "as the load found it");
    source.close().await;
}

// MCP-70: a restart that is given up leaves nothing, and one of two waiting may go
#[tokio::test]
async fn a_restart_can_be_given_up() {
    let faults = vec![HttpFault::on("initialize", HttpEffect::Silence).after(1).once()];
    let (server, entry) = serve(fixture(), HttpOptions { faults, ..Default::default() }).await;
    let source = load(entry, LoadMcpOptions::default()).await;
    let seen = Seen::of(&source);
    let (mut first, mut second) = (Box::pin(source.restart("docs")), Box::pin(source.restart("docs")));
    assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
    drop(first);
    tokio::select! {
        result = &mut second => panic!("{result:?}"),
        asked = server.wait_for_method("initialize", 2) => assert_eq!(asked.unwrap().len(), 2),
    }
    assert_eq!(source.state("docs"), Some(Starting));
    let started = Instant::now();
    drop(second);
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_eq!(seen.all(), [Stopped, Starting, Stopped]);
    assert_eq!(
        output(&source, "docs_say").await,
        "mcp server \"docs\" failed at tools/call: closed (not connected)"
    );
    source.restart("docs").await.unwrap();
    assert_eq!(output(&source, "docs_say").await, "{}");
    source.close().await;
    server.wait_for_silence().await.unwrap();
}

// MCP-71: lost, started again after its pause, and the lost call not sent again
#[tokio::test]
async fn a_lost_server_is_started_again() {
    let (fixture, ledger, _folder) = noted(fixture());
    let source = load(stdio(&fixture, json!({})), restarting(3)).await;
    let mut seen = Seen::of(&source);
    // Neither a cancelled call nor one that fails loses it.
    let context = ToolContext { timeout_ms: Some(50), ..Default::default() };
    tool(&source, "docs_stuck").execute_with(json!({}), context).await;
    let lost = output(&source, "docs_crash").await;
    assert!(lost.contains("peer-exited (status 7)"), "{lost}");
    assert_eq!(seen.first(1).await, [Error]);
    assert_eq!(output(&source, "docs_say").await, lost, "until it is back");
    advance(18).await;
    assert_eq!(seen.all(), [Error]);
    advance(2).await;
    assert_eq!(seen.first(3).await, [Error, Starting, Running]);
    assert_eq!(output(&source, "docs_say").await, "{}");
    assert_eq!(ledger.processes().unwrap().len(), 2);
    let crashes = ledger.of_method("tools/call").unwrap();
    assert_eq!(crashes.iter().filter(|call| call["params"]["name"] == "crash").count(), 1);

    // Lost again at once, it has waited before and waits longer.
    output(&source, "docs_crash").await;
    seen.first(4).await;
    advance(38).await;
    assert_eq!(seen.all().len(), 4);
    advance(2).await;
    assert_eq!(seen.first(6).await[3..], [Error, Starting, Running]);
    // A close is no loss.
    source.close().await;
    assert_eq!(seen.all()[6..], [Stopped]);
    advance(1000).await;
    assert_eq!(ledger.processes().unwrap().len(), 3);
    assert_eq!(seen.all().len(), 7);
}

// MCP-71, MCP-129: it is given up after so many attempts
#[tokio::test]
async fn a_server_that_stays_away_is_given_up() {
    let faults = vec![HttpFault::on_http("GET", HttpEffect::status(500)).after(1)];
    let options = HttpOptions { legacy_sse: Some("/messages".into()), faults, ..Default::default() };
    let (server, entry) = serve(fixture(), options).await;
    let source = load(with(entry, json!({"type": "sse"})), restarting(2)).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    let mut seen = Seen::of(&source);
    server.end_streams();
    seen.first(1).await;
    advance(20).await;
    seen.first(3).await;
    advance(40).await;
    assert_eq!(seen.first(5).await, [Error, Starting, Error, Starting, Error]);
    advance(10_000).await;
    assert_eq!(seen.all().len(), 5);
    assert_eq!(source.state("docs"), Some(Error));
    source.close().await;
}

// MCP-68, MCP-71: off by default
#[tokio::test]
async fn a_lost_server_stays_lost() {
    let (fixture, ledger, _folder) = noted(fixture());
    let source = load(stdio(&fixture, json!({})), LoadMcpOptions::default()).await;
    let mut seen = Seen::of(&source);
    output(&source, "docs_crash").await;
    seen.first(1).await;
    advance(10_000).await;
    assert_eq!((seen.all(), ledger.processes().unwrap().len()), (vec![Error], 1));
    source.restart("docs").await.unwrap();
    assert_eq!(output(&source, "docs_say").await, "{}");
    source.close().await;
}

// MCP-71: nor is one that nobody has any more
#[tokio::test]
async fn a_dropped_source_is_not_brought_back() {
    let (fixture, ledger, _folder) = noted(fixture());
    let source = load(stdio(&fixture, json!({})), restarting(5)).await;
    let mut seen = Seen::of(&source);
    output(&source, "docs_crash").await;
    seen.first(1).await;
    drop(source);
    advance(10_000).await;
    tokio::task::yield_now().await;
    assert_eq!(ledger.processes().unwrap().len(), 1);
}

// MCP-72: what is announced is looked at, filtered, and told; what did not change stays
#[tokio::test]
async fn announced_tools_are_followed() {
    let fixture = McpFixture::new()
        .on("tools/list", [Step::result(listed(&["a", "b", "secret"]))])
        .on("tools/list", [Step::result(listed(&["b", "c", "secret"]))])
        .on("tools/list", [Step::error(-32000, "not now")])
        .on("tools/list", [Step::result(listed(&["b", "c"]))])
        .on("tools/call", [Step::AwaitGate("go".into()), Step::text("went")]);
    let (server, entry) = serve(fixture, HttpOptions::default()).await;
    let entry = with(entry, json!({"tools": {"secret": false}, "concurrency": "stateless"}));
    let source = load(entry, LoadMcpOptions { live_tool_list: true, ..Default::default() }).await;
    assert_eq!(names(&source), ["docs_a", "docs_b"]);
    let (sender, mut told) = watch::channel(Vec::new());
    source.on_tools_change(move |change| {
        let names: Vec<String> = change.tools.iter().map(|tool| tool.name.clone()).collect();
        sender.send_modify(|all: &mut Vec<(String, Vec<String>)>| all.push((change.server.clone(), names)));
    });
    // A call in flight goes on.
    let kept = tool(&source, "docs_b").clone();
    let calling = tokio::spawn(async move { kept.execute(json!({})).await });
    server.wait_for_method("tools/call", 1).await.unwrap();
    server.wait_for_streams(1).await.unwrap();
    server.push(&list_changed());
    let all = told.wait_for(|all| !all.is_empty()).await.unwrap().clone();
    assert_eq!(all, [("docs".to_owned(), vec!["docs_b".to_owned(), "docs_c".to_owned()])]);
    assert_eq!(names(&source), ["docs_b", "docs_c"]);
    server.open_gate("go");
    assert_eq!(calling.await.unwrap().output, "went");

    // A failed listing keeps what there was, and one that brings nothing new is not told.
    let SeamError::Failed(failure) = source.refresh("docs").await.unwrap_err() else { panic!() };
    assert_eq!(failure.to_string(), "mcp server \"docs\" failed at tools/list: rpc-error (code -32000)");
    assert_eq!(names(&source), ["docs_b", "docs_c"]);
    source.refresh("docs").await.unwrap();
    assert_eq!(told.borrow().len(), 1);
    source.close().await;
    assert_eq!(source.refresh("docs").await, Err(SeamError::Closed));
}

// MCP-72: many notices while it is looked at are one more look
#[tokio::test]
async fn notices_are_gathered() {
    let gated = |names: &[&str]| [Step::AwaitGate("go".into()), Step::result(listed(names))];
    let fixture = McpFixture::new()
        .on("tools/list", [Step::result(listed(&["a"]))])
        .on("tools/list", gated(&["b"]))
        .on("tools/list", gated(&["c"]));
    let (server, entry) = serve(fixture, HttpOptions::default()).await;
    let source = load(entry, LoadMcpOptions { live_tool_list: true, ..Default::default() }).await;
    let (sender, mut told) = watch::channel(0);
    source.on_tools_change(move |_| sender.send_modify(|count| *count += 1));
    server.wait_for_streams(1).await.unwrap();
    server.push(&list_changed());
    server.wait_for_method("tools/list", 2).await.unwrap();
    for _ in 0..5 {
        server.push(&list_changed());
    }
    // What comes in order behind them has been read when it is answered.
    server.push(&json!({"jsonrpc": "2.0", "id": "q", "method": "ping"}));
    server.wait_for_method("ping", 0).await.unwrap();
    let answered = |requests: Vec<toolnexus_testkit::mcp::RecordedHttpRequest>| {
        requests.iter().any(|request| request.json["id"] == "q")
    };
    let mut count = 1;
    while !answered(server.wait_for(count).await.unwrap()) {
        count += 1;
    }
    server.open_gate("go");
    told.wait_for(|count| *count == 1).await.unwrap();
    server.open_gate("go");
    told.wait_for(|count| *count == 2).await.unwrap();
    assert_eq!(names(&source), ["docs_c"]);
    // A look more would be under way by the time a call is answered: they stand in one queue.
    source.connection("docs").unwrap().send(McpRequest::new("ping")).await.unwrap();
    assert_eq!(server.requests_of("tools/list").len(), 3);
    source.close().await;
}

// MCP-73: listed once, gone, and started by the first call
#[tokio::test]
async fn a_lazy_server_runs_when_it_is_needed() {
    let (fixture, ledger, _folder) = noted(fixture());
    let source = load(stdio(&fixture, json!({"lazy": true})), LoadMcpOptions::default()).await;
    assert_eq!((source.status["docs"], source.state("docs")), (McpStatus::Connected, Some(Stopped)));
    assert_eq!((source.connected_count(), source.tools.len()), (0, 3));
    let (listed, _) = ledger.started().await.unwrap();
    gone(listed).await;
    let seen = Seen::of(&source);
    let say = tool(&source, "docs_say").clone();
    let first = join_all((0..5).map(|_| say.execute(json!({})))).await;
    assert!(first.iter().all(|result| result.output == "{}"), "{first:?}");
    assert_eq!(seen.all(), [Starting, Running]);
    let processes = ledger.processes().unwrap();
    assert_eq!((processes.len(), source.connected_count()), (2, 1));
    assert!(is_alive(processes[1].0));
    assert_eq!(output(&source, "docs_say").await, "{}");
    source.close().await;
    gone(processes[1].0).await;
    assert_eq!(output(&source, "docs_say").await, "mcp server \"docs\" failed at tools/call: closed");
    assert_eq!(ledger.processes().unwrap().len(), 2);
}

// MCP-73: what was never needed is never started, and what cannot be started says why
#[tokio::test]
async fn a_lazy_server_may_stay_away() {
    let (unused, ledger, _folder) = noted(fixture());
    let source = load(stdio(&unused, json!({"lazy": true})), LoadMcpOptions::default()).await;
    source.close().await;
    assert_eq!(ledger.processes().unwrap().len(), 1);

    let faults = vec![HttpFault::on("initialize", HttpEffect::status(503)).after(1).once()];
    let (server, entry) = serve(fixture(), HttpOptions { faults, ..Default::default() }).await;
    let source = load(with(entry, json!({"lazy": true})), LoadMcpOptions::default()).await;
    assert!(server.sessions().is_empty(), "the session of the listing is left");
    let seen = Seen::of(&source);
    let failed = output(&source, "docs_say").await;
    assert_eq!(failed, "mcp server \"docs\" failed at tools/call: http-status (HTTP 503)");
    assert_eq!(output(&source, "docs_say").await, "{}");
    assert_eq!(seen.all(), [Starting, Error, Starting, Running]);
    source.close().await;

    // By hand it is started too.
    let source = load(stdio(&fixture(), json!({"lazy": true})), LoadMcpOptions::default()).await;
    source.connection("docs").unwrap().send(McpRequest::new("ping")).await.unwrap();
    assert_eq!(source.state("docs"), Some(Running));
    source.close().await;
}
