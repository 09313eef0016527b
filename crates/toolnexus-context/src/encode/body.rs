//! An assembled request body, for hosts with a loop of their own.

use std::sync::Arc;

use serde_json::{Value, json};
use toolnexus_core::Style;
use toolnexus_llm::{BodyTransform, Message};

use super::messages::{CallNames, Surroundings};
use super::system::text_block;
use crate::Registry;

impl Registry {
    /// Encodes assembled request bodies: tools, system text with the protocol prompt, and messages. Made
    /// for [`ClientOptions::body_transform`](toolnexus_llm::ClientOptions::body_transform), and for hosts
    /// that send bodies themselves; replies are decoded by
    /// [`decode_response`](Self::decode_response). The dialect is told by the body's shape; where the
    /// host knows it, [`body_transform_for`](Self::body_transform_for) guesses nothing. What is no
    /// request body is given back as it is.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolnexus_context::Registry;
    /// let registry = Registry::new(true);
    /// let transform = registry.body_transform();
    /// let body = transform(json!({
    ///     "model": "m",
    ///     "messages": [
    ///         {"role": "system", "content": "Be brief."},
    ///         {"role": "user", "content": "read toolnexus://doc/36283d3d"}
    ///     ]
    /// }));
    /// assert_eq!(body["messages"][1]["content"], "read doc://1");
    /// ```
    pub fn body_transform(&self) -> BodyTransform {
        let registry = self.clone();
        Arc::new(move |body| match style_of(&body) {
            Some(style) => registry.encode_body(style, body),
            None => body,
        })
    }

    /// The same for bodies of one dialect.
    pub fn body_transform_for(&self, style: Style) -> BodyTransform {
        let registry = self.clone();
        Arc::new(move |body| registry.encode_body(style, body))
    }

    fn encode_body(&self, style: Style, mut body: Value) -> Value {
        let Some(members) = body.as_object_mut() else { return body };
        if let Some(Value::Array(tools)) = members.get_mut("tools") {
            *tools = self.encode_tools(tools);
        }
        match style {
            Style::OpenAI => {}
            Style::Anthropic => {
                let system = members.get("system").unwrap_or(&Value::Null);
                if let Some(system) = self.system_encoded(system) {
                    members.insert("system".into(), system);
                }
            }
            Style::Gemini => {
                let key = ["systemInstruction", "system_instruction"]
                    .into_iter()
                    .find(|key| members.contains_key(*key))
                    .unwrap_or("systemInstruction");
                let instruction = members.get(key).cloned().unwrap_or_else(|| json!({"parts": []}));
                if let Some(instruction) = self.instruction_encoded(instruction) {
                    members.insert(key.into(), instruction);
                }
            }
        }
        let key = if style == Style::Gemini { "contents" } else { "messages" };
        if let Some(Value::Array(list)) = members.get_mut(key) {
            let messages: Vec<Message> = std::mem::take(list).into_iter().map(Message::from).collect();
            let surroundings = Surroundings { style: Some(style), ..Default::default() };
            let mut encoded = self.encode_new_messages(&mut CallNames::default(), &messages, &surroundings);
            if style == Style::OpenAI {
                self.add_protocol_prompt(&mut encoded);
            }
            *list = encoded.into_iter().map(Value::from).collect();
        }
        body
    }

    /// Anthropic's system: a text, or text blocks. `None` where there is nothing to say.
    fn system_encoded(&self, system: &Value) -> Option<Value> {
        let encoded = self.system_texts_encoded(system);
        self.content_with_prompt(&encoded, text_block).or(Some(encoded)).filter(|encoded| !encoded.is_null())
    }

    /// Gemini's system: a content, whose parts are its text. `None` where there is nothing to say.
    fn instruction_encoded(&self, mut instruction: Value) -> Option<Value> {
        let parts = instruction.as_object_mut()?.entry("parts").or_insert_with(|| json!([]));
        let encoded = self.system_texts_encoded(parts);
        *parts = self.content_with_prompt(&encoded, |text| json!({"text": text})).unwrap_or(encoded);
        (*parts != json!([])).then_some(instruction)
    }

    fn system_texts_encoded(&self, content: &Value) -> Value {
        let mut content = content.clone();
        match &mut content {
            Value::String(text) => *text = self.encode_system_text(text).into_owned(),
            Value::Array(blocks) => {
                for block in blocks {
                    if let Some(Value::String(text)) = block.get_mut("text") {
                        *text = self.encode_system_text(text).into_owned();
                    }
                }
            }
            _ => {}
        }
        content
    }
}

/// The dialect of a body, by what only that dialect has.
fn style_of(body: &Value) -> Option<Style> {
    if body.get("contents").is_some_and(Value::is_array) {
        return Some(Style::Gemini);
    }
    let messages = body.get("messages")?.as_array()?;
    let tools = body.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let has = |key: &str| body.get(key).is_some();
    let any_tool_has = |key: &str| tools.iter().any(|tool| tool.get(key).is_some());
    let is_anthropic = has("system")
        || has("anthropic_version")
        || any_tool_has("input_schema")
        || messages.iter().any(holds_tool_blocks);
    let is_openai = || any_tool_has("function") || messages.iter().any(is_of_openai);
    // A bare prompt looks alike in both. Compatible servers of OpenAI's dialect borrow `thinking`, so it
    // decides only here; and Anthropic demands `max_tokens` and has models of one name.
    let may_be_anthropic = || {
        let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
        has("thinking") || has("stop_sequences") || (has("max_tokens") && model.starts_with("claude"))
    };
    let is_anthropic = is_anthropic || (!is_openai() && may_be_anthropic());
    Some(if is_anthropic { Style::Anthropic } else { Style::OpenAI })
}

fn is_of_openai(message: &Value) -> bool {
    let role = message.get("role").and_then(Value::as_str);
    matches!(role, Some("system" | "developer" | "tool")) || message.get("tool_calls").is_some()
}

fn holds_tool_blocks(message: &Value) -> bool {
    let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
    let mut kinds = blocks.filter_map(|block| block.get("type")?.as_str());
    kinds.any(|kind| matches!(kind, "tool_use" | "tool_result"))
}
