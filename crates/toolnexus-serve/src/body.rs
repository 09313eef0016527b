//! The body of a request that somebody else reads, and how long it may take to come.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use crate::site::Unanswered;

/// How long the body of a request may take to come.
pub(crate) const BODY_LIMIT: Duration = Duration::from_secs(30);

/// A body that fails when it has not come within [`BODY_LIMIT`].
pub(crate) struct TimedBody<B> {
    body: B,
    limit: Pin<Box<Sleep>>,
    fate: Fate,
}

/// What became of a body that was given away.
#[derive(Clone, Default)]
pub(crate) struct Fate(Arc<AtomicBool>);

impl Fate {
    /// Whether it broke off, or took too long.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<B> TimedBody<B> {
    /// The time begins now.
    pub(crate) fn new(body: B) -> (Self, Fate) {
        let fate = Fate::default();
        let limit = Box::pin(tokio::time::sleep(BODY_LIMIT));
        (TimedBody { body, limit, fate: fate.clone() }, fate)
    }
}

impl<B: Body + Unpin> Body for TimedBody<B> {
    type Data = B::Data;
    type Error = Unanswered;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Unanswered>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Err(_))) => Some(Err(Unanswered)),
            Poll::Ready(frame) => frame.map(|frame| frame.map_err(|_| Unanswered)),
            Poll::Pending => {
                futures::ready!(self.limit.as_mut().poll(cx));
                Some(Err(Unanswered))
            }
        };
        if matches!(frame, Some(Err(_))) {
            self.fate.0.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
