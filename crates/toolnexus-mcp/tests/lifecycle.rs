//! How long connections live, and how they end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{gone, is_alive, noted, output, servers, stdio, tool};
use toolnexus_core::SourceHandle;
use toolnexus_mcp::{LoadMcpOptions, McpContext, McpSource, load_mcp, load_mcp_with_context};
use toolnexus_testkit::mcp::{FixtureTool, Grandchild, McpFixture, ProcessFaults};

fn closed(name: &str) -> String {
    format!("mcp server \"{name}\" failed at tools/call: closed")
}

fn stubborn() -> McpFixture {
    McpFixture::new().tool(FixtureTool::hangs("stuck")).tool(FixtureTool::echo("t")).faults(ProcessFaults {
        ignore_stdin_close: true,
        ignore_signals: true,
        grandchild: Some(Grandchild::HoldsPipes),
        ..Default::default()
    })
}

async fn load(entries: Value) -> McpSource {
    let source = load_mcp(&servers(entries)).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

// MCP-74, MCP-75, case 41
#[tokio::test]
async fn closing_kills_the_whole_tree() {
    let (fixture, ledger, _folder) = noted(stubborn());
    let source = load(json!({"x": stdio(&fixture, json!({}))})).await;
    let (child, grandchild) = ledger.started().await.unwrap();
    assert!(is_alive(child) && is_alive(grandchild.unwrap()));
    let started = Instant::now();
    source.close().await;
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(!is_alive(child), "the child is reaped on return");
    gone(grandchild.unwrap()).await;
    source.close().await;
    SourceHandle::close(&source).await;
}

// MCP-77, MCP-67: calls in flight and later ones
#[tokio::test]
async fn calls_end_with_the_connection() {
    let (fixture, ledger, _folder) = noted(stubborn());
    let source = load(json!({"x": stdio(&fixture, json!({}))})).await;
    assert_eq!(source.connected_count(), 1);
    let stuck = tool(&source, "x_stuck").clone();
    let running = tokio::spawn(async move { stuck.execute(json!({})).await });
    ledger.wait_for("tools/call", 1).await.unwrap();
    source.close().await;
    let result = running.await.unwrap();
    assert_eq!((result.is_error, result.output), (true, closed("x")));
    let started = Instant::now();
    let result = tool(&source, "x_t").execute(json!({})).await;
    assert_eq!((result.is_error, result.output), (true, closed("x")));
    assert!(started.elapsed() < Duration::from_millis(200));
    assert_eq!(source.connected_count(), 0);
    assert_eq!(ledger.of_method("tools/call").unwrap().len(), 1);
}

// MCP-74: all at once, and one alone
#[tokio::test]
async fn servers_are_closed_side_by_side_or_alone() {
    let names = ["a", "b", "c", "d"];
    let entries: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), stdio(&stubborn(), json!({})))).collect();
    let source = load(Value::Object(entries)).await;
    source.disconnect("b").await;
    source.disconnect("nobody").await;
    assert_eq!(source.connected_count(), 3);
    assert_eq!(output(&source, "b_t").await, closed("b"));
    assert_eq!(output(&source, "c_t").await, "{}");
    let started = Instant::now();
    let clone = source.clone();
    tokio::join!(source.close(), clone.close());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(source.connected_count(), 0);
}

// MCP-77: the last handle takes the child with it
#[tokio::test]
async fn dropping_the_last_handle_kills_the_child() {
    let (fixture, ledger, _folder) = noted(stubborn());
    let source = load(json!({"x": stdio(&fixture, json!({}))})).await;
    let (child, grandchild) = ledger.started().await.unwrap();
    let kept = tool(&source, "x_t").clone();
    drop(source);
    assert_eq!(kept.execute(json!({})).await.output, "{}", "a tool is a handle too");
    drop(kept);
    gone(child).await;
    gone(grandchild.unwrap()).await;
}

// MCP-77: also without a runtime to clean up after it
#[test]
fn a_runtime_that_ends_takes_the_child_with_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (fixture, ledger, _folder) = noted(stubborn());
    let source = runtime.block_on(load(json!({"x": stdio(&fixture, json!({}))})));
    let (child, grandchild) = runtime.block_on(ledger.started()).unwrap();
    drop(runtime);
    drop(source);
    let after = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    after.block_on(async {
        gone(child).await;
        gone(grandchild.unwrap()).await;
    });
}

// MCP-63, MCP-62, case 40: nothing of the load's limits or context touches what it returned
#[tokio::test]
async fn a_connection_outlives_its_load() {
    let (fixture, ledger, _folder) = noted(stubborn());
    let config = servers(json!({"x": stdio(&fixture, json!({"timeout": 2000}))}));
    let soon = std::time::Instant::now() + Duration::from_secs(30);
    let context = McpContext { deadline: Some(soon), ..Default::default() };
    let source = load_mcp_with_context(&config, &context, LoadMcpOptions::default()).await.unwrap();
    context.cancel.cancel();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(4000)).await;
    tokio::time::resume();
    assert!(is_alive(ledger.started().await.unwrap().0));
    assert_eq!(output(&source, "x_t").await, "{}");
    source.close().await;
}
