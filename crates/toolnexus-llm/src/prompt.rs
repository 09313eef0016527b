//! What a run is asked.

use serde::{Deserialize, Serialize};
use toolnexus_core::ContentPart;

/// The prompt of a run: a text, or a list of content parts in order.
///
/// ```
/// use toolnexus_llm::{ContentPart, Prompt};
/// let text = Prompt::from("hello");
/// let parts = Prompt::from(vec![ContentPart::text("what is this?")]);
/// assert_ne!(text, parts);
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Prompt {
    /// Plain text.
    Text(String),
    /// Content parts, one block of the message each.
    Parts(Vec<ContentPart>),
}

impl std::fmt::Debug for Prompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Prompt::Text(text) => write!(f, "Prompt({} bytes)", text.len()),
            Prompt::Parts(parts) => f.debug_tuple("Prompt").field(parts).finish(),
        }
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Prompt::Text(text.into())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Prompt::Text(text)
    }
}

impl From<&String> for Prompt {
    fn from(text: &String) -> Self {
        Prompt::Text(text.clone())
    }
}

impl From<Vec<ContentPart>> for Prompt {
    fn from(parts: Vec<ContentPart>) -> Self {
        Prompt::Parts(parts)
    }
}
