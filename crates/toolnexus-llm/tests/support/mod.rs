//! What the tests of the client share: styles, tools, a transport double, waits with a limit.
#![allow(dead_code, reason = "each test file uses its own part")]

#[cfg(feature = "acp")]
pub(crate) mod agent;
pub(crate) mod boundary;
pub(crate) mod double;
pub(crate) mod hooks;
pub(crate) mod log;
pub(crate) mod replay;
pub(crate) mod secrets;
pub(crate) mod tools;
pub(crate) mod transcript;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use toolnexus_core::Toolkit;
use toolnexus_llm::{
    Client, ClientError, ClientOptions, MetricEvent, MetricSink, RunResult, RunStream, StreamEvent, Style,
};
use toolnexus_testkit::model::{Dialect, ModelReply, ModelServer, Reply, Script};

/// All styles.
pub(crate) const STYLES: [Style; 3] = [Style::OpenAI, Style::Anthropic, Style::Gemini];

/// The styles whose messages have a `content`, for tests that spell out what is in it.
pub(crate) const CONTENT_STYLES: [Style; 2] = [Style::OpenAI, Style::Anthropic];

/// A credential that no request of a test may show outside its header.
pub(crate) const KEY: &str = "sk-test-123456";

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

/// Options for a server at `base_url`: model `m`, key [`KEY`], no retries.
pub(crate) fn options(style: Style, base_url: impl Into<String>) -> ClientOptions {
    secrets::watch();
    replay::every_run();
    ClientOptions {
        base_url: base_url.into(),
        style,
        model: "m".into(),
        api_key: KEY.into(),
        retries: Some(0),
        ..Default::default()
    }
}

pub(crate) async fn server(script: impl Into<Script>) -> ModelServer {
    secrets::watch();
    ModelServer::start(script).await.unwrap()
}

/// A hang must fail the test, not stop the suite. Never the thing that is measured.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("hangs")
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

impl Mode {
    /// Runs the prompt `hi` over these tools.
    pub(crate) async fn execute(self, client: &Client, toolkit: &Toolkit) -> Result<RunResult, ClientError> {
        match self {
            Mode::Run => within(client.run("hi", toolkit)).await,
            Mode::Stream => within(client.stream("hi", toolkit).finish()).await,
        }
    }
}

/// The metric events of a client, in the order in which they were told.
#[derive(Clone, Default)]
pub(crate) struct MetricLog(Arc<Mutex<Vec<MetricEvent>>>);

impl MetricLog {
    pub(crate) fn sink(&self) -> MetricSink {
        let log = self.clone();
        Arc::new(move |event: &MetricEvent| log.0.lock().unwrap().push(event.clone()))
    }

    pub(crate) fn all(&self) -> Vec<MetricEvent> {
        self.0.lock().unwrap().clone()
    }

    /// Each event as JSON, with its duration taken out.
    pub(crate) fn timeless(&self) -> Vec<serde_json::Value> {
        let untimed = |event: &MetricEvent| {
            let mut json = serde_json::to_value(event).unwrap();
            json.as_object_mut().unwrap().remove("ms").expect("every event has a duration");
            json
        };
        self.all().iter().map(untimed).collect()
    }

    /// Those of the events with this tag.
    pub(crate) fn of(&self, kind: &str) -> Vec<serde_json::Value> {
        self.timeless().into_iter().filter(|event| event["event"] == kind).collect()
    }
}

/// Everything a stream yields: its events, and the error it ends with, if it does.
pub(crate) async fn drain(mut stream: RunStream) -> (Vec<StreamEvent>, Option<ClientError>) {
    let mut events = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (events, Some(error));
            }
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

/// The result in the `done` event, which must be the last and only one.
pub(crate) fn done(events: &[StreamEvent]) -> &RunResult {
    let dones = events.iter().filter(|event| matches!(event, StreamEvent::Done { .. })).count();
    assert_eq!(dones, 1, "{events:?}");
    match events.last() {
        Some(StreamEvent::Done { result }) => result,
        other => panic!("the last event is {other:?}"),
    }
}

/// The `type` of each event, text deltas as `text`.
pub(crate) fn kinds(events: &[StreamEvent]) -> Vec<String> {
    events
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned())
        .collect()
}
