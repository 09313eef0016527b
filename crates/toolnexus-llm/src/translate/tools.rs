//! Tool declarations and the tool choice.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::text::string;

/// OpenAI tool entries as Anthropic's. Entries that have a name and no `function` are Anthropic's
/// already and pass through; anything else is skipped.
///
/// ```
/// use serde_json::json;
/// use toolnexus_llm::translate::openai_tools_to_anthropic;
/// let tools = [json!({"type": "function", "function": {"name": "ping"}})];
/// assert_eq!(openai_tools_to_anthropic(&tools), [
///     json!({"name": "ping", "input_schema": {"type": "object", "properties": {}}}),
/// ]);
/// ```
pub fn openai_tools_to_anthropic(tools: &[Value]) -> Vec<Value> {
    tools.iter().filter_map(to_anthropic).collect()
}

fn to_anthropic(tool: &Value) -> Option<Value> {
    let Some(function) = tool.get("function") else {
        return tool.get("name").map(|_| tool.clone());
    };
    let name = string(function.get("name"));
    if name.is_empty() {
        return None;
    }
    let mut entry = Map::new();
    entry.insert("name".into(), name.into());
    let description = string(function.get("description"));
    if !description.is_empty() {
        entry.insert("description".into(), description.into());
    }
    let schema = function.get("parameters").filter(|parameters| parameters.is_object()).cloned();
    let schema = schema.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    entry.insert("input_schema".into(), schema);
    Some(Value::Object(entry))
}

/// An OpenAI tool choice as Anthropic's. `None`: nothing is to be sent, which means `auto`.
pub fn openai_tool_choice_to_anthropic(choice: &Value) -> Option<Value> {
    match choice {
        Value::String(word) => match word.as_str() {
            "required" | "any" => Some(json!({"type": "any"})),
            "none" => Some(json!({"type": "none"})),
            _ => None,
        },
        _ => {
            let name = string(choice.get("function")?.get("name"));
            (!name.is_empty()).then(|| json!({"type": "tool", "name": name}))
        }
    }
}

/// Drops each entry whose name was declared before it: providers refuse duplicates.
pub(super) fn without_duplicates(tools: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut declared = HashSet::new();
    tools
        .into_iter()
        .filter(|tool| {
            let name = string(tool.get("function").unwrap_or(tool).get("name"));
            let first = name.is_empty() || declared.insert(name.to_owned());
            if !first {
                tracing::warn!("[toolnexus] the tool \"{name}\" is declared twice: the later one is dropped");
            }
            first
        })
        .collect()
}

/// OpenAI refuses an object schema without `properties`: it gets an empty one as its last key.
pub(crate) fn with_properties(mut tool: Value) -> Value {
    if let Some(Value::Object(schema)) = tool.pointer_mut("/function/parameters")
        && string(schema.get("type")) == "object"
        && !schema.contains_key("properties")
    {
        schema.insert("properties".into(), json!({}));
    }
    tool
}
