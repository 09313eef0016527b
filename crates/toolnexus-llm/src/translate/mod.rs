//! Single-turn translation: one request in OpenAI's shapes, one call of whatever provider the
//! client speaks to, one answer in OpenAI's shapes.
//!
//! For proxies and for hosts with a loop of their own:
//!
//! ```text
//!   TranslateRequest ──▶ body in the client's style ──▶ one model call ──▶ TranslateResult
//!     (OpenAI shapes)      inbound.rs, tools.rs          driver/attempts     outbound.rs
//! ```
//!
//! * **One call.** No loop, no tool runs, no store, no skills prompt; nothing is remembered.
//! * **The loop's own path to the model**: endpoint, headers, key, request shaping, retries,
//!   deadline, cancellation and errors are the same code.
//! * **The conversions are pure functions** and public, usable without a client.

mod call;
mod inbound;
mod outbound;
mod parts;
mod text;
mod tools;

pub use call::TranslateRequest;
pub use inbound::{
    AnthropicMessages, InboundOptions, openai_messages_to_anthropic, openai_messages_to_anthropic_with,
};
pub use outbound::{TranslateResult, TranslatedToolCall, finish_reason_for, tool_calls_json};
pub use text::{args_object, args_string, content_text, has_system_message, tool_calls_of};
pub(crate) use tools::with_properties;
pub use tools::{openai_tool_choice_to_anthropic, openai_tools_to_anthropic};
