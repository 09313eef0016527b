//! The toolkit: its listing, live changes, executing, closing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is a test's failure report"
)]

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::json;
use toolnexus_core::{
    BoxFuture, SourceHandle, SourceStatus, Style, Tool, ToolResult, Toolkit, ToolkitParts, define_tool,
};

fn named(name: &str, output: &str) -> Tool {
    let output = output.to_owned();
    define_tool(name, "", None, move |_args, _context| {
        let output = output.clone();
        async move { Ok::<_, String>(output) }
    })
}

fn names(toolkit: &Toolkit) -> Vec<String> {
    toolkit.tools().into_iter().map(|tool| tool.name).collect()
}

// CORE-59, CORE-64
#[tokio::test]
async fn a_toolkit_without_tools() {
    let toolkit = Toolkit::default();
    assert!(toolkit.tools().is_empty() && toolkit.tool_names().is_empty());
    assert_eq!(toolkit.skills_prompt(), "");
    assert!(toolkit.mcp_status().is_empty() && toolkit.statuses().is_empty() && toolkit.errors().is_empty());
    assert!(toolkit.wait_for().is_none());
    assert_eq!(toolkit.snapshot().request_json(Style::OpenAI), None);
    toolkit.close().await;
}

// CORE-59: names sorted by code point, tools in their order
#[test]
fn listing_keeps_order_and_names_are_sorted() {
    let toolkit = Toolkit::from_tools(["b", "é", "a", "B"].map(|name| named(name, "")));
    assert_eq!(names(&toolkit), ["b", "é", "a", "B"]);
    assert_eq!(toolkit.tool_names(), ["B", "a", "b", "é"]);
}

// CORE-60, CORE-50, case 18
#[tokio::test]
async fn the_first_of_a_name_wins_also_later() {
    let toolkit = Toolkit::from_tools([named("add", "first"), named("add", "second"), named("", "nameless")]);
    let clone = toolkit.clone();
    toolkit.register([named("add", "third"), named("late", "late")]).register([named("later", "later")]);
    assert_eq!(names(&clone), ["add", "late", "later"]);
    assert_eq!(clone.execute("add", json!({})).await.output, "first");
    assert_eq!(clone.execute("late", json!({})).await.output, "late");
}

// CORE-62: a snapshot never changes under its holder
#[test]
fn a_snapshot_stays_as_it_was() {
    let toolkit = Toolkit::from_tools([named("a", "")]);
    let before = toolkit.snapshot();
    let json = before.request_json(Style::OpenAI).unwrap();
    toolkit.register([named("b", "")]);
    assert_eq!(before.tools().len(), 1);
    assert_eq!(before.request_json(Style::OpenAI).unwrap(), json);
    assert_eq!(toolkit.snapshot().tools().len(), 2);
    assert_ne!(toolkit.snapshot().request_json(Style::OpenAI).unwrap(), json);
}

// CORE-62, design: a new list shares the tools of the old one
#[test]
fn snapshots_share_their_tools() {
    let toolkit = Toolkit::from_tools([named("a", ""), named("b", "")]);
    let before = toolkit.snapshot();
    let after = toolkit.register([named("c", ""), named("a", "again"), named("", "")]).snapshot();
    assert_eq!(after.tools().len(), 3);
    assert!(before.tools().iter().zip(after.tools()).all(|(old, new)| std::sync::Arc::ptr_eq(old, new)));
    assert!(std::sync::Arc::ptr_eq(after.get("c").unwrap(), &after.tools()[2]));
    assert!(before.get("c").is_none() && after.get("").is_none());
}

// Design: the tool array is serialised once for a snapshot
#[test]
fn a_snapshot_serialises_its_tools_once() {
    let toolkit = Toolkit::from_tools([named("a", "")]);
    for style in [Style::OpenAI, Style::Anthropic, Style::Gemini] {
        let first = toolkit.snapshot().request_json(style).unwrap();
        assert_eq!(first.as_ptr(), toolkit.snapshot().request_json(style).unwrap().as_ptr());
    }
}

// CORE-62: readers and writers at once; every reader sees a whole list
#[test]
fn concurrent_readers_see_whole_snapshots() {
    let toolkit = Toolkit::default();
    let rounds = 80;
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let toolkit = &toolkit;
            scope.spawn(move || {
                for n in 0..rounds {
                    toolkit.register([
                        named(&format!("{writer}-{n}-a"), ""),
                        named(&format!("{writer}-{n}-b"), ""),
                    ]);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while last < 4 * rounds * 2 {
                    let snapshot = toolkit.snapshot();
                    let count = snapshot.tools().len();
                    assert!(count >= last, "a list never shrinks");
                    assert_eq!(count % 2, 0, "what was registered together is seen together");
                    assert!(snapshot.tools().iter().all(|tool| snapshot.get(&tool.name).is_some()));
                    last = count;
                }
            });
        }
    });
    assert_eq!(toolkit.tools().len(), 4 * rounds * 2);
}

// CORE-65, CORE-66, CORE-67, case 10
#[tokio::test]
async fn executing_by_name() {
    let echo = define_tool("echo", "", None, |args, _context| async move { Ok::<_, String>(args) });
    let toolkit = Toolkit::from_tools([echo]);
    assert_eq!(toolkit.execute("nope", json!({})).await, ToolResult::failure("unknown tool: nope"));
    assert_eq!(toolkit.execute("Echo", json!({})).await, ToolResult::failure("unknown tool: Echo"));
    assert_eq!(toolkit.execute("echo", json!(null)).await.output, "{}");
    assert_eq!(toolkit.execute("echo", json!({"extra": 1})).await.output, r#"{"extra":1}"#);
    for no_object in [json!([1]), json!("text"), json!(7), json!(true)] {
        assert_eq!(
            toolkit.execute("echo", no_object).await,
            ToolResult::failure("invalid arguments for tool \"echo\": expected a JSON object")
        );
    }
}

struct Closing(Arc<AtomicUsize>);

impl SourceHandle for Closing {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

// CORE-63, D18: sources are closed with the toolkit and found by their type
#[tokio::test]
async fn closing_reaches_every_source_and_tools_stay() {
    let closed = Arc::new(AtomicUsize::new(0));
    let toolkit = Toolkit::from_parts(ToolkitParts {
        tools: vec![named("t", "still runs")],
        builtin_status: Some(SourceStatus::Disabled),
        mcp_status: [("srv".to_owned(), SourceStatus::Failed)].into(),
        errors: [("srv".to_owned(), "why".to_owned())].into(),
        sources: vec![Arc::new(Closing(Arc::clone(&closed))), Arc::new(Closing(Arc::clone(&closed)))],
        ..Default::default()
    });
    assert!(toolkit.source::<Closing>().is_some());
    assert_eq!(toolkit.mcp_status().len(), 1);
    assert_eq!(toolkit.statuses()["builtin"], SourceStatus::Disabled);
    assert_eq!(toolkit.statuses()["srv"].as_str(), "failed");
    assert_eq!(toolkit.errors()["srv"], "why");
    toolkit.close().await;
    assert_eq!(closed.load(Ordering::SeqCst), 2);
    assert_eq!(toolkit.execute("t", json!({})).await.output, "still runs");
}

fn is_send_sync<T: Send + Sync + 'static>(_: &T) {}

// CORE-59: everything may cross threads
#[test]
fn toolkits_and_tools_cross_threads() {
    is_send_sync(&Toolkit::default());
    is_send_sync(&named("t", ""));
}

proptest! {
    // CORE-50, CORE-60: whatever is registered in whatever order, the first of each name stays in its place
    #[test]
    fn registering_keeps_the_first_of_each_name(batches in proptest::collection::vec(
        proptest::collection::vec("[a-d]{0,2}", 0..5), 0..6)) {
        let toolkit = Toolkit::default();
        let mut expected: Vec<String> = Vec::new();
        for batch in batches {
            for name in &batch {
                if !name.is_empty() && !expected.contains(name) {
                    expected.push(name.clone());
                }
            }
            toolkit.register(batch.iter().map(|name| named(name, "")));
            prop_assert_eq!(names(&toolkit), expected.clone());
        }
    }
}

// CLIENT-85: a handle tells its toolkit from others and keeps it not alive
#[test]
fn a_handle_knows_its_toolkit() {
    let toolkit = Toolkit::from_tools([named("a", "")]);
    let handle = toolkit.downgrade();
    let clone = toolkit.clone();
    drop(toolkit);
    assert!(handle.is_alive() && handle.refers_to(&clone));
    // More tools make no other toolkit.
    clone.register([named("b", "")]);
    assert!(handle.refers_to(&clone));
    assert_eq!(names(&handle.upgrade().unwrap()), ["a", "b"]);
    drop(clone);
    assert!(!handle.is_alive() && handle.upgrade().is_none());
    // No toolkit that comes later is taken for it.
    assert!((0..100).all(|_| !handle.refers_to(&Toolkit::default())));
}
