//! One `tools/call`.

use std::sync::Arc;

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject};
use serde_json::{Map, Value};
use toolnexus_core::{ToolContext, ToolResult};
use tracing::Instrument as _;

use crate::failure::{Fault, McpFailure, McpFailureKind, McpPhase};
use crate::live::Live;
use crate::request::{Limits, request, span};
use crate::result::tool_result;
use crate::rounds::{self, Given};

/// The metadata key under which a call's idempotency key travels.
const IDEMPOTENCY_KEY: &str = "toolnexus/idempotencyKey";

/// A tool of a server, as far as calling it goes.
pub(crate) struct RemoteTool {
    pub(crate) live: Arc<Live>,
    pub(crate) name: String,
    pub(crate) limits: Limits,
}

impl RemoteTool {
    /// Calls the tool. Whatever goes wrong is an error result.
    pub(crate) async fn call(&self, args: Value, context: ToolContext) -> ToolResult {
        let span = span(&self.live.server, McpPhase::CallTool, Some(&self.name));
        let outcome = self.exchange(args, context).instrument(span.clone()).await;
        let mut result = match outcome {
            Ok(result) => {
                if result.is_error {
                    span.record("error.type", "tool_error");
                }
                result
            }
            Err(fault) => {
                span.record("error.type", fault.kind.as_str());
                ToolResult::failure(failure(&self.live, fault, McpPhase::CallTool))
            }
        };
        let mut metadata = Map::with_capacity(1);
        metadata.insert("server".to_owned(), Value::String(self.live.server.to_string()));
        result.metadata = Some(metadata);
        result
    }

    async fn exchange(&self, args: Value, context: ToolContext) -> Result<ToolResult, Fault> {
        let arguments = match args {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let meta = context.idempotency_key.clone().map(|key| {
            let mut meta = RequestMetaObject::new();
            meta.insert(IDEMPOTENCY_KEY.to_owned(), Value::String(key));
            meta
        });
        let send = |given: Given, limits| {
            let mut params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments.clone());
            params.input_responses = given.responses;
            params.request_state = given.state;
            let call = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            request(&self.live, call, meta.clone(), limits, Some(&context))
        };
        let raw = rounds::complete(&self.live, self.limits.within(&context), &context, send).await?;
        tool_result(&raw)
    }
}

/// What a failed call, or another request of a tool, tells.
pub(crate) fn failure(live: &Live, fault: Fault, phase: McpPhase) -> McpFailure {
    // Where the server or this side has said why, its log would only be noise for a model.
    let explained =
        matches!(fault.kind, McpFailureKind::RpcError | McpFailureKind::Closed | McpFailureKind::Cancelled);
    if explained { fault.at(&live.server, phase, Vec::new()) } else { live.failure(fault, phase) }
}
