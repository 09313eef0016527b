//! A tool as `tools/list` shows it.

use serde::ser::{Serialize, SerializeMap, Serializer};
use toolnexus_core::{Tool, ToolHints};

/// How much of a tool is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Name, description and schema.
    Plain,
    /// Title and annotations as well, where the tool has them.
    Rich,
}

/// One entry of `tools/list`. The schema goes out as it was registered, the name verbatim.
pub(crate) struct ToolEntry<'a>(pub(crate) &'a Tool, pub(crate) Detail);

impl Serialize for ToolEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ToolEntry(tool, detail) = self;
        let rich = *detail == Detail::Rich;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &tool.name)?;
        if let (true, Some(title)) = (rich, &tool.title) {
            map.serialize_entry("title", title)?;
        }
        map.serialize_entry("description", &tool.description)?;
        map.serialize_entry("inputSchema", &tool.input_schema)?;
        if let (true, Some(hints)) = (rich, &tool.hints) {
            map.serialize_entry("annotations", &Annotations(hints))?;
        }
        map.end()
    }
}

struct Annotations<'a>(&'a ToolHints);

impl Serialize for Annotations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // All four: what is left out, a client takes for MCP's own default.
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("readOnlyHint", &self.0.read_only)?;
        map.serialize_entry("destructiveHint", &self.0.destructive)?;
        map.serialize_entry("idempotentHint", &self.0.idempotent)?;
        map.serialize_entry("openWorldHint", &self.0.open_world)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(tool: &Tool, detail: Detail) -> String {
        serde_json::to_string(&ToolEntry(tool, detail)).unwrap()
    }

    // MCP-151, MCP-166, SERVE-67
    #[test]
    fn an_entry_shows_what_was_registered() {
        let schema = json!({"properties": {"q": {"type": "string"}}, "x-a": 1, "type": "object"});
        let tool = Tool::new("calc.sum", |_, _| async {}).description("Adds").input_schema(schema);
        let plain = r#"{"name":"calc.sum","description":"Adds","inputSchema":{"properties":{"q":{"type":"string"}},"x-a":1,"type":"object"}}"#;
        assert_eq!(entry(&tool, Detail::Plain), plain);
        assert_eq!(entry(&tool, Detail::Rich), plain);

        let hints = ToolHints { read_only: true, idempotent: true, ..Default::default() };
        let tool = Tool::new("t", |_, _| async {}).title("A tool").hints(hints);
        assert_eq!(
            entry(&tool, Detail::Plain),
            r#"{"name":"t","description":"","inputSchema":{"type":"object"}}"#
        );
        assert_eq!(
            entry(&tool, Detail::Rich),
            r#"{"name":"t","title":"A tool","description":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}"#
        );
    }
}
