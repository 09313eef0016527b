//! Rust functions as tools.

use std::future::Future;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{IntoToolOutcome, Tool, ToolContext, ToolResult, ToolSource};

/// A tool from an async function over raw JSON arguments.
///
/// `None` for the schema means `{"type":"object"}`. The function may return a `Result` of text,
/// numbers, JSON, `()` or a [`ToolResult`], or a bare [`ToolResult`]; an error's text is what the
/// model reads.
///
/// ```
/// use serde_json::{Value, json};
/// use toolnexus_core::define_tool;
/// let add = define_tool("add", "Adds two numbers", None, |args: Value, _context| async move {
///     let sum = args["a"].as_f64().unwrap_or(0.0) + args["b"].as_f64().unwrap_or(0.0);
///     Ok::<_, String>(sum)
/// });
/// assert_eq!(add.name, "add");
/// ```
pub fn define_tool<F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    input_schema: Option<Value>,
    run: F,
) -> Tool
where
    F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoToolOutcome,
{
    Tool::new(name, run)
        .description(description)
        .source(ToolSource::Native)
        .input_schema(input_schema.unwrap_or_default())
}

/// A tool from a plain function, for work that never waits. See [`define_tool`].
///
/// It runs on the thread that drives the run, so it must be short.
///
/// ```
/// use toolnexus_core::define_sync_tool;
/// let now = define_sync_tool("answer", "The answer", None, |_args, _context| Ok::<_, String>(42));
/// assert_eq!(now.description, "The answer");
/// ```
pub fn define_sync_tool<F, R>(
    name: impl Into<String>,
    description: impl Into<String>,
    input_schema: Option<Value>,
    run: F,
) -> Tool
where
    F: Fn(Value, ToolContext) -> R + Send + Sync + 'static,
    R: IntoToolOutcome + Send + 'static,
{
    let run = std::sync::Arc::new(run);
    define_tool(name, description, input_schema, move |args, context| {
        let run = std::sync::Arc::clone(&run);
        async move { run(args, context).into_outcome() }
    })
}

/// A function over typed arguments, as [`define_typed_tool`] takes it. Implemented for every
/// `Fn(T, ToolContext) -> impl Future`; not to be implemented by hand.
pub trait TypedToolFn<T>:
    Fn(T, ToolContext) -> <Self as TypedToolFn<T>>::Future + Send + Sync + 'static
{
    /// The future that the function returns.
    type Future: Future<Output: IntoToolOutcome> + Send + 'static;
}

impl<T, F, Fut> TypedToolFn<T> for F
where
    F: Fn(T, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoToolOutcome> + Send + 'static,
{
    type Future = Fut;
}

/// A tool from an async function over a struct of yours.
///
/// The schema is derived from `T` unless one is given. Arguments that do not fit `T` give the
/// failure `invalid arguments for tool "<name>": <reason>` without calling the function, so that
/// the model can correct itself.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use toolnexus_core::define_typed_tool;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Weather {
///     /// City to look up
///     city: String,
/// }
/// let tool = define_typed_tool::<Weather>("weather", "Weather of a city", None, |args, _context| async move {
///     Ok::<_, String>(format!("sunny in {}", args.city))
/// });
/// assert_eq!(tool.input_schema["properties"]["city"]["description"], "City to look up");
/// ```
pub fn define_typed_tool<T>(
    name: impl Into<String>,
    description: impl Into<String>,
    input_schema: Option<Value>,
    run: impl TypedToolFn<T>,
) -> Tool
where
    T: DeserializeOwned + JsonSchema + Send + 'static,
{
    let name = name.into();
    let schema = input_schema.unwrap_or_else(schema_of::<T>);
    let tool_name = name.clone();
    let run = std::sync::Arc::new(run);
    define_tool(name, description, Some(schema), move |args, context| {
        let parsed = serde_json::from_value::<T>(args);
        let run = std::sync::Arc::clone(&run);
        let tool_name = tool_name.clone();
        async move {
            match parsed {
                Ok(args) => run(args, context).await.into_outcome(),
                Err(error) => {
                    ToolResult::failure(format!("invalid arguments for tool \"{tool_name}\": {error}"))
                }
            }
        }
    })
}

/// The argument schema of `T`, in the form that providers read: subschemas inlined, without
/// `$schema`, `title` and `format`, optional fields without their `null` alternative, objects
/// closed by `additionalProperties: false`.
///
/// ```
/// # use schemars::JsonSchema;
/// #[derive(JsonSchema)]
/// struct Args { n: i64, unit: Option<String> }
/// let schema = toolnexus_core::schema_of::<Args>();
/// assert_eq!(schema["required"], serde_json::json!(["n"]));
/// assert_eq!(schema["properties"]["unit"]["type"], "string");
/// ```
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    if let Value::Object(root) = &mut schema {
        // A recursive type keeps definitions for the place where it meets itself; `tidy` has
        // replaced the references.
        root.remove("$defs");
        root.remove("definitions");
    }
    schema
}

/// Brings one subschema, and those below it, into the providers' form.
fn tidy(schema: &mut Value) {
    let Value::Object(map) = schema else {
        // `true` is the schema of "anything".
        if schema.as_bool() == Some(true) {
            *schema = Value::Object(Map::new());
        }
        return;
    };
    if map.remove("$ref").is_some() {
        map.clear();
        map.insert("type".into(), "object".into());
        return;
    }
    for key in ["$schema", "title", "format"] {
        map.remove(key);
    }
    drop_null_alternative(map);

    for key in ["properties", "patternProperties", "$defs", "definitions"] {
        if let Some(Value::Object(children)) = map.get_mut(key) {
            children.values_mut().for_each(tidy);
        }
    }
    for key in ["items", "additionalProperties", "not", "contains", "propertyNames"] {
        match map.get_mut(key) {
            Some(child @ Value::Object(_)) => tidy(child),
            Some(child @ Value::Bool(true)) if key == "items" => tidy(child),
            _ => {}
        }
    }
    for key in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        if let Some(Value::Array(children)) = map.get_mut(key) {
            children.iter_mut().for_each(tidy);
        }
    }
    if map.contains_key("properties") && !map.contains_key("additionalProperties") {
        map.insert("additionalProperties".into(), Value::Bool(false));
    }
    if map.get("required").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        map.remove("required");
    }
}

/// `Option<T>` is described as `T`: a `null` argument still reads as `None`.
fn drop_null_alternative(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|t| t != "null");
        if let [single] = types.as_slice() {
            let single = single.clone();
            map.insert("type".into(), single);
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|v| !v.is_null());
    }
    if map.get("default").is_some_and(Value::is_null) {
        map.remove("default");
    }
    let Some(Value::Array(alternatives)) = map.get_mut("anyOf") else { return };
    alternatives.retain(|alternative| alternative.get("type").is_none_or(|t| t != "null"));
    if let [Value::Object(single)] = alternatives.as_mut_slice() {
        let single = std::mem::take(single);
        map.shift_remove("anyOf");
        for (key, value) in single {
            map.entry(key).or_insert(value);
        }
    }
}
