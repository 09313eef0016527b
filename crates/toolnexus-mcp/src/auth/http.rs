//! Requests to authorization servers.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use toolnexus_core::http::is_loopback;
use url::{Host, Url};

/// The longest answer that is read.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// A client that follows no redirect, waits no longer than it is told to, and speaks to https
/// addresses only. A server elsewhere cannot send it to this machine or to its link, where addresses
/// may answer that are nobody's business; one on this machine may name others here, without https.
#[derive(Clone)]
pub(super) struct OAuthHttp {
    /// Made when it is needed: many connections find what they need in the store.
    client: Arc<OnceLock<reqwest::Client>>,
    limit: Duration,
    /// Whether the server that is signed in to is on this machine.
    local: bool,
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
    /// A client for the sign-in to a server; a request may take as long as `limit`.
    pub(super) fn new(resource: &Url, limit: Duration) -> Self {
        OAuthHttp { client: Arc::default(), limit, local: is_loopback(resource) }
    }

    /// Whether a server's word is enough to go to an address.
    pub(super) fn may_reach(&self, url: &Url) -> bool {
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            _ => None,
        };
        is_secure(url) && (self.local || !(is_loopback(url) || literal.is_some_and(is_near)))
    }

    fn client(&self) -> Result<&reqwest::Client, Failed> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("toolnexus/", env!("CARGO_PKG_VERSION")));
        if !self.local {
            builder = builder.dns_resolver(Arc::new(Elsewhere));
        }
        let client = builder.build().map_err(|_| Failed::NoAnswer)?;
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
        if !self.may_reach(request.url()) {
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

/// Finds addresses elsewhere: names that lead to this machine or its link are not found.
struct Elsewhere;

impl reqwest::dns::Resolve for Elsewhere {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let elsewhere: Vec<SocketAddr> = found.filter(|address| !is_near(address.ip())).collect();
            Ok(Box::new(elsewhere.into_iter()) as reqwest::dns::Addrs)
        })
    }
}

/// Whether an address is this machine's or its link's. Networks of a company are not near: their
/// authorization servers are where everybody signs in.
fn is_near(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_link_local() || address.is_unspecified(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unicast_link_local() || address.is_unspecified()
        }
    }
}

/// Whether a secret may go to an address: nobody on the way can read it.
pub(super) fn is_secure(url: &Url) -> bool {
    url.has_host() && (url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_elsewhere_leads_to_no_address_here() {
        let reach = |from: &str, to: &str| {
            let http = OAuthHttp::new(&Url::parse(from).unwrap(), Duration::from_secs(1));
            http.may_reach(&Url::parse(to).unwrap())
        };
        let (far, near) = ("https://a.test/mcp", "http://127.0.0.1:1/mcp");
        for to in ["https://as.test/token", "https://10.0.0.9/token"] {
            assert!(reach(far, to) && reach(near, to), "{to}");
        }
        let here =
            ["http://127.0.0.1:2/token", "https://localhost/token", "https://[::1]/", "https://0.0.0.0/"];
        for to in here.into_iter().chain(["https://169.254.169.254/", "https://[::ffff:127.0.0.1]/"]) {
            assert!(!reach(far, to), "{to}");
        }
        assert!(reach(near, here[0]));
        assert!(!reach(near, "http://as.test/token"));
    }

    #[tokio::test]
    async fn names_that_lead_here_are_not_found() {
        use reqwest::dns::Resolve as _;
        let found = Elsewhere.resolve("localhost".parse().unwrap()).await;
        assert_eq!(found.map_or(0, Iterator::count), 0);
    }

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
