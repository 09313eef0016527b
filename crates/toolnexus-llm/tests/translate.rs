//! `Client::translate`: what is sent, what comes back, and the loop's own path in between.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use support::double::{Answer, Double};
use support::tools::recorded;
use support::{CONTENT_STYLES, KEY, options, reply, server, within};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolnexus_core::content::PartErrorCode;
use toolnexus_core::{ToolResult, Toolkit};
use toolnexus_llm::translate::{TranslateRequest, TranslateResult, tool_calls_json};
use toolnexus_llm::{ClientError, ClientOptions, Style, Usage, create_client};
use toolnexus_testkit::model::Script;

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn request(messages: impl IntoIterator<Item = Value>) -> TranslateRequest {
    TranslateRequest { messages: messages.into_iter().collect(), ..Default::default() }
}

fn sent(double: &Double, at: usize) -> String {
    String::from_utf8(double.seen()[at].request.body.to_bytes().to_vec()).unwrap()
}

/// The body of one request, answered by a plain text.
async fn body_of(
    style: Style,
    request: TranslateRequest,
    change: impl FnOnce(ClientOptions) -> ClientOptions,
) -> String {
    let double = Double::new([Answer::text(style, "ok")]);
    create_client(change(double.options(style))).translate(request).await.unwrap();
    sent(&double, 0)
}

async fn answered(style: Style, answer: &Value) -> Result<TranslateResult, ClientError> {
    let double = Double::new([Answer::json(answer)]);
    create_client(double.options(style)).translate(request([user("hi")])).await
}

fn full_request() -> TranslateRequest {
    TranslateRequest {
        messages: vec![user("hi"), json!("no object")],
        tools: vec![
            json!({"type": "function", "function": {"name": "ping", "description": "Pings", "parameters": {"type": "object"}}}),
            json!({"type": "function", "function": {"name": "ping"}}),
        ],
        tool_choice: Some(json!("required")),
        system: Some("Be brief.".into()),
        max_tokens: 7,
        ..Default::default()
    }
}

// CORE-103, CORE-105, CORE-107, CORE-108
#[tokio::test]
async fn an_openai_body_is_what_was_given() {
    assert_eq!(
        body_of(Style::OpenAI, full_request(), |options| options).await,
        concat!(
            r#"{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}],"#,
            r#""tools":[{"type":"function","function":{"name":"ping","description":"Pings","parameters":"#,
            r#"{"type":"object","properties":{}}}}],"tool_choice":"required","max_tokens":7}"#
        )
    );
    let plain = TranslateRequest { tool_choice: Some(json!("auto")), ..request([user("hi")]) };
    assert_eq!(
        body_of(Style::OpenAI, plain, |options| options).await,
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#
    );
}

// CORE-103, CORE-105, CORE-111, CORE-123
#[tokio::test]
async fn an_anthropic_body_is_translated() {
    assert_eq!(
        body_of(Style::Anthropic, full_request(), |options| options).await,
        concat!(
            r#"{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"hi"}],"system":"Be brief.","#,
            r#""tools":[{"name":"ping","description":"Pings","input_schema":{"type":"object"}}],"#,
            r#""tool_choice":{"type":"any"}}"#
        )
    );
    let plain = TranslateRequest { tool_choice: Some(json!("required")), ..request([user("hi")]) };
    assert_eq!(
        body_of(Style::Anthropic, plain, |options| options).await,
        r#"{"model":"m","max_tokens":4096,"messages":[{"role":"user","content":"hi"}]}"#
    );
}

// CORE-108, CORE-111, cases 66 and 80
#[tokio::test]
async fn one_system_text_is_sent() {
    let client_prompt = |options| ClientOptions { system_prompt: "C".into(), ..options };
    let body = async |style, request| -> Value {
        serde_json::from_str(&body_of(style, request, client_prompt).await).unwrap()
    };
    let overriding = TranslateRequest { system: Some("three words".into()), ..request([user("hi")]) };
    let sent = body(Style::OpenAI, overriding).await;
    assert_eq!(sent["messages"], json!([{"role": "system", "content": "three words"}, user("hi")]));

    for role in ["system", "developer"] {
        let own = json!({"role": role, "content": "T"});
        let with_own = || request([own.clone(), user("hi")]);
        assert_eq!(body(Style::OpenAI, with_own()).await["messages"], json!([own, user("hi")]));
        assert_eq!(body(Style::Anthropic, with_own()).await["system"], "T");
        let both = || TranslateRequest { system: Some("R".into()), ..with_own() };
        assert_eq!(body(Style::OpenAI, both()).await["messages"], json!([own, user("hi")]));
        assert_eq!(body(Style::Anthropic, both()).await["system"], "R");
    }
    assert_eq!(body(Style::Anthropic, request([user("hi")])).await["system"], "C");
    let blank = TranslateRequest { system: Some("  ".into()), ..request([user("hi")]) };
    assert_eq!(body(Style::Anthropic, blank).await["system"], "C");
}

// CORE-104, CORE-110, case 65
#[tokio::test]
async fn an_openai_answer_is_returned_as_it_was_sent() {
    let raw = json!({
        "id": "x",
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{ \"city\":\"Madurai\" }"}},
            {"id": "c2", "type": "custom"},
            {"id": "c3", "function": {"name": "a", "arguments": {"b": 1}}},
            {"id": "c4", "function": {"name": "a"}},
        ]}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    });
    let result = answered(Style::OpenAI, &raw).await.unwrap();
    assert_eq!((result.text.as_str(), result.finish_reason.as_str()), ("", "tool_calls"));
    let calls: Vec<_> =
        result.tool_calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("c1", "{ \"city\":\"Madurai\" }"), ("c3", r#"{"b":1}"#), ("c4", "{}")]);
    let usage = Usage { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7, ..Default::default() };
    assert_eq!((result.model.as_str(), result.usage, &result.raw), ("m", usage, &raw));
    let keys: Vec<String> =
        serde_json::to_value(&result).unwrap().as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["text", "toolCalls", "finishReason", "usage", "model", "raw"]);
}

// CORE-112, CORE-113, CORE-124, CORE-74, cases 62 and 64
#[tokio::test]
async fn an_anthropic_answer_comes_back_in_openai_shapes() {
    let raw = json!({"stop_reason": "tool_use", "content": [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "calling "}, {"type": "text", "text": "three"},
        {"type": "tool_use", "id": "t1", "name": "w", "input": {"city": "Chennai"}},
        {"type": "tool_use", "id": "t2", "name": "w", "input": null},
        {"type": "tool_use", "id": "t3", "name": "w"},
    ]});
    let result = answered(Style::Anthropic, &raw).await.unwrap();
    assert_eq!((result.text.as_str(), result.finish_reason.as_str()), ("calling three", "tool_calls"));
    let entry = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "w", "arguments": arguments}});
    assert_eq!(
        tool_calls_json(&result),
        [entry("t1", r#"{"city":"Chennai"}"#), entry("t2", "{}"), entry("t3", "{}")]
    );
    assert_eq!(result.raw, raw);
}

// CORE-113, case 63
#[tokio::test]
async fn finish_reasons_are_openais() {
    for (stop, finish) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "content_filter"),
    ] {
        let raw = json!({"content": [{"type": "text", "text": "a"}], "stop_reason": stop});
        assert_eq!(answered(Style::Anthropic, &raw).await.unwrap().finish_reason, finish);
    }
    for (stop, finish) in [(json!("odd_reason"), "odd_reason"), (json!(" "), "stop"), (Value::Null, "stop")] {
        let raw =
            json!({"choices": [{"message": {"role": "assistant", "content": "a"}, "finish_reason": stop}]});
        assert_eq!(answered(Style::OpenAI, &raw).await.unwrap().finish_reason, finish);
    }
}

// CORE-105, case 67
#[tokio::test]
async fn a_toolkit_is_declared_first_and_never_runs() {
    for style in CONTENT_STYLES {
        let (tool, record) = recorded("own", |_, _| ToolResult::success("ran"));
        let double = Double::new([Answer::calls(style, &[("c1", "own", json!({}))])]);
        let request = TranslateRequest {
            toolkit: Some(Toolkit::from_tools([tool])),
            tools: ["own", "other"]
                .map(|name| json!({"type": "function", "function": {"name": name}}))
                .to_vec(),
            ..request([user("hi")])
        };
        let result = create_client(double.options(style)).translate(request).await.unwrap();
        assert_eq!((result.tool_calls[0].name.as_str(), record.count(), double.count()), ("own", 0, 1));
        let tools = double.body(0)["tools"].clone();
        let name = |tool: &Value| tool.get("function").unwrap_or(tool)["name"].clone();
        assert_eq!(tools.as_array().unwrap().iter().map(name).collect::<Vec<_>>(), ["own", "other"]);
    }
}

// CORE-102, case 68
#[tokio::test]
async fn nothing_is_remembered_and_calls_may_overlap() {
    for style in CONTENT_STYLES {
        let server = server(Script::always(reply(style).text("ok"))).await;
        let client = create_client(options(style, server.base_url()));
        let calls = ["a", "b", "c"].map(|text| client.translate(request([user(text)])));
        for result in within(futures::future::join_all(calls)).await {
            assert_eq!(result.unwrap().text, "ok");
        }
        let mut texts: Vec<String> = Vec::new();
        for request in server.requests() {
            let body = request.json();
            assert_eq!(body["messages"].as_array().unwrap().len(), 1);
            assert!(body.get("stream").is_none());
            texts.push(body["messages"][0]["content"].as_str().unwrap().to_owned());
        }
        texts.sort();
        assert_eq!(texts, ["a", "b", "c"]);
    }
}

// CORE-106, CORE-129: retries, redaction, unreadable answers (D21)
#[tokio::test(start_paused = true)]
async fn failures_are_those_of_the_loop() {
    let refused = || Answer::status(503, &[("retry-after", "2")], format!("key {KEY}"));
    let double = Double::new([refused(), Answer::Fail("reset"), Answer::text(Style::OpenAI, "ok")]);
    let client = create_client(ClientOptions { retries: Some(2), ..double.options(Style::OpenAI) });
    assert_eq!(client.translate(request([user("hi")])).await.unwrap().text, "ok");
    assert_eq!((double.count(), double.waits()[0]), (3, Duration::from_secs(2)));

    let double = Double::new([refused()]);
    match create_client(double.options(Style::OpenAI)).translate(request([user("hi")])).await {
        Err(ClientError::Provider(error)) => {
            assert_eq!((error.status, error.body.contains(KEY)), (503, false));
        }
        other => panic!("{other:?}"),
    }
    for style in CONTENT_STYLES {
        for body in ["<html>", "{}"] {
            let double = Double::new([Answer::status(200, &[], body)]);
            let result = create_client(double.options(style)).translate(request([user("hi")])).await;
            assert!(matches!(result, Err(ClientError::InvalidResponse(_))), "{style}: {result:?}");
        }
    }
}

// CORE-106: deadline and cancellation reach a call in flight, and the request is dropped
#[tokio::test(start_paused = true)]
async fn a_call_in_flight_ends_at_its_deadline_or_when_cancelled() {
    let (held, dropped) = oneshot::channel();
    let double = Double::new([Answer::Hang(held)]);
    let client = create_client(ClientOptions { timeout_ms: 50, ..double.options(Style::Anthropic) });
    let result = client.translate(request([user("hi")])).await;
    assert!(matches!(result, Err(ClientError::Timeout { timeout_ms: 50 })), "{result:?}");
    dropped.await.unwrap_err();

    let (held, dropped) = oneshot::channel();
    let double = Double::new([Answer::Hang(held)]);
    let client = create_client(double.options(Style::OpenAI));
    let cancel = CancellationToken::new();
    let call = client.translate(TranslateRequest { cancel: Some(cancel.clone()), ..request([user("hi")]) });
    let (result, ()) = tokio::join!(call, async {
        double.arrived().await;
        cancel.cancel();
    });
    assert!(matches!(result, Err(ClientError::Cancelled)), "{result:?}");
    dropped.await.unwrap_err();
}

// CORE-128
#[tokio::test]
async fn gemini_is_refused_before_any_request() {
    let double = Double::new([]);
    match create_client(double.options(Style::Gemini)).translate(request([user("hi")])).await {
        Err(ClientError::Unsupported(message)) => assert!(message.contains("gemini"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(double.count(), 0);
}

// CORE-109, CORE-120
#[tokio::test]
async fn literal_parts_are_encoded_and_refused_ones_stop_the_call() {
    let native =
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,G", "detail": "low"}});
    let literal = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw=="});
    let message = json!({"role": "user", "content": [native, literal]});
    let body: Value =
        serde_json::from_str(&body_of(Style::OpenAI, request([message]), |options| options).await).unwrap();
    let encoded = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}});
    assert_eq!(body["messages"][0]["content"], json!([native, encoded]));

    let audio = json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}});
    let double = Double::new([]);
    let client = create_client(double.options(Style::Anthropic));
    match client.translate(request([json!({"role": "user", "content": [audio]})])).await {
        Err(ClientError::ContentPart(error)) => assert_eq!(error.code, PartErrorCode::Unsupported),
        other => panic!("{other:?}"),
    }
    assert_eq!(double.count(), 0);
}

// CORE-106, CLIENT-18 to 21, cases B8 and B9: on run, stream and translate of both styles
#[tokio::test]
async fn bodies_are_shaped_on_every_path() {
    let params: Map<String, Value> = serde_json::from_value(json!({
        "temperature": 0.5, "max_tokens": 999, "seed": null, "messages": ["no"], "tools": [1], "stream": "no",
    }))
    .unwrap();
    for style in CONTENT_STYLES {
        let answers =
            [Answer::text(style, "ok"), Answer::streamed_text(style, "ok"), Answer::text(style, "ok")];
        let double = Double::new(answers);
        let client = create_client(ClientOptions {
            request_params: params.clone(),
            body_transform: Some(Arc::new(|mut body| {
                assert_eq!(body["temperature"], 0.5);
                let map = body.as_object_mut().unwrap();
                map.remove("temperature");
                map.insert("injected".into(), "yes".into());
                body
            })),
            ..double.options(style)
        });
        client.run("hi", &Toolkit::default()).await.unwrap();
        client.stream("hi", &Toolkit::default()).finish().await.unwrap();
        client.translate(TranslateRequest { max_tokens: 7, ..request([user("hi")]) }).await.unwrap();
        for at in 0..3 {
            let body = double.body(at);
            assert_eq!((&body["injected"], &body["max_tokens"]), (&json!("yes"), &json!(999)), "{body}");
            assert_eq!((body.get("temperature"), body.get("seed")), (None, Some(&Value::Null)));
            assert_eq!((&body["messages"], body.get("tools")), (&json!([user("hi")]), None));
            assert_eq!(body.get("stream"), (at == 1).then_some(&json!(true)));
        }
    }
}

// CLIENT-19, CLIENT-21, CORE-104
#[tokio::test(start_paused = true)]
async fn a_transform_runs_once_per_call_and_must_return_an_object() {
    let seen = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let double = Double::new([Answer::Fail("reset"), Answer::text(Style::OpenAI, "ok")]);
    let client = create_client(ClientOptions {
        retries: Some(1),
        request_params: serde_json::from_value(json!({"model": "other"})).unwrap(),
        body_transform: Some(Arc::new(move |_| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Value::Null
        })),
        ..double.options(Style::OpenAI)
    });
    assert_eq!(client.translate(request([user("hi")])).await.unwrap().model, "other");
    assert_eq!((seen.load(std::sync::atomic::Ordering::Relaxed), double.count()), (1, 2));
    assert_eq!(sent(&double, 0), sent(&double, 1));

    let double = Double::new([]);
    let client = create_client(ClientOptions {
        body_transform: Some(Arc::new(|_| json!([]))),
        ..double.options(Style::OpenAI)
    });
    let result = client.translate(request([user("hi")])).await;
    assert!(matches!(&result, Err(ClientError::Config(m)) if m.contains("body_transform")), "{result:?}");
    assert_eq!(double.count(), 0);
}
