//! What the tests of the handler share: a client that speaks to it without a socket.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use toolnexus_core::{Tool, ToolContext, Toolkit, define_tool};
use toolnexus_mcp::server::{McpBody, McpHandler, McpHandlerOptions, mcp_handler};
use tower::ServiceExt as _;

/// How long anything may take that is expected to happen, on the slowest of machines.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What comes of `future`, which must be there in time.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it did not happen in time")
}

/// A tool that gives its arguments back.
pub(crate) fn echo() -> Tool {
    define_tool("echo", "Gives its text back", None, |args: Value, _context| async move {
        Ok::<_, String>(args["text"].as_str().unwrap_or_default().to_owned())
    })
}

/// A tool of that name.
pub(crate) fn tool<F, Fut>(name: &str, run: F) -> Tool
where
    F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, toolnexus_core::BoxError>> + Send + 'static,
{
    define_tool(name, "", None, run)
}

/// A handler of these tools.
pub(crate) fn handler(tools: impl IntoIterator<Item = Tool>, options: McpHandlerOptions) -> McpHandler {
    mcp_handler(&Toolkit::from_tools(tools), options).unwrap()
}

/// A client of a handler.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) handler: McpHandler,
    pub(crate) headers: HeaderMap,
}

impl Client {
    /// A client without a session, which takes JSON and event streams.
    pub(crate) fn new(handler: &McpHandler) -> Self {
        let mut client = Client { handler: handler.clone(), headers: HeaderMap::new() };
        client.set("accept", "application/json, text/event-stream");
        client.set("content-type", "application/json");
        client
    }

    /// A client with a session at the newest revision that the handler speaks.
    pub(crate) async fn in_session(handler: &McpHandler, capabilities: Value) -> Self {
        Self::at(handler, "2025-11-25", capabilities).await
    }

    /// A client that asks for that revision, and its session.
    pub(crate) async fn at(handler: &McpHandler, version: &str, capabilities: Value) -> Self {
        let mut client = Client::new(handler);
        client.initialize(version, capabilities).await;
        client
    }

    /// Begins a session.
    pub(crate) async fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = self.send(request(0, "initialize", params)).await;
        assert_eq!(answer.status(), StatusCode::OK);
        if let Some(id) = answer.headers().get("mcp-session-id") {
            self.headers.insert("mcp-session-id", id.clone());
        }
        json_of(answer).await
    }

    /// The same with another value for a header; none for an empty one.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut client = self.clone();
        client.set(name, value);
        client
    }

    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        if value.is_empty() {
            self.headers.remove(name);
        } else {
            self.headers.insert(name, value.parse().unwrap());
        }
    }

    pub(crate) fn session_id(&self) -> String {
        self.headers["mcp-session-id"].to_str().unwrap().to_owned()
    }

    /// Sends a request of any method and body.
    pub(crate) async fn raw(&self, method: Method, body: impl Into<Bytes>) -> Response<McpBody> {
        soon(self.begin(method, body)).await
    }

    /// The same, however long the answer may take.
    pub(crate) fn begin(
        &self,
        method: Method,
        body: impl Into<Bytes>,
    ) -> impl Future<Output = Response<McpBody>> + Send + 'static {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = method;
        *request.headers_mut() = self.headers.clone();
        *request.uri_mut() = "/mcp?key=value".parse().unwrap();
        let answer = self.handler.clone().oneshot(request);
        async { answer.await.unwrap() }
    }

    /// Posts a message.
    pub(crate) async fn send(&self, message: Value) -> Response<McpBody> {
        self.raw(Method::POST, message.to_string()).await
    }

    /// Posts a request that is answered in JSON, and gives that.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let answer = self.send(request(1, method, params)).await;
        assert_eq!(answer.status(), StatusCode::OK);
        json_of(answer).await
    }

    /// Calls a tool whose result comes in JSON, and gives the whole answer.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Calls a tool that says something before its result.
    pub(crate) async fn stream(&self, name: &str, meta: Value) -> Events {
        let params = json!({"name": name, "arguments": {}, "_meta": meta});
        Events::of(self.send(request(1, "tools/call", params)).await)
    }

    /// Opens the stream for what concerns the session.
    pub(crate) async fn listen(&self) -> Events {
        Events::of(self.raw(Method::GET, "").await)
    }
}

/// A request.
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// A notification.
pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// The JSON of a body.
pub(crate) async fn json_of(answer: Response<McpBody>) -> Value {
    assert_eq!(answer.headers()["content-type"], "application/json");
    let body = soon(answer.into_body().collect()).await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// The text of a body.
pub(crate) async fn text_of(answer: Response<McpBody>) -> String {
    let body = soon(answer.into_body().collect()).await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// The text of a result.
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

/// The error's code and message.
pub(crate) fn error(answer: &Value) -> (i64, &str) {
    let error = &answer["error"];
    (
        error["code"].as_i64().unwrap_or_else(|| panic!("no error in {answer}")),
        error["message"].as_str().unwrap(),
    )
}

/// One event, taken apart.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) retry: Option<u64>,
    pub(crate) data: Option<String>,
    pub(crate) comment: bool,
}

impl Event {
    /// The message that it carries.
    pub(crate) fn message(&self) -> Value {
        serde_json::from_str(self.data.as_deref().unwrap()).unwrap()
    }
}

/// An event stream.
pub(crate) struct Events {
    body: McpBody,
}

impl Events {
    pub(crate) fn of(answer: Response<McpBody>) -> Self {
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Events { body: answer.into_body() }
    }

    /// The next event, comments included; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let frame = soon(self.body.frame()).await?.unwrap();
        let chunk = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        let event = chunk.strip_suffix("\n\n").unwrap();
        assert!(!event.contains("\n\n"), "one event at a time: {chunk:?}");
        let mut read = Event::default();
        for line in event.lines() {
            match line.split_once(": ").unwrap() {
                ("", _) => read.comment = true,
                ("id", id) => read.id = Some(id.to_owned()),
                ("retry", retry) => read.retry = Some(retry.parse().unwrap()),
                ("data", data) => read.data = Some(data.to_owned()),
                other => panic!("{other:?}"),
            }
        }
        Some(read)
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Value {
        loop {
            let event = self.next().await.expect("the stream ended");
            if event.data.as_deref().is_some_and(|data| !data.is_empty()) {
                return event.message();
            }
        }
    }

    /// All messages to the end.
    pub(crate) async fn messages(mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(event) = self.next().await {
            if event.data.as_deref().is_some_and(|data| !data.is_empty()) {
                messages.push(event.message());
            }
        }
        messages
    }

    /// Whether there is nothing to read now.
    pub(crate) fn is_quiet(&mut self) -> bool {
        futures::FutureExt::now_or_never(self.body.frame()).is_none()
    }
}

/// Waits until something holds that other tasks bring about.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what} did not happen in time");
        tokio::task::yield_now().await;
    }
}
