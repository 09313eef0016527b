//! How a run of a log is taken up again: what its process left behind is settled before it is driven on.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolnexus_core::{Answer, Request, Toolkit, is_relay_request, new_request_id};

use super::{DurableError, InDoubt};
use crate::driver::{Doubts, Recorder, Reported};
use crate::execution::Begun;
use crate::run::{ModelCall, OpenRequest, PlannedCall, Run, RunEvent};
use crate::run_log::{RunLog, check_run_id};
use crate::{ClientError, ClientOptions, RunResult};

/// A run of a log that is to go on.
pub(crate) struct Resumption {
    pub(crate) log: Arc<dyn RunLog>,
    pub(crate) run_id: String,
    pub(crate) answer: Option<Answer>,
    pub(crate) in_doubt: InDoubt,
    /// Whether open requests are put to somebody.
    pub(crate) resolves: bool,
}

/// What became of a run that was to go on.
pub(crate) enum TakenUp {
    /// There is nothing to do.
    Over(Box<RunResult>),
    /// It can be driven.
    GoesOn(Box<Begun>),
}

impl Resumption {
    /// Reads the run back and settles what its process left behind. What that comes to is noted and
    /// still to be saved.
    pub(crate) async fn take_up(
        self,
        options: &ClientOptions,
        toolkit: &Toolkit,
    ) -> Result<TakenUp, ClientError> {
        check_run_id(&self.run_id)?;
        let mut events = self.log.read(&self.run_id, 0).await?;
        let mut run = Run::replay(&events)?;
        if run.style() != options.style {
            return Err(DurableError::StyleMismatch { log: run.style(), client: options.style }.into());
        }
        let answers = match &self.answer {
            Some(answer) => answered(&run, answer)?,
            None => Vec::new(),
        };
        if run.is_sealed() {
            let result = run.into_result().map(Box::new);
            return result
                .map(TakenUp::Over)
                .ok_or_else(|| crate::run::RunError::NotStarted { found: "nothing" }.into());
        }
        if answers.is_empty()
            && !self.resolves
            && let Some(result) = run.clone().paused()
        {
            return Ok(TakenUp::Over(Box::new(result)));
        }
        let recorder = Recorder::new(self.log, self.run_id, events.len() as u64);
        let (settled, doubts) = doubts(&run, &self.in_doubt, toolkit);
        let model = Some(options.model.clone()).filter(|model| model != run.model());
        let taken_up = RunEvent::Resumed { model };
        for event in std::iter::once(taken_up).chain(answers).chain(settled) {
            run.apply(&event)?;
            recorder.note(event.clone());
            events.push(event);
        }
        let begun = Begun { run, recorder: Some(recorder), doubts, events, resumed: true };
        Ok(TakenUp::GoesOn(Box::new(begun)))
    }
}

/// What becomes of the calls in doubt, and the events that say so.
fn doubts(run: &Run, policy: &InDoubt, toolkit: &Toolkit) -> (Vec<RunEvent>, Doubts) {
    let mut events = Vec::new();
    let mut doubts = Doubts::default();
    let snapshot = toolkit.snapshot();
    for planned in run.running_calls() {
        let hints = snapshot.get(&planned.call.name).and_then(|tool| tool.hints);
        let decided = match policy {
            // No tool ran: the call has its result already, and its hook was looking at that.
            _ if planned.reply.is_some() => InDoubt::Retry,
            _ if hints.is_some_and(|hints| hints.read_only) => InDoubt::Retry,
            InDoubt::Decide(decide) => decide(planned.call),
            other => other.clone(),
        };
        match decided {
            InDoubt::Retry => doubts.again.push(planned.index),
            InDoubt::Ask => events.push(doubt(&planned)),
            InDoubt::Report | InDoubt::Decide(_) => {
                let (index, result) = (planned.index, Arc::new(Run::interrupted_result()));
                events.push(RunEvent::ToolFinished { index, result: Arc::clone(&result) });
                doubts.reported.push(Reported { index, call: planned.call.clone(), result });
            }
        }
    }
    (events, doubts)
}

/// The question whether to run a call again.
fn doubt(planned: &PlannedCall<'_>) -> RunEvent {
    let args = Value::Object((**planned.args).clone());
    let name = &planned.call.name;
    let prompt = format!("the process stopped while the tool {name} ran with {args}; run it again?");
    let data = Map::from_iter([("tool".to_owned(), name.as_str().into()), ("args".to_owned(), args)]);
    let request = Request {
        id: new_request_id(),
        kind: "in_doubt".into(),
        prompt: prompt.clone(),
        data: Some(data),
        ..Default::default()
    };
    RunEvent::Suspended { index: planned.index, request, output: prompt, in_doubt: true }
}

/// What an answer settles: its own request or, where it answers the merged request of relay tools that
/// a pending result shows, that of each relay call it has a result for.
pub(crate) fn answered(run: &Run, answer: &Answer) -> Result<Vec<RunEvent>, ClientError> {
    let open = run.open_requests();
    let event = |asked: &OpenRequest<'_>| {
        let request_id = asked.request.id.clone();
        RunEvent::Answered { answer: Answer { id: request_id.clone(), ..answer.clone() }, request_id }
    };
    let merged = run.halting_request().is_some_and(|asked| asked.id == answer.id && is_relay_request(&asked));
    let results = answer.data.as_ref().and_then(|data| data.get("results")).and_then(Value::as_array);
    let has_result_for = |call: &ModelCall| {
        let mut ids =
            results.into_iter().flatten().filter_map(|entry| entry.get("id").and_then(Value::as_str));
        ids.any(|id| id == call.id)
    };
    let relayed = |asked: &&OpenRequest<'_>| {
        merged && is_relay_request(asked.request) && (!answer.ok || has_result_for(asked.call))
    };
    let settled: Vec<RunEvent> = open.iter().filter(relayed).map(event).collect();
    if !settled.is_empty() {
        return Ok(settled);
    }
    // Of requests with one id, a tool's own, the first: a grant for one call is none for another.
    match open.iter().find(|asked| asked.request.id == answer.id) {
        Some(asked) => Ok(vec![event(asked)]),
        None => {
            let open = open.iter().map(|asked| asked.request.id.clone()).collect();
            Err(DurableError::UnknownRequest { id: answer.id.clone(), open }.into())
        }
    }
}
