//! The command line of `toolnexus skills`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills, and the files that did not become one and why
    List(ListArgs),

    /// Show what a model gets when it loads a skill
    #[command(after_help = "\
Examples:
  toolnexus skills show greeting
  toolnexus skills show greeting --json | jq .meta

With --json stdout has what a host gets: `name`, `description`, `location`, `content`, `dir`, `base`, \
`origin`, `resources`, and `meta`, the whole header.")]
    Show(ShowArgs),

    /// Check every SKILL.md, for CI
    ///
    /// Prints a line for each problem: where, what, and what to do. Errors are files that are no skill;
    /// warnings are skills that work and will surprise somebody, or that other agents refuse.
    #[command(after_help = "\
Examples:
  toolnexus skills validate
  toolnexus skills validate skills shared/skills --strict
  toolnexus skills validate --json | jq '.problems[] | select(.level == \"error\")'

Errors:    missing-name, malformed-frontmatter, duplicate-name, unreadable
Warnings:  no-description, long-description, rescued-header, name-differs, name-not-portable, missing-file

The exit code is 0 when all is well, 1 when a file is no skill, with --strict also when there is a \
warning, or when there was nothing to check.")]
    Validate(ValidateArgs),
}

impl SkillsCommand {
    /// Whether its output has the files that were skipped.
    pub(crate) fn lists_skips(&self) -> bool {
        !matches!(self, SkillsCommand::Show(_))
    }
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// A directory to search, instead of `skills`; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub(crate) skills: Vec<PathBuf>,
    /// Print one JSON document instead
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The skill, by its name
    pub(crate) name: String,
    /// A directory to search, instead of `skills`; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub(crate) skills: Vec<PathBuf>,
    /// Print the skill as one JSON document instead
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ValidateArgs {
    /// The directories to search, instead of `skills`
    #[arg(value_name = "DIR")]
    pub(crate) dirs: Vec<PathBuf>,
    /// End with 1 also when there are only warnings
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print one JSON document instead
    #[arg(long)]
    pub(crate) json: bool,
}
