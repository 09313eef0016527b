//! Tools that tests call.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use toolnexus_core::{Request, Tool, ToolContext, ToolResult, define_tool, pending};

/// Adds `a` and `b`.
pub(crate) fn add() -> Tool {
    let schema = json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}});
    define_tool("add", "add", Some(schema), |args, _context| async move {
        Ok::<_, String>(args["a"].as_i64().unwrap_or(0) + args["b"].as_i64().unwrap_or(0))
    })
}

/// Gives back `text`.
pub(crate) fn echo() -> Tool {
    define_tool("echo", "echo", None, |args, _context| async move {
        Ok::<_, String>(args["text"].as_str().unwrap_or("nothing").to_owned())
    })
}

/// Always gives `output`.
pub(crate) fn fixed(name: &str, output: &str) -> Tool {
    let output = output.to_owned();
    define_tool(name, name, None, move |_args, _context| {
        let output = output.clone();
        async move { Ok::<_, String>(output) }
    })
}

/// One execution of a recorded tool.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) args: Value,
    pub(crate) context: ToolContext,
}

/// What a recorded tool was given, execution by execution.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<Execution>>>);

impl Record {
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn all(&self) -> Vec<Execution> {
        self.0.lock().unwrap().clone()
    }

    /// The arguments of every execution.
    pub(crate) fn args(&self) -> Vec<Value> {
        self.all().into_iter().map(|execution| execution.args).collect()
    }
}

/// A tool that keeps what it is given and answers with `run`.
pub(crate) fn recorded(
    name: &str,
    run: impl Fn(&Value, &ToolContext) -> ToolResult + Send + Sync + 'static,
) -> (Tool, Record) {
    let record = Record::default();
    let kept = record.clone();
    let tool = define_tool(name, name, None, move |args: Value, context: ToolContext| {
        let result = run(&args, &context);
        kept.0.lock().unwrap().push(Execution { args, context });
        async move { result }
    });
    (tool, record)
}

/// A tool that asks `prompt` and, once answered ok, gives `answered: <data.text>`.
pub(crate) fn asking(name: &str, prompt: &str) -> (Tool, Record) {
    let prompt = prompt.to_owned();
    recorded(name, move |_args, context| match &context.answer {
        None => pending(Request { kind: "input".into(), prompt: prompt.clone(), ..Default::default() }),
        Some(answer) => {
            let text = answer.data.as_ref().and_then(|data| data["text"].as_str()).unwrap_or("yes");
            ToolResult::success(format!("answered: {text}"))
        }
    })
}

/// A tool that never ends: told when it has started, and when it was dropped.
pub(crate) struct Stuck {
    pub(crate) tool: Tool,
    pub(crate) started: oneshot::Receiver<ToolContext>,
    /// Resolves (to an error) when the tool's future is gone.
    pub(crate) dropped: oneshot::Receiver<()>,
}

pub(crate) fn stuck(name: &str) -> Stuck {
    let (tell_start, started) = oneshot::channel();
    let (held, dropped) = oneshot::channel::<()>();
    let once = Arc::new(Mutex::new(Some((tell_start, held))));
    let tool = define_tool(name, name, None, move |_args, context: ToolContext| {
        let (tell_start, held) = once.lock().unwrap().take().expect("called once");
        async move {
            let _held = held;
            let _ = tell_start.send(context);
            std::future::pending::<Result<String, String>>().await
        }
    });
    Stuck { tool, started, dropped }
}

/// An object from `json!`.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("no object: {other}"),
    }
}
