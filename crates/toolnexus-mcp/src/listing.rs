//! `tools/list`: what a server's tools are.

use std::time::Duration;

use rmcp::model::{ClientRequest, ListToolsRequest};
use serde_json::{Map, Value};
use toolnexus_core::ToolHints;
use tracing::warn;

use crate::failure::{Fault, McpPhase};
use crate::pages::{Listing, ListingLimits};
use crate::request::Limits;
use crate::slot::Slot;

const LISTING: Listing = Listing {
    phase: McpPhase::ListTools,
    key: "tools",
    request: |params| ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params)),
};

/// What a server without tools answers.
const METHOD_NOT_FOUND: i64 = -32601;

/// One tool as a server lists it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListedTool {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) input_schema: Value,
    pub(crate) hints: Option<ToolHints>,
}

/// Every tool of the server, in its order. Each page has the whole `limit`.
pub(crate) async fn list_tools(slot: &Slot, limit: Duration) -> Result<Vec<ListedTool>, Fault> {
    let mut tools = Vec::new();
    let page = Limits { idle: limit, total: Some(limit) };
    let listing = LISTING.each(slot, ListingLimits { page, whole: None }, None, |entry| {
        tools.extend(listed(entry, &slot.server));
    });
    match listing.await {
        Err(fault) if fault.rpc_code == Some(METHOD_NOT_FOUND) && !declares_tools(slot) => Ok(Vec::new()),
        Err(fault) => Err(fault),
        Ok(()) => Ok(tools),
    }
}

/// Whether the server that answers here says that it has tools.
fn declares_tools(slot: &Slot) -> bool {
    slot.current().is_some_and(|live| live.facts.declares_tools)
}

/// A listed entry as a tool; `None` for one without a name, which does not fail the others.
fn listed(entry: Value, server: &str) -> Option<ListedTool> {
    let Value::Object(mut entry) = entry else {
        warn!("[toolnexus] server \"{server}\" lists a tool that is no object: skipped");
        return None;
    };
    let Some(Value::String(name)) = entry.remove("name") else {
        warn!("[toolnexus] server \"{server}\" lists a tool without a name: skipped");
        return None;
    };
    let annotations = match entry.get("annotations") {
        Some(Value::Object(annotations)) => Some(annotations),
        _ => None,
    };
    let text = |map: Option<&Map<String, Value>>, key: &str| {
        map.and_then(|map| map.get(key)).and_then(Value::as_str).map(str::to_owned)
    };
    Some(ListedTool {
        title: text(Some(&entry), "title").or_else(|| text(annotations, "title")),
        description: text(Some(&entry), "description").unwrap_or_default(),
        hints: annotations.and_then(hints),
        input_schema: match entry.remove("inputSchema") {
            Some(schema @ Value::Object(_)) => schema,
            _ => serde_json::json!({"type": "object"}),
        },
        name,
    })
}

/// What the server says about effects, each silence filled with MCP's own default.
fn hints(annotations: &Map<String, Value>) -> Option<ToolHints> {
    let hint = |key: &str| annotations.get(key).and_then(Value::as_bool);
    let (read_only, destructive, open_world) =
        (hint("readOnlyHint"), hint("destructiveHint"), hint("openWorldHint"));
    if read_only.is_none() && destructive.is_none() && open_world.is_none() {
        return None;
    }
    let read_only = read_only.unwrap_or(false);
    Some(ToolHints {
        read_only,
        destructive: destructive.unwrap_or(!read_only),
        open_world: open_world.unwrap_or(true),
        idempotent: hint("idempotentHint").unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // MCP-34, case 29
    #[test]
    fn a_schema_is_kept_to_the_byte() {
        let schema = r#"{"properties":{"q":{"type":"string"}},"additionalProperties":true,"x-a":1,"$defs":{"z":{},"a":{}},"required":["q"],"oneOf":[]}"#;
        let entry = serde_json::from_str(&format!(r#"{{"name":"t","inputSchema":{schema}}}"#)).unwrap();
        assert_eq!(listed(entry, "s").unwrap().input_schema.to_string(), schema);
        for entry in [
            json!({"name": "t"}),
            json!({"name": "t", "inputSchema": "no"}),
            json!({"name": "t", "inputSchema": null}),
        ] {
            assert_eq!(listed(entry, "s").unwrap().input_schema, json!({"type": "object"}));
        }
    }

    // MCP-53, MCP-25
    #[test]
    fn odd_entries_are_skipped_alone() {
        assert!(listed(json!(5), "s").is_none());
        assert!(listed(json!({"description": "nameless"}), "s").is_none());
        assert!(listed(json!({"name": 7}), "s").is_none());
        let tool = listed(json!({"name": "t", "description": null, "annotations": 5}), "s").unwrap();
        assert_eq!((tool.description.as_str(), tool.title, tool.hints), ("", None, None));
    }

    // MCP-35
    #[test]
    fn hints_fill_silence_with_the_defaults_of_mcp() {
        let of = |annotations: Value| hints(annotations.as_object().unwrap());
        assert_eq!(of(json!({"title": "T", "idempotentHint": true})), None);
        let all = |read_only, destructive, open_world, idempotent| {
            Some(ToolHints { read_only, destructive, open_world, idempotent })
        };
        assert_eq!(of(json!({"readOnlyHint": true})), all(true, false, true, false));
        assert_eq!(of(json!({"readOnlyHint": false})), all(false, true, true, false));
        assert_eq!(
            of(json!({"openWorldHint": false, "idempotentHint": true})),
            all(false, true, false, true)
        );
        assert_eq!(
            of(json!({"destructiveHint": false, "readOnlyHint": "yes"})),
            all(false, false, true, false)
        );
    }
}
