//! The built-in HTTP client, behind the seam.

use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http_body::{Frame, SizeHint};
use toolnexus_core::BoxFuture;
use toolnexus_core::http::{
    Body, HttpRequest, HttpResponse, HttpTransport, TransportError, Url, is_loopback,
};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// [`HttpTransport`] over `reqwest`: system proxies (never for loopback hosts, where local models
/// live), keep-alive, no redirects.
///
/// Redirects are not followed so that no key and no transcript goes to a host that nobody named.
#[derive(Default)]
pub struct ReqwestTransport {
    client: OnceLock<reqwest::Client>,
    /// Goes around proxies.
    direct: OnceLock<reqwest::Client>,
}

impl ReqwestTransport {
    fn client(&self, url: &Url) -> Result<reqwest::Client, TransportError> {
        let direct = is_loopback(url);
        let slot = if direct { &self.direct } else { &self.client };
        if let Some(client) = slot.get() {
            return Ok(client.clone());
        }
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            // A compressed stream arrives in lumps, and model answers are small.
            .no_gzip()
            .no_brotli()
            .no_deflate();
        let client = if direct { builder.no_proxy() } else { builder }
            .build()
            .map_err(|error| describe("no HTTP client could be set up", error))?;
        Ok(slot.get_or_init(|| client).clone())
    }
}

impl From<reqwest::Client> for ReqwestTransport {
    fn from(client: reqwest::Client) -> Self {
        ReqwestTransport { client: OnceLock::from(client.clone()), direct: OnceLock::from(client) }
    }
}

impl HttpTransport for ReqwestTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let client = self.client(&request.url);
        Box::pin(async move {
            let mut outgoing = reqwest::Request::new(request.method, request.url);
            *outgoing.headers_mut() = request.headers;
            *outgoing.body_mut() = Some(outgoing_body(request.body));
            let answer = client?.execute(outgoing).await.map_err(|error| describe("no answer", error))?;
            let (head, body) = http::Response::from(answer).into_parts();
            let body = http_body_stream(body).map_err(|error| describe("the answer broke off", error));
            Ok(HttpResponse { status: head.status, headers: head.headers, body: body.boxed() })
        })
    }
}

fn http_body_stream(
    body: reqwest::Body,
) -> impl futures::Stream<Item = Result<Bytes, reqwest::Error>> + Send {
    http_body_util::BodyExt::into_data_stream(body)
}

/// One piece goes as it is; several are written one after the other, under their common length.
fn outgoing_body(body: Body) -> reqwest::Body {
    match <[Bytes; 1]>::try_from(body.into_pieces()) {
        Ok([single]) => single.into(),
        Err(pieces) => {
            let left = pieces.iter().map(|piece| piece.len() as u64).sum();
            reqwest::Body::wrap(Pieces { pieces: pieces.into_iter(), left })
        }
    }
}

struct Pieces {
    pieces: std::vec::IntoIter<Bytes>,
    left: u64,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = self.pieces.next();
        self.left -= next.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Says what happened without the URL, which `reqwest` would print with its query.
fn describe(what: &str, error: reqwest::Error) -> TransportError {
    let error = error.without_url();
    let cause = root_cause(&error);
    let text = if error.is_timeout() {
        format!("{what}: timed out")
    } else if error.is_connect() {
        format!("could not connect: {cause}")
    } else {
        format!("{what}: {cause}")
    };
    TransportError::new(text).with_source(error)
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    // CLIENT-13: a local model is reached directly, whatever the proxy variables say
    #[test]
    fn loopback_hosts_are_known() {
        for (url, expected) in [
            ("http://localhost:11434/v1", true),
            ("http://127.0.0.1:8080/v1", true),
            ("http://[::1]:8080/v1", true),
            ("http://model.localhost/v1", true),
            ("https://api.openai.com/v1", false),
            ("http://localhost.evil.test/v1", false),
            ("http://192.168.1.7/v1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
