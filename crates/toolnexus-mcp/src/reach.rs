//! Reaching a remote server: over which transport, and in which era.
//!
//! ```text
//! era given ─────────────────────────────▶ greet ──▶ session
//! era known (verdict) ───────────────────▶ greet ──▶ session
//!                                            └─ contradicted: forget, probe ─┐
//! era unknown ─▶ probe (`server/discover`) ◀────────────────────────────────┘
//!                  ├─ modern ────────────────────────▶ session
//!                  ├─ legacy, or unclear ─▶ handshake ─▶ session
//!                  └─ refused ─▶ failed       └─ "not this transport" ─▶ HTTP+SSE
//! ```
//!
//! Every arrow into a box is a fresh transport: what a server was asked before never shows in what it
//! is asked next.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use toolnexus_core::BoxFuture;

use crate::config::{McpEra, McpServerConfig};
use crate::connect::{Greeting, Opening, Ungreeted, Unreached, permitted};
use crate::era::{self, Address, Meaning, Remember, Verdict, judge, probe_limit, verdicts};
use crate::failure::{Fault, McpPhase};
use crate::http::{self, HttpLink, Start};
use crate::in_flight::CallsInFlight;
use crate::live::{Live, Wire};
use crate::options::LoadMcpOptions;

/// Tries the transport that the entry asks for, and the other one where the server says that it
/// does not speak this one.
pub(crate) async fn reach_remote(
    config: &McpServerConfig,
    opts: &LoadMcpOptions,
    tasks: &TaskTracker,
) -> Result<Arc<Live>, Unreached> {
    let remote = Remote { config, opts, tasks };
    // The older transport is of the legacy era.
    if config.sse && remote.era() != McpEra::Modern {
        return match remote.sse().await {
            Err(Refused { unreached, not_there: true }) => {
                permitted(config, opts).await?;
                remote.streamable().await.map_err(|_| unreached)
            }
            result => result.map_err(|refused| refused.unreached),
        };
    }
    match remote.streamable().await {
        Err(Refused { unreached, not_there: true }) => {
            permitted(config, opts).await?;
            match remote.sse().await {
                // It was there: the server has become another.
                Err(Refused { not_there: true, .. }) if remote.forget(Verdict::Legacy { sse: true }) => {
                    remote.streamable().await.map_err(|refused| refused.unreached)
                }
                // Neither is there: what was asked for first says more.
                Err(Refused { not_there: true, .. }) => Err(unreached),
                Err(refused) => Err(refused.unreached),
                Ok(live) => {
                    remote.remember(Verdict::Legacy { sse: true });
                    Ok(live)
                }
            }
        }
        result => result.map_err(|refused| refused.unreached),
    }
}

/// A remote server that could not be connected over one transport.
struct Refused {
    unreached: Unreached,
    /// The server does not speak that transport.
    not_there: bool,
}

/// A session that did not come about over streamable HTTP.
struct Attempt {
    ungreeted: Ungreeted,
    not_there: bool,
    /// How long it was held up by whoever signs in.
    held: Duration,
}

impl Attempt {
    fn contradicts_verdict(&self) -> bool {
        era::contradicts(&self.ungreeted.fault, self.ungreeted.seen, true)
    }
}

struct Remote<'a> {
    config: &'a McpServerConfig,
    opts: &'a LoadMcpOptions,
    tasks: &'a TaskTracker,
}

impl Remote<'_> {
    fn era(&self) -> McpEra {
        self.config.era.or(self.opts.era).unwrap_or(McpEra::Auto)
    }

    fn address(&self) -> Option<Address> {
        Address::of(self.config.url.as_deref().unwrap_or_default())
    }

    /// Remembers what was found out, where it had to be.
    fn remember(&self, verdict: Verdict) {
        if self.era() == McpEra::Auto
            && let Some(address) = self.address()
        {
            verdicts().remember(&address, verdict);
        }
    }

    /// Forgets a verdict, if it is what is known of the server.
    fn forget(&self, verdict: Verdict) -> bool {
        self.address().is_some_and(|address| verdicts().forget(&address, verdict))
    }

    fn limit(&self) -> Duration {
        Duration::from_millis(self.config.timeout_ms)
    }

    fn streamable(&self) -> BoxFuture<'_, Result<Arc<Live>, Refused>> {
        Box::pin(self.over_streamable())
    }

    async fn over_streamable(&self) -> Result<Arc<Live>, Refused> {
        let live = match (self.era(), self.address()) {
            (McpEra::Modern, _) => self.greet(Greeting::Ready { judged: None }, self.limit()).await,
            (McpEra::Auto, Some(address)) => self.find_out(address).await,
            _ => self.greet(Greeting::Handshake, self.limit()).await,
        };
        live.map_err(|Attempt { ungreeted, not_there, .. }| Refused {
            unreached: ungreeted.unreached(self.config),
            not_there,
        })
    }

    async fn find_out(&self, address: Address) -> Result<Arc<Live>, Attempt> {
        if let Some(verdict) = verdicts().get(&address) {
            let greeting = match verdict {
                Verdict::Modern => Greeting::Ready { judged: Some(address.clone()) },
                Verdict::Legacy { .. } => Greeting::Handshake,
            };
            match self.greet(greeting, self.limit()).await {
                // There the refusal of the handshake is what was found out.
                Err(attempt)
                    if attempt.contradicts_verdict() && verdict != (Verdict::Legacy { sse: true }) =>
                {
                    verdicts().forget(&address, verdict);
                }
                result => return result,
            }
        }
        self.probe(address).await
    }

    async fn probe(&self, address: Address) -> Result<Arc<Live>, Attempt> {
        let started = Instant::now();
        let ready = Greeting::Ready { judged: Some(address.clone()) };
        let attempt = match self.greet(ready, probe_limit(self.limit())).await {
            Ok(live) => {
                verdicts().remember(&address, Verdict::Modern);
                return Ok(live);
            }
            Err(attempt) => attempt,
        };
        let legacy = Verdict::Legacy { sse: false };
        let remember = match judge(&attempt.ungreeted.fault, attempt.ungreeted.seen) {
            Meaning::Failed => return Err(attempt),
            Meaning::Legacy(remember) => remember,
        };
        if remember == Remember::Now {
            verdicts().remember(&address, legacy);
        }
        let left = self.limit().saturating_sub(started.elapsed().saturating_sub(attempt.held));
        let greeted = self.greet(Greeting::Handshake, left).await;
        if greeted.is_ok() && remember == Remember::OnceProven {
            verdicts().remember(&address, legacy);
        }
        greeted
    }

    /// Begins a session over streamable HTTP. In a box, like the ways to it: they stand in several
    /// places, and what a future may become takes room on the stack whether it does or not.
    fn greet(&self, greeting: Greeting, limit: Duration) -> BoxFuture<'_, Result<Arc<Live>, Attempt>> {
        Box::pin(self.greet_streamable(greeting, limit))
    }

    async fn greet_streamable(&self, greeting: Greeting, limit: Duration) -> Result<Arc<Live>, Attempt> {
        let Remote { config, opts, tasks } = *self;
        let calls = Arc::new(CallsInFlight::default());
        let (transport, link) =
            http::transport(config, Arc::clone(&calls), tasks.token()).map_err(|fault| Attempt {
                ungreeted: Ungreeted::before(McpPhase::Config, fault),
                not_there: false,
                held: Duration::ZERO,
            })?;
        let seen = link.clone();
        let opening = Opening { config, opts, tasks, greeting, limit };
        opening.greet(transport, Wire::Http(link), calls).await.map_err(|ungreeted| Attempt {
            ungreeted,
            not_there: seen.says_other_transport(),
            held: seen.asking().held(),
        })
    }

    /// Begins a session over the legacy HTTP+SSE transport, which is of the legacy era.
    fn sse(&self) -> BoxFuture<'_, Result<Arc<Live>, Refused>> {
        Box::pin(self.over_sse())
    }

    async fn over_sse(&self) -> Result<Arc<Live>, Refused> {
        let Remote { config, opts, tasks } = *self;
        let calls = Arc::new(CallsInFlight::default());
        let link = HttpLink::default();
        let starting = Box::pin(http::start_sse(config, Arc::clone(&calls), link.clone(), tasks.token()));
        let (fault, not_there) = match link.asking().within(self.limit(), starting).await {
            Some(Ok((transport, link))) => {
                let opening =
                    Opening { config, opts, tasks, greeting: Greeting::Handshake, limit: self.limit() };
                let greeted = Box::pin(opening.greet(transport, Wire::Http(link), calls)).await;
                return greeted.map_err(|ungreeted| Refused {
                    unreached: ungreeted.unreached(config),
                    not_there: false,
                });
            }
            Some(Err(Start::NotThere(fault))) => (fault, true),
            Some(Err(Start::Failed(fault))) => (fault, false),
            None => (Fault::timeout(), false),
        };
        Err(Refused { unreached: Unreached::new(fault, &config.name, McpPhase::Connect), not_there })
    }
}
