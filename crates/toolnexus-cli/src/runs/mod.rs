//! Runs that are written down: `toolnexus runs`, and what `toolnexus run --durable` shares with it.
//!
//! `directory` is where they are and how commands name it, `args` the command line. `list`, `show`,
//! `resume` and `manage` (fork, remove) are the commands; `answers` reads the answer that flags give,
//! `transcript` shows events, `failure` has the words for what is wrong with a run.

mod answers;
mod args;
mod directory;
mod failure;
mod list;
mod manage;
mod resume;
mod show;
mod taken_up;
mod transcript;

pub(crate) use args::RunsCommand;
pub(crate) use directory::{Directory, Recorded};
pub(crate) use failure::{exists, of_durable_error, of_log_error};
pub(crate) use taken_up::TakenUp;

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::screen::Screen;

/// Carries a command out.
pub(crate) async fn carry_out(
    command: RunsCommand,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    match command {
        RunsCommand::List(args) => list::list(args, screen).await,
        RunsCommand::Show(args) => show::show(&args, screen).await,
        RunsCommand::Resume(args) => resume::resume(*args, screen, interrupt).await,
        RunsCommand::Fork(args) => manage::fork(&args, screen).await,
        RunsCommand::Remove(args) => manage::remove(&args, screen).await,
    }
}
