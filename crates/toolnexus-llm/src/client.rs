//! The client: options, and the ways to start a run.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolnexus_core::content::ReplacedPart;
use toolnexus_core::http::HttpTransport;
use toolnexus_core::{BoxFuture, Toolkit};

use crate::driver::{Driver, Events};
use crate::endpoint::Endpoint;
use crate::in_process::InProcess;
use crate::resolver::Resolver;
use crate::run::{Run, RunStarted};
use crate::stream::EventQueue;
use crate::transport::ReqwestTransport;
use crate::{
    AskOptions, ClientError, ClientOptions, Conversation, ConversationStore, InMemoryConversationStore,
    Prompt, RunOptions, RunResult, RunStream, StreamOptions,
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
    /// What is particular about a model in this process.
    pub(crate) in_process: Option<InProcess>,
}

/// A client. Opens nothing, sends nothing and cannot fail: options that cannot be used are
/// reported by the first call.
pub fn create_client(options: ClientOptions) -> Client {
    client_of(options, None)
}

pub(crate) fn client_of(mut options: ClientOptions, in_process: Option<InProcess>) -> Client {
    let transport = options.http_client.take().unwrap_or_else(|| Arc::new(ReqwestTransport::default()));
    let store = options.store.take().unwrap_or_else(|| Arc::new(InMemoryConversationStore::default()));
    Client {
        inner: Arc::new(ClientInner {
            options,
            transport,
            store,
            endpoint: OnceLock::new(),
            warned: Mutex::default(),
            warned_params: Mutex::default(),
            in_process,
        }),
    }
}

/// How one run is to be driven.
struct Plan {
    options: RunOptions,
    events: Events,
    streamed: bool,
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
        let events = options.on_event.take().map_or(Events::None, Events::Sink);
        let plan = Plan { options, events, streamed: false };
        self.clone().carry_out(prompt.into(), toolkit.clone(), plan).await
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
        self.clone().carry_out(prompt.into(), toolkit.clone(), Plan { options, events, streamed }).await
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
        let options = RunOptions {
            history: options.history,
            id: options.id,
            on_event: None,
            cancel: options.cancel,
            data: options.data,
        };
        let plan = Plan { options, events: Events::Queue(queue.clone()), streamed: true };
        RunStream::new(queue, Box::pin(self.clone().carry_out(prompt.into(), toolkit.clone(), plan)))
    }

    /// A conversation that keeps its own transcript, apart from the client's store.
    pub fn conversation(&self, toolkit: &Toolkit) -> Conversation {
        Conversation::new(self.clone(), toolkit.clone())
    }

    /// The store that `ask` reads and writes: the one given, or this client's own.
    pub fn conversation_store(&self) -> Arc<dyn ConversationStore> {
        Arc::clone(&self.inner.store)
    }

    async fn carry_out(
        self,
        prompt: Prompt,
        toolkit: Toolkit,
        mut plan: Plan,
    ) -> Result<RunResult, ClientError> {
        if plan.streamed
            && let Some(in_process) = self.inner.in_process
        {
            in_process.check_streaming()?;
        }
        let caller = plan.options.cancel.take();
        self.bounded(caller, |cancel| Box::pin(self.load_and_drive(prompt, toolkit, plan, cancel))).await
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
            result = work => result?,
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

    async fn load_and_drive(
        &self,
        prompt: Prompt,
        toolkit: Toolkit,
        plan: Plan,
        cancel: CancellationToken,
    ) -> Result<RunResult, ClientError> {
        let options = &self.inner.options;
        let Plan { options: RunOptions { mut history, id, data, .. }, events, streamed } = plan;
        if history.is_empty() && !id.is_empty() {
            history = self.inner.store.get(&id).await.map_err(ClientError::Store)?.unwrap_or_default();
        }
        let run = Run::start(RunStarted {
            run_id: String::new(),
            style: options.style,
            model: options.model.clone(),
            system: system_text(&options.system_prompt, toolkit.skills_prompt()),
            history,
            prompt,
            max_turns: match options.max_turns {
                0 => DEFAULT_MAX_TURNS,
                given => given,
            },
            conversation_id: (!id.is_empty()).then(|| id.clone()),
        });
        let resolver = Resolver::of(options, &toolkit);
        let driver =
            Driver { client: Arc::clone(&self.inner), toolkit, events, streamed, cancel, data, resolver };
        let result = driver.drive(run).await?;
        driver.check_cancelled()?;
        let refused = result.limit.as_deref() == Some(crate::result::limits::CONTENT_PART);
        if !id.is_empty() && !refused {
            self.inner.store.save(&id, &result.messages).await.map_err(ClientError::Store)?;
        }
        driver.events.tell_done(&result);
        Ok(result)
    }
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
