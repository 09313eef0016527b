//! Which provider dialect a model speaks.

use serde::{Deserialize, Serialize};

/// The dialect of a model provider: how messages, tools and answers are spelled on the wire.
///
/// Text that names no known style means [`Style::OpenAI`], the dialect most servers accept.
///
/// ```
/// use toolnexus_core::Style;
/// assert_eq!(Style::from("anthropic"), Style::Anthropic);
/// assert_eq!(Style::from("something else"), Style::OpenAI);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub enum Style {
    /// OpenAI chat completions, which most other providers and local servers imitate.
    #[default]
    #[serde(rename = "openai")]
    OpenAI,
    /// Anthropic messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// Google Gemini `generateContent`.
    #[serde(rename = "gemini")]
    Gemini,
}

impl Style {
    /// The name of the style in configuration: `openai`, `anthropic` or `gemini`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Style::OpenAI => "openai",
            Style::Anthropic => "anthropic",
            Style::Gemini => "gemini",
        }
    }
}

impl std::fmt::Display for Style {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for Style {
    fn from(text: &str) -> Self {
        match text {
            "anthropic" => Style::Anthropic,
            "gemini" => Style::Gemini,
            _ => Style::OpenAI,
        }
    }
}

impl From<String> for Style {
    fn from(text: String) -> Self {
        Style::from(text.as_str())
    }
}

impl<'de> Deserialize<'de> for Style {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Style::from)
    }
}
