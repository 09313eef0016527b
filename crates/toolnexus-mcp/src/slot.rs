//! A server's place in a source: the session that stands in it can be replaced.
//!
//! Tools, resource tools and the connection's own record hold the slot and never a session, so a
//! session that is made anew serves them without their knowing. A request that is under way holds
//! the session it was sent on: replacing it fails nobody, and the old session ends with the last
//! request on it.
//!
//! ```text
//! empty ──(replace)──▶ standing ──(replace, renew)──▶ standing
//!   └────────────(close)────┴───────────▶ closed for good
//! ```

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientNotification, ClientRequest, RequestMetaObject};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolnexus_core::ToolContext;

use crate::config::McpServerConfig;
use crate::connect::{Unreached, connect};
use crate::failure::{Fault, McpFailure, McpFailureKind, McpPhase};
use crate::live::Live;
use crate::options::LoadMcpOptions;
use crate::request::{Limits, notify, request};
use crate::spend::SpendGate;
use crate::transport::SessionMode;

/// Why there is no session to send on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vacant {
    /// There has been none yet.
    NotConnected,
    /// The slot was closed.
    Closed,
}

impl From<Vacant> for Fault {
    fn from(vacant: Vacant) -> Self {
        match vacant {
            Vacant::NotConnected => Fault::with_detail(McpFailureKind::Closed, "not connected"),
            Vacant::Closed => Fault::closed(),
        }
    }
}

/// The place of one server's session. See the module's own words.
pub(crate) struct Slot {
    pub(crate) server: Arc<str>,
    pub(crate) config: McpServerConfig,
    /// `None`: the session came from outside and cannot be made again.
    opts: Option<LoadMcpOptions>,
    pub(crate) spend: SpendGate,
    live: Mutex<Option<Arc<Live>>>,
    pub(crate) closed: CancellationToken,
    /// Held while a session is made, so that all who need one wait for the same.
    renewing: tokio::sync::Mutex<()>,
}

impl Slot {
    /// A slot without a session.
    pub(crate) fn empty(config: &McpServerConfig, spend: SpendGate, opts: Option<&LoadMcpOptions>) -> Self {
        Slot {
            server: config.name.as_str().into(),
            config: config.clone(),
            opts: opts.cloned(),
            spend,
            live: Mutex::default(),
            closed: CancellationToken::new(),
            renewing: tokio::sync::Mutex::default(),
        }
    }

    /// A slot with its first session.
    pub(crate) async fn connected(
        config: &McpServerConfig,
        opts: &LoadMcpOptions,
        tasks: &TaskTracker,
    ) -> Result<Self, Unreached> {
        let live = connect(config, opts, tasks).await?;
        let spend = SpendGate::new(config, opts.reserve.clone());
        let slot = Slot::empty(config, spend, Some(opts));
        slot.replace(live);
        Ok(slot)
    }

    /// How long a call may take where it does not say.
    pub(crate) fn limits(&self) -> Limits {
        Limits::of(&self.config)
    }

    /// The session that stands here, ended or not.
    pub(crate) fn current(&self) -> Option<Arc<Live>> {
        self.lock().clone()
    }

    /// The session to send on.
    pub(crate) fn live(&self) -> Result<Arc<Live>, Vacant> {
        if self.closed.is_cancelled() {
            return Err(Vacant::Closed);
        }
        self.current().ok_or(Vacant::NotConnected)
    }

    /// Whether a session stands at this moment.
    pub(crate) fn is_live(&self) -> bool {
        self.live().is_ok_and(|live| live.ended().is_none())
    }

    /// Whether the session is of the modern era.
    pub(crate) fn is_modern(&self) -> bool {
        self.current().is_some_and(|live| live.session.mode == SessionMode::Ready)
    }

    /// Puts a session into the slot and gives the one that stood there. In a closed slot the new
    /// one is cut at once.
    pub(crate) fn replace(&self, live: Arc<Live>) -> Option<Arc<Live>> {
        let mut slot = self.lock();
        // Looked at under the lock: a close looks for a session after its sign.
        if self.closed.is_cancelled() {
            drop(slot);
            live.cut();
            return None;
        }
        slot.replace(live)
    }

    /// Takes the session out of the slot, which is empty then. Its end is up to the caller.
    #[allow(dead_code, reason = "for whoever stops a server to start it again later")]
    pub(crate) fn take(&self) -> Option<Arc<Live>> {
        self.lock().take()
    }

    /// Makes a new session in the place of `stale`, or of none. Whoever comes while that is done, or
    /// with a session that is no longer the current one, gets the session of the others. The old
    /// session is left to the requests on it.
    pub(crate) async fn renew(&self, stale: Option<&Arc<Live>>) -> Result<Arc<Live>, Unreached> {
        let unreached = |fault| Unreached::new(fault, &self.server, McpPhase::Connect);
        let made = async {
            let _renewing = self.renewing.lock().await;
            if let Some(current) = self.current()
                && stale.is_none_or(|stale| !Arc::ptr_eq(stale, &current))
            {
                return Ok(current);
            }
            let Some(opts) = &self.opts else { return Err(unreached(Vacant::NotConnected.into())) };
            let live = connect(&self.config, opts, &TaskTracker::new()).await?;
            self.replace(Arc::clone(&live));
            Ok(live)
        };
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(unreached(Fault::closed())),
            made = made => made,
        }
    }

    /// Sends a request on the session that stands here. See [`request`].
    ///
    /// A refusal that shows a server of another era than was found out makes a new session, once, on
    /// which the request is sent again: the server has not looked at it.
    pub(crate) async fn request(
        &self,
        message: ClientRequest,
        meta: Option<RequestMetaObject>,
        limits: Limits,
        context: Option<&ToolContext>,
    ) -> Result<String, Fault> {
        let started = Instant::now();
        let live = self.live()?;
        let toll = self.spend.toll(&message, context)?;
        if !live.is_judged() {
            return request(&live, message, meta, limits, context, toll).await;
        }
        let fault = match request(&live, message.clone(), meta.clone(), limits, context, toll.clone()).await {
            Err(fault) if live.unlearn(&fault) => fault,
            answer => return answer,
        };
        let cancelled = async {
            match context {
                Some(context) => context.cancel.cancelled().await,
                None => pending().await,
            }
        };
        let renewed = tokio::select! {
            biased;
            () = cancelled => return Err(Fault::new(McpFailureKind::Cancelled)),
            () = sleep(limits.idle) => return Err(Fault::timeout()),
            renewed = Box::pin(self.renew(Some(&live))) => renewed,
        };
        let limits = limits.after(started.elapsed())?;
        match renewed {
            Ok(live) => Box::pin(request(&live, message, meta, limits, context, toll)).await,
            Err(_) if self.closed.is_cancelled() => Err(Fault::closed()),
            Err(_) => Err(fault),
        }
    }

    /// Sends a notification on the session that stands here. See [`notify`].
    pub(crate) async fn notify(&self, notification: ClientNotification) -> Result<(), Fault> {
        let live = self.live()?;
        notify(&live, notification, self.limits().idle).await
    }

    /// A fault with what is known around it.
    pub(crate) fn failure(&self, fault: Fault, phase: McpPhase) -> McpFailure {
        match self.current() {
            Some(live) => live.failure(fault, phase),
            None => fault.at(&self.server, phase, Vec::new()),
        }
    }

    /// Ends the slot and its session at once and without a goodbye.
    pub(crate) fn cut(&self) {
        self.closed.cancel();
        if let Some(live) = self.current() {
            live.cut();
        }
    }

    /// Ends the slot and its session. Bounded; any number of times. The session stays to be asked
    /// what it has left behind, such as a child's last words.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        if let Some(live) = self.current() {
            live.close().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
