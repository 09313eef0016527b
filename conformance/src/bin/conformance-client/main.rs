//! The client that the official conformance suite starts for each of its client scenarios.
//!
//! The suite gives the server's URL as the last argument and the scenario in the environment:
//! `MCP_CONFORMANCE_SCENARIO`, `MCP_CONFORMANCE_CONTEXT` (JSON, for some), and, newer suites,
//! `MCP_CONFORMANCE_PROTOCOL_VERSION`. What happens is the same for nearly all of them, through the
//! facade as users have it: connect, list, call every tool, close. `conformance/suite/run-client`
//! runs the scenarios.

mod arguments;
mod person;
mod sign_in;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde_json::Value;
use toolnexus::mcp::{LoadMcpOptions, McpConfig, McpEra, McpServerConfig, ServerKind, load_mcp_with};

/// Plays one client scenario of the conformance suite.
#[derive(Parser)]
#[command(version, about)]
struct Options {
    /// The scenario.
    #[arg(long, env = "MCP_CONFORMANCE_SCENARIO")]
    scenario: String,
    /// What the scenario tells its client, as JSON.
    #[arg(long, env = "MCP_CONFORMANCE_CONTEXT", default_value = "null", hide_env_values = true)]
    context: String,
    /// The protocol revision that the scenario is run at.
    #[arg(long, env = "MCP_CONFORMANCE_PROTOCOL_VERSION")]
    protocol_version: Option<String>,
    /// The scenario's server.
    url: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    match play(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("{}: {error}", options.scenario));
            ExitCode::FAILURE
        }
    }
}

async fn play(options: &Options) -> Result<(), String> {
    let context: Value =
        serde_json::from_str(&options.context).map_err(|error| format!("the context: {error}"))?;
    let server = McpServerConfig {
        name: "suite".to_owned(),
        kind: ServerKind::Remote,
        url: Some(options.url.clone()),
        timeout_ms: 20_000,
        era: options.protocol_version.as_deref().map(era),
        auth: options.scenario.starts_with("auth/").then(|| sign_in::auth(&options.scenario, &context)),
        ..Default::default()
    };
    let load = LoadMcpOptions { wait_for: Some(person::accepts_defaults()), ..Default::default() };
    let config = McpConfig { servers: vec![server], ..Default::default() };
    let source = load_mcp_with(&config, load).await;
    if let Some(error) = source.errors.get("suite") {
        return Err(error.clone());
    }
    let mut failed = Vec::new();
    for (tool, arguments) in arguments::calls(&source.tools, &options.scenario, &context) {
        let result = tool.execute(arguments).await;
        report(&format!("{}: {}", tool.name, result.output));
        if result.is_error {
            failed.push(result.output);
        }
    }
    // A stream that the server lets go of is taken up again a moment later.
    if options.scenario == "sse-retry" {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    source.close().await;
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Revisions are dates, so their texts sort.
fn era(revision: &str) -> McpEra {
    if revision >= "2026-07-28" { McpEra::Modern } else { McpEra::Legacy }
}

#[expect(clippy::print_stderr, reason = "the suite shows what its client writes there")]
fn report(line: &str) {
    eprintln!("{line}");
}
