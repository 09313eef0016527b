//! A turn of a model, in no provider's words yet.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::assemble::{Head, Segment};
use super::dialect::Dialect;
use super::exchange::Pause;
use super::gate::Gate;
use super::reply::Reply;

/// The request id in every response; the same each time, so that answers compare equal.
const REQUEST_ID: &str = "req_011CSHoEeqs5C35K2UUqR7Fy";

/// A turn of a model: texts, thoughts, tool calls, usage; one JSON body or a stream of events.
///
/// The form follows the request (`"stream": true` in the body, `:streamGenerateContent` in the
/// path) unless [`json`](Self::json) or [`sse`](Self::sse) forces one. Every method means the same
/// thing in every dialect, so a test can run over all of them with [`Reply::model`].
///
/// ```
/// use serde_json::json;
/// use toolnexus_testkit::model::Reply;
///
/// let _ = Reply::openai().text("Hello there!").usage(10, 5);
/// let _ = Reply::anthropic()
///     .thinking("two numbers", "c2ln")
///     .text("I will add them.")
///     .tool_call("toolu_1", "add", json!({"a": 2, "b": 3}))
///     .tool_call("toolu_2", "add", json!({"a": 4, "b": 5}))
///     .usage(25, 15)
///     .cache(900, 40);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ModelReply {
    dialect: Dialect,
    head: Head,
    form: Form,
    turn: Turn,
}

/// Which form of a turn is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Form {
    #[default]
    AsAsked,
    Json,
    Stream,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) id: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) parts: Vec<Part>,
    pub(crate) usage: Usage,
    pub(crate) finish: Option<String>,
    pub(crate) ending: Ending,
    events_per_chunk: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Deltas of the text. Text parts without anything but pauses between them are one block.
    Text(Vec<String>),
    Thinking {
        deltas: Vec<String>,
        signature: String,
    },
    ToolCall {
        id: String,
        name: String,
        /// As the model wrote them, JSON or not.
        arguments: String,
    },
    /// A part in the provider's own words.
    Raw(Value),
    /// Bytes of the stream form only.
    Event(Bytes),
    Pause(Pause),
}

#[derive(Clone, Debug)]
pub(crate) enum Usage {
    Counts { input: u64, output: u64, cache_read: u64, cache_write: u64 },
    Verbatim(Value),
    Absent,
}

impl Default for Usage {
    fn default() -> Self {
        Self::Counts { input: 0, output: 0, cache_read: 0, cache_write: 0 }
    }
}

/// How the stream form ends.
#[derive(Clone, Debug, Default)]
pub(crate) enum Ending {
    #[default]
    Complete,
    /// The body ends cleanly without the events that complete the answer.
    Unfinished,
    /// The connection breaks.
    Cut,
    /// Nothing more comes.
    Hang,
    /// An error object, then the end of the body.
    Error { kind: String, message: String },
}

/// A piece of the stream form.
pub(crate) enum Piece {
    Event(Bytes),
    Pause(Pause),
}

impl ModelReply {
    pub(crate) fn new(dialect: Dialect) -> Self {
        let head = Head { status: 200, ..Head::default() };
        Self { dialect, head, form: Form::default(), turn: Turn::default() }
    }

    fn part(mut self, part: Part) -> Self {
        self.turn.parts.push(part);
        self
    }

    /// Text. In the stream form it comes in deltas of about a word; consecutive calls continue
    /// the same text.
    pub fn text(self, text: impl AsRef<str>) -> Self {
        self.part(Part::Text(words(text.as_ref())))
    }

    /// Text in exactly these deltas (one delta each, empty ones included).
    pub fn deltas<S: Into<String>>(self, deltas: impl IntoIterator<Item = S>) -> Self {
        self.part(Part::Text(deltas.into_iter().map(Into::into).collect()))
    }

    /// Text in `count` deltas of `size` ASCII bytes each, for benchmarks of streams.
    pub fn text_deltas(self, count: usize, size: usize) -> Self {
        const WORDS: &str = " the quick brown fox jumps over the lazy dog";
        let mut letters = WORDS.chars().cycle();
        self.deltas((0..count).map(|_| letters.by_ref().take(size).collect::<String>()))
    }

    /// A thought before the answer, with its signature (`""` for none). Anthropic: a `thinking`
    /// block; Gemini: a part with `thought: true` and `thoughtSignature`; OpenAI, where only
    /// compatible servers have it: `reasoning_content`, without the signature.
    pub fn thinking(self, text: impl AsRef<str>, signature: impl Into<String>) -> Self {
        self.part(Part::Thinking { deltas: words(text.as_ref()), signature: signature.into() })
    }

    /// A tool call. Several calls of this method make parallel calls. An empty `id` is left out
    /// in the Gemini dialect, where calls may lack one.
    pub fn tool_call(self, id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        self.tool_call_raw(id, name, arguments.to_string())
    }

    /// A tool call whose arguments are this text, JSON or not. The JSON forms of Anthropic and
    /// Gemini, which hold a value there, get the text as a string when it is not JSON; so does
    /// Gemini's stream.
    pub fn tool_call_raw(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        let (id, name, arguments) = (id.into(), name.into(), arguments.into());
        self.part(Part::ToolCall { id, name, arguments })
    }

    /// A part in the provider's own words: a content block (Anthropic), a part (Gemini), or
    /// fields merged into the message and sent as one delta (OpenAI).
    pub fn raw_part(self, part: Value) -> Self {
        self.part(Part::Raw(part))
    }

    /// Bytes put into the stream form at this place, for events that nothing else here makes:
    /// unknown ones, comments, garbage. The JSON form leaves them out. See
    /// [`sse_data`](super::sse_data) and [`sse_event`](super::sse_event).
    pub fn event(self, bytes: impl Into<Bytes>) -> Self {
        self.part(Part::Event(bytes.into()))
    }

    /// Waits at this place of the stream until the gate is open. The JSON form waits before its
    /// body.
    pub fn wait(self, gate: impl Into<Gate>) -> Self {
        self.part(Part::Pause(Pause::Gate(gate.into())))
    }

    /// Waits at this place of the stream (a tokio sleep on the server's runtime). The JSON form
    /// waits before its body.
    pub fn delay(self, delay: Duration) -> Self {
        self.part(Part::Pause(Pause::Delay(delay)))
    }

    /// Waits before the first byte of the response until the gate is open.
    pub fn hold(mut self, gate: impl Into<Gate>) -> Self {
        self.head.hold.push(Pause::Gate(gate.into()));
        self
    }

    /// Tokens reported, 0 and 0 without this call. `input` is what the provider calls so: with
    /// Anthropic without the cached ones, elsewhere with them.
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        let (cache_read, cache_write) = self.turn.cached();
        self.turn.usage = Usage::Counts { input, output, cache_read, cache_write };
        self
    }

    /// Tokens read from and written to the prompt cache. Only Anthropic reports the written ones.
    pub fn cache(mut self, cache_read: u64, cache_write: u64) -> Self {
        let (input, output) = match self.turn.usage {
            Usage::Counts { input, output, .. } => (input, output),
            Usage::Verbatim(_) | Usage::Absent => (0, 0),
        };
        self.turn.usage = Usage::Counts { input, output, cache_read, cache_write };
        self
    }

    /// The usage object verbatim, whatever it is.
    pub fn usage_raw(mut self, usage: Value) -> Self {
        self.turn.usage = Usage::Verbatim(usage);
        self
    }

    /// No usage anywhere, as some compatible servers do.
    pub fn without_usage(mut self) -> Self {
        self.turn.usage = Usage::Absent;
        self
    }

    /// The finish reason in the provider's words (`length`, `max_tokens`, `SAFETY`). Default: the
    /// one that fits the parts.
    pub fn finish(mut self, reason: impl Into<String>) -> Self {
        self.turn.finish = Some(reason.into());
        self
    }

    /// The id of the response.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.turn.id = Some(id.into());
        self
    }

    /// The model named in the response.
    pub fn model_name(mut self, model: impl Into<String>) -> Self {
        self.turn.model = Some(model.into());
        self
    }

    /// Appends a response header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.head.headers.push((name.into(), value.into()));
        self
    }

    /// Always one JSON body.
    pub fn json(mut self) -> Self {
        self.form = Form::Json;
        self
    }

    /// Always a stream of events, in the OpenAI dialect with its usage chunk.
    pub fn sse(mut self) -> Self {
        self.form = Form::Stream;
        self
    }

    /// How many events go into one chunk of the HTTP body. Default 1, as providers send them.
    /// Either way, all chunks up to a wait are written at once.
    pub fn events_per_chunk(mut self, events: usize) -> Self {
        self.turn.events_per_chunk = Some(events.max(1));
        self
    }

    /// The stream ends here with an error object in the provider's words, status 200. The JSON
    /// form is that object as its body.
    pub fn stream_error(mut self, kind: impl Into<String>, message: impl Into<String>) -> Self {
        self.turn.ending = Ending::Error { kind: kind.into(), message: message.into() };
        self
    }

    /// The body ends cleanly after the last part, without the events that complete the answer.
    /// The JSON form loses its second half.
    pub fn unfinished(mut self) -> Self {
        self.turn.ending = Ending::Unfinished;
        self
    }

    /// The connection breaks after the last part. The JSON form breaks in the middle.
    pub fn cut(mut self) -> Self {
        self.turn.ending = Ending::Cut;
        self
    }

    /// Nothing more comes after the last part, and the connection stays open until the client
    /// gives up. The JSON form stops in the middle.
    pub fn then_hang(mut self) -> Self {
        self.turn.ending = Ending::Hang;
        self
    }

    pub(crate) fn into_reply(self) -> Reply {
        let Self { dialect, mut head, form, turn } = self;
        if let Some(name) = dialect.request_id_header() {
            head.headers.insert(0, (name.to_owned(), REQUEST_ID.to_owned()));
        }
        Reply::of_turn(head, dialect, form, turn)
    }
}

impl Turn {
    fn cached(&self) -> (u64, u64) {
        match self.usage {
            Usage::Counts { cache_read, cache_write, .. } => (cache_read, cache_write),
            Usage::Verbatim(_) | Usage::Absent => (0, 0),
        }
    }

    /// Whether the model asks for tools.
    pub(crate) fn has_calls(&self) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::ToolCall { .. }))
    }

    /// The JSON form as pieces of a body.
    pub(crate) fn json_segments(&self, dialect: Dialect) -> Vec<Segment> {
        let pause = |p: &Part| match p {
            Part::Pause(pause) => Some(Segment::Pause(pause.clone())),
            _ => None,
        };
        let mut out: Vec<Segment> = self.parts.iter().filter_map(pause).collect();
        if let Ending::Error { kind, message } = &self.ending {
            out.push(Segment::Data(dialect.error(200, kind, message).to_string().into()));
            return out;
        }
        let mut first: Bytes = dialect.json(self).to_string().into();
        let second = first.split_off(first.len() / 2);
        match self.ending {
            Ending::Complete | Ending::Error { .. } => {
                out.extend([Segment::Data(first), Segment::Data(second)]);
            }
            Ending::Unfinished => out.push(Segment::Data(first)),
            Ending::Cut => {
                out.extend([Segment::Data(first), Segment::Cut { reset: false }, Segment::Data(second)]);
            }
            Ending::Hang => {
                let hang = Segment::Pause(Pause::Forever);
                out.extend([Segment::Data(first), hang, Segment::Data(second)]);
            }
        }
        out
    }

    /// The stream form as pieces of a chunked body.
    pub(crate) fn stream_segments(&self, dialect: Dialect, with_usage: bool) -> Vec<Segment> {
        let limit = self.events_per_chunk.unwrap_or(1);
        let mut out = Vec::new();
        let mut chunk = BytesMut::new();
        let mut events = 0;
        for piece in dialect.stream(self, with_usage) {
            match piece {
                Piece::Event(bytes) => {
                    chunk.extend_from_slice(&bytes);
                    events += 1;
                }
                Piece::Pause(pause) => {
                    out.push(Segment::Data(chunk.split().freeze()));
                    events = 0;
                    out.push(Segment::Pause(pause));
                }
            }
            if events == limit {
                out.push(Segment::Data(chunk.split().freeze()));
                events = 0;
            }
        }
        out.push(Segment::Data(chunk.freeze()));
        match self.ending {
            Ending::Cut => out.push(Segment::Cut { reset: false }),
            Ending::Hang => out.push(Segment::Pause(Pause::Forever)),
            Ending::Complete | Ending::Unfinished | Ending::Error { .. } => {}
        }
        out
    }
}

/// Splits text about as a tokenizer does: words with the space before them, long ones in pieces.
pub(crate) fn words(text: &str) -> Vec<String> {
    const LONGEST: usize = 8;
    let mut out: Vec<String> = Vec::new();
    let mut len = LONGEST;
    let mut after_space = false;
    for c in text.chars() {
        let starts_word = c == ' ' && !after_space;
        match out.last_mut() {
            Some(word) if len < LONGEST && !starts_word => word.push(c),
            _ => {
                out.push(c.to_string());
                len = 0;
            }
        }
        len += 1;
        after_space = c == ' ';
    }
    out
}
