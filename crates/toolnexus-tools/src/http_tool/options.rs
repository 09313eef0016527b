//! The declaration of an HTTP tool.

use std::str::FromStr;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolnexus_core::ToolContext;
use url::Url;

use super::request::{InvalidCall, prepare};
use crate::HostPolicy;
use crate::outbound::shown_url;

/// The declaration of an HTTP tool; see [`http_tool`](crate::http_tool). Only `name` and `url` must be
/// given.
///
/// `Debug` shows header names without their values, and no user, password or query of the URL.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpToolOptions {
    /// The name the model calls. Providers accept 1 to 64 of `A-Z`, `a-z`, `0-9`, `_`, `-`.
    pub name: String,
    /// What the model reads about the tool.
    pub description: String,
    /// The method, in any case. Empty: `GET`.
    pub method: String,
    /// An absolute `http` or `https` URL. `{name}`, of `A-Z`, `a-z`, `0-9`, `_`, `.`, `~` and `-`, is
    /// replaced by that argument, percent-encoded; in the host it takes a single label (`eu` in
    /// `https://{region}.api.example.com`). A placeholder without its argument stays as it is.
    pub url: String,
    /// Headers of each request; `${NAME}` in a value is that environment variable, read at the call.
    pub headers: IndexMap<String, String>,
    /// Arguments that go into the query, in this order. `GET` and `HEAD` put all that is left there
    /// too, sorted by name.
    pub query: Vec<String>,
    /// How the remaining arguments are sent, with methods other than `GET` and `HEAD`.
    pub body: HttpBody,
    /// The JSON schema of the arguments. `None`: `{"type":"object"}`.
    pub input_schema: Option<Value>,
    /// The limit of a whole call in milliseconds, redirects and body included; a call's own limit
    /// comes first. 0: 30,000.
    pub timeout_ms: u64,
    /// What the model gets to read.
    pub result_mode: ResultMode,
    /// The most of a response that is read, in bytes after decompression; what is cut says so.
    /// 0: 1 MiB.
    pub max_response_bytes: u64,
    /// Which hosts may be reached. Default: all.
    pub hosts: HostPolicy,
    /// The header that carries [`ToolContext::idempotency_key`], when a call has one: for endpoints
    /// that recognise a repeated request.
    ///
    /// [`ToolContext::idempotency_key`]: toolnexus_core::ToolContext::idempotency_key
    pub idempotency_header: Option<String>,
}

/// The most of a response that is read by default.
const DEFAULT_RESPONSE_BYTES: u64 = 1024 * 1024;

/// How long a call may take by default, in milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 30_000;

impl HttpToolOptions {
    /// The URL that a call with these arguments requests first, without user and password: for a
    /// permission gate that wants to show it. Opens no connection.
    ///
    /// # Errors
    /// What the call would fail with.
    ///
    /// ```
    /// use toolnexus_tools::HttpToolOptions;
    /// let options = HttpToolOptions { url: "https://h.example/users/{id}".into(), ..Default::default() };
    /// let args = serde_json::json!({"id": "a b", "full": true});
    /// let url = options.url_for(args.as_object().unwrap()).unwrap();
    /// assert_eq!(url.as_str(), "https://h.example/users/a%20b?full=true");
    /// ```
    pub fn url_for(&self, arguments: &Map<String, Value>) -> Result<Url, InvalidCall> {
        prepare(self, arguments.clone(), &ToolContext::default()).map(|prepared| prepared.url)
    }

    pub(super) fn response_limit(&self) -> usize {
        let limit =
            if self.max_response_bytes == 0 { DEFAULT_RESPONSE_BYTES } else { self.max_response_bytes };
        usize::try_from(limit).unwrap_or(usize::MAX)
    }

    pub(super) const fn own_timeout_ms(&self) -> u64 {
        if self.timeout_ms == 0 { DEFAULT_TIMEOUT_MS } else { self.timeout_ms }
    }
}

impl std::fmt::Debug for HttpToolOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpToolOptions")
            .field("name", &self.name)
            .field("method", &self.method)
            .field("url", &shown_url(&self.url))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("query", &self.query)
            .field("body", &self.body)
            .field("timeout_ms", &self.timeout_ms)
            .field("result_mode", &self.result_mode)
            .field("max_response_bytes", &self.max_response_bytes)
            .field("hosts", &self.hosts)
            .field("idempotency_header", &self.idempotency_header)
            .finish_non_exhaustive()
    }
}

/// How the arguments that neither URL nor query took are sent.
///
/// ```
/// use toolnexus_tools::HttpBody;
/// assert_eq!("form".parse(), Ok(HttpBody::Form));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpBody {
    /// A JSON object with sorted keys.
    #[default]
    Json,
    /// `application/x-www-form-urlencoded`, sorted by name, without `null` ones.
    Form,
    /// The text of the argument `body`, else of the first one by name.
    Raw,
}

impl HttpBody {
    /// The spelling in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            HttpBody::Json => "json",
            HttpBody::Form => "form",
            HttpBody::Raw => "raw",
        }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            HttpBody::Json => "application/json",
            HttpBody::Form => "application/x-www-form-urlencoded",
            HttpBody::Raw => "text/plain",
        }
    }
}

/// What the output of a successful call is.
///
/// ```
/// use toolnexus_tools::ResultMode;
/// assert_eq!("status+text".parse(), Ok(ResultMode::StatusText));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ResultMode {
    /// The body.
    #[default]
    #[serde(rename = "text")]
    Text,
    /// The body as compact JSON with sorted keys; what is no JSON stays as it is.
    #[serde(rename = "json")]
    Json,
    /// A line with the status, then the body.
    #[serde(rename = "status+text")]
    StatusText,
}

impl ResultMode {
    /// The spelling in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            ResultMode::Text => "text",
            ResultMode::Json => "json",
            ResultMode::StatusText => "status+text",
        }
    }
}

/// A word that is no [`HttpBody`] or [`ResultMode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} \"{given}\": use {known}")]
pub struct UnknownOption {
    what: &'static str,
    given: String,
    known: &'static str,
}

impl FromStr for HttpBody {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, UnknownOption> {
        let all = [HttpBody::Json, HttpBody::Form, HttpBody::Raw];
        all.into_iter().find(|body| body.as_str() == text).ok_or_else(|| UnknownOption {
            what: "body",
            given: text.to_owned(),
            known: "json, form or raw",
        })
    }
}

impl FromStr for ResultMode {
    type Err = UnknownOption;

    fn from_str(text: &str) -> Result<Self, UnknownOption> {
        let all = [ResultMode::Text, ResultMode::Json, ResultMode::StatusText];
        all.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| UnknownOption {
            what: "result mode",
            given: text.to_owned(),
            known: "text, json or status+text",
        })
    }
}
