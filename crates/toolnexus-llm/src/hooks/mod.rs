//! Code of the host around every model call and every tool call.
//!
//! Four optional callbacks. Each gets a plain struct it owns and may return an override; an error
//! from any of them, or a panic in it, ends the run with [`ClientError::Hook`](crate::ClientError::Hook).
//!
//! ```text
//! before_llm ─▶ model call ─▶ after_llm ─▶ for each call: before_tool ─▶ tool ─▶ after_tool
//! ```
//!
//! Hooks of one run's concurrent calls may interleave.

mod chain;
mod guardrail;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Map, Value};
use toolnexus_core::{BoxError, BoxFuture, ToolHints, ToolResult};

use crate::{ClientError, Transcript};

pub use chain::chain_hooks;
pub use guardrail::{Guardrail, guardrails};

/// Before each model call of a run, once per turn and not per attempt.
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_llm::{BeforeLlmEvent, Hooks};
/// // A gate: this route may not be asked.
/// let hooks = Hooks::default().with_before_llm(|event: BeforeLlmEvent| async move {
///     if event.model.starts_with("expensive/") { Err("this model is not for us".into()) } else { Ok(None) }
/// });
/// assert!(hooks.before_llm.is_some());
/// ```
pub type BeforeLlm =
    Arc<dyn Fn(BeforeLlmEvent) -> BoxFuture<'static, Result<Option<LlmOverride>, BoxError>> + Send + Sync>;

/// After each model call whose answer could be read.
pub type AfterLlm = Arc<dyn Fn(AfterLlmEvent) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

/// Before each tool call.
pub type BeforeTool =
    Arc<dyn Fn(BeforeToolEvent) -> BoxFuture<'static, Result<Option<ToolOverride>, BoxError>> + Send + Sync>;

/// After each tool call that ran, and after each suspension that ended without running it again.
pub type AfterTool =
    Arc<dyn Fn(AfterToolEvent) -> BoxFuture<'static, Result<Option<ToolOverride>, BoxError>> + Send + Sync>;

/// The callbacks of a client; each `None` changes nothing and costs nothing.
///
/// ```
/// use toolnexus_llm::{BeforeToolEvent, Hooks, ToolOverride};
/// use toolnexus_core::ToolResult;
/// // A permission gate: what may destroy something is refused, and the model is told.
/// let hooks = Hooks::default().with_before_tool(|event: BeforeToolEvent| async move {
///     let destructive = event.hints.is_none_or(|hints| hints.destructive);
///     Ok(destructive.then(|| ToolOverride::result(ToolResult::failure("denied by policy"))))
/// });
/// assert!(hooks.before_tool.is_some() && hooks.after_tool.is_none());
/// ```
#[derive(Clone, Default)]
pub struct Hooks {
    /// May replace the transcript or the tools, or veto the call by failing.
    pub before_llm: Option<BeforeLlm>,
    /// Observes the answer.
    pub after_llm: Option<AfterLlm>,
    /// May replace the arguments, or give the result so that the tool does not run. A result that is
    /// a suspension asks whoever answers suspensions; once granted, the tool itself runs.
    pub before_tool: Option<BeforeTool>,
    /// May replace the result. Skipped for a suspension, and then called once for the result that
    /// replaces it. Not called for a result that came from `before_tool`.
    pub after_tool: Option<AfterTool>,
}

impl Hooks {
    /// These hooks with `before_llm`.
    #[must_use]
    pub fn with_before_llm<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(BeforeLlmEvent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<LlmOverride>, BoxError>> + Send + 'static,
    {
        self.before_llm = Some(Arc::new(move |event| Box::pin(hook(event))));
        self
    }

    /// These hooks with `after_llm`.
    #[must_use]
    pub fn with_after_llm<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(AfterLlmEvent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.after_llm = Some(Arc::new(move |event| Box::pin(hook(event))));
        self
    }

    /// These hooks with `before_tool`.
    #[must_use]
    pub fn with_before_tool<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(BeforeToolEvent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<ToolOverride>, BoxError>> + Send + 'static,
    {
        self.before_tool = Some(Arc::new(move |event| Box::pin(hook(event))));
        self
    }

    /// These hooks with `after_tool`.
    #[must_use]
    pub fn with_after_tool<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(AfterToolEvent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<ToolOverride>, BoxError>> + Send + 'static,
    {
        self.after_tool = Some(Arc::new(move |event| Box::pin(hook(event))));
        self
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.before_llm.is_none()
            && self.after_llm.is_none()
            && self.before_tool.is_none()
            && self.after_tool.is_none()
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("before_llm", &self.before_llm.is_some())
            .field("after_llm", &self.after_llm.is_some())
            .field("before_tool", &self.before_tool.is_some())
            .field("after_tool", &self.after_tool.is_some())
            .finish()
    }
}

/// What [`Hooks::before_llm`] is told.
#[derive(Clone, Default, PartialEq)]
pub struct BeforeLlmEvent {
    /// The working transcript, in the style's own shape. A system text that the style sends apart is
    /// not in it.
    pub messages: Transcript,
    /// The tools as the style declares them; shared, since most hooks only read them.
    pub tools: Arc<Vec<Value>>,
    /// The model that is about to be asked.
    pub model: String,
    /// Which model call of the run this is, from 0.
    pub turn: u32,
}

/// What [`Hooks::after_llm`] is told.
#[derive(Clone, Default, PartialEq)]
pub struct AfterLlmEvent {
    /// The provider's decoded answer. After a streamed turn `{"streamed":true,"usage":{…}}` with the
    /// tokens of the run so far.
    pub response: Value,
    /// The model that answered.
    pub model: String,
    /// Which model call of the run this was, from 0.
    pub turn: u32,
}

/// What [`Hooks::before_tool`] is told.
#[derive(Clone, Default, PartialEq)]
pub struct BeforeToolEvent {
    /// The tool.
    pub name: String,
    /// The arguments it is about to run with.
    pub args: Map<String, Value>,
    /// The model's id for the call.
    pub id: String,
    /// The model call that asked for it, from 0.
    pub turn: u32,
    /// What is known of the tool's effects. `None`: nothing, so treat it as one that changes things.
    pub hints: Option<ToolHints>,
}

/// What [`Hooks::after_tool`] is told.
#[derive(Clone, Default, PartialEq)]
pub struct AfterToolEvent {
    /// The tool.
    pub name: String,
    /// The arguments it ran with.
    pub args: Map<String, Value>,
    /// What it returned.
    pub result: ToolResult,
    /// The model's id for the call.
    pub id: String,
    /// The model call that asked for it, from 0.
    pub turn: u32,
}

/// What [`Hooks::before_llm`] may change. Each replacement lasts for the rest of the run.
///
/// ```
/// use toolnexus_llm::LlmOverride;
/// let no_tools = LlmOverride { tools: Some(vec![]), ..Default::default() };
/// assert!(no_tools.messages.is_none());
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct LlmOverride {
    /// The transcript to go on with. It is what the result and the store will hold.
    pub messages: Option<Transcript>,
    /// The tools to declare. An empty list declares none.
    pub tools: Option<Vec<Value>>,
    /// The model to ask.
    pub model: Option<String>,
}

/// What [`Hooks::before_tool`] and [`Hooks::after_tool`] may change.
#[derive(Clone, Default, PartialEq)]
pub struct ToolOverride {
    /// The arguments to run with. No effect in `after_tool`, nor beside a `result` that is no suspension.
    pub args: Option<Map<String, Value>>,
    /// The result, instead of the tool's own.
    pub result: Option<ToolResult>,
}

impl ToolOverride {
    /// Other arguments.
    pub fn args(args: Map<String, Value>) -> Self {
        ToolOverride { args: Some(args), result: None }
    }

    /// Another result.
    pub fn result(result: ToolResult) -> Self {
        ToolOverride { args: None, result: Some(result) }
    }
}

/// Transcripts, arguments and results do not belong into logs: `Debug` names the call alone.
macro_rules! debug_names_only {
    ($($type:ident { $($field:ident),* })*) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    )*};
}

debug_names_only! {
    BeforeLlmEvent { messages, model, turn }
    AfterLlmEvent { model, turn }
    BeforeToolEvent { name, id, turn, hints }
    AfterToolEvent { name, id, turn }
    LlmOverride { messages, model }
    ToolOverride {}
}

/// Calls a hook. A panic, in the closure or in its future, is the hook's error.
pub(crate) async fn call<E, O, H>(name: &'static str, hook: &H, event: E) -> Result<O, ClientError>
where
    H: Fn(E) -> BoxFuture<'static, Result<O, BoxError>> + ?Sized,
{
    let outcome = AssertUnwindSafe(async { hook(event).await }).catch_unwind().await;
    outcome
        .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(&*panic)).into()))
        .map_err(|source| ClientError::Hook { hook: name, source })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&'static str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
