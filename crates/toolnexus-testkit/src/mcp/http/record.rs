//! What the HTTP fixture has received.

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use serde_json::Value;

/// A request as it came.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedHttpRequest {
    /// The HTTP method.
    pub method: String,
    /// The path, with the query if there is one.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, verbatim.
    pub body: Bytes,
    /// The body as JSON; `null` when it is none.
    pub json: Value,
    /// Whether the client has gone away before it had the whole response.
    pub abandoned: bool,
}

impl RecordedHttpRequest {
    pub(super) fn new(parts: &Parts, body: Bytes) -> Self {
        Self {
            method: parts.method.to_string(),
            path: parts.uri.path_and_query().map_or("", |path| path.as_str()).to_owned(),
            headers: parts.headers.clone(),
            json: serde_json::from_slice(&body).unwrap_or_default(),
            body,
            abandoned: false,
        }
    }

    /// The JSON-RPC method of the message.
    #[must_use]
    pub fn rpc_method(&self) -> Option<&str> {
        self.json.get("method")?.as_str()
    }

    /// The first value of a header, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}
