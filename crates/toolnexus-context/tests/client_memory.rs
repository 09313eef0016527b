//! What the model has seen keeps its bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod client_support;
mod support;

use std::sync::Arc;

use client_support::{
    Audit, Mode, STYLES, every_way, fixed, options, plain, reply, result_texts, sent, server, tool, within,
};
use serde_json::{Value, json};
use support::config;
use toolnexus_context::Registry;
use toolnexus_core::{Style, ToolResult, Toolkit};
use toolnexus_llm::{
    BeforeLlmEvent, ClientOptions, Hooks, LlmOverride, Message, ModelBoundary, RunOptions, Transcript,
    create_client,
};

/// A turn that reads, as the model writes it.
fn reads(style: Style, id: &str) -> toolnexus_testkit::model::ModelReply {
    reply(style).tool_call(id, "read_source", json!({}))
}

/// A history of one turn whose result names `doc-new9`, in the words of a style.
fn history(style: Style) -> Vec<Value> {
    let said = "issue about doc-new9 is closed";
    match style {
        Style::OpenAI => vec![
            json!({"role": "user", "content": "first"}),
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "h1", "type": "function", "function": {"name": "update_issue", "arguments": "{}"}},
            ]}),
            json!({"role": "tool", "tool_call_id": "h1", "content": said}),
            json!({"role": "assistant", "content": "done"}),
        ],
        Style::Anthropic => vec![
            json!({"role": "user", "content": "first"}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "h1", "name": "update_issue", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "h1", "content": said, "is_error": false}]}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "done"}]}),
        ],
        Style::Gemini => vec![
            json!({"role": "user", "parts": [{"text": "first"}]}),
            json!({"role": "model", "parts": [{"functionCall": {"id": "h1", "name": "update_issue", "args": {}}}]}),
            json!({"role": "user", "parts": [
                {"functionResponse": {"id": "h1", "name": "update_issue", "response": {"output": said, "isError": false}}},
            ]}),
            json!({"role": "model", "parts": [{"text": "done"}]}),
        ],
    }
}

/// The JSON text of the messages in a body, from its bracket to before the closing one.
fn list_text(style: Style, body: &str) -> String {
    let key = if style == Style::Gemini { "\"contents\":[" } else { "\"messages\":[" };
    let from = body.find(key).unwrap() + key.len();
    let value: Value = serde_json::from_str(body).unwrap();
    let all: Vec<String> = sent(style, &value).iter().map(Value::to_string).collect();
    let text = all.join(",");
    assert!(body[from..].starts_with(&text), "the messages are written compactly");
    text
}

// CTX-110: an id that becomes known in a later turn rewrites no earlier message: the next request begins
// with the bytes of the one before. Case 91
#[tokio::test]
async fn an_id_that_is_registered_later_rewrites_nothing() {
    for (style, mode) in every_way() {
        let server = server([reads(style, "c1"), reads(style, "c2"), reply(style).text("ok")]).await;
        let client = create_client(plain(style, &server));
        let toolkit = Toolkit::from_tools([fixed("read_source", "<knowledge_id>doc-new9</knowledge_id>")]);
        let registry = support::fixture();
        let boundary: Option<Arc<dyn ModelBoundary>> = Some(Arc::new(registry.clone()));
        let history = Transcript::from(history(style));
        match mode {
            Mode::Run => {
                let options = RunOptions { history, boundary, ..Default::default() };
                within(client.run_with("hi", &toolkit, options)).await.unwrap();
            }
            Mode::Stream => {
                let options = toolnexus_llm::StreamOptions { history, boundary, ..Default::default() };
                within(client.stream_with("hi", &toolkit, options).finish()).await.unwrap();
            }
        }
        let texts: Vec<String> =
            server.requests().iter().map(|request| list_text(style, &request.text())).collect();
        assert!(texts[0].contains("issue about doc-new9 is closed"), "{style:?}: {}", texts[0]);
        assert!(texts[1].starts_with(&texts[0]) && texts[2].starts_with(&texts[1]), "{style:?} {mode:?}");
        assert!(texts[1].contains("<knowledge_id>doc://2</knowledge_id>"), "{}", texts[1]);
        // Encoded by the registry alone, nothing is remembered.
        let durable: Vec<Message> = self::history(style).into_iter().map(Message::from).collect();
        let anew = registry.encode_messages(&durable);
        assert!(json!(anew).to_string().contains("issue about doc://2 is closed"));
    }
}

// CTX-110, CTX-3: a message is encoded once in a run: every later request holds the very same one, a long
// history included, and system text and tools are the same bytes
#[tokio::test]
async fn a_message_is_encoded_once() {
    for style in STYLES {
        let server =
            server([reads(style, "c1"), reads(style, "c2"), reads(style, "c3"), reply(style).text("ok")])
                .await;
        let audit = Audit::new();
        let client = create_client(ClientOptions {
            boundary: Some(audit.boundary(config())),
            system_prompt: "Mind toolnexus://doc/doc-new-1".into(),
            ..plain(style, &server)
        });
        let (read, _) = tool("read_source", |_| ToolResult::success("of toolnexus://doc/doc-new-2"));
        let long: Vec<Value> = (0..100).flat_map(|_| history(style)).collect();
        let options = RunOptions { history: long.into(), ..Default::default() };
        within(client.run_with("hi", &Toolkit::from_tools([read]), options)).await.unwrap();

        let requests = audit.requests.all();
        let pointers: Vec<Vec<*const u8>> = requests
            .iter()
            .map(|(_, messages)| messages.iter().map(|message| message.json().as_ptr()).collect())
            .collect();
        for (before, after) in pointers.iter().zip(&pointers[1..]) {
            assert_eq!(after[..before.len()], before[..], "{style:?}");
        }
        let bodies: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
        for body in &bodies {
            assert_eq!(body.get("tools"), bodies[0].get("tools"));
            assert_eq!(client_support::system_of(style, body), client_support::system_of(style, &bodies[0]));
        }
    }
}

// CTX-110: from the first message that a hook changed, moved or removed on, all is encoded anew; what
// stands before it keeps its bytes
#[tokio::test]
async fn from_the_first_changed_message_on_all_is_encoded_anew() {
    for style in STYLES {
        let server = server([reads(style, "c1"), reads(style, "c2"), reply(style).text("ok")]).await;
        let audit = Audit::new();
        let hooks = Hooks::default().with_before_llm(|event: BeforeLlmEvent| async move {
            // Before the last request the second message goes.
            let mut messages: Vec<Message> = event.messages.to_vec();
            Ok((event.turn == 2).then(|| {
                messages.remove(1);
                messages.remove(1);
                LlmOverride { messages: Some(messages.into()), ..Default::default() }
            }))
        });
        let client = create_client(ClientOptions {
            boundary: Some(audit.boundary(config())),
            hooks: Some(hooks),
            ..plain(style, &server)
        });
        let output = "<knowledge_id>doc-new9</knowledge_id>";
        let toolkit = Toolkit::from_tools([fixed("read_source", output), fixed("update_issue", "x")]);
        let mut history = history(style);
        history.push(match style {
            Style::Gemini => json!({"role": "user", "parts": [{"text": "then"}]}),
            _ => json!({"role": "user", "content": "then"}),
        });
        history.insert(0, history[0].clone());
        // What is removed is a turn of its own, so that calls and results stay together.
        history.insert(1, history[4].clone());
        history.swap(1, 2);
        let options = RunOptions { history: history.into(), ..Default::default() };
        within(client.run_with("hi", &toolkit, options)).await.unwrap();

        let requests = audit.requests.all();
        let own = usize::from(style == Style::OpenAI);
        let [first, second, third] = [0, 1, 2].map(|at| &requests[at].1);
        assert_eq!(second[0].json().as_ptr(), first[0].json().as_ptr());
        assert_eq!(third[own].json().as_ptr(), second[own].json().as_ptr(), "{style:?}");
        let text = |messages: &[Message]| json!(messages).to_string();
        assert!(text(first).contains("about doc-new9") && text(second).contains("about doc-new9"));
        // Now the id is known where it stands.
        assert!(text(third).contains("about doc://1"), "{style:?}: {}", text(third));
        assert!(!text(third).contains("doc-new9"));
        // The views of this run's results are the same as before.
        let views = |messages: &[Message]| result_texts(&client_support::values(messages));
        assert_eq!(views(third)[1..2], views(second)[1..2]);
    }
}

// CTX-103, CTX-110: the results of a turn are numbered in message order, whichever call ended first
#[tokio::test]
async fn numbers_do_not_depend_on_which_call_was_faster() {
    for style in STYLES {
        for slow_first in [true, false] {
            let server = server([
                reply(style).tool_call("c1", "read_source", json!({})).tool_call(
                    "c2",
                    "list_chunks",
                    json!({}),
                ),
                reply(style).text("ok"),
            ])
            .await;
            let client = create_client(options(style, &server, config()));
            let (first_done, wait_for_first) = tokio::sync::watch::channel(false);
            let tool = |name: &'static str, id: &'static str, waits: bool| {
                let (done, wait) = (first_done.clone(), wait_for_first.clone());
                toolnexus_core::define_tool(
                    name,
                    name,
                    None,
                    move |_: Value, _: toolnexus_core::ToolContext| {
                        let (done, mut wait) = (done.clone(), wait.clone());
                        async move {
                            if waits {
                                let _ = wait.wait_for(|done| *done).await;
                            } else {
                                done.send_replace(true);
                            }
                            Ok::<_, String>(format!("<knowledge_id>{id}</knowledge_id>"))
                        }
                    },
                )
            };
            let toolkit = Toolkit::from_tools([
                tool("read_source", "doc-of-first", slow_first),
                tool("list_chunks", "doc-of-second", !slow_first),
            ]);
            Mode::Run.run(&client, &toolkit, "hi").await;
            let views = result_texts(sent(style, &server.requests()[1].json()));
            assert_eq!(
                views,
                ["<knowledge_id>doc://1</knowledge_id>", "<knowledge_id>doc://2</knowledge_id>"],
                "{style:?} {slow_first}"
            );
        }
    }
}

// CTX-103: of results with one id in two turns, or with none, each message has its own view
#[tokio::test]
async fn repeated_ids_have_their_own_views() {
    for (style, id) in [(Style::OpenAI, "same"), (Style::Anthropic, "same"), (Style::Gemini, "")] {
        let server = server([reads(style, id), reads(style, id), reply(style).text("ok")]).await;
        let client = create_client(options(style, &server, config()));
        let (read, seen) = tool("read_source", |_| ToolResult::success("rows"));
        let count = seen.clone();
        let hooks = Hooks::default().with_after_tool(move |event| {
            let rows = json!([{"id": format!("chunk-number-{}", count.len()), "content": "text"}]);
            let context = json!({"display_type": "search_results", "results": rows});
            let metadata = json!({"context": context}).as_object().unwrap().clone();
            async move { Ok(Some(toolnexus_llm::ToolOverride::result(event.result.with_metadata(metadata)))) }
        });
        let client = {
            drop(client);
            create_client(ClientOptions { hooks: Some(hooks), ..options(style, &server, config()) })
        };
        Mode::Run.run(&client, &Toolkit::from_tools([read]), "hi").await;
        let views = result_texts(sent(style, &server.requests()[2].json()));
        assert!(views[0].contains("chunk://1") && views[1].contains("chunk://2"), "{style:?}: {views:?}");
    }
}

// CTX-66, CTX-110: the protocol prompt is in every request once
#[tokio::test]
async fn the_protocol_prompt_is_sent_once() {
    for (style, mode) in every_way() {
        for system in ["", "SYS"] {
            let server = server([reads(style, "c1"), reply(style).text("ok"), reply(style).text("ok")]).await;
            let client = create_client(ClientOptions {
                system_prompt: system.into(),
                ..options(style, &server, config())
            });
            let toolkit = Toolkit::from_tools([fixed("read_source", "x")]);
            let told = mode.tell(&client, &toolkit, "hi", "c").await;
            mode.tell(&client, &toolkit, "again", "c").await;
            let prompt = Registry::with_config(config()).unwrap().protocol_prompt();
            let head = prompt.lines().next().unwrap();
            for request in server.requests() {
                assert_eq!(request.text().matches(head).count(), 1, "{style:?} {mode:?} {system:?}");
                let expected = if system.is_empty() { prompt.clone() } else { format!("SYS\n\n{prompt}") };
                assert_eq!(client_support::system_of(style, &request.json()), expected);
            }
            assert!(!json!(told.result.messages).to_string().contains(head));
        }
    }
}
