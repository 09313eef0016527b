//! Private and routing ids in the results of tools.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{R, S, T, config, fixture, fresh};
use toolnexus_context::{PrivateSpace, Registry, ToolPolicy};
use toolnexus_core::ToolResult;
use toolnexus_llm::Message;

fn view(registry: &Registry, tool: &str, output: &str) -> String {
    registry.model_tool_result_for_tool(tool, &ToolResult::success(output))
}

fn call(id: &str, tool: &str, arguments: &Value) -> Message {
    Message::from(json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": tool, "arguments": arguments.to_string()}},
    ]}))
}

fn result(id: &str, output: &str) -> Message {
    Message::from(json!({"role": "tool", "tool_call_id": id, "content": output}))
}

// CTX-65, CTX-34, case 44: a call before the result that names its id shows the handle too
#[test]
fn an_issue_is_private_wherever_it_stands() {
    let registry = fixture();
    let issues = r#"[{"id":"issue-x","knowledge_base_id":"kb-real","suspected_knowledge_ids":["doc-real"],"slug":"concept/a"}]"#;
    let shown = r#"[{"id":"i2","knowledge_base_id":"kb://1","suspected_knowledge_ids":["doc://1"],"slug":"concept/a"}]"#;
    let messages = [
        call("call-1", "update_issue", &json!({"issue_id": "issue-x"})),
        result("call-1", "updated issue-x"),
        call("call-2", "read_issue", &json!({})),
        result("call-2", issues),
    ];
    let encoded = registry.encode_messages(&messages);
    assert_eq!(encoded[0]["tool_calls"][0]["function"]["arguments"], r#"{"issue_id":"i2"}"#);
    assert_eq!(encoded[1]["content"], "updated i2");
    assert_eq!(encoded[3]["content"], shown);
    let again = registry.encode_messages(&encoded);
    assert_eq!(again, encoded);
    assert_eq!(view(&registry, "read_issue", issues), shown);
    assert_eq!(view(&registry, "read_issue", shown), shown);
    assert_eq!(registry.decode_output_text("i2"), "issue-x");
}

// CTX-65: every string under the key, at any depth and in arrays, in any case of the key; blank ones, other
// keys, names and what is no string are not
#[test]
fn ids_under_the_key_are_registered() {
    let registry = fresh();
    let output =
        r#"{"ID":"issue-a","rows":[{"id":["issue-b",["issue-a"]," ",7,null]},{"name":"issue-z"}],"n":1.50}"#;
    assert_eq!(
        view(&registry, "read_issue", output),
        r#"{"ID":"i1","rows":[{"id":["i2",["i1"]," ",7,null]},{"name":"issue-z"}],"n":1.50}"#
    );
    assert_eq!(registry.register_issue("issue-c").as_deref(), Some("i3"));
    // A tool that does not declare the key knows only what is known.
    assert_eq!(view(&registry, "update_issue", r#"{"id":"issue-q"} issue-a"#), r#"{"id":"issue-q"} i1"#);
    assert_eq!(view(&registry, "write_page", r#"{"id":"issue-a"}"#), r#"{"id":"issue-a"}"#);
}

// CTX-65, CTX-17: a value of the shape of a handle is left, known or not
#[test]
fn handles_are_left() {
    let registry = fixture();
    let output = r#"{"id":["i1","i7","res://0001","doc://1","toolnexus://kb/kb-real"]}"#;
    let shown = r#"{"id":["i1","i7","res://0001","doc://1","kb://1"]}"#;
    assert_eq!(view(&registry, "read_issue", output), shown);
    assert_eq!(registry.register_issue("issue-next").as_deref(), Some("i2"));
}

// CTX-24: a stored resource under the key is a resource
#[test]
fn a_resource_is_no_issue() {
    let registry = fixture();
    let output = format!(r#"{{"id":"{R}"}}"#);
    assert_eq!(view(&registry, "read_issue", &output), r#"{"id":"res://0001"}"#);
    assert_eq!(registry.register_issue("issue-next").as_deref(), Some("i2"));
}

// CTX-65: what is no JSON skips the first step; known ids are replaced in the whole text, not within others
#[test]
fn known_ids_are_replaced_in_any_text() {
    let registry = fixture();
    assert_eq!(
        view(&registry, "read_issue", "id: issue-new, see issue-uuid (xissue-uuid issue-uuid5)"),
        "id: issue-new, see i1 (xissue-uuid issue-uuid5)"
    );
    let output = r#"{"id":"issue-x","text":"dup of issue-x and issue-uuid"}"#;
    assert_eq!(view(&registry, "read_issue", output), r#"{"id":"i2","text":"dup of i2 and i1"}"#);
    // Without `encode_known` the rest of the text keeps them.
    let policy = ToolPolicy::default().private_encode("id", "issue");
    let registry = Registry::with_config(config().policy("only_keys", policy)).unwrap();
    assert_eq!(view(&registry, "only_keys", output), output.replacen("issue-x", "i1", 1));
}

// CTX-65, CTX-50: an id that is part of a resource or of a URI is not taken out of it, nor out of a handle
#[test]
fn handles_and_references_are_kept_whole() {
    let registry = fixture();
    registry.register_issue("0001");
    assert_eq!(
        view(
            &registry,
            "update_issue",
            "local://a/issue-uuid/x.png toolnexus://doc/issue-uuid res://0001 0001"
        ),
        "res://0002 doc://2 res://0001 i2"
    );
}

// CTX-65, CTX-73: errors take the same way
#[test]
fn errors_have_private_ids() {
    let registry = fixture();
    let metadata = json!({"context": {"error": "no issue-uuid"}});
    let mut failed = ToolResult::failure(r#"{"id":"issue-x"}"#);
    failed.metadata = metadata.as_object().cloned();
    assert_eq!(registry.model_tool_result_for_tool("read_issue", &failed), "{\"id\":\"i2\"}\n\nError: no i1");
}

// CTX-5, CTX-65: spaces of the application's
#[test]
fn spaces_are_configured() {
    let mut space = PrivateSpace::new("ticket", "t-");
    space.width = 3;
    let policy = ToolPolicy::default().private_encode("ticket", "ticket").encode_known(["ticket", "issue"]);
    let registry = Registry::with_config(config().private_space(space).policy("list", policy)).unwrap();
    registry.register_issue("issue-uuid");
    assert_eq!(
        view(&registry, "list", r#"{"ticket":"ticket-uuid","text":"issue-uuid ticket-uuid"}"#),
        r#"{"ticket":"t-001","text":"i1 t-001"}"#
    );
}

// CTX-92, case 55
#[test]
fn directories_name_handles() {
    let registry = fresh();
    let output = json!({
        "server_id": S, "tool_ref": T, "input_schema": {"properties": {"server_id": {"const": S}}},
    })
    .to_string();
    let shown = output.replacen(S, "ms1", 1).replacen(T, "mt1", 1);
    assert_eq!(view(&registry, "discover_mcp_tools", &output), shown);
    assert_eq!(view(&registry, "discover_mcp_tools", &shown), shown);
    let messages = [call("call-1", "discover_mcp_tools", &json!({})), result("call-1", &output)];
    assert_eq!(registry.encode_messages(&messages)[1]["content"], shown.as_str());
    assert_eq!(view(&registry, "discover_mcp_tools", &format!("try {S}.")), "try ms1.");
}

// CTX-111: definitions that a search for tools returns are shown as all definitions are
#[test]
fn found_tools_are_shown_like_others() {
    let registry = fresh();
    let definition = json!([{
        "name": "discover_mcp_tools", "description": "d",
        "parameters": {"type": "object", "properties": {"server_id": {"enum": [S]}}},
    }]);
    let shown = view(&registry, "tool_search", &definition.to_string());
    assert_eq!(shown, definition.to_string().replace(S, "ms1"));
    let messages = [call("call-1", "tool_search", &json!({})), result("call-1", &definition.to_string())];
    assert_eq!(registry.encode_messages(&messages)[1]["content"], shown.as_str());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // CTX-65: encoding again changes nothing, and what is no private value keeps its meaning
    #[test]
    fn encoding_private_ids_is_stable(ids in prop::collection::vec("[a-z]{1,3}-[0-9]{1,4}|i[0-9]{1,2}|\\PC{0,6}", 0..6), text in "\\PC{0,20}") {
        let registry = fresh();
        let output = json!({"id": ids, "other": {"n": 1.5, "text": text}}).to_string();
        let shown = view(&registry, "read_issue", &output);
        prop_assert_eq!(view(&registry, "read_issue", &output), &*shown);
        prop_assert_eq!(view(&registry, "read_issue", &shown), &*shown);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        for (id, handle) in ids.iter().zip(shown["id"].as_array().unwrap()) {
            let handle = handle.as_str().unwrap();
            prop_assert!(handle == id || registry.decode_output_text(handle) == id.trim(), "{} {}", id, handle);
        }
    }
}
