//! One model call: the request out, the answer in.

use std::borrow::Cow;
use std::sync::PoisonError;

use bytes::Bytes;
use toolnexus_core::content::{ContentPartError, ReplacedPart};
use toolnexus_core::http::Body;
use toolnexus_core::json::repair_surrogates;
use tracing::Instrument as _;

use super::Driver;
use super::attempts::Answer;
use crate::client::ClientInner;
use crate::endpoint::Endpoint;
use crate::run::{ModelAnswer, Run};
use crate::wire::{PartRules, RequestParts, Unreadable, Wire, wire};
use crate::{ClientError, Transcript};

/// What came of a model call.
pub(super) enum Called {
    Answered(ModelAnswer),
    /// The transcript holds a part that cannot be sent; nothing was.
    Refused(ContentPartError),
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
            part_rules: PartRules::of(options),
        });
        let request = match request {
            Ok(request) => request,
            Err(refused) => return Ok(Called::Refused(refused)),
        };
        self.client.warn_replaced(&request.replaced);
        let span = tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.request.model = options.model,
            gen_ai.provider.name = options.style.as_str(),
        );
        // Boxed, as are the rare paths below: an async call is moved into its caller's state, and
        // the call of a model is large.
        let answer = Box::pin(self.answer(dialect, endpoint, request.body.to_body(), turn));
        answer.instrument(span).await.map(Called::Answered)
    }

    async fn answer(
        &self,
        dialect: &'static dyn Wire,
        endpoint: &Endpoint,
        body: Body,
        turn: u32,
    ) -> Result<ModelAnswer, ClientError> {
        match self.attempts(endpoint, body).await? {
            Answer::Begun(response) => {
                Box::pin(self.read_stream(response, dialect.stream(turn), endpoint)).await
            }
            Answer::Whole(body) => {
                let body = match repair_surrogates(&body) {
                    Cow::Borrowed(_) => body,
                    Cow::Owned(repaired) => repaired.into(),
                };
                let unreadable = |problem: Unreadable| endpoint.unreadable(&problem.0, &body);
                dialect.decode(&body, turn).map_err(unreadable)
            }
        }
    }
}

impl ClientInner {
    /// Says that text stands in for parts, once per kind of part and reason.
    fn warn_replaced(&self, replaced: &[ReplacedPart]) {
        let style = self.options.style;
        for part in replaced {
            if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(*part) {
                part.warn(style);
            }
        }
    }
}
