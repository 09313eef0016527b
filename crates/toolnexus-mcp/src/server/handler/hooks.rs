//! What a host decides for each request: the hooks of a handler, and what they are told.

use std::error::Error;
use std::sync::Arc;

use http::request::Parts;
use serde_json::{Map, Value};
use toolnexus_core::{BoxError, BoxFuture, Identity, Tool, ToolResult};

use super::prompts::{McpPrompt, McpPromptResult};
use super::resources::{McpPage, McpResource, McpResourceContents, McpResourceTemplate};

/// What a hook may be told and what it decides, in the time it takes.
pub type McpHook<R> = Arc<dyn Fn(McpCallContext) -> BoxFuture<'static, Result<R, BoxError>> + Send + Sync>;

/// [`McpHook`] with one more argument.
pub type McpHookWith<A, R> =
    Arc<dyn Fn(McpCallContext, A) -> BoxFuture<'static, Result<R, BoxError>> + Send + Sync>;

/// Says who sends a request. An error answers 401 without its text.
pub type Authenticate =
    Arc<dyn Fn(Arc<Parts>) -> BoxFuture<'static, Result<Identity, BoxError>> + Send + Sync>;

/// The `WWW-Authenticate` header of a request that was refused, if it shall have one.
pub type WwwAuthenticate = Arc<dyn Fn(&Parts, &(dyn Error + 'static)) -> Option<String> + Send + Sync>;

/// What the server says of itself to this caller.
pub type ServerInfoHook = McpHook<McpServerDetails>;

/// The tools of this caller.
pub type ListToolsHook = McpHook<Vec<Tool>>;

/// Whether this call may run.
pub type BeforeCallHook = Arc<
    dyn Fn(McpCallContext, Tool, Map<String, Value>) -> BoxFuture<'static, Result<McpDecision, BoxError>>
        + Send
        + Sync,
>;

/// Told of each call that was decided, when it has ended.
pub type OnMcpCall = Arc<dyn Fn(McpCallEvent) + Send + Sync>;

/// A page of resources, from a cursor on.
pub type ListResourcesHook = McpHookWith<Option<String>, McpPage<McpResource>>;

/// A page of resource templates, from a cursor on.
pub type ListResourceTemplatesHook = McpHookWith<Option<String>, McpPage<McpResourceTemplate>>;

/// The contents behind a URI.
pub type ReadResourceHook = McpHookWith<String, Vec<McpResourceContents>>;

/// A caller wants, or no longer wants, to hear of changes of a URI.
pub type SubscriptionHook = McpHookWith<String, ()>;

/// A page of prompts, from a cursor on.
pub type ListPromptsHook = McpHookWith<Option<String>, McpPage<McpPrompt>>;

/// The messages of a prompt, by its name, for these arguments.
pub type GetPromptHook = Arc<
    dyn Fn(
            McpCallContext,
            String,
            Map<String, Value>,
        ) -> BoxFuture<'static, Result<McpPromptResult, BoxError>>
        + Send
        + Sync,
>;

/// What an argument could be.
pub type CompleteHook = McpHookWith<McpCompletionRequest, McpCompletion>;

/// What is known of the request that a hook or a tool works for.
///
/// A tool reads the same through [`mcp_identity`](crate::server::mcp_identity) and its siblings.
#[derive(Clone, Default)]
pub struct McpCallContext {
    /// Who sent the request, as `authenticate` said.
    pub identity: Option<Identity>,
    /// The head of the HTTP request. Its body is the protocol's and is not kept.
    pub request: Option<Arc<Parts>>,
    /// The session, or what `stateless_session_id` gives in its place.
    pub session_id: Option<String>,
    /// `params._meta` of the request, as it came.
    pub meta: Option<Value>,
}

/// Shows no header: they hold credentials.
impl std::fmt::Debug for McpCallContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpCallContext").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// What a server says of itself. What is `None` is taken from the options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpServerDetails {
    /// The name of the server.
    pub name: Option<String>,
    /// Its name for people.
    pub title: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// How a model should use the server.
    pub instructions: Option<String>,
}

/// What `before_call` decides.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum McpDecision {
    /// The tool runs.
    #[default]
    Allow,
    /// The tool does not run.
    Deny {
        /// What the caller reads when there is no `result`.
        message: String,
        /// The result in the place of the tool's.
        result: Option<ToolResult>,
    },
    /// The tool runs if the person behind the client agrees.
    Confirm {
        /// What the person is asked.
        message: String,
        /// The result when the client cannot ask anybody. Never shown to a client whose person
        /// refused: it may say how to get by without one.
        result: Option<ToolResult>,
    },
}

/// How a call came to its end, besides what the tool did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum McpCallDecision {
    /// The tool ran.
    Allow,
    /// `before_call` refused, or failed.
    Deny,
    /// The person agreed, the tool ran.
    ConfirmAccepted,
    /// The person refused, or did not answer.
    ConfirmRefused,
    /// The client cannot ask anybody.
    ConfirmUnavailable,
}

impl McpCallDecision {
    /// `allow`, `deny`, `confirm-accepted`, `confirm-refused` or `confirm-unavailable`.
    pub const fn as_str(self) -> &'static str {
        match self {
            McpCallDecision::Allow => "allow",
            McpCallDecision::Deny => "deny",
            McpCallDecision::ConfirmAccepted => "confirm-accepted",
            McpCallDecision::ConfirmRefused => "confirm-refused",
            McpCallDecision::ConfirmUnavailable => "confirm-unavailable",
        }
    }
}

impl std::fmt::Display for McpCallDecision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One call of a tool has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct McpCallEvent {
    /// The tool.
    pub name: String,
    /// Where the tool comes from.
    pub source: toolnexus_core::ToolSource,
    /// How long it took, hooks and questions included, in milliseconds.
    pub ms: u64,
    /// Whether the result is an error.
    pub is_error: bool,
    /// What a tool that failed or panicked said; `cancelled` when the caller went away.
    pub err: Option<String>,
    /// The size of the result on the wire, in bytes; 0 for a call that was cancelled.
    pub result_bytes: usize,
    /// What was decided about the call.
    pub decision: McpCallDecision,
    /// The id of the caller's identity.
    pub identity: Option<String>,
    /// The session.
    pub session_id: Option<String>,
}

/// What a client asks to be completed: one argument of a prompt or a resource template.
#[derive(Debug, Clone, PartialEq)]
pub struct McpCompletionRequest {
    /// Whose argument it is.
    pub reference: McpCompletionReference,
    /// The argument.
    pub argument: String,
    /// What is typed so far.
    pub value: String,
    /// The arguments that are filled in already.
    pub arguments: Map<String, Value>,
}

/// Whose argument is completed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpCompletionReference {
    /// That of the prompt of this name.
    Prompt(String),
    /// That of the resource template of this URI.
    Resource(String),
}

/// What an argument could be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpCompletion {
    /// The best 100 at most; more are cut off.
    pub values: Vec<String>,
    /// How many there are in all.
    pub total: Option<u64>,
    /// Whether there are more than these.
    pub has_more: bool,
}

/// How sessions get, keep and lose their ids.
#[derive(Clone, Default)]
pub struct McpSessionIds {
    /// Makes the id of a session that begins. Visible ASCII, and no id that is in use. `None`: 128
    /// random bits.
    pub generate: Option<McpHook<String>>,
    /// Whether this caller may use a session of this id; `false` or an error answer 404. `None`: a session
    /// is its first identity's.
    pub validate: Option<ValidateSessionId>,
    /// Told of a session that its client has ended.
    pub terminate: Option<TerminateSessionId>,
}

/// Whether a caller may use a session.
pub type ValidateSessionId =
    Arc<dyn Fn(String, Option<Identity>) -> BoxFuture<'static, Result<bool, BoxError>> + Send + Sync>;

/// A client has ended a session.
pub type TerminateSessionId = Arc<dyn Fn(String, Option<Identity>) -> BoxFuture<'static, ()> + Send + Sync>;

/// What the context shows as session id when there are no sessions.
#[derive(Clone)]
pub enum McpStatelessSessionId {
    /// The same for all requests.
    Fixed(String),
    /// Taken from each request.
    Of(SessionIdOf),
}

/// What stands for the session id of a request.
pub type SessionIdOf = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// An error of a hook that the client shall read. The text of any other error stays here.
///
/// ```
/// use toolnexus_mcp::server::McpHookError;
/// let unknown = McpHookError::resource_not_found("file:///a.txt");
/// assert_eq!((unknown.code, &*unknown.message), (-32002, "resource not found: file:///a.txt"));
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct McpHookError {
    /// The JSON-RPC code.
    pub code: i64,
    /// What the client reads.
    pub message: String,
    /// More about it.
    pub data: Option<Value>,
}

impl McpHookError {
    /// An error of this code that says `message`.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        McpHookError { code, message: message.into(), data: None }
    }

    /// The client asked for something that makes no sense: code -32602.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// There is no such resource: code -32002.
    pub fn resource_not_found(uri: impl std::fmt::Display) -> Self {
        Self::new(-32002, format!("resource not found: {uri}"))
    }

    /// There is no such prompt: code -32602.
    pub fn prompt_not_found(name: impl std::fmt::Display) -> Self {
        Self::new(-32602, format!("prompt not found: {name}"))
    }
}
