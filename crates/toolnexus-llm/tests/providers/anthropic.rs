//! Anthropic messages.

use serde_json::{Value, json};
use toolnexus_llm::{FinishReason, Style};

use crate::recorded::{json_of, outcome, time, weather};

fn redacted() -> Value {
    json_of("anthropic/redacted.json")["content"][0].clone()
}

// CLIENT-42, CLIENT-78, CLIENT-79: cached tokens are counted apart
#[tokio::test]
async fn whole_answers() {
    let plain = outcome("anthropic/plain.json").await.kept_verbatim().counted([12, 10, 22], [900, 40]);
    assert_eq!(plain.usage.context_tokens(Style::Anthropic), 952);
    plain.said("Hi! My name is Claude.", FinishReason::Stop);
    let calls = [weather("toolu_01D7FLrfh4GYq7yT1ULFeyMV"), time("toolu_01E8GMsgi5HZr8zU2VMGfzNW")];
    let tools = outcome("anthropic/tools.json").await.kept_verbatim().counted([472, 89, 561], [0, 0]);
    let tools = tools.called(&calls);
    // The signed thinking goes back unchanged, and the results are one message.
    assert_eq!(tools.sent[1]["content"][0], json_of("anthropic/tools.json")["content"][0]);
    assert_eq!(
        tools.sent[2],
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": calls[0].id, "content": "sunny", "is_error": false},
            {"type": "tool_result", "tool_use_id": calls[1].id, "content": "noon", "is_error": false},
        ]})
    );
    outcome("anthropic/redacted.json").await.kept_verbatim().said("Done.", FinishReason::Stop);
}

// CLIENT-42, CLIENT-149: tools that the provider runs are no calls of ours
#[tokio::test]
async fn server_tools() {
    let whole = outcome("anthropic/server-tools.json").await.kept_verbatim();
    whole.said("I'll search. Claude Shannon was born on April 30, 1916", FinishReason::Stop);
    let streamed = outcome("anthropic/server-tools.sse").await.told(&["I'll search.", "Born in 1916."]);
    let recorded = json_of("anthropic/server-tools.json");
    streamed.said("I'll search.Born in 1916.", FinishReason::Stop).counted([10682, 510, 11192], [0, 0]).kept(
        &json!({"role": "assistant", "content": [
            {"type": "text", "text": "I'll search."}, recorded["content"][1], recorded["content"][2],
            {"type": "text", "text": "Born in 1916."},
        ]}),
    );
}

// CLIENT-29: what providers refuse to read is not kept
#[tokio::test]
async fn answers_without_content() {
    outcome("anthropic/empty.json")
        .await
        .counted([30, 3, 33], [0, 0])
        .said("", FinishReason::Stop)
        .kept_nothing();
    outcome("anthropic/empty.sse")
        .await
        .counted([564, 3, 567], [0, 0])
        .said("", FinishReason::Stop)
        .kept_nothing();
    let blank = outcome("anthropic/blank-block.json").await.called(&[weather("toolu_01")]);
    let call = &json_of("anthropic/blank-block.json")["content"][1];
    blank.kept(&json!({"role": "assistant", "content": [call]}));
}

// CLIENT-118, CLIENT-120, CLIENT-121
#[tokio::test]
async fn streamed_answers() {
    let plain = outcome("anthropic/plain.sse").await.told(&["Hello", "!"]).counted([25, 15, 40], [900, 40]);
    plain
        .said("Hello!", FinishReason::Stop)
        .kept(&json!({"role": "assistant", "content": [{"type": "text", "text": "Hello!"}]}));
    let calls = [weather("toolu_01T1x1fJ34qAmk2tNTrN7Up6"), time("toolu_02U2y2gK45rBnl3uOUsO8Vq7")];
    let tools = outcome("anthropic/tools.sse").await.told(&["Okay, ", "let's check"]);
    tools.called(&calls).counted([472, 89, 561], [0, 0]).kept(&json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "The user wants the weather.", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"},
        {"type": "text", "text": "Okay, let's check"},
        {"type": "tool_use", "id": calls[0].id, "name": "get_weather", "input": {"city": "Paris"}},
        {"type": "tool_use", "id": calls[1].id, "name": "get_time", "input": {}},
    ]}));
    // Hidden thinking goes back as well: redacted, or signed and empty.
    let redacted_turn =
        outcome("anthropic/redacted.sse").await.told(&["Done."]).counted([20, 60, 80], [0, 0]);
    redacted_turn.said("Done.", FinishReason::Stop).kept(&json!({"role": "assistant", "content": [
        redacted(), {"type": "thinking", "thinking": "", "signature": "EosnCkYICxIMMb3LzNrMu"},
        {"type": "text", "text": "Done."},
    ]}));
    let refusal = outcome("anthropic/refusal.sse").await.counted([564, 22, 586], [0, 0]);
    refusal.said("Hello..", FinishReason::ContentFilter);
}
