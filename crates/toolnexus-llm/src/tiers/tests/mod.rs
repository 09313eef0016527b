//! What the tests of the tiers share, and those of small things.

mod frozen;
mod plan;
mod search;

use std::sync::Mutex;

use serde_json::{Map, json};
use toolnexus_core::{Style, Tool, ToolResult, Toolkit};

use super::inner_call::InnerCall;
use super::*;

const STYLES: [Style; 3] = [Style::OpenAI, Style::Anthropic, Style::Gemini];

fn tool(name: &str, description: &str) -> Tool {
    Tool::new(name, |_, _| async { ToolResult::success("") }).description(description)
}

fn toolkit(tools: &[(&str, &str)]) -> Toolkit {
    Toolkit::from_tools(tools.iter().map(|(name, description)| tool(name, description)))
}

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn plan(toolkit: &Toolkit, options: &ToolTierOptions) -> TierPlan {
    TierPlan::of(&toolkit.snapshot(), Style::OpenAI, options)
}

/// The entries of the array that is sent, whatever the style wraps them into.
fn entries(plan: &TierPlan, style: Style) -> Vec<Value> {
    let array: Vec<Value> = serde_json::from_slice(&plan.tools_json()).unwrap();
    match style {
        Style::OpenAI => array.iter().map(|entry| entry["function"].clone()).collect(),
        Style::Anthropic => array,
        Style::Gemini => {
            assert_eq!(array.len(), 1);
            array[0]["functionDeclarations"].as_array().unwrap().clone()
        }
    }
}

fn names(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

/// The warnings that `work` gives on this thread.
fn warnings(work: impl FnOnce()) -> Vec<String> {
    struct Sink(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let written = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&written);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || Sink(Arc::clone(&sink)))
        .with_ansi(false)
        .finish();
    let listening = toolnexus_testkit::tracing_listener::listen_on_this_thread(subscriber);
    work();
    drop(listening);
    String::from_utf8(written.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
}

fn in_tier(plan: &TierPlan, tier: ToolTier) -> Vec<&str> {
    plan.tiers().iter().filter(|(_, of)| **of == tier).map(|(name, _)| name.as_str()).collect()
}

fn listing(plan: &TierPlan) -> Vec<String> {
    let entries = entries(plan, Style::OpenAI);
    let search = entries.iter().find(|entry| entry["name"] == TOOL_SEARCH).unwrap();
    search["description"].as_str().unwrap().lines().skip(1).map(str::to_owned).collect()
}

/// The names that a search finds; a failure is its text.
fn found(plan: &TierPlan, toolkit: &Toolkit, args: Value) -> Result<Vec<String>, String> {
    let result = plan.search(&toolkit.snapshot(), args.as_object().unwrap());
    if result.is_error {
        return Err(result.output);
    }
    let definitions: Vec<Value> = serde_json::from_str(&result.output).unwrap();
    Ok(definitions.iter().map(|found| found["name"].as_str().unwrap().to_owned()).collect())
}

fn shop() -> Toolkit {
    toolkit(&[
        ("order_list", "Lists things"),
        ("order_refund", "Refunds an order"),
        ("stock", "Tells what is there for an ORDER"),
        ("weather", "Tells the weather"),
        ("core_order", "An order that is always there"),
        ("deploy", "Deploys"),
        ("ordinary", ""),
    ])
}

// CLIENT-90
#[test]
fn the_inner_call_is_unwrapped() {
    let read = |outer: Value| inner_call(outer.as_object().unwrap());
    let args = |value: Value| Ok::<Map<_, _>, String>(value.as_object().unwrap().clone());
    let call = |name: &str, args| InnerCall { name: name.into(), args };
    let env = json!({"env": "prod"});
    assert_eq!(read(json!({"name": "deploy", "arguments": env})), call("deploy", args(env.clone())));
    let text = env.to_string();
    assert_eq!(read(json!({"name": "deploy", "arguments": text})), call("deploy", args(env)));
    for nothing in [
        json!({"name": "a"}),
        json!({"name": "a", "arguments": null}),
        json!({"name": "a", "arguments": " "}),
    ] {
        assert_eq!(read(nothing), call("a", args(json!({}))));
    }
    assert_eq!(read(json!({})).name, "");
    assert_eq!(read(json!({"name": 7})).name, "");
    for wrong in [json!([1]), json!(7), json!("[1]"), json!("7")] {
        let outer = json!({"name": "a", "arguments": wrong});
        assert_eq!(read(outer).args.unwrap_err(), "expected a JSON object");
    }
    let broken = read(json!({"name": "a", "arguments": "{\"env\":"})).args.unwrap_err();
    assert!(broken.starts_with("not valid JSON: "), "{broken}");
}

// CLIENT-83: the options show no names of tools
#[test]
fn options_are_debugged_by_counts() {
    let options = ToolTierOptions {
        core: named(&["secret_tool"]),
        usage_count: Some(Arc::new(|_| 0)),
        ..Default::default()
    };
    assert_eq!(
        format!("{options:?}"),
        "ToolTierOptions { core: 1, deferred: 0, budget_tokens: 0, context_window: 0, usage_count: true, count_tokens: false }"
    );
    assert_eq!(serde_json::to_string(&ToolTier::Deferred).unwrap(), "\"deferred\"");
    assert_eq!(ToolTier::Core.to_string(), "core");
}
