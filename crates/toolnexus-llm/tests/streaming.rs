//! Streamed runs: events as they happen, from bytes cut anywhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::slice::from_ref;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::tools::{add, echo, object, recorded, stuck};
use support::{
    CONTENT_STYLES, STYLES, deltas, done, drain, kinds, options, reply, server, transcript, within,
};
use toolnexus_core::http::{HeaderMap, HttpRequest, HttpResponse, HttpTransport, StatusCode, TransportError};
use toolnexus_core::{BoxFuture, Request, ToolResult, Toolkit};
use toolnexus_llm::{
    ClientError, ClientOptions, FinishReason, Message, RunResult, RunStatus, StreamEvent, StreamOptions,
    Style, Usage, create_client,
};
use toolnexus_testkit::model::{Gate, Reply, Script};

const OPENAI: Style = Style::OpenAI;
const ANTHROPIC: Style = Style::Anthropic;

/// Lines of an event stream, one for each payload.
fn sse(payloads: &[Value]) -> String {
    payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect()
}

/// An OpenAI stream of these deltas, complete.
fn openai(deltas: &[Value]) -> String {
    let chunks: Vec<Value> = deltas.iter().map(|delta| json!({"choices": [{"delta": delta}]})).collect();
    sse(&chunks) + "data: [DONE]\n\n"
}

/// An Anthropic stream of these events, complete.
fn anthropic(events: &[Value]) -> String {
    sse(events) + "data: {\"type\":\"message_stop\"}\n\n"
}

fn block(index: usize, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: usize, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

/// The events of a stream over these bodies, one for each turn.
async fn stream(
    style: Style,
    bodies: Vec<String>,
    toolkit: &Toolkit,
) -> (Vec<StreamEvent>, Option<ClientError>) {
    let double = Double::new(bodies.into_iter().map(|body| Answer::pieces([Ok(body)])));
    let client = create_client(double.options(style));
    within(drain(client.stream("hi", toolkit))).await
}

/// The result of a stream of one turn.
async fn one_turn(style: Style, body: String) -> RunResult {
    let (events, error) = stream(style, vec![body], &Toolkit::default()).await;
    assert!(error.is_none(), "{error:?}");
    done(&events).clone()
}

/// The result of a stream whose first turn is this and whose second says ok.
async fn with_tools(style: Style, body: String, toolkit: &Toolkit) -> (Vec<StreamEvent>, RunResult) {
    let second = match style {
        ANTHROPIC => anthropic(&[delta(0, &json!({"type": "text_delta", "text": "ok"}))]),
        _ => openai(&[json!({"content": "ok"})]),
    };
    let (events, error) = stream(style, vec![body, second], toolkit).await;
    assert!(error.is_none(), "{error:?}");
    let result = done(&events).clone();
    transcript::check(style, &result.messages, false).unwrap();
    (events, result)
}

fn total(usage: Usage) -> (u64, u64, u64) {
    (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
}

// CLIENT-114..CLIENT-119, case X1
#[tokio::test]
async fn openai_text_arrives_in_deltas() {
    let body = sse(&[
        json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
        json!({"choices": [{"delta": {"content": "Hel"}}]}),
        json!({"choices": [{"delta": {"content": "lo!"}}], "usage": null}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}),
        json!({"usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}),
    ]) + "data: [DONE]\n\n";
    let (events, error) = stream(OPENAI, vec![body], &Toolkit::default()).await;
    assert!(error.is_none());
    assert_eq!(kinds(&events), ["text", "text", "usage", "done"]);
    assert_eq!(deltas(&events), ["Hel", "lo!"]);
    let result = done(&events);
    assert_eq!((result.text.as_str(), result.status), ("Hello!", RunStatus::Done));
    // The last usage of the turn counts.
    assert_eq!(total(result.usage), (5, 2, 7));
    assert_eq!(result.messages[1], json!({"role": "assistant", "content": "Hello!"}));
}

// CLIENT-44, CLIENT-119, case X2
#[tokio::test]
async fn openai_calls_are_assembled() {
    let body = openai(&[
        json!({"role": "assistant", "content": null}),
        json!({"tool_calls": [{"index": 0, "id": "c0", "type": "function", "function": {"name": "echo", "arguments": "{\"n\":"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "42}"}}]}),
    ]);
    let (tool, record) = recorded("echo", |_, _| ToolResult::success("x"));
    let (events, result) = with_tools(OPENAI, body, &Toolkit::from_tools([tool])).await;
    assert_eq!(kinds(&events), ["usage", "tool_call", "tool_result", "text", "usage", "done"]);
    let StreamEvent::ToolCall { id, name, args, via } = &events[1] else { panic!() };
    assert_eq!((id.as_str(), name.as_str(), via), ("c0", "echo", &None));
    assert_eq!(*args, object(json!({"n": 42})));
    assert_eq!(record.args(), [json!({"n": 42})]);
    assert_eq!(
        result.messages[1],
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c0", "type": "function", "function": {"name": "echo", "arguments": "{\"n\":42}"}},
        ]})
    );
}

// CLIENT-119: interleaved, out of order, repeated and named in pieces
#[tokio::test]
async fn openai_calls_belong_together_by_index() {
    let call = |call: Value| json!({"tool_calls": [call]});
    let body = openai(&[
        json!({"content": "I call. "}),
        call(json!({"index": 1, "id": "b", "function": {"name": "ec"}})),
        call(json!({"index": 0, "id": "a", "function": {"name": "echo", "arguments": "{\"text\":\"a"}})),
        call(json!({"index": 1, "function": {"name": "ho", "arguments": "{\"text\":"}})),
        json!({"tool_calls": [
            {"index": 0, "id": "", "function": {"name": "echo", "arguments": "a\"}"}},
            {"index": 1, "id": "b2", "function": {"name": null, "arguments": "\"bb\"}"}},
        ]}),
        call(json!({"index": 7, "function": {"name": "echo", "arguments": null}})),
        call(json!({"index": 8, "id": "d", "function": {"name": "echo", "arguments": {"text": "dd"}}})),
    ]);
    let (events, result) = with_tools(OPENAI, body, &Toolkit::from_tools([echo()])).await;
    let calls: Vec<(&str, &str)> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::ToolCall { id, name, .. } => Some((id.as_str(), name.as_str())),
            _ => None,
        })
        .collect();
    // By first appearance; the last id counts; one without gets turn and position.
    assert_eq!(calls, [("b2", "echo"), ("a", "echo"), ("call_0_2", "echo"), ("d", "echo")]);
    let outputs: Vec<&str> = result.tool_calls.iter().map(|record| record.output.as_str()).collect();
    assert_eq!(outputs, ["bb", "aa", "nothing", "dd"]);
    assert_eq!(result.messages[1]["content"], "I call. ");
    assert_eq!(transcript::call_ids(OPENAI, &result.messages[1]), ["b2", "a", "call_0_2", "d"]);
}

// CLIENT-119, case X6
#[tokio::test]
async fn openai_calls_may_come_without_index() {
    let call = |id: &str| json!({"id": id, "function": {"name": "echo", "arguments": "{}"}});
    let body = openai(&[json!({"tool_calls": [call("a"), call("b")]})]);
    let (_, result) = with_tools(OPENAI, body, &Toolkit::from_tools([echo()])).await;
    assert_eq!(transcript::call_ids(OPENAI, &result.messages[1]), ["a", "b"]);
    assert_eq!(result.tool_call_count, 2);

    // What has no new id goes on with the last call.
    let body = openai(&[
        json!({"tool_calls": [{"id": "a", "function": {"name": "echo", "arguments": "{\"text\":"}}]}),
        json!({"tool_calls": [{"function": {"arguments": "\"x"}}]}),
        json!({"tool_calls": [{"id": "a", "function": {"arguments": "y\"}"}}]}),
        json!({"tool_calls": [{"id": "b", "function": {"name": "echo"}}]}),
    ]);
    let (_, result) = with_tools(OPENAI, body, &Toolkit::from_tools([echo()])).await;
    let outputs: Vec<&str> = result.tool_calls.iter().map(|record| record.output.as_str()).collect();
    assert_eq!(outputs, ["xy", "nothing"]);
}

// CLIENT-44, CLIENT-43: what providers want back on a turn with calls
#[tokio::test]
async fn openai_reasoning_and_extra_keys_survive_a_turn_with_calls() {
    let thoughts = [
        json!({"reasoning_content": "let ", "reasoning": "a"}),
        json!({"reasoning_content": "me see", "reasoning_details": [{"i": 0}]}),
        json!({"reasoning_details": [{"i": 1}, {"i": 2}]}),
    ];
    let mut with_call = thoughts.to_vec();
    with_call.push(json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "extra_content": {"sig": "old"}, "function": {"name": "echo", "arguments": "{}"}}]}));
    with_call.push(json!({"tool_calls": [{"index": 0, "extra_content": {"sig": "new"}}]}));
    let (events, result) = with_tools(OPENAI, openai(&with_call), &Toolkit::from_tools([echo()])).await;
    assert_eq!(
        result.messages[1],
        json!({
            "role": "assistant", "content": null,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "echo", "arguments": "{}"}, "extra_content": {"sig": "new"}}],
            "reasoning": "a",
            "reasoning_content": "let me see",
            "reasoning_details": [{"i": 0}, {"i": 1}, {"i": 2}],
        })
    );
    // It is no text and no event.
    assert_eq!(deltas(&events), ["ok"]);

    let mut without = thoughts.to_vec();
    without.push(json!({"content": "answer"}));
    let result = one_turn(OPENAI, openai(&without)).await;
    assert_eq!(result.messages[1], json!({"role": "assistant", "content": "answer"}));
    assert_eq!(result.text, "answer");
}

// CLIENT-120, case X3
#[tokio::test]
async fn anthropic_text_arrives_in_deltas() {
    let body = anthropic(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}}),
        block(0, &json!({"type": "text", "text": ""})),
        json!({"type": "ping"}),
        delta(0, &json!({"type": "text_delta", "text": "Nama"})),
        delta(0, &json!({"type": "text_delta", "text": ""})),
        delta(0, &json!({"type": "text_delta", "text": "ste"})),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 6, "output_tokens": 3}}),
    ]);
    let (events, _) = stream(ANTHROPIC, vec![body], &Toolkit::default()).await;
    assert_eq!(kinds(&events), ["text", "text", "usage", "done"]);
    assert_eq!(deltas(&events), ["Nama", "ste"]);
    let result = done(&events);
    assert_eq!((result.text.as_str(), result.usage.total_tokens), ("Namaste", 9));
    assert_eq!(
        result.messages[1],
        json!({"role": "assistant", "content": [{"type": "text", "text": "Namaste"}]})
    );
}

// CLIENT-120, case X4: cumulative values, per field the latest
#[tokio::test]
async fn anthropic_usage_is_the_latest_of_each_field() {
    let body = anthropic(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 9}}}),
        json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 10}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15, "cache_read_input_tokens": null, "cache_creation_input_tokens": 4}}),
    ]);
    let usage = one_turn(ANTHROPIC, body).await.usage;
    assert_eq!(total(usage), (25, 15, 40));
    assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (9, 4));
}

// CLIENT-120, CLIENT-121, CLIENT-35
#[tokio::test]
async fn anthropic_blocks_are_assembled_in_index_order() {
    let body = anthropic(&[
        block(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "two "})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "numbers"})),
        delta(0, &json!({"type": "signature_delta", "signature": "c2l"})),
        delta(0, &json!({"type": "signature_delta", "signature": "n"})),
        block(1, &json!({"type": "redacted_thinking", "data": "eA=="})),
        // Blocks may come in any order; text at the start counts as a delta.
        block(4, &json!({"type": "tool_use", "id": "t2", "name": "echo", "input": {}})),
        block(2, &json!({"type": "text", "text": "Let "})),
        delta(2, &json!({"type": "text_delta", "text": "me"})),
        delta(4, &json!({"type": "input_json_delta", "partial_json": "{\"text\": \"é"})),
        delta(4, &json!({"type": "unknown_delta", "text": "ignored"})),
        delta(4, &json!({"type": "input_json_delta", "partial_json": "\"}"})),
        json!({"type": "unknown_event", "index": 4}),
        block(3, &json!({"type": "tool_use", "id": "t1", "name": "echo", "input": {}})),
        block(5, &json!({"type": "tool_use", "id": "t3", "name": "echo", "input": {}})),
        delta(5, &json!({"type": "input_json_delta", "partial_json": "{\"text\": "})),
        block(6, &json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
        delta(6, &json!({"type": "input_json_delta", "partial_json": "{\"query\":\"q\"}"})),
        block(7, &json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]})),
        block(8, &json!({"type": "text", "text": ""})),
        block(9, &json!({"type": "tool_use", "id": "t4", "name": "echo", "input": {"text": "whole"}})),
    ]);
    let (events, result) = with_tools(ANTHROPIC, body, &Toolkit::from_tools([echo()])).await;
    assert_eq!(deltas(&events), ["Let ", "me", "ok"]);
    assert_eq!(
        result.messages[1],
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "two numbers", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "eA=="},
            {"type": "text", "text": "Let me"},
            {"type": "tool_use", "id": "t1", "name": "echo", "input": {}},
            {"type": "tool_use", "id": "t2", "name": "echo", "input": {"text": "é"}},
            {"type": "tool_use", "id": "t3", "name": "echo", "input": {}},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
            {"type": "tool_use", "id": "t4", "name": "echo", "input": {"text": "whole"}},
        ]})
    );
    let outputs: Vec<&str> = result.tool_calls.iter().map(|record| record.output.as_str()).collect();
    assert_eq!((outputs[0], outputs[1], outputs[3]), ("nothing", "é", "whole"));
    // The one that was cut off was not run.
    assert!(outputs[2].starts_with("invalid arguments for tool \"echo\": not valid JSON"), "{}", outputs[2]);
    assert_eq!(result.tool_call_count, 4);
}

// CLIENT-29: a streamed turn that says nothing
#[tokio::test]
async fn an_empty_streamed_turn_leaves_a_readable_transcript() {
    let result = one_turn(ANTHROPIC, anthropic(&[])).await;
    assert_eq!((result.text.as_str(), result.messages.len()), ("", 1));
    let result = one_turn(OPENAI, openai(&[])).await;
    assert_eq!(result.messages[1], json!({"role": "assistant", "content": ""}));
    let result = one_turn(OPENAI, openai(&[json!({"refusal": "I "}), json!({"refusal": "must not"})])).await;
    assert_eq!(result.text, "I must not");
    assert_eq!(result.messages[1], json!({"role": "assistant", "content": null, "refusal": "I must not"}));
}

// CLIENT-122: calls decide, whatever reason was sent; CLIENT-149
#[tokio::test]
async fn calls_decide_whether_a_streamed_turn_goes_on() {
    for style in STYLES {
        for reason in ["stop", "length", "end_turn", "max_tokens", "anything"] {
            let turns =
                [reply(style).tool_call("c", "echo", json!({})).finish(reason), reply(style).text("ok")];
            let server = server(turns).await;
            let client = create_client(options(style, server.base_url()));
            let result = within(client.stream("hi", &Toolkit::from_tools([echo()])).finish()).await.unwrap();
            assert_eq!((result.turns, result.tool_call_count), (2, 1), "{reason}");
        }
        let length = if style == ANTHROPIC { "max_tokens" } else { "length" };
        for (reason, expected) in [(length, FinishReason::Length), ("tool_calls", FinishReason::Stop)] {
            let server = server(reply(style).text("Hel").finish(reason)).await;
            let client = create_client(options(style, server.base_url()));
            let result = within(client.stream("hi", &Toolkit::default()).finish()).await.unwrap();
            assert_eq!((result.status, result.finish_reason), (RunStatus::Done, Some(expected)));
        }
    }
}

// CLIENT-150, case X5: an end before the end is an error, and saves nothing
#[tokio::test]
async fn a_stream_that_ends_early_is_an_error() {
    let openai_call = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "t", "arguments": "{}"}}]}}]});
    let anthropic_call = block(0, &json!({"type": "tool_use", "id": "c", "name": "t", "input": {}}));
    for (style, body, text) in [
        (OPENAI, sse(&[json!({"choices": [{"delta": {"content": "Hel"}}]})]), vec!["Hel"]),
        (OPENAI, sse(&[openai_call]), vec![]),
        (OPENAI, ": keep-alive\n\n".into(), vec![]),
        (OPENAI, String::new(), vec![]),
        (
            OPENAI,
            sse(&[json!({"choices": [{"delta": {"content": "Hel"}, "finish_reason": null}]})]),
            vec!["Hel"],
        ),
        (ANTHROPIC, sse(&[delta(0, &json!({"type": "text_delta", "text": "Hel"}))]), vec!["Hel"]),
        (ANTHROPIC, sse(&[anthropic_call, json!({"type": "content_block_stop", "index": 0})]), vec![]),
        (ANTHROPIC, sse(&[json!({"type": "message_delta", "delta": {"stop_reason": null}})]), vec![]),
        (ANTHROPIC, String::new(), vec![]),
    ] {
        let (tool, record) = recorded("t", |_, _| ToolResult::success(""));
        let double = Double::new([Answer::status(200, &[("content-type", "text/event-stream")], body)]);
        let client = create_client(double.options(style));
        let options = StreamOptions { id: "c".into(), ..Default::default() };
        let (events, error) = drain(client.stream_with("hi", &Toolkit::from_tools([tool]), options)).await;
        assert_eq!(deltas(&events), text);
        assert_eq!(events.len(), text.len(), "{events:?}");
        let Some(ClientError::InvalidResponse(message)) = error else { panic!("{error:?}") };
        assert_eq!(message, "stream ended before the answer was complete");
        assert_eq!(record.count(), 0);
        assert!(client.conversation_store().get("c").await.unwrap().is_none());
    }
}

// CLIENT-150, CLIENT-118: any one of the signs is enough, and the last line may lack its end
#[tokio::test]
async fn a_stream_may_end_in_several_ways() {
    let text = json!({"choices": [{"delta": {"content": "ok"}}]});
    let stop = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    for body in [
        sse(from_ref(&text)) + "data: [DONE]\n\n",
        sse(from_ref(&text)) + "data:[DONE]",
        sse(&[text.clone(), stop.clone()]),
        format!("{}data: {stop}", sse(from_ref(&text))),
        // What follows the end is not read.
        sse(from_ref(&text)) + "data: [DONE]\n\ndata: {\"error\":{\"message\":\"late\"}}\n\n",
    ] {
        assert_eq!(one_turn(OPENAI, body).await.text, "ok");
    }
    let text = delta(0, &json!({"type": "text_delta", "text": "ok"}));
    let stop = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
    for body in [
        anthropic(from_ref(&text)),
        sse(&[text.clone(), stop.clone()]),
        format!("{}data:{stop}", sse(from_ref(&text))),
        anthropic(&[text]) + "data: {\"type\":\"error\"}\n\n",
    ] {
        assert_eq!(one_turn(ANTHROPIC, body).await.text, "ok");
    }
}

// CLIENT-123, case X7
#[tokio::test]
async fn an_error_inside_a_stream_ends_it() {
    let text = delta(0, &json!({"type": "text_delta", "text": "Hel"}));
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let chunk = json!({"choices": [{"delta": {"content": "Hel"}}]});
    let plain = json!({"error": {"message": "quota", "user_id": "u-1"}});
    let redacted = r#"{"error":{"message":"quota","user_id":"«redacted»"}}"#;
    let in_chunk = json!({"id": "x", "choices": [{"delta": {"content": ""}, "finish_reason": "error"}], "error": {"code": 502}});
    for (style, body, expected) in [
        (ANTHROPIC, anthropic(&[text, error.clone()]), error.to_string()),
        (OPENAI, sse(&[chunk.clone(), plain]) + "data: [DONE]\n\n", redacted.to_owned()),
        (OPENAI, sse(&[chunk, in_chunk]), r#"{"error":{"code":502}}"#.to_owned()),
    ] {
        let double = Double::new([Answer::pieces([Ok(body)])]);
        let client = create_client(ClientOptions { retries: Some(2), ..double.options(style) });
        let options = StreamOptions { id: "c".into(), ..Default::default() };
        let (events, error) = drain(client.stream_with("hi", &Toolkit::default(), options)).await;
        assert_eq!(deltas(&events), ["Hel"]);
        let Some(ClientError::Provider(error)) = error else { panic!("{error:?}") };
        assert_eq!(
            (error.status, error.body.as_str(), error.retry_after.as_deref()),
            (200, expected.as_str(), None)
        );
        assert_eq!(error.message, format!("LLM stream error: {expected}"));
        assert_eq!(double.count(), 1);
        assert!(client.conversation_store().get("c").await.unwrap().is_none());
    }
    // Cut as every provider error is.
    let long = json!({"error": {"message": "x".repeat(500)}});
    let (_, error) = stream(OPENAI, vec![sse(&[long])], &Toolkit::default()).await;
    assert_eq!(error.unwrap().to_string().chars().count(), "LLM stream error: ".len() + 201);
}

// CLIENT-118, CLIENT-120
#[tokio::test]
async fn lines_that_are_no_payload_are_skipped() {
    let body = "\u{feff}\n: comment\n\nevent: message\nid: 7\nretry: 10\ndata\ndata:\n data: {\"choices\":[{\"delta\":{\"content\":\"no\"}}]}\n\
        data: not JSON\ndata: [1]\ndata: {\"choices\":\"odd\"}\ndata: {\"choices\":[{\"delta\":{\"content\":7}}]}\n\
        data:{\"choices\":[{\"delta\":{\"content\":\"o\"}}]}   \r\n\ndata:  {\"choices\":[{\"delta\":{\"content\":\"k\"}}]}\n\ndata: [DONE] \r\n";
    let result = one_turn(OPENAI, body.to_owned()).await;
    assert_eq!(result.text, "ok");
    let body = "event: ping\ndata: {}\n\ndata: {\"type\":7}\n\ndata: \"x\"\n\n".to_owned()
        + &anthropic(&[delta(0, &json!({"type": "text_delta", "text": "ok"}))]);
    assert_eq!(one_turn(ANTHROPIC, body).await.text, "ok");
}

// CLIENT-118: a line of 1 MiB works, one over 64 MiB is an error
#[tokio::test]
async fn long_lines_work_and_endless_ones_are_refused() {
    let long = "é".repeat(1 << 20);
    let body = openai(&[json!({"content": long})]).into_bytes();
    let pieces: Vec<Result<Vec<u8>, &str>> = body.chunks(4093).map(|piece| Ok(piece.to_vec())).collect();
    let double = Double::new([Answer::pieces(pieces)]);
    let result =
        create_client(double.options(OPENAI)).stream("hi", &Toolkit::default()).finish().await.unwrap();
    assert_eq!(result.text, long);

    // One byte too many, whether it comes before the end of the line or with it.
    let piece = bytes::Bytes::from(vec![b'x'; 1 << 20]);
    for (first, last) in [("data: ", "\n"), ("", "x\n")] {
        let mut pieces: Vec<Result<bytes::Bytes, &str>> = vec![Ok(first.into())];
        pieces.extend((0..64).map(|_| Ok(piece.clone())));
        pieces.extend([Ok(last.into()), Ok("data: [DONE]\n\n".into())]);
        let double = Double::new([Answer::pieces(pieces)]);
        let stream = create_client(double.options(OPENAI)).stream("hi", &Toolkit::default());
        let error = stream.finish().await.unwrap_err();
        assert!(matches!(error, ClientError::InvalidResponse(_)), "{error:?}");
        assert!(error.to_string().contains("64 MiB"), "{error}");
    }
}

// CLIENT-32, CLIENT-108: what answers a stream with a whole body shows what it is
#[tokio::test]
async fn a_body_that_is_no_stream_is_shown() {
    for style in STYLES {
        for body in [
            r#"{"error":{"message":"not here"}}"#,
            "<html>not here</html>",
            r#"{"choices":[{"message":{"content":"not here"}}]}"#,
        ] {
            let double = Double::new([Answer::status(200, &[("content-type", "application/json")], body)]);
            let client = create_client(ClientOptions { retries: Some(2), ..double.options(style) });
            let error = client.stream("hi", &Toolkit::default()).finish().await.unwrap_err();
            assert!(matches!(error, ClientError::InvalidResponse(_)), "{error:?}");
            assert!(error.to_string().contains("not here"), "{error}");
            assert_eq!(double.count(), 1);
        }
    }
}

// CLIENT-26, CLIENT-114: a delta is delivered before the next one is sent
#[tokio::test]
async fn a_delta_arrives_when_it_is_sent() {
    for style in STYLES {
        let (first, second) = (Gate::new(), Gate::new());
        let answer = reply(style).deltas(["Hel"]).wait(&first).deltas(["lo"]).wait(&second).deltas(["!"]);
        let server = server(answer).await;
        let client = create_client(options(style, server.base_url()));
        let mut stream = client.stream("hi", &Toolkit::default());
        for (expected, gate) in [("Hel", Some(&first)), ("lo", Some(&second)), ("!", None)] {
            let event = within(stream.next()).await.unwrap().unwrap();
            assert_eq!(event, StreamEvent::Text { delta: expected.into() });
            if let Some(gate) = gate {
                // The rest has not even been sent.
                assert!(!gate.is_open());
                gate.open();
            }
        }
        assert_eq!(within(stream.finish()).await.unwrap().text, "Hello!");
    }
}

// CLIENT-26: a stream is read no faster than its events are taken
#[tokio::test]
async fn a_slow_listener_slows_the_reading() {
    for style in CONTENT_STYLES {
        let read = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let body = String::from_utf8(recording(style, false)).unwrap();
        let count = Arc::clone(&read);
        // Every line is a piece of its own, and all of them are there at once.
        let pieces: Vec<Result<String, &str>> =
            body.split_inclusive("\n").map(|line| Ok(line.to_owned())).collect();
        let answer = Answer::pieces(pieces).counted(count);
        let double = Double::new([answer, Answer::streamed_text(style, "ok")]);
        let mut stream = create_client(double.options(style)).stream("hi", &Toolkit::from_tools([echo()]));
        let upto = |text: &str| body.split_inclusive("\n").position(|line| line.contains(text)).unwrap() + 1;
        for text in ["naïve ", "☃🦀"] {
            assert_eq!(stream.next().await.unwrap().unwrap(), StreamEvent::Text { delta: text.into() });
            assert_eq!(read.load(std::sync::atomic::Ordering::Relaxed), upto(text));
        }
    }
}

// CLIENT-128: the same for `ask_with`, whose listener is called as the text comes
#[tokio::test]
async fn ask_with_hands_on_text_as_it_comes() {
    for style in STYLES {
        let gate = Gate::new();
        let server = server(reply(style).deltas(["Hel"]).wait(&gate).deltas(["lo"])).await;
        let client = create_client(options(style, server.base_url()));
        let heard = Arc::new(std::sync::Mutex::new(String::new()));
        let (sink, opens) = (Arc::clone(&heard), gate.clone());
        let ask = toolnexus_llm::AskOptions {
            on_text: Some(Arc::new(move |text: &str| {
                sink.lock().unwrap().push_str(text);
                // Without this the server would never go on.
                opens.open();
            })),
            ..Default::default()
        };
        let result = within(client.ask_with("hi", &Toolkit::default(), "", ask)).await.unwrap();
        assert_eq!((result.text.as_str(), heard.lock().unwrap().as_str()), ("Hello", "Hello"));
    }
}

// CLIENT-116: text, usage, all calls before any tool starts, then results in call order
#[tokio::test]
async fn the_events_of_a_turn_have_their_order() {
    for style in STYLES {
        let turn = reply(style)
            .deltas(["I ", "add"])
            .tool_call("1", "add", json!({"a": 1, "b": 2}))
            .tool_call("2", "nope", json!({}))
            .tool_call("3", "add", json!({"a": 3, "b": 4}))
            .usage(10, 5);
        let server = server([turn, reply(style).deltas(["ok"]).usage(20, 6)]).await;
        let client = create_client(options(style, server.base_url()));
        let (events, error) = within(drain(client.stream("hi", &Toolkit::from_tools([add()])))).await;
        assert!(error.is_none());
        assert_eq!(
            kinds(&events),
            [
                "text",
                "text",
                "usage",
                "tool_call",
                "tool_call",
                "tool_call",
                "tool_result",
                "tool_result",
                "tool_result",
                "text",
                "usage",
                "done"
            ]
        );
        let usages: Vec<(u64, u64, u64)> = events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::Usage { usage } => Some(total(*usage)),
                _ => None,
            })
            .collect();
        // The running total.
        assert_eq!(usages, [(10, 5, 15), (30, 11, 41)]);
        let outputs: Vec<(&str, &str, bool)> = events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::ToolResult { id, output, is_error, .. } => {
                    Some((id.as_str(), output.as_str(), *is_error))
                }
                _ => None,
            })
            .collect();
        assert_eq!(outputs, [("1", "3", false), ("2", "unknown tool: nope", true), ("3", "7", false)]);
        assert_eq!(total(done(&events).usage), (30, 11, 41));
    }
}

// CLIENT-116, CLIENT-114: the listener has the calls before a tool starts, and a result when its turn has come
#[tokio::test]
async fn tools_start_when_their_calls_were_told() {
    for style in STYLES {
        let (tool, record) = recorded("quick", |_, _| ToolResult::success("q"));
        let slow = stuck("slow");
        let turn = reply(style).tool_call("1", "quick", json!({})).tool_call("2", "slow", json!({}));
        let server = server(turn).await;
        let client = create_client(options(style, server.base_url()));
        let mut stream = client.stream("hi", &Toolkit::from_tools([tool, slow.tool]));
        for expected in ["usage", "tool_call", "tool_call"] {
            let event = within(stream.next()).await.unwrap().unwrap();
            assert_eq!(kinds(&[event]), [expected]);
            assert_eq!(record.count(), 0);
        }
        // The first result does not wait for the second.
        let event = within(stream.next()).await.unwrap().unwrap();
        assert!(matches!(event, StreamEvent::ToolResult { id, .. } if id == "1"));
        drop(stream);
        within(slow.dropped).await.unwrap_err();
    }
}

// CLIENT-124: dropping the stream cancels its request
#[tokio::test]
async fn dropping_a_stream_closes_its_connection() {
    for style in STYLES {
        let server = server(reply(style).deltas(["Hel"]).then_hang()).await;
        let client = create_client(options(style, server.base_url()));
        let options = StreamOptions { id: "c".into(), ..Default::default() };
        let mut stream = client.stream_with("hi", &Toolkit::default(), options);
        within(stream.next()).await.unwrap().unwrap();
        drop(stream);
        within(server.wait_for_aborted(1)).await;
        assert!(client.conversation_store().get("c").await.unwrap().is_none());
    }
}

// D2: nothing happens before the first poll; after the end there is nothing
#[tokio::test]
async fn a_stream_is_lazy_and_ends_once() {
    let double = Double::new([Answer::streamed_text(OPENAI, "ok")]);
    let client = create_client(double.options(OPENAI));
    let mut stream = client.stream("hi", &Toolkit::default());
    tokio::task::yield_now().await;
    assert_eq!(double.count(), 0);
    while let Some(event) = stream.next().await {
        event.unwrap();
    }
    assert!(stream.next().await.is_none());
    assert!(stream.next().await.is_none());
    // Its result went with `Done`.
    assert!(matches!(stream.finish().await, Err(ClientError::Unsupported(_))));
}

// D23: finish drains what is left
#[tokio::test]
async fn finish_takes_the_rest_and_returns_the_result() {
    for style in STYLES {
        let server = server([
            reply(style).deltas(["a", "b"]).tool_call("1", "echo", json!({})),
            reply(style).text("ok"),
        ])
        .await;
        let client = create_client(options(style, server.base_url()));
        let mut stream = client.stream("hi", &Toolkit::from_tools([echo()]));
        assert!(matches!(within(stream.next()).await, Some(Ok(StreamEvent::Text { .. }))));
        let result = within(stream.finish()).await.unwrap();
        assert_eq!((result.text.as_str(), result.turns, result.tool_call_count), ("ok", 2, 1));
    }
    let server = server(Reply::status(400).body("no")).await;
    let client = create_client(options(OPENAI, server.base_url()));
    let error = within(client.stream("hi", &Toolkit::default()).finish()).await.unwrap_err();
    assert!(matches!(error, ClientError::Provider(_)));
}

// D2: a stream moves between tasks and threads
#[tokio::test]
async fn a_stream_can_be_spawned() {
    let double = Double::new([Answer::streamed_text(OPENAI, "ok")]);
    let stream = create_client(double.options(OPENAI)).stream("hi", &Toolkit::default());
    fn unpin<T: Unpin + Send + 'static>(value: T) -> T {
        value
    }
    let mut stream = unpin(stream);
    let events = tokio::spawn(async move {
        let mut count = 0;
        while stream.next().await.is_some() {
            count += 1;
        }
        count
    });
    assert_eq!(events.await.unwrap(), 3);
}

// CLIENT-114: the result of a stream is that of a run
#[tokio::test]
async fn a_streamed_run_ends_like_a_buffered_one() {
    for style in STYLES {
        let script = || {
            Script::from([
                reply(style).text("I add.").tool_call("1", "add", json!({"a": 2, "b": 3})).usage(10, 5),
                reply(style).text("2 + 3 = 5 ☃").usage(20, 7),
            ])
        };
        let toolkit = Toolkit::from_tools([add()]);
        let buffered = server(script()).await;
        let run =
            within(create_client(options(style, buffered.base_url())).run("hi", &toolkit)).await.unwrap();
        let live = server(script()).await;
        let client = create_client(options(style, live.base_url()));
        let streamed = within(client.stream("hi", &toolkit).finish()).await.unwrap();
        assert_eq!(RunResult { messages: run.messages.clone(), ..streamed.clone() }, run);
        assert_eq!(streamed.messages.len(), run.messages.len());
        assert_eq!(streamed.messages[2], run.messages[2]);
        // The second requests differ in what asks for a stream, and in how the first answer is spelled.
        let tools =
            |server: &toolnexus_testkit::model::ModelServer| server.requests()[1].json()["tools"].clone();
        assert_eq!(tools(&live), tools(&buffered));
    }
}

// CLIENT-13, CLIENT-118: the connection is free again when the stream has ended
#[tokio::test]
async fn the_turns_of_a_stream_share_a_connection() {
    for style in STYLES {
        let server = server([
            reply(style).tool_call("1", "echo", json!({})),
            reply(style).text("one"),
            reply(style).text("two"),
        ])
        .await;
        let client = create_client(options(style, server.base_url()));
        let toolkit = Toolkit::from_tools([echo()]);
        within(client.stream("hi", &toolkit).finish()).await.unwrap();
        within(client.stream("hi", &toolkit).finish()).await.unwrap();
        assert_eq!((server.request_count(), server.accepted_connections()), (3, 1), "{style}");
    }
}

// CLIENT-118: the answer is complete with its last event, whether the body ends or not
#[tokio::test]
async fn a_body_that_stays_open_is_not_waited_for() {
    for style in CONTENT_STYLES {
        let body = match style {
            ANTHROPIC => anthropic(&[delta(0, &json!({"type": "text_delta", "text": "ok"}))]),
            _ => openai(&[json!({"content": "ok"})]),
        };
        let server = server(Reply::stream().chunk(body).then_hang()).await;
        let client = create_client(options(style, server.base_url()));
        let result = within(client.stream("hi", &Toolkit::default()).finish()).await.unwrap();
        assert_eq!(result.text, "ok");
        within(server.wait_for_aborted(1)).await;
    }
}

// CLIENT-115, CLIENT-147: the JSON of each event
#[test]
fn the_json_of_each_event_stays_as_it_is() {
    let result: RunResult = serde_json::from_value(json!({
        "text": "ok", "messages": [], "toolCalls": [], "toolCallCount": 0, "turns": 1,
        "usage": {"promptTokens": 1, "completionTokens": 2, "totalTokens": 3}, "model": "m", "status": "done",
        "files": [],
    }))
    .unwrap();
    let usage = Usage {
        prompt_tokens: 5,
        completion_tokens: 2,
        total_tokens: 7,
        cache_read_tokens: 1,
        ..Default::default()
    };
    let request =
        Request { id: "sus-1".into(), kind: "input".into(), prompt: "?".into(), ..Default::default() };
    let events = [
        StreamEvent::Text { delta: "Hel".into() },
        StreamEvent::Usage { usage },
        StreamEvent::ToolCall {
            id: "c".into(),
            name: "add".into(),
            args: object(json!({"a": 1})),
            via: None,
        },
        StreamEvent::Pending { request },
        StreamEvent::ToolResult {
            id: "c".into(),
            name: "add".into(),
            output: "5".into(),
            is_error: false,
            metadata: None,
            via: None,
        },
        StreamEvent::ToolResult {
            id: "c".into(),
            name: "add".into(),
            output: "no".into(),
            is_error: true,
            metadata: Some(object(json!({"k": 1}))),
            via: Some("call_tool".into()),
        },
        StreamEvent::Done { result: Box::new(result) },
    ];
    let lines: Vec<String> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    insta::assert_snapshot!("events", lines.join("\n"));
    for (line, event) in lines.iter().zip(&events) {
        assert_eq!(&serde_json::from_str::<StreamEvent>(line).unwrap(), event);
    }
}

/// A recorded turn of each dialect: names, blank lines, comments, text beyond ASCII, two calls.
fn recording(style: Style, crlf: bool) -> Vec<u8> {
    let text = match style {
        ANTHROPIC => {
            let events = [
                json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 25, "output_tokens": 1}}}),
                block(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
                delta(0, &json!({"type": "thinking_delta", "thinking": "überlegt"})),
                delta(0, &json!({"type": "signature_delta", "signature": "c2ln"})),
                block(1, &json!({"type": "text", "text": ""})),
                json!({"type": "ping"}),
                delta(1, &json!({"type": "text_delta", "text": "naïve "})),
                delta(1, &json!({"type": "text_delta", "text": "☃🦀"})),
                block(2, &json!({"type": "tool_use", "id": "t1", "name": "echo", "input": {}})),
                delta(2, &json!({"type": "input_json_delta", "partial_json": "{\"text\":\"é"})),
                delta(2, &json!({"type": "input_json_delta", "partial_json": "\\n日本\"}"})),
                block(3, &json!({"type": "tool_use", "id": "t2", "name": "echo", "input": {}})),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 15}}),
                json!({"type": "message_stop"}),
            ];
            events
                .iter()
                .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
                .collect()
        }
        _ => {
            let chunks = [
                json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
                json!({"choices": [{"delta": {"content": "naïve "}}]}),
                json!({"choices": [{"delta": {"content": "☃🦀"}}]}),
                json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "t1", "function": {"name": "echo", "arguments": ""}}]}}]}),
                json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{\"text\":\"é"}}]}}]}),
                json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "\\n日本\"}"}}]}}]}),
                json!({"choices": [{"delta": {"tool_calls": [{"index": 1, "id": "t2", "function": {"name": "echo"}}]}}]}),
                json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 25, "completion_tokens": 15, "total_tokens": 40}}),
            ];
            format!(": OPENROUTER PROCESSING\n\n{}data: [DONE]\n\n", sse(&chunks))
        }
    };
    if crlf { text.replace('\n', "\r\n").into_bytes() } else { text.into_bytes() }
}

fn cut(bytes: &[u8], cuts: &[usize]) -> Vec<Result<Vec<u8>, &'static str>> {
    let mut cuts: Vec<usize> = cuts.iter().map(|at| at % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| Ok(bytes[pair[0]..pair[1]].to_vec())).collect()
}

async fn replayed(style: Style, pieces: Vec<Result<Vec<u8>, &'static str>>) -> Vec<StreamEvent> {
    let double = Double::new([Answer::pieces(pieces), Answer::streamed_text(style, "ok")]);
    let client = create_client(double.options(style));
    let (events, error) = drain(client.stream("hi", &Toolkit::from_tools([echo()]))).await;
    assert!(error.is_none(), "{error:?}");
    events
}

// CLIENT-118: the recording itself, read whole
#[tokio::test]
async fn the_recordings_read_as_they_should() {
    for style in CONTENT_STYLES {
        for crlf in [false, true] {
            let bytes = recording(style, crlf);
            let events = replayed(style, cut(&bytes, &[])).await;
            assert_eq!(deltas(&events), ["naïve ", "☃🦀", "ok"]);
            let result = done(&events);
            assert_eq!(total(result.usage), (25, 15, 40));
            let outputs: Vec<&str> = result.tool_calls.iter().map(|record| record.output.as_str()).collect();
            assert_eq!(outputs, ["é\n日本", "nothing"]);
            // Byte by byte it is the same.
            let every: Vec<usize> = (0..bytes.len()).collect();
            assert_eq!(replayed(style, cut(&bytes, &every)).await, events);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]

    // CLIENT-118: chunk boundaries anywhere, inside lines and inside UTF-8
    #[test]
    fn where_the_bytes_are_cut_makes_no_difference(
        anthropic in any::<bool>(),
        crlf in any::<bool>(),
        cuts in proptest::collection::vec(any::<usize>(), 0..40),
    ) {
        let style = if anthropic { ANTHROPIC } else { OPENAI };
        let bytes = recording(style, crlf);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (whole, pieces) = runtime.block_on(async {
            (replayed(style, cut(&bytes, &[])).await, replayed(style, cut(&bytes, &cuts)).await)
        });
        prop_assert_eq!(pieces, whole);
    }

    // CLIENT-150, CLIENT-118: cut off anywhere, a stream gives a whole answer or an error, never a panic
    #[test]
    fn a_stream_cut_off_anywhere_is_no_short_answer(anthropic in any::<bool>(), at in any::<usize>()) {
        let style = if anthropic { ANTHROPIC } else { OPENAI };
        let bytes = recording(style, false);
        let at = at % bytes.len();
        let head = [("content-type", "text/event-stream")];
        let cut_off = Answer::status(200, &head, bytes[..at].to_vec());
        let double = Double::new([cut_off, Answer::streamed_text(style, "ok")]);
        let client = create_client(double.options(style));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (events, error) = runtime.block_on(drain(client.stream("hi", &Toolkit::from_tools([echo()]))));
        match error {
            Some(ClientError::InvalidResponse(message)) => {
                prop_assert_eq!(message, "stream ended before the answer was complete");
                prop_assert!(kinds(&events).iter().all(|kind| kind == "text"));
            }
            Some(other) => prop_assert!(false, "{other:?}"),
            None => {
                let finish = if anthropic { "stop_reason" } else { "finish_reason" };
                prop_assert!(String::from_utf8_lossy(&bytes[..at]).contains(finish));
                prop_assert_eq!(done(&events).tool_call_count, 2);
            }
        }
    }
}

// CLIENT-40: what a stream leaves is a history
#[tokio::test]
async fn the_transcript_of_a_stream_can_be_continued() {
    for style in CONTENT_STYLES {
        let double = Double::new([Answer::streamed_text(style, "one"), Answer::text(style, "two")]);
        let client = create_client(double.options(style));
        let first = client.stream("hi", &Toolkit::default()).finish().await.unwrap();
        let run = toolnexus_llm::RunOptions { history: first.messages, ..Default::default() };
        let second = client.run_with("and", &Toolkit::default(), run).await.unwrap();
        let sent: Vec<Message> =
            double.body(1)["messages"].as_array().unwrap().iter().cloned().map(Message::from).collect();
        assert_eq!(sent, second.messages[..3]);
    }
}

/// A body in memory whose next piece is always ready. It ends at last, so that a run which looks
/// at nothing else does not hang the test.
struct AlwaysReady;

impl HttpTransport for AlwaysReady {
    fn send(&self, _request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let piece = Bytes::from_static(b": still here\n\n");
        let body = futures::stream::iter(std::iter::repeat_n(piece, 5_000_000)).map(Ok).boxed();
        let response = HttpResponse { status: StatusCode::OK, headers: HeaderMap::new(), body };
        Box::pin(std::future::ready(Ok(response)))
    }
}

// CLIENT-99: the deadline gets its turn however fast the pieces come
#[tokio::test]
async fn a_body_that_is_always_ready_does_not_keep_the_deadline_away() {
    let client = create_client(ClientOptions {
        base_url: "http://model.test".into(),
        model: "m".into(),
        api_key: "k".into(),
        http_client: Some(Arc::new(AlwaysReady)),
        timeout_ms: 20,
        ..Default::default()
    });
    let error = client.stream("hi", &Toolkit::default()).finish().await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout { timeout_ms: 20 }), "{error}");
}
