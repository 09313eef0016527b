//! One `tools/call`.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject};
use serde_json::{Map, Value};
use toolnexus_core::{ToolContext, ToolResult};
use tracing::Instrument as _;

use crate::failure::{Fault, McpFailureKind, McpPhase};
use crate::naming::mcp_tool_name;
use crate::param_headers::ParamMarks;
use crate::request::{Limits, span};
use crate::result::tool_result;
use crate::slot::Slot;

/// The metadata key under which a call's idempotency key travels.
const IDEMPOTENCY_KEY: &str = "toolnexus/idempotencyKey";

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
        let params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
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
        let mut limits = self.limits;
        if let Some(timeout) = context.timeout_ms {
            limits.idle = Duration::from_millis(timeout);
        }
        let mut call = CallToolRequest::new(params);
        if let Some(headers) = headers {
            call.extensions.insert(headers);
        }
        let call = ClientRequest::CallToolRequest(call);
        let raw = self.slot.request(call, meta, limits, Some(&context)).await?;
        tool_result(&raw)
    }

    fn failed(&self, fault: Fault) -> ToolResult {
        let name = || mcp_tool_name(&self.slot.server, &self.name);
        match fault.kind {
            McpFailureKind::UnmeteredCall => {
                return ToolResult::failure(format!(
                    "tool \"{}\" is priced; no spend reservation was made",
                    name()
                ));
            }
            McpFailureKind::UnknownPrice => {
                return ToolResult::failure(format!(
                    "tool \"{}\" has no price; its server is metered",
                    name()
                ));
            }
            _ => {}
        }
        // Where the server or this side has said why, its log would only be noise for a model.
        let explained = matches!(
            fault.kind,
            McpFailureKind::RpcError | McpFailureKind::Closed | McpFailureKind::Cancelled
        );
        let failure = if explained {
            fault.at(&self.slot.server, McpPhase::CallTool, Vec::new())
        } else {
            self.slot.failure(fault, McpPhase::CallTool)
        };
        ToolResult::failure(failure)
    }
}
