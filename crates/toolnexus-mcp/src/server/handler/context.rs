//! What a tool can learn of the request it works for.

use std::sync::Arc;

use http::request::Parts;
use serde_json::Value;
use toolnexus_core::{Identity, ToolContext};

use super::hooks::McpCallContext;

/// Who called the tool, as the handler's `authenticate` said.
///
/// `None` outside a call that came over MCP, or when nobody asked.
///
/// ```
/// use toolnexus_core::{ToolContext, define_tool};
/// use toolnexus_mcp::server::mcp_identity;
/// let whoami = define_tool("whoami", "Who you are", None, |_args, context: ToolContext| async move {
///     Ok::<_, String>(mcp_identity(&context).map_or("nobody".to_owned(), |caller| caller.id))
/// });
/// # assert_eq!(whoami.name, "whoami");
/// ```
pub fn mcp_identity(context: &ToolContext) -> Option<Identity> {
    of(context)?.identity.clone()
}

/// The head of the HTTP request that called the tool.
///
/// `None` outside a call that came over HTTP.
pub fn mcp_request(context: &ToolContext) -> Option<Arc<Parts>> {
    of(context)?.request.clone()
}

/// The session in which the tool was called, or what the handler's `stateless_session_id` gives.
///
/// `None` outside a call that came through a handler.
pub fn mcp_session_id(context: &ToolContext) -> Option<String> {
    of(context)?.session_id.clone()
}

/// `params._meta` of the call, as it came.
///
/// `None` outside a call that came over MCP, or when there was none.
pub fn mcp_request_meta(context: &ToolContext) -> Option<Value> {
    of(context)?.meta.clone()
}

fn of(context: &ToolContext) -> Option<&McpCallContext> {
    context.extensions.get()
}
