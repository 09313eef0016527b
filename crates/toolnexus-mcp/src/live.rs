//! A connection that stands: its wire, its life and its end.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ServerResult;
use rmcp::service::{ClientInitializeError, Peer, RunningService, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolnexus_core::WaitFor;

use toolnexus_process::{ChildExit, ChildProcess, ChildView};

use crate::admission::Admission;
use crate::auth::Asking;
use crate::child::last_words;
use crate::config::McpServerConfig;
use crate::connect::McpServerInfo;
use crate::era::{self, Address, Seen, Verdict, verdicts};
use crate::failure::{Fault, McpFailure, McpFailureKind, McpPhase, quoted_stderr};
use crate::handler::Handler;
use crate::http::{HttpFault, HttpLink};
use crate::in_flight::CallsInFlight;
use crate::stdio::{Down, StdioError};
use crate::transport::Session;
use crate::wire;

/// How long closing one connection may take: the goodbye to a session, mostly.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// How long closing waits for a killed child to be reaped and for tasks to see the end.
const REAP_LIMIT: Duration = Duration::from_secs(1);

/// The wire of a connection, from the outside. Dropping it ends whatever it still holds.
pub(crate) enum Wire {
    /// A child process.
    Stdio {
        /// The child; killed with this.
        child: ChildProcess,
        /// Why it is gone.
        down: Down,
    },
    /// An HTTP endpoint.
    Http(HttpLink),
    /// A wire of the host's own.
    Foreign {
        /// Why it is gone.
        down: Down,
        /// Ends it.
        cut: CancellationToken,
    },
}

impl Wire {
    /// Ends the wire at once.
    pub(crate) fn cut(&self) {
        match self {
            Wire::Stdio { child, .. } => child.kill(),
            Wire::Http(link) => link.abort(),
            Wire::Foreign { cut, .. } => cut.cancel(),
        }
    }

    /// Whom its time limits wait for.
    pub(crate) fn asking(&self) -> Asking {
        match self {
            Wire::Stdio { .. } | Wire::Foreign { .. } => Asking::default(),
            Wire::Http(link) => link.asking().clone(),
        }
    }

    fn child(&self) -> Option<ChildView> {
        match self {
            Wire::Stdio { child, .. } => Some(child.view()),
            Wire::Http(_) | Wire::Foreign { .. } => None,
        }
    }

    /// The tail of a child's standard error.
    pub(crate) fn stderr(&self) -> Vec<String> {
        self.child().map(|child| child.stderr()).unwrap_or_default()
    }

    /// Whether everything goes through one pipe.
    fn is_pipe(&self) -> bool {
        !matches!(self, Wire::Http(_))
    }

    /// How a child ended.
    pub(crate) fn exit(&self) -> Option<ChildExit> {
        self.child().and_then(|child| child.exit())
    }

    /// Why a request ended when nobody answered it and nobody here ended it.
    async fn lost(&self) -> Fault {
        match self {
            // All who ask are told the same, whatever comes to light later.
            Wire::Stdio { child, down } => {
                down.get_or_init(|| async { last_words(&child.view()).await }).await.clone()
            }
            Wire::Http(link) => link.stream_ended(),
            Wire::Foreign { down, .. } => {
                down.get().cloned().unwrap_or_else(|| Fault::transport("stream-failed"))
            }
        }
    }

    /// What was seen of the answer to the beginning of the session.
    pub(crate) fn seen(&self) -> Seen {
        match self {
            Wire::Http(link) => link.seen(),
            _ => Seen::default(),
        }
    }

    /// Whether calls must not overlap unless the entry says otherwise.
    pub(crate) fn is_serialized(&self) -> bool {
        matches!(self, Wire::Http(link) if link.has_session())
    }

    /// What an error from sending means.
    async fn send_fault(&self, error: &DynamicTransportError) -> Fault {
        let error: &(dyn Error + 'static) = error.error.as_ref();
        if let (Wire::Http(link), Some(error)) =
            (self, error.downcast_ref::<StreamableHttpError<HttpFault>>())
        {
            return link.fault(error);
        }
        if let Some(HttpFault(fault)) = error.downcast_ref::<HttpFault>() {
            return fault.clone();
        }
        match error.downcast_ref::<StdioError>() {
            // The usual reason for a broken pipe is that the child is gone, and that says more.
            Some(StdioError::Write) => {
                let lost = match self.child() {
                    Some(child) => last_words(&child).await,
                    None => self.lost().await,
                };
                if lost.exit.is_some() { lost } else { Fault::transport("write-failed") }
            }
            _ => Fault::transport("write-failed"),
        }
    }

    /// What an error of the handshake means.
    pub(crate) async fn handshake_fault(&self, error: ClientInitializeError) -> Fault {
        match error {
            ClientInitializeError::TransportError { error, .. } => self.send_fault(&error).await,
            ClientInitializeError::ConnectionClosed(_) => self.lost().await,
            ClientInitializeError::JsonRpcError(error) => {
                Fault::rpc(error.code.0.into(), error.message.into_owned())
            }
            ClientInitializeError::ExpectedInitResult(Some(result)) => spoiled(result),
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => match self.seen().code {
                Some(code) => Fault::rpc(code, String::new()),
                None => Fault::with_detail(McpFailureKind::MalformedBody, "unsupported protocol version"),
            },
            _ => Fault::malformed(),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.cut();
    }
}

fn spoiled(result: ServerResult) -> Fault {
    wire::raw_result(result).err().unwrap_or_else(Fault::malformed)
}

/// What a server told of itself when it was greeted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) info: McpServerInfo,
    pub(crate) protocol_version: String,
    pub(crate) declares_tools: bool,
}

/// How a session has begun.
pub(crate) struct Begun {
    pub(crate) facts: Facts,
    pub(crate) session: Session,
    pub(crate) judged: Option<Address>,
}

/// A session that stands. Dropping it ends it without a goodbye.
pub(crate) struct Live {
    pub(crate) server: Arc<str>,
    pub(crate) facts: Facts,
    pub(crate) session: Session,
    /// Whose era was found out, where a refusal may show that it is another now.
    judged: Option<Address>,
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) calls: Arc<CallsInFlight>,
    pub(crate) admission: Admission,
    /// Answers what the server asks of the host.
    pub(crate) wait_for: Option<WaitFor>,
    pub(crate) closed: CancellationToken,
    pub(crate) runtime: Handle,
    pub(crate) wire: Wire,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    tasks: TaskTracker,
}

impl Live {
    pub(crate) fn new(
        config: &McpServerConfig,
        begun: Begun,
        service: RunningService<RoleClient, Handler>,
        calls: Arc<CallsInFlight>,
        wire: Wire,
        tasks: TaskTracker,
    ) -> Self {
        Live {
            server: config.name.as_str().into(),
            facts: begun.facts,
            judged: begun.judged,
            admission: Admission::new(begun.session.concurrency, wire.is_pipe(), config),
            session: begun.session,
            peer: service.peer().clone(),
            calls,
            wait_for: service.service().wait_for.clone(),
            closed: CancellationToken::new(),
            runtime: Handle::current(),
            wire,
            service: Mutex::new(Some(service)),
            tasks,
        }
    }

    /// Why nothing can be asked any more, once that is so.
    pub(crate) fn ended(&self) -> Option<Fault> {
        if self.closed.is_cancelled() {
            return Some(Fault::closed());
        }
        match &self.wire {
            Wire::Stdio { down, .. } | Wire::Foreign { down, .. } => down.get().cloned(),
            Wire::Http(link) => self.peer.is_transport_closed().then(|| link.stream_ended()),
        }
    }

    /// Whether a refusal may show that the server is of another era than was found out.
    pub(crate) fn is_judged(&self) -> bool {
        self.judged.is_some()
    }

    /// Whether a request's fault shows that; the verdict is forgotten then.
    pub(crate) fn unlearn(&self, fault: &Fault) -> bool {
        let Some(address) = &self.judged else { return false };
        let contradicted = era::contradicts(fault, Seen::default(), false);
        if contradicted {
            verdicts().forget(address, Verdict::Modern);
        }
        contradicted
    }

    /// What an error of a request means.
    pub(crate) async fn fault(&self, error: ServiceError) -> Fault {
        if self.closed.is_cancelled() {
            return Fault::closed();
        }
        match error {
            ServiceError::McpError(error) => Fault::rpc(error.code.0.into(), error.message.into_owned()),
            ServiceError::TransportSend(error) => self.wire.send_fault(&error).await,
            ServiceError::TransportClosed => self.wire.lost().await,
            _ => Fault::transport("transport"),
        }
    }

    /// A fault with what is known around it.
    pub(crate) fn failure(&self, fault: Fault, phase: McpPhase) -> McpFailure {
        fault.at(&self.server, phase, quoted_stderr(&self.wire.stderr()))
    }

    /// Ends the connection at once and without a goodbye.
    pub(crate) fn cut(&self) {
        self.closed.cancel();
        self.calls.end();
        self.wire.cut();
        drop(self.service.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Ends the connection: the child with its tree, or the session and its streams. Calls in
    /// flight end at once. Bounded; any number of times.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        self.calls.end();
        if matches!(self.wire, Wire::Stdio { .. }) {
            self.wire.cut();
        }
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(CLOSE_LIMIT).await;
        }
        self.wire.cut();
        settle(std::slice::from_ref(&self.tasks)).await;
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Whoever watches it need not wait any longer.
        self.calls.end();
    }
}

/// Waits a moment for everything that holds a token of one of these to end.
pub(crate) async fn settle(trackers: &[TaskTracker]) {
    let ended = async {
        for tasks in trackers {
            tasks.close();
            tasks.wait().await;
        }
    };
    let _ = tokio::time::timeout(REAP_LIMIT, ended).await;
}
