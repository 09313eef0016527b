//! `#[tool]`, `#[tools]` and `collect_tools!`, as a user of the crate writes them.
#![deny(missing_docs, unused, nonstandard_style)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a panic is the report")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use toolnexus::{
    BoxError, ContentPart, Json, Tool, ToolContext, ToolHints, ToolResult, ToolSource, collect_tools, tool,
    tools,
};

/// Weather of a city.
///
/// More than a model needs to know.
#[tool(read_only, open_world = true, title = "Weather")]
async fn weather(
    /// City to look up,
    /// as people write it
    city: String,
    #[tool(description = "Days ahead", default = 3)] days: u8,
    #[tool(name = "unit")] measured_in: Option<String>,
    #[tool(default = "en")] language: String,
) -> Result<String, std::io::Error> {
    tokio::task::yield_now().await;
    Ok(format!("{city} {days} {measured_in:?} {language}"))
}

/// An argument of its own shape.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Point {
    /// From the left
    x: i32,
    y: i32,
}

/// Kinds of line.
#[derive(serde::Deserialize, schemars::JsonSchema, Debug)]
#[serde(rename_all = "lowercase")]
enum Stroke {
    Dotted,
    Solid,
}

#[tool(name = "draw-line", description = "Draws a line")]
#[allow(clippy::needless_pass_by_value)]
fn draw(points: Vec<Point>, stroke: Stroke, mut tags: BTreeMap<String, bool>, path: PathBuf) -> Json<Value> {
    tags.insert("drawn".into(), true);
    let sum: i32 = points.iter().map(|point| point.x + point.y).sum();
    Json(json!([sum, format!("{stroke:?}"), tags, path]))
}

#[tool]
fn r#type(context: ToolContext, #[serde(alias = "count")] r#in: u64) -> ToolResult {
    ToolResult::success(format!("{} {}", context.call_id, r#in)).with_parts(vec![ContentPart::text("part")])
}

/// Read from JSON, and cannot say what it is.
#[derive(serde::Deserialize)]
struct Arguments(Value);

#[tool(schema = json!({"type": "object", "properties": {"anything": {}}}))]
fn opaque(
    #[tool(description = "said for nobody")]
    #[schemars(length(min = 1))]
    given: Option<Arguments>,
) -> Result<Option<String>, BoxError> {
    given.map(|given| given.0.as_str().map(str::to_owned).ok_or_else(|| "not text".into())).transpose()
}

#[tool]
fn nothing() {}

#[tool]
async fn asks(context: ToolContext) -> Result<&'static str, BoxError> {
    let answer = context.elicit("Sure?", json!({"type": "object"})).await?;
    Ok(if answer.ok { "sure" } else { "not sure" })
}

async fn output(tool: &Tool, args: Value) -> String {
    tool.execute(args).await.output
}

// CORE-81, CORE-82, CORE-83, CORE-84, CORE-85
#[test]
fn a_function_describes_itself() {
    let tool = weather::tool();
    assert_eq!((tool.name.as_str(), tool.description.as_str()), ("weather", "Weather of a city."));
    assert_eq!((tool.source, tool.title.as_deref()), (ToolSource::Native, Some("Weather")));
    let hints = ToolHints { read_only: true, open_world: true, ..Default::default() };
    assert_eq!(tool.hints, Some(hints));
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "City to look up,\nas people write it"},
            "days": {"type": "integer", "description": "Days ahead", "default": 3, "minimum": 0, "maximum": 255},
            "unit": {"type": "string"},
            "language": {"type": "string", "default": "en"},
        },
        "required": ["city"],
        "additionalProperties": false,
    });
    assert_eq!(tool.input_schema, schema);

    let tool = draw::tool();
    assert_eq!((tool.name.as_str(), tool.description.as_str()), ("draw-line", "Draws a line"));
    assert_eq!(tool.hints, None);
    let properties = &tool.input_schema["properties"];
    assert_eq!(properties["points"]["items"]["required"], json!(["x", "y"]));
    assert_eq!(properties["points"]["items"]["properties"]["x"]["description"], "From the left");
    let stroke = &properties["stroke"];
    assert_eq!((&stroke["type"], &stroke["enum"]), (&json!("string"), &json!(["dotted", "solid"])));
    assert_eq!(tool.input_schema["required"], json!(["points", "stroke", "tags", "path"]));
}

// CORE-86: the context is no argument
#[tokio::test]
async fn the_context_is_given_by_its_type() {
    let tool = r#type::tool();
    assert_eq!(tool.name, "type");
    assert_eq!(tool.input_schema["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["in"]);
    let context = ToolContext { call_id: "c1".into(), ..Default::default() };
    let result = tool.execute_with(json!({"count": 7}), context).await;
    assert_eq!((result.output.as_str(), result.parts.len()), ("c1 7", 1));
}

// CORE-76, CORE-77, CORE-79, CORE-84
#[tokio::test]
async fn arguments_are_read_as_serde_reads_them() {
    let weather = weather::tool();
    assert_eq!(output(&weather, json!({"city": "Rome"})).await, "Rome 3 None en");
    let all = json!({"city": "Rome", "days": 1, "unit": "K", "language": "it", "unknown": true});
    assert_eq!(output(&weather, all).await, "Rome 1 Some(\"K\") it");
    assert_eq!(output(&weather, json!({"city": "Rome", "unit": null})).await, "Rome 3 None en");
    let result = weather.execute(json!({"city": "Rome", "days": 300})).await;
    assert!(result.is_error);
    assert!(result.output.starts_with("invalid arguments for tool \"weather\": "), "{}", result.output);
    let missing = weather.execute(json!({})).await.output;
    assert_eq!(missing, "invalid arguments for tool \"weather\": missing field `city`");

    let args = json!({"points": [{"x": 1, "y": 2}], "stroke": "solid", "tags": {"a": false}, "path": "p/q"});
    assert_eq!(output(&draw::tool(), args).await, r#"[3,"Solid",{"a":false,"drawn":true},"p/q"]"#);
    assert_eq!(nothing::tool().execute(Value::Null).await, ToolResult::success(""));
}

// CORE-87: an explicit schema replaces the derived one whole; the body still reads its arguments
#[tokio::test]
async fn a_schema_may_be_given() {
    let opaque = opaque::tool();
    assert_eq!(opaque.input_schema, json!({"type": "object", "properties": {"anything": {}}}));
    assert_eq!(output(&opaque, json!({"given": "x"})).await, "x");
    assert_eq!(opaque.execute(json!({"given": 1})).await, ToolResult::failure("not text"));
    assert_eq!(output(&opaque, json!({})).await, "");
}

// CORE-141: `?` suspends
#[tokio::test]
async fn a_tool_may_ask() {
    let result = asks::tool().execute(json!({})).await;
    assert_eq!(toolnexus::pending_of(&result).unwrap().prompt, "Sure?");
}

// CORE-81: the function stays a function
#[tokio::test]
async fn the_function_can_still_be_called() {
    assert_eq!(weather("Rome".into(), 1, None, "en".into()).await.unwrap(), "Rome 1 None en");
    nothing();
}

/// Things of elsewhere.
mod elsewhere {
    /// Says where it is.
    #[toolnexus::tool]
    pub(crate) fn place() -> &'static str {
        "elsewhere"
    }
}

// CORE-87
#[tokio::test]
async fn collected_tools_keep_their_order() {
    let tools = collect_tools![nothing, elsewhere::place, weather,];
    assert_eq!(
        tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["nothing", "place", "weather"]
    );
    assert_eq!(output(&tools[1], json!({})).await, "elsewhere");
    use elsewhere::place;
    assert_eq!((place(), collect_tools![place].len()), ("elsewhere", 1));
    let none = collect_tools![];
    assert!(none.is_empty());
}

/// Counts.
struct Counter<T> {
    count: AtomicU64,
    start: T,
}

#[tools]
impl<T: Into<u64> + Copy + Send + Sync + 'static> Counter<T> {
    /// Not a tool.
    fn new(start: T) -> Arc<Self> {
        Arc::new(Counter { count: AtomicU64::new(0), start })
    }

    /// Counts up.
    #[tool(destructive)]
    async fn count(
        &self,
        /// How far
        by: u64,
        context: ToolContext,
    ) -> u64 {
        context.progress(1.0, None, None);
        self.count.fetch_add(by, Ordering::Relaxed) + by + self.start.into()
    }

    /// Looks.
    #[tool(name = "look")]
    fn current(self: &Arc<Self>) -> Result<u64, String> {
        Ok(self.count.load(Ordering::Relaxed))
    }

    /// Shares.
    #[toolnexus::tool]
    fn share(self: Arc<Self>) -> String {
        format!("{}", Arc::strong_count(&self) > 1)
    }

    /// Needs nobody.
    #[tool]
    fn free(text: String) -> String {
        text
    }

    #[cfg(any())]
    #[tool]
    fn absent(&self, of: DoesNotExist) {}
}

/// Has none.
struct Empty;

#[tools]
impl Empty {}

// CORE-81, CORE-86, CORE-87
#[tokio::test]
async fn methods_become_tools_of_their_object() {
    let counter = Counter::new(100_u32);
    let tools = counter.tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["count", "look", "share", "free"]);
    assert!(tools.iter().all(|tool| tool.source == ToolSource::Native));
    assert_eq!(tools[0].input_schema["properties"]["by"]["description"], "How far");
    assert_eq!(tools[0].input_schema["required"], json!(["by"]));
    assert_eq!(tools[0].hints, Some(ToolHints { destructive: true, ..Default::default() }));
    assert_eq!(output(&tools[0], json!({"by": 2})).await, "102");
    assert_eq!(output(&tools[0].clone(), json!({"by": 3})).await, "105");
    assert_eq!(output(&tools[1], json!({})).await, "5");
    assert_eq!(output(&tools[2], json!({})).await, "true");
    assert_eq!(output(&tools[3], json!({"text": "free"})).await, "free");
    assert_eq!(counter.count(1, ToolContext::default()).await, 106);
    assert!(Arc::new(Empty).tools().is_empty());
}

// CORE-81: also within a function, over what is there
#[tokio::test]
async fn a_tool_may_be_written_where_it_is_used() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Local(u8);

    #[tool]
    fn local(of: Local) -> u8 {
        of.0
    }
    assert_eq!(output(&local::tool(), json!({"of": 9})).await, "9");
}
