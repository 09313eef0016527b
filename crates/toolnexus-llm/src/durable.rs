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

mod error;
mod fork;
mod resumption;

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Answer, Toolkit};

pub use error::{DurableError, DurableRunError};
pub(crate) use fork::exists;
pub(crate) use resumption::{Resumption, TakenUp};

use crate::driver::Events;
use crate::execution::{Execution, Start};
use crate::run::ModelCall;
use crate::run_log::RunLog;
use crate::stream::EventQueue;
use crate::{Client, ClientError, EventSink, ModelBoundary, Prompt, RunResult, RunStream, Transcript};

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
    /// The conversation to load (unless there is a `history`) and to save under. Empty: none. A run is
    /// saved as a whole, whenever it pauses or ends: of two runs on one conversation the last one wins.
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
    /// The answer to one of the open requests, named by its `id`. It belongs to the run once the log has
    /// it: when a resume with an answer fails, look at [`RunLog::list`] whether the request is still
    /// open, or resume without it first.
    pub answer: Option<Answer>,
    /// What becomes of calls that were running when the process ended.
    pub in_doubt: InDoubt,
    /// Receives events as they happen, [`StreamEvent::Resumed`](crate::StreamEvent::Resumed) first.
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
    /// As [`Client::run`], with the run's id; [`DurableError::Exists`]; what the log reports. A run that
    /// is stopped at its very end may have its result in the log all the same.
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
    /// A finished run gives its stored result; one that waits for an answer, and gets none and has no
    /// resolver to ask, is still pending. In both cases nothing is called, written or measured.
    ///
    /// * **From the log**: prompt, transcript, system text, `max_turns`, the conversation's id, and what
    ///   hooks replaced. Turns and tokens are those of the whole run, also in the `run` metric, of which
    ///   there is one each time the run is driven.
    /// * **From this client**: model, tools, hooks, resolver, store, retries and `timeout_ms`.
    /// * **Calls** whose result is in the log keep it. Those that ran when the process ended are decided
    ///   upon by [`InDoubt`]; `before_tool` is not asked about them again. All others are yet to start.
    /// * **Events**: what the log has was told before and is not told again, so a result may come
    ///   without its `ToolCall`.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use toolnexus_core::Answer;
    /// use toolnexus_llm::run_log::FileRunLog;
    /// use toolnexus_llm::{Client, ResumeOptions, Toolkit};
    /// # async fn example(client: Client, toolkit: Toolkit) -> Result<(), Box<dyn std::error::Error>> {
    /// let log = Arc::new(FileRunLog::open("runs")?);
    /// let mut result = client.resume(&toolkit, ResumeOptions::new(log.clone(), "import-7")).await?;
    /// while let Some(request) = &result.pending {
    ///     println!("{}", request.prompt);
    ///     let answer = Answer { id: request.id.clone(), ok: true, ..Default::default() };
    ///     let options = ResumeOptions { answer: Some(answer), ..ResumeOptions::new(log.clone(), "import-7") };
    ///     result = client.resume(&toolkit, options).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Client::run_durable`]; [`DurableError::UnknownRequest`], [`DurableError::StyleMismatch`];
    /// [`RunLogError::Conflict`](crate::run_log::RunLogError::Conflict) when another process goes on with the run.
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
    /// first. Both belong to the same conversation, if to any, and open requests have the same ids.
    ///
    /// # Errors
    /// [`DurableError::NotABoundary`] when tools are running at that place or a model call is being
    /// prepared, [`DurableError::Exists`], and what the log reports.
    pub async fn fork(
        &self,
        log: &dyn RunLog,
        run_id: &str,
        at: u64,
        new_id: &str,
    ) -> Result<(), ClientError> {
        fork::fork(log, run_id, at, new_id).await
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
