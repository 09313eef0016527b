//! Rounds of floor and case, and what is made of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use toolnexus::BoxError;
use toolnexus_testkit::model::{ModelServer, RecordedRequest, Script};

use crate::cases::{Case, Clock, Peer, Sides, Work};
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
    /// What the ratio is of: `cpu` or `wall`.
    pub(crate) clock: Clock,
    /// The median of the rounds' ratios.
    pub(crate) ratio: f64,
    /// Wall time of the median run.
    pub(crate) p50_us: f64,
    /// The same of the floor.
    pub(crate) floor_p50_us: f64,
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
    // The server lives as long as it is measured against.
    let (sides, _server) = match &case.peer {
        Peer::Model { script, work } => {
            let (sides, server) = against_model(*script, *work).await?;
            (sides, Some(server))
        }
        Peer::Prepared(start) => (start().await?, None),
    };
    // The first rounds fill caches and pools.
    side_by_side(case, &sides.floor).await?;
    side_by_side(case, &sides.work).await?;
    let runs = as_f64(case.runs_per_round);
    let (mut cpu, mut floor_cpu, mut ratios) = (vec![], vec![], vec![]);
    let (mut walls, mut floor_walls) = (vec![], vec![]);
    for _ in 0..rounds.max(1) {
        let start = thread_cpu();
        let floor_wall = side_by_side(case, &sides.floor).await?;
        let floor_used = micros(thread_cpu() - start) / runs;
        let start = thread_cpu();
        let wall = side_by_side(case, &sides.work).await?;
        let used = micros(thread_cpu() - start) / runs;
        ratios.push(match case.clock {
            Clock::Cpu => used / floor_used,
            Clock::Wall => median(wall.clone()) / median(floor_wall.clone()),
        });
        cpu.push(used);
        floor_cpu.push(floor_used);
        walls.extend(wall);
        floor_walls.extend(floor_wall);
    }
    Ok(Row {
        case: case.name,
        clock: case.clock,
        runs: walls.len(),
        cpu_us: round(median(cpu), 10.0),
        floor_cpu_us: round(median(floor_cpu), 10.0),
        ratio: round(median(ratios), 1000.0),
        p50_us: round(median(walls), 10.0),
        floor_p50_us: round(median(floor_walls), 10.0),
        rss_mb: round(resident_mb(), 10.0),
        kib_per_run: kib_per_run.map(|kib| round(kib, 10.0)),
    })
}

/// Client and floor over one model server.
async fn against_model(
    script: fn() -> Script,
    work: fn(String) -> Work,
) -> Result<(Sides, ModelServer), BoxError> {
    let recorded = record(script, work).await?;
    let server = ModelServer::start_on_thread(script().without_recording())?;
    let floor = Arc::new(Floor::new(&server.origin(), &recorded)?);
    let floor: Work = Box::new(move || {
        let floor = Arc::clone(&floor);
        Box::pin(async move { floor.run().await })
    });
    Ok((Sides { floor, work: work(server.base_url()) }, server))
}

/// One round: as many runs as the case has, as many at once as it says. Gives the wall time of each.
async fn side_by_side(case: &Case, run: &Work) -> Result<Vec<f64>, BoxError> {
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
async fn record(script: fn() -> Script, work: fn(String) -> Work) -> Result<Vec<RecordedRequest>, BoxError> {
    let server = ModelServer::start_on_thread(script())?;
    work(server.base_url())().await?;
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
