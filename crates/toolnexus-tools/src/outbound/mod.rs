//! Requests that leave this machine on a model's word: what [`http_tool`](crate::http_tool) and
//! `webfetch` have in common.
//!
//! ```text
//! Outgoing ─▶ Outbound::open   policy, proxy, redirects        ─▶ Arrival  status, headers, address
//!          ─▶ Arrival::read    decompression, limit, progress  ─▶ Body     bytes, cut or whole
//!          ─▶ Body::text       charset
//! ```
//!
//! Redirects are followed here and not by the HTTP client, because the policy, and which headers go
//! along, are decided anew at every hop. [`bounded`] ends all of it when its time is over or the call
//! is cancelled.

mod address;
mod body;
mod failed;
mod pool;
mod redirect;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio_util::sync::CancellationToken;
use url::Url;

pub(crate) use address::{shown_url, taken_credentials};
pub(crate) use body::Body;
pub(crate) use failed::Failed;

use crate::HostPolicy;
use crate::host_policy::{CompiledHostPolicy, InvalidHostPattern, address_of};
use pool::{Clients, Pool};

/// The most redirects of one call.
const MAX_REDIRECTS: usize = 10;

/// A request, ready to be sent. Its URL holds no user and no password.
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// Headers for this origin alone: a redirect to another one leaves them behind.
    pub(crate) headers: HeaderMap,
    /// Headers that anybody may see.
    pub(crate) open_headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// Carries out requests under one policy.
pub(crate) struct Outbound {
    policy: Result<Arc<CompiledHostPolicy>, InvalidHostPattern>,
    /// The connections of this policy alone: what was checked for one is not checked for another.
    own: Pool,
}

/// Everything without a policy shares these.
static UNRESTRICTED: Pool = Pool::new();

impl Outbound {
    /// A policy that cannot be read makes every request fail.
    pub(crate) fn new(policy: &HostPolicy) -> Self {
        Outbound { policy: policy.compile().map(Arc::new), own: Pool::new() }
    }

    /// Sends a request, follows its redirects, and gives the head of the answer.
    pub(crate) async fn open(&self, mut request: Outgoing) -> Result<Arrival, Failed> {
        let policy = self.policy.as_ref().map_err(|bad| Failed::Policy(bad.clone()))?;
        let pool = if policy.is_empty() { &UNRESTRICTED } else { &self.own };
        let clients = pool.get(policy)?;
        let mut redirects = 0;
        loop {
            let response = send(&clients, policy, &request).await?;
            let next = if redirects < MAX_REDIRECTS { redirect::next(&request, &response) } else { None };
            match next {
                // The body of a redirect that is followed is nobody's.
                Some(next) => request = next,
                None => return Ok(Arrival { response, url: request.url, redirected: redirects > 0 }),
            }
            redirects += 1;
        }
    }
}

async fn send(
    clients: &Clients,
    policy: &CompiledHostPolicy,
    request: &Outgoing,
) -> Result<reqwest::Response, Failed> {
    let host = request.url.host_str().unwrap_or_default();
    let uri: Uri = request.url.as_str().parse().map_err(|cause| Failed::Unsayable { cause })?;
    let proxied = clients.goes_through_proxy(&request.url, &uri);
    // A name that is to be resolved is checked with its addresses, by whoever resolves it.
    let known = proxied || address_of(host).is_some();
    if (known && !policy.permits_name(host)) || policy.denies_name(host) {
        return Err(Failed::Denied { host: host.to_owned() });
    }
    let mut outgoing = reqwest::Request::new(request.method.clone(), request.url.clone());
    outgoing.headers_mut().clone_from(&request.open_headers);
    for (name, value) in &request.headers {
        outgoing.headers_mut().insert(name.clone(), value.clone());
    }
    if let Some(body) = &request.body {
        *outgoing.body_mut() = Some(body.clone().into());
    }
    clients.client(proxied).execute(outgoing).await.map_err(|error| Failed::of(&error, &request.url))
}

/// An answer whose body is still under way.
pub(crate) struct Arrival {
    response: reqwest::Response,
    /// Where it came from, without user and password.
    pub(crate) url: Url,
    /// Whether that is somewhere else than where the request was sent first.
    pub(crate) redirected: bool,
}

impl Arrival {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Reads the body, of which no more than `limit` bytes are kept, counted after decompression.
    /// `progress` hears how many bytes came, and of how many if that was announced. What is left
    /// unread closes its connection.
    pub(crate) async fn read(
        self,
        limit: usize,
        progress: impl FnMut(usize, Option<u64>),
    ) -> Result<Body, Failed> {
        body::read(self.response, &self.url, limit, progress).await
    }
}

/// Does the work unless its time is over, or the call cancelled, before.
pub(crate) async fn bounded<T, E: From<Failed>>(
    cancel: &CancellationToken,
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Failed::Cancelled.into()),
        outcome = tokio::time::timeout(limit, work) => outcome.unwrap_or(Err(Failed::Timeout.into())),
    }
}
