//! OpenAI chat completions.

mod stream;

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolnexus_core::content::{ContentPartError, PartEncoder, PartView};
use toolnexus_core::http::{HeaderValue, Url};
use toolnexus_core::redact::cut;
use toolnexus_core::{ContentPart, Style};

use stream::OpenAiStream;

use super::arguments::{call_from_json, generated_id};
use super::body::Field;
use super::lenient::{Count, Object, Text, part_text};
use super::parts::{as_sent, attached_block, derived_block, encoded, entries_of};
use super::{
    Request, RequestBody, RequestParts, StreamDecoder, ToolAnswer, Unreadable, Wire, extend_path,
    leave_first, replace, without_mark,
};
use crate::readable::readable_raw;
use crate::run::{ModelAnswer, ModelCall};
use crate::{ERROR_BODY_CAP, FinishReason, Message, Prompt, Usage};

pub(super) struct OpenAi;

impl Wire for OpenAi {
    fn locate(&self, base: &mut Url, _model: &str, _streamed: bool) {
        extend_path(base, ["chat", "completions"]);
    }

    fn headers(&self, key: &str) -> Vec<(&'static str, Result<HeaderValue, ()>)> {
        vec![("authorization", HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| ()))]
    }

    fn opening(&self, system: &str) -> Option<Message> {
        (!system.is_empty()).then(|| Message::from(json!({"role": "system", "content": system})))
    }

    fn user_message(&self, prompt: &Prompt) -> Message {
        Message::of_wire(&User { role: "user", content: prompt }, matches!(prompt, Prompt::Parts(_)))
    }

    fn tool_results<'a>(&self, _asking: Option<&Message>, answers: &[ToolAnswer<'a>]) -> Vec<Message> {
        #[derive(Serialize)]
        struct ToolMessage<'a> {
            role: &'static str,
            tool_call_id: &'a str,
            content: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            name: Option<&'a str>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            parts: &'a [ContentPart],
        }
        answers
            .iter()
            .map(|answer| {
                let parts = answer.parts();
                let message = ToolMessage {
                    role: "tool",
                    tool_call_id: answer.id,
                    content: &answer.result.output,
                    name: (!parts.is_empty()).then_some(answer.name),
                    parts: &parts,
                };
                Message::of_wire(&message, !parts.is_empty())
            })
            .collect()
    }

    fn newest_text(&self, messages: &[Message]) -> String {
        messages
            .iter()
            .rev()
            .filter(|message| message.role() == "assistant")
            .find_map(|message| message.get("content")?.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    fn request<'a>(&self, parts: &RequestParts<'a>) -> Result<Request<'a>, ContentPartError> {
        let mut encoder = parts.part_rules.encoder(Style::OpenAI);
        let messages = if parts.messages.may_hold_parts() {
            Field::Messages(with_blocks(parts.messages, &mut encoder)?)
        } else {
            Field::Transcript(parts.messages)
        };
        let mut body = RequestBody::default().string("model", parts.model).with("messages", messages);
        if let Some(tools) = &parts.tools {
            body =
                body.with("tools", Field::Json(tools.clone())).with("tool_choice", Field::Static("\"auto\""));
        }
        if parts.streamed {
            body = body
                .with("stream", Field::Static("true"))
                .with("stream_options", Field::Static("{\"include_usage\":true}"));
        }
        Ok(Request { body, replaced: encoder.into_replaced() })
    }

    fn decode(&self, body: &Bytes, turn: u32) -> Result<ModelAnswer, Unreadable> {
        #[derive(Deserialize)]
        struct Completion<'a> {
            #[serde(borrow, default)]
            choices: Option<Vec<Object<Choice<'a>>>>,
            #[serde(borrow, default)]
            usage: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Choice<'a> {
            #[serde(borrow, default)]
            message: Option<&'a RawValue>,
            #[serde(borrow, default)]
            finish_reason: Option<Text<'a>>,
            #[serde(borrow, default)]
            error: Option<&'a RawValue>,
        }
        let body = &without_mark(body);
        let Object(completion): Object<Completion<'_>> = serde_json::from_slice(body)
            .map_err(|error| Unreadable(format!("it is not a chat completion ({error})")))?;
        let Object(choice) = completion
            .choices
            .and_then(|choices| choices.into_iter().next())
            .ok_or_else(|| Unreadable("it has no choices".into()))?;
        if let Some(error) = choice.error {
            return Err(Unreadable(format!("its choices[0] holds an error ({})", message_of(error))));
        }
        let raw = choice.message.ok_or_else(|| Unreadable("it has no choices[0].message".into()))?;
        readable_raw(raw)
            .map_err(|error| Unreadable(format!("its choices[0].message cannot be used ({error})")))?;
        let Object(read): Object<Assistant<'_>> = serde_json::from_str(raw.get())
            .map_err(|error| Unreadable(format!("its choices[0].message is no message ({error})")))?;
        let asked = read.tool_calls.unwrap_or_default();
        let all_named =
            asked.iter().all(|Object(call)| call.id.as_ref().is_some_and(|id| !id.as_str().is_empty()));
        // An entry that is no function call is a call of no known tool: it is answered too.
        let calls: Vec<ModelCall> = asked
            .into_iter()
            .enumerate()
            .map(|(at, Object(call))| {
                let Object(function) = call.function.unwrap_or_default();
                let id = call.id.map(|id| id.0.into_owned()).filter(|id| !id.is_empty());
                call_from_json(
                    id.unwrap_or_else(|| generated_id(turn, at)),
                    function.name.map(|name| name.0.into_owned()).unwrap_or_default(),
                    function.arguments,
                )
            })
            .collect();
        let refusal = read.refusal.map(|refusal| refusal.0.into_owned()).filter(|text| !text.is_empty());
        let content = read.content.and_then(content_text);
        let says_nothing = content.is_none() && calls.is_empty() && refusal.is_none();
        let has_role = read.role.is_some_and(|role| role.as_str() == "assistant");
        let message = if has_role && all_named && !says_nothing {
            // The provider's own bytes, shared with the response body.
            Message::of_model(body.slice_ref(raw.get().as_bytes()))
        } else {
            repaired(raw, says_nothing, &calls)
        };
        Ok(ModelAnswer {
            message: Some(message),
            text: content.filter(|text| !text.is_empty()).or(refusal).unwrap_or_default(),
            finish_reason: FinishReason::read(
                !calls.is_empty(),
                choice.finish_reason.as_ref().map(Text::as_str),
            ),
            calls,
            usage: completion.usage.map(read_usage).unwrap_or_default(),
        })
    }

    fn replace_message(&self, answer: &mut Value, message: Option<&Message>) {
        leave_first(answer, "choices");
        match message {
            Some(message) => replace(answer, "/choices/0/message", Some(message.value())),
            None => replace(answer, "/choices/0/message/content", Some(&Value::from(""))),
        }
    }

    fn stream(&self, turn: u32) -> Box<dyn StreamDecoder> {
        Box::new(OpenAiStream::new(turn))
    }
}

/// The transcript with every part in its block. A `tool` message holds text only, so the other
/// parts of a turn's results move into one user message behind the last of them.
fn with_blocks<'a>(
    messages: &'a [Message],
    encoder: &mut PartEncoder,
) -> Result<Vec<Cow<'a, Message>>, ContentPartError> {
    let mut sent = Vec::with_capacity(messages.len() + 1);
    let mut moved: Vec<Value> = Vec::new();
    for message in messages {
        if !moved.is_empty() && message.role() != "tool" {
            sent.push(Cow::Owned(moved_parts(&mut moved)));
        }
        sent.push(match message {
            _ if !message.may_hold_parts() => Cow::Borrowed(message),
            _ if message.role() == "tool" && message.get("parts").is_some() => {
                Cow::Owned(tool_message(message, encoder, &mut moved)?)
            }
            _ => encoded(message, encoder)?,
        });
    }
    if !moved.is_empty() {
        sent.push(Cow::Owned(moved_parts(&mut moved)));
    }
    Ok(sent)
}

fn moved_parts(moved: &mut Vec<Value>) -> Message {
    Message::from(json!({"role": "user", "content": std::mem::take(moved)}))
}

/// A tool message as it is sent; its parts that are no text go to `moved`.
fn tool_message(
    message: &Message,
    encoder: &mut PartEncoder,
    moved: &mut Vec<Value>,
) -> Result<Message, ContentPartError> {
    let is_text = |part: Option<PartView<'_>>| part.is_some_and(|part| part.text().is_some());
    let (texts, others): (Vec<_>, Vec<_>) = entries_of(message).partition(|(_, part)| is_text(*part));
    let given = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
    if !others.is_empty() {
        let heading = format!("Output of tool {} ({}):", given("name"), given("tool_call_id"));
        moved.push(encoder.text(&heading));
    }
    for part in others {
        moved.push(derived_block(part, encoder)?);
    }
    let mut content = match message.get("content") {
        // Parts that a caller put into the content are the caller's.
        Some(Value::Array(blocks)) => {
            let blocks = blocks.iter().map(|entry| attached_block(entry, encoder));
            Value::Array(blocks.collect::<Result<_, _>>()?)
        }
        given => given.cloned().unwrap_or_default(),
    };
    if !texts.is_empty() {
        let mut blocks = match content {
            Value::Array(blocks) => blocks,
            other => vec![encoder.text(other.as_str().unwrap_or_default())],
        };
        for part in texts {
            blocks.push(derived_block(part, encoder)?);
        }
        content = Value::Array(blocks);
    }
    Ok(Message::from(as_sent(message, content)))
}

#[derive(Serialize)]
struct User<'a> {
    role: &'static str,
    content: &'a Prompt,
}

#[derive(Deserialize)]
struct Assistant<'a> {
    #[serde(borrow, default)]
    role: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Object<Call<'a>>>>,
    #[serde(borrow, default)]
    refusal: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    function: Option<Object<Function<'a>>>,
}

#[derive(Default, Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Reads a usage object; missing and odd fields are 0.
fn read_usage(usage: &RawValue) -> Usage {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Reported {
        prompt_tokens: Count,
        completion_tokens: Count,
        total_tokens: Count,
        prompt_tokens_details: Option<Details>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Details {
        cached_tokens: Count,
    }
    let reported: Reported = serde_json::from_str(usage.get()).unwrap_or_default();
    Usage {
        prompt_tokens: reported.prompt_tokens.0,
        completion_tokens: reported.completion_tokens.0,
        total_tokens: reported.total_tokens.0,
        cache_read_tokens: reported.prompt_tokens_details.unwrap_or_default().cached_tokens.0,
        cache_write_tokens: 0,
    }
    .with_total()
}

/// The text of a content: a string, or the text parts of an array. `None` for anything else, and
/// for an empty array, which no provider reads back.
fn content_text(content: &RawValue) -> Option<String> {
    match serde_json::from_str::<Value>(content.get()).ok()? {
        Value::String(text) => Some(text),
        Value::Array(parts) if !parts.is_empty() => Some(parts.iter().filter_map(part_text).collect()),
        _ => None,
    }
}

/// What an error object says, as far as an error message shows it.
fn message_of(error: &RawValue) -> String {
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    cut(error.get("message").and_then(Value::as_str).unwrap_or("without a message"), ERROR_BODY_CAP)
        .into_owned()
}

/// A message that providers would not read back as it is: its role is set, one that says
/// nothing gets an empty text, and its calls get the ids that their results name.
fn repaired(raw: &RawValue, says_nothing: bool, calls: &[ModelCall]) -> Message {
    let mut value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    if let Value::Object(map) = &mut value {
        map.insert("role".into(), "assistant".into());
        if says_nothing {
            map.insert("content".into(), "".into());
        }
        let entries = map.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten();
        for (entry, call) in entries.zip(calls) {
            if let Value::Object(entry) = entry {
                entry.insert("id".into(), call.id.clone().into());
            }
        }
    }
    Message::from(value)
}
