//! A host's own wire.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Session, SessionMode};
use crate::config::McpServerConfig;
use crate::connect::{Greeting, Opening};
use crate::failure::{Fault, McpFailureKind};
use crate::in_flight::CallsInFlight;
use crate::lifecycle::McpState;
use crate::live::Wire;
use crate::load::list_and_keep;
use crate::open::OpenRequests;
use crate::options::LoadMcpOptions;
use crate::slot::Slot;
use crate::source::McpConnection;
use crate::spend::SpendGate;
use crate::stdio::Down;

/// A transport whose results are handed over unread, like those of the wires of this crate.
struct ForeignTransport<T> {
    inner: T,
    open: OpenRequests,
    calls: Arc<CallsInFlight>,
    down: Down,
    cut: CancellationToken,
    _token: TaskTrackerToken,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ForeignTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outgoing = self.open.note(&message);
        let sending = self.inner.send(message);
        async move {
            let sent = sending.await;
            drop(outgoing);
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        while self.down.get().is_none() {
            let received = tokio::select! {
                () = self.cut.cancelled() => None,
                received = self.inner.receive() => received,
            };
            let Some(message) = received else {
                let _ = self.down.set(Fault::with_detail(McpFailureKind::PeerEof, "transport closed"));
                self.calls.end();
                break;
            };
            // Back to the text it was read from, or nearly: what comes next reads each result by the
            // method that was asked for.
            let text = serde_json::to_string(&message).ok();
            if let Some(message) = text.and_then(|text| self.open.read(&text)) {
                return Some(message);
            }
        }
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

impl McpConnection {
    /// A connection over a wire of the host's own: any rmcp [`Transport`]. `session` says how to begin
    /// on it; `server` has the name, the limits, the tool filter and the policies, and how it is
    /// reached plays no part. The tools are listed as in a load. Never fails: see
    /// [`error`](McpConnection::error).
    ///
    /// The gate is not asked, since the host has opened the wire already. A wire that ends is not
    /// opened again.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// use toolnexus_mcp::transport::{Session, rmcp::transport::async_rw::AsyncRwTransport};
    /// use toolnexus_mcp::{LoadMcpOptions, McpConnection, McpServerConfig};
    /// let (read, write) = tokio::net::TcpStream::connect("127.0.0.1:4000").await?.into_split();
    /// let wire = AsyncRwTransport::new_client(read, write);
    /// let server = McpServerConfig { name: "lab".into(), ..Default::default() };
    /// let lab = McpConnection::over(wire, Session::handshake(), &server, LoadMcpOptions::default()).await;
    /// println!("{:?}", lab.status());
    /// # Ok(()) }
    /// ```
    pub async fn over<T>(
        transport: T,
        session: Session,
        server: &McpServerConfig,
        opts: LoadMcpOptions,
    ) -> McpConnection
    where
        T: Transport<RoleClient> + 'static,
    {
        let tasks = TaskTracker::new();
        let calls = Arc::new(CallsInFlight::default());
        let down = Down::default();
        let cut = CancellationToken::new();
        let foreign = ForeignTransport {
            inner: transport,
            open: OpenRequests::new(Arc::clone(&calls)),
            calls: Arc::clone(&calls),
            down: Arc::clone(&down),
            cut: cut.clone(),
            _token: tasks.token(),
        };
        let greeting = match session.mode {
            SessionMode::Handshake => Greeting::Handshake,
            SessionMode::Ready => Greeting::Ready { judged: None },
        };
        let config = McpServerConfig { concurrency: Some(session.concurrency), ..server.clone() };
        let wire = Wire::Foreign { down, cut };
        let limit = Duration::from_millis(config.timeout_ms);
        let opening = Opening { config: &config, opts: &opts, tasks: &tasks, greeting, limit };
        match opening.greet(foreign, wire, calls).await {
            Ok(live) => {
                let slot = Slot::empty(&config, SpendGate::new(&config, opts.reserve.clone()), None);
                slot.replace(live);
                slot.set_state(McpState::Running, None);
                list_and_keep(slot).await
            }
            Err(ungreeted) => McpConnection::unreached(ungreeted.unreached(&config), None),
        }
    }
}
