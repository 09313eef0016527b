//! The client: options, and the ways to start a run.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolnexus_core::content::ReplacedPart;
use toolnexus_core::http::HttpTransport;
use toolnexus_core::{Answer as RequestAnswer, BoxFuture, Toolkit};
use tracing::Instrument as _;

use crate::boundary::Boundary;
use crate::driver::{Answer, Doubts, Driver, Events, ModelExchange, Observed, Recorder, RunMeter, Tally};
use crate::durable::{InDoubt, Resumption, TakenUp, exists};
use crate::endpoint::Endpoint;
use crate::in_process::InProcess;
use crate::metric::Metrics;
use crate::resolver::Resolver;
use crate::run::{Run, RunEvent, RunStarted};
use crate::run_log::{RunLog, check_run_id};
use crate::stream::EventQueue;
use crate::tiers::{TierPlan, TierPlans};
use crate::transport::ReqwestTransport;
use crate::wire::wire;
use crate::{
    AskOptions, ClientError, ClientOptions, Conversation, ConversationStore, InMemoryConversationStore,
    ModelBoundary, Prompt, RunOptions, RunResult, RunStream, StreamEvent, StreamOptions, ToolTier,
    Transcript,
};

/// The most model calls of a run that does not say.
const DEFAULT_MAX_TURNS: u32 = 10;

/// A model behind a base URL, ready to run prompts over toolkits. Clones share everything.
///
/// ```no_run
/// use toolnexus_llm::{ClientOptions, Toolkit, create_client};
/// # async fn example() -> Result<(), toolnexus_llm::ClientError> {
/// let client = create_client(ClientOptions {
///     base_url: "https://api.openai.com/v1".into(),
///     model: "gpt-5-mini".into(),
///     ..Default::default()
/// });
/// let result = client.run("What is the capital of France?", &Toolkit::default()).await?;
/// println!("{}", result.text);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

pub(crate) struct ClientInner {
    pub(crate) options: ClientOptions,
    pub(crate) transport: Arc<dyn HttpTransport>,
    pub(crate) store: Arc<dyn ConversationStore>,
    /// Known once and for all when the key was given.
    pub(crate) endpoint: OnceLock<Arc<Endpoint>>,
    /// The parts that text stood in for and that a warning was given for. The style never changes.
    pub(crate) warned: Mutex<HashSet<ReplacedPart>>,
    /// Keys of `request_params` that a warning was given for.
    pub(crate) warned_params: Mutex<HashSet<String>>,
    pub(crate) metrics: Metrics,
    pub(crate) tier_plans: TierPlans,
    /// What is particular about a model in this process.
    pub(crate) in_process: Option<InProcess>,
}

impl ClientInner {
    /// The frozen plan of a toolkit; `None` without tiers.
    fn tier_plan(&self, toolkit: &Toolkit) -> Option<Arc<TierPlan>> {
        let tiers = self.options.tool_tiers.as_ref()?;
        Some(self.tier_plans.plan_for(toolkit, self.options.style, tiers))
    }
}

/// A client. Opens nothing, sends nothing and cannot fail: options that cannot be used are
/// reported by the first call.
pub fn create_client(options: ClientOptions) -> Client {
    client_of(options, None)
}

pub(crate) fn client_of(mut options: ClientOptions, in_process: Option<InProcess>) -> Client {
    let transport = options.http_client.take().unwrap_or_else(|| Arc::new(ReqwestTransport::default()));
    let store = options.store.take().unwrap_or_else(|| Arc::new(InMemoryConversationStore::default()));
    let metrics = Metrics::to(options.on_metric.take());
    Client {
        inner: Arc::new(ClientInner {
            metrics,
            options,
            transport,
            store,
            endpoint: OnceLock::new(),
            warned: Mutex::default(),
            warned_params: Mutex::default(),
            tier_plans: TierPlans::default(),
            in_process,
        }),
    }
}

/// One run, and how it is to be driven.
pub(crate) struct Execution {
    pub(crate) toolkit: Toolkit,
    pub(crate) events: Events,
    /// Whether the model's answers are streamed.
    pub(crate) streamed: bool,
    pub(crate) cancel: Option<CancellationToken>,
    pub(crate) data: Map<String, Value>,
    /// Instead of the client's.
    pub(crate) boundary: Option<Arc<dyn ModelBoundary>>,
    pub(crate) start: Start,
}

/// Where a run begins.
pub(crate) enum Start {
    /// With a prompt.
    New {
        prompt: Prompt,
        history: Transcript,
        /// The conversation; empty for none.
        id: String,
    },
    /// With a prompt, and written to a log.
    Durable { prompt: Prompt, history: Transcript, id: String, log: Arc<dyn RunLog>, run_id: String },
    /// Where a log has it.
    Resume { log: Arc<dyn RunLog>, run_id: String, answer: Option<RequestAnswer>, in_doubt: InDoubt },
}

impl Client {
    /// Runs a prompt over a toolkit until the model answers without asking for tools.
    ///
    /// # Errors
    /// Configuration that cannot be used, a provider's error, a broken connection, an unreadable
    /// answer, the deadline. A tool's failure is not an error: the model reads it.
    pub async fn run(&self, prompt: impl Into<Prompt>, toolkit: &Toolkit) -> Result<RunResult, ClientError> {
        self.run_with(prompt, toolkit, RunOptions::default()).await
    }

    /// [`Client::run`] with options.
    ///
    /// # Errors
    /// As [`Client::run`], and the store's.
    pub async fn run_with(
        &self,
        prompt: impl Into<Prompt>,
        toolkit: &Toolkit,
        mut options: RunOptions,
    ) -> Result<RunResult, ClientError> {
        let events = Events::of(None, options.on_event.take());
        self.clone().execute(execution(prompt.into(), toolkit, options, events, false)).await
    }

    /// Runs a prompt in the conversation `id`: continues its transcript and saves the new one.
    /// With an empty `id`, the same as [`Client::run`].
    ///
    /// # Errors
    /// As [`Client::run`], and the store's. Nothing is saved on an error.
    pub async fn ask(
        &self,
        prompt: impl Into<Prompt>,
        toolkit: &Toolkit,
        id: &str,
    ) -> Result<RunResult, ClientError> {
        self.ask_with(prompt, toolkit, id, AskOptions::default()).await
    }

    /// [`Client::ask`] with options.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn ask_with(
        &self,
        prompt: impl Into<Prompt>,
        toolkit: &Toolkit,
        id: &str,
        options: AskOptions,
    ) -> Result<RunResult, ClientError> {
        let streamed = options.on_text.is_some();
        let events = options.on_text.map_or(Events::None, Events::Text);
        let options = RunOptions {
            id: id.to_owned(),
            cancel: options.cancel,
            data: options.data,
            ..Default::default()
        };
        self.clone().execute(execution(prompt.into(), toolkit, options, events, streamed)).await
    }

    /// Runs a prompt as a stream of events. The run begins when the stream is first polled and is
    /// cancelled when it is dropped.
    pub fn stream(&self, prompt: impl Into<Prompt>, toolkit: &Toolkit) -> RunStream {
        self.stream_with(prompt, toolkit, StreamOptions::default())
    }

    /// [`Client::stream`] with options. A conversation is saved before its `Done` event.
    pub fn stream_with(
        &self,
        prompt: impl Into<Prompt>,
        toolkit: &Toolkit,
        options: StreamOptions,
    ) -> RunStream {
        let queue = EventQueue::default();
        let StreamOptions { history, id, cancel, data, boundary } = options;
        let options = RunOptions { history, id, on_event: None, cancel, data, boundary };
        let execution = execution(prompt.into(), toolkit, options, Events::Queue(queue.clone()), true);
        RunStream::new(queue, Box::pin(self.clone().execute(execution)))
    }

    /// A conversation that keeps its own transcript, apart from the client's store.
    pub fn conversation(&self, toolkit: &Toolkit) -> Conversation {
        Conversation::new(self.clone(), toolkit.clone())
    }

    /// The store that `ask` reads and writes: the one given, or this client's own.
    pub fn conversation_store(&self) -> Arc<dyn ConversationStore> {
        Arc::clone(&self.inner.store)
    }

    /// The tier of each tool of this toolkit, as requests have it: worked out now unless it was before.
    /// `None` when the client has no [`tool_tiers`](ClientOptions::tool_tiers).
    pub fn tool_tier_plan(&self, toolkit: &Toolkit) -> Option<BTreeMap<String, ToolTier>> {
        self.inner.tier_plan(toolkit).map(|plan| plan.tiers().clone())
    }

    /// Forgets the tiers of this toolkit: the next request works them out anew, with the tools and the
    /// usage of then.
    pub fn reset_tool_tiers(&self, toolkit: &Toolkit) {
        self.inner.tier_plans.reset(toolkit);
    }

    /// Forgets the tiers of every toolkit.
    pub fn reset_all_tool_tiers(&self) {
        self.inner.tier_plans.reset_all();
    }

    /// What this client's model calls, tool calls and runs add up to, in the Prometheus text format.
    ///
    /// Of tool names that the toolkit does not know, the first hundred have series of their own; the
    /// others share the one of `tool="(unknown)"`, so that a model cannot fill the memory with them.
    ///
    /// ```
    /// # let client = toolnexus_llm::create_client(Default::default());
    /// assert!(client.metrics().starts_with("# HELP toolnexus_llm_requests_total Total LLM requests.\n"));
    /// ```
    pub fn metrics(&self) -> String {
        self.inner.metrics.text()
    }

    /// Calls the model once with a body of the caller's own, in the style's own shape, and gives the
    /// decoded answer. Key, headers, `request_params`, `body_transform`, retries and `timeout_ms` apply
    /// as in a run; there are no tools, hooks, cache marks or memory.
    ///
    /// ```no_run
    /// use serde_json::json;
    /// # async fn example(client: toolnexus_llm::Client) -> Result<(), toolnexus_llm::ClientError> {
    /// let body = json!({"model": "gpt-5-mini", "messages": [{"role": "user", "content": "hi"}]});
    /// let answer = client.call_provider(body.as_object().cloned().unwrap_or_default()).await?;
    /// println!("{}", answer["choices"][0]["message"]["content"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ClientError::Unsupported`] for a body that asks for a stream, and everything that can go wrong
    /// with a model call in a run.
    pub async fn call_provider(&self, body: Map<String, Value>) -> Result<Value, ClientError> {
        if body.get("stream").is_some_and(|stream| stream == true) {
            return Err(ClientError::Unsupported(
                "call_provider gives whole answers: leave \"stream\": true out of the body, or use stream"
                    .into(),
            ));
        }
        self.bounded(None, |cancel| Box::pin(self.call_once(body, cancel))).await
    }

    async fn call_once(
        &self,
        body: Map<String, Value>,
        cancel: CancellationToken,
    ) -> Result<Value, ClientError> {
        let endpoint = self.inner.endpoint()?;
        let exchange = ModelExchange {
            client: &self.inner,
            endpoint: &endpoint,
            cancel: &cancel,
            model: &self.inner.options.model,
            streamed: false,
        };
        let span = exchange.span();
        let call = async {
            let (answer, reading) = exchange.call_with(body).await?;
            let Answer::Whole(body) = answer else { return Err(endpoint.unreadable("it is a stream", b"")) };
            let read = serde_json::from_slice::<Value>(&body)
                .map_err(|error| endpoint.unreadable(&format!("it is not JSON ({error})"), &body));
            let reported = wire(self.inner.options.style).decode(&body, 0).ok();
            let usage =
                |_: &Value| reported.map(|answer| (answer.usage, answer.finish_reason)).unwrap_or_default();
            reading.settle(read, usage).map(|(answer, _model)| answer)
        };
        call.instrument(span).await
    }

    pub(crate) async fn execute(self, execution: Execution) -> Result<RunResult, ClientError> {
        let Execution { cancel, start, .. } = &execution;
        let recording =
            matches!(start, Start::Durable { .. } | Start::Resume { .. }).then(Recording::default);
        let caller = cancel.clone();
        let meter = RunMeter::start(&self.inner);
        let work = Work { execution, recording: recording.clone(), tally: meter.tally() };
        let ended = self.bounded(caller, |cancel| Box::pin(self.load_and_drive(work, cancel))).await;
        if let (Some(recording), Err(error)) = (&recording, &ended) {
            Box::pin(recording.save_failure(error)).await;
        }
        match &ended {
            // That run had its event when it was driven.
            Ok(Ended { driven: false, .. }) => meter.forget(),
            Ok(Ended { result, .. }) => meter.stop(Ok(result)),
            Err(error) => meter.stop(Err(error)),
        }
        ended.map(|ended| ended.result)
    }

    /// Does work that ends early when the caller cancels it or when `timeout_ms` is over. `work`
    /// is boxed, so that the futures around it stay small: each is moved into the next.
    pub(crate) async fn bounded<'a, T>(
        &'a self,
        caller: Option<CancellationToken>,
        work: impl FnOnce(CancellationToken) -> BoxFuture<'a, Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let timeout_ms = self.inner.options.timeout_ms;
        // Fires for everything inside when it ends early, also by being dropped.
        let cancel = caller.as_ref().map_or_else(CancellationToken::new, CancellationToken::child_token);
        let ends_early = cancel.clone().drop_guard();
        let work = work(cancel);
        let result = tokio::select! {
            biased;
            () = cancelled(caller.as_ref()) => return Err(ClientError::Cancelled),
            () = deadline(timeout_ms) => return Err(ClientError::Timeout { timeout_ms }),
            result = work => match result {
                // Whatever fails when it hears of the cancel was cancelled.
                Err(_) if caller.as_ref().is_some_and(CancellationToken::is_cancelled) => {
                    return Err(ClientError::Cancelled);
                }
                result => result?,
            },
        };
        ends_early.disarm();
        Ok(result)
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.inner.options
    }

    pub(crate) fn inner(&self) -> &ClientInner {
        &self.inner
    }

    async fn load_and_drive(&self, work: Work, cancel: CancellationToken) -> Result<Ended, ClientError> {
        let options = &self.inner.options;
        let Work { execution, recording, tally } = work;
        let Execution { toolkit, events, streamed, data, boundary, start, .. } = execution;
        if let (true, Some(in_process)) = (streamed, self.inner.in_process) {
            in_process.check_streaming()?;
        }
        let begun = match start {
            Start::New { prompt, history, id } => {
                self.begin(prompt, history, id, &toolkit, String::new()).await?
            }
            Start::Durable { prompt, history, id, log, run_id } => {
                check_run_id(&run_id)?;
                let begun = self.begin(prompt, history, id, &toolkit, run_id.clone()).await?;
                let written = Box::pin(log.append(&run_id, 0, &begun.events));
                written.await.map_err(|error| exists(error, &run_id))?;
                Begun { recorder: Some(Recorder::new(log, run_id, 1)), ..begun }
            }
            Start::Resume { log, run_id, answer, in_doubt } => {
                let resolves = Resolver::of(options, &toolkit).is_some();
                let resumed = Resumption { log, run_id, answer, in_doubt, resolves };
                match Box::pin(resumed.take_up(options, &toolkit)).await? {
                    TakenUp::Over(result) => {
                        events.tell_done(&result);
                        return Ok(Ended { result: *result, driven: false });
                    }
                    TakenUp::GoesOn(begun) => *begun,
                }
            }
        };
        let Begun { run, recorder, doubts, events: first, resumed } = begun;
        tally.set(run.turns(), run.finished_calls(), run.usage().total_tokens);
        let recorder = recorder.map(Arc::new);
        if let (Some(recording), Some(recorder)) = (&recording, &recorder) {
            recording.begin(recorder);
        }
        let boundary = boundary.as_ref().or(options.boundary.as_ref());
        let boundary = boundary.map(|boundary| Boundary::new(boundary.open(options.style)));
        let driver = Driver {
            client: Arc::clone(&self.inner),
            resolver: Resolver::of(options, &toolkit),
            tiers: self.inner.tier_plan(&toolkit),
            observed: Observed::begin(|| first),
            toolkit,
            events,
            streamed,
            cancel,
            data,
            boundary,
            recorder,
            tally,
        };
        driver.save().await?;
        if resumed {
            driver.events.tell(|| StreamEvent::Resumed);
        }
        let result = driver.drive(run, doubts).await?;
        driver.check_cancelled()?;
        driver.events.tell_done(&result);
        Ok(Ended { result, driven: true })
    }

    /// A run at its beginning, with what the store knows of its conversation.
    async fn begin(
        &self,
        prompt: Prompt,
        mut history: Transcript,
        id: String,
        toolkit: &Toolkit,
        run_id: String,
    ) -> Result<Begun, ClientError> {
        let options = &self.inner.options;
        if history.is_empty() && !id.is_empty() {
            history = self.inner.store.get(&id).await.map_err(ClientError::Store)?.unwrap_or_default();
        }
        let started = RunStarted {
            style: options.style,
            model: options.model.clone(),
            system: system_text(&options.system_prompt, toolkit.skills_prompt()),
            history,
            prompt,
            max_turns: match options.max_turns {
                0 => DEFAULT_MAX_TURNS,
                given => given,
            },
            conversation_id: (!id.is_empty()).then_some(id),
            run_id,
        };
        let noted = !started.run_id.is_empty() || Observed::is_wanted();
        let events = if noted { vec![RunEvent::Started(started.clone())] } else { Vec::new() };
        Ok(Begun {
            run: Run::start(started),
            recorder: None,
            doubts: Doubts::default(),
            events,
            resumed: false,
        })
    }
}

/// A run that is about to be driven.
pub(crate) struct Begun {
    pub(crate) run: Run,
    pub(crate) recorder: Option<Recorder>,
    /// Calls that were running when its process ended.
    pub(crate) doubts: Doubts,
    /// What happened before, where somebody wants to know.
    pub(crate) events: Vec<RunEvent>,
    /// Whether it goes on after its process ended.
    pub(crate) resumed: bool,
}

/// What an execution came to.
struct Ended {
    result: RunResult,
    /// Not, where a log had the result.
    driven: bool,
}

/// An execution with what outlives its future.
struct Work {
    execution: Execution,
    recording: Option<Recording>,
    tally: Arc<Tally>,
}

/// The recorder of a durable run, for when the run's own future is gone.
#[derive(Clone, Default)]
struct Recording(Arc<OnceLock<Arc<Recorder>>>);

impl Recording {
    fn begin(&self, recorder: &Arc<Recorder>) {
        let _ = self.0.set(Arc::clone(recorder));
    }

    /// Writes why the run failed, unless the log itself did.
    async fn save_failure(&self, error: &ClientError) {
        if let Some(recorder) = self.0.get()
            && !matches!(error, ClientError::RunLog(_))
        {
            recorder.save_failure(told_in_a_log(error)).await;
        }
    }
}

/// The text of an error, without the address that some errors name.
fn told_in_a_log(error: &ClientError) -> String {
    match error {
        ClientError::Transport { source, .. } => format!("no answer of the model could be read: {source}"),
        other => other.to_string(),
    }
}

fn execution(
    prompt: Prompt,
    toolkit: &Toolkit,
    options: RunOptions,
    events: Events,
    streamed: bool,
) -> Execution {
    let RunOptions { history, id, cancel, data, boundary, .. } = options;
    let start = Start::New { prompt, history, id };
    Execution { toolkit: toolkit.clone(), events, streamed, cancel, data, boundary, start }
}

/// The system prompt, then what the toolkit says about skills; empty parts leave no gap.
fn system_text(system_prompt: &str, skills_prompt: &str) -> String {
    match (system_prompt.is_empty(), skills_prompt.is_empty()) {
        (false, false) => format!("{system_prompt}\n\n{skills_prompt}"),
        (_, true) => system_prompt.to_owned(),
        (true, false) => skills_prompt.to_owned(),
    }
}

async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn deadline(timeout_ms: u64) {
    if timeout_ms == 0 {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_millis(timeout_ms)).await;
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("options", &self.inner.options).finish_non_exhaustive()
    }
}
