//! How a run ends when a hook fails, panics, or never returns.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use serde_json::json;
use support::double::{Answer, Double};
use support::hooks::{Seen, Veto, adding, calling, hook_error, run_tools, veto, with_hooks};
use support::tools::{add, asking, fixed, recorded};
use support::{Mode, drain, every_way, kinds, options, server, within};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{
    Answer as RequestAnswer, BoxError, Request, ToolResult, Toolkit, WaitFor, define_tool, pending,
};
use toolnexus_llm::{
    AfterToolEvent, BeforeLlmEvent, BeforeToolEvent, ClientError, ClientOptions, Hooks, RunOptions,
    StreamOptions, Style, create_client,
};
use toolnexus_testkit::model::Script;

// CLIENT-51: the route gate
#[tokio::test]
async fn before_llm_may_veto_the_call() {
    for (style, mode) in every_way() {
        let server = server(Script::new()).await;
        let hooks = Hooks::default().with_before_llm(|event: BeforeLlmEvent| async move {
            if event.model == "m" { Err(veto(1)) } else { Ok(None) }
        });
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
        let error = mode.execute(&client, &Toolkit::default()).await.unwrap_err();
        assert_eq!(hook_error(&error), ("before_llm", Some(&Veto(1))));
        assert_eq!(server.request_count(), 0);
    }
}

/// How a hook goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Error,
    PanicInTheFuture,
    PanicInTheClosure,
}

async fn fails<T>(fault: Fault) -> Result<T, BoxError> {
    match fault {
        Fault::Error => Err(veto(7)),
        Fault::PanicInTheFuture => {
            tokio::task::yield_now().await;
            panic!("out of {}", "luck")
        }
        Fault::PanicInTheClosure => unreachable!("panicked before"),
    }
}

fn check(fault: Fault) {
    assert!(fault != Fault::PanicInTheClosure, "no luck");
}

/// Hooks of which one goes wrong.
fn faulty(hook: &str, fault: Fault) -> Hooks {
    let hooks = Hooks::default();
    match hook {
        "before_llm" => hooks.with_before_llm(move |_| {
            check(fault);
            fails(fault)
        }),
        "after_llm" => hooks.with_after_llm(move |_| {
            check(fault);
            fails(fault)
        }),
        "before_tool" => hooks.with_before_tool(move |_| {
            check(fault);
            fails(fault)
        }),
        _ => hooks.with_after_tool(move |_| {
            check(fault);
            fails(fault)
        }),
    }
}

const HOOKS: [&str; 4] = ["before_llm", "after_llm", "before_tool", "after_tool"];

// CLIENT-49: an error of any hook, or a panic, ends the run; nothing is saved and nothing hangs
#[tokio::test]
async fn a_failing_hook_ends_the_run() {
    let style = Style::OpenAI;
    for hook in HOOKS {
        for fault in [Fault::Error, Fault::PanicInTheFuture, Fault::PanicInTheClosure] {
            for streamed in [false, true] {
                let server = server(adding(style)).await;
                let hooks = faulty(hook, fault);
                let client =
                    create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
                let toolkit = Toolkit::from_tools([add()]);
                let error = if streamed {
                    let options = StreamOptions { id: "c".into(), ..Default::default() };
                    let (events, error) = within(drain(client.stream_with("hi", &toolkit, options))).await;
                    assert!(!kinds(&events).contains(&"done".to_owned()));
                    error.unwrap()
                } else {
                    within(client.ask("hi", &toolkit, "c")).await.unwrap_err()
                };
                let (failed, source) = hook_error(&error);
                assert_eq!(failed, hook);
                let text = error.to_string();
                match fault {
                    Fault::Error => assert_eq!(source, Some(&Veto(7))),
                    Fault::PanicInTheFuture => assert!(text.contains("out of luck"), "{text}"),
                    Fault::PanicInTheClosure => assert!(text.contains("no luck"), "{text}"),
                }
                assert!(text.contains(hook), "{text}");
                assert_eq!(client.conversation_store().get("c").await.unwrap(), None);
                assert_eq!(server.request_count(), usize::from(hook != "before_llm"));
            }
        }
    }
}

// CLIENT-56: the first failing call in call order, once all calls have finished
#[tokio::test]
async fn the_first_failing_call_is_reported_when_all_have_ended() {
    for hook in ["before_tool", "after_tool"] {
        // The second call fails at once, the first after it, and the third tool runs on after both.
        let [second_failed, first_failed] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        let ended = Seen::new();
        let third = {
            let (first_failed, ended) = (Arc::clone(&first_failed), ended.clone());
            define_tool("3", "", None, move |_, _| {
                let (first_failed, ended) = (Arc::clone(&first_failed), ended.clone());
                async move {
                    first_failed.acquire().await.unwrap().forget();
                    tokio::task::yield_now().await;
                    ended.push(());
                    Ok::<_, String>("three")
                }
            })
        };
        let judge = move |name: String| {
            let (second_failed, first_failed) = (Arc::clone(&second_failed), Arc::clone(&first_failed));
            async move {
                match name.as_str() {
                    "1" => {
                        second_failed.acquire().await.unwrap().forget();
                        first_failed.add_permits(1);
                        Err(veto(1))
                    }
                    "2" => {
                        second_failed.add_permits(1);
                        Err(veto(2))
                    }
                    _ => Ok(None),
                }
            }
        };
        let hooks = match hook {
            "before_tool" => {
                Hooks::default().with_before_tool(move |event: BeforeToolEvent| judge(event.name))
            }
            _ => Hooks::default().with_after_tool(move |event: AfterToolEvent| judge(event.name)),
        };
        let tools = vec![fixed("1", "one"), fixed("2", "two"), third];
        let error = run_tools(tools, with_hooks(hooks)).await.unwrap_err();
        assert_eq!(hook_error(&error), (hook, Some(&Veto(1))));
        assert_eq!(ended.all().len(), 1, "the third call has finished");
    }
}

// CLIENT-49, CLIENT-56, case H4
#[tokio::test]
async fn an_error_after_one_of_two_tools_ends_the_run() {
    for (style, mode) in every_way() {
        let hooks = Hooks::default().with_after_tool(|event: AfterToolEvent| async move {
            if event.name == "b" { Err(veto(4)) } else { Ok(None) }
        });
        let server = server(calling(style, &["a", "b"])).await;
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, server.base_url()) });
        let toolkit = Toolkit::from_tools([fixed("a", "a"), fixed("b", "b")]);
        let error = mode.execute(&client, &toolkit).await.unwrap_err();
        assert_eq!(hook_error(&error), ("after_tool", Some(&Veto(4))));
        assert_eq!(server.request_count(), 1);
    }
}

// CLIENT-56: after a hook has failed nobody is asked anything new
#[tokio::test]
async fn a_failed_hook_asks_no_more_questions() {
    let asked = Seen::new();
    let kept = asked.clone();
    let wait_for: WaitFor = Arc::new(move |request| {
        kept.push(request.prompt.clone());
        Box::pin(async move { Ok(RequestAnswer { id: request.id, ok: true, ..Default::default() }) })
    });
    // The tool asks only once the hook of the other call has failed.
    let failed = Arc::new(Semaphore::new(0));
    let tell = Arc::clone(&failed);
    let ask = define_tool("ask", "", None, move |_, _| {
        let failed = Arc::clone(&failed);
        async move {
            failed.acquire().await.unwrap().forget();
            pending(Request { prompt: "Which city?".into(), ..Default::default() })
        }
    });
    let hooks = Hooks::default().with_before_tool(move |event: BeforeToolEvent| {
        let fails = event.name == "b";
        if fails {
            tell.add_permits(1);
        }
        async move { if fails { Err(veto(2)) } else { Ok(None) } }
    });
    let error = run_tools(vec![ask, fixed("b", "b")], |options| ClientOptions {
        hooks: Some(hooks),
        wait_for: Some(wait_for),
        ..options
    })
    .await
    .unwrap_err();
    assert_eq!(hook_error(&error), ("before_tool", Some(&Veto(2))));
    assert_eq!(asked.all(), Vec::<String>::new());
}

// CLIENT-56, CLIENT-64: what was asked already is answered and run before the error is told
#[tokio::test]
async fn a_question_under_way_is_finished_before_the_error() {
    let asked = Arc::new(Semaphore::new(0));
    let failed = Arc::new(Semaphore::new(0));
    let wait_for: WaitFor = {
        let (asked, failed) = (Arc::clone(&asked), Arc::clone(&failed));
        Arc::new(move |request| {
            asked.add_permits(1);
            let failed = Arc::clone(&failed);
            Box::pin(async move {
                failed.acquire().await?.forget();
                Ok(RequestAnswer { id: request.id, ok: true, ..Default::default() })
            })
        })
    };
    let hooks = Hooks::default().with_after_tool(move |event: AfterToolEvent| {
        let (asked, failed) = (Arc::clone(&asked), Arc::clone(&failed));
        async move {
            if event.name == "ask" {
                return Ok(None);
            }
            asked.acquire().await?.forget();
            failed.add_permits(1);
            Err(veto(2))
        }
    });
    let (ask, record) = asking("ask", "Which city?");
    let error = run_tools(vec![ask, fixed("b", "b")], |options| ClientOptions {
        hooks: Some(hooks),
        wait_for: Some(wait_for),
        ..options
    })
    .await
    .unwrap_err();
    assert_eq!(hook_error(&error), ("after_tool", Some(&Veto(2))));
    assert_eq!(record.count(), 2);
}

/// Hooks of which one never returns: they tell when it was called, and when its future is gone.
struct Endless {
    hooks: Hooks,
    started: oneshot::Receiver<()>,
    dropped: oneshot::Receiver<()>,
}

fn endless(hook: &str) -> Endless {
    let (tell_start, started) = oneshot::channel();
    let (held, dropped) = oneshot::channel();
    let once = Arc::new(Mutex::new(Some((tell_start, held))));
    let never = move || {
        let (tell_start, held): (oneshot::Sender<()>, oneshot::Sender<()>) =
            once.lock().unwrap().take().expect("called once");
        async move {
            let _held = held;
            let _ = tell_start.send(());
            std::future::pending::<()>().await;
        }
    };
    let hooks = with_effect(hook, never);
    Endless { hooks, started, dropped }
}

/// Hooks of which one does this and changes nothing.
fn with_effect<F>(hook: &str, effect: impl Fn() -> F + Send + Sync + 'static) -> Hooks
where
    F: Future<Output = ()> + Send + 'static,
{
    let hooks = Hooks::default();
    match hook {
        "before_llm" => hooks.with_before_llm(move |_| {
            let effect = effect();
            async {
                Ok({
                    effect.await;
                    None
                })
            }
        }),
        "after_llm" => hooks.with_after_llm(move |_| {
            let effect = effect();
            async { Ok(effect.await) }
        }),
        "before_tool" => hooks.with_before_tool(move |_| {
            let effect = effect();
            async {
                Ok({
                    effect.await;
                    None
                })
            }
        }),
        _ => hooks.with_after_tool(move |_| {
            let effect = effect();
            async {
                Ok({
                    effect.await;
                    None
                })
            }
        }),
    }
}

// CLIENT-100, CLIENT-101, CLIENT-49: a hook that never returns does not outlive the cancel
#[tokio::test]
async fn a_cancel_ends_a_hook_that_never_returns() {
    for hook in HOOKS {
        for mode in [Mode::Run, Mode::Stream] {
            let Endless { hooks, started, dropped } = endless(hook);
            let server = server(adding(Style::Anthropic)).await;
            let client = create_client(ClientOptions {
                hooks: Some(hooks),
                ..options(Style::Anthropic, server.base_url())
            });
            let cancel = CancellationToken::new();
            let run = tokio::spawn({
                let cancel = Some(cancel.clone());
                async move {
                    let toolkit = Toolkit::from_tools([add()]);
                    match mode {
                        Mode::Run => {
                            let options = RunOptions { cancel, id: "c".into(), ..Default::default() };
                            client.run_with("hi", &toolkit, options).await.map(|_| client)
                        }
                        Mode::Stream => {
                            let options = StreamOptions { cancel, id: "c".into(), ..Default::default() };
                            client.stream_with("hi", &toolkit, options).finish().await.map(|_| client)
                        }
                    }
                }
            });
            within(started).await.unwrap();
            cancel.cancel();
            let ended = within(run).await.unwrap();
            assert!(matches!(ended, Err(ClientError::Cancelled)), "{hook} {mode:?}");
            within(dropped).await.unwrap_err();
        }
    }
}

// CLIENT-99, CLIENT-103
#[tokio::test(start_paused = true)]
async fn the_deadline_ends_a_hook_that_never_returns() {
    for hook in HOOKS {
        let Endless { hooks, dropped, .. } = endless(hook);
        let style = Style::OpenAI;
        let double =
            Double::new([Answer::calls(style, &[("c1", "add", json!({}))]), Answer::text(style, "ok")]);
        let client =
            create_client(ClientOptions { hooks: Some(hooks), timeout_ms: 200, ..double.options(style) });
        let error = client.run("hi", &Toolkit::from_tools([add()])).await.unwrap_err();
        assert_eq!(error.to_string(), "run timeout after 200ms");
        dropped.await.unwrap_err();
    }
}

// CLIENT-124: a stream that is dropped in the midst of a hook takes the hook with it
#[tokio::test]
async fn a_dropped_stream_drops_its_hook() {
    for hook in HOOKS {
        let Endless { hooks, mut started, dropped } = endless(hook);
        let server = server(adding(Style::OpenAI)).await;
        let client =
            create_client(ClientOptions { hooks: Some(hooks), ..options(Style::OpenAI, server.base_url()) });
        let stream_options = StreamOptions { id: "c".into(), ..Default::default() };
        let mut stream = client.stream_with("hi", &Toolkit::from_tools([add()]), stream_options);
        within(async {
            loop {
                tokio::select! {
                    biased;
                    begun = &mut started => break begun.unwrap(),
                    event = stream.next() => drop(event.unwrap().unwrap()),
                }
            }
        })
        .await;
        drop(stream);
        within(dropped).await.unwrap_err();
        assert_eq!(client.conversation_store().get("c").await.unwrap(), None);
    }
}

// CLIENT-101: a run that its own hook cancels takes no further step
#[tokio::test]
async fn a_hook_may_cancel_its_run() {
    for hook in HOOKS {
        for fails in [false, true] {
            for mode in [Mode::Run, Mode::Stream] {
                let cancel = CancellationToken::new();
                let token = cancel.clone();
                let mut hooks = with_effect(hook, move || {
                    token.cancel();
                    async {}
                });
                if fails {
                    // What a hook that heard of the cancel reports is not why the run ended.
                    hooks = toolnexus_llm::chain_hooks([hooks, faulty(hook, Fault::Error)]).unwrap();
                }
                let (tool, record) = recorded("add", |_, _| ToolResult::success("5"));
                let server = server(adding(Style::Gemini)).await;
                let client = create_client(ClientOptions {
                    hooks: Some(hooks),
                    ..options(Style::Gemini, server.base_url())
                });
                let toolkit = Toolkit::from_tools([tool]);
                let cancel = Some(cancel);
                let error = match mode {
                    Mode::Run => {
                        let options = RunOptions { cancel, ..Default::default() };
                        within(client.run_with("hi", &toolkit, options)).await.unwrap_err()
                    }
                    Mode::Stream => {
                        let options = StreamOptions { cancel, ..Default::default() };
                        within(client.stream_with("hi", &toolkit, options).finish()).await.unwrap_err()
                    }
                };
                assert!(matches!(error, ClientError::Cancelled), "{hook} {fails} {mode:?}: {error:?}");
                assert_eq!(server.request_count(), usize::from(hook != "before_llm"));
                assert_eq!(record.count(), usize::from(hook == "after_tool"), "{hook}");
            }
        }
    }
}
