//! A toolkit as an MCP server: the other direction of this crate.
//!
//! Where to look:
//! * `message`: JSON-RPC as it comes in (request, notification, response, or nothing of use), and
//!   the bodies that go out.
//! * `describe`: a tool as `tools/list` shows it; `result`: a tool's result as `tools/call` gives it.
//! * `call`: one running call, with its reports, its cancellation and its end.
//! * `profile`: a whole toolkit for anybody who asks, without sessions, over HTTP or stdio.
//! * `head`: what the head of an HTTP request says; `sse`, `body`: what an HTTP answer is made of.
//! * `handler`: the endpoint that a host mounts in its own HTTP stack, with sessions and hooks.

mod body;
mod call;
mod describe;
mod error;
mod handler;
mod head;
mod message;
mod profile;
mod result;
mod sse;

pub use body::McpBody;
pub use error::McpServeError;
pub use handler::{
    Authenticate, BeforeCallHook, CompleteHook, GetPromptHook, ListPromptsHook, ListResourceTemplatesHook,
    ListResourcesHook, ListToolsHook, McpCallContext, McpCallDecision, McpCallEvent, McpCompletion,
    McpCompletionReference, McpCompletionRequest, McpDecision, McpHandler, McpHandlerOptions, McpHook,
    McpHookError, McpHookWith, McpPage, McpPrompt, McpPromptArgument, McpPromptContent, McpPromptMessage,
    McpPromptResult, McpPromptRole, McpResource, McpResourceContents, McpResourceData, McpResourceTemplate,
    McpServerDetails, McpSessionIds, McpStatelessSessionId, OnMcpCall, ReadResourceHook, ServerInfoHook,
    SessionIdOf, SubscriptionHook, TerminateSessionId, ValidateSessionId, WwwAuthenticate, mcp_close_stream,
    mcp_handler, mcp_identity, mcp_request, mcp_request_meta, mcp_session_id,
};
pub use head::is_json_or_unsaid;
pub use profile::{McpProfile, McpServeConfig, OnCall, OnCallEvent, exposed_tools, serve_mcp_stdio};
