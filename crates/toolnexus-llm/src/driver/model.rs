//! One model call: the request out, the answer in.

use std::sync::PoisonError;

use bytes::Bytes;
use toolnexus_core::content::{ContentPartError, ReplacedPart};
use tracing::Instrument as _;

use super::Driver;
use super::attempts::{Answer, ModelExchange};
use crate::client::ClientInner;
use crate::endpoint::Endpoint;
use crate::run::{ModelAnswer, Run};
use crate::wire::{PartRules, RequestBody, RequestParts, Unreadable, Wire, wire};
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
        let exchange =
            ModelExchange { client: &self.client, endpoint, cancel: &self.cancel, streamed: self.streamed };
        let span = exchange.span();
        // Boxed, as are the rare paths below: an async call is moved into its caller's state, and
        // the call of a model is large.
        let answer = Box::pin(self.answer(dialect, exchange, &request.body, turn));
        answer.instrument(span).await.map(Called::Answered)
    }

    async fn answer(
        &self,
        dialect: &'static dyn Wire,
        exchange: ModelExchange<'_>,
        body: &RequestBody<'_>,
        turn: u32,
    ) -> Result<ModelAnswer, ClientError> {
        let endpoint = exchange.endpoint;
        match exchange.call(body).await?.1 {
            Answer::Begun(response) => {
                Box::pin(self.read_stream(response, dialect.stream(turn), endpoint)).await
            }
            Answer::Whole(body) => {
                let unreadable = |problem: Unreadable| endpoint.unreadable(&problem.0, &body);
                dialect.decode(&body, turn).map_err(unreadable)
            }
        }
    }
}

impl ClientInner {
    /// Says that text stands in for parts, once per kind of part and reason.
    pub(crate) fn warn_replaced(&self, replaced: &[ReplacedPart]) {
        let style = self.options.style;
        for part in replaced {
            if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(*part) {
                part.warn(style);
            }
        }
    }
}
