//! Servers that speak the format of OpenAI in their own accents.

use serde_json::{Value, json};
use toolnexus_llm::FinishReason;

use crate::recorded::{Asked, asked, outcome, time, weather};

const STOP: FinishReason = FinishReason::Stop;

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// What is kept of a streamed turn that asks for these tools.
fn asking(calls: Value) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

// CLIENT-41, CLIENT-44, CLIENT-119
#[tokio::test]
async fn ollama() {
    outcome("ollama/plain.json")
        .await
        .kept_verbatim()
        .counted([26, 8, 34], [0, 0])
        .said("Hello! How can I help?", STOP);
    let tools = outcome("ollama/tools.json").await.kept_verbatim();
    tools.called(&[weather("call_3jf0a1bc"), time("call_x8s2k1ml")]);
    let plain = outcome("ollama/plain.sse").await.told(&["Hello", "!"]).counted([26, 8, 34], [0, 0]);
    plain.said("Hello!", STOP);
    outcome("ollama/thinking.sse").await.told(&["Yes."]).said("Yes.", STOP);
}

// CLIENT-119: a server that numbers all its calls 0 still makes several
#[tokio::test]
async fn calls_that_share_an_index_are_kept_apart() {
    let tools = outcome("ollama/tools.sse").await.counted([26, 8, 34], [0, 0]);
    let ids = ["call_3jf0a1bc", "call_x8s2k1ml", "call_p0d9q2we"];
    let expected = [weather(ids[0]), asked(ids[1], "get_weather", json!({"city": "Rome"})), time(ids[2])];
    tools.called(&expected).kept(&asking(json!([
        call(ids[0], "get_weather", r#"{"city":"Paris"}"#),
        call(ids[1], "get_weather", r#"{"city":"Rome"}"#),
        call(ids[2], "get_time", "{}"),
    ])));
}

// CLIENT-41, CLIENT-43, CLIENT-44
#[tokio::test]
async fn vllm() {
    outcome("vllm/plain.json").await.kept_verbatim().counted([12, 9, 21], [0, 0]).said("\n\nHello!", STOP);
    let id = "chatcmpl-tool-3b1a";
    outcome("vllm/tools.json").await.kept_verbatim().counted([180, 22, 202], [0, 0]).called(&[weather(id)]);
    let plain = outcome("vllm/plain.sse").await.told(&["Hello", "!"]).counted([12, 9, 21], [0, 0]);
    plain.said("Hello!", STOP).kept(&json!({"role": "assistant", "content": "Hello!"}));
    let mut kept = asking(json!([call(id, "get_weather", r#"{"city": "Paris"}"#)]));
    kept["reasoning_content"] = json!("Weather it is.");
    outcome("vllm/tools.sse").await.told(&[]).called(&[weather(id)]).kept(&kept);
}

// CLIENT-41, CLIENT-78: every chunk reports a usage, the last one counts
#[tokio::test]
async fn scaleway() {
    outcome("scaleway/plain.json").await.kept_verbatim().counted([41, 4, 45], [0, 0]).said("Bonjour !", STOP);
    let id = "chatcmpl-tool-5e3d";
    outcome("scaleway/tools.json").await.kept_verbatim().called(&[weather(id)]);
    let plain = outcome("scaleway/plain.sse").await.told(&["Bonjour", " !"]).counted([41, 4, 45], [0, 0]);
    plain.said("Bonjour !", STOP);
    let kept = asking(json!([call(id, "get_weather", r#"{"city": "Paris"}"#)]));
    outcome("scaleway/tools.sse").await.called(&[weather(id)]).kept(&kept);
}

// CLIENT-32, CLIENT-43: content in chunks of thinking and text; calls that come whole
#[tokio::test]
async fn mistral() {
    outcome("mistral/plain.json")
        .await
        .kept_verbatim()
        .counted([16, 34, 50], [0, 0])
        .said("Le fromage.", STOP);
    let calls: [Asked; 2] = [weather("D681PevKs"), time("aB3xYz9Qw")];
    outcome("mistral/tools.json").await.kept_verbatim().called(&calls);
    outcome("mistral/thinking.json").await.kept_verbatim().said("There are three.", STOP);
    let plain = outcome("mistral/plain.sse").await.told(&["Le ", "fromage."]).counted([16, 34, 50], [0, 0]);
    plain.said("Le fromage.", STOP);
    let kept = asking(json!([
        call("D681PevKs", "get_weather", r#"{"city": "Paris"}"#),
        call("aB3xYz9Qw", "get_time", "{}")
    ]));
    outcome("mistral/tools.sse").await.counted([16, 34, 50], [0, 0]).called(&calls).kept(&kept);
    let thinking = outcome("mistral/thinking.sse").await.told(&["There are ", "three."]);
    thinking
        .said("There are three.", STOP)
        .kept(&json!({"role": "assistant", "content": "There are three."}));
}

// CLIENT-43, CLIENT-44, CLIENT-78: empty lines and comments while the request waits
#[tokio::test]
async fn deepseek() {
    let whole = outcome("deepseek/reasoning.json").await.kept_verbatim().counted([80, 110, 190], [64, 0]);
    whole.said("9.8 is greater.", STOP);
    outcome("deepseek/tools.json").await.kept_verbatim().called(&[weather("call_00_qFzA")]);
    let streamed = outcome("deepseek/reasoning.sse").await.told(&["9.8", " is greater."]);
    streamed
        .said("9.8 is greater.", STOP)
        .counted([80, 110, 190], [64, 0])
        .kept(&json!({"role": "assistant", "content": "9.8 is greater."}));
    let mut kept = asking(json!([call("call_00_qFzA", "get_weather", r#"{"city": "Paris"}"#)]));
    kept["reasoning_content"] = json!("Ask the tool.");
    outcome("deepseek/tools.sse").await.told(&[]).called(&[weather("call_00_qFzA")]).kept(&kept);
}

// CLIENT-43, CLIENT-44, CLIENT-78
#[tokio::test]
async fn groq() {
    outcome("groq/plain.json").await.kept_verbatim().counted([18, 56, 74], [8, 0]).said("Fast.", STOP);
    outcome("groq/tools.json").await.kept_verbatim().called(&[weather("fc_a1b2")]);
    let plain = outcome("groq/plain.sse").await.told(&["Fast", "."]).counted([18, 56, 74], [8, 0]);
    plain.said("Fast.", STOP);
    let mut kept = asking(json!([call("fc_a1b2", "get_weather", r#"{"city":"Paris"}"#)]));
    kept["reasoning"] = json!("Use it.");
    outcome("groq/tools.sse").await.called(&[weather("fc_a1b2")]).kept(&kept);
}
