//! A handshake between a test and the server.

use std::sync::Arc;

use tokio::sync::watch;

/// Holds a reply back until the test says go.
///
/// A gate is closed when made and stays open once opened. Clones are the same gate. The server
/// waits at it ([`Reply::wait`](super::Reply::wait), [`Reply::hold`](super::Reply::hold),
/// [`ModelReply::wait`](super::ModelReply::wait)); the test opens it when it has seen the effect
/// of the bytes before it, and can itself wait until the server has got that far.
///
/// ```
/// use toolnexus_testkit::model::{Gate, Reply};
///
/// let gate = Gate::new();
/// // "Hel" goes out at once, "lo" only after `gate.open()`.
/// let reply = Reply::openai().text("Hel").wait(&gate).text("lo");
/// assert!(!gate.is_open());
/// gate.open();
/// assert!(gate.is_open());
/// # drop(reply);
/// ```
#[derive(Clone, Debug)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
    arrivals: Arc<watch::Sender<usize>>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self { open: Arc::new(watch::Sender::new(false)), arrivals: Arc::new(watch::Sender::new(0)) }
    }

    /// Opens the gate for all who wait at it and all who come later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Whether [`open`](Self::open) was called.
    pub fn is_open(&self) -> bool {
        *self.open.borrow()
    }

    /// How many replies have reached the gate so far. All bytes before it were then written.
    pub fn arrivals(&self) -> usize {
        *self.arrivals.borrow()
    }

    /// Returns when a reply has reached the gate, at once if that has happened already.
    pub async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// Returns when `count` replies have reached the gate.
    pub async fn reached_by(&self, count: usize) {
        // The sender lives in `self`, so the channel cannot close.
        let _ = self.arrivals.subscribe().wait_for(|n| *n >= count).await;
    }

    /// Arrives at the gate and returns when it is open. The server does this; a test may use it
    /// to hold a tool or a responder of its own.
    pub async fn pass(&self) {
        self.arrivals.send_modify(|n| *n += 1);
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&Gate> for Gate {
    fn from(gate: &Gate) -> Self {
        gate.clone()
    }
}
