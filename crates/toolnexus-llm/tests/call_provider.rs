//! `call_provider`: one call of the model with the caller's own body.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use support::double::{Answer, Double};
use support::hooks::Watch;
use support::tools::object;
use support::{KEY, STYLES, options, reply, server, within};
use tokio::sync::oneshot;
use toolnexus_llm::{
    BoundarySession, ClientError, ClientOptions, ErrorInfo, ModelBoundary, PromptCacheOptions, Style, Tier,
    ToolTierOptions, create_client,
};

/// A body of this style's own, with what no run would send.
fn body(style: Style) -> Map<String, Value> {
    object(match style {
        Style::OpenAI => json!({
            "messages": [{"role": "user", "content": "hi"}], "tools": [{"mine": 1}], "model": "mine", "seed": 7,
        }),
        Style::Anthropic => json!({
            "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "model": "mine", "system": "S",
            "tools": [{"name": "mine", "input_schema": {}}],
        }),
        Style::Gemini => {
            json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "tools": [{"mine": 1}]})
        }
    })
}

/// A boundary that must not be asked.
struct Unwanted;

impl ModelBoundary for Unwanted {
    fn open(&self, _style: Style) -> Box<dyn BoundarySession> {
        panic!("call_provider has no boundary")
    }
}

// CLIENT-23, CLIENT-6, CLIENT-11, CLIENT-12: the body as given, to the endpoint of runs, and the decoded JSON
#[tokio::test]
async fn the_callers_body_is_sent_as_it_is() {
    for style in STYLES {
        let server = server(reply(style).text("hello").usage(3, 2)).await;
        let (watch, hooks) = Watch::new();
        // Nothing of this applies.
        let client = create_client(ClientOptions {
            hooks: Some(hooks),
            boundary: Some(Arc::new(Unwanted)),
            prompt_cache: Some(PromptCacheOptions { key: Some("k".into()), long_ttl: true }),
            tool_tiers: Some(ToolTierOptions::default()),
            system_prompt: "SYSTEM".into(),
            headers: [("x-mine".to_owned(), "yes".to_owned())].into_iter().collect(),
            ..options(style, server.base_url())
        });
        let answer = within(client.call_provider(body(style))).await.unwrap();

        let request = &server.requests()[0];
        assert_eq!(request.text(), Value::Object(body(style)).to_string(), "byte for byte, in its own order");
        let text = match style {
            Style::OpenAI => &answer["choices"][0]["message"]["content"],
            Style::Anthropic => &answer["content"][0]["text"],
            Style::Gemini => &answer["candidates"][0]["content"]["parts"][0]["text"],
        };
        assert_eq!(text, "hello");
        let (path, header, value) = match style {
            Style::OpenAI => ("/v1/chat/completions", "authorization", format!("Bearer {KEY}")),
            Style::Anthropic => ("/v1/messages", "x-api-key", KEY.to_owned()),
            Style::Gemini => ("/v1/models/m:generateContent", "x-goog-api-key", KEY.to_owned()),
        };
        assert_eq!((request.path(), request.header(header)), (path, Some(value.as_str())));
        assert_eq!(request.header("x-mine"), Some("yes"));
        assert!(watch.order.all().is_empty());
        let metrics = client.metrics();
        let model = if style == Style::Gemini { "m" } else { "mine" };
        assert!(
            metrics.contains(&format!("requests_total{{model=\"{model}\",status=\"ok\"}} 1")),
            "{metrics}"
        );
    }
}

// CLIENT-23, CLIENT-152: a Gemini body may name the model of its URL
#[tokio::test]
async fn a_gemini_body_may_name_its_model() {
    let server = server(reply(Style::Gemini).text("hello")).await;
    let client = create_client(options(Style::Gemini, server.base_url()));
    let mut named = body(Style::Gemini);
    named.insert("model".into(), json!("tunedModels/t"));
    within(client.call_provider(named)).await.unwrap();
    let request = &server.requests()[0];
    assert_eq!(request.path(), "/v1/tunedModels/t:generateContent");
    assert_eq!(request.json(), Value::Object(body(Style::Gemini)));
}

// CLIENT-23, CLIENT-19, CLIENT-20, CLIENT-21: shaped like the body of a run
#[tokio::test]
async fn the_body_is_shaped() {
    for style in STYLES {
        let server = server(reply(style).text("hello")).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let client = create_client(ClientOptions {
            request_params: object(
                json!({"temperature": 0.5, "messages": ["no"], "tools": [], "seed": null}),
            ),
            body_transform: Some(Arc::new(move |mut body| {
                kept.lock().unwrap().push(body.clone());
                body["injected"] = json!(true);
                body
            })),
            ..options(style, server.base_url())
        });
        within(client.call_provider(body(style))).await.unwrap();
        let mut expected = Value::Object(body(style));
        expected["temperature"] = json!(0.5);
        expected["seed"] = Value::Null;
        let shown = &seen.lock().unwrap()[0];
        let mut without_model = shown.clone();
        if style == Style::Gemini {
            assert_eq!(without_model.as_object_mut().unwrap().shift_remove("model"), Some(json!("m")));
        }
        assert_eq!(without_model, expected, "{style:?}");
        expected["injected"] = json!(true);
        assert_eq!(server.requests()[0].json(), expected);
    }
}

// CLIENT-23, CLIENT-92, CLIENT-94: retries, with the classifier
#[tokio::test(start_paused = true)]
async fn failed_attempts_are_retried() {
    let infos = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&infos);
    let double = Double::new([
        Answer::status(503, &[("Retry-After", "3")], "busy"),
        Answer::Fail("down"),
        Answer::text(Style::OpenAI, "ok"),
    ]);
    let client = create_client(ClientOptions {
        retries: Some(2),
        on_error: Some(Arc::new(move |info: &ErrorInfo| {
            kept.lock().unwrap().push((info.status, info.attempt));
            Tier::Retry
        })),
        ..double.options(Style::OpenAI)
    });
    client.call_provider(body(Style::OpenAI)).await.unwrap();
    assert_eq!(*infos.lock().unwrap(), [(Some(503), 0), (None, 1)]);
    assert_eq!(double.waits()[0].as_secs(), 3);
}

// CLIENT-23, CLIENT-99, CLIENT-103
#[tokio::test(start_paused = true)]
async fn the_deadline_bounds_it() {
    let (held, dropped) = oneshot::channel();
    let double = Double::new([Answer::Hang(held)]);
    let client = create_client(ClientOptions { timeout_ms: 200, ..double.options(Style::OpenAI) });
    let error = client.call_provider(body(Style::OpenAI)).await.unwrap_err();
    assert_eq!(error.to_string(), "run timeout after 200ms");
    dropped.await.unwrap_err();
}

// CLIENT-23, CLIENT-104, CLIENT-106, CLIENT-32, CLIENT-1, CLIENT-9: the errors of a run
#[tokio::test]
async fn errors_are_those_of_a_run() {
    let style = Style::OpenAI;
    let double = Double::new([
        Answer::status(402, &[("Retry-After", "3")], r#"{"user_id":"u"}"#),
        Answer::status(200, &[], "<html>"),
        Answer::json(&json!({"error": {"message": "odd gateway"}})),
    ]);
    let client = create_client(double.options(style));
    let Err(ClientError::Provider(error)) = within(client.call_provider(body(style))).await else { panic!() };
    assert_eq!((error.status, error.body.as_str()), (402, r#"{"user_id":"«redacted»"}"#));
    assert_eq!(error.retry_after.as_deref(), Some("3"));
    let error = within(client.call_provider(body(style))).await.unwrap_err();
    assert!(matches!(&error, ClientError::InvalidResponse(text) if text.contains("<html>")), "{error:?}");
    // Any JSON is the caller's to judge.
    let answer = within(client.call_provider(body(style))).await.unwrap();
    assert_eq!(answer["error"]["message"], "odd gateway");

    let unconfigured = create_client(ClientOptions { api_key: "".into(), ..double.options(style) });
    let error = within(unconfigured.call_provider(body(style))).await.unwrap_err();
    assert!(matches!(&error, ClientError::Config(text) if text.starts_with("no API key")), "{error:?}");
    let odd = create_client(ClientOptions {
        body_transform: Some(Arc::new(|_| json!("text"))),
        ..double.options(style)
    });
    let error = within(odd.call_provider(body(style))).await.unwrap_err();
    assert!(matches!(error, ClientError::Config(_)), "{error:?}");
    assert_eq!(double.count(), 3);
}

// CLIENT-23: whole answers alone
#[tokio::test]
async fn a_stream_is_refused() {
    for style in STYLES {
        let double = Double::new([Answer::text(style, "ok")]);
        let client = create_client(double.options(style));
        let mut streaming = body(style);
        streaming.insert("stream".into(), json!(true));
        let error = within(client.call_provider(streaming.clone())).await.unwrap_err();
        assert!(matches!(&error, ClientError::Unsupported(text) if text.contains("\"stream\"")), "{error:?}");
        assert_eq!(double.count(), 0);
        // Anything else there is the caller's own.
        streaming.insert("stream".into(), json!(false));
        within(client.call_provider(streaming)).await.unwrap();
        assert_eq!(double.body(0)["stream"], json!(false));
    }
}

// CLIENT-23: nothing is remembered
#[tokio::test]
async fn nothing_is_remembered() {
    let double = Double::new([Answer::text(Style::OpenAI, "ok")]);
    let client = create_client(double.options(Style::OpenAI));
    within(client.call_provider(body(Style::OpenAI))).await.unwrap();
    for id in ["", "m", "mine"] {
        assert_eq!(client.conversation_store().get(id).await.unwrap(), None);
    }
}
