//! Arguments of calls in a transcript: shown to the model as it would write them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use serde_json::{Value, json};
use support::{R, S, T, chunk, fixture, fresh};
use toolnexus_context::{Evidence, ModelToolCall, Registry, RegistryConfig, SourceRef};
use toolnexus_llm::Message;

fn call(tool: &str, arguments: &str) -> Message {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": tool, "arguments": arguments}},
    ]})
    .into()
}

fn arguments_of(message: &Message) -> String {
    message["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned()
}

/// The arguments as a model is shown them.
fn replay(registry: &Registry, tool: &str, arguments: &str) -> String {
    arguments_of(&registry.encode_messages(&[call(tool, arguments)])[0])
}

fn decode(registry: &Registry, tool: &str, arguments: &str) -> String {
    let mut calls = [ModelToolCall::new("call_1", tool, arguments)];
    registry.decode_tool_calls(&mut calls);
    calls[0].arguments.clone()
}

/// Asserts what the model is shown in the fixture, that it is so the second time, and that decoding gives
/// the stored text back.
#[track_caller]
fn shown(tool: &str, stored: &str, expected: &str) {
    shown_in(&fixture(), tool, stored, expected);
}

#[track_caller]
fn shown_in(registry: &Registry, tool: &str, stored: &str, expected: &str) {
    assert_eq!(replay(registry, tool, stored), expected);
    assert_eq!(replay(registry, tool, stored), expected, "again");
    assert_eq!(replay(registry, tool, expected), expected, "encoded again");
    assert_eq!(decode(registry, tool, expected), stored, "decoded");
}

fn is_citable(registry: &Registry, handle: &str) -> bool {
    !registry.decode_output_text(&format!(r#"<ref id="{handle}"/>"#)).is_empty()
}

// CTX-37: declared keys: a bare id becomes its handle
#[test]
fn ids_in_declared_keys_become_handles() {
    shown(
        "list_chunks",
        r#"{"knowledge_id":"doc-real","filters":{"chunk_id":"chunk-real","faq_id":["chunk-real","faq-7"]}, "n":1.00}"#,
        r#"{"knowledge_id":"doc://1","filters":{"chunk_id":"chunk://1","faq_id":["chunk://1","chunk://2"]}, "n":1.00}"#,
    );
    shown("web_fetch", r#"{"url":"https://example.com/page"}"#, r#"{"url":"url://1"}"#);
    // However short, and whatever is in it: it is the whole value.
    shown(
        "read_source",
        r#"{"knowledge_id":["7","word","a b/c"]}"#,
        r#"{"knowledge_id":["doc://2","doc://3","doc://4"]}"#,
    );
}

// CTX-37: of a reference the part before `|`
#[test]
fn a_reference_keeps_its_title() {
    shown(
        "write_page",
        r#"{"source_refs":["doc-real|doc-real","doc-new|T|U","doc-real"]}"#,
        r#"{"source_refs":["doc://1|doc-real","doc://2|T|U","doc://1"]}"#,
    );
}

// CTX-37, CTX-56: what is registered there may be used, not cited
#[test]
fn what_arguments_name_is_for_navigation() {
    let registry = fixture();
    let stored = r#"{"url":"https://example.com/other"}"#;
    assert_eq!(replay(&registry, "web_fetch", stored), r#"{"url":"url://2"}"#);
    assert!(!is_citable(&registry, "url://2"));
    assert!(is_citable(&registry, "url://1"), "evidence stays evidence");
    assert_eq!(
        replay(&registry, "list_chunks", r#"{"chunk_id":"chunk-new"}"#),
        r#"{"chunk_id":"chunk://2"}"#
    );
    assert!(!is_citable(&registry, "chunk://2"));
    assert_eq!(registry.register_chunk(chunk("chunk-new")).as_deref(), Some("chunk://2"));
    assert!(is_citable(&registry, "chunk://2"));
}

// CTX-37, CTX-34: registered in the order of the document, not of sorted keys, and of the messages
#[test]
fn numbers_follow_the_document() {
    let registry = fresh();
    let messages = [
        call(
            "read_source",
            r#"{"z":{"knowledge_id":"doc-z"},"knowledge_id":["doc-y","doc-x"],"a":"toolnexus://doc/doc-a"}"#,
        ),
        call("read_source", r#"{"knowledge_id":"doc-b","a":"doc-z toolnexus://doc/doc-z"}"#),
    ];
    let encoded = registry.encode_messages(&messages);
    assert_eq!(
        arguments_of(&encoded[0]),
        r#"{"z":{"knowledge_id":"doc://1"},"knowledge_id":["doc://2","doc://3"],"a":"doc://4"}"#
    );
    assert_eq!(arguments_of(&encoded[1]), r#"{"knowledge_id":"doc://5","a":"doc-z doc://1"}"#);
}

// CTX-37: structured text is compacted; nothing is made up from it
#[test]
fn structured_text_is_compacted() {
    shown(
        "database_query",
        r#"{"sql":"SELECT * FROM d1 WHERE id = 'doc-real' AND kb IN (\"kb-real\",'doc-other')"}"#,
        r#"{"sql":"SELECT * FROM d1 WHERE id = 'doc://1' AND kb IN (\"kb://1\",'doc-other')"}"#,
    );
    // Of another tool it is text like any other.
    shown("data_analysis", r#"{"sql":"'doc-real'"}"#, r#"{"sql":"'doc-real'"}"#);
}

// CTX-37: private keys use handles that are known
#[test]
fn private_keys_show_known_handles() {
    shown("update_issue", r#"{"issue_id":"issue-uuid"}"#, r#"{"issue_id":"i1"}"#);
    shown(
        "update_issue",
        r#"{"issue_id":["issue-new","x"],"note":"issue-uuid"}"#,
        r#"{"issue_id":["issue-new","x"],"note":"issue-uuid"}"#,
    );
    let registry = fixture();
    replay(&registry, "update_issue", r#"{"issue_id":"issue-new"}"#);
    assert_eq!(registry.register_issue("issue-next").as_deref(), Some("i2"), "nothing was registered");
}

fn routed() -> Registry {
    let registry = fixture();
    let listed = |name: &str, key: &str, id: &str| json!({"name": name, "input_schema": {"properties": {key: {"enum": [id]}}}});
    registry.encode_tools(&[
        listed("discover_mcp_tools", "server_id", S),
        listed("call_mcp_tool", "tool_ref", T),
    ]);
    registry
}

// CTX-94, CTX-90: known places become handles in the envelope alone; nothing is registered
#[test]
fn bridge_calls_show_known_places() {
    let registry = routed();
    shown_in(
        &registry,
        "call_mcp_tool",
        &format!(r#"{{"tool_ref":"{T}","arguments":{{"tool_ref":"{T}","server_id":"{S}"}}}}"#),
        &format!(r#"{{"tool_ref":"mt1","arguments":{{"tool_ref":"{T}","server_id":"{S}"}}}}"#),
    );
    shown_in(&registry, "discover_mcp_tools", &format!(r#"{{"server_id":"{S}"}}"#), r#"{"server_id":"ms1"}"#);
    let unknown = r#"{"tool_ref":"mcpt_unknown","arguments":{}}"#;
    shown_in(&registry, "call_mcp_tool", unknown, unknown);
    let other = json!({"name": "call_mcp_tool", "input_schema": {"properties": {"tool_ref": {"enum": ["mcpt_next"]}}}});
    assert_eq!(
        registry.encode_tools(&[other])[0]["input_schema"]["properties"]["tool_ref"]["enum"][0],
        "mt2"
    );
}

// CTX-37, CTX-31, CTX-24: of a tool without policy resources and URIs alone
#[test]
fn a_tool_without_policy_keeps_its_arguments() {
    let stored = format!(
        r#"{{"knowledge_id":"doc-real","url":"https://example.com/page","a":["{R}","see toolnexus://kb/kb-new."]}}"#
    );
    let expected =
        r#"{"knowledge_id":"doc-real","url":"https://example.com/page","a":["res://0001","see kb://2."]}"#;
    shown("somebody_elses", &stored, expected);
    let registry = fixture();
    registry.mark_mcp_tools(["server_tool"]);
    shown_in(&registry, "server_tool", &stored, expected);
}

// CTX-31: URIs in any string, of declared tools too, for navigation
#[test]
fn uris_in_any_string_become_handles() {
    shown(
        "knowledge_search",
        r#"{"query":"topics of toolnexus://kb/kb-real and toolnexus://chunk/chunk-new","knowledge_base_ids":[]}"#,
        r#"{"query":"topics of kb://1 and chunk://2","knowledge_base_ids":[]}"#,
    );
    let registry = fixture();
    replay(&registry, "knowledge_search", r#"{"query":"toolnexus://chunk/chunk-new"}"#);
    assert!(!is_citable(&registry, "chunk://2"));
    // In a declared key the URI of its kind was the id.
    assert_eq!(
        replay(&registry, "read_source", r#"{"knowledge_id":"toolnexus://doc/doc-real"}"#),
        r#"{"knowledge_id":"doc://1"}"#
    );
}

// CTX-24, CTX-31, CTX-44: names of members are shown as any text
#[test]
fn names_of_members_are_shown_as_text() {
    shown(
        "somebody_elses",
        &format!(r#"{{"{R}":1,"toolnexus://doc/doc-real":2,"doc-real":3}}"#),
        r#"{"res://0001":1,"doc://1":2,"doc-real":3}"#,
    );
}

// CTX-44, CTX-37: a verbatim key shows a whole resource, since decoding restores that
#[test]
fn a_verbatim_key_shows_a_whole_resource() {
    shown("read_mcp_resource", &format!(r#"{{"uri":"{R}"}}"#), r#"{"uri":"res://0001"}"#);
    for stored in [format!(r#"{{"uri":"see {R}"}}"#), r#"{"uri":"toolnexus://doc/doc-real"}"#.to_owned()] {
        shown("read_mcp_resource", &stored, &stored);
    }
}

// CTX-24: resources come first, so no id is made of one
#[test]
fn a_resource_in_a_declared_key_is_a_resource() {
    let slug = format!("summary/{}", support::U);
    shown("read_source", &format!(r#"{{"knowledge_id":"{slug}"}}"#), r#"{"knowledge_id":"res://0002"}"#);
    let registry = fixture();
    replay(&registry, "read_source", &format!(r#"{{"knowledge_id":["{slug}","see {slug}"]}}"#));
    assert_eq!(
        registry.register_document("doc-next").as_deref(),
        Some("doc://2"),
        "no document was registered"
    );
}

// CTX-22: keys register pages of the web alone
#[test]
fn only_pages_become_urls() {
    for stored in ["ftp://a.io/x", "file:///etc/passwd", "mailto:a@b.c", "not a url", ""] {
        let stored = json!({"url": stored, "urls": [stored]}).to_string();
        shown("web_fetch", &stored, &stored);
    }
    shown("web_fetch", r#"{"urls":["HTTP://a.io/x","https://a.io/y"]}"#, r#"{"urls":["url://2","url://3"]}"#);
}

// CTX-59: a key of several kinds shows the one that is known
#[test]
fn a_key_of_several_kinds_shows_the_known_one() {
    shown("read_document", r#"{"id":"chunk-real"}"#, r#"{"id":"chunk://1"}"#);
    shown("read_document", r#"{"id":"doc-real"}"#, r#"{"id":"doc://1"}"#);
    shown("read_document", r#"{"id":"new-id"}"#, r#"{"id":"doc://2"}"#);
}

// CTX-47, CTX-17: the text of a refused call is no identity
#[test]
fn the_text_of_a_refused_call_stays() {
    let stored = r#"{"knowledge_id":["doc://9","d9","chunk://1","res://0099"],"note":"kb://9"}"#;
    let registry = fixture();
    assert_eq!(replay(&registry, "read_source", stored), stored);
    // Nor is a longer text with one in it.
    let longer = r#"{"knowledge_id":["doc://9, doc-real","(res://0001)","x doc://1"]}"#;
    assert_eq!(replay(&registry, "read_source", longer), longer);
    assert_eq!(registry.register_document("doc-next").as_deref(), Some("doc://2"));
}

// CTX-43: what is no JSON stays
#[test]
fn malformed_arguments_stay() {
    for stored in ["", "{\"knowledge_id\":\"doc-real\"", "doc-real"] {
        assert_eq!(replay(&fixture(), "read_source", stored), stored);
    }
}

// CTX-48, CTX-37: through `call_tool` the named tool's policy counts
#[test]
fn call_tool_is_transparent() {
    shown(
        "call_tool",
        r#"{"name":"read_source","arguments":{"knowledge_id":"doc-real"}}"#,
        r#"{"name":"read_source","arguments":{"knowledge_id":"doc://1"}}"#,
    );
    shown(
        "call_tool",
        r#"{"name":"read_source","arguments":"{\"knowledge_id\":\"doc-real\"}"}"#,
        r#"{"name":"read_source","arguments":"{\"knowledge_id\":\"doc://1\"}"}"#,
    );
}

// CTX-37: the other dialects keep arguments as objects
#[test]
fn every_dialect_replays_its_arguments() {
    let registry = fixture();
    let blocks: Message = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "1", "name": "read_source", "input": {"knowledge_id": "doc-real"}},
    ]})
    .into();
    let parts: Message = json!({"role": "model", "parts": [
        {"functionCall": {"name": "read_source", "args": {"knowledge_id": "doc-real"}}},
    ]})
    .into();
    let encoded = registry.encode_messages(&[blocks, parts]);
    assert_eq!(encoded[0]["content"][0]["input"], json!({"knowledge_id": "doc://1"}));
    assert_eq!(encoded[1]["parts"][0]["functionCall"]["args"], json!({"knowledge_id": "doc://1"}));
}

// CTX-5, CTX-37: kinds of the application's own
#[test]
fn kinds_of_the_application_are_replayed() {
    use toolnexus_context::{KeySpace, SourceKind, ToolPolicy};
    let config = RegistryConfig::default()
        .kind(SourceKind::new("page"))
        .key_space("page_id", KeySpace::of("page"))
        .policy("open", ToolPolicy::default().id_keys(["page_id"]));
    let registry = Registry::with_config(config).unwrap();
    registry.register("page", SourceRef::new("p/1"), Evidence::NavigationOnly);
    shown_in(&registry, "open", r#"{"page_id":"p/1"}"#, r#"{"page_id":"page://1"}"#);
    let value: Value = serde_json::from_str(&replay(&registry, "open", r#"{"page_id":"p/2"}"#)).unwrap();
    assert_eq!(value["page_id"], "page://2");
}
