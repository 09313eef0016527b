//! Tools in the shape that each provider wants.
//!
//! Pure functions: no network, key or environment. Order in is order out, and schemas are
//! emitted verbatim.
//!
//! ```
//! use toolnexus_core::{Tool, ToolResult, adapters};
//! let tool = Tool::new("refund", |_, _| async { ToolResult::success("done") }).description("Refund an order");
//! assert_eq!(
//!     adapters::to_anthropic(&[tool])[0],
//!     serde_json::json!({"name":"refund","description":"Refund an order","input_schema":{"type":"object"}}),
//! );
//! ```

mod gemini_schema;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{Style, Tool};

/// OpenAI: `{"type":"function","function":{"name","description","parameters"}}` for each tool.
///
/// ```
/// use toolnexus_core::{Tool, ToolResult, adapters};
/// let tool = Tool::new("refund", |_, _| async { ToolResult::success("done") });
/// assert_eq!(adapters::to_openai(&[tool])[0]["function"]["name"], "refund");
/// ```
pub fn to_openai<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Vec<Value> {
    tools
        .into_iter()
        .map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.input_schema,
            }})
        })
        .collect()
}

/// Anthropic: `{"name","description","input_schema"}` for each tool.
///
/// ```
/// use toolnexus_core::{Tool, ToolResult, adapters};
/// let tool = Tool::new("refund", |_, _| async { ToolResult::success("done") });
/// assert_eq!(adapters::to_anthropic(&[tool])[0]["input_schema"]["type"], "object");
/// ```
pub fn to_anthropic<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Vec<Value> {
    tools.into_iter().map(anthropic_entry).collect()
}

fn anthropic_entry(tool: &Tool) -> Value {
    json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema})
}

/// Gemini: always one element, `{"functionDeclarations":[{"name","description","parameters"}]}`.
///
/// ```
/// use toolnexus_core::{Tool, ToolResult, adapters};
/// let tool = Tool::new("refund", |_, _| async { ToolResult::success("done") });
/// assert_eq!(adapters::to_gemini(&[tool])[0]["functionDeclarations"][0]["name"], "refund");
/// ```
pub fn to_gemini<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Vec<Value> {
    let declarations: Vec<Value> = tools
        .into_iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "parameters": tool.input_schema})
        })
        .collect();
    vec![json!({"functionDeclarations": declarations})]
}

/// A tool's schema in the words that Gemini accepts as `parameters`: references inlined, unknown
/// keywords dropped, alternatives, constants and `null` said in its way. `None` for an object without
/// properties: such a function is declared without parameters.
///
/// ```
/// use serde_json::json;
/// use toolnexus_core::adapters::gemini_parameters;
/// let schema = json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "additionalProperties": false});
/// let expected = json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}}});
/// assert_eq!(gemini_parameters(&schema), Some(expected));
/// assert_eq!(gemini_parameters(&json!({"type": "object"})), None);
/// ```
pub fn gemini_parameters(schema: &Value) -> Option<Value> {
    gemini_schema::parameters(schema)
}

/// The tool array as a request of this style carries it, serialised. It differs from the plain
/// adapters where an API is stricter than JSON schema: OpenAI requires `properties` on an object
/// schema, so an empty one is added where it is missing, and Gemini gets [`gemini_parameters`].
pub fn request_json<'a>(style: Style, tools: impl IntoIterator<Item = &'a Tool>) -> Vec<u8> {
    let array = match style {
        Style::OpenAI => {
            let entries: Vec<OpenAiEntry<'_>> = tools.into_iter().map(OpenAiEntry::of).collect();
            serde_json::to_vec(&entries)
        }
        Style::Anthropic => serde_json::to_vec(&to_anthropic(tools)),
        Style::Gemini => {
            let declarations: Vec<Value> = tools.into_iter().map(gemini_declaration).collect();
            serde_json::to_vec(&json!([{"functionDeclarations": declarations}]))
        }
    };
    // Strings and JSON values always serialise.
    array.unwrap_or_else(|_| b"[]".to_vec())
}

/// One tool as [`request_json`] writes it: its entry of the array, for Gemini its declaration.
///
/// ```
/// use serde_json::json;
/// use toolnexus_core::{Style, Tool, ToolResult, adapters};
/// let tool = Tool::new("refund", |_, _| async { ToolResult::success("done") });
/// let entry = adapters::request_entry(Style::OpenAI, &tool);
/// assert_eq!(entry["function"]["parameters"], json!({"type": "object", "properties": {}}));
/// ```
pub fn request_entry(style: Style, tool: &Tool) -> Value {
    match style {
        // Strings and JSON values always serialise.
        Style::OpenAI => serde_json::to_value(OpenAiEntry::of(tool)).unwrap_or_default(),
        Style::Anthropic => anthropic_entry(tool),
        Style::Gemini => gemini_declaration(tool),
    }
}

fn gemini_declaration(tool: &Tool) -> Value {
    let mut declaration = Map::new();
    declaration.insert("name".into(), tool.name.as_str().into());
    declaration.insert("description".into(), tool.description.as_str().into());
    if let Some(parameters) = gemini_parameters(&tool.input_schema) {
        declaration.insert("parameters".into(), parameters);
    }
    declaration.into()
}

#[derive(Serialize)]
struct OpenAiEntry<'a> {
    r#type: &'static str,
    function: OpenAiFunction<'a>,
}

#[derive(Serialize)]
struct OpenAiFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: std::borrow::Cow<'a, Value>,
}

impl<'a> OpenAiEntry<'a> {
    fn of(tool: &'a Tool) -> Self {
        OpenAiEntry {
            r#type: "function",
            function: OpenAiFunction {
                name: &tool.name,
                description: &tool.description,
                parameters: with_properties(&tool.input_schema),
            },
        }
    }
}

/// A top-level object schema gets `"properties":{}` as its last key when it has none.
fn with_properties(schema: &Value) -> std::borrow::Cow<'_, Value> {
    match schema {
        Value::Object(map)
            if map.get("type").and_then(Value::as_str) == Some("object")
                && !map.contains_key("properties") =>
        {
            let mut map = map.clone();
            map.insert("properties".into(), json!({}));
            std::borrow::Cow::Owned(Value::Object(map))
        }
        _ => std::borrow::Cow::Borrowed(schema),
    }
}
