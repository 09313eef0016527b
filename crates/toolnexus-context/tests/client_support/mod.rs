//! What the tests of a client with a boundary share: scripted models, tools and hooks that keep what
//! they are given.
#![allow(dead_code, clippy::expect_used, reason = "tests; each file uses its own part")]

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use toolnexus_context::{CallAudit, ContextObserver, ContextOptions, ModelPayload, RegistryConfig};
use toolnexus_core::{Style, Tool, ToolContext, ToolResult, Toolkit, define_tool};
use toolnexus_llm::{
    AfterLlmEvent, AfterToolEvent, BeforeLlmEvent, BeforeToolEvent, Client, ClientError, ClientOptions,
    Hooks, Message, MetricEvent, MetricSink, ModelBoundary, RunOptions, RunResult, RunStream, StreamEvent,
    StreamOptions,
};
use toolnexus_testkit::model::{Dialect, ModelReply, ModelServer, Reply, Script};

/// All styles.
pub(crate) const STYLES: [Style; 3] = [Style::OpenAI, Style::Anthropic, Style::Gemini];

pub(crate) fn dialect(style: Style) -> Dialect {
    match style {
        Style::OpenAI => Dialect::OpenAi,
        Style::Anthropic => Dialect::Anthropic,
        Style::Gemini => Dialect::Gemini,
    }
}

/// A turn of a model in the words of `style`.
pub(crate) fn reply(style: Style) -> ModelReply {
    Reply::model(dialect(style))
}

pub(crate) async fn server(script: impl Into<Script>) -> ModelServer {
    ModelServer::start(script).await.unwrap()
}

/// Options for a server, without a boundary.
pub(crate) fn plain(style: Style, server: &ModelServer) -> ClientOptions {
    ClientOptions {
        base_url: server.base_url(),
        style,
        model: "m".into(),
        api_key: "sk-test-123456".into(),
        retries: Some(0),
        ..Default::default()
    }
}

/// Options for a server, with a boundary of this configuration.
pub(crate) fn options(style: Style, server: &ModelServer, config: RegistryConfig) -> ClientOptions {
    ClientOptions { boundary: Some(boundary(config)), ..plain(style, server) }
}

pub(crate) fn boundary(config: RegistryConfig) -> Arc<dyn ModelBoundary> {
    Arc::new(ContextOptions::new(config).unwrap())
}

/// A hang must fail the test, not stop the suite. Never the thing that is measured.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("hangs")
}

/// The two ways to drive a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Run,
    Stream,
}

/// Every style, run and streamed.
pub(crate) fn every_way() -> impl Iterator<Item = (Style, Mode)> {
    STYLES.into_iter().flat_map(|style| [Mode::Run, Mode::Stream].map(|mode| (style, mode)))
}

/// A run's events and its result.
pub(crate) struct Told {
    pub(crate) events: Vec<StreamEvent>,
    pub(crate) result: RunResult,
}

impl Mode {
    pub(crate) async fn run(self, client: &Client, toolkit: &Toolkit, prompt: &str) -> RunResult {
        self.tell(client, toolkit, prompt, "").await.result
    }

    /// Runs a prompt in a conversation; with all that was told of it.
    pub(crate) async fn tell(self, client: &Client, toolkit: &Toolkit, prompt: &str, id: &str) -> Told {
        match self {
            Mode::Run => {
                let events = Seen::new();
                let kept = events.clone();
                let on_event: toolnexus_llm::EventSink =
                    Arc::new(move |event: &StreamEvent| kept.push(event.clone()));
                let options = RunOptions { id: id.into(), on_event: Some(on_event), ..Default::default() };
                let result = within(client.run_with(prompt, toolkit, options)).await.unwrap();
                Told { events: events.all(), result }
            }
            Mode::Stream => {
                let options = StreamOptions { id: id.into(), ..Default::default() };
                let (events, error) = within(drain(client.stream_with(prompt, toolkit, options))).await;
                assert!(error.is_none(), "{error:?}");
                let Some(StreamEvent::Done { result }) = events.last() else { panic!("{events:?}") };
                let result = (**result).clone();
                Told { events, result }
            }
        }
    }
}

/// Everything a stream yields: its events, and the error it ends with, if it does.
pub(crate) async fn drain(mut stream: RunStream) -> (Vec<StreamEvent>, Option<ClientError>) {
    let mut events = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// The deltas of the text events.
pub(crate) fn deltas(events: &[StreamEvent]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Text { delta } => Some(delta.as_str()),
            _ => None,
        })
        .collect()
}

/// The `type` of each event.
pub(crate) fn kinds(events: &[StreamEvent]) -> Vec<String> {
    events.iter().map(|event| json!(event)["type"].as_str().unwrap().to_owned()).collect()
}

/// Keeps what it is given.
pub(crate) struct Seen<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Seen(Arc::clone(&self.0))
    }
}

impl<T: Clone> Seen<T> {
    pub(crate) fn new() -> Self {
        Seen(Arc::default())
    }

    pub(crate) fn push(&self, value: T) {
        self.0.lock().unwrap().push(value);
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A tool that answers with `run` and keeps its arguments.
pub(crate) fn tool(
    name: &str,
    run: impl Fn(&Value) -> ToolResult + Send + Sync + 'static,
) -> (Tool, Seen<Value>) {
    let seen = Seen::new();
    let kept = seen.clone();
    let tool = define_tool(name, name, None, move |args: Value, _context: ToolContext| {
        let result = run(&args);
        kept.push(args);
        async move { result }
    });
    (tool, seen)
}

/// A tool that always says the same.
pub(crate) fn fixed(name: &str, output: &str) -> Tool {
    let output = output.to_owned();
    tool(name, move |_| ToolResult::success(output.as_str())).0
}

/// What all four hooks were given, as JSON.
#[derive(Clone)]
pub(crate) struct Hooked {
    pub(crate) before_llm: Seen<Value>,
    pub(crate) after_llm: Seen<Value>,
    pub(crate) before_tool: Seen<Value>,
    pub(crate) after_tool: Seen<Value>,
}

impl Hooked {
    pub(crate) fn new() -> (Self, Hooks) {
        let hooked = Hooked {
            before_llm: Seen::new(),
            after_llm: Seen::new(),
            before_tool: Seen::new(),
            after_tool: Seen::new(),
        };
        let [a, b, c, d] = [(); 4].map(|()| hooked.clone());
        let hooks = Hooks::default()
            .with_before_llm(move |event: BeforeLlmEvent| {
                a.before_llm.push(json!({"messages": event.messages, "tools": *event.tools}));
                async { Ok(None) }
            })
            .with_after_llm(move |event: AfterLlmEvent| {
                b.after_llm.push(event.response);
                async { Ok(()) }
            })
            .with_before_tool(move |event: BeforeToolEvent| {
                c.before_tool.push(json!({"name": event.name, "args": event.args, "id": event.id}));
                async { Ok(None) }
            })
            .with_after_tool(move |event: AfterToolEvent| {
                d.after_tool.push(
                    json!({"name": event.name, "args": event.args, "id": event.id, "result": event.result}),
                );
                async { Ok(None) }
            });
        (hooked, hooks)
    }

    /// All of it.
    pub(crate) fn all(&self) -> Value {
        json!([self.before_llm.all(), self.after_llm.all(), self.before_tool.all(), self.after_tool.all()])
    }
}

/// The metric events of a client.
#[derive(Clone)]
pub(crate) struct Metrics(Seen<MetricEvent>);

impl Metrics {
    pub(crate) fn new() -> Self {
        Metrics(Seen::new())
    }

    pub(crate) fn sink(&self) -> MetricSink {
        let seen = self.0.clone();
        Arc::new(move |event: &MetricEvent| seen.push(event.clone()))
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        self.0.all().iter().map(|event| json!(event)).collect()
    }

    /// Name and `is_error` of each tool event.
    pub(crate) fn tools(&self) -> Vec<(String, bool)> {
        let of_tools = self.json().into_iter().filter(|event| event["event"] == "tool");
        of_tools
            .map(|event| (event["tool"].as_str().unwrap().to_owned(), event["is_error"].as_bool().unwrap()))
            .collect()
    }
}

/// An observer that keeps everything.
#[derive(Clone)]
pub(crate) struct Audit {
    pub(crate) calls: Seen<CallAudit>,
    /// System text and messages of each request.
    pub(crate) requests: Seen<(String, Vec<Message>)>,
    pub(crate) answers: Seen<Value>,
}

impl Audit {
    pub(crate) fn new() -> Self {
        Audit { calls: Seen::new(), requests: Seen::new(), answers: Seen::new() }
    }

    /// A boundary that is watched.
    pub(crate) fn boundary(&self, config: RegistryConfig) -> Arc<dyn ModelBoundary> {
        Arc::new(ContextOptions::new(config).unwrap().observer(self.clone()))
    }
}

impl ContextObserver for Audit {
    fn call_decoded(&self, call: &CallAudit) {
        self.calls.push(call.clone());
    }

    fn request_encoded(&self, payload: &ModelPayload<'_>) {
        self.requests.push((payload.system.to_owned(), payload.messages.to_vec()));
    }

    fn answer_received(&self, message: &Value) {
        self.answers.push(message.clone());
    }
}

/// The messages in a request body.
pub(crate) fn sent(style: Style, body: &Value) -> &Vec<Value> {
    body[if style == Style::Gemini { "contents" } else { "messages" }].as_array().unwrap()
}

/// The system text in a request body.
pub(crate) fn system_of(style: Style, body: &Value) -> String {
    match style {
        Style::OpenAI => body["messages"][0]["content"].clone(),
        Style::Anthropic => body["system"].clone(),
        Style::Gemini => body["systemInstruction"]["parts"][0]["text"].clone(),
    }
    .as_str()
    .unwrap_or_default()
    .to_owned()
}

/// The texts of the tool results among messages.
pub(crate) fn result_texts(messages: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            found.push(message["content"].clone());
        }
        let lists = [&message["content"], &message["parts"]];
        for block in lists.into_iter().filter_map(Value::as_array).flatten() {
            if block["type"] == "tool_result" {
                found.push(block["content"].clone());
            }
            if let Some(response) = block.get("functionResponse") {
                found.push(response["response"]["output"].clone());
            }
        }
    }
    found.into_iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The arguments of the tool calls among messages.
pub(crate) fn call_args(messages: &[Value]) -> Vec<Value> {
    let mut found = Vec::new();
    for message in messages {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let text = call["function"]["arguments"].as_str().unwrap();
            found.push(serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
        }
        for block in message["content"].as_array().into_iter().flatten() {
            found.extend((block["type"] == "tool_use").then(|| block["input"].clone()));
        }
        for part in message["parts"].as_array().into_iter().flatten() {
            found.extend(part.get("functionCall").map(|call| call["args"].clone()));
        }
    }
    found
}

/// Messages as plain values.
pub(crate) fn values(messages: &[Message]) -> Vec<Value> {
    messages.iter().map(|message| message.value().clone()).collect()
}
