//! One background shell, and the task that looks after it.

use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use toolnexus_process::{Exit, Job};

use super::BackgroundShellInfo;
use super::unread::Unread;
use crate::bash::{AFTER_EXIT, LAST_WORDS};
use crate::output_pipe::{CHUNK, OutputPipe};
use crate::shell::Shell;

/// How much longer than its grace a shell may take to end before it is given up: its task is not run,
/// or the system cannot end it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How far a shell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Running,
    /// It ended by itself, with this code.
    Exited(i32),
    /// It was ended from here.
    Killed(i32),
}

pub(super) struct BackgroundShell {
    pub(super) id: String,
    command: String,
    started: SystemTime,
    grace: Duration,
    job: Job,
    printed: Mutex<Printed>,
    /// Somebody wants it to end.
    unwanted: CancellationToken,
    /// It has ended and its output is complete.
    ended: CancellationToken,
}

/// Output and status change together: a final status means that there is no more output.
struct Printed {
    unread: Unread,
    status: Status,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Status::Running => f.write_str("running"),
            Status::Exited(code) => write!(f, "exited with code {code}"),
            Status::Killed(_) => f.write_str("killed"),
        }
    }
}

impl BackgroundShell {
    /// Starts a command, and the task that looks after it.
    pub(super) fn start(
        id: String,
        shell: &Shell,
        command: &str,
        workdir: &Path,
        grace: Duration,
    ) -> Result<Arc<Self>, String> {
        let (job, exit, pipe) = shell.start(command, workdir)?;
        let shell = Arc::new(BackgroundShell {
            id,
            command: command.to_owned(),
            started: SystemTime::now(),
            grace,
            job,
            printed: Mutex::new(Printed { unread: Unread::default(), status: Status::Running }),
            unwanted: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        tokio::spawn(attend(Attended(Arc::clone(&shell)), exit, Output::new(pipe)));
        Ok(shell)
    }

    pub(super) fn status(&self) -> Status {
        self.printed().status
    }

    pub(super) fn info(&self) -> BackgroundShellInfo {
        let status = self.status();
        BackgroundShellInfo {
            id: self.id.clone(),
            command: self.command.clone(),
            started: self.started,
            running: status == Status::Running,
            exit_code: match status {
                Status::Running => None,
                Status::Exited(code) | Status::Killed(code) => Some(code),
            },
            killed: matches!(status, Status::Killed(_)),
        }
    }

    /// What was printed since the last time, and how far the shell is.
    pub(super) fn read(&self) -> (String, Status) {
        let mut printed = self.printed();
        let status = printed.status;
        (printed.unread.take(status != Status::Running), status)
    }

    /// Drops output that nobody has read.
    pub(super) fn forget_output(&self) {
        self.printed().unread.forget();
    }

    /// Has the shell ended in good order. It does, whether or not anybody waits for that.
    pub(super) fn ask_to_end(&self) {
        self.unwanted.cancel();
    }

    /// Ends the shell, waits until it has ended, and tells how.
    pub(super) async fn end(&self) -> Status {
        self.ask_to_end();
        if timeout(self.grace.saturating_add(PATIENCE), self.ended.cancelled()).await.is_err() {
            self.kill();
        }
        self.status()
    }

    /// Ends the shell at once.
    pub(super) fn kill(&self) {
        self.job.kill();
        // Its output is given up.
        self.finish(Status::Killed(-1));
    }

    fn finish(&self, status: Status) {
        let mut printed = self.printed();
        if printed.status == Status::Running {
            printed.status = status;
        }
        drop(printed);
        self.ended.cancel();
    }

    fn push(&self, bytes: &[u8]) {
        let mut printed = self.printed();
        // A shell that was given up may still print.
        if printed.status == Status::Running {
            printed.unread.push(bytes);
        }
    }

    fn printed(&self) -> MutexGuard<'_, Printed> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A shell that has a task. A task that is dropped, as when its runtime ends, takes the shell along.
struct Attended(Arc<BackgroundShell>);

impl Drop for Attended {
    fn drop(&mut self) {
        if self.0.status() == Status::Running {
            self.0.kill();
        }
    }
}

/// The reading end of what a shell prints.
struct Output {
    pipe: OutputPipe,
    open: bool,
    buffer: Vec<u8>,
}

impl Output {
    fn new(pipe: OutputPipe) -> Self {
        Output { pipe, open: true, buffer: vec![0; CHUNK] }
    }

    /// Passes output on until it ends.
    async fn read_into(&mut self, shell: &BackgroundShell) {
        while self.open {
            // A pipe that cannot be read has no more to say.
            let read = self.pipe.read(&mut self.buffer).await.unwrap_or(0);
            self.open = read != 0;
            shell.push(self.buffer.get(..read).unwrap_or_default());
        }
    }

    /// Passes output on until `event`; it ends no earlier.
    async fn read_until<T>(&mut self, shell: &BackgroundShell, event: impl Future<Output = T>) -> T {
        let mut event = pin!(event);
        tokio::select! {
            biased;
            value = &mut event => return value,
            () = self.read_into(shell) => {}
        }
        event.await
    }
}

/// Passes a shell's output on until it ends, and ends it when it is not wanted any more.
async fn attend(attended: Attended, mut exit: Exit, mut output: Output) {
    let shell = &*attended.0;
    let exited = output
        .read_until(shell, async {
            tokio::select! {
                biased;
                status = exit.wait() => Some(status),
                () = shell.unwanted.cancelled() => None,
            }
        })
        .await;
    if exited.is_some() {
        // As long as something is left of it, but not for long. Output comes last: there may be
        // more of it than a turn of this task allows, and the rest would then not be looked at.
        tokio::select! {
            biased;
            () = shell.unwanted.cancelled() => {}
            () = sleep(AFTER_EXIT) => {}
            () = output.read_into(shell) => {}
        }
    }
    let asked = output.read_until(shell, shell.job.end(shell.grace)).await;
    let _ = timeout(LAST_WORDS, output.read_into(shell)).await;

    let killed = exited.is_none() && asked;
    let status = match exited {
        Some(status) => status.ok(),
        // A process that the system cannot end just now is not waited for.
        None => timeout(LAST_WORDS, exit.wait()).await.ok().and_then(Result::ok),
    };
    let code = status.and_then(|status| status.code()).unwrap_or(-1);
    shell.finish(if killed { Status::Killed(code) } else { Status::Exited(code) });
}
