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
use crate::interrupt::Interrupt;
use crate::list;
use crate::screen::Screen;

/// Carries a command out.
pub(crate) async fn carry_out(
    command: SkillsCommand,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    match command {
        SkillsCommand::List(args) => list::skills(args.skills, args.json, screen, interrupt).await,
        SkillsCommand::Show(args) => show::show(args, screen, interrupt).await,
        SkillsCommand::Validate(args) => validate::validate(&args, screen, interrupt).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(subcommand)]
        command: SkillsCommand,
    }

    // A directory may be a whole disk, or on a disk that does not answer
    #[tokio::test]
    async fn a_signal_ends_every_search() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("SKILL.md"), "---\nname: a\n---\n").unwrap();
        let dir = place.path().to_str().unwrap();
        let (screen, interrupt) = (Screen::new(), Interrupt::default());
        interrupt.token().cancel();
        for line in [&["list", "--skills", dir][..], &["show", "a", "--skills", dir], &["validate", dir]] {
            let command = Line::parse_from([&["skills"], line].concat()).command;
            let ended = carry_out(command, &screen, &interrupt).await;
            assert_eq!(ended.unwrap_err().exit, Exit::Interrupted, "{line:?}");
        }
    }
}
