//! A durable run in a process that is killed, again and again, until the run is done.
//!
//! The child is this test binary itself, with a script of twelve tool calls: side by side, one after the
//! other, one that asks somebody. Each tool writes a ledger of what it did. `TOOLNEXUS_CRASH_KILLS` says
//! how many kills at random instants there are; 60 without it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests; the child speaks to its parent over stdout"
)]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use toolnexus_core::{
    Answer, BoxFuture, Request, Tool, ToolContext, ToolResult, Toolkit, define_tool, pending,
};
use toolnexus_llm::run::RunEvent;
use toolnexus_llm::run_log::{FileRunLog, RunFilter, RunLog, RunLogError, RunSummary};
use toolnexus_llm::{
    ClientError, InDoubt, ResumeOptions, RunDurableOptions, RunResult, RunStatus, Style, create_client,
};
use toolnexus_testkit::model::{ModelServer, Reply, Script};

const INTERRUPTED: &str = "interrupted: the process stopped while this tool ran; its effect is unknown";

/// What the model asks for, turn by turn.
const TURNS: [&[&str]; 5] =
    [&["w0", "w1", "w2", "w3"], &["w4"], &["w5", "w6", "ask"], &["w7", "w8"], &["w9", "w10"]];

/// A model that goes by how often it has answered already.
async fn model() -> ModelServer {
    support::server(Script::respond_with(|request| {
        let body = request.json();
        let answered = body["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "assistant");
        match TURNS.get(answered.count()) {
            Some(calls) => calls.iter().fold(Reply::openai(), |reply, name| {
                reply.tool_call(format!("call-{name}"), *name, json!({"of": name}))
            }),
            None => Reply::openai().text("all done"),
        }
    }))
    .await
}

// ---- the child ----

/// A tool that writes down when it begins and when it has ended.
fn worker(name: &'static str, ledger: PathBuf) -> Tool {
    define_tool(name, name, None, move |_args, context: ToolContext| {
        let ledger = ledger.clone();
        async move {
            if name == "ask" && context.answer.is_none() {
                return pending(Request {
                    kind: "input".into(),
                    prompt: "go on?".into(),
                    ..Default::default()
                });
            }
            write_line(&ledger, &format!("begin {name}"));
            // Long enough to be killed in.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..4))).await;
            write_line(&ledger, &format!("end {name}"));
            ToolResult::success(format!("{name} done"))
        }
    })
}

fn write_line(path: &Path, line: &str) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The log, which stops for good before or after the write that it is told.
struct StoppingLog {
    log: FileRunLog,
    /// Twice the number of the append, and one more to stop after it.
    stop_at: Option<usize>,
    appends: AtomicUsize,
}

impl StoppingLog {
    async fn pass(&self, boundary: usize) {
        if self.stop_at == Some(boundary) {
            println!("stopped");
            std::future::pending::<()>().await;
        }
    }
}

impl RunLog for StoppingLog {
    fn append<'a>(
        &'a self,
        run_id: &'a str,
        at: u64,
        events: &'a [RunEvent],
    ) -> BoxFuture<'a, Result<(), RunLogError>> {
        Box::pin(async move {
            let this = self.appends.fetch_add(1, Ordering::SeqCst);
            self.pass(2 * this).await;
            self.log.append(run_id, at, events).await?;
            self.pass(2 * this + 1).await;
            Ok(())
        })
    }

    fn read<'a>(&'a self, run_id: &'a str, from: u64) -> BoxFuture<'a, Result<Vec<RunEvent>, RunLogError>> {
        self.log.read(run_id, from)
    }

    fn list<'a>(&'a self, filter: RunFilter) -> BoxFuture<'a, Result<Vec<RunSummary>, RunLogError>> {
        self.log.list(filter)
    }

    fn remove<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Result<(), RunLogError>> {
        self.log.remove(run_id)
    }
}

/// The process that is killed. Run by the tests below, never by itself.
#[tokio::test]
#[ignore = "the child of the crash tests"]
async fn child() {
    let Ok(dir) = std::env::var("CRASH_DIR").map(PathBuf::from) else { return };
    let stop_at = std::env::var("CRASH_STOP_AT").ok().map(|at| at.parse().unwrap());
    let in_doubt = match std::env::var("CRASH_IN_DOUBT").as_deref() {
        Ok("retry") => InDoubt::Retry,
        _ => InDoubt::Report,
    };
    let log = FileRunLog::open(dir.join("runs")).unwrap();
    let log: Arc<dyn RunLog> = Arc::new(StoppingLog { log, stop_at, appends: AtomicUsize::new(0) });
    let ledger = dir.join("ledger");
    let tools = TURNS.iter().flat_map(|names| names.iter()).map(|name| worker(name, ledger.clone()));
    let toolkit = Toolkit::from_tools(tools);
    let client = create_client(support::options(Style::OpenAI, std::env::var("CRASH_MODEL").unwrap()));
    println!("ready");
    let resume = |answer| ResumeOptions {
        answer,
        in_doubt: in_doubt.clone(),
        ..ResumeOptions::new(Arc::clone(&log), "r")
    };
    let mut result = match client.resume(&toolkit, resume(None)).await {
        Err(failed) if matches!(failed.error, ClientError::RunLog(RunLogError::NotFound { .. })) => {
            let options =
                RunDurableOptions { run_id: "r".into(), ..RunDurableOptions::new(Arc::clone(&log)) };
            client.run_durable("work", &toolkit, options).await.unwrap()
        }
        resumed => resumed.unwrap(),
    };
    if let Some(request) = &result.pending {
        let answer = Answer { id: request.id.clone(), ok: true, ..Default::default() };
        result = client.resume(&toolkit, resume(Some(answer))).await.unwrap();
    }
    std::fs::write(dir.join("result"), serde_json::to_vec(&result).unwrap()).unwrap();
    println!("finished");
}

// ---- the parent ----

/// One run with its directory and all the processes it takes.
struct Life<'m> {
    dir: tempfile::TempDir,
    model: &'m ModelServer,
    in_doubt: &'static str,
    /// How often each tool had begun when its result was first seen in the log.
    settled: BTreeMap<String, usize>,
}

impl<'m> Life<'m> {
    fn new(model: &'m ModelServer, in_doubt: &'static str) -> Self {
        Life { dir: tempfile::tempdir().unwrap(), model, in_doubt, settled: BTreeMap::new() }
    }

    /// A process of this run that has come as far as to begin.
    fn start(&self, stop_at: Option<usize>) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
            .env("CRASH_DIR", self.dir.path())
            .env("CRASH_MODEL", self.model.base_url())
            .env("CRASH_IN_DOUBT", self.in_doubt)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(at) = stop_at {
            command.env("CRASH_STOP_AT", at.to_string());
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut process = Process { child, lines };
        assert!(process.says("ready"), "{}", process.complaint());
        process
    }

    /// Lets the run finish.
    fn finish(&self) -> RunResult {
        let mut process = self.start(None);
        assert!(process.says("finished"), "{}", process.complaint());
        self.result().unwrap()
    }

    fn result(&self) -> Option<RunResult> {
        let json = std::fs::read(self.dir.path().join("result")).ok()?;
        Some(serde_json::from_slice(&json).unwrap())
    }

    fn ledger(&self) -> BTreeMap<String, usize> {
        let mut begun = BTreeMap::new();
        let text = std::fs::read_to_string(self.dir.path().join("ledger")).unwrap_or_default();
        for name in text.lines().filter_map(|line| line.strip_prefix("begin ")) {
            *begun.entry(name.to_owned()).or_insert(0) += 1;
        }
        begun
    }

    /// After a kill: what the log says is over must never begin again.
    async fn take_stock(&mut self) {
        let log = FileRunLog::open(self.dir.path().join("runs")).unwrap();
        let events = match log.read("r", 0).await {
            Ok(events) => events,
            Err(RunLogError::NotFound { .. }) => return,
            Err(error) => panic!("the log cannot be read after a kill: {error}"),
        };
        let begun = self.ledger();
        let mut turn = 0;
        for event in &events {
            match event {
                RunEvent::ModelAnswered(_) => turn += 1,
                RunEvent::ToolFinished { index, .. } => {
                    let name = TURNS[turn - 1][*index].to_owned();
                    let count = begun.get(&name).copied().unwrap_or(0);
                    self.settled.entry(name).or_insert(count);
                }
                _ => {}
            }
        }
    }

    /// What must be true of a run that is done.
    fn check(&self, result: &RunResult, undisturbed: &RunResult) {
        assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "all done"));
        assert_eq!(result.turns, undisturbed.turns);
        let begun = self.ledger();
        let mut messages = serde_json::to_value(&result.messages).unwrap();
        for (record, expected) in result.tool_calls.iter().zip(&undisturbed.tool_calls) {
            assert_eq!((&record.name, &record.args), (&expected.name, &expected.args));
            let count = begun.get(&record.name).copied().unwrap_or(0);
            if self.in_doubt == "report" {
                assert!(count <= 1, "{} ran {count} times", record.name);
            }
            if let Some(settled) = self.settled.get(&record.name) {
                assert_eq!(count, *settled, "{} was over and ran again", record.name);
            }
            if record.output == INTERRUPTED {
                assert_eq!(self.in_doubt, "report");
            } else {
                assert_eq!(record.output, expected.output);
                assert!(count >= 1, "{} has a result and never ran", record.name);
            }
        }
        assert_eq!(result.tool_call_count, undisturbed.tool_call_count);
        // But for what is in doubt the transcript is the undisturbed one.
        for (message, expected) in
            messages.as_array_mut().unwrap().iter_mut().zip(undisturbed.messages.iter())
        {
            if message["content"] == INTERRUPTED {
                message["content"] = expected["content"].clone();
            }
        }
        assert_eq!(messages, serde_json::to_value(&undisturbed.messages).unwrap());
    }
}

struct Process {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Process {
    /// Reads on until the child says this; false when it ends before.
    fn says(&mut self, what: &str) -> bool {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if line.trim_end().ends_with(what) {
                return true;
            }
            line.clear();
        }
        false
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn complaint(&mut self) -> String {
        let mut text = String::new();
        let _ = std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut text);
        text
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// RUN-30, RUN-10, RUN-15: killed at random instants
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_killed_at_any_time_gets_done() {
    let kills: usize = std::env::var("TOOLNEXUS_CRASH_KILLS").map_or(60, |count| count.parse().unwrap());
    let seed = std::env::var("TOOLNEXUS_CRASH_SEED")
        .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("TOOLNEXUS_CRASH_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let model = model().await;
    let undisturbed = Life::new(&model, "report");
    let began = Instant::now();
    let expected = undisturbed.finish();
    let longest = began.elapsed();
    assert_eq!((expected.tool_call_count, expected.turns), (12, 6));

    let mut killed = 0;
    let mut in_doubt = 0;
    let mut runs = 0;
    while killed < kills {
        let mut life = Life::new(&model, if runs % 2 == 0 { "report" } else { "retry" });
        runs += 1;
        // A few processes for each run, so that its later turns are reached too.
        for _ in 0..random.usize(1..6) {
            let process = life.start(None);
            std::thread::sleep(longest.mul_f64(random.f64() * 0.7));
            process.kill();
            if life.result().is_some() {
                break;
            }
            killed += 1;
            life.take_stock().await;
        }
        let result = life.finish();
        life.check(&result, &expected);
        in_doubt += result.tool_calls.iter().filter(|record| record.output == INTERRUPTED).count();
    }
    println!("{killed} kills, {runs} runs, {in_doubt} calls reported as interrupted");
}

// RUN-30: killed before and after every write
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_killed_at_any_write_gets_done() {
    let model = model().await;
    let expected = Life::new(&model, "report").finish();
    let mut boundaries = 0;
    loop {
        let mut life = Life::new(&model, if boundaries % 2 == 0 { "report" } else { "retry" });
        let mut process = life.start(Some(boundaries));
        if !process.says("stopped") {
            break;
        }
        process.kill();
        life.take_stock().await;
        let result = life.finish();
        life.check(&result, &expected);
        boundaries += 1;
    }
    // At least the starts and ends of six turns and the question, before and after each.
    assert!(boundaries > 30, "{boundaries}");
}
