//! What is called with which arguments.

use serde_json::{Map, Value, json};
use toolnexus::Tool;

/// The calls of a scenario: those that its context names, else every tool once.
pub(crate) fn calls<'a>(tools: &'a [Tool], scenario: &str, context: &Value) -> Vec<(&'a Tool, Value)> {
    // Its server lists a tool and has no calls.
    if scenario == "json-schema-ref-no-deref" {
        return Vec::new();
    }
    let remote_name = |tool: &Tool| tool.origin.as_ref().map(|origin| origin.remote_name.clone());
    if let Some(named) = context.get("toolCalls").and_then(Value::as_array) {
        let call = |call: &Value| {
            let name = call.get("name")?.as_str()?;
            let tool = tools.iter().find(|tool| remote_name(tool).as_deref() == Some(name))?;
            Some((tool, call.get("arguments").cloned().unwrap_or_default()))
        };
        return named.iter().filter_map(call).collect();
    }
    tools
        .iter()
        .map(|tool| (tool, echoed(tool, tools).unwrap_or_else(|| from_schema(&tool.input_schema))))
        .collect()
}

/// For a tool that wants to see the schema of another one as it was received.
fn echoed(tool: &Tool, tools: &[Tool]) -> Option<Value> {
    tool.input_schema.pointer("/properties/schema")?;
    let other = tools.iter().find(|other| other.input_schema.get("$schema").is_some())?;
    Some(json!({ "schema": other.input_schema }))
}

/// An object with a value for every property of a schema.
fn from_schema(schema: &Value) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let filled = properties.into_iter().flatten();
    filled.map(|(name, property)| (name.clone(), value(name, property))).collect::<Map<_, _>>().into()
}

fn value(name: &str, property: &Value) -> Value {
    let choices = property.get("enum").and_then(Value::as_array);
    if let Some(given) = property
        .get("default")
        .or_else(|| property.get("const"))
        .or_else(|| choices.and_then(|choices| choices.first()))
    {
        return given.clone();
    }
    match property.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => json!(3),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => from_schema(property),
        _ => json!(name),
    }
}
