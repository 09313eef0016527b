//! Prompts as hooks give them, and as they go out.

use serde::{Serialize, Serializer};
use toolnexus_core::ContentPart;

use super::resources::McpResourceContents;
use crate::server::result::entry;

/// A prompt that a client may get.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct McpPrompt {
    /// What it is got by.
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<McpPromptArgument>,
}

/// One argument of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct McpPromptArgument {
    /// Its name.
    pub name: String,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the prompt cannot do without it.
    pub required: bool,
}

/// A prompt, filled in.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct McpPromptResult {
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its messages.
    pub messages: Vec<McpPromptMessage>,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct McpPromptMessage {
    /// Who says it.
    pub role: McpPromptRole,
    /// What is said.
    pub content: McpPromptContent,
}

impl McpPromptMessage {
    /// Text that the user says.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: McpPromptRole::User, content: McpPromptContent::Part(ContentPart::text(text)) }
    }

    /// Text that the model says.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: McpPromptRole::Assistant, content: McpPromptContent::Part(ContentPart::text(text)) }
    }
}

/// Who says a message of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum McpPromptRole {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// What a message of a prompt holds.
#[derive(Debug, Clone, PartialEq)]
pub enum McpPromptContent {
    /// Text, an image, a sound or a file.
    Part(ContentPart),
    /// A resource with its contents.
    Resource(McpResourceContents),
}

impl Serialize for McpPromptContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            McpPromptContent::Part(part) => entry(part).serialize(serializer),
            McpPromptContent::Resource(resource) => {
                Embedded { r#type: "resource", resource }.serialize(serializer)
            }
        }
    }
}

#[derive(Serialize)]
struct Embedded<'a> {
    r#type: &'static str,
    resource: &'a McpResourceContents,
}
