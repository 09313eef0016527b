//! The report on identifiers that are left in an encoded request.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::U;
use toolnexus_context::{IdentifierLeak, Registry, summarize_leaks};
use toolnexus_llm::Message;

/// An identifier that nobody registered.
const STRAY: &str = "0b9f1c52-3a7e-4d08-9c41-5e6f7a8b9c0d";
/// Another.
const OTHER: &str = "c0d93536-702c-4977-aa5e-fe670073c3cb";

/// A registry that knows `U`.
fn registry() -> Registry {
    let registry = Registry::new(true);
    assert_eq!(registry.register_document(U).as_deref(), Some("doc://1"));
    registry
}

fn leaks(messages: &[Value]) -> Vec<IdentifierLeak> {
    let messages: Vec<Message> = messages.iter().cloned().map(Message::from).collect();
    registry().leaked_identifiers(&messages)
}

fn lines(messages: &[Value]) -> Vec<String> {
    leaks(messages).iter().map(|leak| summarize_leaks(std::slice::from_ref(leak))).collect()
}

// CTX-99, CTX-100: case 65
#[test]
fn every_field_with_identifiers_is_reported_but_what_users_write() {
    let messages = [
        json!({"role": "system", "content": format!("Tenant {STRAY}.")}),
        json!({"role": "user", "content": format!("{U} {STRAY}")}),
        json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": "call_1", "type": "function",
            "function": {"name": "run", "arguments": format!("{{\"id\":\"{STRAY}\"}}")},
        }]}),
        json!({"role": "tool", "tool_call_id": "call_2", "name": "web_search", "content": format!("{U} {STRAY}")}),
    ];
    let leaks = leaks(&messages);
    assert_eq!(leaks.len(), 3);
    assert_eq!((leaks[0].field, leaks[0].registered.len()), ("content", 0));
    assert_eq!((leaks[1].field, leaks[1].tool_name.as_str()), ("tool_call_arguments", "run"));
    assert_eq!((leaks[2].role.as_str(), leaks[2].message_index), ("tool", 3));
    assert_eq!(leaks[2].registered, [U]);
    assert_eq!(leaks[2].unregistered, [STRAY]);
    assert_eq!(
        summarize_leaks(&leaks),
        "message 0 system content: registered=0 unregistered=1\n\
         message 2 assistant/run tool_call_arguments: registered=0 unregistered=1\n\
         message 3 tool/web_search content: registered=1 unregistered=1"
    );
}

// CTX-99, CTX-33: whatever encoding reads is reported, in every spelling that it knows
#[test]
fn every_spelling_that_is_encoded_is_reported() {
    let arguments = json!({"id": STRAY}).to_string();
    assert_eq!(
        lines(&[
            json!({"role": "assistant", "content": null, "refusal": format!("not {STRAY}")}),
            json!({"role": "assistant", "content": [{"type": "refusal", "refusal": STRAY}]}),
            json!({"role": "assistant", "content": null, "function_call": {"name": "run", "arguments": arguments}}),
            json!({"role": "model", "parts": [{"function_call": {"name": "run", "args": {"id": STRAY}}}]}),
            json!({"role": "user", "parts": [{"function_response": {"name": "run", "response": {"output": STRAY}}}]}),
        ]),
        [
            "message 0 assistant content: registered=0 unregistered=1",
            "message 1 assistant multi_content: registered=0 unregistered=1",
            "message 2 assistant/run tool_call_arguments: registered=0 unregistered=1",
            "message 3 model/run tool_call_arguments: registered=0 unregistered=1",
            "message 4 tool/run content: registered=0 unregistered=1",
        ]
    );
}

// CTX-100: without text of the messages, and nothing without leaks
#[test]
fn a_summary_shows_no_identifier() {
    assert_eq!(summarize_leaks(&[]), "");
    let leaks = leaks(&[json!({"role": "system", "content": format!("{U} {STRAY}")})]);
    for shown in [summarize_leaks(&leaks), format!("{leaks:?} {leaks:#?}")] {
        assert!(!shown.contains(&U[..8]) && !shown.contains(&STRAY[..8]), "{shown}");
        assert!(shown.contains("registered=1 unregistered=1"), "{shown}");
    }
}

// CTX-100: a name that a model made up begins no line of its own
#[test]
fn a_leak_is_one_line() {
    let name = "run\nmessage 9 system content: registered=0 unregistered=0";
    let summary = summarize_leaks(&leaks(&[json!({"role": "assistant", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": name, "arguments": format!("\"{STRAY}\"")}},
    ]})]));
    assert_eq!(summary.lines().count(), 1, "{summary}");
}

// CTX-99: distinct, first appearance first, whatever the case; the spelling is that of the text
#[test]
fn identifiers_are_distinct_without_regard_to_case() {
    let content = format!("{OTHER} {} {} {U} {STRAY} {OTHER}", STRAY.to_uppercase(), U.to_uppercase());
    let leaks = leaks(&[json!({"role": "assistant", "content": content})]);
    assert_eq!(leaks.len(), 1);
    assert_eq!(leaks[0].registered, [U.to_uppercase()]);
    assert_eq!(leaks[0].unregistered, [OTHER.to_owned(), STRAY.to_uppercase()]);
}

// CTX-99: any space makes an identifier a registered one
#[test]
fn a_handle_of_any_space_counts() {
    let spaces: [fn(&Registry); 4] = [
        |registry| drop(registry.register_knowledge_base(STRAY)),
        |registry| drop(registry.register_chunk(support::chunk(STRAY))),
        |registry| drop(registry.register_issue(STRAY)),
        |registry| drop(registry.register_document(&STRAY.to_uppercase())),
    ];
    for register in spaces {
        let registry = Registry::new(true);
        register(&registry);
        let message = json!({"role": "system", "content": STRAY});
        let leaks = registry.leaked_identifiers(&[message.into()]);
        assert_eq!(leaks[0].registered, [STRAY]);
        assert!(leaks[0].unregistered.is_empty());
    }
}

// CTX-99: the shape, groups of the right length in any case
#[test]
fn the_shape_is_that_of_a_uuid() {
    let is_found = |text: &str| leaks(&[json!({"role": "system", "content": text})]).len() == 1;
    for text in [
        U.to_owned(),
        U.to_uppercase(),
        format!("mcpt_{U}"),
        format!("summary/{U}.md"),
        format!("\u{89c1}{U}\u{3002}"),
        format!("1234-{U}-5678"),
        "00000000-0000-0000-0000-000000000000".to_owned(),
    ] {
        assert!(is_found(&text), "{text}");
    }
    for text in [
        U.replace('-', ""),
        U.replace('-', "_"),
        U[1..].to_owned(),
        U[..35].to_owned(),
        format!("a{U}"),
        format!("{U}0"),
        U.replacen('d', "g", 1),
        "doc://1 and url://2".to_owned(),
        "-".repeat(200),
        String::new(),
    ] {
        assert!(!is_found(&text), "{text}");
    }
}

// CTX-99: OpenAI style, every field
#[test]
fn openai_fields() {
    let call = |id: &str, name: &str, arguments: Value| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
    let messages = [
        json!({"role": "developer", "content": [{"type": "text", "text": U}, {"type": "text", "text": STRAY}]}),
        json!({"role": "user", "content": [{"type": "text", "text": STRAY}]}),
        json!({
            "role": "assistant", "content": STRAY, "reasoning_content": OTHER, "reasoning": U,
            "tool_calls": [
                call("c1", "read", json!({"id": STRAY})),
                call("c2", "read", json!({"deep": [{"id": STRAY}, OTHER]})),
                call("c3", "write", json!({"id": U})),
            ],
        }),
        json!({"role": "tool", "tool_call_id": "c1", "content": STRAY}),
        json!({"role": "tool", "tool_call_id": "c3", "content": [{"type": "text", "text": STRAY}]}),
        json!({"role": "tool", "tool_call_id": "c9", "content": "fine", "parts": [{"type": "text", "text": U}]}),
    ];
    assert_eq!(
        lines(&messages),
        [
            "message 0 developer multi_content: registered=1 unregistered=1",
            "message 2 assistant content: registered=0 unregistered=1",
            "message 2 assistant reasoning: registered=1 unregistered=1",
            "message 2 assistant/read tool_call_arguments: registered=0 unregistered=2",
            "message 2 assistant/write tool_call_arguments: registered=1 unregistered=0",
            "message 3 tool/read content: registered=0 unregistered=1",
            "message 4 tool/write multi_content: registered=0 unregistered=1",
            "message 5 tool multi_content: registered=1 unregistered=0",
        ]
    );
}

// CTX-99: Anthropic style; of a user message the results of tools alone
#[test]
fn anthropic_fields() {
    let messages = [
        json!({"role": "user", "content": STRAY}),
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": OTHER, "signature": U},
            {"type": "text", "text": STRAY},
            {"type": "tool_use", "id": "t1", "name": "read", "input": {"id": STRAY, "n": 1}},
        ]}),
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": format!("{U} {OTHER}")},
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": STRAY}]},
            {"type": "text", "text": STRAY},
        ]}),
    ];
    assert_eq!(
        lines(&messages),
        [
            "message 1 assistant reasoning: registered=0 unregistered=1",
            "message 1 assistant multi_content: registered=0 unregistered=1",
            "message 1 assistant/read tool_call_arguments: registered=0 unregistered=1",
            "message 2 tool/read content: registered=1 unregistered=1",
            "message 2 tool/read multi_content: registered=0 unregistered=1",
        ]
    );
}

// CTX-99: Gemini style; of a user message the results of tools alone
#[test]
fn gemini_fields() {
    let messages = [
        json!({"role": "user", "parts": [{"text": STRAY}]}),
        json!({"role": "model", "parts": [
            {"text": OTHER, "thought": true, "thoughtSignature": U},
            {"text": STRAY},
            {"functionCall": {"id": "f1", "name": "read", "args": {"id": [STRAY]}}},
        ]}),
        json!({"role": "user", "parts": [
            {"functionResponse": {"id": "f1", "name": "read", "response": {"output": format!("{U} {OTHER}")}}},
            {"text": STRAY},
        ]}),
    ];
    assert_eq!(
        lines(&messages),
        [
            "message 1 model reasoning: registered=0 unregistered=1",
            "message 1 model multi_content: registered=0 unregistered=1",
            "message 1 model/read tool_call_arguments: registered=0 unregistered=1",
            "message 2 tool/read content: registered=1 unregistered=1",
        ]
    );
}

// CTX-99, CTX-48: a call through call_tool is reported under the tool it calls, and so is its result
#[test]
fn the_real_tool_is_named() {
    let arguments = json!({"name": "read", "arguments": {"id": STRAY}});
    let openai = [
        json!({"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "call_tool", "arguments": arguments.to_string()}},
        ]}),
        json!({"role": "tool", "tool_call_id": "c1", "name": "call_tool", "content": STRAY}),
    ];
    let anthropic = [
        json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "call_tool", "input": arguments},
        ]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": STRAY}]}),
    ];
    for messages in [&openai, &anthropic] {
        assert_eq!(
            lines(messages),
            [
                "message 0 assistant/read tool_call_arguments: registered=0 unregistered=1",
                "message 1 tool/read content: registered=0 unregistered=1",
            ]
        );
    }
}

// CTX-99: media and what else a provider adds are not text
#[test]
fn other_members_are_not_looked_at() {
    let messages = [
        json!({"role": "assistant", "id": STRAY, "content": [
            {"type": "image", "source": {"type": "base64", "data": STRAY}},
            {"type": "redacted_thinking", "data": STRAY},
            {"type": "text", "text": "plain", "extra": STRAY},
        ]}),
        json!({"role": "model", "parts": [{"inlineData": {"data": STRAY}}]}),
        json!({"role": "assistant", "tool_calls": [{"id": STRAY, "type": "function", "function": {"name": "x"}}]}),
        json!({"role": "tool", "tool_call_id": STRAY}),
        json!([STRAY]),
        json!(null),
    ];
    assert_eq!(lines(&messages), Vec::<String>::new());
}

// CTX-99: the report reads, and takes time that is linear in the text
#[test]
fn hostile_text_is_reported() {
    let dashes = "-".repeat(1 << 20);
    let almost = "01234567-0123-".repeat(1 << 16);
    let many: String = (0..20_000).map(|at| format!("{at:08x}-0000-0000-0000-000000000000 ")).collect();
    let found = leaks(&[json!({"role": "system", "content": format!("{dashes}{almost} {many}")})]);
    assert_eq!(found[0].unregistered.len(), 20_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CTX-99: what is found is what a plain search at every place finds
    #[test]
    fn the_search_is_a_plain_one(
        pieces in prop::collection::vec("[0-9a-fA-Fxé-]{0,3}|36283d3d-a495-40d2-a13f-e925fc322996|-40d2-|a1b2c3d4|e925fc322996", 0..10),
    ) {
        let text = pieces.concat();
        let groups = [8, 4, 4, 4, 12];
        let is_uuid = |piece: &str| {
            let found: Vec<&str> = piece.split('-').collect();
            found.len() == 5
                && found.iter().zip(groups).all(|(group, length)| {
                    group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit())
                })
        };
        let is_hex = |at: Option<usize>| {
            at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_hexdigit)
        };
        let mut expected: Vec<String> = Vec::new();
        for start in 0..text.len() {
            let Some(piece) = text.get(start..start + 36) else { continue };
            let is_new = !expected.iter().any(|known| known.eq_ignore_ascii_case(piece));
            if is_uuid(piece) && !is_hex(start.checked_sub(1)) && !is_hex(Some(start + 36)) && is_new {
                expected.push(piece.to_owned());
            }
        }
        let found = Registry::new(true).leaked_identifiers(&[json!({"role": "system", "content": text}).into()]);
        let found: Vec<String> = found.into_iter().flat_map(|leak| leak.unregistered).collect();
        prop_assert_eq!(found, expected);
    }
}
