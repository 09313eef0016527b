//! Random durable runs whose process ends, or is told to stop, at any await point, as often as it
//! likes: in the end each is the run that was left alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::tools::object;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{
    Answer, BoxFuture, RelayResult, Request, Tool, ToolContext, ToolHints, ToolResult, Toolkit, WaitFor,
    define_tool, pending, relay_answer, relay_tool,
};
use toolnexus_llm::http::{HeaderMap, HttpRequest, HttpResponse, HttpTransport, StatusCode, TransportError};
use toolnexus_llm::run::{Run, RunEvent};
use toolnexus_llm::run_log::{MemoryRunLog, RunFilter, RunLog, RunLogError, RunSummary};
use toolnexus_llm::{
    AfterToolEvent, BeforeLlmEvent, BeforeToolEvent, Client, ClientError, ClientOptions, ConversationStore,
    DurableError, EventSink, Hooks, InDoubt, InMemoryConversationStore, LlmOverride, ResumeOptions,
    RunDurableOptions, RunResult, RunStatus, StreamEvent, Style, ToolOverride, create_client,
};

const INTERRUPTED: &str = "interrupted: the process stopped while this tool ran; its effect is unknown";

/// The tools by name; what each does is in [`toolkit`].
const TOOLS: [&str; 8] = ["plain", "reads", "fails", "asks", "declined", "relayed", "changed", "gone"];

#[derive(Debug, Clone)]
struct Script {
    style: Style,
    /// The tools of each turn.
    turns: Vec<Vec<&'static str>>,
    max_turns: u32,
    /// Whether the tools are called through one that stands for all.
    tiers: bool,
    asked: Asked,
    policy: Policy,
    /// How many polls each process gets, and whether it is told to stop then, or is gone.
    lives: Vec<(usize, bool)>,
    /// Which of the open requests is answered first.
    order: usize,
}

/// Who answers requests.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Asked {
    Resuming,
    Resolver,
    ResolverAtOnce,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Policy {
    Report,
    Retry,
    Ask,
}

fn scripts() -> impl Strategy<Value = Script> {
    let turn = prop::collection::vec(prop::sample::select(TOOLS.to_vec()), 1..4);
    (
        prop::sample::select(support::STYLES.to_vec()),
        prop::collection::vec(turn, 0..3),
        1_u32..5,
        any::<bool>(),
        prop::sample::select(vec![Asked::Resuming, Asked::Resolver, Asked::ResolverAtOnce]),
        prop::sample::select(vec![Policy::Report, Policy::Retry, Policy::Ask]),
        prop::collection::vec((0_usize..60, any::<bool>()), 0..8),
        0_usize..4,
    )
        .prop_map(|(style, turns, max_turns, tiers, asked, policy, lives, order)| Script {
            style,
            turns,
            max_turns,
            tiers,
            asked,
            policy,
            lives,
            order,
        })
}

/// The model: what it says depends on how often it has spoken, which the transcript tells.
struct Model(Script);

impl HttpTransport for Model {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, TransportError>> {
        let body: Value = serde_json::from_slice(&request.body.to_bytes()).unwrap();
        let messages = body.get("messages").or(body.get("contents")).unwrap().as_array().unwrap();
        let spoken = |message: &&Value| message["role"] == "assistant" || message["role"] == "model";
        let turn = messages.iter().filter(spoken).count();
        let tools = self.0.turns.get(turn).map_or(&[][..], Vec::as_slice);
        let answer = said(self.0.style, turn, tools, self.0.tiers);
        Box::pin(async move {
            yield_now().await;
            Ok(HttpResponse::full(StatusCode::OK, HeaderMap::new(), answer.to_string()))
        })
    }
}

fn said(style: Style, turn: usize, tools: &[&str], tiers: bool) -> Value {
    let calls = tools.iter().enumerate().map(|(index, name)| {
        let (id, args) = (format!("{turn}-{index}"), json!({"of": index}));
        if tiers { (id, "call_tool", json!({"name": name, "arguments": args})) } else { (id, *name, args) }
    });
    match style {
        Style::Anthropic => {
            let mut blocks = vec![json!({"type": "text", "text": format!("turn {turn}")})];
            blocks.extend(
                calls.map(
                    |(id, name, args)| json!({"type": "tool_use", "name": name, "input": args, "id": id}),
                ),
            );
            let usage = json!({"input_tokens": 3, "output_tokens": 2});
            json!({"content": blocks, "stop_reason": "end_turn", "usage": usage})
        }
        Style::Gemini => {
            let mut parts = vec![json!({"text": format!("turn {turn}")})];
            parts.extend(
                calls.map(|(id, name, args)| json!({"functionCall": {"name": name, "args": args, "id": id}})),
            );
            let usage = json!({"promptTokenCount": 3, "candidatesTokenCount": 2});
            let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": "STOP"});
            json!({"candidates": [candidate], "usageMetadata": usage})
        }
        _ => {
            let calls: Vec<Value> = calls
                .map(|(id, name, args)| {
                    let function = json!({"name": name, "arguments": args.to_string()});
                    json!({"id": id, "type": "function", "function": function})
                })
                .collect();
            let mut message = json!({"role": "assistant", "content": format!("turn {turn}")});
            if !calls.is_empty() {
                message["tool_calls"] = calls.into();
            }
            let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5});
            json!({"choices": [{"message": message}], "usage": usage})
        }
    }
}

/// What was done, under the key that tools get for deduplication.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<HashMap<String, usize>>>);

impl Ledger {
    fn note(&self, context: &ToolContext) {
        let key = context.idempotency_key.clone().expect("a durable run has a key for each call");
        *self.0.lock().unwrap().entry(key).or_default() += 1;
    }
}

fn toolkit(ledger: &Ledger) -> Toolkit {
    let tool = |name: &'static str| -> Tool {
        let ledger = ledger.clone();
        let mut tool = define_tool(name, name, None, move |args: Value, context: ToolContext| {
            let ledger = ledger.clone();
            async move {
                yield_now().await;
                let asks = name == "asks" || name == "declined";
                let Some(answer) = context.answer.as_ref().filter(|_| asks) else {
                    if asks {
                        let prompt = format!("{name} {args}");
                        return pending(Request { kind: "input".into(), prompt, ..Default::default() });
                    }
                    ledger.note(&context);
                    yield_now().await;
                    return match name {
                        "fails" => ToolResult::failure("it failed"),
                        _ => ToolResult::success(format!("{name} did {args}")),
                    };
                };
                assert!(name == "asks" && answer.ok, "a declined call ran");
                ledger.note(&context);
                yield_now().await;
                ToolResult::success(format!("{name} {args}: {}", answer.data.as_ref().unwrap()["text"]))
            }
        });
        tool.hints = (name == "reads").then(|| ToolHints { read_only: true, ..Default::default() });
        tool
    };
    let known = TOOLS.into_iter().filter(|name| !["gone", "relayed"].contains(name));
    Toolkit::from_tools(known.map(tool).chain([relay_tool("relayed", "relayed", None)]))
}

fn hooks() -> Hooks {
    Hooks::default()
        .with_before_llm(|event: BeforeLlmEvent| async move {
            yield_now().await;
            let mut messages = event.messages.clone();
            messages.push(event.messages.iter().find(|message| message["role"] == "user").unwrap().clone());
            Ok((event.turn == 1).then(|| LlmOverride { messages: Some(messages), ..Default::default() }))
        })
        .with_before_tool(|event: BeforeToolEvent| async move {
            yield_now().await;
            let mut args = event.args;
            let changes = args.get("changes").and_then(Value::as_u64).unwrap_or(0);
            args.insert("changes".into(), (changes + 1).into());
            Ok((event.name == "changed").then(|| ToolOverride::args(args)))
        })
        .with_after_tool(|event: AfterToolEvent| async move {
            yield_now().await;
            let output = format!("{}!", event.result.output);
            Ok(Some(ToolOverride::result(ToolResult { output, ..event.result })))
        })
}

/// A log that takes its time before and after it has written.
#[derive(Clone, Default)]
struct SlowLog(MemoryRunLog);

impl RunLog for SlowLog {
    fn append<'a>(
        &'a self,
        run_id: &'a str,
        at: u64,
        events: &'a [RunEvent],
    ) -> BoxFuture<'a, Result<(), RunLogError>> {
        Box::pin(async move {
            yield_now().await;
            self.0.append(run_id, at, events).await?;
            yield_now().await;
            Ok(())
        })
    }

    fn read<'a>(&'a self, run_id: &'a str, from: u64) -> BoxFuture<'a, Result<Vec<RunEvent>, RunLogError>> {
        Box::pin(async move {
            yield_now().await;
            let events = self.0.read(run_id, from).await?;
            // As they come back from a disk.
            Ok(serde_json::from_value(serde_json::to_value(events).unwrap()).unwrap())
        })
    }

    fn list<'a>(&'a self, filter: RunFilter) -> BoxFuture<'a, Result<Vec<RunSummary>, RunLogError>> {
        self.0.list(filter)
    }

    fn remove<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Result<(), RunLogError>> {
        self.0.remove(run_id)
    }
}

fn answer_to(request: &Request, call_id: &str) -> Answer {
    if request.kind == "tool_call" {
        let output = format!("relayed {call_id}");
        let result = RelayResult { id: call_id.into(), output, is_error: false };
        return relay_answer(request.id.clone(), [result]);
    }
    let ok = !request.prompt.starts_with("declined");
    let data = Some(object(json!({"text": format!("answer to {}", request.prompt)})));
    Answer { id: request.id.clone(), ok, data: data.filter(|_| ok), reason: None }
}

/// Polls a process so often; then it is told to stop, or dropped.
async fn live<T>(
    work: impl Future<Output = T>,
    life: Option<(usize, bool)>,
    cancel: &CancellationToken,
) -> Option<T> {
    let mut work = pin!(work);
    let mut polls = 0;
    poll_fn(|context| {
        if let Some((most, told)) = life
            && polls >= most
        {
            if !told {
                return Poll::Ready(None);
            }
            cancel.cancel();
        }
        polls += 1;
        assert!(polls < 10_000, "it does not end");
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// One host with its client, tools and stores, through all of its processes.
struct Host<'s> {
    script: &'s Script,
    log: SlowLog,
    ledger: Ledger,
    toolkit: Toolkit,
    store: Arc<InMemoryConversationStore>,
    client: Client,
    told: Arc<Mutex<Vec<String>>>,
    doubted: bool,
}

impl<'s> Host<'s> {
    fn new(script: &'s Script) -> Self {
        let ledger = Ledger::default();
        let store = Arc::new(InMemoryConversationStore::default());
        let wait_for: WaitFor = Arc::new(|request: Request| {
            Box::pin(async move {
                yield_now().await;
                let calls = request.data.as_ref().and_then(|data| data.get("calls"));
                let call_id = calls.and_then(|calls| calls[0]["id"].as_str());
                Ok(answer_to(&request, call_id.unwrap_or_default()))
            })
        });
        let transport: Arc<dyn HttpTransport> = Arc::new(Model(script.clone()));
        let client = create_client(ClientOptions {
            http_client: Some(transport),
            wait_for: (script.asked != Asked::Resuming).then_some(wait_for),
            concurrent_wait_for: script.asked == Asked::ResolverAtOnce,
            hooks: Some(hooks()),
            max_turns: script.max_turns,
            store: Some(store.clone()),
            tool_tiers: script.tiers.then(Default::default),
            ..support::options(script.style, "http://model.test/v1")
        });
        let (log, toolkit, told) = (SlowLog::default(), toolkit(&ledger), Arc::default());
        Host { script, log, ledger, toolkit, store, client, told, doubted: false }
    }

    fn shared(&self) -> Arc<dyn RunLog> {
        Arc::new(self.log.clone())
    }

    fn in_doubt(&self) -> InDoubt {
        match self.script.policy {
            Policy::Report => InDoubt::Report,
            Policy::Retry => InDoubt::Retry,
            Policy::Ask => InDoubt::Ask,
        }
    }

    /// Carries a run out to its end, in as many processes as it takes.
    async fn carry_out(&mut self, run_id: &str, lives: &[(usize, bool)]) -> RunResult {
        let mut lives = lives.iter().copied();
        loop {
            let (life, cancel) = (lives.next(), CancellationToken::new());
            let told = Arc::clone(&self.told);
            let on_event: EventSink = Arc::new(move |event: &StreamEvent| {
                if let StreamEvent::ToolResult { id, .. } = event {
                    told.lock().unwrap().push(id.clone());
                }
            });
            let events = self.log.0.read(run_id, 0).await.unwrap_or_default();
            let ended = if events.is_empty() {
                let options = RunDurableOptions {
                    run_id: run_id.into(),
                    id: "c".into(),
                    on_event: Some(on_event),
                    cancel: Some(cancel.clone()),
                    ..RunDurableOptions::new(self.shared())
                };
                live(self.client.run_durable("hi", &self.toolkit, options), life, &cancel).await
            } else {
                let run = Run::replay(&events).expect("the log is a run at any time");
                assert!(!self.log.0.list(RunFilter::default()).await.unwrap().is_empty());
                self.doubted |= run.has_running_calls();
                let open = run.open_requests();
                let asked = open.get(self.script.order.min(open.len().saturating_sub(1)));
                let answer = asked.map(|asked| answer_to(asked.request, &asked.call.id));
                let options = ResumeOptions {
                    answer: answer.filter(|_| self.script.asked == Asked::Resuming),
                    in_doubt: self.in_doubt(),
                    on_event: Some(on_event),
                    cancel: Some(cancel.clone()),
                    ..ResumeOptions::new(self.shared(), run_id)
                };
                live(self.client.resume(&self.toolkit, options), life, &cancel).await
            };
            match ended {
                Some(Ok(result)) if result.status != RunStatus::Pending => {
                    let options = ResumeOptions::new(self.shared(), run_id);
                    let stored = self.client.resume(&self.toolkit, options).await.unwrap();
                    assert_eq!(stored, result, "what is stored is what was returned");
                    return result;
                }
                Some(Err(failed)) => {
                    assert!(matches!(failed.error, ClientError::Cancelled), "{failed}");
                }
                Some(Ok(_)) | None => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    // RUN-15, RUN-20, RUN-21, RUN-22, RUN-23, RUN-25, RUN-30, CLIENT-53, CLIENT-55, CLIENT-127
    #[test]
    fn a_disturbed_run_is_the_undisturbed_one(script in scripts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mut alone, mut disturbed) = (Host::new(&script), Host::new(&script));
        let expected = runtime.block_on(alone.carry_out("r", &[]));
        let result = runtime.block_on(disturbed.carry_out("r", &script.lives));
        prop_assert!(!alone.doubted);
        let saved = runtime.block_on(disturbed.store.get("c")).unwrap();
        prop_assert_eq!(saved.as_ref(), Some(&result.messages));
        let told = disturbed.told.lock().unwrap().clone();
        let distinct: HashSet<&String> = told.iter().collect();
        prop_assert_eq!(distinct.len(), told.len(), "no result is told twice: {:?}", told);
        if script.policy == Policy::Report || !disturbed.doubted {
            let reads = result.tool_calls.iter().any(|call| call.name == "reads");
            for (key, count) in disturbed.ledger.0.lock().unwrap().iter() {
                prop_assert!(*count == 1 || reads, "{} ran {} times", key, count);
            }
        }
        if script.policy != Policy::Report || !disturbed.doubted {
            prop_assert_eq!(&result, &expected);
            return Ok(());
        }
        prop_assert_eq!(result.turns, expected.turns);
        prop_assert_eq!(result.usage, expected.usage);
        prop_assert_eq!(&result.text, &expected.text);
        prop_assert_eq!(result.messages.len(), expected.messages.len());
        for (call, expected) in result.tool_calls.iter().zip(&expected.tool_calls) {
            prop_assert!(call == expected || call.output == INTERRUPTED, "{:?} {:?}", call, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    // RUN-27, RUN-20, RUN-23: forks from every place come to the same, and change nothing where they
    // come from
    #[test]
    fn every_fork_comes_to_the_same_end(script in scripts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut host = Host::new(&script);
            let expected = host.carry_out("r", &[]).await;
            let events = host.log.0.read("r", 0).await.unwrap();
            for at in 0..=events.len() as u64 + 1 {
                let fork = format!("fork-{at}");
                match host.client.fork(&host.shared(), "r", at, &fork).await {
                    Ok(()) => {
                        let result = host.carry_out(&fork, &[]).await;
                        let run_id = Some(fork);
                        assert_eq!(result, RunResult { run_id, ..expected.clone() });
                    }
                    Err(ClientError::Durable(DurableError::NotABoundary { nearest, .. })) => {
                        assert!(host.client.fork(&host.shared(), "r", nearest, &fork).await.is_ok());
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            assert!(!host.doubted, "no fork begins where tools run");
            assert_eq!(host.log.0.read("r", 0).await.unwrap(), events);
        });
    }
}
