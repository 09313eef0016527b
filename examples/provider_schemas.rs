//! One toolkit in the shapes of three providers, for hosts that call a model themselves.
//!
//! `cargo run -p toolnexus --example provider_schemas`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use serde_json::{Value, json};
use toolnexus::{ToolContext, Toolkit, define_tool};

fn main() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let weather = define_tool(
        "get_weather",
        "The weather of a city",
        Some(schema),
        |args: Value, _: ToolContext| async move {
            Ok::<_, String>(format!("29C in {}", args.get("city").unwrap_or(&Value::Null)))
        },
    );
    let clock = define_tool("clock", "The time now", None, |_: Value, _: ToolContext| async {
        Ok::<_, String>("noon")
    });
    let toolkit = Toolkit::from_tools([weather, clock]);
    println!("OpenAI:\n{:#}\n", json!(toolkit.to_openai()));
    println!("Anthropic:\n{:#}\n", json!(toolkit.to_anthropic()));
    println!("Gemini:\n{:#}", json!(toolkit.to_gemini()));
}
