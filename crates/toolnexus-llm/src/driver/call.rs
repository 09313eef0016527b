//! One tool call while it runs: the tool, the hook behind it, and what is told meanwhile.

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::Value;
use tokio::time::Instant;
use toolnexus_core::{
    BoxFuture, Reports, Tool, ToolContext, ToolReport, ToolResult, pending_of, report_channel,
};
use tracing::Instrument as _;

use super::attempts::elapsed_ms;
use super::ready::Ready;
use super::tools::{Ended, Measured, Outcome};
use super::{Driver, Recorder};
use crate::AfterToolEvent;
use crate::hooks::{self, AfterTool};
use crate::run::{Args, ModelCall, Run};

/// A started call with all it needs, apart from the run it belongs to. In a box, since a future that
/// owns it is moved more than once.
pub(super) struct Call {
    index: usize,
    name: String,
    args: Args,
    tool: Option<Arc<Tool>>,
    turn: u32,
    /// What a second suspension comes to; set for a call that was answered.
    unresolved: Option<String>,
    after: Option<AfterTool>,
    context: ToolContext,
}

impl Call {
    pub(super) fn new(driver: &Driver, run: &Run, call: &ModelCall, ready: Ready) -> Box<Self> {
        let turn = run.turns().saturating_sub(1);
        let key = |recorder: &Arc<Recorder>| format!("{}/{turn}/{}", recorder.run_id(), ready.index);
        let context = ToolContext {
            cancel: driver.cancel.clone(),
            timeout_ms: None,
            call_id: call.id.clone(),
            data: driver.data.clone(),
            idempotency_key: driver.recorder.as_ref().map(key),
            ..Default::default()
        };
        Box::new(Call {
            index: ready.index,
            name: call.name.clone(),
            args: ready.args,
            tool: ready.tool,
            turn,
            unresolved: run.unresolved(ready.index),
            after: driver.after_tool(),
            context,
        })
    }

    /// The same for a call that runs, with what its tool tells meanwhile, if anybody listens.
    pub(super) fn to_run(
        driver: &Driver,
        run: &Run,
        call: &ModelCall,
        mut ready: Ready,
    ) -> (Box<Self>, Option<Reports>) {
        let answer = ready.take_answer();
        let mut call = Call::new(driver, run, call, ready);
        call.context.answer = answer;
        let reports = driver.events.has_listener().then(|| {
            let (reporter, reports) = report_channel();
            call.context.reporter = reporter;
            reports
        });
        (call, reports)
    }

    /// Runs the tool, and the hook on its result unless that is a suspension.
    pub(super) async fn run(mut self: Box<Self>) -> Ended {
        let span = tracing::info_span!(
            "execute_tool",
            otel.name = format_args!("execute_tool {}", self.name),
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = self.name,
            gen_ai.tool.call.id = self.context.call_id,
            gen_ai.tool.r#type = "function",
            error.r#type = tracing::field::Empty,
        );
        let started = Instant::now();
        let result = match &self.tool {
            Some(tool) => {
                // The id is wanted once more only where a hook follows.
                let kept = self.after.as_ref().map(|_| self.context.call_id.clone());
                let context = std::mem::take(&mut self.context);
                self.context.call_id = kept.unwrap_or_default();
                let args = Value::Object((*self.args).clone());
                tool.execute_with(args, context).instrument(span.clone()).await
            }
            None => ToolResult::failure(format!("unknown tool: {}", self.name)),
        };
        let ms = elapsed_ms(started);
        let index = self.index;
        let outcome = if self.after.is_none() {
            let result = self.resolved(result);
            let pending = pending_of(&result).is_some();
            let is_error = result.is_error && !pending;
            Outcome { result: Ok(Arc::new(result)), measured: Some(Measured { ms, is_error, pending }) }
        } else {
            Box::pin(self.hooked(result, ms)).await
        };
        if outcome.measured.as_ref().is_some_and(|measured| measured.is_error) {
            span.record("error.type", "tool_error");
        }
        Ended::Call(index, outcome)
    }

    /// The result, unless it is a second suspension.
    fn resolved(&self, result: ToolResult) -> ToolResult {
        match &self.unresolved {
            Some(unresolved) if pending_of(&result).is_some() => ToolResult::failure(unresolved),
            _ => result,
        }
    }

    /// What came of the call once the hook has seen its result, which it does unless that is a
    /// suspension.
    async fn hooked(self: Box<Self>, result: ToolResult, ms: u64) -> Outcome {
        let result = self.resolved(result);
        if pending_of(&result).is_some() {
            let measured = Some(Measured { ms, is_error: false, pending: true });
            return Outcome { result: Ok(Arc::new(result)), measured };
        }
        let failed = result.is_error;
        let result = self.settled(result).await.result;
        // The hook may have put a question in the place of the result.
        let pending = result.as_ref().is_ok_and(|result| pending_of(result).is_some());
        let is_error = !pending && result.as_ref().map_or(failed, |result| result.is_error);
        Outcome { result, measured: Some(Measured { ms, is_error, pending }) }
    }

    /// The result as the hook leaves it.
    pub(super) async fn settled(self: Box<Self>, result: ToolResult) -> Outcome {
        let Some(after) = self.after else { return Outcome { result: Ok(Arc::new(result)), measured: None } };
        let event = AfterToolEvent {
            name: self.name,
            args: (*self.args).clone(),
            result: result.clone(),
            id: self.context.call_id,
            turn: self.turn,
        };
        let change = hooks::call("after_tool", &*after, event).await;
        let result = change.map(|change| Arc::new(change.and_then(|change| change.result).unwrap_or(result)));
        Outcome { result: result.map_err(Box::new), measured: None }
    }
}

impl Driver {
    pub(super) fn after_tool(&self) -> Option<AfterTool> {
        self.hooks().and_then(|hooks| hooks.after_tool.clone())
    }
}

/// A call whose reports are wanted: it ends once for each of them, and at last with its result.
pub(super) fn reporting(
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
