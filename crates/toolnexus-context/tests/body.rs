//! Assembled request bodies, and the system text with its prompt.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use support::{S, fixture, fresh};
use toolnexus_context::{ModelReply, ModelToolCall, Registry, RegistryConfig};
use toolnexus_core::{ToolResult, Toolkit, define_sync_tool};
use toolnexus_llm::{ClientOptions, Style, create_client};
use toolnexus_testkit::model::{ModelServer, Reply};

/// Transforms a body, and again what came out: that changes nothing.
fn transformed(registry: &Registry, body: &Value) -> Value {
    let transform = registry.body_transform();
    let encoded = transform(body.clone());
    assert_eq!(transform(encoded.clone()), encoded, "transforming twice changes nothing");
    encoded
}

fn with_prompt(registry: &Registry, text: &str) -> String {
    format!("{text}\n\n{}", registry.protocol_prompt())
}

// CTX-66, CTX-24, CTX-31, CTX-93: the system text of styles that send it apart
#[test]
fn a_system_text_is_encoded_and_gets_the_prompt() {
    let registry = fixture();
    registry.encode_tools(&[directory_tool()]);
    let prompt = registry.protocol_prompt();
    assert!(!prompt.is_empty());
    let stored = format!("mind toolnexus://doc/doc-new, summary/{} and server_id=\"{S}\"", support::U);
    let encoded = registry.encode_system(&stored);
    assert_eq!(encoded, with_prompt(&registry, "mind doc://2, res://0002 and server_id=\"ms1\""));
    assert_eq!(registry.encode_system(&encoded), encoded, "never doubled");
    assert_eq!(registry.encode_system(""), prompt);
}

fn directory_tool() -> Value {
    json!({"type": "function", "function": {
        "name": "discover_mcp_tools", "description": "",
        "parameters": {"type": "object", "properties": {"server_id": {"type": "string", "enum": [S]}}}
    }})
}

// CTX-104, CTX-66: OpenAI: tools, messages, the prompt behind the system message
#[test]
fn an_openai_body() {
    let registry = fixture();
    let body = json!({
        "model": "m", "temperature": 0.5, "max_tokens": 5, "thinking": {"type": "enabled"},
        "messages": [
            {"role": "system", "content": format!("Use server_id=\"{S}\"")},
            {"role": "user", "content": "read toolnexus://doc/doc-real"}
        ],
        "tools": [directory_tool()]
    });
    let encoded = transformed(&registry, &body);
    let mut expected = body.clone();
    expected["tools"][0]["function"]["parameters"]["properties"]["server_id"]["enum"] = json!(["ms1"]);
    expected["messages"][0]["content"] = with_prompt(&registry, "Use server_id=\"ms1\"").into();
    expected["messages"][1]["content"] = "read doc://1".into();
    assert_eq!(encoded, expected);
}

// CTX-66: without a system message there is a new first one; text parts get it in the last of them
#[test]
fn the_prompt_finds_its_place_in_openai_messages() {
    let registry = fixture();
    let prompt = registry.protocol_prompt();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}, {"role": "system", "content": "late"}]});
    let encoded = transformed(&registry, &body);
    assert_eq!(
        encoded["messages"],
        json!([{"role": "system", "content": prompt}, {"role": "user", "content": "hi"}, {"role": "system", "content": "late"}])
    );
    let marked = json!({"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}});
    let body = json!({"model": "m", "messages": [{"role": "developer", "content": [{"type": "text", "text": "a"}, marked]}]});
    let encoded = transformed(&registry, &body);
    let mut expected = body.clone();
    expected["messages"][0]["content"][1]["text"] = with_prompt(&registry, "b").into();
    assert_eq!(encoded, expected);
    let empty = json!({"model": "m", "messages": [{"role": "system", "content": null}]});
    assert_eq!(transformed(&registry, &empty)["messages"][0]["content"], prompt);
}

// CTX-104, CTX-66: Anthropic: the system text, as text or as blocks, and the messages
#[test]
fn an_anthropic_body() {
    let registry = fixture();
    let body = json!({
        "model": "m", "max_tokens": 5, "system": "mind toolnexus://doc/doc-new",
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "write_page", "input": {"source_refs": ["doc-real|T"]}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "of doc-real"}]}
        ]
    });
    let encoded = transformed(&registry, &body);
    let mut expected = body.clone();
    expected["system"] = with_prompt(&registry, "mind doc://2").into();
    expected["messages"][1]["content"][0]["input"]["source_refs"][0] = "doc://1|T".into();
    expected["messages"][2]["content"][0]["content"] = "of doc://1".into();
    assert_eq!(encoded, expected);
    let marked = json!({"type": "text", "text": "mind toolnexus://doc/doc-new", "cache_control": {"type": "ephemeral"}});
    let body = json!({"model": "m", "max_tokens": 5, "system": [marked], "messages": []});
    let encoded = transformed(&registry, &body);
    let mut expected = body.clone();
    expected["system"][0]["text"] = with_prompt(&registry, "mind doc://2").into();
    assert_eq!(encoded, expected);
}

// CTX-40, CTX-104: Anthropic refuses reasoning without a signature
#[test]
fn unsigned_reasoning_is_not_sent_to_anthropic() {
    let registry = fixture();
    let body = json!({"model": "m", "max_tokens": 5, "system": "s", "messages": [
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "thinking", "thinking": "signed", "signature": "c2ln"},
            {"type": "text", "text": "hi"}
        ]}
    ]});
    let kept = json!([body["messages"][0]["content"][1], body["messages"][0]["content"][2]]);
    assert_eq!(transformed(&registry, &body)["messages"][0]["content"], kept);
}

// CTX-104, CTX-66: Gemini: systemInstruction in either spelling, or a new one
#[test]
fn a_gemini_body() {
    let registry = fixture();
    let contents = json!([{"role": "user", "parts": [{"text": "read toolnexus://doc/doc-real"}]}]);
    for key in ["systemInstruction", "system_instruction"] {
        let body = json!({key: {"parts": [{"text": "mind toolnexus://doc/doc-new"}]}, "contents": contents});
        let encoded = transformed(&registry, &body);
        let text = with_prompt(&registry, "mind doc://2");
        assert_eq!(encoded[key], json!({"parts": [{"text": text}]}));
        assert_eq!(encoded["contents"][0]["parts"][0]["text"], "read doc://1");
        assert_eq!(encoded.as_object().unwrap().len(), 2);
    }
    let encoded = transformed(&registry, &json!({"contents": contents}));
    assert_eq!(encoded["systemInstruction"], json!({"parts": [{"text": registry.protocol_prompt()}]}));
}

// CTX-104: what tells the dialect; who knows it says so
#[test]
fn bodies_are_told_apart() {
    let registry = fixture();
    let is_anthropic = |body: Value| transformed(&registry, &body)["system"].is_string();
    let user = json!([{"role": "user", "content": "hi"}]);
    assert!(is_anthropic(json!({"model": "claude-x", "max_tokens": 5, "messages": user})));
    assert!(is_anthropic(json!({"model": "m", "thinking": {}, "messages": user})));
    assert!(is_anthropic(
        json!({"model": "m", "tools": [{"name": "t", "input_schema": {}}], "messages": user})
    ));
    assert!(!is_anthropic(json!({"model": "m", "max_tokens": 5, "messages": user})));
    assert!(!is_anthropic(json!({"model": "anthropic/claude-x", "max_tokens": 5, "messages": user})));
    let with_system = json!([{"role": "system", "content": "s"}]);
    assert!(!is_anthropic(json!({"model": "claude-x", "max_tokens": 5, "messages": with_system})));
    let bare = json!({"model": "m", "max_tokens": 5, "messages": user});
    let told = registry.body_transform_for(Style::Anthropic)(bare.clone());
    assert_eq!(told["messages"], bare["messages"]);
    assert_eq!(told["system"], registry.protocol_prompt());
    for other in
        [json!({"input": "toolnexus://doc/doc-real"}), json!([1]), json!(null), json!({"messages": 1})]
    {
        assert_eq!(transformed(&registry, &other), other);
    }
}

// CTX-104, CTX-42: a host's own loop: bodies are encoded, replies decoded, and nothing else knows handles
#[test]
fn a_loop_of_a_hosts_own() {
    let registry = fixture();
    let transform = registry.body_transform();
    let first = transform(
        json!({"model": "m", "messages": [{"role": "user", "content": "open toolnexus://doc/doc-real"}]}),
    );
    assert_eq!(first["messages"][1]["content"], "open doc://1");
    let mut reply = ModelReply {
        content: "I open doc://1".into(),
        tool_calls: vec![ModelToolCall::new("c1", "read_source", r#"{"knowledge_id":"doc://1"}"#)],
        ..Default::default()
    };
    registry.decode_response(&mut reply);
    assert_eq!(reply.content, "I open toolnexus://doc/doc-real");
    assert_eq!(reply.tool_calls[0].arguments, r#"{"knowledge_id":"doc-real"}"#);
    let second = transform(json!({"model": "m", "messages": [
        {"role": "user", "content": "open toolnexus://doc/doc-real"},
        {"role": "assistant", "content": reply.content, "tool_calls": [{
            "id": "c1", "type": "function",
            "function": {"name": "read_source", "arguments": reply.tool_calls[0].arguments}
        }]},
        {"role": "tool", "tool_call_id": "c1", "content": "<knowledge_id>doc-real</knowledge_id>"}
    ]}));
    assert_eq!(second["messages"][2]["content"], "I open doc://1");
    assert_eq!(
        second["messages"][2]["tool_calls"][0]["function"]["arguments"],
        r#"{"knowledge_id":"doc://1"}"#
    );
    assert_eq!(second["messages"][3]["content"], "<knowledge_id>doc://1</knowledge_id>");
}

// CTX-104, CTX-66: at the seam of a client: the body alone is encoded, the transcript never holds the prompt
#[tokio::test]
async fn the_body_transform_of_a_client() {
    for (style, reply) in [
        (Style::OpenAI, Reply::openai()),
        (Style::Anthropic, Reply::anthropic()),
        (Style::Gemini, Reply::gemini()),
    ] {
        let server = ModelServer::start(reply.text("done")).await.unwrap();
        let registry = Registry::with_config(RegistryConfig::default()).unwrap();
        let client = create_client(ClientOptions {
            base_url: server.base_url(),
            style,
            model: "m".into(),
            api_key: "sk-test".into(),
            retries: Some(0),
            system_prompt: "Mind toolnexus://doc/d-1.".into(),
            body_transform: Some(registry.body_transform()),
            ..Default::default()
        });
        let tool = define_sync_tool("f", "does", None, |_, _| ToolResult::success("x"));
        let toolkit = Toolkit::from_tools([tool]);
        let run = client.run("read toolnexus://doc/d-2", &toolkit);
        let result = tokio::time::timeout(Duration::from_secs(60), run).await.unwrap().unwrap();
        let sent = server.requests()[0].json().to_string();
        let prompt = Value::from(registry.protocol_prompt()).to_string();
        let prompt = prompt.trim_matches('"');
        assert_eq!(sent.matches(prompt).count(), 1, "{style:?}");
        assert!(sent.contains("Mind doc://1.") && sent.contains("read doc://2"), "{style:?}: {sent}");
        let stored = serde_json::to_string(&result.messages).unwrap();
        assert!(!stored.contains("doc://") && !stored.contains(prompt), "{style:?}: {stored}");
    }
}

// CTX-104: the transform is the registry's clone: it may be shared and outlive the handle that made it
#[test]
fn a_transform_may_be_shared() {
    let transform = fresh().body_transform();
    let other = Arc::clone(&transform);
    let body = || json!({"contents": [{"role": "user", "parts": [{"text": "toolnexus://doc/d-1"}]}]});
    assert_eq!(transform(body()), other(body()));
    assert_eq!(transform(body())["contents"][0]["parts"][0]["text"], "doc://1");
}
