//! Shells that go on running after the call that started them.
//!
//! ```text
//! bash {run_in_background} ──▶ BackgroundShells ──▶ BackgroundShell   output not read yet, status
//!                                                     ▲ task          reads, waits, ends the job
//! bash_output ───── read ─────────────────────────────┤
//! kill_shell, kill, close_all ── ask to end, wait ────┘
//! ```
//!
//! Each shell has one task, which reads its output, waits for it, and alone ends it in good order: a
//! caller that asks for that and goes away before it is done leaves nothing half done. The task ends
//! with the shell. Output and status lie under one lock, so a final status never comes before output.

mod shell;
mod tools;
mod unread;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use self::shell::{BackgroundShell, Status};
pub(crate) use self::tools::{kill_tool, output_tool};
use crate::shell::Shell;

/// Shells that run at once, at the most.
const MAX_RUNNING: usize = 16;

/// Shells that have ended and whose output still waits for a reader, at the most. Every shell stays
/// listed, so without a bound an agent that never reads would fill the memory in time.
const MAX_ENDED_UNREAD: usize = 64;

/// A registry of background shells. The host owns it, and calls [`BackgroundShells::close_all`] when
/// it shuts down; several toolkits may share one.
///
/// Tools hold the registry, and toolkits hold tools: what still runs when the last of all of them and
/// of the host's own handles is dropped is killed at once. So it is when the tokio runtime ends on
/// which a shell was started, and when this process is killed.
///
/// At most 16 shells run at once. Output waits to be read, up to 1 MiB of each shell and of the 64 that
/// ended last; a read says what was dropped.
///
/// ```
/// # #[cfg(unix)]
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use serde_json::json;
/// use toolnexus_tools::{BackgroundShells, BuiltinsConfig, builtin_toolkit};
///
/// let shells = BackgroundShells::new();
/// let config = BuiltinsConfig { background: Some(shells.clone()), ..Default::default() };
/// let toolkit = builtin_toolkit(Some(&config)).unwrap();
/// let call = json!({"command": "sleep 600", "run_in_background": true});
/// assert_eq!(toolkit.execute("bash", call).await.output, "Started background shell bg1");
/// let read = toolkit.execute("bash_output", json!({"id": "bg1"})).await;
/// assert_eq!(read.output, "\n[status: running]");
/// shells.close_all().await;
/// assert!(shells.list().iter().all(|shell| shell.killed));
/// # }
/// # #[cfg(not(unix))] fn main() {}
/// ```
#[derive(Default)]
pub struct BackgroundShells {
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    closed: bool,
    /// Oldest first, none ever removed.
    shells: Vec<Arc<BackgroundShell>>,
}

/// What is known of one background shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundShellInfo {
    /// `bg1`, `bg2`, …; never used twice in one registry.
    pub id: String,
    /// The command as the model gave it.
    pub command: String,
    /// When it was started.
    pub started: SystemTime,
    /// Whether it has not ended.
    pub running: bool,
    /// The exit code; −1 when a signal ended it. `None` while it runs.
    pub exit_code: Option<i32>,
    /// Whether [`BackgroundShells::kill`], `kill_shell` or [`BackgroundShells::close_all`] ended it.
    pub killed: bool,
}

impl BackgroundShells {
    /// An empty registry.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Every shell that was ever started here, oldest first.
    pub fn list(&self) -> Vec<BackgroundShellInfo> {
        self.registry().shells.iter().map(|shell| shell.info()).collect()
    }

    /// Ends a shell with everything it started, as `kill_shell` does: it is asked to end, and killed
    /// when the configuration's `kill_grace_ms` is over. `true`: it was running and does not any more;
    /// `false`: it had ended before, or there is none with this id.
    ///
    /// Dropping the future does not keep the shell from ending.
    pub async fn kill(&self, id: &str) -> bool {
        let Some(shell) = self.find(id) else { return false };
        shell.status() == Status::Running && matches!(shell.end().await, Status::Killed(_))
    }

    /// Ends all shells side by side, and waits until they are gone. No other can be started
    /// afterwards. Safe at any time, any number of times.
    ///
    /// Dropping the future does not keep the shells from ending.
    pub async fn close_all(&self) {
        let shells = {
            let mut registry = self.registry();
            registry.closed = true;
            registry.shells.clone()
        };
        for shell in &shells {
            shell.ask_to_end();
        }
        futures::future::join_all(shells.iter().map(|shell| shell.end())).await;
    }

    /// Starts a command and gives its id.
    pub(crate) fn start(
        &self,
        shell: &Shell,
        command: &str,
        workdir: &Path,
        grace: Duration,
    ) -> Result<String, String> {
        if cfg!(windows) {
            return Err("background shells are not supported on this platform".to_owned());
        }
        // Held while the command starts, so that none slips through between the checks and the list.
        let mut registry = self.registry();
        if registry.closed {
            return Err("background shells are closed".to_owned());
        }
        let running = registry.shells.iter().filter(|shell| shell.status() == Status::Running).count();
        if running >= MAX_RUNNING {
            return Err(format!("too many background shells ({running} running)"));
        }
        let ended = registry.shells.iter().rev().filter(|shell| shell.status() != Status::Running);
        ended.skip(MAX_ENDED_UNREAD).for_each(|shell| shell.forget_output());
        let id = format!("bg{}", registry.shells.len() + 1);
        registry.shells.push(BackgroundShell::start(id.clone(), shell, command, workdir, grace)?);
        Ok(id)
    }

    fn find(&self, id: &str) -> Option<Arc<BackgroundShell>> {
        self.registry().shells.iter().find(|shell| shell.id == id).cloned()
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BackgroundShells {
    fn drop(&mut self) {
        for shell in &self.registry().shells {
            if shell.status() == Status::Running {
                shell.kill();
            }
        }
    }
}

impl std::fmt::Debug for BackgroundShells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let registry = self.registry();
        f.debug_struct("BackgroundShells")
            .field("closed", &registry.closed)
            .field("shells", &registry.shells.len())
            .finish()
    }
}
