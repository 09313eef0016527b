//! The last steps of durable runs: what stops them when the answer is there already, what they leave
//! behind when they fail, and who is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use support::double::{Answer as Reply, Double};
use support::log::{Fault, WatchedLog};
use support::tools::{asking, fixed, object, recorded};
use support::{MetricLog, STYLES, drain, kinds, within};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Answer, BoxError, BoxFuture, Toolkit};
use toolnexus_llm::run::{Run, RunEvent};
use toolnexus_llm::run_log::{RunFilter, RunLog, RunLogError, RunSummary, RunSummaryStatus};
use toolnexus_llm::{
    BeforeLlmEvent, ClientError, ClientOptions, ConversationStore, Hooks, InMemoryConversationStore,
    LlmOverride, ResumeOptions, RunDurableOptions, RunStatus, StreamEvent, Style, Transcript, create_client,
};

fn durable(log: &WatchedLog, run_id: &str) -> RunDurableOptions {
    RunDurableOptions { run_id: run_id.into(), ..RunDurableOptions::new(log.shared()) }
}

fn resumed(log: &WatchedLog, run_id: &str) -> ResumeOptions {
    ResumeOptions::new(log.shared(), run_id)
}

/// A store that fails, or waits for ever, until it is repaired.
#[derive(Default)]
struct Broken {
    repaired: AtomicBool,
    hangs: bool,
    saving: tokio::sync::Notify,
    kept: InMemoryConversationStore,
}

impl ConversationStore for Broken {
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Transcript>, BoxError>> {
        self.kept.get(id)
    }

    fn save<'a>(&'a self, id: &'a str, messages: &'a Transcript) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            if self.repaired.load(Ordering::SeqCst) {
                return self.kept.save(id, messages).await;
            }
            self.saving.notify_one();
            if self.hangs {
                std::future::pending::<()>().await;
            }
            Err("the disk is full".into())
        })
    }
}

// RUN-15, RUN-25, CLIENT-127: a conversation that could not be saved is saved on resume, and the model
// is not asked again
#[tokio::test]
async fn a_conversation_that_could_not_be_saved_is_saved_on_resume() {
    for style in STYLES {
        for hangs in [false, true] {
            let log = WatchedLog::default();
            let store = Arc::new(Broken { hangs, ..Default::default() });
            let double = Double::new([Reply::text(style, "ok")]);
            let client = create_client(ClientOptions { store: Some(store.clone()), ..double.options(style) });
            let cancel = CancellationToken::new();
            let options =
                RunDurableOptions { id: "c".into(), cancel: Some(cancel.clone()), ..durable(&log, "r") };
            let toolkit = Toolkit::default();
            let run = client.run_durable("hi", &toolkit, options);
            let stop = async {
                store.saving.notified().await;
                if hangs {
                    cancel.cancel();
                }
            };
            let (failed, ()) = within(async { tokio::join!(run, stop) }).await;
            let error = failed.unwrap_err().error;
            let expected = match &error {
                ClientError::Store(_) => !hangs,
                ClientError::Cancelled => hangs,
                _ => false,
            };
            assert!(expected, "{error}");
            assert_eq!(log.kinds("r").await, ["started", "model_answered", "failed"]);
            store.repaired.store(true, Ordering::SeqCst);
            let result = client.resume(&toolkit, resumed(&log, "r")).await.unwrap();
            assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "ok"));
            assert_eq!(store.get("c").await.unwrap().unwrap(), result.messages);
            assert_eq!(double.count(), 1);
        }
    }
}

// RUN-10, RUN-15, CLIENT-127: wherever the process ends, a resume leaves the conversation saved
#[tokio::test]
async fn the_end_of_the_process_loses_no_conversation() {
    let style = Style::OpenAI;
    for at in 1.. {
        let log = WatchedLog::with_fault(Fault::DiesAfter(at));
        let store = Arc::new(InMemoryConversationStore::default());
        let double = Double::new([Reply::text(style, "ok"), Reply::text(style, "ok")]);
        let client = create_client(ClientOptions { store: Some(store.clone()), ..double.options(style) });
        let options = RunDurableOptions { id: "c".into(), ..durable(&log, "r") };
        let toolkit = Toolkit::default();
        let run = client.run_durable("hi", &toolkit, options);
        let stopped = async {
            while log.appends() <= at {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::select! {
            biased;
            ended = run => Some(ended),
            () = stopped => None,
        };
        if let Some(ended) = ended {
            ended.unwrap();
            assert!(at > 1);
            break;
        }
        let log = WatchedLog { fault: None, ..log };
        let result = client.resume(&Toolkit::default(), resumed(&log, "r")).await.unwrap();
        assert_eq!(store.get("c").await.unwrap().as_ref(), Some(&result.messages), "append {at}");
    }
}

// RUN-4, RUN-25: whatever stops a run at its very end, the log stays readable
#[tokio::test]
async fn nothing_is_written_behind_the_end() {
    let style = Style::OpenAI;
    for fault in [Fault::DiesAfter(1), Fault::DiesBefore(1)] {
        let log = WatchedLog::with_fault(fault);
        let double = Double::new([Reply::text(style, "ok"), Reply::text(style, "ok")]);
        let client = create_client(double.options(style));
        let cancel = CancellationToken::new();
        let options = RunDurableOptions { cancel: Some(cancel.clone()), ..durable(&log, "r") };
        let toolkit = Toolkit::default();
        let run = client.run_durable("hi", &toolkit, options);
        let stop = async {
            while log.appends() < 2 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        let (failed, ()) = within(async { tokio::join!(run, stop) }).await;
        assert!(matches!(failed.unwrap_err().error, ClientError::Cancelled));
        let log = WatchedLog { fault: None, ..log };
        Run::replay(&log.runs.read("r", 0).await.unwrap()).unwrap();
        let result = client.resume(&toolkit, resumed(&log, "r")).await.unwrap();
        assert_eq!(result.text, "ok");
        assert_eq!(log.runs.list(RunFilter::default()).await.unwrap()[0].status, RunSummaryStatus::Done);
    }
}

// RUN-25, CLIENT-68: a log that never answers holds up neither a cancel nor a deadline for ever
#[tokio::test(start_paused = true)]
async fn a_log_that_hangs_holds_up_no_cancel() {
    struct Hanging(WatchedLog, AtomicUsize);
    impl RunLog for Hanging {
        fn append<'a>(
            &'a self,
            run_id: &'a str,
            at: u64,
            events: &'a [RunEvent],
        ) -> BoxFuture<'a, Result<(), RunLogError>> {
            Box::pin(async move {
                if self.1.fetch_add(1, Ordering::SeqCst) > 0 {
                    std::future::pending::<()>().await;
                }
                self.0.runs.append(run_id, at, events).await
            })
        }
        fn read<'a>(
            &'a self,
            run_id: &'a str,
            from: u64,
        ) -> BoxFuture<'a, Result<Vec<RunEvent>, RunLogError>> {
            self.0.runs.read(run_id, from)
        }
        fn list<'a>(&'a self, filter: RunFilter) -> BoxFuture<'a, Result<Vec<RunSummary>, RunLogError>> {
            self.0.runs.list(filter)
        }
        fn remove<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Result<(), RunLogError>> {
            self.0.runs.remove(run_id)
        }
    }
    let double = Double::new([Reply::text(Style::OpenAI, "ok")]);
    let client = create_client(ClientOptions { timeout_ms: 1000, ..double.options(Style::OpenAI) });
    let options = RunDurableOptions::new(Arc::new(Hanging(WatchedLog::default(), AtomicUsize::new(0))));
    let failed = within(client.run_durable("hi", &Toolkit::default(), options)).await.unwrap_err();
    assert!(matches!(failed.error, ClientError::Timeout { .. }), "{failed}");
}

// RUN-24, RUN-25: a driver that is cancelled while its first write is under way leaves the run of the
// process that was first alone
#[tokio::test]
async fn the_loser_writes_nothing_into_the_run_of_the_winner() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let (ask, _) = asking("ask", "Which city?");
    let double = Double::new([Reply::calls(style, &[("1", "ask", json!({}))]), Reply::text(style, "ok")]);
    let client = create_client(double.options(style));
    let toolkit = Toolkit::from_tools([ask]);
    let first = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
    let id = first.pending.unwrap().id;
    let answer = Answer { id: id.clone(), ok: true, data: None, reason: None };

    // The loser has read the log; its first append hangs, and meanwhile the winner writes the same.
    let losing = WatchedLog { fault: Some(Fault::DiesBefore(0)), appends: Arc::default(), ..log.clone() };
    let cancel = CancellationToken::new();
    let options =
        ResumeOptions { answer: Some(answer.clone()), cancel: Some(cancel.clone()), ..resumed(&losing, "r") };
    let loser = client.resume(&toolkit, options);
    let winner = async {
        while losing.appends() < 1 {
            tokio::task::yield_now().await;
        }
        let len = log.runs.read("r", 0).await.unwrap().len() as u64;
        let won = [RunEvent::Resumed { model: None }, RunEvent::Answered { request_id: id, answer }];
        log.runs.append("r", len, &won).await.unwrap();
        cancel.cancel();
    };
    let (lost, ()) = within(async { tokio::join!(loser, winner) }).await;
    assert!(matches!(lost.unwrap_err().error, ClientError::Cancelled));
    assert_eq!(log.kinds("r").await.last(), Some(&"answered"));
}

// RUN-11: also of a log that does not check
#[tokio::test]
async fn an_illegal_id_reaches_no_log() {
    struct Untouchable;
    impl RunLog for Untouchable {
        fn append<'a>(
            &'a self,
            _: &'a str,
            _: u64,
            _: &'a [RunEvent],
        ) -> BoxFuture<'a, Result<(), RunLogError>> {
            panic!("touched")
        }
        fn read<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<Vec<RunEvent>, RunLogError>> {
            panic!("touched")
        }
        fn list<'a>(&'a self, _: RunFilter) -> BoxFuture<'a, Result<Vec<RunSummary>, RunLogError>> {
            panic!("touched")
        }
        fn remove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), RunLogError>> {
            panic!("touched")
        }
    }
    let client = create_client(Double::new([]).options(Style::OpenAI));
    let log: Arc<dyn RunLog> = Arc::new(Untouchable);
    let tools = Toolkit::default();
    let illegal = |error: &ClientError| matches!(error, ClientError::RunLog(RunLogError::InvalidId { .. }));
    let error = client.resume(&tools, ResumeOptions::new(log.clone(), "../x")).await.unwrap_err().error;
    assert!(illegal(&error), "{error}");
    let options = RunDurableOptions { run_id: "../x".into(), ..RunDurableOptions::new(log.clone()) };
    assert!(illegal(&client.run_durable("hi", &tools, options).await.unwrap_err().error));
    assert!(illegal(&client.fork(&log, "../x", 1, "y").await.unwrap_err()));
    assert!(illegal(&client.fork(&log, "x", 1, "../y").await.unwrap_err()));
}

// RUN-25, CLIENT-50: a hook's replacement for a model call that failed is not a part of the run
#[tokio::test]
async fn a_failed_model_call_leaves_no_trace_of_its_hook() {
    for style in STYLES {
        let log = WatchedLog::default();
        let double = Double::new([Reply::status(500, &[], "no"), Reply::text(style, "ok")]);
        let hooks = Hooks::default().with_before_llm(|event: BeforeLlmEvent| async move {
            let mut messages = event.messages.clone();
            messages.push(event.messages.last().unwrap().clone());
            Ok(Some(LlmOverride { messages: Some(messages), ..Default::default() }))
        });
        let client = create_client(ClientOptions { hooks: Some(hooks), ..double.options(style) });
        client.run_durable("hi", &Toolkit::default(), durable(&log, "r")).await.unwrap_err();
        client.resume(&Toolkit::default(), resumed(&log, "r")).await.unwrap();
        let sent = |at: usize| double.body(at).get("messages").or(double.body(at).get("contents")).cloned();
        assert_eq!(sent(0), sent(1), "{style:?}");
    }
}

// RUN-6: not in the error of a failure either
#[tokio::test]
async fn a_failure_in_the_log_names_no_address() {
    let log = WatchedLog::default();
    let double = Double::new([Reply::Fail("connection refused")]);
    let client = create_client(double.options(Style::OpenAI));
    let failed = client.run_durable("hi", &Toolkit::default(), durable(&log, "r")).await.unwrap_err();
    assert!(failed.to_string().contains("double.test"), "{failed}");
    let events = serde_json::to_string(&log.runs.read("r", 0).await.unwrap()).unwrap();
    assert!(events.contains("connection refused") && !events.contains("double.test"), "{events}");
}

// CLIENT-71, RUN-20, RUN-23, RUN-25: one `run` event each time a run is driven, with the numbers of the
// whole run; none where there was nothing to drive
#[tokio::test]
async fn each_driving_of_a_run_is_one_metric() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let metrics = MetricLog::default();
    let (ask, _) = asking("ask", "Which city?");
    let double = Double::new([
        Reply::calls(style, &[("1", "ask", json!({}))]),
        Reply::status(500, &[], "no"),
        Reply::text(style, "ok"),
    ]);
    let client = create_client(ClientOptions { on_metric: Some(metrics.sink()), ..double.options(style) });
    let toolkit = Toolkit::from_tools([ask]);
    let runs = || -> Vec<Value> {
        let numbers =
            |event: &Value| json!([event["turns"], event["tool_calls"], event["error"].is_string()]);
        metrics.of("run").iter().map(numbers).collect()
    };
    let first = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
    assert_eq!(runs(), [json!([1, 1, false])]);
    assert_eq!(client.resume(&toolkit, resumed(&log, "r")).await.unwrap(), first);
    assert_eq!(runs().len(), 1, "still pending: nothing was driven");
    let answer = Answer { id: first.pending.unwrap().id, ok: true, ..Default::default() };
    let options = ResumeOptions { answer: Some(answer), ..resumed(&log, "r") };
    client.resume(&toolkit, options).await.unwrap_err();
    assert_eq!(runs()[1..], [json!([1, 1, true])]);
    client.resume(&toolkit, resumed(&log, "r")).await.unwrap();
    assert_eq!(runs()[2..], [json!([2, 1, false])]);
    client.resume(&toolkit, resumed(&log, "r")).await.unwrap();
    assert_eq!(runs().len(), 3, "finished: nothing was driven");
    client.resume(&toolkit, resumed(&log, "none")).await.unwrap_err();
    assert_eq!(runs()[3..], [json!([0, 0, true])]);
}

// CLIENT-71, RUN-25: a resume that fails at once tells how far the run had come
#[tokio::test]
async fn a_resumed_run_that_fails_at_once_keeps_its_numbers() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let metrics = MetricLog::default();
    let double = Double::new([
        Reply::calls(style, &[("1", "a", json!({}))]),
        Reply::status(500, &[], "no"),
        Reply::status(500, &[], "no"),
    ]);
    let client = create_client(ClientOptions { on_metric: Some(metrics.sink()), ..double.options(style) });
    let toolkit = Toolkit::from_tools([fixed("a", "a")]);
    client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap_err();
    client.resume(&toolkit, resumed(&log, "r")).await.unwrap_err();
    let runs = metrics.of("run");
    assert_eq!((&runs[1]["turns"], &runs[1]["tool_calls"]), (&json!(1), &json!(1)), "{runs:?}");
}

// RUN-18, RUN-24: whoever loses a run is not told that it goes on
#[tokio::test]
async fn the_loser_is_not_told_that_the_run_goes_on() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let double = Double::new([Reply::status(500, &[], "no")]);
    let client = create_client(double.options(style));
    client.run_durable("hi", &Toolkit::default(), durable(&log, "r")).await.unwrap_err();
    let failing = WatchedLog { fault: Some(Fault::Fails(0)), appends: Arc::default(), ..log.clone() };
    let (events, error) = drain(client.stream_resume(&Toolkit::default(), resumed(&failing, "r"))).await;
    assert!(matches!(error, Some(ClientError::RunLog(_))), "{error:?}");
    assert_eq!(kinds(&events), Vec::<String>::new());
}

// RUN-20, CLIENT-112: a run that a part stopped keeps its result, as one at its limit of turns does
#[tokio::test]
async fn limits_are_final_whatever_the_resuming_client_allows() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let double = Double::new([Reply::calls(style, &[("1", "a", json!({}))])]);
    let client = create_client(ClientOptions { max_turns: 1, ..double.options(style) });
    let (a, ran) = recorded("a", |_, _| toolnexus_core::ToolResult::success("a"));
    let toolkit = Toolkit::from_tools([a]);
    let first = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
    assert_eq!(first.limit.as_deref(), Some("maxTurns"));
    let generous = create_client(ClientOptions { max_turns: 9, ..double.options(style) });
    assert_eq!(generous.resume(&toolkit, resumed(&log, "r")).await.unwrap(), first);
    assert_eq!(ran.count(), 1);

    let part = toolnexus_llm::ContentPart::from_link("application/pdf", "https://h/x.pdf", None);
    let refused = client.run_durable(vec![part], &toolkit, durable(&log, "p")).await.unwrap();
    assert_eq!(refused.limit.as_deref(), Some("contentPart"));
    assert_eq!(generous.resume(&toolkit, resumed(&log, "p")).await.unwrap(), refused);
}

// RUN-27, D22: forks of a pending run are answered apart, and the run itself too
#[tokio::test]
async fn forks_of_a_pending_run_are_answered_apart() {
    for style in STYLES {
        let log = WatchedLog::default();
        let (ask, _) = asking("ask", "Which city?");
        let mut replies = vec![Reply::calls(style, &[("1", "ask", json!({})), ("2", "note", json!({}))])];
        replies.extend((0..3).map(|_| Reply::text(style, "ok")));
        let double = Double::new(replies);
        let client = create_client(double.options(style));
        let (note, noted) = recorded("note", |_, _| toolnexus_core::ToolResult::success("noted"));
        let toolkit = Toolkit::from_tools([ask, note]);
        let first = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
        let len = log.runs.read("r", 0).await.unwrap().len() as u64;
        for fork in ["f", "g"] {
            client.fork(&log.shared(), "r", len, fork).await.unwrap();
        }
        let id = first.pending.unwrap().id;
        for (run, city) in [("g", "Oslo"), ("r", "Rome"), ("f", "Bonn")] {
            let data = Some(object(json!({"text": city})));
            let answer = Answer { id: id.clone(), ok: true, data, reason: None };
            let options = ResumeOptions { answer: Some(answer), ..resumed(&log, run) };
            let result = client.resume(&toolkit, options).await.unwrap();
            assert_eq!(result.tool_calls[0].output, format!("answered: {city}"));
            assert_eq!(result.run_id.as_deref(), Some(run));
        }
        assert_eq!(noted.count(), 1, "what had ended is not run again");
    }
}

// RUN-18, CLIENT-116: what the stream of the first process told is not told again
#[tokio::test]
async fn a_resumed_stream_tells_nothing_twice() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let calls = Reply::pieces([Ok(concat!(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{}"}},"#,
        r#"{"index":1,"id":"2","function":{"name":"ask","arguments":"{}"}}]}}]}"#,
        "\n\ndata: [DONE]\n\n"
    ))]);
    let double = Double::new([calls, Reply::streamed_text(style, "ok")]);
    let client = create_client(double.options(style));
    let (ask, _) = asking("ask", "Which city?");
    let toolkit = Toolkit::from_tools([fixed("a", "a"), ask]);
    let (events, error) = drain(client.stream_durable("hi", &toolkit, durable(&log, "r"))).await;
    assert!(error.is_none());
    assert_eq!(kinds(&events), ["usage", "tool_call", "tool_call", "tool_result", "pending", "done"]);
    let Some(StreamEvent::Done { result }) = events.last() else { panic!() };
    let answer = Answer { id: result.pending.clone().unwrap().id, ok: true, ..Default::default() };
    let options = ResumeOptions { answer: Some(answer), ..resumed(&log, "r") };
    let (events, error) = drain(client.stream_resume(&toolkit, options)).await;
    assert!(error.is_none());
    assert_eq!(kinds(&events), ["resumed", "tool_result", "text", "usage", "done"]);
}
