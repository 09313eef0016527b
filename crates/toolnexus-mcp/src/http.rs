//! The HTTP wire: rmcp's streamable HTTP transport over an own client.
//!
//! The client sees the request, the status and the raw body of each exchange, which rmcp's own
//! clients have folded together by the time anybody can look. Its errors carry neither URL nor
//! body, since rmcp logs them.

mod body;
mod client;
mod events;
mod sse;
mod utf8;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rmcp::model::{RequestId, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::auth::Asking;
use crate::config::McpServerConfig;
use crate::era::Seen;
use crate::failure::{Fault, McpFailureKind};
use crate::in_flight::CallsInFlight;
use crate::open::{MAX_ASKED, taken_back};
use crate::sync::lock;
pub(crate) use client::HttpClient;
pub(crate) use sse::{Start, start as start_sse};

/// The longest JSON body, or event of a stream, that is read.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// POSTs under way at once on one connection unless its pool is larger: admission is done above.
const MAX_CONCURRENT_POSTS: usize = 64;

/// The longest pause between attempts to resume an event stream.
const MAX_RESUME_PAUSE: std::time::Duration = std::time::Duration::from_secs(30);

/// One exchange failed. Its text is the kind of failure and nothing of the exchange.
#[derive(Clone, thiserror::Error)]
#[error("{}{}", .0.kind, shown(.0))]
pub(crate) struct HttpFault(pub(crate) Fault);

fn shown(fault: &Fault) -> String {
    let detail = fault.detail.as_ref().map(|detail| format!(" ({detail})"));
    let status = fault.http_status.map(|status| format!(" (HTTP {status})"));
    detail.into_iter().chain(status).collect()
}

/// As `Display`: rmcp logs it.
impl std::fmt::Debug for HttpFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpFault({self})")
    }
}

/// What outlives the transport that rmcp owns.
#[derive(Clone, Default)]
pub(crate) struct HttpLink {
    /// Why the end of the handshake was refused: rmcp drops that error on its way.
    handshake_fault: Arc<Mutex<Option<Fault>>>,
    /// Why the one stream that everything depends on has ended.
    lost: Arc<OnceLock<Fault>>,
    /// The answer to `initialize` says that the server speaks another transport.
    other_transport: Arc<AtomicBool>,
    /// Whether the session has its standing event stream, once that is known.
    standing: Arc<watch::Sender<Option<bool>>>,
    /// What was seen of the last answer to a request that begins a session.
    seen: Arc<Mutex<Seen>>,
    /// Whether the server has issued a session.
    session: Arc<AtomicBool>,
    /// The server's open requests, with their methods.
    asked: Arc<Mutex<HashMap<RequestId, String>>>,
    /// Whether somebody signs in.
    asking: Asking,
    abort: CancellationToken,
}

impl HttpLink {
    /// Ends every exchange, those of the handshake included, which rmcp lets run.
    pub(crate) fn abort(&self) {
        self.abort.cancel();
    }

    /// Who keeps time has to wait for whoever signs in.
    pub(crate) fn asking(&self) -> &Asking {
        &self.asking
    }

    /// Whether the server has shown that it does not speak streamable HTTP at this address.
    pub(crate) fn says_other_transport(&self) -> bool {
        self.other_transport.load(Ordering::Relaxed)
    }

    /// What was seen of the answer to the beginning of the session.
    pub(crate) fn seen(&self) -> Seen {
        *lock(&self.seen)
    }

    /// Whether there is a session, in the legacy era's sense.
    pub(crate) fn has_session(&self) -> bool {
        self.session.load(Ordering::Relaxed)
    }

    /// Whether a message goes on to rmcp: a server that asks without end is not heard (see
    /// [`MAX_ASKED`]). A request is noted, since its answer must name its method.
    fn takes(&self, message: &ServerJsonRpcMessage, method: impl FnOnce() -> Option<String>) -> bool {
        let mut asked = lock(&self.asked);
        match message {
            ServerJsonRpcMessage::Request(request) => {
                let room = asked.len() < MAX_ASKED && !asked.contains_key(&request.id);
                if room {
                    asked.insert(request.id.clone(), method().unwrap_or_default());
                }
                room
            }
            _ => {
                if let Some(id) = taken_back(message) {
                    asked.remove(id);
                }
                true
            }
        }
    }

    /// What an error of rmcp's transport means.
    pub(crate) fn fault(&self, error: &StreamableHttpError<HttpFault>) -> Fault {
        match error {
            StreamableHttpError::Client(HttpFault(fault)) => fault.clone(),
            StreamableHttpError::SessionExpired => Fault::http_status(404),
            StreamableHttpError::SessionRecoveryTimeout | StreamableHttpError::ControlRequestTimeout => {
                Fault::timeout()
            }
            StreamableHttpError::ReinitializationFailed(error) => {
                Fault::rpc(error.code.0.into(), error.message.to_string())
            }
            StreamableHttpError::TransportChannelClosed => self.stream_ended(),
            StreamableHttpError::UnexpectedServerResponse(_) | StreamableHttpError::Deserialize(_) => {
                Fault::malformed()
            }
            _ => Fault::transport("transport"),
        }
    }

    /// Why a request ended without an answer or an error of its own.
    pub(crate) fn stream_ended(&self) -> Fault {
        if let Some(fault) = self.lost.get() {
            return fault.clone();
        }
        let kept = lock(&self.handshake_fault).take();
        kept.unwrap_or_else(|| Fault::transport("stream-failed"))
    }

    /// Notes how asking for the standing event stream went. A wire that fails while the stream is
    /// resumed is no refusal.
    fn standing_stream<S>(&self, asked: &Result<S, StreamableHttpError<HttpFault>>) {
        let refused = matches!(asked, Err(StreamableHttpError::ServerDoesNotSupportSse));
        self.standing.send_if_modified(|standing| {
            let keeps = asked.is_err() && !refused && standing.is_some();
            let now = if keeps { *standing } else { Some(asked.is_ok()) };
            std::mem::replace(standing, now) != now
        });
    }

    /// Whether an answer may come on the standing event stream of the session. Waits for the
    /// server's word on that: the stream is asked for when the handshake ends.
    async fn has_standing_stream(&self) -> bool {
        let mut standing = self.standing.subscribe();
        standing.wait_for(Option::is_some).await.is_ok_and(|standing| *standing == Some(true))
    }

    fn keep_handshake_fault(&self, fault: Fault) {
        *lock(&self.handshake_fault) = Some(fault);
    }
}

/// A transport to a remote server. Nothing is sent yet. `token` is held for as long as anything of
/// it runs.
pub(crate) fn transport(
    config: &McpServerConfig,
    calls: Arc<CallsInFlight>,
    token: TaskTrackerToken,
) -> Result<(StreamableHttpClientTransport<HttpClient>, HttpLink), Fault> {
    let link = HttpLink::default();
    let client = HttpClient::new(config, calls, link.clone(), token)?;

    let mut settings =
        StreamableHttpClientTransportConfig::with_uri(config.url.as_deref().unwrap_or_default())
            .max_concurrent_requests(MAX_CONCURRENT_POSTS.max(config.pool_size.unwrap_or_default()))
            .max_sse_event_size(MAX_MESSAGE_BYTES)
            .max_json_response_size(MAX_MESSAGE_BYTES);
    let mut pauses = ExponentialBackoff::default();
    pauses.max_delay = Some(MAX_RESUME_PAUSE);
    settings.retry_config = Arc::new(pauses);
    Ok((StreamableHttpClientTransport::with_client(client, settings), link))
}

/// What a failed exchange means. The client's own text has the URL in it and is not used.
pub(crate) fn fault_of(error: &reqwest::Error) -> Fault {
    let detail = if error.is_timeout() {
        "timeout"
    } else if error.is_connect() {
        if any_cause(error, |text| text.contains("dns error")) { "dns" } else { "connect-failed" }
    } else if error.is_body() || error.is_decode() || error.is_request() {
        "stream-failed"
    } else {
        "transport"
    };
    Fault::transport(detail)
}

fn any_cause(error: &dyn std::error::Error, test: impl Fn(&str) -> bool) -> bool {
    std::iter::successors(error.source(), |cause| cause.source()).any(|cause| test(&cause.to_string()))
}

/// A response that has no place in an error: only its status counts.
pub(super) fn refused(status: http::StatusCode) -> Fault {
    Fault { http_status: Some(status.as_u16()), ..Fault::new(McpFailureKind::HttpStatus) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // MCP-46, MCP-48: a name that is not found; nothing of the address is told
    #[tokio::test]
    async fn a_name_that_is_not_found_is_told_apart() {
        struct Nowhere;
        impl reqwest::dns::Resolve for Nowhere {
            fn resolve(&self, _name: reqwest::dns::Name) -> reqwest::dns::Resolving {
                Box::pin(async { Err("no such host".into()) })
            }
        }
        let client = reqwest::Client::builder().no_proxy().dns_resolver(Arc::new(Nowhere)).build().unwrap();
        let error = client.get("http://nowhere.test/?key=secret").send().await.unwrap_err();
        let fault = fault_of(&error);
        assert_eq!(fault, Fault::transport("dns"));
        assert_eq!(format!("{:?}", HttpFault(fault)), "HttpFault(transport (dns))");
    }
}
