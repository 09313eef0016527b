//! Ctrl-C in every phase: exit 130, at once, and nothing left running.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

mod common;

use std::process::Stdio;

use common::{Place, Ran, run_args, soon};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Child;
use toolnexus_testkit::mcp::{FixtureTool, Grandchild, Ledger, McpFixture, ProcessFaults};
use toolnexus_testkit::model::{ModelServer, Reply, Script};

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Sends Ctrl-C and expects the end.
async fn interrupted(place: &Place, child: Child) -> Ran {
    send(&child, Signal::INT);
    let ran = place.end(child).await;
    assert_eq!(ran.code, 130, "{ran:#?}");
    ran
}

/// A server that will not go by itself, with a process of its own.
fn stubborn() -> McpFixture {
    McpFixture::new().faults(ProcessFaults {
        ignore_stdin_close: true,
        ignore_signals: true,
        grandchild: Some(Grandchild::Quiet),
        ..Default::default()
    })
}

#[tokio::test]
async fn while_the_prompt_is_read() {
    let place = Place::new();
    let server = ModelServer::start(Script::new()).await.unwrap();
    let base_url = server.base_url();
    let mut command = place.command(&["run", "-", "-v", "--base-url", &base_url, "--model", "m"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // That it reads is seen by its taking more than a pipe holds.
    let mut stdin = child.stdin.take().unwrap();
    let chunk = vec![b'x'; 1 << 20];
    soon(tokio::io::AsyncWriteExt::write_all(&mut stdin, &chunk)).await.unwrap();
    interrupted(&place, child).await;
    assert_eq!(server.request_count(), 0);
}

// A pipe, as `@<(jq …)` is one
#[tokio::test]
async fn while_arguments_are_read_from_a_file() {
    let place = Place::new();
    let pipe = place.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for writes in [false, true] {
        let child = place.spawn(&["tools", "call", "todowrite", "@pipe"]);
        // Opens when the command does.
        let to = pipe.clone();
        let mut writer =
            soon(tokio::task::spawn_blocking(move || std::fs::OpenOptions::new().write(true).open(to)))
                .await
                .unwrap()
                .unwrap();
        if writes {
            std::io::Write::write_all(&mut writer, b"{").unwrap();
        }
        let ran = interrupted(&place, child).await;
        assert_eq!(ran.stdout, "");
    }
}

#[tokio::test]
async fn while_servers_connect() {
    let place = Place::new();
    let ledger = Ledger::at(place.path().join("ledger"));
    let silent = stubborn().never_answers("initialize").ledger(ledger.path());
    let place = place.servers([("silent", silent.server_json().unwrap())]);
    for args in [&["tools"][..], &["mcp", "list"], &run_args("http://127.0.0.1:9/v1", "hi", &[])] {
        let before = ledger.of_method("initialize").unwrap().len();
        let child = place.spawn(args);
        ledger.wait_for("initialize", before + 1).await.unwrap();
        let ran = interrupted(&place, child).await;
        assert_eq!(ran.stdout, "", "{args:?}");
        ran.says(&["interrupted"]);
    }
}

#[tokio::test]
async fn while_the_model_thinks() {
    let server = ModelServer::start(Reply::hang()).await.unwrap();
    let place = Place::new().servers([("docs", stubborn().server_json().unwrap())]);
    let child = place.spawn(&run_args(&server.base_url(), "hi", &["--json"]));
    soon(server.wait_for_requests(1)).await;
    let ran = interrupted(&place, child).await;
    soon(server.wait_for_no_connections()).await;
    let last = ran.events().pop().unwrap();
    assert_eq!(last, json!({"type": "error", "message": "interrupted", "exit_code": 130}));
}

#[tokio::test]
async fn while_an_answer_streams() {
    let server = ModelServer::start(Reply::openai().deltas(["Hel"]).then_hang()).await.unwrap();
    let place = Place::new();
    let mut child = place.spawn(&run_args(&server.base_url(), "hi", &["--no-builtins"]));
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 3];
    soon(stdout.read_exact(&mut first)).await.unwrap();
    interrupted(&place, child).await;
    soon(server.wait_for_no_connections()).await;
}

#[tokio::test]
async fn while_a_command_runs() {
    // It ignores the polite signal, and so does what it starts.
    let command = "trap '' TERM INT; (sleep 300; true) & echo started > started; sleep 300; true";
    let server = ModelServer::start(Reply::openai().tool_call("c", "bash", json!({"command": command})))
        .await
        .unwrap();
    let place = Place::new();
    let child = place.spawn(&run_args(&server.base_url(), "hi", &[]));
    soon(async {
        while !place.path().join("started").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(place.processes().len() >= 3, "{:?}", place.processes());
    interrupted(&place, child).await;
}

#[tokio::test]
async fn while_an_mcp_tool_runs() {
    let place = Place::new();
    let ledger = Ledger::at(place.path().join("ledger"));
    let docs = stubborn().tool(FixtureTool::hangs("stuck")).ledger(ledger.path());
    let place = place.servers([("docs", docs.server_json().unwrap())]);
    let server = ModelServer::start(Reply::openai().tool_call("c", "docs_stuck", json!({}))).await.unwrap();
    let child = place.spawn(&run_args(&server.base_url(), "hi", &[]));
    ledger.wait_for("tools/call", 1).await.unwrap();
    interrupted(&place, child).await;
}

#[tokio::test]
async fn while_the_demo_plays() {
    let place = Place::new();
    let mut child = place.spawn(&["demo"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    soon(async { while !lines.next_line().await.unwrap().unwrap().contains("Let me see") {} }).await;
    assert_eq!(place.processes().len(), 2, "the command and its server: {:?}", place.processes());
    interrupted(&place, child).await;
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_polite_end_is_an_end_too() {
    let server = ModelServer::start(Reply::hang()).await.unwrap();
    let place = Place::new().servers([("docs", stubborn().server_json().unwrap())]);
    let child = place.spawn(&run_args(&server.base_url(), "hi", &[]));
    soon(server.wait_for_requests(1)).await;
    send(&child, Signal::TERM);
    assert_eq!(place.end(child).await.code, 143);
}

#[tokio::test]
async fn a_closed_terminal_and_a_quit_leave_nothing_running_either() {
    // No stream of the command is a terminal here.
    for (signal, code, said) in [(Signal::HUP, 129, "the terminal was closed"), (Signal::QUIT, 131, "quit")] {
        let server = ModelServer::start(Reply::hang()).await.unwrap();
        let place = Place::new().servers([("docs", stubborn().server_json().unwrap())]);
        let child = place.spawn(&run_args(&server.base_url(), "hi", &[]));
        soon(server.wait_for_requests(1)).await;
        send(&child, signal);
        let ran = place.end(child).await;
        assert_eq!(ran.code, code, "{ran:#?}");
        ran.says(&[said]);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_is_to_outlive_its_terminal_does() {
    let gate = toolnexus_testkit::model::Gate::new();
    let server = ModelServer::start(Reply::openai().deltas(["he"]).wait(&gate).deltas(["re"])).await.unwrap();
    let place = Place::new();
    let base_url = server.base_url();
    let command = place.command(&run_args(&base_url, "hi", &["--no-builtins"]));
    // As `nohup` does it, without its redirections.
    let mut shell = place.shell("trap '' HUP; exec \"$@\"", &command);
    let mut child = shell.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 2];
    soon(stdout.read_exact(&mut first)).await.unwrap();
    send(&child, Signal::HUP);
    gate.open();
    let mut rest = String::new();
    soon(stdout.read_to_string(&mut rest)).await.unwrap();
    assert_eq!((rest.as_str(), place.end(child).await.code), ("re\n", 0));
}

#[tokio::test]
async fn the_second_ends_the_process_where_the_first_could_not() {
    // Nobody reads stdout, so the command is stuck in a write and cannot act on the first.
    let server = ModelServer::start(Reply::openai().text_deltas(4, 1 << 20)).await.unwrap();
    let place = Place::new();
    let mut child = place.spawn(&run_args(&server.base_url(), "hi", &["--no-builtins"]));
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 4];
    soon(stdout.read_exact(&mut first)).await.unwrap();
    send(&child, Signal::INT);
    // Signals of one kind that come together count once, so the second comes until it is heard.
    let status = soon(async {
        loop {
            tokio::select! {
                status = child.wait() => break status.unwrap(),
                () = tokio::time::sleep(std::time::Duration::from_millis(20)) => send(&child, Signal::INT),
            }
        }
    })
    .await;
    assert_eq!(status.code(), Some(130));
    place.assert_nothing_left().await;
}
