//! The built-in HTTP client, behind the seam.

use std::sync::OnceLock;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use toolnexus_core::BoxFuture;
use toolnexus_core::http::{HttpRequest, HttpResponse, HttpTransport, TransportError};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// [`HttpTransport`] over `reqwest`: system proxies, keep-alive, no redirects.
///
/// Redirects are not followed so that no key and no transcript goes to a host that nobody named.
#[derive(Default)]
pub struct ReqwestTransport {
    client: OnceLock<reqwest::Client>,
}

impl ReqwestTransport {
    fn client(&self) -> Result<reqwest::Client, TransportError> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| describe("no HTTP client could be set up", error))?;
        Ok(self.client.get_or_init(|| client).clone())
    }
}

impl From<reqwest::Client> for ReqwestTransport {
    fn from(client: reqwest::Client) -> Self {
        ReqwestTransport { client: OnceLock::from(client) }
    }
}

impl HttpTransport for ReqwestTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let client = self.client();
        Box::pin(async move {
            let url = reqwest::Url::parse(&request.url)
                .map_err(|error| TransportError::new("the URL cannot be read").with_source(error))?;
            let mut outgoing = reqwest::Request::new(request.method, url);
            *outgoing.headers_mut() = request.headers;
            *outgoing.body_mut() = Some(request.body.into());
            let answer = client?.execute(outgoing).await.map_err(|error| describe("no answer", error))?;
            let (head, body) = http::Response::from(answer).into_parts();
            let body = reqwest::Body::from(body);
            let body = http_body_stream(body).map_err(|error| describe("the answer broke off", error));
            Ok(HttpResponse { status: head.status, headers: head.headers, body: body.boxed() })
        })
    }
}

fn http_body_stream(
    body: reqwest::Body,
) -> impl futures::Stream<Item = Result<bytes::Bytes, reqwest::Error>> + Send {
    http_body_util::BodyExt::into_data_stream(body)
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
