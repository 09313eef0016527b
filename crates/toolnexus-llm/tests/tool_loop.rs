//! The tool-calling loop, from the prompt to the result, in both styles.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::tools::{add, asking, echo, fixed, object, recorded};
use support::{CONTENT_STYLES, STYLES, kinds, options, reply, server, transcript, within};
use tokio::sync::{Barrier, Notify};
use toolnexus_core::{ContentPart, Json, ToolResult, Toolkit, ToolkitParts, define_sync_tool, define_tool};
use toolnexus_llm::{
    ClientOptions, FinishReason, Message, RunOptions, RunResult, RunStatus, StreamEvent, Style, Usage,
    create_client, limits,
};
use toolnexus_testkit::model::{Reply, Script};

/// Runs one prompt against these answers.
async fn run(style: Style, script: impl Into<Script>, toolkit: &Toolkit) -> RunResult {
    let server = server(script).await;
    let client = create_client(options(style, server.base_url()));
    within(client.run("hi", toolkit)).await.unwrap()
}

// CLIENT-29, CLIENT-39, CLIENT-41, CLIENT-45, CLIENT-46, CLIENT-78, cases L1 and L2
#[tokio::test]
async fn openai_calls_a_tool_and_answers() {
    // Keys that we do not know, spaces and an odd number: kept byte for byte.
    let call = r#"{ "role":"assistant", "content": null, "x_unknown": 1e2, "tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\":2,\"b\":3}"},"extra":{"y":[1]}}]}"#;
    let first = format!(
        r#"{{"id":"x","choices":[{{"index":0,"message":{call},"finish_reason":"tool_calls"}}],"usage":{{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}}}"#
    );
    let server = server([
        Reply::status(200).header("Content-Type", "application/json").body(first),
        Reply::from(Reply::openai().text("2 + 3 = 5").usage(15, 6)),
    ])
    .await;
    let client = create_client(options(Style::OpenAI, server.base_url()));
    let result = within(client.run("What is 2 + 3?", &Toolkit::from_tools([add()]))).await.unwrap();

    assert_eq!((result.status, result.text.as_str(), result.turns), (RunStatus::Done, "2 + 3 = 5", 2));
    assert_eq!((result.tool_call_count, result.tool_calls.len()), (1, 1));
    let record = &result.tool_calls[0];
    assert_eq!((record.name.as_str(), record.output.as_str(), record.is_error), ("add", "5", false));
    assert_eq!(record.args, object(json!({"a": 2, "b": 3})));
    assert_eq!(record.via, None);
    assert_eq!(
        result.usage,
        Usage { prompt_tokens: 25, completion_tokens: 11, total_tokens: 36, ..Default::default() }
    );
    assert_eq!(result.finish_reason, Some(FinishReason::Stop));
    assert_eq!((result.limit, result.pending, result.files), (None, None, vec![]));

    assert_eq!(result.messages.len(), 4);
    assert_eq!(result.messages[0], json!({"role": "user", "content": "What is 2 + 3?"}));
    assert_eq!(result.messages[1].json(), call.as_bytes());
    assert_eq!(
        result.messages[2].json(),
        br#"{"role":"tool","tool_call_id":"call_1","content":"5"}"#.as_slice()
    );
    assert_eq!(result.messages[3]["content"], "2 + 3 = 5");
    // The provider reads back exactly what it said.
    let second = server.requests()[1].text();
    assert!(second.contains(call), "{second}");
}

// CLIENT-42, CLIENT-43, CLIENT-78, case C3
#[tokio::test]
async fn anthropic_content_survives_verbatim() {
    let content = r#"[{"type":"thinking","thinking":"two numbers","signature":"c2ln"},{"type":"text","text":"I add "},{"type":"redacted_thinking","data":"eA=="},{"type":"text","text":"them."},{"type":"tool_use","id":"toolu_1","name":"add","input":{"a":2, "b":3},"caller":{"type":"direct"}}]"#;
    let first = format!(
        r#"{{"id":"x","type":"message","role":"assistant","content":{content},"stop_reason":"tool_use","usage":{{"input_tokens":12,"output_tokens":1,"cache_read_input_tokens":900,"cache_creation_input_tokens":40}}}}"#
    );
    let server = server([
        Reply::status(200).header("Content-Type", "application/json").body(first),
        Reply::from(Reply::anthropic().text("5").usage(20, 2)),
    ])
    .await;
    let client = create_client(options(Style::Anthropic, server.base_url()));
    let result = within(client.run("2 + 3?", &Toolkit::from_tools([add()]))).await.unwrap();

    assert_eq!(result.text, "5");
    assert_eq!(
        result.messages[1].json(),
        format!(r#"{{"role":"assistant","content":{content}}}"#).as_bytes()
    );
    assert_eq!(
        result.messages[2].json(),
        br#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"5","is_error":false}]}"#
            .as_slice()
    );
    assert!(server.requests()[1].text().contains(content));
    assert_eq!(
        result.usage,
        Usage {
            prompt_tokens: 32,
            completion_tokens: 3,
            total_tokens: 35,
            cache_read_tokens: 900,
            cache_write_tokens: 40
        }
    );
    let first_turn = Usage {
        prompt_tokens: 12,
        completion_tokens: 1,
        total_tokens: 13,
        cache_read_tokens: 900,
        cache_write_tokens: 40,
    };
    // CLIENT-79
    assert_eq!(first_turn.context_tokens(Style::Anthropic), 952);
    assert_eq!(first_turn.context_tokens(Style::OpenAI), 12);
}

// CLIENT-32: text blocks are concatenated without separator, reasoning is not text (CLIENT-43)
#[tokio::test]
async fn the_text_is_what_the_model_says_and_not_what_it_thinks() {
    let answer =
        Reply::anthropic().thinking("hm", "s").text("one").raw_part(json!({"type": "text", "text": " two"}));
    let result = run(Style::Anthropic, answer, &Toolkit::default()).await;
    assert_eq!(result.text, "one two");

    let message = |message: Value| Reply::json(json!({"choices": [{"message": message}]}));
    for (answer, text) in [
        (json!({"role": "assistant", "content": "as is"}), "as is"),
        (json!({"role": "assistant", "content": null}), ""),
        (json!({"role": "assistant"}), ""),
        (
            json!({"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}),
            "ab",
        ),
        (
            json!({"role": "assistant", "content": [{"type": "thinking", "text": "hidden"}, {"type": "text", "text": "b"}]}),
            "b",
        ),
        (json!({"role": "assistant", "content": null, "refusal": "I must not"}), "I must not"),
        (json!({"role": "assistant", "content": "said", "refusal": "ignored"}), "said"),
        (
            json!({"role": "assistant", "content": "x", "reasoning_content": "hidden", "reasoning": "hidden"}),
            "x",
        ),
    ] {
        let result = run(Style::OpenAI, message(answer.clone()), &Toolkit::default()).await;
        assert_eq!((result.text.as_str(), result.status), (text, RunStatus::Done), "{answer}");
    }
}

// CLIENT-34, CLIENT-42, CLIENT-39, case L3
#[tokio::test]
async fn calls_run_at_once_and_are_recorded_in_call_order() {
    for style in CONTENT_STYLES {
        // All three must be running before any may end; then they end in reverse order.
        let together = Arc::new(Barrier::new(3));
        let (c_ended, b_ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let ended = Arc::new(Mutex::new(Vec::new()));
        let tool = |name: &'static str, wait: Option<Arc<Notify>>, tell: Option<Arc<Notify>>| {
            let (together, ended) = (Arc::clone(&together), Arc::clone(&ended));
            define_tool(name, name, None, move |_, context: toolnexus_core::ToolContext| {
                let (together, ended, wait, tell) =
                    (together.clone(), ended.clone(), wait.clone(), tell.clone());
                async move {
                    together.wait().await;
                    if let Some(wait) = wait {
                        wait.notified().await;
                    }
                    ended.lock().unwrap().push(name);
                    if let Some(tell) = tell {
                        tell.notify_one();
                    }
                    Ok::<_, String>(format!("{name} as {}", context.call_id))
                }
            })
        };
        let toolkit = Toolkit::from_tools([
            tool("a", Some(b_ended.clone()), None),
            tool("b", Some(c_ended.clone()), Some(b_ended.clone())),
            tool("c", None, Some(c_ended.clone())),
        ]);
        let turn = reply(style).tool_call("1", "a", json!({})).tool_call("2", "b", json!({})).tool_call(
            "3",
            "c",
            json!({}),
        );
        let result = run(style, [turn, reply(style).text("ok")], &toolkit).await;

        assert_eq!(*ended.lock().unwrap(), ["c", "b", "a"]);
        let records: Vec<&str> = result.tool_calls.iter().map(|record| record.output.as_str()).collect();
        assert_eq!(records, ["a as 1", "b as 2", "c as 3"]);
        transcript::check(style, &result.messages, false).unwrap();
        match style {
            Style::Anthropic => {
                // One user message holds all of them.
                assert_eq!(result.messages.len(), 4);
                let blocks = result.messages[2]["content"].as_array().unwrap();
                assert_eq!(blocks.iter().map(|b| &b["tool_use_id"]).collect::<Vec<_>>(), ["1", "2", "3"]);
            }
            _ => assert_eq!(
                result.messages[2..5].iter().map(|m| &m["tool_call_id"]).collect::<Vec<_>>(),
                ["1", "2", "3"]
            ),
        }
    }
}

// CLIENT-35, case L4
#[tokio::test]
async fn malformed_arguments_never_run_a_tool() {
    for style in STYLES {
        let (tool, record) = recorded("add", |_, _| ToolResult::success("ran"));
        let turn = reply(style)
            .tool_call_raw("c0", "add", if style == Style::OpenAI { "" } else { "{}" })
            .tool_call_raw("c1", "add", "{bad")
            .tool_call_raw("c2", "add", "[1]")
            .tool_call_raw("c3", "add", "7")
            .tool_call_raw("c4", "add", r#"{"a":2}"#);
        let result = run(style, [turn, reply(style).text("ok")], &Toolkit::from_tools([tool])).await;

        assert_eq!(record.args(), [json!({}), json!({"a": 2})], "{style}");
        let outputs: Vec<&str> = result.tool_calls.iter().map(|r| r.output.as_str()).collect();
        assert_eq!((outputs[0], outputs[4]), ("ran", "ran"));
        assert!(
            outputs[1].starts_with(r#"invalid arguments for tool "add": not valid JSON: "#),
            "{}",
            outputs[1]
        );
        let expected = r#"invalid arguments for tool "add": expected a JSON object"#;
        assert_eq!((outputs[2], outputs[3]), (expected, expected));
        for record in &result.tool_calls[1..4] {
            assert!(record.is_error && record.args.is_empty());
        }
        assert_eq!(result.text, "ok");
        transcript::check(style, &result.messages, false).unwrap();
    }
}

// CLIENT-35: absent, null and an object in place of the string
#[tokio::test]
async fn arguments_may_be_absent_null_or_an_object() {
    let (tool, record) = recorded("add", |_, _| ToolResult::success("ran"));
    let call = |id: &str, function: Value| json!({"id": id, "type": "function", "function": function});
    let turn =
        Reply::json(json!({"choices": [{"message": {"role": "assistant", "content": "", "tool_calls": [
            call("1", json!({"name": "add"})),
            call("2", json!({"name": "add", "arguments": null})),
            call("3", json!({"name": "add", "arguments": {"a": 1}})),
            call("4", json!({"name": "add", "arguments": " \n "})),
        ]}}]}));
    let toolkit = Toolkit::from_tools([tool]);
    run(Style::OpenAI, [turn, Reply::from(Reply::openai().text("ok"))], &toolkit).await;
    assert_eq!(record.args(), [json!({}), json!({}), json!({"a": 1}), json!({})]);

    let turn = Reply::json(json!({"content": [
        {"type": "tool_use", "id": "1", "name": "add"},
        {"type": "tool_use", "id": "2", "name": "add", "input": null},
    ]}));
    run(Style::Anthropic, [turn, Reply::from(Reply::anthropic().text("ok"))], &toolkit).await;
    assert_eq!(record.args()[4..], [json!({}), json!({})]);
}

// CLIENT-36, CLIENT-33: whatever a tool does wrong, the model reads it and the run goes on
#[tokio::test]
async fn failing_tools_are_results() {
    for style in STYLES {
        let toolkit = Toolkit::from_tools([
            define_tool("fails", "", None, |_, _| async { Err::<String, _>("no luck") }),
            define_tool("panics", "", None, |_, _| async { panic!("kaboom") as Result<String, String> }),
            define_sync_tool("panics_early", "", None, |_, _| -> ToolResult { panic!("at once") }),
        ]);
        let turn = reply(style)
            .tool_call("1", "fails", json!({}))
            .tool_call("2", "panics", json!({}))
            .tool_call("3", "panics_early", json!({}))
            .tool_call("4", "nope", json!({"x": 1}));
        let result = run(style, [turn, reply(style).text("ok")], &toolkit).await;
        let seen: Vec<(&str, bool)> =
            result.tool_calls.iter().map(|r| (r.output.as_str(), r.is_error)).collect();
        assert_eq!(
            seen,
            [("no luck", true), ("kaboom", true), ("at once", true), ("unknown tool: nope", true)]
        );
        // CLIENT-39: what it was called with is on the record.
        assert_eq!(result.tool_calls[3].args, object(json!({"x": 1})));
        assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "ok"));
        if style == Style::Anthropic {
            assert_eq!(result.messages[2]["content"][1]["is_error"], true);
        }
    }
}

// CLIENT-37
#[tokio::test]
async fn a_tool_is_told_its_call_and_the_hosts_data() {
    for style in STYLES {
        let (tool, record) = recorded("t", |_, _| ToolResult::success(""));
        let server =
            server([reply(style).tool_call("call_7", "t", json!({})), reply(style).text("ok")]).await;
        let client = create_client(options(style, server.base_url()));
        let run = RunOptions { data: object(json!({"user": "ada"})), ..Default::default() };
        within(client.run_with("hi", &Toolkit::from_tools([tool]), run)).await.unwrap();
        let context = &record.all()[0].context;
        assert_eq!(context.call_id, "call_7");
        assert_eq!(Value::Object(context.data.clone()), json!({"user": "ada"}));
        assert_eq!((context.timeout_ms, &context.answer, &context.idempotency_key), (None, &None, &None));
        assert!(!context.cancel.is_cancelled());
        // Host data stays with the host.
        assert!(server.requests().iter().all(|request| !request.text().contains("ada")));
    }
}

// CLIENT-47, case L5
#[tokio::test]
async fn the_turn_limit_stops_a_run_that_goes_on_asking() {
    for style in STYLES {
        let server =
            server(Script::always(reply(style).tool_call("c", "add", json!({"a": 1, "b": 1})))).await;
        let client = create_client(ClientOptions { max_turns: 2, ..options(style, server.base_url()) });
        let result = within(client.run("hi", &Toolkit::from_tools([add()]))).await.unwrap();
        assert_eq!(result.status, RunStatus::Incomplete);
        assert_eq!(result.limit.as_deref(), Some(limits::MAX_TURNS));
        assert_eq!(result.limit.as_deref(), Some("maxTurns"));
        assert_eq!((result.turns, result.tool_call_count, result.text.as_str()), (2, 2, ""));
        assert_eq!(result.finish_reason, Some(FinishReason::ToolCalls));
        assert_eq!(server.request_count(), 2);
        // The last turn's tools did run, and the transcript can go on.
        assert_eq!(result.tool_calls[1].output, "2");
        transcript::check(style, &result.messages, false).unwrap();
    }
}

// CLIENT-2: no limit given means ten; CLIENT-47
#[tokio::test]
async fn ten_turns_are_the_default_limit() {
    let result = run(
        Style::OpenAI,
        Script::always(Reply::openai().tool_call("c", "nope", json!({}))),
        &Toolkit::default(),
    )
    .await;
    assert_eq!((result.turns, result.limit.as_deref()), (10, Some("maxTurns")));
}

// CLIENT-47: the newest assistant text of the transcript, with OpenAI
#[tokio::test]
async fn a_stopped_run_keeps_the_newest_text() {
    let stopped = async |style, script: Vec<toolnexus_testkit::model::ModelReply>| {
        let server = server(script).await;
        let client = create_client(ClientOptions { max_turns: 2, ..options(style, server.base_url()) });
        within(client.run("hi", &Toolkit::from_tools([add()]))).await.unwrap()
    };
    let call = |style| reply(style).tool_call("c", "add", json!({"a": 1, "b": 1}));
    let texts = |style| vec![call(style).text("first"), call(style).text("second")];
    assert_eq!(stopped(Style::OpenAI, texts(Style::OpenAI)).await.text, "second");
    assert_eq!(stopped(Style::Anthropic, texts(Style::Anthropic)).await.text, "");
    // The last message has no text: the newest that there is.
    let result = stopped(Style::OpenAI, vec![call(Style::OpenAI).text("first"), call(Style::OpenAI)]).await;
    assert_eq!((result.status, result.text.as_str()), (RunStatus::Incomplete, "first"));
}

// CLIENT-27, CLIENT-40, case L6
#[tokio::test]
async fn a_history_is_continued_verbatim() {
    let history = vec![
        Message::from(json!({"role": "system", "content": "OLD"})),
        Message::from_json(r#"{"role":"user", "content":"one"}"#).unwrap(),
        Message::from(json!({"role": "assistant", "content": "1", "x": true})),
    ];
    let server = server(Reply::openai().text("2")).await;
    let client = create_client(ClientOptions {
        system_prompt: "NEW".into(),
        ..options(Style::OpenAI, server.base_url())
    });
    let run = RunOptions { history: history.clone().into(), ..Default::default() };
    let result = within(client.run_with("two", &Toolkit::default(), run)).await.unwrap();
    assert_eq!(result.messages.len(), 5);
    assert_eq!(result.messages[..3], history);
    assert_eq!(result.messages[1].json(), history[1].json());
    assert_eq!(result.messages.iter().filter(|m| m.role() == "system").count(), 1);
    assert!(server.requests()[0].text().contains(r#"{"role":"user", "content":"one"}"#));

    // The result's messages are a history again: serialised, read back and continued.
    let text = serde_json::to_string(&result.messages).unwrap();
    let read: toolnexus_llm::Transcript = serde_json::from_str(&text).unwrap();
    assert_eq!(read, result.messages);
}

// CLIENT-31: announced is what was there at the start; callable is what is there now
#[tokio::test]
async fn a_tool_registered_meanwhile_is_callable_but_not_announced() {
    for style in CONTENT_STYLES {
        let toolkit = Toolkit::from_tools([]);
        let live = toolkit.clone();
        toolkit.register([define_tool("grow", "", None, move |_, _| {
            live.register([fixed("late", "late ran")]);
            async { Ok::<_, String>("grown") }
        })]);
        let server = server([
            reply(style).tool_call("1", "grow", json!({})),
            reply(style).tool_call("2", "late", json!({})),
            reply(style).text("ok"),
            reply(style).text("again"),
        ])
        .await;
        let client = create_client(options(style, server.base_url()));
        let result = within(client.run("hi", &toolkit)).await.unwrap();
        assert_eq!(result.tool_calls[1].output, "late ran");
        let announced: Vec<Value> = server.requests().iter().map(|r| r.json()["tools"].clone()).collect();
        assert_eq!(announced[0].as_array().unwrap().len(), 1);
        assert!(announced.iter().all(|tools| tools == &announced[0]));
        // The next run announces it.
        within(client.run("hi", &toolkit)).await.unwrap();
        assert_eq!(server.requests()[3].json()["tools"].as_array().unwrap().len(), 2);
    }
}

// CLIENT-29: what providers refuse to read back does not enter the transcript
#[tokio::test]
async fn empty_assistant_messages_are_left_out_or_made_readable() {
    let result = run(
        Style::Anthropic,
        Reply::json(json!({"content": [], "stop_reason": "end_turn"})),
        &Toolkit::default(),
    )
    .await;
    assert_eq!((result.text.as_str(), result.status, result.messages.len()), ("", RunStatus::Done, 1));

    for message in [
        json!({"role": "assistant", "content": null, "x": 1}),
        json!({"role": "assistant", "x": 1}),
        json!({"x": 1}),
    ] {
        let answer = Reply::json(json!({"choices": [{"message": message}]}));
        let result = run(Style::OpenAI, answer, &Toolkit::default()).await;
        assert_eq!(result.messages.len(), 2);
        assert_eq!(result.messages[1], json!({"role": "assistant", "content": "", "x": 1}));
    }
    // A refusal is content.
    let refusal = json!({"role": "assistant", "content": null, "refusal": "no"});
    let result =
        run(Style::OpenAI, Reply::json(json!({"choices": [{"message": refusal}]})), &Toolkit::default())
            .await;
    assert_eq!(result.messages[1], refusal);
}

// CLIENT-41: the role is added where it is missing
#[tokio::test]
async fn an_assistant_message_gets_its_role() {
    let answer = Reply::json(json!({"choices": [{"message": {"content": "x", "k": [1]}}]}));
    let result = run(Style::OpenAI, answer, &Toolkit::default()).await;
    assert_eq!(result.messages[1], json!({"content": "x", "k": [1], "role": "assistant"}));
}

// CLIENT-119 (chosen), RUN-5: a call without an id gets one, in the transcript as in its result
#[tokio::test]
async fn a_call_without_an_id_gets_one_everywhere() {
    let function = json!({"name": "echo", "arguments": "{}"});
    let openai = json!({"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [
        {"type": "function", "function": function},
        {"id": "given", "type": "function", "function": function},
        {"id": "", "type": "function", "function": function},
    ]}}]});
    let use_tool = json!({"type": "tool_use", "name": "echo", "input": {}});
    let anthropic = json!({"content": [{"type": "text", "text": "t"}, use_tool.clone(), use_tool]});
    for (style, answer, expected) in [
        (Style::OpenAI, openai, vec!["call_0_0", "given", "call_0_2"]),
        (Style::Anthropic, anthropic, vec!["call_0_0", "call_0_1"]),
    ] {
        let toolkit = Toolkit::from_tools([echo()]);
        let result = run(style, [Reply::json(answer), Reply::from(reply(style).text("ok"))], &toolkit).await;
        assert_eq!(transcript::call_ids(style, &result.messages[1]), expected);
        transcript::check(style, &result.messages, false).unwrap();
    }
}

// RUN-5: an entry that is no function call is still answered
#[tokio::test]
async fn every_entry_of_tool_calls_is_answered() {
    let answer = json!({"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [
        {"id": "1", "type": "custom", "custom": {"name": "x", "input": "y"}},
        {"id": "2", "type": "function", "function": {"name": "echo", "arguments": "{}"}},
    ]}}]});
    let toolkit = Toolkit::from_tools([echo()]);
    let result =
        run(Style::OpenAI, [Reply::json(answer), Reply::from(Reply::openai().text("ok"))], &toolkit).await;
    transcript::check(Style::OpenAI, &result.messages, false).unwrap();
    assert!(result.tool_calls[0].is_error);
    assert_eq!(result.tool_calls[1].output, "nothing");
}

// CLIENT-149, case L8
#[tokio::test]
async fn the_result_says_how_the_last_turn_ended() {
    for (style, sent, expected) in [
        (Style::OpenAI, Some("length"), FinishReason::Length),
        (Style::OpenAI, Some("content_filter"), FinishReason::ContentFilter),
        (Style::OpenAI, Some("stop"), FinishReason::Stop),
        (Style::OpenAI, Some("something_new"), FinishReason::Stop),
        // Without calls, "tool_calls" means nothing.
        (Style::OpenAI, Some("tool_calls"), FinishReason::Stop),
        (Style::Anthropic, Some("max_tokens"), FinishReason::Length),
        (Style::Anthropic, Some("refusal"), FinishReason::ContentFilter),
        (Style::Anthropic, Some("end_turn"), FinishReason::Stop),
    ] {
        let answer = sent.map_or(reply(style), |reason| reply(style).finish(reason)).text("Hel");
        let result = run(style, answer, &Toolkit::default()).await;
        assert_eq!(result.finish_reason, Some(expected), "{sent:?}");
        assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "Hel"), "{sent:?}");
    }
    let silent = Reply::json(json!({"choices": [{"message": {"content": "x"}}]}));
    assert_eq!(run(Style::OpenAI, silent, &Toolkit::default()).await.finish_reason, Some(FinishReason::Stop));
    // CLIENT-122: calls decide, whatever reason was sent.
    for style in STYLES {
        let turn = reply(style).tool_call("c", "echo", json!({})).finish("stop");
        let result = run(style, [turn, reply(style).text("ok")], &Toolkit::from_tools([echo()])).await;
        assert_eq!((result.turns, result.tool_call_count), (2, 1));
    }
}

// CLIENT-78
#[tokio::test]
async fn usage_is_read_as_each_provider_reports_it() {
    let used = async |style, usage: Option<Value>| {
        let answer = usage.map_or(reply(style).without_usage(), |usage| reply(style).usage_raw(usage));
        run(style, answer.text("x"), &Toolkit::default()).await.usage
    };
    let usage = |prompt, completion, total, read, write| Usage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: total,
        cache_read_tokens: read,
        cache_write_tokens: write,
    };
    for style in STYLES {
        assert_eq!(used(style, None).await, Usage::default());
        assert_eq!(used(style, Some(json!(null))).await, Usage::default());
        assert_eq!(used(style, Some(json!("odd"))).await, Usage::default());
    }
    let openai = json!({"prompt_tokens": 1200, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1024}});
    assert_eq!(used(Style::OpenAI, Some(openai)).await, usage(1200, 1, 1201, 1024, 0));
    let zero_total = json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 0});
    assert_eq!(used(Style::OpenAI, Some(zero_total)).await, usage(3, 4, 7, 0, 0));
    let own_total = json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 9});
    assert_eq!(used(Style::OpenAI, Some(own_total)).await, usage(3, 4, 9, 0, 0));
    let null_details = json!({"prompt_tokens": 3, "completion_tokens": null, "prompt_tokens_details": null});
    assert_eq!(used(Style::OpenAI, Some(null_details)).await, usage(3, 0, 3, 0, 0));
    let anthropic = json!({"input_tokens": 12, "output_tokens": 1, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 40});
    assert_eq!(used(Style::Anthropic, Some(anthropic)).await, usage(12, 1, 13, 900, 40));
}

// CLIENT-39, CLIENT-48
#[tokio::test]
async fn files_of_tools_are_collected_in_call_order() {
    for style in STYLES {
        let toolkit = Toolkit::from_tools([
            define_tool("draw", "", None, |_, _| async {
                ToolResult::success("drawn").with_parts(vec![
                    ContentPart::text("a caption"),
                    ContentPart::from_base64("image/png", "AAAA", None),
                    ContentPart::from_link("application/pdf", "https://h/x.pdf", Some("x.pdf".into())),
                ])
            }),
            define_tool("say", "", None, |_, _| async {
                ToolResult::success("said").with_parts(vec![ContentPart::from_base64(
                    "audio/wav",
                    "BBBB",
                    None,
                )])
            }),
        ]);
        let turn = reply(style).tool_call("1", "say", json!({})).tool_call("2", "draw", json!({}));
        let result = run(style, [turn, reply(style).text("ok")], &toolkit).await;
        assert_eq!(
            serde_json::to_value(&result.files).unwrap(),
            json!([
                {"type": "audio", "mimeType": "audio/wav", "data": "BBBB", "from": "say", "callId": "1"},
                {"type": "image", "mimeType": "image/png", "data": "AAAA", "from": "draw", "callId": "2"},
                {"type": "file", "mimeType": "application/pdf", "url": "https://h/x.pdf", "from": "draw", "callId": "2"},
            ])
        );
        assert_eq!(result.tool_calls[1].parts.len(), 3);
        assert_eq!(result.tool_calls[1].parts[0], ContentPart::text("a caption"));
    }
}

// CLIENT-147: the spellings that other chapters rely on
#[tokio::test]
async fn a_result_serialises_in_camel_case_without_what_is_unset() {
    let toolkit = Toolkit::from_tools([
        define_tool("t", "", None, |_, _| async {
            ToolResult::failure("no")
                .with_metadata(object(json!({"k": 1})))
                .with_parts(vec![ContentPart::text("p")])
        }),
        define_tool("j", "", None, |_, _| async { Ok::<_, String>(Json(json!([1]))) }),
    ]);
    let turn = Reply::openai().tool_call("1", "t", json!({"a": 1})).tool_call("2", "j", json!({}));
    let answers = [turn.usage(1, 2), Reply::openai().text("ok").usage(3, 4).cache(2, 0)];
    let result = run(Style::OpenAI, answers, &toolkit).await;
    let mut value = serde_json::to_value(&result).unwrap();
    value["messages"] = json!(result.messages.len());
    insta::assert_snapshot!("result", serde_json::to_string_pretty(&value).unwrap());
    // It reads back.
    let read: RunResult = serde_json::from_value(serde_json::to_value(&result).unwrap()).unwrap();
    assert_eq!(read, result);

    let plain = run(Style::Anthropic, Reply::anthropic().text("x"), &Toolkit::default()).await;
    let keys: Vec<String> =
        serde_json::to_value(&plain).unwrap().as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        keys,
        [
            "text",
            "messages",
            "toolCalls",
            "toolCallCount",
            "turns",
            "usage",
            "model",
            "status",
            "finishReason",
            "files"
        ]
    );
}

// CLIENT-5
#[test]
fn statuses_and_limits_are_closed_vocabularies() {
    let statuses = [RunStatus::Done, RunStatus::Pending, RunStatus::Incomplete];
    assert_eq!(statuses.map(RunStatus::as_str), ["done", "pending", "incomplete"]);
    for status in statuses {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        assert_eq!(status.to_string(), status.as_str());
    }
    assert_eq!(
        [limits::MAX_TURNS, limits::CONTENT_PART, limits::TIMEOUT],
        ["maxTurns", "contentPart", "timeout"]
    );
}

// CLIENT-117, CLIENT-116
#[tokio::test]
async fn a_buffered_run_tells_its_events_but_no_deltas() {
    for style in STYLES {
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let (ask, _) = asking("ask", "Which city?");
        let wait_for: toolnexus_core::WaitFor = Arc::new(|request| {
            Box::pin(
                async move { Ok(toolnexus_core::Answer { id: request.id, ok: true, ..Default::default() }) },
            )
        });
        let toolkit = Toolkit::from_parts(ToolkitParts {
            tools: vec![add(), ask],
            wait_for: Some(wait_for),
            ..Default::default()
        });
        let server = server([
            reply(style)
                .text("thinking aloud")
                .tool_call("1", "add", json!({"a": 1, "b": 2}))
                .tool_call("2", "ask", json!({}))
                .usage(10, 5),
            reply(style).text("ok").usage(20, 5),
        ])
        .await;
        let client = create_client(options(style, server.base_url()));
        let run = RunOptions {
            on_event: Some(Arc::new(move |event: &StreamEvent| sink.lock().unwrap().push(event.clone()))),
            ..Default::default()
        };
        let result = within(client.run_with("hi", &toolkit, run)).await.unwrap();
        let events = events.lock().unwrap().clone();
        assert_eq!(
            kinds(&events),
            ["usage", "tool_call", "tool_call", "tool_result", "pending", "tool_result", "usage", "done"]
        );
        assert_eq!(support::done(&events), &result);
        // The running total, not the turn's.
        let StreamEvent::Usage { usage } = &events[6] else { panic!() };
        assert_eq!((usage.prompt_tokens, usage.total_tokens), (30, 40));
        assert_eq!(*usage, result.usage);
    }
}

// CLIENT-24, CLIENT-25: requests leave through the host's transport, with everything they need
#[tokio::test]
async fn a_host_can_carry_the_requests() {
    for style in STYLES {
        let double = Double::new([Answer::text(style, "over the double")]);
        let result = create_client(double.options(style)).run("hi", &Toolkit::default()).await.unwrap();
        assert_eq!(result.text, "over the double");
        let request = &double.seen()[0].request;
        assert_eq!(
            (request.method.as_str(), request.headers["content-type"].as_bytes()),
            ("POST", b"application/json".as_slice())
        );
        assert!(!request.cancel.is_cancelled());
    }
}

// CLIENT-13: connections are kept
#[tokio::test]
async fn the_turns_of_a_run_share_a_connection() {
    for style in STYLES {
        let server = server([
            reply(style).tool_call("1", "echo", json!({})),
            reply(style).text("a"),
            reply(style).text("b"),
        ])
        .await;
        let client = create_client(options(style, server.base_url()));
        let toolkit = Toolkit::from_tools([echo()]);
        within(client.run("hi", &toolkit)).await.unwrap();
        within(client.clone().run("hi", &toolkit)).await.unwrap();
        assert_eq!((server.request_count(), server.accepted_connections()), (3, 1));
    }
}

// design: the futures can be spawned, handles are cheap clones
#[test]
fn everything_can_move_between_threads() {
    fn moves<T: Send>(_: &T) {}
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let client = create_client(ClientOptions::default());
    let toolkit = Toolkit::default();
    shared(&client);
    moves(&client.run("hi", &toolkit));
    moves(&client.ask("hi", &toolkit, ""));
    moves(&client.stream("hi", &toolkit));
    shared(&Message::from(json!({})));
}
