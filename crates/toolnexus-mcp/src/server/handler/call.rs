//! One `tools/call`: looked up, checked, decided, run, told.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::{Map, Value};
use tokio::time::Instant;
use toolnexus_core::{LogLevel, Tool, ToolContext, ToolReport, ToolResult, report_channel};
use tracing::Instrument as _;

use super::Shared;
use super::ask::{Asker, Said, consent};
use super::guard::{contained, guarded, refusal};
use super::hooks::{McpCallContext, McpCallDecision, McpCallEvent, McpDecision, McpHookError, OnMcpCall};
use super::outlet::Outlet;
use super::polling::CallStream;
use super::session::Session;
use crate::server::call::{CallParams, NOT_AN_OBJECT, Progress, Running, span};
use crate::server::message::{RequestId, RpcError, answer_body, error_body, notification_body};
use crate::server::result::{CallResult, Structured};

/// What the protocol revision says of arguments that a tool cannot take: since then they are the
/// tool's failure, which a model can read.
const ARGUMENTS_ARE_THE_TOOLS_SINCE: &str = "2025-11-25";

/// A request of a client that is over: what language servers say.
const REQUEST_CANCELLED: i64 = -32800;

/// Everything that one call needs.
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Option<Arc<Session>>,
    pub(super) context: McpCallContext,
    pub(super) id: RequestId,
    pub(super) params: CallParams,
    pub(super) version: &'static str,
    pub(super) outlet: Arc<Outlet>,
}

/// The answer to a request that its client, or the end of its session, has cancelled.
pub(super) fn cancelled(id: &RequestId) -> Bytes {
    error_body(Some(id), &RpcError::new(REQUEST_CANCELLED, "request cancelled"))
}

impl Call {
    /// Carries the call out and gives its answer. Ends early when nobody waits for that any more.
    pub(super) async fn run(self) {
        let outlet = Arc::clone(&self.outlet);
        let id = self.id.clone();
        tokio::select! {
            biased;
            () = outlet.abandoned() => outlet.withdraw(cancelled(&id)),
            answer = self.carry_out() => outlet.finish(answer),
        }
    }

    async fn carry_out(mut self) -> Bytes {
        let tool = match self.look_up().await {
            Ok(tool) => tool,
            Err(error) => return error_body(Some(&self.id), &error),
        };
        let Some(arguments) = self.params.arguments.take() else {
            let answer = if self.version < ARGUMENTS_ARE_THE_TOOLS_SINCE {
                Err(RpcError::invalid_params(NOT_AN_OBJECT))
            } else {
                Ok(ToolResult::failure(NOT_AN_OBJECT))
            };
            return self.answer(&answer).0;
        };
        let mut record = Record::new(&tool, &self);
        let result = match self.decide(&tool, &arguments, &mut record).await {
            Some(refused) => {
                record.event.err = None;
                refused
            }
            None => {
                let span = span(&tool.name);
                let result = self.execute(&tool, arguments).instrument(span.clone()).await;
                if result.is_error {
                    span.record("error.type", "tool_error");
                }
                record.event.err = result.is_error.then(|| result.output.clone());
                result
            }
        };
        record.event.is_error = result.is_error;
        let (body, bytes) = self.answer(&Ok(result));
        record.event.result_bytes = bytes;
        record.tell();
        body
    }

    async fn look_up(&self) -> Result<Tool, RpcError> {
        let name = self.params.name.as_deref().unwrap_or_default();
        let tool = match &self.shared.options.list_tools {
            None => self.shared.toolkit.get(name),
            Some(hook) => {
                let tools = guarded(|| hook(self.context.clone())).await;
                let tools = tools.map_err(|error| refusal("list_tools", &error))?;
                tools.into_iter().find(|tool| tool.name == name)
            }
        };
        tool.ok_or_else(|| RpcError::invalid_params(format!("tool not found: {name}")))
    }

    /// Whether the tool may run; the result in its place if not.
    async fn decide(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        record: &mut Record,
    ) -> Option<ToolResult> {
        let decision = match &self.shared.options.before_call {
            None => McpDecision::Allow,
            Some(hook) => guarded(|| hook(self.context.clone(), tool.clone(), arguments.clone()))
                .await
                .unwrap_or_else(|error| {
                    // What a client may not read is not a reason to let it through.
                    let message = match error.downcast::<McpHookError>() {
                        Ok(error) => error.message,
                        Err(error) => {
                            tracing::warn!("[toolnexus] mcp handler: before_call failed: {error}");
                            "the call could not be checked".to_owned()
                        }
                    };
                    McpDecision::Deny { message, result: None }
                }),
        };
        match decision {
            McpDecision::Allow => {
                record.event.decision = McpCallDecision::Allow;
                None
            }
            McpDecision::Deny { message, result } => {
                record.event.decision = McpCallDecision::Deny;
                Some(result.unwrap_or_else(|| ToolResult::failure(message)))
            }
            McpDecision::Confirm { message, result } => {
                let Some(asker) = self.asker() else {
                    record.event.decision = McpCallDecision::ConfirmUnavailable;
                    return Some(result.unwrap_or_else(|| {
                        ToolResult::failure(format!("confirmation required: {message}"))
                    }));
                };
                record.event.decision = McpCallDecision::ConfirmRefused;
                match asker.ask(&message, &consent()).await {
                    Said::Accepted(_) => {
                        record.event.decision = McpCallDecision::ConfirmAccepted;
                        None
                    }
                    Said::Refused(_) | Said::Gone => {
                        Some(ToolResult::failure(format!("confirmation declined: {message}")))
                    }
                }
            }
        }
    }

    fn asker(&self) -> Option<Asker> {
        Asker::new(self.session.as_ref(), &self.outlet, self.shared.options.confirm_timeout())
    }

    async fn execute(&self, tool: &Tool, arguments: Map<String, Value>) -> ToolResult {
        let mut context = ToolContext {
            ask: self.asker().map(Asker::for_tools),
            idempotency_key: self.params.idempotency_key(),
            ..Default::default()
        };
        context.extensions.insert(self.context.clone());
        context.extensions.insert(CallStream::new(&self.outlet));
        let mut progress = self.params.progress_token().cloned().map(Progress::new);
        let listens = self.outlet.streams() && (progress.is_some() || self.session.is_some());
        let (reporter, mut reports) = report_channel();
        if listens {
            context.reporter = reporter;
        }
        let mut running = pin!(Running::start(tool, arguments, context, false).end());
        let result = loop {
            let report = async {
                // What a slow client has not read yet makes the tool's newest reports replace older ones
                // here, rather than pile up there.
                self.outlet.room().await;
                reports.next().await
            };
            tokio::select! {
                biased;
                Some(report) = report, if listens => self.report(&tool.name, report, progress.as_mut()),
                result = &mut running => break result,
            }
        };
        for report in reports.take_waiting() {
            self.report(&tool.name, report, progress.as_mut());
        }
        // Nobody cancels it but by dropping this.
        result.unwrap_or_else(|| ToolResult::failure("cancelled"))
    }

    /// Tells the client what a tool told, if the client wants to hear it.
    fn report(&self, tool: &str, report: ToolReport, progress: Option<&mut Progress>) {
        match report {
            ToolReport::Progress { progress: done, total, message } => {
                let notice = progress.and_then(|progress| progress.notice(done, total, message.as_deref()));
                if let Some(notice) = notice {
                    self.outlet.say(notification_body("notifications/progress", Some(&notice)));
                }
            }
            ToolReport::Log { level, message, dropped } => {
                if dropped > 0 {
                    self.log(tool, LogLevel::Warning, &format!("{dropped} lines were dropped here"));
                }
                self.log(tool, level, &message);
            }
            _ => {}
        }
    }

    fn log(&self, tool: &str, level: LogLevel, line: &str) {
        let wanted = self.session.as_ref().and_then(|session| session.level());
        if wanted.is_some_and(|wanted| level >= wanted) {
            let line = serde_json::json!({"level": level, "logger": tool, "data": line});
            self.outlet.say(notification_body("notifications/message", Some(&line)));
        }
    }

    /// The answer's body, and how many bytes of it are the result.
    fn answer(&self, answer: &Result<ToolResult, RpcError>) -> (Bytes, usize) {
        let Ok(result) = answer else { return (answer_body(&self.id, &as_error(answer)), 0) };
        match serde_json::value::to_raw_value(&CallResult(result, Structured::Sent)) {
            Ok(raw) => {
                let bytes = raw.get().len();
                (answer_body(&self.id, &Ok(raw)), bytes)
            }
            Err(error) => (error_body(Some(&self.id), &RpcError::internal(error)), 0),
        }
    }
}

fn as_error(answer: &Result<ToolResult, RpcError>) -> Result<(), RpcError> {
    answer.as_ref().map(|_| ()).map_err(Clone::clone)
}

/// What `on_call` is told. A call that ends before its answer is there was cancelled.
struct Record {
    hook: Option<OnMcpCall>,
    began: Instant,
    event: McpCallEvent,
}

impl Record {
    fn new(tool: &Tool, call: &Call) -> Self {
        Record {
            hook: call.shared.options.on_call.clone(),
            began: Instant::now(),
            event: McpCallEvent {
                name: tool.name.clone(),
                source: tool.source,
                ms: 0,
                is_error: true,
                err: Some("cancelled".into()),
                result_bytes: 0,
                decision: McpCallDecision::Deny,
                identity: call.context.identity.as_ref().map(|identity| identity.id.clone()),
                session_id: call.context.session_id.clone(),
            },
        }
    }

    /// The call has ended in order.
    fn tell(mut self) {
        self.told();
    }

    fn told(&mut self) {
        let Some(hook) = self.hook.take() else { return };
        let mut event = self.event.clone();
        event.ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let _ = contained(|| hook(event));
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.told();
    }
}
