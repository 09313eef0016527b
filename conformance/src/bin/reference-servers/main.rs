//! toolnexus against the official MCP reference servers, through the facade as users have it.
//!
//! The script `conformance/reference-servers/run` installs the servers and starts this. Each topic
//! is a file with a function `checks`; it loads toolkits of its own, so that any of them runs
//! alone. `servers` has what they share.

mod cancel;
mod concurrency;
mod content;
mod elicitation;
mod environment;
mod failures;
mod filesystem;
mod http_server;
mod isolation;
mod large;
mod lifecycle;
mod listing;
mod memory;
mod progress;
mod recorded;
mod servers;
mod sse;
mod stderr;
mod thinking;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use toolnexus_conformance::Report;

use crate::servers::Setting;

/// Checks toolnexus against the MCP reference servers: a line for each check, then the totals.
#[derive(Parser)]
#[command(version, about)]
struct Options {
    /// The folder with the installed servers.
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// The topics to check; by default all of them.
    topics: Vec<Topic>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Topic {
    Listing,
    Content,
    Failures,
    Filesystem,
    Memory,
    Thinking,
    Large,
    Progress,
    Cancel,
    Concurrency,
    Stderr,
    Environment,
    Isolation,
    Lifecycle,
    Recorded,
    Elicitation,
    Sse,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let mut report = Report::default();
    match Setting::prepare(&options.folder).await {
        Ok(setting) => {
            let wanted = |topic: &Topic| options.topics.is_empty() || options.topics.contains(topic);
            for topic in Topic::value_variants().iter().filter(|topic| wanted(topic)) {
                run(*topic, &mut report, &setting).await;
            }
        }
        Err(reason) => report.record("the servers can be started", Err(reason)),
    }
    report.finish()
}

/// Runs a topic. One that cannot even begin counts as a failed check.
async fn run(topic: Topic, report: &mut Report, setting: &Setting) {
    let outcome = match topic {
        Topic::Listing => listing::checks(report, setting).await,
        Topic::Content => content::checks(report, setting).await,
        Topic::Failures => failures::checks(report, setting).await,
        Topic::Filesystem => filesystem::checks(report, setting).await,
        Topic::Memory => memory::checks(report, setting).await,
        Topic::Thinking => thinking::checks(report, setting).await,
        Topic::Large => large::checks(report, setting).await,
        Topic::Progress => progress::checks(report, setting).await,
        Topic::Cancel => cancel::checks(report, setting).await,
        Topic::Concurrency => concurrency::checks(report, setting).await,
        Topic::Stderr => stderr::checks(report, setting).await,
        Topic::Environment => environment::checks(report, setting).await,
        Topic::Isolation => isolation::checks(report, setting).await,
        Topic::Lifecycle => lifecycle::checks(report, setting).await,
        Topic::Recorded => recorded::checks(report, setting).await,
        Topic::Elicitation => elicitation::checks(report, setting).await,
        Topic::Sse => sse::checks(report, setting).await,
    };
    if outcome.is_err() {
        report.record(&format!("{topic:?} can begin").to_lowercase(), outcome);
    }
}
