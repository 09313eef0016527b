//! An agent process as the model: turns, permissions, updates, cancels, streams.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use serde_json::{Value, json};
use support::agent::{client, noted, patient, start};
use support::{drain, within};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolnexus_core::Toolkit;
use toolnexus_llm::acp::{AcpError, AcpOptions, OnPermission, PermissionRequest};
use toolnexus_llm::{
    ClientError, ClientOptions, InProcessOptions, InProcessRequest, RunOptions, StreamEvent,
    create_in_process_client,
};
use toolnexus_testkit::acp::{self, AcpFixture};
use toolnexus_testkit::mcp::Step;

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
    let (agent, noted) = noted(fixture, options).await;
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
    assert_eq!(noted.prompts(), ["go"]);
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
