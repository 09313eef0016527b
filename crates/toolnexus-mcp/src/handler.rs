//! What this client says of itself, and how it answers what a server asks.
#![expect(deprecated, reason = "refusing sampling and roots takes naming them")]

use rmcp::ClientHandler;
use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest,
    CustomResult, ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, Implementation, ListRootsResult,
};
use rmcp::service::RequestContext;

use crate::options::LoadMcpOptions;
use crate::wire::OFFERED_VERSION;

/// Answers `ping`, as rmcp does by itself, and refuses every other request.
pub(crate) struct Handler;

impl Handler {
    pub(crate) fn new(_opts: &LoadMcpOptions) -> Self {
        Handler
    }
}

fn not_found() -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "Method not found", None)
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let info = Implementation::new("toolnexus", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), info).with_protocol_version(OFFERED_VERSION)
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
        _request: CustomRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        Err(not_found())
    }
}
