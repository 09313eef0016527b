//! The life of a server: its state, and starting it again.
//!
//! ```text
//!            ┌──────────(lost)──────────▶ error ──(restart, auto restart)──┐
//! running ───┤                              ▲                              ▼
//!    ▲       └──(restart, lazy, close)──▶ stopped ──(restart, a call)──▶ starting
//!    │                                      │  └─(not reached)─────────────┤
//!    └──────────────────────────────────────┴──────────────────────────────┘
//! ```
//!
//! All of it is off unless asked for: a connection that is lost stays lost, and a changed list of tools
//! is ignored. What a load has found ([`McpSource::status`](crate::McpSource), the record of a failed
//! server) stays as the load found it; the state goes on.
//!
//! A server over streamable HTTP has no connection that could be lost: each exchange fails for itself,
//! and the state stays `running`.

mod server;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolnexus_core::Tool;

use crate::slot::Slot;
use crate::sync::lock;

pub(crate) use server::{Server, bring_back};

/// The longest pause between two attempts to start a server again, and how long one has to run for its
/// earlier losses to be forgotten.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Whether a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpState {
    /// It does not run, and nobody has asked for it.
    Stopped,
    /// It is being started or reached.
    Starting,
    /// Its connection stands.
    Running,
    /// It could not be started, or was lost.
    Error,
}

impl McpState {
    /// `stopped`, `starting`, `running` or `error`.
    pub const fn as_str(self) -> &'static str {
        match self {
            McpState::Stopped => "stopped",
            McpState::Starting => "starting",
            McpState::Running => "running",
            McpState::Error => "error",
        }
    }
}

impl std::fmt::Display for McpState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A server's state is another one now.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct McpStateChange {
    /// The configured name.
    pub server: String,
    /// The state.
    pub state: McpState,
    /// Why, for [`McpState::Error`].
    pub error: Option<String>,
}

/// A server's tools are others now.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct McpToolsChange {
    /// The configured name.
    pub server: String,
    /// Its tools, filtered and with their final names, in its order.
    pub tools: Arc<[Tool]>,
}

/// Starting a lost server again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoRestart {
    /// How often it is tried before the server is left in [`McpState::Error`]. Default: 5.
    pub max_retries: u32,
    /// The pause before the first attempt, in milliseconds; it doubles with each, up to a minute.
    /// Default: 1000.
    pub backoff_ms: u64,
}

impl Default for AutoRestart {
    fn default() -> Self {
        AutoRestart { max_retries: 5, backoff_ms: 1000 }
    }
}

impl AutoRestart {
    /// The pause before an attempt, the first being 0.
    fn pause(self, attempt: u32) -> Duration {
        let doubled = 1_u64.checked_shl(attempt).unwrap_or(u64::MAX);
        Duration::from_millis(self.backoff_ms.saturating_mul(doubled)).min(LONGEST_PAUSE)
    }
}

type Listener<E> = Arc<dyn Fn(&E) + Send + Sync>;

/// Those who want to be told.
pub(crate) struct Listeners<E>(Mutex<Vec<Listener<E>>>);

impl<E> Default for Listeners<E> {
    fn default() -> Self {
        Listeners(Mutex::default())
    }
}

impl<E> Listeners<E> {
    pub(crate) fn add(&self, listener: Listener<E>) {
        lock(&self.0).push(listener);
    }

    /// Tells everybody. Not under the lock: whoever is told may want to listen to more.
    pub(crate) fn tell(&self, event: &E) {
        let listeners = lock(&self.0).clone();
        for listener in listeners {
            if catch_unwind(AssertUnwindSafe(|| listener(event))).is_err() {
                tracing::warn!("[toolnexus] a listener to an MCP server's changes panicked");
            }
        }
    }
}

/// The state of one server, and who wants to know of it.
pub(crate) struct States {
    state: Mutex<McpState>,
    pub(crate) listeners: Listeners<McpStateChange>,
}

impl Default for States {
    fn default() -> Self {
        States { state: Mutex::new(McpState::Stopped), listeners: Listeners::default() }
    }
}

impl States {
    pub(crate) fn get(&self) -> McpState {
        *lock(&self.state)
    }

    /// Notes a state if it still `holds`, which is looked at when no other can come in between.
    pub(crate) fn set(
        &self,
        server: &str,
        state: McpState,
        error: Option<String>,
        holds: impl FnOnce() -> bool,
    ) {
        let before = {
            let mut now = lock(&self.state);
            if !holds() {
                return;
            }
            std::mem::replace(&mut *now, state)
        };
        if before != state {
            self.listeners.tell(&McpStateChange { server: server.to_owned(), state, error });
        }
    }
}

/// A server that is being started. Given up half-way, what there is of it is cut.
pub(crate) struct Starting<'a> {
    slot: &'a Slot,
    settled: bool,
}

impl<'a> Starting<'a> {
    pub(crate) fn begin(slot: &'a Slot) -> Self {
        slot.set_state(McpState::Starting, None);
        Starting { slot, settled: false }
    }

    pub(crate) fn done(mut self) {
        self.settled = true;
        self.slot.set_state(McpState::Running, None);
    }

    pub(crate) fn failed(mut self, why: String) {
        self.settled = true;
        self.slot.set_state(McpState::Error, Some(why));
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if !self.settled {
            if let Some(live) = self.slot.take() {
                live.cut();
            }
            self.slot.set_state(McpState::Stopped, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // MCP-71: doubling, with an end
    #[test]
    fn pauses_double_up_to_a_minute() {
        let pauses: Vec<u64> =
            (0..8).map(|attempt| AutoRestart::default().pause(attempt).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(AutoRestart { backoff_ms: u64::MAX, max_retries: 1 }.pause(200), LONGEST_PAUSE);
        assert_eq!(AutoRestart { backoff_ms: 0, max_retries: 1 }.pause(3), Duration::ZERO);
    }

    // MCP-69: a state is told once, and a listener that panics costs nobody anything
    #[test]
    fn a_change_is_told_once() {
        let states = States::default();
        let told: Arc<Mutex<Vec<McpState>>> = Arc::default();
        states.listeners.add(Arc::new(|_| panic!("no")));
        let note = Arc::clone(&told);
        states.listeners.add(Arc::new(move |change| lock(&note).push(change.state)));
        for state in [McpState::Starting, McpState::Starting, McpState::Error] {
            states.set("x", state, None, || true);
        }
        states.set("x", McpState::Running, None, || false);
        assert_eq!(*lock(&told), [McpState::Starting, McpState::Error]);
        assert_eq!(states.get(), McpState::Error);
    }
}
