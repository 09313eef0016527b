//! What a run is asked.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ContentPart;

/// The prompt of a run: a text, or a list of content parts in order.
///
/// ```
/// use toolnexus_core::content::{ContentPart, Prompt};
/// let text = Prompt::from("hello");
/// let picture = ContentPart::from_url("https://example.com/cat.png")?;
/// let parts = Prompt::from(["what is this?".into(), picture]);
/// assert_ne!(text, parts);
/// # Ok::<(), toolnexus_core::content::ContentPartError>(())
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

impl From<ContentPart> for Prompt {
    fn from(part: ContentPart) -> Self {
        Prompt::Parts(vec![part])
    }
}

impl<const N: usize> From<[ContentPart; N]> for Prompt {
    fn from(parts: [ContentPart; N]) -> Self {
        Prompt::Parts(parts.into())
    }
}

impl From<&[ContentPart]> for Prompt {
    fn from(parts: &[ContentPart]) -> Self {
        Prompt::Parts(parts.to_vec())
    }
}

impl From<Vec<ContentPart>> for Prompt {
    fn from(parts: Vec<ContentPart>) -> Self {
        Prompt::Parts(parts)
    }
}

impl<P: Into<ContentPart>> FromIterator<P> for Prompt {
    fn from_iter<I: IntoIterator<Item = P>>(parts: I) -> Self {
        Prompt::Parts(parts.into_iter().map(Into::into).collect())
    }
}

/// The prompt as a message of a transcript: a text as a string, parts as they are.
///
/// ```
/// use serde_json::json;
/// use toolnexus_core::content::user_message;
/// assert_eq!(user_message(&"hello".into()), json!({"role": "user", "content": "hello"}));
/// ```
pub fn user_message(prompt: &Prompt) -> Value {
    json!({"role": "user", "content": prompt})
}
