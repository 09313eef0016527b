//! The model client of toolnexus: it runs a prompt over a toolkit until the model answers.
//!
//! Three layers, each with one job:
//!
//! * **The run is a value.** [`run::Run`] is the tool-calling loop without I/O: a fold over
//!   [`run::RunEvent`]s that says what it needs next and is told what happened.
//! * **A wire is a pair of pure functions** for each provider dialect: transcript in, request
//!   bytes out; answer bytes in, model turn out. Each [`Message`] is serialised at most once.
//! * **Drivers do the I/O.** [`Client::run`], [`Client::ask`] and [`Client::stream`] put
//!   requests, retries, tools and resolvers around a run.
//!
//! Requests leave through [`http::HttpTransport`], conversations are kept by a
//! [`ConversationStore`]; both can be your own.

#[cfg(feature = "acp")]
pub mod acp;
mod boundary;
mod client;
mod conversation;
mod driver;
mod durable;
mod endpoint;
mod error;
mod execution;
mod file_store;
mod files;
mod hooks;
mod in_process;
mod key;
mod message;
mod metric;
mod models;
mod options;
mod readable;
mod resolver;
mod result;
mod retry;
pub mod run;
pub mod run_log;
mod store;
mod stream;
mod tiers;
mod transcript;
pub mod translate;
mod transport;
mod usage;
mod wire;

pub use boundary::{BoundarySession, ModelBoundary};
pub use client::{Client, create_client};
pub use conversation::Conversation;
#[doc(hidden)]
pub use driver::observe_runs;
pub use durable::{DurableError, DurableRunError, InDoubt, ResumeOptions, RunDurableOptions};
pub use error::{ClientError, ERROR_BODY_CAP, ProviderError};
pub use file_store::FileConversationStore;
pub use hooks::{
    AfterLlm, AfterLlmEvent, AfterTool, AfterToolEvent, BeforeLlm, BeforeLlmEvent, BeforeTool,
    BeforeToolEvent, Guardrail, Hooks, LlmOverride, ToolOverride, chain_hooks, guardrails,
};
pub use in_process::{
    Generate, GenerateStream, InProcessChunk, InProcessOptions, InProcessRequest, InProcessResponse,
    InProcessToolCall, create_in_process_client,
};
pub use message::Message;
pub use metric::{LlmStatus, MetricEvent, MetricSink};
pub use models::{ModelInfo, list_models};
pub use options::{
    AskOptions, BodyTransform, ClientOptions, EventSink, PromptCacheOptions, RunOptions, StreamOptions,
    TextSink,
};
pub use resolver::{WaitForCtx, WaitForWithContext};
pub use result::{RunFile, RunResult, RunStatus, ToolCallRecord, limits};
pub use retry::{ErrorInfo, OnError, RETRYABLE_STATUSES, Tier, retry_after};
pub use store::{ConversationStore, InMemoryConversationStore};
pub use stream::{RunStream, StreamEvent};
pub use tiers::{CountTokens, ToolTier, ToolTierOptions, UsageCount};
pub use transcript::Transcript;
pub use translate::{TranslateRequest, TranslateResult, TranslatedToolCall};
pub use transport::ReqwestTransport;
pub use usage::{FinishReason, Usage};

pub use secrecy::SecretString;
pub use toolnexus_core::content::{ContentPartError, PartErrorCode, Prompt, UnsupportedPart};
pub use toolnexus_core::redact::{REDACTED_BODY_KEYS, REDACTION_TOKEN};
pub use toolnexus_core::{ContentPart, Style, Toolkit, http};
