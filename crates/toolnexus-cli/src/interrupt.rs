//! Ctrl-C, SIGTERM, SIGQUIT and a closed terminal: the first asks everything to end, the second
//! ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::oneshot;
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

    /// What comes of work that waits for a disk, a pipe or a person and cannot be interrupted itself: at the
    /// first signal it is left to itself, and ends with the process. So it should write nothing.
    ///
    /// # Errors
    /// The signal came first.
    pub(crate) async fn or_else<T, W>(&self, work: W) -> Result<T, Failure>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let (send, receive) = oneshot::channel();
        // A thread of its own: one of the runtime's would hold up the end of the process.
        std::thread::spawn(move || {
            // Nobody waits any more after a signal.
            let _ = send.send(work());
        });
        tokio::select! {
            biased;
            () = self.raised() => Err(self.failure()),
            done = receive => done.map_err(|_| Failure::new(Exit::Failed, "the command failed inside")),
        }
    }

    /// The failure of a command that the signal ended.
    pub(crate) fn failure(&self) -> Failure {
        let code = self.code.load(Ordering::Acquire);
        if code == Exit::Terminated.code() {
            Failure::new(Exit::Terminated, "terminated")
        } else if code == Exit::HungUp.code() {
            Failure::new(Exit::HungUp, "the terminal was closed")
        } else if code == Exit::Quit.code() {
            Failure::new(Exit::Quit, "quit")
        } else {
            Failure::new(Exit::Interrupted, "interrupted")
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt()).ok()?;
        let terminate = signal(SignalKind::terminate()).ok()?;
        let quit = signal(SignalKind::quit()).ok()?;
        // A handler would undo what `nohup` has done.
        let hangup = if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup()).ok()?) };
        Some(Signals { interrupt, terminate, quit, hangup })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.quit.recv() => Exit::Quit,
            () = hung_up(self.hangup.as_mut()) => Exit::HungUp,
        }
    }
}

/// Whether whoever started the command wants it to outlive its terminal, as `nohup` does.
#[cfg(unix)]
fn hangup_is_ignored() -> bool {
    use std::io::{IsTerminal as _, stderr, stdin, stdout};
    let status = std::fs::read_to_string("/proc/self/status").ok();
    // Without a `/proc` that tells: `nohup` takes every stream off the terminal.
    let no_terminal = || !(stdin().is_terminal() || stdout().is_terminal() || stderr().is_terminal());
    status.as_deref().and_then(ignores_hangup).unwrap_or_else(no_terminal)
}

/// Reads the set of ignored signals from the text of `/proc/self/status`, where signal 1 (SIGHUP)
/// is the lowest bit.
#[cfg(unix)]
fn ignores_hangup(status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok().map(|mask| mask & 1 == 1)
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_set_of_ignored_signals_is_read() {
        assert_eq!(ignores_hangup("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), Some(true));
        assert_eq!(ignores_hangup("SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n"), Some(false));
        assert_eq!(ignores_hangup("Name:\tx\n"), None);
        assert_eq!(ignores_hangup("SigIgn:\tmany\n"), None);
    }
}
