//! Searching a directory tree: which files there are, and when to stop.

use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ignore::WalkBuilder;
use tokio_util::sync::CancellationToken;
use toolnexus_core::ToolContext;

use crate::builtin::join_text;

/// Directories that hold other people's files.
const NOT_ENTERED: [&str; 2] = ["node_modules", ".git"];

/// Runs a search off the async threads until it ends, the call is cancelled, or the time is over.
///
/// `work` must look at the token often: it fires as well when this future is dropped. A
/// `limit_ms` of 0 is no limit; the context's limit replaces it.
///
/// # Errors
/// Those of `work`; `cancelled`; `timed out after <ms>ms; narrow path or pattern`.
pub(crate) async fn run<R, F>(context: &ToolContext, limit_ms: u64, work: F) -> Result<R, String>
where
    R: Send + 'static,
    F: FnOnce(CancellationToken) -> Result<R, String> + Send + 'static,
{
    let limit_ms = context.timeout_ms.unwrap_or(limit_ms);
    let stop = CancellationToken::new();
    let _stop_when_dropped = stop.clone().drop_guard();
    let searching = tokio::task::spawn_blocking(move || work(stop));
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err("cancelled".to_owned()),
        () = tokio::time::sleep(Duration::from_millis(limit_ms)), if limit_ms != 0 => {
            Err(format!("timed out after {limit_ms}ms; narrow path or pattern"))
        }
        found = searching => found.unwrap_or_else(|error| Err(join_text(error))),
    }
}

/// One file that a walk met.
pub(crate) struct Found {
    /// The path below the root, `/`-separated, undecodable names replaced.
    pub(crate) relative: String,
}

/// Calls `visit` for every regular file below `root`, in no particular order, until `stop` fires.
///
/// Links are neither followed nor reported, except that `root` itself may be one. What cannot be
/// read is passed over.
pub(crate) fn walk(
    root: &Path,
    respect_gitignore: bool,
    stop: &CancellationToken,
    mut visit: impl FnMut(Found),
) {
    let mut builder = WalkBuilder::new(root);
    builder
        .standard_filters(false)
        .ignore(respect_gitignore)
        .git_ignore(respect_gitignore)
        .git_global(respect_gitignore)
        .git_exclude(respect_gitignore)
        .parents(respect_gitignore)
        .require_git(false)
        .filter_entry(|entry| {
            let directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            let skipped = directory && NOT_ENTERED.iter().any(|name| entry.file_name() == *name);
            entry.depth() == 0 || !skipped
        });
    for entry in builder.build() {
        if stop.is_cancelled() {
            return;
        }
        let Ok(entry) = entry else { continue };
        if entry.depth() > 0
            && entry.file_type().is_some_and(|kind| kind.is_file())
            && let Ok(below) = entry.path().strip_prefix(root)
        {
            visit(Found { relative: slashed(below) });
        }
    }
}

fn slashed(path: &Path) -> String {
    let names: Vec<_> = path.components().map(|component| component.as_os_str().to_string_lossy()).collect();
    names.join("/")
}

/// The directory a walk starts at: links in its own path are resolved.
pub(crate) fn root(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

/// The first rows of a sorted list, without holding the list.
pub(crate) struct FirstRows {
    limit: usize,
    /// The smallest rows so far, the largest of them on top.
    kept: BinaryHeap<String>,
    total: usize,
}

impl FirstRows {
    pub(crate) fn new(limit: usize) -> Self {
        FirstRows { limit, kept: BinaryHeap::new(), total: 0 }
    }

    pub(crate) fn add(&mut self, row: String) {
        self.total += 1;
        if self.kept.len() < self.limit {
            self.kept.push(row);
        } else if let Some(mut last) = self.kept.peek_mut()
            && row < *last
        {
            *last = row;
        }
    }

    /// The rows in code-point order, and how many there were in all.
    pub(crate) fn finish(self) -> (Vec<String>, usize) {
        (self.kept.into_sorted_vec(), self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::mpsc;
    use tokio::time::advance;

    /// A search that ends only when it is stopped, and says so.
    fn endless() -> (impl FnOnce(CancellationToken) -> Result<(), String> + Send, mpsc::Receiver<()>) {
        let (sender, stopped) = mpsc::channel();
        let search = move |stop: CancellationToken| {
            while !stop.is_cancelled() {
                std::thread::yield_now();
            }
            sender.send(()).map_err(|error| error.to_string())
        };
        (search, stopped)
    }

    // BUILTIN-106, BUILTIN-102
    #[tokio::test(start_paused = true)]
    async fn a_search_past_its_time_is_stopped_and_is_an_error() {
        let host = ToolContext { timeout_ms: Some(7), ..Default::default() };
        for (context, limit_ms, used) in [(ToolContext::default(), 60_000, 60_000), (host, 60_000, 7)] {
            let (search, stopped) = endless();
            let (result, ()) =
                tokio::join!(run(&context, limit_ms, search), advance(Duration::from_millis(used + 1)));
            assert_eq!(result.unwrap_err(), format!("timed out after {used}ms; narrow path or pattern"));
            stopped.recv().unwrap();
        }
    }

    // BUILTIN-99: 0 is no limit
    #[tokio::test(start_paused = true)]
    async fn without_a_limit_a_search_ends_when_it_ends() {
        let (release, released) = mpsc::channel::<()>();
        let search = move |_stop| released.recv().map_err(|error| error.to_string());
        let context = ToolContext::default();
        let (result, ()) = tokio::join!(run(&context, 0, search), async {
            advance(Duration::from_secs(1_000_000)).await;
            release.send(()).unwrap();
        });
        assert_eq!(result, Ok(()));
    }

    // BUILTIN-19
    #[tokio::test]
    async fn a_cancelled_search_is_stopped() {
        let (search, stopped) = endless();
        let context = ToolContext::default();
        let (result, ()) = tokio::join!(run(&context, 0, search), async { context.cancel.cancel() });
        assert_eq!(result.unwrap_err(), "cancelled");
        stopped.recv().unwrap();
    }

    // BUILTIN-19
    #[tokio::test]
    async fn a_dropped_search_is_stopped() {
        let (search, stopped) = endless();
        let context = ToolContext::default();
        let mut running = Box::pin(run(&context, 0, search));
        assert!(futures::poll!(&mut running).is_pending());
        drop(running);
        stopped.recv().unwrap();
    }

    // BUILTIN-12
    #[tokio::test]
    async fn a_panic_in_a_search_is_an_error() {
        let search = |_stop| -> Result<(), String> { panic!("lost") };
        assert_eq!(run(&ToolContext::default(), 0, search).await.unwrap_err(), "lost");
    }

    proptest! {
        // BUILTIN-57, BUILTIN-106: the order of arrival does not matter
        #[test]
        fn the_first_rows_are_those_of_the_sorted_list(
            rows in proptest::collection::vec("[a-c/-]{0,3}", 0..20), limit in 0usize..12,
        ) {
            let mut first = FirstRows::new(limit);
            rows.iter().cloned().for_each(|row| first.add(row));
            let (kept, total) = first.finish();
            let mut sorted = rows;
            sorted.sort();
            prop_assert_eq!(total, sorted.len());
            sorted.truncate(limit);
            prop_assert_eq!(kept, sorted);
        }
    }
}
