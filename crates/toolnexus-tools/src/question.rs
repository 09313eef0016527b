//! The `question` tool: asks a person, and waits.

use serde_json::{Map, Value, json};
use toolnexus_core::{Request, Tool, ToolResult, pending};

use crate::builtin::{Face, READS};

/// What kind of request a host sees.
const KIND: &str = "question";

pub(crate) fn tool() -> Tool {
    let questions = json!({
        "type": "array",
        "description": "The questions, in the order in which they are asked",
        "items": {
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "The question"},
                "header": {"type": "string", "description": "A word or two that stand above it"},
                "options": {
                    "type": "array", "items": {"type": "string"}, "description": "Answers to choose from"
                },
                "multiple": {"type": "boolean", "description": "Whether several answers may be chosen"},
            },
            "required": ["question"],
        },
    });
    let face = Face {
        name: "question",
        description: "Ask the human one or more questions and wait for the answer.",
        properties: vec![("questions", questions)],
        required: &["questions"],
        hints: READS,
    };
    face.tool(|args, context| async move {
        let questions = args.list(&["questions"]).filter(|questions| !questions.is_empty());
        let questions = questions.ok_or_else(|| "questions is required".to_owned())?;
        match context.answer.filter(|answer| answer.ok) {
            Some(answer) => {
                Ok(ToolResult::success(Value::Object(answer.data.unwrap_or_default()).to_string()))
            }
            None => Ok(ask(questions)),
        }
    })
}

fn ask(questions: &[Value]) -> ToolResult {
    let prompt = questions.iter().map(rendered).collect::<Vec<_>>().join("\n");
    let data = Map::from_iter([("questions".to_owned(), questions.into())]);
    pending(Request { kind: KIND.into(), prompt, data: Some(data), ..Default::default() })
}

fn rendered(question: &Value) -> String {
    let Some(text) = question.get("question").and_then(Value::as_str) else { return String::new() };
    let options = question.get("options").and_then(Value::as_array).filter(|options| !options.is_empty());
    let Some(options) = options else { return text.to_owned() };
    let options: Vec<_> = options
        .iter()
        .map(|option| option.as_str().map_or_else(|| option.to_string(), str::to_owned))
        .collect();
    format!("{text} (options: {})", options.join(", "))
}
