//! What this client says of itself, and how it answers what a server asks.
#![expect(deprecated, reason = "refusing sampling and roots takes naming them")]

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest,
    CustomResult, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorCode, ErrorData,
    Implementation, ListRootsResult, RequestId,
};
use rmcp::service::{InboundStreamOrigin, RequestContext};
use toolnexus_core::WaitFor;

use crate::elicitation;
use crate::in_flight::CallsInFlight;
use crate::options::LoadMcpOptions;
use crate::wire::{self, OFFERED_VERSION};

/// Answers `ping`, as rmcp does by itself, and elicitations where somebody can be asked; refuses
/// every other request.
pub(crate) struct Handler {
    calls: Arc<CallsInFlight>,
    /// Who is asked.
    pub(crate) wait_for: Option<WaitFor>,
}

impl Handler {
    pub(crate) fn new(opts: &LoadMcpOptions, calls: &Arc<CallsInFlight>) -> Self {
        Handler { calls: Arc::clone(calls), wait_for: opts.wait_for.clone() }
    }
}

/// The request whose own stream brought this one, if the wire tells.
fn cause(context: &RequestContext<RoleClient>) -> Option<RequestId> {
    match context.extensions.get::<InboundStreamOrigin>() {
        Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id.clone()),
        _ => None,
    }
}

fn not_found() -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "Method not found", None)
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let info = Implementation::new("toolnexus", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = self
            .wait_for
            .as_ref()
            .map(|_| ElicitationCapability::new().with_form(Default::default()).with_url(Default::default()));
        ClientConfig::new(capabilities, info).with_protocol_version(OFFERED_VERSION)
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(not_found())
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(not_found())
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(not_found())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let (Some(wait_for), Some(params)) = (&self.wait_for, wire::elicitation(&request)) else {
            return Err(not_found());
        };
        let Some(question) = self.calls.question(cause(&context)) else {
            tracing::warn!("[toolnexus] an MCP server asks more questions at once than the host is asked");
            return Ok(CustomResult(elicitation::cancelled()));
        };
        let answer = tokio::select! {
            biased;
            // The wire drops the answer: there is nobody to read it.
            () = self.calls.ended() => None,
            // The server has withdrawn its question: rmcp drops the answer.
            () = context.ct.cancelled() => None,
            () = question.moot() => None,
            answer = elicitation::ask(wait_for, &params) => Some(answer),
        };
        Ok(CustomResult(answer.unwrap_or_else(elicitation::cancelled)))
    }
}
