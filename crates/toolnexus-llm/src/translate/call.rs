//! The request, and the one call it makes.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolnexus_core::content::{ContentPartError, PartEncoder};
use toolnexus_core::{Style, Toolkit};
use tracing::Instrument as _;

use super::inbound::inbound;
use super::outbound::{TranslateResult, outbound};
use super::parts::with_literals_encoded;
use super::text::has_system_message;
use super::tools::{
    openai_tool_choice_to_anthropic, openai_tools_to_anthropic, with_properties, without_duplicates,
};
use crate::driver::{Answer, ModelExchange};
use crate::hooks;
use crate::wire::{Field, PartRules, RequestBody, mark_for_cache, wire};
use crate::{AfterLlmEvent, BeforeLlmEvent, Client, ClientError, ClientOptions, Transcript};

/// Anthropic wants a limit in every request.
const MAX_TOKENS: u64 = 4096;

/// One request in OpenAI's shapes.
#[derive(Clone, Default)]
pub struct TranslateRequest {
    /// The messages, as OpenAI takes them. What is no JSON object is ignored.
    pub messages: Vec<Value>,
    /// Tools to declare, as OpenAI takes them, behind those of the toolkit.
    pub tools: Vec<Value>,
    /// A toolkit to declare. Its tools are never run.
    pub toolkit: Option<Toolkit>,
    /// OpenAI's `tool_choice`; sent only along with tools.
    pub tool_choice: Option<Value>,
    /// The system text. Blank or `None`: the transcript's, else the client's system prompt.
    pub system: Option<String>,
    /// The most tokens the model may write. 0: no limit is sent, or 4096 where one is required.
    pub max_tokens: u64,
    /// Ends the call early.
    pub cancel: Option<CancellationToken>,
}

impl TranslateRequest {
    /// Adds a message of any type that serialises to OpenAI's shape.
    ///
    /// # Errors
    /// The message's own failure to serialise.
    pub fn push<T: Serialize>(&mut self, message: T) -> serde_json::Result<&mut Self> {
        self.messages.push(serde_json::to_value(message)?);
        Ok(self)
    }

    fn tools(&self, style: Style) -> Vec<Value> {
        let toolkit = self.toolkit.as_ref();
        match style {
            Style::Anthropic => without_duplicates(
                toolkit
                    .map(Toolkit::to_anthropic)
                    .into_iter()
                    .flatten()
                    .chain(openai_tools_to_anthropic(&self.tools)),
            ),
            Style::OpenAI | Style::Gemini => without_duplicates(
                toolkit.map(Toolkit::to_openai).into_iter().flatten().chain(self.tools.iter().cloned()),
            ),
        }
    }
}

/// Counts alone: messages may hold anything.
impl std::fmt::Debug for TranslateRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TranslateRequest")
            .field("messages", &self.messages.len())
            .field("tools", &self.tools.len())
            .field("toolkit", &self.toolkit.is_some())
            .field("max_tokens", &self.max_tokens)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Calls the model once with a request in OpenAI's shapes, whatever the client's style, and
    /// gives its answer in OpenAI's shapes. No tool runs, nothing is remembered; failed attempts
    /// are retried as in a run.
    ///
    /// ```no_run
    /// use serde_json::json;
    /// use toolnexus_llm::translate::TranslateRequest;
    /// # async fn example(client: toolnexus_llm::Client) -> Result<(), toolnexus_llm::ClientError> {
    /// let answer = client.translate(TranslateRequest {
    ///     messages: vec![json!({"role": "user", "content": "hi"})],
    ///     ..Default::default()
    /// }).await?;
    /// println!("{} ({})", answer.text, answer.finish_reason);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Configuration that cannot be used, a style that cannot be translated to, a content part
    /// that cannot be sent, and everything that can go wrong with a model call in a run.
    pub async fn translate(&self, mut request: TranslateRequest) -> Result<TranslateResult, ClientError> {
        if self.options().style == Style::Gemini {
            return Err(ClientError::Unsupported(
                "translate does not support style \"gemini\"; use a client with style \"openai\" or \"anthropic\""
                    .into(),
            ));
        }
        let caller = request.cancel.take();
        self.bounded(caller, |cancel| Box::pin(self.translate_once(request, cancel))).await
    }

    async fn translate_once(
        &self,
        request: TranslateRequest,
        cancel: CancellationToken,
    ) -> Result<TranslateResult, ClientError> {
        let options = self.options();
        let style = options.style;
        let endpoint = self.inner().endpoint()?;
        let mut encoder = PartRules::of(options).encoder(style);
        let mut draft = match style {
            Style::Anthropic => anthropic_draft(options, &request, &mut encoder)?,
            Style::OpenAI | Style::Gemini => openai_draft(options, &request, &mut encoder)?,
        };
        self.inner().warn_replaced(encoder.replaced());
        let mut model = options.model.clone();
        let hooks = options.hooks.as_ref();
        if let Some(hook) = hooks.and_then(|hooks| hooks.before_llm.as_ref()) {
            let event = BeforeLlmEvent {
                messages: draft.messages.clone(),
                tools: Arc::new(draft.tools.clone()),
                model: model.clone(),
                turn: 0,
            };
            let change = hooks::call("before_llm", &**hook, event).await?.unwrap_or_default();
            draft.messages = change.messages.unwrap_or(draft.messages);
            draft.tools = change.tools.unwrap_or(draft.tools);
            model = change.model.unwrap_or(model);
        }
        let mut session = options.boundary.as_ref().map(|boundary| boundary.open(style));
        if let Some(session) = &mut session {
            if let Some(toolkit) = &request.toolkit {
                session.note_tools(&toolkit.snapshot());
            }
            draft.tools = session.encode_tools(draft.tools);
            (draft.system, draft.messages) = session.encode_messages(&draft.system, &draft.messages);
        }
        let body = draft.body(style, &model);
        let body = match &options.prompt_cache {
            Some(cache) => mark_for_cache(body, style, cache),
            None => body,
        };
        let exchange = ModelExchange::new(self.inner(), &endpoint, &cancel, &model, false);
        let call = async {
            let (answer, reading) = exchange.call(&body).await?;
            let Answer::Whole(body) = answer else { return Err(endpoint.unreadable("it is a stream", b"")) };
            // The wire says what is no answer at all; what it makes of calls is for the loop.
            let read = wire(style).decode(&body, 0).map_err(|problem| endpoint.unreadable(&problem.0, &body));
            let read = read.and_then(|answer| {
                let raw = serde_json::from_slice::<Value>(&body)
                    .map_err(|error| endpoint.unreadable(&format!("it is not JSON ({error})"), &body))?;
                Ok((answer, raw))
            });
            reading.settle(read, |(answer, _)| (answer.usage, answer.finish_reason))
        };
        let ((mut answer, mut raw), model) = call.instrument(exchange.span.clone()).await?;
        let usage = answer.usage;
        if let Some(session) = &mut session {
            answer = session.decode(answer);
            wire(style).replace_message(&mut raw, answer.message.as_ref());
        }
        if let Some(hook) = hooks.and_then(|hooks| hooks.after_llm.as_ref()) {
            let event = AfterLlmEvent { response: raw.clone(), model: model.clone(), turn: 0 };
            hooks::call("after_llm", &**hook, event).await?;
        }
        Ok(outbound(style, raw, usage, model))
    }
}

/// A request in the client's style that is not written yet.
struct Draft {
    /// Apart from the messages, for a style that sends it apart.
    system: String,
    messages: Transcript,
    tools: Vec<Value>,
    tool_choice: Option<Value>,
    /// 0: none is sent.
    max_tokens: u64,
}

impl Draft {
    fn body(&self, style: Style, model: &str) -> RequestBody<'_> {
        let mut body = RequestBody::default().string("model", model);
        let anthropic = style == Style::Anthropic;
        if anthropic {
            body = body.with("max_tokens", json(&self.max_tokens.into()));
        }
        body = body.with("messages", Field::Transcript(&self.messages));
        if !self.system.is_empty() {
            body = body.string("system", &self.system);
        }
        if !self.tools.is_empty() {
            let tools: Vec<Value> = match style {
                Style::OpenAI => self.tools.iter().cloned().map(with_properties).collect(),
                Style::Anthropic | Style::Gemini => self.tools.clone(),
            };
            body = body.with("tools", json(&Value::Array(tools)));
            if let Some(choice) = &self.tool_choice {
                body = body.with("tool_choice", json(choice));
            }
        }
        if !anthropic && self.max_tokens > 0 {
            body = body.with("max_tokens", json(&self.max_tokens.into()));
        }
        body
    }
}

fn openai_draft(
    options: &ClientOptions,
    request: &TranslateRequest,
    encoder: &mut PartEncoder,
) -> Result<Draft, ContentPartError> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !has_system_message(&request.messages)
        && let Some(system) = first_given([request.system.as_deref(), Some(&options.system_prompt)])
    {
        messages.push(serde_json::json!({"role": "system", "content": system}));
    }
    for message in request.messages.iter().filter(|message| message.is_object()) {
        messages.push(with_literals_encoded(message, encoder)?);
    }
    Ok(Draft {
        system: String::new(),
        messages: messages.into(),
        tools: request.tools(Style::OpenAI),
        tool_choice: request.tool_choice.clone().filter(|choice| !choice.is_null()),
        max_tokens: request.max_tokens,
    })
}

fn anthropic_draft(
    options: &ClientOptions,
    request: &TranslateRequest,
    encoder: &mut PartEncoder,
) -> Result<Draft, ContentPartError> {
    let read = inbound(&request.messages, encoder)?;
    let systems = [request.system.as_deref(), Some(&read.system), Some(&options.system_prompt)];
    Ok(Draft {
        system: first_given(systems).unwrap_or_default().to_owned(),
        messages: read.messages.into(),
        tools: request.tools(Style::Anthropic),
        tool_choice: request.tool_choice.as_ref().and_then(openai_tool_choice_to_anthropic),
        max_tokens: if request.max_tokens > 0 { request.max_tokens } else { MAX_TOKENS },
    })
}

/// The first system text that says something.
fn first_given<const N: usize>(texts: [Option<&str>; N]) -> Option<&str> {
    texts.into_iter().flatten().find(|text| !text.trim().is_empty())
}

fn json(value: &Value) -> Field<'static> {
    Field::Json(Bytes::from(value.to_string()))
}
