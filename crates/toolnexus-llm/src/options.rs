//! What a client and a run can be told.

use std::sync::Arc;

use indexmap::IndexMap;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolnexus_core::content::UnsupportedPart;
use toolnexus_core::http::HttpTransport;
use toolnexus_core::{Style, WaitFor};

use crate::{
    ConversationStore, Hooks, MetricSink, ModelBoundary, OnError, StreamEvent, ToolTierOptions, Transcript,
    WaitForWithContext,
};

/// Options of a client. Every field but `base_url` and `model` may be left at its default.
///
/// `Debug` shows neither the key nor header values.
///
/// ```
/// use toolnexus_llm::{ClientOptions, Style};
/// let options = ClientOptions {
///     base_url: "http://localhost:11434/v1".into(),
///     model: "qwen3".into(),
///     api_key: "unused".into(),
///     style: Style::OpenAI,
///     ..Default::default()
/// };
/// assert_eq!(options.retries, None);
/// ```
#[derive(Clone, Default)]
pub struct ClientOptions {
    /// Where the provider is, for example `https://api.openai.com/v1`. Required; trailing slashes
    /// do not matter.
    pub base_url: String,
    /// The dialect. Default: OpenAI chat completions.
    pub style: Style,
    /// The model, sent as it is. Required.
    pub model: String,
    /// The credential. Empty: see `api_key_env`.
    pub api_key: SecretString,
    /// The name of the environment variable that holds the credential. Neither given: the
    /// variable that belongs to the host, for https URLs of known providers.
    pub api_key_env: Option<String>,
    /// Headers to add to every request; a name replaces the dialect's own of that name.
    pub headers: IndexMap<String, String>,
    /// Comes first in the system text, before what the toolkit says about skills.
    pub system_prompt: String,
    /// The most model calls of one run. 0 means 10.
    pub max_turns: u32,
    /// How often a failed model call is tried again. `None` means 2.
    pub retries: Option<u32>,
    /// The wait before the first retry in milliseconds, doubled each time. 0 means 500.
    pub retry_base_ms: u64,
    /// Statuses to retry beside 429, 500, 502, 503, 504 and 529.
    pub retryable_statuses: Vec<u16>,
    /// Decides for each failed attempt whether it is tried again. `None`: what is retryable is.
    pub on_error: Option<OnError>,
    /// The longest a run may take as a whole, in milliseconds. 0 means no limit.
    pub timeout_ms: u64,
    /// Top-level keys to add to every request body; a key replaces the one that is there, `null`
    /// included. `messages`, `tools` and `stream` have no effect (once warned of).
    pub request_params: Map<String, Value>,
    /// Receives every request body after `request_params`, once per model call, and returns what
    /// is sent; `null` leaves it as it is. Changes the request alone, never the transcript.
    pub body_transform: Option<BodyTransform>,
    /// Code of the host around model calls and tool calls.
    pub hooks: Option<Hooks>,
    /// Receives what is worth counting as it happens, on the run's own task. The same numbers add up in
    /// [`Client::metrics`](crate::Client::metrics).
    pub on_metric: Option<MetricSink>,
    /// Stands between every run and its model.
    pub boundary: Option<Arc<dyn ModelBoundary>>,
    /// Asks the provider to cache the beginning of each request. `None`: nothing is marked.
    pub prompt_cache: Option<PromptCacheOptions>,
    /// Shows the model a part of a large toolkit and lets it find the rest. `None`: every tool is sent.
    pub tool_tiers: Option<ToolTierOptions>,
    /// Where `ask` keeps conversations. `None`: in memory, for this client alone.
    pub store: Option<Arc<dyn ConversationStore>>,
    /// Answers suspended tools. `None`: the toolkit's resolver, if it has one.
    pub wait_for: Option<WaitFor>,
    /// The same, told about the call and its run; wins over `wait_for`.
    pub wait_for_ctx: Option<WaitForWithContext>,
    /// Asks about all suspended calls of a turn at once instead of one after the other. Results
    /// keep call order either way.
    pub concurrent_wait_for: bool,
    /// The most decoded bytes of one image, file or audio part. A larger one is not sent; see
    /// `on_unsupported_part`. 0 means no limit of the client's.
    pub max_part_bytes: u64,
    /// What happens to a part that is too large or that the dialect has no block for. `None`: one
    /// that the caller attached ends the run before the request, as `incomplete` with the limit
    /// [`CONTENT_PART`](crate::limits::CONTENT_PART); for one that a tool returned the model reads
    /// a line of text.
    pub on_unsupported_part: Option<UnsupportedPart>,
    /// Carries the requests. `None`: a built-in HTTP client.
    pub http_client: Option<Arc<dyn HttpTransport>>,
}

impl std::fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientOptions")
            .field("base_url", &shown_url(&self.base_url))
            .field("style", &self.style)
            .field("model", &self.model)
            .field("api_key_set", &!self.api_key.expose_secret().is_empty())
            .field("api_key_env", &self.api_key_env)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("max_turns", &self.max_turns)
            .field("retries", &self.retries)
            .field("timeout_ms", &self.timeout_ms)
            .field("max_part_bytes", &self.max_part_bytes)
            .field("on_unsupported_part", &self.on_unsupported_part)
            .finish_non_exhaustive()
    }
}

/// How providers are asked to cache what requests have in common.
///
/// Under Anthropic's style the last tool, the system text and the latest message carry a mark. Under
/// OpenAI's the requests carry the key. Gemini's requests are not changed. Transcripts, hooks and
/// results never see the marks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptCacheOptions {
    /// OpenAI: what requests that share a beginning have in common. `None` or empty: none is sent.
    pub key: Option<String>,
    /// Anthropic: keep for an hour instead of five minutes.
    pub long_ttl: bool,
}

/// A URL without what may be secret in it: user, password, query.
fn shown_url(url: &str) -> String {
    url::Url::parse(url)
        .map(|url| format!("{}{}", url.origin().ascii_serialization(), url.path()))
        .unwrap_or_else(|_| "(not a URL)".into())
}

/// Changes a request body on its way out.
pub type BodyTransform = Arc<dyn Fn(Value) -> Value + Send + Sync>;

/// Receives the events of a run as they happen, on the run's own task.
pub type EventSink = Arc<dyn Fn(&StreamEvent) + Send + Sync>;

/// Receives the text of a run as it arrives, on the run's own task.
pub type TextSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Options of one run.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// The transcript to continue, used verbatim.
    pub history: Transcript,
    /// The conversation to load (unless there is a `history`) and to save under. Empty: none.
    pub id: String,
    /// Receives events; a buffered run has no text deltas.
    pub on_event: Option<EventSink>,
    /// Ends the run early.
    pub cancel: Option<CancellationToken>,
    /// State of the host, handed to every tool.
    pub data: Map<String, Value>,
    /// The model boundary of this run, instead of the client's.
    pub boundary: Option<Arc<dyn ModelBoundary>>,
}

/// Options of one `ask`.
#[derive(Clone, Default)]
pub struct AskOptions {
    /// Receives each piece of text as it arrives; the answer is then streamed.
    pub on_text: Option<TextSink>,
    /// Ends the run early.
    pub cancel: Option<CancellationToken>,
    /// State of the host, handed to every tool.
    pub data: Map<String, Value>,
}

/// Options of one streamed run.
#[derive(Clone, Default)]
pub struct StreamOptions {
    /// The transcript to continue, used verbatim.
    pub history: Transcript,
    /// The conversation to load (unless there is a `history`) and to save under. Empty: none.
    pub id: String,
    /// Ends the run early.
    pub cancel: Option<CancellationToken>,
    /// State of the host, handed to every tool.
    pub data: Map<String, Value>,
    /// The model boundary of this run, instead of the client's.
    pub boundary: Option<Arc<dyn ModelBoundary>>,
}
