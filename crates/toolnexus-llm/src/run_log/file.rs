//! A log in a directory, one file for each run.

mod lines;
mod run_file;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolnexus_core::BoxFuture;

use self::run_file::{Known, RunFile};
use super::page::page;
use super::{RunFilter, RunLog, RunLogError, RunSummary, check_run_id};
use crate::files::{Queue, create_dir};
use crate::run::RunEvent;

/// What the names of run files end with.
const SUFFIX: &str = ".jsonl";

/// Runs in the files of a directory. Clones are the same log.
///
/// The file of a run is `<run id>.jsonl`: one line for each event, with a checksum, the time in
/// milliseconds since 1970 and the event's place in its append in front of the JSON. When
/// [`append`](RunLog::append) returns, the events are on the disk: it is one write and one sync,
/// and for the first events of a run one sync of the directory.
///
/// * **Crashes.** What a crash left of an unfinished append does not count and is cut off by the
///   next append; an append of several events is never there in part. A line that was changed from
///   outside is [`RunLogError::Corrupt`], and nothing is written to that file any more; it can be
///   removed.
/// * **Processes.** Any number of processes can use one directory, on file systems with advisory
///   locks: whoever appends locks the file and looks how many events there are. Who holds a lock is
///   waited for.
/// * **Futures.** Work happens on threads for blocking work, so a tokio runtime is needed. What was
///   asked of one run happens in the order in which the futures were polled first, and as a whole: one
///   that is dropped later, or not polled again, stops nothing and holds up nobody.
/// * **Cost.** An append costs what its events cost, however long the run is, as long as nobody
///   else writes to the file. A page of a list looks at the first line of every run and reads the
///   runs on the page; with a status in the filter it reads runs until the page is full.
/// * **Lists** leave out, with a warning in the trace, runs that are corrupt or not readable, and
///   ignore whatever else is in the directory.
/// * **Privacy.** On Unix, files are created for their owner alone (mode 0600), and so is the
///   directory if it is not there yet (0700).
///
/// On file systems that ignore case, two ids that differ in nothing else are one run.
///
/// ```
/// use toolnexus_llm::run::RunEvent;
/// use toolnexus_llm::run_log::{FileRunLog, RunLog, RunLogError};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), RunLogError> {
/// # let temporary = tempfile::tempdir().unwrap();
/// # let dir = temporary.path().join("runs");
/// let log = FileRunLog::open(&dir)?;
/// log.append("a", 0, &[RunEvent::Resumed { model: None }]).await?;
///
/// // Another time, in another process:
/// let log = FileRunLog::open(&dir)?;
/// assert_eq!(log.read("a", 0).await?, [RunEvent::Resumed { model: None }]);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct FileRunLog {
    dir: Arc<Path>,
    queue: Arc<Queue<Option<Known>>>,
}

impl FileRunLog {
    /// The log in a directory, which is created if it is not there.
    ///
    /// # Errors
    /// [`RunLogError::Store`] when the directory cannot be created, or is none.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, RunLogError> {
        let dir = dir.into();
        let opened = create_dir(&dir).map_err(|error| failed("open", &dir, error))?;
        Ok(FileRunLog { dir: opened.into(), queue: Arc::default() })
    }

    /// What a list says of one run.
    ///
    /// # Errors
    /// As [`read`](RunLog::read).
    pub async fn summary(&self, run_id: &str) -> Result<RunSummary, RunLogError> {
        let summary = self.with_run(run_id, |file, _| file.summary()).await?;
        summary.ok_or_else(|| RunLogError::NotFound { run_id: run_id.to_owned() })
    }

    /// Does something to the file of a run, in turn.
    async fn with_run<T: Send + 'static>(
        &self,
        run_id: &str,
        work: impl FnOnce(&RunFile, &mut Option<Known>) -> Result<T, RunLogError> + Send + 'static,
    ) -> Result<T, RunLogError> {
        check_run_id(run_id)?;
        let file = RunFile::new(&self.dir, run_id);
        let done = self.queue.run(run_id, move |known| work(&file, known)).await;
        done.map_err(|error| failed("use", &self.dir, error))?
    }
}

impl RunLog for FileRunLog {
    fn append<'a>(
        &'a self,
        run_id: &'a str,
        at: u64,
        events: &'a [RunEvent],
    ) -> BoxFuture<'a, Result<(), RunLogError>> {
        Box::pin(async move {
            // The work outlives a caller that goes away, so it has events of its own.
            let events = events.to_vec();
            self.with_run(run_id, move |file, known| file.append(at, &events, known)).await
        })
    }

    fn read<'a>(&'a self, run_id: &'a str, from: u64) -> BoxFuture<'a, Result<Vec<RunEvent>, RunLogError>> {
        Box::pin(self.with_run(run_id, move |file, _| file.read(from)))
    }

    fn list<'a>(&'a self, filter: RunFilter) -> BoxFuture<'a, Result<Vec<RunSummary>, RunLogError>> {
        Box::pin(async move {
            filter.after.as_deref().map_or(Ok(()), check_run_id)?;
            let dir = Arc::clone(&self.dir);
            let listed = tokio::task::spawn_blocking(move || list(&dir, &filter)).await;
            listed.map_err(|error| failed("list", &self.dir, io::Error::other(error)))?
        })
    }

    fn remove<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Result<(), RunLogError>> {
        Box::pin(self.with_run(run_id, RunFile::remove))
    }
}

/// How many bytes of a file's text are whole appends, or which line, from 1, is damaged. For fuzzing.
#[doc(hidden)]
pub fn whole_appends(text: &[u8]) -> Result<usize, u64> {
    lines::parse(text).map(|contents| contents.bytes)
}

fn list(dir: &Path, filter: &RunFilter) -> Result<Vec<RunSummary>, RunLogError> {
    let mut runs = Vec::new();
    for run_id in run_ids(dir).map_err(|error| failed("list", dir, error))? {
        if let Some(begun_at) = RunFile::new(dir, &run_id).begun_at()? {
            runs.push((begun_at, run_id));
        }
    }
    page(runs, filter, |run_id| RunFile::new(dir, run_id).summary())
}

/// The ids of the files that are named like those of runs.
fn run_ids(dir: &Path) -> io::Result<Vec<String>> {
    let mut run_ids = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let run_id = OsStr::to_str(&name).and_then(|name| name.strip_suffix(SUFFIX));
        if let Some(run_id) = run_id.filter(|run_id| check_run_id(run_id).is_ok())
            && entry.file_type()?.is_file()
        {
            run_ids.push(run_id.to_owned());
        }
    }
    Ok(run_ids)
}

fn failed(what: &str, dir: &Path, error: io::Error) -> RunLogError {
    RunLogError::Store { action: format!("{what} {}", dir.display()), source: error.into() }
}

impl fmt::Debug for FileRunLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRunLog").field("dir", &self.dir).finish_non_exhaustive()
    }
}
