//! Tokens, and how a model's turn ended.

use serde::{Deserialize, Serialize};
use toolnexus_core::Style;

/// Tokens of one model call, or of all calls of a run. 0 means not reported.
///
/// ```
/// use toolnexus_llm::{Style, Usage};
/// let usage = Usage { prompt_tokens: 12, cache_read_tokens: 900, cache_write_tokens: 40, ..Default::default() };
/// assert_eq!(usage.context_tokens(Style::Anthropic), 952);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens read, as the provider counts them.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// As reported, else the sum of the two.
    pub total_tokens: u64,
    /// Prompt tokens that came from the provider's cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// Prompt tokens that were written to the provider's cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Usage {
    /// The size of the context in tokens. Anthropic does not count cached tokens as prompt
    /// tokens; the other styles do.
    pub const fn context_tokens(&self, style: Style) -> u64 {
        match style {
            Style::Anthropic => self
                .prompt_tokens
                .saturating_add(self.cache_read_tokens)
                .saturating_add(self.cache_write_tokens),
            Style::OpenAI | Style::Gemini => self.prompt_tokens,
        }
    }

    /// The same usage with a total: the sum of prompt and completion unless one was reported.
    pub(crate) const fn with_total(mut self) -> Self {
        if self.total_tokens == 0 {
            self.total_tokens = self.prompt_tokens.saturating_add(self.completion_tokens);
        }
        self
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }
}

/// How a model's turn ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model had said what it wanted to say.
    #[default]
    Stop,
    /// The model asked for tools.
    ToolCalls,
    /// The answer was cut by a token limit.
    Length,
    /// The provider held the answer back.
    ContentFilter,
}

impl FinishReason {
    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::Length => "length",
            FinishReason::ContentFilter => "content_filter",
        }
    }

    /// Reads a provider's reason; tool calls decide first, an unknown reason is a stop.
    pub(crate) fn read(has_calls: bool, reason: Option<&str>) -> Self {
        if has_calls {
            return FinishReason::ToolCalls;
        }
        match reason.unwrap_or_default() {
            "length" | "max_tokens" | "MAX_TOKENS" => FinishReason::Length,
            "content_filter" | "refusal" | "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT"
            | "SPII" => FinishReason::ContentFilter,
            _ => FinishReason::Stop,
        }
    }
}
