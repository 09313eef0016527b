//! Which models a provider has.
//!
//! One request for each page of the list, sent as every other request is: the same key rules,
//! headers and HTTP client. There are no retries; whoever lists models is there to ask again.

use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolnexus_core::Style;
use toolnexus_core::http::{Body, HttpRequest, Method, Url};
use toolnexus_core::json::repair_surrogates;

use crate::endpoint::Endpoint;
use crate::{Client, ClientError, ClientOptions, ProviderError, create_client};

/// The most pages of a list that are asked for.
const MOST_PAGES: usize = 100;

/// How large a page may be: as large as any answer that is read as a whole.
const PAGE_LIMIT: usize = 64 * 1024 * 1024;

/// What OpenAI-like servers call the size of the context; OpenAI itself does not tell it.
const CONTEXT_LENGTH_KEYS: [&str; 4] =
    ["context_length", "context_window", "max_model_len", "max_context_length"];

/// A model that a provider has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// What [`ClientOptions::model`] is set to.
    pub id: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many tokens the model's context holds. Of the OpenAI dialect the first that is there of
    /// `context_length`, `context_window`, `max_model_len` and `max_context_length`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
}

/// The models that a provider has, sorted by id. No [`model`](ClientOptions::model) is needed.
///
/// `timeout_ms` bounds the call as a whole; dropping its future ends it. At most 100 pages are read.
///
/// ```no_run
/// use toolnexus_llm::{ClientOptions, list_models};
/// # async fn example() -> Result<(), toolnexus_llm::ClientError> {
/// let options = ClientOptions { base_url: "https://api.openai.com/v1".into(), ..Default::default() };
/// for model in list_models(&options).await? {
///     println!("{}", model.id);
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// Options that cannot be used, a provider's error, a broken connection, an answer that is no list
/// of models, the deadline.
pub async fn list_models(options: &ClientOptions) -> Result<Vec<ModelInfo>, ClientError> {
    create_client(options.clone()).list_models().await
}

impl Client {
    /// [`list_models`] with this client's options and connections.
    ///
    /// # Errors
    /// As [`list_models`].
    pub async fn list_models(&self) -> Result<Vec<ModelInfo>, ClientError> {
        self.bounded(None, |cancel| Box::pin(self.every_page(cancel))).await
    }

    async fn every_page(&self, cancel: CancellationToken) -> Result<Vec<ModelInfo>, ClientError> {
        let style = self.options().style;
        if self.inner().in_process.is_some() {
            return Err(ClientError::Unsupported(
                "a model in this process has no list of models: it is the function it was made of".into(),
            ));
        }
        let endpoint = Endpoint::of_provider(self.options(), false)?;
        let first = first_page(&endpoint, style);
        let mut models = Vec::new();
        let mut after: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let url = match &after {
                None => first.clone(),
                Some(mark) => following_page(&first, style, mark),
            };
            let page = self.page(&endpoint, url, cancel.clone()).await?;
            models.extend(page.models);
            // A mark that leads to itself would lead on for ever.
            if page.next.is_none() || page.next == after {
                return Ok(sorted(models));
            }
            after = page.next;
        }
        tracing::warn!("[toolnexus] the list of models is cut: it has more than {MOST_PAGES} pages");
        Ok(sorted(models))
    }

    async fn page(
        &self,
        endpoint: &Endpoint,
        url: Url,
        cancel: CancellationToken,
    ) -> Result<Page, ClientError> {
        let no_answer = |source| ClientError::Transport {
            context: format!("the model at {} gave no answer", endpoint.origin),
            source,
        };
        let request = HttpRequest {
            method: Method::GET,
            url,
            headers: endpoint.headers.clone(),
            body: Body::default(),
            cancel,
        };
        let response = self.inner().transport.send(request).await.map_err(no_answer)?;
        if !response.status.is_success() {
            let error = ProviderError::read(response, endpoint.secret.expose_secret()).await;
            return Err(ClientError::Provider(error));
        }
        let body = response.collect(PAGE_LIMIT).await.map_err(|error| {
            if error.is_over_limit() {
                ClientError::InvalidResponse(format!("the list of models cannot be read: {error}"))
            } else {
                no_answer(error)
            }
        })?;
        Page::read(self.options().style, &body).map_err(|problem| endpoint.unreadable(&problem, &body))
    }
}

/// The list lies beside where requests go.
fn first_page(endpoint: &Endpoint, style: Style) -> Url {
    let mut url = endpoint.url("-", false);
    if let Ok(mut path) = url.path_segments_mut() {
        match style {
            // …/chat/completions, …/models/-:generateContent
            Style::OpenAI | Style::Gemini => path.pop().pop(),
            // …/messages
            Style::Anthropic => path.pop(),
        };
        path.push("models");
    }
    if style == Style::Gemini {
        url.query_pairs_mut().append_pair("pageSize", "1000");
    }
    url
}

fn following_page(first: &Url, style: Style, mark: &str) -> Url {
    let mut url = first.clone();
    let parameter = match style {
        Style::Gemini => "pageToken",
        Style::OpenAI | Style::Anthropic => "after_id",
    };
    url.query_pairs_mut().append_pair(parameter, mark);
    url
}

fn sorted(mut models: Vec<ModelInfo>) -> Vec<ModelInfo> {
    models.sort_by(|a, b| a.id.cmp(&b.id));
    models
}

/// A page of the list.
struct Page {
    models: Vec<ModelInfo>,
    /// Leads to the next page, if there is one.
    next: Option<String>,
}

impl Page {
    fn read(style: Style, body: &[u8]) -> Result<Self, String> {
        let page: Value =
            serde_json::from_slice(&repair_surrogates(body)).map_err(|error| format!("not JSON: {error}"))?;
        let key = if style == Style::Gemini { "models" } else { "data" };
        let entries = match (style, page.get(key), &page) {
            (_, Some(Value::Array(entries)), _) => entries,
            // As some servers of the OpenAI dialect send it.
            (Style::OpenAI, None, Value::Array(entries)) => entries,
            _ => return Err(format!("it has no array \"{key}\"")),
        };
        let next = match style {
            Style::OpenAI => None,
            Style::Anthropic if page.get("has_more").and_then(Value::as_bool) == Some(true) => {
                text(&page, "last_id")
            }
            Style::Anthropic => None,
            Style::Gemini => text(&page, "nextPageToken"),
        };
        Ok(Page { models: entries.iter().filter_map(|entry| model(style, entry)).collect(), next })
    }
}

/// An entry of the list, unless it has no id.
fn model(style: Style, entry: &Value) -> Option<ModelInfo> {
    let (id, name, context_length) = match style {
        Style::OpenAI => ("id", "name", CONTEXT_LENGTH_KEYS.as_slice()),
        Style::Anthropic => ("id", "display_name", CONTEXT_LENGTH_KEYS.as_slice()),
        Style::Gemini => ("name", "displayName", ["inputTokenLimit"].as_slice()),
    };
    let mut id = text(entry, id)?;
    if style == Style::Gemini
        && let Some(short) = id.strip_prefix("models/")
    {
        id = short.to_owned();
    }
    (!id.is_empty()).then(|| ModelInfo {
        id,
        name: text(entry, name),
        context_length: context_length.iter().find_map(|key| entry.get(key).and_then(count)),
    })
}

/// Text that says something.
fn text(object: &Value, key: &str) -> Option<String> {
    object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A whole number of tokens; 0 stands for one that is not known.
fn count(value: &Value) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let rounded = |number: f64| number as u64;
    value.as_u64().or_else(|| value.as_f64().map(rounded)).filter(|count| *count > 0)
}
