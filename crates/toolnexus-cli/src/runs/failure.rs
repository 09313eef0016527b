//! What is wrong with a run or its log, in words of the command.

use toolnexus::client::DurableError;
use toolnexus::client::run_log::RunLogError;

use crate::exit::{Exit, Failure};

/// The log's error. `flag` is what a command about a run of that log needs: ` --durable runs`, or nothing.
///
/// What the command line named wrongly is a usage error; what is wrong with the log itself is a failure.
pub(crate) fn of_log_error(error: &RunLogError, flag: &str) -> Failure {
    match error {
        RunLogError::NotFound { run_id } => Failure::usage(format!(
            "there is no run \"{run_id}\": `toolnexus runs list{flag}` lists those that are there"
        )),
        RunLogError::InvalidId { .. } => Failure::usage(error.to_string()),
        RunLogError::Conflict { run_id, .. } => Failure::new(
            Exit::Failed,
            format!(
                "another process went on with the run \"{run_id}\", so this one stopped: \
                 `toolnexus runs show {run_id}{flag}` tells how it stands"
            ),
        ),
        RunLogError::Corrupt { path, line } => {
            let run_id = path.file_stem().unwrap_or_default().display();
            Failure::new(
                Exit::Failed,
                format!(
                    "line {line} of {} is damaged: restore the file, or remove the run with \
                     `toolnexus runs remove {run_id}{flag}`",
                    path.display()
                ),
            )
        }
        other => Failure::new(Exit::Failed, other.to_string()),
    }
}

/// Why a durable run cannot be begun, resumed or forked as asked.
pub(crate) fn of_durable_error(error: &DurableError, flag: &str) -> Failure {
    match error {
        DurableError::Exists { run_id } => Failure::usage(exists(run_id, flag)),
        DurableError::UnknownRequest { .. } => {
            Failure::usage(format!("{error}; name one of them with --request"))
        }
        DurableError::NotABoundary { nearest, .. } => Failure::usage(format!("{error} (--at {nearest})")),
        other => Failure::usage(other.to_string()),
    }
}

/// A run of this id is there already.
pub(crate) fn exists(run_id: &str, flag: &str) -> String {
    format!(
        "the run \"{run_id}\" exists already: go on with it with `toolnexus runs resume {run_id}{flag}`, \
         or take another id"
    )
}
