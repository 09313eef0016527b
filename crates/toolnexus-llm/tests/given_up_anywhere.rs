//! Runs that are dropped at each of their awaits, and many runs at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use futures::future::join_all;
use serde_json::json;
use support::{MetricLog, within};
use tokio::task::yield_now;
use toolnexus_core::{Answer, BoxFuture, Request, Tool, ToolResult, Toolkit, WaitFor, pending};
use toolnexus_llm::{
    Client, ClientOptions, Hooks, InProcessChunk, InProcessOptions, InProcessRequest, InProcessResponse,
    InProcessToolCall, RunStatus, StreamOptions, create_in_process_client,
};

/// Asks for both tools until it has read their results. Every step gives way once.
fn client(options: ClientOptions) -> Client {
    let hooks = Hooks::default()
        .with_before_llm(|_| async {
            yield_now().await;
            Ok(None)
        })
        .with_after_llm(|_| async {
            yield_now().await;
            Ok(())
        })
        .with_before_tool(|_| async {
            yield_now().await;
            Ok(None)
        })
        .with_after_tool(|_| async {
            yield_now().await;
            Ok(None)
        });
    let wait_for: WaitFor = Arc::new(|request: Request| -> BoxFuture<'static, _> {
        Box::pin(async move {
            yield_now().await;
            Ok(Answer { id: request.id, ok: true, ..Default::default() })
        })
    });
    let options =
        ClientOptions { model: "m".into(), hooks: Some(hooks), wait_for: Some(wait_for), ..options };
    let calls = |request: &InProcessRequest| {
        let newest = request.messages.last().unwrap();
        let asks = newest["role"] != "tool";
        asks.then(|| ["slow", "ask"].map(|name| InProcessToolCall::new(name, json!({}))))
    };
    let mut options = InProcessOptions::new(options, move |request: InProcessRequest| async move {
        yield_now().await;
        Ok(match calls(&request) {
            Some(calls) => InProcessResponse { tool_calls: calls.into(), ..Default::default() },
            None => InProcessResponse::text("ok"),
        })
    });
    options.generate_stream = Some(Arc::new(move |request| {
        let chunks: Vec<InProcessChunk> = match calls(&request) {
            Some(calls) => calls.into_iter().map(Into::into).collect(),
            None => vec!["o".into(), "k".into()],
        };
        let slowly = |chunk| async {
            yield_now().await;
            Ok(chunk)
        };
        futures::stream::iter(chunks).then(slowly).boxed()
    }));
    create_in_process_client(options)
}

/// Tools of which `alive` counts those that run now.
fn toolkit(alive: &Arc<AtomicUsize>) -> Toolkit {
    struct Alive(Arc<AtomicUsize>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let enter = |alive: &Arc<AtomicUsize>| {
        alive.fetch_add(1, Ordering::Relaxed);
        Alive(Arc::clone(alive))
    };
    let (first, second) = (Arc::clone(alive), Arc::clone(alive));
    Toolkit::from_tools([
        Tool::new("slow", move |_args, _context| {
            let held = enter(&first);
            async move {
                let _held = held;
                yield_now().await;
                yield_now().await;
                ToolResult::success("slow")
            }
        }),
        Tool::new("ask", move |_args, context| {
            let held = enter(&second);
            async move {
                let _held = held;
                yield_now().await;
                match context.answer {
                    Some(_) => ToolResult::success("asked"),
                    None => pending(Request { prompt: "may I?".into(), ..Default::default() }),
                }
            }
        }),
    ])
}

// CLIENT-71, CLIENT-102, CLIENT-124: whatever it waits for, a run that is dropped ends its tools, saves nothing
// and tells its end once
#[tokio::test]
async fn a_run_may_be_dropped_at_any_await() {
    for streamed in [false, true] {
        let mut polls = 0;
        loop {
            let metrics = MetricLog::default();
            let client = client(ClientOptions { on_metric: Some(metrics.sink()), ..Default::default() });
            let alive = Arc::default();
            let toolkit = toolkit(&alive);
            let mut run: BoxFuture<'_, _> = if streamed {
                let options = StreamOptions { id: "c".into(), ..Default::default() };
                Box::pin(client.stream_with("hi", &toolkit, options).finish())
            } else {
                Box::pin(client.ask("hi", &toolkit, "c"))
            };
            let mut ended = None;
            for _ in 0..polls {
                yield_now().await;
                if let std::task::Poll::Ready(result) = futures::poll!(&mut run) {
                    ended = Some(result.unwrap());
                    break;
                }
            }
            drop(run);
            assert_eq!(alive.load(Ordering::Relaxed), 0, "after {polls} polls");
            let runs = metrics.of("run");
            assert_eq!(runs.len(), usize::from(polls > 0), "after {polls} polls");
            assert_eq!(metrics.timeless().last(), runs.last());
            let saved = client.conversation_store().get("c").await.unwrap();
            assert_eq!(saved.is_some(), ended.is_some(), "after {polls} polls");
            if let Some(result) = ended {
                assert_eq!((result.text.as_str(), result.tool_call_count), ("ok", 2));
                break;
            }
            polls += 1;
            assert!(polls < 1_000, "it does not end");
        }
        assert!(polls > 10, "{polls}");
    }
}

// CLIENT-34, CLIENT-71, CLIENT-77: a hundred runs at once with every hook, none of whose events is lost or doubled
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_runs_at_once_are_counted_right() {
    let metrics = MetricLog::default();
    let client = client(ClientOptions { on_metric: Some(metrics.sink()), ..Default::default() });
    let alive = Arc::default();
    let toolkit = toolkit(&alive);
    let runs = (0..100).map(|number| {
        let (client, toolkit) = (client.clone(), toolkit.clone());
        tokio::spawn(async move {
            if number % 2 == 0 {
                client.run("hi", &toolkit).await
            } else {
                client.stream("hi", &toolkit).finish().await
            }
        })
    });
    for result in within(join_all(runs)).await {
        assert_eq!(result.unwrap().unwrap().text, "ok");
    }
    let counts = ["llm", "tool", "run"].map(|kind| metrics.of(kind).len());
    // Of each run: two model calls; the slow tool once, the asking one twice.
    assert_eq!(counts, [200, 300, 100]);
    let text = client.metrics();
    assert!(text.contains("toolnexus_llm_requests_total{model=\"m\",status=\"ok\"} 200\n"), "{text}");
    assert!(text.contains("toolnexus_tool_duration_seconds_count{tool=\"ask\"} 200\n"), "{text}");
}

// CLIENT-47, CLIENT-65, CLIENT-66: the last turn allowed may suspend: an answer lets it end, nobody to ask halts it
#[tokio::test]
async fn the_last_turn_may_suspend() {
    let alive = Arc::default();
    for concurrent_wait_for in [false, true] {
        let client = client(ClientOptions { max_turns: 1, concurrent_wait_for, ..Default::default() });
        let result = within(client.run("hi", &toolkit(&alive))).await.unwrap();
        assert_eq!((result.status, result.limit.as_deref()), (RunStatus::Incomplete, Some("maxTurns")));
        assert_eq!(result.tool_calls[1].output, "asked");
    }
}

// CLIENT-49, CLIENT-56, SUSPEND-49: a hook that fails while questions are open ends the run once the calls are over
#[tokio::test]
async fn a_hook_that_fails_among_open_questions_ends_the_run() {
    for concurrent_wait_for in [false, true] {
        let options = ClientOptions { concurrent_wait_for, ..Default::default() };
        let failing = Hooks::default().with_after_tool(|event: toolnexus_llm::AfterToolEvent| async move {
            if event.name == "slow" { Err("no".into()) } else { Ok(None) }
        });
        let wait_for: WaitFor = Arc::new(|request: Request| {
            Box::pin(async move { Ok(Answer { id: request.id, ok: true, ..Default::default() }) })
        });
        let generate = |_: InProcessRequest| async {
            let tool_calls = ["ask", "slow", "ask"].map(|name| InProcessToolCall::new(name, json!({})));
            Ok(InProcessResponse { tool_calls: tool_calls.into(), ..Default::default() })
        };
        let options =
            ClientOptions { model: "m".into(), hooks: Some(failing), wait_for: Some(wait_for), ..options };
        let client = create_in_process_client(InProcessOptions::new(options, generate));
        let alive = Arc::default();
        let error = within(client.run("hi", &toolkit(&alive))).await.unwrap_err();
        assert_eq!(error.to_string(), "the hook after_tool failed: no");
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }
}
