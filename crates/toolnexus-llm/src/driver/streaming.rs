//! A streamed answer, read as it arrives.

use std::time::Duration;

use futures::StreamExt as _;
use secrecy::ExposeSecret as _;
use toolnexus_core::http::HttpResponse;
use toolnexus_core::json::repair_surrogates;

use super::Driver;
use crate::endpoint::Endpoint;
use crate::error::ERROR_BODY_LIMIT;
use crate::run::ModelAnswer;
use crate::wire::{Flow, InStreamError, LineSplitter, LineTooLong, StreamDecoder, payload};
use crate::{ClientError, ProviderError};

/// How large a streamed answer may be. Deltas carry many bytes around each of the answer's, so
/// this is more than a whole answer may have.
const STREAM_LIMIT: usize = 256 * 1024 * 1024;

/// How long the end of a body may take after the event that completes the answer.
const END_OF_BODY: Duration = Duration::from_millis(50);

impl Driver {
    pub(super) async fn read_stream(
        &self,
        mut response: HttpResponse,
        mut decoder: Box<dyn StreamDecoder>,
        endpoint: &Endpoint,
    ) -> Result<ModelAnswer, ClientError> {
        let claims_stream = response
            .headers
            .get("content-type")
            .is_some_and(|kind| kind.as_bytes().trim_ascii_start().starts_with(b"text/event-stream"));
        let mut lines = LineSplitter::default();
        let mut flow = Flow::More;
        let mut first = Vec::new();
        let mut seen_data = false;
        let mut received = 0_usize;
        let mut on_text = |text: &str| self.tell_text(text);
        while flow == Flow::More {
            let Some(piece) = response.body.next().await else { break };
            let piece = piece.map_err(|source| endpoint.failed("broke off its answer", source))?;
            received = received.saturating_add(piece.len());
            if received > STREAM_LIMIT {
                return Err(ClientError::InvalidResponse(format!(
                    "the model's answer cannot be read: the stream is over the limit of {STREAM_LIMIT} bytes"
                )));
            }
            if !seen_data && first.len() < ERROR_BODY_LIMIT {
                first.extend_from_slice(&piece);
            }
            lines
                .feed::<StreamError>(&piece, |line| {
                    if flow == Flow::More
                        && let Some(payload) = payload(line)
                    {
                        seen_data = true;
                        flow = decoder.data(&endpoint.hide(repair_surrogates(payload)), &mut on_text)?;
                    }
                    Ok(())
                })
                .map_err(|error| error.into_client(endpoint))?;
            self.events.taken().await;
            // A transport in memory may always have the next piece ready: the deadline and the
            // cancel must get their turn.
            tokio::task::coop::consume_budget().await;
        }
        if flow == Flow::End {
            reach_end(&mut response).await;
        } else if let Some(payload) = payload(lines.rest()) {
            seen_data = true;
            decoder
                .data(&endpoint.hide(repair_surrogates(payload)), &mut on_text)
                .map_err(|e| StreamError::from(e).into_client(endpoint))?;
            self.events.taken().await;
        }
        let is_document = first.trim_ascii().first().is_some_and(|byte| b"{[<".contains(byte));
        if !seen_data && (is_document || !claims_stream && !first.trim_ascii().is_empty()) {
            // A whole answer, or an error page, where a stream was asked for.
            return Err(endpoint.unreadable("it is not an event stream", &first));
        }
        let answer = decoder.finish().map(|answer| endpoint.hide_assembled(answer))?;
        self.tell_rest();
        Ok(answer)
    }

    /// Tells a piece of text, as the boundary decodes it.
    fn tell_text(&self, text: &str) {
        match &self.boundary {
            Some(boundary) => self.tell_decoded(&boundary.decode_text(text)),
            None => self.events.tell_text(text),
        }
    }

    /// Tells what the boundary held back.
    fn tell_rest(&self) {
        if let Some(boundary) = &self.boundary {
            self.tell_decoded(&boundary.flush_text());
        }
    }

    fn tell_decoded(&self, text: &str) {
        if !text.is_empty() {
            self.events.tell_text(text);
        }
    }
}

/// Reads a body whose answer is complete to its end. It is there already or follows at once, and
/// a connection whose body was left unread cannot be used again.
async fn reach_end(response: &mut HttpResponse) {
    let rest = async { while let Some(Ok(_)) = response.body.next().await {} };
    // Whoever holds the connection open behind its last event is not waited for.
    drop(tokio::time::timeout(END_OF_BODY, rest).await);
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
