//! One call of a tool on behalf of a client: running, reporting, ended.

use serde_json::{Map, Value};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolnexus_core::{BoxFuture, Reports, Tool, ToolContext, ToolReport, ToolResult, report_channel};

use futures::StreamExt as _;
use tracing::{Span, field};

use super::message::RpcError;
use crate::call::IDEMPOTENCY_KEY;

/// What happens to a running call, in order. After its end nothing more does.
#[derive(Debug)]
pub(crate) enum CallEvent {
    /// The tool told something. Only of a call that somebody listens to.
    Report(ToolReport),
    /// The tool is done, or came to grief: a panic is a result too.
    Ended(ToolResult),
    /// The token fired first. The tool is dropped.
    Cancelled,
}

/// A tool at work. Nothing is spawned: it makes progress while [`Running::next`] is awaited.
///
/// Dropping it drops the tool and fires the token in the tool's context, so that what the tool
/// itself has started can end.
pub(crate) struct Running {
    tool: Option<BoxFuture<'static, ToolResult>>,
    result: Option<ToolResult>,
    reports: Option<Reports>,
    cancel: CancellationToken,
    _ends_with_this: DropGuard,
}

impl Running {
    /// Starts a call. `context` is the caller's to fill; its `cancel` is whatever may end the call
    /// from outside, and its reporter is replaced when `listens`.
    pub(crate) fn start(
        tool: &Tool,
        arguments: Map<String, Value>,
        mut context: ToolContext,
        listens: bool,
    ) -> Self {
        let cancel = context.cancel.child_token();
        context.cancel = cancel.clone();
        let reports = listens.then(|| {
            let (reporter, reports) = report_channel();
            context.reporter = reporter;
            reports
        });
        let tool = tool.clone();
        Running {
            tool: Some(Box::pin(async move { tool.execute_with(Value::Object(arguments), context).await })),
            result: None,
            reports,
            _ends_with_this: cancel.clone().drop_guard(),
            cancel,
        }
    }

    /// What happens next. A dropped future of this loses nothing. After the end: cancelled.
    pub(crate) async fn next(&mut self) -> CallEvent {
        if let Some(tool) = &mut self.tool {
            let reports = &mut self.reports;
            let report = async {
                match reports {
                    // It never ends by itself.
                    Some(reports) => reports.next().await,
                    None => None,
                }
            };
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    self.discard();
                    return CallEvent::Cancelled;
                }
                Some(report) = report => return CallEvent::Report(report),
                result = tool => {
                    self.result = Some(result);
                    self.tool = None;
                }
            }
        }
        // What the tool told last comes before its result.
        if let Some(reports) = &mut self.reports {
            if let Some(Some(report)) = futures::FutureExt::now_or_never(reports.next()) {
                return CallEvent::Report(report);
            }
            self.reports = None;
        }
        match self.result.take() {
            Some(result) => CallEvent::Ended(result),
            None => CallEvent::Cancelled,
        }
    }

    /// The end of a call whose reports are of no use. `None`: it was cancelled.
    pub(crate) async fn end(mut self) -> Option<ToolResult> {
        loop {
            match self.next().await {
                CallEvent::Report(_) => {}
                CallEvent::Ended(result) => return Some(result),
                CallEvent::Cancelled => return None,
            }
        }
    }

    fn discard(&mut self) {
        self.tool = None;
        self.reports = None;
    }
}

/// The span of a call that is served, named and described as OpenTelemetry has it; no payloads.
pub(crate) fn span(tool: &str) -> Span {
    tracing::info_span!(
        "mcp.call",
        "otel.kind" = "server",
        "mcp.method.name" = "tools/call",
        "gen_ai.tool.name" = tool,
        "error.type" = field::Empty,
    )
}

/// What `tools/call` asks for.
#[derive(Debug, PartialEq)]
pub(crate) struct CallParams {
    /// `None`: there is no name, or it is no text.
    pub(crate) name: Option<String>,
    /// `None`: they are neither absent nor an object.
    pub(crate) arguments: Option<Map<String, Value>>,
    /// `_meta`, when it is there.
    pub(crate) meta: Option<Value>,
}

impl CallParams {
    /// Takes the parameters apart.
    pub(crate) fn of(mut params: Map<String, Value>) -> Self {
        let name = match params.remove("name") {
            Some(Value::String(name)) => Some(name),
            _ => None,
        };
        let arguments = match params.remove("arguments") {
            None | Some(Value::Null) => Some(Map::new()),
            Some(Value::Object(arguments)) => Some(arguments),
            Some(_) => None,
        };
        let meta = params.remove("_meta").filter(|meta| !meta.is_null());
        CallParams { name, arguments, meta }
    }

    /// What makes the call the same as an earlier one, if the client says so.
    pub(crate) fn idempotency_key(&self) -> Option<String> {
        self.meta.as_ref()?.get(IDEMPOTENCY_KEY)?.as_str().map(str::to_owned)
    }

    /// What reports of progress are to be marked with, when the client wants any.
    pub(crate) fn progress_token(&self) -> Option<&Value> {
        let token = self.meta.as_ref()?.get("progressToken")?;
        (token.is_string() || token.is_number()).then_some(token)
    }
}

/// How a call is refused whose arguments are no object.
pub(crate) const NOT_AN_OBJECT: &str = "arguments must be an object";

/// The progress of one call as notices tell it: it only ever grows.
#[derive(Debug)]
pub(crate) struct Progress {
    token: Value,
    furthest: Option<f64>,
}

impl Progress {
    pub(crate) fn new(token: Value) -> Self {
        Progress { token, furthest: None }
    }

    /// The parameters of `notifications/progress` for a report, unless it is no news.
    pub(crate) fn notice(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Option<Value> {
        if self.furthest.is_some_and(|furthest| progress <= furthest) {
            return None;
        }
        self.furthest = Some(progress);
        let mut params = Map::new();
        params.insert("progressToken".into(), self.token.clone());
        params.insert("progress".into(), number(progress));
        if let Some(total) = total {
            params.insert("total".into(), number(total));
        }
        if let Some(message) = message {
            params.insert("message".into(), message.into());
        }
        Some(Value::Object(params))
    }
}

/// Whole numbers are written as such.
fn number(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and within range")]
        return Value::from(number as i64);
    }
    Value::from(number)
}

/// The answer to a call that this server has ended.
pub(crate) fn cancelled() -> RpcError {
    RpcError::internal("the call was cancelled")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use toolnexus_core::LogLevel;

    fn tool<F: Future<Output = &'static str> + Send + 'static>(
        work: impl Fn(ToolContext) -> F + Send + Sync + 'static,
    ) -> Tool {
        Tool::new("t", move |_args, context| work(context))
    }

    // MCP-188: what was told last comes before the end
    #[tokio::test]
    async fn reports_come_before_the_end() {
        let tool = tool(|context| async move {
            context.log(LogLevel::Info, "cold");
            tokio::task::yield_now().await;
            context.progress(1.0, None, None);
            "done"
        });
        let mut call = Running::start(&tool, Map::new(), ToolContext::default(), true);
        assert!(matches!(call.next().await, CallEvent::Report(ToolReport::Log { .. })));
        assert!(matches!(call.next().await, CallEvent::Report(ToolReport::Progress { .. })));
        assert!(matches!(call.next().await, CallEvent::Ended(result) if result.output == "done"));
        assert!(matches!(call.next().await, CallEvent::Cancelled));

        let deaf = Running::start(&tool, Map::new(), ToolContext::default(), false);
        assert_eq!(deaf.end().await.unwrap().output, "done");
    }

    // MCP-152
    #[tokio::test]
    async fn a_call_ends_with_its_token_or_with_its_owner() {
        let (seen, mut tokens) = tokio::sync::mpsc::unbounded_channel();
        let tool = tool(move |context| {
            seen.send(context.cancel.clone()).unwrap();
            std::future::pending()
        });
        let context = ToolContext::default();
        let outside = context.cancel.clone();
        let mut call = Running::start(&tool, Map::new(), context, true);
        assert!(futures::FutureExt::now_or_never(call.next()).is_none());
        let inside = tokens.recv().await.unwrap();
        outside.cancel();
        assert!(matches!(call.next().await, CallEvent::Cancelled));
        assert!(inside.is_cancelled());

        let context = ToolContext::default();
        let outside = context.cancel.clone();
        let mut call = Running::start(&tool, Map::new(), context, false);
        assert!(futures::FutureExt::now_or_never(call.next()).is_none());
        drop(call);
        assert!(tokens.recv().await.unwrap().is_cancelled());
        assert!(!outside.is_cancelled());
    }

    // MCP-152, MCP-154
    #[test]
    fn parameters_of_a_call() {
        let of = |params: Value| CallParams::of(params.as_object().unwrap().clone());
        let call = of(json!({"name": "t", "arguments": {"a": 1}, "_meta": {"progressToken": 0}}));
        assert_eq!(call.name.as_deref(), Some("t"));
        assert_eq!(call.progress_token(), Some(&json!(0)));
        assert_eq!(call.arguments, json!({"a": 1}).as_object().cloned());
        for absent in [json!({"name": 5}), json!({"name": null, "arguments": null})] {
            assert_eq!(of(absent), CallParams { name: None, arguments: Some(Map::new()), meta: None });
        }
        assert_eq!(of(json!({"arguments": [1]})).arguments, None);
        for meta in
            [json!(null), json!(1), json!({}), json!({"progressToken": null}), json!({"progressToken": {}})]
        {
            assert_eq!(of(json!({"_meta": meta})).progress_token(), None);
        }
    }

    // MCP-188
    #[test]
    fn progress_only_grows() {
        let mut progress = Progress::new(json!("p"));
        let notice = progress.notice(1.0, Some(2.5), Some("half")).unwrap();
        assert_eq!(notice.to_string(), r#"{"progressToken":"p","progress":1,"total":2.5,"message":"half"}"#);
        assert_eq!(progress.notice(1.0, None, None), None);
        assert_eq!(progress.notice(0.5, None, None), None);
        let notice = progress.notice(1.5, None, None).unwrap();
        assert_eq!(notice.to_string(), r#"{"progressToken":"p","progress":1.5}"#);
    }
}
