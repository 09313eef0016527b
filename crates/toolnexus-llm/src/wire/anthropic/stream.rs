//! A message as it arrives.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Counts;
use crate::run::{ModelAnswer, ModelCall};
use crate::wire::arguments::{call_from_text, generated_id};
use crate::wire::lenient::{Count, Text};
use crate::wire::{Flow, InStreamError, StreamDecoder, ended_early, usable};
use crate::{ClientError, FinishReason, Message};

/// A streamed message.
#[derive(Default)]
pub(super) struct AnthropicStream {
    turn: u32,
    blocks: BTreeMap<u64, StreamedBlock>,
    counts: Counts,
    stop_reason: Option<String>,
    stopped: bool,
}

#[derive(Default)]
struct StreamedBlock {
    /// The block as it was opened.
    start: Map<String, Value>,
    text: String,
    thinking: String,
    signature: String,
    input_json: String,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(default)]
    index: Option<Count>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<MessageStart<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageStart<'a> {
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    stop_reason: Option<Text<'a>>,
}

impl AnthropicStream {
    pub(super) fn new(turn: u32) -> Self {
        AnthropicStream { turn, ..Default::default() }
    }
}

impl StreamDecoder for AnthropicStream {
    fn data(&mut self, payload: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<Flow, InStreamError> {
        let Ok(event) = serde_json::from_slice::<Event<'_>>(payload) else { return Ok(Flow::More) };
        match event.kind.as_str() {
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.block(event.index).delta(&delta, on_text);
                }
            }
            "content_block_start" => {
                let start = event.content_block.map(|raw| raw.get()).unwrap_or("{}");
                self.block(event.index).open(serde_json::from_str(start).unwrap_or_default(), on_text);
            }
            "message_start" => {
                if let Some(usage) = event.message.and_then(|message| message.usage) {
                    self.counts.update(usage.get());
                }
            }
            "message_delta" => {
                if let Some(usage) = event.usage {
                    self.counts.update(usage.get());
                }
                let reason = event.delta.and_then(|delta| delta.stop_reason);
                if let Some(reason) = reason.filter(|reason| !reason.as_str().is_empty()) {
                    self.stop_reason = Some(reason.0.into_owned());
                }
            }
            "message_stop" => {
                self.stopped = true;
                return Ok(Flow::End);
            }
            // A gateway's own error may lack the type.
            "" if event.error.is_none() => {}
            "error" | "" => return Err(InStreamError(String::from_utf8_lossy(payload).into_owned())),
            _ => {}
        }
        Ok(Flow::More)
    }

    fn finish(self: Box<Self>) -> Result<ModelAnswer, ClientError> {
        if !self.stopped && self.stop_reason.is_none() {
            return Err(ended_early());
        }
        let mut text = String::new();
        let mut calls = Vec::new();
        let mut content = Vec::new();
        for block in self.blocks.into_values() {
            text.push_str(&block.text);
            let (assembled, call) = block.close(self.turn, calls.len());
            content.extend(assembled);
            calls.extend(call);
        }
        let message = (!content.is_empty())
            .then(|| usable(Message::from(json!({"role": "assistant", "content": content}))))
            .transpose()?;
        Ok(ModelAnswer {
            message,
            text,
            finish_reason: FinishReason::read(!calls.is_empty(), self.stop_reason.as_deref()),
            calls,
            usage: self.counts.usage(),
        })
    }
}

impl AnthropicStream {
    fn block(&mut self, index: Option<Count>) -> &mut StreamedBlock {
        self.blocks.entry(index.unwrap_or_default().0).or_default()
    }
}

impl StreamedBlock {
    fn open(&mut self, start: Map<String, Value>, on_text: &mut dyn FnMut(&str)) {
        let given = |key: &str| start.get(key).and_then(Value::as_str).unwrap_or_default();
        self.thinking.push_str(given("thinking"));
        self.signature.push_str(given("signature"));
        let text = given("text");
        if start.get("type").is_some_and(|kind| kind == "text") && !text.is_empty() {
            self.text.push_str(text);
            on_text(text);
        }
        self.start = start;
    }

    fn delta(&mut self, delta: &Delta<'_>, on_text: &mut dyn FnMut(&str)) {
        let given = |text: &'_ Option<Text<'_>>| text.as_ref().map(|t| t.0.to_string()).unwrap_or_default();
        match delta.kind.as_ref().map(Text::as_str).unwrap_or_default() {
            "text_delta" => {
                if let Some(text) = delta.text.as_ref().filter(|text| !text.as_str().is_empty()) {
                    self.text.push_str(text.as_str());
                    on_text(text.as_str());
                }
            }
            "input_json_delta" => self.input_json.push_str(&given(&delta.partial_json)),
            "thinking_delta" => self.thinking.push_str(&given(&delta.thinking)),
            "signature_delta" => self.signature.push_str(&given(&delta.signature)),
            _ => {}
        }
    }

    /// The block as the transcript keeps it, and the call it makes.
    fn close(mut self, turn: u32, position: usize) -> (Option<Value>, Option<ModelCall>) {
        let kind = self.start.get("type").and_then(Value::as_str).unwrap_or("text").to_owned();
        match kind.as_str() {
            "text" if self.text.is_empty() => (None, None),
            "text" => (Some(json!({"type": "text", "text": self.text})), None),
            "tool_use" => {
                let call = self.call(turn, position);
                let block = json!({
                    "type": "tool_use", "id": call.id, "name": call.name, "input": &*call.args,
                });
                (Some(block), Some(call))
            }
            "thinking" => {
                self.start.insert("thinking".into(), self.thinking.into());
                self.start.insert("signature".into(), self.signature.into());
                (Some(Value::Object(self.start)), None)
            }
            _ => {
                if !self.input_json.is_empty() {
                    let input = serde_json::from_str(&self.input_json).unwrap_or_else(|_| json!({}));
                    self.start.insert("input".into(), input);
                }
                (Some(Value::Object(self.start)), None)
            }
        }
    }

    fn call(&self, turn: u32, position: usize) -> ModelCall {
        let given = |key: &str| self.start.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = Some(given("id")).filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| generated_id(turn, position));
        let given_input =
            self.start.get("input").filter(|input| input.as_object().is_some_and(|o| !o.is_empty()));
        match given_input {
            // Some servers send the whole input at the start and no deltas.
            Some(input) if self.input_json.is_empty() => {
                call_from_text(id, given("name"), &input.to_string())
            }
            _ => call_from_text(id, given("name"), &self.input_json),
        }
    }
}
