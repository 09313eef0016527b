//! The tool-calling loop as a value.
//!
//! A [`Run`] is the fold of its [`RunEvent`]s. It has no clock, randomness, I/O, locks or
//! callbacks; [`Run::next`] says what it needs, [`Run::apply`] tells it what happened:
//!
//! ```text
//!            started
//!               │
//!               ▼
//!   ┌──▶ Step::CallModel ── model_answered, no calls ──▶ Step::Done ── finished
//!   │           │                                            ▲
//!   │     model_answered                                     │
//!   │           ▼                                            │
//!   │    Step::CallTools ── tool_started ──▶ Step::Wait      │
//!   │           ▲                               │            │
//!   │       answered                 tool_finished │ suspended
//!   │           │                        │         ▼         │
//!   │           └────────────────────────│──── Step::Ask     │
//!   │                                    ▼                   │
//!   └───────── every call has its result ──── max_turns ─────┘
//! ```
//!
//! Drivers do the I/O around it: they call the model, run the tools, ask whoever answers
//! suspensions, and may write the events down. Because the run is only its events, replaying them
//! gives the same run again: that is how it survives its process, how tests run without a model,
//! and how it can be forked.
//!
//! The transcript is ready for the provider whenever no call is open. When the last open call
//! of a turn ends, the results of the turn enter the transcript together, in call order, in the
//! shape of the run's style; so every tool call is answered exactly once.

mod debug;
mod error;
mod event;
mod turn;

use std::sync::Arc;

use toolnexus_core::{
    Answer, Request, Style, ToolResult, is_relay_request, merged_relay_requests, pending_of,
};

pub use error::RunError;
pub use event::{Args, ModelAnswer, ModelCall, RunEvent, RunStarted};
use turn::{OpenCall, Phase};

use crate::result::limits;
use crate::wire::{ToolAnswer, answer_rest, wire};
use crate::{FinishReason, RunFile, RunResult, RunStatus, ToolCallRecord, Transcript, Usage};

/// What a run needs next.
#[derive(Clone, PartialEq)]
pub enum Step<'a> {
    /// The model's next answer to this transcript.
    CallModel {
        /// The transcript so far.
        messages: &'a Transcript,
        /// Which model call of the run this is, from 0.
        turn: u32,
    },
    /// These calls, in call order, to be started.
    CallTools(Vec<PlannedCall<'a>>),
    /// Answers to these requests, in call order.
    Ask(Vec<OpenRequest<'a>>),
    /// Nothing new: calls are running.
    Wait,
    /// Nothing any more.
    Done(&'a RunResult),
}

/// A call to be started.
#[derive(Clone, PartialEq)]
pub struct PlannedCall<'a> {
    /// Which call of the turn.
    pub index: usize,
    /// The call as the model made it.
    pub call: &'a ModelCall,
    /// The arguments to run with.
    pub args: &'a Args,
    /// The answer to the call's request, when this is the run after a suspension.
    pub answer: Option<&'a Answer>,
    /// Whether it was started before: what hooks had to say of it is in its arguments.
    pub started: bool,
    /// Set when the call must not be executed: finish it with this result.
    pub reply: Option<Box<ToolResult>>,
}

/// A request that waits for its answer.
#[derive(Clone, PartialEq)]
pub struct OpenRequest<'a> {
    /// Which call of the turn asks.
    pub index: usize,
    /// What it asks.
    pub request: &'a Request,
    /// The call that asks.
    pub call: &'a ModelCall,
}

/// The state of one run. See the [module](self).
///
/// ```
/// use toolnexus_llm::run::{ModelAnswer, Run, RunEvent, RunStarted, Step};
/// use toolnexus_llm::{FinishReason, RunStatus, Style, Transcript};
///
/// let mut run = Run::start(RunStarted {
///     run_id: String::new(), style: Style::OpenAI, model: "m".into(), system: String::new(),
///     history: Transcript::new(), prompt: "hi".into(), max_turns: 10, conversation_id: None,
/// });
/// assert!(matches!(run.next(), Step::CallModel { turn: 0, .. }));
/// run.apply(&RunEvent::ModelAnswered(ModelAnswer {
///     message: None, text: "hello".into(), calls: vec![], usage: Default::default(),
///     finish_reason: FinishReason::Stop,
/// })).unwrap();
/// let Step::Done(result) = run.next() else { panic!() };
/// assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "hello"));
/// ```
#[derive(Clone, PartialEq)]
pub struct Run {
    run_id: String,
    style: Style,
    model: String,
    system: String,
    conversation_id: Option<String>,
    max_turns: u32,
    messages: Transcript,
    /// Whether the last message is still this run's prompt, unanswered.
    prompt_is_last: bool,
    turns: u32,
    usage: Usage,
    finish_reason: Option<FinishReason>,
    records: Vec<ToolCallRecord>,
    files: Vec<RunFile>,
    tool_names: Option<Vec<String>>,
    open: Vec<OpenCall>,
    /// How many of the open calls have their result.
    open_results: usize,
    outcome: Option<Box<RunResult>>,
    sealed: bool,
}

impl Run {
    /// The run at its beginning.
    pub fn start(started: RunStarted) -> Self {
        let wire = wire(started.style);
        let mut messages = started.history;
        answer_rest(started.style, &mut messages);
        messages.seal();
        if messages.is_empty() {
            messages.extend(wire.opening(&started.system));
        }
        messages.push(wire.user_message(&started.prompt));
        Run {
            run_id: started.run_id,
            style: started.style,
            model: started.model,
            system: started.system,
            conversation_id: started.conversation_id,
            max_turns: started.max_turns,
            messages,
            prompt_is_last: true,
            turns: 0,
            usage: Usage::default(),
            finish_reason: None,
            records: Vec::new(),
            files: Vec::new(),
            tool_names: None,
            open: Vec::new(),
            open_results: 0,
            outcome: None,
            sealed: false,
        }
    }

    /// The run that these events lead to. The first must be `started`.
    ///
    /// # Errors
    /// [`RunError::NotStarted`], or what [`Run::apply`] says of a later event.
    pub fn replay<'e>(events: impl IntoIterator<Item = &'e RunEvent>) -> Result<Self, RunError> {
        let mut events = events.into_iter();
        let mut run = match events.next() {
            Some(RunEvent::Started(started)) => Run::start(started.clone()),
            Some(other) => return Err(RunError::NotStarted { found: other.kind() }),
            None => return Err(RunError::NotStarted { found: "nothing" }),
        };
        for event in events {
            run.apply(event)?;
        }
        Ok(run)
    }

    /// What the run needs next. Pure: it may be asked any number of times.
    pub fn next(&self) -> Step<'_> {
        if let Some(outcome) = &self.outcome {
            return Step::Done(outcome);
        }
        if self.open.is_empty() {
            return Step::CallModel { messages: &self.messages, turn: self.turns };
        }
        let planned: Vec<PlannedCall<'_>> = self.calls_in(&Phase::Planned).collect();
        if !planned.is_empty() {
            return Step::CallTools(planned);
        }
        let asked = self.open_requests();
        if asked.is_empty() { Step::Wait } else { Step::Ask(asked) }
    }

    fn calls_in<'r>(&'r self, phase: &Phase) -> impl Iterator<Item = PlannedCall<'r>> {
        let in_phase = move |(_, open): &(usize, &OpenCall)| open.phase == *phase;
        self.open.iter().enumerate().filter(in_phase).map(|(index, open)| PlannedCall {
            index,
            call: &open.call,
            args: &open.args,
            answer: open.answer.as_ref(),
            started: open.started,
            reply: open.fixed_result().map(Box::new),
        })
    }

    /// The requests that wait for an answer, in call order.
    pub fn open_requests(&self) -> Vec<OpenRequest<'_>> {
        self.open
            .iter()
            .enumerate()
            .filter_map(|(index, open)| {
                Some(OpenRequest { index, request: open.open_request()?, call: &open.call })
            })
            .collect()
    }

    /// The calls that were started and have neither a result nor an open request. Of a run that was
    /// read back from its events these are in doubt: their process ended while they ran.
    pub fn running_calls(&self) -> Vec<PlannedCall<'_>> {
        self.calls_in(&Phase::Running).collect()
    }

    /// Takes one event.
    ///
    /// # Errors
    /// [`RunError::Unexpected`] for an event that does not fit the state, which then changes
    /// nothing.
    pub fn apply(&mut self, event: &RunEvent) -> Result<(), RunError> {
        self.take(event.clone())
    }

    /// [`Run::apply`] for a driver that has no other use for the event: nothing is copied.
    pub fn take(&mut self, event: RunEvent) -> Result<(), RunError> {
        let unexpected = RunError::Unexpected { event: event.kind(), state: String::new() };
        if self.fold(event) {
            return Ok(());
        }
        match unexpected {
            RunError::Unexpected { event, .. } => Err(RunError::Unexpected { event, state: self.state() }),
            other => Err(other),
        }
    }

    /// True if the event fits and was taken.
    fn fold(&mut self, event: RunEvent) -> bool {
        if self.sealed {
            return false;
        }
        match event {
            RunEvent::Started(_) => false,
            RunEvent::Failed { .. } => true,
            RunEvent::Resumed { model } => {
                self.model = model.unwrap_or_else(|| std::mem::take(&mut self.model));
                true
            }
            RunEvent::MessagesReplaced { messages } => {
                let fits = self.wants_model();
                if fits {
                    self.prompt_is_last &= messages.last() == self.messages.last();
                    self.messages = messages;
                }
                fits
            }
            RunEvent::ToolsReplaced { names } => {
                let fits = self.wants_model();
                if fits {
                    self.tool_names = Some(names);
                }
                fits
            }
            RunEvent::ModelAnswered(answer) => {
                let fits = self.wants_model();
                if fits {
                    self.answered_by_model(answer);
                }
                fits
            }
            RunEvent::ToolStarted { indices, args, media } => self.calls_started(&indices, args, &media),
            RunEvent::ToolFinished { index, result } => self.call_finished(index, result),
            RunEvent::Suspended { index, request, output, in_doubt } => {
                self.call_suspended(index, request, output, in_doubt)
            }
            RunEvent::Answered { request_id, answer } => self.request_answered(&request_id, answer),
            RunEvent::Finished { status, limit, text } => self.finished(status, limit, text),
        }
    }

    fn wants_model(&self) -> bool {
        self.outcome.is_none() && self.open.is_empty()
    }

    fn answered_by_model(&mut self, answer: ModelAnswer) {
        self.turns += 1;
        self.usage += answer.usage;
        self.finish_reason = Some(answer.finish_reason);
        self.messages.extend(answer.message);
        self.prompt_is_last = false;
        self.open = answer.calls.into_iter().map(OpenCall::new).collect();
        if self.open.is_empty() {
            self.end(RunStatus::Done, None, answer.text);
        }
    }

    fn calls_started(&mut self, indices: &[usize], args: Vec<Args>, media: &[usize]) -> bool {
        let distinct = indices.iter().collect::<std::collections::HashSet<_>>().len() == indices.len();
        let startable = |index: &usize| self.open.get(*index).is_some_and(|c| c.phase == Phase::Planned);
        let fits = !indices.is_empty() && distinct && indices.len() == args.len();
        if !fits || !indices.iter().all(startable) || !media.iter().all(|index| indices.contains(index)) {
            return false;
        }
        for (index, args) in indices.iter().zip(args) {
            if let Some(call) = self.open.get_mut(*index) {
                call.args = args;
                call.phase = Phase::Running;
                call.started = true;
                call.of_media = media.contains(index);
            }
        }
        true
    }

    fn running(&mut self, index: usize) -> Option<&mut OpenCall> {
        self.open.get_mut(index).filter(|call| call.phase == Phase::Running)
    }

    fn call_finished(&mut self, index: usize, result: Arc<ToolResult>) -> bool {
        let Some(call) = self.running(index) else { return false };
        call.phase = Phase::Finished(result);
        self.open_results += 1;
        if self.open_results == self.open.len() {
            self.close_turn();
        }
        true
    }

    fn call_suspended(&mut self, index: usize, request: Request, output: String, in_doubt: bool) -> bool {
        match self.running(index) {
            Some(call) if in_doubt => {
                call.doubt = Some(request);
                call.phase = Phase::Suspended { output };
                true
            }
            // One answer is all that a call gets: what suspends again is finished instead.
            Some(call) if call.answer.is_none() => {
                call.request = Some(request);
                call.phase = Phase::Suspended { output };
                true
            }
            _ => false,
        }
    }

    fn request_answered(&mut self, request_id: &str, answer: Answer) -> bool {
        let asking = self.open.iter_mut().find(|call| call.asks(request_id));
        let Some(call) = asking else { return false };
        call.phase = Phase::Planned;
        if call.doubt.take().is_some() {
            call.stays_interrupted = !answer.ok;
            return true;
        }
        // A granted answer has no reason, on paper neither: a replay must give the same run.
        let reason = if answer.ok { None } else { answer.reason };
        call.answer = Some(Answer { reason, ..answer });
        true
    }

    fn finished(&mut self, status: RunStatus, limit: Option<String>, text: Option<String>) -> bool {
        match &self.outcome {
            Some(outcome) if outcome.status != status || outcome.limit != limit => return false,
            Some(_) => {}
            // A driver may stop a run before a model call: a prompt that cannot be sent.
            None if status == RunStatus::Incomplete && limit.is_some() && self.open.is_empty() => {
                if self.prompt_is_last && limit.as_deref() == Some(limits::CONTENT_PART) {
                    self.messages.pop();
                }
                self.end(status, limit, text.unwrap_or_default());
            }
            None => return false,
        }
        self.sealed = true;
        true
    }

    /// Every call of the turn has its result: they enter the transcript together.
    fn close_turn(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.open_results = 0;
        let answers: Vec<ToolAnswer<'_>> = open
            .iter()
            .filter_map(|call| Some(ToolAnswer::of(&call.call, call.result()?, call.of_media)))
            .collect();
        let results = wire(self.style).tool_results(self.messages.messages().next_back(), &answers);
        self.messages.extend(results);
        for call in open {
            if let Phase::Finished(result) = call.phase {
                self.record(call.call, call.args, Arc::unwrap_or_clone(result));
            }
        }
        if self.turns >= self.max_turns {
            let text = wire(self.style).newest_text(&self.messages);
            self.end(RunStatus::Incomplete, Some(limits::MAX_TURNS.into()), text);
        }
    }

    fn record(&mut self, call: ModelCall, args: Args, result: ToolResult) {
        self.files.extend(RunFile::of_parts(&result.parts, &call.name, &call.id));
        // The model's own arguments are in the transcript; without them here, the ones that ran
        // need not be copied.
        drop(call.args);
        let args = Arc::unwrap_or_clone(args);
        self.records.push(ToolCallRecord { via: call.via, ..ToolCallRecord::new(call.name, args, result) });
    }

    fn end(&mut self, status: RunStatus, limit: Option<String>, text: String) {
        // The run keeps nothing that its result holds: there is no step after this one.
        self.outcome = Some(Box::new(RunResult {
            text,
            messages: std::mem::take(&mut self.messages),
            tool_call_count: self.records.len(),
            tool_calls: std::mem::take(&mut self.records),
            turns: self.turns,
            usage: self.usage,
            model: self.model.clone(),
            status,
            limit,
            finish_reason: self.finish_reason,
            pending: None,
            open_requests: Vec::new(),
            run_id: (!self.run_id.is_empty()).then(|| self.run_id.clone()),
            files: std::mem::take(&mut self.files),
        }));
    }

    /// What the result of a call means for the run: the event to apply.
    ///
    /// A suspension is [`RunEvent::Suspended`], unless the call was answered before: then it is
    /// finished as unresolved. `new_id` names a request that came without an id.
    pub fn event_of(
        &self,
        index: usize,
        result: impl Into<Arc<ToolResult>>,
        new_id: impl FnOnce() -> String,
    ) -> RunEvent {
        let result = result.into();
        let Some(mut request) = pending_of(&result) else { return RunEvent::ToolFinished { index, result } };
        if let Some(unresolved) = self.unresolved(index) {
            return RunEvent::ToolFinished { index, result: Arc::new(ToolResult::failure(unresolved)) };
        }
        if request.id.is_empty() {
            request.id = new_id();
        }
        RunEvent::Suspended { index, request, output: result.output.clone(), in_doubt: false }
    }

    /// What a call that was answered comes to if it suspends again: the text of its failure.
    pub(crate) fn unresolved(&self, index: usize) -> Option<String> {
        let answered = self.open.get(index).filter(|call| call.answer.is_some())?;
        Some(format!("unresolved: {}", answered.asked()))
    }

    /// What a run that has nobody to ask stops with: the first open request, in call order. If that
    /// is the request of a relay tool, it holds the relay calls of the whole turn, so that one answer
    /// can settle them together.
    ///
    /// `None` while nothing is suspended, or while a call before it has no result yet.
    pub fn halting_request(&self) -> Option<Request> {
        let open = self.open.get(self.first_unfinished()?..)?;
        let first = open.first()?.open_request()?;
        let asked = open.iter().filter_map(OpenCall::open_request);
        let relayed = asked.filter(|request| is_relay_request(request));
        let merged = if is_relay_request(first) { merged_relay_requests(relayed) } else { None };
        Some(merged.unwrap_or_else(|| first.clone()))
    }

    /// The result of stopping at the first open request, in call order: for a driver that has
    /// nobody to ask. Calls after it are dropped, as if they had not been made yet.
    ///
    /// `None` while nothing is suspended, or while a call before it has no result yet.
    pub fn halted(mut self) -> Option<RunResult> {
        let at = self.first_unfinished()?;
        let request = self.halting_request()?;
        self.open.truncate(at + 1);
        self.waiting(request)
    }

    /// The result of stopping where every call of the turn is over or suspended: for a driver that has
    /// nobody to ask and goes on with this very run later. No call is dropped, and
    /// [`RunResult::open_requests`] holds all that is asked.
    ///
    /// `None` while nothing is suspended, or while a call is planned or running.
    pub fn paused(self) -> Option<RunResult> {
        let settled = |call: &OpenCall| matches!(call.phase, Phase::Suspended { .. } | Phase::Finished(_));
        if !self.open.iter().all(settled) {
            return None;
        }
        let request = self.halting_request()?;
        let open_requests = self.open.iter().filter_map(OpenCall::open_request).cloned().collect();
        Some(RunResult { open_requests, ..self.waiting(request)? })
    }

    /// The result of a run that waits: what its suspended calls say meanwhile stands for their results.
    fn waiting(mut self, request: Request) -> Option<RunResult> {
        for call in &mut self.open {
            if let Phase::Suspended { output } = &mut call.phase {
                call.phase = Phase::Finished(Arc::new(ToolResult::failure(std::mem::take(output))));
            }
        }
        let text = request.prompt.clone();
        // The limit says nothing about a run that waits.
        self.max_turns = u32::MAX;
        self.close_turn();
        self.end(RunStatus::Pending, None, text);
        let mut result = *self.outcome?;
        result.pending = Some(request);
        Some(result)
    }

    /// The result of a run that is done.
    pub fn into_result(self) -> Option<RunResult> {
        self.outcome.map(|outcome| *outcome)
    }

    /// Whether the run has its `finished` event and takes no more.
    pub const fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// The run's id; empty for a run that nobody records.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The model that the run is asked of.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The dialect of the transcript.
    pub const fn style(&self) -> Style {
        self.style
    }

    /// The system text that the run started with.
    pub fn system(&self) -> &str {
        &self.system
    }

    /// The conversation that the run belongs to.
    pub fn conversation_id(&self) -> Option<&str> {
        self.conversation_id.as_deref()
    }

    /// The transcript. While calls are open it ends with the message that asks for them.
    pub fn messages(&self) -> &Transcript {
        self.outcome.as_ref().map_or(&self.messages, |outcome| &outcome.messages)
    }

    /// Model calls made so far.
    pub const fn turns(&self) -> u32 {
        self.turns
    }

    /// Tokens used so far.
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// The names that replaced the toolkit's list, if a hook did that.
    pub fn tool_names(&self) -> Option<&[String]> {
        self.tool_names.as_deref()
    }

    /// The calls of the open turn.
    pub fn open_calls(&self) -> impl ExactSizeIterator<Item = &ModelCall> {
        self.open.iter().map(|open| &open.call)
    }

    /// A call of the open turn, by its place in it.
    pub(crate) fn open_call(&self, index: usize) -> Option<&ModelCall> {
        self.open.get(index).map(|open| &open.call)
    }

    /// The arguments that a call of the open turn runs with.
    pub(crate) fn args_of(&self, index: usize) -> Option<&Args> {
        self.open.get(index).map(|open| &open.args)
    }

    /// The result of a call of the open turn that has ended.
    pub fn finished_call(&self, index: usize) -> Option<&ToolResult> {
        self.open.get(index)?.result().map(Arc::as_ref)
    }

    /// Whether calls of the open turn were started and have neither a result nor an open request.
    pub fn has_running_calls(&self) -> bool {
        self.calls_in(&Phase::Running).next().is_some()
    }

    /// The result that a call in doubt gets when it is not to be run again.
    pub fn interrupted_result() -> ToolResult {
        ToolResult::failure(turn::INTERRUPTED)
    }

    /// Tool calls of the whole run that have their result.
    pub fn finished_calls(&self) -> usize {
        let recorded = self.outcome.as_ref().map_or(self.records.len(), |outcome| outcome.tool_call_count);
        recorded + self.open_results
    }

    /// The first call of the open turn, in call order, that has no result yet.
    pub(crate) fn first_unfinished(&self) -> Option<usize> {
        self.open.iter().position(|call| call.result().is_none())
    }

    /// The call that would get an answer to the request of this id now.
    pub(crate) fn first_asking(&self, request_id: &str) -> Option<usize> {
        self.open.iter().position(|call| call.asks(request_id))
    }

    fn state(&self) -> String {
        if self.sealed {
            return "finished".into();
        }
        match self.next() {
            Step::CallModel { turn, .. } => format!("waiting for model call {turn}"),
            Step::CallTools(calls) => format!("about to start {} of {} calls", calls.len(), self.open.len()),
            Step::Ask(asked) => format!("waiting for {} answers", asked.len()),
            Step::Wait => format!("running {} calls", self.open.len()),
            Step::Done(result) => format!("over ({})", result.status),
        }
    }
}
