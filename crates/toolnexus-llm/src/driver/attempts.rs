//! One exchange with the model: the body shaped once, then attempts and the waits between them.
//!
//! Runs, streams and translation all go through [`ModelExchange`], so that whatever applies to a
//! model call applies to each of them.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolnexus_core::http::{Body, HeaderValue, HttpRequest, HttpResponse, Method, TransportError, Url};
use toolnexus_core::json::repair_surrogates;
use toolnexus_core::{BoxFuture, Style};
use tracing::Span;

use crate::client::ClientInner;
use crate::endpoint::Endpoint;
use crate::metric::LlmStatus;
use crate::retry::{ErrorInfo, RETRYABLE_STATUSES, Tier, backoff, retry_after};
use crate::wire::RequestBody;
use crate::{ClientError, FinishReason, ProviderError, Usage};

use super::shaping::Shaped;

/// How large an answer may be that is read as a whole.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// A good answer.
pub(crate) enum Answer {
    /// Read to its end; lone surrogates are repaired.
    Whole(Bytes),
    /// To be read as it arrives.
    Begun(HttpResponse),
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

/// A call of the model: what it needs beside the body.
pub(crate) struct ModelExchange<'a> {
    pub(crate) client: &'a ClientInner,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) cancel: &'a CancellationToken,
    /// The model to ask, unless the body is shaped to name another.
    pub(crate) model: &'a str,
    /// Whether the answer is to be streamed.
    pub(crate) streamed: bool,
    /// What the call is traced as, until its answer is read.
    pub(crate) span: Span,
}

/// A call of the model that was sent. It is settled once: by its outcome, or as an error when whoever
/// waits for it gives it up.
pub(crate) struct Reading<'a> {
    client: &'a ClientInner,
    started: Instant,
    /// The model that was asked.
    model: String,
    span: Span,
    settled: bool,
}

impl Reading<'_> {
    /// Notes how the call ended; gives what was read and the model that said it.
    pub(crate) fn settle<T>(
        mut self,
        outcome: Result<T, ClientError>,
        usage: impl FnOnce(&T) -> (Usage, FinishReason),
    ) -> Result<(T, String), ClientError> {
        match &outcome {
            Ok(read) => {
                let (usage, finish_reason) = usage(read);
                self.span.record("gen_ai.usage.input_tokens", usage.prompt_tokens);
                self.span.record("gen_ai.usage.output_tokens", usage.completion_tokens);
                self.span.record("gen_ai.response.finish_reasons", finish_reason.as_str());
                self.note(LlmStatus::Ok, usage);
            }
            Err(error) => self.failed(error),
        }
        outcome.map(|read| (read, std::mem::take(&mut self.model)))
    }

    fn failed(&mut self, error: &ClientError) {
        self.span.record("error.type", error.kind());
        self.note(LlmStatus::Error, Usage::default());
    }

    fn note(&mut self, status: LlmStatus, usage: Usage) {
        self.settled = true;
        let ms = elapsed_ms(self.started);
        self.client.metrics.llm(&self.model, status, ms, usage.prompt_tokens, usage.completion_tokens);
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.failed(&ClientError::Cancelled);
        }
    }
}

pub(super) fn elapsed_ms(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl<'a> ModelExchange<'a> {
    /// A call of this model, which is traced from now on.
    pub(crate) fn new(
        client: &'a ClientInner,
        endpoint: &'a Endpoint,
        cancel: &'a CancellationToken,
        model: &'a str,
        streamed: bool,
    ) -> Self {
        let style = client.options.style;
        let span = tracing::info_span!(
            "chat",
            otel.name = format_args!("chat {model}"),
            otel.kind = "client",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = match style {
                Style::Gemini => "gcp.gemini",
                Style::OpenAI | Style::Anthropic => style.as_str(),
            },
            gen_ai.request.model = model,
            gen_ai.response.finish_reasons = tracing::field::Empty,
            gen_ai.usage.input_tokens = tracing::field::Empty,
            gen_ai.usage.output_tokens = tracing::field::Empty,
            server.address = endpoint.host(),
            server.port = endpoint.port(),
            error.r#type = tracing::field::Empty,
        );
        ModelExchange { client, endpoint, cancel, model, streamed, span }
    }

    /// Shapes the body and sends it until an answer is good, or not worth another attempt.
    pub(crate) async fn call(&self, body: &RequestBody<'_>) -> Result<(Answer, Reading<'a>), ClientError> {
        self.send_shaped(self.client.shaped(body, self.model)?).await
    }

    /// [`ModelExchange::call`] for a body that is not written yet.
    pub(crate) async fn call_with(
        &self,
        fields: Map<String, Value>,
    ) -> Result<(Answer, Reading<'a>), ClientError> {
        self.send_shaped(self.client.shaped_fields(fields, self.model)?).await
    }

    async fn send_shaped(&self, shaped: Shaped) -> Result<(Answer, Reading<'a>), ClientError> {
        let url = self.endpoint.url(&shaped.model, self.streamed);
        let reading = Reading {
            client: self.client,
            started: Instant::now(),
            model: shaped.model,
            span: self.span.clone(),
            settled: false,
        };
        match self.attempts(url, shaped.body).await {
            Ok(Answer::Whole(body)) => {
                let body = match self.endpoint.hide(repair_surrogates(&body)) {
                    Cow::Borrowed(_) => body,
                    Cow::Owned(repaired) => repaired.into(),
                };
                Ok((Answer::Whole(body), reading))
            }
            Ok(begun @ Answer::Begun(_)) => Ok((begun, reading)),
            Err(error) => reading.settle(Err(error), |_| Default::default()).map(|(never, _)| never),
        }
    }

    /// Cancelled while nothing was awaited, or heard of by the transport first.
    fn check_cancelled(&self) -> Result<(), ClientError> {
        if self.cancel.is_cancelled() { Err(ClientError::Cancelled) } else { Ok(()) }
    }

    /// Sends the request until an answer is good, or not worth another attempt.
    async fn attempts(&self, url: Url, body: Body) -> Result<Answer, ClientError> {
        let mut attempt = 0;
        loop {
            match self.attempt(&url, &body).await {
                Ok(answer) => return Ok(answer),
                // Boxed, as whatever is rare: the future of a call is moved around.
                Err(failure) => Box::pin(self.before_next(attempt, failure)).await?,
            }
            attempt += 1;
        }
    }

    /// Waits until it is time for another attempt, if the failed one is worth that.
    async fn before_next(&self, attempt: u32, failure: Failure) -> Result<(), ClientError> {
        if let Failure::Transport(error) = &failure
            && error.is_over_limit()
        {
            return Err(ClientError::InvalidResponse(format!("the model's answer cannot be read: {error}")));
        }
        // A transport that heard of the cancel reports a failure: nobody's verdict is asked.
        self.check_cancelled()?;
        let options = &self.client.options;
        let info = failure.info(attempt, &options.retryable_statuses);
        let tier = match &options.on_error {
            Some(on_error) => on_error(&info),
            None if info.retryable => Tier::Retry,
            None => Tier::Fail,
        };
        if tier == Tier::Fail || attempt >= options.retries.unwrap_or(2) {
            return Err(match failure {
                Failure::Status(error) => ClientError::Provider(error),
                Failure::Transport(source) => self.endpoint.failed("gave no answer", source),
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
        Ok(())
    }

    fn backoff(&self, attempt: u32) -> Duration {
        let base = match self.client.options.retry_base_ms {
            0 => 500,
            given => given,
        };
        backoff(base, attempt, fastrand::u64(0..100))
    }

    async fn attempt(&self, url: &Url, body: &Body) -> Result<Answer, Failure> {
        let response = self.send(url.clone(), body.clone()).await.map_err(Failure::Transport)?;
        if !response.status.is_success() {
            let error = Box::pin(ProviderError::read(response, self.endpoint.secret.expose_secret())).await;
            return Err(Failure::Status(error));
        }
        if self.streamed {
            return Ok(Answer::Begun(response));
        }
        // A body that breaks off counts as a failed attempt.
        response.collect(BODY_LIMIT).await.map(Answer::Whole).map_err(Failure::Transport)
    }

    fn send(&self, url: Url, body: Body) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let mut headers = self.endpoint.headers.clone();
        if self.streamed {
            headers.entry("accept").or_insert(HeaderValue::from_static("text/event-stream"));
        }
        self.client.transport.send(HttpRequest {
            method: Method::POST,
            url,
            headers,
            body,
            cancel: self.cancel.clone(),
        })
    }
}

/// Sleeps exactly that long: `sleep` cuts off at thirty years, a legal `Retry-After` does not.
async fn pause(wait: Duration) {
    match tokio::time::Instant::now().checked_add(wait) {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
