//! A request in OpenAI's shapes, answered by a provider that speaks Anthropic's: a scripted server
//! on this machine, so no key is needed.
//!
//! `cargo run -p toolnexus --example translate`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use serde_json::json;
use toolnexus::translate::{TranslateRequest, tool_calls_json};
use toolnexus::{ClientOptions, Style, create_client};
use toolnexus_testkit::model::{ModelServer, Reply, Script};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asks =
        Reply::anthropic().text("Let me look.").tool_call("t1", "get_weather", json!({"city": "Kochi"}));
    let server = ModelServer::start(Script::always(asks)).await?;
    let client = create_client(ClientOptions {
        base_url: server.base_url(),
        style: Style::Anthropic,
        model: "scripted".into(),
        api_key: "unused".into(),
        ..Default::default()
    });
    let answer = client
        .translate(TranslateRequest {
            messages: vec![
                json!({"role": "system", "content": "You are terse."}),
                json!({"role": "user", "content": "What is the weather in Kochi?"}),
            ],
            tools: vec![json!({"type": "function", "function": {
                "name": "get_weather",
                "description": "The weather of a city",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            }})],
            tool_choice: Some(json!("required")),
            ..Default::default()
        })
        .await?;
    for request in server.requests() {
        println!("The provider was sent:\n{:#}\n", request.json());
    }
    println!("text:          {}", answer.text);
    println!("finish_reason: {}", answer.finish_reason);
    println!("tool_calls:    {:#}", json!(tool_calls_json(&answer)));
    Ok(())
}
