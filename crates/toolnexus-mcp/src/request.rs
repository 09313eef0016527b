//! One request on a standing connection, with its time limits and its withdrawal.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::NumberOrString;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest, RequestId,
    RequestMetaObject,
};
use rmcp::service::PeerRequestOptions;
use toolnexus_core::ToolContext;
use tracing::{Span, field};

use crate::admission::AdmissionSlot;
use crate::clock::Clock;
use crate::config::McpServerConfig;
use crate::failure::{Fault, McpFailureKind};
use crate::live::Live;
use crate::spend::Toll;
use crate::wire;

/// The span of a request, named and described as OpenTelemetry has it; no payloads.
pub(crate) fn span(server: &str, method: impl AsRef<str>, tool: Option<&str>) -> Span {
    tracing::info_span!(
        "mcp.request",
        "otel.kind" = "client",
        "mcp.method.name" = method.as_ref(),
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

/// Sends a request once it is admitted and paid, and gives the raw JSON of its result. Its time runs
/// from here: waiting for a slot counts.
///
/// Time limits are kept here and not by rmcp, which awaits the writing of a cancel notice before it
/// reports a timeout and would wait for ever on a full pipe. Dropping the future withdraws the
/// request, as its limits and the cancel of `context` do; what the server tells meanwhile goes to its
/// reporter. While a question of the server's waits for the host the limits do not run.
pub(crate) async fn request(
    live: &Live,
    mut request: ClientRequest,
    meta: Option<RequestMetaObject>,
    limits: Limits,
    context: Option<&ToolContext>,
    toll: Toll,
) -> Result<String, Fault> {
    if let Some(fault) = live.ended() {
        return Err(fault);
    }
    if context.is_some_and(|context| context.cancel.is_cancelled()) {
        return Err(Fault::new(McpFailureKind::Cancelled));
    }
    let clock = Arc::new(Clock::new(limits));
    let cancelled = async {
        match context {
            Some(context) => context.cancel.cancelled().await,
            None => pending().await,
        }
    };
    let expired = clock.expired();
    tokio::pin!(cancelled, expired);

    let slot = match live.admission.admit_at_once() {
        Some(slot) => slot,
        None => {
            let slot = tokio::select! {
                biased;
                () = &mut cancelled => return Err(Fault::new(McpFailureKind::Cancelled)),
                () = live.closed.cancelled() => return Err(Fault::closed()),
                () = &mut expired => return Err(Fault::timeout()),
                slot = live.admission.admit() => slot?,
            };
            if let Some(fault) = live.ended() {
                return Err(fault);
            }
            slot
        }
    };
    toll.pay()?;
    slot.ride(&mut request);
    let starting = live.calls.start(Arc::clone(&clock));

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
    let mut open = OpenRequest { live, id: Some(handle.id), slot };
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

/// Sends a notification once it is admitted, and waits until the transport is done with it. Nobody
/// answers it, yet it takes a slot for as long as it is under way, also when it is given up here.
pub(crate) async fn notify(
    live: &Live,
    mut notification: ClientNotification,
    limit: Duration,
) -> Result<(), Fault> {
    let sending = async {
        let slot = live.admission.admit().await?;
        if let Some(fault) = live.ended() {
            return Err(fault);
        }
        slot.ride_notification(&mut notification);
        match live.peer.send_notification(notification).await {
            Ok(()) => Ok(()),
            Err(error) => Err(live.fault(error).await),
        }
    };
    let asking = live.wire.asking();
    tokio::select! {
        biased;
        () = live.closed.cancelled() => Err(Fault::closed()),
        sent = asking.within(limit, sending) => sent.unwrap_or_else(|| Err(Fault::timeout())),
    }
}

/// A request that is under way; dropped before its answer, it is withdrawn.
struct OpenRequest<'a> {
    live: &'a Live,
    id: Option<RequestId>,
    slot: AdmissionSlot,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        if self.live.ended().is_some() {
            return;
        }
        let (peer, slot) = (self.live.peer.clone(), std::mem::take(&mut self.slot));
        // In the background: nobody waits for a pipe that takes nothing. The task ends with the
        // connection at the latest.
        self.live.runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(id), None);
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
            // Nothing takes its place before the server has been told.
            drop(slot);
        });
    }
}
