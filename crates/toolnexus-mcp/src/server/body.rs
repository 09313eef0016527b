//! The body of an answer: bytes that are there, or events that are still to come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt as _};
use http_body::{Body, Frame, SizeHint};

/// The body of an HTTP answer: whole, or an event stream.
///
/// An event stream makes progress while it is polled, and dropping it ends what it stands for: the
/// call that it reports on is cancelled.
pub struct McpBody(Inner);

enum Inner {
    /// Empty once it was taken.
    Whole(Bytes),
    Stream(BoxStream<'static, Bytes>),
}

impl McpBody {
    /// A body of these bytes.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        McpBody(Inner::Whole(bytes.into()))
    }

    /// A body of no bytes.
    pub(crate) fn empty() -> Self {
        McpBody::whole(Bytes::new())
    }

    /// A body that grows. The chunks must be whole events.
    pub(crate) fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        McpBody(Inner::Stream(chunks.boxed()))
    }
}

impl Default for McpBody {
    fn default() -> Self {
        McpBody::empty()
    }
}

impl From<Bytes> for McpBody {
    fn from(bytes: Bytes) -> Self {
        McpBody::whole(bytes)
    }
}

impl From<&'static str> for McpBody {
    fn from(text: &'static str) -> Self {
        McpBody::whole(text)
    }
}

impl Body for McpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = match &mut self.0 {
            Inner::Whole(bytes) => Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty()),
            Inner::Stream(chunks) => futures::ready!(chunks.poll_next_unpin(cx)),
        };
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Inner::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for McpBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Inner::Whole(bytes) => write!(f, "McpBody({} bytes)", bytes.len()),
            Inner::Stream(_) => f.write_str("McpBody(event stream)"),
        }
    }
}
