//! One model call: attempts, waits between them, and the reading of the answer.

use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use secrecy::ExposeSecret as _;
use toolnexus_core::PartKind;
use toolnexus_core::http::{Body, HeaderValue, HttpRequest, HttpResponse, Method, TransportError};
use tracing::Instrument as _;

use super::Driver;
use crate::client::ClientInner;
use crate::endpoint::Endpoint;
use crate::retry::{ErrorInfo, RETRYABLE_STATUSES, Tier, backoff, retry_after};
use crate::run::{ModelAnswer, Run};
use crate::wire::{
    Flow, InStreamError, LineSplitter, LineTooLong, RequestParts, StreamDecoder, Unreadable, payload, wire,
};
use crate::{ClientError, ProviderError, Transcript};

/// How large an answer may be that is read as a whole.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// How much of an error answer is read.
const ERROR_BODY_LIMIT: usize = 16 * 1024 * 1024;

/// How long the end of a body may take after the event that completes the answer.
const END_OF_BODY: Duration = Duration::from_millis(50);

impl ClientInner {
    /// Says once per kind that parts of tool results reach the model as text alone.
    fn warn_replaced(&self, replaced: &[PartKind]) {
        let style = self.options.style;
        for kind in replaced {
            if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(*kind) {
                tracing::warn!(
                    "[toolnexus] style \"{style}\" has no block for {} parts of tool results: the model reads a placeholder",
                    kind.as_str()
                );
            }
        }
    }
}

/// What came of a model call.
pub(super) enum Called {
    Answered(ModelAnswer),
    /// The transcript holds a part that cannot be sent; nothing was.
    Refused(String),
}

/// Why an attempt failed.
enum Failure {
    Status(ProviderError),
    Transport(TransportError),
}

impl Failure {
    /// What a host's classifier is told, with the default verdict.
    fn info(&self, attempt: u32, also_retryable: &[u16]) -> ErrorInfo {
        let (status, error, retry_after) = match self {
            Failure::Status(error) => (Some(error.status), None, error.retry_after.clone()),
            Failure::Transport(error) => (None, Some(error.to_string()), None),
        };
        let listed = |status: u16| RETRYABLE_STATUSES.contains(&status) || also_retryable.contains(&status);
        ErrorInfo { error, status, attempt, retryable: status.is_none_or(listed), retry_after }
    }
}

impl Driver {
    pub(super) async fn call_model(
        &self,
        endpoint: &Endpoint,
        run: &Run,
        messages: &Transcript,
        turn: u32,
        tools: Option<Bytes>,
    ) -> Result<Called, ClientError> {
        let options = &self.client.options;
        let dialect = wire(run.style());
        let request = dialect.request(&RequestParts {
            model: &options.model,
            system: run.system(),
            messages,
            tools,
            streamed: self.streamed,
        });
        let request = match request {
            Ok(request) => request,
            Err(refused) => return Ok(Called::Refused(refused.to_string())),
        };
        self.client.warn_replaced(&request.replaced);
        let body = request.body.to_body();
        let span = tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.request.model = options.model,
            gen_ai.provider.name = options.style.as_str(),
        );
        async {
            if self.streamed {
                let response = self.attempts(endpoint, body, Ok).await?;
                self.read_stream(response, dialect.stream(turn), endpoint).await
            } else {
                // A body that breaks off counts as a failed attempt.
                let collect = |response: HttpResponse| response.collect(BODY_LIMIT);
                let body = self.attempts_reading(endpoint, body, collect).await?;
                let unreadable = |problem: Unreadable| endpoint.unreadable(&problem.0, &body);
                dialect.decode(&body, turn).map_err(unreadable)
            }
        }
        .instrument(span)
        .await
        .map(Called::Answered)
    }

    async fn attempts(
        &self,
        endpoint: &Endpoint,
        body: Body,
        read: impl Fn(HttpResponse) -> Result<HttpResponse, TransportError>,
    ) -> Result<HttpResponse, ClientError> {
        self.attempts_reading(endpoint, body, |response| std::future::ready(read(response))).await
    }

    /// Sends the request until an answer is good, or not worth another attempt.
    async fn attempts_reading<T, F: Future<Output = Result<T, TransportError>>>(
        &self,
        endpoint: &Endpoint,
        body: Body,
        read: impl Fn(HttpResponse) -> F,
    ) -> Result<T, ClientError> {
        let options = &self.client.options;
        let retries = options.retries.unwrap_or(2);
        let mut attempt = 0;
        loop {
            let failure = match self.attempt(endpoint, body.clone()).await {
                Ok(response) => match read(response).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => Failure::Transport(error),
                },
                Err(failure) => failure,
            };
            // A transport that heard of the cancel reports a failure: nobody's verdict is asked.
            self.check_cancelled()?;
            let info = failure.info(attempt, &options.retryable_statuses);
            let tier = match &options.on_error {
                Some(on_error) => on_error(&info),
                None if info.retryable => Tier::Retry,
                None => Tier::Fail,
            };
            if tier == Tier::Fail || attempt >= retries {
                return Err(match failure {
                    Failure::Status(error) => ClientError::Provider(error),
                    Failure::Transport(source) => ClientError::Transport {
                        context: format!("the model at {} gave no answer", endpoint.origin),
                        source,
                    },
                });
            }
            let wait = info.retry_after.as_deref().and_then(retry_after);
            let wait = wait.unwrap_or_else(|| self.backoff(attempt));
            tracing::info!(
                attempt,
                status = info.status,
                wait_ms = wait.as_millis(),
                "the model call failed and is tried again"
            );
            pause(wait).await;
            attempt += 1;
        }
    }

    fn backoff(&self, attempt: u32) -> Duration {
        let base = match self.client.options.retry_base_ms {
            0 => 500,
            given => given,
        };
        backoff(base, attempt, fastrand::u64(0..100))
    }

    async fn attempt(&self, endpoint: &Endpoint, body: Body) -> Result<HttpResponse, Failure> {
        let mut headers = endpoint.headers.clone();
        if self.streamed {
            headers.entry("accept").or_insert(HeaderValue::from_static("text/event-stream"));
        }
        let request = HttpRequest {
            method: Method::POST,
            url: endpoint.url.clone(),
            headers,
            body,
            cancel: self.cancel.clone(),
        };
        let response = self.client.transport.send(request).await.map_err(Failure::Transport)?;
        if response.status.is_success() {
            return Ok(response);
        }
        Err(error_answer(response, endpoint.secret.expose_secret()).await)
    }

    async fn read_stream(
        &self,
        mut response: HttpResponse,
        mut decoder: Box<dyn StreamDecoder>,
        endpoint: &Endpoint,
    ) -> Result<ModelAnswer, ClientError> {
        let claims_stream = header_text(&response, "content-type")
            .is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"));
        let mut lines = LineSplitter::default();
        let mut flow = Flow::More;
        let mut first = Vec::new();
        let mut seen_data = false;
        let mut on_text = |text: &str| self.events.tell_text(text);
        while flow == Flow::More {
            let Some(piece) = response.body.next().await else { break };
            let piece = piece.map_err(|source| ClientError::Transport {
                context: format!("the model at {} broke off its answer", endpoint.origin),
                source,
            })?;
            if !seen_data && first.len() < ERROR_BODY_LIMIT {
                first.extend_from_slice(&piece);
            }
            lines
                .feed::<StreamError>(&piece, |line| {
                    if flow == Flow::More
                        && let Some(payload) = payload(line)
                    {
                        seen_data = true;
                        flow = decoder.data(payload, &mut on_text)?;
                    }
                    Ok(())
                })
                .map_err(|error| error.into_client(endpoint))?;
            self.events.taken().await;
        }
        if flow == Flow::End {
            reach_end(&mut response).await;
        } else if let Some(payload) = payload(lines.rest()) {
            seen_data = true;
            decoder.data(payload, &mut on_text).map_err(|e| StreamError::from(e).into_client(endpoint))?;
            self.events.taken().await;
        }
        if !seen_data && !claims_stream && !first.trim_ascii().is_empty() {
            // A whole answer, or an error page, where a stream was asked for.
            return Err(endpoint.unreadable("it is not an event stream", &first));
        }
        decoder.finish()
    }
}

/// Reads a body whose answer is complete to its end. It is there already or follows at once, and
/// a connection whose body was left unread cannot be used again.
async fn reach_end(response: &mut HttpResponse) {
    let rest = async { while let Some(Ok(_)) = response.body.next().await {} };
    // Whoever holds the connection open behind its last event is not waited for.
    drop(tokio::time::timeout(END_OF_BODY, rest).await);
}

/// Sleeps exactly that long: `sleep` cuts off at thirty years, a legal `Retry-After` does not.
async fn pause(wait: Duration) {
    match tokio::time::Instant::now().checked_add(wait) {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

async fn error_answer(response: HttpResponse, secret: &str) -> Failure {
    let status = response.status;
    let retry_after = header_text(&response, "retry-after");
    let body = beginning(response).await;
    let body = String::from_utf8_lossy(&body);
    Failure::Status(ProviderError::from_response(status.as_u16(), &body, retry_after, secret))
}

/// As much of a body as is wanted and comes: an error body that breaks off still says something.
async fn beginning(mut response: HttpResponse) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < ERROR_BODY_LIMIT
        && let Some(Ok(piece)) = response.body.next().await
    {
        body.extend_from_slice(&piece);
    }
    body.truncate(ERROR_BODY_LIMIT);
    body
}

fn header_text(response: &HttpResponse, name: &str) -> Option<String> {
    Some(String::from_utf8_lossy(response.headers.get(name)?.as_bytes()).into_owned())
}

/// What can go wrong inside a stream whose head was good.
enum StreamError {
    Told(InStreamError),
    LineTooLong,
}

impl From<InStreamError> for StreamError {
    fn from(error: InStreamError) -> Self {
        StreamError::Told(error)
    }
}

impl From<LineTooLong> for StreamError {
    fn from(_: LineTooLong) -> Self {
        StreamError::LineTooLong
    }
}

impl StreamError {
    fn into_client(self, endpoint: &Endpoint) -> ClientError {
        match self {
            StreamError::Told(error) => {
                ClientError::Provider(ProviderError::in_stream(&error.0, endpoint.secret.expose_secret()))
            }
            StreamError::LineTooLong => {
                ClientError::InvalidResponse("a line of the stream is longer than 64 MiB".into())
            }
        }
    }
}
