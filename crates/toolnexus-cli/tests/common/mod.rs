//! Running the real command in a directory and an environment of its own.
#![allow(dead_code, reason = "no test file uses all of it")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic in a test is its failure report"
)]

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use toolnexus_testkit::model::ModelServer;

/// Longer than anything here takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The variable that every process of a test inherits, so that what is left can be found.
const MARK: &str = "TOOLNEXUS_CLI_TEST";

/// A directory to run the command in.
pub(crate) struct Place {
    dir: TempDir,
    mark: String,
    env: Vec<(String, String)>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Stdout as lines of JSON, each of which must be an object with a `type`.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| {
                let event: Value =
                    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
                assert!(event["type"].is_string(), "{line}");
                event
            })
            .collect()
    }

    /// Stdout as one JSON document.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless stderr has all of these.
    #[track_caller]
    pub(crate) fn says(&self, wanted: &[&str]) {
        for text in wanted {
            assert!(self.stderr.contains(text), "stderr lacks {text:?}: {self:#?}");
        }
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().display().to_string();
        Place { dir, mark, env: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Sets a variable of the command's otherwise nearly empty environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Writes a file, and the directories above it.
    pub(crate) fn file(self, path: &str, text: impl AsRef<str>) -> Self {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.as_ref()).unwrap();
        self
    }

    /// Writes `mcp.json` with these servers.
    pub(crate) fn servers<const N: usize>(self, servers: [(&str, Value); N]) -> Self {
        let servers: serde_json::Map<_, _> =
            servers.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect();
        let document = serde_json::json!({"mcpServers": servers});
        self.file("mcp.json", document.to_string())
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolnexus"));
        command
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("TMPDIR", self.path())
            .env(MARK, &self.mark)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// The same command, started by a script that finds it in `"$@"`.
    pub(crate) fn shell(&self, script: &str, command: &Command) -> Command {
        let std = command.as_std();
        let mut by_shell = Command::new("sh");
        by_shell
            .args(["-c", script, "sh"])
            .arg(std.get_program())
            .args(std.get_args())
            .current_dir(self.path())
            .env_clear()
            .envs(std.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        by_shell
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    /// Runs the command to its end; nothing may be left running.
    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        self.end(self.spawn(args)).await
    }

    /// The same with something on stdin.
    pub(crate) async fn run_with_stdin(&self, args: &[&str], input: impl Into<Vec<u8>>) -> Ran {
        let input = input.into();
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        tokio::spawn(async move {
            // The command may end without having read all of it.
            let _ = stdin.write_all(&input).await;
        });
        self.end(child).await
    }

    /// Waits for the command; nothing may be left running.
    pub(crate) async fn end(&self, child: Child) -> Ran {
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
            .await
            .expect("the command does not end")
            .unwrap();
        self.assert_nothing_left().await;
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The processes that were started from here and still run: the command, its servers, what
    /// they started. Always none where there is no `/proc`.
    pub(crate) fn processes(&self) -> Vec<String> {
        let marked = format!("{MARK}={}", self.mark);
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        entries
            .flatten()
            .filter(|entry| {
                // A process that has ended and waits to be noticed has no environment.
                let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                environ.split(|byte| *byte == 0).any(|variable| variable == marked.as_bytes())
            })
            .map(|entry| {
                let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                format!("{}: {command}", entry.file_name().to_string_lossy())
            })
            .collect()
    }

    /// A killed process is gone a moment after the kill.
    pub(crate) async fn assert_nothing_left(&self) {
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still running: {left:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// `run PROMPT` against this server, without built-in tools unless `more` brings them back.
pub(crate) fn run_args<'a>(server: &'a str, prompt: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["run", prompt, "--base-url", server, "--model", "m"];
    args.extend(more);
    args
}

/// Within [`PATIENCE`].
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("waited in vain")
}

/// The tools that the first request offered, by name.
pub(crate) fn offered(server: &ModelServer) -> Vec<String> {
    let request = server.requests()[0].json();
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Writes the run of this id into the directory `runs`: its beginning, then these events.
pub(crate) fn write_run(place: &Place, run_id: &str, events: &[Value]) {
    use toolnexus::client::run::RunEvent;
    use toolnexus::client::run_log::{FileRunLog, RunLog as _};
    let started = serde_json::json!({"type": "started", "run_id": run_id, "style": "openai", "model": "m",
        "prompt": "look it up", "max_turns": 10});
    let events = std::iter::once(&started).chain(events).cloned();
    let events: Vec<RunEvent> = events.map(|event| serde_json::from_value(event).unwrap()).collect();
    let dir = place.path().join("runs");
    let run_id = run_id.to_owned();
    // On a thread, because the test has a runtime of its own.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let log = FileRunLog::open(dir).unwrap();
        runtime.block_on(log.append(&run_id, 0, &events)).unwrap();
    })
    .join()
    .unwrap();
}

/// The event of a model that asks for these calls (`id`, `name`, `args`).
pub(crate) fn asked_for(calls: &[Value]) -> Value {
    let wire: Vec<Value> = calls
        .iter()
        .map(|call| {
            serde_json::json!({"id": call["id"], "type": "function",
                "function": {"name": call["name"], "arguments": call["args"].to_string()}})
        })
        .collect();
    serde_json::json!({"type": "model_answered", "finish_reason": "tool_calls", "calls": calls,
        "message": {"role": "assistant", "content": null, "tool_calls": wire}})
}

/// The events of a run whose call of `docs_find` asks something of this kind.
pub(crate) fn suspended(kind: &str, data: Value) -> Vec<Value> {
    let args = serde_json::json!({"q": "life"});
    vec![
        asked_for(&[serde_json::json!({"id": "c1", "name": "docs_find", "args": args})]),
        serde_json::json!({"type": "tool_started", "indices": [0], "args": [args]}),
        serde_json::json!({"type": "suspended", "index": 0, "output": "waiting",
            "request": {"id": "sus-1", "kind": kind, "prompt": "Which city?", "data": data}}),
    ]
}
