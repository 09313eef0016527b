//! Rounds of floor and case, and what is made of them.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use toolnexus::BoxError;
use toolnexus_testkit::model::ModelServer;

use crate::cases::Case;
use crate::floor::Floor;

/// One line of the report.
#[derive(Serialize)]
pub(crate) struct Row {
    /// The case.
    pub(crate) case: &'static str,
    /// Runs measured.
    pub(crate) runs: usize,
    /// CPU time of one run on the client's thread, the median of the rounds.
    pub(crate) cpu_us: f64,
    /// The same of the floor.
    pub(crate) floor_cpu_us: f64,
    /// The median of the rounds' ratios.
    pub(crate) ratio: f64,
    /// Wall time of the median run.
    pub(crate) p50_us: f64,
    /// Resident memory of the process after the case, server thread included.
    pub(crate) rss_mb: f64,
    /// Memory that each run in flight takes, its connection apart; for cases of many at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kib_per_run: Option<f64>,
}

/// Measures one case.
pub(crate) async fn measure(case: &Case, rounds: usize) -> Result<Row, BoxError> {
    let kib_per_run =
        if case.at_once > 1 { Some(crate::memory::kib_per_run(case.at_once).await?) } else { None };
    let floor_of_recording = record(case).await?;
    let server = ModelServer::start_on_thread((case.script)().without_recording())?;
    let work = (case.work)(server.base_url());
    let floor = Floor::new(&server.origin(), &floor_of_recording)?;
    // The first rounds fill caches and pools.
    side_by_side(case, || floor.run()).await?;
    side_by_side(case, &work).await?;
    let runs = case.runs_per_round;
    let (mut cpu, mut floor_cpu, mut ratios, mut walls) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds.max(1) {
        let start = thread_cpu();
        side_by_side(case, || floor.run()).await?;
        let floor_used = micros(thread_cpu() - start) / as_f64(runs);
        let start = thread_cpu();
        walls.extend(side_by_side(case, &work).await?);
        let used = micros(thread_cpu() - start) / as_f64(runs);
        ratios.push(used / floor_used);
        cpu.push(used);
        floor_cpu.push(floor_used);
    }
    Ok(Row {
        case: case.name,
        runs: walls.len(),
        cpu_us: round(median(cpu), 10.0),
        floor_cpu_us: round(median(floor_cpu), 10.0),
        ratio: round(median(ratios), 1000.0),
        p50_us: round(median(walls), 10.0),
        rss_mb: round(resident_mb(), 10.0),
        kib_per_run: kib_per_run.map(|kib| round(kib, 10.0)),
    })
}

/// One round: as many runs as the case has, as many at once as it says. Gives the wall time of each.
async fn side_by_side<F, Fut>(case: &Case, run: F) -> Result<Vec<f64>, BoxError>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<(), BoxError>>,
{
    let timed = || async {
        let began = Instant::now();
        run().await.map(|()| micros(began.elapsed()))
    };
    let mut walls = Vec::with_capacity(case.runs_per_round);
    if case.at_once == 1 {
        for _ in 0..case.runs_per_round {
            walls.push(timed().await?);
        }
        return Ok(walls);
    }
    let mut flying = stream::iter(0..case.runs_per_round).map(|_| timed()).buffer_unordered(case.at_once);
    while let Some(wall) = flying.next().await {
        walls.push(wall?);
    }
    Ok(walls)
}

/// The requests of one run, as they went over the wire.
async fn record(case: &Case) -> Result<Vec<toolnexus_testkit::model::RecordedRequest>, BoxError> {
    let server = ModelServer::start_on_thread((case.script)())?;
    (case.work)(server.base_url())().await?;
    Ok(server.requests())
}

fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

pub(crate) fn resident_mb() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok());
    pages.unwrap_or(0.0) * as_f64(rustix::param::page_size()) / (1024.0 * 1024.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn round(value: f64, by: f64) -> f64 {
    (value * by).round() / by
}

#[expect(clippy::cast_precision_loss, reason = "counts here are small")]
pub(crate) fn as_f64(n: usize) -> f64 {
    n as f64
}
