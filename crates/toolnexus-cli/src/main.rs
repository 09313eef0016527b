//! The `toolnexus` command.

mod cli;
mod demo;
mod exit;
mod interrupt;
mod list;
mod loading;
mod logging;
mod person;
mod prompt;
mod provider;
mod render;
mod run;
mod screen;
mod session;
mod timing;

fn main() -> std::process::ExitCode {
    cli::main()
}
