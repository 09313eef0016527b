//! The client under rmcp's streamable HTTP transport.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, GetExtensions as _, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde_json::value::RawValue;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::events::{Events, RawEvents, events};
use super::{HttpFault, HttpLink, Start, body, fault_of, refused};
use crate::admission::AdmissionSlot;
use crate::auth::Gate;
use crate::config::McpServerConfig;
use crate::connect::NO_HTTP_CLIENT;
use crate::era::Seen;
use crate::failure::{Fault, McpFailureKind};
use crate::in_flight::CallsInFlight;
use crate::param_headers::ParamHeaders;
use crate::sync::lock;
use crate::wire::{self, MODERN_VERSION, Opener};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// How long the goodbye to a session may take.
const DELETE_LIMIT: Duration = Duration::from_millis(1500);

/// Redirects followed on one request, all of them within the origin.
const MAX_REDIRECTS: usize = 5;

type Error = StreamableHttpError<HttpFault>;
type Answer = Result<StreamableHttpPostResponse, Error>;

/// An HTTP client for one server.
#[derive(Clone)]
pub(crate) struct HttpClient(Arc<Inner>);

struct Inner {
    http: reqwest::Client,
    /// The configured headers, values filled in.
    headers: HeaderMap,
    gate: Option<Gate>,
    calls: Arc<CallsInFlight>,
    link: HttpLink,
    /// How long the exchange of a notification may take. A request's is ended by whoever asked.
    limit: Duration,
    _token: TaskTrackerToken,
}

impl HttpClient {
    pub(super) fn new(
        config: &McpServerConfig,
        calls: Arc<CallsInFlight>,
        link: HttpLink,
        token: TaskTrackerToken,
    ) -> Result<Self, Fault> {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::custom(redirect))
            // A compressed event stream arrives in lumps.
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .user_agent(concat!("toolnexus/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|_| Fault::with_detail(McpFailureKind::Config, NO_HTTP_CLIENT))?;
        let mut headers = HeaderMap::new();
        for (name, value) in config.headers.iter() {
            let invalid =
                || Fault::with_detail(McpFailureKind::Config, format!("header {name:?} is not valid"));
            let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::try_from(name).map_err(|_| invalid())?, value);
        }
        let limit = Duration::from_millis(config.timeout_ms);
        let gate = Gate::of(config, link.asking().clone(), Arc::clone(&calls))?;
        Ok(HttpClient(Arc::new(Inner { http, headers, gate, calls, link, limit, _token: token })))
    }

    fn request(
        &self,
        method: http::Method,
        uri: &str,
        session: Option<Arc<str>>,
        added: HashMap<HeaderName, HeaderValue>,
    ) -> reqwest::RequestBuilder {
        let mut headers = self.0.headers.clone();
        headers.extend(added);
        if let Some(session) = session.and_then(|session| HeaderValue::from_str(&session).ok()) {
            headers.insert(SESSION_ID, session);
        }
        self.0.http.request(method, uri).headers(headers)
    }

    /// Sends a request, signed in if the entry says how, which the time of `call` waits for.
    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        call: Option<&RequestId>,
    ) -> Result<reqwest::Response, Fault> {
        match &self.0.gate {
            // In a box: what a sign-in takes would take room in every request.
            Some(gate) => Box::pin(gate.send(request, call)).await,
            None => request.send().await.map_err(|error| fault_of(&error)),
        }
    }

    /// Sends a request that nobody signs in for.
    async fn send_as_is(&self, request: reqwest::RequestBuilder) -> reqwest::Result<reqwest::Response> {
        match &self.0.gate {
            Some(gate) => gate.send_as_is(request).await,
            None => request.send().await,
        }
    }

    /// Runs an exchange until the connection is given up.
    async fn guarded<T>(&self, exchange: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.0.link.abort.cancelled() => Err(client_error(Fault::closed())),
            result = exchange => result,
        }
    }

    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        added: HashMap<HeaderName, HeaderValue>,
    ) -> Answer {
        if self.0.calls.have_ended() && wire::is_answer(&message) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let ends_handshake = matches!(&message, ClientJsonRpcMessage::Notification(notification)
            if matches!(notification.notification, ClientNotification::InitializedNotification(_)));
        let limit = matches!(message, ClientJsonRpcMessage::Notification(_)).then_some(self.0.limit);
        // On the heap: rmcp's worker keeps several of these in its own future.
        let exchange = Box::pin(self.exchange(uri, message, session, added));
        let answer = self.guarded(async {
            match limit {
                None => exchange.await,
                Some(limit) => {
                    let done = self.0.link.asking().within(limit, exchange).await;
                    done.unwrap_or_else(|| Err(client_error(Fault::timeout())))
                }
            }
        });
        let answer = answer.await;
        if let (true, Err(error)) = (ends_handshake, &answer) {
            self.0.link.keep_handshake_fault(self.0.link.fault(error));
        }
        answer
    }

    async fn exchange(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        added: HashMap<HeaderName, HeaderValue>,
    ) -> Answer {
        let body =
            serde_json::to_vec(&message).map_err(|_| client_error(Fault::transport("write-failed")))?;
        let with_session = session.is_some();
        let added = self.routed(&message, added);
        let request = self
            .request(http::Method::POST, &uri, session, added)
            .header(ACCEPT, format!("{JSON}, {EVENT_STREAM}"))
            .header(CONTENT_TYPE, JSON)
            .body(body);
        let call = wire::id_of(&message);
        let response = self.send(request, call).await.map_err(client_error)?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && with_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let asked = Asked::of(&message);
        let opener = asked.as_ref().and_then(|asked| asked.opener);
        if opener == Some(Opener::Initialize) && is_other_transport(&response) {
            self.0.link.other_transport.store(true, Ordering::Relaxed);
        }
        if opener.is_some() {
            *lock(&self.0.link.seen) = Seen { status: Some(status.as_u16()), code: None };
        }
        if !status.is_success() {
            let error = refusal(response, asked.is_some()).await;
            if let (Some(error), Some(_)) = (&error, opener) {
                self.saw(error);
            }
            return match (error, asked) {
                // rmcp looks into the answer for the revisions that the server has.
                (Some(error), Some(asked)) if opener == Some(Opener::Discover) => {
                    Ok(StreamableHttpPostResponse::Json(
                        ServerJsonRpcMessage::error(error, Some(asked.id)),
                        None,
                    ))
                }
                (Some(error), _) => {
                    Err(client_error(Fault::rpc(error.code.0.into(), error.message.into_owned())))
                }
                (None, _) => Err(client_error(refused(status))),
            };
        }
        let Some(asked) = asked else { return Ok(StreamableHttpPostResponse::Accepted) };
        self.answer(response, asked, with_session).await
    }

    /// The response to a request, by its kind.
    async fn answer(&self, response: reqwest::Response, asked: Asked, with_session: bool) -> Answer {
        let issued = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if asked.opener == Some(Opener::Initialize) {
            self.0.link.session.store(issued.is_some(), Ordering::Relaxed);
        }
        let media_type = body::media_type(&response);
        if media_type == EVENT_STREAM && asked.opener.is_none() {
            let (id, calls, link) = (asked.id, Arc::clone(&self.0.calls), self.0.link.clone());
            let events = events(response, Some(id), calls, link, asked.slot);
            return Ok(StreamableHttpPostResponse::Sse(events, issued));
        }
        if media_type == EVENT_STREAM || media_type == JSON {
            let answer = if media_type == JSON {
                let body = body::whole(response).await.map_err(client_error)?;
                self.correlated(&body, &asked).ok_or_else(|| client_error(Fault::malformed()))?
            } else {
                self.first_answer(response, &asked).await.map_err(client_error)?
            };
            if let (ServerJsonRpcMessage::Error(error), Some(_)) = (&answer, asked.opener) {
                self.saw(&error.error);
            }
            return Ok(StreamableHttpPostResponse::Json(answer, issued));
        }
        // The answer may still come on the standing stream, if there is one: only a session has it,
        // and the server may have refused it.
        let elsewhere = response.status() == StatusCode::ACCEPTED && with_session && asked.opener.is_none();
        if elsewhere && self.0.link.has_standing_stream().await {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        Err(client_error(Fault::malformed()))
    }

    /// Notes an error in the answer to a request that begins the session.
    fn saw(&self, error: &ErrorData) {
        lock(&self.0.link.seen).code = Some(error.code.0.into());
    }

    /// The headers of a message with those that rmcp does not know of. The modern era is where there
    /// is a method among them.
    fn routed(
        &self,
        message: &ClientJsonRpcMessage,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> HashMap<HeaderName, HeaderValue> {
        match message {
            ClientJsonRpcMessage::Request(request) if headers.contains_key(&METHOD) => {
                if let Some(ParamHeaders(marked)) = request.request.extensions().get() {
                    headers.extend(marked.iter().cloned());
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {
                let id = wire::answered(message);
                let answered = id.and_then(|id| lock(&self.0.link.asked).remove(id));
                let modern = headers.get(&VERSION).is_some_and(|version| version >= MODERN_VERSION.as_str());
                let method =
                    answered.filter(|_| modern).and_then(|method| HeaderValue::try_from(method).ok());
                headers.extend(method.map(|method| (METHOD, method)));
            }
            _ => {}
        }
        headers
    }

    /// The answer to a request that begins the session out of an event stream, so that a stream
    /// without one is known for what it is.
    async fn first_answer(
        &self,
        response: reqwest::Response,
        asked: &Asked,
    ) -> Result<ServerJsonRpcMessage, Fault> {
        let mut events = super::events::raw(response);
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| super::events::fault(&error))?;
            if let Some(answer) = event.data.and_then(|data| self.correlated(data.as_bytes(), asked)) {
                return Ok(answer);
            }
        }
        Err(Fault::malformed())
    }

    /// The answer to `asked` in a text, if that is what it is. An error without an id can be for
    /// nobody else.
    fn correlated(&self, text: &[u8], asked: &Asked) -> Option<ServerJsonRpcMessage> {
        let is_mine = |id: &RequestId| wire::same_id(id, &asked.id);
        let opener = |id: &RequestId| asked.opener.filter(|_| is_mine(id));
        match wire::read(&wire::readable(text), &self.0.calls, None, opener)? {
            ServerJsonRpcMessage::Response(response) if is_mine(&response.id) => {
                Some(ServerJsonRpcMessage::response(response.result, asked.id.clone()))
            }
            ServerJsonRpcMessage::Error(error) if error.id.as_ref().is_none_or(is_mine) => {
                Some(ServerJsonRpcMessage::error(error.error, Some(asked.id.clone())))
            }
            _ => None,
        }
    }

    async fn get(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        added: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Error> {
        let mut request = self.request(http::Method::GET, &uri, session, added).header(ACCEPT, EVENT_STREAM);
        if let Some(last) = last_event.and_then(|id| HeaderValue::from_str(&id).ok()) {
            request = request.header(LAST_EVENT_ID, last);
        }
        let response = self.send_as_is(request).await.map_err(|error| client_error(fault_of(&error)))?;
        if !response.status().is_success() || body::media_type(&response) != EVENT_STREAM {
            // Any refusal means the same here: there is no such stream, and asking again is no use.
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let slot = AdmissionSlot::default();
        Ok(events(response, None, Arc::clone(&self.0.calls), self.0.link.clone(), slot))
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpFault;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer {
        self.post(uri, message, session_id, custom_headers).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        _limits: StreamableHttpResponseLimits,
    ) -> Answer {
        // The limits are this module's own constants, which the transport is configured with.
        self.post(uri, message, session_id, custom_headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        let request =
            self.request(http::Method::DELETE, &uri, Some(session_id), custom_headers).timeout(DELETE_LIMIT);
        // The server may not know sessions or may be gone: neither is anybody's problem now.
        let _ = self.guarded(async { Ok(self.send_as_is(request).await) }).await;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Error> {
        let resumes = last_event_id.is_some();
        let stream = self.guarded(Box::pin(self.get(uri, session_id, last_event_id, custom_headers))).await;
        // rmcp begins the standing stream without an event id.
        if !resumes {
            self.0.link.standing_stream(&stream);
        }
        stream
    }
}

/// For the legacy transport.
impl HttpClient {
    /// The event stream at an address.
    pub(super) async fn event_stream(&self, address: &str) -> Result<RawEvents, Start> {
        let request =
            self.request(http::Method::GET, address, None, HashMap::new()).header(ACCEPT, EVENT_STREAM);
        let response = self.send(request, None).await.map_err(Start::Failed)?;
        if !response.status().is_success() {
            return Err(Start::NotThere(refused(response.status())));
        }
        if body::media_type(&response) != EVENT_STREAM {
            return Err(Start::NotThere(Fault::malformed()));
        }
        Ok(super::events::raw(response))
    }

    /// Posts a message whose answer comes elsewhere.
    pub(super) async fn post_plain(
        &self,
        endpoint: &str,
        message: &ClientJsonRpcMessage,
    ) -> Result<(), Fault> {
        if self.0.calls.have_ended() && wire::is_answer(message) {
            return Ok(());
        }
        let body = serde_json::to_vec(message).map_err(|_| Fault::transport("write-failed"))?;
        let request = self
            .request(http::Method::POST, endpoint, None, HashMap::new())
            .header(CONTENT_TYPE, JSON)
            .body(body);
        // A request is ended by whoever asked.
        let limit =
            if matches!(message, ClientJsonRpcMessage::Request(_)) { Duration::MAX } else { self.0.limit };
        let response = tokio::select! {
            biased;
            () = self.0.link.abort.cancelled() => return Err(Fault::closed()),
            response = self.0.link.asking().within(limit, self.send(request, wire::id_of(message))) => match response {
                Some(response) => response?,
                None => return Err(Fault::timeout()),
            },
        };
        if response.status().is_success() { Ok(()) } else { Err(refused(response.status())) }
    }
}

/// Whether the answer to `initialize` says "not this transport": a client error that is not about
/// who asks or how often, or a success that is no answer of the protocol.
fn is_other_transport(response: &reqwest::Response) -> bool {
    let status = response.status();
    match status {
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS => false,
        StatusCode::OK => !matches!(body::media_type(response).as_str(), JSON | EVENT_STREAM),
        _ => status.is_client_error(),
    }
}

/// A request in a POST: its id, whether it begins the session, and the slot it takes.
struct Asked {
    id: RequestId,
    opener: Option<Opener>,
    slot: AdmissionSlot,
}

impl Asked {
    fn of(message: &ClientJsonRpcMessage) -> Option<Self> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let slot = AdmissionSlot::of(message);
        Some(Asked { id: request.id.clone(), opener: Opener::of(&request.request), slot })
    }
}

/// The JSON-RPC error with which a server answers a request on an error status, if it does.
async fn refusal(response: reqwest::Response, to_request: bool) -> Option<ErrorData> {
    let status = response.status();
    let final_word =
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    if final_word || !to_request || body::media_type(&response) != JSON {
        return None;
    }
    body::whole(response).await.ok().and_then(|body| rpc_error(&body))
}

fn rpc_error(body: &[u8]) -> Option<ErrorData> {
    #[derive(serde::Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        error: &'a RawValue,
    }
    let body = wire::readable(body);
    let body: Body<'_> = serde_json::from_str(&body).ok()?;
    wire::error_data(body.error)
}

/// Follows a redirect that keeps method and body and stays within the origin; any other is not
/// followed, and its status is the answer.
fn redirect(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_method =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let same_origin = attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
    if keeps_method && same_origin && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

fn client_error(fault: Fault) -> Error {
    StreamableHttpError::Client(HttpFault(fault))
}
