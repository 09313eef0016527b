//! One request on a standing connection, with its time limits and its withdrawal.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::NumberOrString;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, RequestId, RequestMetaObject,
};
use rmcp::service::PeerRequestOptions;
use toolnexus_core::ToolContext;
use tracing::{Span, field};

use crate::clock::Clock;
use crate::config::McpServerConfig;
use crate::failure::{Fault, McpFailureKind, McpPhase};
use crate::live::Live;
use crate::wire;

/// The span of a request, named and described as OpenTelemetry has it; no payloads.
pub(crate) fn span(server: &str, method: McpPhase, tool: Option<&str>) -> Span {
    tracing::info_span!(
        "mcp.request",
        "otel.kind" = "client",
        "mcp.method.name" = method.as_str(),
        "mcp.server.name" = server,
        "gen_ai.tool.name" = tool,
        "error.type" = field::Empty,
    )
}

/// How long a request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Without a sign of life.
    pub(crate) idle: Duration,
    /// In all.
    pub(crate) total: Option<Duration>,
}

impl Limits {
    /// Those of the calls to a server.
    pub(crate) fn of(server: &McpServerConfig) -> Self {
        let total = server.max_total_timeout_ms;
        Limits {
            idle: Duration::from_millis(server.timeout_ms),
            total: (total > 0).then(|| Duration::from_millis(total)),
        }
    }

    /// Those of one call: its context may set how long it may be silent.
    pub(crate) fn within(self, context: &ToolContext) -> Self {
        Limits { idle: context.timeout_ms.map_or(self.idle, Duration::from_millis), ..self }
    }

    /// What is left after `spent`: the time without a sign of life begins anew with each request.
    ///
    /// # Errors
    /// Nothing is left.
    pub(crate) fn after(self, spent: Duration) -> Result<Self, Fault> {
        match self.total.map(|total| total.checked_sub(spent)) {
            Some(None | Some(Duration::ZERO)) => Err(Fault::timeout()),
            left => Ok(Limits { total: left.flatten(), ..self }),
        }
    }
}

/// Sends a request and gives the raw JSON of its result.
///
/// Time limits are kept here and not by rmcp, which awaits the writing of a cancel notice before it
/// reports a timeout and would wait for ever on a full pipe. Dropping the future withdraws the
/// request, as its limits and the cancel of `context` do; what the server tells meanwhile goes to its
/// reporter. While a question of the server's waits for the host the limits do not run.
pub(crate) async fn request(
    live: &Live,
    request: ClientRequest,
    meta: Option<RequestMetaObject>,
    limits: Limits,
    context: Option<&ToolContext>,
) -> Result<String, Fault> {
    if let Some(fault) = live.ended() {
        return Err(fault);
    }
    let clock = Arc::new(Clock::new(limits));
    let starting = live.calls.start(Arc::clone(&clock));
    let cancelled = async {
        match context {
            Some(context) => context.cancel.cancelled().await,
            None => pending().await,
        }
    };
    let expired = clock.expired();
    tokio::pin!(cancelled, expired);

    let mut options = PeerRequestOptions::no_options();
    options.meta = meta;
    let handle = tokio::select! {
        biased;
        () = &mut cancelled => return Err(Fault::new(McpFailureKind::Cancelled)),
        () = live.closed.cancelled() => return Err(Fault::closed()),
        sent = live.peer.send_request_with_option(request, options) => match sent {
            Ok(handle) => handle,
            Err(error) => return Err(live.fault(error).await),
        },
        () = &mut expired => return Err(Fault::timeout()),
    };

    let request_id = handle.id.clone();
    let mut open = OpenRequest { live, id: Some(handle.id) };
    let _call = match handle.progress_token.0 {
        NumberOrString::Number(token) => {
            let reporter = context.map(|context| context.reporter.clone()).unwrap_or_default();
            Some(starting.follow(token, request_id, reporter))
        }
        NumberOrString::String(_) => None,
    };
    let mut answer = handle.rx;
    tokio::select! {
        biased;
        () = &mut cancelled => Err(Fault::new(McpFailureKind::Cancelled)),
        () = live.closed.cancelled() => Err(Fault::closed()),
        answer = &mut answer => {
            open.id = None;
            match answer {
                Ok(Ok(result)) => wire::raw_result(result),
                Ok(Err(error)) => Err(live.fault(error).await),
                Err(_) => Err(live.fault(rmcp::ServiceError::TransportClosed).await),
            }
        }
        () = &mut expired => Err(Fault::timeout()),
    }
}

/// A request that is under way; dropped before its answer, it is withdrawn.
struct OpenRequest<'a> {
    live: &'a Live,
    id: Option<RequestId>,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        if self.live.ended().is_some() {
            return;
        }
        let peer = self.live.peer.clone();
        // In the background: nobody waits for a pipe that takes nothing. The task ends with the
        // connection at the latest.
        self.live.runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(id), None);
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
        });
    }
}
