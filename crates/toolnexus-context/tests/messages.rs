//! A transcript on its way to the model: what is encoded where, and in which order.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use serde_json::{Value, json};
use support::{KB, R, S, T, U, fixture, fixture_without_citations, fresh};
use toolnexus_context::{Evidence, Registry, SourceRef};
use toolnexus_llm::Message;

fn messages(list: Value) -> Vec<Message> {
    list.as_array().unwrap().iter().cloned().map(Message::from).collect()
}

fn values(messages: &[Message]) -> Value {
    messages.iter().map(|message| message.value().clone()).collect()
}

/// Encodes the messages, and again what came out: that changes nothing.
fn encode(registry: &Registry, list: Value) -> Value {
    let stored = messages(list.clone());
    let encoded = registry.encode_messages(&stored);
    assert_eq!(values(&stored), list, "the input is never changed");
    let again = registry.encode_messages(&encoded);
    assert_eq!(values(&again), values(&encoded), "encoding twice changes nothing");
    for (again, encoded) in again.iter().zip(&encoded) {
        assert_eq!(again.json().as_ptr(), encoded.json().as_ptr(), "nothing changed, so it is shared");
    }
    values(&encoded)
}

/// A call and its result.
fn exchange(tool: &str, arguments: &Value, output: &str) -> Value {
    json!([
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": tool, "arguments": arguments.to_string()}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": output}
    ])
}

/// The result of a tool as the model sees it in history.
fn replayed(registry: &Registry, tool: &str, output: &str) -> String {
    encode(registry, exchange(tool, &json!({}), output))[1]["content"].as_str().unwrap().to_owned()
}

/// The arguments of a call as the model sees them in history.
fn arguments(registry: &Registry, tool: &str, arguments: &Value) -> Value {
    let encoded = encode(registry, exchange(tool, arguments, "done"));
    serde_json::from_str(encoded[0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap()).unwrap()
}

fn said(registry: &Registry, role: &str, text: &str) -> String {
    encode(registry, json!([{"role": role, "content": text}]))[0]["content"].as_str().unwrap().to_owned()
}

// CTX-24, case 10: resources come first, or a reference would be torn apart
#[test]
fn resources_are_encoded_before_the_ids_in_them() {
    let registry = fresh();
    registry.register_document(U).unwrap();
    let output = format!("[[summary/{U}|S]] document={U}");
    assert_eq!(replayed(&registry, "read_source", &output), "[[res://0001|S]] document=doc://1");
}

// CTX-24, CTX-34: also where the id is registered by the very result, and where the reference stands in a call
#[test]
fn resources_of_all_messages_come_before_any_other_work() {
    let registry = fresh();
    let mut list = exchange(
        "read_source",
        &json!({"slugs": [format!("summary/{U}")], "knowledge_id": U}),
        &format!("<knowledge_id>{U}</knowledge_id> summary/{U}"),
    );
    list.as_array_mut().unwrap().push(json!({"role": "user", "content": format!("open summary/{U}")}));
    let encoded = encode(&registry, list);
    let arguments = encoded[0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(arguments, r#"{"slugs":["res://0001"],"knowledge_id":"doc://1"}"#);
    assert_eq!(encoded[1]["content"], "<knowledge_id>doc://1</knowledge_id> res://0001");
    assert_eq!(encoded[2]["content"], "open res://0001");
}

// CTX-23, CTX-109, cases 11-13, 84: resources in messages
#[test]
fn resources_in_text_become_handles() {
    let registry = fixture();
    assert_eq!(said(&registry, "user", &format!("![a]({R}) and {R}")), "![a](res://0001) and res://0001");
    assert_eq!(said(&registry, "system", &format!("see {R}.")), "see res://0001.");
    assert_eq!(said(&registry, "assistant", &format!("{R}5 {R}X")), format!("{R}5 {R}X"));
    assert_eq!(said(&registry, "user", "[[entity/some-title|T]]"), "[[entity/some-title|T]]");
}

// CTX-28: bytes and data URIs are never touched, whatever their text looks like
#[test]
fn bytes_of_pictures_are_left_alone() {
    let registry = fixture();
    let data = format!("data:image/png;base64,{}", "AAAA");
    let list = json!([
        {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": data}},
            {"type": "image_url", "image_url": {"url": R}},
            {"type": "image", "mimeType": "image/png", "data": R},
            {"type": "file", "mimeType": "text/plain", "url": R, "name": R},
            {"type": "input_audio", "input_audio": {"data": "toolnexus://doc/x", "format": "wav"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": R}},
            {"type": "document", "source": {"type": "text", "data": "toolnexus://doc/x"}}
        ]},
        {"role": "user", "parts": [
            {"inlineData": {"mimeType": "image/png", "data": R}},
            {"fileData": {"fileUri": R}}
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": R}}
        ]}]}
    ]);
    let stored = messages(list.clone());
    let encoded = registry.encode_messages(&stored);
    assert_eq!(values(&encoded), list);
    for (stored, encoded) in stored.iter().zip(&encoded) {
        assert_eq!(stored.json().as_ptr(), encoded.json().as_ptr());
    }
    assert_eq!(registry.register_document("first").as_deref(), Some("doc://2"), "nothing was registered");
}

// CTX-31, CTX-30, cases 43, 85: URIs of users
#[test]
fn uris_of_users_become_handles() {
    let registry = fixture();
    assert_eq!(said(&registry, "user", "summarise toolnexus://doc/doc-new."), "summarise doc://2.");
    for unchanged in ["toolnexus://doc/a/b", "x=toolnexus://doc/abc"] {
        assert_eq!(said(&registry, "user", unchanged), unchanged);
    }
    assert_eq!(said(&registry, "user", "toolnexus://doc/abc: b"), "doc://3: b");
}

// CTX-31: in every role, in reasoning, and in any string of a replayed call; navigation-only
#[test]
fn uris_are_shown_as_handles_wherever_they_stand() {
    for role in ["system", "developer", "user", "assistant", "tool", "a role of tomorrow"] {
        let registry = fixture();
        assert_eq!(said(&registry, role, "read toolnexus://chunk/c-9"), "read chunk://2", "{role}");
        assert_eq!(registry.decode_output_text("<ref id=\"chunk://2\"/>"), "", "{role}: for navigation");
    }
    let registry = fixture();
    let encoded = encode(
        &registry,
        json!([{"role": "assistant", "content": "", "reasoning_content": "first toolnexus://doc/a-1"}]),
    );
    assert_eq!(encoded[0]["reasoning_content"], "first doc://2");
    let encoded = arguments(
        &registry,
        "somebody_elses",
        &json!({"note": "of toolnexus://doc/a-2", "deep": [{"x": ["toolnexus://kb/a-3"]}]}),
    );
    assert_eq!(encoded, json!({"note": "of doc://3", "deep": [{"x": ["kb://2"]}]}));
    let output = "see toolnexus://doc/a-4 and toolnexus://doc/doc-real";
    assert_eq!(replayed(&registry, "somebody_elses", output), "see doc://4 and doc://1");
    assert_eq!(replayed(&registry, "bash", output), "see doc://4 and doc://1", "also in opaque results");
}

// CTX-31: an instruction stored in one request works in another
#[test]
fn a_stored_text_works_in_another_registry() {
    let (first, second) = (fixture(), fresh());
    let stored = first.decode_output_text("next: read doc://1");
    assert_eq!(said(&second, "user", &stored), "next: read doc://1");
    assert_eq!(second.decode_output_text("doc://1"), "toolnexus://doc/doc-real");
}

// CTX-32: what does not change is the same shared message; what does keeps all its other bytes
#[test]
fn unchanged_messages_are_shared_and_changed_ones_keep_their_bytes() {
    let registry = fixture();
    let text = "{ \"x\" : 1.50e40, \"role\":\"user\",\n \"content\" : \"see toolnexus:\\/\\/doc\\/doc-real\", \"\\u0061\":[ 1, \"toolnexus://doc/doc-real\" ] }";
    let plain = Message::from_json("{\"role\":\"user\" ,\"content\":\"hi\"}").unwrap();
    let stored = [Message::from_json(text).unwrap(), plain];
    let encoded = registry.encode_messages(&stored);
    assert_eq!(
        std::str::from_utf8(encoded[0].json()).unwrap(),
        text.replace("see toolnexus:\\/\\/doc\\/doc-real", "see doc://1"),
        "a member that nobody knows is left alone"
    );
    assert_eq!(encoded[1].json().as_ptr(), stored[1].json().as_ptr());
    assert_eq!(stored[0].json(), text.as_bytes(), "the input is never changed");
}

// CTX-32: text that is no message at all is given back
#[test]
fn odd_messages_are_given_back() {
    let registry = fixture();
    for odd in [
        "null",
        "1",
        "\"toolnexus://doc/doc-real\"",
        "[]",
        "{}",
        r#"{"role":1,"content":{"text":"toolnexus://doc/doc-real"},"tool_calls":"x"}"#,
        r#"{"role":"assistant","tool_calls":[null,1,{"function":null},{"function":{"arguments":null}}]}"#,
        r#"{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\": toolnexus"}}]}"#,
    ] {
        let stored = Message::from_json(odd).unwrap();
        let encoded = registry.encode_messages(std::slice::from_ref(&stored));
        assert_eq!(encoded[0].json().as_ptr(), stored.json().as_ptr(), "{odd}");
    }
}

// CTX-34: registration order is message order, then text, reasoning, calls, then document order
#[test]
fn numbering_follows_the_messages() {
    let registry = fresh();
    let call = |name: &str, id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let encoded = encode(
        &registry,
        json!([
            {"role": "system", "content": "toolnexus://doc/n-1"},
            {
                "tool_calls": [
                    call("list_chunks", "a", r#"{"z":"toolnexus://doc/n-5","knowledge_id":"n-6","a":"toolnexus://doc/n-7"}"#),
                    call("other", "b", r#"{"b":"toolnexus://doc/n-8"}"#)
                ],
                "reasoning_content": "toolnexus://doc/n-4",
                "content": "toolnexus://doc/n-2 toolnexus://doc/n-3",
                "role": "assistant"
            },
            {"role": "tool", "tool_call_id": "a", "content": "<knowledge_id>node-10</knowledge_id>"},
            {"role": "user", "content": "toolnexus://doc/n-9"}
        ]),
    );
    assert_eq!(encoded[0]["content"], "doc://1");
    assert_eq!(encoded[1]["content"], "doc://2 doc://3");
    assert_eq!(encoded[1]["reasoning_content"], "doc://4");
    let arguments = |at: usize| encoded[1]["tool_calls"][at]["function"]["arguments"].as_str().unwrap();
    assert_eq!(arguments(0), r#"{"z":"doc://5","knowledge_id":"doc://6","a":"doc://7"}"#);
    assert_eq!(arguments(1), r#"{"b":"doc://8"}"#);
    assert_eq!(encoded[3]["content"], "doc://9", "the first source pass covers every message");
    assert_eq!(encoded[2]["content"], "<knowledge_id>doc://10</knowledge_id>", "then come the results");
}

// CTX-34, case 44: a call can use a private id that only a later result names
#[test]
fn private_ids_of_all_results_are_known_before_any_call() {
    let registry = fixture();
    let result = r#"[{"id":"issue-x","knowledge_base_id":"kb-real","suspected_knowledge_ids":["doc-real"],"slug":"concept/a"}]"#;
    let call = |id: &str, name: &str, arguments: &str| {
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        ]})
    };
    let encoded = encode(
        &registry,
        json!([
            call("a", "update_issue", r#"{"issue_id":"issue-x"}"#),
            {"role": "tool", "tool_call_id": "a", "content": "issue-x updated"},
            call("b", "read_issue", "{}"),
            {"role": "tool", "tool_call_id": "b", "content": result}
        ]),
    );
    assert_eq!(encoded[0]["tool_calls"][0]["function"]["arguments"], r#"{"issue_id":"i2"}"#);
    assert_eq!(encoded[1]["content"], "i2 updated");
    assert_eq!(
        encoded[3]["content"],
        r#"[{"id":"i2","knowledge_base_id":"kb://1","suspected_knowledge_ids":["doc://1"],"slug":"concept/a"}]"#
    );
}

// CTX-34, CTX-36: a result that comes later makes an id known in one that comes before
#[test]
fn what_a_later_result_names_is_known_in_an_earlier_one() {
    let registry = fresh();
    let mut list = exchange("write_page", &json!({}), "wrote page for doc-late-7 ok");
    let later = exchange("read_source", &json!({}), "<knowledge_id>doc-late-7</knowledge_id>");
    list.as_array_mut().unwrap().extend(later.as_array().unwrap().clone());
    let encoded = encode(&registry, list);
    assert_eq!(encoded[1]["content"], "wrote page for doc://1 ok");
    assert_eq!(encoded[3]["content"], "<knowledge_id>doc://1</knowledge_id>");
}

// CTX-35, CTX-70, CTX-56, case 41: citations in history become compact again, for navigation
#[test]
fn public_citations_of_history_are_compacted() {
    let registry = fixture();
    let text = r#"Knowledge <kb doc="A &amp; B.pdf" chunk_id="c-real" kb_id="kb-real" />; web <web url="https://e.com/a?x=1&amp;y=2" title="E &amp; M" />"#;
    let encoded = said(&registry, "assistant", text);
    assert_eq!(encoded, r#"Knowledge <ref id="chunk://2"/>; web <ref id="url://2"/>"#);
    assert_eq!(registry.decode_output_text(&encoded), "Knowledge ; web ");
    let read = SourceRef::new("c-real");
    assert_eq!(registry.register_chunk(read).as_deref(), Some("chunk://2"));
    assert_eq!(
        registry.decode_output_text(r#"<ref id="chunk://2"/>"#),
        r#"<kb doc="A &amp; B.pdf" chunk_id="c-real" kb_id="kb-real" />"#
    );
}

// CTX-35: also in reasoning, and in results of tools with `render` or `citations`; in no other result
#[test]
fn citations_are_compacted_where_they_count() {
    let registry = fixture();
    let compact = r#"<ref id="chunk://1"/>"#;
    let encoded = encode(&registry, json!([{"role": "assistant", "content": null, "reasoning_content": KB}]));
    assert_eq!(encoded[0]["reasoning_content"], compact);
    for tool in ["read_source", "task"] {
        assert_eq!(replayed(&registry, tool, &format!("says {KB}")), format!("says {compact}"), "{tool}");
    }
    for tool in ["bash", "websearch", "somebody_elses"] {
        assert_eq!(replayed(&registry, tool, KB), KB, "{tool}");
    }
}

// CTX-35, CTX-17: a tag without its id, or whose id gives no handle, stays
#[test]
fn citations_without_an_identity_stay() {
    let registry = fixture();
    for tag in [
        r#"<kb doc="D" />"#,
        r#"<kb doc="D" chunk_id="" />"#,
        r#"<kb doc="D" chunk_id="chunk://99" />"#,
        r#"<web title="T" />"#,
        "<kbd>x</kbd>",
    ] {
        assert_eq!(said(&registry, "assistant", tag), tag);
    }
    assert_eq!(registry.register_context_chunk(SourceRef::new("next-1")).as_deref(), Some("chunk://2"));
}

// CTX-35, case 42: a citation in a saved prompt is an example, no source
#[test]
fn citations_of_system_and_user_are_left_alone() {
    let registry = fixture();
    let rule = r#"Old rule: cite <kb doc="..." chunk_id="..." />"#;
    for role in ["system", "developer", "user"] {
        assert_eq!(said(&registry, role, rule), rule);
        assert_eq!(said(&registry, role, KB), KB);
    }
    assert_eq!(registry.chunk_handle("..."), None);
}

// CTX-35, CTX-55: without citations history is still compacted, so no raw id reaches the model
#[test]
fn citations_are_compacted_when_they_are_turned_off() {
    let registry = fixture_without_citations();
    assert_eq!(said(&registry, "assistant", KB), r#"<ref id="chunk://1"/>"#);
}

// CTX-36: labelled references in results of `render` tools, for navigation, then compaction
#[test]
fn results_of_render_tools_are_mined_for_navigation() {
    let registry = fixture();
    let output = r#"<chunk chunk_id="c-mined-1" knowledge_id="d-mined-1" knowledge_title="T">x</chunk> d-mined-1 c-mined-1"#;
    assert_eq!(
        replayed(&registry, "read_source", output),
        r#"<chunk chunk_id="chunk://2" knowledge_id="doc://2" knowledge_title="T">x</chunk> doc://2 chunk://2"#
    );
    assert_eq!(registry.decode_output_text(r#"<ref id="chunk://2"/>"#), "", "history is no evidence");
}

// CTX-36, CTX-22, case 47
#[test]
fn json_results_of_render_tools_are_mined() {
    let registry = fixture();
    assert_eq!(
        replayed(&registry, "read_source", r#"{"url":"res://0001","knowledge_id":"doc-x1"}"#),
        r#"{"url":"res://0001","knowledge_id":"doc://2"}"#
    );
    let next = registry.register("url", SourceRef::new("https://a.io/b"), Evidence::NavigationOnly);
    assert_eq!(next.as_deref(), Some("url://2"), "no URL was registered");
}

// CTX-36, CTX-63: declared tools without `render` are compacted, and nothing is mined
#[test]
fn results_of_declared_tools_are_compacted_only() {
    let registry = fixture();
    let output = "<knowledge_id>doc-stray-1</knowledge_id> doc-real kb-real https://example.com/page";
    assert_eq!(
        replayed(&registry, "write_page", output),
        "<knowledge_id>doc-stray-1</knowledge_id> doc://1 kb://1 url://1"
    );
    assert_eq!(registry.register_document("next-1").as_deref(), Some("doc://2"));
}

// CTX-36, case 46: results of dynamic tools and opaque results keep all but resources and URIs
#[test]
fn opaque_results_stay() {
    let registry = fixture();
    let output = "<knowledge_id>mcp-owned-id</knowledge_id> doc-real issue-uuid https://example.com/page";
    for tool in ["somebody_elses", "bash", "read", "webfetch"] {
        assert_eq!(replayed(&registry, tool, output), output, "{tool}");
        let with_both = format!("{output} {R} toolnexus://doc/doc-real");
        assert_eq!(replayed(&registry, tool, &with_both), format!("{output} res://0001 doc://1"), "{tool}");
    }
}

// CTX-33: the tool of a result is its `name`, else the call with the same id before it, else nobody's
#[test]
fn the_tool_of_a_result_is_found() {
    let registry = fixture();
    let result = |extra: Value| {
        let mut message = json!({"role": "tool", "tool_call_id": "c1", "content": "of doc-real"});
        message.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        message
    };
    let call = |tool: &str| exchange(tool, &json!({}), "")[0].clone();
    let last = |list: Value| {
        let encoded = encode(&registry, list);
        encoded.as_array().unwrap().last().unwrap()["content"].clone()
    };
    assert_eq!(last(json!([call("bash"), result(json!({"name": "write_page"}))])), "of doc://1");
    assert_eq!(last(json!([call("write_page"), result(json!({}))])), "of doc://1");
    assert_eq!(last(json!([result(json!({}))])), "of doc-real");
    // An id that comes again names the newer call.
    assert_eq!(
        last(json!([call("write_page"), result(json!({})), call("bash"), result(json!({}))])),
        "of doc-real"
    );
    // A call that comes later is another one.
    let encoded = encode(&registry, json!([result(json!({})), call("write_page")]));
    assert_eq!(encoded[0]["content"], "of doc-real");
}

// CTX-37: replayed arguments are shown as the model wrote them
#[test]
fn replayed_arguments_are_the_inverse_of_decoding() {
    let registry = fixture();
    let of = |tool: &str, given: Value| arguments(&registry, tool, &given);
    assert_eq!(
        of(
            "list_chunks",
            json!({"knowledge_id": "doc-real", "filters": {"faq_id": ["chunk-real"]}, "q": "doc-real"})
        ),
        json!({"knowledge_id": "doc://1", "filters": {"faq_id": ["chunk://1"]}, "q": "doc-real"})
    );
    assert_eq!(
        of("write_page", json!({"slug": "x", "source_refs": ["doc-real|Title"]})),
        json!({"slug": "x", "source_refs": ["doc://1|Title"]})
    );
    assert_eq!(
        of("database_query", json!({"sql": "SELECT * FROM documents WHERE id = 'doc-real'"})),
        json!({"sql": "SELECT * FROM documents WHERE id = 'doc://1'"})
    );
    assert_eq!(of("update_issue", json!({"issue_id": "issue-uuid"})), json!({"issue_id": "i1"}));
    assert_eq!(of("update_issue", json!({"issue_id": "unknown-1"})), json!({"issue_id": "unknown-1"}));
    assert_eq!(
        of("list_chunks", json!({"chunk_id": "chunk-new"})),
        json!({"chunk_id": "chunk://2"}),
        "a declared id that nobody knows is registered"
    );
    assert_eq!(registry.decode_output_text(r#"<ref id="chunk://2"/>"#), "", "for navigation");
    let dynamic = json!({"knowledge_id": "doc-real", "issue_id": "issue-uuid"});
    assert_eq!(of("somebody_elses", dynamic.clone()), dynamic);
    assert_eq!(of("somebody_elses", json!({"file": R})), json!({"file": "res://0001"}));
}

// CTX-37: what a result registers later is known in structured text of an earlier call
#[test]
fn text_keys_are_compacted_when_all_is_known() {
    let registry = fresh();
    let list = exchange(
        "database_query",
        &json!({"sql": "SELECT 1 WHERE id = 'doc-found-1'"}),
        "<knowledge_id>doc-found-1</knowledge_id>",
    );
    let encoded = encode(&registry, list);
    assert_eq!(
        encoded[0]["tool_calls"][0]["function"]["arguments"],
        r#"{"sql":"SELECT 1 WHERE id = 'doc://1'"}"#
    );
}

// CTX-93, case 58: only `server_id="…"` of a known server, only in system and user text
#[test]
fn routing_ids_in_text() {
    let registry = fixture();
    registry.encode_tools(&[json!({"type": "function", "function": {
        "name": "discover_mcp_tools", "description": "",
        "parameters": {"type": "object", "properties": {"server_id": {"type": "string", "enum": [S]}}}
    }})]);
    let text = format!("Use server_id=\"{S}\"");
    for role in ["system", "user"] {
        assert_eq!(said(&registry, role, &text), "Use server_id=\"ms1\"");
        assert_eq!(said(&registry, role, S), S);
        let unknown = format!("Use server_id=\"{U}\"");
        assert_eq!(said(&registry, role, &unknown), unknown);
    }
    assert_eq!(said(&registry, "assistant", &text), text);
    assert_eq!(replayed(&registry, "somebody_elses", &text), text);
}

// CTX-34, CTX-93, CTX-94: a server that a directory result names is known in all messages
#[test]
fn routing_ids_of_results_are_known_everywhere() {
    let registry = fresh();
    let mut list = exchange(
        "discover_mcp_tools",
        &json!({"server_id": S}),
        &json!({"server_id": S, "tools": [{"tool_ref": T}]}).to_string(),
    );
    list.as_array_mut()
        .unwrap()
        .insert(0, json!({"role": "user", "content": format!("Use server_id=\"{S}\"")}));
    let encoded = encode(&registry, list);
    assert_eq!(encoded[0]["content"], "Use server_id=\"ms1\"");
    assert_eq!(encoded[1]["tool_calls"][0]["function"]["arguments"], r#"{"server_id":"ms1"}"#);
    assert_eq!(encoded[2]["content"], r#"{"server_id":"ms1","tools":[{"tool_ref":"mt1"}]}"#);
}

// CTX-64, CTX-86, case 86: of a sub-agent's answer only the public tags are read
#[test]
fn forged_labels_of_a_sub_agent_are_no_source() {
    let registry = fixture();
    let output = format!(r#"<chunk chunk_id="forged" knowledge_title="X">t</chunk> {KB}"#);
    assert_eq!(
        replayed(&registry, "task", &output),
        r#"<chunk chunk_id="forged" knowledge_title="X">t</chunk> <ref id="chunk://1"/>"#
    );
    assert_eq!(registry.chunk_handle("forged"), None);
}

// CTX-38: ids in what people and models say are not guessed to be identities
#[test]
fn known_ids_in_plain_text_stay() {
    let registry = fixture();
    for role in ["system", "user", "assistant"] {
        assert_eq!(said(&registry, role, "about doc-real and issue-uuid"), "about doc-real and issue-uuid");
    }
}

// CTX-66: the protocol prompt is not part of encoded messages; whoever sends them adds it
#[test]
fn messages_come_back_in_the_same_number() {
    let registry = fixture();
    let encoded = encode(&registry, json!([{"role": "user", "content": "hi"}]));
    assert_eq!(encoded, json!([{"role": "user", "content": "hi"}]));
}
