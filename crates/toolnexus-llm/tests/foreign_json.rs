//! JSON that a model or gateway may send and that nobody could use later. All found by fuzzing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use support::double::{Answer, Double};
use support::tools::echo;
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

// CLIENT-32, CLIENT-41: an emoji that was cut in two; a message that nobody can read is no message
#[tokio::test]
async fn half_a_surrogate_is_an_unreadable_answer() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"cut \ud83e"}}]}"#;
    refused(run(Style::OpenAI, body.into()).await, "its choices[0].message cannot be used");
    let body = r#"{"content":[{"type":"server_tool_use","input":{"q":"\ud83e"}}],"stop_reason":"end_turn"}"#;
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
