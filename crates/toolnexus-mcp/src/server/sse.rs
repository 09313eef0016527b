//! Event streams: how an event is written, and the bounds of a stream.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};

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

#[cfg(test)]
mod tests {
    use super::*;
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
