//! The HTTP+SSE wire of 2024-11-05: one event stream for all that comes, and an endpoint, named by
//! its first event, to post to.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::client::HttpClient;
use super::events::{self, RawEvents};
use super::{HttpFault, HttpLink};
use crate::config::McpServerConfig;
use crate::failure::Fault;
use crate::in_flight::CallsInFlight;
use crate::open::{OpenRequests, withdrawn};
use crate::wire;

/// Why the event stream could not be started.
pub(crate) enum Start {
    /// The server has no such stream at this address.
    NotThere(Fault),
    /// There is one, or there may be, and it went wrong.
    Failed(Fault),
}

/// rmcp's transport over an event stream and an endpoint.
pub(crate) struct SseTransport {
    client: HttpClient,
    link: HttpLink,
    endpoint: Arc<str>,
    events: RawEvents,
    open: OpenRequests,
    calls: Arc<CallsInFlight>,
    /// Ends the POST of a request that is withdrawn.
    posts: HashMap<RequestId, CancellationToken>,
}

/// Opens the event stream and waits for the endpoint.
pub(crate) async fn start(
    config: &McpServerConfig,
    calls: Arc<CallsInFlight>,
    link: HttpLink,
    token: TaskTrackerToken,
) -> Result<(SseTransport, HttpLink), Start> {
    let client = HttpClient::new(config, Arc::clone(&calls), link.clone(), token).map_err(Start::Failed)?;
    let address = config.url.as_deref().unwrap_or_default();
    let mut events = client.event_stream(address).await?;
    let endpoint = loop {
        match events.next().await {
            Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                let endpoint = resolve(address, event.data.as_deref().unwrap_or_default());
                break endpoint.ok_or_else(|| Start::Failed(Fault::malformed()))?;
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(Start::Failed(events::fault(&error))),
            None => return Err(Start::Failed(Fault::transport("stream-failed"))),
        }
    };
    let open = OpenRequests::new(Arc::clone(&calls));
    let transport = SseTransport {
        client,
        link: link.clone(),
        endpoint: endpoint.into(),
        events,
        open,
        calls,
        posts: HashMap::new(),
    };
    Ok((transport, link))
}

/// The endpoint's address, if it is of the stream's own origin: messages carry the headers.
fn resolve(address: &str, endpoint: &str) -> Option<String> {
    let base = url::Url::parse(address).ok()?;
    let endpoint = base.join(endpoint.trim()).ok()?;
    (endpoint.origin() == base.origin()).then(|| endpoint.into())
}

impl Transport<RoleClient> for SseTransport {
    type Error = HttpFault;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outgoing = self.open.note(&message);
        self.posts.retain(|_, post| !post.is_cancelled());
        let post = CancellationToken::new();
        if let ClientJsonRpcMessage::Request(request) = &message {
            self.posts.insert(request.id.clone(), post.clone());
        } else if let Some(post) = withdrawn(&message).and_then(|id| self.posts.remove(id)) {
            post.cancel();
        }
        let (client, endpoint) = (self.client.clone(), Arc::clone(&self.endpoint));
        async move {
            // Cancelled once it is through, so that it is forgotten at the next sending.
            let done = post.clone().drop_guard();
            let sent = tokio::select! {
                biased;
                () = post.cancelled() => Ok(()),
                sent = client.post_plain(&endpoint, &message) => sent,
            };
            drop((done, outgoing));
            sent.map_err(HttpFault)
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let event = tokio::select! {
                () = self.link.abort.cancelled() => None,
                event = self.events.next() => event,
            };
            let Some(event) = event else {
                self.calls.end();
                return None;
            };
            match event {
                Ok(event) => {
                    let data =
                        event.data.filter(|_| matches!(event.event.as_deref(), None | Some("" | "message")));
                    if let Some(message) =
                        data.and_then(|data| self.open.read(&wire::readable(data.as_bytes())))
                    {
                        return Some(message);
                    }
                }
                Err(error) => {
                    self.calls.end();
                    let _ = self.link.lost.set(events::fault(&error));
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // MCP-36: messages go to the stream's own origin and nowhere else
    #[test]
    fn an_endpoint_is_of_the_same_origin() {
        let of = |endpoint| resolve("http://h.test:8/a/sse?k=1", endpoint);
        assert_eq!(of("/messages?s=1").as_deref(), Some("http://h.test:8/messages?s=1"));
        assert_eq!(of(" messages ").as_deref(), Some("http://h.test:8/a/messages"));
        assert_eq!(of("http://h.test:8/x").as_deref(), Some("http://h.test:8/x"));
        for foreign in ["http://h.test/x", "https://h.test:8/x", "//other.test/x", "file:///x", "http://["] {
            assert_eq!(of(foreign), None, "{foreign}");
        }
    }
}
