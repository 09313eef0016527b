//! From a request to a response.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming as RequestBody;
use serde_json::Value;
use tokio::task::JoinSet;

use super::body::{self, Abandonment, Body};
use super::script::Script;
use super::state::State;
use super::{AnswerMode, HttpEffect, HttpOptions, MessageRoute, RecordedHttpRequest};
use crate::mcp::engine::Engine;
use crate::mcp::message::{Incoming, RpcError, response as rpc_response};
use crate::mcp::outlet::{Outlet, Output};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// A fixture behind HTTP.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) engine: Arc<Engine>,
    pub(super) options: HttpOptions,
    pub(super) state: Arc<State>,
    /// Scripts that outlive the request that started them; they end with the server.
    pub(super) background: Mutex<JoinSet<()>>,
}

impl Server {
    /// Answers one request. An error closes the connection without an answer.
    pub(super) async fn respond(
        self: Arc<Self>,
        request: Request<RequestBody>,
    ) -> io::Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let request = RecordedHttpRequest::new(&parts, body);
        let watch = Abandonment::of(self.state.clone(), self.state.record(request.clone()));
        match self.state.effect(&self.options.faults, &request) {
            None => self.ordinary(&request, watch).await,
            Some(HttpEffect::Delay { ms }) => {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                self.ordinary(&request, watch).await
            }
            Some(HttpEffect::Drip { bytes, ms }) => {
                let (bytes, ms) = (*bytes, *ms);
                let response = self.ordinary(&request, watch).await?;
                Ok(response.map(|whole| body::drip(whole, bytes, ms)))
            }
            Some(HttpEffect::Respond { status, headers, body }) => {
                watch.complete();
                by_hand(*status, headers, body)
            }
            Some(HttpEffect::CutStream(sent)) => {
                watch.complete();
                let chunks = [Ok(Bytes::from(sent.clone())), Err(body::cut())];
                Ok(event_stream(body::stream(futures::stream::iter(chunks))))
            }
            Some(HttpEffect::SilentStream) => {
                let silence = watch.over(futures::stream::pending());
                Ok(event_stream(body::stream(silence)))
            }
            Some(HttpEffect::Silence) => std::future::pending().await,
            Some(HttpEffect::HangUp) => {
                watch.complete();
                Err(body::cut())
            }
        }
    }

    async fn ordinary(
        &self,
        request: &RecordedHttpRequest,
        watch: Abandonment,
    ) -> io::Result<Response<Body>> {
        if let Some((name, value)) = &self.options.required_header
            && request.header(name) != Some(value.as_str())
        {
            watch.complete();
            return Ok(with_header(status(StatusCode::UNAUTHORIZED), header::WWW_AUTHENTICATE, "Bearer"));
        }
        let path = request.path.split('?').next().unwrap_or_default();
        if let Some(endpoint) = &self.options.legacy_sse {
            return self.legacy(request, path, endpoint, watch);
        }
        if path != self.options.path {
            watch.complete();
            return Ok(status(StatusCode::NOT_FOUND));
        }
        match request.method.as_str() {
            "POST" => self.post(request, watch).await,
            "GET" if self.options.standing_stream => Ok(match self.refuse(request) {
                Some(refusal) => refused(refusal, watch),
                None => self.standing(None, watch),
            }),
            "DELETE" if self.options.delete => {
                watch.complete();
                Ok(self.refuse(request).unwrap_or_else(|| {
                    self.state.end_session(request.header(SESSION.as_str()).unwrap_or_default());
                    status(StatusCode::OK)
                }))
            }
            _ => {
                watch.complete();
                Ok(with_header(status(StatusCode::METHOD_NOT_ALLOWED), header::ALLOW, "POST"))
            }
        }
    }

    fn has_sessions(&self) -> bool {
        self.options.sessions && !self.engine.is_modern()
    }

    /// Refuses a request that is not of a known session, if there are sessions.
    fn refuse(&self, request: &RecordedHttpRequest) -> Option<Response<Body>> {
        if !self.has_sessions() {
            return None;
        }
        match request.header(SESSION.as_str()) {
            None => Some(refusal(StatusCode::BAD_REQUEST, -32000, "Bad Request: Mcp-Session-Id is required")),
            Some(id) if self.state.use_session(id, self.options.lose_session_after) => None,
            Some(_) => Some(refusal(StatusCode::NOT_FOUND, -32001, "Session not found")),
        }
    }

    async fn post(&self, request: &RecordedHttpRequest, watch: Abandonment) -> io::Result<Response<Body>> {
        let Ok(text) = std::str::from_utf8(&request.body) else {
            return Ok(refused(refusal(StatusCode::BAD_REQUEST, -32700, "Parse error"), watch));
        };
        let message = Incoming::parse(text);
        match &message {
            Incoming::Garbage => {
                return Ok(refused(refusal(StatusCode::BAD_REQUEST, -32700, "Parse error"), watch));
            }
            Incoming::Unknown => {
                return Ok(refused(refusal(StatusCode::BAD_REQUEST, -32600, "Invalid Request"), watch));
            }
            _ => {}
        }
        let initialize = request.rpc_method() == Some("initialize");
        if !initialize && let Some(refusal) = self.refuse(request) {
            return Ok(refused(refusal, watch));
        }
        let is_request = matches!(message, Incoming::Request { .. });
        let (outlet, outputs) = Outlet::new();
        let run = self.engine.receive(message, outlet);
        let Some(run) = run else {
            watch.complete();
            return Ok(status(StatusCode::ACCEPTED));
        };
        let script = Script::new(run, outputs);
        if !is_request {
            watch.complete();
            self.run_aside(script);
            return Ok(status(StatusCode::ACCEPTED));
        }
        let response = self.answer(script, watch).await?;
        if initialize && self.has_sessions() && response.status().is_success() {
            return Ok(with_header(response, SESSION, &self.state.issue_session()));
        }
        Ok(response)
    }

    /// Runs a script whose output goes to the standing streams.
    fn run_aside(&self, mut script: Script) {
        let state = self.state.clone();
        let mut tasks = self.background.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn(async move {
            while let Some(output) = script.next().await {
                state.push(output);
            }
        });
    }

    async fn answer(&self, script: Script, watch: Abandonment) -> io::Result<Response<Body>> {
        let state = self.state.clone();
        let standing =
            self.options.messages == MessageRoute::Standing || self.options.answers == AnswerMode::Json;
        let mut outputs = Box::pin(script.filter_map(move |output| {
            std::future::ready(match output {
                Output::Message(_) if standing => {
                    state.push(output);
                    None
                }
                Output::Stderr(_) => None,
                output => Some(output),
            })
        }));
        if self.options.answers == AnswerMode::Sse {
            return Ok(event_stream(body::stream(watch.over(body::events(outputs, self.options.event_ids)))));
        }
        loop {
            match outputs.next().await {
                Some(Output::Answer(answer)) => {
                    watch.complete();
                    return Ok(json(StatusCode::OK, answer));
                }
                None | Some(Output::End(_) | Output::CloseStdout) => {
                    watch.complete();
                    return Err(body::cut());
                }
                Some(first) if self.options.answers == AnswerMode::Auto => {
                    let outputs = futures::stream::iter([first]).chain(outputs);
                    let events = body::events(outputs, self.options.event_ids);
                    return Ok(event_stream(body::stream(watch.over(events))));
                }
                Some(_) => {}
            }
        }
    }

    /// An event stream for what belongs to no call, after these bytes.
    fn standing(&self, first: Option<String>, watch: Abandonment) -> Response<Body> {
        let (outlet, outputs) = Outlet::new();
        self.state.stand(outlet);
        let outputs = futures::stream::unfold(outputs, |mut outputs| async move {
            outputs.recv().await.map(|output| (output, outputs))
        });
        let first = first.map(|first| Ok(Bytes::from(first)));
        let events = futures::stream::iter(first).chain(body::events(outputs, self.options.event_ids));
        event_stream(body::stream(watch.over(events)))
    }

    /// The HTTP+SSE transport of 2024-11-05.
    fn legacy(
        &self,
        request: &RecordedHttpRequest,
        path: &str,
        endpoint: &str,
        watch: Abandonment,
    ) -> io::Result<Response<Body>> {
        if request.method == "GET" && path == self.options.path {
            return Ok(self.standing(Some(format!("event: endpoint\ndata: {endpoint}\n\n")), watch));
        }
        watch.complete();
        if request.method != "POST" || path == self.options.path {
            return Ok(with_header(status(StatusCode::METHOD_NOT_ALLOWED), header::ALLOW, "GET"));
        }
        if endpoint.split('?').next() != Some(path) {
            return Ok(status(StatusCode::NOT_FOUND));
        }
        let message = Incoming::parse(&String::from_utf8_lossy(&request.body));
        let (outlet, outputs) = Outlet::new();
        if let Some(run) = self.engine.receive(message, outlet) {
            self.run_aside(Script::new(run, outputs));
        }
        Ok(status(StatusCode::ACCEPTED))
    }
}

fn status(status: StatusCode) -> Response<Body> {
    with_status(Response::new(body::full("")), status)
}

fn with_status(mut response: Response<Body>, status: StatusCode) -> Response<Body> {
    *response.status_mut() = status;
    response
}

fn with_header(mut response: Response<Body>, name: HeaderName, value: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

fn json(status: StatusCode, text: String) -> Response<Body> {
    let response = with_status(Response::new(body::full(text)), status);
    with_header(response, header::CONTENT_TYPE, "application/json")
}

fn event_stream(body: Body) -> Response<Body> {
    with_header(Response::new(body), header::CONTENT_TYPE, "text/event-stream")
}

/// A JSON-RPC error without an id, as the SDKs' servers send with an error status.
fn refusal(status: StatusCode, code: i64, message: &str) -> Response<Body> {
    json(status, rpc_response(&Value::Null, Err(RpcError::new(code, message))))
}

fn refused(response: Response<Body>, watch: Abandonment) -> Response<Body> {
    watch.complete();
    response
}

fn by_hand(status: u16, headers: &[(String, String)], text: &str) -> io::Result<Response<Body>> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body::full(text.to_owned())).map_err(io::Error::other)
}
