//! `toolnexus run --durable` and `toolnexus runs`: runs that survive their process.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

mod common;

use std::path::PathBuf;

use common::{Place, Ran, run_args, soon, suspended, write_run};
use serde_json::{Value, json};
use toolnexus_testkit::mcp::{FixtureTool, Ledger, McpFixture};
use toolnexus_testkit::model::{Gate, ModelServer, Reply, Script};

/// An address nobody listens at: what is told without a model must not need it.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

/// A model that calls `tool` and then says what it was told.
fn calls(tool: &'static str) -> Script {
    Script::respond_with(move |request| {
        let request = request.json();
        let last = request["messages"].as_array().unwrap().last().unwrap().clone();
        if last["role"] == "tool" {
            Reply::openai().text(format!("it said: {}", last["content"].as_str().unwrap())).usage(20, 7)
        } else {
            Reply::openai().text("Let me look.").tool_call("c1", tool, json!({"q": "life"})).usage(10, 5)
        }
    })
}

/// The server `docs` with a tool that answers so.
fn finds(place: Place, answer: &str) -> Place {
    place
        .servers([("docs", McpFixture::new().tool(FixtureTool::text("find", answer)).server_json().unwrap())])
}

fn durable<'a>(base_url: &'a str, run_id: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args =
        run_args(base_url, "look it up", &["--no-builtins", "--durable", "runs", "--run-id", run_id]);
    args.extend(more);
    args
}

fn resume<'a>(base_url: &'a str, run_id: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args =
        vec!["runs", "resume", run_id, "--durable", "runs", "--base-url", base_url, "--no-builtins"];
    args.extend(more);
    args
}

fn file_of(place: &Place, run_id: &str) -> PathBuf {
    place.path().join(format!("runs/{run_id}.jsonl"))
}

/// The types of a run's events.
async fn kinds(place: &Place, run_id: &str) -> Vec<String> {
    let ran = place.run(&["runs", "show", run_id, "--durable", "runs", "--json"]).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    ran.events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// Each run's id and status, newest first.
async fn statuses(place: &Place) -> Vec<(String, String)> {
    let ran = place.run(&["runs", "list", "--durable", "runs", "--json"]).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let document = ran.document();
    let runs = document["runs"].as_array().unwrap();
    runs.iter().map(|run| (text(&run["runId"]), text(&run["status"]))).collect()
}

async fn status(place: &Place) -> String {
    let mut all = statuses(place).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0).1
}

// RUN-11, RUN-19, RUN-20, RUN-28
#[tokio::test]
async fn a_finished_run_is_listed_shown_and_told_again() {
    let place = finds(Place::new(), "42\nand\nmore");
    let server = ModelServer::start(calls("docs_find")).await.unwrap();
    let ran = place.run(&durable(&server.base_url(), "first", &[])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "it said: 42\nand\nmore\n"), "{ran:#?}");
    ran.says(&["run first in runs\n"]);
    assert!(!ran.stderr.contains("to go on"), "{ran:#?}");

    let ran = place.run(&["runs", "list", "--durable", "runs"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(
        lines[0].starts_with("first  done  20")
            && lines[0].contains(" UTC · 2 turns · 1 tool call · 42 tokens")
    );
    assert_eq!(lines[1..], ["  look it up"]);
    let ran = place.run(&["runs", "list", "--durable", "runs", "--json"]).await;
    let document = ran.document();
    let run = &document["runs"][0];
    assert_eq!(
        (
            &run["runId"],
            &run["status"],
            &run["prompt"],
            &run["turns"],
            &run["toolCalls"],
            &run["totalTokens"]
        ),
        (&json!("first"), &json!("done"), &json!("look it up"), &json!(2), &json!(1), &json!(42))
    );
    assert_eq!((&run["pending"], &document["next"]), (&json!([]), &Value::Null));
    assert!(run["startedAt"].as_str().unwrap().ends_with('Z'), "{run}");

    let ran = place.run(&["runs", "show", "first", "--durable", "runs"]).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let (head, events) = ran.stdout.split_once("\n\n").unwrap();
    assert!(
        head.starts_with("first  done\nm (openai) · 2 turns · 1 tool call · 42 tokens\nbegan 20"),
        "{head}"
    );
    let shown = "\
1  prompt: look it up
2  model: Let me look.
     calls docs_find(q: \"life\")
3  ▸ docs_find(q: \"life\")
4  ✓ docs_find:
     42
     and
     more
5  model:
     it said: 42
     and
     more
6  done
";
    assert_eq!(events, shown);
    assert_eq!(
        kinds(&place, "first").await,
        ["started", "model_answered", "tool_started", "tool_finished", "model_answered", "finished"]
    );

    // Neither a model nor a tool is needed to hear the answer again.
    let before = std::fs::read(file_of(&place, "first")).unwrap();
    let place = place.file("mcp.json", "no longer a configuration");
    let ran = place.run(&["runs", "resume", "first", "--durable", "runs"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "it said: 42\nand\nmore\n"), "{ran:#?}");
    assert_eq!(std::fs::read(file_of(&place, "first")).unwrap(), before);
    assert_eq!(server.request_count(), 2);

    let ran = place.run(&["runs", "remove", "first", "--durable", "runs"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "removed first\n"), "{ran:#?}");
    let ran = place.run(&["runs", "list", "--durable", "runs"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:#?}");
    ran.says(&["no such runs in runs"]);
}

// RUN-11, RUN-19
#[tokio::test]
async fn json_names_the_run_and_the_variable_stands_for_the_flag() {
    let place = finds(Place::new(), "42").env("TOOLNEXUS_RUNS", "my runs");
    let server = ModelServer::start(calls("docs_find")).await.unwrap();
    let base_url = server.base_url();
    let ran = place.run(&run_args(&base_url, "look", &["--no-builtins", "--json"])).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let events = ran.events();
    let run_id = events[1]["runId"].as_str().unwrap();
    assert_eq!(events[1], json!({"type": "run", "runId": run_id, "durable": "my runs", "resumed": false}));
    assert_eq!(run_id.len(), 36, "a UUID: {run_id}");
    let done = events.last().unwrap();
    assert_eq!((&done["type"], &done["result"]["runId"]), (&json!("done"), &json!(run_id)));
    // The flag wins.
    let ran = place
        .run(&run_args(&base_url, "look", &["--no-builtins", "--durable", "others", "--run-id", "b"]))
        .await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let listed = place.run(&["runs", "list"]).await;
    assert!(listed.stdout.starts_with(run_id) && listed.stdout.lines().count() == 2, "{listed:#?}");
    let listed = place.run(&["runs", "list", "--durable", "others"]).await;
    assert!(listed.stdout.starts_with("b  done"), "{listed:#?}");
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let place = Place::new();
    for run_id in ["a", "b", "c"] {
        write_run(&place, run_id, &[]);
    }
    let ran = place.run(&["runs", "list", "--durable", "runs", "--limit", "2", "--json"]).await;
    let page = ran.document();
    assert_eq!(page["runs"].as_array().unwrap().len(), 2, "{page}");
    let next = page["next"].as_str().unwrap();
    let ran = place.run(&["runs", "list", "--durable", "runs", "--limit", "2", "--after", next]).await;
    assert_eq!(
        (ran.code, ran.stdout.matches("  running  ").count(), ran.stderr.as_str()),
        (0, 1, ""),
        "{ran:#?}"
    );
    let ran = place.run(&["runs", "list", "--durable", "runs", "--limit", "1"]).await;
    ran.says(&["more with --after "]);
    let ran = place.run(&["runs", "list", "--durable", "runs", "--status", "done"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:#?}");
}

// RUN-23, case 4
#[tokio::test]
async fn a_run_that_waits_goes_on_with_an_answer() {
    let place = finds(Place::new(), "42");
    let server = ModelServer::start(Script::always(Reply::openai().text("thanks"))).await.unwrap();
    let base_url = server.base_url();
    write_run(&place, "asks", &suspended("input", json!({})));
    let before = std::fs::read(file_of(&place, "asks")).unwrap();
    // Without an answer it still waits, and nothing is needed to say so.
    let ran = place.run(&["runs", "resume", "asks", "--durable", "runs"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (4, ""), "{ran:#?}");
    ran.says(&[
        "pending: Which city?\n  request sus-1\n",
        "to answer: toolnexus runs resume asks --durable runs --answer TEXT\n",
    ]);
    assert_eq!(std::fs::read(file_of(&place, "asks")).unwrap(), before);
    let ran = place.run(&["runs", "list", "--durable", "runs", "--status", "pending"]).await;
    assert!(ran.stdout.contains("? Which city? sus-1"), "{ran:#?}");
    let ran = place.run(&["runs", "show", "asks", "--durable", "runs"]).await;
    assert!(ran.stdout.contains("4  ? docs_find: Which city?\n     request sus-1, input\n"), "{ran:#?}");
    assert!(ran.stdout.contains("open: Which city?\n  request sus-1\n\nto answer: "), "{ran:#?}");

    let ran = place.run(&resume(&base_url, "asks", &["--answer", "Zurich"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "thanks\n"), "{ran:#?}");
    ran.says(&[
        "run asks in runs, resumed after 1 turn\n",
        "✓ docs_find(q: \"life\") → 42 ·",
        "done · 2 turns",
    ]);
    let ran = place.run(&["runs", "show", "asks", "--durable", "runs"]).await;
    assert!(ran.stdout.contains("answer to sus-1: Zurich\n"), "{ran:#?}");
    assert_eq!(server.request_count(), 1);
    // There is nothing to answer any more.
    let ran = place.run(&resume(NOWHERE, "asks", &["--answer", "Bern"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
    ran.says(&["the run \"asks\" waits for no answer"]);
}

// RUN-3, RUN-23: a declined request reaches the model, and no tool runs
#[tokio::test]
async fn every_way_to_answer_is_the_answer_in_the_log() {
    let schema = json!({"schema": {"type": "object", "required": ["age"], "properties": {"age": {"type": "integer"}}}});
    let answered = |data: Value| json!({"id": "sus-1", "ok": true, "data": data});
    for (kind, data, flags, answer) in [
        ("input", json!({}), &["--answer=-1"][..], answered(json!({"output": "-1"}))),
        ("input", json!({}), &["--answer-json", r#"{"a": [1]}"#], answered(json!({"a": [1]}))),
        ("input", schema.clone(), &["--answer", "36"], answered(json!({"age": 36}))),
        ("input", schema, &["--answer-json", r#"{"age": 36}"#], answered(json!({"age": 36}))),
        ("approval", json!({}), &["--answer", "Yes"], json!({"id": "sus-1", "ok": true})),
        (
            "approval",
            json!({}),
            &["--answer", "n"],
            json!({"id": "sus-1", "ok": false, "reason": "declined"}),
        ),
        ("authorization", json!({}), &["--answer", ""], json!({"id": "sus-1", "ok": true})),
        ("input", json!({}), &["--decline"], json!({"id": "sus-1", "ok": false, "reason": "declined"})),
        (
            "input",
            json!({}),
            &["--decline=not today"],
            json!({"id": "sus-1", "ok": false, "reason": "not today"}),
        ),
    ] {
        let place = finds(Place::new(), "42");
        write_run(&place, "asks", &suspended(kind, data));
        let server = ModelServer::start(calls("docs_find")).await.unwrap();
        let base_url = server.base_url();
        let mut flags = flags.to_vec();
        flags.extend(["--request", "sus-1"]);
        let ran = place.run(&resume(&base_url, "asks", &flags)).await;
        assert_eq!(ran.code, 0, "{ran:#?}");
        let said =
            if answer["ok"] == true { "it said: 42\n" } else { "it said: declined/expired: Which city?\n" };
        assert_eq!(ran.stdout, said, "{flags:?}");
        let ran = place.run(&["runs", "show", "asks", "--durable", "runs", "--json"]).await;
        let event = ran.events().into_iter().find(|event| event["type"] == "answered").unwrap();
        assert_eq!(event["answer"], answer, "{flags:?}");
    }
}

// RUN-23: several requests
#[tokio::test]
async fn of_several_questions_one_is_named() {
    let place = finds(Place::new(), "42");
    let call = |id: &str| json!({"id": id, "name": "docs_find", "args": {}});
    let asks = |index: usize| {
        json!({"type": "suspended", "index": index, "output": "waiting",
            "request": {"id": format!("sus-{index}"), "kind": "input", "prompt": format!("Question {index}?")}})
    };
    write_run(
        &place,
        "asks",
        &[
            common::asked_for(&[call("a"), call("b")]),
            json!({"type": "tool_started", "indices": [0, 1], "args": [{}, {}]}),
            asks(0),
            asks(1),
        ],
    );
    let server = ModelServer::start(Script::always(Reply::openai().text("thanks"))).await.unwrap();
    let base_url = server.base_url();
    let before = std::fs::read(file_of(&place, "asks")).unwrap();
    for more in [&["--answer", "x"][..], &["--answer", "x", "--request", "nope"]] {
        let ran = place.run(&resume(&base_url, "asks", more)).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&["with --request\n  sus-0  Question 0?\n  sus-1  Question 1?\n"]);
    }
    assert_eq!(std::fs::read(file_of(&place, "asks")).unwrap(), before);
    let ran = place.run(&resume(&base_url, "asks", &["--answer", "x", "--request", "sus-1"])).await;
    assert_eq!(ran.code, 4, "{ran:#?}");
    ran.says(&[
        "pending: Question 0?\n  request sus-0\n",
        "--answer TEXT\n  with the same --base-url, --no-builtins",
    ]);
    assert!(!ran.stderr.contains("pending: Question 1?"), "{ran:#?}");
    assert_eq!(server.request_count(), 0);
    let ran = place.run(&resume(&base_url, "asks", &["--answer", "x", "--json"])).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let events = ran.events();
    assert_eq!((&events[1]["type"], &events[1]["resumed"]), (&json!("run"), &json!(true)));
    assert_eq!(events.last().unwrap()["result"]["toolCalls"].as_array().unwrap().len(), 2);
}

/// A place in which the process of the run `r` was killed while `docs_find` ran.
async fn killed() -> Place {
    let place = Place::new();
    let ledger = Ledger::at(place.path().join("ledger"));
    let stuck = McpFixture::new().tool(FixtureTool::hangs("find")).ledger(ledger.path());
    let place = place.servers([("docs", stuck.server_json().unwrap())]);
    let server = ModelServer::start(calls("docs_find")).await.unwrap();
    let base_url = server.base_url();
    let mut child = place.spawn(&durable(&base_url, "r", &[]));
    ledger.wait_for("tools/call", 1).await.unwrap();
    soon(child.kill()).await.unwrap();
    place.assert_nothing_left().await;
    // From now on the tool answers.
    finds(place, "42")
}

const INTERRUPTED: &str =
    "it said: interrupted: the process stopped while this tool ran; its effect is unknown\n";

// RUN-10, RUN-15, RUN-21, RUN-28
#[tokio::test]
async fn a_killed_run_reports_or_repeats_what_is_in_doubt() {
    for (more, said, told) in [
        (&[][..], INTERRUPTED, "the model is told that it was interrupted"),
        (&["--in-doubt", "retry"], "it said: 42\n", "it runs again"),
    ] {
        let place = killed().await;
        assert_eq!(status(&place).await, "running");
        let ran = place.run(&["runs", "show", "r", "--durable", "runs"]).await;
        assert!(ran.stdout.contains("in doubt: docs_find(q: \"life\")\n"), "{ran:#?}");
        assert!(ran.stdout.contains("\nto go on: toolnexus runs resume r --durable runs\n"), "{ran:#?}");
        let server = ModelServer::start(calls("docs_find")).await.unwrap();
        let base_url = server.base_url();
        let ran = place.run(&resume(&base_url, "r", more)).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (0, said), "{ran:#?}");
        ran.says(&[&format!("in doubt: docs_find(q: \"life\")\n  it ran when the process ended: {told}\n")]);
        assert_eq!(ran.stderr.contains("✓ docs_find(q: \"life\") → 42"), !more.is_empty(), "{ran:#?}");
        assert_eq!(server.request_count(), 1, "what the model had said is not asked for again");
        assert_eq!(status(&place).await, "done");
    }
}

// RUN-21: ask
#[tokio::test]
async fn what_is_in_doubt_may_be_asked() {
    for (answer, said) in [
        (&["--answer", "y"][..], "it said: 42\n"),
        (&["--answer", "n"], INTERRUPTED),
        (&["--decline"], INTERRUPTED),
    ] {
        let place = killed().await;
        let ran = place.run(&resume(NOWHERE, "r", &["--in-doubt", "ask", "--json"])).await;
        assert_eq!(ran.code, 4, "{ran:#?}");
        let events = ran.events();
        assert_eq!(
            events[1]["inDoubt"],
            json!([{"id": "c1", "name": "docs_find", "args": {"q": "life"}, "becomes": "ask"}])
        );
        let open = &events.last().unwrap()["result"]["openRequests"];
        assert_eq!((&open[0]["kind"], open.as_array().unwrap().len()), (&json!("in_doubt"), 1));
        ran.says(&["to answer: toolnexus runs resume r --durable runs --answer TEXT\n"]);
        assert_eq!(status(&place).await, "pending");
        let ran = place.run(&resume(NOWHERE, "r", &["--answer", "perhaps"])).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&["--answer \"perhaps\" is no answer", "y to run it again, n to leave it"]);
        let server = ModelServer::start(calls("docs_find")).await.unwrap();
        let base_url = server.base_url();
        let ran = place.run(&resume(&base_url, "r", answer)).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (0, said), "{ran:#?}");
    }
}

/// The run's id that the advice to go on names.
fn advised(ran: &Ran) -> String {
    let (_, rest) = ran.stderr.split_once("to go on: toolnexus runs resume ").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

// RUN-25
#[cfg(unix)]
#[tokio::test]
async fn an_interrupted_run_says_how_to_go_on_and_does() {
    use rustix::process::{Pid, Signal, kill_process};
    let server = ModelServer::start(Reply::hang()).await.unwrap();
    let place = Place::new();
    let base_url = server.base_url();
    let child = place.spawn(&run_args(&base_url, "hi", &["--no-builtins", "--durable", "runs"]));
    soon(server.wait_for_requests(1)).await;
    kill_process(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap(), Signal::INT).unwrap();
    let ran = place.end(child).await;
    assert_eq!(ran.code, 130, "{ran:#?}");
    ran.says(&["interrupted\nto go on: ", " --durable runs\n  with the same --base-url, --no-builtins\n"]);
    assert_eq!(status(&place).await, "failed");
    let run_id = advised(&ran);
    assert_eq!(kinds(&place, &run_id).await, ["started", "failed"]);
    let server = ModelServer::start(Reply::openai().text("hello")).await.unwrap();
    let base_url = server.base_url();
    let ran = place.run(&resume(&base_url, &run_id, &[])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{ran:#?}");
    // The model is the run's own, where nothing else is said.
    assert_eq!(server.requests()[0].json()["model"], "m");
    assert_eq!(kinds(&place, &run_id).await[2..], ["resumed", "model_answered", "finished"]);
}

// RUN-25, case 12
#[tokio::test]
async fn a_run_that_failed_goes_on() {
    let place = Place::new();
    let server = ModelServer::start(Script::always(Reply::status(401))).await.unwrap();
    let base_url = server.base_url();
    let ran = place.run(&durable(&base_url, "r", &["--json"])).await;
    assert_eq!(ran.code, 1, "{ran:#?}");
    let events = ran.events();
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["runId"]), (&json!("error"), &json!("r")));
    ran.says(&["refused the key", "\nto go on: toolnexus runs resume r --durable runs\n"]);
    // Time that is up, too.
    let hanging = ModelServer::start(Reply::hang()).await.unwrap();
    let base_url = hanging.base_url();
    let ran = place.run(&resume(&base_url, "r", &["--timeout", "300ms"])).await;
    assert_eq!(ran.code, 5, "{ran:#?}");
    assert_eq!(advised(&ran), "r");
    assert_eq!(status(&place).await, "failed");
    let server = ModelServer::start(Reply::openai().text("ok")).await.unwrap();
    let base_url = server.base_url();
    let ran = place.run(&resume(&base_url, "r", &["--model", "other"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ok\n"), "{ran:#?}");
    assert_eq!(server.requests()[0].json()["model"], "other");
    // What never began has nothing to go on with.
    let ran = place.run(&["run", "hi", "--durable", "runs", "--base-url", "http://127.0.0.1:9/v1"]).await;
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(!ran.stderr.contains("to go on"), "{ran:#?}");
}

// RUN-25: a reader that goes away is written down
#[cfg(unix)]
#[tokio::test]
async fn a_reader_that_goes_away_fails_the_run() {
    let place = Place::new();
    let text = "x".repeat(1 << 20);
    let server = ModelServer::start(Reply::openai().deltas([&text, &text])).await.unwrap();
    let base_url = server.base_url();
    let mut child = place.spawn(&durable(&base_url, "r", &["--no-skills"]));
    drop(child.stdout.take());
    let ran = place.end(child).await;
    assert_eq!(ran.code, 141, "{ran:#?}");
    assert_eq!(kinds(&place, "r").await.last().unwrap(), "failed");
}

// RUN-27, case 11
#[tokio::test]
async fn a_fork_goes_its_own_way() {
    let place = finds(Place::new(), "42");
    let server = ModelServer::start(calls("docs_find")).await.unwrap();
    let base_url = server.base_url();
    assert_eq!(place.run(&durable(&base_url, "a", &[])).await.code, 0);
    let before = std::fs::read(file_of(&place, "a")).unwrap();
    let fork = |new_id: &'static str, at: &'static str| {
        ["runs", "fork", "a", new_id, "--at", at, "--durable", "runs"]
    };
    for (new_id, at, said) in [
        ("b", "3", "cannot be forked at event 3, where tools are running: the nearest place is 2 (--at 2)"),
        ("b", "99", "--at 99 is behind the end of the run \"a\", which has 6 events: take at most 6"),
        ("b", "0", "--at"),
        ("a", "2", "the run \"a\" exists already"),
        ("../b", "2", "\"../b\" is no run id"),
    ] {
        let ran = place.run(&fork(new_id, at)).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&[said]);
    }
    assert_eq!(statuses(&place).await.len(), 1);
    let ran = place.run(&fork("b", "2")).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let said = "b begins with the first 2 events of a\nto go on: toolnexus runs resume b --durable runs\n";
    assert_eq!(ran.stdout, said);
    let place = finds(place, "43");
    let ran = place.run(&resume(&base_url, "b", &[])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "it said: 43\n"), "{ran:#?}");
    assert_eq!(std::fs::read(file_of(&place, "a")).unwrap(), before);
}

// RUN-14, RUN-24, case 6
#[tokio::test]
async fn of_two_processes_one_goes_on() {
    let place = Place::new();
    write_run(&place, "r", &[]);
    let gate = Gate::new();
    let slow = ModelServer::start(Reply::openai().wait(&gate).text("from the first")).await.unwrap();
    let quick = ModelServer::start(Reply::openai().text("from the second")).await.unwrap();
    let (slow_url, quick_url) = (slow.base_url(), quick.base_url());
    let first = place.spawn(&resume(&slow_url, "r", &[]));
    soon(slow.wait_for_requests(1)).await;
    let mut second = place.spawn(&resume(&quick_url, "r", &[]));
    soon(second.wait()).await.unwrap();
    gate.open();
    let first = place.end(first).await;
    assert_eq!(first.code, 1, "{first:#?}");
    first.says(&[
        "another process went on with the run \"r\", so this one stopped",
        "`toolnexus runs show r`",
    ]);
    assert!(!first.stderr.contains("to go on:"), "{first:#?}");
    let second = place.end(second).await;
    assert_eq!((second.code, second.stdout.as_str()), (0, "from the second\n"), "{second:#?}");
    assert_eq!(kinds(&place, "r").await, ["started", "resumed", "resumed", "model_answered", "finished"]);
}

// RUN-11, RUN-13, RUN-19, RUN-26, cases 8, 9, 10
#[tokio::test]
async fn what_is_wrong_with_a_run_is_named() {
    let place = Place::new().file("a-file", "x");
    write_run(&place, "there", &[]);
    write_run(&place, "broken", &suspended("input", json!({})));
    let path = file_of(&place, "broken");
    let damaged = std::fs::read_to_string(&path).unwrap().replacen("model_answered", "model_answere!", 1);
    std::fs::write(&path, &damaged).unwrap();
    let newer = file_of(&place, "there");
    let rows: &[(&[&str], i32, &str)] = &[
        (&["runs", "list"], 2, "no directory of runs: name it with --durable DIR, or set TOOLNEXUS_RUNS"),
        (&["runs", "list", "--durable", ""], 2, "--durable"),
        (
            &["runs", "list", "--durable", "absent"],
            2,
            "--durable \"absent\" cannot be used as a directory of runs",
        ),
        (&["runs", "show", "there", "--durable", "a-file"], 2, "--durable \"a-file\" cannot be used"),
        (&["run", "hi", "--durable", "a-file"], 2, "--durable \"a-file\" cannot be used"),
        (
            &["run", "hi", "--durable", "runs", "--run-id", "there"],
            2,
            "the run \"there\" exists already: go on with it with `toolnexus runs resume there --durable runs`",
        ),
        (&["run", "hi", "--durable", "runs", "--run-id", "../x"], 2, "\"../x\" is no run id"),
        (&["run", "hi", "--run-id", "x"], 2, "add --durable DIR"),
        (&["run", "hi", "--durable", "runs", "--run-id", "broken"], 1, "runs/broken.jsonl is damaged"),
        (
            &["runs", "show", "broken", "--durable", "runs"],
            1,
            "runs/broken.jsonl is damaged: restore the file, or remove the run with `toolnexus runs remove broken --durable runs`",
        ),
        (&["runs", "resume", "broken", "--durable", "runs"], 1, "runs/broken.jsonl is damaged"),
        (
            &["runs", "fork", "broken", "b", "--at", "1", "--durable", "runs"],
            1,
            "runs/broken.jsonl is damaged",
        ),
        (
            &["runs", "show", "nobody", "--durable", "runs"],
            2,
            "there is no run \"nobody\": `toolnexus runs list --durable runs`",
        ),
        (&["runs", "resume", "nobody", "--durable", "runs"], 2, "there is no run \"nobody\""),
        (&["runs", "remove", "nobody", "--durable", "runs"], 2, "there is no run \"nobody\""),
        (&["runs", "fork", "nobody", "b", "--at", "1", "--durable", "runs"], 2, "there is no run \"nobody\""),
        (&["runs", "list", "--after", "nobody", "--durable", "runs"], 2, "there is no run \"nobody\""),
        (&["runs", "show", ".hidden", "--durable", "runs"], 2, "\".hidden\" is no run id: use 1 to 128 of"),
        (
            &["runs", "resume", "there", "--durable", "runs", "--style", "anthropic"],
            2,
            "was begun in style openai and this model speaks anthropic: use --style openai",
        ),
        (&["runs", "resume", "there", "--durable", "runs", "--answer", "x"], 2, "waits for no answer"),
        (&["runs", "resume", "there", "--durable", "runs", "--answer", "x", "--decline"], 2, "--decline"),
        (&["runs", "resume", "there", "--durable", "runs", "--request", "x"], 2, "--answer"),
        (&["runs", "resume", "there", "--durable", "runs", "--in-doubt", "forget"], 2, "forget"),
        (&["runs", "list", "--durable", "runs", "--status", "asleep"], 2, "asleep"),
        (&["runs", "list", "--durable", "runs", "--limit", "0"], 2, "--limit"),
        (&["runs"], 2, "resume"),
    ];
    let there = std::fs::read(&newer).unwrap();
    for (args, code, said) in rows {
        let mut args = args.to_vec();
        if args[0] == "run" || args.get(1) == Some(&"resume") {
            args.extend(["--base-url", NOWHERE, "--model", "m"]);
        }
        let ran = place.run(&args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (*code, ""), "{args:?}: {ran:#?}");
        ran.says(&[said]);
        assert!(!said.contains("damaged") || ran.stderr.contains("error: line 2 of "), "{ran:#?}");
        assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("to go on:"), "{ran:#?}");
    }
    // Where no flag says which dialect, it is the run's.
    let ran = place.run(&["runs", "resume", "there", "--durable", "runs"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
    ran.says(&["no key for a provider of style openai: set OPENAI_API_KEY"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    assert_eq!(std::fs::read(&newer).unwrap(), there);
    assert!(!place.path().join("absent").exists() && !place.path().join("x.jsonl").exists());
    // The others are listed all the same, and the damaged one can go.
    let ran = place.run(&["runs", "list", "--durable", "runs"]).await;
    assert_eq!((ran.code, ran.stdout.matches("  running  ").count()), (0, 1), "{ran:#?}");
    ran.says(&["warning: ", "broken", "line 2"]);
    assert_eq!(place.run(&["runs", "remove", "broken", "--durable", "runs"]).await.code, 0);
    assert!(!path.exists());
}

#[tokio::test]
async fn answers_that_are_none_are_refused_before_anything_starts() {
    let form = json!({"schema": {"type": "object", "required": ["age"], "properties": {
        "age": {"type": "integer"}, "name": {"type": "string"}}}});
    for (kind, data, flags, said) in [
        ("approval", json!({}), &["--answer", "maybe"][..], "it takes y to allow, n to refuse"),
        ("input", json!({}), &["--answer", " "], "--decline declines"),
        ("input", json!({}), &["--answer-json", "{"], "--answer-json: it is not JSON"),
        ("input", json!({}), &["--answer-json", "7"], "--answer-json: it is an object"),
        ("input", form.clone(), &["--answer", "36"], "--answer-json '{\"age\": …, \"name\": …}'"),
        ("input", form.clone(), &["--answer-json", "{}"], "\"age\" is missing: it takes a whole number"),
        ("input", form, &["--answer-json", r#"{"age": "old"}"#], "\"age\" is \"old\""),
        ("input", json!({}), &["--answer", "x", "--request", "sus-9"], "no open request \"sus-9\""),
    ] {
        let place = Place::new().file("mcp.json", "no configuration");
        write_run(&place, "asks", &suspended(kind, data));
        let before = std::fs::read(file_of(&place, "asks")).unwrap();
        let ran = place.run(&resume(NOWHERE, "asks", flags)).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{flags:?}: {ran:#?}");
        ran.says(&[said]);
        assert_eq!(std::fs::read(file_of(&place, "asks")).unwrap(), before);
    }
}

#[tokio::test]
async fn what_is_shown_of_a_run_cannot_steer_a_terminal() {
    let place = Place::new();
    let events = [
        common::asked_for(&[json!({"id": "a", "name": "na\u{1b}[2Jme", "args": {"a\u{1b}": "\u{1b}[31m"}})]),
        json!({"type": "tool_started", "indices": [0], "args": [{"a\u{1b}": "x"}]}),
        json!({"type": "suspended", "index": 0, "output": "o",
            "request": {"id": "r\u{1b}", "kind": "k\u{7}", "prompt": "p\u{1b}[2J\u{202e}"}}),
        json!({"type": "failed", "error": "e\u{1b}[2J"}),
    ];
    write_run(&place, "r", &events);
    for args in [&["runs", "show", "r", "--durable", "runs"][..], &["runs", "list", "--durable", "runs"]] {
        let ran = place.run(args).await;
        assert_eq!(ran.code, 0, "{ran:#?}");
        assert!(!ran.stdout.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{ran:#?}");
    }
}
