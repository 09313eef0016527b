//! The words in which providers say a model's turn.

mod anthropic;
mod gemini;
mod openai;

use serde_json::{Value, json};

use super::turn::{Piece, Turn};

/// A provider's format of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI chat completions, and the many servers compatible with it.
    OpenAi,
    /// Anthropic messages.
    Anthropic,
    /// Gemini `generateContent` and `streamGenerateContent?alt=sse`.
    Gemini,
}

impl Dialect {
    /// All dialects, for tests that run over each.
    pub const ALL: [Self; 3] = [Self::OpenAi, Self::Anthropic, Self::Gemini];

    pub(crate) fn json(self, turn: &Turn) -> Value {
        match self {
            Self::OpenAi => openai::json(turn),
            Self::Anthropic => anthropic::json(turn),
            Self::Gemini => gemini::json(turn),
        }
    }

    pub(crate) fn stream(self, turn: &Turn, with_usage: bool) -> Vec<Piece> {
        match self {
            Self::OpenAi => openai::stream(turn, with_usage),
            Self::Anthropic => anthropic::stream(turn),
            Self::Gemini => gemini::stream(turn),
        }
    }

    pub(crate) fn error(self, status: u16, kind: &str, message: &str) -> Value {
        match self {
            Self::OpenAi => {
                json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
            }
            Self::Anthropic => {
                json!({"type": "error", "error": {"type": kind, "message": message}})
            }
            Self::Gemini => json!({"error": {"code": status, "message": message, "status": kind}}),
        }
    }

    /// The header under which the provider names the request, if it does.
    pub(crate) fn request_id_header(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("x-request-id"),
            Self::Anthropic => Some("request-id"),
            Self::Gemini => None,
        }
    }
}

/// The arguments of a call as a value; text that is not JSON becomes a string.
fn arguments_value(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()))
}
