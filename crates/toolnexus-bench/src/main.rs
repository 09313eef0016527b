//! Benchmarks of toolnexus, each against a floor measured in the same run.
//!
//! The floor of a run is the same HTTP exchange with a bare `reqwest` client: the same request bytes,
//! prepared, and the answer parsed as `serde_json::Value`. The floor of an MCP call is the same call
//! with a bare `rmcp` client. Both run on this one thread, whose CPU time is what counts; the scripted
//! model server answers on a thread of its own, MCP servers are processes. Of a toolkit over many
//! servers it is the wall time that counts, and the floor is one over the slowest of them; of a search too,
//! whose floor is a bare walk and search with the crates that it stands on. The floor of a run with a model-context
//! boundary is the run without. Floor and
//! case take turns in short rounds and the ratio is taken round by round, so that a machine that changes
//! its speed changes both.

mod cases;
mod context;
mod floor;
mod measure;
mod memory;
mod report;
mod servers;
mod trees;

use clap::Parser;

/// Measures toolnexus against a floor and prints one row for each case.
#[derive(Parser)]
#[command(version, about)]
struct Options {
    /// One JSON object a line: case, runs, cpu_us, floor_cpu_us, clock, ratio, p50_us,
    /// floor_p50_us, rss_mb, kib_per_run.
    #[arg(long)]
    json: bool,
    /// Only the cases whose name contains this.
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Rounds of floor and case.
    #[arg(long, default_value_t = 30)]
    rounds: usize,
    /// Exit with 1 when a ratio is over its target.
    #[arg(long)]
    check: bool,
}

fn main() -> std::process::ExitCode {
    let options = Options::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            report::complain(&format!("no runtime could be started: {error}"));
            return std::process::ExitCode::FAILURE;
        }
    };
    let mut report = report::Report::new(options.json);
    let wanted = |name: &str| options.case.as_deref().is_none_or(|text| name.contains(text));
    let mut over_target = false;
    for case in cases::all().into_iter().filter(|case| wanted(case.name)) {
        match runtime.block_on(measure::measure(&case, options.rounds)) {
            Ok(row) => {
                over_target |= case.target.is_missed_by(&row);
                report.row(&row, &case.target);
            }
            Err(error) => {
                report::complain(&format!("{}: {error}", case.name));
                return std::process::ExitCode::FAILURE;
            }
        }
    }
    if options.check && over_target {
        report::complain("a case is over its target");
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::SUCCESS
}
