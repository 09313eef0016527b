//! The system text on its way to the model, and the protocol prompt behind it.

use std::borrow::Cow;

use serde_json::{Value, json};
use toolnexus_llm::Message;

use crate::Registry;

/// What stands between the application's system text and the protocol prompt.
const BREAK: &str = "\n\n";

impl Registry {
    /// The system text of a style that sends it apart, encoded, with the protocol prompt behind it.
    pub fn encode_system(&self, system: &str) -> String {
        let encoded = self.encode_system_text(system);
        self.with_protocol_prompt(&encoded).unwrap_or_else(|| encoded.into_owned())
    }

    /// The system text encoded, without the prompt.
    pub(super) fn encode_system_text<'t>(&self, system: &'t str) -> Cow<'t, str> {
        let mut text = self.encode_resources(system);
        for edit in [Registry::encode_routing_text, Registry::encode_uris] {
            if let Cow::Owned(edited) = edit(self, &text) {
                text = Cow::Owned(edited);
            }
        }
        text
    }

    /// Puts the protocol prompt into encoded messages of a style that keeps the system text there: behind
    /// the first system message, or as a new one. Once.
    pub(crate) fn add_protocol_prompt(&self, messages: &mut Vec<Message>) {
        match messages.first_mut().filter(|message| matches!(message.role(), "system" | "developer")) {
            Some(system) => {
                if let Some(extended) = self.system_message_with_prompt(system) {
                    *system = extended;
                }
            }
            None => {
                let prompt = self.protocol_prompt();
                if !prompt.is_empty() {
                    messages.insert(0, json!({"role": "system", "content": prompt}).into());
                }
            }
        }
    }

    /// The system message with the protocol prompt behind its text; `None` if it has it.
    pub(crate) fn system_message_with_prompt(&self, system: &Message) -> Option<Message> {
        let content = system.get("content").unwrap_or(&Value::Null);
        let extended = self.content_with_prompt(content, text_block)?;
        let mut message = system.value().clone();
        message.as_object_mut()?.insert("content".into(), extended);
        Some(message.into())
    }

    /// A text, or a list of text blocks, with the protocol prompt behind it; `None` if it has it. A list
    /// gets it in its last text, so that a cache mark on that block covers it; one without text gets a
    /// `block`.
    pub(super) fn content_with_prompt(&self, content: &Value, block: fn(&str) -> Value) -> Option<Value> {
        let Value::Array(blocks) = content else {
            return self.with_protocol_prompt(content.as_str().unwrap_or_default()).map(Value::from);
        };
        let prompt = self.protocol_prompt();
        let text_of = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned);
        if prompt.is_empty() || blocks.iter().filter_map(text_of).any(|text| text.contains(&prompt)) {
            return None;
        }
        let mut blocks = blocks.clone();
        match blocks.iter_mut().rev().find_map(|block| Some((text_of(block)?, block.as_object_mut()?))) {
            Some((text, last)) => {
                last.insert("text".into(), joined(&text, &prompt).into());
            }
            None => blocks.push(block(&prompt)),
        }
        Some(Value::Array(blocks))
    }

    fn with_protocol_prompt(&self, text: &str) -> Option<String> {
        let prompt = self.protocol_prompt();
        (!prompt.is_empty() && !text.contains(&prompt)).then(|| joined(text, &prompt))
    }
}

fn joined(text: &str, prompt: &str) -> String {
    if text.is_empty() { prompt.to_owned() } else { format!("{text}{BREAK}{prompt}") }
}

/// A text in a list of blocks.
pub(super) fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
