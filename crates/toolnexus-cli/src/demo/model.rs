//! The scripted model as a provider: OpenAI's streamed dialect, word by word, in this process.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::{Value, json};
use toolnexus::client::http::{
    HeaderMap, HttpRequest, HttpResponse, HttpTransport, StatusCode, TransportError,
};

use super::story::{self, Turn};

/// How long it seems to think, and how long a word takes.
const THINKS: Duration = Duration::from_millis(180);
const WORD: Duration = Duration::from_millis(18);

/// Answers every request with the story's next turn.
pub(super) struct ScriptedModel;

impl HttpTransport for ScriptedModel {
    fn send(
        &self,
        request: HttpRequest,
    ) -> futures::future::BoxFuture<'static, Result<HttpResponse, TransportError>> {
        Box::pin(async move {
            let asked: Value = serde_json::from_slice(&request.body.to_bytes())
                .map_err(|error| TransportError::new("the request is no JSON").with_source(error))?;
            let messages = asked.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
            tokio::time::sleep(THINKS).await;
            let chunks = chunks(&story::next(&messages), request.body.len());
            let body = futures::stream::iter(chunks).then(|(delay, chunk)| async move {
                tokio::time::sleep(delay).await;
                Ok(chunk)
            });
            Ok(HttpResponse { status: StatusCode::OK, headers: HeaderMap::new(), body: body.boxed() })
        })
    }
}

/// The events of a turn, each with the wait before it.
fn chunks(turn: &Turn, request_bytes: usize) -> Vec<(Duration, Bytes)> {
    let mut chunks = Vec::new();
    let words: Vec<&str> = turn.text.split_inclusive(' ').collect();
    for word in &words {
        chunks.push((WORD, event(&delta(&json!({"content": word}), None))));
    }
    for (index, call) in turn.calls.iter().enumerate() {
        let call = json!({"index": index, "id": call.name, "type": "function",
            "function": {"name": call.name, "arguments": call.args.to_string()}});
        chunks.push((Duration::ZERO, event(&delta(&json!({"tool_calls": [call]}), None))));
    }
    let finish = if turn.calls.is_empty() { "stop" } else { "tool_calls" };
    chunks.push((Duration::ZERO, event(&delta(&json!({}), Some(finish)))));
    // About what a tokeniser would count.
    let (read, written) = (request_bytes / 4, words.len() + turn.calls.len() * 12);
    chunks.push((
        Duration::ZERO,
        event(&json!({"choices": [], "usage":
            {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}})),
    ));
    chunks.push((Duration::ZERO, Bytes::from_static(b"data: [DONE]\n\n")));
    chunks
}

fn delta(delta: &Value, finish: Option<&str>) -> Value {
    json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn event(data: &Value) -> Bytes {
    format!("data: {data}\n\n").into()
}
