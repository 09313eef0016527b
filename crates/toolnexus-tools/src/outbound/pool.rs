//! The connections that are kept between requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::runtime;
use toolnexus_core::http::is_loopback;
use url::Url;

use super::Failed;
use crate::host_policy::{CheckedResolver, CompiledHostPolicy};

/// How many runtimes are remembered. Programs have one; test suites have many, one after the other.
const RUNTIMES: usize = 4;

/// The clients of each runtime: a connection is driven by the runtime that opened it, so another one
/// would wait on it in vain.
pub(super) struct Pool(Mutex<VecDeque<(runtime::Id, Arc<Clients>)>>);

impl Pool {
    pub(super) const fn new() -> Self {
        Pool(Mutex::new(VecDeque::new()))
    }

    pub(super) fn get(&self, policy: &Arc<CompiledHostPolicy>) -> Result<Arc<Clients>, Failed> {
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

pub(super) struct Clients {
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
        let (direct, proxied) = direct
            .and_then(|direct| Ok((direct, builder().build()?)))
            .map_err(|_| Failed::Transport { to: "any host".to_owned() })?;
        Ok(Clients { direct, proxied, proxies: Matcher::from_system() })
    }

    /// `uri` is the same address, as HTTP says it.
    pub(super) fn goes_through_proxy(&self, url: &Url, uri: &Uri) -> bool {
        // A proxy cannot reach the caller's loopback.
        !is_loopback(url) && self.proxies.intercept(uri).is_some()
    }

    pub(super) const fn client(&self, proxied: bool) -> &reqwest::Client {
        if proxied { &self.proxied } else { &self.direct }
    }
}
