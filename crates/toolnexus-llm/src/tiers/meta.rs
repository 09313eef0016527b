//! The two tools that stand for all others.

use serde_json::json;
use toolnexus_core::{Tool, ToolHints, ToolResult, ToolSource};

use super::ToolTier;

/// The tool that finds definitions.
pub(crate) const TOOL_SEARCH: &str = "tool_search";

/// The tool that calls what was found.
pub(crate) const CALL_TOOL: &str = "call_tool";

/// The most bytes of a description in the listing.
pub(super) const LINE_LIMIT: usize = 120;

/// What `tool_search` says of itself, before the listing.
const SEARCH_OPENING: &str = "Search for tools that are not loaded yet and get their definitions. \
     Use \"select:name1,name2\" for exact names, or keywords.";

/// What stands between the two, if there is anything to list.
pub(super) const LISTING_HEADING: &str = " Available tools:";

/// Whether a name belongs to one of the two.
pub(super) fn is_reserved(name: &str) -> bool {
    matches!(name, TOOL_SEARCH | CALL_TOOL)
}

/// `tool_search` with these lines at the end of its description.
pub(super) fn tool_search<'a>(lines: impl IntoIterator<Item = &'a str>) -> Tool {
    let mut description = SEARCH_OPENING.to_owned();
    for (at, line) in lines.into_iter().enumerate() {
        if at == 0 {
            description.push_str(LISTING_HEADING);
        }
        description.push('\n');
        description.push_str(line);
    }
    executed_by_the_client(TOOL_SEARCH)
        .description(description)
        .hints(ToolHints { read_only: true, ..Default::default() })
        .input_schema(json!({
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "Keywords, or \"select:\" and exact names with commas between them",
                },
                "limit": {
                    "type": "integer",
                    "description": "The most tools to return for keywords; 5 if left out",
                },
            },
            "required": ["query"],
        }))
}

/// `call_tool`.
pub(super) fn call_tool() -> Tool {
    executed_by_the_client(CALL_TOOL)
        .description("Call a tool found with tool_search by its exact name.")
        .input_schema(json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool's exact name"},
                "arguments": {
                    "type": "object",
                    "description": "The tool's arguments, as its inputSchema describes them",
                    // Some servers generate nothing that a schema does not name.
                    "additionalProperties": true,
                },
            },
            "required": ["name", "arguments"],
        }))
}

/// A tool that is declared to models and never run as one.
fn executed_by_the_client(name: &str) -> Tool {
    let unreachable = format!("{name} is executed by the client");
    Tool::new(name, move |_args, _context| {
        let result = ToolResult::failure(&unreachable);
        async move { result }
    })
    .source(ToolSource::Builtin)
}

/// The line of a tool in the listing.
pub(super) fn line(tool: &Tool, tier: ToolTier) -> String {
    let about = tool.description.trim().lines().next().unwrap_or_default();
    let about = about.get(..about.floor_char_boundary(LINE_LIMIT)).unwrap_or_default().trim_end();
    if tier == ToolTier::Deferred || about.is_empty() {
        format!("- {}", tool.name)
    } else {
        format!("- {} — {about}", tool.name)
    }
}
