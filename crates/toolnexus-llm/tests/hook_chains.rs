//! Several hooks as one, and guardrails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;

use futures::FutureExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::hooks::{Seen, Veto, answering, calling, outputs, run_tools, veto, with_hooks};
use support::tools::{fixed, object, recorded};
use support::{every_way, options, server};
use toolnexus_core::{BoxError, Request, ToolResult, Toolkit, pending};
use toolnexus_llm::{
    AfterLlmEvent, AfterToolEvent, BeforeLlmEvent, BeforeToolEvent, ClientOptions, Guardrail, Hooks,
    LlmOverride, Message, ToolOverride, chain_hooks, create_client, guardrails,
};

/// The outcome of hooks that wait for nothing.
fn at_once<T>(hook: impl Future<Output = T>) -> T {
    hook.now_or_never().expect("nothing is waited for")
}

/// What a stage does when it is called.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Nothing,
    Change,
    Answer,
    ChangeAndAnswer,
    Fail,
}

impl Act {
    fn changes(self) -> bool {
        matches!(self, Act::Change | Act::ChangeAndAnswer)
    }

    fn answers(self) -> bool {
        matches!(self, Act::Answer | Act::ChangeAndAnswer)
    }
}

/// What each stage was shown, by its number.
type Trace = Seen<(usize, String)>;

/// A stage whose replacements show what they were made of.
fn stage(number: usize, act: Act, trace: &Trace) -> Hooks {
    let [a, b, c, d] = [(); 4].map(|()| trace.clone());
    let failed = move |number: usize| -> Result<(), BoxError> {
        if act == Act::Fail { Err(veto(u32::try_from(number).unwrap())) } else { Ok(()) }
    };
    Hooks::default()
        .with_before_llm(move |event: BeforeLlmEvent| {
            a.push((number, shown_llm(&event)));
            async move {
                failed(number)?;
                let mut messages = event.messages.clone();
                messages.push(Message::from(json!(number)));
                let mut tools = (*event.tools).clone();
                tools.push(json!(number));
                let change = LlmOverride {
                    messages: act.changes().then_some(messages),
                    tools: act.answers().then_some(tools),
                    model: (act == Act::ChangeAndAnswer).then(|| format!("{}{number}", event.model)),
                };
                Ok((act != Act::Nothing).then_some(change))
            }
        })
        .with_after_llm(move |event: AfterLlmEvent| {
            b.push((number, event.response.to_string()));
            async move { failed(number) }
        })
        .with_before_tool(move |event: BeforeToolEvent| {
            c.push((number, Value::Object(event.args.clone()).to_string()));
            async move {
                failed(number)?;
                let mut args = event.args;
                args.insert(number.to_string(), json!(true));
                let change = ToolOverride {
                    args: act.changes().then_some(args),
                    result: act.answers().then(|| ToolResult::failure(number)),
                };
                Ok((act != Act::Nothing).then_some(change))
            }
        })
        .with_after_tool(move |event: AfterToolEvent| {
            d.push((number, event.result.output.clone()));
            async move {
                failed(number)?;
                let result = ToolResult::success(format!("{}{number}", event.result.output));
                let change = ToolOverride { args: None, result: act.answers().then_some(result) };
                Ok((act != Act::Nothing).then_some(change))
            }
        })
}

fn shown_llm(event: &BeforeLlmEvent) -> String {
    let messages: Vec<&Value> = event.messages.iter().map(Message::value).collect();
    json!([messages, *event.tools, event.model]).to_string()
}

/// What a chain came to: what it returned, or the number in the error.
type Outcome<T> = Result<T, u32>;

fn outcome<T>(result: Result<T, BoxError>) -> Outcome<T> {
    result.map_err(|error| error.downcast_ref::<Veto>().unwrap().0)
}

/// An override that changes nothing is none.
fn changing<T: Default + PartialEq>(change: Option<T>) -> Option<T> {
    change.filter(|change| *change != T::default())
}

/// Applies the stages of `before_llm` one after the other, by the book.
fn before_llm_by_hand(stages: &[Hooks]) -> Outcome<Option<LlmOverride>> {
    let mut event = BeforeLlmEvent { model: "m".into(), ..Default::default() };
    let mut all = LlmOverride::default();
    for stage in stages {
        let change = outcome(at_once(stage.before_llm.as_ref().unwrap()(event.clone())))?.unwrap_or_default();
        event.messages = change.messages.clone().unwrap_or(event.messages);
        event.tools = change.tools.clone().map_or(event.tools, Arc::new);
        event.model = change.model.clone().unwrap_or(event.model);
        all = LlmOverride {
            messages: change.messages.or(all.messages),
            tools: change.tools.or(all.tools),
            model: change.model.or(all.model),
        };
    }
    Ok(changing(Some(all)))
}

fn before_tool_by_hand(stages: &[Hooks]) -> Outcome<Option<ToolOverride>> {
    let mut event = BeforeToolEvent::default();
    let mut args = None;
    for stage in stages {
        let change =
            outcome(at_once(stage.before_tool.as_ref().unwrap()(event.clone())))?.unwrap_or_default();
        if let Some(new) = change.args {
            event.args = new.clone();
            args = Some(new);
        }
        if change.result.is_some() {
            return Ok(Some(ToolOverride { args, result: change.result }));
        }
    }
    Ok(args.map(ToolOverride::args))
}

fn after_tool_by_hand(stages: &[Hooks]) -> Outcome<Option<ToolOverride>> {
    let mut event = AfterToolEvent::default();
    let mut all = None;
    for stage in stages {
        let change = outcome(at_once(stage.after_tool.as_ref().unwrap()(event.clone())))?.unwrap_or_default();
        if let Some(result) = change.result {
            event.result = result.clone();
            all = Some(result);
        }
    }
    Ok(all.map(ToolOverride::result))
}

fn after_llm_by_hand(stages: &[Hooks]) -> Outcome<()> {
    for stage in stages {
        outcome(at_once(stage.after_llm.as_ref().unwrap()(AfterLlmEvent::default())))?;
    }
    Ok(())
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Nothing),
        4 => Just(Act::Change),
        1 => Just(Act::Answer),
        1 => Just(Act::ChangeAndAnswer),
        1 => Just(Act::Fail),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // CLIENT-59: a chain is its stages, one after the other; however it is put together
    #[test]
    fn a_chain_is_its_stages_one_after_the_other(acts in proptest::collection::vec(act(), 1..6), cut in 0usize..6) {
        let made = || {
            let trace = Trace::new();
            let stages: Vec<Hooks> =
                acts.iter().enumerate().map(|(number, act)| stage(number, *act, &trace)).collect();
            (stages, trace)
        };
        let (by_hand, expected_trace) = made();
        let expected = (
            before_llm_by_hand(&by_hand),
            after_llm_by_hand(&by_hand),
            before_tool_by_hand(&by_hand),
            after_tool_by_hand(&by_hand),
        );
        let cut = cut.min(acts.len());
        for nested in [false, true] {
            let (mut stages, trace) = made();
            let chain = if nested {
                let rest = stages.split_off(cut);
                chain_hooks([chain_hooks(stages), chain_hooks(rest)].into_iter().flatten()).unwrap()
            } else {
                chain_hooks(stages).unwrap()
            };
            let event = BeforeLlmEvent { model: "m".into(), ..Default::default() };
            let got = (
                outcome(at_once(chain.before_llm.unwrap()(event))).map(changing),
                outcome(at_once(chain.after_llm.unwrap()(AfterLlmEvent::default()))),
                outcome(at_once(chain.before_tool.unwrap()(BeforeToolEvent::default()))).map(changing),
                outcome(at_once(chain.after_tool.unwrap()(AfterToolEvent::default()))).map(changing),
            );
            prop_assert_eq!(&got.0, &expected.0);
            prop_assert_eq!(&got.1, &expected.1);
            prop_assert_eq!(&got.2, &expected.2);
            prop_assert_eq!(&got.3, &expected.3);
            prop_assert_eq!(trace.all(), expected_trace.all());
        }
    }
}

// CLIENT-59: nothing to call is nothing; a missing hook of a stage is no stage
#[test]
fn a_chain_of_nothing_is_nothing() {
    assert!(chain_hooks([]).is_none());
    assert!(chain_hooks([Hooks::default(), Hooks::default()]).is_none());
    let trace = Trace::new();
    let one = Hooks { before_llm: None, after_llm: None, after_tool: None, ..stage(0, Act::Change, &trace) };
    let chain = chain_hooks([Hooks::default(), one, Hooks::default()]).unwrap();
    assert!(chain.before_llm.is_none() && chain.after_llm.is_none() && chain.after_tool.is_none());
    let change = at_once(chain.before_tool.unwrap()(BeforeToolEvent::default())).unwrap().unwrap();
    assert_eq!(change.args, Some(object(json!({"0": true}))));
}

// CLIENT-59: an empty list is a replacement, which later stages see
#[test]
fn an_emptied_list_is_passed_on() {
    let seen = Seen::new();
    let kept = seen.clone();
    let empties = Hooks::default()
        .with_before_llm(|_| async { Ok(Some(LlmOverride { tools: Some(vec![]), ..Default::default() })) });
    let looks = Hooks::default().with_before_llm(move |event: BeforeLlmEvent| {
        kept.push(event.tools.len());
        async { Ok(None) }
    });
    let chain = chain_hooks([empties, looks]).unwrap();
    let event = BeforeLlmEvent { tools: Arc::new(vec![json!({})]), ..Default::default() };
    let change = at_once(chain.before_llm.unwrap()(event)).unwrap().unwrap();
    assert_eq!((change.tools, seen.all()), (Some(vec![]), vec![0]));
}

// CLIENT-59, case H3
#[tokio::test]
async fn a_denial_ends_the_chain() {
    for (style, mode) in every_way() {
        let (tool, record) = recorded("x", |_, _| ToolResult::success("ran"));
        let seen = Seen::new();
        let kept = seen.clone();
        let deny = Hooks::default().with_before_tool(|event: BeforeToolEvent| async move {
            Ok((event.name == "x").then(|| ToolOverride::result(ToolResult::failure("denied"))))
        });
        let allow = Hooks::default().with_before_tool(move |event: BeforeToolEvent| {
            kept.push(event.name);
            // It cannot undo what a stage before it has decided.
            async { Ok(Some(ToolOverride::result(ToolResult::success("allowed")))) }
        });
        let server = server(calling(style, &["x", "y"])).await;
        let hooks = chain_hooks([deny, allow]);
        let client = create_client(ClientOptions { hooks, ..options(style, server.base_url()) });
        let toolkit = Toolkit::from_tools([tool, fixed("y", "ran")]);
        let result = mode.execute(&client, &toolkit).await.unwrap();
        assert_eq!(outputs(&result), ["denied", "allowed"]);
        assert_eq!((record.count(), seen.all()), (0, vec!["y".to_owned()]));
    }
}

// CLIENT-59, CLIENT-54: a stage that asks is a stage that answers; earlier rewrites are kept for the retry
#[tokio::test]
async fn a_stage_that_asks_keeps_earlier_rewrites() {
    let (tool, record) = recorded("x", |_, _| ToolResult::success("ran"));
    let trace = Trace::new();
    let ask = Hooks::default().with_before_tool(|_| async {
        Ok(Some(ToolOverride::result(pending(Request { prompt: "May I?".into(), ..Default::default() }))))
    });
    let hooks = chain_hooks([stage_before_tool(0, &trace), ask, stage_before_tool(2, &trace)]);
    let result =
        run_tools(vec![tool], |options| ClientOptions { hooks, wait_for: Some(answering(true)), ..options })
            .await
            .unwrap();
    assert_eq!(outputs(&result), ["ran"]);
    assert_eq!(record.args(), [json!({"of": "x", "0": true})]);
    assert_eq!(trace.all().len(), 1, "later stages did not run");
}

fn stage_before_tool(number: usize, trace: &Trace) -> Hooks {
    let Hooks { before_tool, .. } = stage(number, Act::Change, trace);
    Hooks { before_tool, ..Default::default() }
}

// CLIENT-61: the first denial wins; the host's own hook sees only what every guardrail allows
#[tokio::test]
async fn guardrails_deny_before_the_hosts_own_hook() {
    for (style, mode) in every_way() {
        let seen = Seen::new();
        let own = seen.clone();
        let asked = Seen::new();
        let second = asked.clone();
        let rules: [Guardrail; 3] = [
            Arc::new(|event: &BeforeToolEvent| (event.name == "rm").then(|| "no deletions".to_owned())),
            Arc::new(move |event: &BeforeToolEvent| {
                second.push(event.name.clone());
                (event.name == "curl").then(|| "no network".to_owned())
            }),
            // These two say yes.
            Arc::new(|event: &BeforeToolEvent| {
                Some(if event.name == "ls" { String::new() } else { "allow".to_owned() })
            }),
        ];
        let host = Hooks::default().with_before_tool(move |event: BeforeToolEvent| {
            own.push(event.name);
            async { Ok(None) }
        });
        let hooks = chain_hooks([guardrails(rules), host]);
        let names = ["rm", "curl", "ls", "cat"];
        let server = server(calling(style, &names)).await;
        let client = create_client(ClientOptions { hooks, ..options(style, server.base_url()) });
        let toolkit = Toolkit::from_tools(names.map(|name| fixed(name, "ran")));
        let result = mode.execute(&client, &toolkit).await.unwrap();
        assert_eq!(outputs(&result), ["denied: no deletions", "denied: no network", "ran", "ran"]);
        assert!(result.tool_calls[0].is_error && result.tool_calls[1].is_error);
        assert_eq!(seen.all(), ["ls", "cat"]);
        // The second is not asked about what the first denied.
        assert_eq!(asked.all(), ["curl", "ls", "cat"]);
    }
    assert!(guardrails([]).is_empty());
}

// CLIENT-61, CLIENT-49: a guardrail that panics lets nothing through
#[tokio::test]
async fn a_guardrail_that_panics_ends_the_run() {
    let (tool, record) = recorded("x", |_, _| ToolResult::success("ran"));
    let rule: Guardrail = Arc::new(|_: &BeforeToolEvent| panic!("broken rule"));
    let hooks = guardrails([rule]);
    let error = run_tools(vec![tool], with_hooks(hooks)).await.unwrap_err();
    assert!(error.to_string().contains("broken rule"), "{error}");
    assert_eq!(record.count(), 0);
}
