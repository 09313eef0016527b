//! One request, from its head to its answer.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use futures::FutureExt as _;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio_util::sync::CancellationToken;
use toolnexus_core::Identity;
use toolnexus_mcp::server::{
    Authenticate, McpBody, McpHandler, McpProfile, WwwAuthenticate, is_json_or_unsaid,
};
use tower_service::Service as _;

use crate::body::{BODY_LIMIT, TimedBody};
use crate::origin::{self, Origins, Standing};

/// What a listener serves.
pub(crate) struct Site {
    pub(crate) mcp: Option<McpServer>,
    pub(crate) origins: Origins,
    pub(crate) guard: Guard,
    pub(crate) max_body_bytes: usize,
}

/// What answers at `/mcp`.
pub(crate) enum McpServer {
    Profile(McpProfile),
    Handler(McpHandler),
}

/// Who may come in.
pub(crate) struct Guard {
    pub(crate) authenticate: Option<Authenticate>,
    pub(crate) challenge: Option<WwwAuthenticate>,
}

/// A request gets no answer: its connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("the body of the request did not come")]
pub(crate) struct Unanswered;

type Answer = Response<McpBody>;

impl Site {
    /// Answers one request. `cancel` ends a tool that runs for it, as dropping the future does.
    pub(crate) async fn answer<B>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
        cancel: &CancellationToken,
    ) -> Result<Answer, Unanswered>
    where
        B: Body<Data: Send, Error: Send> + Send + Unpin + 'static,
    {
        let (mut head, body) = request.into_parts();
        head.extensions.insert(peer);
        let named = match self.origins.standing(&head.headers) {
            Standing::Foreign => return Ok(text(StatusCode::FORBIDDEN, "Origin is not allowed")),
            Standing::Named(origin) => Some(origin),
            Standing::Own => None,
        };
        let mcp = self.mcp.as_ref().filter(|_| head.uri.path() == "/mcp");
        let mut answer = match mcp {
            None => text(StatusCode::NOT_FOUND, "Not Found"),
            Some(mcp) if named.is_some() && origin::is_preflight(&head) => {
                let mut answer = status(StatusCode::NO_CONTENT);
                origin::permit_request(answer.headers_mut(), &head.headers, mcp.methods());
                answer
            }
            Some(mcp) => {
                let head = Arc::new(head);
                match self.guard.admit(&head).await {
                    Err(refusal) => refusal,
                    Ok(identity) => match mcp {
                        McpServer::Profile(profile) => {
                            self.ask(profile, head, identity, body, cancel.clone()).await?
                        }
                        McpServer::Handler(handler) => {
                            let mut head = Arc::unwrap_or_clone(head);
                            if let Some(identity) = identity {
                                head.extensions.insert(identity);
                            }
                            let (body, fate) = TimedBody::new(body);
                            let answer = handler.clone().call(Request::from_parts(head, body)).await;
                            if fate.has_failed() {
                                return Err(Unanswered);
                            }
                            answer.unwrap_or_else(|never| match never {})
                        }
                    },
                }
            }
        };
        if let Some(origin) = named {
            origin::permit(answer.headers_mut(), origin);
        }
        Ok(answer)
    }

    /// Lets a profile answer what has come so far, if it is of the kind that it can read.
    async fn ask<B>(
        &self,
        profile: &McpProfile,
        head: Arc<Parts>,
        identity: Option<Identity>,
        body: B,
        cancel: CancellationToken,
    ) -> Result<Answer, Unanswered>
    where
        B: Body + Unpin,
    {
        if head.method != Method::POST {
            let mut answer = status(StatusCode::METHOD_NOT_ALLOWED);
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return Ok(answer);
        }
        if !is_json_or_unsaid(&head.headers) {
            return Ok(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, UNSUPPORTED));
        }
        let read = tokio::time::timeout(BODY_LIMIT, read_body(body, self.max_body_bytes)).await;
        let body = match read.map_err(|_| Unanswered)? {
            Ok(body) => body,
            Err(BodyFault::TooLarge) => {
                let mut answer = refusal(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE);
                // What is left of the body will not be read.
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                return Ok(answer);
            }
            Err(BodyFault::Gone) => return Err(Unanswered),
        };
        Ok(profile.respond(head, identity, body, cancel).await)
    }

    /// Ends what would not end by itself.
    pub(crate) async fn close(&self) {
        if let Some(McpServer::Handler(handler)) = &self.mcp {
            handler.close().await;
        }
    }
}

impl McpServer {
    /// What a page may send, once its origin is allowed.
    const fn methods(&self) -> &'static str {
        match self {
            McpServer::Profile(_) => "POST",
            McpServer::Handler(_) => "POST, GET, DELETE",
        }
    }
}

impl Guard {
    /// Who sends a request, if anybody asks; else the answer that turns it away.
    async fn admit(&self, head: &Arc<Parts>) -> Result<Option<Identity>, Answer> {
        let Some(authenticate) = &self.authenticate else { return Ok(None) };
        // The hook may panic before it has made a future.
        let asked = async { authenticate(Arc::clone(head)).await };
        let error = match AssertUnwindSafe(asked).catch_unwind().await {
            Ok(Ok(identity)) => return Ok(Some(identity)),
            Ok(Err(error)) => error,
            Err(_) => {
                tracing::warn!("[toolnexus] authenticate panicked; the request is refused");
                "authenticate panicked".into()
            }
        };
        let challenge = self.challenge.as_ref().and_then(|challenge| {
            let challenge = AssertUnwindSafe(|| challenge(head, &*error));
            std::panic::catch_unwind(challenge).ok().flatten()
        });
        let mut answer = status(StatusCode::UNAUTHORIZED);
        if let Some(challenge) = challenge.and_then(|challenge| HeaderValue::try_from(challenge).ok()) {
            answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        Err(answer)
    }
}

enum BodyFault {
    TooLarge,
    Gone,
}

async fn read_body<B>(mut body: B, limit: usize) -> Result<Bytes, BodyFault>
where
    B: Body + Unpin,
{
    // What the head announces is not waited for.
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(BodyFault::TooLarge);
    }
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(BodyFault::Gone) };
        let Ok(mut data) = frame.into_data() else { continue };
        if data.remaining() > limit.saturating_sub(read.len()) {
            return Err(BodyFault::TooLarge);
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            let length = chunk.len();
            read.extend_from_slice(chunk);
            data.advance(length);
        }
    }
    Ok(read.freeze())
}

const UNSUPPORTED: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Unsupported content type"}}"#;
const TOO_LARGE: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Request body too large"}}"#;

fn status(status: StatusCode) -> Answer {
    let mut answer = Response::new(McpBody::default());
    *answer.status_mut() = status;
    answer
}

fn refusal(status: StatusCode, body: &'static str) -> Answer {
    with_body(status, "application/json", body)
}

fn text(status: StatusCode, body: &'static str) -> Answer {
    with_body(status, "text/plain; charset=utf-8", body)
}

fn with_body(status: StatusCode, content_type: &'static str, body: &'static str) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use http_body_util::{Full, StreamBody};
    use std::time::Duration;
    use tokio::time::Instant;
    use toolnexus_core::Toolkit;
    use toolnexus_mcp::server::{McpServeConfig, mcp_handler};

    fn profile() -> McpServer {
        McpServer::Profile(McpProfile::new(&Toolkit::default(), McpServeConfig::default()))
    }

    fn handler() -> McpServer {
        McpServer::Handler(mcp_handler(&Toolkit::default(), Default::default()).unwrap())
    }

    fn site(mcp: McpServer) -> Site {
        Site {
            mcp: Some(mcp),
            origins: Origins::new(&[], None).unwrap(),
            guard: Guard { authenticate: None, challenge: None },
            max_body_bytes: 1000,
        }
    }

    async fn ask<B>(mcp: McpServer, body: B) -> Result<Answer, Unanswered>
    where
        B: Body<Data: Send, Error: Send> + Send + Unpin + 'static,
    {
        let request = Request::post("/mcp").header(CONTENT_TYPE, "application/json").body(body).unwrap();
        site(mcp).answer(request, ([127, 0, 0, 1], 1).into(), &CancellationToken::new()).await
    }

    // SERVE-64
    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        for (mcp, status) in [(profile as fn() -> McpServer, 200), (handler, 400)] {
            let began = Instant::now();
            let silent =
                StreamBody::new(stream::pending::<Result<http_body::Frame<Bytes>, std::io::Error>>());
            assert!(ask(mcp(), silent).await.is_err());
            assert_eq!(began.elapsed(), BODY_LIMIT);
            // Nor one of which a little comes now and then.
            let began = Instant::now();
            let slow = stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_secs(7)).await;
                Some((Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from_static(b" "))), ()))
            });
            assert!(ask(mcp(), StreamBody::new(Box::pin(slow))).await.is_err());
            assert_eq!(began.elapsed(), BODY_LIMIT);
            let broken = stream::iter([Err::<http_body::Frame<Bytes>, _>(std::io::Error::other("gone"))]);
            assert!(ask(mcp(), StreamBody::new(broken)).await.is_err());
            assert_eq!(ask(mcp(), Full::new(Bytes::from_static(b"{}"))).await.unwrap().status(), status);
        }
    }
}
