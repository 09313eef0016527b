//! Agents that die, hang, refuse or write nonsense, and what is left of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use serde_json::json;
use support::agent::{Noted, client, command, gone, is_alive, noted, patient, start};
use support::{drain, within};
use toolnexus_core::Toolkit;
use toolnexus_llm::acp::{AcpClient, AcpError, AcpOptions};
use toolnexus_llm::{ClientError, InProcessRequest, StreamEvent};
use toolnexus_testkit::acp::{self, AcpFixture};
use toolnexus_testkit::mcp::{Grandchild, ProcessFaults, StderrSpam, Step};

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
    let (agent, noted) = noted(fixture, patient()).await;
    let error = within(client(&agent).run("go", &Toolkit::default())).await.unwrap_err().to_string();
    assert!(error.starts_with("the in-process model failed: the ACP agent"), "{error}");
    assert!(error.ends_with("failed at session/prompt: overloaded (code -32603)"), "{error}");
    let toolkit = Toolkit::default();
    let client = client(&agent);
    assert_eq!(within(client.run("again", &toolkit)).await.unwrap().text, "whole", "the session goes on");
    within(client.run("more", &toolkit)).await.unwrap();
    assert_eq!(
        noted.prompts(),
        ["be brief\n\ngo", "be brief\n\nagain", "more"],
        "what failed was not heard, so everything is said again"
    );
}
