//! One HTTP request, from its head to its answer: what is checked, in which order.
//!
//! Who sends it (401), which page it comes from (403), the method (405), the type of its body (415), its
//! size (413), whether it is a message (400), its session (400, 404), its protocol revision (400).

use std::pin::pin;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};
use toolnexus_core::Identity;

use super::answer::{self, Answer, LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID};
use super::call::{Call, cancelled};
use super::guard::{contained, guarded, refusal};
use super::hooks::{McpCallContext, McpStatelessSessionId};
use super::log::event_id;
use super::methods::Asked;
use super::outlet::{Head, Outlet};
use super::session::{NoSession, Session, Terms};
use super::{Shared, origin};
use crate::server::call::CallParams;
use crate::server::head::{BodyType, accepts_events, body_type};
use crate::server::message::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Incoming, Request, RequestId, RpcError, answer_body,
    error_body, read,
};

/// The revision of a request that does not say and has no session: the oldest that a handler speaks
/// by default.
const UNSAID_VERSION: &str = "2025-06-18";

/// Serves one request.
pub(super) async fn serve<B>(shared: Arc<Shared>, request: http::Request<B>) -> Answer
where
    B: http_body::Body,
{
    let (head, body) = request.into_parts();
    let head = Arc::new(head);
    let identity = match authenticated(&shared, &head).await {
        Ok(identity) => identity,
        Err(refused) => return refused,
    };
    let exchange = Exchange { shared, head, identity };
    exchange.answer(body).await.unwrap_or_else(|refused| refused)
}

/// Who sends the request, as the handler's own hook says, or whoever in front of it has asked.
async fn authenticated(shared: &Shared, head: &Arc<Parts>) -> Result<Option<Identity>, Answer> {
    let Some(authenticate) = &shared.options.authenticate else {
        return Ok(head.extensions.get::<Identity>().cloned());
    };
    let error = match guarded(|| authenticate(Arc::clone(head))).await {
        Ok(identity) => return Ok(Some(identity)),
        Err(error) => error,
    };
    let challenge = shared.options.www_authenticate.as_ref();
    let challenge = challenge.and_then(|hook| contained(|| hook(head, &*error)).flatten());
    Err(answer::unauthorized(challenge.as_deref()))
}

struct Exchange {
    shared: Arc<Shared>,
    head: Arc<Parts>,
    identity: Option<Identity>,
}

impl Exchange {
    async fn answer<B: http_body::Body>(self, body: B) -> Result<Answer, Answer> {
        if let Some(reason) = origin::foreign(&self.head, &self.shared.options) {
            return Err(answer::foreign(reason));
        }
        let stateless = self.shared.options.stateless;
        match self.head.method {
            Method::POST => self.post(body).await,
            Method::GET if !stateless && accepts_events(&self.head.headers) => self.get().await,
            Method::DELETE if !stateless => self.delete().await,
            _ if stateless => Err(answer::not_allowed("POST")),
            _ => Err(answer::not_allowed("GET, POST, DELETE")),
        }
    }

    async fn post<B: http_body::Body>(self, body: B) -> Result<Answer, Answer> {
        if body_type(&self.head.headers) != BodyType::Json {
            return Err(answer::unsupported_type());
        }
        let body = limited(&self.head.headers, body, self.shared.options.max_body_bytes()).await?;
        match read(&body) {
            // A request whose parameters alone are odd is one all the same.
            Err(unreadable) if unreadable.code == INVALID_PARAMS => {
                self.session(unreadable.id.as_ref(), None).await?;
                Err(answer::json(StatusCode::OK, unreadable.body()))
            }
            Err(unreadable) => Err(answer::json(StatusCode::BAD_REQUEST, unreadable.body())),
            Ok(Incoming::Request(request)) if request.method == "initialize" => {
                self.initialize(request).await
            }
            Ok(Incoming::Request(request)) => {
                let session = self.session(Some(&request.id), Some(&request.method)).await?;
                self.request(session, request).await
            }
            Ok(Incoming::Notification(notification)) => {
                let session = self.session(None, None).await?;
                if let (Some(session), Some(id)) = (session, notification.cancels) {
                    session.cancel(&id);
                }
                Ok(answer::empty(StatusCode::ACCEPTED))
            }
            Ok(Incoming::Response(response)) => {
                let session = self.session(None, None).await?;
                if let (Some(session), Some(id)) = (session, response.id) {
                    session.replied(id, response.outcome);
                }
                Ok(answer::empty(StatusCode::ACCEPTED))
            }
        }
    }

    /// The session of a request, and whether its revision is spoken. `None`: there are no sessions.
    async fn session(
        &self,
        id: Option<&RequestId>,
        method: Option<&str>,
    ) -> Result<Option<Arc<Session>>, Answer> {
        let session = match self.shared.options.stateless {
            true => None,
            false => Some(self.named(id, method).await?),
        };
        let version = self.head.headers.get(PROTOCOL_VERSION);
        if version.is_some_and(|version| self.spoken(version).is_none()) {
            return Err(answer::unsupported_version(id));
        }
        Ok(session)
    }

    /// The session that the header names, if this caller may use it.
    async fn named(&self, id: Option<&RequestId>, method: Option<&str>) -> Result<Arc<Session>, Answer> {
        let Some(named) = self.head.headers.get(SESSION_ID) else {
            // A newer client that looks for its own kind of server learns that this is none.
            return Err(match method {
                Some("server/discover") => {
                    answer::json(StatusCode::BAD_REQUEST, error_body(id, &RpcError::method_not_found()))
                }
                _ => answer::no_session(id),
            });
        };
        let session = named.to_str().ok().and_then(|named| self.shared.sessions.get(named));
        let session = session.ok_or_else(|| answer::unknown_session(id))?;
        let mine = match &self.shared.options.session_ids.validate {
            Some(hook) => {
                guarded(|| hook(session.terms.id.clone(), self.identity.clone())).await.unwrap_or(false)
            }
            None => session.terms.owner.as_ref() == self.identity.as_ref().map(|identity| &identity.id),
        };
        if mine { Ok(session) } else { Err(answer::unknown_session(id)) }
    }

    fn spoken(&self, version: &HeaderValue) -> Option<&'static str> {
        self.shared.versions.iter().copied().find(|known| version == known)
    }

    fn context(&self, session: Option<&Arc<Session>>, params: &Map<String, Value>) -> McpCallContext {
        let session_id = match session {
            Some(session) => Some(session.terms.id.clone()),
            None => match &self.shared.options.stateless_session_id {
                None => None,
                Some(McpStatelessSessionId::Fixed(id)) => Some(id.clone()),
                Some(McpStatelessSessionId::Of(hook)) => contained(|| hook(&self.head)).flatten(),
            },
        };
        McpCallContext {
            identity: self.identity.clone(),
            request: Some(Arc::clone(&self.head)),
            session_id,
            meta: params.get("_meta").filter(|meta| !meta.is_null()).cloned(),
        }
    }

    async fn initialize(self, request: Request) -> Result<Answer, Answer> {
        let asked = request.params.get("protocolVersion").and_then(Value::as_str);
        let newest = self.shared.versions.first().copied().unwrap_or(UNSAID_VERSION);
        let version = self.shared.versions.iter().copied().find(|known| Some(*known) == asked);
        let version = version.unwrap_or(newest);
        let mut context = self.context(None, &request.params);
        if self.shared.options.stateless {
            let answer = self.shared.introduction(context, version).await;
            return Ok(answer::json(StatusCode::OK, answer_body(&request.id, &answer)));
        }
        let failed = |error| answer::json(StatusCode::OK, error_body(Some(&request.id), &error));
        context.session_id = None;
        let id = self.new_session_id(&context).await.map_err(failed)?;
        let header = HeaderValue::from_str(&id).map_err(|_| failed(internal()))?;
        context.session_id = Some(id.clone());
        let introduction = self.shared.introduction(context, version).await.map_err(failed)?;
        let terms = Terms {
            id,
            owner: self.identity.map(|identity| identity.id),
            version,
            elicits: elicits(&request.params),
        };
        match self.shared.sessions.begin(terms) {
            Ok(_) => {
                let mut answer =
                    answer::json(StatusCode::OK, answer_body(&request.id, &Ok::<_, RpcError>(introduction)));
                answer.headers_mut().insert(SESSION_ID, header);
                Ok(answer)
            }
            Err(NoSession::Taken) => {
                tracing::warn!("[toolnexus] mcp handler: session_ids.generate gave an id that is in use");
                Err(failed(internal()))
            }
            Err(NoSession::Full | NoSession::Closed) => Err(answer::json(
                StatusCode::SERVICE_UNAVAILABLE,
                error_body(Some(&request.id), &RpcError::new(INTERNAL_ERROR, "Too many sessions")),
            )),
        }
    }

    async fn new_session_id(&self, context: &McpCallContext) -> Result<String, RpcError> {
        let Some(hook) = &self.shared.options.session_ids.generate else {
            let mut random = [0; 16];
            getrandom::fill(&mut random).map_err(|_| internal())?;
            return Ok(random.iter().map(|byte| format!("{byte:02x}")).collect());
        };
        let id = guarded(|| hook(context.clone())).await;
        let id = id.map_err(|error| refusal("session_ids.generate", &error))?;
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            tracing::warn!(
                "[toolnexus] mcp handler: session_ids.generate gave an id that is not visible ASCII"
            );
            return Err(internal());
        }
        Ok(id)
    }

    async fn request(self, session: Option<Arc<Session>>, request: Request) -> Result<Answer, Answer> {
        let Request { id, method, params } = request;
        let context = self.context(session.as_ref(), &params);
        let in_flight = session.as_ref().map(|session| session.begin(id.clone()));
        let token = match &in_flight {
            Some(in_flight) => in_flight.token.clone(),
            None => self.shared.shutdown.child_token(),
        };
        if method != "tools/call" {
            let asked = Asked { shared: Arc::clone(&self.shared), session, context, params };
            let body = tokio::select! {
                biased;
                () = token.cancelled() => cancelled(&id),
                outcome = asked.carry_out(&method) => answer_body(&id, &outcome),
            };
            return Ok(answer::json(StatusCode::OK, body));
        }

        let version = match &session {
            Some(session) => session.terms.version,
            None => {
                let said = self.head.headers.get(PROTOCOL_VERSION);
                said.and_then(|version| self.spoken(version)).unwrap_or(UNSAID_VERSION)
            }
        };
        let streams = accepts_events(&self.head.headers);
        let (outlet, head) = Outlet::new(session.clone(), streams, token.clone());
        let call = Call {
            shared: Arc::clone(&self.shared),
            session,
            context,
            id: id.clone(),
            params: CallParams::of(params),
            version,
            outlet,
        };
        // From here on, dropping this future cancels the call.
        let guard = token.drop_guard();
        self.shared.tasks.spawn(async move {
            let _in_flight = in_flight;
            call.run().await;
        });
        let head = head.await;
        match head {
            Ok(Head::Whole(body)) => Ok(answer::json(StatusCode::OK, body)),
            Ok(Head::Events(reader)) => {
                // The reader does so from now on.
                drop(guard.disarm());
                Ok(answer::events(reader))
            }
            Err(_) => Ok(answer::json(StatusCode::OK, error_body(Some(&id), &internal()))),
        }
    }

    async fn get(self) -> Result<Answer, Answer> {
        let Some(session) = self.session(None, None).await? else { return Err(answer::not_allowed("POST")) };
        let last = self.head.headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).and_then(event_id);
        if let Some((log, event)) = last
            && let Some(log) = session.kept(log)
        {
            return Ok(answer::events(log.read(Some(event))));
        }
        let log = session.open_standing();
        let reader = log.read(None);
        if session.terms.version >= PRIMED_SINCE {
            log.prime(None);
        }
        Ok(answer::events(reader))
    }

    async fn delete(self) -> Result<Answer, Answer> {
        let Some(session) = self.session(None, None).await? else { return Err(answer::not_allowed("POST")) };
        if !self.shared.sessions.end(&session) {
            return Err(answer::unknown_session(None));
        }
        if let Some(hook) = &self.shared.options.session_ids.terminate {
            let (id, identity) = (session.terms.id.clone(), self.identity.clone());
            let told = guarded(|| {
                let told = hook(id, identity);
                Box::pin(async move {
                    told.await;
                    Ok(())
                })
            });
            if told.await.is_err() {
                tracing::warn!("[toolnexus] mcp handler: session_ids.terminate panicked");
            }
        }
        Ok(answer::empty(StatusCode::NO_CONTENT))
    }
}

/// The first protocol revision whose clients expect an event without data.
const PRIMED_SINCE: &str = "2025-11-25";

fn internal() -> RpcError {
    RpcError::new(INTERNAL_ERROR, "Internal error")
}

/// Whether a client's capabilities say that it can ask its person with a form.
pub(in crate::server) fn elicits(params: &Map<String, Value>) -> bool {
    let elicitation = params.get("capabilities").and_then(|capabilities| capabilities.get("elicitation"));
    elicitation
        .and_then(Value::as_object)
        .is_some_and(|modes| modes.is_empty() || modes.get("form").is_some_and(Value::is_object))
}

/// Reads a body of at most `limit` bytes.
async fn limited<B: http_body::Body>(headers: &HeaderMap, body: B, limit: usize) -> Result<Bytes, Answer> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(answer::too_large());
    }
    let mut body = pin!(body);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Whoever sent half a message is gone, or does not speak HTTP.
        let broken = |_| {
            let error = RpcError::new(INVALID_REQUEST, "Request body could not be read");
            answer::json(StatusCode::BAD_REQUEST, error_body(None, &error))
        };
        let Ok(mut data) = frame.map_err(broken)?.into_data() else { continue };
        if data.remaining() > limit - whole.len() {
            return Err(answer::too_large());
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            whole.extend_from_slice(chunk);
            let read = chunk.len();
            data.advance(read);
        }
    }
    Ok(whole.freeze())
}
