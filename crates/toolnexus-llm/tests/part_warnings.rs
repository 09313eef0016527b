//! What is said aloud about parts that text stands in for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::within;
use toolnexus_core::content::UnsupportedPart;
use toolnexus_core::{ContentPart, Style, ToolResult, Toolkit, define_tool};
use toolnexus_llm::translate::TranslateRequest;
use toolnexus_llm::{ClientOptions, create_client};
use toolnexus_testkit::warnings::Warnings;

/// Base64 that must be seen nowhere.
const DATA: &str = "c2VjcmV0LWRhdGE=";

fn showing(parts: Vec<ContentPart>) -> Toolkit {
    Toolkit::from_tools([define_tool("show", "", None, move |_args: Value, _context| {
        let parts = parts.clone();
        async move { ToolResult::success("shown").with_parts(parts) }
    })])
}

// CORE-42, case 40: once per client and (style, kind, reason), whatever the number of requests
#[tokio::test]
async fn a_kind_that_text_stands_in_for_is_warned_of_once() {
    let style = Style::Anthropic;
    let turns = || [Answer::calls(style, &[("c1", "show", json!({}))]), Answer::text(style, "ok")];
    let double = Double::new((0..3).flat_map(|_| turns()));
    let client = create_client(ClientOptions { max_part_bytes: 100, ..double.options(style) });
    let audio = ContentPart::from_base64("audio/wav", DATA, None);
    let large = |mime: &str| ContentPart::from_base64(mime, "AAAA".repeat(100), None);
    let warnings = Warnings::listen();

    within(client.run("hi", &showing(vec![audio.clone(), audio.clone()]))).await.unwrap();
    let said = warnings.take();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("audio") && said[0].contains("anthropic"), "{said:?}");
    assert!(!said[0].contains(DATA), "{said:?}");

    // Another reason and another kind are news; the first is not.
    within(client.run("hi", &showing(vec![audio, large("audio/wav"), large("image/png")]))).await.unwrap();
    assert_eq!(warnings.take().len(), 2);
    within(client.run("hi", &showing(vec![large("image/png"), large("audio/wav")]))).await.unwrap();
    assert_eq!(warnings.take(), [""; 0]);
}

// CORE-42, CORE-120, CORE-105, CLIENT-20: translate says the same, and what it leaves out
#[tokio::test]
async fn translation_warns_of_what_it_replaces_and_leaves_out() {
    let style = Style::Anthropic;
    let double = Double::new([Answer::text(style, "ok"), Answer::text(style, "ok")]);
    let client = create_client(ClientOptions {
        on_unsupported_part: Some(UnsupportedPart::Text),
        request_params: json!({"messages": [], "temperature": 0.5}).as_object().cloned().unwrap(),
        ..double.options(style)
    });
    let request = || TranslateRequest {
        messages: vec![json!({"role": "user", "content": [
            {"type": "text", "text": "listen"},
            {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        ]})],
        tools: ["ping", "ping"].map(|name| json!({"type": "function", "function": {"name": name}})).to_vec(),
        ..Default::default()
    };
    let warnings = Warnings::listen();
    within(client.translate(request())).await.unwrap();
    let said = warnings.take();
    assert_eq!(said.len(), 3, "{said:?}");
    for text in ["audio", "\"ping\"", "request_params key \"messages\" is not allowed"] {
        assert_eq!(said.iter().filter(|line| line.contains(text)).count(), 1, "{text}: {said:?}");
    }
    assert!(said.iter().all(|line| !line.contains(DATA)), "{said:?}");
    within(client.translate(request())).await.unwrap();
    let said = warnings.take();
    assert!(said.iter().all(|line| line.contains("\"ping\"")), "{said:?}");

    let body = double.body(0);
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert_eq!(body["temperature"], 0.5);
    let placeholder = "[unsupported audio part (audio/wav, 11 bytes)]";
    assert_eq!(body["messages"][0]["content"][1], json!({"type": "text", "text": placeholder}));
}
