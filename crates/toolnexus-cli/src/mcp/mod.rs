//! `toolnexus mcp`: MCP servers looked at and called, without a model.
//!
//! `args` is the command line, `servers` loads those that a command is about and knows how one is shown.
//! `list` (with `test`), `inspect` and `call` are the commands.

mod args;
mod call;
mod inspect;
mod list;
mod servers;

pub(crate) use args::McpCommand;

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::screen::Screen;

/// Carries a command out.
pub(crate) async fn carry_out(
    command: McpCommand,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    match command {
        McpCommand::List(args) => list::list(&args, screen, interrupt).await,
        McpCommand::Test(args) => list::test(&args, screen, interrupt).await,
        McpCommand::Inspect(args) => inspect::inspect(&args, screen, interrupt).await,
        McpCommand::Call(args) => call::call(&args, screen, interrupt).await,
    }
}
