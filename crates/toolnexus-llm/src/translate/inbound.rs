//! OpenAI messages as Anthropic's.

use serde_json::{Map, Value, json};
use toolnexus_core::Style;
use toolnexus_core::content::{ContentPartError, PartEncoder, UnsupportedPart};

use super::parts::{Content, converted, spoken};
use super::text::{args_object, content_text, entries, is_system, role, string};
use crate::wire::PartRules;

/// A transcript in Anthropic's shapes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnthropicMessages {
    /// The turns.
    pub messages: Vec<Value>,
    /// What the `system` and `developer` messages said, joined by blank lines. Empty: nothing.
    pub system: String,
}

/// How content parts are treated that Anthropic does not take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InboundOptions {
    /// What happens to a part that cannot be sent. `None`: it is an error.
    pub on_unsupported_part: Option<UnsupportedPart>,
    /// The most decoded bytes of a part. `None`: no limit.
    pub max_part_bytes: Option<u64>,
}

/// OpenAI messages as Anthropic's: system texts taken out, calls as `tool_use` blocks, consecutive
/// tool results gathered into one user message. What is no JSON object is ignored.
///
/// ```
/// use serde_json::json;
/// use toolnexus_llm::translate::openai_messages_to_anthropic;
/// let read = openai_messages_to_anthropic(&[
///     json!({"role": "system", "content": "You are terse."}),
///     json!({"role": "user", "content": "hi"}),
/// ])?;
/// assert_eq!(read.system, "You are terse.");
/// assert_eq!(read.messages, [json!({"role": "user", "content": "hi"})]);
/// # Ok::<(), toolnexus_core::content::ContentPartError>(())
/// ```
///
/// # Errors
/// The first part that Anthropic has no block for, or that is malformed.
pub fn openai_messages_to_anthropic(messages: &[Value]) -> Result<AnthropicMessages, ContentPartError> {
    openai_messages_to_anthropic_with(messages, InboundOptions::default())
}

/// [`openai_messages_to_anthropic`] with a size limit, or with text in place of parts that cannot
/// be sent.
///
/// # Errors
/// As there; with [`UnsupportedPart::Text`] only for malformed parts.
pub fn openai_messages_to_anthropic_with(
    messages: &[Value],
    options: InboundOptions,
) -> Result<AnthropicMessages, ContentPartError> {
    let InboundOptions { on_unsupported_part, max_part_bytes } = options;
    let mut encoder = PartRules { max_part_bytes, on_unsupported_part }.encoder(Style::Anthropic);
    let read = inbound(messages, &mut encoder);
    encoder.into_replaced().into_iter().for_each(|replaced| replaced.warn(Style::Anthropic));
    read
}

/// The conversion; `encoder` knows afterwards what text stands in for.
pub(super) fn inbound(
    messages: &[Value],
    encoder: &mut PartEncoder,
) -> Result<AnthropicMessages, ContentPartError> {
    let mut turns = Vec::new();
    let mut system = Vec::new();
    // Results that follow each other; any other message closes the group.
    let mut results = Vec::new();
    for message in messages.iter().filter(|message| message.is_object()) {
        let content = message.get("content");
        let role = role(message);
        if matches!(role, "tool" | "function") {
            results.push(tool_result(message, encoder)?);
            continue;
        }
        close_group(&mut turns, &mut results);
        match role {
            role if is_system(role) => {
                let text = content.map(content_text).unwrap_or_default();
                if !text.is_empty() {
                    system.push(text);
                }
            }
            "assistant" => {
                let blocks = assistant_blocks(message);
                if !blocks.is_empty() {
                    turns.push(json!({"role": "assistant", "content": blocks}));
                }
            }
            _ => match converted(content, encoder)? {
                Content::Text(text) if text.is_empty() => {}
                content => turns.push(json!({"role": "user", "content": content.into_value()})),
            },
        }
    }
    close_group(&mut turns, &mut results);
    Ok(AnthropicMessages { messages: turns, system: system.join("\n\n") })
}

fn close_group(turns: &mut Vec<Value>, results: &mut Vec<Value>) {
    if !results.is_empty() {
        turns.push(json!({"role": "user", "content": std::mem::take(results)}));
    }
}

fn tool_result(message: &Value, encoder: &mut PartEncoder) -> Result<Value, ContentPartError> {
    let mut block = Map::new();
    block.insert("type".into(), "tool_result".into());
    let id = string(message.get("tool_call_id"));
    if !id.is_empty() {
        block.insert("tool_use_id".into(), id.into());
    }
    block.insert("content".into(), converted(message.get("content"), encoder)?.into_value());
    Ok(Value::Object(block))
}

fn assistant_blocks(message: &Value) -> Vec<Value> {
    let mut blocks = match spoken(message.get("content")) {
        Content::Text(text) if text.is_empty() => Vec::new(),
        Content::Text(text) => vec![json!({"type": "text", "text": text})],
        Content::Blocks(blocks) => blocks,
    };
    blocks.extend(entries(message).map(|(id, function)| {
        let input = function.get("arguments").map(args_object).unwrap_or_default();
        json!({"type": "tool_use", "id": id, "name": string(function.get("name")), "input": input})
    }));
    blocks
}

impl Content {
    fn into_value(self) -> Value {
        match self {
            Content::Text(text) => text.into(),
            Content::Blocks(blocks) => blocks.into(),
        }
    }
}
