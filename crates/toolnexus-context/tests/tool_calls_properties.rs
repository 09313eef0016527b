//! Arguments of any shape: decoding undoes encoding, happens once, and touches handles alone.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::{R, S, T, chunk, fixture};
use toolnexus_context::{ArgumentResolution, ModelToolCall, Registry};
use toolnexus_llm::Message;

const TOOLS: [&str; 13] = [
    "knowledge_search",
    "list_chunks",
    "read_document",
    "read_source",
    "web_fetch",
    "write_page",
    "database_query",
    "data_analysis",
    "update_issue",
    "read_mcp_resource",
    "discover_mcp_tools",
    "call_mcp_tool",
    "somebody_elses",
];

/// The keys that these tools declare, and some that none does.
const KEYS: [&str; 17] = [
    "knowledge_base_ids",
    "Knowledge_ID",
    "knowledge_id",
    "faq_id",
    "chunk_id",
    "id",
    "url",
    "urls",
    "source_refs",
    "sql",
    "issue_id",
    "uri",
    "server_id",
    "tool_ref",
    "arguments",
    "query",
    "note\n\"x\"",
];

fn registry() -> Registry {
    let registry = fixture();
    registry.register_chunk(chunk("8f7a5b68-a7ab-4565-b6f3-1cae2578f0ff"));
    registry.register_document("doc/with space");
    let listed = |name: &str, key: &str, id: &str| json!({"name": name, "input_schema": {"properties": {key: {"enum": [id]}}}});
    registry.encode_tools(&[
        listed("discover_mcp_tools", "server_id", S),
        listed("call_mcp_tool", "tool_ref", T),
    ]);
    registry
}

fn encode(registry: &Registry, tool: &str, arguments: &str) -> String {
    let message: Message = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": tool, "arguments": arguments}},
    ]})
    .into();
    let encoded = registry.encode_messages(&[message]);
    encoded[0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned()
}

fn decode(registry: &Registry, tool: &str, arguments: &str) -> ModelToolCall {
    let mut calls = [ModelToolCall::new("call_1", tool, arguments)];
    registry.decode_tool_calls(&mut calls);
    let [call] = calls;
    call
}

/// Pieces of durable text: known and unknown identities, and what stands around them.
fn durable_text() -> impl Strategy<Value = String> {
    let pieces = vec![
        "doc-real",
        "kb-real",
        "chunk-real",
        "issue-uuid",
        "https://example.com/page",
        "doc-new",
        "x",
        "7",
        " ",
        "|",
        ",",
        "'",
        "(",
        ")",
        ".",
        "-",
        "中",
        "😀",
        "\n",
        "\"",
        "\\",
        "$1",
        "https://a.io/d?x=1",
        "a.b",
        "word",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..6).prop_map(|pieces| pieces.concat())
}

fn durable_string() -> impl Strategy<Value = String> {
    let whole = vec![
        "doc-real",
        "kb-real",
        "chunk-real",
        "issue-uuid",
        "https://example.com/page",
        "doc/with space",
        R,
        S,
        T,
        "8f7a5b68-a7ab-4565-b6f3-1cae2578f0ff",
        "doc-real|A title",
        "unseen-id|a title",
        "see doc-real, kb-real!",
        "",
        "unseen-id",
        "https://unseen.example/p?q=1",
    ];
    let around = durable_text().prop_map(|text| format!("({R}) {text}"));
    prop_oneof![
        4 => prop::sample::select(whole).prop_map(str::to_owned),
        // A declared value is trimmed, so what stands around it does not come back.
        2 => durable_text().prop_map(|text| text.trim().to_owned()),
        1 => around.prop_map(|text| text.trim().to_owned()),
    ]
}

fn json_of(string: BoxedStrategy<String>) -> impl Strategy<Value = Value> {
    let number = prop::sample::select(vec![
        json!(0),
        json!(-1.5),
        json!(true),
        json!(null),
        json!(9007199254740993_u64),
    ]);
    let leaf = prop_oneof![3 => string.prop_map(Value::from), 1 => number];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(KEYS.to_vec()), inner), 0..4).prop_map(|members| {
                Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

fn arguments_of(string: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let members = prop::collection::vec((prop::sample::select(KEYS.to_vec()), json_of(string)), 0..6);
    (members, any::<bool>()).prop_map(|(members, pretty)| {
        let object: Map<String, Value> =
            members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let text =
            if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
        text.unwrap()
    })
}

/// Durable references in text, and what may stand around them.
fn text_with_uris() -> impl Strategy<Value = String> {
    let pieces = vec![
        "toolnexus://doc/doc-real",
        "toolnexus://kb/a%20b",
        "toolnexus://chunk/x.y",
        "toolnexus://chunk/%E4%B8%AD",
        "toolnexus://url/x",
        R,
        "local://a/b.png",
        "https://a.io/",
        "://",
        "/",
        "=",
        ".",
        ":",
        "1",
        "x",
        "_",
        "-",
        " ",
        "中",
        "\n",
        "%",
        "(",
        "]",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..6).prop_map(|pieces| pieces.concat())
}

/// A registry for tests that register nothing.
static FILLED: LazyLock<Registry> = LazyLock::new(registry);

/// What a model may write: handles, near-handles and ordinary text.
fn model_string() -> impl Strategy<Value = String> {
    let pieces = vec![
        "doc://1",
        "DOC://1",
        "doc://2",
        "doc://99",
        "doc://01",
        "kb://1",
        "chunk://1",
        "url://1",
        "res://0001",
        "res://0002",
        "res://9",
        "i1",
        "i9",
        "ms1",
        "ms9",
        "mt1",
        "d1",
        "b1",
        "d9",
        "toolnexus://doc/doc-x",
        "doc:/",
        "://",
        "res:",
        "/",
        "=",
        ".",
        "5",
        "x",
        "_",
        " ",
        "|",
        "中",
        "\"",
        "\\",
        "{}",
        "{\"a\":\"doc://1\"}",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..5).prop_map(|pieces| pieces.concat())
}

fn tool() -> impl Strategy<Value = &'static str> {
    prop::sample::select(TOOLS.to_vec())
}

/// Whether CTX-95 would read a string of these arguments as an object: then the text is not the inverse's.
fn is_normalised(tool: &str, arguments: &str) -> bool {
    tool == "call_mcp_tool" && arguments.contains("{}")
}

proptest! {
    // Each case builds a registry of its own.
    #![proptest_config(ProptestConfig::with_cases(96))]

    // CTX-37: replayed arguments are the exact inverse of decoding, byte for byte
    #[test]
    fn decoding_undoes_encoding(tool in tool(), arguments in arguments_of(durable_string().boxed())) {
        prop_assume!(!is_normalised(tool, &arguments));
        let registry = registry();
        let shown = encode(&registry, tool, &arguments);
        let call = decode(&registry, tool, &shown);
        prop_assert_eq!(&call.arguments, &arguments, "shown as {}", shown);
        prop_assert!(call.unresolved_handles.is_empty(), "{:?} in {}", call.unresolved_handles, shown);
        prop_assert_eq!(encode(&registry, tool, &arguments), shown.clone(), "encoded later");
        prop_assert_eq!(encode(&registry, tool, &shown), shown, "encoded again");
    }

    // CTX-37, CTX-31, CTX-24: of a tool without policy resources and URIs come back, wherever they stand
    #[test]
    fn free_text_comes_back(arguments in arguments_of(text_with_uris().boxed())) {
        let registry = registry();
        let shown = encode(&registry, "somebody_elses", &arguments);
        let call = decode(&registry, "somebody_elses", &shown);
        prop_assert_eq!(&call.arguments, &arguments, "shown as {}", shown);
        prop_assert_eq!(encode(&registry, "somebody_elses", &shown), shown, "encoded again");
    }

    // CTX-32, CTX-47: whatever a model wrote, refused calls too, is shown in one way
    #[test]
    fn what_a_model_wrote_is_shown_in_one_way(tool in tool(), arguments in arguments_of(model_string().boxed())) {
        let registry = registry();
        let stored = decode(&registry, tool, &arguments).arguments;
        let shown = encode(&registry, tool, &stored);
        prop_assert_eq!(encode(&registry, tool, &shown), shown.clone(), "encoded again");
        prop_assert_eq!(encode(&registry, tool, &stored), shown, "encoded later");
    }

    // CTX-37, CTX-48: the same through `call_tool`, with the arguments as an object or as its JSON in a string
    #[test]
    fn decoding_undoes_encoding_in_call_tool(
        tool in tool(),
        inner in arguments_of(durable_string().boxed()),
        in_string in any::<bool>(),
    ) {
        prop_assume!(!is_normalised(tool, &inner));
        let registry = registry();
        let written = if in_string { json!(inner).to_string() } else { inner };
        let arguments = format!(r#"{{"name":"{tool}","arguments":{written}}}"#);
        let shown = encode(&registry, "call_tool", &arguments);
        prop_assert_eq!(&decode(&registry, "call_tool", &shown).arguments, &arguments, "shown as {}", shown);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // CTX-42: decoding twice changes nothing
    #[test]
    fn a_call_is_decoded_once(tool in tool(), arguments in arguments_of(model_string().boxed())) {
        let mut calls = [decode(&FILLED, tool, &arguments)];
        let once = calls.clone();
        FILLED.decode_tool_calls(&mut calls);
        prop_assert_eq!(&calls, &once);
        prop_assert_eq!(calls[0].model_arguments.as_deref(), Some(arguments.as_str()));
    }

    // CTX-45, CTX-46: what the words say is so
    #[test]
    fn the_resolution_agrees_with_the_texts(tool in tool(), arguments in arguments_of(model_string().boxed())) {
        let call = decode(&FILLED, tool, &arguments);
        let [model, resolved] = [&arguments, &call.arguments].map(|text| serde_json::from_str::<Value>(text).unwrap());
        let expected = match (model != resolved, call.unresolved_handles.is_empty()) {
            (false, true) => ArgumentResolution::Unchanged,
            (true, true) => ArgumentResolution::Resolved,
            (true, false) => ArgumentResolution::PartiallyResolved,
            (false, false) => ArgumentResolution::Unresolved,
        };
        prop_assert_eq!(call.argument_resolution, Some(expected));
        prop_assert_eq!(call.rejection().is_some(), !call.unresolved_handles.is_empty());
        prop_assert!(call.unresolved_handles.is_sorted_by(|a, b| a < b));
        for handle in &call.unresolved_handles {
            prop_assert!(call.arguments.contains(handle.as_str()), "{} stays in {}", handle, call.arguments);
        }
    }

    // CTX-43: text without handles stays byte-identical, whatever the tool
    #[test]
    fn text_without_handles_keeps_its_bytes(tool in tool(), arguments in arguments_of(durable_text().boxed())) {
        prop_assume!(!is_normalised(tool, &arguments));
        let call = decode(&FILLED, tool, &arguments);
        prop_assert_eq!(&call.arguments, &arguments);
        prop_assert_eq!(call.argument_resolution, Some(ArgumentResolution::Unchanged));
    }

    // CTX-43: no text is too strange, and what is no JSON stays
    #[test]
    fn what_is_no_json_stays(tool in tool(), text in ".*") {
        let call = decode(&FILLED, tool, &text);
        if serde_json::from_str::<Value>(&text).is_err() {
            prop_assert_eq!(&call.arguments, &text);
        }
    }
}
