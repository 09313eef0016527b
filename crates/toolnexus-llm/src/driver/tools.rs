//! One turn of tool calls: all at once, told in call order.
//!
//! ```text
//! planned ─▶ before_tool ─▶ started ─▶ tool ─▶ after_tool ─▶ finished
//!    ▲            │ a result                         │ a suspension
//!    │            └──────────────▶ finished          ▼
//!    └── with the answer ◀── resolver ◀── asked, in call order
//! ```
//!
//! Calls run side by side. Their outcomes are looked at in call order: the first call that has not
//! been settled is the one whose suspension is resolved next, while later calls may still run. Nothing
//! starts before the log of a durable run has it, and of the calls of one turn all starts are one write.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use toolnexus_core::{
    Answer, BoxError, BoxFuture, Request, ToolReport, ToolResult, ToolSource, new_request_id, pending_of,
};

use super::call::{Call, reporting};
use super::ready::{Ready, Way};
use super::told::Results;
use super::{Doubts, Driver};
use crate::hooks;
use crate::resolver::Resolver;
use crate::run::{ModelCall, Run, RunEvent, Step};
use crate::{BeforeToolEvent, ClientError, StreamEvent, ToolOverride, WaitForCtx};

/// How a turn of tools ended.
pub(super) enum Turn {
    /// Every call has its result.
    Closed,
    /// A call is suspended and nobody is there to answer.
    Halted,
}

/// What a running future came to.
pub(super) enum Ended {
    /// The `before_tool` hook has spoken.
    Checked(Box<(Ready, Result<Option<ToolOverride>, ClientError>)>),
    /// A call has its result.
    Call(usize, Outcome),
    /// Nothing yet: the call told something, and goes on in the future that comes with it.
    Report(usize, ToolReport, BoxFuture<'static, Ended>),
    Answer(usize, String, Result<Answer, BoxError>),
}

/// What came of one call.
pub(super) struct Outcome {
    /// The result, or the error of the `after_tool` hook.
    pub(super) result: Result<Arc<ToolResult>, Box<ClientError>>,
    /// What the metric event says, if there is one.
    pub(super) measured: Option<Measured>,
}

pub(super) struct Measured {
    pub(super) ms: u64,
    pub(super) is_error: bool,
    pub(super) pending: bool,
}

/// Gives the run the answers it can take. It takes an answer for the first call that asks under
/// the answer's id, so where calls share an id, a later call's answer waits for the earlier ones'.
fn next_answer(run: &Run, answers: &mut Vec<(usize, String, Answer)>) -> Option<(usize, RunEvent)> {
    let at = answers.iter().position(|(index, id, _)| run.first_asking(id) == Some(*index))?;
    let (index, request_id, answer) = answers.remove(at);
    Some((index, RunEvent::Answered { request_id, answer }))
}

/// A turn under way.
struct Underway<'d> {
    driver: &'d Driver,
    running: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// What ended and was not looked at yet.
    ended: VecDeque<Ended>,
    results: Results<'d>,
    /// Whether each call was looked at: it waits for its hook, or was started.
    seen: Vec<bool>,
    /// Whether there may be a call that was not looked at: at the beginning and after an answer.
    unplanned: bool,
    /// How many calls wait for their hook.
    checking: usize,
    ready: Vec<Ready>,
    /// The source of each call, for its metric event.
    sources: Vec<Option<ToolSource>>,
    asked: Vec<usize>,
    answers: Vec<(usize, String, Answer)>,
    /// The hook error of the first call, in call order, that has one.
    failed: Option<(usize, ClientError)>,
}

impl Driver {
    /// Runs the open turn. `doubts` are calls of it that were running in a process that is gone.
    pub(super) async fn run_tools(&self, run: &mut Run, doubts: Doubts) -> Result<Turn, ClientError> {
        let mut turn = Underway {
            driver: self,
            running: FuturesUnordered::new(),
            ended: VecDeque::new(),
            results: Results::new(&self.events, run),
            seen: vec![false; run.open_calls().len()],
            unplanned: true,
            checking: 0,
            ready: Vec::new(),
            sources: vec![None; run.open_calls().len()],
            asked: Vec::new(),
            answers: Vec::new(),
            failed: None,
        };
        for reported in &doubts.reported {
            turn.results.note(reported.index, &reported.result);
        }
        if !doubts.again.is_empty() {
            turn.run_again(run, &doubts.again);
        }
        turn.drive(run).await
    }
}

impl Underway<'_> {
    async fn drive(&mut self, run: &mut Run) -> Result<Turn, ClientError> {
        loop {
            self.driver.check_cancelled()?;
            self.plan(run).await?;
            self.start(run).await?;
            self.results.tell();
            let idle = self.running.is_empty() && self.ended.is_empty();
            if idle && let Some((_, error)) = self.failed.take() {
                return Err(error);
            }
            if run.open_calls().len() == 0 {
                return Ok(Turn::Closed);
            }
            if self.failed.is_none() && self.ask(run, idle).await? {
                return Ok(Turn::Halted);
            }
            self.gather().await;
            // Calls are open and nothing runs: what is left is suspended.
            if self.ended.is_empty() && self.failed.is_none() {
                self.driver.save().await?;
                return Ok(Turn::Halted);
            }
            while let Some(ended) = self.ended.pop_front() {
                self.take(run, ended).await?;
            }
        }
    }

    /// Waits until something has ended, and collects with it whatever else has: looking at the turn
    /// as a whole after each of ten thousand calls would take a time that grows with their square.
    async fn gather(&mut self) {
        if self.ended.is_empty()
            && let Some(ended) = self.running.next().await
        {
            self.ended.push_back(ended);
        }
        std::future::poll_fn(|context| {
            self.collect_ended(context);
            Poll::Ready(())
        })
        .await;
    }

    fn collect_ended(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(ended)) = self.running.poll_next_unpin(context) {
            self.ended.push_back(ended);
        }
    }

    /// Looks at every call that is planned: it goes to its hook, or is ready to start.
    async fn plan(&mut self, run: &mut Run) -> Result<(), ClientError> {
        if !std::mem::take(&mut self.unplanned) {
            return Ok(());
        }
        let Step::CallTools(planned) = run.next() else { return Ok(()) };
        // Looked up now, not when the run began: a tool registered meanwhile can be called.
        let snapshot = self.driver.toolkit.snapshot();
        let hook = self.driver.hooks().and_then(|hooks| hooks.before_tool.clone());
        for call in planned {
            match self.seen.get_mut(call.index) {
                Some(seen) if !*seen => *seen = true,
                _ => continue,
            }
            let ready = Ready::of(&call, self.driver, &snapshot);
            match (&ready.way, &hook) {
                (Way::Run(None), Some(hook)) if !call.started => {
                    let event = BeforeToolEvent {
                        name: call.call.name.clone(),
                        args: (**call.args).clone(),
                        id: call.call.id.clone(),
                        turn: run.turns().saturating_sub(1),
                        hints: ready.tool.as_ref().and_then(|tool| tool.hints),
                    };
                    let hook = Arc::clone(hook);
                    self.checking += 1;
                    self.running.push(Box::pin(async move {
                        let verdict = hooks::call("before_tool", &*hook, event).await;
                        Ended::Checked(Box::new((ready, verdict)))
                    }));
                }
                _ => self.ready.push(ready),
            }
        }
        if self.checking > 0 {
            // A hook may take its time: what the model said is not to be lost meanwhile.
            self.save().await?;
        }
        Ok(())
    }

    /// Starts what is ready. In a durable run that waits until every hook has spoken, so that all
    /// starts are one write.
    async fn start(&mut self, run: &mut Run) -> Result<(), ClientError> {
        if self.ready.is_empty() || (self.driver.recorder.is_some() && self.checking > 0) {
            return Ok(());
        }
        let ready = std::mem::take(&mut self.ready);
        let indices = ready.iter().map(|ready| ready.index).collect();
        let args = ready.iter().map(|ready| Arc::clone(&ready.args)).collect();
        let of_media =
            |ready: &&Ready| ready.tool.as_ref().is_some_and(|tool| tool.source == ToolSource::Media);
        let media = ready.iter().filter(of_media).map(|ready| ready.index).collect();
        self.driver.apply(run, RunEvent::ToolStarted { indices, args, media })?;
        for ready in &ready {
            self.set_source(ready.index, ready.source);
        }
        // What has its result already is one write with its start.
        let mut to_run = Vec::with_capacity(ready.len());
        for ready in ready {
            match ready.way {
                Way::Reply(result) => {
                    let pending = pending_of(&result).is_some();
                    let measured = Some(Measured { ms: 0, is_error: result.is_error && !pending, pending });
                    self.land(run, ready.index, Outcome { result: Ok(Arc::new(*result)), measured })?;
                }
                Way::Settle(result) if self.driver.after_tool().is_none() => {
                    self.land(run, ready.index, Outcome { result: Ok(Arc::new(*result)), measured: None })?;
                }
                Way::Run(_) | Way::Settle(_) => to_run.push(ready),
            }
        }
        self.save().await?;
        for ready in to_run {
            self.launch(run, ready);
        }
        Ok(())
    }

    fn set_source(&mut self, index: usize, source: Option<ToolSource>) {
        if let Some(slot) = self.sources.get_mut(index) {
            *slot = source;
        }
    }

    /// Sets a started call going.
    fn launch(&mut self, run: &Run, ready: Ready) {
        let index = ready.index;
        let Some(call) = run.open_call(index) else { return };
        self.running.push(match &ready.way {
            Way::Run(_) => self.driver.execute(run, call, ready),
            Way::Settle(result) | Way::Reply(result) => {
                let result = (**result).clone();
                let call = Call::new(self.driver, run, call, ready);
                Box::pin(async move { Ended::Call(index, call.settled(result).await) })
            }
        });
    }

    /// Takes up calls whose process is gone. One that has its result already, as a declined one that its
    /// hook was looking at, does not run for that.
    fn run_again(&mut self, run: &Run, again: &[usize]) {
        let snapshot = self.driver.toolkit.snapshot();
        for planned in run.running_calls() {
            if again.contains(&planned.index) {
                let ready = Ready::of(&planned, self.driver, &snapshot);
                self.set_source(ready.index, ready.source);
                self.launch(run, ready);
            }
        }
    }

    async fn take(&mut self, run: &mut Run, ended: Ended) -> Result<(), ClientError> {
        match ended {
            Ended::Checked(checked) => {
                let (mut ready, verdict) = *checked;
                self.checking -= 1;
                match verdict {
                    Ok(Some(ToolOverride { args, result })) => {
                        let suspends = result.as_ref().is_some_and(|result| pending_of(result).is_some());
                        // A result stands for the model's own arguments; a suspension, for what is run
                        // once it is granted.
                        if let Some(args) = args.filter(|_| result.is_none() || suspends) {
                            ready.args = Arc::new(args);
                        }
                        if let Some(result) = result {
                            ready.way = Way::Reply(Box::new(result));
                        }
                        self.ready.push(ready);
                    }
                    Ok(None) => self.ready.push(ready),
                    Err(error) => self.fail(ready.index, error),
                }
            }
            Ended::Call(index, outcome) => {
                self.land(run, index, outcome)?;
                // What came in meanwhile is one write with it.
                while let Some(position) =
                    self.ended.iter().position(|ended| matches!(ended, Ended::Call(..)))
                {
                    if let Some(Ended::Call(index, outcome)) = self.ended.remove(position) {
                        self.land(run, index, outcome)?;
                    }
                }
                self.save().await?;
            }
            Ended::Report(index, report, rest) => {
                self.running.push(rest);
                self.tell_report(run, index, report);
                // A listener that is slow, or a tool that reports in a tight loop, must not keep
                // this future from giving way.
                self.driver.events.taken().await;
                tokio::task::yield_now().await;
            }
            Ended::Answer(index, request_id, answer) => {
                // A resolver may end its ask by failing when it hears of the cancel.
                self.driver.check_cancelled()?;
                self.answers.push((index, request_id, answer.map_err(ClientError::WaitFor)?));
                while let Some((index, event)) = next_answer(run, &mut self.answers) {
                    if let Some(seen) = self.seen.get_mut(index) {
                        *seen = false;
                        self.unplanned = true;
                    }
                    self.driver.apply(run, event)?;
                }
            }
        }
        Ok(())
    }

    /// A call has its result, or is suspended.
    fn land(&mut self, run: &mut Run, index: usize, outcome: Outcome) -> Result<(), ClientError> {
        let Some(call) = run.open_call(index) else { return Ok(()) };
        let source = self.sources.get(index).copied().flatten();
        if let Some(Measured { ms, is_error, pending }) = outcome.measured {
            self.driver.client.metrics.tool(&call.name, source, is_error, ms, pending);
        }
        let result = match outcome.result {
            Ok(result) => result,
            Err(error) => {
                self.fail(index, *error);
                return Ok(());
            }
        };
        let event = run.event_of(index, result, new_request_id);
        if let RunEvent::ToolFinished { result, .. } = &event {
            if let Some(boundary) = &self.driver.boundary {
                let args = run.args_of(index).unwrap_or(&call.args);
                let ran = ModelCall { args: Arc::clone(args), ..call.clone() };
                boundary.note_result(&ran, source, result);
            }
            self.results.note(index, result);
        }
        self.driver.apply(run, event)
    }

    fn fail(&mut self, index: usize, error: ClientError) {
        if self.failed.as_ref().is_none_or(|(first, _)| index < *first) {
            self.failed = Some((index, error));
        }
    }

    /// Writes what happened, while what runs goes on.
    async fn save(&mut self) -> Result<(), ClientError> {
        if self.driver.recorder.is_none() {
            return Ok(());
        }
        let mut save = pin!(self.driver.save());
        std::future::poll_fn(|context| {
            if let Poll::Ready(saved) = save.as_mut().poll(context) {
                return Poll::Ready(saved);
            }
            self.collect_ended(context);
            Poll::Pending
        })
        .await
    }

    fn tell_report(&self, run: &Run, index: usize, report: ToolReport) {
        // Log lines are for callers over a protocol; a run has no event for them.
        let ToolReport::Progress { progress, total, message } = report else { return };
        let Some(call) = run.open_call(index) else { return };
        self.driver.events.tell(|| StreamEvent::ToolProgress {
            id: call.id.clone(),
            name: call.name.clone(),
            progress,
            total,
            message,
        });
    }

    /// Puts the open requests whose turn it is to the resolver. True: there is none, and nothing else
    /// to do either.
    async fn ask(&mut self, run: &Run, idle: bool) -> Result<bool, ClientError> {
        let open = self.to_ask(run);
        if open.is_empty() {
            return Ok(false);
        }
        let Some(resolver) = self.driver.resolver.clone() else {
            // Nobody to ask: the others are awaited, then the run halts here.
            if !idle {
                return Ok(false);
            }
            self.driver.save().await?;
            if let Some(request) = run.halting_request() {
                self.driver.events.tell(|| StreamEvent::Pending { request });
            }
            return Ok(true);
        };
        // The question is written before anybody hears it.
        self.save().await?;
        for (index, request) in open {
            self.driver.events.tell(|| StreamEvent::Pending { request: request.clone() });
            self.asked.push(index);
            self.running.push(self.driver.ask(resolver.clone(), run, index, request));
        }
        Ok(false)
    }

    /// The open requests whose turn it is and that were not asked: the one that is next in call
    /// order, for which every call before it has its result; or, for a host that wants that, all.
    fn to_ask(&self, run: &Run) -> Vec<(usize, Request)> {
        // Not `Step::Ask`, which comes when every call was started: a question does not wait for the
        // hooks of other calls, which may wait for its answer.
        let open = run.open_requests();
        let at_once = self.driver.resolver.is_some() && self.driver.client.options.concurrent_wait_for;
        let next = run.first_unfinished();
        open.into_iter()
            .filter(|open| at_once || Some(open.index) == next)
            .filter(|open| !self.asked.contains(&open.index))
            .map(|open| (open.index, open.request.clone()))
            .collect()
    }
}

impl Driver {
    /// Runs the tool of a call, told about by whoever listens.
    fn execute(&self, run: &Run, call: &ModelCall, ready: Ready) -> BoxFuture<'static, Ended> {
        let index = ready.index;
        let (call, reports) = Call::to_run(self, run, call, ready);
        match reports {
            Some(reports) => reporting(index, Box::pin(call.run()), reports),
            None => Box::pin(call.run()),
        }
    }

    /// Asks the resolver, once whoever listens has been told of the request.
    fn ask(
        &self,
        resolver: Resolver,
        run: &Run,
        index: usize,
        request: Request,
    ) -> BoxFuture<'static, Ended> {
        let context = WaitForCtx {
            cancel: self.cancel.clone(),
            call_id: run.open_call(index).map(|call| call.id.clone()).unwrap_or_default(),
            turn: run.turns().saturating_sub(1),
        };
        let told = self.events.taken_aside();
        Box::pin(async move {
            told.await;
            let id = request.id.clone();
            Ended::Answer(index, id, resolver.ask(context, request).await)
        })
    }
}
