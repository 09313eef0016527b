//! The pure functions of translation: OpenAI's shapes in, Anthropic's out.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolnexus_core::content::UnsupportedPart;
use toolnexus_llm::translate::{
    InboundOptions, args_object, args_string, content_text, finish_reason_for, has_system_message,
    openai_messages_to_anthropic, openai_messages_to_anthropic_with, openai_tool_choice_to_anthropic,
    openai_tools_to_anthropic, tool_calls_of,
};

fn converted(messages: Value) -> Vec<Value> {
    openai_messages_to_anthropic(messages.as_array().unwrap()).unwrap().messages
}

// CORE-114 to 118, CORE-127, case 57
#[test]
fn a_transcript_is_converted() {
    let read = openai_messages_to_anthropic(&[
        json!({"role": "system", "content": "You are terse."}),
        json!({"role": "user", "content": "weather in Chennai and Kochi?"}),
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Chennai\"}"}},
            {"id": "c2", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Kochi"}}}]}),
        json!({"role": "tool", "tool_call_id": "c1", "content": "33C"}),
        json!({"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "29"}, {"type": "text", "text": "C"}]}),
    ])
    .unwrap();
    assert_eq!(read.system, "You are terse.");
    assert_eq!(
        Value::from(read.messages),
        json!([
            {"role": "user", "content": "weather in Chennai and Kochi?"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Chennai"}},
                {"type": "tool_use", "id": "c2", "name": "get_weather", "input": {"city": "Kochi"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "33C"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "29C"}]},
        ])
    );
}

// CORE-114, CORE-115, CORE-116, CORE-117, case 59
#[test]
fn groups_close_at_any_other_message_and_empty_turns_are_dropped() {
    let read = openai_messages_to_anthropic(&[
        json!({"role": "tool", "content": "a"}),
        json!({"role": "system", "content": "S"}),
        json!({"role": "function", "content": "b", "tool_call_id": "f"}),
        json!({"role": "assistant", "content": null}),
        json!({"role": "tool", "content": "c"}),
        json!({"role": "user", "content": ""}),
        json!({"role": "tool", "content": "d"}),
        json!({"role": "odd", "content": "e"}),
        json!({"role": "developer", "content": [{"type": "text", "text": "D"}]}),
    ])
    .unwrap();
    assert_eq!(read.system, "S\n\nD");
    let group = |block: Value| json!({"role": "user", "content": [block]});
    assert_eq!(
        read.messages,
        [
            group(json!({"type": "tool_result", "content": "a"})),
            group(json!({"type": "tool_result", "tool_use_id": "f", "content": "b"})),
            group(json!({"type": "tool_result", "content": "c"})),
            group(json!({"type": "tool_result", "content": "d"})),
            json!({"role": "user", "content": "e"}),
        ]
    );
}

// CORE-119, case 58
#[test]
fn each_entry_becomes_its_block() {
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,G"}});
    let block =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "G"}});
    let question = json!({"type": "text", "text": "what is this"});
    let read = converted(json!([{"role": "user", "content": [question, picture]}]));
    assert_eq!(read[0]["content"], json!([question, block]));

    let content = json!([
        {"type": "image", "mimeType": "image/png", "data": "iVBORw=="},
        {"type": "image_url", "image_url": {"url": "https://example.com/a"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
    ]);
    let blocks = json!([
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}},
    ]);
    let read = converted(json!([{"role": "user", "content": content}, {"role": "tool", "content": content}]));
    assert_eq!(read[0]["content"], blocks);
    // CORE-121
    assert_eq!(read[1]["content"][0]["content"], blocks);

    let foreign = json!([{"type": "document", "source": {}}, picture]);
    assert_eq!(converted(json!([{"role": "user", "content": foreign}]))[0]["content"], foreign);
}

// CORE-120, CORE-121
#[test]
fn audio_is_refused_unless_text_may_stand_in() {
    let audio = json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "mp3"}});
    let placeholder = "[unsupported audio part (audio/mpeg, 4 bytes)]";
    let messages = [json!({"role": "user", "content": [audio]})];
    let error = openai_messages_to_anthropic(&messages).unwrap_err().to_string();
    assert!(error.contains("audio/mpeg") && !error.contains("UklGRg"), "{error}");
    let options = InboundOptions { on_unsupported_part: Some(UnsupportedPart::Text), ..Default::default() };
    let read = openai_messages_to_anthropic_with(&messages, options).unwrap();
    assert_eq!(read.messages[0]["content"], json!([{"type": "text", "text": placeholder}]));

    let spoken = json!({"role": "assistant", "content": [{"type": "text", "text": "hear: "}, audio]});
    assert_eq!(
        converted(json!([spoken]))[0]["content"],
        json!([{"type": "text", "text": format!("hear: {placeholder}")}])
    );

    let picture =
        json!({"role": "user", "content": [{"type": "image", "mimeType": "image/png", "data": "iVBORw=="}]});
    let limit = |bytes| InboundOptions { max_part_bytes: Some(bytes), ..Default::default() };
    openai_messages_to_anthropic_with(std::slice::from_ref(&picture), limit(4)).unwrap();
    openai_messages_to_anthropic_with(&[picture], limit(3)).unwrap_err();
}

// CORE-122, case 60
#[test]
fn tools_are_converted() {
    let tools = json!([{"type": "function", "function": {"name": "ping"}}, {"type": "function", "function": {}}, {"name": "x", "input_schema": {}}, 7]);
    assert_eq!(
        Value::from(openai_tools_to_anthropic(tools.as_array().unwrap())),
        json!([{"name": "ping", "input_schema": {"type": "object", "properties": {}}}, {"name": "x", "input_schema": {}}])
    );
}

// CORE-123, case 61
#[test]
fn tool_choices_are_converted() {
    for (choice, expected) in [
        (json!("required"), Some(json!({"type": "any"}))),
        (json!("any"), Some(json!({"type": "any"}))),
        (json!("none"), Some(json!({"type": "none"}))),
        (
            json!({"type": "function", "function": {"name": "get_weather"}}),
            Some(json!({"type": "tool", "name": "get_weather"})),
        ),
        (json!("auto"), None),
        (json!(7), None),
        (json!({"function": {"name": ""}}), None),
    ] {
        assert_eq!(openai_tool_choice_to_anthropic(&choice), expected, "{choice}");
    }
}

// CORE-125, CORE-126, CORE-127, CORE-68, case 69
#[test]
fn single_values_are_read() {
    for text in ["not json", "[1]", " ", ""] {
        assert_eq!(args_object(&json!(text)), Map::new());
    }
    assert_eq!(Value::from(args_object(&json!(" {\"a\":1} "))), json!({"a": 1}));
    assert_eq!(args_string(&Value::Null), "{}");
    assert_eq!(args_string(&json!({"a": [1]})), r#"{"a":[1]}"#);
    assert_eq!(args_string(&json!("{ }")), "{ }");
    assert_eq!(content_text(&json!(7)), "");
    assert!(has_system_message(&[json!({"role": "developer"})]));
    assert!(!has_system_message(&[json!({"role": "user"}), json!("system")]));
    assert!(tool_calls_of(&json!({"tool_calls": [{"id": "a"}, {"id": "b", "function": 1}]})).is_empty());
}

fn json_value() -> impl Strategy<Value = Value> {
    let words =
        ["role", "tool", "user", "assistant", "content", "type", "text", "image_url", "data:,x", "function"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
    ];
    let keys = [
        "role",
        "content",
        "type",
        "text",
        "image_url",
        "url",
        "tool_calls",
        "function",
        "name",
        "arguments",
    ];
    leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(keys.to_vec()), inner), 0..5).prop_map(|entries| {
                Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

/// Role and text of a message; an assistant makes `calls` calls.
fn message() -> impl Strategy<Value = (&'static str, String, usize)> {
    (prop::sample::select(&["user", "assistant", "tool", "system"][..]), "[a-z]{0,4}", 0_usize..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CORE-103, CORE-116, CORE-122, CORE-125: any JSON is read without a panic and no result is lost
    #[test]
    fn any_json_is_read(values in prop::collection::vec(json_value(), 0..6)) {
        let results = values.iter().filter(|value| value["role"] == "tool" || value["role"] == "function").count();
        let options = InboundOptions { on_unsupported_part: Some(UnsupportedPart::Text), ..Default::default() };
        if let Ok(read) = openai_messages_to_anthropic_with(&values, options) {
            let blocks = read.messages.iter().filter(|turn| turn["role"] == "user");
            let blocks = blocks.filter_map(|turn| turn["content"].as_array()).flatten();
            prop_assert!(blocks.filter(|block| block["type"] == "tool_result").count() >= results);
        }
        openai_tools_to_anthropic(&values);
        for value in &values {
            openai_tool_choice_to_anthropic(value);
            let _ = (tool_calls_of(value), args_object(value), args_string(value), content_text(value));
        }
    }

    // CORE-114 to 117: texts, calls, ids and groups survive
    #[test]
    fn a_transcript_keeps_what_it_says(script in prop::collection::vec(message(), 0..12)) {
        let mut messages = Vec::new();
        let (mut calls, mut groups) = (Vec::new(), Vec::<Vec<String>>::new());
        let (mut texts, mut system, mut in_group) = (Vec::new(), Vec::new(), false);
        for (at, (role, text, count)) in script.into_iter().enumerate() {
            let mut message = json!({"role": role, "content": text});
            match role {
                "tool" => {
                    let id = format!("r{at}");
                    message["tool_call_id"] = id.clone().into();
                    if !in_group { groups.push(Vec::new()); }
                    groups.last_mut().unwrap().push(id);
                }
                "assistant" => {
                    let made: Vec<Value> = (0..count).map(|n| json!({
                        "id": format!("c{at}_{n}"),
                        "function": {"name": text, "arguments": json!({"n": n}).to_string()},
                    })).collect();
                    calls.extend((0..count).map(|n| (format!("c{at}_{n}"), text.clone(), json!({"n": n}))));
                    message["tool_calls"] = made.into();
                    if !text.is_empty() { texts.push(text.clone()); }
                }
                "system" => if !text.is_empty() { system.push(text.clone()) },
                _ => if !text.is_empty() { texts.push(text.clone()) },
            }
            in_group = role == "tool";
            messages.push(message);
        }
        let read = openai_messages_to_anthropic(&messages).unwrap();
        prop_assert_eq!(read.system, system.join("\n\n"));
        let (mut read_calls, mut read_groups, mut read_texts) = (Vec::new(), Vec::<Vec<String>>::new(), Vec::new());
        for turn in &read.messages {
            let Some(blocks) = turn["content"].as_array() else {
                read_texts.push(turn["content"].as_str().unwrap().to_owned());
                continue;
            };
            let mut group = Vec::new();
            for block in blocks {
                let given = |key: &str| block[key].as_str().unwrap().to_owned();
                match block["type"].as_str().unwrap() {
                    "text" => read_texts.push(given("text")),
                    "tool_use" => read_calls.push((given("id"), given("name"), block["input"].clone())),
                    _ => group.push(given("tool_use_id")),
                }
            }
            if !group.is_empty() { read_groups.push(group); }
        }
        prop_assert_eq!((read_calls, read_groups, read_texts), (calls, groups, texts));
    }
}

// CORE-119, CORE-121: what is read of each entry, as the placeholders of an assistant tell it
#[test]
fn entries_are_read_with_their_mime_types() {
    let sound =
        |format: &str| json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": format}});
    let link = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let file = |data: &str| json!({"type": "file", "file": {"filename": "f", "file_data": data}});
    for (entry, what) in [
        (sound("mp3"), "audio part (audio/mpeg, 4 bytes)"),
        (sound("wav"), "audio part (audio/wav, 4 bytes)"),
        (sound("flac"), "audio part (audio/flac, 4 bytes)"),
        (link("https://example.com/a.WEBP?x=b.png"), "image part (image/webp, 0 bytes)"),
        (link("https://example.com/a"), "image part (image/*, 0 bytes)"),
        (file("data:text/plain;charset=utf-8,a%20b"), "file part (text/plain, 3 bytes)"),
        (file("data:;base64,UklGRg=="), "file part (application/octet-stream, 4 bytes)"),
    ] {
        let message = json!([{"role": "assistant", "content": [entry]}]);
        let said = format!("[unsupported {what}]");
        assert_eq!(converted(message)[0]["content"], json!([{"type": "text", "text": said}]));
    }
    let message = json!([{"role": "user", "content": [file("data:text/plain,a%20b")]}]);
    let source = json!({"type": "base64", "media_type": "text/plain", "data": "YSBi"});
    assert_eq!(converted(message)[0]["content"], json!([{"type": "document", "source": source}]));
}

// CORE-119: one entry that cannot be read leaves the whole array as it is
#[test]
fn unreadable_entries_leave_their_array_unchanged() {
    for entry in [
        json!({"type": "file", "file": {"file_id": "file-1"}}),
        json!({"type": "file", "file": {"file_data": "UklGRg=="}}),
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64"}}),
        json!({"type": "image_url", "image_url": "https://example.com/a.png"}),
        json!({"type": "input_audio", "input_audio": {"format": "wav"}}),
        json!({"type": "tool_reference"}),
        json!("text"),
    ] {
        let content = json!([
            {"type": "text", "text": "see"}, {"type": "image", "mimeType": "image/png", "data": "iVBORw=="}, entry,
        ]);
        for role in ["user", "assistant"] {
            assert_eq!(converted(json!([{"role": role, "content": content}]))[0]["content"], content);
        }
        let result = converted(json!([{"role": "tool", "content": content}]));
        assert_eq!(result[0]["content"][0]["content"], content);
    }
}

// CORE-118
#[test]
fn an_array_of_texts_is_one_string() {
    let content = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    assert_eq!(
        converted(json!([{"role": "user", "content": content}])),
        [json!({"role": "user", "content": "ab"})]
    );
}

// CORE-113
#[test]
fn every_stop_has_a_finish_reason() {
    for (stop, finish) in [
        ("max_tokens", "length"),
        ("length", "length"),
        ("refusal", "content_filter"),
        ("content_filter", "content_filter"),
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("tool_use", "stop"),
        ("tool_calls", "stop"),
        ("", "stop"),
        ("odd", "stop"),
    ] {
        assert_eq!((finish_reason_for(false, stop), finish_reason_for(true, stop)), (finish, "tool_calls"));
    }
}
