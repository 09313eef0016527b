//! An answer in pieces, and the event stream that it becomes.

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use toolnexus_core::http::TransportError;

use super::answer::{InProcessToolCall, usage_json};
use crate::Usage;

/// A piece of a model's answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum InProcessChunk {
    /// Text: one event of the run.
    Text(String),
    /// A tool to run, in one piece, when the answer is complete. Text that came before stays.
    ToolCall(InProcessToolCall),
    /// The tokens the answer took; the last one counts.
    Usage(Usage),
}

impl From<&str> for InProcessChunk {
    fn from(text: &str) -> Self {
        InProcessChunk::Text(text.into())
    }
}

impl From<String> for InProcessChunk {
    fn from(text: String) -> Self {
        InProcessChunk::Text(text)
    }
}

impl From<InProcessToolCall> for InProcessChunk {
    fn from(call: InProcessToolCall) -> Self {
        InProcessChunk::ToolCall(call)
    }
}

impl From<Usage> for InProcessChunk {
    fn from(usage: Usage) -> Self {
        InProcessChunk::Usage(usage)
    }
}

/// The chunks that follow; an error is the last of them.
pub(super) type Chunks = BoxStream<'static, Result<InProcessChunk, TransportError>>;

/// The body of a streamed chat completion.
pub(super) fn event_stream(chunks: Chunks) -> BoxStream<'static, Result<Bytes, TransportError>> {
    let begun = Some((chunks, Events::default()));
    futures::stream::unfold(begun, |state| async move {
        let (mut chunks, mut events) = state?;
        loop {
            match chunks.next().await {
                Some(Ok(chunk)) => {
                    if let Some(event) = events.event(chunk) {
                        return Some((Ok(event), Some((chunks, events))));
                    }
                }
                Some(Err(error)) => return Some((Err(error), None)),
                None => return Some((Ok(events.end()), None)),
            }
        }
    })
    .boxed()
}

#[derive(Default)]
struct Events {
    calls: usize,
    usage: Option<Usage>,
}

impl Events {
    fn event(&mut self, chunk: InProcessChunk) -> Option<Bytes> {
        let delta = match chunk {
            InProcessChunk::Text(text) => json!({"content": text}),
            InProcessChunk::ToolCall(call) => {
                let mut entry = call.into_entry(self.calls);
                entry.insert("index".into(), self.calls.into());
                self.calls += 1;
                json!({"tool_calls": [entry]})
            }
            InProcessChunk::Usage(usage) => {
                self.usage = Some(usage);
                return None;
            }
        };
        Some(event(&json!({"choices": [{"index": 0, "delta": delta}]})).into())
    }

    fn end(self) -> Bytes {
        let reason = if self.calls == 0 { "stop" } else { "tool_calls" };
        let last = json!({
            "choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
            "usage": usage_json(self.usage),
        });
        format!("{}data: [DONE]\n\n", event(&last)).into()
    }
}

fn event(payload: &Value) -> String {
    format!("data: {payload}\n\n")
}
