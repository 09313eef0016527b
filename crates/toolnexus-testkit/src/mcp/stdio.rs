//! Serving a fixture over stdio.
//!
//! Three parties, so that each can be stuck alone as in a real server: a thread reads stdin, a
//! thread writes stdout and stderr in the order of the scripts' steps, and a tokio runtime on the
//! calling thread runs the scripts.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::task::Poll;
use std::thread;

use tokio::sync::mpsc;

use super::engine::Engine;
use super::ledger::{LedgerEntry, LedgerWriter};
use super::message::Incoming;
use super::outlet::{Ending, Outlet, Output};
use super::process::{self, Sleeper};
use super::run::Run;
use super::{McpFixture, RawJson};

/// Serves a fixture on this process's stdin and stdout until stdin is closed; then the process
/// exits with status 0, or as a script says.
///
/// It takes over the process: call it from `main`, outside any tokio runtime.
///
/// # Errors
/// When the fixture cannot start: its ledger cannot be opened, or its grandchild not be spawned.
pub fn run_stdio(fixture: McpFixture) -> io::Result<()> {
    let mut ledger = LedgerWriter::open(fixture.ledger.as_deref())?;
    let sleeper = fixture.faults.grandchild.map(Sleeper::spawn).transpose()?;
    let grandchild = sleeper.as_ref().map(Sleeper::id);
    ledger.note(&LedgerEntry::Started { pid: std::process::id(), grandchild })?;

    let engine = Engine::new(fixture, grandchild);
    let (outlet, outputs) = Outlet::new();
    thread::spawn(move || write(outputs, sleeper));
    if let Some(spam) = engine.fixture.faults.stderr_spam {
        thread::spawn(move || process::spam_stderr(spam));
    }

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if engine.fixture.faults.ignore_signals {
            process::ignore_signals()?;
        }
        Run::new(engine.clone(), engine.fixture.on_start.clone(), outlet.clone()).run().await;

        // Requests that their scripts have left open count as open.
        let mut open = Vec::new();
        let (lines, mut incoming) = mpsc::unbounded_channel();
        let reader = Reader { engine: engine.clone(), ledger, lines, outlet: outlet.clone() };
        thread::spawn(move || reader.read());
        while let Some(message) = incoming.recv().await {
            let Some(run) = engine.receive(message, outlet.clone()) else { continue };
            let mut run = Box::pin(run.run());
            // What needs no wait is answered in the order of the requests.
            match futures::poll!(&mut run) {
                Poll::Ready(ended) => open.extend(ended.is_open().then_some(ended)),
                Poll::Pending => drop(tokio::spawn(async move {
                    let ended = run.await;
                    if ended.is_open() {
                        std::future::pending().await
                    }
                })),
            }
        }
        if !engine.fixture.faults.ignore_stdin_close {
            outlet.put(Output::End(Ending::Exit(0)));
        }
        std::future::pending().await
    })
}

/// The thread that reads stdin.
struct Reader {
    engine: Arc<Engine>,
    ledger: LedgerWriter,
    lines: mpsc::UnboundedSender<Incoming>,
    outlet: Outlet,
}

impl Reader {
    fn read(mut self) {
        let faults = &self.engine.fixture.faults;
        let limit = faults.stop_reading_after.unwrap_or(usize::MAX);
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        for _ in 0..limit {
            line.clear();
            match input.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => {
                    self.note(&LedgerEntry::StdinClosed);
                    return;
                }
                Ok(_) => self.take(&String::from_utf8_lossy(&line)),
            }
        }
        // Keeps the lock, and with it the pipe unread.
        loop {
            thread::park();
        }
    }

    fn take(&mut self, line: &str) {
        let line = line.trim();
        self.note(&match RawJson::parse(line) {
            Ok(message) => LedgerEntry::Received(message),
            Err(_) => LedgerEntry::Garbage(line.to_owned()),
        });
        // Nobody takes it once the process is ending.
        let _ = self.lines.send(Incoming::parse(line));
    }

    fn note(&mut self, entry: &LedgerEntry) {
        if let Err(error) = self.ledger.note(entry) {
            self.outlet.put(Output::Stderr(format!("the ledger cannot be written: {error}")));
            self.outlet.put(Output::End(Ending::Exit(2)));
        }
    }
}

/// The thread that writes. It owns the grandchild, since it is the one to end the process.
fn write(mut outputs: mpsc::UnboundedReceiver<Output>, mut sleeper: Option<Sleeper>) {
    while let Some(output) = outputs.blocking_recv() {
        let written = match output {
            Output::Answer(line) | Output::Message(line) | Output::Line(line) => {
                put(&[line.as_bytes(), b"\n"])
            }
            Output::Bytes(bytes) => put(&[&bytes]),
            Output::Stderr(line) => writeln!(io::stderr(), "{line}"),
            Output::CloseStdout => process::close_stdout(),
            Output::End(ending) => {
                // Only a kill leaves the grandchild behind, as in life.
                if let (Ending::Exit(_), Some(sleeper)) = (ending, &mut sleeper) {
                    sleeper.kill();
                }
                process::end(ending)
            }
        };
        // A client that is gone takes nothing more; stdin tells when to end.
        let _ = written;
    }
}

fn put(parts: &[&[u8]]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for part in parts {
        stdout.write_all(part)?;
    }
    stdout.flush()
}
