//! toolnexus as a server before the official MCP conformance suite.
//!
//! The script `conformance/suite/run` installs the suite and starts this. All server scenarios run in
//! one process of the suite against [`Everything`]; what came of each is compared with the list
//! `server-scenarios.txt`, so that a scenario that stops passing fails the run, and so does one that
//! begins to pass or is new, until the list says so.

mod outcome;
mod scenarios;

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use clap::Parser;
use tokio::process::Command;
use toolnexus_conformance::{Everything, Report};

use crate::outcome::Outcomes;
use crate::scenarios::Scenarios;

/// Puts toolnexus to the server scenarios of the MCP conformance suite.
#[derive(Parser)]
#[command(version, about)]
struct Options {
    /// The suite's command.
    #[arg(long, value_name = "FILE")]
    suite: PathBuf,
    /// The list of scenarios, and what is expected of each.
    #[arg(long, value_name = "FILE")]
    list: PathBuf,
    /// One scenario only.
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut report = Report::default();
    if let Err(reason) = compare(&Options::parse(), &mut report).await {
        report.record("the suite can run", Err(reason));
    }
    report.finish()
}

async fn compare(options: &Options, report: &mut Report) -> Result<(), String> {
    let scenarios = Scenarios::read(&options.list)?;
    let outcomes = run(options).await?;
    for (name, outcome) in outcomes.all() {
        let expected = scenarios.get(name);
        report.record(name, outcome.as_expected(expected));
    }
    let missing = scenarios.names().filter(|name| outcomes.get(name).is_none());
    let missing = missing.filter(|name| options.scenario.as_deref().is_none_or(|only| only == *name));
    for name in missing {
        report.record(name, Err("the suite has no scenario of that name".into()));
    }
    Ok(())
}

/// Runs the suite and gives what came of each scenario.
async fn run(options: &Options) -> Result<Outcomes, String> {
    let server = Everything::start().await?;
    let results = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut command = Command::new(&options.suite);
    command.args(["server", "--url", server.url(), "--output-dir"]).arg(results.path());
    match &options.scenario {
        Some(name) => command.args(["--scenario", name]),
        None => command.args(["--suite", "all"]),
    };
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| format!("{}: {error}", options.suite.display()))?;
    server.stop().await;
    let outcomes = Outcomes::read(results.path())?;
    if outcomes.all().next().is_none() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("it ran no scenario ({}): {}", output.status, said.trim()));
    }
    Ok(outcomes)
}
