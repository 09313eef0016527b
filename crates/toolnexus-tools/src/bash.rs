//! The `bash` tool: one command, and nothing of it left behind.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use process_wrap::tokio::CommandWrap;
use serde_json::{Map, Value};
use tokio::time::sleep;
use toolnexus_core::{Tool, ToolContext, ToolResult};

use crate::args::Args;
use crate::builtin::{ANYTHING, Face, number, off_thread, string};
use crate::capture::{CaptureLimits, Captured};
use crate::command_output::CommandOutput;
use crate::config::{BuiltinsConfig, BuiltinsError};
use crate::job::Job;
use crate::paths::Paths;
use crate::shell::Shell;

/// How long a command may take when nobody says.
const DEFAULT_TIMEOUT_MS: u64 = 60_000;

/// How long processes may take to end after they were asked to, when nobody says.
const DEFAULT_GRACE_MS: u64 = 2_000;

/// How long output is awaited from processes that outlive the shell.
const AFTER_EXIT: Duration = Duration::from_millis(500);

/// How long the pipe is emptied after everybody has gone. Only a process that left its group can
/// make that last.
const LAST_WORDS: Duration = Duration::from_millis(100);

struct Bash {
    shell: Result<Shell, BuiltinsError>,
    paths: Arc<Paths>,
    grace: Duration,
    limits: CaptureLimits,
}

pub(crate) fn tool(cfg: &BuiltinsConfig, shell: Result<Shell, BuiltinsError>, paths: &Arc<Paths>) -> Tool {
    let face = Face {
        name: "bash",
        description: "Run one shell command. Returns stdout and stderr combined; a non-zero exit is an error.",
        properties: vec![
            ("command", string("The command to run")),
            ("workdir", string("The directory to run it in; default: the working directory")),
            ("timeout", number("How long it may take, in milliseconds; default 60000")),
            ("description", string("What the command is for, in a few words")),
        ],
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
        let timeout_ms = timeout_ms(args, context)?;
        let workdir = self.workdir(args.text(&["workdir", "cwd"]).unwrap_or_default()).await?;

        if context.cancel.is_cancelled() {
            return result(End::Cancelled, Captured::default(), timeout_ms, false);
        }
        let started = self.start(shell, &command, &workdir).map_err(|error| error.to_string());
        let (mut job, mut output) = started?;
        let end = watch(&mut job, &mut output, timeout_ms, context).await;
        if matches!(end, End::Exited(_)) {
            output.read_for(AFTER_EXIT).await;
        }
        let killed_tree = end_job(&mut job, &mut output, self.grace).await;
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
            Err(format!("working directory not found: {shown}"))
        })
        .await
    }

    fn start(&self, shell: &Shell, command: &str, workdir: &Path) -> io::Result<(Job, CommandOutput)> {
        let (output, stdout, stderr) = CommandOutput::new(self.limits)?;
        let wrapped = CommandWrap::with_new(&shell.program, |process| {
            process.args(&shell.arguments).current_dir(workdir);
            shell.append(command, process);
            process.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        });
        // This process's copies of the writing ends go with `wrapped`, so that the output ends
        // with the job.
        Ok((Job::start(wrapped)?, output))
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
async fn watch(job: &mut Job, output: &mut CommandOutput, timeout_ms: u64, context: &ToolContext) -> End {
    let mut exit = pin!(job.exit());
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
async fn end_job(job: &mut Job, output: &mut CommandOutput, grace: Duration) -> bool {
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
