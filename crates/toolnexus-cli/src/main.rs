//! The `toolnexus` command.
//!
//! `cli` reads the command line and carries it out: `run`, `runs`, `demo`, `list`, `mcp`, `models`, `serve`,
//! `skills` and `tools` are the commands. `calling` is what the two commands that call a tool share. `provider` chooses a model, `loading` builds the toolkit, `session` drives a run,
//! `render` shows it, `model_failure` explains what the model could not do. `person` asks at the terminal,
//! `answer` reads what somebody answers, `questions` does so where there is something to choose from.
//! `sign_in` is for remote servers that want it. `screen` is the only place that writes to stdout and
//! stderr, `exit` has the exit codes.

mod answer;
mod calling;
mod cli;
mod demo;
mod exit;
mod interrupt;
mod list;
mod loading;
mod logging;
mod mcp;
mod model_failure;
mod models;
mod person;
mod prompt;
mod provider;
mod questions;
mod render;
mod run;
mod runs;
mod screen;
mod serve;
mod session;
mod sign_in;
mod skills;
mod stdin;
mod timing;
mod tools;

fn main() -> std::process::ExitCode {
    cli::main()
}
