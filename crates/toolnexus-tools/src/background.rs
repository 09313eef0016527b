//! Shells that go on running after the call that started them.

use std::sync::Arc;
use std::time::SystemTime;

use toolnexus_core::Tool;

use crate::builtin::{CHANGES, Face, READS, string};

/// A registry of background shells. The host owns it, and calls [`BackgroundShells::close_all`] when
/// it shuts down; several toolkits may share one.
#[derive(Debug, Default)]
pub struct BackgroundShells {}

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
        Vec::new()
    }

    /// Ends a shell with everything it started. `true`: it was running and does not any more; `false`:
    /// it had ended before, or there is none with this id.
    pub async fn kill(&self, _id: &str) -> bool {
        false
    }

    /// Ends all shells, and waits until they are gone. No other can be started afterwards.
    pub async fn close_all(&self) {}
}

pub(crate) fn output_tool(_shells: &Arc<BackgroundShells>) -> Tool {
    let face = Face {
        name: "bash_output",
        description: "Read what a background shell has printed since the last read, and its status.",
        properties: vec![("id", string("The id of the background shell"))],
        required: &["id"],
        hints: READS,
    };
    face.tool(|_args, _context| async { Err("not there yet".to_owned()) })
}

pub(crate) fn kill_tool(_shells: &Arc<BackgroundShells>) -> Tool {
    let face = Face {
        name: "kill_shell",
        description: "End a background shell and everything it started.",
        properties: vec![("id", string("The id of the background shell"))],
        required: &["id"],
        hints: CHANGES,
    };
    face.tool(|_args, _context| async { Err("not there yet".to_owned()) })
}
