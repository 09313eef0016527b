//! `tools/list`, page by page.

use std::collections::HashSet;
use std::time::Duration;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolnexus_core::ToolHints;
use tracing::{Instrument as _, warn};

use crate::failure::{Fault, McpFailureKind, McpPhase};
use crate::request::{Limits, span};
use crate::slot::Slot;

/// Pages of one listing.
const MAX_PAGES: usize = 1000;

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
    let mut pages = Pages::default();
    let mut tools = Vec::new();
    let mut cursor = None;
    loop {
        let page = match fetch(slot, cursor, limit).await {
            Err(fault) if fault.rpc_code == Some(METHOD_NOT_FOUND) && !declares_tools(slot) => {
                return Ok(Vec::new());
            }
            page => page?,
        };
        tools.extend(page.tools.into_iter().filter_map(|entry| listed(entry, &slot.server)));
        cursor = pages.next(page.next)?;
        if cursor.is_none() {
            return Ok(tools);
        }
    }
}

/// Whether the server that answers here says that it has tools.
fn declares_tools(slot: &Slot) -> bool {
    slot.current().is_some_and(|live| live.facts.declares_tools)
}

/// One page.
async fn fetch(slot: &Slot, cursor: Option<String>, limit: Duration) -> Result<Page, Fault> {
    let span = span(&slot.server, McpPhase::ListTools, None);
    let params = PaginatedRequestParams::default().with_cursor(cursor);
    let list = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
    let limits = Limits { idle: limit, total: Some(limit) };
    let page = slot.request(list, None, limits, None).instrument(span.clone()).await;
    page.and_then(|raw| Page::read(&raw).ok_or_else(Fault::malformed)).inspect_err(|fault| {
        span.record("error.type", fault.kind.as_str());
    })
}

/// Guards a listing against a server that never ends it.
#[derive(Default)]
struct Pages {
    seen: HashSet<String>,
    count: usize,
}

impl Pages {
    /// The cursor to go on with after a page; `None` ends the listing.
    fn next(&mut self, cursor: Option<String>) -> Result<Option<String>, Fault> {
        let Some(cursor) = cursor.filter(|cursor| !cursor.is_empty()) else { return Ok(None) };
        self.count += 1;
        if self.count >= MAX_PAGES {
            let text = format!("MCP list exceeded {MAX_PAGES} pages");
            return Err(Fault::with_detail(McpFailureKind::MalformedBody, text));
        }
        if !self.seen.insert(cursor.clone()) {
            let text = format!("MCP list returned duplicate cursor: {cursor}");
            return Err(Fault::with_detail(McpFailureKind::MalformedBody, text));
        }
        Ok(Some(cursor))
    }
}

struct Page {
    tools: Vec<Value>,
    next: Option<String>,
}

impl Page {
    fn read(raw: &str) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Result<'a> {
            #[serde(borrow)]
            tools: &'a RawValue,
            #[serde(default)]
            next_cursor: Value,
        }
        let result: Result<'_> = serde_json::from_str(raw).ok()?;
        let next = match result.next_cursor {
            Value::Null => None,
            Value::String(cursor) => Some(cursor),
            _ => return None,
        };
        Some(Page { tools: serde_json::from_str(result.tools.get()).ok()?, next })
    }
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

    // MCP-52, case 37: the guard counts pages and remembers cursors
    #[test]
    fn a_listing_ends() {
        let mut pages = Pages::default();
        assert_eq!(pages.next(None), Ok(None));
        assert_eq!(pages.next(Some(String::new())), Ok(None));
        assert_eq!(pages.next(Some("c".into())), Ok(Some("c".into())));
        let fault = pages.next(Some("c".into())).unwrap_err();
        assert_eq!(fault.kind, McpFailureKind::MalformedBody);
        assert_eq!(fault.detail.as_deref(), Some("MCP list returned duplicate cursor: c"));

        let mut pages = Pages::default();
        for page in 1..1000 {
            assert!(pages.next(Some(page.to_string())).is_ok());
        }
        let fault = pages.next(Some("1000".into())).unwrap_err();
        assert_eq!(fault.detail.as_deref(), Some("MCP list exceeded 1000 pages"));
    }

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

    // MCP-52
    #[test]
    fn a_page_needs_a_list() {
        assert!(Page::read(r#"{"tools":[],"nextCursor":null}"#).unwrap().next.is_none());
        assert_eq!(Page::read(r#"{"tools":[],"nextCursor":"a","x":1}"#).unwrap().next.as_deref(), Some("a"));
        for raw in
            ["{}", "[]", "null", r#"{"tools":{}}"#, r#"{"tools":null}"#, r#"{"tools":[],"nextCursor":7}"#]
        {
            assert!(Page::read(raw).is_none(), "{raw}");
        }
    }
}
