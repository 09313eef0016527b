//! One model call: the hooks around it, the request out, the answer in.

use std::sync::PoisonError;

use bytes::Bytes;
use serde_json::{Value, json};
use toolnexus_core::content::{ContentPartError, ReplacedPart};
use tracing::Instrument as _;

use super::Driver;
use super::attempts::{Answer, ModelExchange};
use super::offer::Offer;
use crate::client::ClientInner;
use crate::endpoint::Endpoint;
use crate::hooks::{self, AfterLlm, BeforeLlm};
use crate::run::{ModelAnswer, Run, RunEvent};
use crate::wire::{PartRules, RequestBody, RequestParts, Unreadable, Wire, mark_for_cache, wire};
use crate::{AfterLlmEvent, BeforeLlmEvent, ClientError, Transcript};

/// What came of a model call.
pub(super) enum Called {
    Answered(ModelAnswer),
    /// The transcript holds a part that cannot be sent; nothing was.
    Refused(ContentPartError),
}

/// What a boundary made of a request.
struct Encoded {
    system: String,
    messages: Transcript,
    tools: Option<Bytes>,
}

/// An answer as it was read, with what the `after_llm` hook is shown of it.
struct Read {
    answer: ModelAnswer,
    payload: Option<Value>,
    model: String,
}

impl Driver {
    pub(super) async fn call_model(
        &self,
        endpoint: &Endpoint,
        run: &mut Run,
        offer: &mut Offer,
    ) -> Result<Called, ClientError> {
        let options = &self.client.options;
        if let Some(hook) = self.hooks().and_then(|hooks| hooks.before_llm.as_ref()) {
            Box::pin(self.before_llm(hook, run, offer)).await?;
        }
        let dialect = wire(run.style());
        let encoded = self.encoded(run, offer);
        let (system, messages, tools) = match &encoded {
            Some(encoded) => (encoded.system.as_str(), &encoded.messages, encoded.tools.clone()),
            None => (run.system(), run.messages(), offer.tools.clone()),
        };
        let request = dialect.request(&RequestParts {
            model: &offer.model,
            system,
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
        let body = match &options.prompt_cache {
            Some(cache) => mark_for_cache(request.body, run.style(), cache),
            None => request.body,
        };
        let exchange = ModelExchange::new(&self.client, endpoint, &self.cancel, &offer.model, self.streamed);
        let span = exchange.span.clone();
        // Boxed, as are the rare paths below: an async call is moved into its caller's state, and
        // the call of a model is large.
        let read = Box::pin(self.answer(dialect, exchange, &body, run.turns())).instrument(span).await?;
        self.understood(dialect, run, read).await.map(Called::Answered)
    }

    async fn answer(
        &self,
        dialect: &'static dyn Wire,
        exchange: ModelExchange<'_>,
        body: &RequestBody<'_>,
        turn: u32,
    ) -> Result<Read, ClientError> {
        let endpoint = exchange.endpoint;
        let (answer, reading) = exchange.call(body).await?;
        let mut payload = None;
        let read = match answer {
            Answer::Begun(response) => {
                Box::pin(self.read_stream(response, dialect.stream(turn), endpoint)).await
            }
            Answer::Whole(body) => {
                if self.hooks().is_some_and(|hooks| hooks.after_llm.is_some()) {
                    payload = serde_json::from_slice(&body).ok();
                }
                let unreadable = |problem: Unreadable| endpoint.unreadable(&problem.0, &body);
                dialect.decode(&body, turn).map_err(unreadable)
            }
        };
        let (answer, model) = reading.settle(read, |answer| (answer.usage, answer.finish_reason))?;
        Ok(Read { answer, payload, model })
    }

    /// The answer as the host sees it, once the boundary and the `after_llm` hook have had it.
    async fn understood(
        &self,
        dialect: &'static dyn Wire,
        run: &Run,
        read: Read,
    ) -> Result<ModelAnswer, ClientError> {
        let Read { mut answer, mut payload, model } = read;
        // The hook may end the run before the answer becomes a part of it; the tokens are spent.
        let tokens = run.usage().total_tokens.saturating_add(answer.usage.total_tokens);
        self.tally.set(run.turns() + 1, run.finished_calls(), tokens);
        if self.tiers.is_some() {
            answer.calls = answer.calls.into_iter().map(|call| self.unwrapped(call)).collect();
        }
        if let Some(boundary) = &self.boundary {
            answer = boundary.decode(answer);
            if let Some(payload) = &mut payload {
                dialect.replace_message(payload, answer.message.as_ref());
            }
        }
        if let Some(hook) = self.hooks().and_then(|hooks| hooks.after_llm.as_ref()) {
            Box::pin(self.after_llm(hook, run, &answer, payload, model)).await?;
        }
        Ok(answer)
    }

    /// Calls the hook and makes its replacements the run's.
    async fn before_llm(
        &self,
        hook: &BeforeLlm,
        run: &mut Run,
        offer: &mut Offer,
    ) -> Result<(), ClientError> {
        let event = BeforeLlmEvent {
            messages: run.messages().clone(),
            tools: offer.declared(),
            model: offer.model.clone(),
            turn: run.turns(),
        };
        let Some(change) = hooks::call("before_llm", &**hook, event).await? else { return Ok(()) };
        self.check_cancelled()?;
        if let Some(messages) = change.messages {
            self.apply(run, RunEvent::MessagesReplaced { messages })?;
        }
        if let Some(tools) = change.tools {
            let names = offer.replace_tools(tools);
            self.apply(run, RunEvent::ToolsReplaced { names })?;
        }
        if let Some(model) = change.model {
            offer.model = model;
        }
        Ok(())
    }

    async fn after_llm(
        &self,
        hook: &AfterLlm,
        run: &Run,
        answer: &ModelAnswer,
        payload: Option<Value>,
        model: String,
    ) -> Result<(), ClientError> {
        let response = payload.unwrap_or_else(|| {
            let mut usage = run.usage();
            usage += answer.usage;
            json!({"streamed": true, "usage": usage})
        });
        let event = AfterLlmEvent { response, model, turn: run.turns() };
        hooks::call("after_llm", &**hook, event).await
    }

    fn encoded(&self, run: &Run, offer: &Offer) -> Option<Encoded> {
        let boundary = self.boundary.as_ref()?;
        // A style that opens the transcript with the system text has it there.
        let is_apart = wire(run.style()).opening(run.system()).is_none();
        let system = if is_apart { run.system() } else { "" };
        // The tools first: what their definitions name is known in the messages.
        let encode = |tools| boundary.encode_tools(tools, &self.toolkit.snapshot());
        let tools = offer.tools.as_ref().and_then(encode);
        let (system, messages) = boundary.encode_messages(system, run.messages());
        Some(Encoded { system, messages, tools })
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
