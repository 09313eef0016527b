//! What all built-in tools have in common.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Map, Value, json};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Tool, ToolContext, ToolHints, ToolResult, ToolSource};

use crate::args::Args;

/// What only looks.
pub(crate) const READS: ToolHints =
    ToolHints { read_only: true, destructive: false, open_world: false, idempotent: false };

/// What only looks, at what others offer.
pub(crate) const READS_THE_WORLD: ToolHints = ToolHints { open_world: true, ..READS };

/// What changes files of this machine.
pub(crate) const CHANGES: ToolHints =
    ToolHints { read_only: false, destructive: true, open_world: false, idempotent: false };

/// What can do anything.
pub(crate) const ANYTHING: ToolHints =
    ToolHints { read_only: false, destructive: true, open_world: true, idempotent: false };

/// The schema of a text argument.
pub(crate) fn string(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// The schema of a number argument.
pub(crate) fn number(description: &str) -> Value {
    json!({"type": "number", "description": description})
}

/// The schema of a yes-or-no argument.
pub(crate) fn boolean(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

/// The schema of a text argument that is one of a few.
pub(crate) fn one_of(values: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": values, "description": description})
}

/// The fixed face of a tool.
pub(crate) struct Face {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// The arguments with their schemas, in the order in which a model reads them.
    pub(crate) properties: Vec<(&'static str, Value)>,
    pub(crate) required: &'static [&'static str],
    pub(crate) hints: ToolHints,
}

impl Face {
    /// The tool that runs `run`. An error, and a panic, becomes the failure `<name>: <message>`.
    pub(crate) fn tool<F, Fut>(self, run: F) -> Tool
    where
        F: Fn(Args, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolResult, String>> + Send + 'static,
    {
        let name = self.name;
        let run = Arc::new(run);
        let guarded = move |arguments: Value, context| {
            let run = Arc::clone(&run);
            async move {
                // A panic may come before there is a future, so `run` is called inside.
                let running = AssertUnwindSafe(async { run(Args::new(arguments), context).await });
                match running.catch_unwind().await {
                    Ok(Ok(result)) => result,
                    Ok(Err(message)) => ToolResult::failure(format!("{name}: {message}")),
                    Err(payload) => ToolResult::failure(format!("{name}: {}", panic_text(payload.as_ref()))),
                }
            }
        };
        Tool::new(name, guarded)
            .description(self.description)
            .source(ToolSource::Builtin)
            .hints(self.hints)
            .input_schema(self.schema())
    }

    fn schema(&self) -> Value {
        let properties: Map<String, Value> =
            self.properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
        json!({"type": "object", "properties": properties, "required": self.required})
    }
}

/// Runs file work off the threads that drive the runs.
pub(crate) async fn off_thread<R, F>(work: F) -> Result<R, String>
where
    R: Send + 'static,
    F: FnOnce() -> Result<R, String> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(join_text(error)))
}

/// Runs file work that can take long off the threads that drive the runs, until the call is cancelled
/// or its future dropped.
///
/// `work` must look often at the token that it gets: once it is cancelled, nobody waits any more.
///
/// # Errors
/// Those of `work`; `cancelled`.
pub(crate) async fn off_thread_until_stopped<R, F>(context: &ToolContext, work: F) -> Result<R, String>
where
    R: Send + 'static,
    F: FnOnce(CancellationToken) -> Result<R, String> + Send + 'static,
{
    let stop = context.cancel.child_token();
    let _stop_when_dropped = stop.clone().drop_guard();
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err("cancelled".to_owned()),
        done = off_thread(move || work(stop)) => done,
    }
}

/// Why blocking work gave no answer.
fn join_text(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => panic_text(payload.as_ref()),
        Err(error) => error.to_string(),
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panicked".to_owned())
}

/// Metadata from a JSON object literal.
pub(crate) fn metadata(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACE: fn() -> Face =
        || Face { name: "demo", description: "", properties: Vec::new(), required: &[], hints: READS };

    // BUILTIN-12
    #[tokio::test]
    async fn a_panic_is_a_failure_that_names_the_tool() {
        let tool = FACE().tool(|_args, _context| async { panic!("broken {}", 1) });
        assert_eq!(tool.execute(json!({})).await, ToolResult::failure("demo: broken 1"));
        let tool = FACE().tool(|_args, _context| -> std::future::Ready<Result<ToolResult, String>> {
            panic!("before there was a future")
        });
        assert_eq!(tool.execute(json!({})).await, ToolResult::failure("demo: before there was a future"));
        let tool = FACE().tool(|_args, _context| off_thread(|| panic!("off")));
        assert_eq!(tool.execute(json!({})).await, ToolResult::failure("demo: off"));
    }

    // BUILTIN-12
    #[tokio::test]
    async fn an_error_is_a_failure_that_names_the_tool() {
        let tool = FACE().tool(|_args, _context| async { Err("no".to_owned()) });
        assert_eq!(tool.execute(Value::Null).await, ToolResult::failure("demo: no"));
    }
}
