//! Turns of ten thousand calls, and models that invent names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use support::{MetricLog, within};
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

fn counted(name: &str, count: &Arc<AtomicUsize>) -> Tool {
    let count = Arc::clone(count);
    Tool::new(name, move |_args, _context| {
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
            Hooks::default().with_before_tool(|_| async { Ok(None) }).with_after_tool(|_| async { Ok(None) })
        });
        let client = calling(
            ClientOptions { hooks, ..Default::default() },
            (0..CALLS).map(|_| InProcessToolCall::new("count", json!({}))).collect(),
        );
        let count = Arc::default();
        let result =
            within(client.run("hi", &Toolkit::from_tools([counted("count", &count)]))).await.unwrap();
        assert_eq!((result.tool_call_count, count.load(Ordering::Relaxed)), (CALLS, CALLS));
    }
}

// CLIENT-38, CLIENT-71, CLIENT-77: names that a model invents are counted, and do not pile up
#[tokio::test]
async fn invented_names_do_not_pile_up() {
    let metrics = MetricLog::default();
    let long = "x".repeat(10_000);
    let names = (0..300).map(|number| format!("no_such_{number}")).chain([long.clone()]);
    let client = calling(
        ClientOptions { on_metric: Some(metrics.sink()), ..Default::default() },
        names.map(|name| InProcessToolCall::new(name, json!({}))).collect(),
    );
    within(client.run("hi", &Toolkit::default())).await.unwrap();
    // The sink is told each name; the numbers keep a hundred of them.
    assert!(metrics.of("tool").iter().any(|event| event["tool"] == long.as_str()));
    let text = client.metrics();
    let counts = |line: &&str| line.starts_with("toolnexus_tool_calls_total{");
    assert_eq!(text.lines().filter(counts).count(), 101);
    let shared = r#"{tool="(unknown)",source="custom",is_error="true",pending="false"} 201"#;
    assert!(text.contains(shared), "{text}");

    // A tool of the toolkit has its own series whatever a model invented before.
    let count = Arc::default();
    let toolkit = Toolkit::from_tools([counted("no_such_299", &count)]);
    within(client.run("hi", &toolkit)).await.unwrap();
    assert!(client.metrics().contains(r#"{tool="no_such_299",source="custom",is_error="false""#));
}
