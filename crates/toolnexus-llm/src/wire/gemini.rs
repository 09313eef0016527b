//! Gemini `generateContent`.
//!
//! The model and whether the answer is streamed are in the URL; the credential never is. A model's
//! content goes into the transcript as it came, because its thought signatures are wanted back
//! unchanged. Calls often have no id: [`generated_id`] names them inside, and the wire leaves them
//! without one.

mod contents;
mod stream;

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolnexus_core::content::ContentPartError;
use toolnexus_core::http::{HeaderValue, Url};
use toolnexus_core::{ContentPart, Style};

use contents::with_blocks;
pub(super) use contents::{calls_of, is_function_response};
use stream::{GeminiStream, says_nothing};

use super::arguments::{call_from_json, generated_id};
use super::body::Field;
use super::lenient::{Count, Object, Text};
use super::system::hoist_system;
use super::{
    Request, RequestBody, RequestParts, StreamDecoder, ToolAnswer, Unreadable, Wire, extend_path,
    leave_first, replace, without_mark,
};
use crate::readable::readable_raw;
use crate::run::{ModelAnswer, ModelCall};
use crate::{FinishReason, Message, Prompt, Usage};

pub(super) struct Gemini;

impl Wire for Gemini {
    fn locate(&self, base: &mut Url, model: &str, streamed: bool) {
        let versioned = base.path_segments().is_some_and(|mut segments| segments.any(is_version));
        extend_path(base, (!versioned).then_some("v1beta"));
        if !model.contains('/') {
            extend_path(base, ["models"]);
        }
        let method = if streamed { "streamGenerateContent" } else { "generateContent" };
        extend_path(base, format!("{model}:{method}").split('/'));
        if streamed {
            base.set_query(Some("alt=sse"));
        }
    }

    fn model_is_in_url(&self) -> bool {
        true
    }

    fn headers(&self, key: &str) -> Vec<(&'static str, Result<HeaderValue, ()>)> {
        vec![("x-goog-api-key", HeaderValue::try_from(key).map_err(|_| ()))]
    }

    fn opening(&self, _system: &str) -> Option<Message> {
        None
    }

    fn user_message(&self, prompt: &Prompt) -> Message {
        match prompt {
            Prompt::Text(text) => user_text(text),
            Prompt::Parts(parts) => Message::of_wire(&Content { role: "user", parts }, true),
        }
    }

    fn tool_results<'a>(&self, asking: Option<&Message>, answers: &[ToolAnswer<'a>]) -> Vec<Message> {
        let named: Vec<bool> =
            asking.map(calls_of).unwrap_or_default().iter().map(|call| call.id.is_some()).collect();
        let entry = |(at, answer): (usize, &ToolAnswer<'a>)| {
            let parts = answer.parts();
            ResultEntry {
                function_response: FunctionResponse {
                    id: named.get(at).copied().unwrap_or(true).then_some(answer.id),
                    name: answer.name,
                    response: Response { output: &answer.result.output, is_error: answer.result.is_error },
                },
                name: (!parts.is_empty()).then_some(answer.name),
                parts,
            }
        };
        let parts: Vec<_> = answers.iter().enumerate().map(entry).collect();
        let holds_parts = parts.iter().any(|entry| !entry.parts.is_empty());
        vec![Message::of_wire(&Content { role: "user", parts }, holds_parts)]
    }

    fn newest_text(&self, _messages: &[Message]) -> String {
        String::new()
    }

    fn request<'a>(&self, parts: &RequestParts<'a>) -> Result<Request<'a>, ContentPartError> {
        let mut encoder = parts.part_rules.encoder(Style::Gemini);
        let (system, messages) = hoist_system(parts.system, parts.messages, user_text);
        let mut body = RequestBody::default().with("contents", with_blocks(messages, &mut encoder)?);
        if !system.is_empty() {
            let instruction = serde_json::json!({"parts": [{"text": system}]});
            body = body.with("systemInstruction", Field::Json(instruction.to_string().into()));
        }
        if let Some(tools) = &parts.tools {
            body = body.with("tools", Field::Json(tools.clone()));
        }
        Ok(Request { body, replaced: encoder.into_replaced() })
    }

    fn decode(&self, body: &Bytes, turn: u32) -> Result<ModelAnswer, Unreadable> {
        let body = &without_mark(body);
        let Object(response): Object<GenerateContent<'_>> = serde_json::from_slice(body)
            .map_err(|error| Unreadable(format!("it is no response of generateContent ({error})")))?;
        let blocked = response.block_reason().map(|reason| format!(": the prompt was blocked ({reason})"));
        let usage = response.usage_metadata.map(read_usage).unwrap_or_default();
        let Object(candidate) = response
            .candidates
            .and_then(|candidates| candidates.into_iter().next())
            .ok_or_else(|| Unreadable(format!("it has no candidate{}", blocked.unwrap_or_default())))?;
        let mut text = String::new();
        let mut calls = Vec::new();
        let mut message = None;
        if let Some(raw) = candidate.content {
            let unusable = |error| Unreadable(format!("its candidates[0].content cannot be used ({error})"));
            readable_raw(raw).map_err(unusable)?;
            let Object(content): Object<ModelContent<'_>> =
                serde_json::from_str(raw.get()).map_err(unusable)?;
            let parts = content.parts.unwrap_or_default();
            for raw in &parts {
                let Object(part): Object<ModelPart<'_>> =
                    serde_json::from_str(raw.get()).map_err(unusable)?;
                text.push_str(part.answer_text());
                calls.extend(part.call(turn, calls.len()));
            }
            if !parts.iter().all(|part| says_nothing(part)) {
                message = Some(of_model(raw, content.role.as_ref()));
            }
        }
        let reason = candidate.finish_reason.as_ref().map(Text::as_str);
        let finish_reason = FinishReason::read(!calls.is_empty(), reason);
        Ok(ModelAnswer { message, text, calls, usage, finish_reason })
    }

    fn replace_message(&self, answer: &mut Value, message: Option<&Message>) {
        leave_first(answer, "candidates");
        match message {
            Some(message) => replace(answer, "/candidates/0/content", Some(message.value())),
            None => replace(answer, "/candidates/0/content/parts", None),
        }
    }

    fn stream(&self, turn: u32) -> Box<dyn StreamDecoder> {
        Box::new(GeminiStream::new(turn))
    }
}

/// Whether a path segment names a version of the API: `v1`, `v1beta`, `v1alpha2`.
fn is_version(segment: &str) -> bool {
    let without_digits = |text: &'_ str| text.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    let Some(number) =
        segment.strip_prefix('v').filter(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    else {
        return false;
    };
    let stage = without_digits(number);
    let rest = stage.strip_prefix("alpha").or_else(|| stage.strip_prefix("beta"));
    without_digits(rest.unwrap_or(&stage)).is_empty()
}

fn user_text(text: &str) -> Message {
    #[derive(Serialize)]
    struct TextPart<'a> {
        text: &'a str,
    }
    Message::of_wire(&Content { role: "user", parts: [TextPart { text }] }, false)
}

/// A message of our own.
#[derive(Serialize)]
struct Content<P> {
    role: &'static str,
    parts: P,
}

/// The result of one call. What stands beside `functionResponse` is for the transcript alone.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultEntry<'a> {
    function_response: FunctionResponse<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    parts: Cow<'a, [ContentPart]>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    output: &'a str,
    is_error: bool,
}

/// A whole response, or one event of a stream.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GenerateContent<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Object<Candidate<'a>>>>,
    #[serde(borrow, default)]
    prompt_feedback: Option<PromptFeedback<'a>>,
    #[serde(borrow, default)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl GenerateContent<'_> {
    /// Why the prompt was held back, if it was.
    fn block_reason(&self) -> Option<String> {
        let reason = self.prompt_feedback.as_ref()?.block_reason.as_ref()?.as_str();
        (!reason.is_empty()).then(|| reason.to_owned())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    index: Option<Count>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback<'a> {
    #[serde(borrow, default)]
    block_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct ModelContent<'a> {
    #[serde(borrow, default)]
    role: Option<Text<'a>>,
    #[serde(borrow, default)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelPart<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thought: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function_call: Option<&'a RawValue>,
}

impl ModelPart<'_> {
    /// What the part adds to the answer's text: nothing if it is a thought.
    fn answer_text(&self) -> &str {
        let is_thought = self.thought.is_some_and(|thought| thought.get() == "true");
        self.text.as_ref().filter(|_| !is_thought).map(Text::as_str).unwrap_or_default()
    }

    fn call(&self, turn: u32, position: usize) -> Option<ModelCall> {
        #[derive(Deserialize, Default)]
        struct FunctionCall<'a> {
            #[serde(borrow, default)]
            id: Option<Text<'a>>,
            #[serde(borrow, default)]
            name: Option<Text<'a>>,
            #[serde(borrow, default)]
            args: Option<&'a RawValue>,
        }
        let raw = self.function_call?;
        // What is no object is a call of no known tool: it is answered too.
        let Object(call): Object<FunctionCall<'_>> = serde_json::from_str(raw.get()).unwrap_or_default();
        let id = call.id.map(|id| id.0.into_owned()).filter(|id| !id.is_empty());
        Some(call_from_json(
            id.unwrap_or_else(|| generated_id(turn, position)),
            call.name.map(|name| name.0.into_owned()).unwrap_or_default(),
            call.args,
        ))
    }
}

/// The model's content as a message: its own bytes, unless its role is missing or another's.
fn of_model(content: &RawValue, role: Option<&Text<'_>>) -> Message {
    if role.is_some_and(|role| role.as_str() == "model") {
        return Message::of_model(Bytes::copy_from_slice(content.get().as_bytes()));
    }
    let mut value: Value = serde_json::from_str(content.get()).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.insert("role".into(), "model".into());
    }
    Message::of_model(value.to_string().into())
}

fn read_usage(json: &RawValue) -> Usage {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Reported {
        prompt_token_count: Count,
        candidates_token_count: Count,
        thoughts_token_count: Count,
        total_token_count: Count,
        cached_content_token_count: Count,
    }
    let reported: Reported = serde_json::from_str(json.get()).unwrap_or_default();
    Usage {
        prompt_tokens: reported.prompt_token_count.0,
        completion_tokens: reported.candidates_token_count.0.saturating_add(reported.thoughts_token_count.0),
        total_tokens: reported.total_token_count.0,
        cache_read_tokens: reported.cached_content_token_count.0,
        cache_write_tokens: 0,
    }
    .with_total()
}
