//! Ctrl-C and SIGTERM: the first asks everything to end, the second ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio_util::sync::CancellationToken;

use crate::exit::{Exit, Failure};

/// Whether somebody wants the command to end. Clones share the answer.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    token: CancellationToken,
    /// The exit code of the first signal; 0 before it.
    code: Arc<AtomicU8>,
}

impl Interrupt {
    /// Starts to watch. Needs a runtime.
    pub(crate) fn watch() -> Self {
        let interrupt = Interrupt::default();
        let watched = interrupt.clone();
        // Here and not in the task: from now on no signal ends the process by itself.
        let Some(mut signals) = Signals::new() else { return interrupt };
        tokio::spawn(async move {
            let first = signals.next().await;
            watched.code.store(first.code(), Ordering::Release);
            watched.token.cancel();
            let second = signals.next().await;
            std::process::exit(second.code().into());
        });
        interrupt
    }

    /// Fires at the first signal.
    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Returns at the first signal.
    pub(crate) async fn raised(&self) {
        self.token.cancelled().await;
    }

    /// The failure of a command that the signal ended.
    pub(crate) fn failure(&self) -> Failure {
        if self.code.load(Ordering::Acquire) == Exit::Terminated.code() {
            Failure::new(Exit::Terminated, "terminated")
        } else {
            Failure::new(Exit::Interrupted, "interrupted")
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt()).ok()?;
        let terminate = signal(SignalKind::terminate()).ok()?;
        Some(Signals { interrupt, terminate })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Option<Self> {
        Some(Signals)
    }

    async fn next(&mut self) -> Exit {
        // Without a handler there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Exit::Interrupted
    }
}
