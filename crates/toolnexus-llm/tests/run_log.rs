//! What every run log promises, for both that come with the library.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use toolnexus_core::{Answer, Request, ToolResult};
use toolnexus_llm::run::{Args, ModelAnswer, ModelCall, RunError, RunEvent, RunStarted};
use toolnexus_llm::run_log::{FileRunLog, MemoryRunLog, RunLog, RunSummary, RunSummaryStatus};
use toolnexus_llm::{FinishReason, RunStatus, Style, Transcript, Usage};
use toolnexus_testkit::run_log_suite;

// RUN-9, RUN-11, RUN-12, RUN-28, RUN-32, case 10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_in_memory_keeps_its_promises() {
    run_log_suite(async || MemoryRunLog::default()).await;
}

// RUN-9, RUN-11, RUN-12, RUN-28, RUN-32, case 10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_in_files_keeps_its_promises() {
    let temporary = tempfile::tempdir().unwrap();
    let mut logs = 0;
    run_log_suite(async || {
        logs += 1;
        FileRunLog::open(temporary.path().join(logs.to_string())).unwrap()
    })
    .await;
}

fn started() -> RunEvent {
    RunEvent::Started(RunStarted {
        run_id: "a".into(),
        style: Style::OpenAI,
        model: "m".into(),
        system: String::new(),
        history: Transcript::new(),
        prompt: "hi".into(),
        max_turns: 2,
        conversation_id: None,
    })
}

fn answered(calls: usize) -> RunEvent {
    let call = |at: usize| ModelCall { id: format!("c{at}"), name: "t".into(), ..Default::default() };
    RunEvent::ModelAnswered(ModelAnswer {
        message: None,
        text: "hello".into(),
        calls: (0..calls).map(call).collect(),
        usage: Usage { total_tokens: 7, ..Default::default() },
        finish_reason: FinishReason::Stop,
    })
}

fn tools_started(indices: &[usize]) -> RunEvent {
    let args = vec![Args::default(); indices.len()];
    RunEvent::ToolStarted { indices: indices.to_vec(), args, media: vec![] }
}

fn tool_finished(index: usize) -> RunEvent {
    RunEvent::ToolFinished { index, result: Arc::new(ToolResult::success("ok")) }
}

fn suspended(index: usize) -> RunEvent {
    let request = Request { id: format!("sus-{index}"), prompt: "Well?".into(), ..Default::default() };
    RunEvent::Suspended { index, request, output: String::new(), in_doubt: false }
}

fn tool_answered(index: usize) -> RunEvent {
    let id = format!("sus-{index}");
    RunEvent::Answered { request_id: id.clone(), answer: Answer { id, ok: true, ..Default::default() } }
}

fn failed() -> RunEvent {
    RunEvent::Failed { error: "LLM 503".into() }
}

// RUN-28: the summary after each event of a run that lives through everything
#[test]
fn a_summary_follows_the_run() {
    use RunSummaryStatus::{Done, Failed, Incomplete, Pending, Running};
    // Each event, and what is said after it: state, model calls, tools that ended, open requests.
    let steps: Vec<(RunEvent, RunSummaryStatus, u32, usize, &[&str])> = vec![
        (started(), Running, 0, 0, &[]),
        (failed(), Failed, 0, 0, &[]),
        (RunEvent::Resumed { model: None }, Running, 0, 0, &[]),
        (answered(3), Running, 1, 0, &[]),
        (tools_started(&[0, 1, 2]), Running, 1, 0, &[]),
        (suspended(2), Running, 1, 0, &["sus-2"]),
        (tool_finished(1), Running, 1, 1, &["sus-2"]),
        // Nothing is running any more: whoever answers is waited for.
        (suspended(0), Pending, 1, 1, &["sus-0", "sus-2"]),
        (failed(), Failed, 1, 1, &["sus-0", "sus-2"]),
        (RunEvent::Resumed { model: None }, Pending, 1, 1, &["sus-0", "sus-2"]),
        // An answered call is to be run, which does not wait for the other answer.
        (tool_answered(0), Running, 1, 1, &["sus-2"]),
        (tools_started(&[0]), Running, 1, 1, &["sus-2"]),
        (tool_finished(0), Pending, 1, 2, &["sus-2"]),
        (tool_answered(2), Running, 1, 2, &[]),
        (tools_started(&[2]), Running, 1, 2, &[]),
        (tool_finished(2), Running, 1, 3, &[]),
        (answered(1), Running, 2, 3, &[]),
        (tools_started(&[0]), Running, 2, 3, &[]),
        // The second turn was the last that this run may have.
        (tool_finished(0), Incomplete, 2, 4, &[]),
        (
            RunEvent::Finished { status: RunStatus::Incomplete, limit: Some("maxTurns".into()), text: None },
            Incomplete,
            2,
            4,
            &[],
        ),
    ];
    let (begun, changed) = (UNIX_EPOCH + Duration::from_secs(1), UNIX_EPOCH + Duration::from_secs(2));
    let mut events = Vec::new();
    for (event, status, turns, tool_calls, open) in steps {
        events.push(event);
        let summary = RunSummary::of("other-id", &events, begun, changed).unwrap();
        let requests: Vec<&str> = summary.pending.iter().map(|request| request.id.as_str()).collect();
        let found = (summary.status, summary.turns, summary.tool_calls, summary.total_tokens);
        assert_eq!(found, (status, turns, tool_calls, u64::from(turns) * 7), "after {:?}", events.last());
        assert_eq!(requests, open, "after {:?}", events.last());
        assert_eq!((summary.started_at, summary.updated_at), (begun, changed));
        assert_eq!(summary.run_id, "other-id");
    }
    let done = RunSummary::of("a", &[started(), answered(0)], begun, changed).unwrap();
    assert_eq!((done.status, done.turns, done.tool_calls), (Done, 1, 0));
}

// RUN-28: what is no run has no summary
#[test]
fn events_of_no_run_are_an_error() {
    let of = |events: &[RunEvent]| RunSummary::of("a", events, UNIX_EPOCH, UNIX_EPOCH).unwrap_err();
    assert_eq!(of(&[]), RunError::NotStarted { found: "nothing" });
    assert_eq!(of(&[failed()]), RunError::NotStarted { found: "failed" });
    assert!(matches!(of(&[started(), started()]), RunError::Unexpected { event: "started", .. }));
}

// RUN-28
#[test]
fn states_have_the_names_of_the_wire() {
    use RunSummaryStatus::{Done, Failed, Incomplete, Pending, Running};
    for status in [Running, Pending, Done, Incomplete, Failed] {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        assert_eq!(serde_json::from_value::<RunSummaryStatus>(status.as_str().into()).unwrap(), status);
    }
    assert_eq!(Incomplete.as_str(), "incomplete");
}

// RUN-9: clones of both logs are the same log, and neither shows what is in it
#[tokio::test]
async fn clones_share_and_debug_hides() {
    let temporary = tempfile::tempdir().unwrap();
    let memory = MemoryRunLog::default();
    let file = FileRunLog::open(temporary.path()).unwrap();
    memory.clone().append("a", 0, &[started()]).await.unwrap();
    file.clone().append("a", 0, &[started()]).await.unwrap();
    assert!(memory.read("a", 0).await.unwrap() == file.read("a", 0).await.unwrap());
    assert_eq!(format!("{memory:?}"), "MemoryRunLog(1 runs)");
    assert!(format!("{file:?}").starts_with("FileRunLog { dir: "));
}
