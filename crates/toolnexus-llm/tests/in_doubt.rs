//! Calls whose process ended while they ran, and open requests: who decides, who is asked, what runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use support::double::{Answer as Reply, Double};
use support::log::{Fault, WatchedLog};
use support::tools::{asking, object, recorded};
use support::{STYLES, drain, within};
use toolnexus_core::{
    Answer, RelayResult, Request, ToolHints, ToolResult, Toolkit, pending, relay_answer, relay_tool,
};
use toolnexus_llm::run::RunEvent;
use toolnexus_llm::run_log::RunLog;
use toolnexus_llm::{
    AfterToolEvent, BeforeToolEvent, ClientOptions, Hooks, InDoubt, ResumeOptions, RunDurableOptions,
    RunResult, RunStatus, StreamEvent, Style, ToolOverride, create_client,
};

const INTERRUPTED: &str = "interrupted: the process stopped while this tool ran; its effect is unknown";

fn durable(log: &WatchedLog, run_id: &str) -> RunDurableOptions {
    RunDurableOptions { run_id: run_id.into(), ..RunDurableOptions::new(log.shared()) }
}

fn resumed(log: &WatchedLog, run_id: &str) -> ResumeOptions {
    ResumeOptions::new(log.shared(), run_id)
}

fn outputs(result: &RunResult) -> Vec<&str> {
    result.tool_calls.iter().map(|record| record.output.as_str()).collect()
}

/// Drives a run until the log has so many events, and drops it there.
async fn died_at<T>(log: &WatchedLog, len: usize, run: impl Future<Output = T>) {
    let reached = async {
        while log.runs.read("r", 0).await.map_or(0, |events| events.len()) < len {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = run => panic!("the run ended"),
        () = within(reached) => {}
    }
}

// RUN-21, SUSPEND-20, CLIENT-65: a declined call never runs, wherever the process ended and whatever
// is decided about calls in doubt
#[tokio::test]
async fn a_declined_call_is_never_run() {
    for policy in [InDoubt::Report, InDoubt::Retry, InDoubt::Ask] {
        for read_only in [false, true] {
            let style = Style::OpenAI;
            let log = WatchedLog::default();
            let (mut tool, ran) = asking("pay", "pay 100?");
            tool.hints = Some(ToolHints { read_only, ..Default::default() });
            let toolkit = Toolkit::from_tools([tool]);
            let double =
                Double::new([Reply::calls(style, &[("1", "pay", json!({}))]), Reply::text(style, "ok")]);
            // The process ends while the hook has the declined result.
            let hooks = Hooks::default().with_after_tool(|_: AfterToolEvent| async move {
                std::future::pending::<()>().await;
                Ok(None)
            });
            let client = create_client(ClientOptions { hooks: Some(hooks), ..double.options(style) });
            let first = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
            let answer = Answer { id: first.pending.unwrap().id, ok: false, ..Default::default() };
            let options = ResumeOptions { answer: Some(answer), ..resumed(&log, "r") };
            let len = log.runs.read("r", 0).await.unwrap().len();
            died_at(&log, len + 3, client.resume(&toolkit, options)).await;
            assert_eq!(log.kinds("r").await[len..], ["resumed", "answered", "tool_started"]);
            let client = create_client(double.options(style));
            let options = ResumeOptions { in_doubt: policy.clone(), ..resumed(&log, "r") };
            let result = client.resume(&toolkit, options).await.unwrap();
            assert_eq!(ran.count(), 1, "{policy:?}: only the execution that asked");
            assert_eq!(outputs(&result), ["declined/expired: pay 100?"], "{policy:?}");
        }
    }
}

// RUN-21, CLIENT-53: what `before_tool` decided is not decided again, also not when somebody was asked
#[tokio::test]
async fn the_hook_before_a_tool_is_asked_once() {
    for policy in [InDoubt::Retry, InDoubt::Ask] {
        let style = Style::OpenAI;
        let log = WatchedLog::with_fault(Fault::DiesAfter(1));
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let hooks = Hooks::default().with_before_tool(move |event: BeforeToolEvent| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                let amount = event.args["amount"].as_i64().unwrap() * 2;
                Ok(Some(ToolOverride::args(object(json!({"amount": amount})))))
            }
        });
        let (pay, ran) = recorded("pay", |_, _| ToolResult::success("paid"));
        let toolkit = Toolkit::from_tools([pay]);
        let double = Double::new([
            Reply::calls(style, &[("1", "pay", json!({"amount": 100}))]),
            Reply::text(style, "ok"),
        ]);
        let log = WatchedLog { fault: Some(Fault::DiesAfter(2)), ..log };
        let client = create_client(ClientOptions { hooks: Some(hooks), ..double.options(style) });
        died_at(&log, 3, client.run_durable("hi", &toolkit, durable(&log, "r"))).await;
        let log = WatchedLog { fault: None, ..log };
        assert_eq!(log.kinds("r").await, ["started", "model_answered", "tool_started"]);
        let options = ResumeOptions { in_doubt: policy.clone(), ..resumed(&log, "r") };
        let mut result = client.resume(&toolkit, options).await.unwrap();
        if let Some(request) = result.pending {
            assert_eq!(request.kind, "in_doubt");
            let answer = Answer { id: request.id, ok: true, ..Default::default() };
            let options = ResumeOptions { answer: Some(answer), ..resumed(&log, "r") };
            result = client.resume(&toolkit, options).await.unwrap();
        }
        assert_eq!(result.status, RunStatus::Done);
        assert_eq!(ran.args(), [json!({"amount": 200})], "{policy:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{policy:?}");
    }
}

// CLIENT-116, RUN-21: the result of an interrupted call is told like any other, in call order
#[tokio::test]
async fn interrupted_results_are_told() {
    for (policies, expected) in [
        (["report", "report"], vec![("1", INTERRUPTED), ("2", INTERRUPTED)]),
        (["retry", "report"], vec![("1", "a done"), ("2", INTERRUPTED)]),
        (["report", "retry"], vec![("1", INTERRUPTED), ("2", "b done")]),
    ] {
        for style in [Style::OpenAI] {
            let log = WatchedLog::with_fault(Fault::DiesAfter(1));
            let double = Double::new([
                Reply::calls(style, &[("1", "a", json!({})), ("2", "b", json!({}))]),
                Reply::streamed_text(style, "ok"),
            ]);
            let (a, _) = recorded("a", |_, _| ToolResult::success("a done"));
            let (b, _) = recorded("b", |_, _| ToolResult::success("b done"));
            let toolkit = Toolkit::from_tools([a, b]);
            let client = create_client(double.options(style));
            died_at(&log, 3, client.run_durable("hi", &toolkit, durable(&log, "r"))).await;
            let log = WatchedLog { fault: None, ..log };
            let decide = move |call: &toolnexus_llm::run::ModelCall| {
                if policies[usize::from(call.name == "b")] == "retry" {
                    InDoubt::Retry
                } else {
                    InDoubt::Report
                }
            };
            let options = ResumeOptions { in_doubt: InDoubt::Decide(Arc::new(decide)), ..resumed(&log, "r") };
            let (events, error) = drain(client.stream_resume(&toolkit, options)).await;
            assert!(error.is_none(), "{error:?}");
            let told: Vec<(&str, &str)> = events
                .iter()
                .filter_map(|event| match event {
                    StreamEvent::ToolResult { id, output, .. } => Some((id.as_str(), output.as_str())),
                    _ => None,
                })
                .collect();
            assert_eq!(told, expected, "{policies:?}");
        }
    }
}

// RUN-23: one answer answers one call, also where tools ask under an id of their own making
#[tokio::test]
async fn one_grant_is_not_taken_for_two() {
    for style in STYLES {
        let log = WatchedLog::default();
        let (pay, ran) = recorded("pay", |args, context| match &context.answer {
            None => pending(Request {
                id: "approve".into(),
                kind: "approval".into(),
                prompt: format!("pay {}?", args["amount"]),
                ..Default::default()
            }),
            Some(_) => ToolResult::success(format!("paid {}", args["amount"])),
        });
        let toolkit = Toolkit::from_tools([pay]);
        let calls = [("1", "pay", json!({"amount": 1})), ("2", "pay", json!({"amount": 1000}))];
        let double = Double::new([Reply::calls(style, &calls), Reply::text(style, "ok")]);
        let client = create_client(double.options(style));
        let first = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
        assert_eq!(first.text, "pay 1?");
        let answer = |ok| Some(Answer { id: "approve".into(), ok, ..Default::default() });
        let options = ResumeOptions { answer: answer(true), ..resumed(&log, "r") };
        let second = client.resume(&toolkit, options).await.unwrap();
        assert_eq!((second.status, second.text.as_str()), (RunStatus::Pending, "pay 1000?"));
        assert_eq!(ran.all().iter().filter(|run| run.context.answer.is_some()).count(), 1);
        let options = ResumeOptions { answer: answer(false), ..resumed(&log, "r") };
        let last = client.resume(&toolkit, options).await.unwrap();
        assert_eq!(outputs(&last), ["paid 1", "declined/expired: pay 1000?"]);
    }
}

// RUN-23, SUSPEND-37: relay calls may be answered in any order; one without a result stays open
#[tokio::test]
async fn relay_calls_are_answered_in_any_order() {
    for style in STYLES {
        for order in [["1", "2"], ["2", "1"]] {
            let log = WatchedLog::default();
            let toolkit = Toolkit::from_tools([relay_tool("x", "x", None)]);
            let calls = [("1", "x", json!({})), ("2", "x", json!({}))];
            let double = Double::new([Reply::calls(style, &calls), Reply::text(style, "ok")]);
            let client = create_client(double.options(style));
            let mut result = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
            for id in order {
                let request = result.pending.unwrap();
                let given = RelayResult { id: id.into(), output: format!("result {id}"), is_error: false };
                let options =
                    ResumeOptions { answer: Some(relay_answer(request.id, [given])), ..resumed(&log, "r") };
                result = client.resume(&toolkit, options).await.unwrap();
            }
            assert_eq!(outputs(&result), ["result 1", "result 2"], "{style:?} {order:?}");
            assert_eq!(result.status, RunStatus::Done);
        }
    }
}

// RUN-21, RUN-23: an answer and calls in doubt at once, and a second end of the process after that
#[tokio::test]
async fn an_answer_and_a_doubt_are_taken_up_together() {
    for style in STYLES {
        let log = WatchedLog::default();
        let (ask, asked) = asking("ask", "Which city?");
        let (slow, slowly) = recorded("slow", |_, _| ToolResult::success("slow done"));
        let toolkit = Toolkit::from_tools([ask, slow]);
        let double = Double::new([
            Reply::calls(style, &[("1", "ask", json!({})), ("2", "slow", json!({}))]),
            Reply::text(style, "ok"),
        ]);
        let client = create_client(double.options(style));
        let dying = WatchedLog { fault: Some(Fault::DiesAfter(1)), ..log.clone() };
        died_at(&log, 3, client.run_durable("hi", &toolkit, durable(&dying, "r"))).await;
        let suspended = RunEvent::Suspended {
            index: 0,
            request: Request {
                id: "q".into(),
                kind: "input".into(),
                prompt: "Which city?".into(),
                ..Default::default()
            },
            output: "Which city?".into(),
            in_doubt: false,
        };
        log.runs.append("r", 3, &[suspended]).await.unwrap();
        let answer =
            Answer { id: "q".into(), ok: true, data: Some(object(json!({"text": "Oslo"}))), reason: None };
        // The process that takes both up ends after its first write.
        let dying = WatchedLog { fault: Some(Fault::DiesAfter(0)), appends: Arc::default(), ..log.clone() };
        let options = ResumeOptions { answer: Some(answer), ..resumed(&dying, "r") };
        died_at(&log, 7, client.resume(&toolkit, options)).await;
        assert_eq!(log.kinds("r").await[4..], ["resumed", "answered", "tool_finished"]);
        let result = client.resume(&toolkit, resumed(&log, "r")).await.unwrap();
        assert_eq!(outputs(&result), ["answered: Oslo", INTERRUPTED]);
        assert_eq!((asked.count(), slowly.count()), (1, 0));
    }
}
