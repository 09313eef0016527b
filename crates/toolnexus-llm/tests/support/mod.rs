//! What the tests of the client share: styles, tools, a transport double, waits with a limit.
#![allow(dead_code, reason = "each test file uses its own part")]

#[cfg(feature = "acp")]
pub(crate) mod agent;
pub(crate) mod double;
pub(crate) mod tools;
pub(crate) mod transcript;

use std::future::Future;
use std::time::Duration;

use futures::StreamExt as _;
use toolnexus_llm::{ClientError, ClientOptions, RunResult, RunStream, StreamEvent, Style};
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
    ModelServer::start(script).await.unwrap()
}

/// A hang must fail the test, not stop the suite. Never the thing that is measured.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("hangs")
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
