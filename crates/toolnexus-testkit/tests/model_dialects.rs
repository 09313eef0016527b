//! The words of the providers: what a turn looks like in each dialect and in each form.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod model_client;

use model_client::{Client, Response};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolnexus_testkit::model::{Dialect, ModelReply, ModelServer, Reply, Script, sse_data, sse_event};

const PLAIN: &str = "{}";
const STREAM: &str = r#"{"stream":true}"#;
const STREAM_WITH_USAGE: &str = r#"{"stream":true,"stream_options":{"include_usage":true}}"#;

async fn answer(reply: impl Into<Reply>, request: &str) -> Response {
    let server = ModelServer::start(Script::always(reply)).await.unwrap();
    Client::connect(&server).await.ask(request).await
}

/// The data of every event, and its name when it has one.
fn events(body: &str) -> Vec<(Option<String>, String)> {
    let blocks = body.strip_suffix("\n\n").unwrap().split("\n\n");
    let parse = |block: &str| match block.split_once('\n') {
        Some((event, data)) => {
            let name = event.strip_prefix("event: ").unwrap().to_owned();
            (Some(name), data.strip_prefix("data: ").unwrap().to_owned())
        }
        None => (None, block.strip_prefix("data: ").unwrap().to_owned()),
    };
    blocks.map(parse).collect()
}

fn data(body: &str) -> Vec<Value> {
    let all = events(body).into_iter().map(|(_, data)| data).filter(|data| data != "[DONE]");
    all.map(|data| serde_json::from_str(&data).unwrap()).collect()
}

#[tokio::test]
async fn openai_body() {
    let reply = Reply::openai()
        .text("I will add.")
        .tool_call("call_1", "add", json!({"a": 2, "b": 3}))
        .tool_call_raw("call_2", "add", r#"{"a": 2,"#)
        .usage(10, 5)
        .cache(4, 9);
    let response = answer(reply, PLAIN).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert!(response.header("x-request-id").unwrap().starts_with("req_"));
    assert_eq!(
        response.json(),
        json!({
            "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
            "object": "chat.completion",
            "created": 1741569952,
            "model": "gpt-4o-mini-2024-07-18",
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "I will add.",
                    "tool_calls": [
                        {"id": "call_1", "type": "function",
                         "function": {"name": "add", "arguments": "{\"a\":2,\"b\":3}"}},
                        {"id": "call_2", "type": "function",
                         "function": {"name": "add", "arguments": "{\"a\": 2,"}},
                    ],
                    "refusal": null,
                    "annotations": [],
                },
                "logprobs": null,
                "finish_reason": "tool_calls",
            }],
            "usage": {
                "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
                "completion_tokens_details": {
                    "reasoning_tokens": 0, "audio_tokens": 0,
                    "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
                },
            },
            "service_tier": "default",
            "system_fingerprint": "fp_06737a9306",
        })
    );
}

#[tokio::test]
async fn openai_content_is_null_when_there_are_only_calls() {
    let response = answer(Reply::openai().tool_call("c", "t", json!({})), PLAIN).await;
    assert_eq!(response.json()["choices"][0]["message"]["content"], Value::Null);
}

#[tokio::test]
async fn openai_stream() {
    let reply = Reply::openai()
        .deltas(["Hel", "lo"])
        .tool_call("call_1", "add", json!({"a": 2}))
        .tool_call("call_2", "now", json!({}))
        .usage(10, 5);
    let response = answer(reply.clone(), STREAM).await;
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(response.header("transfer-encoding"), Some("chunked"));
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT\",\"object\":\"chat.completion.chunk\",\
             \"created\":1741569952,\"model\":\"gpt-4o-mini-2024-07-18\",\"service_tier\":\"default\",\
             \"system_fingerprint\":\"fp_06737a9306\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
             \"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let call = |call: &str| chunk(&format!("{{\"tool_calls\":[{call}]}}"), "null");
    let expected = [
        chunk(r#"{"role":"assistant","content":null,"refusal":null}"#, "null"),
        chunk(r#"{"content":"Hel"}"#, "null"),
        chunk(r#"{"content":"lo"}"#, "null"),
        call(r#"{"index":0,"id":"call_1","type":"function","function":{"name":"add","arguments":""}}"#),
        call(r#"{"index":0,"function":{"arguments":"{\"a\":2}"}}"#),
        call(r#"{"index":1,"id":"call_2","type":"function","function":{"name":"now","arguments":""}}"#),
        call(r#"{"index":1,"function":{"arguments":"{}"}}"#),
        chunk("{}", r#""tool_calls""#),
        "data: [DONE]\n\n".to_owned(),
    ];
    assert_eq!(response.text(), expected.concat());
    let chunks: Vec<_> = response.chunks.iter().map(|c| String::from_utf8(c.clone()).unwrap()).collect();
    assert_eq!(chunks, expected, "each event is a chunk of its own");

    // With usage asked for, every chunk has the field and one chunk more brings it.
    let all = data(&answer(reply, STREAM_WITH_USAGE).await.text());
    let (last, others) = all.split_last().unwrap();
    assert!(others.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)));
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 15);
}

#[tokio::test]
async fn openai_arguments_come_in_several_deltas() {
    let arguments = json!({"text": "a longer text, in several words", "n": 12345678901u64});
    let response = answer(Reply::openai().tool_call("c", "t", arguments.clone()), STREAM).await;
    let pieces: Vec<String> = data(&response.text())
        .iter()
        .filter_map(|c| c["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str())
        .map(str::to_owned)
        .collect();
    assert!(pieces.len() > 3, "{pieces:?}");
    assert_eq!(pieces.concat(), arguments.to_string());
}

#[tokio::test]
async fn anthropic_body() {
    let reply = Reply::anthropic()
        .thinking("Two numbers.", "c2ln")
        .text("I will ")
        .text("add.")
        .tool_call("toolu_1", "add", json!({"a": 2, "b": 3}))
        .raw_part(json!({"type": "redacted_thinking", "data": "xyz"}))
        .usage(25, 15)
        .cache(900, 40);
    let response = answer(reply, PLAIN).await;
    assert!(response.header("request-id").unwrap().starts_with("req_"));
    assert_eq!(
        response.json(),
        json!({
            "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-20250514",
            "content": [
                {"type": "thinking", "thinking": "Two numbers.", "signature": "c2ln"},
                {"type": "text", "text": "I will add."},
                {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2, "b": 3}},
                {"type": "redacted_thinking", "data": "xyz"},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": null,
            "usage": {
                "input_tokens": 25, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 900,
                "output_tokens": 15, "service_tier": "standard",
            },
        })
    );
}

#[tokio::test]
async fn anthropic_stream() {
    let reply = Reply::anthropic()
        .thinking("Hm.", "c2ln")
        .deltas(["Hel", "lo"])
        .tool_call("toolu_1", "add", json!({"a": 2}))
        .tool_call("toolu_2", "now", json!({}))
        .usage(25, 15);
    let text = answer(reply, STREAM).await.text();
    let expected = [
        (
            "message_start",
            r#"{"type":"message_start","message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude-sonnet-4-20250514","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1,"service_tier":"standard"}}}"#,
        ),
        (
            "content_block_start",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        ),
        ("ping", r#"{"type":"ping"}"#),
        (
            "content_block_delta",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}"#,
        ),
        (
            "content_block_delta",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
        ),
        ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
        (
            "content_block_start",
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
        ),
        (
            "content_block_delta",
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hel"}}"#,
        ),
        (
            "content_block_delta",
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"lo"}}"#,
        ),
        ("content_block_stop", r#"{"type":"content_block_stop","index":1}"#),
        (
            "content_block_start",
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"add","input":{}}}"#,
        ),
        (
            "content_block_delta",
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        ),
        (
            "content_block_delta",
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":2}"}}"#,
        ),
        ("content_block_stop", r#"{"type":"content_block_stop","index":2}"#),
        (
            "content_block_start",
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"now","input":{}}}"#,
        ),
        (
            "content_block_delta",
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        ),
        ("content_block_stop", r#"{"type":"content_block_stop","index":3}"#),
        (
            "message_delta",
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15}}"#,
        ),
        ("message_stop", r#"{"type":"message_stop"}"#),
    ];
    let expected: String =
        expected.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect();
    assert_eq!(text, expected);
}

#[tokio::test]
async fn anthropic_malformed_arguments_are_a_string_in_the_body_and_verbatim_in_the_stream() {
    let reply = Reply::anthropic().tool_call_raw("t", "add", "{\"a\":");
    let body = answer(reply.clone(), PLAIN).await.json();
    assert_eq!(body["content"][0]["input"], "{\"a\":");
    let stream = answer(reply, STREAM).await.text();
    let pieces: String = data(&stream).iter().filter_map(|e| e["delta"]["partial_json"].as_str()).collect();
    assert_eq!(pieces, "{\"a\":");
}

#[tokio::test]
async fn gemini_body_and_stream() {
    let reply = Reply::gemini()
        .thinking("Hm.", "c2ln")
        .deltas(["Hel", "lo"])
        .tool_call("", "add", json!({"a": 2}))
        .tool_call("f2", "now", json!({}))
        .usage(25, 15)
        .cache(7, 0);
    let body = answer(reply.clone(), PLAIN).await.json();
    let usage = json!({
        "promptTokenCount": 25, "candidatesTokenCount": 15, "totalTokenCount": 40,
        "cachedContentTokenCount": 7,
    });
    assert_eq!(
        body,
        json!({
            "candidates": [{
                "content": {
                    "parts": [
                        {"text": "Hm.", "thought": true, "thoughtSignature": "c2ln"},
                        {"text": "Hello"},
                        {"functionCall": {"name": "add", "args": {"a": 2}}},
                        {"functionCall": {"id": "f2", "name": "now", "args": {}}},
                    ],
                    "role": "model",
                },
                "finishReason": "STOP",
                "index": 0,
            }],
            "usageMetadata": usage,
            "modelVersion": "gemini-2.5-flash",
            "responseId": "vZCkaPm2J8uQ1MkPo7bN2A8",
        })
    );

    // The path asks for the stream, not the body.
    let server = ModelServer::start(reply).await.unwrap();
    let mut client = Client::connect(&server).await;
    let path = "/v1beta/models/gemini-x:streamGenerateContent?alt=sse";
    client.send(model_client::post(path, "{}")).await;
    let all = data(&client.response().await.text());
    let parts: Vec<_> = all.iter().map(|r| r["candidates"][0]["content"]["parts"][0].clone()).collect();
    assert_eq!(
        parts,
        [
            json!({"text": "Hm.", "thought": true, "thoughtSignature": "c2ln"}),
            json!({"text": "Hel"}),
            json!({"text": "lo"}),
            json!({"functionCall": {"name": "add", "args": {"a": 2}}}),
            json!({"functionCall": {"id": "f2", "name": "now", "args": {}}}),
            json!({"text": ""}),
        ]
    );
    let (last, others) = all.split_last().unwrap();
    assert!(others.iter().all(|r| r["candidates"][0].get("finishReason").is_none()));
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"], usage);
}

#[tokio::test]
async fn the_form_can_be_forced() {
    for dialect in Dialect::ALL {
        let json = answer(Reply::model(dialect).text("hi").json(), STREAM).await;
        assert_eq!(json.header("content-type"), Some("application/json"), "{dialect:?}");
        let sse = answer(Reply::model(dialect).text("hi").sse(), PLAIN).await;
        assert_eq!(sse.header("content-type"), Some("text/event-stream; charset=utf-8"), "{dialect:?}");
    }
    // A forced OpenAI stream has its usage chunk.
    let sse = answer(Reply::openai().text("hi").usage(1, 2).sse(), PLAIN).await.text();
    assert_eq!(data(&sse).last().unwrap()["usage"]["total_tokens"], 3);
}

#[tokio::test]
async fn names_reasons_and_headers_can_be_set() {
    for (dialect, id, model, finish) in [
        (Dialect::OpenAi, "/id", "/model", "/choices/0/finish_reason"),
        (Dialect::Anthropic, "/id", "/model", "/stop_reason"),
        (Dialect::Gemini, "/responseId", "/modelVersion", "/candidates/0/finishReason"),
    ] {
        let reply = Reply::model(dialect).text("x").id("ID").model_name("M").finish("F").header("X-A", "1");
        let response = answer(reply, PLAIN).await;
        assert_eq!(response.header("x-a"), Some("1"));
        let body = response.json();
        for (pointer, value) in [(id, "ID"), (model, "M"), (finish, "F")] {
            assert_eq!(body.pointer(pointer), Some(&json!(value)), "{dialect:?} {pointer}");
        }
    }
}

#[tokio::test]
async fn the_default_reason_of_a_text_is_a_normal_end() {
    let reason = |body: Value, pointer: &str| body.pointer(pointer).cloned();
    let openai = answer(Reply::openai().text("x"), PLAIN).await.json();
    assert_eq!(reason(openai, "/choices/0/finish_reason"), Some(json!("stop")));
    let anthropic = answer(Reply::anthropic().text("x"), PLAIN).await.json();
    assert_eq!(reason(anthropic, "/stop_reason"), Some(json!("end_turn")));
}

#[tokio::test]
async fn usage_can_be_absent_or_verbatim() {
    let odd = json!({"total": "many"});
    for (dialect, key) in
        [(Dialect::OpenAi, "usage"), (Dialect::Anthropic, "usage"), (Dialect::Gemini, "usageMetadata")]
    {
        let reply = || Reply::model(dialect).text("x");
        for request in [PLAIN, STREAM_WITH_USAGE] {
            let absent = answer(reply().without_usage(), request).await.text();
            assert!(!absent.contains(key), "{dialect:?} {absent}");
            let verbatim = answer(reply().usage_raw(odd.clone()), request).await.text();
            assert!(verbatim.contains(&odd.to_string()), "{dialect:?} {verbatim}");
        }
    }
}

#[tokio::test]
async fn an_error_in_the_stream_ends_it_in_the_words_of_the_provider() {
    for (dialect, event, error) in [
        (
            Dialect::OpenAi,
            None,
            json!({"error": {"message": "Overloaded", "type": "overloaded_error", "param": null, "code": null}}),
        ),
        (
            Dialect::Anthropic,
            Some("error"),
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ),
        (
            Dialect::Gemini,
            None,
            json!({"error": {"code": 200, "message": "Overloaded", "status": "overloaded_error"}}),
        ),
    ] {
        let reply = Reply::model(dialect).text("Hel").stream_error("overloaded_error", "Overloaded");
        let response = answer(reply, STREAM).await;
        assert_eq!(response.status, 200);
        let text = response.text();
        assert!(text.contains("\"Hel\""), "the delta before it was sent");
        let last = events(&text).pop().unwrap();
        assert_eq!(last, (event.map(str::to_owned), error.to_string()), "{dialect:?}");
        // The same object is the body of an answer with an error status.
        let plain = answer(Reply::error(dialect, 529, "overloaded_error", "Overloaded"), PLAIN).await;
        assert_eq!(plain.status, 529);
        let same = plain.json()["error"]["message"].clone();
        assert_eq!(same, "Overloaded");
    }
}

#[tokio::test]
async fn an_unfinished_stream_lacks_the_events_that_complete_it() {
    for (dialect, marks) in [
        (Dialect::OpenAi, &["[DONE]", "\"finish_reason\":\"stop\""][..]),
        (Dialect::Anthropic, &["message_stop", "message_delta", "content_block_stop"][..]),
        (Dialect::Gemini, &["finishReason"][..]),
    ] {
        let whole = answer(Reply::model(dialect).text("hi"), STREAM).await.text();
        let unfinished = answer(Reply::model(dialect).text("hi").unfinished(), STREAM).await.text();
        assert!(whole.starts_with(&unfinished), "{dialect:?}");
        for mark in marks {
            assert!(whole.contains(mark) && !unfinished.contains(mark), "{dialect:?} {mark}");
        }
    }
}

#[tokio::test]
async fn foreign_events_stand_where_they_were_put() {
    let reply = Reply::openai()
        .deltas(["a"])
        .event(sse_data("not json"))
        .event(": a comment\n\n")
        .event(sse_event("new_thing", "{}"))
        .deltas(["b"]);
    let text = answer(reply.clone(), STREAM).await.text();
    let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle} in {text}"));
    let order = [
        at(r#"{"content":"a"}"#),
        at("data: not json\n\n: a comment\n\nevent: new_thing\ndata: {}\n\n"),
        at(r#"{"content":"b"}"#),
    ];
    assert!(order.is_sorted(), "{order:?}");
    let body = answer(reply, PLAIN).await.json();
    assert_eq!(body["choices"][0]["message"]["content"], "ab");
}

#[tokio::test]
async fn raw_parts_are_merged_into_an_openai_message() {
    let reply = Reply::openai().raw_part(json!({"refusal": "I can't"}));
    let body = answer(reply.clone(), PLAIN).await.json();
    assert_eq!(body["choices"][0]["message"]["refusal"], "I can't");
    let stream = answer(reply, STREAM).await.text();
    assert!(stream.contains(r#""delta":{"refusal":"I can't"}"#));
}

#[tokio::test]
async fn reasoning_of_openai_compatible_servers_has_its_own_field() {
    let reply = Reply::openai().thinking("two words", "").text("x");
    let body = answer(reply.clone(), PLAIN).await.json();
    assert_eq!(body["choices"][0]["message"]["reasoning_content"], "two words");
    let stream = answer(reply, STREAM).await.text();
    let pieces: Vec<Value> = data(&stream);
    let delta = |c: &Value| c["choices"][0]["delta"]["reasoning_content"].as_str().map(str::to_owned);
    assert_eq!(pieces.iter().filter_map(delta).collect::<Vec<_>>(), ["two", " words"]);
}

#[tokio::test]
async fn text_deltas_have_the_count_and_size_asked_for() {
    for dialect in Dialect::ALL {
        let reply = Reply::model(dialect).text_deltas(500, 20);
        let response = answer(reply.clone(), STREAM).await;
        let deltas = text_deltas(dialect, &response.text());
        let sized = deltas.iter().filter(|d| d.len() == 20).count();
        assert_eq!((sized, deltas.concat().len()), (500, 10_000), "{dialect:?}");
        let events = events(&response.text()).len();
        assert_eq!(response.chunks.len(), events, "one chunk for each event");
        let grouped = answer(reply.events_per_chunk(100), STREAM).await;
        assert_eq!(grouped.body(), response.body());
        assert_eq!(grouped.chunks.len(), events.div_ceil(100));
    }
}

fn text_deltas(dialect: Dialect, stream: &str) -> Vec<String> {
    let pointer = match dialect {
        Dialect::OpenAi => "/choices/0/delta/content",
        Dialect::Anthropic => "/delta/text",
        Dialect::Gemini => "/candidates/0/content/parts/0/text",
    };
    let text = |event: &Value| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    data(stream).iter().filter_map(text).collect()
}

fn body_text(dialect: Dialect, body: &Value) -> String {
    let pointer = match dialect {
        Dialect::OpenAi => "/choices/0/message/content",
        Dialect::Anthropic => "/content/0/text",
        Dialect::Gemini => "/candidates/0/content/parts/0/text",
    };
    body.pointer(pointer).unwrap().as_str().unwrap().to_owned()
}

fn arguments(dialect: Dialect, stream: &str) -> String {
    let pointer = match dialect {
        Dialect::OpenAi => "/choices/0/delta/tool_calls/0/function/arguments",
        Dialect::Anthropic => "/delta/partial_json",
        Dialect::Gemini => "/candidates/0/content/parts/0/functionCall/args",
    };
    let piece = |event: &Value| match (dialect, event.pointer(pointer)?) {
        (Dialect::Gemini, value) => Some(value.to_string()),
        (_, value) => value.as_str().map(str::to_owned),
    };
    data(stream).iter().filter_map(piece).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the text and the arguments, the deltas of the stream add up to the body.
    #[test]
    fn a_stream_says_what_the_body_says(text in ".{1,60}", value in ".{0,40}", n in any::<i64>()) {
        let arguments_in = json!({"value": value, "n": n});
        let ask = |reply: ModelReply, request| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(answer(reply, request))
        };
        for dialect in Dialect::ALL {
            let reply = Reply::model(dialect).text(&text).tool_call("id", "t", arguments_in.clone());
            let body = ask(reply.clone(), PLAIN).json();
            let stream = ask(reply, STREAM).text();
            prop_assert_eq!(body_text(dialect, &body), text.clone());
            prop_assert_eq!(text_deltas(dialect, &stream).concat(), text.clone());
            prop_assert_eq!(arguments(dialect, &stream), arguments_in.to_string());
        }
    }
}
