//! The `todowrite` tool: the model's list of what is to be done, told back to it.
//!
//! Nothing is stored: whoever wants the list reads it from the result's metadata.

use serde_json::{Map, Value, json};
use toolnexus_core::{Tool, ToolResult};

use crate::builtin::{Face, READS};

pub(crate) fn tool() -> Tool {
    let todos = json!({
        "type": "array",
        "description": "The whole list; it replaces the one before",
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "A name that stays the same while the task does"},
                "text": {"type": "string", "description": "What is to be done"},
                "completed": {"type": "boolean", "description": "Whether it is done"},
            },
            "required": ["id", "text", "completed"],
        },
    });
    let face = Face {
        name: "todowrite",
        description: "Replace the task list; returns it rendered.",
        properties: vec![("todos", todos)],
        required: &["todos"],
        hints: READS,
    };
    face.tool(|args, _context| async move {
        let given = args.list(&["todos"]).unwrap_or_default();
        let output = match given {
            [] => "(no todos)".to_owned(),
            todos => todos.iter().map(line).collect::<Vec<_>>().join("\n"),
        };
        let facts = Map::from_iter([("todos".to_owned(), given.into())]);
        Ok(ToolResult::success(output).with_metadata(facts))
    })
}

fn line(todo: &Value) -> String {
    let done = todo.get("completed") == Some(&Value::Bool(true));
    let text = match todo.get("text") {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    };
    format!("[{}] {text}", if done { "x" } else { " " })
}
