//! The client: options, and the ways to start a run.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolnexus_core::content::ReplacedPart;
use toolnexus_core::http::HttpTransport;
use toolnexus_core::{BoxFuture, Toolkit};
use tracing::Instrument as _;

use crate::driver::{Answer, Events, ModelExchange};
use crate::endpoint::Endpoint;
use crate::execution::Execution;
use crate::in_process::InProcess;
use crate::metric::Metrics;
use crate::stream::EventQueue;
use crate::tiers::{TierPlan, TierPlans};
use crate::transport::ReqwestTransport;
use crate::wire::wire;
use crate::{
    AskOptions, ClientError, ClientOptions, Conversation, ConversationStore, InMemoryConversationStore,
    Prompt, RunOptions, RunResult, RunStream, StreamOptions, ToolTier,
};

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
    pub(crate) fn tier_plan(&self, toolkit: &Toolkit) -> Option<Arc<TierPlan>> {
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
        self.clone().execute(Execution::new(prompt.into(), toolkit, options, events, false)).await
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
        self.clone().execute(Execution::new(prompt.into(), toolkit, options, events, streamed)).await
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
        let execution = Execution::new(prompt.into(), toolkit, options, Events::Queue(queue.clone()), true);
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
        let exchange = ModelExchange::new(&self.inner, &endpoint, &cancel, &self.inner.options.model, false);
        let span = exchange.span.clone();
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

    pub(crate) fn inner(&self) -> &Arc<ClientInner> {
        &self.inner
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
