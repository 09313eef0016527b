//! Rust functions as tools.

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schema::schema_of;
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
    let schema = input_schema.unwrap_or_else(schema_of::<T>);
    define_parsed_tool(name, description, schema, run)
}

/// [`define_typed_tool`] for a type that does not describe itself. For the macros.
#[doc(hidden)]
pub fn define_parsed_tool<T>(
    name: impl Into<String>,
    description: impl Into<String>,
    schema: Value,
    run: impl TypedToolFn<T>,
) -> Tool
where
    T: DeserializeOwned + Send + 'static,
{
    let name = name.into();
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
