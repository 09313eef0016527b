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
use crate::lifecycle::{McpState, McpStateChange, McpToolsChange, Server};
use crate::live::{Facts, Live};
use crate::load::assembled;
use crate::slot::Slot;
use crate::spend::SpendGate;
use crate::transport::{SeamError, Session};

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

    /// The tools that all servers have now, by final name. What the load has found is in
    /// [`tools`](Self::tools).
    pub fn current_tools(&self) -> Vec<Tool> {
        assembled(&self.connections, |_, _| {})
    }

    /// Whether a server runs. `None`: there is none of that name, or it is disabled.
    pub fn state(&self, server: &str) -> Option<McpState> {
        self.connection(server)?.state()
    }

    /// Tells `listener` of every change of any server's state from now on. See
    /// [`McpConnection::on_state_change`].
    pub fn on_state_change(&self, listener: impl Fn(&McpStateChange) + Send + Sync + 'static) {
        let listener = Arc::new(listener);
        for connection in &self.connections {
            let listener = Arc::clone(&listener);
            connection.on_state_change(move |change| listener(change));
        }
    }

    /// Tells `listener` whenever a server's tools have become others. See
    /// [`McpConnection::on_tools_change`].
    pub fn on_tools_change(&self, listener: impl Fn(&McpToolsChange) + Send + Sync + 'static) {
        let listener = Arc::new(listener);
        for connection in &self.connections {
            let listener = Arc::clone(&listener);
            connection.on_tools_change(move |change| listener(change));
        }
    }

    /// Starts a server again. See [`McpConnection::restart`].
    ///
    /// # Errors
    /// As there; [`SeamError::NotConnected`] also without a server of that name.
    pub async fn restart(&self, server: &str) -> Result<(), SeamError> {
        self.connection(server).ok_or(SeamError::NotConnected)?.restart().await
    }

    /// Lists a server's tools anew. See [`McpConnection::refresh`].
    ///
    /// # Errors
    /// As there; [`SeamError::NotConnected`] also without a server of that name.
    pub async fn refresh(&self, server: &str) -> Result<(), SeamError> {
        self.connection(server).ok_or(SeamError::NotConnected)?.refresh().await
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
    /// `None`: it was never to be reached.
    server: Option<Arc<Server>>,
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abandon();
        }
    }
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
            server: None,
        }))
    }

    /// A server that could not be connected; logged.
    pub(crate) fn unreached(unreached: Unreached, server: Option<Arc<Server>>) -> Self {
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
            server,
        }))
    }

    pub(crate) fn connected(facts: Facts, server: Arc<Server>) -> Self {
        McpConnection(Arc::new(Record {
            name: server.slot.server.to_string(),
            status: McpStatus::Connected,
            phase: McpPhase::ListTools,
            error: None,
            last_stderr: Vec::new(),
            info: Some(facts.info),
            protocol_version: Some(facts.protocol_version),
            server: Some(server),
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
    pub fn tools(&self) -> Arc<[Tool]> {
        self.0.server.as_ref().map_or_else(|| Vec::new().into(), |server| server.tools())
    }

    /// What its tools cost, and the maker of reservations for them. `None` when it never had a connection.
    pub fn spend_gate(&self) -> Option<&SpendGate> {
        self.slot().map(|slot| &**slot).map(|slot| &slot.spend)
    }

    /// Whether the server runs. `None`: it is disabled, or was never to be reached.
    pub fn state(&self) -> Option<McpState> {
        self.0.server.as_ref().map(|server| server.slot.state())
    }

    /// Tells `listener` of every change of the server's state from now on. It should return soon; a panic
    /// in it is caught and changes nothing.
    pub fn on_state_change(&self, listener: impl Fn(&McpStateChange) + Send + Sync + 'static) {
        if let Some(server) = &self.0.server {
            server.slot.states().listeners.add(Arc::new(listener));
        }
    }

    /// Tells `listener` whenever the server's tools have become others, after a restart or a refresh.
    pub fn on_tools_change(&self, listener: impl Fn(&McpToolsChange) + Send + Sync + 'static) {
        if let Some(server) = &self.0.server {
            server.tools_listeners.add(Arc::new(listener));
        }
    }

    /// Stops the server if it runs, starts it and lists its tools. Tools got before go on working with the
    /// new connection. Whoever asks while that is done waits for the same; dropping the future gives it
    /// up, and the server is stopped when nobody else waits.
    ///
    /// # Errors
    /// [`SeamError::NotConnected`] for a server that is disabled or came over a wire of the host's own,
    /// [`SeamError::Closed`] after [`close`](Self::close), else why it could not be started.
    pub async fn restart(&self) -> Result<(), SeamError> {
        let server = self.0.server.as_ref().filter(|server| server.slot.can_start());
        let server = server.ok_or(SeamError::NotConnected)?;
        server.restart().await.map_err(|failure| of_closed(server, failure))
    }

    /// Lists the server's tools anew, beside the calls in flight: new ones are added and vanished ones
    /// dropped.
    ///
    /// # Errors
    /// The server could not be listed; it keeps the tools it has.
    pub async fn refresh(&self) -> Result<(), SeamError> {
        let server = self.0.server.as_ref().ok_or(SeamError::NotConnected)?;
        // On the heap: it goes deep, and callers nest it further.
        Box::pin(server.refresh()).await.map_err(|failure| of_closed(server, failure))
    }

    /// Whether the connection stands at this moment.
    pub fn is_connected(&self) -> bool {
        self.slot().is_some_and(|slot| slot.is_live())
    }

    /// How the session began, and what it allows: its era, revision and concurrency. `None` when there
    /// has been none. It changes only with a reconnect.
    pub fn session(&self) -> Option<Session> {
        self.live().map(|live| live.session.clone())
    }

    /// The server's place, if it has one.
    pub(crate) fn slot(&self) -> Option<&Arc<Slot>> {
        self.0.server.as_ref().map(|server| &server.slot).filter(|slot| slot.has_stood())
    }

    /// The session that stands, or stood.
    fn live(&self) -> Option<Arc<Live>> {
        self.slot().and_then(|slot| slot.current())
    }

    /// Ends the connection at once and without a goodbye.
    pub(crate) fn cut(&self) {
        if let Some(Server { slot, .. }) = self.0.server.as_deref() {
            slot.cut();
        }
    }

    /// Ends the connection. See [`McpSource::close`].
    pub async fn close(&self) {
        if let Some(Server { slot, .. }) = self.0.server.as_deref() {
            slot.close().await;
        }
    }
}

fn of_closed(server: &Server, failure: McpFailure) -> SeamError {
    if server.slot.closed.is_cancelled() { SeamError::Closed } else { failure.into() }
}

impl std::fmt::Debug for McpConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpConnection")
            .field("name", &self.0.name)
            .field("status", &self.0.status)
            .field("phase", &self.0.phase)
            .field("error", &self.0.error.as_ref().map(ToString::to_string))
            .field("tools", &self.tools().len())
            .finish_non_exhaustive()
    }
}
