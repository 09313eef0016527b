//! Hooks around tools that ask somebody outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::hooks::{
    Seen, Veto, Watch, answering, calling, hook_error, outputs, result_texts, run_tools, veto,
};
use support::tools::{asking, fixed, object, recorded};
use support::{MetricLog, STYLES, every_way, options, server, within};
use tokio::sync::{Barrier, Semaphore};
use toolnexus_core::{Answer as RequestAnswer, Request, Tool, ToolResult, Toolkit, WaitFor, pending};
use toolnexus_llm::run_log::{MemoryRunLog, RunLog};
use toolnexus_llm::{
    AfterToolEvent, BeforeToolEvent, ClientOptions, Hooks, ResumeOptions, RunDurableOptions, RunStatus,
    ToolOverride, create_client,
};

// CLIENT-54, CLIENT-55, CLIENT-63: a gate that asks; once granted, the tool itself runs
#[tokio::test]
async fn a_gate_may_ask_before_the_tool_runs() {
    for (style, mode) in every_way() {
        for rewritten in [None, Some(object(json!({"of": "less"})))] {
            let (tool, record) = recorded("deploy", |_, _| ToolResult::success("deployed"));
            let (watch, watching) = Watch::new();
            let calls = watch.before_tool.clone();
            let args = rewritten.clone();
            let hooks = watching.with_before_tool(move |event| {
                calls.push(event);
                let result = pending(Request { prompt: "May I?".into(), ..Default::default() });
                let verdict = ToolOverride { args: args.clone(), result: Some(result) };
                async move { Ok(Some(verdict)) }
            });
            let server = server(calling(style, &["deploy"])).await;
            let metrics = MetricLog::default();
            let client = create_client(ClientOptions {
                hooks: Some(hooks),
                wait_for: Some(answering(true)),
                on_metric: Some(metrics.sink()),
                ..options(style, server.base_url())
            });
            let result = mode.execute(&client, &Toolkit::from_tools([tool])).await.unwrap();
            let ran_with = rewritten.unwrap_or_else(|| object(json!({"of": "deploy"})));
            assert_eq!(outputs(&result), ["deployed"]);
            assert_eq!(result.tool_calls[0].args, ran_with);
            assert_eq!(record.args(), [Value::Object(ran_with.clone())]);
            assert!(record.all()[0].context.answer.as_ref().is_some_and(|answer| answer.ok));
            assert_eq!(watch.before_tool.all().len(), 1, "not called again for the retry");
            let after = watch.after_tool.all();
            assert_eq!(after.len(), 1);
            assert_eq!((&after[0].args, after[0].result.output.as_str()), (&ran_with, "deployed"));
            // CLIENT-71, CLIENT-72
            let tool = |pending: bool| json!({"event": "tool", "tool": "deploy", "source": "native", "is_error": false, "pending": pending});
            assert_eq!(metrics.of("tool"), [tool(true), tool(false)]);
        }
    }
}

// CLIENT-54, CLIENT-55, CLIENT-66: the gate's question is declined, not answered, or followed by another
#[tokio::test]
async fn a_gate_that_is_not_granted_stops_the_tool() {
    for (wait_for, suspends, output, runs, after_calls) in [
        (Some(answering(false)), false, "declined/expired: May I?", 0, 1),
        (None, false, "May I?", 0, 0),
        (Some(answering(true)), true, "unresolved: May I?", 1, 1),
    ] {
        let (tool, record) = recorded("deploy", move |_, _| {
            if suspends {
                pending(Request { prompt: "And where?".into(), ..Default::default() })
            } else {
                ToolResult::success("deployed")
            }
        });
        let (watch, watching) = Watch::new();
        let hooks = watching.with_before_tool(|_| async {
            let ask = pending(Request { prompt: "May I?".into(), ..Default::default() });
            Ok(Some(ToolOverride::result(ask)))
        });
        let halts = wait_for.is_none();
        let result =
            run_tools(vec![tool], |options| ClientOptions { hooks: Some(hooks), wait_for, ..options })
                .await
                .unwrap();
        assert_eq!(outputs(&result), [output]);
        assert_eq!(result.status, if halts { RunStatus::Pending } else { RunStatus::Done });
        assert_eq!(record.count(), runs);
        let after = watch.after_tool.all();
        assert_eq!(after.len(), after_calls);
        assert!(after.iter().all(|event| event.result.output == output && event.result.is_error));
    }
}

// CLIENT-55, D8: exactly once, on whatever replaces the suspension; its override is the final result
#[tokio::test]
async fn after_tool_sees_a_suspended_call_once() {
    for style in STYLES {
        for (case, wait_for, seen) in [
            ("resolved", answering(true), "answered: yes"),
            ("declined", answering(false), "declined/expired: Which city?"),
            ("unresolved", answering(true), "unresolved: Which city?"),
        ] {
            let tool = if case == "unresolved" {
                fixed_suspension("ask", "Which city?")
            } else {
                asking("ask", "Which city?").0
            };
            let calls = Seen::new();
            let kept = calls.clone();
            let hooks = Hooks::default().with_after_tool(move |event: AfterToolEvent| {
                kept.push((event.result.output.clone(), event.result.is_error, event.turn));
                async move {
                    let output = format!("[{}]", event.result.output);
                    Ok(Some(ToolOverride::result(ToolResult { output, ..event.result })))
                }
            });
            let server = server(calling(style, &["ask"])).await;
            let client = create_client(ClientOptions {
                hooks: Some(hooks),
                wait_for: Some(wait_for),
                ..options(style, server.base_url())
            });
            let result = within(client.run("hi", &Toolkit::from_tools([tool]))).await.unwrap();
            assert_eq!(calls.all(), [(seen.to_owned(), case != "resolved", 0)], "{style:?} {case}");
            assert_eq!(outputs(&result), [format!("[{seen}]")]);
            assert_eq!(result_texts(style, &result.messages), [format!("[{seen}]")]);
        }
    }
}

/// A tool that asks whenever it runs.
fn fixed_suspension(name: &str, prompt: &str) -> Tool {
    let prompt = prompt.to_owned();
    recorded(name, move |_, _| pending(Request { prompt: prompt.clone(), ..Default::default() })).0
}

// CLIENT-53, CLIENT-55: rewritten arguments are those of the retry too; before_tool is not asked again
#[tokio::test]
async fn a_retry_runs_with_the_rewritten_arguments() {
    for wait_for in [Some(answering(true)), None] {
        let (tool, record) = asking("ask", "Which city?");
        let (watch, watching) = Watch::new();
        let calls = watch.before_tool.clone();
        let hooks = watching.with_before_tool(move |event| {
            calls.push(event);
            async { Ok(Some(ToolOverride::args(object(json!({"of": "other"}))))) }
        });
        let answered = wait_for.is_some();
        let result =
            run_tools(vec![tool], |options| ClientOptions { hooks: Some(hooks), wait_for, ..options })
                .await
                .unwrap();
        assert_eq!(record.args(), vec![json!({"of": "other"}); if answered { 2 } else { 1 }]);
        assert_eq!(result.tool_calls[0].args, object(json!({"of": "other"})));
        assert_eq!(watch.before_tool.all().len(), 1);
        // Skipped for the suspension itself.
        assert_eq!(watch.after_tool.all().len(), usize::from(answered));
    }
}

// CLIENT-55, CLIENT-72: after_tool may ask in the place of a result
#[tokio::test]
async fn after_tool_may_ask() {
    let (tool, record) = recorded("deploy", |_, _| ToolResult::success("deployed"));
    let hooks = Hooks::default().with_after_tool(|event: AfterToolEvent| async move {
        let ask = pending(Request { prompt: "Is that right?".into(), ..Default::default() });
        Ok(Some(ToolOverride::result(ask)).filter(|_| event.result.output == "deployed"))
    });
    let metrics = MetricLog::default();
    let sink = metrics.sink();
    let result = run_tools(vec![tool], |options| ClientOptions {
        hooks: Some(hooks),
        wait_for: Some(answering(true)),
        on_metric: Some(sink),
        ..options
    })
    .await
    .unwrap();
    // One question is all a call may ask.
    assert_eq!(outputs(&result), ["unresolved: Is that right?"]);
    assert_eq!(record.count(), 2);
    let tool = metrics.of("tool");
    assert_eq!((&tool[0]["pending"], &tool[0]["is_error"]), (&json!(true), &json!(false)));
}

// CLIENT-64, CLIENT-56: a question does not wait for the hook of a later call
#[tokio::test]
async fn a_question_does_not_wait_for_hooks_of_later_calls() {
    for style in STYLES {
        let answered = Arc::new(Semaphore::new(0));
        let (tell, wait) = (Arc::clone(&answered), Arc::clone(&answered));
        let wait_for: WaitFor = Arc::new(move |request| {
            tell.add_permits(1);
            Box::pin(async move { Ok(RequestAnswer { id: request.id, ok: true, ..Default::default() }) })
        });
        let hooks = Hooks::default().with_before_tool(move |event: BeforeToolEvent| {
            let wait = Arc::clone(&wait);
            async move {
                if event.name == "slow" {
                    wait.acquire().await.unwrap().forget();
                }
                Ok(None)
            }
        });
        let server = server(calling(style, &["ask", "slow"])).await;
        let client = create_client(ClientOptions {
            hooks: Some(hooks),
            wait_for: Some(wait_for),
            ..options(style, server.base_url())
        });
        let toolkit = Toolkit::from_tools([asking("ask", "Which city?").0, fixed("slow", "done")]);
        let result = within(client.run("hi", &toolkit)).await.unwrap();
        assert_eq!(outputs(&result), ["answered: yes", "done"]);
    }
}

// CLIENT-54, CLIENT-53, CLIENT-55: the same when the answer comes to another process, which has the log
#[tokio::test]
async fn a_gate_may_ask_across_processes() {
    for style in STYLES {
        let log: Arc<dyn RunLog> = Arc::new(MemoryRunLog::default());
        let (tool, record) = recorded("deploy", |_, _| ToolResult::success("deployed"));
        let toolkit = Toolkit::from_tools([tool]);
        let (watch, watching) = Watch::new();
        let calls = watch.before_tool.clone();
        let hooks = watching.with_before_tool(move |event| {
            calls.push(event);
            let ask = pending(Request { prompt: "May I?".into(), ..Default::default() });
            let args = object(json!({"of": "less"}));
            async { Ok(Some(ToolOverride { args: Some(args), result: Some(ask) })) }
        });
        let server = server(calling(style, &["deploy"])).await;
        let client = || {
            create_client(ClientOptions { hooks: Some(hooks.clone()), ..options(style, server.base_url()) })
        };
        let options = RunDurableOptions { run_id: "r".into(), ..RunDurableOptions::new(Arc::clone(&log)) };
        let paused = within(client().run_durable("hi", &toolkit, options)).await.unwrap();
        assert_eq!((paused.status, record.count()), (RunStatus::Pending, 0));
        assert!(watch.after_tool.all().is_empty());

        let id = paused.pending.unwrap().id;
        let answer = RequestAnswer { id, ok: true, ..Default::default() };
        let options = ResumeOptions { answer: Some(answer), ..ResumeOptions::new(log, "r") };
        let result = within(client().resume(&toolkit, options)).await.unwrap();
        assert_eq!(outputs(&result), ["deployed"]);
        assert_eq!(record.args(), [json!({"of": "less"})]);
        assert_eq!((watch.before_tool.all().len(), watch.after_tool.all().len()), (1, 1));
    }
}

// SUSPEND-49, CLIENT-55, CLIENT-116: asked at once, answered in any order, told and hooked once each in call order
#[tokio::test]
async fn questions_asked_at_once_have_their_hooks() {
    for (style, mode) in every_way() {
        // Every question waits for all of them; the last is answered first.
        let all_asked = Arc::new(Barrier::new(3));
        let turn = Arc::new(Semaphore::new(0));
        let answered = Seen::new();
        let kept = answered.clone();
        let wait_for: WaitFor = Arc::new(move |request: Request| {
            let (all_asked, turn, answered) = (Arc::clone(&all_asked), Arc::clone(&turn), kept.clone());
            Box::pin(async move {
                all_asked.wait().await;
                if request.prompt != "c?" {
                    turn.acquire().await?.forget();
                }
                answered.push(request.prompt.clone());
                turn.add_permits(1);
                Ok(RequestAnswer { id: request.id, ok: true, ..Default::default() })
            })
        });
        let (watch, hooks) = Watch::new();
        let server = server(calling(style, &["a", "b", "c"])).await;
        let metrics = MetricLog::default();
        let client = create_client(ClientOptions {
            hooks: Some(hooks),
            wait_for: Some(wait_for),
            concurrent_wait_for: true,
            on_metric: Some(metrics.sink()),
            ..options(style, server.base_url())
        });
        let toolkit = Toolkit::from_tools(["a", "b", "c"].map(|name| asking(name, &format!("{name}?")).0));
        let result = mode.execute(&client, &toolkit).await.unwrap();
        assert_eq!(answered.all()[0], "c?");
        let names: Vec<_> = result.tool_calls.iter().map(|record| record.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let mut hooked: Vec<_> = watch.after_tool.all().into_iter().map(|event| event.name).collect();
        hooked.sort();
        assert_eq!((hooked, watch.before_tool.all().len()), (vec!["a".into(), "b".into(), "c".into()], 3));
        let waits = metrics.of("tool").iter().filter(|event| event["pending"] == true).count();
        assert_eq!((waits, metrics.of("tool").len()), (3, 6));
    }
}

// CLIENT-49, CLIENT-56, SUSPEND-49: a hook that fails while questions are open waits for them and is told
#[tokio::test]
async fn a_hook_may_fail_while_questions_are_open() {
    let all_asked = Arc::new(Barrier::new(2));
    let failed = Arc::new(Semaphore::new(0));
    let tell = Arc::clone(&failed);
    let wait_for: WaitFor = Arc::new(move |request: Request| {
        let (all_asked, failed) = (Arc::clone(&all_asked), Arc::clone(&failed));
        Box::pin(async move {
            all_asked.wait().await;
            // The first is answered at once; its hook fails; then the second is answered.
            if request.prompt == "b?" {
                failed.acquire().await?.forget();
            }
            Ok(RequestAnswer { id: request.id, ok: true, ..Default::default() })
        })
    });
    let hooks = Hooks::default().with_after_tool(move |event: AfterToolEvent| {
        let fails = event.name == "a";
        if fails {
            tell.add_permits(1);
        }
        async move { if fails { Err(veto(1)) } else { Ok(None) } }
    });
    let (b, record) = asking("b", "b?");
    let error = run_tools(vec![asking("a", "a?").0, b], |options| ClientOptions {
        hooks: Some(hooks),
        wait_for: Some(wait_for),
        concurrent_wait_for: true,
        ..options
    })
    .await
    .unwrap_err();
    assert_eq!(hook_error(&error), ("after_tool", Some(&Veto(1))));
    assert_eq!(record.count(), 2, "what was answered ran");
}
