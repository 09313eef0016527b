//! One tool call while it runs: the tool, the hook behind it, and what is told meanwhile.

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::Value;
use tokio::time::Instant;
use toolnexus_core::{
    Answer, BoxFuture, Reporter, Reports, Tool, ToolContext, ToolReport, ToolResult, pending_of,
    report_channel,
};
use tracing::Instrument as _;

use super::Driver;
use super::attempts::elapsed_ms;
use super::tools::{Ended, Measured, Outcome, Ready};
use crate::hooks::{self, AfterTool};
use crate::run::{Args, ModelCall, Run};
use crate::{AfterToolEvent, ClientError};

/// A started call with all it needs, apart from the run it belongs to.
pub(super) struct Call {
    pub(super) index: usize,
    id: String,
    name: String,
    args: Args,
    tool: Option<Arc<Tool>>,
    turn: u32,
    idempotency_key: Option<String>,
    /// What a second suspension comes to; set for a call that was answered.
    unresolved: Option<String>,
    after: Option<AfterTool>,
}

impl Call {
    pub(super) fn new(driver: &Driver, run: &Run, call: &ModelCall, ready: &Ready) -> Self {
        let turn = run.turns().saturating_sub(1);
        Call {
            index: ready.index,
            id: call.id.clone(),
            name: call.name.clone(),
            args: Arc::clone(&ready.args),
            tool: ready.tool.clone(),
            turn,
            idempotency_key: driver
                .recorder
                .as_ref()
                .map(|recorder| format!("{}/{turn}/{}", recorder.run_id(), ready.index)),
            unresolved: run.unresolved(ready.index),
            after: driver.after_tool(),
        }
    }

    /// Runs the tool, and the hook on its result unless that is a suspension.
    pub(super) async fn run(self, context: ToolContext) -> Outcome {
        let span = tracing::info_span!(
            "execute_tool",
            otel.name = format_args!("execute_tool {}", self.name),
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = self.name,
            gen_ai.tool.call.id = self.id,
            gen_ai.tool.r#type = "function",
            error.r#type = tracing::field::Empty,
        );
        let started = Instant::now();
        let executed = async {
            match &self.tool {
                Some(tool) => tool.execute_with(Value::Object((*self.args).clone()), context).await,
                None => ToolResult::failure(format!("unknown tool: {}", self.name)),
            }
        };
        let mut result = executed.instrument(span.clone()).await;
        let ms = elapsed_ms(started);
        let mut pending = pending_of(&result).is_some();
        if pending && let Some(unresolved) = &self.unresolved {
            result = ToolResult::failure(unresolved);
            pending = false;
        }
        if pending {
            return Outcome { result: Ok(result), measured: Some(Measured { ms, is_error: false, pending }) };
        }
        let failed = result.is_error;
        let result = match &self.after {
            Some(_) => self.settled(result).await.result,
            None => Ok(result),
        };
        // The hook may have put a question in the place of the result.
        let pending = result.as_ref().is_ok_and(|result| pending_of(result).is_some());
        let is_error = !pending && result.as_ref().map_or(failed, |result| result.is_error);
        if is_error {
            span.record("error.type", "tool_error");
        }
        Outcome { result, measured: Some(Measured { ms, is_error, pending }) }
    }

    /// The result as the hook leaves it.
    pub(super) async fn settled(self, result: ToolResult) -> Outcome {
        let Some(after) = self.after else { return Outcome { result: Ok(result), measured: None } };
        let event = AfterToolEvent {
            name: self.name,
            args: (*self.args).clone(),
            result: result.clone(),
            id: self.id,
            turn: self.turn,
        };
        let change = hooks::call("after_tool", &*after, event).await;
        let result: Result<ToolResult, ClientError> =
            change.map(|change| change.and_then(|change| change.result).unwrap_or(result));
        Outcome { result, measured: None }
    }
}

impl Driver {
    pub(super) fn after_tool(&self) -> Option<AfterTool> {
        self.hooks().and_then(|hooks| hooks.after_tool.clone())
    }

    /// What a tool is given beside its arguments, and what it tells meanwhile, if anybody listens.
    pub(super) fn context_of(&self, call: &Call, answer: Option<Answer>) -> (ToolContext, Option<Reports>) {
        let (reporter, reports) = if self.events.has_listener() {
            let (reporter, reports) = report_channel();
            (reporter, Some(reports))
        } else {
            (Reporter::default(), None)
        };
        let context = ToolContext {
            cancel: self.cancel.clone(),
            timeout_ms: None,
            answer,
            call_id: call.id.clone(),
            data: self.data.clone(),
            idempotency_key: call.idempotency_key.clone(),
            reporter,
            ..Default::default()
        };
        (context, reports)
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
