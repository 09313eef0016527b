//! One `tools/call`.

use std::sync::Arc;

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject};
use serde_json::{Map, Value};
use toolnexus_core::{ToolContext, ToolResult};
use tracing::Instrument as _;

use crate::failure::{Fault, McpFailure, McpFailureKind, McpPhase};
use crate::naming::mcp_tool_name;
use crate::param_headers::ParamMarks;
use crate::request::{Limits, span};
use crate::result::tool_result;
use crate::rounds::{self, Given};
use crate::slot::Slot;

/// The metadata key under which a call's idempotency key travels.
pub(crate) const IDEMPOTENCY_KEY: &str = "toolnexus/idempotencyKey";

/// A tool of a server, as far as calling it goes.
pub(crate) struct RemoteTool {
    pub(crate) slot: Arc<Slot>,
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) marks: ParamMarks,
}

impl RemoteTool {
    /// Calls the tool. Whatever goes wrong is an error result.
    pub(crate) async fn call(&self, args: Value, context: ToolContext) -> ToolResult {
        let span = span(&self.slot.server, McpPhase::CallTool, Some(&self.name));
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
                self.failed(fault)
            }
        };
        let mut metadata = Map::with_capacity(1);
        metadata.insert("server".to_owned(), Value::String(self.slot.server.to_string()));
        result.metadata = Some(metadata);
        result
    }

    async fn exchange(&self, args: Value, mut context: ToolContext) -> Result<ToolResult, Fault> {
        let arguments = match args {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let headers = self.marks.headers(&arguments);
        let meta = context.idempotency_key.clone().map(|key| {
            let mut meta = RequestMetaObject::new();
            meta.insert(IDEMPOTENCY_KEY.to_owned(), Value::String(key));
            meta
        });
        if self.slot.spend.is_metered() {
            let cancel = context.cancel.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(Fault::new(McpFailureKind::Cancelled)),
                () = self.slot.closed.cancelled() => return Err(Fault::closed()),
                () = self.slot.spend.fund(&self.name, &mut context) => {}
            }
        }
        let send = |given: Given, limits| {
            let mut params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments.clone());
            params.input_responses = given.responses;
            params.request_state = given.state;
            let mut call = CallToolRequest::new(params);
            if let Some(headers) = headers.clone() {
                call.extensions.insert(headers);
            }
            self.slot.request(ClientRequest::CallToolRequest(call), meta.clone(), limits, Some(&context))
        };
        let raw = rounds::complete(&self.slot, self.limits.within(&context), &context, send).await?;
        tool_result(&raw)
    }

    fn failed(&self, fault: Fault) -> ToolResult {
        let name = || mcp_tool_name(&self.slot.server, &self.name);
        ToolResult::failure(match fault.kind {
            McpFailureKind::UnmeteredCall => {
                format!("tool \"{}\" is priced; no spend reservation was made", name())
            }
            McpFailureKind::UnknownPrice => {
                format!("tool \"{}\" has no price; its server is metered", name())
            }
            _ => failure(&self.slot, fault, McpPhase::CallTool).to_string(),
        })
    }
}

/// What a failed call, or another request of a tool, tells.
pub(crate) fn failure(slot: &Slot, fault: Fault, phase: McpPhase) -> McpFailure {
    // Where the server or this side has said why, its log would only be noise for a model.
    let explained = matches!(
        fault.kind,
        McpFailureKind::RpcError | McpFailureKind::Closed | McpFailureKind::Cancelled | McpFailureKind::Busy
    );
    if explained { fault.at(&slot.server, phase, Vec::new()) } else { slot.failure(fault, phase) }
}
