//! Code of yours around every model call and tool call: a guardrail, a permission gate, an audit, and the
//! numbers of it all. The model is a scripted server on this machine, so no key is needed.
//!
//! `cargo run -p toolnexus --example hooks`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::sync::Arc;

use serde_json::{Value, json};
use toolnexus::client::{
    AfterToolEvent, BeforeToolEvent, Guardrail, Hooks, MetricEvent, ToolOverride, chain_hooks, guardrails,
};
use toolnexus::{ClientOptions, ToolHints, ToolResult, Toolkit, create_client, define_tool};
use toolnexus_testkit::model::{ModelServer, Reply, Script};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ModelServer::start(
        Script::new()
            .reply(
                Reply::openai()
                    .tool_call("c1", "read_note", json!({"name": "todo"}))
                    .tool_call("c2", "read_note", json!({"name": "secret-diary"}))
                    .tool_call("c3", "delete_note", json!({"name": "todo"}))
                    .usage(120, 30),
            )
            .reply(Reply::openai().text("I read one note; the others I may not touch.").usage(180, 12)),
    )
    .await?;

    // The first that denies a call wins, and the model reads why.
    let private: Guardrail = Arc::new(|event: &BeforeToolEvent| {
        let name = event.args.get("name").and_then(Value::as_str).unwrap_or_default();
        name.starts_with("secret").then(|| "that note is private".to_owned())
    });
    // A tool that does not say it only reads may change something.
    let gate = Hooks::default().with_before_tool(|event: BeforeToolEvent| async move {
        let reads = event.hints.is_some_and(|hints| hints.read_only);
        Ok((!reads).then(|| ToolOverride::result(ToolResult::failure("not without a person"))))
    });
    let audit = Hooks::default().with_after_tool(|event: AfterToolEvent| async move {
        println!("audit: {} ran and gave {:?}", event.name, event.result.output);
        Ok(None)
    });
    let client = create_client(ClientOptions {
        base_url: server.base_url(),
        model: "scripted".into(),
        api_key: "unused".into(),
        hooks: chain_hooks([guardrails([private]), gate, audit]),
        on_metric: Some(Arc::new(|event: &MetricEvent| {
            println!("metric: {}", serde_json::to_string(event).unwrap_or_default());
        })),
        ..Default::default()
    });

    let note = |name: &str, output: &'static str| {
        define_tool(name, name, None, move |_args: Value, _context| async move { Ok::<_, String>(output) })
    };
    let reads = ToolHints { read_only: true, ..Default::default() };
    let toolkit = Toolkit::from_tools([
        note("read_note", "buy milk").with_hints(reads),
        note("delete_note", "deleted"),
    ]);
    let result = client.run("Tidy up my notes.", &toolkit).await?;
    for call in &result.tool_calls {
        println!("{}({}): {}", call.name, Value::Object(call.args.clone()), call.output);
    }
    println!("{}", result.text);
    for line in client.metrics().lines().filter(|line| line.contains("_total{")) {
        println!("{line}");
    }
    Ok(())
}
