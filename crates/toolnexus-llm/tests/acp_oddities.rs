//! Agents that keep to the letter of JSON-RPC, or not even to that, and still want to be heard.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use support::agent::{client, gone, noted, patient, start};
use support::within;
use tokio_util::sync::CancellationToken;
use toolnexus_core::Toolkit;
use toolnexus_llm::InProcessRequest;
use toolnexus_llm::acp::{AcpError, AcpOptions};
use toolnexus_testkit::acp::{self, AcpFixture};
use toolnexus_testkit::mcp::{ProcessFaults, Step};

fn asks(text: &str, cancel: &CancellationToken) -> InProcessRequest {
    InProcessRequest {
        messages: vec![json!({"role": "user", "content": text})],
        cancel: cancel.clone(),
        ..Default::default()
    }
}

// CLIENT-144: a turn that is cancelled before its time has come does not wait for the one before it
#[tokio::test]
async fn a_waiting_turn_is_cancelled_at_once() {
    let fixture = AcpFixture::new()
        .turn([acp::message("one"), Step::AwaitGate("never".into())])
        .turn([acp::message("two"), acp::end("end_turn")]);
    // Longer than anybody waits.
    let (agent, noted) = noted(fixture, AcpOptions { prompt_timeout_ms: 600_000, ..patient() }).await;
    let generate = agent.generate_ctx();
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let running = tokio::spawn(generate(asks("first", &first)));
    within(noted.ledger.wait_for("session/prompt", 1)).await.unwrap();
    let waiting = tokio::spawn(generate(asks("second", &second)));
    tokio::task::yield_now().await;
    second.cancel();
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(AcpError::Cancelled)), "{error}");
    assert!(!running.is_finished());
    assert!(noted.answers().is_empty(), "the running turn is not cancelled: {:?}", noted.answers());
    running.abort();
}

// CLIENT-145: the same for one that is to be streamed
#[tokio::test]
async fn a_waiting_stream_is_cancelled_at_once() {
    let fixture = AcpFixture::new().turn([acp::message("one"), Step::AwaitGate("never".into())]);
    let (agent, noted) = noted(fixture, AcpOptions { prompt_timeout_ms: 600_000, ..patient() }).await;
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let running = tokio::spawn(agent.generate_ctx()(asks("first", &first)));
    within(noted.ledger.wait_for("session/prompt", 1)).await.unwrap();
    let mut waiting = agent.generate_stream()(asks("second", &second));
    assert!(waiting.next().now_or_never().is_none());
    second.cancel();
    let error = within(waiting.next()).await.unwrap().unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(AcpError::Cancelled)), "{error}");
    assert!(within(waiting.next()).await.is_none());
    running.abort();
}

// CLIENT-140, open point 31: what an agent refuses it forgets, so everything is said again
#[tokio::test]
async fn what_was_refused_is_said_again() {
    let fixture = AcpFixture::new()
        .turn([acp::message("no"), acp::end("refusal")])
        .turn([acp::message("yes"), acp::end("end_turn")]);
    let (agent, noted) = noted(fixture, patient()).await;
    let (client, toolkit) = (client(&agent), Toolkit::default());
    assert_eq!(within(client.run("go", &toolkit)).await.unwrap().text, "no");
    assert_eq!(within(client.run("again", &toolkit)).await.unwrap().text, "yes");
    assert_eq!(noted.prompts(), ["be brief\n\ngo", "be brief\n\nagain"]);
}

// CLIENT-140: the reply is the message of this session's turn
#[tokio::test]
async fn another_sessions_text_is_no_part_of_the_reply() {
    let content = json!({"type": "text", "text": "from elsewhere"});
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
    let foreign = Step::notify("session/update", json!({"sessionId": "session-2", "update": update}));
    let fixture =
        AcpFixture::new().turn([acp::message("a"), foreign, acp::message("b"), acp::end("end_turn")]);
    let (agent, _noted) = noted(fixture, patient()).await;
    assert_eq!(within(agent.prompt("go")).await.unwrap(), "ab");
}

// CLIENT-140: no secret in an error, also not a part of one that was cut, nor in the agent's own words
#[tokio::test]
async fn errors_tell_no_part_of_a_secret() {
    let secret = "sk-hidden-value-0123456789";
    let options = || {
        let mut options = patient();
        options.env.insert("AGENT_CREDENTIAL".into(), secret.into());
        options
    };
    let line = format!("{}{secret}", "x".repeat(190));
    let fixture = AcpFixture::new().on_start([Step::Line(line), Step::Exit { code: 1 }]);
    let error = start(fixture, options()).await.unwrap_err();
    assert!(!error.to_string().contains("sk-hid"), "{error}");

    let fixture =
        AcpFixture::new().turn([Step::error(-32000, &format!("the credential {secret} has expired"))]);
    let (agent, _noted) = noted(fixture, options()).await;
    let error = within(agent.prompt("go")).await.unwrap_err();
    assert!(error.to_string().contains("has expired") && !error.to_string().contains("sk-hid"), "{error}");
}

// CLIENT-140: nonsense between messages is passed over
#[tokio::test]
async fn nonsense_is_passed_over() {
    let deep = format!("{{\"a\": {}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let lines = [
        r#"{"jsonrpc": "2.0", "id": 4711, "result": {"stopReason": "end_turn"}}"#,
        r#"{"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "no"}}"#,
        r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}"#,
        r#"{"jsonrpc": "2.0"}"#,
        r#"{}"#,
        r#"[]"#,
        r#"[{"jsonrpc": "2.0", "method": "session/update", "params": {}}]"#,
        r#"{"jsonrpc": "2.0", "method": "session/update"}"#,
        r#"{"jsonrpc": "2.0", "method": "session/update", "params": [1, 2]}"#,
        r#"{"jsonrpc": "2.0", "method": "session/update", "params": {"update": null}}"#,
        r#"{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "session-1", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 7}}}}"#,
        r#"{"jsonrpc": "2.0", "method": "no/such/notification", "params": {"x": 1}}"#,
        r#"{"jsonrpc": "2.0", "id": 9, "method": "session/request_permission"}"#,
        r#"{"jsonrpc": "2.0", "id": 10, "method": "session/request_permission", "params": {"options": 7}}"#,
        r#"{"jsonrpc": "1.0", "method": 7, "params": {}}"#,
        deep.as_str(),
    ];
    for line in lines {
        let fixture = AcpFixture::new().turn([
            acp::message("a"),
            Step::Line(line.into()),
            acp::message("b"),
            acp::end("end_turn"),
        ]);
        let (agent, _noted) = noted(fixture, patient()).await;
        let reply = within(agent.prompt("go")).await;
        assert_eq!(reply.as_deref(), Ok("ab"), "{}", &line[..line.len().min(120)]);
    }
}

// CLIENT-140: answers that are none are errors that say so, and the session goes on
#[tokio::test]
async fn unusable_answers_are_told() {
    for result in [json!(null), json!({}), json!([]), json!("end_turn"), json!({"stopReason": 7})] {
        let fixture = AcpFixture::new()
            .turn([acp::message("half"), Step::result(result.clone())])
            .turn([acp::message("whole"), acp::end("end_turn")]);
        let (agent, _noted) = noted(fixture, patient()).await;
        let error = within(agent.prompt("go")).await.unwrap_err();
        assert!(matches!(&error, AcpError::Failed { method: "session/prompt", .. }), "{result}: {error:?}");
        assert_eq!(within(agent.prompt("again")).await.unwrap(), "whole", "{result}");
    }
    for result in [json!(null), json!({}), json!({"sessionId": 7})] {
        let fixture = AcpFixture::new().instead("session/new", [Step::result(result.clone())]);
        let error = start(fixture, patient()).await.unwrap_err();
        assert!(matches!(&error, AcpError::Failed { method: "session/new", .. }), "{result}: {error:?}");
    }
}

// CLIENT-140: an agent that reads nothing holds up neither a turn nor the end, however much is said
#[tokio::test]
async fn an_agent_that_reads_nothing_is_left() {
    let fixture = AcpFixture::new()
        .faults(ProcessFaults { ignore_stdin_close: true, ignore_signals: true, ..Default::default() })
        .instead(
            "session/new",
            [Step::result(json!({"sessionId": acp::SESSION})), Step::Sleep { ms: 600_000 }],
        );
    let (agent, noted) = noted(fixture, AcpOptions { prompt_timeout_ms: 300, ..patient() }).await;
    let (child, _) = noted.ledger.started().await.unwrap();
    let error = within(agent.prompt("x".repeat(8 << 20))).await.unwrap_err();
    assert!(matches!(error, AcpError::Timeout { .. }), "{error:?}");
    drop(agent);
    gone(child).await;
}

// CLIENT-140, CLIENT-143: many pieces, told to a slow listener, are all there when the turn ends
#[tokio::test]
async fn a_slow_listener_loses_nothing() {
    let mut steps: Vec<Step> = (0..300).map(|n| acp::message(&format!("{n} "))).collect();
    steps.push(acp::message(&"x".repeat(30_000)));
    steps.push(acp::end("end_turn"));
    let seen = Arc::new(std::sync::Mutex::new(0));
    let counted = Arc::clone(&seen);
    let options = AcpOptions {
        on_update: Some(Arc::new(move |_: &Value| {
            std::thread::yield_now();
            *counted.lock().unwrap() += 1;
        })),
        ..patient()
    };
    let (agent, _noted) = noted(AcpFixture::new().turn(steps), options).await;
    let reply = within(agent.prompt("go")).await.unwrap();
    let expected: String = (0..300).map(|n| format!("{n} ")).collect();
    assert_eq!(reply.len(), expected.len() + (30_000));
    assert!(reply.starts_with(&expected));
    assert_eq!(*seen.lock().unwrap(), 301);
}

// CLIENT-140: several agents and clients at once do not hear each other
#[tokio::test]
async fn agents_do_not_hear_each_other() {
    let mut agents = Vec::new();
    for n in 0..3 {
        let fixture = AcpFixture::new().turn([acp::message(&format!("agent {n}")), acp::end("end_turn")]);
        agents.push(noted(fixture, patient()).await);
    }
    let toolkit = Toolkit::default();
    let clients: Vec<_> = agents.iter().flat_map(|(agent, _)| [client(agent), client(agent)]).collect();
    let runs = clients.iter().map(|client| client.run("go", &toolkit));
    let texts: Vec<String> =
        within(futures::future::join_all(runs)).await.into_iter().map(|run| run.unwrap().text).collect();
    assert_eq!(texts, ["agent 0", "agent 0", "agent 1", "agent 1", "agent 2", "agent 2"]);
}
