//! Anthropic messages.

mod stream;

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolnexus_core::content::{ContentPartError, PartEncoder};
use toolnexus_core::http::{HeaderValue, Url};
use toolnexus_core::{ContentPart, Style};

use stream::AnthropicStream;

use super::arguments::{call_from_json, generated_id};
use super::body::Field;
use super::lenient::{Count, Object, Text, part_text};
use super::parts::{as_sent, attached_block, derived_block, entries_of, with_content};
use super::system::hoist_system;
use super::{
    Request, RequestBody, RequestParts, StreamDecoder, ToolAnswer, Unreadable, Wire, extend_path, replace,
    without_mark,
};
use crate::readable::readable_raw;
use crate::run::{ModelAnswer, ModelCall};
use crate::{FinishReason, Message, Prompt, Usage};

pub(super) struct Anthropic;

/// The answer's length when nothing else is asked for; the API demands one.
const MAX_TOKENS: &str = "4096";

impl Wire for Anthropic {
    fn locate(&self, base: &mut Url, _model: &str, _streamed: bool) {
        let versioned = base.path().ends_with("/v1");
        extend_path(base, (!versioned).then_some("v1"));
        extend_path(base, ["messages"]);
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

    fn tool_results<'a>(&self, _asking: Option<&Message>, answers: &[ToolAnswer<'a>]) -> Vec<Message> {
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
            parts: Cow<'a, [ContentPart]>,
        }
        let block = |answer: &ToolAnswer<'a>| {
            let parts = answer.parts();
            ResultBlock {
                r#type: "tool_result",
                tool_use_id: answer.id,
                content: &answer.result.output,
                is_error: answer.result.is_error,
                name: (!parts.is_empty()).then_some(answer.name),
                parts,
            }
        };
        let content: Vec<_> = answers.iter().map(block).collect();
        let holds_parts = content.iter().any(|block| !block.parts.is_empty());
        vec![Message::of_wire(&Results { role: "user", content }, holds_parts)]
    }

    fn newest_text(&self, _messages: &[Message]) -> String {
        String::new()
    }

    fn request<'a>(&self, parts: &RequestParts<'a>) -> Result<Request<'a>, ContentPartError> {
        let mut encoder = parts.part_rules.encoder(Style::Anthropic);
        let (system, messages) = hoist_system(parts.system, parts.messages, user_text);
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
        Ok(Request { body, replaced: encoder.into_replaced() })
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
        let body = &without_mark(body);
        let Object(answer): Object<Answer<'_>> = serde_json::from_slice(body)
            .map_err(|error| Unreadable(format!("it is not a message ({error})")))?;
        let raw = answer.content.ok_or_else(|| Unreadable("it has no content".into()))?;
        readable_raw(raw).map_err(|error| Unreadable(format!("its content cannot be used ({error})")))?;
        let blocks: Vec<Object<Block<'_>>> = serde_json::from_str(raw.get())
            .map_err(|error| Unreadable(format!("its content is no list of blocks ({error})")))?;
        let mut text = String::new();
        let mut calls = Vec::new();
        // Whether the content can be read back as it is: named calls, no empty text.
        let mut usable = true;
        let mut kept = 0;
        for Object(block) in blocks {
            kept += 1;
            match block.kind.as_str() {
                "text" => match block.text.as_ref().map(Text::as_str).unwrap_or_default() {
                    "" => {
                        usable = false;
                        kept -= 1;
                    }
                    more => text.push_str(more),
                },
                "tool_use" => {
                    let id = block.id.map(|id| id.0.into_owned()).filter(|id| !id.is_empty());
                    usable &= id.is_some();
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
            message: (kept > 0)
                .then(|| if usable { assistant(raw.get()) } else { assistant(&repaired(raw, &calls)) }),
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

    fn replace_message(&self, answer: &mut Value, message: Option<&Message>) {
        replace(answer, "/content", message.and_then(|message| message.get("content")));
    }

    fn stream(&self, turn: u32) -> Box<dyn StreamDecoder> {
        Box::new(AnthropicStream::new(turn))
    }
}

/// Content that the API would not read back as it is: its calls get the ids that their results
/// name, and empty texts are left out.
fn repaired(content: &RawValue, calls: &[ModelCall]) -> String {
    let is_kind = |block: &Value, kind: &str| block.get("type").is_some_and(|given| given == kind);
    let is_blank = |block: &Value| match block.get("text") {
        Some(Value::String(text)) => text.is_empty(),
        // A list of texts, as some servers write it.
        Some(Value::Array(texts)) => texts.iter().filter_map(part_text).all(str::is_empty),
        _ => true,
    };
    let mut blocks: Vec<Value> = serde_json::from_str(content.get()).unwrap_or_default();
    blocks.retain(|block| !(is_kind(block, "text") && is_blank(block)));
    let uses = blocks.iter_mut().filter(|block| is_kind(block, "tool_use"));
    for (block, call) in uses.filter_map(Value::as_object_mut).zip(calls) {
        block.insert("id".into(), call.id.clone().into());
    }
    Value::from(blocks).to_string()
}

/// The assistant message around content that is already JSON.
fn assistant(content: &str) -> Message {
    Message::of_model(format!(r#"{{"role":"assistant","content":{content}}}"#).into())
}

/// The messages with every part in its block.
fn with_blocks<'a>(messages: Field<'a>, encoder: &mut PartEncoder) -> Result<Field<'a>, ContentPartError> {
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
        let blocks: Result<Vec<Value>, ContentPartError> =
            content.iter().map(|entry| encode_entry(entry, encoder)).collect();
        Ok(Cow::Owned(with_content(&message, Value::Array(blocks?))))
    };
    messages.into_iter().map(encode).collect::<Result<_, _>>().map(Field::Messages)
}

/// One entry of a content list: a part becomes its block, a tool result takes its parts inside.
fn encode_entry(entry: &Value, encoder: &mut PartEncoder) -> Result<Value, ContentPartError> {
    if entry.get("type").is_none_or(|kind| kind != "tool_result") {
        return attached_block(entry, encoder);
    }
    let mut parts = entries_of(entry).peekable();
    let mut content = match entry.get("content") {
        // Parts that a caller put into the content are the caller's.
        Some(Value::Array(blocks)) => {
            blocks.iter().map(|entry| attached_block(entry, encoder)).collect::<Result<_, _>>()?
        }
        given if parts.peek().is_none() => {
            return Ok(as_sent(entry, given.cloned().unwrap_or_else(|| "".into())));
        }
        Some(Value::String(output)) if !output.is_empty() => vec![encoder.text(output)],
        // The API refuses an empty text block.
        _ => Vec::new(),
    };
    for part in parts {
        content.push(derived_block(part, encoder)?);
    }
    Ok(as_sent(entry, Value::Array(content)))
}

/// The lone message of a transcript that holds nothing but system messages.
fn user_text(text: &str) -> Message {
    Message::from(json!({"role": "user", "content": text}))
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
