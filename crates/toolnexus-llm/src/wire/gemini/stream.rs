//! An answer as it arrives: each event is a response of its own.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Candidate, GenerateContent, ModelContent, ModelPart, read_usage};
use crate::readable::readable;
use crate::run::{ModelAnswer, ModelCall};
use crate::wire::lenient::Object;
use crate::wire::{Flow, InStreamError, StreamDecoder, ended_early};
use crate::{ClientError, FinishReason, Message, Usage};

/// A streamed answer.
#[derive(Default)]
pub(super) struct GeminiStream {
    turn: u32,
    /// The index of the candidate that is read. A request for several gets them mixed.
    candidate: Option<u64>,
    parts: Vec<StreamedPart>,
    text: String,
    calls: Vec<ModelCall>,
    usage: Usage,
    finish_reason: Option<String>,
    block_reason: Option<String>,
    /// Why the content cannot be used, if it cannot.
    problem: Option<String>,
}

enum StreamedPart {
    /// Text that more may be joined to.
    Text { text: String, thought: bool },
    /// JSON, as it came.
    Whole(Box<RawValue>),
}

/// A part with nothing but text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PlainText<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(default)]
    thought: Option<bool>,
    #[serde(borrow, default)]
    thought_signature: Option<Cow<'a, str>>,
}

impl PlainText<'_> {
    fn is_signed(&self) -> bool {
        self.thought_signature.as_ref().is_some_and(|signature| !signature.is_empty())
    }
}

/// Whether a part is an empty text and nothing else.
pub(super) fn says_nothing(part: &RawValue) -> bool {
    let plain = serde_json::from_str::<PlainText<'_>>(part.get());
    plain.is_ok_and(|plain| plain.text.is_empty() && !plain.is_signed())
}

impl GeminiStream {
    pub(super) fn new(turn: u32) -> Self {
        GeminiStream { turn, ..Default::default() }
    }

    fn content(&mut self, raw: &RawValue, on_text: &mut dyn FnMut(&str)) -> Result<(), serde_json::Error> {
        let Object(content): Object<ModelContent<'_>> = serde_json::from_str(raw.get())?;
        content.parts.unwrap_or_default().into_iter().try_for_each(|part| self.part(part, on_text))
    }

    fn part(&mut self, raw: &RawValue, on_text: &mut dyn FnMut(&str)) -> Result<(), serde_json::Error> {
        let Object(part): Object<ModelPart<'_>> = serde_json::from_str(raw.get())?;
        let text = part.answer_text();
        if !text.is_empty() {
            self.text.push_str(text);
            on_text(text);
        }
        self.calls.extend(part.call(self.turn, self.calls.len()));
        let plain = serde_json::from_str::<PlainText<'_>>(raw.get()).ok();
        let Some(plain) = plain.filter(|plain| !plain.is_signed()) else {
            self.parts.push(StreamedPart::Whole(raw.to_owned()));
            return Ok(());
        };
        let is_thought = plain.thought == Some(true);
        match self.parts.last_mut() {
            _ if plain.text.is_empty() => {}
            Some(StreamedPart::Text { text, thought }) if *thought == is_thought => {
                text.push_str(&plain.text)
            }
            _ => self.parts.push(StreamedPart::Text { text: plain.text.into_owned(), thought: is_thought }),
        }
        Ok(())
    }

    /// The content that the parts make, unless there is none.
    fn message(&mut self) -> Result<Option<Message>, ClientError> {
        let unusable = |problem: &dyn std::fmt::Display| {
            ClientError::InvalidResponse(format!("the model's answer cannot be used ({problem})"))
        };
        if let Some(problem) = &self.problem {
            return Err(unusable(problem));
        }
        if self.parts.is_empty() {
            return Ok(None);
        }
        let parts: Vec<String> =
            std::mem::take(&mut self.parts).into_iter().map(StreamedPart::into_json).collect();
        let json = format!(r#"{{"parts":[{}],"role":"model"}}"#, parts.join(","));
        // Raw JSON may hold what nobody can read back.
        readable(json.as_bytes()).map_err(|error| unusable(&error))?;
        Ok(Some(Message::of_model(json.into())))
    }
}

impl StreamedPart {
    fn into_json(self) -> String {
        match self {
            StreamedPart::Text { text, thought: false } => format!(r#"{{"text":{}}}"#, Value::from(text)),
            StreamedPart::Text { text, thought: true } => {
                format!(r#"{{"text":{},"thought":true}}"#, Value::from(text))
            }
            StreamedPart::Whole(json) => Box::<str>::from(json).into(),
        }
    }
}

impl StreamDecoder for GeminiStream {
    fn data(&mut self, payload: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<Flow, InStreamError> {
        // What is not JSON, or no response, is a comment of some proxy.
        let Ok(Object(response)) = serde_json::from_slice::<Object<GenerateContent<'_>>>(payload) else {
            return Ok(Flow::More);
        };
        if response.error.is_some() {
            return Err(InStreamError(String::from_utf8_lossy(payload).into_owned()));
        }
        self.block_reason = response.block_reason().or(self.block_reason.take());
        if let Some(usage) = response.usage_metadata {
            self.usage = read_usage(usage);
        }
        let mut candidates = response.candidates.unwrap_or_default().into_iter();
        let is_ours = |Object(candidate): &Object<Candidate<'_>>| {
            candidate.index.is_none_or(|index| *self.candidate.get_or_insert(index.0) == index.0)
        };
        let Some(Object(candidate)) = candidates.find(is_ours) else { return Ok(Flow::More) };
        if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.as_str().is_empty()) {
            self.finish_reason = Some(reason.0.into_owned());
        }
        if let Some(Err(error)) = candidate.content.map(|content| self.content(content, on_text)) {
            self.problem = Some(error.to_string());
        }
        Ok(Flow::More)
    }

    fn finish(mut self: Box<Self>) -> Result<ModelAnswer, ClientError> {
        if self.finish_reason.is_none() {
            return Err(match self.block_reason {
                Some(reason) => ClientError::InvalidResponse(format!(
                    "the model gave no answer: the prompt was blocked ({reason})"
                )),
                None => ended_early(),
            });
        }
        let message = self.message()?;
        let finish_reason = FinishReason::read(!self.calls.is_empty(), self.finish_reason.as_deref());
        let GeminiStream { text, calls, usage, .. } = *self;
        Ok(ModelAnswer { message, text, calls, usage, finish_reason })
    }
}
