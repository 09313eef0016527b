//! The one `run` event of every run, however it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::json;
use support::double::{Answer, Double};
use support::hooks::veto;
use support::tools::{add, asking};
use support::{MetricLog, every_way, options, reply, server, within};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{BoxError, BoxFuture, ContentPart, Toolkit, WaitFor};
use toolnexus_llm::{
    ClientError, ClientOptions, ConversationStore, Hooks, RunOptions, Style, Transcript, create_client,
};

const OPENAI: Style = Style::OpenAI;

fn call(name: &str) -> Answer {
    Answer::calls(OPENAI, &[("c1", name, json!({}))])
}

/// A store that cannot be read.
struct BrokenStore;

impl ConversationStore for BrokenStore {
    fn get<'a>(&'a self, _id: &'a str) -> BoxFuture<'a, Result<Option<Transcript>, BoxError>> {
        Box::pin(async { Err("the disk is gone".into()) })
    }

    fn save<'a>(&'a self, _id: &'a str, _messages: &'a Transcript) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A way for a run to end.
struct Exit {
    name: &'static str,
    answers: Vec<Answer>,
    change: Box<dyn FnOnce(ClientOptions) -> ClientOptions>,
    /// How the `run` event's error begins; empty for none.
    error: &'static str,
    turns: u32,
    tool_calls: usize,
}

fn exit(
    name: &'static str,
    answers: Vec<Answer>,
    error: &'static str,
    turns: u32,
    tool_calls: usize,
) -> Exit {
    Exit { name, answers, change: Box::new(|options| options), error, turns, tool_calls }
}

impl Exit {
    fn with(mut self, change: impl FnOnce(ClientOptions) -> ClientOptions + 'static) -> Self {
        self.change = Box::new(change);
        self
    }
}

fn exits() -> Vec<Exit> {
    vec![
        exit("done", vec![Answer::text(OPENAI, "ok")], "", 1, 0),
        exit("pending", vec![call("ask")], "", 1, 1),
        exit("turn limit", vec![call("add")], "", 1, 1)
            .with(|options| ClientOptions { max_turns: 1, ..options }),
        exit("unreadable", vec![Answer::status(200, &[], "{}")], "the model's answer", 0, 0),
        exit("provider", vec![call("add"), Answer::status(500, &[], "no")], "LLM 500: no", 1, 1),
        exit("transport", vec![Answer::Fail("down")], "the model at", 0, 0),
        // Open point 22: every exit path, also before anything was sent.
        exit("no key", vec![], "no API key", 0, 0)
            .with(|options| ClientOptions { api_key: "".into(), ..options }),
        exit("no model", vec![], "", 0, 0).with(|options| ClientOptions { model: String::new(), ..options }),
        exit("hook", vec![call("add")], "the hook after_llm failed: veto 1", 1, 0).with(|options| {
            ClientOptions {
                hooks: Some(Hooks::default().with_after_llm(|_| async { Err(veto(1)) })),
                ..options
            }
        }),
        exit("resolver", vec![call("ask")], "the resolver of a suspended tool failed", 1, 0).with(
            |options| {
                let wait_for: WaitFor = Arc::new(|_| Box::pin(async { Err("nobody is there".into()) }));
                ClientOptions { wait_for: Some(wait_for), ..options }
            },
        ),
        exit("store", vec![], "the conversation store failed", 0, 0)
            .with(|options| ClientOptions { store: Some(Arc::new(BrokenStore)), ..options }),
        exit("deadline", vec![Answer::Hang(oneshot::channel().0)], "run timeout after 50ms", 0, 0)
            .with(|options| ClientOptions { timeout_ms: 50, ..options }),
    ]
}

// CLIENT-71, CLIENT-33, CLIENT-72, case S1, open point 22: one `run` event, the last, on every exit
#[tokio::test(start_paused = true)]
async fn every_exit_has_one_run_event_and_it_is_the_last() {
    for exit in exits() {
        let name = exit.name;
        let metrics = MetricLog::default();
        let double = Double::new(exit.answers);
        let client = create_client((exit.change)(ClientOptions {
            on_metric: Some(metrics.sink()),
            ..double.options(OPENAI)
        }));
        let toolkit = Toolkit::from_tools([add(), asking("ask", "Which city?").0]);
        let id = if name == "store" { "c" } else { "" };
        let result = client.ask("hi", &toolkit, id).await;
        let events = metrics.timeless();
        assert_eq!(metrics.of("run").len(), 1, "{name}: {events:?}");
        let run = events.last().unwrap();
        assert_eq!(run["event"], "run", "{name}");
        assert_eq!(
            (&run["turns"], &run["tool_calls"]),
            (&json!(exit.turns), &json!(exit.tool_calls)),
            "{name}"
        );
        match &result {
            Ok(result) => {
                assert_eq!(run.get("error"), None, "{name}");
                // The event says what the result says.
                assert_eq!(run["tool_calls"], result.tool_call_count);
                assert_eq!(run["total_tokens"], result.usage.total_tokens);
                assert!(!client.metrics().contains("\ntoolnexus_run_errors_total "), "{name}");
            }
            Err(error) => {
                assert_eq!(run["error"], error.to_string(), "{name}");
                assert!(run["error"].as_str().unwrap().starts_with(exit.error), "{name}: {run}");
                assert!(client.metrics().ends_with("\ntoolnexus_run_errors_total 1\n"), "{name}");
            }
        }
        assert_eq!(result.is_ok(), matches!(name, "done" | "pending" | "turn limit"), "{name}");
    }
}

// CLIENT-112, CLIENT-71: stopped by a part that cannot be sent, without an error
#[tokio::test]
async fn a_refused_part_is_no_error_of_the_run() {
    let metrics = MetricLog::default();
    let double = Double::new([]);
    let client = create_client(ClientOptions {
        max_part_bytes: 1,
        on_metric: Some(metrics.sink()),
        ..double.options(OPENAI)
    });
    let image = ContentPart::from_base64("image/png", "AAAAAAAA", None);
    within(client.run(vec![image], &Toolkit::default())).await.unwrap();
    assert_eq!(
        metrics.timeless(),
        [json!({"event": "run", "model": "m", "turns": 0, "tool_calls": 0, "total_tokens": 0})]
    );
}

// CLIENT-71, CLIENT-101, CLIENT-102, CLIENT-124: cancelled, or dropped in the midst of the second model call
#[tokio::test]
async fn a_run_that_is_given_up_has_its_event() {
    for way in ["cancel", "drop the future", "drop the stream"] {
        let (held, dropped) = oneshot::channel();
        let second = Answer::Hang(held);
        let first = if way == "drop the stream" {
            let delta = json!({"index": 0, "id": "c1", "function": {"name": "add", "arguments": "{}"}});
            let chunk = json!({"choices": [{"delta": {"tool_calls": [delta]}}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
            Answer::pieces([Ok(format!("data: {chunk}\n\ndata: [DONE]\n\n"))])
        } else {
            let function = json!({"name": "add", "arguments": "{}"});
            let call = json!({"id": "c1", "type": "function", "function": function});
            Answer::openai(&json!({"role": "assistant", "tool_calls": [call]}), 3, 4)
        };
        let double = Double::new([first, second]);
        let metrics = MetricLog::default();
        let client =
            create_client(ClientOptions { on_metric: Some(metrics.sink()), ..double.options(OPENAI) });
        let toolkit = Toolkit::from_tools([add()]);
        let second_arrives = async {
            while double.count() < 2 {
                double.arrived().await;
            }
        };
        within(async {
            match way {
                "cancel" => {
                    let cancel = CancellationToken::new();
                    let options = RunOptions { cancel: Some(cancel.clone()), ..Default::default() };
                    let cancels = async {
                        second_arrives.await;
                        cancel.cancel();
                    };
                    let (result, ()) = tokio::join!(client.run_with("hi", &toolkit, options), cancels);
                    assert!(matches!(result, Err(ClientError::Cancelled)));
                }
                "drop the future" => {
                    tokio::select! {
                        _ = client.run("hi", &toolkit) => panic!("it hangs"),
                        () = second_arrives => {}
                    }
                }
                _ => {
                    let mut stream = client.stream("hi", &toolkit);
                    let drain = async { while stream.next().await.is_some() {} };
                    tokio::select! {
                        () = drain => panic!("it hangs"),
                        () = second_arrives => {}
                    }
                }
            }
        })
        .await;
        within(dropped).await.unwrap_err();
        let expected = json!({"event": "run", "model": "m", "turns": 1, "tool_calls": 1, "total_tokens": 7, "error": "the run was cancelled"});
        assert_eq!(metrics.of("run"), std::slice::from_ref(&expected), "{way}");
        // The call that was given up is one that failed, told before the end of its run.
        let statuses: Vec<_> = metrics.of("llm").iter().map(|event| event["status"].clone()).collect();
        assert_eq!(statuses, ["ok", "error"], "{way}");
        assert_eq!(metrics.timeless().last(), Some(&expected), "{way}");
    }
}

// CLIENT-71: tokens that were spent are told, also when a hook then ends the run
#[tokio::test]
async fn tokens_spent_before_a_hook_failed_are_told() {
    for (style, mode) in every_way() {
        let server = server(reply(style).text("ok").usage(6, 3)).await;
        let metrics = MetricLog::default();
        let client = create_client(ClientOptions {
            hooks: Some(Hooks::default().with_after_llm(|_| async { Err(veto(1)) })),
            on_metric: Some(metrics.sink()),
            ..options(style, server.base_url())
        });
        mode.execute(&client, &Toolkit::default()).await.unwrap_err();
        assert_eq!(metrics.of("llm")[0]["status"], "ok");
        assert_eq!(
            (&metrics.of("run")[0]["total_tokens"], &metrics.of("run")[0]["turns"]),
            (&json!(9), &json!(1))
        );
    }
}
