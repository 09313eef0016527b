//! Text as the arguments of a tool call, decoded and replayed: nothing panics, what is no JSON stays, a call is
//! decoded once, what cannot be resolved stays and is named, and what is replayed decodes to what it was.
//!
//! The first line of the input is the tool's name; the rest are its arguments.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::json;
use toolnexus_context::{ArgumentResolution, ModelToolCall, Registry, SourceRef};
use toolnexus_llm::Message;

fuzz_target!(|input: &str| {
    let Some((tool, arguments)) = input.split_once('\n') else { return };
    let registry = filled();
    let call = decoded(&registry, tool, arguments);

    let is_json = serde_json::from_str::<IgnoredAny>(arguments).is_ok();
    if !is_json {
        assert_eq!(call.arguments, arguments, "what is no JSON stays");
        assert_eq!(call.argument_resolution, Some(ArgumentResolution::Unchanged));
    }
    assert_eq!(call.model_arguments.as_deref(), Some(arguments));
    assert!(call.unresolved_handles.is_sorted_by(|a, b| a < b), "each once, sorted");
    assert_eq!(call.rejection().is_some(), !call.unresolved_handles.is_empty());
    let mut again = [call.clone()];
    registry.decode_tool_calls(&mut again);
    assert_eq!(again[0], call, "a call is decoded once");

    let shown = replayed(&registry, tool, &call.arguments);
    assert_eq!(replayed(&registry, tool, &shown), shown, "replaying twice changes nothing more");
    assert_eq!(serde_json::from_str::<IgnoredAny>(&shown).is_ok(), is_json, "it is JSON as much as it was");
});

fn filled() -> Registry {
    let registry = Registry::new(true);
    registry.register_document("doc-real");
    registry.register_knowledge_base("kb-real");
    registry.register_chunk(SourceRef::new("chunk-real"));
    registry.register_url("https://example.com/page", "");
    registry.register_issue("issue-real");
    registry.compact_known_text("resource://AbCdEfGhIjKlMnOpQrStUv");
    let listed = |name: &str, key: &str| json!({"name": name, "input_schema": {"properties": {key: {"enum": ["durable"]}}}});
    registry.encode_tools(&[listed("discover_mcp_tools", "server_id"), listed("call_mcp_tool", "tool_ref")]);
    registry
}

fn decoded(registry: &Registry, tool: &str, arguments: &str) -> ModelToolCall {
    let mut calls = [ModelToolCall::new("1", tool, arguments)];
    registry.decode_tool_calls(&mut calls);
    let [call] = calls;
    call
}

/// The arguments as the model is shown them in a later request.
fn replayed(registry: &Registry, tool: &str, arguments: &str) -> String {
    let message: Message = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": tool, "arguments": arguments}},
    ]})
    .into();
    let encoded = registry.encode_messages(&[message]);
    encoded[0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned()
}
