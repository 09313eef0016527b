//! The tools.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use toolnexus::reports::LogLevel;
use toolnexus::serve::mcp_close_stream;
use toolnexus::{Answer, BoxError, ContentPart, Tool, ToolContext, ToolResult, define_tool};

use super::{PIXEL, SILENCE};

/// How long the suite wants tools to take between two reports.
const BEAT: Duration = Duration::from_millis(50);

/// How soon a client is to come back for the rest of a call.
const COME_BACK: Duration = Duration::from_millis(500);

pub(super) fn all() -> Vec<Tool> {
    vec![
        simple("test_simple_text", || ToolResult::success("This is a simple text response for testing.")),
        simple("test_image_content", || ToolResult::success("A red pixel").with_parts(vec![image()])),
        simple("test_audio_content", || {
            let silence = ContentPart::from_base64("audio/wav", SILENCE, None);
            ToolResult::success("Silence").with_parts(vec![silence])
        }),
        simple("test_embedded_resource", || {
            let text = "VGhpcyBpcyBhbiBlbWJlZGRlZCByZXNvdXJjZSBjb250ZW50Lg==";
            let resource =
                ContentPart::from_base64("text/plain", text, Some("test://embedded-resource".into()));
            ToolResult::success("A resource").with_parts(vec![resource])
        }),
        simple("test_multiple_content_types", || {
            let json = "eyJ0ZXN0IjoiZGF0YSIsInZhbHVlIjoxMjN9";
            let name = Some("test://mixed-content-resource".into());
            let resource = ContentPart::from_base64("application/json", json, name);
            ToolResult::success("Multiple content types test:").with_parts(vec![image(), resource])
        }),
        simple("test_error_handling", || {
            ToolResult::failure("This tool intentionally returns an error for testing")
        }),
        logging(),
        progress(),
        reconnection(),
        elicitation(),
        defaults(),
        enums(),
        schema(),
    ]
}

fn image() -> ContentPart {
    ContentPart::from_base64("image/png", PIXEL, None)
}

/// A tool without arguments that is done at once.
fn simple(name: &str, result: fn() -> ToolResult) -> Tool {
    define_tool(name, format!("The suite's {name}"), None, move |_args: Value, _context| async move {
        Ok::<_, BoxError>(result())
    })
}

fn logging() -> Tool {
    define_tool("test_tool_with_logging", "Logs", None, |_args: Value, context: ToolContext| async move {
        context.log(LogLevel::Info, "Tool execution started");
        sleep(BEAT).await;
        context.log(LogLevel::Info, "Tool processing data");
        sleep(BEAT).await;
        context.log(LogLevel::Info, "Tool execution completed");
        Ok::<_, BoxError>("Logged three lines")
    })
}

fn progress() -> Tool {
    define_tool(
        "test_tool_with_progress",
        "Reports progress",
        None,
        |_args: Value, context: ToolContext| async move {
            context.progress(0.0, Some(100.0), None);
            sleep(BEAT).await;
            context.progress(50.0, Some(100.0), None);
            sleep(BEAT).await;
            context.progress(100.0, Some(100.0), None);
            Ok::<_, BoxError>("Reported progress")
        },
    )
}

/// Its stream ends before the call does; the client comes back for the result.
fn reconnection() -> Tool {
    define_tool(
        "test_reconnection",
        "Ends its event stream and goes on",
        None,
        |_args: Value, context: ToolContext| async move {
            mcp_close_stream(&context, COME_BACK);
            sleep(BEAT).await;
            Ok::<_, BoxError>("Reconnected")
        },
    )
}

fn elicitation() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What the person is asked"}},
        "required": ["message"],
    });
    define_tool(
        "test_elicitation",
        "Asks the person",
        Some(input),
        |args: Value, context: ToolContext| async move {
            let message = args.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
            let schema = json!({
                "type": "object",
                "properties": {
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                },
                "required": ["username", "email"],
            });
            let answer = context.elicit(message, schema).await?;
            Ok::<_, BoxError>(format!("User response: {}", told(&answer)))
        },
    )
}

fn defaults() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": true},
        },
        "required": [],
    });
    asking("test_elicitation_sep1034_defaults", schema)
}

fn enums() -> Tool {
    let titled = |word: &str| {
        json!([
            {"const": "value1", "title": format!("First {word}")},
            {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")},
        ])
    };
    let options = json!(["option1", "option2", "option3"]);
    let schema = json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
        },
        "required": [],
    });
    asking("test_elicitation_sep1330_enums", schema)
}

/// A tool without arguments that puts one form to the person.
fn asking(name: &str, schema: Value) -> Tool {
    define_tool(name, format!("The suite's {name}"), None, move |_args: Value, context: ToolContext| {
        let schema = schema.clone();
        async move {
            let answer = context.elicit("Please fill in the form", schema).await?;
            Ok::<_, BoxError>(format!("Elicitation completed: {}", told(&answer)))
        }
    })
}

/// An answer as the suite wants to read it.
fn told(answer: &Answer) -> String {
    let action = match (answer.ok, answer.reason.as_deref()) {
        (true, _) => "accept",
        (false, Some("declined")) => "decline",
        (false, _) => "cancel",
    };
    format!("action={action}, content={}", Value::Object(answer.data.clone().unwrap_or_default()))
}

/// A tool whose schema has keywords that a careless server loses.
fn schema() -> Tool {
    let input = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    });
    define_tool(
        "json_schema_2020_12_tool",
        "Tool with JSON Schema 2020-12 features",
        Some(input),
        |args: Value, _context| async move { Ok::<_, BoxError>(args) },
    )
}
