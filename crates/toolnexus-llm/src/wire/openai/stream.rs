//! A chat completion as it arrives.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::read_usage;
use crate::run::{ModelAnswer, ModelCall};
use crate::wire::arguments::{call_from_text, generated_id};
use crate::wire::lenient::{Count, Text};
use crate::wire::{Flow, InStreamError, StreamDecoder, ended_early, usable};
use crate::{ClientError, FinishReason, Message, Usage};

/// A streamed chat completion.
#[derive(Default)]
pub(super) struct OpenAiStream {
    turn: u32,
    text: String,
    refusal: String,
    calls: Vec<StreamedCall>,
    /// The index of the choice that is read. A request for several gets them mixed.
    choice: Option<u64>,
    /// Where the newest call of each index stands in `calls`.
    by_index: BTreeMap<u64, usize>,
    /// Reasoning, under the key it came in: providers want it back on a turn with calls.
    reasoning: Map<String, Value>,
    usage: Usage,
    finish_reason: Option<String>,
    done: bool,
    /// An entry of `tool_calls` that is no object: a call of the model's is lost.
    unreadable_call: bool,
}

#[derive(Default)]
struct StreamedCall {
    id: String,
    name: String,
    arguments: String,
    /// Other keys of the entry, the last value of each.
    extra: Map<String, Value>,
}

impl StreamedCall {
    /// Whether an entry with this id and a name opens another call although its index is this
    /// one's: nothing can be added to arguments that are complete.
    fn is_followed_by(&self, id: Option<&str>) -> bool {
        let is_new = id.is_some_and(|id| !self.id.is_empty() && id != self.id);
        is_new && serde_json::from_str::<Map<String, Value>>(&self.arguments).is_ok()
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    object: Option<Text<'a>>,
    #[serde(borrow, default)]
    choices: Option<Vec<ChunkChoice<'a>>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChunkChoice<'a> {
    #[serde(default)]
    index: Option<Count>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Text<'a>>,
    #[serde(borrow, default)]
    refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    reasoning_details: Option<&'a RawValue>,
}

impl OpenAiStream {
    pub(super) fn new(turn: u32) -> Self {
        OpenAiStream { turn, ..Default::default() }
    }
}

impl StreamDecoder for OpenAiStream {
    fn data(&mut self, payload: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<Flow, InStreamError> {
        if payload == b"[DONE]" {
            self.done = true;
            return Ok(Flow::End);
        }
        // What is not JSON, or not a chunk, is a comment of some proxy.
        let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(payload) else { return Ok(Flow::More) };
        if let Some(error) = chunk.error {
            // Some gateways put the error into a chunk: what surrounds it there says nothing.
            return Err(match chunk.choices {
                Some(_) => alone(error),
                None => InStreamError(String::from_utf8_lossy(payload).into_owned()),
            });
        }
        if chunk.object.is_some_and(|object| object.as_str() == "error") {
            return Err(InStreamError(String::from_utf8_lossy(payload).into_owned()));
        }
        if let Some(usage) = chunk.usage {
            self.usage = read_usage(usage);
        }
        let mut choices = chunk.choices.unwrap_or_default().into_iter();
        let is_ours = |choice: &ChunkChoice<'_>| {
            choice.index.is_none_or(|index| *self.choice.get_or_insert(index.0) == index.0)
        };
        let Some(choice) = choices.find(is_ours) else { return Ok(Flow::More) };
        if let Some(error) = choice.error {
            return Err(alone(error));
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.as_str().is_empty()) {
            self.finish_reason = Some(reason.0.into_owned());
        }
        if let Some(delta) = choice.delta {
            self.delta(&delta, on_text);
        }
        Ok(Flow::More)
    }

    fn finish(mut self: Box<Self>) -> Result<ModelAnswer, ClientError> {
        if !self.done && self.finish_reason.is_none() {
            return Err(ended_early());
        }
        if self.unreadable_call {
            return Err(ClientError::InvalidResponse(
                "the model's answer cannot be read: an entry of its tool_calls is no object".into(),
            ));
        }
        for (at, call) in self.calls.iter_mut().enumerate() {
            if call.id.is_empty() {
                call.id = generated_id(self.turn, at);
            }
        }
        let message = usable(self.message())?;
        let calls: Vec<ModelCall> =
            self.calls.into_iter().map(|call| call_from_text(call.id, call.name, &call.arguments)).collect();
        Ok(ModelAnswer {
            message: Some(message),
            text: if self.text.is_empty() { self.refusal } else { self.text },
            finish_reason: FinishReason::read(!calls.is_empty(), self.finish_reason.as_deref()),
            calls,
            usage: self.usage,
        })
    }
}

impl OpenAiStream {
    fn delta(&mut self, delta: &Delta<'_>, on_text: &mut dyn FnMut(&str)) {
        if let Some(content) = delta.content.as_ref().filter(|text| !text.as_str().is_empty()) {
            self.text.push_str(content.as_str());
            on_text(content.as_str());
        }
        if let Some(refusal) = &delta.refusal {
            self.refusal.push_str(refusal.as_str());
        }
        for (key, piece) in [("reasoning", &delta.reasoning), ("reasoning_content", &delta.reasoning_content)]
        {
            if let Some(piece) = piece.as_ref().filter(|piece| !piece.as_str().is_empty()) {
                append_text(&mut self.reasoning, key, piece.as_str());
            }
        }
        if let Some(Ok(Value::Array(details))) =
            delta.reasoning_details.map(|raw| serde_json::from_str(raw.get()))
        {
            let kept = self.reasoning.entry("reasoning_details").or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(kept) = kept {
                kept.extend(details);
            }
        }
        match delta.tool_calls.map(|raw| serde_json::from_str::<Value>(raw.get())) {
            None | Some(Ok(Value::Null)) => {}
            Some(Ok(Value::Array(entries))) => entries.into_iter().for_each(|entry| self.call_entry(entry)),
            Some(Ok(entry)) => self.call_entry(entry),
            Some(Err(_)) => self.unreadable_call = true,
        }
    }

    /// One entry of `tool_calls`, of whatever types a server makes its fields.
    fn call_entry(&mut self, entry: Value) {
        let Value::Object(mut entry) = entry else {
            self.unreadable_call = true;
            return;
        };
        let index = entry.shift_remove("index").as_ref().and_then(as_index);
        let id = entry.shift_remove("id").and_then(as_name);
        let mut function = match entry.shift_remove("function") {
            Some(Value::Object(function)) => function,
            _ => Map::new(),
        };
        let name = function.shift_remove("name").and_then(as_name);
        let Some(call) = self.call_of(index, id.as_deref(), name.is_some()) else { return };
        if let Some(id) = id {
            call.id = id;
        }
        if let Some(name) = name.filter(|name| *name != call.name) {
            call.name.push_str(&name);
        }
        match function.shift_remove("arguments") {
            Some(Value::String(piece)) => call.arguments.push_str(&piece),
            None | Some(Value::Null) => {}
            // A whole object in place of text.
            Some(whole) => call.arguments.push_str(&whole.to_string()),
        }
        entry.shift_remove("type");
        call.extra.extend(entry);
    }

    /// The call that a delta belongs to: by its index, or, where a server sends none, the one it
    /// opens with a new id, else the last.
    fn call_of(&mut self, index: Option<u64>, id: Option<&str>, named: bool) -> Option<&mut StreamedCall> {
        let at = match index {
            Some(index) => {
                let next = self.calls.len();
                let at = self.by_index.entry(index).or_insert(next);
                // Some servers number all calls of a turn 0.
                if named && self.calls.get(*at).is_some_and(|call| call.is_followed_by(id)) {
                    *at = next;
                }
                *at
            }
            None => match id.and_then(|id| self.calls.iter().position(|call| call.id == id)) {
                Some(known) => known,
                None if id.is_some() || self.calls.is_empty() => self.calls.len(),
                None => self.calls.len() - 1,
            },
        };
        if at == self.calls.len() {
            self.calls.push(StreamedCall::default());
        }
        self.calls.get_mut(at)
    }

    fn message(&self) -> Message {
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        if self.calls.is_empty() {
            message.insert("content".into(), self.text.clone().into());
            if self.text.is_empty() && !self.refusal.is_empty() {
                message.insert("content".into(), Value::Null);
                message.insert("refusal".into(), self.refusal.clone().into());
            }
            return Message::from(Value::Object(message));
        }
        let content = if self.text.is_empty() { Value::Null } else { self.text.clone().into() };
        message.insert("content".into(), content);
        let calls = self.calls.iter().map(|call| {
            let mut entry = Map::new();
            entry.insert("id".into(), call.id.clone().into());
            entry.insert("type".into(), "function".into());
            entry.insert("function".into(), json!({"name": call.name, "arguments": call.arguments}));
            entry.extend(call.extra.clone());
            Value::Object(entry)
        });
        message.insert("tool_calls".into(), calls.collect());
        message.extend(self.reasoning.clone());
        Message::from(Value::Object(message))
    }
}

/// An error that was sent as part of a chunk.
fn alone(error: &RawValue) -> InStreamError {
    InStreamError(format!("{{\"error\":{}}}", error.get()))
}

/// An index: a whole number, however it is written. Anything else is none.
fn as_index(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to fit")]
        other => other.as_u64().or_else(|| {
            let number = other.as_f64()?;
            (number.fract() == 0.0 && (0.0..1e9).contains(&number)).then_some(number as u64)
        }),
    }
}

/// An id or name: text, or a number as its digits.
fn as_name(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn append_text(map: &mut Map<String, Value>, key: &str, piece: &str) {
    match map.get_mut(key) {
        Some(Value::String(text)) => text.push_str(piece),
        _ => {
            map.insert(key.to_owned(), piece.into());
        }
    }
}
