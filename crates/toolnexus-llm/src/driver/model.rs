//! One model call: attempts, waits between them, and the reading of the answer.

use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use toolnexus_core::http::{
    HeaderMap, HeaderName, HeaderValue, HttpRequest, HttpResponse, Method, TransportError,
};
use toolnexus_core::PartKind;
use tracing::Instrument as _;
use url::Url;

use super::{Driver, Events};
use crate::client::ClientInner;
use crate::error::invalid_response;
use crate::retry::{RETRYABLE_STATUSES, backoff, retry_after};
use crate::run::{ModelAnswer, Run};
use crate::wire::{
    Flow, InStreamError, LineSplitter, LineTooLong, RequestParts, StreamDecoder, payload, wire,
};
use crate::{ClientError, Message, ProviderError, StreamEvent, key};

/// How large an answer may be that is read as a whole.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// How much of an error answer is read.
const ERROR_BODY_LIMIT: usize = 1024 * 1024;

/// What every request of a run has in common.
pub(crate) struct Prepared {
    url: String,
    /// Scheme, host and port: what an error may name.
    origin: String,
    headers: HeaderMap,
    secret: SecretString,
}

impl ClientInner {
    /// Checks the options and prepares what does not change between the calls of a run.
    pub(crate) fn prepare(&self) -> Result<Prepared, ClientError> {
        let options = &self.options;
        crate::wire::supported(options.style)?;
        if options.base_url.trim().is_empty() {
            return Err(ClientError::Config("base_url is empty: set it to the provider's address".into()));
        }
        if options.model.is_empty() {
            return Err(ClientError::Config("model is empty: set it to the model's name".into()));
        }
        let base = options.base_url.trim().trim_end_matches('/');
        let parsed = Url::parse(base).map_err(|error| {
            ClientError::Config(format!("base_url cannot be read ({error}): it must be an http or https URL"))
        })?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(ClientError::Config(format!(
                "base_url has the scheme \"{}\": it must be an http or https URL",
                parsed.scheme()
            )));
        }
        let credential = key::resolve(options, &parsed)?;
        let dialect = wire(options.style);
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        for (name, value) in dialect.headers(credential.value.expose_secret()) {
            let mut value = value.map_err(|()| {
                ClientError::Config(format!(
                    "the API key from {} holds characters that no HTTP header allows",
                    credential.origin
                ))
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        for (name, value) in &options.headers {
            let invalid = || {
                ClientError::Config(format!("the header \"{name}\" holds characters that HTTP does not allow"))
            };
            let parsed = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
            headers.insert(parsed, HeaderValue::try_from(value.as_str()).map_err(|_| invalid())?);
        }
        Ok(Prepared {
            url: dialect.endpoint(base),
            origin: parsed.origin().ascii_serialization(),
            headers,
            secret: credential.value,
        })
    }

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

impl Driver {
    pub(super) async fn call_model(
        &self,
        prepared: &Prepared,
        run: &Run,
        messages: &[Message],
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
        let body = request.body.to_bytes();
        let span = tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.request.model = options.model,
            gen_ai.provider.name = options.style.as_str(),
        );
        async {
            if self.streamed {
                let response = self.attempts(prepared, body, Ok).await?;
                self.read_stream(response, dialect.stream(turn), prepared).await
            } else {
                // A body that breaks off counts as a failed attempt.
                let collect = |response: HttpResponse| response.collect(BODY_LIMIT);
                let body = self.attempts_reading(prepared, body, collect).await?;
                dialect.decode(&body, turn)
            }
        }
        .instrument(span)
        .await
        .map(Called::Answered)
    }

    async fn attempts(
        &self,
        prepared: &Prepared,
        body: Bytes,
        read: impl Fn(HttpResponse) -> Result<HttpResponse, TransportError>,
    ) -> Result<HttpResponse, ClientError> {
        self.attempts_reading(prepared, body, |response| std::future::ready(read(response))).await
    }

    /// Sends the request until an answer is good, or not worth another attempt.
    async fn attempts_reading<T, F: Future<Output = Result<T, TransportError>>>(
        &self,
        prepared: &Prepared,
        body: Bytes,
        read: impl Fn(HttpResponse) -> F,
    ) -> Result<T, ClientError> {
        let options = &self.client.options;
        let retries = options.retries.unwrap_or(2);
        let mut attempt = 0;
        loop {
            let failure = match self.attempt(prepared, body.clone()).await {
                Ok(response) => match read(response).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => Failure::Transport(error),
                },
                Err(failure) => failure,
            };
            let (retryable, wait) = match &failure {
                Failure::Status(error) => (
                    RETRYABLE_STATUSES.contains(&error.status)
                        || options.retryable_statuses.contains(&error.status),
                    error.retry_after.as_deref().and_then(retry_after),
                ),
                Failure::Transport(_) => (true, None),
            };
            if !retryable || attempt >= retries {
                return Err(match failure {
                    Failure::Status(error) => ClientError::Provider(error),
                    Failure::Transport(source) => ClientError::Transport {
                        context: format!("the model at {} gave no answer", prepared.origin),
                        source,
                    },
                });
            }
            let wait = wait.unwrap_or_else(|| self.backoff(attempt));
            tracing::info!(attempt, wait_ms = wait.as_millis(), "the model call failed and is tried again");
            tokio::time::sleep(wait).await;
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

    async fn attempt(&self, prepared: &Prepared, body: Bytes) -> Result<HttpResponse, Failure> {
        let mut headers = prepared.headers.clone();
        if self.streamed {
            headers.entry("accept").or_insert(HeaderValue::from_static("text/event-stream"));
        }
        let request = HttpRequest {
            method: Method::POST,
            url: prepared.url.clone(),
            headers,
            body,
            cancel: self.cancel.clone(),
        };
        let response = self.client.transport.send(request).await.map_err(Failure::Transport)?;
        if response.status.is_success() {
            return Ok(response);
        }
        Err(error_answer(response, prepared.secret.expose_secret()).await)
    }

    async fn read_stream(
        &self,
        mut response: HttpResponse,
        mut decoder: Box<dyn StreamDecoder>,
        prepared: &Prepared,
    ) -> Result<ModelAnswer, ClientError> {
        let mut lines = LineSplitter::default();
        let mut flow = Flow::More;
        let mut first = Vec::new();
        let mut seen_data = false;
        let mut on_text = |text: &str| self.tell_text(text);
        while flow == Flow::More {
            let Some(piece) = response.body.next().await else { break };
            let piece = piece.map_err(|source| ClientError::Transport {
                context: format!("the model at {} broke off its answer", prepared.origin),
                source,
            })?;
            if !seen_data && first.len() < ERROR_BODY_LIMIT {
                first.extend_from_slice(&piece);
            }
            lines.feed::<StreamError>(&piece, |line| {
                if flow == Flow::More
                    && let Some(payload) = payload(line)
                {
                    seen_data = true;
                    flow = decoder.data(payload, &mut on_text)?;
                }
                Ok(())
            })
            .map_err(|error| error.into_client(prepared))?;
            self.events.taken().await;
        }
        if flow == Flow::More
            && let Some(payload) = payload(lines.rest())
        {
            seen_data = true;
            decoder.data(payload, &mut on_text).map_err(|e| StreamError::from(e).into_client(prepared))?;
            self.events.taken().await;
        }
        if !seen_data {
            // A whole answer, or an error page, where a stream was asked for.
            return Err(invalid_response("it is not an event stream", &first));
        }
        decoder.finish()
    }

    fn tell_text(&self, text: &str) {
        if !matches!(self.events, Events::None) {
            self.events.tell(|| StreamEvent::Text { delta: text.to_owned() });
        }
    }
}

async fn error_answer(response: HttpResponse, secret: &str) -> Failure {
    let status = response.status;
    let retry_after = header_text(&response, "retry-after");
    // An error body that breaks off is still this status.
    let body = match response.collect(ERROR_BODY_LIMIT).await {
        Ok(body) => String::from_utf8_lossy(&body).into_owned(),
        Err(_) => String::new(),
    };
    Failure::Status(ProviderError::from_response(status.as_u16(), &body, retry_after, secret))
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
    fn into_client(self, prepared: &Prepared) -> ClientError {
        match self {
            StreamError::Told(error) => {
                ClientError::Provider(ProviderError::in_stream(&error.0, prepared.secret.expose_secret()))
            }
            StreamError::LineTooLong => {
                ClientError::InvalidResponse("a line of the stream is longer than 64 MiB".into())
            }
        }
    }
}

