//! Turns of ten thousand calls, and models that invent names.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use support::within;
use toolnexus_core::{Tool, ToolResult, Toolkit};
use toolnexus_llm::{
    Client, ClientOptions, Hooks, InProcessOptions, InProcessRequest, InProcessResponse, InProcessToolCall,
    create_in_process_client,
};

/// A model that asks for these calls and then answers.
fn calling(options: ClientOptions, calls: Vec<InProcessToolCall>) -> Client {
    let calls = Arc::new(calls);
    let options = ClientOptions { model: "m".into(), ..options };
    create_in_process_client(InProcessOptions::new(options, move |request: InProcessRequest| {
        let calls = Arc::clone(&calls);
        async move {
            if request.messages.iter().any(|message| message["role"] == "tool") {
                return Ok(InProcessResponse::text("done"));
            }
            Ok(InProcessResponse { tool_calls: (*calls).clone(), ..Default::default() })
        }
    }))
}

fn counted(count: &Arc<AtomicUsize>) -> Tool {
    let count = Arc::clone(count);
    Tool::new("count", move |_args, _context| {
        count.fetch_add(1, Ordering::Relaxed);
        async { ToolResult::success("ok") }
    })
}

// CLIENT-34: ten thousand calls of one turn, with hooks on each, in a time that grows with their number
#[tokio::test]
async fn ten_thousand_calls_are_one_turn() {
    const CALLS: usize = 10_000;
    for hooked in [false, true] {
        let hooks = hooked.then(|| {
            Hooks::default()
                .with_before_tool(|_| async { Ok(None) })
                .with_after_tool(|_| async { Ok(None) })
        });
        let client = calling(
            ClientOptions { hooks, ..Default::default() },
            (0..CALLS).map(|_| InProcessToolCall::new("count", json!({}))).collect(),
        );
        let count = Arc::default();
        let started = std::time::Instant::now();
        let result = within(client.run("hi", &Toolkit::from_tools([counted(&count)]))).await.unwrap();
        eprintln!("hooked {hooked}: {:?}", started.elapsed());
        assert_eq!((result.tool_call_count, count.load(Ordering::Relaxed)), (CALLS, CALLS));
    }
}

// CLIENT-38, CLIENT-77: names that a model invents do not pile up in the metrics
#[tokio::test]
async fn invented_names_do_not_pile_up() {
    let long = "x".repeat(10_000);
    let client = calling(
        ClientOptions::default(),
        (0..2_000)
            .map(|number| InProcessToolCall::new(format!("no_such_{number}_{long}"), json!({})))
            .collect(),
    );
    let result = within(client.run("hi", &Toolkit::default())).await.unwrap();
    assert_eq!(result.tool_call_count, 2_000);
    assert!(client.metrics().len() < 500_000, "{}", client.metrics().len());
}
