//! Calls of bridge tools: how they are routed, and what becomes of the arguments inside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod call_support;
mod support;

use ArgumentResolution::{PartiallyResolved, Resolved, Unchanged, Unresolved};
use call_support::{becomes_in, unchanged};
use serde_json::json;
use support::{R, S, T, fixture};
use toolnexus_context::{ArgumentResolution, Registry, RegistryConfig, ToolPolicy};

fn routed() -> Registry {
    let registry = fixture();
    let directory = json!({"name": "discover_mcp_tools", "description": "",
        "parameters": {"properties": {"server_id": {"enum": [S]}}}});
    let bridge = json!({"name": "call_mcp_tool", "parameters": {"properties": {"tool_ref": {"enum": [T]}}}});
    registry.encode_tools(&[directory, bridge]);
    registry
}

// CTX-89, CTX-90: routing fields are top-level. Case 56
#[test]
fn a_bridge_call_is_routed_by_its_envelope() {
    becomes_in(
        &routed(),
        "call_mcp_tool",
        r#"{"tool_ref":"mt1","arguments":{"server_id":"ms1","tool_ref":"mt1","url":"w1"}}"#,
        &format!(r#"{{"tool_ref":"{T}","arguments":{{"server_id":"ms1","tool_ref":"mt1","url":"w1"}}}}"#),
        Resolved,
        &[],
    );
}

// CTX-45, CTX-90: unknown places are refused in their key alone; nested ones are data. Case 57
#[test]
fn an_unknown_place_is_refused_in_its_key_alone() {
    let registry = routed();
    let discover = r#"{"server_id":"ms99","query":"ms98"}"#;
    becomes_in(&registry, "discover_mcp_tools", discover, discover, Unresolved, &["ms99"]);
    unchanged("somebody_elses", r#"{"server_id":"ms99"}"#);
    let nested = r#"{"filter":{"server_id":"ms98"},"query":"ms1"}"#;
    becomes_in(&registry, "discover_mcp_tools", nested, nested, Unchanged, &[]);
    // Untrimmed, and of the whole shape; anything else is a string like others.
    for other in [" ms1", "MS1", "ms", "ms1 x", S] {
        let arguments = json!({"server_id": other}).to_string();
        becomes_in(&registry, "discover_mcp_tools", &arguments, &arguments, Unchanged, &[]);
    }
    becomes_in(
        &registry,
        "discover_mcp_tools",
        r#"{"server_id":"ms007"}"#,
        r#"{"server_id":"ms007"}"#,
        Unresolved,
        &["ms007"],
    );
    let text = r#"{"server_id":"doc://1"}"#;
    becomes_in(
        &registry,
        "discover_mcp_tools",
        text,
        r#"{"server_id":"toolnexus://doc/doc-real"}"#,
        Resolved,
        &[],
    );
}

// CTX-95: the JSON of one object becomes the object. Case 59
#[test]
fn a_bridge_s_inner_object_in_a_string_becomes_an_object() {
    for (written, object) in [
        (r#""{}""#, "{}"),
        (r#"" \n { } \t""#, "{ }"),
        (r#""{\"query\":\"{\\\"id\\\":1}\"}""#, r#"{"query":"{\"id\":1}"}"#),
        (
            r#""{\"n\":1.00,\"m\":1e400,\"k\":12345678901234567890123}""#,
            r#"{"n":1.00,"m":1e400,"k":12345678901234567890123}"#,
        ),
    ] {
        let arguments = format!(r#"{{"tool_ref":"x","arguments": {written} }}"#);
        let expected = format!(r#"{{"tool_ref":"x","arguments": {object} }}"#);
        becomes_in(&routed(), "call_mcp_tool", &arguments, &expected, Resolved, &[]);
    }
}

// CTX-95: all else stays. Case 60
#[test]
fn a_bridge_s_inner_object_is_nothing_else() {
    for written in [
        "null",
        r#""null""#,
        r#""[]""#,
        r#""123""#,
        r#""""#,
        r#""{\"id\":""#,
        r#""{} {}""#,
        r#""\"{}\"""#,
        "{}",
        "[\"{}\"]",
        "5",
    ] {
        unchanged("call_mcp_tool", &format!(r#"{{"tool_ref":"x","arguments":{written}}}"#));
    }
    // Nor elsewhere, nor for other tools.
    unchanged("call_mcp_tool", r#"{"tool_ref":"x","other":"{}","arguments":{"arguments":"{}"}}"#);
    for tool in ["discover_mcp_tools", "read_mcp_resource", "somebody_elses", "bash"] {
        unchanged(tool, r#"{"arguments":"{}"}"#);
    }
}

// CTX-95, CTX-45, CTX-88: what was in the string is decoded like the object. Case 61
#[test]
fn what_was_in_the_string_is_decoded() {
    let registry = routed();
    becomes_in(
        &registry,
        "call_mcp_tool",
        r#"{"tool_ref":"mt1","arguments":"{\"file\":\"res://9999\"}"}"#,
        &format!(r#"{{"tool_ref":"{T}","arguments":{{"file":"res://9999"}}}}"#),
        PartiallyResolved,
        &["res://9999"],
    );
    becomes_in(
        &registry,
        "call_mcp_tool",
        r#"{"tool_ref":"mt1","arguments":"{\"file\":\"res://0001\",\"tool_ref\":\"mt9\"}"}"#,
        &format!(r#"{{"tool_ref":"{T}","arguments":{{"file":"{R}","tool_ref":"mt9"}}}}"#),
        Resolved,
        &[],
    );
    // Through tool tiers as well.
    becomes_in(
        &registry,
        "call_tool",
        r#"{"name":"call_mcp_tool","arguments":{"tool_ref":"mt1","arguments":"{}"}}"#,
        &format!(r#"{{"name":"call_mcp_tool","arguments":{{"tool_ref":"{T}","arguments":{{}}}}}}"#),
        Resolved,
        &[],
    );
}

// CTX-89, CTX-95: names and keys are configurable
#[test]
fn bridges_have_names_of_their_own() {
    let config = RegistryConfig::default()
        .policy("invoke", ToolPolicy::default().routing_key("target", "mcp_tool").external().opaque_output());
    let registry = Registry::with_config(config).unwrap();
    registry.encode_tools(&[
        json!({"name": "invoke", "input_schema": {"properties": {"Target": {"enum": [T]}}}}),
    ]);
    let arguments = r#"{"target":"mt1","arguments":"{\"target\":\"mt1\"}"}"#;
    let expected = format!(r#"{{"target":"{T}","arguments":{{"target":"mt1"}}}}"#);
    becomes_in(&registry, "invoke", arguments, &expected, Resolved, &[]);
}
