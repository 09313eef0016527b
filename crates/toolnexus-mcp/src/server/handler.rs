//! A toolkit as an MCP endpoint inside a host's own HTTP stack.
//!
//! [`mcp_handler`] makes a [`tower_service::Service`] that speaks MCP's streamable HTTP and owns no
//! listener. It is mounted at any path of any router; TLS, CORS and OAuth are the host's. Hooks say who
//! calls, which tools they see, and which calls need a person.
//!
//! How it works:
//! * `exchange`: one HTTP request from its head to its answer, in the order of its checks; `origin`:
//!   which pages and hosts are served; `answer`: what the answers look like.
//! * `session`: the table of sessions, and what happens in each. Nothing runs in the background:
//!   sessions that are over are met, or swept when others begin.
//! * `methods`: what each method does; `call`: the way of one `tools/call`, the only thing that runs in a
//!   task, which ends with the request, its session or the handler.
//! * `outlet`: the answer to one POST, whole or as an event stream; `log`: one event stream, its bounds and
//!   its resumption; `ask`: questions on it; `polling`: ending it for a while.
//! * `options`, `hooks`, `resources`, `prompts`: what a host writes; `guard` calls it.

mod answer;
mod ask;
mod call;
mod context;
mod exchange;
mod guard;
mod hooks;
mod log;
mod methods;
mod options;
mod origin;
mod outlet;
mod polling;
mod prompts;
mod resources;
mod session;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolnexus_core::{BoxFuture, Toolkit};

use self::session::Sessions;
use super::body::McpBody;
use super::error::McpServeError;
use super::message::notification_body;

pub(in crate::server) use self::ask::{Form, Said, ask_for_tools, said, withdrawal};
pub use self::context::{mcp_identity, mcp_request, mcp_request_meta, mcp_session_id};
pub(in crate::server) use self::exchange::elicits;
pub use self::hooks::{
    Authenticate, BeforeCallHook, CompleteHook, GetPromptHook, ListPromptsHook, ListResourceTemplatesHook,
    ListResourcesHook, ListToolsHook, McpCallContext, McpCallDecision, McpCallEvent, McpCompletion,
    McpCompletionReference, McpCompletionRequest, McpDecision, McpHook, McpHookError, McpHookWith,
    McpServerDetails, McpSessionIds, McpStatelessSessionId, OnMcpCall, ReadResourceHook, ServerInfoHook,
    SessionIdOf, SubscriptionHook, TerminateSessionId, ValidateSessionId, WwwAuthenticate,
};
pub use self::options::McpHandlerOptions;
pub use self::polling::mcp_close_stream;
pub use self::prompts::{
    McpPrompt, McpPromptArgument, McpPromptContent, McpPromptMessage, McpPromptResult, McpPromptRole,
};
pub use self::resources::{McpPage, McpResource, McpResourceContents, McpResourceData, McpResourceTemplate};

/// How long a close waits for calls that are running.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// What the clones of a handler and its running calls share.
struct Shared {
    toolkit: Toolkit,
    options: McpHandlerOptions,
    /// The protocol revisions to speak, newest first.
    versions: Vec<&'static str>,
    sessions: Sessions,
    /// The calls.
    tasks: TaskTracker,
    /// Fires when the handler is closed. All sessions and calls end with it.
    shutdown: CancellationToken,
}

impl Shared {
    fn shut_down(&self) {
        self.shutdown.cancel();
        self.sessions.end_all();
        self.tasks.close();
    }
}

/// Closes the handler when its last clone is dropped.
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

/// A toolkit as an MCP endpoint: made by [`mcp_handler`], mounted as a service.
///
/// Clones are the same handler. Dropping the last one, requests in work included, closes it.
#[derive(Clone)]
pub struct McpHandler {
    owner: Arc<Owner>,
}

/// Makes an MCP endpoint of a toolkit, to be mounted in a host's own HTTP stack.
///
/// # Errors
/// Only when `protocol_versions` names a revision that is not spoken.
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_core::{Identity, Toolkit, define_tool};
/// use toolnexus_mcp::server::{McpHandlerOptions, mcp_handler};
///
/// # fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let toolkit = Toolkit::from_tools([define_tool("hi", "Says hi", None, |_args, _context| async {
///     Ok::<_, String>("hi")
/// })]);
/// let handler = mcp_handler(&toolkit, McpHandlerOptions {
///     name: "greeter".into(),
///     authenticate: Some(Arc::new(|request| Box::pin(async move {
///         let token = request.headers.get("authorization").and_then(|value| value.to_str().ok());
///         match token {
///             Some("Bearer s3cret") => Ok(Identity::new("alice")),
///             _ => Err("unknown token".into()),
///         }
///     }))),
///     ..Default::default()
/// })?;
/// let app: axum::Router = axum::Router::new().route_service("/mcp", handler);
/// # Ok(()) }
/// ```
pub fn mcp_handler(toolkit: &Toolkit, options: McpHandlerOptions) -> Result<McpHandler, McpServeError> {
    let versions = options.versions()?;
    let shutdown = CancellationToken::new();
    let shared = Shared {
        toolkit: toolkit.clone(),
        options,
        versions,
        sessions: Sessions::new(shutdown.clone()),
        tasks: TaskTracker::new(),
        shutdown,
    };
    Ok(McpHandler { owner: Arc::new(Owner(Arc::new(shared))) })
}

impl McpHandler {
    /// Tells every client that listens that the tools have changed.
    ///
    /// Never waits. Nobody listening is no error; neither is a client that reads too slowly, whose stream
    /// is closed when 256 messages wait for it.
    pub fn notify_tools_changed(&self) {
        self.notify("notifications/tools/list_changed", None::<&Value>);
    }

    /// Tells every client that listens that the resources have changed. See
    /// [`notify_tools_changed`](Self::notify_tools_changed).
    pub fn notify_resources_changed(&self) {
        self.notify("notifications/resources/list_changed", None::<&Value>);
    }

    /// Tells every client that listens that the prompts have changed. See
    /// [`notify_tools_changed`](Self::notify_tools_changed).
    pub fn notify_prompts_changed(&self) {
        self.notify("notifications/prompts/list_changed", None::<&Value>);
    }

    /// Tells the clients that have subscribed to a resource, and listen, that it has changed.
    pub fn notify_resource_updated(&self, uri: &str) {
        let message =
            notification_body("notifications/resources/updated", Some(&serde_json::json!({ "uri": uri })));
        for session in self.owner.0.sessions.all() {
            if session.is_subscribed(uri) {
                session.say(&message);
            }
        }
    }

    fn notify(&self, method: &str, params: Option<&impl Serialize>) {
        let message = notification_body(method, params);
        for session in self.owner.0.sessions.all() {
            session.say(&message);
        }
    }

    /// How many sessions are live.
    pub fn session_count(&self) -> usize {
        self.owner.0.sessions.count()
    }

    /// How many calls are running.
    pub fn call_count(&self) -> usize {
        self.owner.0.tasks.len()
    }

    /// Ends all sessions, streams and calls; requests that come later are answered with 503.
    ///
    /// Idempotent. Returns when every call has ended, after five seconds at the latest. Call it before a
    /// graceful shutdown of the host's own server, which would wait for streams that stay open.
    pub async fn close(&self) {
        self.owner.0.shut_down();
        let _ = tokio::time::timeout(CLOSE_LIMIT, self.owner.0.tasks.wait()).await;
    }
}

impl<B> tower_service::Service<http::Request<B>> for McpHandler
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
{
    type Response = http::Response<McpBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let owner = Arc::clone(&self.owner);
        Box::pin(async move {
            let answer = if owner.0.shutdown.is_cancelled() {
                answer::empty(http::StatusCode::SERVICE_UNAVAILABLE)
            } else {
                exchange::serve(Arc::clone(&owner.0), request).await
            };
            drop(owner);
            Ok(answer)
        })
    }
}

impl std::fmt::Debug for McpHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpHandler")
            .field("options", &self.owner.0.options)
            .field("sessions", &self.session_count())
            .finish_non_exhaustive()
    }
}
