//! Ctrl-C, SIGTERM and a closed terminal: the first asks everything to end, the second ends the process.

#[cfg(unix)]
use std::io::IsTerminal as _;
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
        let code = self.code.load(Ordering::Acquire);
        if code == Exit::Terminated.code() {
            Failure::new(Exit::Terminated, "terminated")
        } else if code == Exit::HungUp.code() {
            Failure::new(Exit::HungUp, "the terminal was closed")
        } else {
            Failure::new(Exit::Interrupted, "interrupted")
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt()).ok()?;
        let terminate = signal(SignalKind::terminate()).ok()?;
        // `nohup` wants the signal ignored, and leaves no terminal on stderr.
        let hangup =
            std::io::stderr().is_terminal().then(|| signal(SignalKind::hangup())).and_then(Result::ok);
        Some(Signals { interrupt, terminate, hangup })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            () = hung_up(self.hangup.as_mut()) => Exit::HungUp,
        }
    }
}

#[cfg(unix)]
async fn hung_up(signal: Option<&mut tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
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
