//! Which calls are open at a time.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::engine::lock;

/// The open `tools/call` requests, in the eyes of the server: from their coming to their answer,
/// their cancellation or the loss of their connection.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Calls so far, which also numbers them.
    calls: usize,
    peak: usize,
    open: Vec<(usize, Value)>,
}

/// One call; it is no longer open on drop.
#[derive(Debug)]
pub(crate) struct OpenCall {
    number: usize,
    in_flight: Arc<InFlight>,
}

impl InFlight {
    pub(crate) fn open(self: &Arc<Self>, id: Value) -> OpenCall {
        let mut counts = lock(&self.0);
        counts.calls += 1;
        let number = counts.calls;
        counts.open.push((number, id));
        counts.peak = counts.peak.max(counts.open.len());
        OpenCall { number, in_flight: self.clone() }
    }

    /// The client has cancelled the call of that id.
    pub(crate) fn close(&self, id: &Value) {
        lock(&self.0).open.retain(|(_, open)| open != id);
    }

    pub(crate) fn calls(&self) -> usize {
        lock(&self.0).calls
    }

    pub(crate) fn peak(&self) -> usize {
        lock(&self.0).peak
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        lock(&self.in_flight.0).open.retain(|(number, _)| *number != self.number);
    }
}
