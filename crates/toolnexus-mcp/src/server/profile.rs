//! A whole toolkit as an MCP server for whoever can reach it: each request stands alone.
//!
//! [`McpProfile`] decides what a message means ([`McpProfile::receive`]): nothing, an answer that is
//! there at once, or a tool to be run. What a running tool tells on the way, and when its caller is
//! gone, is a matter of the wire: `exchange` is one HTTP request, `stdio` one client for the whole
//! life of a pair of pipes.

mod config;
mod exchange;
mod note;
mod stdio;

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolnexus_core::{Tool, ToolContext, ToolResult, Toolkit};
use tracing::{Instrument as _, Span};

use self::note::CallNote;
use super::call::{CallEvent, CallParams, NOT_AN_OBJECT, Progress, Running, cancelled, span};
use super::describe::{Detail, ToolEntry};
use super::message::{
    Incoming, Request, RequestId, RpcError, Unreadable, answer_body, error_body, result_body,
};
use super::result::{CallResult, Structured};

pub use config::{McpServeConfig, exposed_tools};
pub use note::{OnCall, OnCallEvent};
pub use stdio::serve_mcp_stdio;

/// A toolkit served under a profile. Clones are the same server.
///
/// Needs no model and keeps nothing between requests: no handshake is required, no session is
/// issued. Tools that are registered later are served too, if the profile names them or all.
///
/// ```
/// use toolnexus_core::Toolkit;
/// use toolnexus_mcp::server::{McpProfile, McpServeConfig};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let profile = McpProfile::new(&Toolkit::default(), McpServeConfig::default());
/// let head = http::Request::post("/mcp").body(()).unwrap().into_parts().0;
/// let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
/// let answer = profile.respond(head.into(), None, ping.into(), Default::default()).await;
/// assert_eq!(answer.status(), 200);
/// # }
/// ```
#[derive(Clone)]
pub struct McpProfile {
    toolkit: Toolkit,
    config: Arc<McpServeConfig>,
    on_call: Option<OnCall>,
}

/// What a message comes to.
enum Outcome {
    /// It wants no answer.
    Silence,
    /// The whole answer.
    Answer(Bytes),
    /// A tool is to be run first.
    Call(Box<Call>),
}

/// A call that is accepted and not begun.
struct Call {
    id: RequestId,
    tool: Arc<Tool>,
    arguments: Map<String, Value>,
    /// What the client wants reports of progress to be marked with.
    token: Option<Value>,
    /// The client's name for the call, by which a repeated one is known.
    key: Option<String>,
    meta: Option<Value>,
    note: CallNote,
}

/// A call that runs, and whom to answer.
struct Begun {
    running: Running,
    id: RequestId,
    progress: Option<Progress>,
    note: CallNote,
    span: Span,
}

/// What can be told to a client beside answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Nothing that is no part of an answer.
    Request,
    /// Notices at any time: there is one client.
    Session,
}

impl McpProfile {
    /// Serves this toolkit. It is kept alive, and its `close` ends what its tools need.
    pub fn new(toolkit: &Toolkit, config: McpServeConfig) -> Self {
        McpProfile { toolkit: toolkit.clone(), config: Arc::new(config), on_call: None }
    }

    /// The same, telling `on_call` of each call that has ended.
    #[must_use]
    pub fn on_call(mut self, on_call: OnCall) -> Self {
        self.on_call = Some(on_call);
        self
    }

    /// What it was made of.
    pub fn config(&self) -> &McpServeConfig {
        &self.config
    }

    /// What a message means to a client that is reached in this way.
    fn receive(&self, message: Result<Incoming, Unreadable>, reach: Reach) -> Outcome {
        let Request { id, method, params } = match message {
            Ok(Incoming::Request(request)) => request,
            Ok(Incoming::Notification(_) | Incoming::Response(_)) => return Outcome::Silence,
            Err(unreadable) => return Outcome::Answer(unreadable.body()),
        };
        match method.as_str() {
            "initialize" => Outcome::Answer(result_body(&id, &self.initialize(&params, reach))),
            "ping" => Outcome::Answer(result_body(&id, &json!({}))),
            "tools/list" => Outcome::Answer(self.list(&id)),
            "tools/call" => self.call(id, params),
            _ => Outcome::Answer(error_body(Some(&id), &RpcError::method_not_found())),
        }
    }

    fn initialize(&self, params: &Map<String, Value>, reach: Reach) -> Value {
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        let capabilities = match reach {
            Reach::Request => json!({"tools": {}}),
            Reach::Session => json!({"tools": {}, "logging": {}}),
        };
        json!({
            "protocolVersion": self.config.protocol_version(asked),
            "capabilities": capabilities,
            "serverInfo": {"name": self.config.name(), "version": self.config.version()},
        })
    }

    fn list(&self, id: &RequestId) -> Bytes {
        #[derive(Serialize)]
        struct Listing<'a> {
            tools: Vec<ToolEntry<'a>>,
        }
        let snapshot = self.toolkit.snapshot();
        let mut tools: Vec<ToolEntry<'_>> = snapshot
            .tools()
            .iter()
            .filter(|tool| self.config.exposes(&tool.name))
            .map(|tool| ToolEntry(tool, Detail::Plain))
            .collect();
        tools.sort_unstable_by(|a, b| a.0.name.cmp(&b.0.name));
        result_body(id, &Listing { tools })
    }

    fn call(&self, id: RequestId, params: Map<String, Value>) -> Outcome {
        let params = CallParams::of(params);
        let token = params.progress_token().cloned();
        let key = params.idempotency_key();
        let CallParams { name, arguments, meta } = params;
        let name = name.unwrap_or_default();
        let tool = if self.config.exposes(&name) {
            self.toolkit.snapshot().get(&name).cloned()
        } else {
            // As if there were none: nobody learns what is kept back.
            None
        };
        let refuse =
            |message: String| Outcome::Answer(error_body(Some(&id), &RpcError::invalid_params(message)));
        let Some(tool) = tool else { return refuse(format!("Unknown tool: {name}")) };
        let Some(arguments) = arguments else { return refuse(NOT_AN_OBJECT.to_owned()) };
        let note = CallNote::new(self.on_call.as_ref(), &tool);
        Outcome::Call(Box::new(Call { id, tool, arguments, token, key, meta, note }))
    }
}

impl Call {
    /// Starts the tool. `listens`: whether anybody wants to hear what it tells on the way.
    fn begin(self, mut context: ToolContext, listens: bool) -> Begun {
        let Call { id, tool, arguments, token, key, note, .. } = self;
        context.idempotency_key = key;
        let span = span(&tool.name);
        let running = Running::start(&tool, arguments, context, listens);
        Begun { running, id, progress: token.map(Progress::new), note, span }
    }
}

impl Begun {
    /// What happens next. A dropped future of this loses nothing.
    async fn next(&mut self) -> CallEvent {
        let event = self.running.next().instrument(self.span.clone()).await;
        if let CallEvent::Ended(ToolResult { is_error: true, .. }) = &event {
            self.span.record("error.type", "tool_error");
        }
        event
    }

    /// The answer to the call, of which the host is told. `None`: this server has ended it.
    fn end(self, result: Option<ToolResult>) -> Bytes {
        let answer = result.as_ref().map(|result| CallResult(result, Structured::Left)).ok_or_else(cancelled);
        let answer = answer_body(&self.id, &answer);
        if let Some(result) = result {
            self.note.ended(result.is_error);
        }
        answer
    }
}

impl std::fmt::Debug for McpProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpProfile")
            .field("toolkit", &self.toolkit)
            .field("config", &self.config)
            .field("on_call", &self.on_call.is_some())
            .finish()
    }
}
