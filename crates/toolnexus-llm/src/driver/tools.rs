//! One turn of tool calls: all at once, told in call order.
//!
//! Calls run side by side. Their outcomes are looked at in call order: the first call that has not
//! been settled is the one whose suspension is resolved next, while later calls may still run.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use toolnexus_core::{
    Answer, BoxError, BoxFuture, Reporter, Reports, Request, Snapshot, ToolContext, ToolReport, ToolResult,
    ToolSource, new_request_id, report_channel,
};
use tracing::Instrument as _;

use super::{Driver, Events};
use crate::resolver::Resolver;
use crate::run::{PlannedCall, Run, RunEvent, Step};
use crate::{ClientError, StreamEvent, WaitForCtx};

/// How a turn of tools ended.
pub(super) enum Turn {
    /// Every call has its result.
    Closed,
    /// A call is suspended and nobody is there to answer.
    Halted,
}

/// What a running future came to.
enum Ended {
    Call(usize, ToolResult),
    /// Nothing yet: the call told something, and goes on in the future that comes with it.
    Report(usize, ToolReport, BoxFuture<'static, Ended>),
    Answer(usize, String, Result<Answer, BoxError>),
}

/// A call whose reports are wanted: it ends once for each of them, and at last with its result.
fn reporting(
    index: usize,
    mut call: BoxFuture<'static, Ended>,
    mut reports: Reports,
) -> BoxFuture<'static, Ended> {
    Box::pin(async move {
        tokio::select! {
            biased;
            // What is said from here on comes too late: a task that the tool left behind must not hold up
            // the result by reporting on.
            ended = &mut call => last_reports(index, reports.take_waiting().into_iter(), ended),
            Some(report) = reports.next() => Ended::Report(index, report, reporting(index, call, reports)),
        }
    })
}

/// What a tool said last is told before its result.
fn last_reports(index: usize, mut left: std::vec::IntoIter<ToolReport>, ended: Ended) -> Ended {
    match left.next() {
        Some(report) => {
            let rest = Box::pin(async move { last_reports(index, left, ended) });
            Ended::Report(index, report, rest)
        }
        None => ended,
    }
}

/// Gives the run the answers it can take. It takes an answer for the first call that asks under
/// the answer's id, so where calls share an id, a later call's answer waits for the earlier ones'.
fn give(run: &mut Run, answers: &mut Vec<(usize, String, Answer)>) -> Result<(), ClientError> {
    while let Some(at) = answers.iter().position(|(index, id, _)| run.first_asking(id) == Some(*index)) {
        let (_, request_id, answer) = answers.remove(at);
        run.take(RunEvent::Answered { request_id, answer })?;
    }
    Ok(())
}

/// Tells the results of a turn in call order, whatever order they came in.
struct Results<'a> {
    events: &'a Events,
    /// Id and name of every call; empty when nobody listens.
    calls: Vec<(String, String)>,
    results: Vec<Option<Arc<ToolResult>>>,
    told: usize,
}

impl<'a> Results<'a> {
    fn new(events: &'a Events, run: &Run) -> Self {
        let calls: Vec<_> = match events {
            Events::None => Vec::new(),
            _ => run.open_calls().map(|call| (call.id.clone(), call.name.clone())).collect(),
        };
        Results { events, results: vec![None; calls.len()], calls, told: 0 }
    }

    fn note(&mut self, event: &RunEvent) {
        let RunEvent::ToolFinished { index, result } = event else { return };
        if let Some(slot) = self.results.get_mut(*index) {
            *slot = Some(Arc::clone(result));
        }
        while let (Some((id, name)), Some(Some(result))) =
            (self.calls.get(self.told), self.results.get(self.told))
        {
            self.events.tell(|| StreamEvent::ToolResult {
                id: id.clone(),
                name: name.clone(),
                output: result.output.clone(),
                is_error: result.is_error,
                metadata: result.metadata.clone(),
                via: None,
            });
            self.told += 1;
        }
    }
}

impl Driver {
    pub(super) async fn run_tools(&self, run: &mut Run) -> Result<Turn, ClientError> {
        let mut running: FuturesUnordered<BoxFuture<'static, Ended>> = FuturesUnordered::new();
        let mut results = Results::new(&self.events, run);
        let mut asked = HashSet::new();
        let mut answers = Vec::new();
        loop {
            self.check_cancelled()?;
            self.start(run, &mut running, &mut results)?;
            if run.open_calls().len() == 0 {
                return Ok(Turn::Closed);
            }
            for (index, request) in self.to_ask(run, &asked) {
                match &self.resolver {
                    Some(resolver) => {
                        self.events.tell(|| StreamEvent::Pending { request: request.clone() });
                        asked.insert(index);
                        running.push(self.ask(resolver.clone(), run, index, request));
                    }
                    // Nobody to ask: the others are awaited, then the run halts here.
                    None if running.is_empty() => {
                        let request = run.halting_request().unwrap_or(request);
                        self.events.tell(|| StreamEvent::Pending { request });
                        return Ok(Turn::Halted);
                    }
                    None => {}
                }
            }
            match running.next().await {
                Some(Ended::Call(index, result)) => {
                    let event = run.event_of(index, result, new_request_id);
                    results.note(&event);
                    run.take(event)?;
                }
                Some(Ended::Report(index, report, rest)) => {
                    running.push(rest);
                    self.tell_report(run, index, report);
                    // A listener that is slow, or a tool that reports in a tight loop, must not keep
                    // this future from giving way.
                    self.events.taken().await;
                    tokio::task::yield_now().await;
                }
                Some(Ended::Answer(index, request_id, answer)) => {
                    // A resolver may end its ask by failing when it hears of the cancel.
                    self.check_cancelled()?;
                    answers.push((index, request_id, answer.map_err(ClientError::WaitFor)?));
                    give(run, &mut answers)?;
                }
                // Calls are open and nothing runs: what is left is suspended.
                None => return Ok(Turn::Halted),
            }
        }
    }

    /// Starts every planned call; those that must not run get their result at once.
    fn start(
        &self,
        run: &mut Run,
        running: &mut FuturesUnordered<BoxFuture<'static, Ended>>,
        results: &mut Results<'_>,
    ) -> Result<(), ClientError> {
        let Step::CallTools(planned) = run.next() else { return Ok(()) };
        let mut indices = Vec::with_capacity(planned.len());
        let mut args = Vec::with_capacity(planned.len());
        let mut media = Vec::new();
        let mut replies = Vec::new();
        // Looked up now, not when the run began: a tool registered meanwhile can be called.
        let snapshot = self.toolkit.snapshot();
        for call in planned {
            indices.push(call.index);
            args.push(Arc::clone(call.args));
            if snapshot.get(&call.call.name).is_some_and(|tool| tool.source == ToolSource::Media) {
                media.push(call.index);
            }
            match &call.reply {
                Some(reply) => replies.push((call.index, Arc::new(reply.clone()))),
                None => running.push(self.execute(&call, Arc::clone(&snapshot))),
            }
        }
        run.take(RunEvent::ToolStarted { indices, args, media })?;
        for (index, result) in replies {
            let event = RunEvent::ToolFinished { index, result };
            results.note(&event);
            run.take(event)?;
        }
        Ok(())
    }

    fn execute(&self, planned: &PlannedCall<'_>, snapshot: Arc<Snapshot>) -> BoxFuture<'static, Ended> {
        let index = planned.index;
        let name = planned.call.name.clone();
        let args = Value::Object((**planned.args).clone());
        let (reporter, reports) = if self.events.has_listener() {
            let (reporter, reports) = report_channel();
            (reporter, Some(reports))
        } else {
            (Reporter::default(), None)
        };
        let context = ToolContext {
            cancel: self.cancel.clone(),
            timeout_ms: None,
            answer: planned.answer.cloned(),
            call_id: planned.call.id.clone(),
            data: self.data.clone(),
            reporter,
            ..Default::default()
        };
        let span = tracing::info_span!(
            "execute_tool",
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = name,
            gen_ai.tool.call.id = context.call_id,
        );
        let run = async move {
            let result = match snapshot.get(&name) {
                Some(tool) => tool.execute_with(args, context).await,
                None => ToolResult::failure(format!("unknown tool: {name}")),
            };
            Ended::Call(index, result)
        };
        let call: BoxFuture<'static, Ended> = Box::pin(run.instrument(span));
        match reports {
            Some(reports) => reporting(index, call, reports),
            None => call,
        }
    }

    fn tell_report(&self, run: &Run, index: usize, report: ToolReport) {
        // Log lines are for callers over a protocol; a run has no event for them.
        let ToolReport::Progress { progress, total, message } = report else { return };
        let Some(call) = run.open_calls().nth(index) else { return };
        self.events.tell(|| StreamEvent::ToolProgress {
            id: call.id.clone(),
            name: call.name.clone(),
            progress,
            total,
            message,
        });
    }

    /// The open requests whose turn it is and that were not asked: the one that is next in call
    /// order, for which every call before it has its result; or, for a host that wants that, all.
    fn to_ask(&self, run: &Run, asked: &HashSet<usize>) -> Vec<(usize, Request)> {
        let Step::Ask(open) = run.next() else { return Vec::new() };
        let at_once = self.resolver.is_some() && self.client.options.concurrent_wait_for;
        let next = run.first_unfinished();
        open.into_iter()
            .filter(|open| at_once || Some(open.index) == next)
            .filter(|open| !asked.contains(&open.index))
            .map(|open| (open.index, open.request.clone()))
            .collect()
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
            call_id: run.open_calls().nth(index).map(|call| call.id.clone()).unwrap_or_default(),
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
