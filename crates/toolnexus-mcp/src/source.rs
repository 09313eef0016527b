//! What a load gives: tools, how each server fared, and the connections behind them.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use toolnexus_core::{BoxFuture, SourceHandle, Tool};
use toolnexus_process::ChildExit;
use tracing::warn;

use crate::McpStatus;
use crate::connect::{McpServerInfo, Unreached};
use crate::failure::{McpFailure, McpPhase};
use crate::live::{Facts, Live};
use crate::slot::Slot;
use crate::spend::SpendGate;
use crate::transport::Session;

/// How long closing all servers may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// The loaded servers of a document. Clones share the connections; the last one dropped ends them.
#[derive(Clone, Default)]
pub struct McpSource {
    /// The tools of all servers, by final name.
    pub tools: Vec<Tool>,
    /// How every configured server fared.
    pub status: BTreeMap<String, McpStatus>,
    /// Why servers failed.
    pub errors: BTreeMap<String, String>,
    /// One record per configured server, by name.
    pub connections: Vec<McpConnection>,
}

impl McpSource {
    /// The record of a server.
    pub fn connection(&self, name: &str) -> Option<&McpConnection> {
        self.connections.iter().find(|connection| connection.name() == name)
    }

    /// How many connections stand at this moment.
    pub fn connected_count(&self) -> usize {
        self.connections.iter().filter(|connection| connection.is_connected()).count()
    }

    /// Ends every connection at once: children are killed with what they started, sessions are
    /// left. Calls in flight end with an error, later ones fail without being sent. Takes five
    /// seconds at the most, never fails, and may be called any number of times.
    pub async fn close(&self) {
        let closing = join_all(self.connections.iter().map(McpConnection::close));
        let _ = tokio::time::timeout(CLOSE_LIMIT, closing).await;
    }

    /// Ends the connection of one server, as [`McpSource::close`] does with all. Without a server
    /// of that name nothing happens.
    pub async fn disconnect(&self, name: &str) {
        if let Some(connection) = self.connection(name) {
            connection.close().await;
        }
    }
}

/// Its connections, one for each configured server.
impl AsRef<[McpConnection]> for McpSource {
    fn as_ref(&self) -> &[McpConnection] {
        &self.connections
    }
}

impl SourceHandle for McpSource {
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(McpSource::close(self))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl std::fmt::Debug for McpSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpSource")
            .field("tools", &self.tools.len())
            .field("status", &self.status)
            .field("errors", &self.errors)
            .finish_non_exhaustive()
    }
}

/// One server: how it fared, and its connection if it has one. Clones are the same server.
#[derive(Clone)]
pub struct McpConnection(Arc<Record>);

struct Record {
    name: String,
    status: McpStatus,
    phase: McpPhase,
    error: Option<McpFailure>,
    /// What a failed child said before it was gone.
    last_stderr: Vec<String>,
    info: Option<McpServerInfo>,
    protocol_version: Option<String>,
    tools: Vec<Tool>,
    slot: Option<Arc<Slot>>,
}

/// What a connected server brought.
pub(crate) struct Arrived {
    pub(crate) slot: Arc<Slot>,
    pub(crate) facts: Facts,
    pub(crate) tools: Vec<Tool>,
}

impl McpConnection {
    pub(crate) fn disabled(name: &str) -> Self {
        McpConnection(Arc::new(Record {
            name: name.to_owned(),
            status: McpStatus::Disabled,
            phase: McpPhase::Config,
            error: None,
            last_stderr: Vec::new(),
            info: None,
            protocol_version: None,
            tools: Vec::new(),
            slot: None,
        }))
    }

    /// A server that could not be connected; logged.
    pub(crate) fn unreached(unreached: Unreached) -> Self {
        let Unreached { failure: error, stderr: last_stderr } = unreached;
        warn!("[toolnexus] MCP server \"{}\" failed: {error}", error.server());
        McpConnection(Arc::new(Record {
            name: error.server().to_owned(),
            status: McpStatus::Failed,
            phase: error.phase(),
            error: Some(error),
            last_stderr,
            info: None,
            protocol_version: None,
            tools: Vec::new(),
            slot: None,
        }))
    }

    pub(crate) fn connected(arrived: Arrived) -> Self {
        McpConnection(Arc::new(Record {
            name: arrived.slot.server.to_string(),
            status: McpStatus::Connected,
            phase: McpPhase::ListTools,
            error: None,
            last_stderr: Vec::new(),
            info: Some(arrived.facts.info),
            protocol_version: Some(arrived.facts.protocol_version),
            tools: arrived.tools,
            slot: Some(arrived.slot),
        }))
    }

    /// The configured name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How the load found the server. It stays so, also when the connection is lost later.
    pub fn status(&self) -> McpStatus {
        self.0.status
    }

    /// How far the load got.
    pub fn phase(&self) -> McpPhase {
        self.0.phase
    }

    /// Why the load failed.
    pub fn error(&self) -> Option<&McpFailure> {
        self.0.error.as_ref()
    }

    /// The exit status of a child that has ended, when it is known.
    pub fn exit_code(&self) -> Option<i32> {
        if let Some(code) = self.0.error.as_ref().and_then(McpFailure::exit_code) {
            return Some(code);
        }
        match self.live().and_then(|live| live.wire.exit()) {
            Some(ChildExit::Code(code)) => Some(code),
            _ => None,
        }
    }

    /// The last lines that a child wrote to standard error: up to 200 lines and 64 KiB. Empty for
    /// a remote server.
    pub fn stderr(&self) -> Vec<String> {
        match self.live() {
            Some(live) => live.wire.stderr(),
            None => self.0.last_stderr.clone(),
        }
    }

    /// What the server told of itself.
    pub fn server_info(&self) -> Option<&McpServerInfo> {
        self.0.info.as_ref()
    }

    /// The protocol revision in use.
    pub fn protocol_version(&self) -> Option<&str> {
        self.0.protocol_version.as_deref()
    }

    /// The server's tools under their final names, in its order; empty unless connected.
    pub fn tools(&self) -> &[Tool] {
        &self.0.tools
    }

    /// What its tools cost, and the maker of reservations for them. `None` when it never had a connection.
    pub fn spend_gate(&self) -> Option<&SpendGate> {
        self.0.slot.as_ref().map(|slot| &slot.spend)
    }

    /// Whether the connection stands at this moment.
    pub fn is_connected(&self) -> bool {
        self.0.slot.as_ref().is_some_and(|slot| slot.is_live())
    }

    /// How the session began, and what it allows: its era, revision and concurrency. `None` when there
    /// has been none. It changes only with a reconnect.
    pub fn session(&self) -> Option<Session> {
        self.live().map(|live| live.session.clone())
    }

    /// The server's place, if it has one.
    pub(crate) fn slot(&self) -> Option<&Arc<Slot>> {
        self.0.slot.as_ref()
    }

    /// The session that stands, or stood.
    fn live(&self) -> Option<Arc<Live>> {
        self.0.slot.as_ref().and_then(|slot| slot.current())
    }

    /// Ends the connection at once and without a goodbye.
    pub(crate) fn cut(&self) {
        if let Some(slot) = &self.0.slot {
            slot.cut();
        }
    }

    /// Ends the connection. See [`McpSource::close`].
    pub async fn close(&self) {
        if let Some(slot) = &self.0.slot {
            slot.close().await;
        }
    }
}

impl std::fmt::Debug for McpConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpConnection")
            .field("name", &self.0.name)
            .field("status", &self.0.status)
            .field("phase", &self.0.phase)
            .field("error", &self.0.error.as_ref().map(ToString::to_string))
            .field("tools", &self.0.tools.len())
            .finish_non_exhaustive()
    }
}
