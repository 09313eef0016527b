//! Searching a directory tree: where it starts, which files there are, and when to stop.
//!
//! `glob` and `grep` do the same around different work: [`run`] moves it off the async threads and
//! ends it early when it must, [`Root`] says where it starts, [`walk`] meets every file.
//!
//! A search is ended through [`Running`], which its threads look at between any two files and
//! between any two pieces of one. It fires when the call is cancelled, when its time is over and when
//! its future is dropped, so no thread outlives a call by more than such a step.

mod root;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use toolnexus_core::ToolContext;

use crate::builtin::off_thread;
pub(crate) use root::Root;
pub(crate) use walk::{Found, shown, walk};

/// How often a listener hears how many files were visited.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// The memory that the rows of a result may take; of more, the later ones are not shown, whatever number of
/// them was asked for.
pub(crate) const SHOWN_BYTES: usize = 16 * 1024 * 1024;

/// A search under way, as its threads see it.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<State>);

#[derive(Default)]
struct State {
    stopped: AtomicBool,
    files: AtomicU64,
}

impl Running {
    /// Whether to give up: nobody waits for the result any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }

    /// Makes every thread of the search give up.
    pub(crate) fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Counts a file that was visited.
    pub(crate) fn visited(&self) {
        self.0.files.fetch_add(1, Ordering::Relaxed);
    }

    #[expect(clippy::cast_precision_loss, reason = "no tree has that many files")]
    fn report(&self, context: &ToolContext) {
        if !context.reporter.is_heard() {
            return;
        }
        let files = self.0.files.load(Ordering::Relaxed);
        if files == 0 {
            return;
        }
        let noun = if files == 1 { "file" } else { "files" };
        context.progress(files as f64, None, Some(&format!("{files} {noun} visited")));
    }
}

/// Stops a search whose future is gone.
struct StopWhenDropped(Running);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs a search off the async threads until it ends, the call is cancelled, or the time is over.
/// Reports how many files were visited.
///
/// `work` must look at [`Running::is_stopped`] often. A `limit_ms` of 0 is no limit; the context's
/// limit replaces it.
///
/// # Errors
/// Those of `work`; `cancelled`; `timed out after <ms>ms; narrow path or pattern`.
pub(crate) async fn run<R, F>(context: &ToolContext, limit_ms: u64, work: F) -> Result<R, String>
where
    R: Send + 'static,
    F: FnOnce(&Running) -> Result<R, String> + Send + 'static,
{
    let limit_ms = context.timeout_ms.unwrap_or(limit_ms);
    let running = Running::default();
    let _stop_when_dropped = StopWhenDropped(running.clone());
    let searching = off_thread({
        let running = running.clone();
        move || work(&running)
    });
    tokio::pin!(searching);
    let time_is_over = tokio::time::sleep(Duration::from_millis(limit_ms));
    tokio::pin!(time_is_over);
    let mut report = tokio::time::interval(REPORT_EVERY);
    report.set_missed_tick_behavior(MissedTickBehavior::Delay);
    report.reset();
    loop {
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err("cancelled".to_owned()),
            found = &mut searching => {
                running.report(context);
                return found;
            }
            () = &mut time_is_over, if limit_ms != 0 => {
                return Err(format!("timed out after {limit_ms}ms; narrow path or pattern"));
            }
            _ = report.tick(), if context.reporter.is_heard() => running.report(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::time::advance;
    use toolnexus_core::{ToolReport, report_channel};

    /// A search that ends only when it is stopped, and says so.
    fn endless() -> (impl FnOnce(&Running) -> Result<(), String> + Send, mpsc::Receiver<()>) {
        let (sender, stopped) = mpsc::channel();
        let search = move |running: &Running| {
            while !running.is_stopped() {
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
        let search = move |_: &Running| released.recv().map_err(|error| error.to_string());
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
        let search = |_: &Running| -> Result<(), String> { panic!("lost") };
        assert_eq!(run(&ToolContext::default(), 0, search).await.unwrap_err(), "lost");
    }

    // BUILTIN-103: while it goes on, and what there was in the end
    #[tokio::test(start_paused = true)]
    async fn a_listener_hears_how_many_files_were_visited() {
        let (reporter, reports) = report_channel();
        let context = ToolContext { reporter, ..Default::default() };
        let (visited, after_one) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let search = move |running: &Running| {
            running.visited();
            visited.send(()).map_err(|error| error.to_string())?;
            released.recv().map_err(|error| error.to_string())?;
            running.visited();
            Ok(())
        };
        let progress = |progress, message: &str| {
            [ToolReport::Progress { progress, total: None, message: Some(message.to_owned()) }]
        };
        let mut running = Box::pin(run(&context, 0, search));
        assert!(futures::poll!(&mut running).is_pending());
        after_one.recv().unwrap();
        assert_eq!(reports.take_waiting(), []);
        advance(REPORT_EVERY).await;
        assert!(futures::poll!(&mut running).is_pending());
        assert_eq!(reports.take_waiting(), progress(1.0, "1 file visited"));
        release.send(()).unwrap();
        assert_eq!(running.await, Ok(()));
        assert_eq!(reports.take_waiting(), progress(2.0, "2 files visited"));
    }
}
