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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use rmcp::model::{ClientNotification, ClientRequest, RequestMetaObject};
use tokio::sync::SetOnce;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolnexus_core::ToolContext;
use tracing::warn;

use crate::config::McpServerConfig;
use crate::connect::{Unreached, connect};
use crate::failure::{Fault, McpFailure, McpFailureKind, McpPhase};
use crate::lifecycle::{McpState, Server, Starting, States, bring_back};
use crate::live::Live;
use crate::options::LoadMcpOptions;
use crate::request::{Limits, notify, request};
use crate::spend::SpendGate;
use crate::transport::SessionMode;

/// The pause between two looks at a server's tools: one that announces others whenever it is asked is
/// not asked without end.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

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

/// What comes of starting a server.
type Start = BoxFuture<'static, Result<(), McpFailure>>;

/// The same, for all who wait for it.
pub(crate) type Joined = Shared<Start>;

/// The place of one server's session. See the module's own words.
pub(crate) struct Slot {
    this: Weak<Slot>,
    pub(crate) server: Arc<str>,
    pub(crate) config: McpServerConfig,
    /// `None`: the session came from outside and cannot be made again.
    opts: Option<LoadMcpOptions>,
    pub(crate) spend: SpendGate,
    live: Mutex<Option<Arc<Live>>>,
    pub(crate) closed: CancellationToken,
    states: States,
    /// Who has the tools.
    owner: Arc<SetOnce<Weak<Server>>>,
    /// What is under way to start the server.
    joined: Mutex<Option<WeakShared<Start>>>,
    /// Whether a session has ever stood here.
    stood: AtomicBool,
    /// Held while a session is made, so that all who need one wait for the same.
    renewing: tokio::sync::Mutex<()>,
}

impl Slot {
    /// A slot without a session.
    pub(crate) fn empty(
        config: &McpServerConfig,
        spend: SpendGate,
        opts: Option<&LoadMcpOptions>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Slot {
            this: this.clone(),
            server: config.name.as_str().into(),
            config: config.clone(),
            opts: opts.cloned(),
            spend,
            live: Mutex::default(),
            closed: CancellationToken::new(),
            states: States::default(),
            owner: Arc::default(),
            joined: Mutex::default(),
            stood: AtomicBool::new(false),
            renewing: tokio::sync::Mutex::default(),
        })
    }

    /// A slot with its first session.
    pub(crate) async fn connected(
        config: &McpServerConfig,
        opts: &LoadMcpOptions,
        tasks: &TaskTracker,
    ) -> Result<Arc<Self>, Unreached> {
        let live = Box::pin(connect(config, opts, tasks)).await?;
        let spend = SpendGate::new(config, opts.reserve.clone());
        let slot = Slot::empty(config, spend, Some(opts));
        slot.replace(live);
        slot.set_state(McpState::Running, None);
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
        self.stood.store(true, Ordering::Relaxed);
        self.watch(&live);
        slot.replace(live)
    }

    /// Takes the session out of the slot, which is empty then. Its end is up to the caller.
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
            let live = Box::pin(connect(&self.config, opts, &TaskTracker::new())).await?;
            self.replace(Arc::clone(&live));
            Ok(live)
        };
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(unreached(Fault::closed())),
            made = made => made,
        }
    }

    /// The state of the server.
    pub(crate) fn state(&self) -> McpState {
        self.states.get()
    }

    /// Notes the state; a closed slot's is `stopped`, whatever was under way in it.
    pub(crate) fn set_state(&self, state: McpState, error: Option<String>) {
        let holds = || state == McpState::Stopped || !self.closed.is_cancelled();
        self.states.set(&self.server, state, error, holds);
    }

    /// Who is told of its state.
    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    /// Whether a session stands here, or has stood.
    pub(crate) fn has_stood(&self) -> bool {
        self.stood.load(Ordering::Relaxed)
    }

    /// Whether a session can be made here.
    pub(crate) fn can_start(&self) -> bool {
        self.opts.is_some()
    }

    /// Tells who has the server's tools.
    pub(crate) fn belongs_to(&self, owner: &Weak<Server>) {
        let _ = self.owner.set(owner.clone());
    }

    /// Joins what is under way to start the server, or begins it.
    pub(crate) fn join(&self, begin: impl FnOnce() -> Start) -> Joined {
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(under_way) = joined.as_ref().and_then(WeakShared::upgrade)
            && under_way.peek().is_none()
        {
            return under_way;
        }
        let begun = begin().shared();
        *joined = begun.downgrade();
        begun
    }

    /// The session to send on. A server that is only started when it is needed is started, and one that
    /// is being started is waited for.
    pub(crate) async fn ready(&self, context: Option<&ToolContext>) -> Result<Arc<Live>, Fault> {
        match self.live() {
            Ok(live) => Ok(live),
            Err(Vacant::NotConnected) if self.opts.is_some() => self.started(context).boxed().await,
            Err(vacant) => Err(vacant.into()),
        }
    }

    async fn started(&self, context: Option<&ToolContext>) -> Result<Arc<Live>, Fault> {
        let under_way = {
            let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
            joined.as_ref().and_then(WeakShared::upgrade).filter(|under_way| under_way.peek().is_none())
        };
        let started = match under_way {
            Some(under_way) => under_way,
            None if self.config.lazy && self.has_stood() => {
                let this = self.this.clone();
                self.join(move || async move { start(this).await }.boxed())
            }
            None => return Err(Vacant::NotConnected.into()),
        };
        tokio::select! {
            biased;
            () = cancelled(context) => Err(Fault::new(McpFailureKind::Cancelled)),
            () = self.closed.cancelled() => Err(Fault::closed()),
            started = started => match started {
                Ok(()) => Ok(self.live()?),
                Err(failure) => Err(failure.into_fault()),
            },
            () = expired(context) => Err(Fault::timeout()),
        }
    }

    /// Watches a session that stands here: what its server announces, and its end.
    fn watch(&self, live: &Arc<Live>) {
        let follows = self.opts.as_ref().is_some_and(|opts| opts.live_tool_list);
        let restarts = self.opts.as_ref().and_then(|opts| opts.auto_restart);
        let (slot, watched, calls) = (self.this.clone(), Arc::downgrade(live), Arc::clone(&live.calls));
        let owner = Arc::clone(&self.owner);
        let ran = Instant::now();
        live.runtime.spawn(async move {
            loop {
                let changed = async {
                    // What is announced while the first list is on its way counts for its owner.
                    let owner = owner.wait().await;
                    calls.tools_changed().await;
                    owner
                };
                tokio::select! {
                    biased;
                    () = calls.ended() => break,
                    owner = changed, if follows => follow(owner).await,
                }
                tokio::select! {
                    biased;
                    () = calls.ended() => break,
                    () = sleep(BETWEEN_LOOKS) => {}
                }
            }
            let Some(slot) = slot.upgrade() else { return };
            // Taken out, replaced or closed: its end was meant.
            let stands =
                slot.current().is_some_and(|live| std::ptr::eq(Arc::as_ptr(&live), watched.as_ptr()));
            if !stands || slot.closed.is_cancelled() {
                return;
            }
            let fault =
                slot.current().and_then(|live| live.ended()).unwrap_or_else(|| Fault::transport("transport"));
            let failure = slot.failure(fault, McpPhase::Connect);
            slot.set_state(McpState::Error, Some(failure.to_string()));
            let owner = slot.owner.get().cloned();
            drop(slot);
            if let (Some(policy), Some(owner)) = (restarts, owner) {
                bring_back(owner, policy, ran).await;
            }
        });
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
        let live = self.ready(context).await?;
        let toll = self.spend.toll(&message, context)?;
        if !live.is_judged() {
            return request(&live, message, meta, limits, context, toll).await;
        }
        let fault = match request(&live, message.clone(), meta.clone(), limits, context, toll.clone()).await {
            Err(fault) if live.unlearn(&fault) => fault,
            answer => return answer,
        };
        let renewed = tokio::select! {
            biased;
            () = cancelled(context) => return Err(Fault::new(McpFailureKind::Cancelled)),
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
        let live = self.ready(None).await?;
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
        self.set_state(McpState::Stopped, None);
    }

    /// Ends the slot and its session. Bounded; any number of times. The session stays to be asked
    /// what it has left behind, such as a child's last words.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        if let Some(live) = self.current() {
            live.close().await;
        }
        self.set_state(McpState::Stopped, None);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists the tools of a server that has announced others.
async fn follow(owner: &Weak<Server>) {
    let Some(server) = owner.upgrade() else { return };
    let abandoned = server.abandoned();
    let refreshed = tokio::select! {
        biased;
        () = abandoned.cancelled() => return,
        refreshed = server.refresh() => refreshed,
    };
    drop(server);
    if let Err(failure) = refreshed {
        warn!("[toolnexus] MCP server \"{}\" was not listed anew: {failure}", failure.server());
    }
}

/// Starts a server that is only started when it is needed.
async fn start(slot: Weak<Slot>) -> Result<(), McpFailure> {
    let Some(slot) = slot.upgrade() else { return Ok(()) };
    let starting = Starting::begin(&slot);
    match slot.renew(None).await {
        Ok(_) => {
            starting.done();
            Ok(())
        }
        Err(unreached) => {
            starting.failed(unreached.failure.to_string());
            Err(unreached.failure)
        }
    }
}

/// Ends when the time of whoever asks is over, if it is limited. Starting has limits of its own.
async fn expired(context: Option<&ToolContext>) {
    match context.and_then(|context| context.timeout_ms) {
        Some(limit) => sleep(Duration::from_millis(limit)).await,
        None => pending().await,
    }
}

/// Ends when whoever asks gives up.
async fn cancelled(context: Option<&ToolContext>) {
    match context {
        Some(context) => context.cancel.cancelled().await,
        None => pending().await,
    }
}
