//! What happens to requests in flight, on every wire.
//!
//! | | stdio | HTTP, session | HTTP, no session | legacy SSE | HTTP, modern |
//! |---|---|---|---|---|---|
//! | cancel | the caller has its error at once; the server a notice with the call's id; the next call comes after the notice and never beside the call | the same, and the POST is given up | as with a session | as stdio | no notice: the POST that is given up says it all |
//! | timeout | as cancel; the late answer is nobody's | the same, and the POST is given up | as with a session | as stdio | as cancel |
//! | peer death | every call fails with the same reason, those that wait and later ones too | a cut exchange fails its call alone, the next one works | as with a session | the end of the one stream fails every call, as on stdio | as with a session |
//! | server request | answered while the call holds the only slot | the same; an answer that cannot be sent fails nothing else | as with a session | as with a session | there is none; one that comes all the same is answered, the method named in the header |
//! | notification failure | it takes a slot; on a dead pipe it fails with the peer's reason | it takes the slot until its POST is done or given up, fails alone, and the next call works | as with a session | as with a session | as with a session |
//! | queue full | the call over the limit is refused as busy at once, unsent; those that wait get their turn | the same | the same | the same | the same |
//!
//! Every cell is a test, `<row>::<wire>`; the rules are named at the row. All connections are
//! serialized, so that a slot is seen to be held.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::time::{Duration, Instant};

use futures::poll;
use serde_json::{Value, json};
use support::{noted, servers, stdio, tool, with};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{ToolContext, ToolResult};
use toolnexus_mcp::transport::SeamError;
use toolnexus_mcp::{McpConnection, McpFailureKind, McpSource, load_mcp};
use toolnexus_testkit::mcp::{
    FixtureTool, HttpEffect, HttpFault, HttpOptions, Ledger, McpFixture, McpHttpFixture, Step,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Stdio,
    Session,
    Sessionless,
    Sse,
    Modern,
}

impl Wire {
    /// One exchange a request, its answer in the response.
    fn is_streamable(self) -> bool {
        matches!(self, Wire::Session | Wire::Sessionless | Wire::Modern)
    }
}

/// One test per wire for each row.
macro_rules! cells {
    ($($row:ident),* $(,)?) => {$(
        mod $row {
            use super::Wire;

            #[tokio::test]
            async fn stdio() {
                super::$row(Wire::Stdio).await;
            }

            #[tokio::test]
            async fn http_with_a_session() {
                super::$row(Wire::Session).await;
            }

            #[tokio::test]
            async fn http_without_a_session() {
                super::$row(Wire::Sessionless).await;
            }

            #[tokio::test]
            async fn legacy_sse() {
                super::$row(Wire::Sse).await;
            }

            #[tokio::test]
            async fn http_modern() {
                super::$row(Wire::Modern).await;
            }
        }
    )*};
}

cells!(
    cancel,
    timeout,
    peer_death,
    server_request,
    unsent_answer,
    notification_failure,
    notification_in_flight,
    queue_full,
);

/// What the server has taken note of.
enum Notes {
    Ledger(Ledger),
    Http(McpHttpFixture),
}

/// A server on some wire, and the serialized connection to it.
struct Peer {
    source: McpSource,
    notes: Notes,
    /// Where the ledger is.
    _folder: Option<tempfile::TempDir>,
}

impl Peer {
    async fn start(wire: Wire, more: Value, faults: Vec<HttpFault>) -> Peer {
        let fixture = McpFixture::new()
            .tool(FixtureTool::echo("say"))
            .tool(FixtureTool::hangs("stuck"))
            .tool(FixtureTool::late("late"))
            .tool(FixtureTool::report("report"))
            .tool(FixtureTool::asks("ping", "ping", json!({})))
            .tool(FixtureTool::asks("roots", "roots/list", json!({})))
            .tool(FixtureTool::scripted("crash", [Step::Exit { code: 7 }]));
        let fixture = if wire == Wire::Modern { fixture.modern() } else { fixture };
        let era = if wire == Wire::Modern { "modern" } else { "legacy" };
        let more = with(json!({"concurrency": "serialized", "era": era}), more);
        let (entry, notes, folder) = if wire == Wire::Stdio {
            let (fixture, ledger, folder) = noted(fixture);
            (stdio(&fixture, more), Notes::Ledger(ledger), Some(folder))
        } else {
            let options = HttpOptions {
                sessions: wire == Wire::Session,
                legacy_sse: (wire == Wire::Sse).then(|| "/messages".to_owned()),
                faults,
                ..Default::default()
            };
            let server = McpHttpFixture::start(fixture, options).await.unwrap();
            let kind = if wire == Wire::Sse { json!({"type": "sse"}) } else { json!({}) };
            (with(with(server.server_json(), kind), more), Notes::Http(server), None)
        };
        let source = load_mcp(&servers(json!({"docs": entry}))).await;
        assert!(source.errors.is_empty(), "{:?}", source.errors);
        Peer { source, notes, _folder: folder }
    }

    fn connection(&self) -> &McpConnection {
        self.source.connection("docs").unwrap()
    }

    /// A call, not begun.
    fn call(&self, name: &str, context: ToolContext) -> impl Future<Output = ToolResult> + Send + 'static {
        let tool = tool(&self.source, &format!("docs_{name}")).clone();
        async move { tool.execute_with(json!({}), context).await }
    }

    async fn output(&self, name: &str) -> String {
        self.call(name, ToolContext::default()).await.output
    }

    /// A call that the server has got.
    async fn in_flight(&self, name: &str, context: ToolContext) -> JoinHandle<ToolResult> {
        let before = self.got("tools/call").len();
        let call = tokio::spawn(self.call(name, context));
        self.wait_for("tools/call", before + 1).await;
        call
    }

    /// The messages of that method that have come.
    fn got(&self, method: &str) -> Vec<Value> {
        match &self.notes {
            Notes::Ledger(ledger) => ledger.of_method(method).unwrap(),
            Notes::Http(server) => {
                server.requests_of(method).into_iter().map(|request| request.json).collect()
            }
        }
    }

    async fn wait_for(&self, method: &str, count: usize) -> Vec<Value> {
        match &self.notes {
            Notes::Ledger(ledger) => ledger.wait_for(method, count).await.unwrap(),
            Notes::Http(server) => {
                let requests = server.wait_for_method(method, count).await.unwrap();
                requests.into_iter().map(|request| request.json).collect()
            }
        }
    }

    /// The methods of calls and cancel notices, in the order of their coming, with the id they concern.
    fn order(&self) -> Vec<(String, Value)> {
        let messages = match &self.notes {
            Notes::Ledger(ledger) => ledger.messages().unwrap(),
            Notes::Http(server) => server.requests().into_iter().map(|request| request.json).collect(),
        };
        let order = messages.into_iter().filter_map(|message| match message["method"].as_str() {
            Some("tools/call") => Some(("call".to_owned(), message["id"].clone())),
            Some("notifications/cancelled") => {
                Some(("cancel".to_owned(), message["params"]["requestId"].clone()))
            }
            _ => None,
        });
        order.collect()
    }

    /// How many calls the server has had at once, at most.
    async fn peak(&self) -> u64 {
        let report = match &self.notes {
            Notes::Http(server) => return server.in_flight_peak() as u64,
            Notes::Ledger(..) => self.output("report").await,
        };
        let report: Value = serde_json::from_str(&report).unwrap();
        report["in_flight_peak"].as_u64().unwrap()
    }

    fn http(&self) -> &McpHttpFixture {
        match &self.notes {
            Notes::Http(server) => server,
            Notes::Ledger(..) => panic!("over stdio"),
        }
    }
}

fn failed(text: &str) -> String {
    format!("mcp server \"docs\" failed at tools/call: {text}")
}

fn within(ms: u64) -> ToolContext {
    ToolContext { timeout_ms: Some(ms), ..Default::default() }
}

fn cancellable() -> (CancellationToken, ToolContext) {
    let context = ToolContext::default();
    (context.cancel.clone(), context)
}

/// The first call was withdrawn, the one that waited came after that, and never did two overlap.
async fn one_after_the_other(peer: &Peer, wire: Wire) {
    if wire.is_streamable() {
        peer.http().wait_for_abandoned(1).await.unwrap();
    }
    let order = peer.order();
    let first = order[0].1.clone();
    let next = if wire == Wire::Modern {
        assert_eq!((order.len(), order[0].0.as_str()), (2, "call"), "{order:?}");
        1
    } else {
        assert_eq!(order[..2], [("call".to_owned(), first.clone()), ("cancel".to_owned(), first.clone())]);
        2
    };
    assert_eq!((order[next].0.as_str(), order[next].1 != first), ("call", true), "{order:?}");
    assert_eq!(peer.peak().await, 1);
}

// MCP-90, MCP-131, MCP-134, MCP-138
async fn cancel(wire: Wire) {
    let peer = Peer::start(wire, json!({}), Vec::new()).await;
    let (cancel, context) = cancellable();
    let stuck = peer.in_flight("stuck", context).await;
    let mut next = Box::pin(peer.call("say", ToolContext::default()));
    assert!(poll!(&mut next).is_pending());
    // One that is cancelled while it waits is never sent.
    let (leave, context) = cancellable();
    let mut left = Box::pin(peer.call("report", context));
    assert!(poll!(&mut left).is_pending());
    leave.cancel();
    assert_eq!(left.await.output, failed("cancelled"));
    assert_eq!(peer.got("tools/call").len(), 1);
    cancel.cancel();
    assert_eq!(stuck.await.unwrap().output, failed("cancelled"));
    assert_eq!(next.await.output, "{}");
    assert_eq!(peer.got("tools/call").len(), 2);
    one_after_the_other(&peer, wire).await;
    peer.source.close().await;
}

// MCP-90, MCP-130, MCP-131, MCP-134, MCP-137, case 69
async fn timeout(wire: Wire) {
    let peer = Peer::start(wire, json!({}), Vec::new()).await;
    let late = peer.in_flight("late", within(400)).await;
    let mut next = Box::pin(peer.call("say", ToolContext::default()));
    assert!(poll!(&mut next).is_pending());
    // Its time ends while it waits: it is never sent.
    assert_eq!(peer.call("report", within(20)).await.output, failed("timeout"));
    assert_eq!(peer.got("tools/call").len(), 1);
    assert_eq!(late.await.unwrap().output, failed("timeout"));
    assert_eq!(next.await.output, "{}");
    one_after_the_other(&peer, wire).await;
    // The late answer is on its way or here, and nobody's.
    assert_eq!(peer.output("say").await, "{}");
    peer.source.close().await;
}

// MCP-127, MCP-129, MCP-124
async fn peer_death(wire: Wire) {
    let peer = Peer::start(wire, json!({"concurrency": "pooled", "poolSize": 2}), Vec::new()).await;
    let stuck = peer.in_flight("stuck", ToolContext::default()).await;
    if wire.is_streamable() {
        assert_eq!(peer.output("crash").await, failed("transport (stream-failed)"));
        assert_eq!(peer.output("say").await, "{}");
        assert!(peer.connection().is_connected() && !stuck.is_finished());
        stuck.abort();
    } else {
        let other = if wire == Wire::Stdio { "crash" } else { "stuck" };
        let mut crash = Box::pin(peer.call(other, ToolContext::default()));
        assert!(poll!(&mut crash).is_pending());
        let mut waits = Box::pin(peer.call("say", ToolContext::default()));
        assert!(poll!(&mut waits).is_pending());
        let started = Instant::now();
        if wire == Wire::Sse {
            peer.http().end_streams();
        }
        let reason = match wire {
            Wire::Stdio => failed("peer-exited (status 7)"),
            _ => failed("transport (stream-failed)"),
        };
        let (crash, waits) = tokio::join!(crash, waits);
        for result in [crash, waits, stuck.await.unwrap()] {
            assert_eq!(result.output, reason);
        }
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        assert_eq!(peer.output("say").await, reason);
        assert!(!peer.connection().is_connected());
    }
    peer.source.close().await;
    assert_eq!(peer.output("say").await, failed("closed"));
    let closed = peer.connection().notify("notifications/x", None).await.unwrap_err();
    assert_eq!(closed, SeamError::Closed);
}

// MCP-132
async fn server_request(wire: Wire) {
    let peer = Peer::start(wire, json!({}), Vec::new()).await;
    assert_eq!(peer.output("ping").await, r#"{"result":{}}"#);
    let refused = r#"{"error":{"code":-32601,"message":"Method not found"}}"#;
    assert_eq!(peer.output("roots").await, refused);
    if wire == Wire::Modern {
        let answers = peer.http().requests().into_iter().filter(|request| request.rpc_method().is_none());
        let named: Vec<_> = answers.map(|answer| answer.header("mcp-method").map(str::to_owned)).collect();
        assert_eq!(named, [Some("ping".to_owned()), Some("roots/list".to_owned())]);
    }
    assert_eq!(peer.peak().await, 1);
    peer.source.close().await;
}

// MCP-133
async fn unsent_answer(wire: Wire) {
    // Over stdio an answer that cannot be written means that nothing can.
    let faults = vec![HttpFault::on("", HttpEffect::status(500)).once()];
    let peer = Peer::start(wire, json!({}), faults).await;
    if wire != Wire::Stdio {
        assert_eq!(peer.call("ping", within(300)).await.output, failed("timeout"));
    }
    assert_eq!(peer.output("ping").await, r#"{"result":{}}"#);
    peer.source.close().await;
}

// MCP-128, MCP-127
async fn notification_failure(wire: Wire) {
    let faults = vec![HttpFault::on("notifications/x", HttpEffect::status(500)).after(1).once()];
    let peer = Peer::start(wire, json!({}), faults).await;
    let connection = peer.connection();
    connection.notify("notifications/x", Some(json!({"a": 1}))).await.unwrap();
    assert_eq!(peer.output("say").await, "{}");
    assert_eq!(peer.wait_for("notifications/x", 1).await[0]["params"], json!({"a": 1}));
    if wire == Wire::Stdio {
        assert_eq!(peer.output("crash").await, failed("peer-exited (status 7)"));
        let failure = connection.notify("notifications/x", None).await.unwrap_err();
        assert_eq!(failure.to_string(), "mcp server \"docs\" failed at notification: peer-exited (status 7)");
    } else {
        let failure = connection.notify("notifications/x", None).await.unwrap_err();
        assert_eq!(failure.to_string(), "mcp server \"docs\" failed at notification: http-status (HTTP 500)");
        assert_eq!(peer.output("say").await, "{}");
        connection.notify("notifications/x", None).await.unwrap();
    }
    peer.source.close().await;
}

// MCP-128: it counts as in flight until its POST is done, or given up
async fn notification_in_flight(wire: Wire) {
    let faults = vec![HttpFault::on("notifications/x", HttpEffect::Silence).once()];
    let peer = Peer::start(wire, json!({"timeout": 2000}), faults).await;
    // It waits for its turn like a call.
    let (cancel, context) = cancellable();
    let stuck = peer.in_flight("stuck", context).await;
    let connection = peer.connection().clone();
    let mut notice = Box::pin(async move { connection.notify("notifications/x", None).await });
    assert!(poll!(&mut notice).is_pending());
    let next = tokio::spawn(peer.call("say", within(30_000)));
    assert!(peer.got("notifications/x").is_empty());
    cancel.cancel();
    stuck.await.unwrap();
    let notified = notice.await;
    if wire == Wire::Stdio {
        notified.unwrap();
    } else {
        let SeamError::Failed(failure) = notified.unwrap_err() else { panic!("closed") };
        assert_eq!(failure.kind(), McpFailureKind::Timeout);
        let messages: Vec<Value> = peer.http().requests().into_iter().map(|request| request.json).collect();
        let place = |method: &str| messages.iter().rposition(|message| message["method"] == method);
        assert!(place("notifications/x").is_some());
    }
    assert_eq!(next.await.unwrap().output, "{}");
    let order: Vec<Value> = match &peer.notes {
        Notes::Ledger(ledger) => ledger.messages().unwrap(),
        Notes::Http(server) => server.requests().into_iter().map(|request| request.json).collect(),
    };
    let methods: Vec<&str> = order.iter().filter_map(|message| message["method"].as_str()).collect();
    let sent = methods.iter().position(|method| *method == "tools/call").unwrap();
    let notice = (wire != Wire::Modern).then_some("notifications/cancelled");
    let expected = [Some("tools/call"), notice, Some("notifications/x"), Some("tools/call")];
    assert_eq!(methods[sent..], expected.into_iter().flatten().collect::<Vec<_>>());
    peer.source.close().await;
}

// MCP-136, MCP-135
async fn queue_full(wire: Wire) {
    let peer = Peer::start(wire, json!({"queueLimit": 1}), Vec::new()).await;
    let (cancel, context) = cancellable();
    let stuck = peer.in_flight("stuck", context).await;
    let mut waits = Box::pin(peer.call("say", ToolContext::default()));
    assert!(poll!(&mut waits).is_pending());
    let mut refused = Box::pin(peer.call("say", ToolContext::default()));
    match poll!(&mut refused) {
        std::task::Poll::Ready(result) => {
            assert_eq!((result.is_error, result.output), (true, failed("busy")));
        }
        std::task::Poll::Pending => panic!("a full queue is not waited for"),
    }
    assert_eq!(peer.got("tools/call").len(), 1);
    cancel.cancel();
    stuck.await.unwrap();
    assert_eq!(waits.await.output, "{}");
    assert_eq!(peer.output("say").await, "{}");
    assert_eq!(peer.peak().await, 1);
    peer.source.close().await;
}
