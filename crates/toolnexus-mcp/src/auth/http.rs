//! Requests to authorization servers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use url::{Host, Url};

/// The longest answer that is read.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// A client that follows no redirect, waits no longer than it is told to, and speaks to https
/// addresses and this machine only.
#[derive(Clone)]
pub(super) struct OAuthHttp {
    /// Made when it is needed: many connections find what they need in the store.
    client: Arc<OnceLock<reqwest::Client>>,
    limit: Duration,
}

/// Why a request came to nothing. rmcp puts the text into its own errors.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("not an address to send this to")]
    Insecure,
    #[error("no answer")]
    NoAnswer,
    #[error("took too long")]
    TooLong,
    #[error("an answer that is too long")]
    TooMuch,
}

impl OAuthHttp {
    /// A client for which a request may take as long as `limit`.
    pub(super) fn new(limit: Duration) -> Self {
        OAuthHttp { client: Arc::default(), limit }
    }

    fn client(&self) -> Result<&reqwest::Client, Failed> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("toolnexus/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|_| Failed::NoAnswer)?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Posts a form; `None` when no answer came.
    pub(super) async fn post_form(&self, url: &str, form: &str) -> Option<http::Response<Vec<u8>>> {
        let request = http::Request::post(url)
            .header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(http::header::ACCEPT, "application/json")
            .body(form.as_bytes().to_vec())
            .ok()?;
        self.exchange(request).await.ok()
    }

    async fn exchange(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, Failed> {
        let request = reqwest::Request::try_from(request).map_err(|_| Failed::Insecure)?;
        if !is_secure(request.url()) {
            return Err(Failed::Insecure);
        }
        let exchange = async {
            let response = self.client()?.execute(request).await.map_err(|_| Failed::NoAnswer)?;
            let mut answer = http::Response::new(Vec::new());
            *answer.status_mut() = response.status();
            *answer.headers_mut() = response.headers().clone();
            let mut body = response.bytes_stream();
            while let Some(chunk) = body.next().await {
                let chunk = chunk.map_err(|_| Failed::NoAnswer)?;
                if answer.body().len() + chunk.len() > MAX_BODY_BYTES {
                    return Err(Failed::TooMuch);
                }
                answer.body_mut().extend_from_slice(&chunk);
            }
            Ok(answer)
        };
        tokio::time::timeout(self.limit, exchange).await.map_err(|_| Failed::TooLong)?
    }
}

impl OAuthHttpClient for OAuthHttp {
    // Redirects are not followed whatever is asked: they would carry secrets along.
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move { Ok(self.exchange(request.request).await?) })
    }
}

/// Whether a secret may go to an address: nobody on the way can read it.
pub(super) fn is_secure(url: &Url) -> bool {
    let loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_to_https_and_this_machine() {
        let secure = |url: &str| is_secure(&Url::parse(url).unwrap());
        for url in ["https://a.test/x", "http://localhost:1/x", "http://127.0.0.1/x", "http://[::1]:9/"] {
            assert!(secure(url), "{url}");
        }
        for url in
            ["http://a.test/x", "http://localhost.test/", "http://10.0.0.1/", "javascript:1", "file:///x"]
        {
            assert!(!secure(url), "{url}");
        }
    }
}
