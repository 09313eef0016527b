//! Provider dialects as pure functions.
//!
//! A [`Wire`] turns a transcript into the bytes of a request, and the bytes of an answer into a
//! model's turn. It does no I/O and knows nothing of retries, hooks or deadlines. Adding a
//! dialect is one file here and its golden tests.
//!
//! A request body is an ordered list of top-level keys, each with JSON that already exists as
//! bytes: the tool array of the snapshot, the messages as they were serialised once. Writing the
//! body is a concatenation.

mod anthropic;
mod arguments;
mod body;
mod cache;
mod gemini;
mod lenient;
mod openai;
mod parts;
mod sse;
mod system;
mod unanswered;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;
use toolnexus_core::content::{ContentPartError, ReplacedPart};
use toolnexus_core::http::{HeaderValue, Url};
use toolnexus_core::{ContentPart, PartKind, Style, ToolResult};

pub(crate) use arguments::from_value as arguments_from_value;
pub(crate) use body::{Field, RequestBody};
pub(crate) use cache::mark as mark_for_cache;
pub(crate) use parts::PartRules;
use sse::BYTE_ORDER_MARK;
pub(crate) use sse::{LineSplitter, LineTooLong, payload};
pub(crate) use unanswered::answer_rest;

use crate::readable::not_too_deep;
use crate::run::{ModelAnswer, ModelCall};
use crate::{ClientError, Message, Prompt, Transcript};

/// What a request says.
pub(crate) struct RequestParts<'a> {
    pub(crate) model: &'a str,
    pub(crate) system: &'a str,
    pub(crate) messages: &'a Transcript,
    /// The serialised tool array; `None` without tools.
    pub(crate) tools: Option<Bytes>,
    pub(crate) streamed: bool,
    /// What is done with content parts that cannot be sent.
    pub(crate) part_rules: PartRules,
}

/// A request, ready to be written.
pub(crate) struct Request<'a> {
    pub(crate) body: RequestBody<'a>,
    /// The parts that text stands in for.
    pub(crate) replaced: Vec<ReplacedPart>,
}

/// The result of one call, for the transcript.
pub(crate) struct ToolAnswer<'a> {
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) result: &'a ToolResult,
    /// Whether the tool makes media.
    pub(crate) of_media: bool,
}

impl<'a> ToolAnswer<'a> {
    pub(crate) fn of(call: &'a ModelCall, result: &'a ToolResult, of_media: bool) -> Self {
        ToolAnswer { id: &call.id, name: call.name_on_the_wire(), result, of_media }
    }

    /// The parts that enter the transcript. What a media tool makes is for the host; of it the
    /// model sees the pictures, and reads of the rest in the output.
    pub(crate) fn parts(&self) -> Cow<'a, [ContentPart]> {
        let parts = &self.result.parts;
        if !self.of_media || parts.is_empty() {
            return Cow::Borrowed(parts);
        }
        parts.iter().filter(|part| part.kind() == PartKind::Image).cloned().collect()
    }
}

/// One dialect.
pub(crate) trait Wire: Sync {
    /// Leads the base URL, which has no query, to where a request goes.
    fn locate(&self, base: &mut Url, model: &str, streamed: bool);

    /// Whether the URL names the model. Then the body does not, except for whoever shapes it.
    fn model_is_in_url(&self) -> bool {
        false
    }

    /// The header that carries the credential, and the dialect's fixed ones.
    fn headers(&self, key: &str) -> Vec<(&'static str, Result<HeaderValue, ()>)>;

    /// The message that opens a new transcript, if the dialect keeps the system text there.
    fn opening(&self, system: &str) -> Option<Message>;

    /// The prompt as a message.
    fn user_message(&self, prompt: &Prompt) -> Message;

    /// The results of one turn as messages, in call order. `asking` is the message that made the
    /// calls.
    fn tool_results<'a>(&self, asking: Option<&Message>, answers: &[ToolAnswer<'a>]) -> Vec<Message>;

    /// The newest assistant text, for a run that was stopped by its turn limit.
    fn newest_text(&self, messages: &[Message]) -> String;

    /// The request. Refused when the transcript holds an attached part that the dialect has no
    /// block for.
    fn request<'a>(&self, parts: &RequestParts<'a>) -> Result<Request<'a>, ContentPartError>;

    /// Reads a whole answer. `turn` numbers calls that came without an id.
    fn decode(&self, body: &Bytes, turn: u32) -> Result<ModelAnswer, Unreadable>;

    /// Puts another message in the place of the one that a decoded answer holds; `None` for an empty
    /// one. Of several answers in one only that one is left: the others nobody decodes.
    fn replace_message(&self, answer: &mut Value, message: Option<&Message>);

    /// A decoder for a streamed answer.
    fn stream(&self, turn: u32) -> Box<dyn StreamDecoder>;
}

/// Whether more of a stream is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    End,
}

/// Puts a streamed answer together.
pub(crate) trait StreamDecoder: Send {
    /// Takes the payload of one `data:` line; hands each piece of text to `on_text`.
    fn data(&mut self, payload: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<Flow, InStreamError>;

    /// The whole answer, once the stream has ended.
    fn finish(self: Box<Self>) -> Result<ModelAnswer, ClientError>;
}

/// Why a whole answer cannot be read.
#[derive(Debug)]
pub(crate) struct Unreadable(pub(crate) String);

/// An error object inside a stream, as it was sent.
#[derive(Debug)]
pub(crate) struct InStreamError(pub(crate) String);

/// What a stream that ends before its answer does is reported as.
pub(crate) fn ended_early() -> ClientError {
    ClientError::InvalidResponse("stream ended before the answer was complete".into())
}

/// A message that was put together from a stream, unless nobody could read it back.
fn usable(message: Message) -> Result<Message, ClientError> {
    not_too_deep(message.value())
        .map_err(|problem| ClientError::InvalidResponse(format!("the model's answer is {problem}")))?;
    Ok(message)
}

/// Puts a value where a decoded answer has one.
fn replace(answer: &mut Value, pointer: &str, with: Option<&Value>) {
    if let Some(place) = answer.pointer_mut(pointer) {
        *place = with.cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    }
}

/// Leaves the first of the answers under a key.
fn leave_first(answer: &mut Value, key: &str) {
    if let Some(answers) = answer.get_mut(key).and_then(Value::as_array_mut) {
        answers.truncate(1);
    }
}

/// A body without the byte order mark that some servers write before it.
fn without_mark(body: &Bytes) -> Bytes {
    if body.starts_with(BYTE_ORDER_MARK) { body.slice(BYTE_ORDER_MARK.len()..) } else { body.clone() }
}

/// Puts segments behind the path of a URL.
fn extend_path<'s>(url: &mut Url, segments: impl IntoIterator<Item = &'s str>) {
    // A URL without a path is none that the client accepts.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
}

/// The wire of a style.
pub(crate) fn wire(style: Style) -> &'static dyn Wire {
    match style {
        Style::OpenAI => &openai::OpenAi,
        Style::Anthropic => &anthropic::Anthropic,
        Style::Gemini => &gemini::Gemini,
    }
}
