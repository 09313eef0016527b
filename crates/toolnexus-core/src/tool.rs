//! One callable, wherever it came from.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::result::panic_message;
use crate::{BoxFuture, IntoToolOutcome, ToolContext, ToolResult};

/// Where a tool came from. Provenance only: nothing behaves differently for it, but metrics,
/// events and filters show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolSource {
    /// A tool of an MCP server.
    Mcp,
    /// The `skill` tool.
    Skill,
    /// A built-in tool.
    Builtin,
    /// A Rust function.
    Native,
    /// An HTTP endpoint.
    Http,
    /// A skill of a remote agent.
    A2a,
    /// Media generation.
    Media,
    /// A sub-agent.
    Agent,
    /// A declaration whose execution is the caller's.
    Relay,
    /// Built by hand with [`Tool::new`].
    Custom,
}

impl ToolSource {
    /// The spelling in listings, metrics and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            ToolSource::Mcp => "mcp",
            ToolSource::Skill => "skill",
            ToolSource::Builtin => "builtin",
            ToolSource::Native => "native",
            ToolSource::Http => "http",
            ToolSource::A2a => "a2a",
            ToolSource::Media => "media",
            ToolSource::Agent => "agent",
            ToolSource::Relay => "relay",
            ToolSource::Custom => "custom",
        }
    }
}

impl std::fmt::Display for ToolSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a tool says about its effects. Advisory, for permission gates; never sent to a model.
/// A tool without hints must be treated as one that changes things.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolHints {
    /// Changes nothing.
    pub read_only: bool,
    /// May destroy or overwrite something.
    pub destructive: bool,
    /// Reaches beyond this machine or project.
    pub open_world: bool,
    /// Doing it twice is the same as doing it once.
    pub idempotent: bool,
}

/// The server that a derived tool stands for, and its name there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOrigin {
    /// The configured name of the server.
    pub server: String,
    /// The tool's own name on that server, as sent on the wire.
    pub remote_name: String,
}

type Execute = dyn Fn(Value, ToolContext) -> BoxFuture<'static, ToolResult> + Send + Sync;

/// A callable that a model may use.
///
/// Every source ends in this type; nothing downstream asks where a tool came from. A clone
/// shares the execute function.
///
/// ```
/// use toolnexus_core::{Tool, ToolResult};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let tool = Tool::new("shout", |args, _context| async move {
///     ToolResult::success(args["text"].as_str().unwrap_or("").to_uppercase())
/// }).description("Upper-cases text");
/// let result = tool.execute(serde_json::json!({"text": "hi"})).await;
/// assert_eq!(result.output, "HI");
/// # }
/// ```
#[derive(Clone)]
pub struct Tool {
    /// The name the model calls, exactly as given.
    pub name: String,
    /// What the model reads about the tool; may be empty.
    pub description: String,
    /// A JSON schema object for the arguments, passed on untouched and never enforced.
    pub input_schema: Value,
    /// Where the tool came from.
    pub source: ToolSource,
    /// What the tool says about its effects; `None` is unknown.
    pub hints: Option<ToolHints>,
    /// A name for people.
    pub title: Option<String>,
    /// The server and remote name, for MCP tools.
    pub origin: Option<ToolOrigin>,
    execute: Arc<Execute>,
}

impl Tool {
    /// A tool named `name` that runs `execute`, with an empty description, the schema
    /// `{"type":"object"}` and source [`ToolSource::Custom`].
    pub fn new<F, Fut>(name: impl Into<String>, execute: F) -> Self
    where
        F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoToolOutcome,
    {
        Tool {
            name: name.into(),
            description: String::new(),
            input_schema: empty_schema(),
            source: ToolSource::Custom,
            hints: None,
            title: None,
            origin: None,
            execute: Arc::new(move |args, context| {
                let future = execute(args, context);
                Box::pin(async move { future.await.into_outcome() })
            }),
        }
    }

    /// Sets what the model reads about the tool.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the schema of the arguments. `null` leaves `{"type":"object"}`.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = if schema.is_null() { empty_schema() } else { schema };
        self
    }

    /// Sets where the tool came from.
    #[must_use]
    pub fn source(mut self, source: ToolSource) -> Self {
        self.source = source;
        self
    }

    /// Sets what the tool says about its effects.
    #[must_use]
    pub fn hints(mut self, hints: ToolHints) -> Self {
        self.hints = Some(hints);
        self
    }

    /// The same as [`Tool::hints`].
    #[must_use]
    pub fn with_hints(self, hints: ToolHints) -> Self {
        self.hints(hints)
    }

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the server and remote name.
    #[must_use]
    pub fn origin(mut self, origin: ToolOrigin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Runs the tool outside any run. See [`Tool::execute_with`].
    pub async fn execute(&self, args: Value) -> ToolResult {
        self.execute_with(args, ToolContext::default()).await
    }

    /// Runs the tool.
    ///
    /// Never fails as a Rust value: an error, a panic, or arguments that are no JSON object
    /// (`null` counts as `{}`) give a result with `is_error: true`. It waits for the tool even
    /// when `context.cancel` has fired; dropping the future drops the tool's, and a panic in that
    /// stays inside too.
    pub async fn execute_with(&self, args: Value, context: ToolContext) -> ToolResult {
        let args = match args {
            Value::Null => Value::Object(Map::new()),
            Value::Object(_) => args,
            _ => {
                return ToolResult::failure(format!(
                    "invalid arguments for tool \"{}\": expected a JSON object",
                    self.name
                ));
            }
        };
        // The closure itself may panic before it has made a future.
        match contained(|| (self.execute)(args, context)) {
            Ok(future) => Contained(Some(future)).await,
            Err(message) => ToolResult::failure(message),
        }
    }
}

/// A tool's future, of which no panic gets out: not from running it, nor from dropping it.
struct Contained(Option<BoxFuture<'static, ToolResult>>);

impl Future for Contained {
    type Output = ToolResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ToolResult> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let result = match contained(|| future.as_mut().poll(context)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result,
            Err(message) => ToolResult::failure(message),
        };
        // A result whose tool came to grief while it cleaned up is no success.
        Poll::Ready(match self.discard() {
            Err(message) if !result.is_error => ToolResult::failure(message),
            _ => result,
        })
    }
}

impl Contained {
    fn discard(&mut self) -> Result<(), String> {
        let future = self.0.take();
        contained(|| drop(future))
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _ = self.discard();
    }
}

/// Runs `work`; a panic becomes its message.
fn contained<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let message = panic_message(payload.as_ref());
        drop_payload(payload);
        message
    })
}

/// Drops what a panic carried, which is any value and may panic in turn. A second panic's
/// payload is leaked: it could go on like that for ever.
fn drop_payload(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

fn empty_schema() -> Value {
    let mut schema = Map::new();
    schema.insert("type".into(), Value::String("object".into()));
    Value::Object(schema)
}

/// The listing form: `name`, `description`, `inputSchema`, `source`.
impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("description", &self.description)?;
        map.serialize_entry("inputSchema", &self.input_schema)?;
        map.serialize_entry("source", &self.source)?;
        map.end()
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.name)
            .field("source", &self.source)
            .field("hints", &self.hints)
            .finish_non_exhaustive()
    }
}
