//! From a configured server to a connection that stands.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::serve_client;
use rmcp::transport::Transport;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::child::ChildProcess;
use crate::config::{McpServerConfig, ServerKind};
use crate::failure::{Fault, McpFailure, McpFailureKind, McpPhase, quoted_stderr};
use crate::handler::Handler;
use crate::http::{self, Start};
use crate::in_flight::CallsInFlight;
use crate::live::{Live, Wire, settle};
use crate::options::LoadMcpOptions;
use crate::request::span;
use crate::spend::SpendGate;
use crate::stdio::StdioTransport;

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

/// A connection, and what its handshake brought.
pub(crate) struct Connected {
    pub(crate) live: Arc<Live>,
    pub(crate) info: McpServerInfo,
    pub(crate) protocol_version: String,
    pub(crate) declares_tools: bool,
}

/// A server that could not be connected or listed, and what its child wrote to standard error.
pub(crate) struct Unreached {
    pub(crate) failure: McpFailure,
    pub(crate) stderr: Vec<String>,
}

/// Starts or reaches the server and greets it. Dropping the future ends whatever it has started;
/// `tasks` then tells when that is gone.
pub(crate) async fn connect(
    config: &McpServerConfig,
    opts: &LoadMcpOptions,
    tasks: &TaskTracker,
) -> Result<Connected, Unreached> {
    let failed = |fault: Fault, phase| Unreached {
        failure: fault.at(&config.name, phase, Vec::new()),
        stderr: Vec::new(),
    };
    if let Some(defect) = config.defect() {
        return Err(failed(Fault::with_detail(McpFailureKind::Config, defect), McpPhase::Config));
    }
    if config.kind == ServerKind::Remote {
        return reach_remote(config, opts, tasks).await;
    }
    let calls = Arc::new(CallsInFlight::default());
    let (child, pipes) = ChildProcess::spawn(config, opts.default_inherit_env.as_deref(), tasks.token())
        .map_err(|fault| failed(fault, McpPhase::Connect))?;
    let down = Arc::default();
    let transport =
        StdioTransport::new(pipes, child.view(), Arc::clone(&calls), Arc::clone(&down), tasks.token());
    handshake(config, opts, transport, Wire::Stdio { child, down }, calls, tasks).await
}

/// Tries the transport that the entry asks for, and the other one where the server says that it
/// does not speak this one.
async fn reach_remote(
    config: &McpServerConfig,
    opts: &LoadMcpOptions,
    tasks: &TaskTracker,
) -> Result<Connected, Unreached> {
    if config.sse {
        return match reach_sse(config, opts, tasks).await {
            Err(Refused { unreached, not_there: true }) => {
                reach_streamable(config, opts, tasks).await.map_err(|_| unreached)
            }
            result => result.map_err(|refused| refused.unreached),
        };
    }
    match reach_streamable(config, opts, tasks).await {
        Err(Refused { unreached, not_there: true }) => match reach_sse(config, opts, tasks).await {
            // Neither is there: what was asked for first says more.
            Err(Refused { not_there: true, .. }) => Err(unreached),
            result => result.map_err(|refused| refused.unreached),
        },
        result => result.map_err(|refused| refused.unreached),
    }
}

/// A remote server that could not be connected over one transport.
struct Refused {
    unreached: Unreached,
    /// The server does not speak that transport.
    not_there: bool,
}

async fn reach_streamable(
    config: &McpServerConfig,
    opts: &LoadMcpOptions,
    tasks: &TaskTracker,
) -> Result<Connected, Refused> {
    let calls = Arc::new(CallsInFlight::default());
    let (transport, link) =
        http::transport(config, Arc::clone(&calls), tasks.token()).map_err(|fault| Refused {
            unreached: Unreached {
                failure: fault.at(&config.name, McpPhase::Config, Vec::new()),
                stderr: Vec::new(),
            },
            not_there: false,
        })?;
    let seen = link.clone();
    handshake(config, opts, transport, Wire::Http(link), calls, tasks)
        .await
        .map_err(|unreached| Refused { unreached, not_there: seen.says_other_transport() })
}

async fn reach_sse(
    config: &McpServerConfig,
    opts: &LoadMcpOptions,
    tasks: &TaskTracker,
) -> Result<Connected, Refused> {
    let calls = Arc::new(CallsInFlight::default());
    let limit = Duration::from_millis(config.timeout_ms);
    let starting = http::start_sse(config, Arc::clone(&calls), tasks.token());
    let (fault, not_there) = match timeout(limit, starting).await {
        Ok(Ok((transport, link))) => {
            return handshake(config, opts, transport, Wire::Http(link), calls, tasks)
                .await
                .map_err(|unreached| Refused { unreached, not_there: false });
        }
        Ok(Err(Start::NotThere(fault))) => (fault, true),
        Ok(Err(Start::Failed(fault))) => (fault, false),
        Err(_) => (Fault::timeout(), false),
    };
    let failure = fault.at(&config.name, McpPhase::Connect, Vec::new());
    Err(Refused { unreached: Unreached { failure, stderr: Vec::new() }, not_there })
}

async fn handshake<T>(
    config: &McpServerConfig,
    opts: &LoadMcpOptions,
    transport: T,
    wire: Wire,
    calls: Arc<CallsInFlight>,
    tasks: &TaskTracker,
) -> Result<Connected, Unreached>
where
    T: Transport<RoleClient> + 'static,
{
    let limit = Duration::from_millis(config.timeout_ms);
    // Not entered: rmcp would keep it for its own task, for as long as the connection stands.
    let span = span(&config.name, McpPhase::Initialize, None);
    let fault = match timeout(limit, serve_client(Handler::new(opts), transport)).await {
        Ok(Ok(service)) => {
            let peer = service.peer().peer_info();
            let spend = SpendGate::new(config, opts.reserve.clone());
            let live = Arc::new(Live::new(config, spend, service, calls, wire, tasks.clone()));
            return Ok(match peer {
                Some(peer) => Connected {
                    info: peer.server_info.as_ref().map_or_else(McpServerInfo::default, |info| {
                        McpServerInfo {
                            name: info.name.clone(),
                            version: info.version.clone(),
                            title: info.title.clone(),
                            instructions: peer.instructions.clone(),
                        }
                    }),
                    protocol_version: peer.protocol_version.as_str().to_owned(),
                    declares_tools: peer.capabilities.tools.is_some(),
                    live,
                },
                None => Connected {
                    info: McpServerInfo::default(),
                    protocol_version: String::new(),
                    declares_tools: false,
                    live,
                },
            });
        }
        Ok(Err(error)) => wire.handshake_fault(error).await,
        Err(_) => Fault::timeout(),
    };
    span.record("error.type", fault.kind.as_str());
    let stderr = wire.stderr();
    wire.cut();
    settle(std::slice::from_ref(tasks)).await;
    let failure = fault.at(&config.name, McpPhase::Initialize, quoted_stderr(&stderr));
    Err(Unreached { failure, stderr })
}
