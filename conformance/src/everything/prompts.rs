//! The prompts.

use serde_json::{Map, Value};
use toolnexus::serve::{
    McpHookError, McpPrompt, McpPromptArgument, McpPromptContent, McpPromptMessage, McpPromptResult,
    McpPromptRole, McpResourceContents,
};
use toolnexus::{BoxError, ContentPart};

use super::PIXEL;

pub(super) fn all() -> Vec<McpPrompt> {
    let prompt = |name: &str, arguments: &[&str]| McpPrompt {
        name: name.into(),
        title: None,
        description: Some(format!("The suite's {name}")),
        arguments: arguments
            .iter()
            .map(|name| McpPromptArgument {
                name: (*name).into(),
                description: Some(format!("The argument {name}")),
                required: true,
            })
            .collect(),
    };
    vec![
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
    ]
}

pub(super) fn get(name: &str, arguments: &Map<String, Value>) -> Result<McpPromptResult, BoxError> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let said = |content: McpPromptContent| McpPromptMessage { role: McpPromptRole::User, content };
    let messages = match name {
        "test_simple_prompt" => vec![McpPromptMessage::user("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => vec![McpPromptMessage::user(format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1"),
            argument("arg2")
        ))],
        "test_prompt_with_embedded_resource" => {
            let text = "Embedded resource content for testing.";
            let resource = McpResourceContents::text(argument("resourceUri"), "text/plain", text);
            vec![
                said(McpPromptContent::Resource(resource)),
                McpPromptMessage::user("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => vec![
            said(McpPromptContent::Part(ContentPart::from_base64("image/png", PIXEL, None))),
            McpPromptMessage::user("Please analyze the image above."),
        ],
        _ => return Err(McpHookError::prompt_not_found(name).into()),
    };
    Ok(McpPromptResult { description: None, messages })
}
