//! The `bash` tool: one command, and nothing of it left behind.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::sleep;
use toolnexus_core::{Tool, ToolContext, ToolResult};
use toolnexus_process::{Exit, Job};

use crate::args::Args;
use crate::background::BackgroundShells;
use crate::builtin::{ANYTHING, Face, boolean, metadata, number, off_thread, string};
use crate::capture::{CaptureLimits, Captured};
use crate::command_output::CommandOutput;
use crate::config::{BuiltinsConfig, BuiltinsError};
use crate::paths::Paths;
use crate::shell::{Shell, directory_not_found};

/// How long a command may take when nobody says.
const DEFAULT_TIMEOUT_MS: u64 = 60_000;

/// How long processes may take to end after they were asked to, when nobody says.
const DEFAULT_GRACE_MS: u64 = 2_000;

/// How long output is awaited from processes that outlive the shell.
pub(crate) const AFTER_EXIT: Duration = Duration::from_millis(500);

/// How long the pipe is emptied after everybody has gone. Only a process that left its group can
/// make that last.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(100);

struct Bash {
    shell: Result<Shell, BuiltinsError>,
    paths: Arc<Paths>,
    grace: Duration,
    limits: CaptureLimits,
    /// Where commands go that are to outlive their call.
    background: Option<Arc<BackgroundShells>>,
}

pub(crate) fn tool(cfg: &BuiltinsConfig, shell: Result<Shell, BuiltinsError>, paths: &Arc<Paths>) -> Tool {
    let mut properties = vec![
        ("command", string("The command to run")),
        ("workdir", string("The directory to run it in; default: the working directory")),
        ("timeout", number("How long it may take, in milliseconds; default 60000")),
        ("description", string("What the command is for, in a few words")),
    ];
    if cfg.background.is_some() {
        let meaning =
            "true: return at once and let it run on, without a timeout; see bash_output and kill_shell";
        properties.push(("run_in_background", boolean(meaning)));
    }
    let face = Face {
        name: "bash",
        description: "Run one shell command. Returns stdout and stderr combined; a non-zero exit is an error.",
        properties,
        required: &["command"],
        hints: ANYTHING,
    };
    let bash = Arc::new(Bash {
        shell,
        paths: Arc::clone(paths),
        grace: Duration::from_millis(cfg.kill_grace_ms.unwrap_or(DEFAULT_GRACE_MS)),
        limits: CaptureLimits {
            shown_bytes: cfg.limits.bash_bytes,
            // A model that is confined could not read the file.
            spill_bytes: (!paths.confined()).then_some(cfg.limits.bash_spill_bytes),
        },
        background: cfg.background.clone(),
    });
    face.tool(move |args, context| {
        let bash = Arc::clone(&bash);
        async move {
            let shell = bash.shell.as_ref().map_err(ToString::to_string)?;
            let mut result =
                bash.run(shell, &args, &context).await.unwrap_or_else(|message| failure(&message));
            let shown = result.metadata.get_or_insert_default();
            shown.insert("shell".into(), shell.display().into());
            Ok(result)
        }
    })
}

fn failure(message: &str) -> ToolResult {
    ToolResult::failure(format!("bash: {message}"))
}

/// How the part of a call that is watched came to its end.
enum End {
    Exited(io::Result<ExitStatus>),
    TimedOut,
    Cancelled,
}

impl Bash {
    async fn run(&self, shell: &Shell, args: &Args, context: &ToolContext) -> Result<ToolResult, String> {
        let command = args.required_text(&["command"])?;
        let background = self.background.as_ref().filter(|_| args.flag(&["run_in_background"]));
        let timeout_ms = if background.is_none() { timeout_ms(args, context)? } else { 0 };
        let workdir = self.workdir(args.text(&["workdir", "cwd"]).unwrap_or_default()).await?;

        if context.cancel.is_cancelled() {
            return result(End::Cancelled, Captured::default(), timeout_ms, false);
        }
        match background {
            Some(shells) => {
                let id = shells.start(shell, &command, &workdir, self.grace)?;
                let facts = metadata(json!({"backgroundId": id}));
                Ok(ToolResult::success(format!("Started background shell {id}")).with_metadata(facts))
            }
            None => self.run_to_its_end(shell, &command, &workdir, timeout_ms, context).await,
        }
    }

    async fn run_to_its_end(
        &self,
        shell: &Shell,
        command: &str,
        workdir: &Path,
        timeout_ms: u64,
        context: &ToolContext,
    ) -> Result<ToolResult, String> {
        let (job, mut exit, pipe) = shell.start(command, workdir)?;
        let mut output = CommandOutput::new(pipe, self.limits, context);
        let end = watch(&mut exit, &mut output, timeout_ms, context).await;
        if matches!(end, End::Exited(_)) {
            output.read_for(AFTER_EXIT).await;
        }
        let killed_tree = end_job(&job, &mut output, self.grace).await;
        output.read_for(LAST_WORDS).await;
        result(end, output.finish(), timeout_ms, killed_tree)
    }

    async fn workdir(&self, workdir: String) -> Result<PathBuf, String> {
        let paths = Arc::clone(&self.paths);
        off_thread(move || {
            let real = paths.resolve(&workdir)?;
            if real.is_dir() {
                return Ok(real);
            }
            let shown = if workdir.is_empty() { real.display().to_string() } else { workdir };
            Err(directory_not_found(&shown))
        })
        .await
    }
}

/// The limit of a call: the model's wish, bounded by the host's.
fn timeout_ms(args: &Args, context: &ToolContext) -> Result<u64, String> {
    let host = context.timeout_ms;
    let Some(asked) = args.number(&["timeout"]) else { return Ok(host.unwrap_or(DEFAULT_TIMEOUT_MS)) };
    if !asked.is_finite() || asked <= 0.0 {
        return Err("timeout must be greater than 0".to_owned());
    }
    // The cast saturates; a fraction of a millisecond is one.
    let asked = (asked as u64).max(1);
    Ok(host.map_or(asked, |host| host.min(asked)))
}

/// Reads output until the shell exits, the time is over or the call is cancelled.
async fn watch(
    exit: &mut Exit,
    output: &mut CommandOutput<'_>,
    timeout_ms: u64,
    context: &ToolContext,
) -> End {
    let mut exit = pin!(exit.wait());
    let mut time = pin!(sleep(Duration::from_millis(timeout_ms)));
    loop {
        let chunk = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return End::Cancelled,
            () = &mut time => return End::TimedOut,
            status = &mut exit => return End::Exited(status),
            chunk = output.next() => chunk,
        };
        output.keep(chunk).await;
    }
}

/// Ends what is left of the job. Output is read meanwhile: a process that prints as it ends must
/// not wait for a reader.
async fn end_job(job: &Job, output: &mut CommandOutput<'_>, grace: Duration) -> bool {
    let mut ending = pin!(job.end(grace));
    loop {
        let chunk = tokio::select! {
            biased;
            delivered = &mut ending => return delivered,
            chunk = output.next() => chunk,
        };
        output.keep(chunk).await;
    }
}

fn result(end: End, captured: Captured, timeout_ms: u64, killed_tree: bool) -> Result<ToolResult, String> {
    let output = captured.text;
    let mut facts = Map::new();
    let mut stopped = |timed_out: bool| {
        facts.insert("timedOut".into(), timed_out.into());
        facts.insert("killedTree".into(), killed_tree.into());
    };
    let result = match end {
        End::Cancelled => {
            stopped(false);
            failure(&format!("command cancelled\n{output}"))
        }
        End::TimedOut => {
            stopped(true);
            failure(&format!("command timed out after {timeout_ms}ms\n{output}"))
        }
        End::Exited(status) => {
            let code = status.map_err(|error| error.to_string())?.code().unwrap_or(-1);
            facts.insert("exitCode".into(), code.into());
            match code {
                0 => ToolResult::success(output),
                _ => ToolResult::failure(format!("{output}\nbash: command exited with code {code}")),
            }
        }
    };
    if captured.truncated {
        facts.insert("truncated".into(), true.into());
    }
    if let Some(file) = captured.file {
        facts.insert("outputFile".into(), Value::from(file.to_string_lossy().into_owned()));
    }
    Ok(result.with_metadata(facts))
}
