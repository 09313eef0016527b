//! toolnexus against the official SDKs of MCP, both ways: its client against small servers on each SDK,
//! and a client on each SDK against what toolnexus serves.
//!
//! The script `conformance/sdks/run` installs the SDKs and starts this. `peers` starts what is written with
//! them; `servers` and `clients` have the checks, named after whose program is at the other end.

mod clients;
mod peers;
mod servers;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use toolnexus_conformance::Report;

use crate::peers::{Peer, Setting};

/// Checks toolnexus against the official SDKs of MCP: a line for each check, then the totals.
#[derive(Parser)]
#[command(version, about)]
struct Options {
    /// The folder with the programs and the installed SDKs.
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// The `toolnexus` command.
    #[arg(long, value_name = "FILE")]
    command: PathBuf,
    /// The SDKs; by default all of them.
    sdks: Vec<Peer>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let mut report = Report::default();
    match Setting::new(&options.folder, &options.command) {
        Ok(setting) => {
            let wanted = if options.sdks.is_empty() { Peer::ALL.to_vec() } else { options.sdks };
            for peer in wanted {
                servers::checks(&mut report, &setting, peer).await;
                clients::checks(&mut report, &setting, peer).await;
            }
        }
        Err(reason) => report.record("the SDKs are installed", Err(reason)),
    }
    report.finish()
}
