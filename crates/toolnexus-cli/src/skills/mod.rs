//! `toolnexus skills`: skills listed, shown as a model gets them, and checked.
//!
//! `args` is the command line. `show` and `validate` are commands, `list` is beside the listing of tools.
//! `findings` is what `validate` has to say of a skill, `links` finds the files that a text points at.

mod args;
mod findings;
mod links;
mod show;
mod validate;

pub(crate) use args::SkillsCommand;

use crate::exit::{Exit, Failure};
use crate::list;
use crate::screen::Screen;

/// Carries a command out.
pub(crate) fn carry_out(command: SkillsCommand, screen: &Screen) -> Result<Exit, Failure> {
    match command {
        SkillsCommand::List(args) => list::skills(args.skills, args.json, screen),
        SkillsCommand::Show(args) => show::show(&args, screen),
        SkillsCommand::Validate(args) => validate::validate(&args, screen),
    }
}
