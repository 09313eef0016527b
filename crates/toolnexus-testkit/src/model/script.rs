//! Which reply a request gets.

use std::fmt;
use std::sync::Arc;

use super::exchange::Exchange;
use super::reply::{Prepared, Reply};
use super::request::RecordedRequest;
use super::turn::ModelReply;

/// Which reply each request gets: an ordered list, or a function of the request.
///
/// ```
/// use toolnexus_testkit::model::{Reply, Script};
///
/// // One after the other; a third request gets a 500 that says so.
/// let _ = Script::new().reply(Reply::openai().text("one")).reply(Reply::status(503));
/// // The same answer for ever, as a benchmark wants it.
/// let _ = Script::always(Reply::openai().text("ok")).without_recording();
/// // A small model of your own.
/// let _ = Script::respond_with(|request| {
///     let asked = request.json()["messages"][0]["content"].clone();
///     Reply::openai().text(format!("you said {asked}"))
/// });
/// ```
#[derive(Clone)]
pub struct Script {
    source: Source,
    record: bool,
}

#[derive(Clone)]
enum Source {
    List { replies: Vec<Prepared>, repeat_last: bool },
    Responder(Arc<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>),
}

impl Script {
    /// An empty script: every request gets the status 500 of an exhausted one.
    pub fn new() -> Self {
        Self { source: Source::List { replies: Vec::new(), repeat_last: false }, record: true }
    }

    /// The same reply for every request.
    pub fn always(reply: impl Into<Reply>) -> Self {
        Self::new().reply(reply).repeat_last()
    }

    /// A reply computed from each request. The function runs on the connection's task and must
    /// not block; it may be called for several connections at once. If it panics the connection
    /// closes without an answer.
    pub fn respond_with<R: Into<Reply>>(
        responder: impl Fn(&RecordedRequest) -> R + Send + Sync + 'static,
    ) -> Self {
        let responder = Arc::new(move |request: &RecordedRequest| responder(request).into());
        Self { source: Source::Responder(responder), record: true }
    }

    /// Appends the reply to one request. Requests count in order of arrival, over all
    /// connections. After the last reply the server answers status 500
    /// `script exhausted: request N`, unless [`repeat_last`](Self::repeat_last) is set. On a
    /// script made by [`respond_with`](Self::respond_with) this replaces the function.
    #[must_use]
    pub fn reply(mut self, reply: impl Into<Reply>) -> Self {
        let prepared = reply.into().prepare();
        match &mut self.source {
            Source::List { replies, .. } => replies.push(prepared),
            Source::Responder(_) => {
                self.source = Source::List { replies: vec![prepared], repeat_last: false };
            }
        }
        self
    }

    /// The last reply answers all further requests.
    #[must_use]
    pub fn repeat_last(mut self) -> Self {
        if let Source::List { repeat_last, .. } = &mut self.source {
            *repeat_last = true;
        }
        self
    }

    /// Requests are counted and not kept, so that memory does not grow over a long benchmark.
    #[must_use]
    pub fn without_recording(mut self) -> Self {
        self.record = false;
        self
    }

    pub(crate) fn records(&self) -> bool {
        self.record
    }

    pub(crate) fn answer(&self, request: &RecordedRequest) -> Exchange {
        match &self.source {
            Source::Responder(respond) => respond(request).prepare().select(request),
            Source::List { replies, repeat_last } => {
                let last = if *repeat_last { replies.last() } else { None };
                match replies.get(request.index()).or(last) {
                    Some(prepared) => prepared.select(request),
                    None => exhausted(request, replies.len()).prepare().select(request),
                }
            }
        }
    }
}

fn exhausted(request: &RecordedRequest, replies: usize) -> Reply {
    let text = format!(
        "script exhausted: request {} ({} {}) has no reply, the script holds {replies}",
        request.index(),
        request.method(),
        request.path(),
    );
    Reply::status(500).header("Content-Type", "text/plain; charset=utf-8").body(text)
}

impl Default for Script {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Reply> for Script {
    fn from(reply: Reply) -> Self {
        Self::new().reply(reply)
    }
}

impl From<ModelReply> for Script {
    fn from(reply: ModelReply) -> Self {
        Self::new().reply(reply)
    }
}

impl<R: Into<Reply>> From<Vec<R>> for Script {
    fn from(replies: Vec<R>) -> Self {
        replies.into_iter().collect()
    }
}

impl<R: Into<Reply>, const N: usize> From<[R; N]> for Script {
    fn from(replies: [R; N]) -> Self {
        replies.into_iter().collect()
    }
}

impl<R: Into<Reply>> FromIterator<R> for Script {
    fn from_iter<I: IntoIterator<Item = R>>(replies: I) -> Self {
        replies.into_iter().fold(Self::new(), Self::reply)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Script");
        match &self.source {
            Source::List { replies, repeat_last } => {
                out.field("replies", &replies.len()).field("repeat_last", repeat_last)
            }
            Source::Responder(_) => out.field("replies", &"computed"),
        };
        out.field("record", &self.record).finish()
    }
}
