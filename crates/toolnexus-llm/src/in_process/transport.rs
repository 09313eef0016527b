//! The transport that calls a function.

use std::panic::AssertUnwindSafe;

use futures::{FutureExt as _, StreamExt as _};
use toolnexus_core::http::{
    HeaderMap, HeaderValue, HttpRequest, HttpResponse, HttpTransport, StatusCode, TransportError,
};
use toolnexus_core::{BoxError, BoxFuture};

use super::chunk::{Chunks, event_stream};
use super::{Generate, GenerateStream, InProcessRequest};

pub(super) struct InProcessTransport {
    pub(super) generate: Generate,
    pub(super) generate_stream: Option<GenerateStream>,
}

impl HttpTransport for InProcessTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let Some(asked) = InProcessRequest::read(&request.body.to_bytes(), request.cancel) else {
            let error = TransportError::new("the request body is no JSON object");
            return Box::pin(std::future::ready(Err(error)));
        };
        match &self.generate_stream {
            Some(generate) if asked.is_streamed() => Box::pin(stream(generate.clone(), asked)),
            _ => Box::pin(whole(self.generate.clone(), asked)),
        }
    }
}

async fn whole(generate: Generate, request: InProcessRequest) -> Result<HttpResponse, TransportError> {
    // The closure itself may panic before it has made a future, so it is called inside.
    let answer = AssertUnwindSafe(async { generate(request).await }).catch_unwind().await;
    let answer = answer.unwrap_or_else(|_| Err("generate panicked".into())).map_err(failed)?;
    Ok(response("application/json", answer.into_completion().to_string()))
}

/// The head of an answer comes with its first piece, so that a failure before it can be retried.
async fn stream(generate: GenerateStream, request: InProcessRequest) -> Result<HttpResponse, TransportError> {
    let made = AssertUnwindSafe(async { generate(request) }).catch_unwind().await;
    let chunks = made.map_err(|_| panicked())?;
    let chunks = AssertUnwindSafe(chunks).catch_unwind().map(|chunk| match chunk {
        Ok(chunk) => chunk.map_err(failed),
        Err(_) => Err(panicked()),
    });
    let mut chunks: Chunks = chunks.boxed();
    let first = match chunks.next().await.transpose()? {
        Some(first) => futures::stream::iter([Ok(first)]).chain(chunks).boxed(),
        None => futures::stream::empty().boxed(),
    };
    let mut head = response("text/event-stream", "");
    head.body = event_stream(first);
    Ok(head)
}

fn response(content_type: &'static str, body: impl Into<bytes::Bytes>) -> HttpResponse {
    let headers = HeaderMap::from_iter([(
        toolnexus_core::http::HeaderName::from_static("content-type"),
        HeaderValue::from_static(content_type),
    )]);
    HttpResponse::full(StatusCode::OK, headers, body)
}

fn failed(error: BoxError) -> TransportError {
    TransportError::new(error.to_string()).with_source(error)
}

fn panicked() -> TransportError {
    failed("generate_stream panicked".into())
}
