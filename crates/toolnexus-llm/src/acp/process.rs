//! The agent's process: its life, its end, and what it wrote beside its messages.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::process::Command;
use toolnexus_core::redact::{cut, redact_secret};
use toolnexus_process::{ChildExit, ChildProcess, ChildView, Pipes};

use super::{AcpError, AcpOptions};

/// How long a closed standard output waits for the exit status.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// How much of standard error is shown, in characters.
const STDERR_SHOWN: usize = 1000;

/// How much of a line that is no message is shown.
const LINE_SHOWN: usize = 200;

/// A running agent with its whole process tree. Dropping it kills the tree at once; a task of its
/// own reaps it.
pub(super) struct AgentProcess {
    /// Killed with this.
    _child: ChildProcess,
    state: Arc<AgentState>,
}

/// What is known of an agent. Does not keep it alive.
pub(super) struct AgentState {
    command: String,
    /// What was given to it in its environment.
    secrets: Vec<SecretString>,
    child: ChildView,
    /// The first line of standard output that was no message.
    stray: Mutex<Option<String>>,
    /// Why standard output cannot be read any further.
    unreadable: Mutex<Option<String>>,
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
        if let Some(cwd) = &options.cwd {
            command.current_dir(cwd);
        }
        let (child, pipes) = ChildProcess::spawn(command, ()).map_err(|error| failed(&error))?;
        let state = Arc::new(AgentState {
            command: name.clone(),
            secrets: options.env.values().map(|value| value.as_str().into()).collect(),
            child: child.view(),
            stray: Mutex::default(),
            unreadable: Mutex::default(),
        });
        Ok((AgentProcess { _child: child, state }, pipes))
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

impl AgentState {
    /// The command as errors name it.
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    /// Kills the process tree. Safe to call at any time, any number of times.
    pub(super) fn kill(&self) {
        self.child.kill();
    }

    /// Waits until the agent is gone and reaped.
    pub(super) async fn gone(&self) {
        self.child.gone().await;
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
        match self.child.ended(EXIT_WAIT).await {
            Some(ChildExit::Code(code)) => format!("ended with exit code {code}"),
            Some(ChildExit::Signal(signal)) => format!("was ended by signal {signal}"),
            None if self.child.is_gone() => "ended".to_owned(),
            None => "closed its standard output".to_owned(),
        }
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
        let stderr = self.child.stderr().join("\n");
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
