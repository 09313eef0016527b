//! Marks that ask a provider to cache: where they are, and where they never are.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::hooks::Watch;
use support::tools::{add, echo, object};
use support::{Mode, STYLES, every_way, options, reply, server, within};
use toolnexus_core::{ContentPart, Toolkit};
use toolnexus_llm::translate::TranslateRequest;
use toolnexus_llm::{
    ClientOptions, Hooks, LlmOverride, PromptCacheOptions, RunOptions, RunResult, Style, Transcript,
    create_client,
};

fn cached(key: Option<&str>, long_ttl: bool) -> Option<PromptCacheOptions> {
    Some(PromptCacheOptions { key: key.map(str::to_owned), long_ttl })
}

fn mark() -> Value {
    json!({"type": "ephemeral"})
}

/// How many marks a value holds.
fn marks(value: &Value) -> usize {
    value.to_string().matches("cache_control").count()
}

/// The value with its marks taken out.
fn unmarked(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, _)| *key != "cache_control")
                .map(|(key, value)| (key.clone(), unmarked(value)))
                .collect(),
        ),
        Value::Array(list) => list.iter().map(unmarked).collect(),
        other => other.clone(),
    }
}

// CLIENT-80, CLIENT-82, case C2: three marks in every request of a run, none anywhere else
#[tokio::test]
async fn anthropic_requests_carry_three_marks() {
    for mode in [Mode::Run, Mode::Stream] {
        for long_ttl in [false, true] {
            let style = Style::Anthropic;
            let script = || {
                [
                    reply(style).text("I add.").tool_call("c1", "add", json!({"a": 2, "b": 3})),
                    reply(style).text("5"),
                ]
            };
            let plain = server(script()).await;
            let marked = server(script()).await;
            let (watch, hooks) = Watch::new();
            let options = |base_url, prompt_cache, hooks| ClientOptions {
                system_prompt: "SYS".into(),
                prompt_cache,
                hooks,
                ..options(style, base_url)
            };
            let toolkit = Toolkit::from_tools([echo(), add()]);
            let unmarked_run = create_client(options(plain.base_url(), None, None));
            let expected = mode.execute(&unmarked_run, &toolkit).await.unwrap();
            let client =
                create_client(options(marked.base_url(), cached(Some("ignored"), long_ttl), Some(hooks)));
            let result = mode.execute(&client, &toolkit).await.unwrap();

            let mark = if long_ttl { json!({"type": "ephemeral", "ttl": "1h"}) } else { mark() };
            for (request, plain) in marked.requests().iter().zip(plain.requests()) {
                let body = request.json();
                assert_eq!(marks(&body), 3, "{body}");
                assert_eq!(body["tools"][1]["cache_control"], mark);
                assert_eq!(body["system"], json!([{"type": "text", "text": "SYS", "cache_control": mark}]));
                let last = body["messages"].as_array().unwrap().last().unwrap();
                assert_eq!(last["content"].as_array().unwrap().last().unwrap()["cache_control"], mark);
                assert_eq!(body.get("prompt_cache_key"), None);
                // Otherwise it is the same request.
                let mut rest = unmarked(&body);
                rest["system"] = json!("SYS");
                let last = rest["messages"].as_array_mut().unwrap().last_mut().unwrap();
                if last["content"][0]["type"] == "text" {
                    last["content"] = last["content"][0]["text"].clone();
                }
                assert_eq!(rest, plain.json());
            }
            assert_eq!(marked.request_count(), 2);
            assert_eq!(result, expected);
            for event in watch.before_llm.all() {
                let shown = json!([event.messages, *event.tools]);
                assert_eq!(marks(&shown), 0);
            }
        }
    }
}

// CLIENT-80, CLIENT-81: without marks to make, the bytes are those of an unmarked request
#[tokio::test]
async fn what_has_no_mark_is_byte_equal() {
    for (style, mode) in every_way() {
        let mut bodies = Vec::new();
        for prompt_cache in [None, cached(Some(""), true), cached(None, false)] {
            if style == Style::Anthropic && prompt_cache.is_some() {
                continue;
            }
            let server = server(reply(style).text("ok")).await;
            let client = create_client(ClientOptions { prompt_cache, ..options(style, server.base_url()) });
            mode.execute(&client, &Toolkit::from_tools([add()])).await.unwrap();
            bodies.push(server.requests()[0].body().clone());
        }
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "{style:?} {mode:?}");
    }
}

// CLIENT-78, CLIENT-81, case C1
#[tokio::test]
async fn openai_requests_carry_the_key() {
    for mode in [Mode::Run, Mode::Stream] {
        let usage = json!({"prompt_tokens": 1200, "completion_tokens": 1, "total_tokens": 1201, "prompt_tokens_details": {"cached_tokens": 1024}});
        let server = server(reply(Style::OpenAI).text("ok").usage_raw(usage)).await;
        let client = create_client(ClientOptions {
            prompt_cache: cached(Some("session-42"), true),
            ..options(Style::OpenAI, server.base_url())
        });
        let result = mode.execute(&client, &Toolkit::from_tools([add()])).await.unwrap();
        let body = server.requests()[0].json();
        assert_eq!(body["prompt_cache_key"], "session-42");
        assert_eq!(marks(&body), 0);
        assert!(!body.to_string().contains("ttl"));
        assert_eq!((result.usage.prompt_tokens, result.usage.cache_read_tokens), (1200, 1024));
    }
}

// CLIENT-80
#[tokio::test]
async fn gemini_requests_carry_nothing() {
    for mode in [Mode::Run, Mode::Stream] {
        let server = server(reply(Style::Gemini).text("ok")).await;
        let client = create_client(ClientOptions {
            prompt_cache: cached(Some("session-42"), true),
            system_prompt: "SYS".into(),
            ..options(Style::Gemini, server.base_url())
        });
        mode.execute(&client, &Toolkit::from_tools([add()])).await.unwrap();
        let text = server.requests()[0].text();
        assert!(!text.contains("cache") && !text.contains("session-42"), "{text}");
    }
}

/// The body that a run over this history sends first.
async fn sent(
    history: Vec<Value>,
    change: impl FnOnce(ClientOptions) -> ClientOptions,
) -> (Value, RunResult) {
    let style = Style::Anthropic;
    let double = Double::new([Answer::text(style, "ok")]);
    // The hook puts the transcript that is wanted in the place of the one with the prompt.
    let hooks = Hooks::default().with_before_llm(move |_| {
        let messages = Some(Transcript::from(history.clone()));
        async { Ok(Some(LlmOverride { messages, ..Default::default() })) }
    });
    let options =
        ClientOptions { hooks: Some(hooks), prompt_cache: cached(None, false), ..double.options(style) };
    let client = create_client(change(options));
    let result = within(client.run("hi", &Toolkit::default())).await.unwrap();
    (double.body(0), result)
}

// CLIENT-80, case C4: which block of the latest message bears the mark
#[tokio::test]
async fn blocks_that_cannot_bear_a_mark_are_passed_over() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let redacted = json!({"type": "redacted_thinking", "data": "x"});
    let tool_use = json!({"type": "tool_use", "id": "t", "name": "add", "input": {}});
    let cases = [
        (json!([text("a"), text("b")]), Some(1)),
        (json!([text("a"), thinking]), Some(0)),
        (json!([text("a"), redacted.clone(), thinking.clone()]), Some(0)),
        (json!([text("a"), tool_use, text("")]), Some(1)),
        (json!([thinking, redacted]), None),
        (json!([text("")]), None),
        (json!([]), None),
    ];
    for (content, at) in cases {
        let earlier = json!({"role": "user", "content": [{"type": "text", "text": "earlier"}]});
        let last = json!({"role": "assistant", "content": content});
        let (body, result) = sent(vec![earlier.clone(), last.clone()], |options| options).await;
        assert_eq!(marks(&body), usize::from(at.is_some()), "{content}");
        if let Some(at) = at {
            assert_eq!(body["messages"][1]["content"][at]["cache_control"], mark(), "{content}");
        }
        assert_eq!(unmarked(&body)["messages"], json!([earlier, last]));
        assert_eq!(result.messages[1], last);
    }
    // Text becomes a block; no text, no block.
    let (body, _) = sent(vec![json!({"role": "user", "content": "hi"})], |options| options).await;
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark()}]}])
    );
    let (body, _) = sent(vec![json!({"role": "user", "content": ""})], |options| options).await;
    assert_eq!(body["messages"], json!([{"role": "user", "content": ""}]));
}

// CLIENT-80, CLIENT-28: absent tools and system are skipped; hoisted system text is marked with the rest
#[tokio::test]
async fn marks_without_a_place_are_skipped() {
    let user = json!({"role": "user", "content": "hi"});
    let (body, _) = sent(vec![user.clone()], |options| options).await;
    assert_eq!((marks(&body), body.get("system"), body.get("tools")), (1, None, None));
    let hoisted = json!({"role": "system", "content": "S1"});
    let (body, result) =
        sent(vec![hoisted.clone(), user], |options| ClientOptions { system_prompt: "SYS".into(), ..options })
            .await;
    assert_eq!(body["system"], json!([{"type": "text", "text": "SYS\n\nS1", "cache_control": mark()}]));
    assert_eq!((marks(&body), body["messages"].as_array().unwrap().len()), (2, 1));
    assert_eq!(result.messages[0], hoisted);
}

// CLIENT-80, CLIENT-110: a prompt of parts is marked in its blocks
#[tokio::test]
async fn a_prompt_of_parts_is_marked() {
    let style = Style::Anthropic;
    let double = Double::new([Answer::text(style, "ok")]);
    let client = create_client(ClientOptions { prompt_cache: cached(None, false), ..double.options(style) });
    let parts = vec![ContentPart::text("look"), ContentPart::from_base64("image/png", "AAAA", None)];
    let result = within(client.run(parts, &Toolkit::default())).await.unwrap();
    let content = &double.body(0)["messages"][0]["content"];
    assert_eq!((marks(content), &content[1]["type"]), (1, &json!("image")));
    assert_eq!(content[1]["cache_control"], mark());
    assert_eq!(marks(&json!(result.messages)), 0);
}

// CLIENT-82, CLIENT-18: request_params and body_transform come later and win
#[tokio::test]
async fn marks_can_be_overridden() {
    let seen = Arc::new(Mutex::new(0));
    let kept = Arc::clone(&seen);
    let (body, _) = sent(vec![json!({"role": "user", "content": "hi"})], move |options| ClientOptions {
        system_prompt: "SYS".into(),
        request_params: object(json!({"system": "mine"})),
        body_transform: Some(Arc::new(move |mut body: Value| {
            *kept.lock().unwrap() = marks(&body);
            body["messages"] = json!([{"role": "user", "content": "mine"}]);
            body
        })),
        ..options
    })
    .await;
    // The transform saw the mark of the messages; that of the system text was gone by then.
    assert_eq!(*seen.lock().unwrap(), 1);
    assert_eq!((marks(&body), &body["system"]), (0, &json!("mine")));

    let double = Double::new([Answer::text(Style::OpenAI, "ok")]);
    let client = create_client(ClientOptions {
        prompt_cache: cached(Some("k"), false),
        request_params: object(json!({"prompt_cache_key": "mine"})),
        ..double.options(Style::OpenAI)
    });
    within(client.run("hi", &Toolkit::default())).await.unwrap();
    assert_eq!(double.body(0)["prompt_cache_key"], "mine");
}

// CLIENT-82: translations are marked too
#[tokio::test]
async fn translations_are_marked() {
    for style in [Style::OpenAI, Style::Anthropic] {
        let double = Double::new([Answer::text(style, "ok")]);
        let client = create_client(ClientOptions {
            prompt_cache: cached(Some("k"), false),
            system_prompt: "SYS".into(),
            ..double.options(style)
        });
        let request = TranslateRequest {
            messages: vec![json!({"role": "user", "content": "hi"})],
            toolkit: Some(Toolkit::from_tools([add(), echo()])),
            ..Default::default()
        };
        within(client.translate(request)).await.unwrap();
        let body = double.body(0);
        if style == Style::OpenAI {
            assert_eq!((&body["prompt_cache_key"], marks(&body)), (&json!("k"), 0));
        } else {
            assert_eq!(marks(&body), 3);
            assert_eq!(body["tools"][1]["cache_control"], mark());
            assert_eq!(body["system"][0]["cache_control"], mark());
        }
    }
}

// CLIENT-82: stores and later runs never see a mark
#[tokio::test]
async fn memory_holds_no_marks() {
    for style in STYLES {
        let double = Double::new([Answer::text(style, "one"), Answer::text(style, "two")]);
        let client =
            create_client(ClientOptions { prompt_cache: cached(Some("k"), true), ..double.options(style) });
        within(client.ask("hi", &Toolkit::default(), "c")).await.unwrap();
        let saved = client.conversation_store().get("c").await.unwrap().unwrap();
        assert_eq!(marks(&json!(saved)), 0);
        let options = RunOptions { history: saved, ..Default::default() };
        within(client.run_with("again", &Toolkit::default(), options)).await.unwrap();
        // Only the latest message, not those that were the latest once.
        assert_eq!(marks(&double.body(1)), usize::from(style == Style::Anthropic));
    }
}

/// Tools as a hook may declare them: with marks of their own, empty, odd.
fn tool_entry() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({"name": "a"})),
        Just(json!({"name": "a", "input_schema": {}})),
        Just(json!({"name": "b", "cache_control": {"type": "other"}})),
        Just(json!({"name": "c", "description": "says \"cache_control\" }]"})),
        "[a-z}\\]\\\\\"{]{0,6}".prop_map(|text| json!({"name": text, "input_schema": {"x": [text]}})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    // CLIENT-80: whatever the tools are, the last one bears the mark and nothing else changes
    #[test]
    fn the_last_tool_bears_the_mark(tools in proptest::collection::vec(tool_entry(), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let body = runtime.block_on(async {
            let double = Double::new([Answer::text(Style::Anthropic, "ok")]);
            let declared = tools.clone();
            let hooks = Hooks::default().with_before_llm(move |_| {
                let tools = Some(declared.clone());
                async { Ok(Some(LlmOverride { tools, ..Default::default() })) }
            });
            let client = create_client(ClientOptions {
                hooks: Some(hooks),
                prompt_cache: cached(None, false),
                ..double.options(Style::Anthropic)
            });
            client.run("hi", &Toolkit::default()).await.unwrap();
            double.body(0)
        });
        let mut expected = tools;
        expected.last_mut().unwrap()["cache_control"] = mark();
        prop_assert_eq!(&body["tools"], &Value::Array(expected));
    }
}
