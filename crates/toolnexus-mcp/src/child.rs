//! A server that is a child process: how it is started, and its last words.

use std::time::Duration;

use tokio::process::Command;
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolnexus_process::{ChildProcess, ChildView, Pipes};

use crate::config::McpServerConfig;
use crate::failure::Fault;

/// How long a closed standard output waits for the exit status, and for standard error to be read
/// to its end.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(300);

/// Variables that a child gets even when it inherits nothing else: it could not run without them.
const SAFE_BASE: &[&str] = &[
    "PATH", "HOME", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "LC_CTYPE", "USER", "LOGNAME", "SHELL", "TERM",
];
const SAFE_BASE_WINDOWS: &[&str] =
    &["SystemRoot", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "USERPROFILE"];

/// Starts the server's command. `token` is held until the child is reaped.
pub(crate) fn spawn(
    config: &McpServerConfig,
    default_inherit: Option<&[String]>,
    token: TaskTrackerToken,
) -> Result<(ChildProcess, Pipes), Fault> {
    let failed = || Fault::transport("spawn-failed");
    let command = command(config, default_inherit).ok_or_else(failed)?;
    ChildProcess::spawn(command, token).map_err(|_| failed())
}

/// Waits a moment for a child whose output has closed to be gone, and tells how it went.
pub(crate) async fn last_words(child: &ChildView) -> Fault {
    Fault::peer_gone(child.ended(LAST_WORDS_WAIT).await)
}

fn command(config: &McpServerConfig, default_inherit: Option<&[String]>) -> Option<Command> {
    let (program, args) = config.command.split_first()?;
    let mut command = Command::new(program);
    command.args(args);
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
