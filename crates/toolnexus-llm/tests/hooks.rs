//! Hooks: what each is told, and what its override does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::hooks::{Seen, Watch, adding, calling, outputs, result_texts};
use support::tools::{add, echo, fixed, object, recorded};
use support::{MetricLog, Mode, STYLES, drain, every_way, kinds, options, reply, server, transcript, within};
use tokio::sync::Barrier;
use toolnexus_core::{ContentPart, ToolHints, ToolResult, Toolkit, define_tool};
use toolnexus_llm::{
    AfterLlmEvent, AfterToolEvent, BeforeLlmEvent, BeforeToolEvent, ClientOptions, Hooks, LlmOverride,
    RunOptions, RunStatus, StreamEvent, StreamOptions, Style, ToolOverride, Transcript, create_client,
};
use toolnexus_testkit::model::Script;

fn declared(style: Style, toolkit: &Toolkit) -> Vec<Value> {
    match style {
        Style::OpenAI => toolkit.to_openai(),
        Style::Anthropic => toolkit.to_anthropic(),
        Style::Gemini => toolkit.to_gemini(),
    }
}

// CLIENT-49, CLIENT-58: hooks that return nothing, and no hooks at all, send the same bytes
#[tokio::test]
async fn hooks_that_return_nothing_change_nothing() {
    for (style, mode) in every_way() {
        let mut bodies = Vec::new();
        let mut transcripts = Vec::new();
        let (_, watching) = Watch::new();
        for hooks in [None, Some(Hooks::default()), Some(watching)] {
            let server = server(adding(style)).await;
            let client = create_client(ClientOptions { hooks, ..options(style, server.base_url()) });
            let result = mode.execute(&client, &Toolkit::from_tools([add()])).await.unwrap();
            bodies.push(server.requests().iter().map(|request| request.body().clone()).collect::<Vec<_>>());
            transcripts.push(result);
        }
        assert_eq!(bodies[0], bodies[1], "{style:?} {mode:?}");
        assert_eq!(bodies[0], bodies[2], "{style:?} {mode:?}");
        assert_eq!(transcripts[0], transcripts[1]);
        assert_eq!(transcripts[0], transcripts[2]);
        assert!(Hooks::default().is_empty());
    }
}

// CLIENT-49, CLIENT-50, CLIENT-52, CLIENT-62, D20: what each hook is told, in which order, on which turn
#[tokio::test]
async fn each_hook_is_told_of_its_step() {
    for (style, mode) in every_way() {
        let server = server(adding(style)).await;
        let (watch, hooks) = Watch::new();
        let client = create_client(ClientOptions {
            hooks: Some(hooks),
            system_prompt: "SYS".into(),
            ..options(style, server.base_url())
        });
        let hints = ToolHints { read_only: true, ..Default::default() };
        let toolkit = Toolkit::from_tools([add().hints(hints)]);
        let result = mode.execute(&client, &toolkit).await.unwrap();

        assert_eq!(
            watch.order.all(),
            ["before_llm", "after_llm", "before_tool", "after_tool", "before_llm", "after_llm"]
        );
        let before = watch.before_llm.all();
        assert_eq!(before.iter().map(|event| event.turn).collect::<Vec<_>>(), [0, 1]);
        for event in &before {
            assert_eq!((event.model.as_str(), &*event.tools), ("m", &declared(style, &toolkit)));
            // The transcript as it stood at that time; a system text that is sent apart is not in it.
            assert_eq!(event.messages[..], result.messages[..event.messages.len()]);
            assert_eq!(event.messages[0].role() == "system", style == Style::OpenAI);
        }
        let opening = usize::from(style == Style::OpenAI);
        assert_eq!((before[0].messages.len(), before[1].messages.len()), (opening + 1, opening + 3));

        let after = watch.after_llm.all();
        assert_eq!(after.iter().map(|event| event.turn).collect::<Vec<_>>(), [0, 1]);
        assert!(after.iter().all(|event| event.model == "m"));
        if mode == Mode::Stream {
            let usage = |prompt: u64, completion: u64, total: u64| {
                json!({"streamed": true, "usage": {
                    "promptTokens": prompt, "completionTokens": completion, "totalTokens": total}})
            };
            assert_eq!(after[0].response, usage(10, 5, 15));
            assert_eq!(after[1].response, usage(25, 11, 36));
        } else {
            // The whole payload, with the very message that enters the transcript.
            let (message, usage) = match style {
                Style::OpenAI => ("/choices/0/message", "/usage"),
                Style::Anthropic => ("/content", "/usage"),
                Style::Gemini => ("/candidates/0/content", "/usageMetadata"),
            };
            let last = result.messages.last().unwrap();
            let expected = if style == Style::Anthropic { &last["content"] } else { last.value() };
            assert_eq!(after[1].response.pointer(message).unwrap(), expected);
            assert!(after[1].response.pointer(usage).unwrap().is_object());
        }

        let args = object(json!({"a": 2, "b": 3}));
        assert_eq!(
            watch.before_tool.all(),
            [BeforeToolEvent {
                name: "add".into(),
                args: args.clone(),
                id: "c1".into(),
                turn: 0,
                hints: Some(hints)
            }]
        );
        let result = ToolResult::success("5");
        assert_eq!(
            watch.after_tool.all(),
            [AfterToolEvent { name: "add".into(), args, result, id: "c1".into(), turn: 0 }]
        );
        // Hints are for the host.
        assert!(!server.requests()[0].text().contains("readOnly"), "{style:?}");
        assert!(!server.requests()[0].text().contains("read_only"), "{style:?}");
    }
}

// CLIENT-62: a tool of which nothing is known, and one that nobody knows
#[tokio::test]
async fn unknown_effects_are_told_as_none() {
    let (watch, hooks) = Watch::new();
    let style = Style::OpenAI;
    let calls = [("1", "plain", json!({})), ("2", "missing", json!({}))];
    let double = Double::new([Answer::calls(style, &calls), Answer::text(style, "ok")]);
    let client = create_client(ClientOptions { hooks: Some(hooks), ..double.options(style) });
    let result = within(client.run("hi", &Toolkit::from_tools([fixed("plain", "x")]))).await.unwrap();
    assert_eq!(outputs(&result), ["x", "unknown tool: missing"]);
    let seen = watch.before_tool.all();
    assert_eq!(seen.iter().map(|event| event.hints).collect::<Vec<_>>(), [None, None]);
    assert!(watch.after_tool.all().iter().any(|event| event.name == "missing" && event.result.is_error));
}

// CLIENT-50: once per turn, not per attempt
#[tokio::test(start_paused = true)]
async fn before_llm_is_called_once_for_all_attempts() {
    let (watch, hooks) = Watch::new();
    let failed = || Answer::status(503, &[], "no");
    let double = Double::new([failed(), failed(), Answer::text(Style::OpenAI, "ok")]);
    let options = double.options(Style::OpenAI);
    let client = create_client(ClientOptions { hooks: Some(hooks), retries: Some(2), ..options });
    client.run("hi", &Toolkit::default()).await.unwrap();
    assert_eq!((double.count(), watch.order.all()), (3, vec!["before_llm", "after_llm"]));
}

// CLIENT-52: only for an answer that could be read
#[tokio::test]
async fn after_llm_is_silent_when_there_is_no_answer() {
    let style = Style::OpenAI;
    for (answer, mode) in [
        (Answer::status(500, &[], "no"), Mode::Run),
        (Answer::status(200, &[], "no JSON"), Mode::Run),
        (Answer::status(200, &[], "{}"), Mode::Run),
        (Answer::status(500, &[], "no"), Mode::Stream),
        (Answer::pieces([Ok("data: {\"error\":{\"message\":\"overloaded\"}}\n\n")]), Mode::Stream),
        (Answer::pieces([Ok("data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n")]), Mode::Stream),
    ] {
        let (watch, hooks) = Watch::new();
        let double = Double::new([answer]);
        let client = create_client(ClientOptions { hooks: Some(hooks), ..double.options(style) });
        mode.execute(&client, &Toolkit::default()).await.unwrap_err();
        assert_eq!(watch.order.all(), ["before_llm"]);
    }
}

// CLIENT-50, CLIENT-58: a replaced transcript is the run's from then on, for the result and the store too
#[tokio::test]
async fn a_messages_override_becomes_the_transcript() {
    for (style, mode) in every_way() {
        let server = server(adding(style)).await;
        let hooks = Hooks::default().with_before_llm(|event: BeforeLlmEvent| async move {
            // On the first turn all but the prompt is dropped; later turns leave things as they are.
            let messages: Vec<_> = event.messages.last().cloned().into_iter().collect();
            Ok((event.turn == 0)
                .then(|| LlmOverride { messages: Some(messages.into()), ..Default::default() }))
        });
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
        let message = |role: &str, text: &str| match style {
            Style::Gemini => json!({"role": role, "parts": [{"text": text}]}),
            _ => json!({"role": role, "content": text}),
        };
        let model = if style == Style::Gemini { "model" } else { "assistant" };
        let history: Transcript = vec![message("user", "old question"), message(model, "old answer")].into();
        client.conversation_store().save("c", &history).await.unwrap();
        let toolkit = Toolkit::from_tools([add()]);
        let result = match mode {
            Mode::Run => within(client.ask("new question", &toolkit, "c")).await.unwrap(),
            Mode::Stream => {
                let options = StreamOptions { id: "c".into(), ..Default::default() };
                within(client.stream_with("new question", &toolkit, options).finish()).await.unwrap()
            }
        };
        for request in server.requests() {
            assert!(!request.text().contains("old"), "{style:?} {mode:?}");
            assert!(request.text().contains("new question"));
        }
        assert_eq!(result.messages.len(), 4);
        assert_eq!(result.messages[0], message("user", "new question"));
        transcript::check(style, &result.messages, false).unwrap();
        assert_eq!(client.conversation_store().get("c").await.unwrap().unwrap(), result.messages);
    }
}

// CLIENT-50: an empty replacement replaces, `None` does not
#[tokio::test]
async fn an_empty_messages_override_empties_the_transcript() {
    let hooks = Hooks::default().with_before_llm(|event: BeforeLlmEvent| async move {
        Ok((event.turn == 0).then(|| LlmOverride { messages: Some(Transcript::new()), ..Default::default() }))
    });
    let double = Double::new([Answer::text(Style::OpenAI, "ok")]);
    let client = create_client(ClientOptions { hooks: Some(hooks), ..double.options(Style::OpenAI) });
    let result = within(client.run("hi", &Toolkit::default())).await.unwrap();
    assert_eq!(double.body(0)["messages"], json!([]));
    assert_eq!(result.messages.len(), 1);
}

// CLIENT-50, CLIENT-16, CLIENT-31, case B6: an emptied list of tools is left out, now and later
#[tokio::test]
async fn an_empty_tools_override_sends_no_tools() {
    for (style, mode) in every_way() {
        let server = server(adding(style)).await;
        let hooks = Hooks::default().with_before_llm(|event: BeforeLlmEvent| async move {
            Ok((event.turn == 0).then(|| LlmOverride { tools: Some(vec![]), ..Default::default() }))
        });
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
        let result = mode.execute(&client, &Toolkit::from_tools([add()])).await.unwrap();
        // What is not declared can still be called.
        assert_eq!(outputs(&result), ["5"]);
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        for request in requests {
            let body = request.json();
            assert!(body.get("tools").is_none() && body.get("tool_choice").is_none(), "{style:?} {mode:?}");
        }
    }
}

// CLIENT-50, CLIENT-31: other tools last for the rest of the run, and the next run starts anew
#[tokio::test]
async fn a_tools_override_lasts_for_the_run() {
    for (style, mode) in every_way() {
        let server = server(
            Script::new()
                .reply(adding(style)[0].clone())
                .reply(adding(style)[1].clone())
                .reply(reply(style).text("again")),
        )
        .await;
        let seen = Seen::new();
        let kept = seen.clone();
        let hooks = Hooks::default().with_before_llm(move |event: BeforeLlmEvent| {
            kept.push(event.tools.len());
            let first = kept.all().len() == 1;
            async move {
                let mut tools = (*event.tools).clone();
                if let Some(list) = tools[0].get_mut("functionDeclarations").and_then(Value::as_array_mut) {
                    list.truncate(1);
                }
                tools.truncate(1);
                Ok(first.then(|| LlmOverride { tools: Some(tools), ..Default::default() }))
            }
        });
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
        let toolkit = Toolkit::from_tools([add(), echo()]);
        mode.execute(&client, &toolkit).await.unwrap();
        mode.execute(&client, &toolkit).await.unwrap();
        let sent: Vec<bool> =
            server.requests().iter().map(|request| request.text().contains("\"echo\"")).collect();
        assert_eq!(sent, [false, false, true], "{style:?} {mode:?}");
        if style != Style::Gemini {
            assert_eq!(seen.all(), [2, 1, 2]);
        }
    }
}

// D20: another model for the rest of the run; the result names the configured one
#[tokio::test]
async fn a_model_override_asks_another_model() {
    for (style, mode) in every_way() {
        let server = server(adding(style)).await;
        let seen = Seen::new();
        let kept = seen.clone();
        let hooks = Hooks::default().with_before_llm(move |event: BeforeLlmEvent| {
            kept.push(event.model.clone());
            async move {
                Ok((event.turn == 0)
                    .then(|| LlmOverride { model: Some("other".into()), ..Default::default() }))
            }
        });
        let metrics = MetricLog::default();
        let client = create_client(ClientOptions {
            hooks: Some(hooks),
            on_metric: Some(metrics.sink()),
            ..options(style, server.base_url())
        });
        let result = mode.execute(&client, &Toolkit::from_tools([add()])).await.unwrap();
        assert_eq!(result.model, "m");
        assert_eq!(seen.all(), ["m", "other"]);
        for request in server.requests() {
            match style {
                Style::Gemini => assert!(request.path().contains("/models/other:"), "{}", request.path()),
                _ => assert_eq!(request.json()["model"], "other"),
            }
        }
        assert!(metrics.of("llm").iter().all(|event| event["model"] == "other"));
        assert_eq!(metrics.of("run")[0]["model"], "m");
    }
}

// CLIENT-53, CLIENT-63, CLIENT-39, case H1
#[tokio::test]
async fn a_result_of_before_tool_stands_for_the_tool() {
    for (style, mode) in every_way() {
        let (tool, record) = recorded("delete_all", |_, _| ToolResult::success("gone"));
        let (watch, watching) = Watch::new();
        let hooks = Hooks { before_llm: None, after_llm: None, ..watching }.with_before_tool(
            |event: BeforeToolEvent| async move {
                // With both, the result wins and the arguments are the model's.
                let result = ToolResult::failure("denied by policy");
                Ok((event.name == "delete_all")
                    .then(|| ToolOverride { result: Some(result), args: Some(object(json!({"x": 1}))) }))
            },
        );
        let server = server(calling(style, &["delete_all", "keep"])).await;
        let metrics = MetricLog::default();
        let client = create_client(ClientOptions {
            hooks: Some(hooks),
            on_metric: Some(metrics.sink()),
            ..options(style, server.base_url())
        });
        let toolkit = Toolkit::from_tools([tool, fixed("keep", "kept")]);
        let result = mode.execute(&client, &toolkit).await.unwrap();

        assert_eq!(record.count(), 0);
        assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "ok"));
        assert_eq!(outputs(&result), ["denied by policy", "kept"]);
        assert_eq!(
            (result.tool_calls[0].is_error, &result.tool_calls[0].args),
            (true, &object(json!({"of": "delete_all"})))
        );
        // The model is told.
        assert_eq!(result_texts(style, &result.messages), ["denied by policy", "kept"]);
        // Only the tool that ran is seen by after_tool.
        let after: Vec<_> = watch.after_tool.all().into_iter().map(|event| event.name).collect();
        assert_eq!(after, ["keep"]);
        let tool = |name: &str, is_error: bool| json!({"event": "tool", "tool": name, "source": "native", "is_error": is_error, "pending": false});
        assert_eq!(metrics.of("tool"), [tool("delete_all", true), tool("keep", false)]);
    }
}

// CLIENT-116: a call that a hook answers has its events, in call order
#[tokio::test]
async fn a_call_answered_by_a_hook_has_its_events() {
    for style in STYLES {
        let hooks = Hooks::default().with_before_tool(|event: BeforeToolEvent| async move {
            Ok((event.name == "second").then(|| ToolOverride::result(ToolResult::failure("denied"))))
        });
        let server = server(calling(style, &["first", "second", "third"])).await;
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
        let toolkit = Toolkit::from_tools(["first", "second", "third"].map(|name| fixed(name, name)));
        let (events, error) = within(drain(client.stream("hi", &toolkit))).await;
        assert!(error.is_none());
        let results: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::ToolResult { id, output, is_error, .. } => {
                    Some((id.as_str(), output.as_str(), *is_error))
                }
                _ => None,
            })
            .collect();
        assert_eq!(results, [("1", "first", false), ("2", "denied", true), ("3", "third", false)]);
        let before_text: Vec<_> = kinds(&events).into_iter().take_while(|kind| kind != "text").collect();
        let mut expected = vec!["usage"];
        expected.extend(["tool_call"; 3]);
        expected.extend(["tool_result"; 3]);
        assert_eq!(before_text, expected);
    }
}

// CLIENT-50, CLIENT-53, CLIENT-39, case H2: rewritten arguments run and are recorded; results are rewritten
#[tokio::test]
async fn arguments_and_results_are_rewritten() {
    for (style, mode) in every_way() {
        let lookup = define_tool("lookup", "", None, |args: Value, _| async move {
            Ok::<_, String>(format!("value-for-{}", args["key"].as_str().unwrap()))
        });
        let turns = Seen::new();
        let [a, b] = [turns.clone(), turns.clone()];
        let hooks = Hooks::default()
            .with_before_llm(move |event: BeforeLlmEvent| {
                a.push(event.turn);
                async { Ok(None) }
            })
            .with_before_tool(|_| async { Ok(Some(ToolOverride::args(object(json!({"key": "redacted"}))))) })
            .with_after_tool(move |event: AfterToolEvent| {
                b.push(event.turn);
                async move {
                    assert_eq!(event.args, object(json!({"key": "redacted"})));
                    Ok(Some(ToolOverride::result(ToolResult::success(event.result.output.to_uppercase()))))
                }
            });
        let first = reply(style).tool_call("c1", "lookup", json!({"key": "secret"}));
        let server = server([first, reply(style).text("ok")]).await;
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
        let result = mode.execute(&client, &Toolkit::from_tools([lookup])).await.unwrap();
        let record = &result.tool_calls[0];
        assert_eq!(record.output, "VALUE-FOR-REDACTED");
        assert_eq!(record.args, object(json!({"key": "redacted"})));
        assert_eq!(result_texts(style, &result.messages), ["VALUE-FOR-REDACTED"]);
        // What the model said stays what it said.
        assert!(server.requests()[1].text().contains("secret"));
        assert_eq!(turns.all(), [0, 0, 1]);
    }
}

// CLIENT-56: hooks of parallel calls interleave: each waits here for all others
#[tokio::test]
async fn hooks_of_parallel_calls_interleave() {
    for mode in [Mode::Run, Mode::Stream] {
        let style = Style::Anthropic;
        let [before, after] = [(); 2].map(|()| Arc::new(Barrier::new(3)));
        let hooks = Hooks::default()
            .with_before_tool(move |_| {
                let barrier = Arc::clone(&before);
                async move {
                    barrier.wait().await;
                    Ok(None)
                }
            })
            .with_after_tool(move |_| {
                let barrier = Arc::clone(&after);
                async move {
                    barrier.wait().await;
                    Ok(None)
                }
            });
        let server = server(calling(style, &["a", "b", "c"])).await;
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
        let toolkit = Toolkit::from_tools(["a", "b", "c"].map(|name| fixed(name, name)));
        let result = mode.execute(&client, &toolkit).await.unwrap();
        assert_eq!(outputs(&result), ["a", "b", "c"]);
    }
}

// CLIENT-50: the transcript that is continued is the hook's to see
#[tokio::test]
async fn hooks_see_a_history_as_it_is() {
    let (watch, hooks) = Watch::new();
    let double = Double::new([Answer::text(Style::OpenAI, "ok")]);
    let client = create_client(ClientOptions { hooks: Some(hooks), ..double.options(Style::OpenAI) });
    let history: Transcript =
        vec![json!({"role": "user", "content": "a"}), json!({"role": "assistant", "content": "b"})].into();
    let options = RunOptions { history: history.clone(), ..Default::default() };
    within(client.run_with("hi", &Toolkit::default(), options)).await.unwrap();
    let seen = &watch.before_llm.all()[0].messages;
    assert_eq!(seen[..2], history[..]);
    assert_eq!(seen[2], json!({"role": "user", "content": "hi"}));
}

// CLIENT-49, D20: events and overrides are plain values, and their Debug tells no payload
#[test]
fn debug_of_hook_values_shows_no_payload() {
    let secret = || object(json!({"k": "SECRET"}));
    let messages: Transcript = vec![json!({"role": "user", "content": "SECRET"})].into();
    let result = ToolResult::success("SECRET");
    let shown = [
        format!(
            "{:?}",
            BeforeLlmEvent { messages: messages.clone(), model: "m".into(), ..Default::default() }
        ),
        format!("{:?}", AfterLlmEvent { response: json!("SECRET"), ..Default::default() }),
        format!("{:?}", BeforeToolEvent { name: "t".into(), args: secret(), ..Default::default() }),
        format!("{:?}", AfterToolEvent { args: secret(), result: result.clone(), ..Default::default() }),
        format!("{:?}", LlmOverride { messages: Some(messages), ..Default::default() }),
        format!("{:?}", ToolOverride::result(result)),
        format!("{:?}", ToolOverride::args(secret())),
        format!("{:?}", Hooks::default().with_after_llm(|_| async { Ok(()) })),
    ];
    for text in shown {
        assert!(!text.contains("SECRET"), "{text}");
    }
}

// CLIENT-112, CLIENT-50: a refused prompt is taken out also when a hook had dropped what was before it
#[tokio::test]
async fn a_refused_prompt_leaves_a_replaced_transcript() {
    for style in STYLES {
        let hooks = Hooks::default().with_before_llm(|event: BeforeLlmEvent| async move {
            let prompt: Vec<_> = event.messages.messages().next_back().cloned().into_iter().collect();
            Ok(Some(LlmOverride { messages: Some(prompt.into()), ..Default::default() }))
        });
        let double = Double::new([]);
        let client =
            create_client(ClientOptions { hooks: Some(hooks), max_part_bytes: 1, ..double.options(style) });
        let history =
            vec![json!({"role": "user", "content": "a"}), json!({"role": "assistant", "content": "b"})];
        let options = RunOptions { history: history.into(), ..Default::default() };
        let image = ContentPart::from_base64("image/png", "AAAAAAAA", None);
        let result = within(client.run_with(vec![image], &Toolkit::default(), options)).await.unwrap();
        assert_eq!((result.status, result.limit.as_deref()), (RunStatus::Incomplete, Some("contentPart")));
        assert_eq!((result.messages.len(), result.turns, double.count()), (0, 0, 0));
    }
}
