//! Hooks around a translated call.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use serde_json::{Value, json};
use support::hooks::{Veto, Watch, hook_error, veto};
use support::tools::add;
use support::{CONTENT_STYLES, options, reply, server, within};
use toolnexus_core::Toolkit;
use toolnexus_llm::translate::TranslateRequest;
use toolnexus_llm::{BeforeLlmEvent, ClientOptions, Hooks, LlmOverride, Style, create_client};
use toolnexus_testkit::model::Script;

fn request() -> TranslateRequest {
    TranslateRequest {
        messages: vec![json!({"role": "user", "content": "hi"})],
        toolkit: Some(Toolkit::from_tools([add()])),
        ..Default::default()
    }
}

// CLIENT-57, CLIENT-52: each of the two fires once, on turn 0; the tools' hooks never do
#[tokio::test]
async fn a_translation_has_the_two_model_hooks() {
    for style in CONTENT_STYLES {
        let (watch, hooks) = Watch::new();
        let server = server(reply(style).tool_call("c1", "add", json!({"a": 2})).usage(3, 2)).await;
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
        let answer = within(client.translate(request())).await.unwrap();
        assert_eq!(answer.tool_calls.len(), 1);
        assert_eq!(watch.order.all(), ["before_llm", "after_llm"]);
        let before = &watch.before_llm.all()[0];
        assert_eq!((before.turn, before.model.as_str(), before.tools.len()), (0, "m", 1));
        assert_eq!(before.messages[0], json!({"role": "user", "content": "hi"}));
        let after = &watch.after_llm.all()[0];
        let call = match style {
            Style::Anthropic => &after.response["content"][0]["name"],
            _ => &after.response["choices"][0]["message"]["tool_calls"][0]["function"]["name"],
        };
        assert_eq!((after.turn, after.model.as_str(), call), (0, "m", &json!("add")));
    }
}

// CLIENT-57, CLIENT-50, CLIENT-16: overrides apply as in a run
#[tokio::test]
async fn a_translation_takes_the_overrides() {
    for style in CONTENT_STYLES {
        let hooks = Hooks::default().with_before_llm(|_| async {
            Ok(Some(LlmOverride {
                messages: Some(vec![json!({"role": "user", "content": "other"})].into()),
                tools: Some(vec![]),
                model: Some("other-model".into()),
            }))
        });
        let server = server(reply(style).text("ok")).await;
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
        let answer = within(client.translate(request())).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.model.as_str()), ("ok", "other-model"));
        let body = server.requests()[0].json();
        assert_eq!(body["messages"], json!([{"role": "user", "content": "other"}]));
        assert_eq!(body["model"], "other-model");
        assert_eq!((body.get("tools"), body.get("tool_choice")), (None, None::<&Value>));
    }
}

// CLIENT-57, CLIENT-49, CLIENT-51
#[tokio::test]
async fn a_failing_hook_ends_the_translation() {
    for style in CONTENT_STYLES {
        let veto_before = Hooks::default().with_before_llm(|_: BeforeLlmEvent| async { Err(veto(1)) });
        let server = server(Script::new().reply(reply(style).text("ok"))).await;
        let options = options(style, server.base_url());
        let client = create_client(ClientOptions { hooks: Some(veto_before), ..options.clone() });
        let error = within(client.translate(request())).await.unwrap_err();
        assert_eq!(hook_error(&error), ("before_llm", Some(&Veto(1))));
        assert_eq!(server.request_count(), 0);

        let veto_after = Hooks::default().with_after_llm(|_| async { Err(veto(2)) });
        let client = create_client(ClientOptions { hooks: Some(veto_after), ..options });
        let error = within(client.translate(request())).await.unwrap_err();
        assert_eq!(hook_error(&error), ("after_llm", Some(&Veto(2))));
    }
}
