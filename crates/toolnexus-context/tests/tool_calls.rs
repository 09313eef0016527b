//! Tool calls: what becomes of the handles in their arguments.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod call_support;
mod support;

use call_support::{becomes, becomes_in, decode, refused, resolved, unchanged};
use serde_json::{Value, json};
use support::{R, fixture, fresh};
use toolnexus_context::{
    ArgumentResolution, KeySpace, ModelReply, ModelToolCall, PrivateSpace, Registry, RegistryConfig,
    ToolPolicy,
};

use ArgumentResolution::{PartiallyResolved, Resolved, Unchanged, Unresolved};

// CTX-44, CTX-42. Case 17
#[test]
fn an_id_and_a_resource_are_restored_and_the_model_s_text_is_kept() {
    let arguments = r#"{"slugs":["res://0001"],"knowledge_id":"doc://1"}"#;
    let call = decode(&fixture(), "read_source", arguments);
    assert_eq!(call.arguments, format!(r#"{{"slugs":["{R}"],"knowledge_id":"doc-real"}}"#));
    assert_eq!(call.argument_resolution, Some(Resolved));
    assert_eq!(call.model_arguments.as_deref(), Some(arguments));
    assert!(call.unresolved_handles.is_empty());
}

// CTX-43, CTX-44: an array element has its array's key, a member its own. Case 18
#[test]
fn declared_keys_count_at_any_depth() {
    resolved(
        "list_chunks",
        r#"{"knowledge_id":"doc://1","filters":{"chunk_id":"c1","faq_id":["chunk://1"]}}"#,
        r#"{"knowledge_id":"doc-real","filters":{"chunk_id":"chunk-real","faq_id":["chunk-real"]}}"#,
    );
    // The member has its own key, whatever the array around it is called.
    resolved(
        "list_chunks",
        r#"{"faq_id":[{"note":"c1","chunk_id":[["c1"]]},"c1"]}"#,
        r#"{"faq_id":[{"note":"c1","chunk_id":[["chunk-real"]]},"chunk-real"]}"#,
    );
    unchanged("list_chunks", r#"{"faq_id":[{"note":"c1"}]}"#);
}

// CTX-43: keys are compared in lower case
#[test]
fn keys_are_compared_in_lower_case() {
    resolved("list_chunks", r#"{"KNOWLEDGE_Id":"d1"}"#, r#"{"KNOWLEDGE_Id":"doc-real"}"#);
    // The Kelvin sign is a K of three bytes.
    resolved("list_chunks", "{\"\u{212a}nowledge_id\":\"d1\"}", "{\"\u{212a}nowledge_id\":\"doc-real\"}");
}

// CTX-20, CTX-49. Case 19
#[test]
fn an_old_form_counts_in_declared_keys_alone() {
    resolved(
        "knowledge_search",
        r#"{"query":"b1","content":"see b1 for details","knowledge_base_ids":["b1"]}"#,
        r#"{"query":"b1","content":"see b1 for details","knowledge_base_ids":["kb-real"]}"#,
    );
}

// CTX-20: any case, trimmed, `[1-9][0-9]*`, as the whole value
#[test]
fn an_old_form_is_the_whole_value() {
    for (value, id) in [("B1", "kb-real"), ("  b1\\n", "kb-real"), (" KB://1 ", "kb-real")] {
        resolved(
            "knowledge_search",
            &format!(r#"{{"knowledge_base_ids":"{value}"}}"#),
            &format!(r#"{{"knowledge_base_ids":"{id}"}}"#),
        );
    }
    for ordinary in ["b0", "b01", "b1 x", "xb1", "b", "b1b"] {
        unchanged("knowledge_search", &format!(r#"{{"knowledge_base_ids":"{ordinary}"}}"#));
    }
}

// CTX-20, CTX-7: without old forms they are ordinary ids
#[test]
fn old_forms_can_be_turned_off() {
    let registry = Registry::with_config(support::config().legacy_handles(false)).unwrap();
    registry.register_knowledge_base("kb-real");
    let arguments = r#"{"knowledge_base_ids":["b1","b9"]}"#;
    becomes_in(&registry, "knowledge_search", arguments, arguments, Unchanged, &[]);
}

// CTX-49. Case 20
#[test]
fn a_handle_in_an_undeclared_field_becomes_the_uri() {
    resolved(
        "knowledge_search",
        r#"{"query":"topics of kb://1"}"#,
        r#"{"query":"topics of toolnexus://kb/kb-real"}"#,
    );
    resolved("knowledge_search", r#"{"query":"kb://1"}"#, r#"{"query":"toolnexus://kb/kb-real"}"#);
}

// CTX-45, CTX-46, CTX-27: unknown handles stay and are listed. Case 21
#[test]
fn what_nobody_issued_stays_and_is_listed() {
    becomes(
        "knowledge_search",
        r#"{"knowledge_base_ids":["b1","b99"],"query":"b98","asset":"res://0099"}"#,
        r#"{"knowledge_base_ids":["kb-real","b99"],"query":"b98","asset":"res://0099"}"#,
        PartiallyResolved,
        &["b99", "res://0099"],
    );
}

// CTX-43, CTX-46. Case 22
#[test]
fn arguments_without_handles_keep_their_bytes() {
    for tool in ["anything", "knowledge_search", "bash", "call_tool"] {
        unchanged(tool, r#"{ "query": "hello" }"#);
        unchanged(
            tool,
            "{\"a\" : 1.00 ,\n \"b\":\"\\u0041\\/\" , \"a\": 1e400, \"c\":12345678901234567890123}",
        );
    }
}

// CTX-43: number literals, escapes and the order of members survive a change beside them
#[test]
fn what_is_not_a_handle_keeps_its_bytes() {
    resolved(
        "anything",
        "{\"z\" : 1.00 ,\n \"b\":\"\\u0041\\/\", \"a\":-0.0, \"n\":1e400, \"x\":\"res://0001\" }",
        &format!("{{\"z\" : 1.00 ,\n \"b\":\"\\u0041\\/\", \"a\":-0.0, \"n\":1e400, \"x\":\"{R}\" }}"),
    );
    // Handles are read through escapes.
    resolved("anything", r#"{"x":"\u0072es:\/\/0001"}"#, &format!(r#"{{"x":"{R}"}}"#));
}

// CTX-43: what is no JSON passes unchanged
#[test]
fn malformed_arguments_pass_unchanged() {
    for arguments in [
        "",
        "doc://1",
        "{\"knowledge_id\":\"doc://9\"",
        "{\"a\":\"doc://1\"} x",
        "{'a':'doc://1'}",
        "null",
        "{\"a\":\"doc://1\",\"b\":\"\\ud800\"}",
        "\u{feff}{\"a\":\"doc://1\"}",
    ] {
        for tool in ["read_source", "anything", "call_tool", "call_mcp_tool"] {
            unchanged(tool, arguments);
        }
    }
}

// CTX-43, CTX-45: JSON that is no object is walked too, since no handle may be kept in it
#[test]
fn arguments_that_are_no_object_are_walked() {
    for tool in ["read_source", "anything", "call_tool", "call_mcp_tool"] {
        resolved(tool, r#"["doc://1"]"#, r#"["toolnexus://doc/doc-real"]"#);
        resolved(tool, r#""doc://1""#, r#""toolnexus://doc/doc-real""#);
        refused(tool, r#"["doc://9"]"#, &["doc://9"]);
    }
}

// CTX-44. Case 23
#[test]
fn structured_text_gets_bare_ids_anywhere() {
    becomes(
        "database_query",
        r#"{"sql":"SELECT d1.id FROM documents d1 WHERE d1.id = 'doc://1' AND d1.parent_id = 'doc://99'"}"#,
        r#"{"sql":"SELECT d1.id FROM documents d1 WHERE d1.id = 'doc-real' AND d1.parent_id = 'doc://99'"}"#,
        PartiallyResolved,
        &["doc://99"],
    );
    resolved(
        "database_query",
        r#"{"sql":"id=doc://1 or id IN (\"kb://1\", CHUNK://1) or a='res://0001' or d1"}"#,
        &format!(r#"{{"sql":"id=doc-real or id IN (\"kb-real\", chunk-real) or a='{R}' or d1"}}"#),
    );
}

// CTX-44: a key is structured text for a tool that says so. Case 24
#[test]
fn undeclared_structured_text_is_text() {
    resolved(
        "data_analysis",
        r#"{"knowledge_id":"doc://1","sql":"SELECT COUNT(*) FROM dataset WHERE label = 'd1'"}"#,
        r#"{"knowledge_id":"doc-real","sql":"SELECT COUNT(*) FROM dataset WHERE label = 'd1'"}"#,
    );
}

// CTX-44. Cases 25 and 26
#[test]
fn urls_and_references_are_restored() {
    resolved(
        "web_fetch",
        r#"{"items":[{"url":"url://1"}]}"#,
        r#"{"items":[{"url":"https://example.com/page"}]}"#,
    );
    resolved(
        "write_page",
        r#"{"slug":"x","source_refs":["doc://1|Title"]}"#,
        r#"{"slug":"x","source_refs":["doc-real|Title"]}"#,
    );
}

// CTX-44, CTX-59: of a reference, what stands before the first `|` is the id
#[test]
fn the_id_of_a_reference_stands_before_the_bar() {
    resolved(
        "write_page",
        r#"{"source_refs":["d1|T","toolnexus://doc/a%20b|c://1|doc://1","doc://1"]}"#,
        r#"{"source_refs":["doc-real|T","a b|c://1|doc-real","doc-real"]}"#,
    );
    refused(
        "write_page",
        r#"{"source_refs":["chunk://1|T","d7|T","x|doc://8"]}"#,
        &["chunk://1", "d7", "doc://8"],
    );
}

// CTX-44, CTX-45: a handle of a kind that the key does not accept is refused. Case 27
#[test]
fn a_key_accepts_its_kinds() {
    resolved("read_document", r#"{"id":"chunk://1"}"#, r#"{"id":"chunk-real"}"#);
    resolved("read_document", r#"{"id":"doc://1"}"#, r#"{"id":"doc-real"}"#);
    refused("read_document", r#"{"id":"d9"}"#, &["d9"]);
    refused("read_document", r#"{"id":"kb://1"}"#, &["kb://1"]);
    refused("list_chunks", r#"{"knowledge_id":"chunk://1"}"#, &["chunk://1"]);
    refused("list_chunks", r#"{"knowledge_id":"c1"}"#, &["c1"]);
}

// CTX-44: a durable URI of the key's kind is its id; handles in a longer value become bare ids
#[test]
fn a_declared_key_holds_bare_ids() {
    resolved(
        "read_source",
        r#"{"knowledge_id":["toolnexus://doc/doc-new"," toolnexus://doc/%41 "]}"#,
        r#"{"knowledge_id":["doc-new","A"]}"#,
    );
    unchanged("read_source", r#"{"knowledge_id":["toolnexus://kb/kb-real","doc-real"]}"#);
    resolved(
        "read_source",
        r#"{"knowledge_id":["doc://1, kb://1 and url://1","res://0001"]}"#,
        &format!(r#"{{"knowledge_id":["doc-real, kb-real and https://example.com/page","{R}"]}}"#),
    );
    refused(
        "read_source",
        r#"{"knowledge_id":["doc://1x, doc://7 and","doc://01"]}"#,
        &["doc://01", "doc://7"],
    );
}

// CTX-44, CTX-45. Case 28
#[test]
fn private_handles_are_whole_values_of_their_keys() {
    resolved("update_issue", r#"{"issue_id":"i1"}"#, r#"{"issue_id":"issue-uuid"}"#);
    refused("update_issue", r#"{"issue_id":"i9"}"#, &["i9"]);
    resolved("update_issue", r#"{"a":{"issue_id":[" i1 "]}}"#, r#"{"a":{"issue_id":["issue-uuid"]}}"#);
    // Not of the shape of a handle: any other string.
    unchanged("update_issue", r#"{"issue_id":["i0","i01","i1 i1","I1","i","xi1"],"title":"i1"}"#);
    resolved("update_issue", r#"{"issue_id":"doc://1"}"#, r#"{"issue_id":"toolnexus://doc/doc-real"}"#);
}

// CTX-44, CTX-9: a padded private space is read as it is spelled
#[test]
fn a_padded_private_handle_is_spelled_in_full() {
    let mut space = PrivateSpace::new("ticket", "t-");
    (space.width, space.start) = (3, 0);
    let config = RegistryConfig::default().private_space(space).policy(
        "close",
        ToolPolicy::default().private_decode("ticket", "ticket").private_encode("id", "ticket"),
    );
    let registry = Registry::with_config(config).unwrap();
    let arguments = r#"{"ticket":["t-000","t-0000","t-00","t-1000"]}"#;
    becomes_in(&registry, "close", arguments, arguments, Unresolved, &["t-000", "t-1000"]);
}

// CTX-88: no field of a dynamic tool is guessed to be an id. Cases 29, 30
#[test]
fn a_dynamic_tool_has_free_text_alone() {
    let arguments = r#"{"issue_id":"i1","knowledge_id":"d1","url":"w1","sql":"SELECT 'd1'"}"#;
    unchanged("somebody_elses", arguments);
    resolved(
        "somebody_elses",
        r#"{"note":"read doc://1, chunk://1 and url://1"}"#,
        r#"{"note":"read toolnexus://doc/doc-real, toolnexus://chunk/chunk-real and https://example.com/page"}"#,
    );
    let registry = fixture();
    registry.mark_mcp_tools(["server_tool"]);
    becomes_in(&registry, "server_tool", arguments, arguments, Unchanged, &[]);
    let named = r#"{"knowledge_id":"doc://1","file":"res://0001"}"#;
    let expected = format!(r#"{{"knowledge_id":"toolnexus://doc/doc-real","file":"{R}"}}"#);
    becomes_in(&registry, "server_tool", named, &expected, Resolved, &[]);
    let unknown = r#"{"a":["kb://5"],"b":{"c":"(res://7)"}}"#;
    becomes_in(&registry, "server_tool", unknown, unknown, Unresolved, &["kb://5", "res://7"]);
}

// CTX-45, CTX-47: the text that the model reads. Case 31
#[test]
fn a_refused_call_says_which_handles() {
    let registry = fixture();
    let call = decode(&registry, "somebody_elses", r#"{"note":"doc://7"}"#);
    assert_eq!(
        call.rejection().unwrap(),
        "unresolved model handles: doc://7. Use only handles shown in this conversation."
    );
    let call =
        decode(&registry, "somebody_elses", r#"{"b":"url://9 doc://7","a":"doc://7 doc://1","c":"res://2"}"#);
    assert_eq!(
        call.rejection().unwrap(),
        "unresolved model handles: doc://7, res://2, url://9. Use only handles shown in this conversation."
    );
    assert_eq!(decode(&registry, "somebody_elses", r#"{"note":"doc://1"}"#).rejection(), None);
    assert_eq!(ModelToolCall::new("1", "somebody_elses", r#"{"note":"doc://7"}"#).rejection(), None);
}

// CTX-47: calls beside a refused one are decoded as ever
#[test]
fn siblings_of_a_refused_call_are_decoded() {
    let mut calls = [
        ModelToolCall::new("1", "read_source", r#"{"knowledge_id":"doc://9"}"#),
        ModelToolCall::new("2", "read_source", r#"{"knowledge_id":"doc://1"}"#),
    ];
    fixture().decode_tool_calls(&mut calls);
    assert!(calls[0].rejection().is_some() && calls[1].rejection().is_none());
    assert_eq!(calls[1].arguments, r#"{"knowledge_id":"doc-real"}"#);
}

// CTX-18: edges. Case 32
#[test]
fn text_that_fails_an_edge_is_ordinary() {
    unchanged("bash", r#"{"command":"c --uri chunk://127.0.0.1:4242/"}"#);
    unchanged(
        "bash",
        r#"{"command":"xdoc://1 doc://1x doc://1_ _doc://9 doc://9.5 doc:// doc://x 1doc://9"}"#,
    );
    resolved(
        "bash",
        r#"{"command":"见DOC://1。doc://1. -doc://1- doc://1.x"}"#,
        r#"{"command":"见toolnexus://doc/doc-real。toolnexus://doc/doc-real. -toolnexus://doc/doc-real- toolnexus://doc/doc-real.x"}"#,
    );
    // Resources have no edges, and lower case alone.
    resolved(
        "bash",
        r#"{"command":"xres://0001x RES://0001"}"#,
        &format!(r#"{{"command":"x{R}x RES://0001"}}"#),
    );
    refused("bash", r#"{"command":"res://00012 res://1"}"#, &["res://00012", "res://1"]);
}

// CTX-19: a number that is spelled otherwise never resolves
#[test]
fn a_leading_zero_is_an_unknown_handle() {
    refused("bash", r#"{"command":"doc://007 doc://0 doc://01"}"#, &["doc://0", "doc://007", "doc://01"]);
    let long = format!("doc://1{}", "0".repeat(400));
    refused("bash", &format!(r#"{{"command":"{long}"}}"#), &[&long]);
}

// CTX-44: after `/` or `=` a handle is part of a path or a query. Case 33
#[test]
fn in_a_path_or_a_query_a_handle_is_the_bare_id() {
    let expected = r#"{"url":"https://a.io/d/doc-real?x=1"}"#;
    resolved("web_fetch", r#"{"url":"https://a.io/d/doc://1?x=1"}"#, expected);
    resolved("anything", r#"{"u":"https://a.io/d/doc://1?x=1"}"#, r#"{"u":"https://a.io/d/doc-real?x=1"}"#);
    resolved("anything", r#"{"u":"id=kb://1&url://1"}"#, r#"{"u":"id=kb-real&https://example.com/page"}"#);
    resolved("anything", r#"{"u":"/res://0001"}"#, &format!(r#"{{"u":"/{R}"}}"#));
}

// CTX-1, CTX-44, CTX-45: a handle that is the name of a member reaches no tool either; unknown ones are refused
#[test]
fn names_of_members_are_decoded_as_text() {
    resolved(
        "anything",
        r#"{"res://0001":{"doc://1":"doc://1"}}"#,
        &format!(r#"{{"{R}":{{"toolnexus://doc/doc-real":"toolnexus://doc/doc-real"}}}}"#),
    );
    resolved(
        "read_source",
        r#"{"doc://1":1,"kb://1":{}}"#,
        r#"{"toolnexus://doc/doc-real":1,"toolnexus://kb/kb-real":{}}"#,
    );
    refused("read_source", r#"{"doc://8":1,"x":{"res://0077":2}}"#, &["doc://8", "res://0077"]);
}

// CTX-44, CTX-45. Case 87
#[test]
fn a_verbatim_key_is_left_alone_but_for_a_whole_resource() {
    resolved("read_mcp_resource", r#"{"uri":"res://0001"}"#, &format!(r#"{{"uri":"{R}"}}"#));
    for left in ["res://0042", "doc://42", "doc://1", "x res://0001", " res://0001", "d1"] {
        unchanged("read_mcp_resource", &format!(r#"{{"uri":"{left}"}}"#));
    }
    refused("read_mcp_resource", r#"{"uri":"doc://42","server":"doc://42"}"#, &["doc://42"]);
}

// CTX-45: each of the ways to be unknown
#[test]
fn decoding_fails_closed() {
    refused("anything", r#"{"a":{"b":[["see (doc://9)"]]}}"#, &["doc://9"]);
    refused("knowledge_search", r#"{"knowledge_base_ids":["B7"]}"#, &["B7"]);
    refused("knowledge_search", r#"{"knowledge_base_ids":["KB://7"]}"#, &["KB://7"]);
    refused("call_mcp_tool", r#"{"tool_ref":"mt7","arguments":{}}"#, &["mt7"]);
    unchanged("knowledge_search", r#"{"query":"b98"}"#);
    // A handle of another registry is unknown: CTX-2.
    let arguments = r#"{"knowledge_id":"doc://1"}"#;
    becomes_in(&fresh(), "read_source", arguments, arguments, Unresolved, &["doc://1"]);
}

// CTX-46: each once, sorted; the four words; whitespace and the order of members do not count
#[test]
fn the_resolution_says_what_happened() {
    let call = decode(&fixture(), "anything", r#"{"z":"url://9 doc://9","a":"doc://9","m":"res://9"}"#);
    assert_eq!(call.unresolved_handles, ["doc://9", "res://9", "url://9"]);
    let words =
        [Unchanged, Resolved, PartiallyResolved, Unresolved].map(|r| serde_json::to_value(r).unwrap());
    assert_eq!(words, ["unchanged", "resolved", "partially_resolved", "unresolved"].map(Value::from));
    // The first of two members is what nobody reads: the JSON is the same.
    let call = decode(&fixture(), "anything", r#"{"a":"res://0001","a":"x"}"#);
    assert_eq!(call.arguments, format!(r#"{{"a":"{R}","a":"x"}}"#));
    assert_eq!(call.argument_resolution, Some(Unchanged));
    // Unreadable for a number's sake: compared as bytes.
    resolved("anything", r#"{"n":1e999,"a":"res://0001"}"#, &format!(r#"{{"n":1e999,"a":"{R}"}}"#));
    // An id that is its own handle changes nothing.
    let config = support::config().legacy_handles(false);
    let registry = Registry::with_config(config).unwrap();
    assert_eq!(registry.register_document("d1").as_deref(), Some("doc://1"));
    becomes_in(
        &registry,
        "read_source",
        r#"{"knowledge_id":"d1"}"#,
        r#"{"knowledge_id":"d1"}"#,
        Unchanged,
        &[],
    );
}

// CTX-42: none of the three is serialised
#[test]
fn what_decoding_notes_is_not_serialised() {
    let call = decode(&fixture(), "read_source", r#"{"knowledge_id":"doc://1"}"#);
    assert_eq!(
        serde_json::to_value(&call).unwrap(),
        json!({"id": "call_1", "name": "read_source", "arguments": "{\"knowledge_id\":\"doc-real\"}"})
    );
    assert_eq!(ModelToolCall::new("1", "x", "{}").argument_resolution, None);
}

// CTX-42, CTX-44: inserted text is opaque, and a second decoding changes nothing. Case 93
#[test]
fn a_call_is_decoded_once() {
    let registry = fixture();
    assert_eq!(registry.compact_known_text("local://a/doc://1"), "res://0002");
    let mut calls = [ModelToolCall::new("1", "anything", r#"{"a":"res://0002","b":"doc://1"}"#)];
    registry.decode_tool_calls(&mut calls);
    let once = calls.clone();
    assert_eq!(once[0].arguments, r#"{"a":"local://a/doc://1","b":"toolnexus://doc/doc-real"}"#);
    registry.decode_tool_calls(&mut calls);
    assert_eq!(calls, once);
    // A host's own mark is enough.
    let mut calls = [ModelToolCall::new("1", "anything", r#"{"b":"doc://1"}"#)];
    calls[0].argument_resolution = Some(Unchanged);
    registry.decode_tool_calls(&mut calls);
    assert_eq!((calls[0].arguments.as_str(), &calls[0].model_arguments), (r#"{"b":"doc://1"}"#, &None));
}

// CTX-44: nothing that was put in is looked at again
#[test]
fn inserted_text_is_opaque() {
    let registry = fresh();
    let odd = "https://a.io/doc://1/res://0001/$1|x";
    assert_eq!(registry.register_document("doc-a").as_deref(), Some("doc://1"));
    assert_eq!(registry.register_url(odd, "").as_deref(), Some("url://1"));
    let expected = json!({"url": odd, "note": format!("({odd}) toolnexus://doc/doc-a")}).to_string();
    becomes_in(
        &registry,
        "web_fetch",
        r#"{"url":"url://1","note":"(url://1) doc://1"}"#,
        &expected,
        Resolved,
        &[],
    );
}

// CTX-48: the named tool's policy applies to the inner arguments
#[test]
fn call_tool_is_transparent() {
    resolved(
        "call_tool",
        r#"{"name":"list_chunks","arguments":{"knowledge_id":"d1","note":"doc://1"}}"#,
        r#"{"name":"list_chunks","arguments":{"knowledge_id":"doc-real","note":"toolnexus://doc/doc-real"}}"#,
    );
    refused("call_tool", r#"{"arguments":{"knowledge_id":"d9"},"name":"list_chunks"}"#, &["d9"]);
    unchanged("call_tool", r#"{"name":"somebody_elses","arguments":{"knowledge_id":"d9"}}"#);
    unchanged(
        "call_tool",
        r#"{"name":"call_tool","arguments":{"name":"list_chunks","arguments":{"knowledge_id":"d9"}}}"#,
    );
    // The arguments as the JSON of an object, in a string.
    resolved(
        "call_tool",
        r#"{"name":"list_chunks","arguments":"{\"knowledge_id\": \"d1\"}"}"#,
        r#"{"name":"list_chunks","arguments":"{\"knowledge_id\": \"doc-real\"}"}"#,
    );
    // Whatever else the envelope holds is text.
    refused(
        "call_tool",
        r#"{"name":"list_chunks","arguments":"doc://8","knowledge_id":["kb://9"]}"#,
        &["doc://8", "kb://9"],
    );
    unchanged("call_tool", r#"{"name":"list_chunks","knowledge_id":"d9"}"#);
    resolved(
        "call_tool",
        r#"{"name":"list_chunks","res://0001":["doc://1"],"arguments":{"knowledge_id":"d1"}}"#,
        &format!(
            r#"{{"name":"list_chunks","{R}":["toolnexus://doc/doc-real"],"arguments":{{"knowledge_id":"doc-real"}}}}"#
        ),
    );
    // The last of repeated members counts.
    resolved(
        "call_tool",
        r#"{"name":"x","arguments":{"knowledge_id":"d1"},"name":"list_chunks"}"#,
        r#"{"name":"x","arguments":{"knowledge_id":"doc-real"},"name":"list_chunks"}"#,
    );
}

// CTX-48: a host's own `call_tool` has the policy that the host gives it
#[test]
fn a_call_tool_with_a_policy_is_a_tool() {
    let config = support::config().policy("call_tool", ToolPolicy::default().id_keys(["knowledge_id"]));
    let registry = Registry::with_config(config).unwrap();
    registry.register_document("doc-real");
    becomes_in(
        &registry,
        "call_tool",
        r#"{"name":"x","knowledge_id":"d1"}"#,
        r#"{"name":"x","knowledge_id":"doc-real"}"#,
        Resolved,
        &[],
    );
}

// CTX-61: a key is decoded for a tool whose policy names it; CTX-59: applications add keys
#[test]
fn applications_declare_keys_of_their_own() {
    let config = RegistryConfig::default()
        .key_space("page", KeySpace::of("url"))
        .policy("open", ToolPolicy::default().id_keys(["page"]));
    let registry = Registry::with_config(config).unwrap();
    registry.register_url("https://a.io", "");
    becomes_in(&registry, "open", r#"{"page":"w1"}"#, r#"{"page":"https://a.io"}"#, Resolved, &[]);
    becomes_in(&registry, "shut", r#"{"page":"w1"}"#, r#"{"page":"w1"}"#, Unchanged, &[]);
}

// CTX-51, CTX-40: content, reasoning and calls, each for itself
#[test]
fn a_whole_reply_is_decoded() {
    let registry = fixture();
    let mut reply = ModelReply {
        content: "see doc://1".into(),
        reasoning: "kb://1 may".into(),
        reasoning_signature: Some("signed".into()),
        tool_calls: vec![ModelToolCall::new("1", "read_source", r#"{"knowledge_id":"doc://1"}"#)],
    };
    registry.decode_response(&mut reply);
    assert_eq!(reply.content, "see toolnexus://doc/doc-real");
    assert_eq!(reply.reasoning, "toolnexus://kb/kb-real may");
    assert_eq!(reply.reasoning_signature, None, "it was the signature of another text");
    assert_eq!(reply.tool_calls[0].arguments, r#"{"knowledge_id":"doc-real"}"#);
    let mut signed = ModelReply {
        content: "doc://1".into(),
        reasoning: "let me see".into(),
        reasoning_signature: Some("signed".into()),
        tool_calls: Vec::new(),
    };
    registry.decode_response(&mut signed);
    assert_eq!(signed.reasoning_signature.as_deref(), Some("signed"));
    assert_eq!(signed.reasoning, "let me see");
}

// The work is linear in the text: these would take minutes if it were not
#[test]
fn decoding_is_linear() {
    let registry = fixture();
    let names = format!(r#"{{"{}":[{}]}}"#, "k".repeat(200_000), vec![r#""doc://1""#; 20_000].join(","));
    assert_eq!(decode(&registry, "list_chunks", &names).argument_resolution, Some(Resolved));
    for text in ["://", "res://", "doc://", "doc://1", "res://1", "d", "doc://0", "x=", "1.", "|doc://1"] {
        let arguments =
            json!({"knowledge_id": text.repeat(20_000), "source_refs": text.repeat(20_000)}).to_string();
        decode(&registry, "list_chunks", &arguments);
        decode(&registry, "write_page", &arguments);
    }
    let deep = format!("{}\"doc://1\"{}", r#"{"a":["#.repeat(20_000), "]}".repeat(20_000));
    assert_eq!(decode(&registry, "anything", &deep).argument_resolution, Some(Resolved));
}
