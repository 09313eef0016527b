//! Loads that are ended from outside leave nothing behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
#[cfg(target_os = "linux")]
use support::alone::{alone, no_tasks, settled};
use support::{gone, is_alive, noted, servers, stdio};
use toolnexus_mcp::{
    LoadMcpOptions, McpConfig, McpContext, McpContextError, McpSource, list_mcp_tools, load_mcp,
    load_mcp_with_context,
};
use toolnexus_testkit::mcp::{FixtureTool, McpFixture};

async fn load(config: &McpConfig, context: &McpContext) -> Result<McpSource, McpContextError> {
    load_mcp_with_context(config, context, LoadMcpOptions::default()).await
}

fn cancelled_after(delay: Duration) -> McpContext {
    let context = McpContext::default();
    let cancel = context.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(delay).await;
        cancel.cancel();
    });
    context
}

fn deadline_in(delay: Duration) -> McpContext {
    McpContext { deadline: Some(Instant::now() + delay), ..Default::default() }
}

/// One server that answers at once and one that never does.
fn good_and_stuck() -> (Value, [support::Noted; 2]) {
    let good = noted(McpFixture::new().tool(FixtureTool::echo("t")));
    let stuck = noted(McpFixture::new().never_answers("initialize"));
    let entries = json!({"good": stdio(&good.0, json!({})), "stuck": stdio(&stuck.0, json!({}))});
    (entries, [good, stuck])
}

// MCP-57, MCP-58, case 38: everything of the load is gone on return
#[tokio::test]
async fn a_cancelled_load_leaves_nothing() {
    let (entries, [(_, good, _a), (_, stuck, _b)]) = good_and_stuck();
    let config = servers(entries);
    let context = McpContext::default();
    let cancel = context.cancel.clone();
    let (result, ()) = tokio::join!(load(&config, &context), async {
        good.wait_for("tools/list", 1).await.unwrap();
        stuck.wait_for("initialize", 1).await.unwrap();
        cancel.cancel();
    });
    assert_eq!(result.err(), Some(McpContextError::Cancelled));
    for ledger in [good, stuck] {
        assert!(!is_alive(ledger.started().await.unwrap().0));
    }
}

// MCP-57
#[tokio::test]
async fn a_load_ends_at_its_deadline() {
    let (entries, [(_, good, _a), (_, stuck, _b)]) = good_and_stuck();
    let started = Instant::now();
    let result = load(&servers(entries), &deadline_in(Duration::from_millis(300))).await;
    assert_eq!(result.err(), Some(McpContextError::DeadlineExceeded));
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(2), "{took:?}");
    for (pid, _) in [good, stuck].iter().flat_map(|ledger| ledger.processes().unwrap()) {
        assert!(!is_alive(pid));
    }
}

// MCP-57: too late before it begins, nothing is contacted
#[tokio::test]
async fn an_ended_context_starts_nothing() {
    let (entries, [(_, good, _a), (_, stuck, _b)]) = good_and_stuck();
    let config = servers(entries);
    let context = McpContext::default();
    context.cancel.cancel();
    assert_eq!(load(&config, &context).await.err(), Some(McpContextError::Cancelled));
    let past = McpContext { deadline: Some(Instant::now()), ..Default::default() };
    assert_eq!(load(&config, &past).await.err(), Some(McpContextError::DeadlineExceeded));
    let inventory = list_mcp_tools(&config, &past, LoadMcpOptions::default()).await;
    assert_eq!(inventory.err(), Some(McpContextError::DeadlineExceeded));
    for ledger in [good, stuck] {
        assert!(ledger.entries().unwrap().is_empty());
    }
}

// MCP-58: dropping the future is enough, whoever has got hold of a tool by then
#[tokio::test]
async fn a_dropped_load_leaves_nothing() {
    let (entries, [(_, good, _a), (_, stuck, _b)]) = good_and_stuck();
    let config = servers(entries);
    let kept = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let keeper = std::sync::Arc::clone(&kept);
    let opts = LoadMcpOptions {
        on_server: Some(std::sync::Arc::new(move |event| keeper.lock().unwrap().extend(event.tools))),
        ..Default::default()
    };
    let context = McpContext::default();
    tokio::select! {
        _ = load_mcp_with_context(&config, &context, opts) => unreachable!("a server is stuck"),
        () = async {
            stuck.wait_for("initialize", 1).await.unwrap();
            while kept.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        } => {}
    }
    for ledger in [good, stuck] {
        gone(ledger.started().await.unwrap().0).await;
    }
    let tool = kept.lock().unwrap().pop().unwrap();
    assert_eq!(tool.execute(json!({})).await.output, "mcp server \"good\" failed at tools/call: closed");
}

// MCP-59, MCP-61, case 39: a server's own limit is its own affair
#[tokio::test]
async fn a_servers_limit_fails_that_server() {
    let stuck = McpFixture::new().never_answers("initialize");
    let config = servers(json!({"x": stdio(&stuck, json!({"timeout": 300}))}));
    for source in
        [load(&config, &deadline_in(Duration::from_secs(60))).await.unwrap(), load_mcp(&config).await]
    {
        assert_eq!(source.errors["x"], "mcp server \"x\" failed at initialize: timeout");
    }
}

// A host may load on any task of its runtime and hand the source on.
#[tokio::test]
async fn a_load_can_be_spawned() {
    fn shared<T: Clone + Send + Sync + 'static>(value: T) -> T {
        value
    }
    let config = servers(json!({"x": {"command": ["no-such-program"]}}));
    let source = tokio::spawn(async move {
        let context = McpContext::default();
        let opts = LoadMcpOptions::default();
        assert!(list_mcp_tools(&config, &context, opts.clone()).await.is_ok());
        load_mcp_with_context(&config, &context, opts).await
    });
    assert_eq!(shared(source.await.unwrap().unwrap()).connected_count(), 0);
}

// MCP-58, MCP-75: 200 loads over a child that never answers (1,000 take half a minute in a debug
// build), half of them cancelled after 20 ms, half dropped. The tests of this file run in one
// process, so this one runs in a process of its own: see `alone`.
#[cfg(target_os = "linux")]
#[test]
fn many_ended_loads_leave_no_process_and_no_descriptor() {
    if !alone("many_ended_loads_leave_no_process_and_no_descriptor") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let config = servers(json!({
            "child": {"command": ["sleep", "600"]},
            "shell": {"command": ["sh", "-c", "sleep 600 & cat > /dev/null"]},
            "http": {"url": format!("http://{}/mcp", listener.local_addr().unwrap())},
        }));
        let mut before = None;
        for round in 0..200 {
            let context = cancelled_after(Duration::from_millis(20));
            if round % 2 == 0 {
                assert_eq!(load(&config, &context).await.err(), Some(McpContextError::Cancelled));
            } else {
                let _ = tokio::time::timeout(Duration::from_millis(20), load_mcp(&config)).await;
            }
            // The first round has opened what the runtime keeps.
            if round == 0 {
                before = Some(settled(0).await);
            }
        }
        let before = before.unwrap();
        let after = settled(before).await;
        assert!(after <= before, "{before} descriptors before, {after} after");
        no_tasks().await;
    });
}
