//! Tool definitions, directories and text that name places to route to.

use std::borrow::Cow;

use memchr::{memchr, memmem};
use serde_json::Value;

use crate::Registry;
use crate::json_text::{Step, is_object, rewrite_strings};
use crate::settings::SpaceId;
use crate::syntax::is_free_left;

/// The tool that finds definitions. Its description lists those of other tools.
const TOOL_SEARCH: &str = "tool_search";

/// Under which name dialects keep a tool's schema.
const SCHEMAS: [&str; 4] = ["parameters", "input_schema", "inputSchema", "parametersJsonSchema"];

/// The members of a directory whose rows name places.
const ROWS: [&str; 2] = ["servers", "tools"];

impl Registry {
    /// Tool definitions as the model shall see them, in any dialect: routing ids that they list become
    /// handles. The toolkit keeps its own, and checks arguments by those.
    pub fn encode_tools(&self, tools: &[Value]) -> Vec<Value> {
        let mut tools = tools.to_vec();
        // A description may name an id that the schema of a later tool lists.
        definitions(&mut tools).for_each(|definition| self.encode_routing_enum(definition));
        definitions(&mut tools).for_each(|definition| self.encode_description(definition));
        tools
    }

    fn encode_routing_enum(&self, definition: &mut Value) {
        let policy =
            definition.get("name").and_then(Value::as_str).and_then(|name| self.settings().policy(name));
        let Some((key, space)) = policy.and_then(|policy| policy.routing_key.as_ref()) else { return };
        for schema in SCHEMAS {
            let properties = definition.get_mut(schema).and_then(|schema| schema.get_mut("properties"));
            let Some(properties) = properties.and_then(Value::as_object_mut) else { continue };
            let routing = properties.iter_mut().filter(|(name, _)| name.to_lowercase() == *key);
            for listed in routing.filter_map(|(_, property)| property.get_mut("enum")?.as_array_mut()) {
                for value in listed {
                    if let Some(handle) = value.as_str().and_then(|id| self.register_private(*space, id)) {
                        *value = handle.into();
                    }
                }
            }
        }
    }

    fn encode_description(&self, definition: &mut Value) {
        let Some(name) = definition.get("name").and_then(Value::as_str) else { return };
        let policy = self.settings().policy(name);
        let routing = policy.and_then(|policy| policy.routing_key.as_ref());
        let is_directory = policy.is_some_and(|policy| policy.directory);
        if routing.is_none() && !self.is_mcp_tool(name) && name != TOOL_SEARCH {
            return;
        }
        let Some(Value::String(description)) = definition.get_mut("description") else { return };
        if let Some((key, space)) = routing.filter(|_| is_directory) {
            let lines = description.split_inclusive('\n');
            *description = lines.map(|line| self.encode_directory_line(key, *space, line)).collect();
        }
        if let Cow::Owned(encoded) = self.encode_routing_text(description) {
            *description = encoded;
        }
    }

    /// A line that is a JSON object may name a place.
    fn encode_directory_line<'t>(&self, key: &str, space: SpaceId, line: &'t str) -> Cow<'t, str> {
        if !is_object(line) {
            return Cow::Borrowed(line);
        }
        let edited = rewrite_strings(line, &mut |place, id| match place.path {
            [Step::Member(name)] if !place.is_name && name == key => self.register_private(space, id),
            _ => None,
        });
        edited.ok().flatten().map_or(Cow::Borrowed(line), Cow::Owned)
    }

    /// `server_id="…"` of a known server in system and user text. The key is that of the directory tools.
    pub(crate) fn encode_routing_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if memmem::find(text.as_bytes(), b"=\"").is_none() {
            return Cow::Borrowed(text);
        }
        let keys: Vec<(&str, SpaceId)> = self.settings().directory_keys().collect();
        let tables = self.tables();
        let (mut out, mut copied) = (String::new(), 0);
        for equals in memmem::find_iter(text.as_bytes(), b"=\"") {
            let before = text.get(..equals).unwrap_or_default();
            let written = |key: &str| before.ends_with(key) && is_free_left(text, equals - key.len());
            let Some((_, space)) = keys.iter().find(|(key, _)| written(key)) else { continue };
            let start = equals + 2;
            let rest = text.get(start..).unwrap_or_default();
            // The next place to look at is behind that quote, or begins with it.
            let Some(id) = memchr(b'"', rest.as_bytes()).and_then(|quote| rest.get(..quote)) else { break };
            let Some(table) = tables.space(*space) else { continue };
            let Some(place) = table.place_of(id) else { continue };
            out.push_str(text.get(copied..start).unwrap_or_default());
            out.push_str(&table.handle_of(place));
            copied = start + id.len();
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// The result of `tool_search`: the definitions in it as [`encode_tools`](Self::encode_tools) gives
    /// them.
    pub(crate) fn encode_found_tools<'t>(&self, output: &'t str) -> Cow<'t, str> {
        let Ok(found) = serde_json::from_str::<Vec<Value>>(output) else { return Cow::Borrowed(output) };
        let encoded = self.encode_tools(&found);
        if encoded == found { Cow::Borrowed(output) } else { Cow::Owned(Value::Array(encoded).to_string()) }
    }

    /// The result of a directory tool: the ids of places, at the top and in the rows of `servers` and
    /// `tools`, are registered and become handles. In what is no object known ones do.
    pub(crate) fn encode_directory<'t>(&self, output: &'t str) -> Cow<'t, str> {
        let settings = self.settings();
        let keys = settings.routing_keys();
        let edited = rewrite_strings(output, &mut |place, id| {
            let name = match place.path {
                [Step::Member(name)] => name,
                [Step::Member(rows), Step::Element(_), Step::Member(name)]
                    if ROWS.contains(&rows.as_str()) =>
                {
                    name
                }
                _ => return None,
            };
            let space = keys.get(name).filter(|_| !place.is_name)?;
            self.register_private(*space, id)
        });
        match edited {
            Ok(edited) if is_object(output) => edited.map_or(Cow::Borrowed(output), Cow::Owned),
            _ => settings.spaces().filter(|(_, space)| space.is_routing).fold(
                Cow::Borrowed(output),
                |text, (space, _)| match text {
                    Cow::Borrowed(text) => self.encode_known_ids(space, text),
                    Cow::Owned(text) => Cow::Owned(self.encode_known_ids(space, &text).into_owned()),
                },
            ),
        }
    }
}

/// Each definition of a tools array, wherever its dialect puts it.
fn definitions(tools: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    tools.iter_mut().flat_map(|tool| {
        for name in ["functionDeclarations", "function_declarations"] {
            if tool.get(name).is_some_and(Value::is_array) {
                let declared = tool.get_mut(name).and_then(Value::as_array_mut);
                return declared.map(Vec::as_mut_slice).unwrap_or_default().iter_mut();
            }
        }
        if tool.get("function").is_some_and(Value::is_object) {
            return tool.get_mut("function").map(std::slice::from_mut).unwrap_or_default().iter_mut();
        }
        std::slice::from_mut(tool).iter_mut()
    })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::{Value, json};

    use crate::Registry;

    // CTX-111: what `tool_search` found is as the tools array has it
    #[test]
    fn found_definitions_show_handles() {
        let registry = Registry::new(true);
        registry.mark_mcp_tools(["server_tool"]);
        let found = |server: &str| {
            json!([
                {"name": "server_tool", "description": format!("of server_id=\"{server}\""), "inputSchema": {"n": 1.50}},
                {"name": "discover_mcp_tools", "description": format!("{{\"server_id\":\"{server}\"}}"),
                 "inputSchema": {"type": "object", "properties": {"server_id": {"enum": [server]}}}},
            ])
        };
        let encoded = registry.encode_found_tools(&found("server-durable").to_string()).into_owned();
        assert_eq!(serde_json::from_str::<Value>(&encoded).unwrap(), found("ms1"));
        assert_eq!(registry.encode_found_tools(&encoded), encoded);
    }

    // CTX-111: anything else keeps its bytes
    #[test]
    fn other_findings_keep_their_bytes() {
        let registry = Registry::new(true);
        for output in
            ["tool_search needs a query", "[]", "[ {\"name\" : \"x\", \"n\":1.00} ]", "{}", "[1, null]"]
        {
            assert!(matches!(registry.encode_found_tools(output), Cow::Borrowed(same) if same == output));
        }
    }
}
