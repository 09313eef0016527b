//! Event streams: how one event is written, and a bounded way into a stream that is open.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::Stream;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

/// How many events may wait for a client that does not read them; one more closes its stream.
pub(crate) const WAITING_EVENTS: usize = 256;

/// How long a stream may be silent before a comment shows that it is alive.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// One event. `Default` is one without data, which a client passes over but for its id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    /// How long to wait before coming back when the stream ends.
    pub(crate) retry: Option<Duration>,
    /// The payload, normally one line of JSON.
    pub(crate) data: Bytes,
}

impl Event {
    /// An event of nothing but its payload.
    pub(crate) fn data(data: Bytes) -> Self {
        Event { data, ..Default::default() }
    }

    /// The event as it goes over the wire, its blank line included.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.data.len() + 48);
        if let Some(id) = &self.id {
            // A line break would end the field, and a NUL makes a client ignore it.
            let id: String = id.chars().filter(|c| !matches!(c, '\r' | '\n' | '\0')).collect();
            out.put_slice(b"id: ");
            out.put_slice(id.as_bytes());
            out.put_u8(b'\n');
        }
        if let Some(retry) = self.retry {
            out.put_slice(format!("retry: {}\n", retry.as_millis()).as_bytes());
        }
        for line in lines(&self.data) {
            out.put_slice(b"data: ");
            out.put_slice(line);
            out.put_u8(b'\n');
        }
        out.put_u8(b'\n');
        out.freeze()
    }
}

/// The lines of a payload: each of the three line breaks of event streams ends one.
fn lines(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let Some(at) = memchr::memchr2(b'\r', b'\n', data) else {
            done = true;
            return Some(data);
        };
        let (line, rest) = data.split_at(at);
        data = rest.strip_prefix(b"\r\n").or_else(|| rest.get(1..)).unwrap_or_default();
        Some(line)
    })
}

/// A comment, which a client ignores.
pub(crate) fn keep_alive() -> Bytes {
    Bytes::from_static(b": keep-alive\n\n")
}

/// A way into an open stream. Clones lead into the same one; it ends when the last is dropped.
#[derive(Debug, Clone)]
pub(crate) struct EventSender {
    events: mpsc::Sender<Event>,
    overflowed: Arc<AtomicBool>,
}

impl EventSender {
    /// Puts an event into the stream without waiting. False: the client is gone, or reads so
    /// slowly that its stream is now closed.
    pub(crate) fn send(&self, event: Event) -> bool {
        if self.overflowed.load(Ordering::Acquire) {
            return false;
        }
        match self.events.try_send(event) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.overflowed.store(true, Ordering::Release);
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }

    /// Whether nobody will read what is sent.
    pub(crate) fn is_closed(&self) -> bool {
        self.events.is_closed() || self.overflowed.load(Ordering::Acquire)
    }

    /// Returns when the client is gone.
    pub(crate) async fn closed(&self) {
        self.events.closed().await;
    }
}

/// The stream itself: encoded events, and comments where there is silence.
#[derive(Debug)]
pub(crate) struct EventStream {
    events: mpsc::Receiver<Event>,
    overflowed: Arc<AtomicBool>,
    silence: Pin<Box<Sleep>>,
}

/// An open stream and the way into it.
pub(crate) fn event_stream() -> (EventSender, EventStream) {
    let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
    let overflowed = Arc::new(AtomicBool::new(false));
    let silence = Box::pin(tokio::time::sleep(KEEP_ALIVE));
    (
        EventSender { events: sender, overflowed: Arc::clone(&overflowed) },
        EventStream { events: receiver, overflowed, silence },
    )
}

impl Stream for EventStream {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.overflowed.load(Ordering::Acquire) {
            return Poll::Ready(None);
        }
        let chunk = match self.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => event.encode(),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {
                futures::ready!(self.silence.as_mut().poll(cx));
                keep_alive()
            }
        };
        self.silence.as_mut().reset(Instant::now() + KEEP_ALIVE);
        Poll::Ready(Some(chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use proptest::prelude::*;

    fn encoded(event: &Event) -> String {
        String::from_utf8(event.encode().to_vec()).unwrap()
    }

    // MCP-188
    #[test]
    fn an_event_is_its_payload_and_a_blank_line() {
        assert_eq!(encoded(&Event::data("{}".into())), "data: {}\n\n");
        let full = Event {
            id: Some("s:\n7".into()),
            retry: Some(Duration::from_millis(500)),
            data: "a\r\nb\nc\rd".into(),
        };
        assert_eq!(encoded(&full), "id: s:7\nretry: 500\ndata: a\ndata: b\ndata: c\ndata: d\n\n");
        assert_eq!(encoded(&Event::default()), "data: \n\n");
    }

    // MCP-179
    #[tokio::test(start_paused = true)]
    async fn silence_is_broken_by_comments() {
        let (sender, mut stream) = event_stream();
        let began = Instant::now();
        assert_eq!(stream.next().await.unwrap(), keep_alive());
        assert_eq!(began.elapsed(), KEEP_ALIVE);
        assert!(sender.send(Event::data("x".into())));
        assert_eq!(stream.next().await.unwrap(), "data: x\n\n");
        assert_eq!(began.elapsed(), KEEP_ALIVE);
        drop(sender);
        assert_eq!(stream.next().await, None);
    }

    // MCP-190
    #[tokio::test]
    async fn a_stream_that_nobody_reads_is_closed() {
        let (sender, mut stream) = event_stream();
        let other = sender.clone();
        for _ in 0..WAITING_EVENTS {
            assert!(sender.send(Event::default()));
        }
        assert!(!sender.send(Event::default()));
        assert!(other.is_closed());
        assert_eq!(stream.next().await, None);
        drop(stream);
        sender.closed().await;
    }

    proptest! {
        // MCP-188: a payload is read back as it was, but for the kind of its line breaks
        #[test]
        fn payloads_come_through(data in "[a-z \\r\\n:é]{0,40}") {
            let text = encoded(&Event::data(Bytes::from(data.clone())));
            let read: Vec<&str> = text.strip_suffix("\n\n").unwrap()
                .split('\n').map(|line| line.strip_prefix("data: ").unwrap()).collect();
            let breaks = data.replace("\r\n", "\n").replace('\r', "\n");
            prop_assert_eq!(read.join("\n"), breaks);
        }
    }
}
