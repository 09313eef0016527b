//! A model that lives in this process: a function stands where a provider's API would be.
//!
//! [`create_in_process_client`] makes a [`Client`] like any other, so that toolkits, stores,
//! suspensions, retries and deadlines work as they do over a network. Only its transport differs:
//!
//! ```text
//! Client ── run, wire (OpenAI's shapes), attempts ──> InProcessTransport
//!                                                       │  body ──> InProcessRequest
//!                                                       │           generate(…).await
//!                                                       └─ chat completion <── InProcessResponse
//! ```
//!
//! No key is looked up and no socket is opened. A local inference library, a recorded answer in a
//! test, another agent or a router over several clients can be such a function.

mod answer;
mod chunk;
mod request;
mod transport;

use std::sync::Arc;

use futures::stream::BoxStream;
use toolnexus_core::{BoxError, BoxFuture, Style};

pub use answer::{InProcessResponse, InProcessToolCall};
pub use chunk::InProcessChunk;
pub use request::InProcessRequest;
#[cfg(feature = "acp")]
pub(crate) use request::{role, text_of};

use crate::client::client_of;
use crate::{Client, ClientError, ClientOptions};
use transport::InProcessTransport;

/// Where requests seem to go. The name can never be resolved.
const BASE_URL: &str = "http://in-process.invalid/v1";

/// Stands where a key would, so that none is looked for.
const KEY_SENTINEL: &str = "in-process";

const NO_STREAM: &str = "toolnexus: create_in_process_client does not support streaming — generate returns \
                         a complete answer. Use the non-streaming run, or supply an http_client that streams.";

/// Answers one model call as a whole.
///
/// An error ends the run (unless `retries` says otherwise) as [`ClientError::Generate`]; so does a
/// panic. [`InProcessRequest::cancel`] fires when nobody waits for the answer any more; the future
/// is dropped then.
pub type Generate =
    Arc<dyn Fn(InProcessRequest) -> BoxFuture<'static, Result<InProcessResponse, BoxError>> + Send + Sync>;

/// Answers one model call piece by piece; the end of the stream is the end of the answer.
///
/// The stream is polled no faster than the run's events are taken. It may be dropped at any time.
pub type GenerateStream =
    Arc<dyn Fn(InProcessRequest) -> BoxStream<'static, Result<InProcessChunk, BoxError>> + Send + Sync>;

/// What an in-process client is made of.
///
/// ```
/// use std::sync::Arc;
/// use futures::StreamExt as _;
/// use toolnexus_llm::{ClientOptions, InProcessChunk, InProcessOptions, InProcessResponse};
///
/// let options = InProcessOptions {
///     generate: Arc::new(|_request| Box::pin(async { Ok("whole".into()) })),
///     // Without this one, the client cannot stream.
///     generate_stream: Some(Arc::new(|_request| {
///         futures::stream::iter(["piece ", "by piece"]).map(|text| Ok(InProcessChunk::from(text))).boxed()
///     })),
///     client: ClientOptions { model: "parrot".into(), ..Default::default() },
/// };
/// # drop(options);
/// ```
#[derive(Clone)]
pub struct InProcessOptions {
    /// Answers the model calls of runs that do not stream.
    pub generate: Generate,
    /// Answers the model calls of `stream`, `stream_with` and `ask_with` with an `on_text`.
    /// `None`: these fail with [`ClientError::Unsupported`].
    pub generate_stream: Option<GenerateStream>,
    /// Everything else. `retries: None` means **0** here. `base_url`, `api_key`, `api_key_env`,
    /// `style` and `http_client` belong to a network and are ignored. A `model` is required, as
    /// everywhere; it is told to `generate`.
    pub client: ClientOptions,
}

impl InProcessOptions {
    /// Options around an async function.
    ///
    /// ```
    /// use toolnexus_llm::{ClientOptions, InProcessOptions, InProcessResponse, Toolkit, create_in_process_client};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), toolnexus_llm::ClientError> {
    /// let options = ClientOptions { model: "parrot".into(), ..Default::default() };
    /// let client = create_in_process_client(InProcessOptions::new(options, |request| async move {
    ///     let said = request.newest_user_text().unwrap_or_default();
    ///     Ok(InProcessResponse::text(format!("You said: {said}")))
    /// }));
    /// assert_eq!(client.run("hello", &Toolkit::default()).await?.text, "You said: hello");
    /// # Ok(()) }
    /// ```
    pub fn new<F, A>(client: ClientOptions, generate: F) -> Self
    where
        F: Fn(InProcessRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<InProcessResponse, BoxError>> + Send + 'static,
    {
        let generate: Generate = Arc::new(move |request| Box::pin(generate(request)));
        InProcessOptions { generate, generate_stream: None, client }
    }
}

impl std::fmt::Debug for InProcessOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcessOptions")
            .field("client", &self.client)
            .field("streams", &self.generate_stream.is_some())
            .finish_non_exhaustive()
    }
}

/// A client whose model is a function of this process. Like
/// [`create_client`](crate::create_client) it cannot fail.
///
/// Messages and tools reach the function in the shapes of OpenAI's chat completions.
pub fn create_in_process_client(options: InProcessOptions) -> Client {
    let InProcessOptions { generate, generate_stream, client } = options;
    let in_process = InProcess { streams: generate_stream.is_some() };
    let options = ClientOptions {
        base_url: BASE_URL.into(),
        api_key: KEY_SENTINEL.into(),
        api_key_env: None,
        style: Style::OpenAI,
        http_client: Some(Arc::new(InProcessTransport { generate, generate_stream })),
        retries: Some(client.retries.unwrap_or(0)),
        ..client
    };
    client_of(options, Some(in_process))
}

/// What a client has to know about its model when that is a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InProcess {
    streams: bool,
}

impl InProcess {
    pub(crate) fn check_streaming(self) -> Result<(), ClientError> {
        if self.streams { Ok(()) } else { Err(ClientError::Unsupported(NO_STREAM.into())) }
    }
}
