//! A fixture MCP server over stdio.
//!
//! It reads its fixture, as JSON, from `--fixture <json or @file>`, else from the environment
//! variable `TOOLNEXUS_MCP_FIXTURE`, else it serves a well-behaved server without tools. Other
//! arguments are left to the scripts.

use std::io::{self, Write};
use std::process::ExitCode;

use toolnexus_testkit::mcp::{FIXTURE_VARIABLE, McpFixture, run_stdio};

fn main() -> ExitCode {
    match fixture().and_then(|fixture| run_stdio(fixture).map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "toolnexus-mcp-fixture: {error}");
            ExitCode::from(2)
        }
    }
}

fn fixture() -> Result<McpFixture, String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--fixture").skip(1);
    let json = match arguments.next() {
        Some(json) => json,
        None => std::env::var(FIXTURE_VARIABLE).unwrap_or_else(|_| "{}".to_owned()),
    };
    let json = match json.strip_prefix('@') {
        Some(file) => {
            std::fs::read_to_string(file).map_err(|error| format!("cannot read {file:?}: {error}"))?
        }
        None => json,
    };
    McpFixture::from_json(&json).map_err(|error| format!("the fixture is no fixture: {error}"))
}
