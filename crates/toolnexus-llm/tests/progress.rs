//! What tools tell while they work, as the events of a run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use serde_json::{Value, json};
use support::{STYLES, drain, kinds, options, reply, server, within};
use tokio::sync::{Semaphore, oneshot};
use toolnexus_core::{LogLevel, Tool, ToolContext, ToolResult, Toolkit, define_tool};
use toolnexus_llm::{RunOptions, StreamEvent, Style, create_client};
use toolnexus_testkit::model::ModelServer;

/// A model that calls these tools at once, as `c1`, `c2` and so on, and then says ok.
async fn calling(style: Style, tools: &[&str]) -> ModelServer {
    let calls = tools
        .iter()
        .zip(1..)
        .fold(reply(style), |reply, (name, number)| reply.tool_call(format!("c{number}"), *name, json!({})));
    server([calls, reply(style).text("ok")]).await
}

/// Id, tool, progress, total and message.
type Told<'a> = (&'a str, &'a str, f64, Option<f64>, Option<&'a str>);

fn progress_of(event: &StreamEvent) -> Option<Told<'_>> {
    match event {
        StreamEvent::ToolProgress { id, name, progress, total, message } => {
            Some((id, name, *progress, *total, message.as_deref()))
        }
        _ => None,
    }
}

fn work<F, Fut>(run: F) -> Toolkit
where
    F: Fn(ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult> + Send + 'static,
{
    let tool: Tool = define_tool("work", "", None, move |_args: Value, context| run(context));
    Toolkit::from_tools([tool])
}

// CLIENT-115, CORE-140
#[test]
fn progress_has_the_spelling_of_the_contract() {
    let event = StreamEvent::ToolProgress {
        id: "c1".into(),
        name: "work".into(),
        progress: 1.0,
        total: Some(2.0),
        message: None,
    };
    let json = r#"{"type":"tool_progress","id":"c1","name":"work","progress":1.0,"total":2.0}"#;
    assert_eq!(serde_json::to_string(&event).unwrap(), json);
    assert_eq!(serde_json::from_str::<StreamEvent>(json).unwrap(), event);
}

// CORE-140, CLIENT-116: a report arrives while its tool still works
#[tokio::test]
async fn progress_arrives_while_the_tool_works() {
    for style in STYLES {
        let (go_on, wait) = oneshot::channel::<()>();
        let wait = Arc::new(Mutex::new(Some(wait)));
        let toolkit = work(move |context| {
            let wait = wait.lock().unwrap().take().unwrap();
            async move {
                context.progress(1.0, Some(2.0), Some("half"));
                wait.await.unwrap();
                context.progress(2.0, Some(2.0), None);
                ToolResult::success("done")
            }
        });
        let server = calling(style, &["work"]).await;
        let client = create_client(options(style, server.base_url()));
        let mut stream = client.stream("hi", &toolkit);
        let mut events = Vec::new();
        within(async {
            loop {
                let event = stream.next().await.unwrap().unwrap();
                let half = progress_of(&event).is_some();
                events.push(event);
                if half {
                    break;
                }
            }
        })
        .await;
        // The tool is still at work: it waits for this.
        go_on.send(()).unwrap();
        let (rest, error) = within(drain(stream)).await;
        assert!(error.is_none(), "{error:?}");
        events.extend(rest);
        let reports: Vec<_> = events.iter().filter_map(progress_of).collect();
        assert_eq!(
            reports,
            [("c1", "work", 1.0, Some(2.0), Some("half")), ("c1", "work", 2.0, Some(2.0), None)]
        );
        let kinds = kinds(&events);
        let at = |kind: &str| kinds.iter().position(|k| k == kind).unwrap();
        let last = kinds.iter().rposition(|k| k == "tool_progress").unwrap();
        assert!(at("tool_call") < at("tool_progress") && last < at("tool_result"), "{kinds:?}");
    }
}

// CORE-140, CLIENT-117: the plain loop tells the same, the last report before the result
#[tokio::test]
async fn a_plain_run_tells_progress_too() {
    for style in STYLES {
        let toolkit = work(|context| async move {
            context.log(LogLevel::Info, "a line has no event");
            context.progress(1.0, None, None);
            context.progress(2.0, None, None);
            ToolResult::success("done")
        });
        let server = calling(style, &["work"]).await;
        let client = create_client(options(style, server.base_url()));
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let options = RunOptions {
            on_event: Some(Arc::new(move |event: &StreamEvent| sink.lock().unwrap().push(event.clone()))),
            ..Default::default()
        };
        within(client.run_with("hi", &toolkit, options)).await.unwrap();
        let events = events.lock().unwrap();
        assert_eq!(kinds(&events), ["usage", "tool_call", "tool_progress", "tool_result", "usage", "done"]);
        // Of two reports that nobody took in between, the newest.
        assert_eq!(events.iter().find_map(progress_of).unwrap().2, 2.0);
    }
}

// CORE-140: a tool that reports without end delays neither itself nor its neighbours
#[tokio::test]
async fn a_flood_of_reports_starves_nobody() {
    let style = Style::OpenAI;
    let arrived = Arc::new(Semaphore::new(0));
    let (neighbour_ran, flooded) = (Arc::clone(&arrived), Arc::clone(&arrived));
    let flood = define_tool("flood", "", None, move |_args: Value, context: ToolContext| {
        let arrived = Arc::clone(&flooded);
        async move {
            let mut count = 0.0;
            while arrived.available_permits() == 0 {
                count += 1.0;
                context.progress(count, None, None);
                context.log(LogLevel::Debug, "x");
                tokio::task::yield_now().await;
            }
            ToolResult::success("flooded")
        }
    });
    let neighbour = define_tool("neighbour", "", None, move |_args: Value, _context| {
        let arrived = Arc::clone(&neighbour_ran);
        async move {
            // Through a task of its own, so that the runtime has to get its turn.
            tokio::spawn(async move { arrived.add_permits(1) }).await.unwrap();
            ToolResult::success("ran")
        }
    });
    let toolkit = Toolkit::from_tools([flood, neighbour]);
    for streamed in [false, true] {
        arrived.forget_permits(1);
        let server = calling(style, &["flood", "neighbour"]).await;
        let client = create_client(options(style, server.base_url()));
        let result = if streamed {
            within(client.stream("hi", &toolkit).finish()).await.unwrap()
        } else {
            let options = RunOptions { on_event: Some(Arc::new(|_| {})), ..Default::default() };
            within(client.run_with("hi", &toolkit, options)).await.unwrap()
        };
        let outputs: Vec<_> = result.tool_calls.iter().map(|call| call.output.as_str()).collect();
        assert_eq!(outputs, ["flooded", "ran"]);
    }
}

// CORE-140: a task that a tool left behind reports on, and the result does not wait for it
#[tokio::test]
async fn reports_after_the_end_do_not_hold_up_the_result() {
    let toolkit = work(|context| async move {
        tokio::spawn(async move {
            while context.reporter.is_heard() {
                context.progress(1.0, None, None);
                tokio::task::yield_now().await;
            }
        });
        tokio::task::yield_now().await;
        ToolResult::success("done")
    });
    let server = calling(Style::OpenAI, &["work"]).await;
    let client = create_client(options(Style::OpenAI, server.base_url()));
    let result = within(client.stream("hi", &toolkit).finish()).await.unwrap();
    assert_eq!(result.text, "ok");
}
