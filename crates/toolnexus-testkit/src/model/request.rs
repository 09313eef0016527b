//! A request exactly as it arrived.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A request as the server received it: the bytes of its head and of its body.
///
/// Clones share the bytes.
///
/// ```no_run
/// # async fn example(server: toolnexus_testkit::model::ModelServer) {
/// let requests = server.wait_for_requests(1).await;
/// let request = &requests[0];
/// assert_eq!(request.method(), "POST");
/// assert_eq!(request.path(), "/v1/chat/completions");
/// assert_eq!(request.header("authorization"), Some("Bearer sk-test"));
/// assert_eq!(request.json()["messages"][0]["content"], "hi");
/// # }
/// ```
#[derive(Clone)]
pub struct RecordedRequest {
    inner: Arc<Inner>,
}

struct Inner {
    index: usize,
    connection: usize,
    method: String,
    path: String,
    head: Bytes,
    body: Bytes,
    headers: OnceLock<Vec<(String, String)>>,
}

impl RecordedRequest {
    pub(crate) fn new(
        index: usize,
        connection: usize,
        method: String,
        path: String,
        head: Bytes,
        body: Bytes,
    ) -> Self {
        let headers = OnceLock::new();
        Self { inner: Arc::new(Inner { index, connection, method, path, head, body, headers }) }
    }

    /// Position in order of arrival, from 0. A request has arrived when its body is complete.
    pub fn index(&self) -> usize {
        self.inner.index
    }

    /// Which connection it came on, from 0 in order of acceptance. Two requests with the same
    /// number shared a kept-alive connection.
    pub fn connection(&self) -> usize {
        self.inner.connection
    }

    /// The method as sent, `POST`.
    pub fn method(&self) -> &str {
        &self.inner.method
    }

    /// The request target as sent: path and query, `/v1/models?after_id=x`.
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// The exact bytes of the head, from the request line to the empty line inclusive.
    pub fn head(&self) -> &Bytes {
        &self.inner.head
    }

    /// All headers in the order and spelling in which they were sent, repeated ones included.
    /// Bytes that are not UTF-8 appear as replacement characters; [`head`](Self::head) has them.
    pub fn headers(&self) -> &[(String, String)] {
        self.inner.headers.get_or_init(|| {
            let head = String::from_utf8_lossy(&self.inner.head);
            head.split("\r\n")
                .skip(1)
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
                .collect()
        })
    }

    /// The first header of this name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers().iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The exact bytes of the body (without chunk framing, if it was sent chunked).
    pub fn body(&self) -> &Bytes {
        &self.inner.body
    }

    /// The body as text; bytes that are not UTF-8 appear as replacement characters.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.inner.body).into_owned()
    }

    /// The body as JSON, [`Value::Null`] when it is not JSON. Key order is kept.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.inner.body).unwrap_or(Value::Null)
    }

    /// The body decoded into a type.
    ///
    /// # Errors
    /// When the body is not JSON or not of this shape.
    pub fn json_as<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.inner.body)
    }

    /// What the request says about streaming, without building the whole document.
    pub(crate) fn wants(&self) -> Wants {
        #[derive(Deserialize, Default)]
        struct Probe {
            #[serde(default)]
            stream: Option<bool>,
            #[serde(default)]
            stream_options: Option<Options>,
        }
        #[derive(Deserialize, Default)]
        struct Options {
            #[serde(default)]
            include_usage: Option<bool>,
        }
        // Gemini says it in the path, the others in the body.
        if self.inner.path.contains(":streamGenerateContent") {
            return Wants { stream: true, usage: true };
        }
        let probe: Probe = serde_json::from_slice(&self.inner.body).unwrap_or_default();
        Wants {
            stream: probe.stream.unwrap_or_default(),
            usage: probe.stream_options.and_then(|o| o.include_usage).unwrap_or_default(),
        }
    }
}

/// The form of answer that a request asks for.
#[derive(Clone, Copy)]
pub(crate) struct Wants {
    pub(crate) stream: bool,
    /// `stream_options.include_usage` of the OpenAI dialect.
    pub(crate) usage: bool,
}

impl std::fmt::Debug for RecordedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Header values hold keys; a failing assertion must not print them.
        f.debug_struct("RecordedRequest")
            .field("index", &self.inner.index)
            .field("method", &self.inner.method)
            .field("path", &self.inner.path)
            .field("body", &self.text())
            .finish_non_exhaustive()
    }
}
