//! The tools that look after background shells.

use std::sync::Arc;

use serde_json::json;
use toolnexus_core::{Tool, ToolResult};

use super::BackgroundShells;
use super::shell::{BackgroundShell, Status};
use crate::args::Args;
use crate::builtin::{CHANGES, Face, READS, metadata, string};

pub(crate) fn output_tool(shells: &Arc<BackgroundShells>) -> Tool {
    let face = Face {
        name: "bash_output",
        description: "Read what a background shell has printed since the last read, and its status.",
        properties: vec![("id", string("The id of the background shell"))],
        required: &["id"],
        hints: READS,
    };
    let shells = Arc::clone(shells);
    face.tool(move |args, _context| {
        // Nothing is waited for between taking the output and returning it, so that none is lost.
        let read = named(&shells, &args).map(|shell| output_result(&shell));
        std::future::ready(read)
    })
}

fn output_result(shell: &BackgroundShell) -> ToolResult {
    let (output, status) = shell.read();
    let facts = match status {
        Status::Running => json!({"status": "running"}),
        Status::Exited(code) => json!({"status": "exited", "exitCode": code}),
        Status::Killed(_) => json!({"status": "killed"}),
    };
    ToolResult::success(format!("{output}\n[status: {status}]")).with_metadata(metadata(facts))
}

pub(crate) fn kill_tool(shells: &Arc<BackgroundShells>) -> Tool {
    let face = Face {
        name: "kill_shell",
        description: "End a background shell and everything it started.",
        properties: vec![("id", string("The id of the background shell"))],
        required: &["id"],
        hints: CHANGES,
    };
    let shells = Arc::clone(shells);
    face.tool(move |args, context| {
        let shell = named(&shells, &args);
        async move {
            let shell = shell?;
            let before = shell.status();
            let status = tokio::select! {
                biased;
                status = shell.end() => status,
                // The shell ends all the same.
                () = context.cancel.cancelled() => return Err("cancelled".to_owned()),
            };
            let id = &shell.id;
            let killed = matches!(status, Status::Killed(_));
            let text = if killed && before == Status::Running {
                format!("Killed background shell {id}")
            } else {
                format!("Background shell {id} already finished ({status})")
            };
            Ok(ToolResult::success(text).with_metadata(metadata(json!({"killed": killed}))))
        }
    })
}

/// The shell that a call names.
fn named(shells: &BackgroundShells, args: &Args) -> Result<Arc<BackgroundShell>, String> {
    let id = args.required_text(&["id", "shell_id", "bash_id"])?;
    shells.find(&id).ok_or_else(|| format!("no background shell with id {id}"))
}
