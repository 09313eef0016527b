//! Runs that are written down: what is written when, and how they go on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use support::double::{Answer as Reply, Double};
use support::log::{Fault, Timeline, WatchedLog};
use support::tools::{Record, asking, fixed, object, recorded, stuck};
use support::{KEY, STYLES, drain, kinds, replay, within};
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{
    Answer, RelayResult, Request, Tool, ToolContext, ToolHints, ToolResult, Toolkit, WaitFor, define_tool,
    pending, relay_answer, relay_tool,
};
use toolnexus_llm::run::RunEvent;
use toolnexus_llm::run_log::{RunFilter, RunLog, RunLogError, RunSummaryStatus};
use toolnexus_llm::{
    BeforeLlmEvent, BeforeToolEvent, ClientError, ClientOptions, ConversationStore, DurableError, Hooks,
    InDoubt, InMemoryConversationStore, LlmOverride, ResumeOptions, RunDurableOptions, RunResult, RunStatus,
    StreamEvent, Style, create_client,
};

const INTERRUPTED: &str = "interrupted: the process stopped while this tool ran; its effect is unknown";

fn durable(log: &WatchedLog, run_id: &str) -> RunDurableOptions {
    RunDurableOptions { run_id: run_id.into(), ..RunDurableOptions::new(log.shared()) }
}

fn resumed(log: &WatchedLog, run_id: &str) -> ResumeOptions {
    ResumeOptions::new(log.shared(), run_id)
}

fn granted(id: &str, text: &str) -> Answer {
    Answer { id: id.into(), ok: true, data: Some(object(json!({"text": text}))), reason: None }
}

/// A model that calls these tools (ids 1, 2, …) and then says ok.
fn turn(style: Style, tools: &[&str]) -> [Reply; 2] {
    let ids = ["1", "2", "3", "4"];
    let calls: Vec<_> = ids.iter().zip(tools).map(|(id, name)| (*id, *name, json!({"of": name}))).collect();
    [Reply::calls(style, &calls), Reply::text(style, "ok")]
}

fn first_of([first, _]: [Reply; 2]) -> Reply {
    first
}

/// A tool that counts its executions and notes them.
fn noted(name: &str, timeline: &Timeline) -> (Tool, Record) {
    let (timeline, called) = (timeline.clone(), name.to_owned());
    recorded(name, move |_args, _context| {
        timeline.note(format!("tool {called}"));
        ToolResult::success(format!("{called} done"))
    })
}

fn outputs(result: &RunResult) -> Vec<&str> {
    result.tool_calls.iter().map(|record| record.output.as_str()).collect()
}

/// A log in which the run "r" stopped: the model asked for these tools, and what `then` adds.
async fn stopped(style: Style, tools: &[&str], then: Vec<RunEvent>) -> WatchedLog {
    // Written by a real run whose process ends when its tools have started.
    let log = WatchedLog::with_fault(Fault::DiesAfter(1));
    let double = Double::new([first_of(turn(style, tools))]);
    let tools: Vec<Tool> = tools.iter().map(|name| fixed(name, "never")).collect();
    let client = create_client(double.options(style));
    let toolkit = Toolkit::from_tools(tools);
    let run = client.run_durable("hi", &toolkit, durable(&log, "r"));
    died(&log, 2, run).await;
    assert_eq!(log.kinds("r").await, ["started", "model_answered", "tool_started"]);
    log.runs.append("r", 3, &then).await.unwrap();
    WatchedLog { fault: None, ..log }
}

/// Polls until the log has been asked for so many appends, and drops the run there.
async fn died<T>(log: &WatchedLog, appends: usize, run: impl Future<Output = T>) {
    let reached = async {
        while log.appends() < appends {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = run => panic!("the run ended"),
        () = within(reached) => {}
    }
}

// RUN-15, RUN-16, RUN-10: the log is ahead of what happens
#[tokio::test]
async fn nothing_happens_before_it_is_written() {
    for style in STYLES {
        let log = WatchedLog::default();
        let timeline = log.timeline.clone();
        let (ask, _) = asking("ask", "Which city?");
        let (note, _) = noted("note", &timeline);
        let asked = timeline.clone();
        let wait_for: WaitFor = Arc::new(move |request: Request| {
            asked.note("asked");
            Box::pin(async move { Ok(granted(&request.id, "Oslo")) })
        });
        let double = Double::new(turn(style, &["note", "ask"]));
        let client = create_client(ClientOptions { wait_for: Some(wait_for), ..double.options(style) });
        let toolkit = Toolkit::from_tools([note, ask]);
        let result = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
        timeline.note("returned");
        assert_eq!(result.status, RunStatus::Done);
        assert_eq!(result.run_id.as_deref(), Some("r"));
        let seen = timeline.all();
        let at = |what: &str| {
            seen.iter().position(|seen| seen.contains(what)).unwrap_or_else(|| panic!("{what} in {seen:?}"))
        };
        assert_eq!(seen[0], "append started");
        assert!(at("tool_started") < at("tool note"), "{seen:?}");
        assert!(at("suspended") < at("asked"), "{seen:?}");
        let answered = at("append answered+");
        assert!(at("asked") < answered && seen[answered].contains("tool_started"), "{seen:?}");
        assert!(at("finished") < at("returned"), "{seen:?}");
        // The run as it is in the log is the run that was.
        let events = log.runs.read("r", 0).await.unwrap();
        let replayed = toolnexus_llm::run::Run::replay(&events).unwrap().into_result().unwrap();
        assert_eq!(replayed.messages, result.messages);
        assert_eq!(replayed.tool_calls, result.tool_calls);
    }
}

// RUN-16: k + 3 appends at most, also with hooks that take their time one after the other
#[tokio::test]
async fn a_turn_costs_few_appends() {
    let tools = ["a", "b", "c", "d"];
    for hooked in [false, true] {
        let log = WatchedLog::default();
        let hooks = Hooks::default().with_before_tool(|event: BeforeToolEvent| async move {
            for _ in 0..event.id.parse::<usize>().unwrap() * 3 {
                tokio::task::yield_now().await;
            }
            Ok(None)
        });
        let double = Double::new(turn(Style::OpenAI, &tools));
        let client =
            create_client(ClientOptions { hooks: hooked.then_some(hooks), ..double.options(Style::OpenAI) });
        let toolkit = Toolkit::from_tools(tools.map(|name| fixed(name, name)));
        client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
        // The start and the last answer are one each.
        assert!(log.appends() - 2 <= tools.len() + 3, "{:?}", log.timeline.all());
        let starts = log.kinds("r").await.into_iter().filter(|kind| *kind == "tool_started").count();
        assert_eq!(starts, 1, "{:?}", log.timeline.all());
    }
}

// RUN-6
#[tokio::test]
async fn the_log_holds_no_secrets() {
    let log = WatchedLog::default();
    let double = Double::new(turn(Style::OpenAI, &["a"]));
    let client = create_client(ClientOptions {
        headers: [("x-gateway".to_owned(), "header-secret".to_owned())].into_iter().collect(),
        ..double.options(Style::OpenAI)
    });
    let options = RunDurableOptions { data: object(json!({"tenant": "host-data"})), ..durable(&log, "r") };
    client.run_durable("hi", &Toolkit::from_tools([fixed("a", "done")]), options).await.unwrap();
    let events = serde_json::to_string(&log.runs.read("r", 0).await.unwrap()).unwrap();
    for secret in [KEY, "header-secret", "double.test", "host-data"] {
        assert!(!events.contains(secret), "{secret} in {events}");
    }
}

// RUN-14: from the failure on nothing is called
#[tokio::test]
async fn a_log_that_fails_stops_the_run() {
    let appends = {
        let log = WatchedLog::default();
        run_two_turns(&log).await.0.unwrap();
        log.appends()
    };
    assert!(appends >= 5);
    for at in 0..appends {
        let log = WatchedLog::with_fault(Fault::Fails(at));
        let (result, requests, executed) = run_two_turns(&log).await;
        let failed = result.unwrap_err();
        assert!(matches!(failed.error, ClientError::RunLog(RunLogError::Store { .. })), "{failed}");
        assert_eq!(failed.run_id, "r");
        assert_eq!(failed.to_string(), "run r: the run log failed to append: the disk is full");
        // Nothing is written after it, and what was done is covered by what was written.
        let kinds = if at == 0 { Vec::new() } else { log.kinds("r").await };
        assert_eq!(log.appends(), at + 1);
        let starts = kinds.iter().filter(|kind| **kind == "tool_started").count();
        assert_eq!(executed, starts, "at {at}: {kinds:?}");
        let answers = kinds.iter().filter(|kind| **kind == "model_answered").count();
        assert!(requests <= answers + 1, "at {at}: {requests} requests, {kinds:?}");
    }
}

/// Two turns with a tool each, and the final answer: the result, how many requests and executions.
async fn run_two_turns(
    log: &WatchedLog,
) -> (Result<RunResult, toolnexus_llm::DurableRunError>, usize, usize) {
    let style = Style::OpenAI;
    let double = Double::new([
        Reply::calls(style, &[("1", "a", json!({}))]),
        Reply::calls(style, &[("2", "a", json!({}))]),
        Reply::text(style, "ok"),
    ]);
    let (tool, record) = recorded("a", |_, _| ToolResult::success("done"));
    let client = create_client(double.options(style));
    let result = client.run_durable("hi", &Toolkit::from_tools([tool]), durable(log, "r")).await;
    (result, double.count(), record.count())
}

// RUN-19, cases 9 and 10
#[tokio::test]
async fn an_id_is_new_and_legal() {
    let log = WatchedLog::default();
    let double = Double::new([Reply::text(Style::OpenAI, "ok")]);
    let client = create_client(double.options(Style::OpenAI));
    let toolkit = Toolkit::default();
    client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
    let error = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap_err().error;
    assert!(
        matches!(&error, ClientError::Durable(DurableError::Exists { run_id }) if run_id == "r"),
        "{error}"
    );
    for id in ["../x", ".hidden", "a b", "ü", &"x".repeat(129)] {
        let error = client.run_durable("hi", &toolkit, durable(&log, id)).await.unwrap_err().error;
        assert!(matches!(error, ClientError::RunLog(RunLogError::InvalidId { .. })), "{error}");
        let error = client.resume(&toolkit, resumed(&log, id)).await.unwrap_err().error;
        assert!(matches!(error, ClientError::RunLog(RunLogError::InvalidId { .. })), "{error}");
    }
    let error = client.resume(&toolkit, resumed(&log, "nobody")).await.unwrap_err().error;
    assert!(matches!(error, ClientError::RunLog(RunLogError::NotFound { .. })), "{error}");
    assert_eq!(double.count(), 1);
}

// RUN-11: an id of its own
#[tokio::test]
async fn the_default_id_is_a_uuid_of_version_7() {
    let log = WatchedLog::default();
    let double = Double::new([Reply::text(Style::OpenAI, "ok")]);
    let client = create_client(double.options(Style::OpenAI));
    let result = client.run_durable("hi", &Toolkit::default(), durable(&log, "")).await.unwrap();
    let run_id = result.run_id.unwrap();
    assert_eq!((run_id.len(), run_id.as_bytes()[14]), (36, b'7'), "{run_id}");
    assert_eq!(log.kinds(&run_id).await, ["started", "model_answered", "finished"]);
}

// RUN-20
#[tokio::test]
async fn a_finished_run_gives_its_stored_result() {
    for style in STYLES {
        let log = WatchedLog::default();
        let double = Double::new(turn(style, &["a"]));
        let client = create_client(double.options(style));
        let toolkit = Toolkit::from_tools([fixed("a", "done")]);
        let first = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
        let appends = log.appends();
        let again = client.resume(&toolkit, resumed(&log, "r")).await.unwrap();
        assert_eq!(again, first);
        assert_eq!((double.count(), log.appends()), (2, appends));
        let (events, error) = drain(client.stream_resume(&toolkit, resumed(&log, "r"))).await;
        assert!(error.is_none());
        assert_eq!(kinds(&events), ["done"]);
    }
}

// RUN-21, case 1
#[tokio::test]
async fn interrupted_calls_are_reported() {
    for style in STYLES {
        let log = stopped(style, &["a", "b"], vec![]).await;
        let double = Double::new([Reply::text(style, "ok")]);
        let client = create_client(double.options(style));
        let (a, ran_a) = recorded("a", |_, _| ToolResult::success("a"));
        let (b, ran_b) = recorded("b", |_, _| ToolResult::success("b"));
        let result = client.resume(&Toolkit::from_tools([a, b]), resumed(&log, "r")).await.unwrap();
        assert_eq!(outputs(&result), [INTERRUPTED, INTERRUPTED]);
        assert!(result.tool_calls.iter().all(|record| record.is_error));
        assert_eq!((ran_a.count(), ran_b.count()), (0, 0));
        assert_eq!((result.turns, result.text.as_str()), (2, "ok"));
        assert_eq!(double.body(0).to_string().matches(INTERRUPTED).count(), 2);
        // RUN-17
        let kinds = log.kinds("r").await;
        assert_eq!(kinds[3..], ["resumed", "tool_finished", "tool_finished", "model_answered", "finished"]);
    }
}

// RUN-21, case 2: what only reads is run again whatever the policy says
#[tokio::test]
async fn a_reading_tool_is_run_again() {
    let style = Style::OpenAI;
    let log = stopped(style, &["a", "b"], vec![]).await;
    let double = Double::new([Reply::text(style, "ok")]);
    let (a, ran_a) = recorded("a", |_, _| ToolResult::success("a"));
    let (b, ran_b) = recorded("b", |_, _| ToolResult::success("b"));
    let a = a.with_hints(ToolHints { read_only: true, ..Default::default() });
    let client = create_client(double.options(style));
    let result = client.resume(&Toolkit::from_tools([a, b]), resumed(&log, "r")).await.unwrap();
    assert_eq!(outputs(&result), ["a", INTERRUPTED]);
    assert_eq!((ran_a.count(), ran_b.count()), (1, 0));
}

// RUN-21, RUN-23, case 3
#[tokio::test]
async fn a_call_that_had_ended_keeps_its_result() {
    let style = Style::OpenAI;
    let ended = RunEvent::ToolFinished { index: 1, result: Arc::new(ToolResult::success("b before")) };
    let log = stopped(style, &["a", "b"], vec![ended]).await;
    let double = Double::new([Reply::text(style, "ok")]);
    let (b, ran_b) = recorded("b", |_, _| ToolResult::success("b"));
    let client = create_client(double.options(style));
    let toolkit = Toolkit::from_tools([fixed("a", "a"), b]);
    let result = client.resume(&toolkit, resumed(&log, "r")).await.unwrap();
    assert_eq!(outputs(&result), [INTERRUPTED, "b before"]);
    assert_eq!(ran_b.count(), 0);
}

// RUN-21, RUN-22: retried with the key of the first attempt
#[tokio::test]
async fn a_retried_call_has_the_key_of_its_first_attempt() {
    let style = Style::OpenAI;
    let log = WatchedLog::with_fault(Fault::DiesBefore(2));
    let (tool, record) = recorded("a", |_, _| ToolResult::success("done"));
    let toolkit = Toolkit::from_tools([tool]);
    let double = Double::new(turn(style, &["a"]));
    let client = create_client(double.options(style));
    let options = RunDurableOptions { data: object(json!({"n": 1})), ..durable(&log, "r") };
    died(&log, 3, client.run_durable("hi", &toolkit, options)).await;
    assert_eq!(log.kinds("r").await, ["started", "model_answered", "tool_started"]);
    let log = WatchedLog { fault: None, ..log };
    let options =
        ResumeOptions { in_doubt: InDoubt::Retry, data: object(json!({"n": 2})), ..resumed(&log, "r") };
    let result = client.resume(&toolkit, options).await.unwrap();
    assert_eq!(outputs(&result), ["done"]);
    let contexts: Vec<ToolContext> = record.all().into_iter().map(|execution| execution.context).collect();
    let keys: Vec<_> = contexts.iter().map(|context| context.idempotency_key.as_deref()).collect();
    assert_eq!(keys, [Some("r/0/0"), Some("r/0/0")]);
    // Host data is no part of a run: it is the resuming client's.
    assert_eq!(contexts[1].data["n"], 2);
    assert_eq!(contexts[1].call_id, "1");
}

// RUN-21: somebody is asked whether to run it again
#[tokio::test]
async fn somebody_may_be_asked_about_an_interrupted_call() {
    for granted in [true, false] {
        let style = Style::OpenAI;
        let log = stopped(style, &["a"], vec![]).await;
        let double = Double::new([Reply::text(style, "ok")]);
        let (a, ran) = recorded("a", |_, context| {
            assert!(context.answer.is_none(), "the answer is about the call, not for it");
            ToolResult::success("again")
        });
        let toolkit = Toolkit::from_tools([a]);
        let client = create_client(double.options(style));
        let options = ResumeOptions { in_doubt: InDoubt::Ask, ..resumed(&log, "r") };
        let asked = client.resume(&toolkit, options.clone()).await.unwrap();
        assert_eq!((asked.status, ran.count()), (RunStatus::Pending, 0));
        let request = asked.pending.unwrap();
        assert_eq!(request.kind, "in_doubt");
        assert_eq!(
            request.prompt,
            r#"the process stopped while the tool a ran with {"of":"a"}; run it again?"#
        );
        let answer = Answer { id: request.id, ok: granted, ..Default::default() };
        let result =
            client.resume(&toolkit, ResumeOptions { answer: Some(answer), ..options }).await.unwrap();
        assert_eq!(outputs(&result), [if granted { "again" } else { INTERRUPTED }]);
        assert_eq!(ran.count(), usize::from(granted));
    }
}

// RUN-21: the host decides for each call
#[tokio::test]
async fn the_host_may_decide_for_each_call() {
    let style = Style::OpenAI;
    let log = stopped(style, &["a", "b"], vec![]).await;
    let double = Double::new([Reply::text(style, "ok")]);
    let client = create_client(double.options(style));
    let in_doubt = InDoubt::Decide(Arc::new(|call| match call.args["of"].as_str() {
        Some("a") => InDoubt::Retry,
        _ => InDoubt::Report,
    }));
    let toolkit = Toolkit::from_tools([fixed("a", "a again"), fixed("b", "b again")]);
    let result = client.resume(&toolkit, ResumeOptions { in_doubt, ..resumed(&log, "r") }).await.unwrap();
    assert_eq!(outputs(&result), ["a again", INTERRUPTED]);
}

// RUN-23, RUN-5, D22, case 4
#[tokio::test]
async fn a_pending_run_goes_on_with_the_answer() {
    for style in STYLES {
        let log = WatchedLog::default();
        let double = Double::new(turn(style, &["a", "b"]));
        let client = create_client(double.options(style));
        let (a, ran_a) = asking("a", "Which city?");
        let (b, ran_b) = recorded("b", |_, _| ToolResult::success("b done"));
        let toolkit = Toolkit::from_tools([a, b]);
        let first = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
        assert_eq!((first.status, first.text.as_str()), (RunStatus::Pending, "Which city?"));
        let request = first.pending.clone().unwrap();
        assert_eq!(first.open_requests, std::slice::from_ref(&request));
        // The finished sibling is kept.
        assert_eq!(first.tool_call_count, 2);

        // Without an answer nothing changes and nothing is written.
        let appends = log.appends();
        assert_eq!(client.resume(&toolkit, resumed(&log, "r")).await.unwrap(), first);
        // Case 5
        let nope = ResumeOptions { answer: Some(granted("nope", "")), ..resumed(&log, "r") };
        let error = client.resume(&toolkit, nope).await.unwrap_err().error;
        let ClientError::Durable(DurableError::UnknownRequest { id, open }) = &error else {
            panic!("{error}")
        };
        assert_eq!((id.as_str(), open), ("nope", &vec![request.id.clone()]));
        assert!(request.id.starts_with("sus-"));
        assert_eq!(
            error.to_string(),
            format!("the run has no open request \"nope\"; open are: {}", request.id)
        );
        assert_eq!(log.appends(), appends);

        let options = ResumeOptions { answer: Some(granted(&request.id, "Oslo")), ..resumed(&log, "r") };
        let result = client.resume(&toolkit, options).await.unwrap();
        assert_eq!((result.status, outputs(&result)), (RunStatus::Done, vec!["answered: Oslo", "b done"]));
        assert_eq!((ran_a.count(), ran_b.count()), (2, 1));
        assert!(result.pending.is_none() && result.open_requests.is_empty());
    }
}

// RUN-23, D22: answers come one at a time
#[tokio::test]
async fn several_requests_are_answered_one_at_a_time() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let double = Double::new(turn(style, &["a", "b"]));
    let client = create_client(double.options(style));
    let (a, ran_a) = asking("a", "First?");
    let (b, ran_b) = asking("b", "Second?");
    let toolkit = Toolkit::from_tools([a, b]);
    let first = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
    let open: Vec<Request> = first.open_requests;
    assert_eq!(open.iter().map(|request| request.prompt.as_str()).collect::<Vec<_>>(), ["First?", "Second?"]);
    let answer = |at: usize, text: &str| ResumeOptions {
        answer: Some(granted(&open[at].id, text)),
        ..resumed(&log, "r")
    };
    let second = client.resume(&toolkit, answer(1, "two")).await.unwrap();
    assert_eq!((second.status, second.text.as_str()), (RunStatus::Pending, "First?"));
    assert_eq!(second.open_requests, [open[0].clone()]);
    assert_eq!(double.count(), 1);
    let result = client.resume(&toolkit, answer(0, "one")).await.unwrap();
    assert_eq!(outputs(&result), ["answered: one", "answered: two"]);
    assert_eq!((ran_a.count(), ran_b.count()), (2, 2));
}

// RUN-23: with somebody to ask, a resume asks
#[tokio::test]
async fn a_resolver_is_asked_on_resume() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let double = Double::new([first_of(turn(style, &["a"])), Reply::streamed_text(style, "ok")]);
    let (a, _) = asking("a", "Which city?");
    let toolkit = Toolkit::from_tools([a]);
    let client = create_client(double.options(style));
    client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
    let wait_for: WaitFor =
        Arc::new(|request: Request| Box::pin(async move { Ok(granted(&request.id, "Oslo")) }));
    let client = create_client(ClientOptions { wait_for: Some(wait_for), ..double.options(style) });
    let (events, error) = drain(client.stream_resume(&toolkit, resumed(&log, "r"))).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(kinds(&events)[..3], ["resumed", "pending", "tool_result"]);
}

// CORE-136, RUN-23: one answer settles the relay calls of a turn
#[tokio::test]
async fn relay_calls_are_settled_together_on_resume() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let double = Double::new(turn(style, &["a", "b"]));
    let client = create_client(double.options(style));
    let toolkit = Toolkit::from_tools([relay_tool("a", "a", None), relay_tool("b", "b", None)]);
    let first = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
    let request = first.pending.unwrap();
    let result =
        |id: &str, output: &str| RelayResult { id: id.into(), output: output.into(), is_error: false };
    let answer = relay_answer(&request.id, [result("1", "29C"), result("2", "30C")]);
    let options = ResumeOptions { answer: Some(answer), ..resumed(&log, "r") };
    let result = client.resume(&toolkit, options).await.unwrap();
    assert_eq!(outputs(&result), ["29C", "30C"]);
    assert_eq!(result.status, RunStatus::Done);
}

// RUN-24, case 6
#[tokio::test]
async fn of_two_resumes_one_goes_on() {
    let style = Style::OpenAI;
    let mut log = stopped(style, &["a"], vec![]).await;
    log.barrier = Some(Arc::new(Barrier::new(2)));
    let double = Double::new([Reply::text(style, "ok")]);
    let client = create_client(double.options(style));
    let (a, ran) = recorded("a", |_, _| ToolResult::success("a"));
    let toolkit = Toolkit::from_tools([a]);
    let options = ResumeOptions { in_doubt: InDoubt::Retry, ..resumed(&log, "r") };
    let both = tokio::join!(client.resume(&toolkit, options.clone()), client.resume(&toolkit, options));
    let (won, lost) = match both {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
        other => panic!("{other:?}"),
    };
    assert_eq!(won.text, "ok");
    assert!(matches!(lost.error, ClientError::RunLog(RunLogError::Conflict { .. })), "{lost}");
    assert_eq!((ran.count(), double.count()), (1, 1));
    // The loser wrote nothing, not even that it failed.
    assert!(!log.kinds("r").await.contains(&"failed"));
}

// RUN-25, case 12
#[tokio::test]
async fn a_run_that_failed_can_be_resumed() {
    for style in STYLES {
        let log = WatchedLog::default();
        let down = || Reply::status(500, &[], "down");
        let double = Double::new([
            Reply::calls(style, &[("1", "a", json!({}))]),
            down(),
            down(),
            Reply::text(style, "back"),
        ]);
        let client = create_client(ClientOptions {
            retries: Some(1),
            on_error: Some(Arc::new(|info| {
                if info.attempt < 1 { toolnexus_llm::Tier::Retry } else { toolnexus_llm::Tier::Fail }
            })),
            retry_base_ms: 1,
            max_turns: 2,
            ..double.options(style)
        });
        let (a, ran) = recorded("a", |_, _| ToolResult::success("a"));
        let toolkit = Toolkit::from_tools([a]);
        let failed = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap_err();
        assert!(matches!(&failed.error, ClientError::Provider(error) if error.status == 500), "{failed}");
        assert_eq!(failed.run_id, "r");
        assert_eq!(log.kinds("r").await.last(), Some(&"failed"));
        let result = client.resume(&toolkit, resumed(&log, "r")).await.unwrap();
        // Turns count the whole run, not the process.
        assert_eq!((result.text.as_str(), result.turns, ran.count()), ("back", 2, 1));
    }
}

// RUN-25: a cancel, a deadline and a hook's error are written, and the run goes on later
#[tokio::test(start_paused = true)]
async fn whatever_stops_a_run_is_written() {
    let style = Style::OpenAI;
    // Cancelled while a tool runs.
    let log = WatchedLog::default();
    let double = Double::new([Reply::calls(style, &[("1", "stuck", json!({}))])]);
    let client = create_client(double.options(style));
    let held = stuck("stuck");
    let toolkit = Toolkit::from_tools([held.tool]);
    let cancel = CancellationToken::new();
    let options = RunDurableOptions { cancel: Some(cancel.clone()), ..durable(&log, "r") };
    let run = client.run_durable("hi", &toolkit, options);
    let stop = async {
        held.started.await.unwrap();
        cancel.cancel();
    };
    let (failed, ()) = tokio::join!(run, stop);
    let failed = failed.unwrap_err();
    assert!(matches!(failed.error, ClientError::Cancelled), "{failed}");
    assert_eq!(log.kinds("r").await, ["started", "model_answered", "tool_started", "failed"]);
    let summary = &log.runs.list(RunFilter::default()).await.unwrap()[0];
    assert_eq!(summary.status, RunSummaryStatus::Failed);

    // The deadline passes while the model thinks.
    let log = WatchedLog::default();
    let (held, _gone) = tokio::sync::oneshot::channel();
    let double = Double::new([Reply::Hang(held), Reply::text(style, "ok")]);
    let client = create_client(ClientOptions { timeout_ms: 200, ..double.options(style) });
    let failed = client.run_durable("hi", &Toolkit::default(), durable(&log, "r")).await.unwrap_err();
    assert!(matches!(failed.error, ClientError::Timeout { timeout_ms: 200 }), "{failed}");
    assert_eq!(log.kinds("r").await, ["started", "failed"]);
    assert_eq!(client.resume(&Toolkit::default(), resumed(&log, "r")).await.unwrap().text, "ok");

    // A hook refuses the second call of the model.
    let log = WatchedLog::default();
    let double = Double::new(turn(style, &["a"]));
    let hooks = Hooks::default().with_before_llm(|event: BeforeLlmEvent| async move {
        if event.turn == 1 { Err("not now".into()) } else { Ok(None) }
    });
    let client = create_client(ClientOptions { hooks: Some(hooks), ..double.options(style) });
    let toolkit = Toolkit::from_tools([fixed("a", "done")]);
    let failed = client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap_err();
    assert!(matches!(failed.error, ClientError::Hook { hook: "before_llm", .. }), "{failed}");
    assert_eq!(log.kinds("r").await.last(), Some(&"failed"));
    let client = create_client(double.options(style));
    assert_eq!(outputs(&client.resume(&toolkit, resumed(&log, "r")).await.unwrap()), ["done"]);
}

// RUN-25: a write that was under way when the run was cancelled is counted
#[tokio::test]
async fn a_failure_is_written_behind_a_write_that_was_under_way() {
    let style = Style::OpenAI;
    for fault in [Fault::DiesAfter(1), Fault::DiesBefore(1)] {
        let log = WatchedLog::with_fault(fault);
        let double = Double::new(turn(style, &["a"]));
        let client = create_client(double.options(style));
        let cancel = CancellationToken::new();
        let options = RunDurableOptions { cancel: Some(cancel.clone()), ..durable(&log, "r") };
        let (tool, ran) = recorded("a", |_, _| ToolResult::success("a"));
        let toolkit = Toolkit::from_tools([tool]);
        let run = client.run_durable("hi", &toolkit, options);
        let stop = async {
            while log.appends() < 2 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        let (failed, ()) = within(async { tokio::join!(run, stop) }).await;
        assert!(matches!(failed.unwrap_err().error, ClientError::Cancelled));
        let kinds = log.kinds("r").await;
        let expected: &[&str] = match fault {
            // The tool did not start, so nothing says it did.
            Fault::DiesBefore(_) => &["started", "model_answered", "failed"],
            _ => &["started", "model_answered", "tool_started", "failed"],
        };
        assert_eq!(kinds, expected);
        assert_eq!(ran.count(), 0);
    }
}

// RUN-26
#[tokio::test]
async fn model_style_and_tools_are_the_resuming_clients() {
    let style = Style::OpenAI;
    let log = stopped(style, &["a", "gone"], vec![RunEvent::Resumed { model: None }]).await;
    for other in [Style::Anthropic, Style::Gemini] {
        let client = create_client(Double::new([]).options(other));
        let error = client.resume(&Toolkit::default(), resumed(&log, "r")).await.unwrap_err().error;
        let ClientError::Durable(DurableError::StyleMismatch { log, client }) = error else {
            panic!("{error}")
        };
        assert_eq!((log, client), (style, other));
    }
    let double = Double::new([Reply::text(style, "ok")]);
    let client = create_client(ClientOptions { model: "other".into(), ..double.options(style) });
    let options = ResumeOptions { in_doubt: InDoubt::Retry, ..resumed(&log, "r") };
    let result = client.resume(&Toolkit::from_tools([fixed("a", "a")]), options).await.unwrap();
    assert_eq!(outputs(&result), ["a", "unknown tool: gone"]);
    assert_eq!(double.body(0)["model"], "other");
    assert_eq!(result.model, "other");
    assert_eq!(client.resume(&Toolkit::default(), resumed(&log, "r")).await.unwrap(), result);
}

// RUN-27, case 11
#[tokio::test]
async fn a_fork_goes_its_own_way() {
    for style in STYLES {
        let log = WatchedLog::default();
        let [calls, first] = turn(style, &["a", "b"]);
        let double = Double::new([calls, first, Reply::text(style, "other")]);
        let client = create_client(double.options(style));
        let (a, ran) = recorded("a", |_, _| ToolResult::success("a"));
        let toolkit = Toolkit::from_tools([a, fixed("b", "b")]);
        client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap();
        let before = log.runs.read("r", 0).await.unwrap();
        // started, model_answered | tool_started, tool_finished, tool_finished | model_answered, finished
        for (at, nearest) in [(0, 1), (3, 2), (4, 5), (99, 7)] {
            let error = client.fork(&log.shared(), "r", at, "f").await.unwrap_err();
            assert!(
                matches!(error, ClientError::Durable(DurableError::NotABoundary { at: a, nearest: n }) if (a, n) == (at, nearest)),
                "{at}: {error}"
            );
        }
        let error = client.fork(&log.shared(), "r", 2, "r").await.unwrap_err();
        assert!(matches!(error, ClientError::Durable(DurableError::Exists { .. })), "{error}");
        let error = client.fork(&log.shared(), "r", 2, "../f").await.unwrap_err();
        assert!(matches!(error, ClientError::RunLog(RunLogError::InvalidId { .. })), "{error}");

        client.fork(&log.shared(), "r", 2, "f").await.unwrap();
        let result = client.resume(&toolkit, resumed(&log, "f")).await.unwrap();
        assert_eq!((result.text.as_str(), outputs(&result)), ("other", vec!["a", "b"]));
        assert_eq!(result.run_id.as_deref(), Some("f"));
        assert_eq!(ran.count(), 2);
        assert_eq!(log.runs.read("r", 0).await.unwrap(), before);
    }
}

// RUN-18
#[tokio::test]
async fn a_stream_says_that_it_goes_on_and_writes_whole_messages() {
    for style in STYLES {
        let log = WatchedLog::default();
        // The first stream breaks off in the midst of its answer.
        let cut = match style {
            Style::Anthropic => {
                r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#
            }
            Style::Gemini => r#"data: {"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]}"#,
            _ => r#"data: {"choices":[{"delta":{"content":"Hel"}}]}"#,
        };
        let double =
            Double::new([Reply::pieces([Ok(format!("{cut}\n\n"))]), Reply::streamed_text(style, "Hello")]);
        let client = create_client(double.options(style));
        let stream = client.stream_durable("hi", &Toolkit::default(), durable(&log, "r"));
        assert_eq!(stream.run_id(), Some("r"));
        let (events, error) = drain(stream).await;
        assert_eq!(events, [StreamEvent::Text { delta: "Hel".into() }]);
        assert!(matches!(error, Some(ClientError::InvalidResponse(_))), "{error:?}");
        assert_eq!(log.kinds("r").await, ["started", "failed"]);
        let (events, error) = drain(client.stream_resume(&Toolkit::default(), resumed(&log, "r"))).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(kinds(&events), ["resumed", "text", "usage", "done"]);
        assert_eq!(serde_json::to_string(&events[0]).unwrap(), r#"{"type":"resumed"}"#);
    }
}

// RUN-19, CLIENT-127: a conversation is saved when its run ends, also after a resume
#[tokio::test]
async fn a_durable_run_belongs_to_its_conversation() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let store = Arc::new(InMemoryConversationStore::default());
    let before: Vec<Value> =
        vec![json!({"role": "user", "content": "earlier"}), json!({"role": "assistant", "content": "yes"})];
    store.save("c", &before.into()).await.unwrap();
    let double = Double::new(turn(style, &["a"]));
    let client = create_client(ClientOptions { store: Some(store.clone()), ..double.options(style) });
    let (a, _) = asking("a", "Which city?");
    let toolkit = Toolkit::from_tools([a]);
    let options = RunDurableOptions { id: "c".into(), ..durable(&log, "r") };
    let first = client.run_durable("hi", &toolkit, options).await.unwrap();
    assert_eq!(store.get("c").await.unwrap().unwrap(), first.messages);
    let answer = granted(&first.pending.unwrap().id, "Oslo");
    let result =
        client.resume(&toolkit, ResumeOptions { answer: Some(answer), ..resumed(&log, "r") }).await.unwrap();
    assert_eq!(result.messages[0]["content"], "earlier");
    assert_eq!(store.get("c").await.unwrap().unwrap(), result.messages);
}

// RUN-3, RUN-26: what a hook replaced stays replaced
#[tokio::test]
async fn a_hooks_replacements_survive() {
    for style in STYLES {
        let log = WatchedLog::with_fault(Fault::DiesAfter(1));
        let hooks = Hooks::default().with_before_llm(|event: BeforeLlmEvent| async move {
            // The model is to see the second tool alone, and a shorter transcript.
            let mut tools = (*event.tools).clone();
            match tools[0].get_mut("functionDeclarations") {
                Some(declarations) => drop(declarations.as_array_mut().unwrap().remove(0)),
                None => drop(tools.remove(0)),
            }
            let last = event.messages.last().cloned().into_iter().collect();
            Ok(Some(LlmOverride { messages: Some(last), tools: Some(tools), model: None }))
        });
        let double = Double::new([first_of(turn(style, &["b"]))]);
        let client = create_client(ClientOptions { hooks: Some(hooks), ..double.options(style) });
        let toolkit = Toolkit::from_tools([fixed("a", "a"), fixed("b", "b")]);
        let history: Vec<Value> = vec![json!({"role": "user", "content": "x", "parts": [{"text": "x"}]})];
        let options = RunDurableOptions { history: history.into(), ..durable(&log, "r") };
        died(&log, 2, client.run_durable("hi", &toolkit, options)).await;
        let log = WatchedLog { fault: None, ..log };
        let double = Double::new([Reply::text(style, "ok")]);
        let client = create_client(double.options(style));
        let options = ResumeOptions { in_doubt: InDoubt::Retry, ..resumed(&log, "r") };
        let result = client.resume(&toolkit, options).await.unwrap();
        assert_eq!(result.messages.len(), 4, "{style:?}");
        let tools = double.body(0)["tools"].to_string();
        assert!(tools.contains("\"b\"") && !tools.contains("\"a\""), "{tools}");
    }
}

// RUN-31, RUN-29: the replay check of these tests is there, for runs that end and for those that fail; runs
// without a log are driven over the same machine
#[tokio::test]
async fn every_run_is_replayed() {
    let before = replay::count();
    let double = Double::new([Reply::text(Style::OpenAI, "ok"), Reply::status(400, &[], "no")]);
    let client = create_client(double.options(Style::OpenAI));
    client.run("hi", &Toolkit::default()).await.unwrap();
    client.run("hi", &Toolkit::default()).await.unwrap_err();
    assert!(replay::count() >= before + 2);
}

// RUN-28
#[tokio::test]
async fn a_list_says_where_each_run_stands() {
    let style = Style::OpenAI;
    let log = WatchedLog::default();
    let double = Double::new([
        Reply::text(style, "ok"),
        Reply::calls(style, &[("1", "a", json!({}))]),
        Reply::status(400, &[], "no"),
        Reply::calls(style, &[("1", "b", json!({}))]),
    ]);
    let client = create_client(ClientOptions { max_turns: 1, ..double.options(style) });
    let (a, _) = asking("a", "Which city?");
    let toolkit = Toolkit::from_tools([a, fixed("b", "b")]);
    for id in ["done", "pending", "failed", "incomplete"] {
        drop(client.run_durable("hi", &toolkit, durable(&log, id)).await);
    }
    let mut runs = log.runs.list(RunFilter::default()).await.unwrap();
    runs.sort_by(|a, b| a.run_id.cmp(&b.run_id));
    let seen: Vec<_> = runs
        .iter()
        .map(|run| (run.run_id.as_str(), run.status.as_str(), run.turns, run.tool_calls))
        .collect();
    assert_eq!(
        seen,
        [
            ("done", "done", 1, 0),
            ("failed", "failed", 0, 0),
            ("incomplete", "incomplete", 1, 1),
            ("pending", "pending", 1, 0)
        ]
    );
    assert_eq!(runs[3].pending[0].prompt, "Which city?");
    let filter = RunFilter { status: Some(RunSummaryStatus::Pending), ..Default::default() };
    assert_eq!(log.runs.list(filter).await.unwrap().len(), 1);
}

/// A tool that may run once for each text: the ledger of what was done.
fn ledger(name: &'static str, done: &Arc<[AtomicUsize; 2]>, at: usize) -> Tool {
    let done = Arc::clone(done);
    define_tool(name, name, None, move |_args, context: ToolContext| {
        let done = Arc::clone(&done);
        async move {
            if name == "b" && context.answer.is_none() {
                return pending(Request {
                    kind: "input".into(),
                    prompt: "go on?".into(),
                    ..Default::default()
                });
            }
            done[at].fetch_add(1, Ordering::SeqCst);
            ToolResult::success(format!("{name} done"))
        }
    })
}

// RUN-30, RUN-15: a process that ends at any append, before or after it is written
#[tokio::test]
async fn a_run_survives_the_end_of_its_process_at_every_append() {
    for style in STYLES {
        for before in [true, false] {
            let mut at = 0;
            loop {
                let fault = if before { Fault::DiesBefore(at) } else { Fault::DiesAfter(at) };
                let log = WatchedLog::with_fault(fault);
                let done: Arc<[AtomicUsize; 2]> = Arc::default();
                let toolkit = Toolkit::from_tools([ledger("a", &done, 0), ledger("b", &done, 1)]);
                let wait_for: WaitFor =
                    Arc::new(|request: Request| Box::pin(async move { Ok(granted(&request.id, "yes")) }));
                let reply = |turn: usize| match turn {
                    0 => Reply::calls(style, &[("1", "a", json!({})), ("2", "b", json!({}))]),
                    _ => Reply::text(style, "ok"),
                };
                let double = Double::new([reply(0), reply(1)]);
                let options = ClientOptions { wait_for: Some(wait_for), ..double.options(style) };
                let client = create_client(options.clone());
                let run = client.run_durable("hi", &toolkit, durable(&log, "r"));
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
                    assert_eq!(ended.unwrap().text, "ok");
                    break;
                }
                let log = WatchedLog { fault: None, ..log };
                let events = log.runs.read("r", 0).await.unwrap_or_default();
                let turn = events.iter().filter(|event| event.kind() == "model_answered").count();
                let double = Double::new((turn..2).map(reply));
                let client = create_client(ClientOptions {
                    http_client: double.options(style).http_client,
                    ..options
                });
                let result = if events.is_empty() {
                    client.run_durable("hi", &toolkit, durable(&log, "r")).await.unwrap()
                } else {
                    client.resume(&toolkit, resumed(&log, "r")).await.unwrap()
                };
                assert_eq!((result.status, result.text.as_str(), result.turns), (RunStatus::Done, "ok", 2));
                for (at, (output, count)) in outputs(&result).iter().zip(done.iter()).enumerate() {
                    let count = count.load(Ordering::SeqCst);
                    assert!(count <= 1, "call {at} ran {count} times");
                    assert!(*output == INTERRUPTED || count == 1, "call {at}: {output}, {count}");
                }
                at += 1;
            }
            assert!(at > 5, "{at} appends");
        }
    }
}
