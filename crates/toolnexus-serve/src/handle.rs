//! The end of a server that runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// How a server is told to end, and how it tells that it has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ending {
    /// Accept nothing more; open requests may end.
    pub(crate) stop: CancellationToken,
    /// Do not wait for them either.
    pub(crate) now: CancellationToken,
    /// Nothing is left.
    pub(crate) done: CancellationToken,
}

/// A server that runs: what [`Toolkit::serve`](toolnexus_core::Toolkit::serve) gives.
///
/// Clones are the same server. It ends with [`ServeHandle::stop`], and at once when the last clone is
/// dropped, unless it was [detached](ServeHandle::detach).
#[derive(Clone)]
#[must_use = "the server ends when its handle is dropped; keep it, or call `detach`"]
pub struct ServeHandle {
    /// Where a program on this machine reaches the server, without a slash at the end. MCP is at
    /// `<url>/mcp`.
    pub url: String,
    /// The port, also when any was asked for.
    pub port: u16,
    owner: Arc<Owner>,
}

struct Owner {
    ending: Ending,
    detached: AtomicBool,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.detached.load(Ordering::Relaxed) {
            self.ending.now.cancel();
            self.ending.stop.cancel();
        }
    }
}

impl ServeHandle {
    pub(crate) fn new(url: String, port: u16, ending: Ending) -> Self {
        ServeHandle { url, port, owner: Arc::new(Owner { ending, detached: AtomicBool::new(false) }) }
    }

    /// Ends the server: nothing is accepted any more, open requests have a few seconds, calls that run
    /// then are cancelled; those of an `mcp_handler` at once. When it returns, within five seconds,
    /// nothing is left but tools that block their threads, which nobody can end.
    ///
    /// May be called any number of times, also from several places at once. Nothing happens before it
    /// is awaited.
    pub async fn stop(&self) {
        self.owner.ending.stop.cancel();
        self.stopped().await;
    }

    /// The same as [`ServeHandle::stop`].
    pub async fn close(&self) {
        self.stop().await;
    }

    /// Returns when the server has ended, whoever ended it.
    pub async fn stopped(&self) {
        self.owner.ending.done.cancelled().await;
    }

    /// Lets the server run to the end of the process, or of its runtime: dropping handles no longer
    /// ends it. [`ServeHandle::stop`] still does.
    pub fn detach(&self) {
        self.owner.detached.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for ServeHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeHandle").field("url", &self.url).finish_non_exhaustive()
    }
}
