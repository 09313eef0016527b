//! The tool array of each provider, and schemas derived from types.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is a test's failure report"
)]
// The argument types exist for their schemas.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolnexus_core::adapters::{request_entry, request_json, to_anthropic, to_gemini, to_openai};
use toolnexus_core::{Style, Tool, ToolResult, ToolSource, define_sync_tool, define_typed_tool, schema_of};

fn tools() -> [Tool; 2] {
    let tool = |name: &str| Tool::new(name, |_args, _context| async { ToolResult::default() });
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
    [
        tool("search").description("Search the catalog").input_schema(schema),
        tool("refund").description("Refund an order"),
    ]
}

// CORE-69, CORE-70, CORE-73, case 26
#[test]
fn openai() {
    assert_eq!(
        Value::from(to_openai(&tools())).to_string(),
        r#"[{"type":"function","function":{"name":"search","description":"Search the catalog","parameters":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}},{"type":"function","function":{"name":"refund","description":"Refund an order","parameters":{"type":"object"}}}]"#
    );
}

// CORE-71, case 27
#[test]
fn anthropic() {
    let [_, refund] = tools();
    assert_eq!(
        Value::from(to_anthropic(&[refund])).to_string(),
        r#"[{"name":"refund","description":"Refund an order","input_schema":{"type":"object"}}]"#
    );
}

// CORE-72, case 28
#[test]
fn gemini() {
    let [_, refund] = tools();
    assert_eq!(
        Value::from(to_gemini(&[refund])).to_string(),
        r#"[{"functionDeclarations":[{"name":"refund","description":"Refund an order","parameters":{"type":"object"}}]}]"#
    );
}

// CORE-70..72, case 29
#[test]
fn no_tools() {
    assert_eq!(Value::from(to_openai(&[])), json!([]));
    assert_eq!(Value::from(to_anthropic(&[])), json!([]));
    assert_eq!(Value::from(to_gemini(&[])), json!([{"functionDeclarations": []}]));
}

// CORE-73: an empty description is there
#[test]
fn an_empty_description_is_emitted() {
    let tool = Tool::new("t", |_args, _context| async { ToolResult::default() });
    assert_eq!(to_openai(std::slice::from_ref(&tool))[0]["function"]["description"], "");
    assert_eq!(to_anthropic(std::slice::from_ref(&tool))[0]["description"], "");
}

// D4, CLIENT-17, case B11: the request adds what OpenAI demands, the adapter does not
#[test]
fn requests_have_properties_where_openai_demands_them() {
    let sent: Value = serde_json::from_slice(&request_json(Style::OpenAI, &tools())).unwrap();
    assert_eq!(sent[1]["function"]["parameters"].to_string(), r#"{"type":"object","properties":{}}"#);
    assert_eq!(sent[0], to_openai(&tools())[0]);
    let sent: Value = serde_json::from_slice(&request_json(Style::Anthropic, &tools())).unwrap();
    assert_eq!(sent, Value::from(to_anthropic(&tools())));
}

// CLIENT-17: one tool by itself is what it is among others
#[test]
fn an_entry_is_what_the_array_holds() {
    for style in [Style::OpenAI, Style::Anthropic, Style::Gemini] {
        let sent: Value = serde_json::from_slice(&request_json(style, &tools())).unwrap();
        let entries: Vec<Value> = tools().iter().map(|tool| request_entry(style, tool)).collect();
        let array = if style == Style::Gemini { &sent[0]["functionDeclarations"] } else { &sent };
        assert_eq!(array.to_string(), Value::from(entries).to_string());
    }
}

#[derive(Deserialize, JsonSchema)]
struct Weather {
    /// City
    city: String,
    n: i64,
    unit: Option<String>,
}

// CORE-78, CORE-81, CORE-82, CORE-83, CORE-84, D5, case 70
#[test]
fn a_typed_tool_takes_its_schema_from_its_type() {
    let tool = define_typed_tool::<Weather>("t", "", None, |_args, _context| async { Ok::<_, String>(()) });
    assert_eq!(tool.source, ToolSource::Native);
    assert_eq!(
        tool.input_schema,
        json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City"},
                "n": {"type": "integer"},
                "unit": {"type": "string"},
            },
            "required": ["city", "n"],
            "additionalProperties": false,
        })
    );
    assert_eq!(tool.input_schema, schema_of::<Weather>());
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Everything {
    a_path: PathBuf,
    letter: char,
    ratio: f32,
    small: u8,
    flag: bool,
    list: Vec<Inner>,
    table: BTreeMap<String, i32>,
    kind: Kind,
    anything: Value,
    boxed: Box<Inner>,
    maybe: Option<Inner>,
    #[serde(default)]
    limit: u32,
    #[serde(skip)]
    hidden: bool,
}

#[derive(Default, Deserialize, JsonSchema)]
struct Inner {
    x: f64,
    y: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
enum Kind {
    Fast,
    Slow,
}

// CORE-82, CORE-83, CORE-84
#[test]
fn types_map_to_plain_schemas() {
    let schema = schema_of::<Everything>();
    let properties = &schema["properties"];
    let inner = json!({
        "type": "object",
        "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
        "required": ["x"],
        "additionalProperties": false,
    });
    assert_eq!(properties["aPath"], json!({"type": "string"}));
    assert_eq!(properties["letter"]["type"], "string");
    assert_eq!(properties["ratio"], json!({"type": "number"}));
    assert_eq!(properties["small"]["type"], "integer");
    assert_eq!(properties["flag"], json!({"type": "boolean"}));
    assert_eq!(properties["list"], json!({"type": "array", "items": inner}));
    assert_eq!(properties["table"]["type"], "object");
    assert_eq!(properties["kind"], json!({"type": "string", "enum": ["Fast", "Slow"]}));
    assert_eq!(properties["anything"], json!({}));
    assert_eq!(properties["boxed"], inner);
    assert_eq!(properties["maybe"], inner);
    assert_eq!(properties["limit"]["default"], 0);
    assert!(properties.get("hidden").is_none());
    assert_eq!(
        schema["required"],
        json!(["aPath", "letter", "ratio", "small", "flag", "list", "table", "kind", "anything", "boxed"])
    );
    for word in ["$schema", "\"title\"", "\"format\"", "$ref", "$defs", "null"] {
        assert!(!schema.to_string().contains(word), "{word} in {schema}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

// CORE-82: a recursive type ends where it meets itself
#[test]
fn a_recursive_type_becomes_an_object() {
    let schema = schema_of::<Tree>();
    assert_eq!(schema["properties"]["name"], json!({"type": "string"}));
    assert_eq!(schema["properties"]["children"]["items"], json!({"type": "object"}));
    assert!(!schema.to_string().contains("$ref"));
}

// CORE-79, case 11
#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_the_function() {
    #[derive(Deserialize, JsonSchema)]
    struct Args {
        a: f64,
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let tool = define_typed_tool::<Args>("half", "", None, move |args, _context| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, String>(args.a / 2.0) }
    });
    let result = tool.execute(json!({"a": "x"})).await;
    assert!(result.is_error);
    assert!(result.output.starts_with("invalid arguments for tool \"half\": "), "{}", result.output);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    assert_eq!(tool.execute(json!({"a": 3})).await.output, "1.5");
}

// CORE-78: a given schema replaces the derived one whole
#[test]
fn a_given_schema_replaces_the_derived_one() {
    let given = json!({"type": "object", "properties": {"city": {"type": "string", "enum": ["Rome"]}}});
    let tool = define_typed_tool::<Weather>("t", "", Some(given.clone()), |_args, _context| async {
        Ok::<_, String>(())
    });
    assert_eq!(tool.input_schema, given);
}

// D23
#[tokio::test]
async fn a_plain_function_is_a_tool() {
    let tool = define_sync_tool("len", "Length", None, |args, _context| {
        args["text"].as_str().map(str::len).ok_or("text is missing")
    });
    assert_eq!(tool.execute(json!({"text": "four"})).await, ToolResult::success("4"));
    assert_eq!(tool.execute(json!({})).await, ToolResult::failure("text is missing"));
}
