//! JSON that models and gateways send although it is odd: what can be used of it is, the rest is an error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use serde_json::json;
use support::double::{Answer, Double};
use support::tools::{add, echo};
use toolnexus_core::{Style, Toolkit};
use toolnexus_llm::run::RunEvent;
use toolnexus_llm::{ClientError, ClientOptions, Message, RunResult, create_client};

async fn run(style: Style, body: String) -> Result<RunResult, ClientError> {
    let double = Double::new([Answer::status(200, &[], body)]);
    let client = create_client(ClientOptions { max_turns: 1, ..double.options(style) });
    client.run("hi", &Toolkit::from_tools([echo()])).await
}

async fn stream(style: Style, body: String) -> Result<RunResult, ClientError> {
    let double = Double::new([Answer::pieces([Ok(body)])]);
    let client = create_client(ClientOptions { max_turns: 1, ..double.options(style) });
    client.stream("hi", &Toolkit::from_tools([echo()])).finish().await
}

fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

fn refused(result: Result<RunResult, ClientError>, problem: &str) {
    match result {
        Err(ClientError::InvalidResponse(text)) => assert!(text.contains(problem), "{text}"),
        other => panic!("{other:?}"),
    }
}

// CLIENT-32, CLIENT-41: a message that nobody can read is no message
#[tokio::test]
async fn numbers_out_of_range_are_unreadable() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"x","score":9e888}}]}"#;
    refused(run(Style::OpenAI, body.into()).await, "its choices[0].message cannot be used");
    let body = r#"{"content":[{"type":"server_tool_use","input":{"q":9e888}}],"stop_reason":"end_turn"}"#;
    refused(run(Style::Anthropic, body.into()).await, "its content cannot be used");
    assert!(Message::from_json(r#"{"content":"\ud83e"}"#).is_err());
    assert!(Message::from_json(r#"{"content":9e888}"#).is_err());
}

// CLIENT-32, CLIENT-35: what is stored must be readable, and that adds levels around it
#[tokio::test]
async fn nesting_that_no_store_could_read_back_is_refused() {
    let deep = nested(120);
    let body =
        format!(r#"{{"content":[{{"type":"tool_use","id":"t","name":"echo","input":{{"a":{deep}}}}}]}}"#);
    refused(run(Style::Anthropic, body).await, "nested deeper than 100 levels");
    let body = format!(
        "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"x\",\"a\":{deep}}}}}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"
    );
    refused(stream(Style::Anthropic, body).await, "nested deeper than 100 levels");
    let body = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c\",\"function\":{{\"name\":\"echo\"}},\"extra\":{deep}}}]}}}}]}}\n\ndata: [DONE]\n\n"
    );
    refused(stream(Style::OpenAI, body).await, "nested deeper than 100 levels");

    // Arguments that are a text of their own are answered, like any others that cannot be read.
    let body = format!(
        r#"{{"choices":[{{"message":{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","function":{{"name":"echo","arguments":"{{\"a\":{deep}}}"}}}}]}}}}]}}"#
    );
    let result = run(Style::OpenAI, body).await.unwrap();
    let call = &result.tool_calls[0];
    assert!(call.is_error && call.args.is_empty(), "{call:?}");
    assert_eq!(
        call.output,
        "invalid arguments for tool \"echo\": not valid JSON: nested deeper than 100 levels"
    );
    let stored = serde_json::to_string(&result).unwrap();
    assert_eq!(serde_json::from_str::<RunResult>(&stored).unwrap(), result);
}

// RUN-1: a number that is written and read again is the same number
#[test]
fn numbers_survive_a_log() {
    let text = r#"{"v":1,"type":"messages_replaced","messages":[{"x":908.2887495876919}]}"#;
    let event: RunEvent = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&event).unwrap(), text);
}

/// The final text of an answer, read whole or as a stream.
async fn text_of(style: Style, answer: Answer, streamed: bool) -> String {
    let double = Double::new([answer]);
    let client = create_client(double.options(style));
    let result = if streamed {
        client.stream("hi", &Toolkit::default()).finish().await
    } else {
        client.run("hi", &Toolkit::default()).await
    };
    result.unwrap().text
}

// CLIENT-32, CLIENT-118: an emoji cut in half costs one character, not the answer
#[tokio::test]
async fn half_a_surrogate_pair_is_one_lost_character() {
    let whole =
        r#"{"choices":[{"message":{"role":"assistant","content":"hello \ud83d"},"finish_reason":"length"}]}"#;
    let answer = Answer::status(200, &[], whole);
    assert_eq!(text_of(Style::OpenAI, answer, false).await, "hello \u{fffd}");
    let whole = r#"{"content":[{"type":"text","text":"hello \ud83d"}],"stop_reason":"max_tokens"}"#;
    let answer = Answer::status(200, &[], whole);
    assert_eq!(text_of(Style::Anthropic, answer, false).await, "hello \u{fffd}");
    let chunk = r#"{"choices":[{"delta":{"content":"hello \ud83d"},"finish_reason":"length"}]}"#;
    let answer = Answer::pieces([Ok(format!("data: {chunk}\n\ndata: [DONE]\n\n"))]);
    assert_eq!(text_of(Style::OpenAI, answer, true).await, "hello \u{fffd}");
}

// CLIENT-32: a list in place of an object is no answer, although its entries have the right types
#[tokio::test]
async fn lists_are_no_objects() {
    for (style, body) in [
        (Style::OpenAI, r#"[[{"message":{"role":"assistant","content":"x"}}]]"#),
        (Style::OpenAI, r#"{"choices":[[{"role":"assistant","content":"x"}]]}"#),
        (Style::OpenAI, r#"{"choices":[{"message":["assistant","x"]}]}"#),
        (
            Style::OpenAI,
            r#"{"choices":[{"message":{"role":"assistant","tool_calls":[["c1",{"name":"add"}]]}}]}"#,
        ),
        (
            Style::OpenAI,
            r#"{"choices":[{"message":{"role":"assistant","tool_calls":[{"id":"c1","function":["add"]}]}}]}"#,
        ),
        (Style::Anthropic, r#"[[{"type":"text","text":"x"}]]"#),
        (Style::Anthropic, r#"{"content":[["text","x"]]}"#),
        (Style::Anthropic, r#"{"content":[["tool_use",null,"c1","add",{}]]}"#),
        (Style::Gemini, r#"[[{"content":{"parts":[{"text":"x"}]}}]]"#),
        (Style::Gemini, r#"{"candidates":[[1,{"parts":[{"text":"x"}]}]]}"#),
        (Style::Gemini, r#"{"candidates":[{"content":["model",[{"text":"x"}]]}]}"#),
        (Style::Gemini, r#"{"candidates":[{"content":{"parts":[["x"]]}}]}"#),
    ] {
        let result = run(style, body.into()).await;
        assert!(matches!(result, Err(ClientError::InvalidResponse(_))), "{body}: {result:?}");
    }
}

// CLIENT-119: a call is never lost to an odd type beside it
#[tokio::test]
async fn streamed_calls_survive_odd_types() {
    for entries in [
        json!([{"index": 0.0, "id": 7, "function": {"name": "add", "arguments": "{\"a\":2,\"b\":3}"}}]),
        json!([{"index": "0", "id": "c", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}]),
        json!([{"index": -1, "id": "c", "function": {"name": "add", "arguments": "{\"a\":2,\"b\":3}"}}]),
        json!({"index": 0, "id": "c", "function": {"name": "add", "arguments": "{\"a\":2,\"b\":3}"}}),
    ] {
        let chunk = json!({"choices": [{"delta": {"tool_calls": entries}, "finish_reason": "tool_calls"}]});
        let call = Answer::pieces([Ok(format!("data: {chunk}\n\ndata: [DONE]\n\n"))]);
        let double = Double::new([call, Answer::streamed_text(Style::OpenAI, "ok")]);
        let client = create_client(double.options(Style::OpenAI));
        let result = client.stream("hi", &Toolkit::from_tools([add()])).finish().await.unwrap();
        assert_eq!(result.tool_calls.len(), 1, "{chunk}");
        assert_eq!(result.tool_calls[0].output, "5", "{chunk}");
    }
    // What cannot be a call at all is an error, not an answer without calls.
    let chunk = json!({"choices": [{"delta": {"tool_calls": ["add"]}, "finish_reason": "tool_calls"}]});
    let double = Double::new([Answer::pieces([Ok(format!("data: {chunk}\n\ndata: [DONE]\n\n"))])]);
    let error = create_client(double.options(Style::OpenAI))
        .stream("hi", &Toolkit::default())
        .finish()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("tool_calls"), "{error}");
}

// CLIENT-119: content given as a list of parts is text as in a whole answer
#[tokio::test]
async fn streamed_content_may_be_parts() {
    let chunk = json!({"choices": [{"delta": {"content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}}]});
    let answer = Answer::pieces([Ok(format!("data: {chunk}\n\ndata: [DONE]\n\n"))]);
    assert_eq!(text_of(Style::OpenAI, answer, true).await, "Hello");
}

// D15: a stream without end is cut off
#[tokio::test]
async fn a_stream_has_a_total_limit() {
    let filler = format!(": {}\n", "x".repeat(1 << 20));
    let endless = Answer::pieces(std::iter::repeat_n(Ok(bytes::Bytes::from(filler)), 300));
    let double = Double::new([endless]);
    let client = create_client(double.options(Style::OpenAI));
    let error = client.stream("hi", &Toolkit::default()).finish().await.unwrap_err();
    assert!(error.to_string().contains("over the limit"), "{error}");
}

// RUN-7: a version that is none is refused
#[test]
fn an_odd_event_version_is_unreadable() {
    for version in ["1e30", "2.5", "-1", "\"2\"", "null"] {
        let json = format!("{{\"v\":{version},\"type\":\"resumed\"}}");
        assert!(serde_json::from_str::<toolnexus_llm::run::RunEvent>(&json).is_err(), "{json}");
    }
}
