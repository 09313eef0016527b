//! Random transcripts in every dialect: encoding is stable, loses nothing and shows no identity.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::{KB, R, S, U, fixture};
use toolnexus_context::ModelToolCall;
use toolnexus_llm::{Message, Style};

/// Text of durable identities and ordinary words.
fn durable_text() -> impl Strategy<Value = String> {
    prop::collection::vec(durable_piece(), 0..6).prop_map(|pieces| pieces.concat())
}

fn durable_piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("doc-real".to_owned()),
        Just("kb-real".to_owned()),
        Just("issue-uuid".to_owned()),
        Just("https://example.com/page".to_owned()),
        Just(format!("summary/{U}")),
        Just(U.to_owned()),
        Just(format!("server_id=\"{S}\"")),
        Just(R.to_owned()),
        Just("<knowledge_id>doc-label-1</knowledge_id>".to_owned()),
        Just("{\"knowledge_id\":\"doc-label-2\"}".to_owned()),
        // No digits: `i1` and `d1` are handles.
        "[ a-z/:=.,|<>\"'{}\\\\\n\u{e9}\u{89c1}\u{1F600}_-]{0,6}",
    ]
}

/// The same with durable URIs, handles, citations, and what looks like them.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => durable_piece(),
        1 => Just("toolnexus://doc/doc-real".to_owned()),
        1 => Just("toolnexus://chunk/c%2F9".to_owned()),
        1 => Just("toolnexus://kb/".to_owned()),
        1 => Just(KB.to_owned()),
        1 => Just("doc://1".to_owned()),
        1 => Just("doc://99".to_owned()),
        1 => Just("res://0001".to_owned()),
        1 => Just("<ref id=\"chunk://1\"/>".to_owned()),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn style() -> impl Strategy<Value = Style> {
    prop::sample::select(vec![Style::OpenAI, Style::Anthropic, Style::Gemini])
}

fn tool() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "knowledge_search",
        "list_chunks",
        "read_source",
        "write_page",
        "database_query",
        "read_issue",
        "update_issue",
        "bash",
        "task",
        "somebody_elses",
        "discover_mcp_tools",
        "call_mcp_tool",
    ])
}

fn arguments(text: impl Strategy<Value = String>) -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "knowledge_id",
        "knowledge_base_ids",
        "source_refs",
        "sql",
        "issue_id",
        "server_id",
        "tool_ref",
        "note",
        "url",
    ]);
    prop::collection::vec((key, prop::collection::vec(text, 1..3)), 0..4).prop_map(|members| {
        let value = |mut texts: Vec<String>| {
            if texts.len() == 1 { Value::from(texts.remove(0)) } else { Value::from(texts) }
        };
        members.into_iter().map(|(key, texts)| (key.to_owned(), value(texts))).collect()
    })
}

/// One thing in a transcript, in no dialect's words yet.
#[derive(Debug, Clone)]
enum Said {
    User(String),
    Assistant { text: String, reasoning: String, calls: Vec<(&'static str, Value, String)> },
}

fn said() -> impl Strategy<Value = Said> {
    let calls = prop::collection::vec((tool(), arguments(text()), text()), 0..3);
    prop_oneof![
        text().prop_map(Said::User),
        (text(), text(), calls).prop_map(|(text, reasoning, calls)| Said::Assistant {
            text,
            reasoning,
            calls
        })
    ]
}

/// The transcript in the words of a dialect.
fn in_style(style: Style, transcript: &[Said]) -> Vec<Value> {
    let mut messages = Vec::new();
    for (at, said) in transcript.iter().enumerate() {
        match (said, style) {
            (Said::User(text), Style::Gemini) => {
                messages.push(json!({"role": "user", "parts": [{"text": text}]}))
            }
            (Said::User(text), _) => messages.push(json!({"role": "user", "content": text})),
            (Said::Assistant { text, reasoning, calls }, _) => {
                let ids: Vec<String> = (0..calls.len()).map(|call| format!("call_{at}_{call}")).collect();
                let calls = || ids.iter().zip(calls);
                match style {
                    Style::OpenAI => {
                        let asked: Vec<Value> = calls()
                            .map(|(id, (name, arguments, _))| {
                                json!({"id": id, "type": "function",
                                    "function": {"name": name, "arguments": arguments.to_string()}})
                            })
                            .collect();
                        messages.push(json!({"role": "assistant", "content": text, "reasoning_content": reasoning, "tool_calls": asked}));
                        messages.extend(calls().map(|(id, (_, _, output))| {
                            json!({"role": "tool", "tool_call_id": id, "content": output})
                        }));
                    }
                    Style::Anthropic => {
                        let mut blocks = vec![
                            json!({"type": "thinking", "thinking": reasoning}),
                            json!({"type": "text", "text": text}),
                        ];
                        blocks.extend(calls().map(|(id, (name, arguments, _))| {
                            json!({"type": "tool_use", "id": id, "name": name, "input": arguments})
                        }));
                        messages.push(json!({"role": "assistant", "content": blocks}));
                        let results: Vec<Value> = calls()
                            .map(|(id, (_, _, output))| {
                                json!({"type": "tool_result", "tool_use_id": id, "content": output, "is_error": false})
                            })
                            .collect();
                        messages.push(json!({"role": "user", "content": results}));
                    }
                    Style::Gemini => {
                        let mut parts =
                            vec![json!({"text": reasoning, "thought": true}), json!({"text": text})];
                        parts.extend(calls().map(|(_, (name, arguments, _))| {
                            json!({"functionCall": {"name": name, "args": arguments}, "thoughtSignature": "c2ln"})
                        }));
                        messages.push(json!({"role": "model", "parts": parts}));
                        let results: Vec<Value> = calls()
                            .map(|(_, (name, _, output))| {
                                json!({"functionResponse": {"name": name, "response": {"output": output, "isError": false}}})
                            })
                            .collect();
                        messages.push(json!({"role": "user", "parts": results}));
                    }
                }
            }
        }
    }
    messages
}

fn messages(values: &[Value]) -> Vec<Message> {
    values.iter().cloned().map(Message::from).collect()
}

/// The shape of a value: all but the text of its strings, and what JSON stands in them.
fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => Value::from("text"),
        Value::Array(elements) => elements.iter().map(shape).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // CTX-32, CTX-33: encoding twice changes nothing, the input is untouched, the shape survives
    #[test]
    fn encoding_is_stable(style in style(), transcript in prop::collection::vec(said(), 0..5)) {
        let registry = fixture();
        let values = in_style(style, &transcript);
        let stored = messages(&values);
        let encoded = registry.encode_messages(&stored);
        for ((stored, encoded), value) in stored.iter().zip(&encoded).zip(&values) {
            prop_assert_eq!(stored.value(), value);
            prop_assert_eq!(shape(stored), shape(encoded));
        }
        let again = registry.encode_messages(&encoded);
        for (again, encoded) in again.iter().zip(&encoded) {
            prop_assert_eq!(again.json(), encoded.json());
            prop_assert_eq!(again.json().as_ptr(), encoded.json().as_ptr());
        }
        // The durable transcript encodes to the same again: numbers do not move.
        let anew = registry.encode_messages(&stored);
        for (anew, encoded) in anew.iter().zip(&encoded) {
            prop_assert_eq!(anew.json(), encoded.json());
        }
    }

    // CTX-3, CTX-34: numbering is deterministic
    #[test]
    fn numbering_is_deterministic(style in style(), transcript in prop::collection::vec(said(), 0..5)) {
        let stored = messages(&in_style(style, &transcript));
        let (first, second) = (fixture().encode_messages(&stored), fixture().encode_messages(&stored));
        for (first, second) in first.iter().zip(&second) {
            prop_assert_eq!(first.json(), second.json());
        }
    }

    // CTX-34: one encoding says the same in every dialect
    #[test]
    fn dialects_say_the_same(transcript in prop::collection::vec(said(), 0..4)) {
        let texts = |style: Style| {
            let encoded = fixture().encode_messages(&messages(&in_style(style, &transcript)));
            let mut texts = Vec::new();
            for message in &encoded {
                collect(message, &mut texts);
            }
            texts.sort();
            texts
        };
        let openai = texts(Style::OpenAI);
        prop_assert_eq!(&openai, &texts(Style::Anthropic));
        prop_assert_eq!(&openai, &texts(Style::Gemini));
    }

    // CTX-37: what a tool was called with comes back from the arguments that are shown
    #[test]
    fn shown_arguments_decode_to_the_stored_ones(name in tool(), arguments in arguments(durable_text())) {
        let registry = fixture();
        let stored = json!({"role": "assistant", "tool_calls": [{"id": "c", "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}}]});
        let encoded = registry.encode_messages(&messages(&[stored]));
        let shown = encoded[0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        let mut calls = [ModelToolCall::new("c", name, shown)];
        registry.decode_tool_calls(&mut calls);
        let back: Value = serde_json::from_str(&calls[0].arguments).unwrap();
        prop_assert!(calls[0].unresolved_handles.is_empty(), "{:?}", calls[0].unresolved_handles);
        prop_assert_eq!(trimmed(&back), trimmed(&arguments));
    }

    // CTX-31, CTX-24: what people say comes back from its encoded form
    #[test]
    fn encoded_text_decodes_to_the_stored_one(
        texts in prop::collection::vec(durable_text(), 1..4),
        ids in prop::collection::vec("x-[a-z0-9.~%é_-]{6,9}", 3),
    ) {
        let registry = fixture();
        let uri = |id: &String| {
            // As a model's answer would show it.
            let handle = registry.register_document(id).unwrap();
            registry.decode_output_text(&handle)
        };
        let uris: Vec<String> = ids.iter().map(uri).collect();
        let text: String = texts.iter().zip(&uris).map(|(text, uri)| format!("{text} {uri} ")).collect();
        let stored = messages(&[json!({"role": "user", "content": text})]);
        let other = fixture();
        let encoded = other.encode_messages(&stored);
        prop_assert!(!encoded[0]["content"].as_str().unwrap().contains("toolnexus://"));
        prop_assert_eq!(other.decode_output_text(encoded[0]["content"].as_str().unwrap()), text);
    }

    // CTX-32: no JSON makes it fail
    #[test]
    fn any_json_is_given_back(value in json_value()) {
        let registry = fixture();
        let stored = messages(&[value]);
        let encoded = registry.encode_messages(&stored);
        let again = registry.encode_messages(&encoded);
        prop_assert_eq!(again[0].value(), encoded[0].value());
        registry.body_transform()(stored[0].value().clone());
    }
}

/// The texts in a message that are somebody's: contents, reasoning, arguments.
fn collect(message: &Value, texts: &mut Vec<String>) {
    const TEXTS: [&str; 6] = ["content", "text", "thinking", "reasoning_content", "output", "arguments"];
    match message {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if TEXTS.contains(&name.as_str()) => texts.push(text.clone()),
                    value if name == "input" || name == "args" => texts.push(value.to_string()),
                    value => collect(value, texts),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, texts)),
        _ => {}
    }
}

/// Declared keys are read trimmed, so the space around an id or before its title does not come back.
fn trimmed(value: &Value) -> Value {
    match value {
        Value::String(text) => text.split('|').map(str::trim).collect::<Vec<_>>().join("|").into(),
        Value::Array(elements) => elements.iter().map(trimmed).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), trimmed(value))).collect()
        }
        other => other.clone(),
    }
}

/// JSON whose members often have the names that messages have.
fn json_value() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "role",
        "content",
        "type",
        "text",
        "parts",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "input",
        "thinking",
        "signature",
        "thought",
        "functionCall",
        "functionResponse",
        "response",
        "args",
        "output",
        "tool_use_id",
        "tool_call_id",
        "reasoning_details",
        "messages",
        "contents",
        "system",
        "tools",
        "systemInstruction",
    ]);
    let word = prop::sample::select(vec![
        "user",
        "assistant",
        "tool",
        "system",
        "text",
        "thinking",
        "tool_use",
        "tool_result",
        "bash",
        "toolnexus://doc/d-1",
        "{\"a\":\"toolnexus://doc/d-2\"}",
        "c1",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        word.prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..5).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Value>()
            })
        ]
    })
}
