//! Rounds of floor and case, and what is made of them.

use std::time::{Duration, Instant};

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
}

/// Measures one case.
pub(crate) async fn measure(case: &Case, rounds: usize) -> Result<Row, BoxError> {
    let floor_of_recording = record(case).await?;
    let server = ModelServer::start_on_thread((case.script)().without_recording())?;
    let work = (case.work)(server.base_url());
    let floor = Floor::new(&server.origin(), &floor_of_recording)?;
    // The first rounds fill caches and pools.
    for _ in 0..case.runs_per_round {
        floor.run().await?;
        work().await?;
    }
    let runs = case.runs_per_round;
    let (mut cpu, mut floor_cpu, mut ratios, mut walls) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds.max(1) {
        let start = thread_cpu();
        for _ in 0..runs {
            floor.run().await?;
        }
        let floor_used = micros(thread_cpu() - start) / as_f64(runs);
        let start = thread_cpu();
        for _ in 0..runs {
            let began = Instant::now();
            work().await?;
            walls.push(micros(began.elapsed()));
        }
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
    })
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

fn resident_mb() -> f64 {
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
fn as_f64(n: usize) -> f64 {
    n as f64
}
