//! Priced tools: what is asked, what is refused, and that a reservation is good once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::poll;
use serde_json::{Value, json};
use support::{servers, tool, with};
use toolnexus_core::{ToolContext, ToolResult};
use toolnexus_mcp::transport::{McpRequest, SeamError};
use toolnexus_mcp::{
    LoadMcpOptions, McpSource, McpStatus, PricedCall, Reservation, Reserve, SpendGate, load_mcp,
    load_mcp_with,
};
use toolnexus_testkit::mcp::{FixtureTool, HttpOptions, McpFixture, McpHttpFixture, Step};

async fn serve() -> McpHttpFixture {
    let fixture = McpFixture::new()
        .tool(FixtureTool::echo("search"))
        .tool(FixtureTool::echo("free"))
        .tool(FixtureTool::echo("other"))
        .tool(FixtureTool::hangs("stuck"));
    McpHttpFixture::start(fixture, HttpOptions::default()).await.unwrap()
}

fn prices() -> Value {
    json!({"prices": {"search": 0.5, "free": 0, "stuck": 2}})
}

async fn load(server: &McpHttpFixture, more: Value, reserve: Option<Reserve>) -> McpSource {
    let config = servers(json!({"docs": with(server.server_json(), more)}));
    let source = load_mcp_with(&config, LoadMcpOptions { reserve, ..Default::default() }).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

fn gate(source: &McpSource) -> &SpendGate {
    source.connection("docs").unwrap().spend_gate().unwrap()
}

fn holding(reservation: &Reservation) -> ToolContext {
    let mut context = ToolContext::default();
    context.extensions.insert(reservation.clone());
    context
}

async fn call(source: &McpSource, name: &str, context: ToolContext) -> ToolResult {
    tool(source, &format!("docs_{name}")).execute_with(json!({}), context).await
}

fn calls(server: &McpHttpFixture) -> usize {
    server.requests_of("tools/call").len()
}

fn unpaid(name: &str) -> String {
    format!("tool \"docs_{name}\" is priced; no spend reservation was made")
}

/// What a hook was asked: server, tool and price.
type Asked = Arc<Mutex<Vec<(String, String, f64)>>>;

/// A hook that pays for everything and notes what it was asked.
fn generous() -> (Reserve, Asked) {
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    let reserve: Reserve = Arc::new(move |call: PricedCall| {
        noted.lock().unwrap().push((call.server.clone(), call.tool.clone(), call.price));
        Box::pin(async move { Some(call.reserve()) })
    });
    (reserve, asked)
}

// MCP-139: which prices make which server
#[tokio::test]
async fn prices_are_numbers() {
    let server = serve().await;
    for (more, metered, price) in [
        (json!({}), false, None),
        (json!({"prices": {}}), false, None),
        (prices(), true, Some(0.5)),
        (json!({"prices": {"search": 1}, "metered": false}), false, Some(1.0)),
        (json!({"metered": true}), true, None),
    ] {
        let source = load(&server, more.clone(), None).await;
        let gate = gate(&source);
        assert_eq!((gate.is_metered(), gate.price("search")), (metered, price), "{more}");
        source.close().await;
    }
    let before = server.requests().len();
    for bad in [
        json!({"prices": {"search": -1}}),
        json!({"prices": {"search": "1"}}),
        json!({"prices": {"search": null}}),
        json!({"prices": [1]}),
        json!({"metered": "yes"}),
    ] {
        let source = load_mcp(&servers(json!({"docs": with(server.server_json(), bad.clone())}))).await;
        assert_eq!(source.status["docs"], McpStatus::Failed, "{bad}");
        assert!(source.errors["docs"].starts_with("mcp server \"docs\" failed at config: config ("), "{bad}");
    }
    // Built by hand, it is held to the same.
    let mut config = servers(json!({"docs": server.server_json()}));
    for price in [-1.0, f64::NAN, f64::INFINITY] {
        config.servers[0].prices.insert("search".to_owned(), price);
        assert_eq!(load_mcp(&config).await.status["docs"], McpStatus::Failed, "{price}");
    }
    assert_eq!(server.requests().len(), before, "nothing was sent");
}

// MCP-140, MCP-143, case 71: without, with, with the same again
#[tokio::test]
async fn a_reservation_is_good_once() {
    let server = serve().await;
    let source = load(&server, prices(), None).await;
    let refused = call(&source, "search", ToolContext::default()).await;
    assert_eq!((refused.is_error, refused.output), (true, unpaid("search")));
    assert_eq!(refused.metadata.unwrap()["server"], "docs");
    assert_eq!(calls(&server), 0);

    let reservation = gate(&source).reserve("search");
    assert_eq!(call(&source, "search", holding(&reservation)).await.output, "{}");
    assert_eq!(calls(&server), 1);
    assert_eq!(call(&source, "search", holding(&reservation)).await.output, unpaid("search"));
    assert_eq!(calls(&server), 1);
    source.close().await;
}

// MCP-143: for another tool, or of another gate: as good as none
#[tokio::test]
async fn a_reservation_is_for_one_tool_of_one_server() {
    let server = serve().await;
    let source = load(&server, prices(), None).await;
    let another = load(&server, prices(), None).await;
    for wrong in [
        gate(&source).reserve("stuck"),
        gate(&source).reserve("docs_search"),
        gate(&another).reserve("search"),
    ] {
        assert_eq!(call(&source, "search", holding(&wrong)).await.output, unpaid("search"));
    }
    assert_eq!(calls(&server), 0);
    source.close().await;
    another.close().await;
}

// MCP-143: two minutes, on the clock of the runtime
#[tokio::test]
async fn a_reservation_expires() {
    let server = serve().await;
    let source = load(&server, prices(), None).await;
    let (early, late) = (gate(&source).reserve("search"), gate(&source).reserve("search"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(118)).await;
    tokio::time::resume();
    assert_eq!(call(&source, "search", holding(&early)).await.output, "{}");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    assert_eq!(call(&source, "search", holding(&late)).await.output, unpaid("search"));
    assert_eq!(calls(&server), 1);
    source.close().await;
}

// MCP-143: checked before queueing, taken at admission and not before, never given back
#[tokio::test]
async fn a_reservation_is_taken_at_admission() {
    let server = serve().await;
    let source = load(&server, prices(), None).await;
    let stuck = gate(&source).reserve("stuck");
    let running = tokio::spawn({
        let tool = tool(&source, "docs_stuck").clone();
        let context = ToolContext { timeout_ms: Some(500), ..holding(&stuck) };
        async move { tool.execute_with(json!({}), context).await }
    });
    server.wait_for_method("tools/call", 1).await.unwrap();

    // Waiting costs nothing: who leaves the queue keeps it.
    let reservation = gate(&source).reserve("search");
    let mut waiting = Box::pin(call(&source, "search", holding(&reservation)));
    assert!(poll!(&mut waiting).is_pending());
    drop(waiting);
    // Without one nobody even waits.
    let mut refused = Box::pin(call(&source, "search", ToolContext::default()));
    let std::task::Poll::Ready(result) = poll!(&mut refused) else { panic!("it waits") };
    assert_eq!(result.output, unpaid("search"));
    // Two that wait with the same one: the first takes it, the other finds it spent.
    let (first, second) = tokio::join!(
        call(&source, "search", holding(&reservation)),
        call(&source, "search", holding(&reservation))
    );
    assert_eq!((first.output.as_str(), second.output), ("{}", unpaid("search")));

    // The call that failed has had its reservation all the same.
    assert_eq!(running.await.unwrap().output, "mcp server \"docs\" failed at tools/call: timeout");
    assert_eq!(call(&source, "stuck", holding(&stuck)).await.output, unpaid("stuck"));
    assert_eq!(calls(&server), 2);
    source.close().await;
}

// MCP-141, case 72; MCP-139: a price of 0 needs nothing
#[tokio::test]
async fn a_metered_server_needs_a_price() {
    let server = serve().await;
    let (reserve, asked) = generous();
    let source = load(&server, prices(), Some(reserve)).await;
    let reservation = gate(&source).reserve("other");
    for context in [ToolContext::default(), holding(&reservation)] {
        let result = call(&source, "other", context).await;
        assert_eq!(
            (result.is_error, result.output.as_str()),
            (true, "tool \"docs_other\" has no price; its server is metered")
        );
    }
    assert_eq!(calls(&server), 0);
    assert_eq!(call(&source, "free", ToolContext::default()).await.output, "{}");
    assert!(asked.lock().unwrap().is_empty());
    source.close().await;
}

// MCP-142
#[tokio::test]
async fn an_unmetered_server_asks_for_nothing() {
    let server = serve().await;
    let (reserve, asked) = generous();
    let source = load(&server, json!({"metered": false, "prices": {"search": 1}}), Some(reserve)).await;
    let reservation = gate(&source).reserve("search");
    for name in ["search", "other"] {
        assert_eq!(call(&source, name, ToolContext::default()).await.output, "{}");
        assert_eq!(call(&source, name, holding(&reservation)).await.output, "{}");
        assert_eq!(call(&source, name, holding(&reservation)).await.output, "{}");
    }
    assert!(asked.lock().unwrap().is_empty());
    source.close().await;
}

// MCP-144, MCP-143: asked once a call; nothing of it on the wire or in a text
#[tokio::test]
async fn the_hook_is_asked_once_a_call() {
    let server = serve().await;
    let (reserve, asked) = generous();
    let source = load(&server, prices(), Some(reserve)).await;
    for _ in 0..2 {
        assert_eq!(call(&source, "search", ToolContext::default()).await.output, "{}");
    }
    let once = ("docs".to_owned(), "search".to_owned(), 0.5);
    assert_eq!(*asked.lock().unwrap(), [once.clone(), once]);
    // Whoever has one is not asked.
    let reservation = gate(&source).reserve("search");
    assert_eq!(call(&source, "search", holding(&reservation)).await.output, "{}");
    assert_eq!(asked.lock().unwrap().len(), 2);
    for request in server.requests_of("tools/call") {
        let keys: Vec<&String> = request.json["params"].as_object().unwrap().keys().collect();
        assert!(keys.iter().all(|key| ["_meta", "name", "arguments"].contains(&key.as_str())), "{keys:?}");
        assert_eq!(request.json["params"]["_meta"].as_object().unwrap().len(), 1, "the progress token");
    }
    assert_eq!(format!("{reservation:?}"), "Reservation");
    source.close().await;
}

// MCP-144: no hook's failure lets a call through, and none stays
#[tokio::test]
async fn a_hook_may_refuse_panic_or_wait() {
    let server = serve().await;
    let refuses: Reserve = Arc::new(|_| Box::pin(async { None }));
    let panics: Reserve = Arc::new(|_| panic!("no budget"));
    let panics_later: Reserve = Arc::new(|_| Box::pin(async { panic!("no budget") }));
    for reserve in [refuses, panics, panics_later] {
        let source = load(&server, prices(), Some(reserve)).await;
        assert_eq!(call(&source, "search", ToolContext::default()).await.output, unpaid("search"));
        source.close().await;
    }
    let waits: Reserve = Arc::new(|_| Box::pin(std::future::pending()));
    let source = load(&server, prices(), Some(waits)).await;
    let context = ToolContext::default();
    let cancel = context.cancel.clone();
    let mut waiting = Box::pin(call(&source, "search", context));
    assert!(poll!(&mut waiting).is_pending());
    cancel.cancel();
    assert_eq!(waiting.await.output, "mcp server \"docs\" failed at tools/call: cancelled");
    let mut waiting = Box::pin(call(&source, "search", ToolContext::default()));
    assert!(poll!(&mut waiting).is_pending());
    source.close().await;
    assert_eq!(waiting.await.output, "mcp server \"docs\" failed at tools/call: closed");
    assert_eq!(calls(&server), 0);
}

// MCP-143: the retry after a lost session does not need a second one
#[tokio::test]
async fn a_retry_is_paid_already() {
    let fixture = McpFixture::new().tool(FixtureTool::scripted("search", [Step::text("found")]));
    let server = McpHttpFixture::start(fixture, HttpOptions::default()).await.unwrap();
    let (reserve, asked) = generous();
    let source = load(&server, prices(), Some(reserve)).await;
    server.forget_sessions();
    assert_eq!(call(&source, "search", ToolContext::default()).await.output, "found");
    assert_eq!((calls(&server), asked.lock().unwrap().len()), (2, 1));
    source.close().await;
}

// MCP-140, MCP-141, MCP-143, cases 71 and 72: no way around it for a host's own requests either
#[tokio::test]
async fn requests_by_hand_pay_too() {
    let server = serve().await;
    let (reserve, asked) = generous();
    let source = load(&server, prices(), Some(reserve)).await;
    let connection = source.connection("docs").unwrap();
    let call = |tool: &str| McpRequest::new("tools/call").params(json!({"name": tool, "arguments": {}}));
    let unmetered = |tool: &str| Err(SeamError::UnmeteredCall { tool: tool.to_owned() });
    let unknown = |tool: &str| Err(SeamError::UnknownPrice { tool: tool.to_owned() });

    assert_eq!(connection.send(call("search")).await, unmetered("search"));
    let reservation = gate(&source).reserve("search");
    assert_eq!(connection.send(call("other").reservation(reservation.clone())).await, unknown("other"));
    assert_eq!(connection.send(McpRequest::new("tools/call")).await, unknown(""));
    assert_eq!(connection.send(McpRequest::new("tools/call").params(json!({"name": 7}))).await, unknown(""));
    assert_eq!(calls(&server), 0);
    let sent = connection.send(call("search").reservation(reservation.clone())).await.unwrap();
    assert_eq!(sent["content"][0]["text"], "{}");
    assert_eq!(calls(&server), 1);
    assert_eq!(connection.send(call("search").reservation(reservation)).await, unmetered("search"));
    connection.send(call("free")).await.unwrap();
    // What is no call costs nothing, and the hook is for tools.
    connection.send(McpRequest::new("ping")).await.unwrap();
    assert!(asked.lock().unwrap().is_empty());
    source.close().await;
}
