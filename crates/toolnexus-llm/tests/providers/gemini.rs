//! Gemini `generateContent`.

use serde_json::{Value, json};
use toolnexus_llm::{ClientError, FinishReason, Style};

use crate::recorded::{Asked, answer, asked, failure, json_of, outcome, time, weather};

fn rome(id: &str) -> Asked {
    asked(id, "get_weather", json!({"city": "Rome"}))
}

fn result(id: Option<&str>, name: &str, output: &str) -> Value {
    let mut response = json!({"name": name, "response": {"output": output, "isError": false}});
    if let Some(id) = id {
        response["id"] = json!(id);
    }
    json!({"functionResponse": response})
}

// CLIENT-154, CLIENT-155, CLIENT-156, CLIENT-149, CLIENT-79
#[tokio::test]
async fn whole_answers() {
    let plain = outcome("gemini/plain.json").await.kept_verbatim().counted([4, 28, 32], [2, 0]);
    assert_eq!(plain.usage.context_tokens(Style::Gemini), 4);
    plain.said("Hello there, friend.", FinishReason::Stop);
    outcome("gemini/code.json").await.kept_verbatim().said("It is 42.", FinishReason::Stop);

    let calls = [weather("call_0_0"), rome("call_0_1"), time("call_0_2")];
    let tools =
        outcome("gemini/tools.json").await.kept_verbatim().counted([82, 100, 182], [0, 0]).called(&calls);
    // The signature goes back, and no id that the model did not give.
    assert_eq!(tools.sent[1]["parts"][0]["thoughtSignature"], "CiQB0e2Kb1");
    let results = [("get_weather", "sunny"), ("get_weather", "sunny"), ("get_time", "noon")];
    let results = results.map(|(name, output)| result(None, name, output));
    assert_eq!(tools.sent[2], json!({"role": "user", "parts": results}));

    let calls = [weather("8f2b1a3c"), time("9a3c2b4d")];
    let named = outcome("gemini/tools-with-ids.json").await.kept_verbatim().called(&calls);
    let results =
        [result(Some("8f2b1a3c"), "get_weather", "sunny"), result(Some("9a3c2b4d"), "get_time", "noon")];
    assert_eq!(named.sent[2], json!({"role": "user", "parts": results}));
}

// CLIENT-29, CLIENT-155, CLIENT-149
#[tokio::test]
async fn candidates_without_content() {
    for (file, finish) in [
        ("gemini/max-tokens.json", FinishReason::Length),
        ("gemini/max-tokens-role-only.json", FinishReason::Length),
        ("gemini/recitation.json", FinishReason::ContentFilter),
        ("gemini/malformed-call.json", FinishReason::Stop),
        ("gemini/malformed-call.sse", FinishReason::Stop),
        // A lone empty text would be refused in the next request.
        ("gemini/empty-text.json", FinishReason::Stop),
    ] {
        outcome(file).await.said("", finish).kept_nothing();
    }
    outcome("gemini/max-tokens.json").await.counted([9, 47, 56], [0, 0]);
}

// CLIENT-157, CLIENT-118: CRLF, a usage in every event
#[tokio::test]
async fn streamed_answers() {
    let plain =
        outcome("gemini/plain.sse").await.told(&["Hel", "lo, ", "friend."]).counted([4, 28, 32], [0, 0]);
    plain
        .said("Hello, friend.", FinishReason::Stop)
        .kept(&json!({"role": "model", "parts": [{"text": "Hello, friend."}]}));
    let calls = [weather("call_0_0"), rome("call_0_1"), time("9a3c2b4d")];
    let tools = outcome("gemini/tools.sse").await.told(&[]).counted([82, 80, 162], [0, 0]).called(&calls);
    let tools = tools.kept(&json!({"role": "model", "parts": [
        {"text": "**Planning** the calls", "thought": true},
        {"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}, "thoughtSignature": "CiQB0e2Kb1"},
        {"functionCall": {"name": "get_weather", "args": {"city": "Rome"}}},
        {"functionCall": {"id": "9a3c2b4d", "name": "get_time", "args": {}}},
    ]}));
    let results = [
        result(None, "get_weather", "sunny"),
        result(None, "get_weather", "sunny"),
        result(Some("9a3c2b4d"), "get_time", "noon"),
    ];
    assert_eq!(tools.sent[2], json!({"role": "user", "parts": results}));
    let signed = outcome("gemini/signed.sse").await.told(&["I think", " so", "."]);
    signed.said("I think so.", FinishReason::Stop).kept(&json!({"role": "model", "parts": [
        {"text": "I think"}, {"text": " so", "thoughtSignature": "U0lHMQ=="}, {"text": "."},
        {"text": "", "thoughtSignature": "U0lHMg=="},
    ]}));
    let safety = outcome("gemini/safety.sse").await.told(&["First you"]);
    safety.said("First you", FinishReason::ContentFilter);
}

// CLIENT-155
#[tokio::test]
async fn a_blocked_prompt_is_an_error_that_says_why() {
    for (file, reason) in [("gemini/blocked.json", "PROHIBITED_CONTENT"), ("gemini/blocked.sse", "SAFETY")] {
        let of_kind = usize::from(file.ends_with(".sse"));
        let error = failure(Style::Gemini, answer(file)).await.remove(of_kind);
        assert!(matches!(&error, ClientError::InvalidResponse(text) if text.contains(reason)), "{error}");
    }
    assert!(json_of("gemini/blocked.json").get("candidates").is_none());
}
