//! What a client with a boundary makes of a model's answers: signed reasoning, odd blocks, arguments
//! that are no JSON, several answers in one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod client_support;
mod support;

use client_support::{
    Hooked, Mode, call_args, every_way, fixed, options, reply, sent, server, tool, values, within,
};
use serde_json::{Value, json};
use support::config;
use toolnexus_core::{Style, Toolkit};
use toolnexus_llm::{ClientOptions, RunOptions, create_client};
use toolnexus_testkit::model::Reply;

/// A document that no registry knows before.
const NEW: &str = "toolnexus://doc/doc-new-1";

/// Every block and part of some messages.
fn blocks(messages: &[Value]) -> Vec<Value> {
    let lists = |message: &Value| {
        ["content", "parts", "reasoning_details"]
            .map(|key| message[key].as_array().cloned().unwrap_or_default())
    };
    messages.iter().flat_map(lists).flatten().collect()
}

/// Those of the blocks that are reasoning.
fn thoughts(messages: &[Value]) -> Vec<Value> {
    let is_thought = |block: &Value| block["type"] == "thinking" || block["thought"] == true;
    blocks(messages).into_iter().filter(is_thought).collect()
}

// CTX-40: within the run a signed block goes back exactly as the model wrote it; the stored copy has the
// durable text and no signature, and no later run sends it
#[tokio::test]
async fn signed_reasoning_goes_back_raw_within_the_run() {
    // A streamed thought of Gemini's has its signature in a part of its own.
    let ways = [(Style::Anthropic, Mode::Run), (Style::Anthropic, Mode::Stream), (Style::Gemini, Mode::Run)];
    for (style, mode) in ways {
        let server = server([
            reply(style)
                .thinking("first doc://1, <ref id=\"kb://9\"/>then more", "c2lnbmVk")
                .text("I look.")
                .tool_call("c1", "read_source", json!({"knowledge_id": "doc://1"})),
            reply(style).text("ok"),
            reply(style).text("ok"),
        ])
        .await;
        let client = create_client(options(style, &server, config()));
        let toolkit = Toolkit::from_tools([fixed("read_source", "x")]);
        let told = mode.tell(&client, &toolkit, NEW, "c").await;
        mode.tell(&client, &toolkit, "again", "c").await;

        let (text, signature) = match style {
            Style::Anthropic => ("thinking", "signature"),
            _ => ("text", "thoughtSignature"),
        };
        let bodies: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
        let raw = thoughts(sent(style, &bodies[1]));
        assert_eq!(raw.len(), 1, "{style:?} {mode:?}");
        assert_eq!(raw[0][text], "first doc://1, <ref id=\"kb://9\"/>then more");
        assert_eq!(raw[0][signature], "c2lnbmVk");
        let stored = thoughts(&values(&told.result.messages));
        assert_eq!(stored[0][text], format!("first {NEW}, then more"));
        assert_eq!(stored[0].get(signature), None, "{style:?}");
        let later = json!(sent(style, &bodies[2])).to_string();
        assert!(!later.contains("c2lnbmVk"), "{later}");
        if style == Style::Anthropic {
            assert_eq!(thoughts(sent(style, &bodies[2])), Vec::<Value>::new());
        }
    }
}

// CTX-40: the same for reasoning that decoding leaves alone and encoding would change
#[tokio::test]
async fn signed_reasoning_that_names_an_identity_goes_back_raw() {
    for (style, mode) in
        [(Style::Anthropic, Mode::Run), (Style::Anthropic, Mode::Stream), (Style::Gemini, Mode::Run)]
    {
        let server = server([
            reply(style).thinking(format!("so it is {NEW}"), "c2lnbmVk").tool_call(
                "c1",
                "read_source",
                json!({}),
            ),
            reply(style).text("ok"),
            reply(style).text("ok"),
        ])
        .await;
        let client = create_client(options(style, &server, config()));
        let told = mode.tell(&client, &Toolkit::from_tools([fixed("read_source", "x")]), NEW, "c").await;
        mode.tell(&client, &Toolkit::default(), "again", "c").await;
        let stored = thoughts(&values(&told.result.messages));
        assert!(json!(stored).to_string().contains("c2lnbmVk"));
        let body = server.requests()[1].json();
        assert_eq!(thoughts(sent(style, &body)), stored, "{style:?} {mode:?}");
        // A later run remembers nothing: what it would have to change it does not send.
        assert_eq!(thoughts(sent(style, &server.requests()[2].json())), Vec::<Value>::new());
    }
}

// CTX-40: reasoning in which nothing changes keeps its signature, stored and sent, in later runs too;
// opaque encrypted reasoning is kept as it is
#[tokio::test]
async fn unchanged_reasoning_keeps_its_signature() {
    for (style, mode) in every_way().filter(|(style, _)| *style != Style::OpenAI) {
        let opaque = json!({"type": "redacted_thinking", "data": "ZG9jOi8vMQ doc://1"});
        let mut first = reply(style).thinking("nothing special", "c2lnbmVk");
        if style == Style::Anthropic {
            first = first.raw_part(opaque.clone());
        }
        let server = server([first.text("ok"), reply(style).text("ok")]).await;
        let client = create_client(options(style, &server, config()));
        let told = mode.tell(&client, &Toolkit::default(), "hi", "c").await;
        mode.tell(&client, &Toolkit::default(), "again", "c").await;
        let stored = values(&told.result.messages);
        let body = server.requests()[1].json();
        assert_eq!(thoughts(sent(style, &body)), thoughts(&stored), "{style:?} {mode:?}");
        assert!(json!(thoughts(&stored)).to_string().contains("c2lnbmVk"));
        if style == Style::Anthropic {
            assert!(blocks(sent(style, &body)).contains(&opaque), "{body}");
        }
    }
}

// CTX-40: a signed part of Gemini's, call or text, keeps its signature whatever changed in it, and goes
// back raw within the run
#[tokio::test]
async fn signed_parts_of_gemini_keep_their_signature() {
    for mode in [Mode::Run, Mode::Stream] {
        let style = Style::Gemini;
        let call = json!({
            "functionCall": {"id": "c1", "name": "read_source", "args": {"knowledge_id": "doc://1"}},
            "thoughtSignature": "Y2FsbA",
        });
        let text = json!({"text": "see doc://1", "thoughtSignature": "dGV4dA"});
        let server = server([
            reply(style).raw_part(text.clone()).raw_part(call.clone()),
            reply(style).text("ok"),
            reply(style).text("ok"),
        ])
        .await;
        let client = create_client(options(style, &server, config()));
        let (read, args) = tool("read_source", |_| toolnexus_core::ToolResult::success("x"));
        let toolkit = Toolkit::from_tools([read]);
        let told = mode.tell(&client, &toolkit, NEW, "c").await;
        mode.tell(&client, &toolkit, "again", "c").await;
        assert_eq!(args.all(), [json!({"knowledge_id": "doc-new-1"})]);
        let stored = blocks(&values(&told.result.messages));
        assert!(stored.contains(&json!({"text": format!("see {NEW}"), "thoughtSignature": "dGV4dA"})));
        let durable = json!({
            "functionCall": {"id": "c1", "name": "read_source", "args": {"knowledge_id": "doc-new-1"}},
            "thoughtSignature": "Y2FsbA",
        });
        assert!(stored.contains(&durable), "{stored:?}");
        for request in &server.requests()[1..] {
            let body = request.json();
            let sent = blocks(sent(style, &body));
            assert!(sent.contains(&text) && sent.contains(&call), "{mode:?}: {body}");
        }
    }
}

// CTX-40: blocks of which nothing is left do not move the signed ones out of their places
#[tokio::test]
async fn a_signed_block_is_found_although_a_text_before_it_is_gone() {
    let style = Style::Anthropic;
    let server = server([
        reply(style)
            .raw_part(json!({"type": "text", "text": "<ref id=\"doc://9\"/>"}))
            .thinking("of doc://1", "c2lnbmVk")
            .tool_call("c1", "read_source", json!({})),
        reply(style).text("ok"),
    ])
    .await;
    let client = create_client(options(style, &server, config()));
    let toolkit = Toolkit::from_tools([fixed("read_source", "x")]);
    let result = Mode::Run.run(&client, &toolkit, NEW).await;
    let body = server.requests()[1].json();
    assert_eq!(thoughts(sent(style, &body))[0]["thinking"], "of doc://1", "{body}");
    assert_eq!(thoughts(sent(style, &body))[0]["signature"], "c2lnbmVk");
    // Providers refuse an empty text.
    assert!(blocks(&values(&result.messages)).iter().all(|block| block["text"] != ""));
}

// CTX-105, CTX-53: an answer that was nothing but dropped tags leaves no message that a provider refuses
#[tokio::test]
async fn an_answer_of_dropped_tags_alone_leaves_no_empty_block() {
    for (style, mode) in every_way() {
        let server = server([reply(style).text("<ref id=\"doc://9\"/>"), reply(style).text("ok")]).await;
        let (hooked, hooks) = Hooked::new();
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, &server, config()) });
        let told = mode.tell(&client, &Toolkit::default(), "hi", "c").await;
        assert_eq!(told.result.text, "");
        mode.tell(&client, &Toolkit::default(), "again", "c").await;
        let body = server.requests()[1].json();
        let texts = blocks(sent(style, &body));
        assert!(texts.iter().all(|block| block["text"] != ""), "{style:?} {mode:?}: {body}");
        assert!(!hooked.after_llm.all()[0].to_string().contains("doc://9"), "{style:?} {mode:?}");
    }
}

// CTX-42, CTX-1: arguments that are no JSON object are not run; what is kept of them holds no handle
#[tokio::test]
async fn broken_arguments_keep_no_handle() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style).tool_call_raw("c1", "note", r#"{"note": "doc://1", "#),
            reply(style).text("ok"),
        ])
        .await;
        let client = create_client(options(style, &server, config()));
        let (note, args) = tool("note", |_| toolnexus_core::ToolResult::success("noted"));
        let result = mode.run(&client, &Toolkit::from_tools([note]), NEW).await;
        assert_eq!(args.len(), 0, "{style:?} {mode:?}");
        let output = &result.tool_calls[0].output;
        assert!(output.starts_with("invalid arguments for tool \"note\": "), "{output}");
        let stored = json!(result.messages).to_string();
        assert!(!stored.contains("doc://1"), "{style:?} {mode:?}: {stored}");
    }
}

// CTX-42: arguments that a server writes as the other form, an object for text and text for an object,
// are the same arguments: message, call and tool agree
#[tokio::test]
async fn both_forms_of_arguments_are_decoded() {
    let inner = json!({"knowledge_id": "doc://1", "n": 1.50});
    let openai = json!({"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read_source", "arguments": inner}}]});
    let anthropic =
        json!({"type": "tool_use", "id": "c1", "name": "read_source", "input": inner.to_string()});
    let gemini = json!({"functionCall": {"name": "read_source", "args": inner.to_string()}});
    for (style, part) in [(Style::OpenAI, openai), (Style::Anthropic, anthropic), (Style::Gemini, gemini)] {
        let server = server([reply(style).raw_part(part).json(), reply(style).text("ok")]).await;
        let client = create_client(options(style, &server, config()));
        let (read, args) = tool("read_source", |_| toolnexus_core::ToolResult::success("x"));
        let result = Mode::Run.run(&client, &Toolkit::from_tools([read]), NEW).await;
        assert_eq!(args.all(), [json!({"knowledge_id": "doc-new-1", "n": 1.5})], "{style:?}");
        let stored = json!(result.messages).to_string();
        assert!(stored.contains("doc-new-1") && !stored.contains("doc://1"), "{style:?}: {stored}");
        let body = server.requests()[1].text();
        assert!(body.contains("doc://1") && !body.contains("doc-new-1"), "{style:?}: {body}");
    }
}

// CTX-105, CTX-1: a handle that begins in one block and ends in the next is one handle; text, deltas and
// message say the same
#[tokio::test]
async fn a_handle_across_blocks_is_one_handle() {
    for (style, mode) in every_way().filter(|(style, _)| *style != Style::OpenAI) {
        let text = |text: &str| match style {
            Style::Anthropic => json!({"type": "text", "text": text}),
            _ => json!({"text": text, "thoughtSignature": text}),
        };
        let server = server([reply(style).raw_part(text("see do")).raw_part(text("c://1 now"))]).await;
        let client = create_client(options(style, &server, config()));
        let told = mode.tell(&client, &Toolkit::default(), NEW, "").await;
        assert_eq!(told.result.text, format!("see {NEW} now"), "{style:?} {mode:?}");
        let stored = blocks(&values(&told.result.messages));
        let stored: String = stored
            .iter()
            .skip(usize::from(style == Style::Gemini))
            .filter_map(|block| block["text"].as_str())
            .collect();
        assert_eq!(stored, told.result.text, "{style:?} {mode:?}");
    }
}

// CTX-103, CTX-1: of several answers in one the others are shown to nobody, since nobody decodes them
#[tokio::test]
async fn other_answers_do_not_reach_a_hook() {
    for style in [Style::OpenAI, Style::Gemini] {
        let body = match style {
            Style::OpenAI => json!({"choices": [
                {"index": 0, "message": {"role": "assistant", "content": "a doc://1"}},
                {"index": 1, "message": {"role": "assistant", "content": "b doc://1"}},
            ]}),
            _ => json!({"candidates": [
                {"content": {"role": "model", "parts": [{"text": "a doc://1"}]}, "finishReason": "STOP"},
                {"content": {"role": "model", "parts": [{"text": "b doc://1"}]}, "finishReason": "STOP"},
            ]}),
        };
        let server =
            server(toolnexus_testkit::model::Script::new().reply(Reply::status(200).body(body.to_string())))
                .await;
        let (hooked, hooks) = Hooked::new();
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, &server, config()) });
        let result = Mode::Run.run(&client, &Toolkit::default(), NEW).await;
        assert_eq!(result.text, format!("a {NEW}"));
        let seen = hooked.after_llm.all()[0].to_string();
        assert!(seen.contains(&format!("a {NEW}")) && !seen.contains("doc://1"), "{seen}");
    }
}

// CTX-50, CTX-51, CTX-1: reasoning is decoded under every key that compatible servers use, and signed
// details go back raw
#[tokio::test]
async fn reasoning_of_compatible_servers_is_decoded() {
    let style = Style::OpenAI;
    let message = json!({
        "role": "assistant",
        "content": null,
        "reasoning": "r doc://1",
        "reasoning_content": "c doc://1",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "t doc://1", "signature": "c2ln"},
            {"type": "reasoning.summary", "summary": "s doc://1"},
            {"type": "reasoning.encrypted", "data": "doc://1"},
        ],
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "note", "arguments": "{}"}}],
    });
    let server = server(
        toolnexus_testkit::model::Script::new()
            .reply(Reply::status(200).body(json!({"choices": [{"message": message}]}).to_string()))
            .reply(reply(style).text("ok")),
    )
    .await;
    let client = create_client(options(style, &server, config()));
    let result = Mode::Run.run(&client, &Toolkit::from_tools([fixed("note", "x")]), NEW).await;
    let stored = values(&result.messages)[1].clone();
    assert_eq!(
        (&stored["reasoning"], &stored["reasoning_content"]),
        (&json!(format!("r {NEW}")), &json!(format!("c {NEW}")))
    );
    assert_eq!(
        stored["reasoning_details"],
        json!([
            {"type": "reasoning.text", "text": format!("t {NEW}")},
            {"type": "reasoning.summary", "summary": format!("s {NEW}")},
            {"type": "reasoning.encrypted", "data": "doc://1"},
        ])
    );
    let body = server.requests()[1].json();
    assert_eq!(sent(style, &body)[2]["reasoning_details"][0], message["reasoning_details"][0]);
    assert_eq!(sent(style, &body)[2]["reasoning"], "r doc://1");
}

// CTX-40, CTX-43: what is neither text nor arguments keeps its bytes, and a message without a handle is
// the provider's own
#[tokio::test]
async fn the_rest_of_a_message_keeps_its_bytes() {
    let style = Style::OpenAI;
    let raw = r#"{"role":"assistant", "x":1.50e1 ,"content":"no handle","annotations":[ {"n":1e2} ]}"#;
    let with = raw.replace("no handle", "see doc://1");
    let body = |message: &str| Reply::status(200).body(format!(r#"{{"choices":[{{"message":{message}}}]}}"#));
    let server = server(toolnexus_testkit::model::Script::new().reply(body(raw)).reply(body(&with))).await;
    let client = create_client(options(style, &server, config()));
    let result = Mode::Run.run(&client, &Toolkit::default(), "hi").await;
    assert_eq!(result.messages[1].json(), raw.as_bytes());
    let result = within(client.run_with(NEW, &Toolkit::default(), RunOptions::default())).await.unwrap();
    let stored = std::str::from_utf8(result.messages[1].json()).unwrap();
    assert_eq!(
        stored,
        format!(r#"{{"role":"assistant","x":1.50e1,"content":"see {NEW}","annotations":[ {{"n":1e2}} ]}}"#)
    );
    assert_eq!(call_args(&values(&result.messages)), Vec::<Value>::new());
}
