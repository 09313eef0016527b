//! Anthropic messages.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolnexus_core::http::HeaderValue;
use toolnexus_core::{ContentPart, Style};

use super::arguments::{call_from_json, call_from_text, generated_id};
use super::body::Field;
use super::lenient::{Count, Text};
use super::parts::{PartEncoder, Provenance, as_part, parts_of, with_content};
use super::{
    Flow, InStreamError, RefusedPart, Request, RequestBody, RequestParts, StreamDecoder, ToolAnswer,
    Unreadable, Wire, ended_early,
};
use crate::run::{ModelAnswer, ModelCall};
use crate::{ClientError, FinishReason, Message, Prompt, Transcript, Usage};

pub(super) struct Anthropic;

/// The answer's length when nothing else is asked for; the API demands one.
const MAX_TOKENS: &str = "4096";

impl Wire for Anthropic {
    fn endpoint(&self, base: &str) -> String {
        if base.ends_with("/v1") { format!("{base}/messages") } else { format!("{base}/v1/messages") }
    }

    fn headers(&self, key: &str) -> Vec<(&'static str, Result<HeaderValue, ()>)> {
        vec![
            ("x-api-key", HeaderValue::try_from(key).map_err(|_| ())),
            ("anthropic-version", Ok(HeaderValue::from_static("2023-06-01"))),
        ]
    }

    fn opening(&self, _system: &str) -> Option<Message> {
        None
    }

    fn user_message(&self, prompt: &Prompt) -> Message {
        #[derive(Serialize)]
        struct User<'a> {
            role: &'static str,
            content: &'a Prompt,
        }
        Message::of_wire(&User { role: "user", content: prompt }, matches!(prompt, Prompt::Parts(_)))
    }

    fn tool_results(&self, answers: &[ToolAnswer<'_>]) -> Vec<Message> {
        #[derive(Serialize)]
        struct Results<'a> {
            role: &'static str,
            content: Vec<ResultBlock<'a>>,
        }
        #[derive(Serialize)]
        struct ResultBlock<'a> {
            r#type: &'static str,
            tool_use_id: &'a str,
            content: &'a str,
            is_error: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            name: Option<&'a str>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            parts: &'a [ContentPart],
        }
        let content = answers
            .iter()
            .map(|answer| ResultBlock {
                r#type: "tool_result",
                tool_use_id: answer.id,
                content: &answer.result.output,
                is_error: answer.result.is_error,
                name: (!answer.result.parts.is_empty()).then_some(answer.name),
                parts: &answer.result.parts,
            })
            .collect();
        let holds_parts = answers.iter().any(|answer| !answer.result.parts.is_empty());
        vec![Message::of_wire(&Results { role: "user", content }, holds_parts)]
    }

    fn newest_text(&self, _messages: &[Message]) -> String {
        String::new()
    }

    fn request<'a>(&self, parts: &RequestParts<'a>) -> Result<Request<'a>, RefusedPart> {
        let mut encoder = PartEncoder::new(Style::Anthropic);
        let (system, messages) = hoist_system(parts.system, parts.messages);
        let messages = with_blocks(messages, &mut encoder)?;
        let mut body =
            RequestBody::default().string("model", parts.model).with("max_tokens", Field::Static(MAX_TOKENS));
        if !system.is_empty() {
            body = body.string("system", &system);
        }
        body = body.with("messages", messages);
        if let Some(tools) = &parts.tools {
            body = body.with("tools", Field::Json(tools.clone()));
        }
        if parts.streamed {
            body = body.with("stream", Field::Static("true"));
        }
        Ok(Request { body, replaced: encoder.replaced })
    }

    fn decode(&self, body: &Bytes, turn: u32) -> Result<ModelAnswer, Unreadable> {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow, default)]
            content: Option<&'a RawValue>,
            #[serde(borrow, default)]
            stop_reason: Option<Text<'a>>,
            #[serde(borrow, default)]
            usage: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Block<'a> {
            #[serde(borrow, default, rename = "type")]
            kind: Text<'a>,
            #[serde(borrow, default)]
            text: Option<Text<'a>>,
            #[serde(borrow, default)]
            id: Option<Text<'a>>,
            #[serde(borrow, default)]
            name: Option<Text<'a>>,
            #[serde(borrow, default)]
            input: Option<&'a RawValue>,
        }
        let answer: Answer<'_> = serde_json::from_slice(body)
            .map_err(|error| Unreadable(format!("it is not a message ({error})")))?;
        let raw = answer.content.ok_or_else(|| Unreadable("it has no content".into()))?;
        let blocks: Vec<Block<'_>> = serde_json::from_str(raw.get())
            .map_err(|error| Unreadable(format!("its content is no list of blocks ({error})")))?;
        let mut text = String::new();
        let mut calls = Vec::new();
        let empty = blocks.is_empty();
        let mut all_named = true;
        for block in blocks {
            match block.kind.as_str() {
                "text" => text.push_str(block.text.as_ref().map(Text::as_str).unwrap_or_default()),
                "tool_use" => {
                    let id = block.id.map(|id| id.0.into_owned()).filter(|id| !id.is_empty());
                    all_named &= id.is_some();
                    calls.push(call_from_json(
                        id.unwrap_or_else(|| generated_id(turn, calls.len())),
                        block.name.map(|name| name.0.into_owned()).unwrap_or_default(),
                        block.input,
                    ));
                }
                _ => {}
            }
        }
        Ok(ModelAnswer {
            message: (!empty)
                .then(|| if all_named { assistant(raw.get()) } else { assistant(&with_ids(raw, &calls)) }),
            text,
            finish_reason: FinishReason::read(
                !calls.is_empty(),
                answer.stop_reason.as_ref().map(Text::as_str),
            ),
            calls,
            usage: answer
                .usage
                .map(|usage| {
                    let mut counts = Counts::default();
                    counts.update(usage.get());
                    counts.usage()
                })
                .unwrap_or_default(),
        })
    }

    fn stream(&self, turn: u32) -> Box<dyn StreamDecoder> {
        Box::new(AnthropicStream { turn, ..Default::default() })
    }
}

/// Content whose calls get the ids that their results name.
fn with_ids(content: &RawValue, calls: &[ModelCall]) -> String {
    let mut content: Value = serde_json::from_str(content.get()).unwrap_or_default();
    let blocks = content.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    let uses = blocks.filter(|block| block.get("type").is_some_and(|kind| kind == "tool_use"));
    for (block, call) in uses.zip(calls) {
        block.insert("id".into(), call.id.clone().into());
    }
    content.to_string()
}

/// The assistant message around content that is already JSON.
fn assistant(content: &str) -> Message {
    Message::of_model(format!(r#"{{"role":"assistant","content":{content}}}"#).into())
}

/// The messages with every part in its block.
fn with_blocks<'a>(messages: Field<'a>, encoder: &mut PartEncoder) -> Result<Field<'a>, RefusedPart> {
    let messages: Vec<Cow<'a, Message>> = match messages {
        Field::Transcript(all) if all.may_hold_parts() => all.iter().map(Cow::Borrowed).collect(),
        Field::Messages(some) if some.iter().any(|message| message.may_hold_parts()) => some,
        untouched => return Ok(untouched),
    };
    let encode = |message: Cow<'a, Message>| {
        if !message.may_hold_parts() {
            return Ok(message);
        }
        let Some(content) = message.get("content").and_then(Value::as_array) else { return Ok(message) };
        let blocks: Result<Vec<Value>, RefusedPart> =
            content.iter().map(|entry| encode_entry(entry, encoder)).collect();
        Ok(Cow::Owned(with_content(&message, Value::Array(blocks?))))
    };
    messages.into_iter().map(encode).collect::<Result<_, _>>().map(Field::Messages)
}

/// One entry of a content list: a part becomes its block, a tool result takes its parts inside.
fn encode_entry(entry: &Value, encoder: &mut PartEncoder) -> Result<Value, RefusedPart> {
    // A text part is a block already, perhaps with keys of the provider's.
    if let Some(part) = as_part(entry).filter(|part| !part.is_text()) {
        return encoder.block(&part, Provenance::Attached);
    }
    let parts = parts_of(entry);
    let (Value::Object(map), false) = (entry, parts.is_empty()) else { return Ok(entry.clone()) };
    let mut block = map.clone();
    block.shift_remove("parts");
    block.shift_remove("name");
    let output = map.get("content").and_then(Value::as_str).unwrap_or_default();
    let mut content = Vec::with_capacity(parts.len() + 1);
    if !output.is_empty() {
        content.push(json!({"type": "text", "text": output}));
    }
    for part in &parts {
        content.push(encoder.block(part, Provenance::Derived)?);
    }
    block.insert("content".into(), Value::Array(content));
    Ok(Value::Object(block))
}

/// System messages leave the transcript and join the system text. If nothing else is left, the
/// last of them is sent as a user message: a request without messages is refused.
fn hoist_system<'a>(system: &str, messages: &'a Transcript) -> (String, Field<'a>) {
    if !messages.may_hold_system() {
        return (system.to_owned(), Field::Transcript(messages));
    }
    let (hoisted, sent): (Vec<&Message>, Vec<&Message>) =
        messages.iter().partition(|message| message.may_be_system());
    let (hoisted, sent) = if let (true, Some((last, before))) = (sent.is_empty(), hoisted.split_last()) {
        let user = json!([{"role": "user", "content": text_of(last)}]);
        (before.to_vec(), Field::Json(user.to_string().into()))
    } else {
        (hoisted, Field::Messages(sent.into_iter().map(Cow::Borrowed).collect()))
    };
    let texts: Vec<String> = std::iter::once(system.to_owned())
        .chain(hoisted.into_iter().map(text_of))
        .filter(|text| !text.is_empty())
        .collect();
    (texts.join("\n\n"), sent)
}

fn text_of(message: &Message) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

/// Counts as they are reported: in a stream each later report replaces an earlier one.
#[derive(Default)]
struct Counts {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
}

impl Counts {
    fn update(&mut self, json: &str) {
        #[derive(Deserialize)]
        struct Reported {
            #[serde(default)]
            input_tokens: Option<Count>,
            #[serde(default)]
            output_tokens: Option<Count>,
            #[serde(default)]
            cache_read_input_tokens: Option<Count>,
            #[serde(default)]
            cache_creation_input_tokens: Option<Count>,
        }
        let Ok(reported) = serde_json::from_str::<Reported>(json) else { return };
        let newer = |count: Option<Count>, known| count.map(|count| count.0).or(known);
        self.input = newer(reported.input_tokens, self.input);
        self.output = newer(reported.output_tokens, self.output);
        self.cache_read = newer(reported.cache_read_input_tokens, self.cache_read);
        self.cache_write = newer(reported.cache_creation_input_tokens, self.cache_write);
    }

    fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.input.unwrap_or(0),
            completion_tokens: self.output.unwrap_or(0),
            total_tokens: 0,
            cache_read_tokens: self.cache_read.unwrap_or(0),
            cache_write_tokens: self.cache_write.unwrap_or(0),
        }
        .with_total()
    }
}

/// A streamed message.
#[derive(Default)]
struct AnthropicStream {
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
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<MessageStart<'a>>,
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
            "error" => return Err(InStreamError(String::from_utf8_lossy(payload).into_owned())),
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
        let message =
            (!content.is_empty()).then(|| Message::from(json!({"role": "assistant", "content": content})));
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
    fn block(&mut self, index: Option<u64>) -> &mut StreamedBlock {
        self.blocks.entry(index.unwrap_or(0)).or_default()
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
