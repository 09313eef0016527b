//! Requests of any method on a connection.

use std::time::Duration;

use rmcp::model::{ClientRequest, CustomRequest, GetExtensions as _};
use serde_json::{Map, Value};
use tracing::Instrument as _;

use super::SeamError;
use crate::failure::McpPhase;
use crate::param_headers::ParamMarks;
use crate::request::span;
use crate::slot::Vacant;
use crate::source::McpConnection;

/// A request: a method and its parameters. Ids, progress tokens, headers and what the era asks for
/// in `_meta` are added on the way.
///
/// ```
/// use toolnexus_mcp::transport::McpRequest;
/// let list = McpRequest::new("prompts/list");
/// let get = McpRequest::new("prompts/get").params(serde_json::json!({"name": "greet"}));
/// assert_eq!((list.method(), get.method()), ("prompts/list", "prompts/get"));
/// ```
#[derive(Clone)]
pub struct McpRequest {
    method: String,
    params: Option<Value>,
    timeout: Option<Duration>,
}

impl McpRequest {
    /// A request without parameters.
    pub fn new(method: impl Into<String>) -> Self {
        McpRequest { method: method.into(), params: None, timeout: None }
    }

    /// Sets the parameters, a JSON object.
    #[must_use]
    pub fn params(mut self, params: Value) -> Self {
        self.params = Some(params);
        self
    }

    /// Sets how long the server may be silent. Default: the server's own limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The tool that a `tools/call` names.
    fn tool(&self) -> Option<&str> {
        (self.method == "tools/call").then(|| self.params.as_ref()?.get("name")?.as_str()).flatten()
    }
}

/// Shows the method; parameters are the caller's.
impl std::fmt::Debug for McpRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

impl McpConnection {
    /// Sends a request and gives its `result`. Dropping the future withdraws it.
    ///
    /// # Errors
    /// [`SeamError::NotConnected`] when the load has made no connection, [`SeamError::Closed`] after
    /// [`close`](McpConnection::close), else [`SeamError::Failed`] with the server's error or what has
    /// become of the connection.
    pub async fn send(&self, request: McpRequest) -> Result<Value, SeamError> {
        let slot = self.slot().ok_or(SeamError::NotConnected)?;
        match slot.live() {
            Ok(_) => {}
            Err(Vacant::NotConnected) => return Err(SeamError::NotConnected),
            Err(Vacant::Closed) => return Err(SeamError::Closed),
        }
        let mut limits = slot.limits();
        if let Some(timeout) = request.timeout {
            limits.idle = timeout;
        }
        let phase = McpPhase::of_method(&request.method);
        let span = span(&slot.server, phase, request.tool());
        let headers = self.param_headers(&request);
        let mut message = CustomRequest::new(request.method, request.params);
        if let Some(headers) = headers {
            message.extensions_mut().insert(headers);
        }
        let message = ClientRequest::CustomRequest(message);
        let answer = slot.request(message, None, limits, None).instrument(span.clone()).await;
        answer.and_then(|raw| crate::wire::parsed(&raw)).map_err(|fault| {
            span.record("error.type", fault.kind.as_str());
            if matches!(slot.live(), Err(Vacant::Closed)) {
                return SeamError::Closed;
            }
            SeamError::Failed(slot.failure(fault, phase))
        })
    }

    /// The headers that a called tool's schema asks for.
    fn param_headers(&self, request: &McpRequest) -> Option<crate::param_headers::ParamHeaders> {
        let called = request.tool()?;
        let is_called = |origin: &toolnexus_core::ToolOrigin| origin.remote_name == called;
        let tool = self.tools().iter().find(|tool| tool.origin.as_ref().is_some_and(is_called))?;
        let none = Map::new();
        let arguments = request.params.as_ref()?.get("arguments").and_then(Value::as_object);
        ParamMarks::of(&tool.input_schema).ok()?.headers(arguments.unwrap_or(&none))
    }
}
