//! The file in which a stdio fixture notes what it has received.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RawJson;

/// One line of a ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LedgerEntry {
    /// The process has started.
    Started {
        /// Its id.
        pid: u32,
        /// The id of the process it started itself.
        grandchild: Option<u32>,
    },
    /// A message has come, kept verbatim.
    Received(RawJson),
    /// A line has come that is no JSON.
    Garbage(String),
    /// Stdin was closed.
    StdinClosed,
}

/// Reads the ledger of a fixture that runs in another process.
///
/// The file gets one JSON line per message, written before the message is acted on. Several
/// processes may append to one file.
///
/// ```no_run
/// # async fn doc() -> std::io::Result<()> {
/// use toolnexus_testkit::mcp::{Ledger, McpFixture};
///
/// let dir = std::env::temp_dir();
/// let ledger = Ledger::at(dir.join("ledger.jsonl"));
/// let fixture = McpFixture::new().ledger(ledger.path());
/// // … connect a client to the fixture …
/// let cancelled = ledger.wait_for("notifications/cancelled", 1).await?;
/// assert_eq!(cancelled[0]["params"]["requestId"], 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

/// How long [`Ledger::wait_for`] and its kin wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// Another process writes the file, so that nothing can wake the reader.
const POLL: Duration = Duration::from_millis(5);

impl Ledger {
    /// The ledger at that path, which need not exist yet.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All entries so far; none if there is no file yet.
    ///
    /// # Errors
    /// When the file cannot be read, or has a line that is no entry.
    pub fn entries(&self) -> io::Result<Vec<LedgerEntry>> {
        let text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text?,
        };
        // What follows the last line break is being written at this moment.
        let whole = text.rfind('\n').and_then(|end| text.get(..end)).unwrap_or_default();
        whole.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
    }

    /// All received messages so far.
    ///
    /// # Errors
    /// As [`entries`](Self::entries).
    pub fn messages(&self) -> io::Result<Vec<Value>> {
        let received = self.entries()?.into_iter().filter_map(|entry| match entry {
            LedgerEntry::Received(message) => Some(message),
            _ => None,
        });
        received.map(|message| serde_json::from_str(message.get()).map_err(io::Error::from)).collect()
    }

    /// All received messages of that method so far.
    ///
    /// # Errors
    /// As [`entries`](Self::entries).
    pub fn of_method(&self, method: &str) -> io::Result<Vec<Value>> {
        let mut messages = self.messages()?;
        messages.retain(|message| message.get("method").and_then(Value::as_str) == Some(method));
        Ok(messages)
    }

    /// The process ids of each start: the fixture and the process it started.
    ///
    /// # Errors
    /// As [`entries`](Self::entries).
    pub fn processes(&self) -> io::Result<Vec<(u32, Option<u32>)>> {
        let started = self.entries()?.into_iter().filter_map(|entry| match entry {
            LedgerEntry::Started { pid, grandchild } => Some((pid, grandchild)),
            _ => None,
        });
        Ok(started.collect())
    }

    /// Waits until at least `count` messages of that method have come and returns all of them.
    ///
    /// Real time passes, also under a paused tokio clock.
    ///
    /// # Errors
    /// As [`entries`](Self::entries); [`io::ErrorKind::TimedOut`] after 10 seconds.
    pub async fn wait_for(&self, method: &str, count: usize) -> io::Result<Vec<Value>> {
        let wanted = method.to_owned();
        let what = format!("{count} messages {method:?}");
        self.wait_until(what, move |ledger| {
            let messages = ledger.of_method(&wanted)?;
            Ok((messages.len() >= count).then_some(messages))
        })
        .await
    }

    /// Waits until the client has answered the server's request of that id and returns the answer.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    pub async fn wait_for_answer(&self, id: impl Into<Value>) -> io::Result<Value> {
        let id = id.into();
        self.wait_until(format!("answer to request {id}"), move |ledger| {
            Ok(ledger.messages()?.into_iter().find(|message| answers(message, &id)))
        })
        .await
    }

    /// Waits until the fixture has started and returns its process id and that of the process it
    /// started.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    pub async fn started(&self) -> io::Result<(u32, Option<u32>)> {
        self.wait_until("a start".to_owned(), |ledger| Ok(ledger.processes()?.into_iter().next())).await
    }

    async fn wait_until<T: Send + 'static>(
        &self,
        what: String,
        ready: impl Fn(&Self) -> io::Result<Option<T>> + Send + 'static,
    ) -> io::Result<T> {
        struct Stop(Arc<AtomicBool>);
        impl Drop for Stop {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let stop = Stop(Arc::default());
        let stopped = stop.0.clone();
        let ledger = self.clone();
        // A thread of its own: a paused tokio clock does not run ahead while one is waited for.
        let poll = tokio::task::spawn_blocking(move || {
            let deadline = Instant::now() + PATIENCE;
            loop {
                if let Some(value) = ready(&ledger)? {
                    return Ok(value);
                }
                if Instant::now() > deadline || stopped.load(Ordering::Relaxed) {
                    let text = format!("no {what} within 10 s in the ledger; it has {:?}", ledger.entries()?);
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                std::thread::sleep(POLL);
            }
        });
        poll.await.map_err(io::Error::other)?
    }
}

/// Whether a message answers the request of that id.
pub(super) fn answers(message: &Value, id: &Value) -> bool {
    message.get("method").is_none() && message.get("id") == Some(id)
}

/// The writing end, in the fixture's process.
#[derive(Debug)]
pub(crate) struct LedgerWriter(Option<File>);

impl LedgerWriter {
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        path.map(open).transpose().map(Self)
    }

    /// Appends one line in one write, so that lines of several processes do not mix.
    pub(crate) fn note(&mut self, entry: &LedgerEntry) -> io::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}
