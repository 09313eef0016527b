//! Requests of any method on a connection.

use std::time::Duration;

use rmcp::model::{ClientNotification, ClientRequest, CustomNotification, CustomRequest, GetExtensions as _};
use serde_json::{Map, Value};
use toolnexus_core::ToolContext;
use tracing::Instrument as _;

use super::SeamError;
use crate::failure::{Fault, McpFailureKind, McpPhase};
use crate::param_headers::ParamMarks;
use crate::request::span;
use crate::slot::{Slot, Vacant};
use crate::source::McpConnection;
use crate::spend::Reservation;

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
    reservation: Option<Reservation>,
}

impl McpRequest {
    /// A request without parameters.
    pub fn new(method: impl Into<String>) -> Self {
        McpRequest { method: method.into(), params: None, timeout: None, reservation: None }
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

    /// Pays for a `tools/call` of a priced tool.
    #[must_use]
    pub fn reservation(mut self, reservation: Reservation) -> Self {
        self.reservation = Some(reservation);
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
    /// [`close`](McpConnection::close), [`SeamError::UnmeteredCall`] and [`SeamError::UnknownPrice`] for a
    /// call that is not paid, else [`SeamError::Failed`] with the server's error or what has
    /// become of the connection.
    pub async fn send(&self, request: McpRequest) -> Result<Value, SeamError> {
        let slot = self.standing()?;
        let mut limits = slot.limits();
        if let Some(timeout) = request.timeout {
            limits.idle = timeout;
        }
        let phase = McpPhase::of_method(&request.method);
        let span = span(&slot.server, &request.method, request.tool());
        let headers = self.param_headers(&request);
        let mut message = CustomRequest::new(request.method, request.params);
        if let Some(headers) = headers {
            message.extensions_mut().insert(headers);
        }
        let mut context = ToolContext::default();
        if let Some(reservation) = request.reservation {
            reservation.put_into(&mut context);
        }
        let message = ClientRequest::CustomRequest(message);
        let answer = slot.request(message, None, limits, Some(&context)).instrument(span.clone()).await;
        answer.and_then(|raw| crate::wire::parsed(&raw)).map_err(|fault| {
            span.record("error.type", fault.kind.as_str());
            seam_error(slot, fault, phase)
        })
    }

    /// Sends a notification of your own, and returns when the transport is done with it. It waits for its
    /// turn like a request does, within the server's `timeout`.
    ///
    /// # Errors
    /// As of [`send`](Self::send). Requests and the connection go on.
    pub async fn notify(&self, method: &str, params: Option<Value>) -> Result<(), SeamError> {
        let slot = self.standing()?;
        let notification = CustomNotification::new(method, params);
        let sent = slot.notify(ClientNotification::CustomNotification(notification)).await;
        sent.map_err(|fault| seam_error(slot, fault, McpPhase::Notify))
    }

    /// The server's place, if a session stands in it.
    fn standing(&self) -> Result<&Slot, SeamError> {
        let slot = self.slot().ok_or(SeamError::NotConnected)?;
        match slot.live() {
            Ok(_) => Ok(slot),
            // It is started by what is sent.
            Err(Vacant::NotConnected) if slot.config.lazy => Ok(slot),
            Err(Vacant::NotConnected) => Err(SeamError::NotConnected),
            Err(Vacant::Closed) => Err(SeamError::Closed),
        }
    }

    /// The headers that a called tool's schema asks for.
    fn param_headers(&self, request: &McpRequest) -> Option<crate::param_headers::ParamHeaders> {
        let called = request.tool()?;
        let is_called = |origin: &toolnexus_core::ToolOrigin| origin.remote_name == called;
        let tools = self.tools();
        let tool = tools.iter().find(|tool| tool.origin.as_ref().is_some_and(is_called))?;
        let none = Map::new();
        let arguments = request.params.as_ref()?.get("arguments").and_then(Value::as_object);
        ParamMarks::of(&tool.input_schema).ok()?.headers(arguments.unwrap_or(&none))
    }
}

/// What a fault on a connection means to whoever sends on it.
fn seam_error(slot: &Slot, fault: Fault, phase: McpPhase) -> SeamError {
    let tool = |fault: Fault| fault.detail.unwrap_or_default();
    match fault.kind {
        McpFailureKind::UnmeteredCall => SeamError::UnmeteredCall { tool: tool(fault) },
        McpFailureKind::UnknownPrice => SeamError::UnknownPrice { tool: tool(fault) },
        _ if matches!(slot.live(), Err(Vacant::Closed)) => SeamError::Closed,
        _ => slot.failure(fault, phase).into(),
    }
}
