//! `toolnexus tools call`: a tool of the toolkit called without a model. `toolnexus tools` alone is in `list`.

mod args;
mod call;

pub(crate) use args::ToolsCommand;

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::screen::Screen;

/// Carries a command out.
pub(crate) async fn carry_out(
    command: ToolsCommand,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    match command {
        ToolsCommand::Call(args) => call::call(&args, screen, interrupt).await,
    }
}
