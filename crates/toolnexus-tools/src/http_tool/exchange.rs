//! One call over the network: policy, redirects, limits.

use std::collections::VecDeque;
use std::error::Error;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Method, StatusCode, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use tokio::runtime;
use toolnexus_core::ToolContext;
use toolnexus_core::http::is_loopback;
use url::Url;

use super::HttpToolOptions;
use super::request::Prepared;
use crate::HostPolicy;
use crate::host_policy::{CheckedResolver, CompiledHostPolicy, InvalidHostPattern, Unresolved, address_of};

/// The most redirects of one call.
const MAX_REDIRECTS: usize = 10;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failed {
    Timeout,
    Dns,
    Connect,
    Transport,
    Cancelled,
    /// The status came, the body did not, for this reason.
    Body(StatusCode, &'static str),
    /// This host may not be reached.
    Denied(String),
    /// The declaration is at fault, in these words.
    Declaration(String),
}

impl Failed {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Failed::Timeout => "timeout",
            Failed::Dns => "dns",
            Failed::Connect => "connect-failed",
            Failed::Transport => "transport",
            Failed::Cancelled => "cancelled",
            Failed::Body(_, kind) => kind,
            Failed::Denied(_) => "denied",
            Failed::Declaration(_) => "declaration",
        }
    }

    fn of(error: &reqwest::Error, host: &str) -> Self {
        let mut chain = std::iter::successors(error.source(), |&error| error.source());
        match chain.find_map(|error| error.downcast_ref::<Unresolved>()) {
            Some(Unresolved::Denied) => return Failed::Denied(host.to_owned()),
            Some(Unresolved::Unknown(_)) => return Failed::Dns,
            None => {}
        }
        if error.is_timeout() {
            Failed::Timeout
        } else if error.is_connect() {
            Failed::Connect
        } else {
            Failed::Transport
        }
    }
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Set to the limit where there was more.
    pub(super) cut_at: Option<usize>,
}

/// Carries out calls under one policy.
pub(super) struct Exchange {
    policy: Result<Arc<CompiledHostPolicy>, InvalidHostPattern>,
    /// The connections of this policy alone: what was checked for one is not checked for another.
    own: Pool,
}

/// Every tool without a policy shares these.
static UNRESTRICTED: Pool = Pool::new();

/// How many runtimes are remembered. Programs have one; test suites have many, one after the other.
const RUNTIMES: usize = 4;

/// The clients of each runtime: a connection is driven by the runtime that opened it, so another one
/// would wait on it in vain.
struct Pool(Mutex<VecDeque<(runtime::Id, Arc<Clients>)>>);

impl Pool {
    const fn new() -> Self {
        Pool(Mutex::new(VecDeque::new()))
    }

    fn get(&self, policy: &Arc<CompiledHostPolicy>) -> Result<Arc<Clients>, Failed> {
        let here = runtime::Handle::current().id();
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, clients)) = pool.iter().find(|(of, _)| *of == here) {
            return Ok(Arc::clone(clients));
        }
        let clients = Arc::new(Clients::new(Arc::clone(policy))?);
        pool.truncate(RUNTIMES - 1);
        pool.push_front((here, Arc::clone(&clients)));
        Ok(clients)
    }
}

struct Clients {
    /// Connects to the addresses that the policy has seen, around proxies.
    direct: reqwest::Client,
    /// Through the system's proxies, which resolve names themselves.
    proxied: reqwest::Client,
    proxies: Matcher,
}

impl Clients {
    fn new(policy: Arc<CompiledHostPolicy>) -> Result<Self, Failed> {
        let builder = || {
            reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .tcp_nodelay(true)
                .user_agent(concat!("toolnexus/", env!("CARGO_PKG_VERSION")))
        };
        let direct = builder().no_proxy().dns_resolver(Arc::new(CheckedResolver(policy))).build();
        let (direct, proxied) =
            direct.and_then(|direct| Ok((direct, builder().build()?))).map_err(|_| Failed::Transport)?;
        Ok(Clients { direct, proxied, proxies: Matcher::from_system() })
    }

    fn goes_through_proxy(&self, url: &Url) -> bool {
        // A proxy cannot reach the caller's loopback.
        !is_loopback(url)
            && url.as_str().parse::<Uri>().is_ok_and(|uri| self.proxies.intercept(&uri).is_some())
    }
}

impl Exchange {
    pub(super) fn new(policy: &HostPolicy) -> Self {
        Exchange { policy: policy.compile().map(Arc::new), own: Pool::new() }
    }

    /// Sends a request and reads what comes back, within the limits of tool and call.
    pub(super) async fn run(
        &self,
        options: &HttpToolOptions,
        prepared: Prepared,
        context: &ToolContext,
    ) -> Result<Answer, Failed> {
        let policy = self.policy.as_ref().map_err(|bad| {
            Failed::Declaration(format!(
                "invalid host pattern \"{}\" for tool \"{}\"",
                bad.pattern, options.name
            ))
        })?;
        let pool = if policy.is_empty() { &UNRESTRICTED } else { &self.own };
        let clients = pool.get(policy)?;
        let limit = Duration::from_millis(context.timeout_ms.unwrap_or(options.own_timeout_ms()));
        let exchange = exchange(&clients, policy, prepared, options.response_limit());
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => Err(Failed::Cancelled),
            outcome = within(limit, exchange) => outcome,
        }
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Failed::Timeout))
}

async fn exchange(
    clients: &Clients,
    policy: &CompiledHostPolicy,
    mut request: Prepared,
    limit: usize,
) -> Result<Answer, Failed> {
    let mut redirects = 0;
    loop {
        let response = send(clients, policy, &request).await?;
        let next = if redirects < MAX_REDIRECTS { redirected(&request, &response) } else { None };
        match next {
            // The body of a redirect that is followed is nobody's.
            Some(next) => request = next,
            None => return read(response, limit).await,
        }
        redirects += 1;
    }
}

async fn send(
    clients: &Clients,
    policy: &CompiledHostPolicy,
    request: &Prepared,
) -> Result<reqwest::Response, Failed> {
    let host = request.url.host_str().unwrap_or_default();
    let proxied = clients.goes_through_proxy(&request.url);
    // A name that is to be resolved is checked with its addresses, by whoever resolves it.
    let known = proxied || address_of(host).is_some();
    if (known && !policy.permits_name(host)) || policy.denies_name(host) {
        return Err(Failed::Denied(host.to_owned()));
    }
    let client = if proxied { &clients.proxied } else { &clients.direct };
    let mut outgoing = reqwest::Request::new(request.method.clone(), request.url.clone());
    outgoing.headers_mut().clone_from(&request.headers);
    if let Some(body) = &request.body {
        *outgoing.body_mut() = Some(body.clone().into());
    }
    client.execute(outgoing).await.map_err(|error| Failed::of(&error, host))
}

/// The request that a redirect asks for; `None` if there is none, or none that is followed.
fn redirected(request: &Prepared, response: &reqwest::Response) -> Option<Prepared> {
    let status = response.status();
    let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let moves = matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER);
    if !keeps_method && !moves {
        return None;
    }
    let location = std::str::from_utf8(response.headers().get(LOCATION)?.as_bytes()).ok()?;
    let mut url = request.url.join(location).ok()?;
    // What a server puts there would be sent as credentials.
    url.set_username("").and_then(|()| url.set_password(None)).ok()?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return None;
    }
    let reads = matches!(request.method, Method::GET | Method::HEAD);
    let same_origin = url.origin() == request.url.origin();
    let downgrades = request.url.scheme() == "https" && url.scheme() == "http";
    if !same_origin && (!reads || downgrades) {
        return None;
    }
    let mut headers = if same_origin { request.headers.clone() } else { HeaderMap::new() };
    if reads || keeps_method {
        let (method, body) = (request.method.clone(), request.body.clone());
        return Some(Prepared { method, url, headers, body });
    }
    headers.remove(CONTENT_TYPE);
    Some(Prepared { method: Method::GET, url, headers, body: None })
}

/// Reads the body, of which no more than `limit` bytes are kept. What is left unread closes its
/// connection.
async fn read(response: reqwest::Response, limit: usize) -> Result<Answer, Failed> {
    let (status, headers) = (response.status(), response.headers().clone());
    let host = response.url().host_str().unwrap_or_default().to_owned();
    let mut pieces = response.bytes_stream();
    let mut body = Vec::new();
    let mut cut_at = None;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Failed::Body(status, Failed::of(&error, &host).kind()))?;
        let room = limit - body.len();
        body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
        if piece.len() > room {
            cut_at = Some(limit);
            break;
        }
    }
    Ok(Answer { status, headers, body: body.into(), cut_at })
}
