//! From a configured server to a session that stands.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ServerPeerInfo;
use rmcp::service::{ClientLifecycleMode, serve_client_with_lifecycle};
use rmcp::transport::Transport;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use toolnexus_core::BoxFuture;

use crate::auth;
use crate::child;
use crate::config::{ConcurrencyPolicy, McpEra, McpServerConfig, ServerKind};
use crate::era::{Address, Meaning, Seen, judge, probe_limit};
use crate::failure::{Fault, McpFailure, McpFailureKind, McpPhase, quoted_stderr};
use crate::handler::Handler;
use crate::in_flight::CallsInFlight;
use crate::live::{Begun, Facts, Live, Wire, settle};
use crate::options::LoadMcpOptions;
use crate::reach::reach_remote;
use crate::request::span;
use crate::stdio::StdioTransport;
use crate::transport::{self, Session, SessionMode, Target};
use crate::wire::MODERN_VERSION;

/// The detail of a server whose use was not permitted.
pub(crate) const BLOCKED: &str = "blocked";

/// The detail of a remote server without an HTTP client.
pub(crate) const NO_HTTP_CLIENT: &str = "no http client";

/// What a server told of itself in the handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpServerInfo {
    /// The name of the server's implementation; empty if it did not say.
    pub name: String,
    /// Its version; empty if it did not say.
    pub version: String,
    /// A name for people.
    pub title: Option<String>,
    /// How the server wants to be used, in its own words.
    pub instructions: Option<String>,
}

/// A server that could not be connected or listed, and what its child wrote to standard error.
pub(crate) struct Unreached {
    pub(crate) failure: McpFailure,
    pub(crate) stderr: Vec<String>,
}

impl Unreached {
    /// Without a child.
    pub(crate) fn new(fault: Fault, server: &str, phase: McpPhase) -> Self {
        Unreached { failure: fault.at(server, phase, Vec::new()), stderr: Vec::new() }
    }
}

/// Starts or reaches the server and greets it, if that is permitted. Dropping the future ends whatever
/// it has started; `tasks` then tells when that is gone.
pub(crate) async fn connect(
    config: &McpServerConfig,
    opts: &LoadMcpOptions,
    tasks: &TaskTracker,
) -> Result<Arc<Live>, Unreached> {
    if let Some(defect) = config.defect() {
        let fault = Fault::with_detail(McpFailureKind::Config, defect);
        return Err(Unreached::new(fault, &config.name, McpPhase::Config));
    }
    permitted(config, opts).await?;
    if config.kind == ServerKind::Remote {
        return Box::pin(reach_remote(&auth::completed(config, opts), opts, tasks)).await;
    }
    Box::pin(start_local(config, opts, tasks)).await
}

/// Asks whether the server may be used, wherever a connection to it is about to be made.
pub(crate) async fn permitted(config: &McpServerConfig, opts: &LoadMcpOptions) -> Result<(), Unreached> {
    let source = config.source.as_ref().unwrap_or(&opts.source);
    let target = || match config.kind {
        ServerKind::Remote => Target::Url(config.url.clone().unwrap_or_default()),
        _ => Target::Command(config.command.clone()),
    };
    transport::ask(source, opts.permit.as_ref(), target).await.map_err(|_| {
        let fault = Fault::with_detail(McpFailureKind::Config, BLOCKED);
        Unreached::new(fault, &config.name, McpPhase::Config)
    })
}

/// Starts the program, and starts it anew for a handshake where the era has to be found out and is the
/// legacy one: a child that has met an unknown request first is left alone.
async fn start_local(
    config: &McpServerConfig,
    opts: &LoadMcpOptions,
    tasks: &TaskTracker,
) -> Result<Arc<Live>, Unreached> {
    let limit = Duration::from_millis(config.timeout_ms);
    let ready = Greeting::Ready { judged: None };
    let started = Instant::now();
    let greeted = match config.era.or(opts.era).unwrap_or(McpEra::Legacy) {
        McpEra::Legacy => start(config, opts, tasks, Greeting::Handshake, limit).await,
        McpEra::Modern => start(config, opts, tasks, ready, limit).await,
        McpEra::Auto => match start(config, opts, tasks, ready, probe_limit(limit)).await {
            Err(ungreeted) if judge(&ungreeted.fault, ungreeted.seen) != Meaning::Failed => {
                let left = limit.saturating_sub(started.elapsed());
                start(config, opts, tasks, Greeting::Handshake, left).await
            }
            greeted => greeted,
        },
    };
    greeted.map_err(|ungreeted| ungreeted.unreached(config))
}

fn start<'a>(
    config: &'a McpServerConfig,
    opts: &'a LoadMcpOptions,
    tasks: &'a TaskTracker,
    greeting: Greeting,
    limit: Duration,
) -> BoxFuture<'a, Result<Arc<Live>, Ungreeted>> {
    Box::pin(started(config, opts, tasks, greeting, limit))
}

async fn started(
    config: &McpServerConfig,
    opts: &LoadMcpOptions,
    tasks: &TaskTracker,
    greeting: Greeting,
    limit: Duration,
) -> Result<Arc<Live>, Ungreeted> {
    let calls = Arc::new(CallsInFlight::default());
    let (child, pipes) = child::spawn(config, opts.default_inherit_env.as_deref(), tasks.token())
        .map_err(|fault| Ungreeted::before(McpPhase::Connect, fault))?;
    let down = Arc::default();
    let transport =
        StdioTransport::new(pipes, child.view(), Arc::clone(&calls), Arc::clone(&down), tasks.token());
    let opening = Opening { config, opts, tasks, greeting, limit };
    opening.greet(transport, Wire::Stdio { child, down }, calls).await
}

/// How a session begins.
#[derive(Debug, Clone)]
pub(crate) enum Greeting {
    /// With `initialize`.
    Handshake,
    /// With `server/discover`, which only asks for facts.
    Ready {
        /// The server's address where its era was found out and not given.
        judged: Option<Address>,
    },
}

/// A session about to be begun.
pub(crate) struct Opening<'a> {
    pub(crate) config: &'a McpServerConfig,
    pub(crate) opts: &'a LoadMcpOptions,
    pub(crate) tasks: &'a TaskTracker,
    pub(crate) greeting: Greeting,
    pub(crate) limit: Duration,
}

/// A session that did not come about. Nothing of it is left.
pub(crate) struct Ungreeted {
    pub(crate) fault: Fault,
    pub(crate) seen: Seen,
    phase: McpPhase,
    stderr: Vec<String>,
}

impl Ungreeted {
    /// Before anything was sent.
    pub(crate) fn before(phase: McpPhase, fault: Fault) -> Self {
        Ungreeted { fault, seen: Seen::default(), phase, stderr: Vec::new() }
    }

    pub(crate) fn unreached(self, config: &McpServerConfig) -> Unreached {
        let quoted = quoted_stderr(&self.stderr);
        Unreached { failure: self.fault.at(&config.name, self.phase, quoted), stderr: self.stderr }
    }
}

impl Opening<'_> {
    /// Begins the session on a fresh transport.
    pub(crate) async fn greet<T>(
        self,
        transport: T,
        wire: Wire,
        calls: Arc<CallsInFlight>,
    ) -> Result<Arc<Live>, Ungreeted>
    where
        T: Transport<RoleClient> + 'static,
    {
        let Opening { config, opts, tasks, greeting, limit } = self;
        // Not entered: rmcp would keep it for its own task, for as long as the connection stands.
        let (method, lifecycle) = match greeting {
            Greeting::Handshake => ("initialize", ClientLifecycleMode::Initialize),
            Greeting::Ready { .. } => {
                let preferred_versions = vec![MODERN_VERSION];
                ("server/discover", ClientLifecycleMode::Discover { preferred_versions })
            }
        };
        let span = span(&config.name, method, None);
        let greeted = serve_client_with_lifecycle(Handler::new(opts, &calls), transport, lifecycle);
        let fault = match wire.asking().within(limit, greeted).await {
            Some(Ok(service)) => {
                let facts = service.peer().peer_info().map(|peer| facts(&peer)).unwrap_or_default();
                let begun = begun(facts, greeting, config, &wire);
                return Ok(Arc::new(Live::new(config, begun, service, calls, wire, tasks.clone())));
            }
            Some(Err(error)) => wire.handshake_fault(error).await,
            None => Fault::timeout(),
        };
        span.record("error.type", fault.kind.as_str());
        let (seen, stderr) = (wire.seen(), wire.stderr());
        wire.cut();
        settle(std::slice::from_ref(tasks)).await;
        Err(Ungreeted { fault, seen, phase: McpPhase::Initialize, stderr })
    }
}

fn begun(facts: Facts, greeting: Greeting, config: &McpServerConfig, wire: &Wire) -> Begun {
    let usual =
        if wire.is_serialized() { ConcurrencyPolicy::Serialized } else { ConcurrencyPolicy::Stateless };
    let (mode, judged) = match greeting {
        Greeting::Handshake => (SessionMode::Handshake, None),
        Greeting::Ready { judged } => (SessionMode::Ready, judged),
    };
    let version = facts.protocol_version.clone();
    let session = Session { mode, version, concurrency: config.concurrency.unwrap_or(usual) };
    Begun { facts, session, judged }
}

fn facts(peer: &ServerPeerInfo) -> Facts {
    let info = peer.server_info.as_ref().map_or_else(McpServerInfo::default, |info| McpServerInfo {
        name: info.name.clone(),
        version: info.version.clone(),
        title: info.title.clone(),
        instructions: None,
    });
    Facts {
        info: McpServerInfo { instructions: peer.instructions.clone(), ..info },
        protocol_version: peer.protocol_version.as_str().to_owned(),
        declares_tools: peer.capabilities.tools.is_some(),
    }
}
