//! Runs that survive their process.
//!
//! A durable run writes its events to a [`RunLog`] ahead of what they stand for: a tool starts after
//! its start is written, a question is asked after the suspension is, the result is returned after the
//! end is. [`Client::resume`] reads them back, folds them into the [`Run`] they were, and goes on.
//!
//! ```text
//! run_durable ──▶ started … model_answered, tool_started … (the process dies)
//! resume      ──▶ resumed, tool_finished (in doubt) … model_answered, finished
//! resume      ──▶ the stored result, nothing is called
//! ```

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Answer, Request, Style, Toolkit, is_relay_request, new_request_id};

use crate::client::{Begun, Execution, Start};
use crate::driver::{Doubts, Events, Recorder, Reported};
use crate::run::{ModelCall, OpenRequest, PlannedCall, Run, RunEvent};
use crate::run_log::{RunLog, RunLogError, check_run_id};
use crate::stream::EventQueue;
use crate::{
    Client, ClientError, ClientOptions, EventSink, ModelBoundary, Prompt, RunResult, RunStream, Transcript,
};

/// What becomes of a call whose process ended while its tool ran: nobody knows whether it had an
/// effect. A tool that says it only reads is run again whatever is chosen here.
#[derive(Clone, Default)]
pub enum InDoubt {
    /// The model reads that the call was interrupted, and decides.
    #[default]
    Report,
    /// The tool is run again. For tools that can deduplicate by
    /// [`idempotency_key`](toolnexus_core::ToolContext::idempotency_key).
    Retry,
    /// Whoever answers suspensions is asked whether to run it again; a refusal is reported.
    Ask,
    /// Decided for each call. [`InDoubt::Decide`] as its answer counts as `Report`.
    Decide(Arc<dyn Fn(&ModelCall) -> InDoubt + Send + Sync>),
}

impl std::fmt::Debug for InDoubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            InDoubt::Report => "Report",
            InDoubt::Retry => "Retry",
            InDoubt::Ask => "Ask",
            InDoubt::Decide(_) => "Decide",
        })
    }
}

/// Options of [`Client::run_durable`].
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_llm::RunDurableOptions;
/// use toolnexus_llm::run_log::MemoryRunLog;
/// let options = RunDurableOptions {
///     run_id: "import-2026-11-30".into(),
///     ..RunDurableOptions::new(Arc::new(MemoryRunLog::default()))
/// };
/// assert!(options.cancel.is_none());
/// ```
#[derive(Clone)]
pub struct RunDurableOptions {
    /// Where the run is written.
    pub log: Arc<dyn RunLog>,
    /// The run's id: 1 to 128 of `[A-Za-z0-9._-]`. Empty: a new UUIDv7.
    pub run_id: String,
    /// The transcript to continue, used verbatim.
    pub history: Transcript,
    /// The conversation to load (unless there is a `history`) and to save under. Empty: none.
    pub id: String,
    /// Receives events as they happen.
    pub on_event: Option<EventSink>,
    /// Ends the run early; it can be resumed.
    pub cancel: Option<CancellationToken>,
    /// State of the host, handed to every tool. It is not written to the log.
    pub data: Map<String, Value>,
    /// The model boundary of this run, instead of the client's.
    pub boundary: Option<Arc<dyn ModelBoundary>>,
}

impl RunDurableOptions {
    /// Options for a run in this log, under a new id.
    pub fn new(log: Arc<dyn RunLog>) -> Self {
        RunDurableOptions {
            log,
            run_id: String::new(),
            history: Transcript::new(),
            id: String::new(),
            on_event: None,
            cancel: None,
            data: Map::new(),
            boundary: None,
        }
    }
}

/// Options of [`Client::resume`].
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_llm::{InDoubt, ResumeOptions};
/// use toolnexus_llm::run_log::MemoryRunLog;
/// let log = Arc::new(MemoryRunLog::default());
/// let options = ResumeOptions { in_doubt: InDoubt::Retry, ..ResumeOptions::new(log, "import-2026-11-30") };
/// assert!(options.answer.is_none());
/// ```
#[derive(Clone)]
pub struct ResumeOptions {
    /// Where the run is written.
    pub log: Arc<dyn RunLog>,
    /// The run to go on with.
    pub run_id: String,
    /// The answer to one of the open requests, named by its `id`.
    pub answer: Option<Answer>,
    /// What becomes of calls that were running when the process ended.
    pub in_doubt: InDoubt,
    /// Receives events as they happen.
    pub on_event: Option<EventSink>,
    /// Ends the run early; it can be resumed again.
    pub cancel: Option<CancellationToken>,
    /// State of the host, handed to every tool.
    pub data: Map<String, Value>,
    /// The model boundary of this run, instead of the client's.
    pub boundary: Option<Arc<dyn ModelBoundary>>,
}

impl ResumeOptions {
    /// Options for going on with a run of this log.
    pub fn new(log: Arc<dyn RunLog>, run_id: impl Into<String>) -> Self {
        ResumeOptions {
            log,
            run_id: run_id.into(),
            answer: None,
            in_doubt: InDoubt::default(),
            on_event: None,
            cancel: None,
            data: Map::new(),
            boundary: None,
        }
    }
}

/// Why a durable run cannot be begun, resumed or forked as asked. Nothing was written or called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurableError {
    /// The log has a run of this id already.
    #[error("the run \"{run_id}\" exists already: resume it, or take another id")]
    Exists {
        /// The id.
        run_id: String,
    },
    /// The answer belongs to none of the open requests.
    #[error("the run has no open request \"{id}\"; open are: {}", list(open))]
    UnknownRequest {
        /// The id that the answer names.
        id: String,
        /// The ids of the open requests.
        open: Vec<String>,
    },
    /// The run was begun in another dialect.
    #[error(
        "the run was begun in style \"{log}\" and this client speaks \"{client}\": resume it with a client of the first"
    )]
    StyleMismatch {
        /// The style of the run.
        log: Style,
        /// The style of the client.
        client: Style,
    },
    /// A run cannot be forked in the midst of a step: where tools run, or between what a hook replaced
    /// for a model call and the model's answer.
    #[error("the run cannot be forked at event {at}, in the midst of a step: the nearest place is {nearest}")]
    NotABoundary {
        /// The place that was asked for.
        at: u64,
        /// The nearest place where it can be forked.
        nearest: u64,
    },
}

fn list(ids: &[String]) -> String {
    if ids.is_empty() { "none".into() } else { ids.join(", ") }
}

/// Why a durable run ended without a result, and which run it was: it can be resumed.
#[derive(Debug, thiserror::Error)]
#[error("run {run_id}: {error}")]
pub struct DurableRunError {
    /// The run in its log.
    pub run_id: String,
    /// What went wrong.
    #[source]
    pub error: ClientError,
}

impl From<DurableRunError> for ClientError {
    fn from(failed: DurableRunError) -> Self {
        failed.error
    }
}

impl Client {
    /// Runs a prompt as [`Client::run`] does and writes every step to a log first, so that
    /// [`Client::resume`] can go on with the run in another process.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use toolnexus_llm::run_log::FileRunLog;
    /// use toolnexus_llm::{Client, RunDurableOptions, Toolkit};
    /// # async fn example(client: Client, toolkit: Toolkit) -> Result<(), Box<dyn std::error::Error>> {
    /// let log = Arc::new(FileRunLog::open("runs")?);
    /// let result = client.run_durable("Import the new orders.", &toolkit, RunDurableOptions::new(log)).await?;
    /// println!("{}: {}", result.run_id.unwrap_or_default(), result.text);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Client::run`], with the run's id; [`DurableError::Exists`]; what the log reports.
    pub async fn run_durable(
        &self,
        prompt: impl Into<Prompt>,
        toolkit: &Toolkit,
        options: RunDurableOptions,
    ) -> Result<RunResult, DurableRunError> {
        let (run_id, execution) = begin(prompt.into(), toolkit, options, None);
        self.clone().execute(execution).await.map_err(|error| DurableRunError { run_id, error })
    }

    /// [`Client::run_durable`] as a stream of events.
    pub fn stream_durable(
        &self,
        prompt: impl Into<Prompt>,
        toolkit: &Toolkit,
        options: RunDurableOptions,
    ) -> RunStream {
        let queue = EventQueue::default();
        let (run_id, execution) = begin(prompt.into(), toolkit, options, Some(queue.clone()));
        RunStream::new(queue, Box::pin(self.clone().execute(execution))).with_run_id(run_id)
    }

    /// Goes on with a run of a log, with this client's model and this toolkit's tools.
    ///
    /// A finished run gives its stored result; one that waits for an answer, and gets none, is still
    /// pending. In both cases nothing is called and nothing written.
    ///
    /// # Errors
    /// As [`Client::run_durable`]; [`DurableError::UnknownRequest`], [`DurableError::StyleMismatch`];
    /// [`RunLogError::Conflict`] when another process goes on with the run.
    pub async fn resume(
        &self,
        toolkit: &Toolkit,
        options: ResumeOptions,
    ) -> Result<RunResult, DurableRunError> {
        let run_id = options.run_id.clone();
        let execution = go_on(toolkit, options, None);
        self.clone().execute(execution).await.map_err(|error| DurableRunError { run_id, error })
    }

    /// [`Client::resume`] as a stream of events, of which the first is
    /// [`StreamEvent::Resumed`](crate::StreamEvent::Resumed) when the run goes on.
    pub fn stream_resume(&self, toolkit: &Toolkit, options: ResumeOptions) -> RunStream {
        let queue = EventQueue::default();
        let run_id = options.run_id.clone();
        let execution = go_on(toolkit, options, Some(queue.clone()));
        RunStream::new(queue, Box::pin(self.clone().execute(execution))).with_run_id(run_id)
    }

    /// Copies the first `at` events of a run into a new run, which can then be resumed apart from the
    /// first.
    ///
    /// # Errors
    /// [`DurableError::NotABoundary`] when tools are running at that place or a model call is being
    /// prepared, [`DurableError::Exists`], and what the log reports.
    pub async fn fork(
        &self,
        log: &Arc<dyn RunLog>,
        run_id: &str,
        at: u64,
        new_id: &str,
    ) -> Result<(), ClientError> {
        fork(&**log, run_id, at, new_id).await
    }
}

fn begin(
    prompt: Prompt,
    toolkit: &Toolkit,
    options: RunDurableOptions,
    queue: Option<EventQueue>,
) -> (String, Execution) {
    let run_id = match options.run_id {
        given if !given.is_empty() => given,
        _ => uuid::Uuid::now_v7().to_string(),
    };
    let start = Start::Durable {
        prompt,
        history: options.history,
        id: options.id,
        log: options.log,
        run_id: run_id.clone(),
    };
    let execution = Execution {
        toolkit: toolkit.clone(),
        streamed: queue.is_some(),
        events: Events::of(queue, options.on_event),
        cancel: options.cancel,
        data: options.data,
        boundary: options.boundary,
        start,
    };
    (run_id, execution)
}

fn go_on(toolkit: &Toolkit, options: ResumeOptions, queue: Option<EventQueue>) -> Execution {
    Execution {
        toolkit: toolkit.clone(),
        streamed: queue.is_some(),
        events: Events::of(queue, options.on_event),
        cancel: options.cancel,
        data: options.data,
        boundary: options.boundary,
        start: Start::Resume {
            log: options.log,
            run_id: options.run_id,
            answer: options.answer,
            in_doubt: options.in_doubt,
        },
    }
}

async fn fork(log: &dyn RunLog, run_id: &str, at: u64, new_id: &str) -> Result<(), ClientError> {
    check_run_id(run_id)?;
    check_run_id(new_id)?;
    let events = log.read(run_id, 0).await?;
    let nearest = nearest_boundary(&events, at)?;
    if nearest != at {
        return Err(DurableError::NotABoundary { at, nearest }.into());
    }
    let mut copied: Vec<RunEvent> =
        events.into_iter().take(usize::try_from(at).unwrap_or(usize::MAX)).collect();
    if let Some(RunEvent::Started(started)) = copied.first_mut() {
        started.run_id = new_id.to_owned();
    }
    log.append(new_id, 0, &copied).await.map_err(|error| exists(error, new_id))
}

/// A log that has events where a run was to begin has that run.
pub(crate) fn exists(error: RunLogError, run_id: &str) -> ClientError {
    match error {
        RunLogError::Conflict { .. } => DurableError::Exists { run_id: run_id.to_owned() }.into(),
        other => other.into(),
    }
}

/// The number of events nearest to `at` after which no step is under way.
fn nearest_boundary(events: &[RunEvent], at: u64) -> Result<u64, ClientError> {
    let mut run = Run::replay(events.iter().take(1))?;
    let mut nearest = 1;
    let mut len = 1;
    for event in events.iter().skip(1) {
        run.apply(event)?;
        len += 1;
        let asks_model = matches!(event, RunEvent::MessagesReplaced { .. } | RunEvent::ToolsReplaced { .. });
        if !asks_model && !run.has_running_calls() && at.abs_diff(len) < at.abs_diff(nearest) {
            nearest = len;
        }
    }
    Ok(nearest)
}

/// A run of a log that is to go on.
pub(crate) struct Resumption {
    pub(crate) log: Arc<dyn RunLog>,
    pub(crate) run_id: String,
    pub(crate) answer: Option<Answer>,
    pub(crate) in_doubt: InDoubt,
    /// Whether open requests are put to somebody.
    pub(crate) resolves: bool,
}

/// What became of a run that was to go on.
pub(crate) enum TakenUp {
    /// There is nothing to do.
    Over(Box<RunResult>),
    /// It can be driven.
    GoesOn(Box<Begun>),
}

impl Resumption {
    /// Reads the run back and settles what its process left behind. What that comes to is noted and
    /// still to be saved.
    pub(crate) async fn take_up(
        self,
        options: &ClientOptions,
        toolkit: &Toolkit,
    ) -> Result<TakenUp, ClientError> {
        check_run_id(&self.run_id)?;
        let mut events = self.log.read(&self.run_id, 0).await?;
        let mut run = Run::replay(&events)?;
        if run.style() != options.style {
            return Err(DurableError::StyleMismatch { log: run.style(), client: options.style }.into());
        }
        let answers = match &self.answer {
            Some(answer) => answered(&run, answer)?,
            None => Vec::new(),
        };
        if run.is_sealed() {
            let result = run.into_result().map(Box::new);
            return result
                .map(TakenUp::Over)
                .ok_or_else(|| crate::run::RunError::NotStarted { found: "nothing" }.into());
        }
        if answers.is_empty()
            && !self.resolves
            && let Some(result) = run.clone().paused()
        {
            return Ok(TakenUp::Over(Box::new(result)));
        }
        let recorder = Recorder::new(self.log, self.run_id, events.len() as u64);
        let (settled, doubts) = doubts(&run, &self.in_doubt, toolkit);
        let model = Some(options.model.clone()).filter(|model| model != run.model());
        let taken_up = RunEvent::Resumed { model };
        for event in std::iter::once(taken_up).chain(answers).chain(settled) {
            run.apply(&event)?;
            recorder.note(event.clone());
            events.push(event);
        }
        let begun = Begun { run, recorder: Some(recorder), doubts, events, resumed: true };
        Ok(TakenUp::GoesOn(Box::new(begun)))
    }
}

/// What becomes of the calls in doubt, and the events that say so.
fn doubts(run: &Run, policy: &InDoubt, toolkit: &Toolkit) -> (Vec<RunEvent>, Doubts) {
    let mut events = Vec::new();
    let mut doubts = Doubts::default();
    let snapshot = toolkit.snapshot();
    for planned in run.running_calls() {
        let hints = snapshot.get(&planned.call.name).and_then(|tool| tool.hints);
        let decided = match policy {
            // No tool ran: the call has its result already, and its hook was looking at that.
            _ if planned.reply.is_some() => InDoubt::Retry,
            _ if hints.is_some_and(|hints| hints.read_only) => InDoubt::Retry,
            InDoubt::Decide(decide) => decide(planned.call),
            other => other.clone(),
        };
        match decided {
            InDoubt::Retry => doubts.again.push(planned.index),
            InDoubt::Ask => events.push(doubt(&planned)),
            InDoubt::Report | InDoubt::Decide(_) => {
                let (index, result) = (planned.index, Arc::new(Run::interrupted_result()));
                events.push(RunEvent::ToolFinished { index, result: Arc::clone(&result) });
                doubts.reported.push(Reported { index, call: planned.call.clone(), result });
            }
        }
    }
    (events, doubts)
}

/// The question whether to run a call again.
fn doubt(planned: &PlannedCall<'_>) -> RunEvent {
    let args = Value::Object((**planned.args).clone());
    let name = &planned.call.name;
    let prompt = format!("the process stopped while the tool {name} ran with {args}; run it again?");
    let data = Map::from_iter([("tool".to_owned(), name.as_str().into()), ("args".to_owned(), args)]);
    let request = Request {
        id: new_request_id(),
        kind: "in_doubt".into(),
        prompt: prompt.clone(),
        data: Some(data),
        ..Default::default()
    };
    RunEvent::Suspended { index: planned.index, request, output: prompt, in_doubt: true }
}

/// What an answer settles: its own request or, where it answers the merged request of relay tools that
/// a pending result shows, that of each relay call it has a result for.
pub(crate) fn answered(run: &Run, answer: &Answer) -> Result<Vec<RunEvent>, ClientError> {
    let open = run.open_requests();
    let event = |asked: &OpenRequest<'_>| {
        let request_id = asked.request.id.clone();
        RunEvent::Answered { answer: Answer { id: request_id.clone(), ..answer.clone() }, request_id }
    };
    let merged = run.halting_request().is_some_and(|asked| asked.id == answer.id && is_relay_request(&asked));
    let results = answer.data.as_ref().and_then(|data| data.get("results")).and_then(Value::as_array);
    let has_result_for = |call: &ModelCall| {
        let mut ids =
            results.into_iter().flatten().filter_map(|entry| entry.get("id").and_then(Value::as_str));
        ids.any(|id| id == call.id)
    };
    let relayed = |asked: &&OpenRequest<'_>| {
        merged && is_relay_request(asked.request) && (!answer.ok || has_result_for(asked.call))
    };
    let settled: Vec<RunEvent> = open.iter().filter(relayed).map(event).collect();
    if !settled.is_empty() {
        return Ok(settled);
    }
    // Of requests with one id, a tool's own, the first: a grant for one call is none for another.
    match open.iter().find(|asked| asked.request.id == answer.id) {
        Some(asked) => Ok(vec![event(asked)]),
        None => {
            let open = open.iter().map(|asked| asked.request.id.clone()).collect();
            Err(DurableError::UnknownRequest { id: answer.id.clone(), open }.into())
        }
    }
}
