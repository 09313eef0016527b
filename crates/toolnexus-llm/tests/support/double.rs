//! A transport that answers from a list and needs no socket, so that a paused clock can be used.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use toolnexus_core::BoxFuture;
use toolnexus_llm::http::{
    HeaderMap, HeaderName, HeaderValue, HttpRequest, HttpResponse, HttpTransport, StatusCode, TransportError,
};
use toolnexus_llm::{ClientOptions, Style};

/// What one request gets.
pub(crate) enum Answer {
    /// A whole response.
    Full(HttpResponse),
    /// No HTTP answer.
    Fail(&'static str),
    /// No answer ever; the sender is dropped with the request.
    Hang(oneshot::Sender<()>),
}

impl Answer {
    pub(crate) fn status(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Self {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
            })
            .collect();
        Answer::Full(HttpResponse::full(StatusCode::from_u16(status).unwrap(), headers, body))
    }

    pub(crate) fn json(value: &Value) -> Self {
        Answer::status(200, &[("content-type", "application/json")], value.to_string())
    }

    /// A 200 whose body arrives in these pieces; `Err` breaks it off.
    pub(crate) fn pieces<B: Into<Bytes>>(pieces: impl IntoIterator<Item = Result<B, &'static str>>) -> Self {
        let pieces: Vec<Result<Bytes, TransportError>> =
            pieces.into_iter().map(|piece| piece.map(Into::into).map_err(TransportError::new)).collect();
        Answer::Full(HttpResponse {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: futures::stream::iter(pieces).boxed(),
        })
    }

    /// The same answer, with its pieces counted as they are taken.
    pub(crate) fn counted(self, taken: Arc<AtomicUsize>) -> Self {
        let Answer::Full(mut response) = self else { panic!("there is no body") };
        let count = move |_: &Result<Bytes, TransportError>| {
            taken.fetch_add(1, Ordering::Relaxed);
        };
        response.body = response.body.inspect(count).boxed();
        Answer::Full(response)
    }

    /// A 200 whose body begins with these bytes and never goes on; the sender is dropped with it.
    pub(crate) fn hanging_body(start: impl Into<Bytes>, dropped: oneshot::Sender<()>) -> Self {
        let start = futures::stream::iter([Ok(start.into())]);
        let rest = futures::stream::once(async move {
            let _held = dropped;
            std::future::pending().await
        });
        Answer::Full(HttpResponse {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: start.chain(rest).boxed(),
        })
    }

    /// A turn of OpenAI's style with its usage, buffered.
    pub(crate) fn openai(message: &Value, prompt: u64, completion: u64) -> Self {
        Answer::json(&json!({
            "choices": [{"message": message}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion},
        }))
    }

    /// A model's plain answer, buffered.
    pub(crate) fn text(style: Style, text: &str) -> Self {
        Answer::json(&match style {
            Style::Anthropic => {
                json!({"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})
            }
            Style::Gemini => gemini(&json!([{"text": text}])),
            _ => json!({"choices": [{"message": {"role": "assistant", "content": text}}]}),
        })
    }

    /// A model's plain answer, streamed in one piece.
    pub(crate) fn streamed_text(style: Style, text: &str) -> Self {
        Answer::pieces([Ok(match style {
            Style::Anthropic => format!(
                "data: {}\n\ndata: {}\n\n",
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
                json!({"type": "message_stop"}),
            ),
            Style::Gemini => format!("data: {}\n\n", gemini(&json!([{"text": text}]))),
            _ => format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [{"delta": {"content": text}}]})),
        })])
    }

    /// A turn that calls tools, buffered: id, name, arguments of each.
    pub(crate) fn calls(style: Style, calls: &[(&str, &str, Value)]) -> Self {
        Answer::json(&match style {
            Style::Anthropic => {
                let blocks: Vec<Value> = calls
                    .iter()
                    .map(
                        |(id, name, args)| json!({"type": "tool_use", "id": id, "name": name, "input": args}),
                    )
                    .collect();
                json!({"content": blocks, "stop_reason": "tool_use"})
            }
            Style::Gemini => gemini(
                &calls
                    .iter()
                    .map(|(id, name, args)| json!({"functionCall": {"id": id, "name": name, "args": args}}))
                    .collect(),
            ),
            _ => {
                let calls: Vec<Value> = calls
                    .iter()
                    .map(|(id, name, args)| {
                        let function = json!({"name": name, "arguments": args.to_string()});
                        json!({"id": id, "type": "function", "function": function})
                    })
                    .collect();
                json!({"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": calls}}]})
            }
        })
    }
}

/// A whole Gemini response of these parts.
fn gemini(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
}

/// A request, and when it came.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) request: HttpRequest,
}

/// Answers requests in order and keeps them.
pub(crate) struct Double {
    answers: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Seen>>,
    arrived: Notify,
}

impl Double {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        super::secrets::watch();
        Arc::new(Double {
            answers: Mutex::new(answers.into_iter().collect()),
            seen: Mutex::default(),
            arrived: Notify::new(),
        })
    }

    /// Options of a client that sends to this double.
    pub(crate) fn options(self: &Arc<Self>, style: Style) -> ClientOptions {
        let http_client: Arc<dyn HttpTransport> = Arc::<Double>::clone(self);
        ClientOptions { http_client: Some(http_client), ..super::options(style, "http://double.test/v1") }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The body of a request as JSON.
    pub(crate) fn body(&self, at: usize) -> Value {
        serde_json::from_slice(&self.seen()[at].request.body.to_bytes()).unwrap()
    }

    /// The waits between the requests.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.seen().windows(2).map(|pair| pair[1].at - pair[0].at).collect()
    }

    /// Returns when a request has arrived, one for each call.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

impl HttpTransport for Double {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        self.seen.lock().unwrap().push(Seen { at: Instant::now(), request });
        let answer = self.answers.lock().unwrap().pop_front();
        self.arrived.notify_one();
        async move {
            match answer.expect("the double has no more answers") {
                Answer::Full(response) => Ok(response),
                Answer::Fail(message) => Err(TransportError::new(message)),
                Answer::Hang(held) => {
                    let _held = held;
                    std::future::pending().await
                }
            }
        }
        .boxed()
    }
}
