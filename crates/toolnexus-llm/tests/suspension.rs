//! Tools that ask somebody outside: resolvers, their order, and runs that stop at a question.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::double::{Answer as Reply, Double};
use support::tools::{asking, fixed, object, recorded};
use support::{CONTENT_STYLES, STYLES, drain, kinds, transcript};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{
    Answer, BoxError, Request, Tool, ToolResult, Toolkit, ToolkitParts, WaitFor, answer_declined,
    define_tool, pending, pending_with_output,
};
use toolnexus_llm::{
    ClientError, ClientOptions, RunOptions, RunResult, RunStatus, StreamEvent, Style, WaitForCtx,
    create_client,
};

/// A resolver that notes every request and answers with `answer`.
fn resolver(
    answer: impl Fn(&Request) -> Result<Answer, BoxError> + Send + Sync + 'static,
) -> (WaitFor, Arc<Mutex<Vec<Request>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let wait_for: WaitFor = Arc::new(move |request| {
        let answer = answer(&request);
        kept.lock().unwrap().push(request);
        Box::pin(async move { answer })
    });
    (wait_for, asked)
}

fn granted(text: &str) -> Answer {
    Answer { id: "some other id".into(), ok: true, data: Some(object(json!({"text": text}))), reason: None }
}

/// The answers of a model that calls these tools (ids 1, 2, …) and then says ok.
fn turn(style: Style, tools: &[&str]) -> [Reply; 2] {
    let ids = ["1", "2", "3", "4"];
    let calls: Vec<_> = ids.iter().zip(tools).map(|(id, name)| (*id, *name, json!({"of": name}))).collect();
    [Reply::calls(style, &calls), Reply::text(style, "ok")]
}

/// Runs one turn of these tools.
async fn run(style: Style, tools: Vec<Tool>, wait_for: Option<WaitFor>) -> Result<RunResult, ClientError> {
    let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let double = Double::new(turn(style, &names));
    let client = create_client(ClientOptions { wait_for, ..double.options(style) });
    client.run("hi", &Toolkit::from_tools(tools)).await
}

/// The text of each tool result in the transcript.
fn results(style: Style, result: &RunResult) -> Vec<String> {
    let content = |value: &Value| value["content"].as_str().unwrap().to_owned();
    match style {
        Style::Anthropic => result
            .messages
            .iter()
            .filter(|message| message["content"][0]["type"] == "tool_result")
            .flat_map(|message| message["content"].as_array().unwrap())
            .map(content)
            .collect(),
        _ => result.messages.iter().filter(|m| m.role() == "tool").map(|m| content(m)).collect(),
    }
}

fn outputs(result: &RunResult) -> Vec<&str> {
    result.tool_calls.iter().map(|record| record.output.as_str()).collect()
}

// CLIENT-66, SUSPEND-29, SUSPEND-31, case S1
#[tokio::test]
async fn without_a_resolver_a_run_stops_at_the_question() {
    for style in CONTENT_STYLES {
        let (tool, record) = asking("ask", "Which city?");
        let result = run(style, vec![tool], None).await.unwrap();
        assert_eq!((result.status, result.text.as_str()), (RunStatus::Pending, "Which city?"));
        let pending = result.pending.as_ref().unwrap();
        assert_eq!((pending.kind.as_str(), pending.prompt.as_str()), ("input", "Which city?"));
        assert!(pending.id.starts_with("sus-"));
        assert_eq!((result.turns, result.limit.clone()), (1, None));
        assert_eq!(record.count(), 1);
        let expected = match style {
            Style::Anthropic => json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "Which city?", "is_error": true},
            ]}),
            _ => json!({"role": "tool", "tool_call_id": "1", "content": "Which city?"}),
        };
        assert_eq!(result.messages.last().unwrap(), &expected);
        let record = &result.tool_calls[0];
        assert_eq!(
            (record.output.as_str(), record.is_error, record.metadata.as_ref()),
            ("Which city?", true, None)
        );
    }
}

// CLIENT-65, SUSPEND-16, SUSPEND-17, SUSPEND-21, SUSPEND-27: the whole of an answered question
#[tokio::test]
async fn an_answer_runs_the_tool_once_more() {
    for style in CONTENT_STYLES {
        let (tool, record) = asking("ask", "Which city?");
        let (wait_for, asked) = resolver(|_| Ok(granted("Oslo")));
        let result = run(style, vec![tool], Some(wait_for)).await.unwrap();
        assert_eq!((result.status, result.text.as_str(), result.turns), (RunStatus::Done, "ok", 2));
        assert_eq!(outputs(&result), ["answered: Oslo"]);
        assert_eq!(results(style, &result), ["answered: Oslo"]);
        assert!(!result.tool_calls[0].is_error);
        assert_eq!(asked.lock().unwrap().len(), 1);
        let runs = record.all();
        assert_eq!(runs.len(), 2);
        assert_eq!((&runs[0].args, &runs[1].args), (&json!({"of": "ask"}), &json!({"of": "ask"})));
        assert_eq!(runs[0].context.answer, None);
        // The answer is handed on as it came, whatever id it names.
        assert_eq!(runs[1].context.answer, Some(granted("Oslo")));
        assert_eq!((runs[0].context.call_id.as_str(), runs[1].context.call_id.as_str()), ("1", "1"));
        transcript::check(style, &result.messages, false).unwrap();
    }
}

// CLIENT-65, SUSPEND-20, case S2
#[tokio::test]
async fn a_declined_question_is_an_error_the_model_reads() {
    for style in CONTENT_STYLES {
        for reason in [Some("expired"), None] {
            let (tool, record) = asking("ask", "Which city?");
            let (wait_for, _) = resolver(move |request| Ok(answer_declined(&request.id, reason)));
            let result = run(style, vec![tool], Some(wait_for)).await.unwrap();
            assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "ok"));
            assert_eq!(results(style, &result), ["declined/expired: Which city?"]);
            assert_eq!(record.count(), 1);
            // The reason goes to the host, not to the model.
            let mut expected = json!({"answer": {"ok": false}});
            if let Some(reason) = reason {
                expected["answer"]["reason"] = json!(reason);
            }
            let record = &result.tool_calls[0];
            assert!(record.is_error);
            assert_eq!(record.metadata, Some(object(expected)));
        }
    }
}

// CLIENT-65, SUSPEND-18, case S3
#[tokio::test]
async fn a_second_question_of_a_call_is_not_asked() {
    for style in CONTENT_STYLES {
        let count = Mutex::new(0);
        let (tool, record) = recorded("ask", move |_, _| {
            let mut count = count.lock().unwrap();
            *count += 1;
            let prompt = if *count == 1 { "Which city?" } else { "And which street?" };
            pending(Request { prompt: prompt.into(), ..Default::default() })
        });
        let (wait_for, asked) = resolver(|_| Ok(granted("x")));
        let result = run(style, vec![tool], Some(wait_for)).await.unwrap();
        assert_eq!(results(style, &result), ["unresolved: Which city?"]);
        assert!(result.tool_calls[0].is_error);
        assert_eq!((record.count(), asked.lock().unwrap().len()), (2, 1));
        assert_eq!(result.status, RunStatus::Done);
    }
}

// CLIENT-66, SUSPEND-30, SUSPEND-31, D22, case S4
#[tokio::test]
async fn a_stopped_run_keeps_the_calls_up_to_the_question() {
    for style in CONTENT_STYLES {
        let (ask, _) = asking("ask", "Which city?");
        let (other, _) = asking("other", "Which street?");
        let tools = vec![fixed("first", "one"), ask, fixed("third", "three"), other];
        let result = run(style, tools, None).await.unwrap();
        assert_eq!(outputs(&result), ["one", "Which city?"]);
        assert_eq!(results(style, &result), ["one", "Which city?"]);
        assert_eq!(result.tool_call_count, 2);
        assert_eq!(result.pending.as_ref().unwrap().prompt, "Which city?");
        transcript::check(style, &result.messages, true).unwrap();
    }
}

// CLIENT-66, SUSPEND-30: the first in call order, not in time; the others are awaited
#[tokio::test]
async fn a_run_stops_when_its_other_tools_have_ended() {
    for style in STYLES {
        let (go, wait) = oneshot::channel::<()>();
        let wait = Arc::new(Mutex::new(Some(wait)));
        let late = define_tool("late", "", None, move |_, _| {
            let wait = wait.lock().unwrap().take().unwrap();
            async move {
                let _ = wait.await;
                pending(Request { prompt: "the first in call order".into(), ..Default::default() })
            }
        });
        let go = Arc::new(Mutex::new(Some(go)));
        let early = define_tool("early", "", None, move |_, _| {
            // It asks before the other one does.
            let _ = go.lock().unwrap().take().unwrap().send(());
            async { pending(Request { prompt: "the first in time".into(), ..Default::default() }) }
        });
        let ended = Arc::new(Mutex::new(false));
        let flag = Arc::clone(&ended);
        let last = define_tool("last", "", None, move |_, _| {
            let flag = Arc::clone(&flag);
            async move {
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                *flag.lock().unwrap() = true;
                Ok::<_, String>("done")
            }
        });
        let result = run(style, vec![late, early, last], None).await.unwrap();
        assert_eq!(result.text, "the first in call order");
        assert_eq!(outputs(&result), ["the first in call order"]);
        assert!(*ended.lock().unwrap(), "the last tool was awaited");
    }
}

// CLIENT-64, SUSPEND-13, D8, case S5
#[tokio::test]
async fn the_clients_resolver_comes_before_the_toolkits() {
    let style = Style::OpenAI;
    for (of_client, of_client_ctx, expected) in
        [(false, false, "toolkit"), (true, false, "client"), (true, true, "client with context")]
    {
        let (tool, _) = asking("ask", "?");
        let (toolkits, _) = resolver(|_| Ok(granted("toolkit")));
        let toolkit = Toolkit::from_parts(ToolkitParts {
            tools: vec![tool],
            wait_for: Some(toolkits),
            ..Default::default()
        });
        let double = Double::new(turn(style, &["ask"]));
        let client = create_client(ClientOptions {
            wait_for: of_client.then(|| resolver(|_| Ok(granted("client"))).0),
            wait_for_ctx: of_client_ctx.then(|| -> toolnexus_llm::WaitForWithContext {
                Arc::new(|_, _| Box::pin(async { Ok(granted("client with context")) }))
            }),
            ..double.options(style)
        });
        let result = client.run("hi", &toolkit).await.unwrap();
        assert_eq!(result.status, RunStatus::Done);
        assert_eq!(outputs(&result), [format!("answered: {expected}")]);
    }
}

// CLIENT-66, SUSPEND-8, case S6
#[tokio::test]
async fn a_suspension_may_have_its_own_text() {
    for style in CONTENT_STYLES {
        let tool = define_tool("ask", "", None, |_, _| async {
            let request = Request { prompt: "Which city?".into(), ..Default::default() };
            pending_with_output(request, "Input required: Which city?")
        });
        let result = run(style, vec![tool], None).await.unwrap();
        assert_eq!(results(style, &result), ["Input required: Which city?"]);
        assert_eq!(result.text, "Which city?");
    }
}

// CLIENT-67, CLIENT-68, SUSPEND-22, SUSPEND-23, case S7
#[tokio::test]
async fn a_resolver_that_fails_on_the_cancel_was_cancelled() {
    for style in STYLES {
        let (tool, _) = asking("ask", "?");
        let double = Double::new(turn(style, &["ask"]));
        let cancel = CancellationToken::new();
        let from_outside = cancel.clone();
        let seen = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&seen);
        let client = create_client(ClientOptions {
            wait_for_ctx: Some(Arc::new(move |context: WaitForCtx, _request: Request| {
                *kept.lock().unwrap() = Some((context.call_id.clone(), context.turn));
                let from_outside = from_outside.clone();
                Box::pin(async move {
                    assert!(!context.cancel.is_cancelled());
                    from_outside.cancel();
                    context.cancel.cancelled().await;
                    Err("the form was closed".into())
                })
            })),
            ..double.options(style)
        });
        let run = RunOptions { cancel: Some(cancel), ..Default::default() };
        let error = client.run_with("hi", &Toolkit::from_tools([tool]), run).await.unwrap_err();
        assert!(matches!(error, ClientError::Cancelled), "{error:?}");
        assert_eq!(*seen.lock().unwrap(), Some(("1".to_owned(), 0)));
    }
}

// CLIENT-68: the context names the call and its turn
#[tokio::test]
async fn a_resolver_is_told_which_call_asks() {
    let style = Style::OpenAI;
    let (ask, _) = asking("ask", "?");
    let double = Double::new([
        Reply::calls(style, &[("a", "plain", json!({}))]),
        Reply::calls(style, &[("b", "plain", json!({})), ("c", "ask", json!({}))]),
        Reply::text(style, "ok"),
    ]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let client = create_client(ClientOptions {
        wait_for_ctx: Some(Arc::new(move |context: WaitForCtx, _: Request| {
            kept.lock().unwrap().push((context.call_id, context.turn));
            Box::pin(async { Ok(granted("x")) })
        })),
        ..double.options(style)
    });
    client.run("hi", &Toolkit::from_tools([ask, fixed("plain", "")])).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [("c".to_owned(), 1)]);
}

// CLIENT-67, SUSPEND-22
#[tokio::test]
async fn a_failing_resolver_ends_the_run() {
    for style in STYLES {
        let (tool, record) = asking("ask", "?");
        let (wait_for, _) = resolver(|_| Err("nobody is home".into()));
        let error = run(style, vec![tool], Some(wait_for)).await.unwrap_err();
        assert!(matches!(error, ClientError::WaitFor(_)), "{error:?}");
        assert!(error.to_string().contains("nobody is home"), "{error}");
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "nobody is home");
        assert_eq!(record.count(), 1);

        // A panic is its error, in the closure or in its future.
        let at_once: WaitFor = Arc::new(|_| panic!("at once"));
        let later: WaitFor = Arc::new(|_| Box::pin(async { panic!("later") }));
        for wait_for in [at_once, later] {
            let (tool, _) = asking("ask", "?");
            let error = run(style, vec![tool], Some(wait_for)).await.unwrap_err();
            assert!(matches!(error, ClientError::WaitFor(_)), "{error:?}");
        }
    }
}

// CLIENT-64, SUSPEND-14: one at a time, in call order, as soon as the order allows
#[tokio::test]
async fn resolvers_are_called_in_call_order_while_later_tools_run() {
    for style in STYLES {
        let log = Arc::new(Mutex::new(Vec::<String>::new()));
        let note = |text: &str| {
            let (log, text) = (Arc::clone(&log), text.to_owned());
            move || log.lock().unwrap().push(text.clone())
        };
        let ask = |name: &'static str, started: Option<oneshot::Sender<()>>| {
            let (asks, reruns) = (note(&format!("{name} asks")), note(&format!("{name} runs again")));
            let started = Mutex::new(started);
            recorded(name, move |_, context| {
                if context.answer.is_some() {
                    reruns();
                    return ToolResult::success("answered");
                }
                asks();
                if let Some(started) = started.lock().unwrap().take() {
                    let _ = started.send(());
                }
                pending(Request { prompt: name.into(), ..Default::default() })
            })
            .0
        };
        // `slow` stands between the two that ask, and ends only when the first was answered.
        let (first_answered, wait) = oneshot::channel::<()>();
        let wait = Arc::new(Mutex::new(Some(wait)));
        let slow_ends = note("slow ends");
        let slow = define_tool("slow", "", None, move |_, _| {
            let wait = wait.lock().unwrap().take().unwrap();
            let slow_ends = slow_ends.clone();
            async move {
                let _ = wait.await;
                slow_ends();
                Ok::<_, String>("slow")
            }
        });
        // `zero`, the first to be resolved, asks only when `two` has asked already.
        let (two_asked, zero_waits) = oneshot::channel::<()>();
        let zero_waits = Arc::new(Mutex::new(Some(zero_waits)));
        let (zero_asks, zero_reruns) = (note("zero asks"), note("zero runs again"));
        let zero = define_tool("zero", "", None, move |_, context: toolnexus_core::ToolContext| {
            let (zero_asks, zero_reruns, zero_waits) =
                (zero_asks.clone(), zero_reruns.clone(), zero_waits.clone());
            async move {
                if context.answer.is_some() {
                    zero_reruns();
                    return ToolResult::success("answered");
                }
                let wait = zero_waits.lock().unwrap().take().unwrap();
                let _ = wait.await;
                zero_asks();
                pending(Request { prompt: "zero".into(), ..Default::default() })
            }
        });
        let tools = vec![zero, slow, ask("two", Some(two_asked)), ask("three", None)];

        let first_answered = Mutex::new(Some(first_answered));
        let resolver_log = Arc::clone(&log);
        let open = Arc::new(Mutex::new(0));
        let first_answered = Arc::new(first_answered);
        let wait_for: WaitFor = Arc::new(move |request| {
            let (log, open, first_answered) = (resolver_log.clone(), open.clone(), first_answered.clone());
            log.lock().unwrap().push(format!("resolver for {}", request.prompt));
            *open.lock().unwrap() += 1;
            assert_eq!(*open.lock().unwrap(), 1, "one at a time");
            Box::pin(async move {
                tokio::task::yield_now().await;
                *open.lock().unwrap() -= 1;
                if let Some(first_answered) = first_answered.lock().unwrap().take() {
                    let _ = first_answered.send(());
                }
                Ok(granted("x"))
            })
        });
        let result = run(style, tools, Some(wait_for)).await.unwrap();
        assert_eq!(outputs(&result), ["answered", "slow", "answered", "answered"]);
        let log = log.lock().unwrap();
        let at =
            |entry: &str| log.iter().position(|e| e == entry).unwrap_or_else(|| panic!("{entry}: {log:?}"));
        // All have asked before anybody is asked; the order is that of the calls.
        assert!(at("two asks") < at("zero asks") && at("zero asks") < at("resolver for zero"), "{log:?}");
        // The first is resolved while `slow` still runs; the next waits for `slow` to end.
        assert!(at("resolver for zero") < at("slow ends"), "{log:?}");
        assert!(at("zero runs again") < at("resolver for two"), "{log:?}");
        assert!(at("slow ends") < at("resolver for two"), "{log:?}");
        assert!(at("two runs again") < at("resolver for three"), "{log:?}");
        transcript::check(style, &result.messages, false).unwrap();
    }
}

// SUSPEND-49, CLIENT-64: for a host that wants it, all at once; results keep call order
#[tokio::test]
async fn a_host_may_be_asked_everything_at_once() {
    for style in STYLES {
        let ask = |name: &'static str| asking(name, name).0;
        let together = Arc::new(tokio::sync::Barrier::new(3));
        let answered = Arc::new(tokio::sync::watch::Sender::new(0_usize));
        let wait_for: WaitFor = Arc::new(move |request| {
            let (together, answered) = (Arc::clone(&together), Arc::clone(&answered));
            Box::pin(async move {
                // Nobody goes on before all were asked; then the last one answers first.
                together.wait().await;
                let before = ["three", "two", "one"].iter().position(|name| *name == request.prompt).unwrap();
                answered.subscribe().wait_for(|count| *count == before).await?;
                answered.send_modify(|count| *count += 1);
                Ok(granted(&request.prompt))
            })
        });
        let tools = ["one", "two", "three"];
        let double = Double::new(turn(style, &tools));
        let options =
            ClientOptions { wait_for: Some(wait_for), concurrent_wait_for: true, ..double.options(style) };
        let toolkit = Toolkit::from_tools(tools.map(ask));
        let result = support::within(create_client(options).run("hi", &toolkit)).await.unwrap();
        assert_eq!(outputs(&result), ["answered: one", "answered: two", "answered: three"]);
        transcript::check(style, &result.messages, false).unwrap();

        // Without a resolver it changes nothing.
        let double = Double::new(turn(style, &tools));
        let options = ClientOptions { concurrent_wait_for: true, ..double.options(style) };
        let result = create_client(options).run("hi", &toolkit).await.unwrap();
        assert_eq!(outputs(&result), ["one"]);
    }
}

// SUSPEND-19: what the second execution does wrong is an ordinary error
#[tokio::test]
async fn a_failing_second_execution_is_an_ordinary_error() {
    for style in CONTENT_STYLES {
        let fails = recorded("fails", |_, context| match context.answer {
            None => pending(Request { prompt: "?".into(), ..Default::default() }),
            Some(_) => ToolResult::failure("no such city"),
        })
        .0;
        let panics = define_tool("panics", "", None, |_, context: toolnexus_core::ToolContext| async move {
            assert!(context.answer.is_none(), "kaboom");
            pending(Request { prompt: "?".into(), ..Default::default() })
        });
        let (wait_for, _) = resolver(|_| Ok(granted("x")));
        let result = run(style, vec![fails, panics], Some(wait_for)).await.unwrap();
        assert_eq!(results(style, &result)[0], "no such city");
        assert!(results(style, &result)[1].contains("kaboom"));
        assert!(result.tool_calls.iter().all(|record| record.is_error));
        assert_eq!(result.status, RunStatus::Done);
    }
}

// SUSPEND-7: the metadata decides, not the flag; what cannot be read is an ordinary result
#[tokio::test]
async fn a_suspension_is_known_by_its_metadata() {
    let style = Style::OpenAI;
    let with = |metadata: Value| {
        recorded("t", move |_, context| match context.answer {
            Some(_) => ToolResult::success("again"),
            None => ToolResult::success("output").with_metadata(object(metadata.clone())),
        })
        .0
    };
    // No error, no id: still a suspension, and the loop names it.
    let (wait_for, asked) = resolver(|_| Ok(granted("x")));
    let tool = with(json!({"pending": {"kind": "input", "prompt": "p", "later": 1}}));
    let result = run(style, vec![tool.clone()], Some(wait_for)).await.unwrap();
    assert_eq!(outputs(&result), ["again"]);
    assert!(asked.lock().unwrap()[0].id.starts_with("sus-"));
    let result = run(style, vec![tool], None).await.unwrap();
    assert!(result.pending.unwrap().id.starts_with("sus-"));

    for malformed in [json!("x"), json!(null), json!({"prompt": 7}), json!([])] {
        let (wait_for, asked) = resolver(|_| Ok(granted("x")));
        let result = run(style, vec![with(json!({"pending": malformed}))], Some(wait_for)).await.unwrap();
        assert_eq!(outputs(&result), ["output"], "{malformed}");
        assert_eq!(asked.lock().unwrap().len(), 0);
    }
}

// SUSPEND-28, CLIENT-69, SUSPEND-4: neither time nor kind means anything to the loop
#[tokio::test]
async fn expiry_and_kind_are_for_the_host() {
    for kind in ["authorization", "approval", "tool_call", "made up", ""] {
        let request = Request {
            id: "mine".into(),
            kind: kind.into(),
            prompt: "p".into(),
            url: Some("https://login".into()),
            data: Some(object(json!({"schema": {"type": "object"}}))),
            expires_at: Some("2001-01-01T00:00:00Z".into()),
        };
        let asks = request.clone();
        let (tool, _) = recorded("t", move |_, context| match context.answer {
            Some(_) => ToolResult::success("again"),
            None => pending(asks.clone()),
        });
        let (wait_for, asked) = resolver(|_| Ok(granted("x")));
        let result = run(Style::OpenAI, vec![tool], Some(wait_for)).await.unwrap();
        assert_eq!(outputs(&result), ["again"]);
        assert_eq!(*asked.lock().unwrap(), [request]);
    }
}

// SUSPEND-21: two questions under one id of the host's
#[tokio::test]
async fn questions_may_share_an_id() {
    for style in STYLES {
        let ask = |name: &'static str| {
            recorded(name, move |_, context| match &context.answer {
                None => pending(Request { id: "same".into(), prompt: name.into(), ..Default::default() }),
                Some(answer) => ToolResult::success(answer.data.as_ref().unwrap()["text"].as_str().unwrap()),
            })
            .0
        };
        let (wait_for, _) = resolver(|request| Ok(granted(&request.prompt)));
        let result = run(style, vec![ask("a"), ask("b")], Some(wait_for)).await.unwrap();
        assert_eq!(outputs(&result), ["a", "b"]);
    }
}

// SUSPEND-21, SUSPEND-49: asked at once under one id, each call gets its own answer
#[tokio::test]
async fn questions_asked_at_once_may_share_an_id() {
    for style in STYLES {
        let ask = |name: &'static str| {
            recorded(name, move |_, context| match &context.answer {
                None => pending(Request { id: "same".into(), prompt: name.into(), ..Default::default() }),
                Some(answer) => ToolResult::success(answer.data.as_ref().unwrap()["text"].as_str().unwrap()),
            })
            .0
        };
        // Answers come in reverse call order.
        let answered = Arc::new(tokio::sync::watch::Sender::new(0_usize));
        let wait_for: WaitFor = Arc::new(move |request| {
            let answered = Arc::clone(&answered);
            Box::pin(async move {
                let before = ["c", "b", "a"].iter().position(|name| *name == request.prompt).unwrap();
                answered.subscribe().wait_for(|count| *count == before).await?;
                answered.send_modify(|count| *count += 1);
                Ok(granted(&request.prompt))
            })
        });
        let tools = ["a", "b", "c"];
        let double = Double::new(turn(style, &tools));
        let options =
            ClientOptions { wait_for: Some(wait_for), concurrent_wait_for: true, ..double.options(style) };
        let toolkit = Toolkit::from_tools(tools.map(ask));
        let result = support::within(create_client(options).run("hi", &toolkit)).await.unwrap();
        assert_eq!(outputs(&result), ["a", "b", "c"]);
    }
}

// SUSPEND-43, CLIENT-27: a history whose last turn is answered in part is completed before the prompt
#[tokio::test]
async fn what_a_stopped_run_left_open_is_answered_by_the_next() {
    for style in CONTENT_STYLES {
        let (ask, _) = asking("ask", "Which city?");
        let toolkit = Toolkit::from_tools([fixed("first", "one"), ask, fixed("third", "three")]);
        let [calls, ok] = turn(style, &["first", "ask", "third"]);
        let double = Double::new([calls, ok]);
        let client = create_client(double.options(style));
        let stopped = client.ask("hi", &toolkit, "c").await.unwrap();
        assert_eq!(stopped.status, RunStatus::Pending);
        let result = client.ask("never mind", &toolkit, "c").await.unwrap();
        assert_eq!(results(style, &result), ["one", "Which city?", "no result supplied on resume for third"]);
        transcript::check(style, &result.messages, false).unwrap();
        // That is what the provider reads, and the prompt comes behind it.
        let sent = double.body(1)["messages"].as_array().unwrap().clone();
        assert_eq!(sent.last().unwrap()["content"], "never mind");
        let sent: toolnexus_llm::Transcript = sent.into();
        assert_eq!(sent[..], result.messages[..sent.len()]);
        if style == Style::Anthropic {
            assert_eq!(sent.len(), 4);
            assert_eq!(sent[2]["content"][2]["is_error"], true);
        }
    }
}

// SUSPEND-43: nothing answered at all, and the middle one missing
#[tokio::test]
async fn a_history_from_elsewhere_is_completed_in_call_order() {
    for style in CONTENT_STYLES {
        for answered in [&[][..], &["3", "1"], &["2"], &["1", "2", "3"]] {
            let double = Double::new([Reply::text(style, "ok")]);
            let client = create_client(double.options(style));
            let mut history = vec![json!({"role": "user", "content": "x"})];
            let ids = ["1", "2", "3"];
            match style {
                Style::Anthropic => {
                    let uses = ids.map(
                        |id| json!({"type": "tool_use", "id": id, "name": format!("t{id}"), "input": {}}),
                    );
                    history.push(json!({"role": "assistant", "content": uses}));
                    let results: Vec<Value> = answered
                        .iter()
                        .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "given", "is_error": false}))
                        .collect();
                    if !results.is_empty() {
                        history.push(json!({"role": "user", "content": results, "kept": true}));
                    }
                }
                _ => {
                    let calls = ids.map(|id| json!({"id": id, "type": "function", "function": {"name": format!("t{id}"), "arguments": "{}"}}));
                    history.push(json!({"role": "assistant", "tool_calls": calls}));
                    history.extend(
                        answered
                            .iter()
                            .map(|id| json!({"role": "tool", "tool_call_id": id, "content": "given"})),
                    );
                }
            }
            let run = RunOptions { history: history.into(), ..Default::default() };
            let result = client.run_with("go on", &Toolkit::default(), run).await.unwrap();
            let expected: Vec<String> = ids
                .iter()
                .map(|id| match answered.contains(id) {
                    true => "given".to_owned(),
                    false => format!("no result supplied on resume for t{id}"),
                })
                .collect();
            assert_eq!(results(style, &result), expected);
            transcript::check(style, &result.messages, false).unwrap();
            if style == Style::Anthropic && !answered.is_empty() {
                assert_eq!(result.messages[2]["kept"], true);
            }
        }
    }
}

/// The events of a streamed turn of these tools.
async fn streamed(style: Style, tools: Vec<Tool>, wait_for: Option<WaitFor>) -> Vec<StreamEvent> {
    let calls: Vec<(String, String)> =
        tools.iter().enumerate().map(|(at, tool)| (format!("{}", at + 1), tool.name.clone())).collect();
    let first = match style {
        Style::Anthropic => {
            let mut text: String = calls
                .iter()
                .enumerate()
                .map(|(at, (id, name))| {
                    let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                    format!(
                        "data: {}\n\n",
                        json!({"type": "content_block_start", "index": at, "content_block": block})
                    )
                })
                .collect();
            text.push_str(&format!("data: {}\n\n", json!({"type": "message_stop"})));
            text
        }
        _ => {
            let calls: Vec<Value> = calls
                .iter()
                .enumerate()
                .map(|(at, (id, name))| json!({"index": at, "id": id, "function": {"name": name, "arguments": "{}"}}))
                .collect();
            format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [{"delta": {"tool_calls": calls}}]}))
        }
    };
    let double = Double::new([Reply::pieces([Ok(first)]), Reply::streamed_text(style, "ok")]);
    let client = create_client(ClientOptions { wait_for, ..double.options(style) });
    let (events, error) = drain(client.stream("hi", &Toolkit::from_tools(tools))).await;
    assert!(error.is_none(), "{error:?}");
    events
}

// SUSPEND-15, SUSPEND-30, SUSPEND-32, CLIENT-116
#[tokio::test]
async fn a_stopped_stream_tells_one_question_and_its_end() {
    for style in CONTENT_STYLES {
        let (ask, _) = asking("ask", "Which city?");
        let (other, _) = asking("other", "Which street?");
        let events = streamed(style, vec![fixed("a", "one"), ask, fixed("b", "two"), other], None).await;
        assert_eq!(
            kinds(&events),
            ["usage", "tool_call", "tool_call", "tool_call", "tool_call", "tool_result", "pending", "done"]
        );
        let StreamEvent::ToolResult { id, output, .. } = &events[5] else { panic!() };
        assert_eq!((id.as_str(), output.as_str()), ("1", "one"));
        let StreamEvent::Pending { request } = &events[6] else { panic!() };
        let result = support::done(&events);
        assert_eq!(result.pending.as_ref(), Some(request));
        assert_eq!((result.status, outputs(result)), (RunStatus::Pending, vec!["one", "Which city?"]));
    }
}

// CLIENT-116, SUSPEND-15, SUSPEND-27: each question before its result, results in call order
#[tokio::test]
async fn a_resolved_stream_tells_questions_and_final_results() {
    for style in CONTENT_STYLES {
        let (ask, _) = asking("ask", "one?");
        let (other, _) = asking("other", "two?");
        let (wait_for, _) = resolver(|request| match request.prompt.as_str() {
            "one?" => Ok(granted("x")),
            _ => Ok(answer_declined(&request.id, Some("declined"))),
        });
        let events = streamed(style, vec![ask, fixed("plain", "p"), other], Some(wait_for)).await;
        assert_eq!(
            kinds(&events),
            [
                "usage",
                "tool_call",
                "tool_call",
                "tool_call",
                "pending",
                "tool_result",
                "tool_result",
                "pending",
                "tool_result",
                "text",
                "usage",
                "done"
            ]
        );
        let StreamEvent::ToolResult { output, is_error, metadata, .. } = &events[8] else { panic!() };
        assert_eq!((output.as_str(), *is_error), ("declined/expired: two?", true));
        assert_eq!(metadata.as_ref().unwrap()["answer"]["reason"], "declined");
        // SUSPEND-7: the request itself is in no tool_result.
        assert!(events.iter().all(|event| match event {
            StreamEvent::ToolResult { metadata, .. } =>
                metadata.as_ref().is_none_or(|m| !m.contains_key("pending")),
            _ => true,
        }));
    }
}

// SUSPEND-15, CLIENT-116: whoever listens has the question before the resolver is called
#[tokio::test]
async fn a_question_is_told_before_it_is_asked() {
    use futures::StreamExt as _;
    for style in CONTENT_STYLES {
        let log = Arc::new(Mutex::new(Vec::new()));
        let (ask, _) = asking("ask", "?");
        let at_resolver = Arc::clone(&log);
        let (wait_for, _) = resolver(move |_| {
            at_resolver.lock().unwrap().push("asked");
            Ok(granted("x"))
        });
        let first = Reply::pieces([Ok(match style {
            Style::Anthropic => format!(
                "data: {}\n\ndata: {}\n\n",
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "1", "name": "ask"}}),
                json!({"type": "message_stop"})
            ),
            _ => format!(
                "data: {}\n\ndata: [DONE]\n\n",
                json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "ask"}}]}}]})
            ),
        })]);
        let double = Double::new([first, Reply::streamed_text(style, "ok")]);
        let client = create_client(ClientOptions { wait_for: Some(wait_for), ..double.options(style) });
        let mut stream = client.stream("hi", &Toolkit::from_tools([ask]));
        while let Some(event) = stream.next().await {
            if let StreamEvent::Pending { .. } = event.unwrap() {
                log.lock().unwrap().push("told");
            }
        }
        assert_eq!(*log.lock().unwrap(), ["told", "asked"]);
    }
}

// SUSPEND-29: turns and usage count what happened
#[tokio::test]
async fn a_stopped_run_counts_what_happened() {
    let style = Style::OpenAI;
    let (ask, _) = asking("ask", "?");
    let double = Double::new([
        Reply::calls(style, &[("1", "plain", json!({}))]),
        Reply::json(&json!({
            "choices": [{"message": {"role": "assistant", "tool_calls": [
                {"id": "2", "type": "function", "function": {"name": "ask", "arguments": "{}"}},
            ]}, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3},
        })),
    ]);
    // A limit that would be reached says nothing about a run that waits.
    let client = create_client(ClientOptions { max_turns: 2, ..double.options(style) });
    let result = client.run("hi", &Toolkit::from_tools([ask, fixed("plain", "p")])).await.unwrap();
    assert_eq!((result.status, result.turns, result.usage.total_tokens), (RunStatus::Pending, 2, 10));
    assert_eq!((result.limit.as_deref(), result.tool_call_count), (None, 2));
    let value = serde_json::to_value(&result).unwrap();
    assert_eq!((&value["status"], &value["pending"]["prompt"]), (&json!("pending"), &json!("?")));
}

// SUSPEND-40: the contract's way: from the saved messages, with a resolver, the model asks again
#[tokio::test]
async fn a_stopped_conversation_goes_on_with_a_resolver() {
    for style in STYLES {
        let (ask, record) = asking("ask", "Which city?");
        let toolkit = Toolkit::from_tools([ask]);
        let [calls, _] = turn(style, &["ask"]);
        let double = Double::new([calls]);
        let stopped = create_client(double.options(style)).run("hi", &toolkit).await.unwrap();

        let double = Double::new(turn(style, &["ask"]));
        let (wait_for, _) = resolver(|_| Ok(granted("Oslo")));
        let client = create_client(ClientOptions { wait_for: Some(wait_for), ..double.options(style) });
        let run = RunOptions { history: stopped.messages, ..Default::default() };
        let result = client.run_with("go on", &toolkit, run).await.unwrap();
        assert_eq!(outputs(&result), ["answered: Oslo"]);
        assert_eq!(record.count(), 3);
    }
}
