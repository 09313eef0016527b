//! A run that is about to go on, as it is shown.

use toolnexus::Toolkit;
use toolnexus::client::run::{ModelCall, PlannedCall, Run};

use super::args::InDoubtArg;

/// A run that goes on where it stopped.
pub(crate) struct TakenUp<'r> {
    pub(crate) run: &'r Run,
    /// The calls that were running when its process ended.
    pub(crate) in_doubt: Vec<(PlannedCall<'r>, Becomes)>,
}

/// What becomes of a call in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Becomes {
    Reported,
    RunAgain,
    Asked,
}

impl Becomes {
    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            Becomes::Reported => "the model is told that it was interrupted",
            Becomes::RunAgain => "it runs again",
            Becomes::Asked => "whether it runs again is asked",
        }
    }

    /// The spelling in JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Becomes::Reported => "report",
            Becomes::RunAgain => "retry",
            Becomes::Asked => "ask",
        }
    }
}

impl<'r> TakenUp<'r> {
    /// The run with what becomes of its calls in doubt, which the client settles in the same way.
    pub(crate) fn of(run: &'r Run, policy: InDoubtArg, toolkit: &Toolkit) -> Self {
        let snapshot = toolkit.snapshot();
        let settle = |planned: PlannedCall<'r>| {
            let hints = snapshot.get(&planned.call.name).and_then(|tool| tool.hints);
            let becomes = match policy {
                _ if hints.is_some_and(|hints| hints.read_only) => Becomes::RunAgain,
                InDoubtArg::Report => Becomes::Reported,
                InDoubtArg::Retry => Becomes::RunAgain,
                InDoubtArg::Ask => Becomes::Asked,
            };
            (planned, becomes)
        };
        TakenUp { run, in_doubt: run.running_calls().into_iter().map(settle).collect() }
    }

    /// The calls of the open turn whose results are still to be told.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = &'r ModelCall> {
        let run = self.run;
        let reported = |index: usize| {
            let of_this = |(call, becomes): &(PlannedCall<'_>, Becomes)| {
                call.index == index && *becomes == Becomes::Reported
            };
            self.in_doubt.iter().any(of_this)
        };
        run.open_calls()
            .enumerate()
            .filter(move |(index, _)| run.finished_call(*index).is_none() && !reported(*index))
            .map(|(_, call)| call)
    }
}
