//! The seam through which model requests leave the process.
//!
//! A host that routes, records or fakes model traffic implements [`HttpTransport`]; everything
//! above it (retries, deadlines, error classification) stays the same.

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;
use url::Host;

use crate::{BoxError, BoxFuture};

pub use ::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
pub use ::url::Url;

/// One request.
#[derive(Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The absolute URL.
    pub url: Url,
    /// All headers, the credential among them: `Debug` shows none of their values.
    pub headers: HeaderMap,
    /// The body, already serialised.
    pub body: Body,
    /// Fires when nobody waits for the answer any more.
    pub cancel: CancellationToken,
}

impl std::fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("headers", &self.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A request body: pieces that are sent one after the other.
///
/// Large pieces (a long conversation, many tools) are shared between requests, never copied into
/// each.
///
/// ```
/// use toolnexus_core::http::Body;
/// let body: Body = ["{\"a\":", "1}"].into_iter().collect();
/// assert_eq!((body.len(), &body.to_bytes()[..]), (7, &b"{\"a\":1}"[..]));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Body {
    pieces: Vec<Bytes>,
}

impl Body {
    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// The pieces in order, for a sender that takes them over.
    pub fn into_pieces(self) -> Vec<Bytes> {
        self.pieces
    }

    /// The whole body in one piece; copies unless it is one already.
    pub fn to_bytes(&self) -> Bytes {
        match self.pieces.as_slice() {
            [] => Bytes::new(),
            [single] => single.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

impl<B: Into<Bytes>> FromIterator<B> for Body {
    fn from_iter<I: IntoIterator<Item = B>>(pieces: I) -> Self {
        Body { pieces: pieces.into_iter().map(Into::into).collect() }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body { pieces: vec![bytes] }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({} bytes)", self.len())
    }
}

/// One response: its head, and a body that arrives piece by piece.
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body's pieces, in order, as they arrive.
    pub body: BoxStream<'static, Result<Bytes, TransportError>>,
}

impl HttpResponse {
    /// A response whose body is already there.
    pub fn full(status: StatusCode, headers: HeaderMap, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        HttpResponse { status, headers, body: futures::stream::iter([Ok(body)]).boxed() }
    }

    /// Reads the whole body, at most `limit` bytes.
    ///
    /// # Errors
    /// The transport's error, or [`TransportError`] saying that the body is over the limit.
    pub async fn collect(mut self, limit: usize) -> Result<Bytes, TransportError> {
        let Some(first) = self.body.next().await.transpose()? else { return Ok(Bytes::new()) };
        // Most bodies come in one piece, which is then handed on without a copy.
        let Some(second) = self.body.next().await.transpose()? else {
            return if first.len() > limit { Err(TransportError::too_large(limit)) } else { Ok(first) };
        };
        let mut whole = Vec::with_capacity((first.len() + second.len()) * 2);
        whole.extend_from_slice(&first);
        let mut next = Some(second);
        while let Some(piece) = next {
            if whole.len() + piece.len() > limit {
                return Err(TransportError::too_large(limit));
            }
            whole.extend_from_slice(&piece);
            next = self.body.next().await.transpose()?;
        }
        Ok(whole.into())
    }
}

impl std::fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Why no answer, or no whole answer, came.
///
/// The text never holds a URL, header or body: HTTP libraries print those, so an implementation
/// must say what happened in its own words and keep the library's error as the source.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    message: String,
    over_limit: bool,
    #[source]
    source: Option<BoxError>,
}

impl TransportError {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        TransportError { message: message.into(), over_limit: false, source: None }
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What caused it.
    ///
    /// # Errors
    /// The error itself when it has no source.
    pub fn into_source(self) -> Result<BoxError, Self> {
        let TransportError { message, over_limit, source } = self;
        source.ok_or(TransportError { message, over_limit, source: None })
    }

    /// Whether a whole answer was refused for its size: another attempt would bring it again.
    pub const fn is_over_limit(&self) -> bool {
        self.over_limit
    }

    fn too_large(limit: usize) -> Self {
        let message = format!("the response body is over the limit of {limit} bytes");
        TransportError { message, over_limit: true, source: None }
    }
}

/// Whether a URL points at this machine: `localhost`, names below it, loopback addresses.
///
/// ```
/// use toolnexus_core::http::{Url, is_loopback};
/// assert!(is_loopback(&Url::parse("http://[::1]:11434/v1").unwrap()));
/// ```
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Sends requests and returns responses.
///
/// `Err` means that no HTTP answer was obtained; an answer of any status is `Ok`. A body must be
/// handed on as it arrives. An implementation should stop when the request's `cancel` fires; the
/// caller stops waiting in any case.
///
/// ```
/// use toolnexus_core::BoxFuture;
/// use toolnexus_core::http::{HttpRequest, HttpResponse, HttpTransport, StatusCode, TransportError};
///
/// struct Canned;
/// impl HttpTransport for Canned {
///     fn send(&self, _request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
///         Box::pin(async { Ok(HttpResponse::full(StatusCode::OK, Default::default(), "{}")) })
///     }
/// }
/// ```
pub trait HttpTransport: Send + Sync {
    /// Sends one request; resolves when the response's head has arrived.
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>>;
}
