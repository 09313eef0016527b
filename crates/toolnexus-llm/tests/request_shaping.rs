//! `request_params` and `body_transform` on runs and streams of every style.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::hooks::{Watch, adding};
use support::tools::{add, object};
use support::{CONTENT_STYLES, every_way, options, server, within};
use toolnexus_core::{Style, Toolkit};
use toolnexus_llm::{ClientError, ClientOptions, create_client};
use toolnexus_testkit::warnings::Warnings;

// CLIENT-18, CLIENT-19, case B7: on every path, in every turn
#[tokio::test]
async fn params_are_merged_on_every_path() {
    for (style, mode) in every_way() {
        let params = json!({"temperature": 0.42, "chat_template_kwargs": {"enable_thinking": false}});
        let server = server(adding(style)).await;
        let client = create_client(ClientOptions {
            request_params: object(params.clone()),
            ..options(style, server.base_url())
        });
        mode.execute(&client, &Toolkit::from_tools([add()])).await.unwrap();
        assert_eq!(server.request_count(), 2);
        for request in server.requests() {
            let body = request.json();
            for key in ["temperature", "chat_template_kwargs"] {
                assert_eq!(body[key], params[key], "{style:?} {mode:?}");
            }
        }
    }
}

// CLIENT-20, case B9: one warning for each client and key
#[tokio::test]
async fn a_key_that_is_not_allowed_is_warned_of_once() {
    let style = Style::OpenAI;
    let warnings = Warnings::listen();
    let params = object(json!({"messages": ["no"], "tools": [1], "stream": true, "contents": [], "seed": 1}));
    for _client in 0..2 {
        let double = Double::new([Answer::text(style, "ok"), Answer::text(style, "ok")]);
        let client = create_client(ClientOptions { request_params: params.clone(), ..double.options(style) });
        for _run in 0..2 {
            within(client.run("hi", &Toolkit::default())).await.unwrap();
        }
        let line = |key: &str| {
            format!("[toolnexus] request_params key \"{key}\" is not allowed — ignored (use body_transform)")
        };
        assert_eq!(warnings.take(), ["messages", "tools", "stream"].map(line));
        // Another style's key is the caller's own.
        assert_eq!(double.body(0)["contents"], json!([]));
    }
}

// CLIENT-21, case B10: what a transform changes is seen on the wire alone
#[tokio::test]
async fn a_transform_changes_the_wire_alone() {
    for (style, mode) in every_way() {
        let server = server(adding(style)).await;
        let (watch, hooks) = Watch::new();
        let client = create_client(ClientOptions {
            hooks: Some(hooks),
            body_transform: Some(Arc::new(move |mut body: Value| {
                let key = if style == Style::Gemini { "contents" } else { "messages" };
                let last = body[key].as_array_mut().unwrap().last_mut().unwrap();
                last["injected"] = json!("/nothink");
                body
            })),
            ..options(style, server.base_url())
        });
        let result = mode.execute(&client, &Toolkit::from_tools([add()])).await.unwrap();
        // Each request has the change in its own last message, and not those of requests before.
        assert!(server.requests().iter().all(|request| request.text().matches("/nothink").count() == 1));
        let shown = watch.before_llm.all().iter().map(|event| json!(event.messages)).collect::<Vec<_>>();
        let seen = json!([result, shown]).to_string();
        assert!(!seen.contains("/nothink"), "{style:?} {mode:?}");
    }
}

// CLIENT-21, case B13
#[tokio::test]
async fn a_transform_returns_the_body_or_null() {
    for style in CONTENT_STYLES {
        let double = Double::new([Answer::text(style, "ok"), Answer::text(style, "ok")]);
        let plain = create_client(double.options(style));
        within(plain.run("hi", &Toolkit::default())).await.unwrap();
        let null = ClientOptions { body_transform: Some(Arc::new(|_| Value::Null)), ..double.options(style) };
        within(create_client(null).run("hi", &Toolkit::default())).await.unwrap();
        assert_eq!(double.body(0), double.body(1));
        let text = ClientOptions { body_transform: Some(Arc::new(|_| json!("x"))), ..double.options(style) };
        let error = within(create_client(text).run("hi", &Toolkit::default())).await.unwrap_err();
        assert!(matches!(&error, ClientError::Config(text) if text.contains("body_transform")), "{error:?}");
        assert_eq!(double.count(), 2);
    }
}

// CLIENT-21: once for a call, whatever its attempts; each attempt sends the same bytes
#[tokio::test(start_paused = true)]
async fn a_transform_runs_once_for_all_attempts() {
    let calls = support::hooks::Seen::new();
    let kept = calls.clone();
    let double = Double::new([Answer::status(503, &[], "no"), Answer::text(Style::OpenAI, "ok")]);
    let client = create_client(ClientOptions {
        retries: Some(1),
        body_transform: Some(Arc::new(move |mut body: Value| {
            kept.push(());
            body["call"] = json!(kept.all().len());
            body
        })),
        ..double.options(Style::OpenAI)
    });
    client.run("hi", &Toolkit::default()).await.unwrap();
    assert_eq!((calls.all().len(), double.count()), (1, 2));
    assert_eq!(double.body(0), double.body(1));
}

// CLIENT-146: structured output has no option of its own, it goes through the parameters; there is no
// further style to choose, and no translation into Gemini's
#[tokio::test]
async fn what_is_not_offered_has_its_way_or_its_refusal() {
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "object"}}});
    let double = Double::new([Answer::text(Style::OpenAI, r#"{"city":"Oslo"}"#)]);
    let client = create_client(ClientOptions {
        request_params: object(json!({"response_format": format})),
        ..double.options(Style::OpenAI)
    });
    let result = client.run("where?", &Toolkit::default()).await.unwrap();
    assert_eq!(result.text, r#"{"city":"Oslo"}"#);
    assert_eq!(double.body(0)["response_format"], format);

    assert_eq!(Style::from("responses"), Style::OpenAI);
    let double = Double::new([]);
    let error = create_client(double.options(Style::Gemini)).translate(Default::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::Unsupported(_)), "{error}");
    assert_eq!(double.count(), 0);
}
