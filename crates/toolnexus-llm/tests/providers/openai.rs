//! OpenAI, and Azure and OpenRouter, which add to its answers.

use serde_json::json;
use toolnexus_llm::FinishReason;

use crate::recorded::{json_of, outcome, time, weather};

// CLIENT-32, CLIENT-41, CLIENT-78, CLIENT-149
#[tokio::test]
async fn whole_answers() {
    let plain = outcome("openai/plain.json").await.kept_verbatim().counted([1117, 46, 1163], [1024, 0]);
    plain.said("Hello! How can I assist you today?", FinishReason::Stop);
    let tools = outcome("openai/tools.json").await.kept_verbatim().counted([82, 17, 99], [0, 0]);
    tools.called(&[weather("call_abc123"), time("call_def456")]);
    let refusal = outcome("openai/refusal.json").await.kept_verbatim();
    refusal.said("I'm sorry, I cannot assist with that request.", FinishReason::Stop);
    // All of the answer went into reasoning: an empty one, and the host can see why.
    let length = outcome("openai/length.json").await.kept_verbatim().counted([9, 16, 25], [0, 0]);
    length.said("", FinishReason::Length);
}

// CLIENT-44, CLIENT-118, CLIENT-119
#[tokio::test]
async fn streamed_answers() {
    let plain = outcome("openai/plain.sse").await.told(&["Hello", "! Ça va", " ☀️"]);
    plain
        .said("Hello! Ça va ☀️", FinishReason::Stop)
        .counted([19, 10, 29], [0, 0])
        .kept(&json!({"role": "assistant", "content": "Hello! Ça va ☀️"}));
    let tools = outcome("openai/tools.sse").await.told(&[]).counted([121, 36, 157], [0, 0]);
    let ids = ["call_DdmO9pD3xa9XTPNJ32zg2hcA", "call_jIcnOkF3FzvNcLVXDYZEHK1S"];
    tools.called(&[weather(ids[0]), time(ids[1])]).kept(&json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": ids[0], "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"}},
        {"id": ids[1], "type": "function", "function": {"name": "get_time", "arguments": "{}"}},
    ]}));
    let refusal = outcome("openai/refusal.sse").await.told(&[]);
    refusal
        .said("I'm sorry, I cannot assist.", FinishReason::Stop)
        .kept(&json!({"role": "assistant", "content": null, "refusal": "I'm sorry, I cannot assist."}));
}

// CLIENT-119: asked for several answers by `n`, a stream sends them in turns; the first is ours
#[tokio::test]
async fn of_several_choices_the_first_counts() {
    let outcome = outcome("openai/two-choices.sse").await.told(&["One", "."]).counted([9, 6, 15], [0, 0]);
    outcome.said("One.", FinishReason::Stop);
}

// CLIENT-32, CLIENT-119: filter results in their own chunk, in choices and beside them
#[tokio::test]
async fn azure() {
    let plain = outcome("azure/plain.json").await.kept_verbatim().counted([55, 16, 71], [0, 0]);
    plain.said("Yes, other Azure services support this too.", FinishReason::Stop);
    outcome("azure/tools.json").await.kept_verbatim().called(&[weather("call_az1")]);
    let plain = outcome("azure/plain.sse").await.told(&["Yes", ", they do."]).counted([55, 6, 61], [0, 0]);
    plain.said("Yes, they do.", FinishReason::Stop);
    let tools = outcome("azure/tools.sse").await.counted([55, 6, 61], [0, 0]).called(&[weather("call_az1")]);
    tools.kept(&json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_az1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"}},
    ]}));
    // CLIENT-149: what was held back is seen.
    let filtered = outcome("azure/filtered.sse").await.counted([0, 0, 0], [0, 0]);
    filtered.said("First you", FinishReason::ContentFilter);
}

// CLIENT-43, CLIENT-44, CLIENT-118: comments, reasoning, usage in a chunk with a choice
#[tokio::test]
async fn openrouter() {
    let plain = outcome("openrouter/plain.json").await.kept_verbatim().counted([21, 34, 55], [5, 0]);
    plain.said("Seven.", FinishReason::Stop);
    // The message goes back with its signed and encrypted reasoning.
    let tools = outcome("openrouter/tools.json").await.kept_verbatim().called(&[weather("toolu_01A")]);
    let details = &json_of("openrouter/tools.json")["choices"][0]["message"]["reasoning_details"];
    assert_eq!(&tools.sent[1]["reasoning_details"], details);

    let plain = outcome("openrouter/plain.sse").await.told(&["Sev", "en."]).counted([21, 34, 55], [5, 0]);
    plain.said("Seven.", FinishReason::Stop).kept(&json!({"role": "assistant", "content": "Seven."}));
    let tools = outcome("openrouter/tools.sse").await.told(&[]).counted([21, 34, 55], [5, 0]);
    let text = |text: Option<&str>| json!({"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0});
    let mut signature = text(None);
    signature["signature"] = json!("EqMB");
    tools.called(&[weather("toolu_01A")]).kept(&json!({
        "role": "assistant", "content": null, "tool_calls": [
            {"id": "toolu_01A", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}},
        ],
        "reasoning": "I need the weather.",
        "reasoning_details": [text(Some("I need ")), text(Some("the weather.")), signature],
    }));
}
