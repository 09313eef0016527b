//! Transcripts in every dialect of the client, hand-written and real.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{KB, R, fixture};
use toolnexus_context::Registry;
use toolnexus_core::{ContentPart, ToolResult, Toolkit, define_sync_tool};
use toolnexus_llm::{ClientOptions, Message, Style, create_client};
use toolnexus_testkit::model::{Dialect, ModelReply, ModelServer, Reply};

fn messages(list: &Value) -> Vec<Message> {
    list.as_array().unwrap().iter().cloned().map(Message::from).collect()
}

fn values(messages: &[Message]) -> Value {
    messages.iter().map(|message| message.value().clone()).collect()
}

fn encode(registry: &Registry, list: &Value) -> Value {
    let encoded = registry.encode_messages(&messages(list));
    let again = registry.encode_messages(&encoded);
    assert_eq!(values(&again), values(&encoded), "encoding twice changes nothing");
    values(&encoded)
}

/// `list` with these texts replaced.
fn with(list: &Value, replacements: &[(&str, &str)]) -> Value {
    let mut text = list.to_string();
    for (from, to) in replacements {
        // As they are spelled within JSON.
        let literal = Value::from(*from).to_string();
        let from = literal.trim_matches('"');
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    serde_json::from_str(&text).unwrap()
}

// CTX-33: all that chat completions hold
#[test]
fn openai_messages_are_walked() {
    let list = json!([
        {"role": "system", "content": "mind toolnexus://doc/a-1"},
        {"role": "user", "name": "toolnexus://doc/left", "content": [
            {"type": "text", "text": "read toolnexus://doc/a-2", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/page"}},
            {"type": "a_part_of_tomorrow", "text": "toolnexus://doc/left"}
        ]},
        {"role": "assistant", "content": null, "refusal": "not toolnexus://doc/a-3", "reasoning": "toolnexus://doc/a-4",
         "reasoning_details": [{"type": "reasoning.text", "text": "toolnexus://doc/a-5"}, {"type": "reasoning.encrypted", "data": R}],
         "tool_calls": [{"id": "c1", "type": "function", "extra_content": {"google": {"thought_signature": R}},
            "function": {"name": "list_chunks", "arguments": "{\"knowledge_id\": \"doc-real\", \"n\": 1.50}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "[{\"knowledge_id\":\"doc-real\"}]"}]}
    ]);
    let expected = with(
        &list,
        &[
            ("toolnexus://doc/a-1", "doc://2"),
            ("toolnexus://doc/a-2", "doc://3"),
            ("toolnexus://doc/a-3", "doc://4"),
            ("toolnexus://doc/a-4", "doc://5"),
            ("toolnexus://doc/a-5", "doc://6"),
            ("doc-real", "doc://1"),
        ],
    );
    assert_eq!(encode(&fixture(), &list), expected);
}

// CTX-33: system, text, thinking, tool_use.input, tool_result.content
#[test]
fn anthropic_messages_are_walked() {
    let list = json!([
        {"role": "system", "content": [{"type": "text", "text": "mind toolnexus://doc/a-1"}]},
        {"role": "user", "content": "read toolnexus://doc/a-2"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "toolnexus://doc/a-4"},
            {"type": "redacted_thinking", "data": R},
            {"type": "text", "text": KB},
            {"type": "tool_use", "id": "t1", "name": "list_chunks", "input": {"n": 1.50, "knowledge_id": "doc-real", "q": "toolnexus://doc/a-5"}},
            {"type": "tool_use", "id": "t2", "name": "write_page", "input": {}},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": R}}
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "<knowledge_id>doc-real</knowledge_id>", "is_error": false},
            {"type": "tool_result", "tool_use_id": "t2", "content": [
                {"type": "text", "text": "wrote doc-real"}, {"type": "image", "source": {"type": "url", "url": R}}
            ]},
            {"type": "text", "text": "go on with toolnexus://doc/a-6"}
        ]}
    ]);
    let expected = with(
        &list,
        &[
            ("toolnexus://doc/a-1", "doc://2"),
            ("toolnexus://doc/a-2", "doc://3"),
            ("toolnexus://doc/a-4", "doc://4"),
            ("toolnexus://doc/a-5", "doc://5"),
            ("toolnexus://doc/a-6", "doc://6"),
            (KB, r#"<ref id=\"chunk://1\"/>"#),
            ("doc-real", "doc://1"),
        ],
    );
    assert_eq!(encode(&fixture(), &list), expected);
}

// CTX-33: parts of text, functionCall.args, functionResponse.response; a thought part is reasoning
#[test]
fn gemini_messages_are_walked() {
    let list = json!([
        {"role": "user", "parts": [{"text": "read toolnexus://doc/a-1"}, {"type": "text", "text": "and toolnexus://doc/a-2"}]},
        {"role": "model", "parts": [
            {"text": "toolnexus://doc/a-4", "thought": true},
            {"text": KB},
            {"functionCall": {"name": "list_chunks", "args": {"n": 1.50, "knowledge_id": "doc-real", "q": "toolnexus://doc/a-5"}}}
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "list_chunks", "response": {"output": "<knowledge_id>doc-real</knowledge_id>", "isError": false}}},
            {"functionResponse": {"name": "write_page", "response": {"error": "no doc-real", "hint": ["toolnexus://doc/a-3"]}}},
            {"functionResponse": {"name": "read_source", "response": {"rows": [{"knowledge_id": "doc-x-1"}]}}},
            {"functionResponse": {"name": "somebody_elses", "response": {"text": "some of toolnexus://doc/doc-real"}}},
            {"inlineData": {"mimeType": "image/png", "data": R}}
        ]}
    ]);
    let expected = with(
        &list,
        &[
            ("toolnexus://doc/a-1", "doc://2"),
            ("toolnexus://doc/a-2", "doc://3"),
            ("toolnexus://doc/a-4", "doc://4"),
            ("toolnexus://doc/a-5", "doc://5"),
            ("toolnexus://doc/a-3", "doc://6"),
            ("toolnexus://doc/doc-real", "doc://1"),
            (KB, r#"<ref id=\"chunk://1\"/>"#),
            ("doc-real", "doc://1"),
            ("doc-x-1", "doc://7"),
        ],
    );
    assert_eq!(encode(&fixture(), &list), expected);
    let alone = json!([{"role": "user", "parts": [{"function_response": {"name": "write_page", "response": {"output": "doc-real"}}}]}]);
    assert_eq!(encode(&fixture(), &alone), with(&alone, &[("doc-real", "doc://1")]), "snake_case alike");
}

// CTX-40: reasoning whose signed text changes is not sent; unchanged it keeps its signature
#[test]
fn changed_reasoning_that_is_signed_is_left_out() {
    let thinking = |text: &str| json!({"type": "thinking", "thinking": text, "signature": "c2ln"});
    let text = json!({"type": "text", "text": "well"});
    let encrypted = json!({"type": "redacted_thinking", "data": R});
    let list = json!([
        {"role": "assistant", "content": [thinking("see toolnexus://doc/a-1"), encrypted, text]},
        {"role": "assistant", "content": [text, thinking("nothing to change"), text]},
        {"role": "assistant", "content": [text, thinking("toolnexus://doc/a-2"), thinking("toolnexus://doc/a-2")]},
        {"role": "assistant", "content": [thinking("toolnexus://doc/a-3")]}
    ]);
    let encoded = encode(&fixture(), &list);
    assert_eq!(encoded[0]["content"], json!([encrypted, text]));
    assert_eq!(encoded[1], list[1]);
    assert_eq!(encoded[2]["content"], json!([text]));
    assert_eq!(
        encoded[3]["content"],
        json!([{"type": "text", "text": "(reasoning left out)"}]),
        "a message is never empty"
    );
}

// CTX-40: what is decoded for a signed reasoning of OpenAI-compatible servers goes by the same rule
#[test]
fn changed_reasoning_details_that_are_signed_are_left_out() {
    let signed = json!({"type": "reasoning.text", "text": "toolnexus://doc/a-1", "signature": "c2ln"});
    let unsigned = json!({"type": "reasoning.text", "text": "toolnexus://doc/a-1", "signature": null});
    let encrypted = json!({"type": "reasoning.encrypted", "data": R});
    let list =
        json!([{"role": "assistant", "content": "x", "reasoning_details": [signed, encrypted, unsigned]}]);
    let encoded = encode(&fixture(), &list);
    let shown = with(&unsigned, &[("toolnexus://doc/a-1", "doc://2")]);
    assert_eq!(encoded[0]["reasoning_details"], json!([encrypted, shown]));
}

// CTX-40: a Gemini call or text keeps its signature whatever changed; a changed thought is not sent
#[test]
fn gemini_signatures_are_kept() {
    let list = json!([{"role": "model", "parts": [
        {"text": "thinking of toolnexus://doc/a-1", "thought": true, "thoughtSignature": "czE="},
        {"text": "I read toolnexus://doc/a-1", "thoughtSignature": "czI="},
        {"functionCall": {"name": "list_chunks", "args": {"knowledge_id": "doc-real"}}, "thoughtSignature": "czM="},
        {"text": "plain", "thought": true, "thoughtSignature": "czQ="}
    ]}]);
    let encoded = encode(&fixture(), &list);
    assert_eq!(
        encoded[0]["parts"],
        json!([
            {"text": "I read doc://2", "thoughtSignature": "czI="},
            {"functionCall": {"name": "list_chunks", "args": {"knowledge_id": "doc://1"}}, "thoughtSignature": "czM="},
            {"text": "plain", "thought": true, "thoughtSignature": "czQ="}
        ])
    );
    let alone = json!([{"role": "model", "parts": [list[0]["parts"][0]]}]);
    assert_eq!(encode(&fixture(), &alone)[0]["parts"], json!([{"text": "(reasoning left out)"}]));
}

// CTX-48: a call through `call_tool` and its result have the policy of the tool that was called
#[test]
fn calls_through_call_tool_are_transparent() {
    let stored = [
        json!({"name": "list_chunks", "arguments": {"knowledge_id": "doc-real"}}),
        json!({"name": "somebody_elses", "arguments": {"knowledge_id": "doc-real"}}),
    ];
    let shown = json!({"name": "list_chunks", "arguments": {"knowledge_id": "doc://1"}});
    let output = "<knowledge_id>doc-real</knowledge_id>";
    let view = "<knowledge_id>doc://1</knowledge_id>";
    let function = |at: usize, call: &Value| {
        json!({"id": format!("c{at}"), "type": "function",
            "function": {"name": "call_tool", "arguments": call.to_string()}})
    };
    let result = |at: usize, text: &str| json!({"role": "tool", "tool_call_id": format!("c{at}"), "name": "call_tool", "content": text});
    let openai = |first: &Value, text: &str| {
        json!([
            {"role": "assistant", "content": null, "tool_calls": [function(0, first), function(1, &stored[1])]},
            result(0, text),
            result(1, output)
        ])
    };
    assert_eq!(encode(&fixture(), &openai(&stored[0], output)), openai(&shown, view));
    let anthropic = |first: &Value, text: &str| {
        let call = |id: &str, input: &Value| json!({"type": "tool_use", "id": id, "name": "call_tool", "input": input});
        let result =
            |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text});
        json!([
            {"role": "assistant", "content": [call("c0", first), call("c1", &stored[1])]},
            {"role": "user", "content": [result("c1", output), result("c0", text)]}
        ])
    };
    assert_eq!(encode(&fixture(), &anthropic(&stored[0], output)), anthropic(&shown, view));
    // Gemini's calls may lack ids: their results stand in the same order.
    let gemini = |first: &Value, text: &str| {
        let call = |args: &Value| json!({"functionCall": {"name": "call_tool", "args": args}});
        let result =
            |text: &str| json!({"functionResponse": {"name": "call_tool", "response": {"output": text}}});
        json!([
            {"role": "model", "parts": [call(first), call(&stored[1])]},
            {"role": "user", "parts": [result(text), result(output)]}
        ])
    };
    assert_eq!(encode(&fixture(), &gemini(&stored[0], output)), gemini(&shown, view));
}

// CTX-32, CTX-33: members that JSON repeats are all encoded, so none can carry an id past the boundary
#[test]
fn repeated_members_are_all_encoded() {
    let text = r#"{"role":"user","content":"toolnexus://doc/doc-real","content":"toolnexus://doc/doc-real"}"#;
    let encoded = fixture().encode_messages(&[Message::from_json(text).unwrap()]);
    let expected = r#"{"role":"user","content":"doc://1","content":"doc://1"}"#;
    assert_eq!(std::str::from_utf8(encoded[0].json()).unwrap(), expected);
}

fn dialect(style: Style) -> Dialect {
    match style {
        Style::OpenAI => Dialect::OpenAi,
        Style::Anthropic => Dialect::Anthropic,
        Style::Gemini => Dialect::Gemini,
    }
}

/// What a run of the client leaves in its transcript: two calls, one of which fails, with a part.
async fn transcript(style: Style, streamed: bool) -> Vec<Message> {
    let reply = |style| -> ModelReply { Reply::model(dialect(style)) };
    let call = json!({"knowledge_id": "doc-real", "note": "of toolnexus://doc/doc-new"});
    let server = ModelServer::start([
        reply(style).text("I look").tool_call("c1", "list_chunks", call).tool_call(
            "c2",
            "write_page",
            json!({"source_refs": ["doc-real|T"]}),
        ),
        reply(style).text(format!("It says so {KB}")),
    ])
    .await
    .unwrap();
    let client = create_client(ClientOptions {
        base_url: server.base_url(),
        style,
        model: "m".into(),
        api_key: "sk-test".into(),
        retries: Some(0),
        system_prompt: "Mind toolnexus://doc/doc-rule.".into(),
        ..Default::default()
    });
    let toolkit = Toolkit::from_tools([
        define_sync_tool("list_chunks", "lists", None, |_, _| {
            let mut result = ToolResult::success("<knowledge_id>doc-real</knowledge_id> of doc-real");
            result.parts.push(ContentPart::text("more of doc-real"));
            result
        }),
        define_sync_tool("write_page", "writes", None, |_, _| ToolResult::failure("doc-real is locked")),
    ]);
    let run = async {
        let prompt = "about toolnexus://doc/doc-real";
        if streamed {
            client.stream(prompt, &toolkit).finish().await.unwrap()
        } else {
            client.run(prompt, &toolkit).await.unwrap()
        }
    };
    let result = tokio::time::timeout(Duration::from_secs(60), run).await.unwrap();
    result.messages.to_vec()
}

// CTX-33, CTX-35, CTX-36, CTX-37: what the client really stores, in every style, run and streamed
#[tokio::test]
async fn transcripts_of_the_client_are_understood() {
    for style in [Style::OpenAI, Style::Anthropic, Style::Gemini] {
        for streamed in [false, true] {
            let stored = transcript(style, streamed).await;
            let registry = fixture();
            let encoded = registry.encode_messages(&stored);
            assert_eq!(encoded.len(), stored.len());
            let text = values(&encoded).to_string();
            let what = format!("{style:?}, streamed: {streamed}: {text}");
            for durable in ["doc-real", "toolnexus://", "doc-new", "kb-real", "chunk-real"] {
                assert!(!text.contains(durable), "{durable} in {what}");
            }
            for expected in [
                "about doc://1",
                "<knowledge_id>doc://1</knowledge_id> of doc://1",
                "more of doc://1",
                "doc://1 is locked",
                "doc://1|T",
                r#"It says so <ref id=\"chunk://1\"/>"#,
                "I look",
            ] {
                assert!(text.contains(expected), "{expected} in {what}");
            }
            let again = registry.encode_messages(&encoded);
            for (again, encoded) in again.iter().zip(&encoded) {
                assert_eq!(again.json().as_ptr(), encoded.json().as_ptr(), "{what}");
            }
        }
    }
}
