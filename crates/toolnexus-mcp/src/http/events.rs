//! Event streams: bounded, and with results handed over unread.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use super::utf8::Utf8Repair;
use super::{HttpFault, HttpLink, MAX_MESSAGE_BYTES, fault_of};
use crate::admission::AdmissionSlot;
use crate::failure::{Fault, McpFailureKind};
use crate::in_flight::CallsInFlight;
use crate::wire::{self, Spoiled};

pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// The shortest pause before a stream is resumed, in milliseconds, whatever the server asks for.
const MIN_RESUME_PAUSE_MS: u64 = 100;

/// Events as they come.
pub(super) type RawEvents = Events;

/// The events of a response, as rmcp shall see them. `request` is the request whose response this
/// is; it gets an answer also when an event of the stream is too long to read, and keeps its slot for as
/// long as the stream is held.
pub(super) fn events(
    response: reqwest::Response,
    request: Option<RequestId>,
    calls: Arc<CallsInFlight>,
    link: HttpLink,
    slot: AdmissionSlot,
) -> Events {
    let abort = link.abort.clone();
    // A stream that breaks ends: rmcp resumes a broken one without a pause, and would do so for ever.
    let events = raw(response).scan(slot, move |_held, event| {
        std::future::ready(match event {
            Ok(event) => Some(Ok(tapped(event, &calls, request.as_ref(), &link))),
            Err(error) => spoiled(&error, request.as_ref()).map(Ok),
        })
    });
    events.take_until(abort.cancelled_owned()).boxed()
}

/// The events of a response as they come, none longer than [`MAX_MESSAGE_BYTES`].
pub(super) fn raw(response: reqwest::Response) -> RawEvents {
    let mut limit = EventLimit::new(MAX_MESSAGE_BYTES);
    let mut utf8 = Utf8Repair::default();
    let bytes = response.bytes_stream().map(move |chunk| -> Result<Bytes, HttpFault> {
        let chunk = chunk.map_err(|error| HttpFault(fault_of(&error)))?;
        if limit.exceeded_by(&chunk) {
            return Err(HttpFault(Fault::with_detail(McpFailureKind::MalformedBody, "response too long")));
        }
        Ok(utf8.piece(chunk))
    });
    SseStream::from_bytes_stream(bytes).boxed()
}

/// What a broken stream means.
pub(super) fn fault(error: &SseError) -> Fault {
    match error {
        SseError::Body(cause) => match cause.downcast_ref::<HttpFault>() {
            Some(HttpFault(fault)) => fault.clone(),
            None => Fault::transport("stream-failed"),
        },
        _ => Fault::malformed(),
    }
}

/// The event with its payload as rmcp shall read it; what nobody waits for loses its payload and
/// keeps its id.
fn tapped(mut event: Sse, calls: &CallsInFlight, stream_of: Option<&RequestId>, link: &HttpLink) -> Sse {
    event.retry = event.retry.map(|pause| pause.max(MIN_RESUME_PAUSE_MS));
    if !matches!(event.event.as_deref(), None | Some("" | "message")) {
        return event;
    }
    if let Some(data) = event.data.take() {
        let data = wire::readable(data.as_bytes());
        event.data = match wire::read(&data, calls, stream_of, |_| None) {
            Some(message) if link.takes(&message, || method_of(&data)) => {
                serde_json::to_string(&message).ok()
            }
            _ => None,
        };
    }
    event
}

fn method_of(message: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Message {
        method: String,
    }
    serde_json::from_str::<Message>(message).ok().map(|message| message.method)
}

/// An answer in the place of an event that was too long to read.
fn spoiled(error: &SseError, request: Option<&RequestId>) -> Option<Sse> {
    let too_long = fault(error).kind == McpFailureKind::MalformedBody;
    let message = Spoiled::TooLong.into_message(request.filter(|_| too_long)?.clone());
    Some(Sse { data: serde_json::to_string(&message).ok(), ..Default::default() })
}

/// Counts the bytes since the last empty line. A line ends with CR, LF or both.
struct EventLimit {
    limit: usize,
    size: usize,
    line: usize,
    after_cr: bool,
}

impl EventLimit {
    fn new(limit: usize) -> Self {
        EventLimit { limit, size: 0, line: 0, after_cr: false }
    }

    fn exceeded_by(&mut self, chunk: &[u8]) -> bool {
        for byte in chunk {
            let completes_crlf = std::mem::take(&mut self.after_cr) && *byte == b'\n';
            if completes_crlf {
                continue;
            }
            self.after_cr = *byte == b'\r';
            if matches!(byte, b'\r' | b'\n') {
                if self.line == 0 {
                    self.size = 0;
                }
                self.line = 0;
            } else {
                self.line += 1;
                self.size += 1;
            }
            if self.size > self.limit {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rmcp::model::{ServerJsonRpcMessage, ServerRequest};

    fn exceeded(text: &str, size: usize) -> bool {
        let mut limit = EventLimit::new(10);
        text.as_bytes().chunks(size).any(|chunk| limit.exceeded_by(chunk))
    }

    #[test]
    fn an_empty_line_ends_an_event() {
        for end in ["\n", "\r", "\r\n"] {
            let event = format!("data: 1234{end}{end}");
            assert!(!exceeded(&event.repeat(5), 3), "{end:?}");
            assert!(exceeded(&format!("data: 1234{end}data: 1{end}"), 3), "{end:?}");
        }
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(text in "[ab\r\n]{0,60}", size in 1_usize..9) {
            prop_assert_eq!(exceeded(&text, size), exceeded(&text, usize::MAX));
        }
    }

    // MCP-34, MCP-55, MCP-88, MCP-96: what rmcp gets to see
    #[test]
    fn events_are_handed_over_unread() {
        let (calls, link) = (CallsInFlight::default(), HttpLink::default());
        let see = |data: &str| {
            tapped(
                Sse { data: Some(data.into()), id: Some("7".into()), ..Default::default() },
                &calls,
                None,
                &link,
            )
        };
        let answer = see(r#"{"jsonrpc":"2.0","id":3,"result":{"b":1e2, "a":"\u00e9"}}"#);
        assert_eq!(
            answer.data.as_deref(),
            Some(r#"{"jsonrpc":"2.0","id":3,"result":"{\"b\":1e2, \"a\":\"\\u00e9\"}"}"#)
        );
        let ping = see(r#"{"jsonrpc":"2.0","id":"q","method":"ping","params":{}}"#);
        assert_eq!(ping.data.as_deref(), Some(r#"{"jsonrpc":"2.0","id":"q","method":"ping"}"#));
        let question = see(r#"{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{"x-a": 1e2}}"#);
        let request: ServerJsonRpcMessage = serde_json::from_str(&question.data.unwrap()).unwrap();
        let ServerJsonRpcMessage::Request(request) = request else { panic!("{request:?}") };
        let ServerRequest::CustomRequest(request) = request.request else { panic!("{request:?}") };
        assert_eq!(wire::elicitation(&request), Some(serde_json::json!({"x-a": 1e2})));
        for nobodys in [
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}"#,
            "words",
            "7",
        ] {
            let event = see(nobodys);
            assert_eq!(
                (event.data, event.id.as_deref()),
                (None, Some("7")),
                "the stream can still be resumed"
            );
        }
        let endpoint =
            Sse { event: Some("endpoint".into()), data: Some("/messages".into()), ..Default::default() };
        assert_eq!(tapped(endpoint.clone(), &calls, None, &link).data, endpoint.data);
    }

    // MCP-132, MCP-185: questions without end, and a pause of nothing
    #[test]
    fn open_questions_and_pauses_are_limited() {
        let (calls, link) = (CallsInFlight::default(), HttpLink::default());
        let see = |message: serde_json::Value| {
            let event = Sse { data: Some(message.to_string()), retry: Some(0), ..Default::default() };
            tapped(event, &calls, None, &link)
        };
        let ask = |id: usize| {
            see(serde_json::json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})).data.is_some()
        };
        assert!((0..crate::open::MAX_ASKED).all(ask));
        assert!(!ask(1000) && !ask(3));
        let taken_back = serde_json::json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
        assert_eq!(see(taken_back).retry, Some(MIN_RESUME_PAUSE_MS));
        assert!(ask(1000) && !ask(1001));
    }
}
