//! The agent's process: its life, its end, and what it wrote beside its messages.

use std::ffi::OsStr;
use std::future::poll_fn;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use toolnexus_core::redact::{cut, redact_secret};

use super::{AcpError, AcpOptions};

/// How long a closed standard output waits for the exit status.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// How long standard error may take to drain once the agent is gone.
const DRAIN_WAIT: Duration = Duration::from_millis(300);

/// How much of standard error is kept, in bytes, and shown, in characters.
const STDERR_KEPT: usize = 16 * 1024;
const STDERR_SHOWN: usize = 1000;

/// How much of a line that is no message is shown.
const LINE_SHOWN: usize = 200;

/// The pipes that messages go through.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

/// A running agent with its whole process tree. Dropping it kills the tree at once; a task of its
/// own reaps it.
pub(super) struct AgentProcess {
    state: Arc<AgentState>,
}

/// What is known of an agent. Does not keep it alive.
pub(super) struct AgentState {
    command: String,
    /// What was given to it in its environment.
    secrets: Vec<SecretString>,
    child: Mutex<Box<dyn ChildWrapper>>,
    end: watch::Sender<End>,
    stderr: Mutex<Vec<u8>>,
    /// The first line of standard output that was no message.
    stray: Mutex<Option<String>>,
    /// Why standard output cannot be read any further.
    unreadable: Mutex<Option<String>>,
}

#[derive(Default)]
struct End {
    /// Set when the agent is gone and reaped.
    exit: Option<Option<ExitStatus>>,
    /// Standard error was closed or given up.
    drained: bool,
}

impl AgentProcess {
    /// Starts the command as the leader of a process group of its own.
    pub(super) fn spawn(
        program: &OsStr,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        options: &AcpOptions,
    ) -> Result<(Self, Pipes), AcpError> {
        let name = program.to_string_lossy().into_owned();
        let failed = |reason: &dyn std::fmt::Display| AcpError::Spawn {
            command: name.clone(),
            reason: reason.to_string(),
        };
        let mut command = Command::new(program);
        command.args(args).envs(&options.env);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &options.cwd {
            command.current_dir(cwd);
        }
        let mut wrap = CommandWrap::from(command);
        #[cfg(unix)]
        wrap.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        wrap.wrap(process_wrap::tokio::JobObject);
        wrap.wrap(KillOnDrop);
        let mut child = wrap.spawn().map_err(|error| failed(&error))?;
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let state = Arc::new(AgentState {
            command: name.clone(),
            secrets: options.env.values().map(|value| value.as_str().into()).collect(),
            child: Mutex::new(child),
            end: watch::Sender::new(End::default()),
            stderr: Mutex::default(),
            stray: Mutex::default(),
            unreadable: Mutex::default(),
        });
        let process = AgentProcess { state: Arc::clone(&state) };
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(failed(&"it has no pipes"));
        };
        tokio::spawn(async move { state.attend(stderr).await });
        Ok((process, Pipes { stdin, stdout }))
    }

    /// What is known of the agent, for whoever must not keep it alive.
    pub(super) fn state(&self) -> Arc<AgentState> {
        Arc::clone(&self.state)
    }
}

impl std::ops::Deref for AgentProcess {
    type Target = AgentState;

    fn deref(&self) -> &AgentState {
        &self.state
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl AgentState {
    /// The command as errors name it.
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    /// Kills the process tree. Safe to call at any time, any number of times.
    pub(super) fn kill(&self) {
        let mut child = lock(&self.child);
        // Once the child is reaped its number may be somebody else's.
        if self.end.borrow().exit.is_none() {
            let _ = child.start_kill();
        }
    }

    /// Waits until the agent is gone and reaped.
    pub(super) async fn gone(&self) {
        let mut end = self.end.subscribe();
        let _ = end.wait_for(|end| end.exit.is_some()).await;
    }

    /// Keeps a line of standard output that is no message.
    pub(super) fn stray_line(&self, line: &str) {
        tracing::debug!(command = self.command, "a line of an ACP agent is no message");
        // Without secrets before it is cut: the first part of one tells enough.
        lock(&self.stray).get_or_insert_with(|| cut(&self.redacted(line.trim()), LINE_SHOWN).into_owned());
    }

    /// Keeps why standard output cannot be read any further.
    pub(super) fn unreadable(&self, problem: impl Into<String>) {
        lock(&self.unreadable).get_or_insert_with(|| problem.into());
    }

    /// Waits a moment for an agent whose output has closed to be gone, and tells how it went.
    pub(super) async fn last_words(&self) -> AcpError {
        let unreadable = lock(&self.unreadable).clone();
        let exit = match unreadable {
            Some(problem) => format!("wrote what cannot be read: {problem}"),
            None => self.exit_text().await,
        };
        AcpError::Ended { command: self.command.clone(), exit, said: self.said() }
    }

    async fn exit_text(&self) -> String {
        let deadline = Instant::now() + EXIT_WAIT;
        let mut end = self.end.subscribe();
        let text = match timeout_at(deadline, end.wait_for(|end| end.exit.is_some())).await {
            Ok(Ok(end)) => end.exit.flatten().map_or_else(|| "ended".to_owned(), status_text),
            _ => "closed its standard output".to_owned(),
        };
        let _ = timeout_at(deadline, end.wait_for(|end| end.drained)).await;
        text
    }

    /// An agent that is still there but has opened no session.
    pub(super) fn start_timeout(&self, within: Duration) -> AcpError {
        let timeout_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        AcpError::StartTimeout { command: self.command.clone(), timeout_ms, said: self.said() }
    }

    /// What the agent wrote beside its messages, without secrets.
    fn said(&self) -> String {
        let mut said = String::new();
        if let Some(line) = lock(&self.stray).as_deref() {
            said.push_str("; it wrote a line that is no message: ");
            said.push_str(line);
        }
        let stderr = String::from_utf8_lossy(&lock(&self.stderr)).into_owned();
        let stderr = self.redacted(stderr.trim());
        if !stderr.is_empty() {
            said.push_str("; its standard error ends with: ");
            said.push_str(end_of(&stderr, STDERR_SHOWN));
        }
        self.redacted(&said)
    }

    /// The text without values that were given to the agent, or that it inherited under a name that
    /// tells of a secret.
    pub(super) fn redacted(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = redact_secret(&text, secret.expose_secret()).into_owned();
        }
        let inherited = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.to_string_lossy().to_uppercase();
            let tells = ["KEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|word| name.contains(word));
            tells.then(|| value.into_string().ok()).flatten()
        });
        for secret in inherited {
            text = redact_secret(&text, &secret).into_owned();
        }
        text
    }

    /// Reads standard error and reaps the agent.
    async fn attend(&self, stderr: ChildStderr) {
        let reading = self.read_stderr(stderr);
        tokio::pin!(reading);
        tokio::select! {
            () = self.reap() => {
                // A process that left the group may hold the pipe open for ever.
                let _ = timeout(DRAIN_WAIT, &mut reading).await;
            }
            () = &mut reading => {
                self.end.send_modify(|end| end.drained = true);
                self.reap().await;
            }
        }
        self.end.send_modify(|end| end.drained = true);
    }

    /// Waits for the agent, then kills what it left behind in its group.
    async fn reap(&self) {
        poll_fn(|context| {
            let mut child = lock(&self.child);
            let Poll::Ready(status) = child.wait().as_mut().poll(context) else { return Poll::Pending };
            // Still under the lock, so that no kill can come in between.
            let _ = child.start_kill();
            self.end.send_modify(|end| end.exit = Some(status.ok()));
            Poll::Ready(())
        })
        .await;
    }

    async fn read_stderr(&self, mut stderr: ChildStderr) {
        let mut buffer = vec![0_u8; 4096];
        loop {
            match stderr.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => {
                    let mut kept = lock(&self.stderr);
                    kept.extend_from_slice(buffer.get(..read).unwrap_or_default());
                    let surplus = kept.len().saturating_sub(STDERR_KEPT);
                    kept.drain(..surplus);
                }
            }
        }
    }
}

impl Drop for AgentState {
    fn drop(&mut self) {
        // Only without a runtime to reap it does an agent get here alive.
        self.kill();
    }
}

fn status_text(status: ExitStatus) -> String {
    if let Some(code) = status.code() {
        return format!("ended with exit code {code}");
    }
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was ended by signal {signal}");
    }
    "ended".to_owned()
}

/// The last `limit` characters.
fn end_of(text: &str, limit: usize) -> &str {
    let surplus = text.chars().count().saturating_sub(limit);
    let start = text.char_indices().nth(surplus).map_or(text.len(), |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // CLIENT-140: the tail that an error shows is never longer, and is cut between characters
        #[test]
        fn the_end_of_a_text_is_its_last_characters(text in "\\PC{0,30}", limit in 0_usize..40) {
            let characters: Vec<char> = text.chars().collect();
            let expected: String = characters[characters.len().saturating_sub(limit)..].iter().collect();
            prop_assert_eq!(end_of(&text, limit), expected);
        }
    }
}
