//! An HTTP response down to its bytes.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::assemble::{Framing, Head, Pace, Segment, assemble};
use super::dialect::Dialect;
use super::exchange::{Exchange, Pause};
use super::gate::Gate;
use super::request::RecordedRequest;
use super::sse::sse_data;
use super::turn::{Form, ModelReply, Turn};

/// One HTTP response: status, headers, and a body made of bytes, waits and faults.
///
/// Framing follows the body: [`body`](Self::body) announces a `Content-Length`,
/// [`chunk`](Self::chunk) makes it a chunked body in which every call is one chunk,
/// [`until_close`](Self::until_close) ends it by closing. Headers given by
/// [`header`](Self::header) win over the ones the reply would add, also when they lie.
///
/// ```
/// use toolnexus_testkit::model::{Gate, Reply};
///
/// let _ = Reply::status(429).header("Retry-After", "2").body("slow down");
/// // A chunk that ends inside the two bytes of "é", then a handshake, then the rest.
/// let gate = Gate::new();
/// let _ = Reply::stream().chunk(b"data: caf\xc3".as_slice()).wait(&gate).chunk(b"\xa9\n\n".as_slice());
/// // A body that breaks off before its announced end.
/// let _ = Reply::status(200).body(r#"{"id":"#).cut();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Reply {
    pub(crate) head: Head,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Segments { framing: Framing, segments: Vec<Segment> },
    Turn { dialect: Dialect, form: Form, turn: Box<Turn> },
}

impl Reply {
    /// A response with this status and an empty body.
    pub fn status(status: u16) -> Self {
        let head = Head { status, ..Head::default() };
        Self { head, body: Body::Segments { framing: Framing::Length, segments: Vec::new() } }
    }

    /// Status 200 with a JSON body.
    pub fn json(value: Value) -> Self {
        Self::status(200).json_body(value)
    }

    /// Status 200, `text/event-stream`, chunked; append events with [`chunk`](Self::chunk).
    pub fn stream() -> Self {
        let reply = Self::status(200).header("Content-Type", "text/event-stream; charset=utf-8");
        reply.framed(Framing::Chunked)
    }

    /// Status 200 and a chunked `text/event-stream` body of exactly these chunks. They may split
    /// events, lines and UTF-8 sequences anywhere.
    pub fn raw_chunks<B: Into<Bytes>>(chunks: impl IntoIterator<Item = B>) -> Self {
        chunks.into_iter().fold(Self::stream(), Self::chunk)
    }

    /// Status 200 and a stream of unnamed events with these payloads, one chunk each: the stream
    /// of an OpenAI-like server written down by hand.
    ///
    /// ```
    /// # use toolnexus_testkit::model::Reply;
    /// let _ = Reply::events([r#"{"choices":[{"delta":{"content":"Hel"}}]}"#, "[DONE]"]);
    /// ```
    pub fn events<S: AsRef<str>>(payloads: impl IntoIterator<Item = S>) -> Self {
        Self::raw_chunks(payloads.into_iter().map(|data| sse_data(data.as_ref())))
    }

    /// The bytes of a whole response, head included, written as they are. Waits and faults can
    /// follow, and so can more bytes ([`body`](Self::body)). The connection stays open for the
    /// next request; [`cut`](Self::cut) closes it.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::status(200).framed(Framing::Bare).segment(Segment::Data(bytes.into()))
    }

    /// A redirect without body.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).header("Location", location)
    }

    /// A turn of a model in the OpenAI chat completions dialect.
    pub fn openai() -> ModelReply {
        ModelReply::new(Dialect::OpenAi)
    }

    /// A turn of a model in the Anthropic messages dialect.
    pub fn anthropic() -> ModelReply {
        ModelReply::new(Dialect::Anthropic)
    }

    /// A turn of a model in the Gemini `generateContent` dialect.
    pub fn gemini() -> ModelReply {
        ModelReply::new(Dialect::Gemini)
    }

    /// A turn of a model in the given dialect.
    pub fn model(dialect: Dialect) -> ModelReply {
        ModelReply::new(dialect)
    }

    /// An error answer in the words of the provider: `kind` is OpenAI's and Anthropic's
    /// `error.type` and Gemini's `error.status`.
    pub fn error(dialect: Dialect, status: u16, kind: &str, message: &str) -> Self {
        Self::status(status).json_body(dialect.error(status, kind, message))
    }

    /// Reads the request and never answers. Ends when the client gives up or the server stops.
    pub fn hang() -> Self {
        Self::status(200).framed(Framing::Bare).segment(Segment::Pause(Pause::Forever))
    }

    /// Reads the request and closes the connection without a byte of answer.
    pub fn close() -> Self {
        Self::status(200).framed(Framing::Bare).segment(Segment::Cut { reset: false })
    }

    /// Reads the request and resets the connection (TCP RST) without a byte of answer.
    pub fn reset() -> Self {
        Self::status(200).framed(Framing::Bare).segment(Segment::Cut { reset: true })
    }

    /// Appends a header; order, case and repetitions are kept. A `Content-Length` or
    /// `Transfer-Encoding` given here is sent as it is and decides the framing, true or not.
    /// `Connection: close` closes the connection after the reply.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.head.headers.push((name.into(), value.into()));
        self
    }

    /// Appends bytes to the body without marking a chunk boundary.
    pub fn body(self, bytes: impl Into<Bytes>) -> Self {
        self.segment(Segment::Data(bytes.into()))
    }

    /// Appends a JSON document to the body and sets the content type.
    pub fn json_body(self, value: Value) -> Self {
        self.header("Content-Type", "application/json").body(value.to_string())
    }

    /// Appends one chunk and makes the body a chunked one. An empty chunk is nothing, because an
    /// empty one would end the body.
    pub fn chunk(self, bytes: impl Into<Bytes>) -> Self {
        self.chunked().segment(Segment::Data(bytes.into()))
    }

    /// Makes the body a chunked one: every piece appended so far or later is one chunk.
    pub fn chunked(self) -> Self {
        match self.body {
            Body::Segments { framing: Framing::Length, .. } => self.framed(Framing::Chunked),
            _ => self,
        }
    }

    /// No length is announced; the body ends when the connection closes.
    pub fn until_close(self) -> Self {
        self.framed(Framing::UntilClose)
    }

    /// Appends `len` times the same byte without holding them in memory (in chunks of at most
    /// 64 KiB when the body is chunked).
    pub fn fill(self, byte: u8, len: u64) -> Self {
        self.segment(Segment::Fill { byte, len })
    }

    /// Waits at this place of the body until the gate is open. All bytes before it are written
    /// when [`Gate::reached`] returns.
    pub fn wait(self, gate: impl Into<Gate>) -> Self {
        self.segment(Segment::Pause(Pause::Gate(gate.into())))
    }

    /// Waits at this place of the body. A tokio sleep on the server's runtime: with a paused
    /// clock it takes no time.
    pub fn delay(self, delay: Duration) -> Self {
        self.segment(Segment::Pause(Pause::Delay(delay)))
    }

    /// Sends nothing more from this place of the body on and keeps the connection open, until
    /// the client gives up or the server stops.
    pub fn then_hang(self) -> Self {
        self.segment(Segment::Pause(Pause::Forever))
    }

    /// Closes the connection at this place of the body, before its promised end. Bytes appended
    /// later count in `Content-Length` and are not sent; with none, one missing byte is
    /// announced. A chunked body lacks its last chunk.
    pub fn cut(self) -> Self {
        self.segment(Segment::Cut { reset: false })
    }

    /// Like [`cut`](Self::cut), but resets the connection (TCP RST). Bytes sent before may be
    /// lost to a client that has not read them yet.
    pub fn cut_reset(self) -> Self {
        self.segment(Segment::Cut { reset: true })
    }

    /// Waits before the first byte of the head until the gate is open.
    pub fn hold(mut self, gate: impl Into<Gate>) -> Self {
        self.head.hold.push(Pause::Gate(gate.into()));
        self
    }

    /// Waits before the first byte of the head.
    pub fn hold_for(mut self, delay: Duration) -> Self {
        self.head.hold.push(Pause::Delay(delay));
        self
    }

    /// Sends the head so many bytes at a time with a delay between the pieces (slow loris).
    pub fn drip_head(mut self, bytes: usize, delay: Duration) -> Self {
        self.head.pace = Pace::Drip { bytes: bytes.max(1), delay };
        self
    }

    /// Sends half of the head and then nothing more, until the client gives up.
    pub fn stall_head(mut self) -> Self {
        self.head.pace = Pace::Stall;
        self
    }

    fn framed(mut self, to: Framing) -> Self {
        match &mut self.body {
            Body::Segments { framing, .. } => *framing = to,
            Body::Turn { .. } => self.body = Body::Segments { framing: to, segments: Vec::new() },
        }
        self
    }

    fn segment(mut self, segment: Segment) -> Self {
        match &mut self.body {
            Body::Segments { segments, .. } => segments.push(segment),
            // Appending to a model's turn replaces it: it has no body of its own yet.
            Body::Turn { .. } => {
                let segments = vec![segment];
                self.body = Body::Segments { framing: Framing::Length, segments };
            }
        }
        self
    }

    pub(crate) fn of_turn(head: Head, dialect: Dialect, form: Form, turn: Turn) -> Self {
        Self { head, body: Body::Turn { dialect, form, turn: Box::new(turn) } }
    }

    /// Turns the description into bytes, once for all requests that will get them.
    pub(crate) fn prepare(self) -> Prepared {
        let Self { head, body } = self;
        match body {
            Body::Segments { framing, segments } => Prepared::Same(assemble(&head, "", framing, &segments)),
            Body::Turn { dialect, form, turn } => {
                let json = || {
                    let segments = turn.json_segments(dialect);
                    assemble(&head, "application/json", Framing::Length, &segments)
                };
                let stream = |usage| {
                    let segments = turn.stream_segments(dialect, usage);
                    assemble(&head, "text/event-stream; charset=utf-8", Framing::Chunked, &segments)
                };
                match form {
                    Form::Json => Prepared::Same(json()),
                    Form::Stream => Prepared::Same(stream(true)),
                    Form::AsAsked => Prepared::AsAsked {
                        json: json(),
                        stream: stream(false),
                        stream_with_usage: stream(true),
                    },
                }
            }
        }
    }
}

impl From<ModelReply> for Reply {
    fn from(reply: ModelReply) -> Self {
        reply.into_reply()
    }
}

/// A reply as bytes, ready to be sent any number of times.
#[derive(Clone, Debug)]
pub(crate) enum Prepared {
    Same(Exchange),
    AsAsked { json: Exchange, stream: Exchange, stream_with_usage: Exchange },
}

impl Prepared {
    pub(crate) fn select(&self, request: &RecordedRequest) -> Exchange {
        let chosen = match self {
            Self::Same(exchange) => exchange,
            Self::AsAsked { json, stream, stream_with_usage } => {
                let wants = request.wants();
                match (wants.stream, wants.usage) {
                    (false, _) => json,
                    (true, false) => stream,
                    (true, true) => stream_with_usage,
                }
            }
        };
        chosen.clone()
    }
}
