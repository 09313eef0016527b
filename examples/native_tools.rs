//! Functions become tools: over raw JSON, without waiting, and over a struct; called directly, then
//! by a (scripted) model.
//!
//! `cargo run -p toolnexus --example native_tools`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolnexus::{ClientOptions, Toolkit, create_client, define_sync_tool, define_tool, define_typed_tool};
use toolnexus_testkit::model::{ModelServer, Reply, Script};

#[derive(Deserialize, JsonSchema)]
struct Weather {
    /// City to look up
    city: String,
    /// Days ahead
    days: Option<u8>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let greet = define_tool("greet", "Greets somebody", None, |args: Value, _context| async move {
        args.get("name").and_then(Value::as_str).map(|name| format!("hello {name}")).ok_or("no name given")
    });
    let answer = define_sync_tool("answer", "The answer", None, |_args, _context| Ok::<_, String>(42));
    let weather =
        define_typed_tool::<Weather>("weather", "Weather of a city", None, |args, _context| async move {
            Ok::<_, String>(format!("{}: sunny for {} day(s)", args.city, args.days.unwrap_or(1)))
        });
    println!("schema of weather: {}", weather.input_schema);

    let toolkit = Toolkit::from_tools([greet, answer, weather]);
    for (name, args) in [
        ("greet", json!({"name": "Ada"})),
        ("greet", json!({})),
        ("answer", json!({})),
        ("weather", json!({"town": "Oslo"})),
    ] {
        let result = toolkit.execute(name, args.clone()).await;
        println!("{name}({args}) -> {}{}", result.output, if result.is_error { " (failed)" } else { "" });
    }

    let model = ModelServer::start(
        Script::new()
            .reply(Reply::openai().tool_call("call_1", "weather", json!({"city": "Oslo", "days": 3})))
            .reply(Reply::openai().text("Three sunny days in Oslo.")),
    )
    .await?;
    let client = create_client(ClientOptions {
        base_url: format!("{}/v1", model.base_url()),
        model: "scripted".into(),
        api_key: "none".into(),
        ..Default::default()
    });
    let result = client.run("How is the weather in Oslo?", &toolkit).await?;
    for call in &result.tool_calls {
        println!("the model called {} and read: {}", call.name, call.output);
    }
    println!("{}", result.text);
    Ok(())
}
