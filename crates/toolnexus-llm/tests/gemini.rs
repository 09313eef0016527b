//! The Gemini style: what goes over the wire, what is made of answers, and what the transcript keeps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::tools::{add, echo};
use support::{KEY, deltas, done, drain, reply, server, transcript, within};
use toolnexus_core::{ContentPart, Tool, ToolResult, Toolkit, define_tool};
use toolnexus_llm::{
    ClientError, ClientOptions, FinishReason, Message, RunOptions, RunResult, RunStatus, StreamEvent, Style,
    create_client,
};

const STYLE: Style = Style::Gemini;

fn response(parts: &Value, reason: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}]})
}

fn events(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

async fn run(answers: impl IntoIterator<Item = Answer>, toolkit: &Toolkit) -> (RunResult, Arc<Double>) {
    let double = Double::new(answers);
    let result = within(create_client(double.options(STYLE)).run("hi", toolkit)).await.unwrap();
    (result, double)
}

fn ping() -> Tool {
    define_tool("ping", "ping", Some(json!({"type": "object"})), |_, _| async { Ok::<_, String>("pong") })
}

fn sent(double: &Double, at: usize) -> String {
    String::from_utf8(double.seen()[at].request.body.to_bytes().to_vec()).unwrap()
}

// CLIENT-151, CLIENT-152, CORE-35, case N1
#[tokio::test]
async fn a_plain_prompt_is_one_content() {
    let double = Double::new([Answer::text(STYLE, "hello")]);
    let options = ClientOptions {
        base_url: "https://generativelanguage.googleapis.com".into(),
        model: "gemini-x".into(),
        ..double.options(STYLE)
    };
    let result = create_client(options).run("hi", &Toolkit::default()).await.unwrap();
    let request = &double.seen()[0].request;
    assert_eq!(
        request.url.as_str(),
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:generateContent"
    );
    assert_eq!(request.headers["x-goog-api-key"], KEY);
    assert_eq!(request.headers["content-type"], "application/json");
    assert!(!request.headers.contains_key("authorization"));
    assert_eq!(sent(&double, 0), r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#);
    assert_eq!((result.text.as_str(), result.status), ("hello", RunStatus::Done));
}

// CLIENT-152, CLIENT-153, CLIENT-28, case N2
#[tokio::test]
async fn system_and_tools_have_keys_of_their_own() {
    let double = Double::new([Answer::streamed_text(STYLE, "hello")]);
    let options = ClientOptions { system_prompt: "SYS".into(), ..double.options(STYLE) };
    let result = create_client(options).stream("hi", &Toolkit::from_tools([ping()])).finish().await.unwrap();
    assert_eq!(
        double.seen()[0].request.url.as_str(),
        "http://double.test/v1/models/m:streamGenerateContent?alt=sse"
    );
    assert_eq!(
        sent(&double, 0),
        r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"systemInstruction":{"parts":[{"text":"SYS"}]},"tools":[{"functionDeclarations":[{"name":"ping","description":"ping"}]}]}"#
    );
    // The system text is never in the transcript.
    assert_eq!(result.messages[0], json!({"role": "user", "parts": [{"text": "hi"}]}));
}

// CLIENT-151, case N3
#[tokio::test]
async fn the_version_and_the_kind_of_model_may_be_given() {
    for (base, model, expected) in [
        ("https://h/v1", "tunedModels/t", "https://h/v1/tunedModels/t:generateContent"),
        (
            "https://h/proxy/v1beta/x",
            "tunedModels/t",
            "https://h/proxy/v1beta/x/tunedModels/t:generateContent",
        ),
        ("https://h/v1alpha2/", "models/g", "https://h/v1alpha2/models/g:generateContent"),
        ("https://h/vertex", "g", "https://h/vertex/v1beta/models/g:generateContent"),
        ("https://h/v1?a=b", "g", "https://h/v1/models/g:generateContent?a=b"),
        // A name cannot leave its place in the path.
        ("https://h/v1", "a b?c#d", "https://h/v1/models/a%20b%3Fc%23d:generateContent"),
    ] {
        let double = Double::new([Answer::text(STYLE, "x")]);
        let options = ClientOptions { base_url: base.into(), model: model.into(), ..double.options(STYLE) };
        create_client(options).run("hi", &Toolkit::default()).await.unwrap();
        assert_eq!(double.seen()[0].request.url.as_str(), expected);
    }
    let double = Double::new([Answer::streamed_text(STYLE, "x")]);
    let options = ClientOptions { base_url: "https://h/v1?a=b".into(), ..double.options(STYLE) };
    create_client(options).stream("hi", &Toolkit::default()).finish().await.unwrap();
    assert_eq!(
        double.seen()[0].request.url.as_str(),
        "https://h/v1/models/m:streamGenerateContent?alt=sse&a=b"
    );
}

// CLIENT-152, CLIENT-20, CLIENT-21
#[tokio::test]
async fn shaping_sees_the_model_and_moves_it_into_the_url() {
    let double = Double::new([Answer::text(STYLE, "x"), Answer::text(STYLE, "x")]);
    let params = [
        ("model", json!("other")),
        ("contents", json!([])),
        ("generationConfig", json!({"maxOutputTokens": 9})),
    ];
    let options = ClientOptions {
        request_params: params.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        ..double.options(STYLE)
    };
    create_client(options).run("hi", &Toolkit::default()).await.unwrap();
    assert_eq!(double.seen()[0].request.url.path(), "/v1/models/other:generateContent");
    assert_eq!(
        sent(&double, 0),
        r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":9}}"#
    );
    let options = ClientOptions {
        body_transform: Some(Arc::new(|mut body| {
            let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["model", "contents"]);
            body["model"] = json!("third");
            body
        })),
        ..double.options(STYLE)
    };
    create_client(options).run("hi", &Toolkit::default()).await.unwrap();
    assert_eq!(double.seen()[1].request.url.path(), "/v1/models/third:generateContent");
    assert!(!sent(&double, 1).contains("third"));
}

// CLIENT-153, D3: the toolkit's own schema stays as it is
#[tokio::test]
async fn schemas_are_cleaned_on_a_copy() {
    let schema = json!({"$schema": "x", "type": "object", "properties": {
        "a": {"type": ["string", "null"], "format": "uri"}, "b": {"$ref": "#/$defs/B"}, "c": {"type": "array"},
    }, "required": ["a", "z"], "additionalProperties": false, "$defs": {"B": {"const": "x"}}});
    let tool = define_tool("t", "d", Some(schema.clone()), |_, _| async { Ok::<_, String>("") });
    let toolkit = Toolkit::from_tools([tool]);
    let (_, double) = run([Answer::text(STYLE, "x")], &toolkit).await;
    insta::assert_snapshot!(
        "declared_tools",
        serde_json::to_string_pretty(&double.body(0)["tools"]).unwrap()
    );
    assert_eq!(toolkit.to_gemini()[0]["functionDeclarations"][0]["parameters"], schema);
}

// CLIENT-154, CLIENT-155, CLIENT-156, case N5
#[tokio::test]
async fn a_model_content_goes_back_as_it_came() {
    let content = r#"{ "role":"model","parts":[{"text":"two numbers","thought":true},{"functionCall":{"name":"add","args":{"a":2, "b":3}},"thoughtSignature":"S"}]}"#;
    let body = format!(
        r#"{{"candidates":[{{"content":{content},"finishReason":"STOP"}}],"usageMetadata":{{"promptTokenCount":10,"candidatesTokenCount":2,"thoughtsTokenCount":3,"totalTokenCount":15,"cachedContentTokenCount":4}}}}"#
    );
    let answers = [Answer::status(200, &[], body), Answer::text(STYLE, "five")];
    let (result, double) = run(answers, &Toolkit::from_tools([add()])).await;
    let record = &result.tool_calls[0];
    assert_eq!((record.name.as_str(), record.output.as_str()), ("add", "5"));
    let results = r#"{"role":"user","parts":[{"functionResponse":{"name":"add","response":{"output":"5","isError":false}}}]}"#;
    assert!(sent(&double, 1).contains(&format!("{content},{results}]")), "{}", sent(&double, 1));
    let usage = result.usage;
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (10, 5, 15));
    assert_eq!((usage.cache_read_tokens, usage.context_tokens(STYLE)), (4, 10));
    assert_eq!(result.text, "five");
    insta::assert_snapshot!("second_request", serde_json::to_string_pretty(&double.body(1)).unwrap());
}

// CLIENT-154, CLIENT-155: ids stay where they were given; where not, hosts see a made-up one
#[tokio::test]
async fn ids_are_kept_where_given() {
    let calls = json!([
        {"functionCall": {"id": "x1", "name": "echo", "args": {"text": "a"}}},
        {"functionCall": {"name": "echo", "args": {"text": "b"}}},
        {"functionCall": {"name": "echo"}},
    ]);
    for streamed in [false, true] {
        let (first, second) = if streamed {
            (Answer::pieces([Ok(events(&[response(&calls, "STOP")]))]), Answer::streamed_text(STYLE, "ok"))
        } else {
            (Answer::json(&response(&calls, "STOP")), Answer::text(STYLE, "ok"))
        };
        let double = Double::new([first, second]);
        let client = create_client(double.options(STYLE));
        let toolkit = Toolkit::from_tools([echo()]);
        let told = std::sync::Mutex::new(Vec::new());
        let result = if streamed {
            let (events, error) = drain(client.stream("hi", &toolkit)).await;
            assert!(error.is_none(), "{error:?}");
            for event in &events {
                if let StreamEvent::ToolCall { id, .. } = event {
                    told.lock().unwrap().push(id.clone());
                }
            }
            assert_eq!(*told.lock().unwrap(), ["x1", "call_0_1", "call_0_2"]);
            done(&events).clone()
        } else {
            client.run("hi", &toolkit).await.unwrap()
        };
        assert_eq!(result.tool_calls.len(), 3);
        let contents = double.body(1)["contents"].clone();
        let ids: Vec<Option<&str>> = contents[2]["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part["functionResponse"].get("id").map(|id| id.as_str().unwrap()))
            .collect();
        assert_eq!(ids, [Some("x1"), None, None]);
        assert_eq!(contents[1]["parts"], calls);
        transcript::check(STYLE, &result.messages, false).unwrap();
    }
}

// CLIENT-155, CLIENT-149
#[tokio::test]
async fn thoughts_are_no_text_and_reasons_are_read() {
    let parts = json!([{"text": "hm", "thought": true}, {"text": "a"}, {"inlineData": {"mimeType": "x/y", "data": ""}}, {"text": "b"}]);
    let (result, _) = run([Answer::json(&response(&parts, "MAX_TOKENS"))], &Toolkit::default()).await;
    assert_eq!((result.text.as_str(), result.finish_reason), ("ab", Some(FinishReason::Length)));
    assert_eq!(result.messages[1]["parts"], parts);
    for reason in ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"] {
        // CLIENT-29: a candidate without content leaves no message.
        let answer = json!({"candidates": [{"finishReason": reason}]});
        let (result, _) = run([Answer::json(&answer)], &Toolkit::default()).await;
        assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, ""));
        assert_eq!((result.finish_reason, result.messages.len()), (Some(FinishReason::ContentFilter), 1));
    }
    // A content without a role gets one; so does one whose role no request may have.
    for content in [json!({"parts": [{"text": "x"}]}), json!({"role": "system", "parts": [{"text": "x"}]})] {
        let answer = json!({"candidates": [{"content": content}]});
        let (result, _) = run([Answer::json(&answer)], &Toolkit::default()).await;
        assert_eq!(result.messages[1], json!({"parts": [{"text": "x"}], "role": "model"}));
        assert_eq!(result.finish_reason, Some(FinishReason::Stop));
    }
}

// CLIENT-155, case N6
#[tokio::test]
async fn a_blocked_prompt_is_named() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    let double = Double::new([Answer::json(&blocked), Answer::pieces([Ok(events(&[blocked]))])]);
    let client = create_client(double.options(STYLE));
    let toolkit = Toolkit::default();
    for error in [
        client.run("hi", &toolkit).await.unwrap_err(),
        client.stream("hi", &toolkit).finish().await.unwrap_err(),
    ] {
        assert!(matches!(&error, ClientError::InvalidResponse(text) if text.contains("SAFETY")), "{error}");
    }
}

// CLIENT-35: arguments that are no object do not run the tool
#[tokio::test]
async fn arguments_must_be_an_object() {
    let parts = json!([{"functionCall": {"name": "echo", "args": [1]}}, {"functionCall": "what"}]);
    let answers = [Answer::json(&response(&parts, "STOP")), Answer::text(STYLE, "ok")];
    let (result, _) = run(answers, &Toolkit::from_tools([echo()])).await;
    assert_eq!(result.tool_calls[0].output, "invalid arguments for tool \"echo\": expected a JSON object");
    assert!(result.tool_calls.iter().all(|call| call.is_error));
}

// CLIENT-157, case N7
#[tokio::test]
async fn a_stream_is_joined_where_nothing_is_signed() {
    let chunk = |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}}]});
    let body = events(&[
        chunk(json!([{"text": "I ", "thought": true}])),
        chunk(json!([{"text": "think", "thought": true}])),
        chunk(json!([{"text": "Hel"}])),
        json!({"candidates": [{"content": {"parts": [{"text": "l"}]}}], "usageMetadata": {"promptTokenCount": 1}}),
        chunk(json!([{"text": "o", "thoughtSignature": "S"}])),
        chunk(json!([{"text": "!"}, {"text": ""}])),
        chunk(json!([{"text": "", "thoughtSignature": "E"}])),
        json!({
            "candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4},
        }),
    ]);
    let double = Double::new([Answer::pieces([Ok(body)])]);
    let (events, error) = drain(create_client(double.options(STYLE)).stream("hi", &Toolkit::default())).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(deltas(&events), ["Hel", "l", "o", "!"]);
    let result = done(&events);
    assert_eq!(result.text, "Hello!");
    assert_eq!((result.usage.prompt_tokens, result.usage.total_tokens), (3, 7));
    assert_eq!(
        result.messages[1],
        json!({"role": "model", "parts": [
            {"text": "I think", "thought": true}, {"text": "Hell"}, {"text": "o", "thoughtSignature": "S"},
            {"text": "!"}, {"text": "", "thoughtSignature": "E"},
        ]})
    );
}

// CLIENT-123, CLIENT-150
#[tokio::test]
async fn a_stream_may_fail_or_end_early() {
    let start = response(&json!([{"text": "a"}]), "");
    let error = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    let double = Double::new([
        Answer::pieces([Ok(events(&[start.clone(), error]))]),
        Answer::pieces([Ok(events(&[start]))]),
    ]);
    let client = create_client(double.options(STYLE));
    match client.stream("hi", &Toolkit::default()).finish().await {
        Err(ClientError::Provider(error)) => {
            assert_eq!(error.status, 200);
            assert!(error.to_string().contains("overloaded"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let error = client.stream("hi", &Toolkit::default()).finish().await.unwrap_err();
    assert!(error.to_string().contains("stream ended before the answer was complete"), "{error}");
}

fn image(data: &str) -> ContentPart {
    ContentPart::from_base64("image/png", data, None)
}

// CORE-36, CORE-37, CORE-46, CORE-47, case 74
#[tokio::test]
async fn parts_of_a_prompt_are_encoded_on_a_copy() {
    let prompt = vec![
        ContentPart::text("look"),
        image("iVBORw0KGgo="),
        ContentPart::from_base64("audio/wav", "AAAAAAAA", None),
        ContentPart::from_url("https://x/doc.pdf").unwrap(),
    ];
    let blocks = json!([
        {"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"inlineData": {"mimeType": "audio/wav", "data": "AAAAAAAA"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://x/doc.pdf"}},
    ]);
    let double = Double::new([Answer::text(STYLE, "a cat"), Answer::text(STYLE, "still")]);
    let client = create_client(double.options(STYLE));
    let result = client.run(prompt, &Toolkit::default()).await.unwrap();
    assert_eq!(double.body(0)["contents"][0], json!({"role": "user", "parts": blocks}));
    assert_eq!(
        result.messages[0]["parts"][1],
        json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="})
    );
    // From a store, as plain JSON.
    let stored: Vec<Value> = serde_json::from_str(&serde_json::to_string(&result.messages).unwrap()).unwrap();
    let options = RunOptions { history: stored.into(), ..Default::default() };
    client.run_with("sure?", &Toolkit::default(), options).await.unwrap();
    assert_eq!(double.body(1)["contents"][0]["parts"], blocks);
    assert_eq!(double.body(1)["contents"][1], json!({"role": "model", "parts": [{"text": "a cat"}]}));
}

// CORE-36, CORE-46, CORE-47
#[tokio::test]
async fn parts_of_results_follow_behind_all_results() {
    let shot = |name: &str| {
        define_tool(name, "", None, |_, _| async {
            ToolResult::success("screenshot").with_parts(vec![image("iVBORw0KGgo=")])
        })
    };
    let calls = json!([
        {"functionCall": {"id": "c1", "name": "shot_a", "args": {}}},
        {"functionCall": {"id": "c2", "name": "shot_b", "args": {}}},
    ]);
    let double = Double::new([
        Answer::json(&response(&calls, "STOP")),
        Answer::text(STYLE, "two pictures"),
        Answer::text(STYLE, "yes"),
    ]);
    let client = create_client(double.options(STYLE));
    let toolkit = Toolkit::from_tools([shot("shot_a"), shot("shot_b")]);
    let result = client.run("look", &toolkit).await.unwrap();
    let block = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}});
    let answer = |id: &str, name: &str| json!({"functionResponse": {"id": id, "name": name, "response": {"output": "screenshot", "isError": false}}});
    let expected = json!({"role": "user", "parts": [
        answer("c1", "shot_a"), answer("c2", "shot_b"),
        {"text": "Output of tool shot_a (c1):"}, block, {"text": "Output of tool shot_b (c2):"}, block,
    ]});
    assert_eq!(double.body(1)["contents"][2], expected);
    let kept = &result.messages[2]["parts"][0];
    assert_eq!((&kept["name"], &kept["parts"][0]["type"]), (&json!("shot_a"), &json!("image")));
    assert_eq!(kept["functionResponse"]["id"], "c1");

    let stored: Vec<Value> = serde_json::from_str(&serde_json::to_string(&result.messages).unwrap()).unwrap();
    let options = RunOptions { history: stored.into(), ..Default::default() };
    client.run_with("sure?", &Toolkit::default(), options).await.unwrap();
    assert_eq!(double.body(2)["contents"][2], expected);
}

// CLIENT-112, CORE-47: nothing is refused by kind, but a size may be
#[tokio::test]
async fn a_part_over_the_limit_is_replaced() {
    let shot = define_tool("shot", "", None, |_, _| async {
        ToolResult::success("").with_parts(vec![image(&"AAAA".repeat(400))])
    });
    let calls = json!([{"functionCall": {"name": "shot", "args": {}}}]);
    let double = Double::new([Answer::json(&response(&calls, "STOP")), Answer::text(STYLE, "ok")]);
    let client = create_client(ClientOptions { max_part_bytes: 1024, ..double.options(STYLE) });
    client.run("look", &Toolkit::from_tools([shot])).await.unwrap();
    let parts = double.body(1)["contents"][2]["parts"].clone();
    assert_eq!(parts[1], json!({"text": "Output of tool shot:"}));
    assert_eq!(parts[2], json!({"text": "[unsupported image part (image/png, 1200 bytes)]"}));
}

// CLIENT-28, D6
#[tokio::test]
async fn system_messages_join_the_system_text() {
    let system = |text: &str| json!({"role": "system", "content": text});
    let history = json!([system("ONE"), {"role": "user", "parts": [{"text": "a"}]},
        {"role": "system", "parts": [{"text": "T"}, {"text": "WO"}]}, {"role": "model", "parts": [{"text": "b"}]}]);
    let history: Vec<Value> = history.as_array().unwrap().clone();
    let double = Double::new([Answer::text(STYLE, "x")]);
    let client = create_client(ClientOptions { system_prompt: "SYS".into(), ..double.options(STYLE) });
    let options = RunOptions { history: history.into(), ..Default::default() };
    let result = client.run_with("hi", &Toolkit::default(), options).await.unwrap();
    assert_eq!(double.body(0)["systemInstruction"], json!({"parts": [{"text": "SYS\n\nONE\n\nTWO"}]}));
    assert_eq!(double.body(0)["contents"].as_array().unwrap().len(), 3);
    assert_eq!(result.messages[0]["role"], "system");
}

// SUSPEND: what a stopped turn left without a result is answered, in call order
#[tokio::test]
async fn an_unfinished_turn_is_completed() {
    let call = |id: &str, name: &str| match id {
        "" => json!({"functionCall": {"name": name, "args": {}}}),
        id => json!({"functionCall": {"id": id, "name": name, "args": {}}}),
    };
    let given = |name: &str, error: bool, output: &str| json!({"functionResponse": {"name": name, "response": {"output": output, "isError": error}}});
    let asking =
        json!({"role": "model", "parts": [call("", "a"), call("", "b"), call("", "a"), call("x", "c")]});
    let missing = |name: &str| given(name, true, &format!("no result supplied on resume for {name}"));
    let with_id = |mut part: Value| {
        part["functionResponse"]["id"] = json!("x");
        part
    };
    for (answered, expected) in [
        (vec![], vec![missing("a"), missing("b"), missing("a"), with_id(missing("c"))]),
        (
            vec![given("a", false, "1")],
            vec![given("a", false, "1"), missing("b"), missing("a"), with_id(missing("c"))],
        ),
    ] {
        let mut history = vec![json!({"role": "user", "parts": [{"text": "x"}]}), asking.clone()];
        if !answered.is_empty() {
            history.push(json!({"role": "user", "parts": answered}));
        }
        let double = Double::new([Answer::text(STYLE, "ok")]);
        let options = RunOptions { history: history.into(), ..Default::default() };
        let client = create_client(double.options(STYLE));
        let result = client.run_with("go on", &Toolkit::default(), options).await.unwrap();
        assert_eq!(double.body(0)["contents"][2], json!({"role": "user", "parts": expected}));
        transcript::check(STYLE, &result.messages, false).unwrap();
    }
}

// CLIENT-47
#[tokio::test]
async fn a_run_at_its_limit_has_no_text() {
    let parts = json!([{"text": "let me see"}, {"functionCall": {"name": "echo", "args": {"text": "a"}}}]);
    let double = Double::new([Answer::json(&response(&parts, "STOP"))]);
    let client = create_client(ClientOptions { max_turns: 1, ..double.options(STYLE) });
    let result = client.run("hi", &Toolkit::from_tools([echo()])).await.unwrap();
    assert_eq!((result.status, result.text.as_str()), (RunStatus::Incomplete, ""));
    assert_eq!((result.limit.as_deref(), result.messages.len()), (Some("maxTurns"), 3));
}

// CLIENT-151..157 against a server that speaks the dialect
#[tokio::test]
async fn a_conversation_end_to_end() {
    for streamed in [false, true] {
        let turn = reply(STYLE).thinking("two numbers", "c2ln").tool_call("", "add", json!({"a": 2, "b": 3}));
        let server = server([turn, reply(STYLE).text("2 + 3 = 5"), reply(STYLE).text("as I said")]).await;
        let client = create_client(support::options(STYLE, server.base_url()));
        let toolkit = Toolkit::from_tools([add()]);
        let first = if streamed {
            within(
                client
                    .stream_with(
                        "What is 2 + 3?",
                        &toolkit,
                        toolnexus_llm::StreamOptions { id: "c".into(), ..Default::default() },
                    )
                    .finish(),
            )
            .await
        } else {
            within(client.ask("What is 2 + 3?", &toolkit, "c")).await
        };
        let first = first.unwrap();
        assert_eq!((first.text.as_str(), first.tool_calls[0].output.as_str()), ("2 + 3 = 5", "5"));
        let again = within(client.ask("Sure?", &toolkit, "c")).await.unwrap();
        assert_eq!(again.text, "as I said");
        let requests = server.requests();
        let body: Value = serde_json::from_str(&requests[2].text()).unwrap();
        let contents = body["contents"].as_array().unwrap();
        assert_eq!(contents.len(), 5);
        let signed = |part: &Value| part["thoughtSignature"] == "c2ln" && part["thought"] == true;
        assert!(contents[1]["parts"].as_array().unwrap().iter().any(signed), "{}", contents[1]);
        assert!(requests.iter().all(|request| !request.text().contains(KEY)));
        let stored: Vec<Message> = again.messages.to_vec();
        transcript::check(STYLE, &stored, false).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    // CLIENT-118, CLIENT-157: the cuts of the network do not matter
    #[test]
    fn a_stream_may_be_cut_anywhere(texts in proptest::collection::vec("[a\u{e9}\u{1f980} ]{0,4}", 1..6), cuts in proptest::collection::vec(0usize..900, 0..12)) {
        let mut list: Vec<Value> = texts.iter().enumerate().map(|(n, text)| {
            let mut part = json!({"text": text});
            if n % 3 == 2 {
                part["thoughtSignature"] = json!("S");
            }
            json!({"candidates": [{"content": {"parts": [part]}}]})
        }).collect();
        list.push(response(&json!([]), "STOP"));
        let body = events(&list).into_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces: Vec<Result<Vec<u8>, &str>> = cuts.windows(2).map(|cut| Ok(body[cut[0]..cut[1]].to_vec())).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let told = |answer: Answer| runtime.block_on(async {
            let double = Double::new([answer]);
            let (events, error) = drain(create_client(double.options(STYLE)).stream("hi", &Toolkit::default())).await;
            assert!(error.is_none(), "{error:?}");
            (deltas(&events).concat(), done(&events).messages.clone())
        });
        let whole = told(Answer::pieces([Ok(body.clone())]));
        prop_assert_eq!(&whole.0, &texts.concat());
        prop_assert_eq!(told(Answer::pieces(pieces)), whole);
    }
}
