//! The numbers of a run, told once when it is over, whichever way it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use tokio::time::Instant;

use super::attempts::elapsed_ms;
use crate::client::ClientInner;
use crate::{ClientError, MetricEvent, RunResult};

/// How far a run has come, for whoever must tell its numbers when it is gone.
#[derive(Default)]
pub(crate) struct Tally {
    turns: AtomicU32,
    tool_calls: AtomicUsize,
    total_tokens: AtomicU64,
}

impl Tally {
    pub(crate) fn set(&self, turns: u32, tool_calls: usize, total_tokens: u64) {
        self.turns.store(turns, Relaxed);
        self.tool_calls.store(tool_calls, Relaxed);
        self.total_tokens.store(total_tokens, Relaxed);
    }
}

/// Tells the numbers of a run once it is over, also when it is dropped.
pub(crate) struct RunMeter {
    client: Arc<ClientInner>,
    started: Instant,
    tally: Arc<Tally>,
    told: bool,
}

impl RunMeter {
    pub(crate) fn start(client: &Arc<ClientInner>) -> Self {
        RunMeter { client: Arc::clone(client), started: Instant::now(), tally: Arc::default(), told: false }
    }

    /// What the run counts itself in.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    pub(crate) fn stop(mut self, ended: Result<&RunResult, &ClientError>) {
        if let Ok(result) = ended {
            self.tally.set(result.turns, result.tool_call_count, result.usage.total_tokens);
        }
        self.tell(ended.err().map(ClientError::to_string));
    }

    /// Tells nothing: this was no run.
    pub(crate) fn forget(mut self) {
        self.told = true;
    }

    fn tell(&mut self, error: Option<String>) {
        self.told = true;
        let failed = error.is_some();
        let event = || MetricEvent::Run {
            model: self.client.options.model.clone(),
            turns: self.tally.turns.load(Relaxed),
            tool_calls: self.tally.tool_calls.load(Relaxed),
            total_tokens: self.tally.total_tokens.load(Relaxed),
            ms: elapsed_ms(self.started),
            error,
        };
        self.client.metrics.run(event, failed);
    }
}

impl Drop for RunMeter {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        // Code of the host that panics is not to be looked for among those who cancelled.
        let panicked = std::thread::panicking();
        self.tell(Some(if panicked {
            "the run panicked".into()
        } else {
            ClientError::Cancelled.to_string()
        }));
    }
}
