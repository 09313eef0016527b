//! The cases of the contract that are about tool calls, by their numbers and in its words.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use serde_json::{Value, json};
use support::{R, S, T, fixture, fresh};
use toolnexus_context::{ArgumentResolution, ModelToolCall, Registry, RegistryConfig, ResourcePattern};

fn decoded(registry: &Registry, tool: &str, arguments: &str) -> ModelToolCall {
    let mut calls = [ModelToolCall::new("1", tool, arguments)];
    registry.decode_tool_calls(&mut calls);
    let [call] = calls;
    call
}

/// What becomes of the arguments of a call, with the handles that nobody issued.
fn becomes(registry: &Registry, tool: &str, arguments: &Value, expected: &Value, unresolved: &[&str]) {
    let call = decoded(registry, tool, &arguments.to_string());
    assert_eq!(serde_json::from_str::<Value>(&call.arguments).unwrap(), *expected, "{tool} {arguments}");
    assert_eq!(call.unresolved_handles, unresolved, "{tool} {arguments}");
    let resolution = match (arguments == expected, unresolved.is_empty()) {
        (true, true) => ArgumentResolution::Unchanged,
        (false, true) => ArgumentResolution::Resolved,
        (true, false) => ArgumentResolution::Unresolved,
        (false, false) => ArgumentResolution::PartiallyResolved,
    };
    assert_eq!(call.argument_resolution, Some(resolution), "{tool} {arguments}");
    assert_eq!(call.model_arguments.as_deref(), Some(arguments.to_string().as_str()));
    assert_eq!(call.rejection().is_none(), unresolved.is_empty());
}

// CTX-20, CTX-43, CTX-44, CTX-49: cases 17 to 20, 24 to 26
#[test]
fn declared_keys_get_bare_ids_and_other_text_gets_durable_forms() {
    let registry = fixture();
    for (tool, arguments, expected) in [
        // Case 17
        (
            "read_source",
            json!({"slugs": ["res://0001"], "knowledge_id": "doc://1"}),
            json!({"slugs": [R], "knowledge_id": "doc-real"}),
        ),
        // Case 18
        (
            "list_chunks",
            json!({"knowledge_id": "doc://1", "filters": {"chunk_id": "c1", "faq_id": ["chunk://1"]}}),
            json!({"knowledge_id": "doc-real", "filters": {"chunk_id": "chunk-real", "faq_id": ["chunk-real"]}}),
        ),
        // Case 19
        (
            "knowledge_search",
            json!({"query": "b1", "content": "see b1 for details", "knowledge_base_ids": ["b1"]}),
            json!({"query": "b1", "content": "see b1 for details", "knowledge_base_ids": ["kb-real"]}),
        ),
        // Case 20
        (
            "knowledge_search",
            json!({"query": "topics of kb://1"}),
            json!({"query": "topics of toolnexus://kb/kb-real"}),
        ),
        // Case 24
        (
            "data_analysis",
            json!({"knowledge_id": "doc://1", "sql": "SELECT COUNT(*) FROM dataset WHERE label = 'd1'"}),
            json!({"knowledge_id": "doc-real", "sql": "SELECT COUNT(*) FROM dataset WHERE label = 'd1'"}),
        ),
        // Case 25
        (
            "web_fetch",
            json!({"items": [{"url": "url://1"}]}),
            json!({"items": [{"url": "https://example.com/page"}]}),
        ),
        // Case 26
        (
            "write_page",
            json!({"slug": "x", "source_refs": ["doc://1|Title"]}),
            json!({"slug": "x", "source_refs": ["doc-real|Title"]}),
        ),
    ] {
        becomes(&registry, tool, &arguments, &expected, &[]);
    }
}

// CTX-44, CTX-45, CTX-46: cases 21, 23, 27, 28
#[test]
fn what_nobody_issued_stays_and_is_listed() {
    let registry = fixture();
    becomes(
        &registry,
        "knowledge_search",
        &json!({"knowledge_base_ids": ["b1", "b99"], "query": "b98", "asset": "res://0099"}),
        &json!({"knowledge_base_ids": ["kb-real", "b99"], "query": "b98", "asset": "res://0099"}),
        &["b99", "res://0099"],
    );
    let sql = |id: &str| json!({"sql": format!("SELECT d1.id FROM documents d1 WHERE d1.id = '{id}' AND d1.parent_id = 'doc://99'")});
    becomes(&registry, "database_query", &sql("doc://1"), &sql("doc-real"), &["doc://99"]);
    becomes(&registry, "read_document", &json!({"id": "chunk://1"}), &json!({"id": "chunk-real"}), &[]);
    for (tool, arguments, unresolved) in [
        ("read_document", json!({"id": "d9"}), "d9"),
        ("list_chunks", json!({"knowledge_id": "chunk://1"}), "chunk://1"),
        ("update_issue", json!({"issue_id": "i9"}), "i9"),
    ] {
        becomes(&registry, tool, &arguments, &arguments, &[unresolved]);
    }
    becomes(&registry, "update_issue", &json!({"issue_id": "i1"}), &json!({"issue_id": "issue-uuid"}), &[]);
}

// CTX-18, CTX-45, CTX-46, CTX-47, CTX-88: cases 22, 29 to 33
#[test]
fn tools_without_a_policy_get_durable_text() {
    let registry = fixture();
    for (tool, unchanged) in [
        ("anything", r#"{ "query": "hello" }"#),
        ("dynamic", r#"{"issue_id":"i1","knowledge_id":"d1","url":"w1","sql":"SELECT 'd1'"}"#),
        ("bash", r#"{"command":"c --uri chunk://127.0.0.1:4242/"}"#),
    ] {
        let call = decoded(&registry, tool, unchanged);
        assert_eq!(call.arguments, unchanged);
        assert_eq!(call.argument_resolution, Some(ArgumentResolution::Unchanged));
        assert!(call.unresolved_handles.is_empty() && call.rejection().is_none());
    }
    becomes(
        &registry,
        "dynamic",
        &json!({"note": "read doc://1, chunk://1 and url://1"}),
        &json!({"note": "read toolnexus://doc/doc-real, toolnexus://chunk/chunk-real and https://example.com/page"}),
        &[],
    );
    let refused = decoded(&registry, "dynamic", r#"{"note":"doc://7"}"#);
    assert_eq!(
        refused.rejection().as_deref(),
        Some("unresolved model handles: doc://7. Use only handles shown in this conversation.")
    );
    for (tool, key) in [("dynamic", "u"), ("web_fetch", "url")] {
        let with = |id: &str| json!({key: format!("https://a.io/d/{id}?x=1")});
        becomes(&registry, tool, &with("doc://1"), &with("doc-real"), &[]);
    }
}

/// The fixture with a server and a tool behind a bridge, `ms1` and `mt1`, and their definitions as the
/// model sees them.
fn bridged() -> (Registry, [Value; 2], Vec<Value>) {
    let registry = fixture();
    let bridge = |name: &str, key: &str, id: &str, description: &str| {
        json!({"name": name, "description": description, "input_schema": {
            "type": "object", "properties": {key: {"type": "string", "enum": [id]}}}})
    };
    let listed = format!("Servers:\n{{\"server_id\":\"{S}\",\"name\":\"amap\"}}");
    let durable = [
        bridge("discover_mcp_tools", "server_id", S, &listed),
        bridge("call_mcp_tool", "tool_ref", T, "Calls a tool"),
    ];
    let encoded = registry.encode_tools(&durable);
    (registry, durable, encoded)
}

// CTX-91, CTX-92: case 54
#[test]
fn definitions_show_handles_and_the_originals_keep_the_ids() {
    let (_, durable, encoded) = bridged();
    assert_eq!(encoded[0]["input_schema"]["properties"]["server_id"]["enum"], json!(["ms1"]));
    assert!(encoded[0]["description"].as_str().unwrap().contains(r#""server_id":"ms1""#));
    assert!(!json!(encoded).to_string().contains(S));
    assert_eq!(durable[0]["input_schema"]["properties"]["server_id"]["enum"], json!([S]));
}

// CTX-44, CTX-45, CTX-90: cases 56, 57
#[test]
fn only_the_envelope_of_a_bridge_call_routes() {
    let (registry, ..) = bridged();
    let call = |reference: &str| json!({"tool_ref": reference, "arguments": {"server_id": "ms1", "tool_ref": "mt1", "url": "w1"}});
    becomes(&registry, "call_mcp_tool", &call("mt1"), &call(T), &[]);
    let unknown = json!({"server_id": "ms99", "query": "ms98"});
    becomes(&registry, "discover_mcp_tools", &unknown, &unknown, &["ms99"]);
    let data = json!({"server_id": "ms99"});
    becomes(&registry, "dynamic", &data, &data, &[]);
}

// CTX-95, CTX-45: cases 59 to 61
#[test]
fn arguments_that_are_json_text_become_the_object() {
    let (registry, ..) = bridged();
    let sent = |arguments: &str| format!(r#"{{"tool_ref":"{T}","arguments":{arguments}}}"#);
    for (written, object) in [
        (r#""{}""#, "{}"),
        (r#"" \n { } \t""#, "{}"),
        (r#""{\"query\":\"{\\\"id\\\":1}\"}""#, r#"{"query":"{\"id\":1}"}"#),
    ] {
        let call = decoded(&registry, "call_mcp_tool", &sent(written));
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!(arguments["arguments"], serde_json::from_str::<Value>(object).unwrap(), "{written}");
        assert_eq!(call.model_arguments.as_deref(), Some(sent(written).as_str()));
    }
    for kept in
        ["null", r#""null""#, r#""[]""#, r#""123""#, r#""""#, r#""{\"id\":""#, r#""{} {}""#, r#""\"{}\"""#]
    {
        let call = decoded(&registry, "call_mcp_tool", &sent(kept));
        assert_eq!(call.arguments, sent(kept));
        assert_eq!(call.argument_resolution, Some(ArgumentResolution::Unchanged), "{kept}");
    }
    let written = r#"{"tool_ref":"mt1","arguments":"{\"file\":\"res://9999\"}"}"#;
    let call = decoded(&registry, "call_mcp_tool", written);
    assert_eq!(call.unresolved_handles, ["res://9999"]);
    assert_eq!(call.argument_resolution, Some(ArgumentResolution::PartiallyResolved));
}

// CTX-44, CTX-45: case 87
#[test]
fn a_verbatim_key_gets_back_a_whole_reference_alone() {
    let registry = fixture();
    becomes(&registry, "read_mcp_resource", &json!({"uri": "res://0001"}), &json!({"uri": R}), &[]);
    for foreign in ["res://0042", "doc://42"] {
        let arguments = json!({"uri": foreign});
        becomes(&registry, "read_mcp_resource", &arguments, &arguments, &[]);
    }
}

// CTX-42: case 93
#[test]
fn a_second_decoding_changes_nothing() {
    let config = RegistryConfig::default().resource_pattern(ResourcePattern::LegacyStorage);
    let registry = Registry::with_config(config).unwrap();
    registry.register_document("doc-real");
    assert_eq!(registry.compact_known_text(R), "res://0001");
    assert_eq!(registry.compact_known_text("local://a/doc://1"), "res://0002");
    let mut calls = [ModelToolCall::new("1", "anything", r#"{"file":"res://0002"}"#)];
    registry.decode_tool_calls(&mut calls);
    assert_eq!(calls[0].arguments, r#"{"file":"local://a/doc://1"}"#);
    let once = calls.clone();
    registry.decode_tool_calls(&mut calls);
    assert_eq!(calls, once);
}

// CTX-2: the same text in a registry that issued nothing
#[test]
fn another_registry_knows_none_of_it() {
    let call = decoded(&fresh(), "read_source", r#"{"knowledge_id":"doc://1"}"#);
    assert_eq!(call.unresolved_handles, ["doc://1"]);
}
