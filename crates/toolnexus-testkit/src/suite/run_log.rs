//! What every run log promises.

mod contest;
mod events;
mod listing;
mod single;

use std::sync::Arc;

use toolnexus_llm::run_log::RunLog;

/// Puts a run log through everything that [`RunLog`] promises, in the default sizes of
/// [`RunLogSuite`]. `make_log` gives a log without runs each time.
///
/// What only a log on disk can show (half-written and damaged files) is not part of it.
///
/// ```
/// use toolnexus_llm::run_log::MemoryRunLog;
/// use toolnexus_testkit::RunLogSuite;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// // In a test of yours: `run_log_suite(async || MyLog::connect().await).await;`
/// RunLogSuite { many_runs: 50, ..Default::default() }.check(async || MemoryRunLog::default()).await;
/// # }
/// ```
///
/// # Panics
/// With the promise that the log breaks.
pub async fn run_log_suite<L: RunLog + 'static>(make_log: impl AsyncFnMut() -> L) {
    RunLogSuite::default().check(make_log).await;
}

/// [`run_log_suite`] in other sizes, for a store that is slow or far away.
#[derive(Debug, Clone)]
pub struct RunLogSuite {
    /// How many runs a log must keep and list. Default: 10,000.
    pub many_runs: usize,
    /// How many tasks append to one run at once. Default: 64.
    pub appenders: usize,
    /// How large one event is, in bytes. Default: 16 MiB.
    pub large_event: usize,
}

impl Default for RunLogSuite {
    fn default() -> Self {
        RunLogSuite { many_runs: 10_000, appenders: 64, large_event: 16 << 20 }
    }
}

impl RunLogSuite {
    /// Runs the suite; `make_log` gives a log without runs each time.
    ///
    /// # Panics
    /// With the promise that the log breaks.
    pub async fn check<L: RunLog + 'static>(&self, mut make_log: impl AsyncFnMut() -> L) {
        single::refuses_bad_ids(&make_log().await).await;
        single::knows_what_is_missing(&make_log().await).await;
        single::gives_back_what_was_appended(&make_log().await).await;
        single::conflicts_change_nothing(&make_log().await).await;
        single::keeps_large_events(&make_log().await, self.large_event).await;
        single::forgets_removed_runs(&make_log().await).await;

        contest::one_appender_wins(&Arc::new(make_log().await), self.appenders).await;
        contest::nothing_is_lost(&Arc::new(make_log().await), self.appenders).await;
        contest::readers_see_whole_appends(&Arc::new(make_log().await)).await;

        listing::summarises_every_state(&make_log().await).await;
        listing::leaves_out_what_is_no_run(&make_log().await).await;
        listing::keeps_and_pages_many_runs(&make_log().await, self.many_runs).await;
    }
}
