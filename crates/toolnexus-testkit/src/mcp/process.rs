//! What a stdio fixture does to its own process.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use super::outlet::Ending;
use super::{Grandchild, StderrSpam};

/// Ends the process, at once and without unwinding.
pub(crate) fn end(ending: Ending) -> ! {
    match ending {
        Ending::Exit(code) => std::process::exit(code),
        Ending::Kill => {
            #[cfg(unix)]
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            std::process::abort()
        }
        Ending::Abort => std::process::abort(),
    }
}

/// Closes the pipe behind stdout. The descriptor itself then leads to the null device.
#[cfg(unix)]
pub(crate) fn close_stdout() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(null)?)
}

/// Windows has no safe way to do it: the process ends instead.
#[cfg(not(unix))]
pub(crate) fn close_stdout() -> io::Result<()> {
    end(Ending::Exit(0))
}

/// Takes the polite signals and does nothing. Needs a tokio runtime.
#[cfg(unix)]
pub(crate) fn ignore_signals() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        // The handler stays when the stream is dropped.
        drop(signal(kind)?);
    }
    Ok(())
}

/// Windows has no such signals.
#[cfg(not(unix))]
pub(crate) fn ignore_signals() -> io::Result<()> {
    Ok(())
}

/// Writes noise to stderr until it is done or nobody reads.
pub(crate) fn spam_stderr(spam: StderrSpam) {
    let line = "s".repeat(spam.bytes);
    let mut left = spam.lines.unwrap_or(u64::MAX);
    while left > 0 && writeln!(io::stderr(), "{line}").is_ok() {
        left -= 1;
    }
}

/// The grandchild.
#[derive(Debug)]
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn spawn(kind: Grandchild) -> io::Result<Self> {
        let mut command = if cfg!(windows) { Command::new("ping") } else { Command::new("sleep") };
        command.args(if cfg!(windows) { &["-n", "60", "127.0.0.1"][..] } else { &["60"] });
        command.stdin(Stdio::null());
        if kind == Grandchild::Quiet {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        command.spawn().map(Self)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
