//! An agent process as the model: turns, permissions, cancels, and the ways an agent fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use support::{drain, within};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolnexus_core::Toolkit;
use toolnexus_llm::acp::{AcpClient, AcpError, AcpOptions, OnPermission, PermissionRequest};
use toolnexus_llm::{
    Client, ClientError, ClientOptions, InProcessOptions, InProcessRequest, RunOptions, StreamEvent,
    create_in_process_client,
};
use toolnexus_testkit::acp::{self, AcpFixture};
use toolnexus_testkit::mcp::{FixtureCommand, Grandchild, Ledger, ProcessFaults, StderrSpam, Step};

/// No turn of a test that is not about time takes that long.
const PATIENT: u64 = 20_000;

fn patient() -> AcpOptions {
    AcpOptions { start_timeout_ms: PATIENT, prompt_timeout_ms: PATIENT, ..Default::default() }
}

/// A ledger in a directory that goes with it.
struct Noted {
    ledger: Ledger,
    _dir: TempDir,
}

impl Noted {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Noted { ledger: Ledger::at(dir.path().join("ledger.jsonl")), _dir: dir }
    }

    /// The texts of the prompts so far.
    fn prompts(&self) -> Vec<String> {
        let prompts = self.ledger.of_method("session/prompt").unwrap();
        let text = |prompt: &Value| prompt["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
        prompts.iter().map(text).collect()
    }

    /// The outcomes of permission requests, and cancels, in the order they came.
    fn answers(&self) -> Vec<String> {
        let told = |message: Value| match message["method"].as_str() {
            Some("session/cancel") => Some("session/cancel".to_owned()),
            Some(_) => None,
            None => {
                let outcome = &message["result"]["outcome"];
                let id = outcome["optionId"].as_str();
                Some(id.or(outcome["outcome"].as_str())?.to_owned())
            }
        };
        self.ledger.messages().unwrap().into_iter().filter_map(told).collect()
    }
}

/// How to start the fixture, whose binary may have to be built first.
async fn command(fixture: AcpFixture) -> FixtureCommand {
    tokio::task::spawn_blocking(move || fixture.command().unwrap()).await.unwrap()
}

async fn start(fixture: AcpFixture, mut options: AcpOptions) -> Result<AcpClient, AcpError> {
    let command = command(fixture).await;
    options.env.extend(command.env);
    within(AcpClient::start(command.program, command.args, options)).await
}

/// A fixture whose messages are noted, running.
async fn noted(fixture: AcpFixture, options: AcpOptions) -> (AcpClient, Noted) {
    let noted = Noted::new();
    let agent = start(fixture.ledger(noted.ledger.path()), options).await.unwrap();
    (agent, noted)
}

fn client(agent: &AcpClient) -> Client {
    create_in_process_client(InProcessOptions {
        generate: agent.generate_ctx(),
        generate_stream: Some(agent.generate_stream()),
        client: ClientOptions {
            model: "fixture".into(),
            system_prompt: "be brief".into(),
            ..Default::default()
        },
    })
}

fn is_alive(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::test_kill_process(pid).is_ok()
}

/// Waits until a process is gone. It is no child of this test to be waited for, so it is asked for.
async fn gone(pid: u32) {
    within(async {
        while is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

// CLIENT-140: the reply is the agent's message and nothing else
#[tokio::test]
async fn the_reply_is_the_text_of_the_turn() {
    let fixture = AcpFixture::new().turn([
        acp::thought("hm"),
        acp::plan("greet"),
        acp::message("Good "),
        acp::tool_report("Looking around"),
        Step::notify("session/update", json!({"sessionId": acp::SESSION, "update": {"sessionUpdate": "of tomorrow"}})),
        acp::update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "", "mimeType": "image/png"}})),
        acp::message("day."),
        acp::end("end_turn"),
    ]);
    let (agent, noted) = noted(fixture, patient()).await;
    assert_eq!(within(agent.prompt("hello")).await.unwrap(), "Good day.");
    assert_eq!(within(agent.prompt("hello again")).await.unwrap(), "Good day.", "each turn has its own text");
    assert_eq!(noted.prompts(), ["hello", "hello again"]);

    let hello = &noted.ledger.of_method("initialize").unwrap()[0]["params"];
    assert_eq!(hello["protocolVersion"], 1);
    let offered = &hello["clientCapabilities"];
    assert_eq!(offered["fs"], json!({"readTextFile": false, "writeTextFile": false}));
    assert_ne!(offered["terminal"], true, "neither files nor terminals are offered");
    let opened = &noted.ledger.of_method("session/new").unwrap()[0]["params"];
    assert_eq!(opened["cwd"], std::env::current_dir().unwrap().to_str().unwrap());
    assert_eq!(opened["mcpServers"], json!([]));
}

// CLIENT-140: the directory is the agent's too
#[tokio::test]
async fn an_agent_works_where_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let options = AcpOptions { cwd: Some(dir.path().into()), ..patient() };
    let (_agent, noted) = noted(AcpFixture::new(), options).await;
    let opened = &noted.ledger.of_method("session/new").unwrap()[0]["params"];
    assert_eq!(opened["cwd"], dir.path().to_str().unwrap());
}

// CLIENT-140
#[tokio::test]
async fn the_mode_can_be_set() {
    let (agent, noted) = noted(AcpFixture::new(), patient()).await;
    within(agent.set_mode("code")).await.unwrap();
    let asked = &noted.ledger.of_method("session/set_mode").unwrap()[0]["params"];
    assert_eq!(*asked, json!({"sessionId": acp::SESSION, "modeId": "code"}));

    let stubborn = AcpFixture::new().instead("session/set_mode", [Step::error(-32602, "no such mode")]);
    let agent = start(stubborn, patient()).await.unwrap();
    let error = within(agent.set_mode("code")).await.unwrap_err();
    assert!(error.to_string().contains("failed at session/set_mode: no such mode (code -32602)"), "{error}");
}

// CLIENT-136, CLIENT-140: the first turn says everything, later ones only what is new; two runs
// share the one session
#[tokio::test]
async fn under_a_client_the_agent_keeps_the_conversation() {
    let (agent, noted) = noted(AcpFixture::new(), patient()).await;
    let client = client(&agent);
    for text in ["first", "second"] {
        assert_eq!(within(client.ask(text, &Toolkit::default(), "chat")).await.unwrap().text, "ok");
    }
    assert_eq!(noted.prompts(), ["be brief\n\nfirst", "second"]);
    let kept = client.conversation_store().get("chat").await.unwrap().unwrap();
    assert_eq!(kept.len(), 5, "system text, two prompts, two answers");
}

// CLIENT-140: turns of several callers come one after the other
#[tokio::test]
async fn one_turn_at_a_time() {
    let turn = |text: &str| [acp::message(text), Step::sleep(1), acp::message("!"), acp::end("end_turn")];
    let fixture = AcpFixture::new().turn(turn("one")).turn(turn("two")).turn(turn("three"));
    let (agent, _noted) = noted(fixture, patient()).await;
    let replies = within(futures::future::join_all(["a", "b", "c"].map(|text| agent.prompt(text)))).await;
    let replies: Vec<String> = replies.into_iter().map(Result::unwrap).collect();
    assert_eq!(replies, ["one!", "two!", "three!"]);
}

/// What the agent is answered when it asks with these options.
async fn answered(options: AcpOptions, offered: &[(&str, &str)]) -> String {
    let fixture = AcpFixture::new().turn([
        acp::ask_permission(offered.iter().copied()),
        Step::AwaitReply,
        acp::message("went on"),
        acp::end("end_turn"),
    ]);
    let (agent, noted) = noted(fixture, options).await;
    assert_eq!(within(agent.prompt("go")).await.unwrap(), "went on");
    let [answer] = noted.answers().try_into().unwrap();
    answer
}

// CLIENT-141
#[tokio::test]
async fn permission_is_given_unless_told_otherwise() {
    let offered = [("no", "reject_once"), ("always", "allow_always"), ("once", "allow_once")];
    assert_eq!(answered(patient(), &offered).await, "always", "the first that allows");
    assert_eq!(answered(patient(), &[("no", "reject_once")]).await, "cancelled");
    assert_eq!(answered(patient(), &[]).await, "cancelled");
    let off = AcpOptions { auto_answer_permission: false, ..patient() };
    assert_eq!(answered(off, &offered).await, "cancelled");
}

fn choosing(choice: Option<&'static str>) -> OnPermission {
    Arc::new(move |_request| Box::pin(async move { choice.map(str::to_owned) }))
}

// CLIENT-142
#[tokio::test]
async fn the_hook_chooses() {
    let asked = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&asked);
    let hook: OnPermission = Arc::new(move |request: PermissionRequest| {
        *kept.lock().unwrap() = Some(request);
        Box::pin(async { Some("no".to_owned()) })
    });
    let offered = [("yes", "allow_once"), ("no", "reject_once")];
    let with = |hook| AcpOptions { on_permission: Some(hook), ..patient() };
    assert_eq!(answered(with(hook), &offered).await, "no", "the hook wins over answering by itself");
    let request = asked.lock().unwrap().take().unwrap();
    assert_eq!(request.tool_call["title"], "Write a file");
    let options: Vec<_> =
        request.options.iter().map(|o| (o.id.as_str(), o.name.as_str(), o.kind.as_str())).collect();
    assert_eq!(options, [("yes", "Option yes", "allow_once"), ("no", "Option no", "reject_once")]);

    assert_eq!(answered(with(choosing(None)), &offered).await, "cancelled");
    assert_eq!(answered(with(choosing(Some("perhaps"))), &offered).await, "cancelled", "no option");
    let panics: OnPermission = Arc::new(|_request| panic!("no screen"));
    assert_eq!(answered(with(panics), &offered).await, "cancelled");
}

// CLIENT-143
#[tokio::test]
async fn every_update_is_told_in_order() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let options = AcpOptions {
        on_update: Some(Arc::new(move |params: &Value| {
            kept.lock().unwrap().push(params.clone());
            // The reply is the same whatever the hook does.
            assert!(params["update"]["content"]["text"] != "a", "a hook panics");
        })),
        ..patient()
    };
    let fixture = AcpFixture::new().turn([
        acp::thought("hm"),
        acp::message("a"),
        acp::plan("b"),
        acp::update(json!({"sessionUpdate": "unheard_of", "x": [1]})),
        acp::message("c"),
        acp::end("end_turn"),
    ]);
    let (agent, _noted) = noted(fixture, options).await;
    assert_eq!(within(agent.prompt("go")).await.unwrap(), "ac");
    let told = told.lock().unwrap();
    let kinds: Vec<_> =
        told.iter().map(|params| params["update"]["sessionUpdate"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["agent_thought_chunk", "agent_message_chunk", "plan", "unheard_of", "agent_message_chunk"]
    );
    assert_eq!(
        told[3],
        json!({"sessionId": acp::SESSION, "update": {"sessionUpdate": "unheard_of", "x": [1]}})
    );
}

/// An agent that asks for permission and is then cancelled, a hook that never decides, and who
/// hears that it was asked.
fn undecided() -> (AcpFixture, AcpOptions, mpsc::UnboundedReceiver<()>) {
    let fixture = AcpFixture::new()
        .turn([
            acp::message("first "),
            acp::ask_permission([("yes", "allow_once")]),
            Step::AwaitReply,
            acp::await_cancel(),
            acp::message("too late"),
            // Asked after the cancel, and answered all the same.
            acp::ask_permission([("yes", "allow_once")]),
            Step::AwaitReply,
            acp::end("cancelled"),
        ])
        .turn([acp::message("second"), acp::end("end_turn")]);
    let (sender, asked) = mpsc::unbounded_channel();
    let hook: OnPermission = Arc::new(move |_request| {
        sender.send(()).unwrap();
        Box::pin(std::future::pending())
    });
    (fixture, AcpOptions { on_permission: Some(hook), ..patient() }, asked)
}

// CLIENT-144: the agent is cancelled first, then its open requests are answered; the session goes on
#[tokio::test]
async fn a_cancelled_run_cancels_the_turn() {
    for dropped in [false, true] {
        let (fixture, options, mut asked) = undecided();
        let (agent, noted) = noted(fixture, options).await;
        let client = client(&agent);
        let (cancel, toolkit) = (CancellationToken::new(), Toolkit::default());
        let run = RunOptions { cancel: Some(cancel.clone()), ..Default::default() };
        let mut running = Box::pin(client.run_with("go", &toolkit, run));
        tokio::select! {
            result = &mut running => panic!("{result:?}"),
            () = within(async { asked.recv().await.unwrap() }) => {}
        }
        if dropped {
            drop(running);
        } else {
            cancel.cancel();
            assert!(matches!(within(running).await, Err(ClientError::Cancelled)));
        }
        // The turn after it shows that the agent has ended the cancelled one.
        assert_eq!(within(client.run("again", &toolkit)).await.unwrap().text, "second");
        assert_eq!(noted.answers(), ["session/cancel", "cancelled", "cancelled"]);
        assert!(asked.try_recv().is_err(), "nobody was asked after the cancel");
    }
}

// CLIENT-144: the function itself reports the cancel
#[tokio::test]
async fn the_cancelled_function_says_so() {
    let (fixture, options, mut asked) = undecided();
    let (agent, _noted) = noted(fixture, options).await;
    let request = InProcessRequest {
        messages: vec![json!({"role": "user", "content": "go"})],
        cancel: CancellationToken::new(),
        ..Default::default()
    };
    let cancel = request.cancel.clone();
    let answering = tokio::spawn(agent.generate_ctx()(request));
    within(asked.recv()).await.unwrap();
    cancel.cancel();
    let error = within(answering).await.unwrap().unwrap_err();
    assert_eq!(error.downcast_ref::<AcpError>(), Some(&AcpError::Cancelled));
    let late = InProcessRequest { cancel, ..Default::default() };
    let error = within(agent.generate_ctx()(late)).await.unwrap_err();
    assert_eq!(
        error.downcast_ref::<AcpError>(),
        Some(&AcpError::Cancelled),
        "nothing is sent when it is too late"
    );
}

// CLIENT-144: without the token, cancelling stops the wait and nothing else
#[tokio::test]
async fn without_the_token_the_agent_is_told_nothing() {
    let (sender, mut asked) = mpsc::unbounded_channel();
    let (decide, decided) = oneshot::channel();
    let decided = Mutex::new(Some(decided));
    let hook: OnPermission = Arc::new(move |_request| {
        sender.send(()).unwrap();
        let decided = decided.lock().unwrap().take().unwrap();
        Box::pin(async { decided.await.ok() })
    });
    let fixture = AcpFixture::new()
        .turn([
            acp::ask_permission([("yes", "allow_once")]),
            Step::AwaitReply,
            acp::message("one"),
            acp::end("end_turn"),
        ])
        .turn([acp::message("two"), acp::end("end_turn")]);
    let (agent, noted) = noted(fixture, AcpOptions { on_permission: Some(hook), ..patient() }).await;
    let client = create_in_process_client(InProcessOptions {
        generate: agent.generate(),
        generate_stream: None,
        client: ClientOptions { model: "fixture".into(), ..Default::default() },
    });
    let toolkit = Toolkit::default();
    let mut running = Box::pin(client.run("go", &toolkit));
    tokio::select! {
        result = &mut running => panic!("{result:?}"),
        () = within(async { asked.recv().await.unwrap() }) => {}
    }
    drop(running);
    decide.send("yes".to_owned()).unwrap();
    assert_eq!(within(client.run("next", &toolkit)).await.unwrap().text, "two");
    assert_eq!(noted.answers(), ["yes"], "the turn went on to its end");
}

// CLIENT-140, CLIENT-144: dropping a prompt cancels its turn
#[tokio::test]
async fn a_dropped_prompt_is_cancelled() {
    let (fixture, options, mut asked) = undecided();
    let (agent, noted) = noted(fixture, options).await;
    let mut prompting = Box::pin(agent.prompt("go"));
    tokio::select! {
        reply = &mut prompting => panic!("{reply:?}"),
        () = within(async { asked.recv().await.unwrap() }) => {}
    }
    drop(prompting);
    assert_eq!(within(agent.prompt("again")).await.unwrap(), "second");
    assert_eq!(noted.answers(), ["session/cancel", "cancelled", "cancelled"]);
}

// CLIENT-144: an agent that ends the turn as cancelled by itself
#[tokio::test]
async fn a_turn_may_end_as_cancelled() {
    let fixture = AcpFixture::new().turn([acp::message("half"), acp::end("cancelled")]);
    let (agent, _noted) = noted(fixture, patient()).await;
    assert_eq!(within(agent.prompt("go")).await, Err(AcpError::Cancelled));
}

// CLIENT-145: each chunk is one delta, told when it is there: the agent sends the second only
// after the first was seen
#[tokio::test]
async fn chunks_are_deltas() {
    let (seen, was_seen) = oneshot::channel::<()>();
    let was_seen = Mutex::new(Some(was_seen));
    let hook: OnPermission = Arc::new(move |_request| {
        let was_seen = was_seen.lock().unwrap().take().unwrap();
        Box::pin(async { was_seen.await.ok().map(|()| "yes".to_owned()) })
    });
    let fixture = AcpFixture::new().turn([
        acp::thought("hm"),
        acp::message("Good "),
        acp::ask_permission([("yes", "allow_once")]),
        Step::AwaitReply,
        acp::message("day"),
        acp::message("."),
        acp::end("end_turn"),
    ]);
    let (agent, noted) = noted(fixture, AcpOptions { on_permission: Some(hook), ..patient() }).await;
    let client = client(&agent);
    let mut stream = client.stream("hello", &Toolkit::default());
    let first = within(stream.next()).await.unwrap().unwrap();
    assert!(matches!(&first, StreamEvent::Text { delta } if delta == "Good "), "{first:?}");
    seen.send(()).unwrap();
    let (events, error) = within(drain(stream)).await;
    assert!(error.is_none(), "{error:?}");
    let deltas = events.iter().filter_map(|event| match event {
        StreamEvent::Text { delta } => Some(delta.as_str()),
        _ => None,
    });
    let deltas: Vec<&str> = deltas.collect();
    assert_eq!(deltas, ["day", "."]);
    let Some(StreamEvent::Done { result }) = events.last() else { panic!("{events:?}") };
    assert_eq!(result.text, "Good day.");
    assert_eq!(noted.answers(), ["yes"], "an ended stream cancels nothing");
}

// CLIENT-144, CLIENT-145: a dropped stream cancels its turn
#[tokio::test]
async fn a_dropped_stream_is_cancelled() {
    let (fixture, options, mut asked) = undecided();
    let (agent, noted) = noted(fixture, options).await;
    let client = client(&agent);
    let mut stream = client.stream("go", &Toolkit::default());
    assert!(matches!(within(stream.next()).await, Some(Ok(StreamEvent::Text { .. }))));
    within(asked.recv()).await.unwrap();
    drop(stream);
    let (events, error) = within(drain(client.stream("again", &Toolkit::default()))).await;
    assert!(error.is_none(), "{error:?}");
    assert!(matches!(&events[0], StreamEvent::Text { delta } if delta == "second"), "{events:?}");
    assert_eq!(noted.answers(), ["session/cancel", "cancelled", "cancelled"]);
}

// CLIENT-140: a turn that takes too long ends, is cancelled, and holds up nothing
#[tokio::test]
async fn a_turn_has_a_limit() {
    let fixture = AcpFixture::new()
        .turn([acp::message("half"), acp::await_cancel(), acp::end("cancelled")])
        .turn([acp::message("whole"), acp::end("end_turn")]);
    let options = AcpOptions { prompt_timeout_ms: 300, ..patient() };
    let (agent, noted) = noted(fixture, options).await;
    let error = within(agent.prompt("go")).await.unwrap_err();
    assert!(matches!(&error, AcpError::Timeout { timeout_ms: 300, .. }), "{error:?}");
    let expected = "did not answer within 300ms; prompt_timeout_ms gives it more time";
    assert!(error.to_string().ends_with(expected), "{error}");
    within(noted.ledger.wait_for("session/cancel", 1)).await.unwrap();

    let (agent, _noted) =
        self::noted(AcpFixture::new().turn([]), AcpOptions { prompt_timeout_ms: 50, ..patient() }).await;
    for _ in 0..2 {
        let error = within(agent.prompt("go")).await.unwrap_err();
        assert!(matches!(error, AcpError::Timeout { .. }), "an agent that never ends a turn: {error:?}");
    }
}

// CLIENT-140: the default limit of a turn
#[test]
fn the_defaults_are_documented_ones() {
    let options = AcpOptions::default();
    assert!(options.auto_answer_permission && options.on_permission.is_none());
    let secret =
        AcpOptions { env: [("KEY".to_owned(), "hidden-value".to_owned())].into_iter().collect(), ..options };
    let shown = format!("{secret:?}");
    assert!(shown.contains("KEY") && !shown.contains("hidden-value"), "{shown}");
}

// CLIENT-140: killed on drop, with what the agent has started, also in the middle of a turn
#[tokio::test]
async fn nothing_is_left_when_the_last_handle_is_dropped() {
    for busy in [false, true] {
        let faults = ProcessFaults {
            ignore_stdin_close: true,
            ignore_signals: true,
            grandchild: Some(Grandchild::HoldsPipes),
            ..Default::default()
        };
        let (agent, noted) = noted(AcpFixture::new().faults(faults).turn([]), patient()).await;
        let (child, grandchild) = noted.ledger.started().await.unwrap();
        assert!(is_alive(child) && is_alive(grandchild.unwrap()));
        let generate = agent.generate();
        drop(agent);
        assert!(is_alive(child), "the function keeps the agent alive");
        if busy {
            let turn = tokio::spawn(generate(InProcessRequest::default()));
            within(noted.ledger.wait_for("session/prompt", 1)).await.unwrap();
            turn.abort();
            assert!(within(turn).await.unwrap_err().is_cancelled());
        }
        drop(generate);
        gone(child).await;
        gone(grandchild.unwrap()).await;
        // The reaper's task, the last one, ends by itself.
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        within(async {
            while tasks() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

// CLIENT-140: after `close` the process is gone, and a call says so
#[tokio::test]
async fn close_waits_until_the_agent_is_gone() {
    let (agent, noted) = noted(AcpFixture::new(), patient()).await;
    let (child, _) = noted.ledger.started().await.unwrap();
    within(agent.close()).await;
    assert!(!is_alive(child), "reaped on return");
    let error = within(agent.prompt("hello?")).await.unwrap_err();
    assert!(matches!(error, AcpError::Ended { .. }), "{error:?}");
    assert!(matches!(within(agent.set_mode("code")).await, Err(AcpError::Ended { .. })));
    within(agent.close()).await;
}

// CLIENT-140: a start that is given up leaves nothing behind
#[tokio::test]
async fn a_dropped_start_kills_the_agent() {
    let noted = Noted::new();
    let fixture = AcpFixture::new().instead("initialize", []).ledger(noted.ledger.path());
    let command = command(fixture).await;
    let options = AcpOptions { env: command.env.into_iter().collect(), ..patient() };
    let mut starting = Box::pin(AcpClient::start(command.program, command.args, options));
    let child = tokio::select! {
        started = &mut starting => panic!("{started:?}"),
        started = noted.ledger.started() => started.unwrap().0,
    };
    drop(starting);
    gone(child).await;
}

// CLIENT-140
#[tokio::test]
async fn a_command_that_is_not_there_is_named() {
    let error =
        AcpClient::start("toolnexus-no-such-agent", ["--key=hidden-value"], patient()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("the ACP agent \"toolnexus-no-such-agent\" cannot be started: "), "{text}");
    assert!(text.contains("is it installed") && !text.contains("hidden-value"), "{text}");
}

// CLIENT-140: an agent that ends at once is told with its exit code and last words, without secrets
#[tokio::test]
async fn an_agent_that_dies_at_the_start_says_why() {
    let fixture = AcpFixture::new().on_start([
        Step::Line("npx: installing".into()),
        Step::Stderr("no licence for sk-hidden-value".into()),
        Step::Exit { code: 7 },
    ]);
    let mut options = patient();
    options.env.insert("AGENT_CREDENTIAL".into(), "sk-hidden-value".into());
    let error = start(fixture, options).await.unwrap_err();
    let AcpError::Ended { command, exit, said } = &error else { panic!("{error:?}") };
    assert!(command.contains("toolnexus-mcp-fixture"), "{command}");
    assert_eq!(exit, "ended with exit code 7");
    assert_eq!(
        said,
        "; it wrote a line that is no message: npx: installing; its standard error ends with: no licence for «redacted»"
    );
}

// CLIENT-140: an agent that dies in a turn; later calls say the same at once
#[tokio::test]
async fn an_agent_that_dies_in_a_turn_says_why() {
    for ending in [Step::Exit { code: 3 }, Step::Kill, Step::CloseStdout] {
        // Closing an agent's input must not end one that only closed its output.
        let faults = ProcessFaults { ignore_stdin_close: true, ..Default::default() };
        let steps = [acp::message("half"), Step::Stderr("out of memory".into()), ending.clone()];
        let fixture = AcpFixture::new().faults(faults).turn(steps);
        let (agent, noted) = noted(fixture, patient()).await;
        let error = within(agent.prompt("go")).await.unwrap_err();
        let AcpError::Ended { exit, said, .. } = &error else { panic!("{error:?}") };
        let expected = match ending {
            Step::Exit { .. } => "ended with exit code 3",
            Step::Kill => "was ended by signal 9",
            _ => "closed its standard output",
        };
        assert_eq!(exit, expected);
        assert_eq!(said, "; its standard error ends with: out of memory");
        assert_eq!(within(agent.prompt("again")).await.unwrap_err(), error);
        let streamed = within(drain(client(&agent).stream("again", &Toolkit::default()))).await.1.unwrap();
        assert!(streamed.to_string().contains(expected), "{streamed}");
        // One that only closed its output is killed: nobody can talk to it any more.
        gone(noted.ledger.started().await.unwrap().0).await;
    }
}

// CLIENT-140: bytes that are no text end the connection at once, and the agent
#[tokio::test]
async fn an_agent_that_writes_no_text_is_given_up() {
    let fixture = AcpFixture::new().turn([Step::Bytes(b"{\"a\": \"\xff\xfe\"}\n".to_vec())]);
    let (agent, noted) = noted(fixture, patient()).await;
    let error = within(agent.prompt("go")).await.unwrap_err();
    let AcpError::Ended { exit, .. } = &error else { panic!("{error:?}") };
    assert!(exit.starts_with("wrote what cannot be read: "), "{exit}");
    gone(noted.ledger.started().await.unwrap().0).await;
}

// CLIENT-140, CLIENT-145: what was told stays told when the agent then dies
#[tokio::test]
async fn a_stream_tells_of_the_death() {
    let fixture = AcpFixture::new().turn([acp::message("half"), Step::Exit { code: 3 }]);
    let (agent, _noted) = noted(fixture, patient()).await;
    let (events, error) = within(drain(client(&agent).stream("go", &Toolkit::default()))).await;
    assert!(matches!(&events[..], [StreamEvent::Text { delta }] if delta == "half"), "{events:?}");
    let ClientError::Generate(source) = error.unwrap() else { panic!() };
    assert!(matches!(source.downcast_ref(), Some(AcpError::Ended { .. })), "{source}");
}

// CLIENT-140: an agent that never opens a session
#[tokio::test]
async fn a_start_has_a_limit() {
    for method in ["initialize", "session/new"] {
        let noted = Noted::new();
        let fixture = AcpFixture::new().instead(method, []).ledger(noted.ledger.path());
        let options = AcpOptions { start_timeout_ms: 1000, ..patient() };
        let error = start(fixture, options).await.unwrap_err();
        assert!(matches!(error, AcpError::StartTimeout { timeout_ms: 1000, .. }), "{error:?}");
        assert!(error.to_string().contains("opened no session within 1000ms; does it speak ACP"), "{error}");
        // On a slow machine it may not have come as far as to note its start.
        for (child, _) in noted.ledger.processes().unwrap() {
            gone(child).await;
        }
    }
}

// CLIENT-140: lines that are no messages are passed over, and standard error is read
#[tokio::test]
async fn noise_holds_nothing_up() {
    let faults = ProcessFaults {
        // More than any pipe holds.
        stderr_spam: Some(StderrSpam { lines: Some(3000), bytes: 1000 }),
        ..Default::default()
    };
    let fixture = AcpFixture::new().faults(faults).on_start([Step::Line("Welcome!".into())]).turn([
        Step::Line("{\"jsonrpc\": ".into()),
        Step::Line("debug: thinking".into()),
        Step::Line(String::new()),
        acp::message("fine"),
        acp::end("end_turn"),
    ]);
    let (agent, _noted) = noted(fixture, patient()).await;
    assert_eq!(within(agent.prompt("go")).await.unwrap(), "fine");
}

// CLIENT-140: what an agent answers with an error
#[tokio::test]
async fn failures_are_told() {
    let fixture = AcpFixture::new().instead("session/new", [Step::error(-32000, "Authentication required")]);
    let error = start(fixture, patient()).await.unwrap_err();
    assert!(matches!(&error, AcpError::Failed { method: "session/new", code: -32000, .. }), "{error:?}");

    let fixture = AcpFixture::new().instead("initialize", [Step::result(json!({"protocolVersion": 7}))]);
    let text = start(fixture, patient()).await.unwrap_err().to_string();
    assert!(text.contains("failed at initialize") && text.contains("protocol version 7"), "{text}");

    let fixture = AcpFixture::new()
        .turn([acp::message("half"), Step::error(-32603, "overloaded")])
        .turn([acp::message("whole"), acp::end("end_turn")]);
    let (agent, _noted) = noted(fixture, patient()).await;
    let error = within(client(&agent).run("go", &Toolkit::default())).await.unwrap_err().to_string();
    assert!(error.starts_with("the in-process model failed: the ACP agent"), "{error}");
    assert!(error.ends_with("failed at session/prompt: overloaded (code -32603)"), "{error}");
    assert_eq!(within(agent.prompt("again")).await.unwrap(), "whole", "the session goes on");
}

// CLIENT-140: files and terminals were not offered, and asking for them is refused
#[tokio::test]
async fn other_requests_of_the_agent_are_refused() {
    let fixture = AcpFixture::new().turn([
        Step::request("fs/read_text_file", json!({"sessionId": acp::SESSION, "path": "/etc/hosts"})),
        Step::AwaitReply,
        Step::request("terminal/create", json!({"sessionId": acp::SESSION, "command": "ls"})),
        Step::AwaitReply,
        acp::message("without"),
        acp::end("end_turn"),
    ]);
    let (agent, noted) = noted(fixture, patient()).await;
    assert_eq!(within(agent.prompt("go")).await.unwrap(), "without");
    let refused: Vec<_> = noted
        .ledger
        .messages()
        .unwrap()
        .into_iter()
        .filter(|message| message.get("error").is_some())
        .collect();
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|answer| answer["error"]["code"] == -32601), "{refused:?}");
}
