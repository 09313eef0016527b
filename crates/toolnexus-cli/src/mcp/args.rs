//! The command line of `toolnexus mcp`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::calling::ResultArgs;
use crate::cli::parse_time;

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// Start every server of the configuration, and tell which works and why the others do not
    #[command(after_help = "\
The exit code is 0 when the list is complete, also when servers failed; `toolnexus mcp test` is for \
scripts that want to know.")]
    List(ListArgs),

    /// Start servers, and end with 1 when one of them failed
    #[command(after_help = "\
Examples:
  toolnexus mcp test
  toolnexus mcp test docs tickets --mcp ops.json

Servers that are switched off in the configuration are left alone and have not failed.")]
    Test(TestArgs),

    /// Start one server, and show all it says of itself: protocol, instructions, tools with schemas
    #[command(after_help = "\
Examples:
  toolnexus mcp inspect docs
  toolnexus mcp inspect docs --json | jq '.tools[].inputSchema'

The exit code is 1 when the server failed.")]
    Inspect(InspectArgs),

    /// Call a tool of a server, as a model would
    ///
    /// The result goes to stdout; what the server reports while it works goes to stderr. When the server
    /// asks something and stdin is a terminal, the command asks there. Ctrl-C cancels the call.
    #[command(after_help = "\
Examples:
  toolnexus mcp call docs search '{\"query\": \"retries\"}'
  jq -n '{query: \"retries\"}' | toolnexus mcp call docs search -
  toolnexus mcp call docs search @arguments.json --json

The exit code is 1 when the result is an error, 4 when the tool asks something and nobody is there to \
answer. With --json stdout has the whole result: `output`, `isError`, and where there are any `parts` \
(images, audio, files) and `metadata`.")]
    Call(CallArgs),
}

/// Which configuration.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    /// The configuration, instead of `mcp.json` or `.mcp.json`
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Print one JSON document instead
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct TestArgs {
    /// The servers; all of the configuration when none is named
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Print one JSON document instead
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct InspectArgs {
    /// The server, by its name in the configuration
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Print one JSON document instead
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct CallArgs {
    /// The server, by its name in the configuration
    pub(crate) server: String,
    /// The tool, by the name the server gives it, or by the one a model sees
    pub(crate) tool: String,
    /// Its arguments, a JSON object; `-` reads them from stdin, `@FILE` from a file
    #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true)]
    pub(crate) arguments: String,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// The longest the call may take without a sign of life, instead of the server's "timeout":
    /// seconds, or with a unit, as in 90, 500ms, 5m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}
