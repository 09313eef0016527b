//! The command line of `toolnexus runs`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use toolnexus::client::InDoubt;
use toolnexus::client::run_log::RunSummaryStatus;

use crate::cli::{ModelArgs, SourceArgs, parse_time};

#[derive(Subcommand)]
pub(crate) enum RunsCommand {
    /// List the runs, newest first
    #[command(after_help = "\
Examples:
  toolnexus runs list --durable runs
  toolnexus runs list --status pending
  toolnexus runs list --json | jq -r '.runs[].runId'

States:
  running     going on in some process, or its process ended in the midst of it
  pending     waits for an answer: `toolnexus runs resume ID --answer TEXT`
  failed      given up (provider, time, Ctrl-C): `toolnexus runs resume ID` goes on
  done        the model answered
  incomplete  a limit such as --max-turns stopped it")]
    List(ListArgs),

    /// Show a run: what was asked, said, called and answered
    #[command(after_help = "\
The numbers are those of the run's events: `toolnexus runs fork ID NEW_ID --at 3` begins another run \
with the first three. With --json, stdout has the events as they are stored, one a line.")]
    Show(ShowArgs),

    /// Go on with a run where it stopped
    ///
    /// What it has done is not done again: tools that ended keep their results, and a run that is over
    /// gives its stored answer. The model and its dialect are those of the run unless flags say otherwise;
    /// where the model is and which tools there are is found out as `toolnexus run` does it, so give the
    /// same flags.
    ///
    /// In a terminal an open question is asked. Elsewhere --answer, --answer-json or --decline answer it.
    ///
    /// A run that another process is still busy with is taken from it: that process stops before it does
    /// anything more.
    #[command(after_help = "\
Examples:
  toolnexus runs resume ID --durable runs
  toolnexus runs resume ID --answer \"Zurich\"
  toolnexus runs resume ID --answer-json '{\"name\": \"Ada\", \"age\": 36}'
  toolnexus runs resume ID --decline=\"not today\"

Output and exit codes are those of `toolnexus run`.")]
    Resume(Box<ResumeArgs>),

    /// Begin another run with the first events of one
    #[command(after_help = "\
Example:
  toolnexus runs fork ID again --at 2
  toolnexus runs resume again

A run can be forked wherever no tool runs. The one it comes from stays as it is.")]
    Fork(ForkArgs),

    /// Delete a run
    Remove(RemoveArgs),
}

/// Where the runs are.
#[derive(Args)]
pub(crate) struct PlaceArgs {
    /// The directory of runs, as in `toolnexus run --durable DIR`; TOOLNEXUS_RUNS stands for it
    #[arg(long, value_name = "DIR")]
    durable: Option<PathBuf>,
}

impl PlaceArgs {
    pub(crate) fn flag(&self) -> Option<&Path> {
        self.durable.as_deref()
    }
}

#[derive(Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Only runs in this state
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<StatusArg>,
    /// The most runs to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Only runs behind this one in the list: the last of the page before
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
    /// Print one JSON document instead
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum StatusArg {
    Running,
    Pending,
    Done,
    Incomplete,
    Failed,
}

impl From<StatusArg> for RunSummaryStatus {
    fn from(status: StatusArg) -> Self {
        match status {
            StatusArg::Running => RunSummaryStatus::Running,
            StatusArg::Pending => RunSummaryStatus::Pending,
            StatusArg::Done => RunSummaryStatus::Done,
            StatusArg::Incomplete => RunSummaryStatus::Incomplete,
            StatusArg::Failed => RunSummaryStatus::Failed,
        }
    }
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub(crate) run_id: String,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Print the events as they are stored instead, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub(crate) run_id: String,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) sources: SourceArgs,

    #[command(flatten)]
    pub(crate) answers: AnswerArgs,

    /// What becomes of tools that were running when the process ended. Those that only read run again
    #[arg(long, value_name = "WHAT", default_value = "report", help_heading = "Run")]
    pub(crate) in_doubt: InDoubtArg,
    /// The longest it may take: seconds, or with a unit, as in 90, 500ms, 5m
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Run")]
    pub(crate) timeout: Option<Duration>,
    /// Print events instead of the answer: one JSON object a line
    #[arg(long, help_heading = "Run")]
    pub(crate) json: bool,
}

/// The answer to an open question.
#[derive(Args, Default)]
#[command(next_help_heading = "Answer")]
pub(crate) struct AnswerArgs {
    /// Answer the open question: what you would type in a terminal, such as y
    #[arg(long, value_name = "TEXT", group = "given", allow_hyphen_values = true)]
    pub(crate) answer: Option<String>,
    /// Answer it with an object: the fields of a form, or whatever the tool wants
    #[arg(long, value_name = "JSON", group = "given")]
    pub(crate) answer_json: Option<String>,
    /// Decline it
    #[arg(
        long,
        value_name = "REASON",
        group = "given",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "declined"
    )]
    pub(crate) decline: Option<String>,
    /// Which question, when there are several
    #[arg(long, value_name = "REQUEST", requires = "given")]
    pub(crate) request: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum InDoubtArg {
    /// The model reads that they were interrupted, and decides
    Report,
    /// They run again
    Retry,
    /// You are asked whether they run again
    Ask,
}

impl From<InDoubtArg> for InDoubt {
    fn from(what: InDoubtArg) -> Self {
        match what {
            InDoubtArg::Report => InDoubt::Report,
            InDoubtArg::Retry => InDoubt::Retry,
            InDoubtArg::Ask => InDoubt::Ask,
        }
    }
}

#[derive(Args)]
pub(crate) struct ForkArgs {
    /// The run, which stays as it is
    #[arg(value_name = "ID")]
    pub(crate) run_id: String,
    /// The id of the new run
    #[arg(value_name = "NEW_ID")]
    pub(crate) new_id: String,
    /// How many of its events the new run begins with; `toolnexus runs show` numbers them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) at: u64,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Args)]
pub(crate) struct RemoveArgs {
    /// The run
    #[arg(value_name = "ID")]
    pub(crate) run_id: String,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}
