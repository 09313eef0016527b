//! The command line of `toolnexus tools call`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::calling::ResultArgs;
use crate::cli::{SourceArgs, parse_time};

#[derive(Subcommand)]
pub(crate) enum ToolsCommand {
    /// Call a tool, as a model would
    ///
    /// The tool is one of those that `toolnexus tools` lists: of an MCP server, `skill`, or built in. Its
    /// output goes to stdout; what it reports while it works goes to stderr. When it asks something and
    /// stdin is a terminal, the command asks there. Ctrl-C cancels the call.
    #[command(after_help = "\
Examples:
  toolnexus tools call bash '{\"command\": \"date\"}'
  toolnexus tools call skill '{\"name\": \"greeting\"}' --skills shared/skills
  jq -n '{path: \"notes.md\"}' | toolnexus tools call read - --no-mcp
  toolnexus tools call read '{\"path\": \"shot.png\"}' --output pictures
  toolnexus tools call docs_search @arguments.json --json

The exit code is 1 when the result is an error, 4 when the tool asks something and nobody is there to \
answer. With --json stdout has the whole result: `output`, `isError`, and where there are any `parts` \
(images, audio, files) and `metadata`.")]
    Call(CallArgs),
}

#[derive(Args)]
pub(crate) struct CallArgs {
    /// The tool, by the name a model sees
    pub(crate) tool: String,
    /// Its arguments, a JSON object; `-` reads them from stdin, `@FILE` from a file
    #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true)]
    pub(crate) arguments: String,
    /// The longest the call may take, instead of the tool's own limit: seconds, or with a unit, as in 90,
    /// 500ms, 5m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
}
