//! A server that is a child process: its life, its end, and what it says on standard error.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::config::McpServerConfig;
use crate::failure::{ChildExit, Fault};

/// How long a closed standard output waits for the exit status.
const EXIT_WAIT: Duration = Duration::from_millis(250);

/// How long it waits in all, for standard error to drain too.
const DRAIN_WAIT: Duration = Duration::from_millis(300);

/// Lines and bytes of standard error that stay readable.
const STDERR_LINES: usize = 200;
const STDERR_BYTES: usize = 64 * 1024;

/// Variables that a child gets even when it inherits nothing else: it could not run without them.
const SAFE_BASE: &[&str] = &[
    "PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "LC_CTYPE", "USER", "LOGNAME", "SHELL", "TERM",
];
const SAFE_BASE_WINDOWS: &[&str] =
    &["SystemRoot", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "USERPROFILE"];

/// What is known of a child's end.
#[derive(Debug, Clone, Copy, Default)]
struct End {
    /// The child is gone and reaped; the inner value is how it ended, if the system said so.
    exit: Option<Option<ChildExit>>,
    /// Standard error was closed or given up.
    drained: bool,
}

struct Shared {
    child: Mutex<Box<dyn ChildWrapper>>,
    stderr: Mutex<StderrTail>,
    end: watch::Sender<End>,
}

/// A running child with its whole process tree. Dropping it kills the tree at once; a task of its
/// own reaps it.
pub(crate) struct ChildProcess {
    shared: Arc<Shared>,
}

/// Looks at a child without keeping it alive.
#[derive(Clone)]
pub(crate) struct ChildView {
    shared: Arc<Shared>,
}

/// The two pipes that messages go through.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

impl ChildProcess {
    /// Starts the server's command as the leader of a process group of its own. `token` is held
    /// until the child is reaped.
    pub(crate) fn spawn(
        config: &McpServerConfig,
        default_inherit: Option<&[String]>,
        token: TaskTrackerToken,
    ) -> Result<(Self, Pipes), Fault> {
        let failed = || Fault::transport("spawn-failed");
        let mut wrap = CommandWrap::from(command(config, default_inherit).ok_or_else(failed)?);
        #[cfg(unix)]
        wrap.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        wrap.wrap(process_wrap::tokio::JobObject);
        wrap.wrap(KillOnDrop);
        let mut child = wrap.spawn().map_err(|_| failed())?;

        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let shared = Arc::new(Shared {
            child: Mutex::new(child),
            stderr: Mutex::new(StderrTail::default()),
            end: watch::Sender::new(End::default()),
        });
        let process = ChildProcess { shared: Arc::clone(&shared) };
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else { return Err(failed()) };
        tokio::spawn(async move {
            shared.attend(stderr).await;
            drop(token);
        });
        Ok((process, Pipes { stdin, stdout }))
    }

    /// Kills the process tree. Safe to call at any time, any number of times.
    pub(crate) fn kill(&self) {
        self.shared.kill();
    }

    pub(crate) fn view(&self) -> ChildView {
        ChildView { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl ChildView {
    /// Waits a moment for a child whose output has closed to be gone, and tells how it went.
    pub(crate) async fn last_words(&self) -> Fault {
        let now = Instant::now();
        let mut end = self.shared.end.subscribe();
        let exit = match timeout_at(now + EXIT_WAIT, end.wait_for(|end| end.exit.is_some())).await {
            Ok(Ok(end)) => end.exit.flatten(),
            _ => None,
        };
        let _ = timeout_at(now + DRAIN_WAIT, end.wait_for(|end| end.drained)).await;
        Fault::peer_gone(exit)
    }

    /// How the child ended, as far as that is known by now.
    pub(crate) fn exit(&self) -> Option<ChildExit> {
        self.shared.end.borrow().exit.flatten()
    }

    /// The tail of standard error, line by line.
    pub(crate) fn stderr(&self) -> Vec<String> {
        lock(&self.shared.stderr).lines()
    }
}

impl Shared {
    fn kill(&self) {
        let mut child = lock(&self.child);
        // Once the child is reaped its number may be somebody else's.
        if self.end.borrow().exit.is_none() {
            let _ = child.start_kill();
        }
    }

    /// Reads standard error and reaps the child.
    async fn attend(&self, stderr: ChildStderr) {
        let reading = self.read_stderr(stderr);
        tokio::pin!(reading);
        tokio::select! {
            () = self.reap() => {
                // A process that left the group may hold the pipe open for ever.
                let _ = tokio::time::timeout(DRAIN_WAIT, &mut reading).await;
            }
            () = &mut reading => {
                self.end.send_modify(|end| end.drained = true);
                self.reap().await;
            }
        }
        self.end.send_modify(|end| end.drained = true);
    }

    /// Waits for the child, then kills what it left behind in its group.
    async fn reap(&self) {
        poll_fn(|context| {
            let mut child = lock(&self.child);
            let Poll::Ready(status) = child.wait().as_mut().poll(context) else { return Poll::Pending };
            // Still under the lock, so that no kill can come in between.
            let _ = child.start_kill();
            let exit = status.ok().and_then(ChildExit::of);
            self.end.send_modify(|end| end.exit = Some(exit));
            Poll::Ready(())
        })
        .await;
    }

    async fn read_stderr(&self, mut stderr: ChildStderr) {
        let mut buffer = vec![0_u8; 4096];
        loop {
            match stderr.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => lock(&self.stderr).push(buffer.get(..read).unwrap_or_default()),
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Only without a runtime to reap it does a child get here alive.
        self.kill();
    }
}

/// The last lines of a stream, bounded by number and size.
#[derive(Default)]
struct StderrTail {
    lines: VecDeque<String>,
    bytes: usize,
    partial: Vec<u8>,
}

impl StderrTail {
    fn push(&mut self, mut chunk: &[u8]) {
        while let Some(at) = chunk.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = chunk.split_at(at);
            self.extend_partial(line);
            self.finish_line();
            chunk = rest.get(1..).unwrap_or_default();
        }
        self.extend_partial(chunk);
    }

    fn extend_partial(&mut self, bytes: &[u8]) {
        // The start of a line tells more than its end.
        let room = STDERR_BYTES.saturating_sub(self.partial.len());
        self.partial.extend(bytes.iter().take(room));
    }

    fn finish_line(&mut self) {
        let line = text_of(&self.partial);
        self.partial.clear();
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > STDERR_LINES || self.bytes > STDERR_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    fn lines(&self) -> Vec<String> {
        let unfinished = (!self.partial.is_empty()).then(|| text_of(&self.partial));
        self.lines.iter().cloned().chain(unfinished).collect()
    }
}

fn text_of(line: &[u8]) -> String {
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()
}

fn command(config: &McpServerConfig, default_inherit: Option<&[String]>) -> Option<Command> {
    let (program, args) = config.command.split_first()?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(cwd) = &config.cwd {
        command.current_dir(cwd);
    }
    if let Some(wanted) = config.inherit_env.as_deref().or(default_inherit) {
        command.env_clear();
        let base = SAFE_BASE.iter().chain(if cfg!(windows) { SAFE_BASE_WINDOWS } else { &[] }).copied();
        for name in base.chain(wanted.iter().map(String::as_str)) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
    }
    command.envs(&config.environment);
    Some(command)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // MCP-49: 200 lines and 64 KiB stay readable
    #[test]
    fn the_tail_is_bounded() {
        let mut tail = StderrTail::default();
        for n in 0..300 {
            tail.push(format!("line {n}\r\n").as_bytes());
        }
        tail.push(b"unfinished");
        let lines = tail.lines();
        assert_eq!(lines.len(), 201);
        assert_eq!((lines[0].as_str(), lines[200].as_str()), ("line 100", "unfinished"));

        let mut tail = StderrTail::default();
        tail.push(&vec![b'x'; 10 * STDERR_BYTES]);
        tail.push(b"\nend\n");
        assert_eq!(tail.lines(), ["end"], "a line as long as the whole tail makes room for the next");
    }

    proptest! {
        // MCP-49: it does not matter how the bytes are cut into chunks
        #[test]
        fn chunks_make_no_difference(text in "[a-c\n]{0,80}", size in 1_usize..9) {
            let (mut whole, mut pieces) = (StderrTail::default(), StderrTail::default());
            whole.push(text.as_bytes());
            text.as_bytes().chunks(size).for_each(|chunk| pieces.push(chunk));
            prop_assert_eq!(whole.lines(), pieces.lines());
            let expected: Vec<&str> = text.strip_suffix('\n').unwrap_or(&text).split('\n').collect();
            if !text.is_empty() { prop_assert_eq!(whole.lines(), expected); }
        }
    }
}
