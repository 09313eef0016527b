//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use toolnexus::Style;

use crate::exit::{self, Exit, Failure};
use crate::interrupt::Interrupt;
use crate::mcp::{self, McpCommand};
use crate::runs::{self, RunsCommand};
use crate::screen::{Paint, Screen};
use crate::serve::{self, ServeArgs};
use crate::skills::{self, SkillsCommand};
use crate::tools::{self, ToolsCommand};
use crate::{demo, list, logging, models, provider, run};

/// How long a task that cannot be interrupted may keep the process from ending.
const WIND_DOWN: Duration = Duration::from_millis(500);

/// Give any language model your tools: MCP servers, skill folders, a shell and files.
#[derive(Parser)]
#[command(
    name = "toolnexus",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Start with `toolnexus demo`: it needs no key and no network. \
`toolnexus help run` explains the command you will use most."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Say more on stderr; twice says even more. RUST_LOG overrides it
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "General")]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    /// Watch an agent at work: no key, no network, three seconds
    ///
    /// A scripted model drives the real tool loop over a real MCP server (a process of its own), a
    /// real skill folder, a file and a Rust function.
    Demo,

    /// Ask a model that can use your tools
    ///
    /// The working directory decides which tools there are: the MCP servers of `mcp.json` (or
    /// `.mcp.json`), the skills below `skills/`, and a few built-in tools such as a shell. Mind
    /// that the servers are started and that the model may run commands.
    ///
    /// The answer goes to stdout, everything else to stderr.
    #[command(after_long_help = run_help())]
    Run(RunArgs),

    /// Look at runs that were written down, and go on with them
    ///
    /// `toolnexus run --durable DIR` writes every step of a run to a file in DIR before it is taken. So a run
    /// survives the end of its process, and an answer may come days later. DIR is given to each command
    /// with --durable, or once for all in TOOLNEXUS_RUNS.
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Runs {
        #[command(subcommand)]
        command: RunsCommand,
    },

    /// List the tools that `run` would give a model, or call one of them
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "\
Examples:
  toolnexus tools
  toolnexus tools --no-builtins --mcp other.json
  toolnexus tools --schema anthropic | jq '.[0]'
  toolnexus tools call glob '{\"pattern\": \"**/*.md\"}'"
    )]
    Tools {
        #[command(subcommand)]
        command: Option<ToolsCommand>,
        #[command(flatten)]
        listing: ToolsArgs,
    },

    /// Lend the tools to other programs, over MCP
    ///
    /// The tools are those of `toolnexus tools`, without the built-in ones: the MCP servers and the skills of
    /// the working directory, as one MCP server.
    #[command(after_long_help = serve::HELP)]
    Serve(ServeArgs),

    /// List the models that a provider has
    #[command(after_help = "\
Examples:
  toolnexus models
  toolnexus models --base-url http://localhost:11434/v1
  toolnexus models --style anthropic --json | jq -r '.models[].id'

Without --base-url the first key found in the environment decides, as for `toolnexus run`.")]
    Models(ModelsArgs),

    /// Look at MCP servers, test them, call their tools
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },

    /// Look at skills, and check them
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Skills {
        #[command(subcommand)]
        command: SkillsCommand,
    },

    /// The MCP server of the demo, over stdio
    #[command(hide = true)]
    DemoMcpServer,
}

impl Command {
    /// Whether its output has the skills that were skipped.
    fn lists_skips(&self) -> bool {
        match self {
            Command::Skills { command } => command.lists_skips(),
            Command::Tools { command: None, listing } => listing.schema.is_none(),
            _ => false,
        }
    }
}

/// `toolnexus tools`.
#[derive(Args)]
pub(crate) struct ToolsArgs {
    #[command(flatten)]
    sources: SourceArgs,
    /// Print one JSON document instead: tools, servers, errors, skipped skills
    #[arg(long, conflicts_with = "schema")]
    json: bool,
    /// Print the array of tools as this provider wants it
    #[arg(long, value_name = "STYLE")]
    schema: Option<StyleArg>,
}

/// Where tools come from.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Tools")]
pub(crate) struct SourceArgs {
    /// The MCP configuration, instead of `mcp.json` or `.mcp.json` in the working directory
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    pub(crate) mcp: Option<PathBuf>,
    /// No MCP servers
    #[arg(long, conflicts_with = "mcp")]
    pub(crate) no_mcp: bool,
    /// A directory with skills, instead of `skills`; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub(crate) skills: Vec<PathBuf>,
    /// No skills
    #[arg(long, conflicts_with = "skills")]
    pub(crate) no_skills: bool,
    /// No shell and no other built-in tool
    #[arg(long)]
    pub(crate) no_builtins: bool,
}

/// `toolnexus run`.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// What to ask; `-` reads it from stdin, and so does leaving it out when stdin is no terminal
    pub(crate) prompt: Option<String>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) sources: SourceArgs,

    /// Instructions for the model, before everything else
    #[arg(long, value_name = "TEXT", help_heading = "Run")]
    pub(crate) system: Option<String>,
    /// The most calls of the model
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Run")]
    pub(crate) max_turns: u32,
    /// The longest the run may take: seconds, or with a unit, as in 90, 500ms, 5m
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Run")]
    pub(crate) timeout: Option<Duration>,
    /// Print events instead of the answer: one JSON object a line
    #[arg(long, help_heading = "Run")]
    pub(crate) json: bool,
    /// Write the run down in this directory, so that `toolnexus runs resume` can go on with it
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    pub(crate) durable: Option<PathBuf>,
    /// The id of the run that is written down, instead of a new one
    #[arg(long, value_name = "ID", help_heading = "Run")]
    pub(crate) run_id: Option<String>,
}

/// `toolnexus models`.
#[derive(Args)]
pub(crate) struct ModelsArgs {
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,

    /// The longest it may take: seconds, or with a unit, as in 90, 500ms, 5m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) timeout: Option<Duration>,
    /// Print one JSON document instead: where they are, and the models
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which model answers.
#[derive(Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,

    /// The model's name
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

/// Where models are.
#[derive(Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ProviderArgs {
    /// The provider's address, as in http://localhost:11434/v1
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The dialect it speaks
    #[arg(long, value_name = "STYLE")]
    pub(crate) style: Option<StyleArg>,
    /// The environment variable that holds the key
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
}

/// A dialect.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum StyleArg {
    /// OpenAI chat completions, which most servers speak
    Openai,
    /// Anthropic messages
    Anthropic,
    /// Google Gemini
    Gemini,
}

impl From<StyleArg> for Style {
    fn from(style: StyleArg) -> Self {
        match style {
            StyleArg::Openai => Style::OpenAI,
            StyleArg::Anthropic => Style::Anthropic,
            StyleArg::Gemini => Style::Gemini,
        }
    }
}

fn run_help() -> String {
    format!(
        "\
Examples:
  toolnexus run \"What is in this directory?\"
  git diff | toolnexus run - --system \"Review this change in three sentences.\"
  toolnexus run \"Who is on call?\" --mcp ops.json --no-builtins
  toolnexus run \"Say hello\" --base-url http://localhost:11434/v1 --model qwen3
  toolnexus run \"Tidy up the downloads\" --durable runs
  toolnexus run \"Summarise README.md\" --json | jq -r 'select(.type == \"tool_call\").name'

{}

Output:
  On a terminal the answer appears as it is written. Elsewhere stdout gets the answer alone, whole,
  when it is complete; what the model says before it calls a tool goes to stderr like the rest.
  With --json, stdout has one event a line: first `toolkit`, then `text`, `usage`, `tool_call`,
  `tool_result`, `pending`, and last `done` or `error`.

Runs that survive:
  --durable DIR writes every step to a file in DIR first (made if it is not there, readable by you
  alone). When the run fails, waits for an answer or loses its process, `toolnexus runs resume ID`
  goes on with it. TOOLNEXUS_RUNS stands for --durable, also for the commands of `toolnexus runs`.

{}",
        provider::HELP,
        exit::HELP
    )
}

/// Reads `90`, `90s`, `500ms`, `1.5m` or `2h`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let hint = "it is a number of seconds, or a number with ms, s, m or h, as in 90 or 5m";
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(hint.into()),
    };
    let number: f64 = number.trim().parse().map_err(|_| hint.to_owned())?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| hint.to_owned())?;
    if time.as_millis() == 0 {
        Err("it must be more than nothing; leave it out for no limit".into())
    } else {
        Ok(time)
    }
}

/// Reads the command line, carries it out and gives the exit code.
pub(crate) fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout and are no failure; nobody may be reading.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    if matches!(cli.command, Command::DemoMcpServer) {
        return demo::serve_mcp().into();
    }
    let screen = Screen::new();
    logging::start(&screen, cli.verbose, cli.command.lists_skips());
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("the runtime cannot be started: {error}")))
        .and_then(|runtime| {
            let ended = runtime.block_on(carry_out(cli.command, &screen));
            // A read of stdin cannot be interrupted: the process ends under it.
            runtime.shutdown_timeout(WIND_DOWN);
            ended
        });
    screen.idle();
    match ended {
        Ok(exit) => exit.into(),
        Err(Failure { exit, message, advice }) => {
            if matches!(exit, Exit::HungUp | Exit::Interrupted | Exit::Quit | Exit::Terminated) {
                screen.note(&Paint::stderr().dim(&message));
            } else if !message.is_empty() {
                screen.note(&format!(
                    "{} {}",
                    Paint::stderr().bad("error:"),
                    crate::render::plain_lines(&message)
                ));
            }
            if let Some(advice) = advice {
                screen.note(&Paint::stderr().dim(&advice));
            }
            exit.into()
        }
    }
}

async fn carry_out(command: Command, screen: &Screen) -> Result<Exit, Failure> {
    let interrupt = Interrupt::watch();
    match command {
        Command::Demo => demo::run(screen, &interrupt).await,
        Command::Run(args) => run::run(args, screen, &interrupt).await,
        Command::Runs { command } => runs::carry_out(command, screen, &interrupt).await,
        Command::Tools { command: Some(command), .. } => tools::carry_out(command, screen, &interrupt).await,
        Command::Tools { command: None, listing: ToolsArgs { sources, json, schema } } => {
            let form = match (json, schema) {
                (true, _) => list::Form::Json,
                (false, Some(style)) => list::Form::Schema(style.into()),
                (false, None) => list::Form::Text,
            };
            list::tools(&sources, form, screen, &interrupt).await
        }
        Command::Serve(args) => serve::serve(args, screen, &interrupt).await,
        Command::Models(args) => models::models(&args, screen, &interrupt).await,
        Command::Mcp { command } => mcp::carry_out(command, screen, &interrupt).await,
        Command::Skills { command } => skills::carry_out(command, screen, &interrupt).await,
        Command::DemoMcpServer => Ok(demo::serve_mcp()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    // Lines that are broken here and once more by the terminal look like verse
    #[test]
    fn the_prose_of_the_help_is_left_to_the_terminal_to_wrap() {
        fn look(command: &clap::Command) {
            let prose = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.contains(":  ");
            for help in [command.get_after_help(), command.get_after_long_help()].into_iter().flatten() {
                let help = help.to_string();
                for (line, next) in help.lines().zip(help.lines().skip(1)) {
                    let broken = prose(line) && !line.ends_with(':') && prose(next);
                    assert!(!broken, "{}: {line}", command.get_name());
                }
            }
            command.get_subcommands().for_each(look);
        }
        look(&Cli::command());
    }

    #[test]
    fn the_readme_says_what_the_help_says() {
        let readme = include_str!("../README.md");
        for help in [provider::HELP, exit::HELP] {
            let (_heading, text) = help.split_once('\n').unwrap();
            assert!(readme.contains(text), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, ms) in
            [("90", 90_000), ("0.5", 500), ("500ms", 500), ("2s", 2000), ("1.5m", 90_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_time(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for text in ["", "x", "5 parsecs", "-1", "0", "1e400", "NaN", "inf", "5mm"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
