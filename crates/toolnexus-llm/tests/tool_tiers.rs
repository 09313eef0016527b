//! Tool tiers through runs: what is sent, how tools are found and called, and what everybody sees of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::hooks::{Seen, Watch, answering, outputs, result_texts};
use support::tools::{asking, fixed, object, recorded};
use support::{MetricLog, Mode, STYLES, drain, every_way, options, reply, server, within};
use toolnexus_core::{Tool, ToolContext, ToolHints, ToolResult, Toolkit, define_tool};
use toolnexus_llm::{
    AskOptions, BeforeLlmEvent, BeforeToolEvent, ClientOptions, Hooks, LlmOverride, PromptCacheOptions,
    RunResult, StreamEvent, Style, ToolOverride, ToolTier, ToolTierOptions, create_client,
};
use toolnexus_testkit::model::ModelReply;
use toolnexus_testkit::warnings::Warnings;

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn tiers(core: &[&str], deferred: &[&str]) -> Option<ToolTierOptions> {
    Some(ToolTierOptions { core: named(core), deferred: named(deferred), ..Default::default() })
}

/// The tools of the cases: `deploy` gives `deployed <env>`.
fn notes_lint_deploy() -> Vec<Tool> {
    let deploy = define_tool("deploy", "Deploys.", None, |args: Value, _| async move {
        Ok::<_, String>(format!("deployed {}", args["env"].as_str().unwrap_or("nothing")))
    });
    vec![fixed("read_notes", "notes"), fixed("lint", "clean"), deploy]
}

/// The declarations in a body, whatever the style wraps them into.
fn declarations(style: Style, body: &Value) -> Vec<Value> {
    let tools = body["tools"].as_array().unwrap();
    match style {
        Style::OpenAI => tools.iter().map(|tool| tool["function"].clone()).collect(),
        Style::Anthropic => tools.clone(),
        Style::Gemini => {
            tools.iter().flat_map(|tool| tool["functionDeclarations"].as_array().unwrap().clone()).collect()
        }
    }
}

fn declared_names(style: Style, body: &Value) -> Vec<String> {
    declarations(style, body).iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The outputs of one turn of these calls under tiers, with all hooks watching.
async fn run_calls(style: Style, tools: Vec<Tool>, turn: ModelReply) -> (RunResult, Watch, Vec<Value>) {
    let server = server([turn, reply(style).text("ok")]).await;
    let (watch, hooks) = Watch::new();
    let metrics = MetricLog::default();
    let client = create_client(ClientOptions {
        tool_tiers: tiers(&[], &[]),
        hooks: Some(hooks),
        on_metric: Some(metrics.sink()),
        ..options(style, server.base_url())
    });
    let result = within(client.run("hi", &Toolkit::from_tools(tools))).await.unwrap();
    (result, watch, metrics.of("tool"))
}

// CLIENT-83, CLIENT-84, case T1
#[tokio::test]
async fn core_tools_and_the_two_are_sent() {
    for (style, mode) in every_way() {
        let server = server([reply(style).text("ok"), reply(style).text("ok")]).await;
        let toolkit = Toolkit::from_tools(notes_lint_deploy());
        let plain = options(style, server.base_url());
        // A name in both lists is core; one that no tool has is ignored.
        let tool_tiers = tiers(&["read_notes", "nobody"], &["deploy", "read_notes", "nothing"]);
        let client = create_client(ClientOptions { tool_tiers, ..plain.clone() });
        mode.execute(&client, &toolkit).await.unwrap();
        let plan: BTreeMap<String, ToolTier> = [
            ("deploy".to_owned(), ToolTier::Deferred),
            ("lint".to_owned(), ToolTier::Listed),
            ("read_notes".to_owned(), ToolTier::Core),
        ]
        .into();
        assert_eq!(client.tool_tier_plan(&toolkit), Some(plan));
        let body = server.requests()[0].json();
        assert_eq!(declared_names(style, &body), ["read_notes", "tool_search", "call_tool"], "{mode:?}");
        assert_eq!(body.get("tool_choice").is_some(), style == Style::OpenAI);
        // CLIENT-87: the listing, as the model reads it.
        let search = &declarations(style, &body)[1];
        assert!(search["description"].as_str().unwrap().ends_with("\n- deploy\n- lint — lint"), "{search}");

        // Without tiers every tool is sent, and nothing is planned.
        let client = create_client(plain);
        mode.execute(&client, &toolkit).await.unwrap();
        assert_eq!(declared_names(style, &server.requests()[1].json()), ["read_notes", "lint", "deploy"]);
        assert_eq!(client.tool_tier_plan(&toolkit), None);
    }
}

// CLIENT-84..91, CLIENT-39, CLIENT-115, CLIENT-71, case T2
#[tokio::test]
async fn a_tool_is_found_and_called() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style).tool_call("s1", "tool_search", json!({"query": "select:deploy"})),
            reply(style).tool_call(
                "c1",
                "call_tool",
                json!({"name": "deploy", "arguments": {"env": "prod"}}),
            ),
            reply(style).text("done"),
        ])
        .await;
        let (watch, hooks) = Watch::new();
        let metrics = MetricLog::default();
        let client = create_client(ClientOptions {
            tool_tiers: tiers(&["read_notes"], &["deploy"]),
            hooks: Some(hooks),
            on_metric: Some(metrics.sink()),
            ..options(style, server.base_url())
        });
        let mut tools = notes_lint_deploy();
        let hints = ToolHints { destructive: true, ..Default::default() };
        let deploy = tools.pop().unwrap().hints(hints);
        tools.push(deploy);
        let toolkit = Toolkit::from_tools(tools);
        let (result, events) = match mode {
            Mode::Run => (mode.execute(&client, &toolkit).await.unwrap(), None),
            Mode::Stream => {
                let (events, error) = within(drain(client.stream("hi", &toolkit))).await;
                assert!(error.is_none());
                (support::done(&events).clone(), Some(events))
            }
        };

        // The array never changes.
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        let array = format!("\"tools\":{}", requests[0].json()["tools"]);
        assert!(requests.iter().all(|request| request.text().contains(&array)), "{style:?} {mode:?}");

        // Hooks see the call inside, with the id outside.
        let before = watch.before_tool.all();
        assert_eq!(
            before,
            [BeforeToolEvent {
                name: "deploy".into(),
                args: object(json!({"env": "prod"})),
                id: "c1".into(),
                turn: 1,
                hints: Some(hints),
            }]
        );
        let after = watch.after_tool.all();
        assert_eq!((after.len(), after[0].name.as_str(), after[0].id.as_str()), (1, "deploy", "c1"));

        // So do records and metrics.
        let records: Vec<_> = result.tool_calls.iter().map(|r| (r.name.as_str(), r.via.as_deref())).collect();
        assert_eq!(records, [("tool_search", None), ("deploy", Some("call_tool"))]);
        assert_eq!(result.tool_calls[1].args, object(json!({"env": "prod"})));
        assert_eq!(result.tool_calls[1].output, "deployed prod");
        let found: Value = serde_json::from_str(&result.tool_calls[0].output).unwrap();
        assert_eq!((&found[0]["name"], found.as_array().unwrap().len()), (&json!("deploy"), 1));
        let tool = |name: &str, source: &str| json!({"event": "tool", "tool": name, "source": source, "is_error": false, "pending": false});
        assert_eq!(metrics.of("tool"), [tool("tool_search", "builtin"), tool("deploy", "native")]);

        // The provider knows the call as it made it, and is answered under its id and name.
        let transcript = json!(result.messages).to_string();
        assert!(transcript.contains("\"call_tool\""), "{transcript}");
        let results = result_texts(style, &result.messages);
        assert_eq!(results, [result.tool_calls[0].output.as_str(), "deployed prod"]);
        let answer = json!(result.messages[4]);
        match style {
            Style::OpenAI => assert_eq!(answer["tool_call_id"], "c1"),
            Style::Anthropic => assert_eq!(answer["content"][0]["tool_use_id"], "c1"),
            Style::Gemini => {
                let response = &answer["parts"][0]["functionResponse"];
                assert_eq!((&response["name"], &response["id"]), (&json!("call_tool"), &json!("c1")));
            }
        }

        let Some(events) = events else { continue };
        let told: Vec<(String, String, Option<String>)> = events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::ToolCall { name, args, via, .. } => {
                    Some((name.clone(), Value::Object(args.clone()).to_string(), via.clone()))
                }
                StreamEvent::ToolResult { name, output, via, .. } => {
                    Some((name.clone(), output.clone(), via.clone()))
                }
                _ => None,
            })
            .collect();
        let via = Some("call_tool".to_owned());
        assert_eq!(told.len(), 4);
        assert_eq!(told[0], ("tool_search".into(), r#"{"query":"select:deploy"}"#.into(), None));
        assert_eq!(told[2], ("deploy".into(), r#"{"env":"prod"}"#.into(), via.clone()));
        assert_eq!(told[3], ("deploy".into(), "deployed prod".into(), via));
    }
}

// CLIENT-90, CLIENT-35: the forms in which models write the inner arguments
#[tokio::test]
async fn inner_arguments_come_in_many_forms() {
    for style in STYLES {
        for (arguments, expected) in [
            (Some(json!({"a": 1})), Ok(json!({"a": 1}))),
            (Some(json!("{\"a\": 1}")), Ok(json!({"a": 1}))),
            (Some(json!("  ")), Ok(json!({}))),
            (Some(Value::Null), Ok(json!({}))),
            (None, Ok(json!({}))),
            (Some(json!("{bad")), Err("invalid arguments for tool \"t\": not valid JSON")),
            (Some(json!("[1]")), Err("invalid arguments for tool \"t\": expected a JSON object")),
            (Some(json!([1])), Err("invalid arguments for tool \"t\": expected a JSON object")),
            (Some(json!(7)), Err("invalid arguments for tool \"t\": expected a JSON object")),
        ] {
            let (tool, record) = recorded("t", |_, _| ToolResult::success("ran"));
            let mut outer = json!({"name": "t"});
            if let Some(arguments) = &arguments {
                outer["arguments"] = arguments.clone();
            }
            let turn = reply(style).tool_call("c1", "call_tool", outer);
            let (result, watch, metrics) = run_calls(style, vec![tool], turn).await;
            let call = &result.tool_calls[0];
            assert_eq!((call.name.as_str(), call.via.as_deref()), ("t", Some("call_tool")));
            assert_eq!((metrics[0]["tool"].as_str(), metrics.len()), (Some("t"), 1));
            match expected {
                Ok(args) => {
                    assert_eq!(record.args(), std::slice::from_ref(&args), "{style:?} {arguments:?}");
                    assert_eq!(Value::Object(call.args.clone()), args);
                    assert_eq!(record.all()[0].context.call_id, "c1");
                }
                Err(error) => {
                    assert!(call.output.starts_with(error), "{}", call.output);
                    assert_eq!((record.count(), call.args.len(), call.is_error), (0, 0, true));
                    assert!(watch.before_tool.all().is_empty() && watch.after_tool.all().is_empty());
                    assert_eq!(
                        (&metrics[0]["is_error"], &metrics[0]["source"]),
                        (&json!(true), &json!("native"))
                    );
                }
            }
        }
    }
}

// CLIENT-91: what call_tool cannot mean
#[tokio::test]
async fn names_that_no_tool_has_are_errors() {
    for style in STYLES {
        let turn = reply(style)
            .tool_call("1", "call_tool", json!({"name": "call_tool", "arguments": {"name": "t"}}))
            .tool_call("2", "call_tool", json!({"name": "nobody", "arguments": {}}))
            .tool_call("3", "call_tool", json!({"arguments": {}}))
            .tool_call("4", "call_tool", json!({"name": 7}))
            .tool_call("5", "call_tool", json!({"name": "t"}));
        let (tool, record) = recorded("t", |_, _| ToolResult::success("ran"));
        let (result, _, metrics) = run_calls(style, vec![tool], turn).await;
        assert_eq!(
            outputs(&result),
            ["unknown tool: call_tool", "unknown tool: nobody", "unknown tool: ", "unknown tool: ", "ran"]
        );
        assert!(result.tool_calls[..4].iter().all(|call| call.is_error));
        assert_eq!(record.count(), 1);
        // CLIENT-38
        assert_eq!(metrics.iter().filter(|event| event["source"] == "custom").count(), 4);
    }
}

// CLIENT-88, CLIENT-89, CLIENT-91: searches, direct and through call_tool, reach no tool hook
#[tokio::test]
async fn searches_are_answered_by_the_client() {
    for style in STYLES {
        let turn = reply(style)
            .tool_call("1", "tool_search", json!({"query": "  "}))
            .tool_call("2", "tool_search", json!({}))
            .tool_call("3", "tool_search", json!({"query": "nothing-like-this"}))
            .tool_call("4", "tool_search", json!({"query": "LINT deploy", "limit": 1}))
            .tool_call(
                "5",
                "call_tool",
                json!({"name": "tool_search", "arguments": {"query": "select: lint ,x"}}),
            );
        let (result, watch, metrics) = run_calls(style, notes_lint_deploy(), turn).await;
        let found: Vec<&str> = outputs(&result);
        assert_eq!(found[..3], ["tool_search needs a query", "tool_search needs a query", "[]"]);
        let names = |json: &str| -> Vec<String> {
            let list: Vec<Value> = serde_json::from_str(json).unwrap();
            list.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!((names(found[3]), names(found[4])), (named(&["deploy"]), named(&["lint"])));
        // CLIENT-89: the definition as it is, in this shape and order
        assert!(
            found[4].starts_with(r#"[{"name":"lint","description":"lint","inputSchema":{"#),
            "{}",
            found[4]
        );
        let last = &result.tool_calls[4];
        assert_eq!((last.name.as_str(), last.via.as_deref()), ("tool_search", Some("call_tool")));
        let errors: Vec<bool> = result.tool_calls.iter().map(|call| call.is_error).collect();
        assert_eq!(errors, [true, true, false, false, false]);
        assert!(watch.before_tool.all().is_empty() && watch.after_tool.all().is_empty());
        assert!(metrics.iter().all(|event| event["source"] == "builtin" && event["tool"] == "tool_search"));
        assert_eq!(metrics.len(), 5);
    }
}

// CLIENT-91: any tool may be called by its own name; arguments that are no JSON leave the call as it is
#[tokio::test]
async fn a_tool_may_be_called_by_its_own_name() {
    for style in STYLES {
        let turn = reply(style).tool_call("1", "deploy", json!({"env": "test"})).tool_call_raw(
            "2",
            "call_tool",
            "{bad",
        );
        let (result, watch, _) = run_calls(style, notes_lint_deploy(), turn).await;
        assert_eq!(outputs(&result)[0], "deployed test");
        assert!(outputs(&result)[1].starts_with("invalid arguments for tool \"call_tool\": "), "{style:?}");
        assert_eq!(result.tool_calls[0].via, None);
        assert_eq!((result.tool_calls[1].name.as_str(), &result.tool_calls[1].via), ("call_tool", &None));
        assert_eq!(watch.before_tool.all().len(), 1);
    }
}

// CLIENT-90, CLIENT-53, CLIENT-65: a call through call_tool is rewritten, suspended and answered as any other
#[tokio::test]
async fn hooks_and_questions_work_through_call_tool() {
    for (style, mode) in every_way() {
        for granted in [true, false] {
            let (tool, record) = asking("ask", "Which city?");
            let hooks = Hooks::default().with_before_tool(|event: BeforeToolEvent| async move {
                let mut args = event.args;
                args.insert("more".into(), json!(true));
                Ok(Some(ToolOverride::args(args)))
            });
            let server = server([
                reply(style).tool_call("c1", "call_tool", json!({"name": "ask", "arguments": {"of": 1}})),
                reply(style).text("ok"),
            ])
            .await;
            let client = create_client(ClientOptions {
                tool_tiers: tiers(&[], &[]),
                hooks: Some(hooks),
                wait_for: Some(answering(granted)),
                ..options(style, server.base_url())
            });
            let result = mode.execute(&client, &Toolkit::from_tools([tool])).await.unwrap();
            let output = if granted { "answered: yes" } else { "declined/expired: Which city?" };
            assert_eq!(outputs(&result), [output]);
            assert_eq!(result_texts(style, &result.messages), [output]);
            let args = json!({"of": 1, "more": true});
            assert_eq!(record.args(), vec![args.clone(); if granted { 2 } else { 1 }]);
            let call = &result.tool_calls[0];
            assert_eq!((call.name.as_str(), call.via.as_deref()), ("ask", Some("call_tool")));
            assert_eq!(Value::Object(call.args.clone()), args);
            // The model's own arguments stay in the transcript.
            assert!(!json!(result.messages).to_string().contains("more"));
        }
    }
}

/// A tool that registers another one in the toolkit of its run.
fn installer(toolkit: &Toolkit) -> Tool {
    let toolkit = toolkit.clone();
    define_tool("install", "Installs.", None, move |_, _: ToolContext| {
        toolkit.register([fixed("late", "late output")]);
        async { Ok::<_, String>("installed") }
    })
}

// CLIENT-85, CLIENT-88, CLIENT-84, case T4
#[tokio::test]
async fn late_tools_are_found_and_called() {
    for (style, mode) in every_way() {
        let server = server([
            reply(style).tool_call("1", "install", json!({})),
            reply(style).tool_call("2", "tool_search", json!({"query": "late"})),
            reply(style).tool_call("3", "call_tool", json!({"name": "late"})),
            reply(style).text("ok"),
            reply(style).text("again"),
            reply(style).text("after the reset"),
        ])
        .await;
        let client =
            create_client(ClientOptions { tool_tiers: tiers(&[], &[]), ..options(style, server.base_url()) });
        let toolkit = Toolkit::default();
        toolkit.register([installer(&toolkit)]);
        let result = mode.execute(&client, &toolkit).await.unwrap();
        assert!(outputs(&result)[1].contains("\"late\""), "{:?}", outputs(&result));
        assert_eq!(outputs(&result)[2], "late output");
        let array = |at: usize| server.requests()[at].json()["tools"].to_string();
        assert!((1..4).all(|at| array(at) == array(0)));
        assert!(!client.tool_tier_plan(&toolkit).unwrap().contains_key("late"));

        // A clone has the same plan; another toolkit has its own.
        mode.execute(&client, &toolkit.clone()).await.unwrap();
        assert_eq!(array(4), array(0));
        assert!(client.tool_tier_plan(&Toolkit::default()).unwrap().is_empty());

        client.reset_tool_tiers(&toolkit);
        mode.execute(&client, &toolkit).await.unwrap();
        assert_ne!(array(5), array(0));
        assert_eq!(client.tool_tier_plan(&toolkit).unwrap()["late"], ToolTier::Listed);
    }
}

// CLIENT-85, CLIENT-86, case T3
#[tokio::test]
async fn a_budget_demotes_what_is_used_least() {
    let used = Arc::new(AtomicU64::new(0));
    let of_tool_4 = Arc::clone(&used);
    let client = create_client(ClientOptions {
        tool_tiers: Some(ToolTierOptions {
            core: named(&["tool_0", "tool_1", "tool_2", "tool_3", "tool_4"]),
            deferred: named(&["tool_5"]),
            budget_tokens: 450,
            count_tokens: Some(Arc::new(|_| 100)),
            usage_count: Some(Arc::new(move |name| match name {
                "tool_0" => 50,
                "tool_1" => 10,
                "tool_4" => of_tool_4.load(Ordering::Relaxed),
                _ => 0,
            })),
            ..Default::default()
        }),
        ..Double::new([]).options(Style::OpenAI)
    });
    let toolkit = Toolkit::from_tools((0..6).map(|n| fixed(&format!("tool_{n}"), "x")));
    let of = |tier: ToolTier| -> Vec<String> {
        let plan = client.tool_tier_plan(&toolkit).unwrap();
        plan.into_iter().filter(|(_, given)| *given == tier).map(|(name, _)| name).collect()
    };
    assert_eq!(of(ToolTier::Core), ["tool_0", "tool_1"]);
    assert_eq!(of(ToolTier::Listed), ["tool_2", "tool_3", "tool_4"]);
    assert_eq!(of(ToolTier::Deferred), ["tool_5"]);
    used.store(99, Ordering::Relaxed);
    assert_eq!(of(ToolTier::Core), ["tool_0", "tool_1"], "frozen");
    client.reset_all_tool_tiers();
    assert_eq!(of(ToolTier::Core), ["tool_0", "tool_4"]);
}

// CLIENT-84: with no tool at all the array is there from the beginning
#[tokio::test]
async fn without_tools_the_two_are_sent() {
    for (style, mode) in every_way() {
        let server = server(reply(style).text("ok")).await;
        let client =
            create_client(ClientOptions { tool_tiers: tiers(&[], &[]), ..options(style, server.base_url()) });
        mode.execute(&client, &Toolkit::default()).await.unwrap();
        let body = server.requests()[0].json();
        assert_eq!(declared_names(style, &body), ["tool_search", "call_tool"]);
        let search = &declarations(style, &body)[0];
        assert!(!search["description"].as_str().unwrap().contains("Available tools"), "{search}");
    }
}

// CLIENT-84, CLIENT-85: one array for all requests of a conversation, asked, continued or streamed
#[tokio::test]
async fn a_conversation_keeps_its_array() {
    for style in STYLES {
        let server = server([
            reply(style).tool_call("1", "call_tool", json!({"name": "lint"})),
            reply(style).text("one"),
            reply(style).text("two"),
            reply(style).text("three"),
        ])
        .await;
        let client = create_client(ClientOptions {
            tool_tiers: tiers(&["read_notes"], &[]),
            prompt_cache: Some(PromptCacheOptions::default()),
            ..options(style, server.base_url())
        });
        let toolkit = Toolkit::from_tools(notes_lint_deploy());
        within(client.ask("a", &toolkit, "c")).await.unwrap();
        toolkit.register([fixed("late", "x")]);
        within(client.ask("b", &toolkit, "c")).await.unwrap();
        let streamed = AskOptions { on_text: Some(Arc::new(|_: &str| {})), ..Default::default() };
        within(client.ask_with("c", &toolkit, "c", streamed)).await.unwrap();
        let requests = server.requests();
        assert_eq!(requests.len(), 4);
        let array = format!("\"tools\":{}", requests[0].json()["tools"]);
        assert!(requests.iter().all(|request| request.text().contains(&array)), "{style:?}");
        // CLIENT-80: the mark is on the last of them, which never changes
        assert_eq!(array.matches("cache_control").count(), usize::from(style == Style::Anthropic));
    }
}

// CLIENT-31, CLIENT-50: a hook sees the plan's array and may replace it for the run
#[tokio::test]
async fn before_llm_sees_the_plans_array() {
    for (style, mode) in every_way() {
        for replaces in [false, true] {
            let server = server([
                reply(style).tool_call("1", "call_tool", json!({"name": "lint"})),
                reply(style).text("ok"),
            ])
            .await;
            let seen = Seen::new();
            let kept = seen.clone();
            let hooks = Hooks::default().with_before_llm(move |event: BeforeLlmEvent| {
                let body = json!({"tools": *event.tools});
                kept.push(declared_names(style, &body));
                // The array with its last tool left out, or as it is.
                let mut tools = (*event.tools).clone();
                match tools[0].get_mut("functionDeclarations").and_then(Value::as_array_mut) {
                    Some(list) if replaces => drop(list.pop()),
                    None if replaces => drop(tools.pop()),
                    _ => {}
                }
                let first = event.turn == 0;
                async move { Ok(first.then(|| LlmOverride { tools: Some(tools), ..Default::default() })) }
            });
            let client = create_client(ClientOptions {
                tool_tiers: tiers(&["read_notes"], &[]),
                hooks: Some(hooks),
                ..options(style, server.base_url())
            });
            let toolkit = Toolkit::from_tools(notes_lint_deploy());
            let result = mode.execute(&client, &toolkit).await.unwrap();
            // It is unwrapped whether it was declared or not.
            assert_eq!((outputs(&result), result.tool_calls[0].name.as_str()), (vec!["clean"], "lint"));
            let all = named(&["read_notes", "tool_search", "call_tool"]);
            let left = if replaces { all[..2].to_vec() } else { all.clone() };
            assert_eq!(seen.all(), [all, left.clone()], "{style:?} {mode:?}");
            let bodies: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
            assert_eq!(bodies[0]["tools"], bodies[1]["tools"]);
            assert_eq!(declared_names(style, &bodies[1]), left);
        }
    }
}

// CLIENT-83, open point 21: under tiers the two names are the client's; without them, any tool's
#[tokio::test]
async fn tools_of_those_names_are_hidden_under_tiers_alone() {
    let style = Style::OpenAI;
    let own = || {
        let (search, searches) = recorded("tool_search", |_, _| ToolResult::success("own search"));
        let (call, calls) = recorded("call_tool", |_, _| ToolResult::success("own call"));
        (Toolkit::from_tools([search, call, fixed("lint", "clean")]), searches, calls)
    };
    let turn = || {
        let calls = [
            ("1", "tool_search", json!({"query": "select:lint,call_tool"})),
            ("2", "call_tool", json!({"name": "lint"})),
        ];
        [Answer::calls(style, &calls), Answer::text(style, "ok")]
    };
    let (toolkit, searches, calls) = own();
    let double = Double::new(turn());
    let warnings = Warnings::listen();
    let client = create_client(ClientOptions { tool_tiers: tiers(&[], &[]), ..double.options(style) });
    let result = within(client.run("hi", &toolkit)).await.unwrap();
    let found: Vec<Value> = serde_json::from_str(outputs(&result)[0]).unwrap();
    assert_eq!((found.len(), outputs(&result)[1]), (1, "clean"));
    assert_eq!((searches.count(), calls.count()), (0, 0));
    assert_eq!(declared_names(style, &double.body(0)), ["tool_search", "call_tool"]);
    assert_eq!((warnings.with("tool_search").len(), warnings.with("\"call_tool\"").len()), (1, 1));

    let (toolkit, searches, calls) = own();
    let double = Double::new(turn());
    let client = create_client(double.options(style));
    let result = within(client.run("hi", &toolkit)).await.unwrap();
    assert_eq!(outputs(&result), ["own search", "own call"]);
    assert_eq!((searches.count(), calls.count()), (1, 1));
    assert_eq!(calls.args(), [json!({"name": "lint"})]);
    assert_eq!(result.tool_calls[1].via, None);
}
