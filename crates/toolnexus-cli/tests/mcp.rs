//! `toolnexus mcp`: servers listed, tested, inspected and called.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

mod common;

use common::Place;
use serde_json::{Value, json};
use toolnexus_testkit::mcp::{FixtureTool, Ledger, McpFixture, Reply, Step};

/// A server that works, one that does not, and one that is switched off.
fn place() -> Place {
    Place::new().servers([
        (
            "docs",
            McpFixture::new()
                .name("docs-server")
                .version("1.2.3")
                .instructions("Ask in English.")
                .on_start([Step::Stderr("index loaded".into())])
                .tool(
                    FixtureTool::text("find page", "x")
                        .description("Finds a page\nand more")
                        .input_schema(json!({"type": "object", "properties": {"q": {"type": "string"}}})),
                )
                .server_json()
                .unwrap(),
        ),
        ("broken", McpFixture::new().exits_at_start(3, ["no licence found"]).server_json().unwrap()),
        ("later", json!({"command": "absent", "enabled": false})),
    ])
}

fn by_name(document: &Value, name: &str) -> Value {
    document["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap().clone()
}

#[tokio::test]
async fn servers_are_listed_with_what_failed_and_why() {
    let place = place();
    let ran = place.run(&["mcp", "list"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    for text in [
        "docs    connected  1 tool\n",
        "later   disabled",
        "broken  failed     failed at initialize",
        "stderr: no licence found",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    let document = place.run(&["mcp", "list", "--json"]).await.document();
    assert_eq!(document["config"], "mcp.json");
    let docs = by_name(&document, "docs");
    assert_eq!((&docs["status"], &docs["tools"]), (&json!("connected"), &json!(["docs_find_page"])));
    assert_eq!((&docs["phase"], &docs["protocolVersion"]), (&json!("tools/list"), &json!("2025-11-25")));
    assert_eq!((&docs["serverInfo"]["name"], &docs["failure"]), (&json!("docs-server"), &Value::Null));
    assert_eq!(by_name(&document, "later")["status"], "disabled");
    let broken = by_name(&document, "broken");
    assert_eq!((&broken["phase"], &broken["stderr"]), (&json!("initialize"), &json!(["no licence found"])));
    assert_eq!(
        (&broken["failure"]["kind"], &broken["failure"]["exitCode"]),
        (&json!("peer-eof"), &json!(3)),
        "{broken}"
    );
    assert!(broken["failure"]["remedy"].as_str().unwrap().contains("run it in a shell"), "{broken}");
}

#[tokio::test]
async fn without_a_configuration_there_is_nothing_to_list_and_nothing_to_test() {
    let place = Place::new();
    let ran = place.run(&["mcp", "list"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    ran.says(&["no mcp.json", "--mcp"]);
    assert_eq!(
        place.run(&["mcp", "list", "--json"]).await.document(),
        json!({"config": null, "servers": []})
    );
    for args in [&["mcp", "test"][..], &["mcp", "inspect", "x"], &["mcp", "call", "x", "y"]] {
        let ran = place.run(args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&["no mcp.json", "--mcp"]);
    }
}

#[tokio::test]
async fn a_test_has_an_exit_code() {
    let place = place();
    for args in [&["mcp", "test"][..], &["mcp", "test", "--json"], &["mcp", "test", "broken", "docs"]] {
        let ran = place.run(args).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (1, ""), "{ran:#?}");
        assert!(ran.stdout.contains("no licence found"), "{}", ran.stdout);
    }
    // What is switched off has not failed, and what is not named is not started.
    let ran = place.run(&["mcp", "test", "docs", "later"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    assert!(ran.stdout.contains("docs   connected") && !ran.stdout.contains("broken"), "{}", ran.stdout);
    let ran = place.run(&["mcp", "test", "dosc"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    ran.says(&["mcp.json has no server \"dosc\"", "broken, docs, later"]);
}

#[tokio::test]
async fn an_inspected_server_tells_everything() {
    let place = place();
    let ran = place.run(&["mcp", "inspect", "docs"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    assert_eq!(
        ran.stdout,
        "\
docs  connected
  server    docs-server 1.2.3
  protocol  2025-11-25

instructions
  Ask in English.

find page
  Finds a page
  and more
  {
    \"type\": \"object\",
    \"properties\": {
      \"q\": {
        \"type\": \"string\"
      }
    }
  }

1 tool

stderr
  index loaded
"
    );
    let document = place.run(&["mcp", "inspect", "docs", "--json"]).await.document();
    assert_eq!(document["serverInfo"]["instructions"], "Ask in English.");
    assert_eq!(document["stderr"], json!(["index loaded"]));
    assert_eq!(
        document["tools"],
        json!([{"name": "find page", "toolName": "docs_find_page", "description": "Finds a page\nand more",
            "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}}}])
    );
}

#[tokio::test]
async fn an_inspected_server_that_failed_tells_why() {
    let place = place();
    let ran = place.run(&["mcp", "inspect", "broken"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""), "{ran:#?}");
    for text in [
        "broken  failed\n  failed at initialize: peer-exited (status 3)",
        "shell",
        "stderr: no licence found",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    let ran = place.run(&["mcp", "inspect", "later"]).await;
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "later  disabled  switched off in the configuration\n"),
        "{ran:#?}"
    );
}

#[tokio::test]
async fn what_a_server_says_cannot_steer_the_terminal() {
    let evil = McpFixture::new()
        .instructions("\u{1b}[2Jhi")
        .on_start([Step::Stderr("\u{1b}[2Jlog".into())])
        .tool(FixtureTool::text("x", "y").description("\u{1b}]0;owned\u{7}fine"));
    let place = Place::new().servers([("evil", evil.server_json().unwrap())]);
    let ran = place.run(&["mcp", "inspect", "evil"]).await;
    assert!(ran.stdout.contains("fine") && !ran.stdout.contains('\u{1b}'), "{ran:#?}");
}

/// A server with tools to call.
fn callable() -> McpFixture {
    McpFixture::new()
        .tool(FixtureTool::echo("say it"))
        .tool(FixtureTool::scripted(
            "refuse",
            [Step::result(json!({"isError": true, "content": [{"type": "text", "text": "not today"}]}))],
        ))
        .tool(FixtureTool::scripted(
            "paint",
            [Step::result(json!({"content": [
                {"type": "text", "text": "here"}, {"type": "image", "mimeType": "image/png", "data": "AAAA"}
            ]}))],
        ))
        .tool(FixtureTool::scripted(
            "work",
            [
                Step::progress(1.0, 2.0),
                Step::notify(
                    "notifications/message",
                    json!({"level": "warning", "data": "disk \u{1b}[2Jfull"}),
                ),
                Step::text("worked"),
            ],
        ))
}

#[tokio::test]
async fn a_tool_is_called_by_either_name_with_arguments_from_anywhere() {
    let place = Place::new()
        .servers([("docs", callable().server_json().unwrap())])
        .file("arguments.json", "{\n\"q\": 1}\n");
    for args in [
        &["mcp", "call", "docs", "say it", r#"{"q": 1}"#][..],
        &["mcp", "call", "docs", "docs_say_it", r#"{"q":1}"#],
        &["mcp", "call", "docs", "say it", "@arguments.json"],
    ] {
        let ran = place.run(args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"q\":1}\n"), "{ran:#?}");
        assert_eq!(ran.stderr, "");
    }
    let ran = place.run_with_stdin(&["mcp", "call", "docs", "say it", "-"], r#"{"q":1}"#).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"q\":1}\n"), "{ran:#?}");
    let ran = place.run(&["mcp", "call", "docs", "say it"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{}\n"), "{ran:#?}");
}

#[tokio::test]
async fn a_result_is_shown_with_its_parts_and_an_error_has_an_exit_code() {
    let place = Place::new().servers([("docs", callable().server_json().unwrap())]);
    let ran = place.run(&["mcp", "call", "docs", "paint"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "here\n"), "{ran:#?}");
    ran.says(&["image (image/png, 3 bytes)"]);
    let document = place.run(&["mcp", "call", "docs", "paint", "--json"]).await.document();
    assert_eq!(
        document,
        json!({"output": "here", "isError": false, "metadata": {"server": "docs"},
            "parts": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]})
    );
    let ran = place.run(&["mcp", "call", "docs", "refuse"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "not today\n"), "{ran:#?}");
    let ran = place.run(&["mcp", "call", "docs", "refuse", "--json"]).await;
    assert_eq!((ran.code, &ran.document()["isError"]), (1, &json!(true)));
}

// MCP-186
#[tokio::test]
async fn what_a_tool_reports_goes_to_stderr() {
    let place = Place::new().servers([("docs", callable().server_json().unwrap())]);
    let ran = place.run(&["mcp", "call", "docs", "work"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "worked\n"), "{ran:#?}");
    assert_eq!(ran.stderr, "work: 50 %\nwarning: disk ␛[2Jfull\n");
}

#[tokio::test]
async fn what_cannot_be_called_is_told_before_anything_is_started() {
    let place = Place::new()
        .servers([("docs", json!({"command": "surely-no-such-command"}))])
        .file("latin.json", "{}");
    std::fs::write(place.path().join("latin.json"), b"{\"a\":\"\xff\"}").unwrap();
    for (arguments, said) in [
        ("{oops", "the arguments on the command line are not JSON (key must be a string at line 1 column 2)"),
        ("[1]", "the arguments on the command line are an array"),
        ("\"x\"", "are a string"),
        ("@absent.json", "the arguments in \"absent.json\" cannot be read"),
        ("@latin.json", "not UTF-8"),
    ] {
        let ran = place.run(&["mcp", "call", "docs", "find", arguments]).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&[said]);
        assert!(!ran.stderr.contains("surely-no-such-command"), "{ran:#?}");
    }
    let ran = place.run(&["mcp", "call", "other", "find"]).await;
    assert_eq!(ran.code, 2);
    ran.says(&["mcp.json has no server \"other\": it has docs"]);
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_told_by_those_that_are() {
    let place = place();
    let ran = place.run(&["mcp", "call", "docs", "fnid"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
    ran.says(&["MCP server docs has no tool \"fnid\": it has find page"]);
    let ran = place.run(&["mcp", "call", "broken", "x"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:#?}");
    ran.says(&["error: MCP server broken failed at initialize", "stderr: no licence found"]);
    let ran = place.run(&["mcp", "call", "later", "x"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
    ran.says(&["MCP server later is switched off in the configuration"]);
}

#[tokio::test]
async fn a_call_has_a_time_limit() {
    let hangs = McpFixture::new().tool(FixtureTool::hangs("stuck"));
    let place = Place::new().servers([("docs", hangs.server_json().unwrap())]);
    let ran = place.run(&["mcp", "call", "docs", "stuck", "--timeout", "50ms"]).await;
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (1, "mcp server \"docs\" failed at tools/call: timeout\n"),
        "{ran:#?}"
    );
}

// MCP-90
#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_cancels_the_call() {
    use rustix::process::{Pid, Signal, kill_process};
    let place = Place::new();
    let ledger = Ledger::at(place.path().join("ledger"));
    let hangs = McpFixture::new().tool(FixtureTool::hangs("stuck")).ledger(ledger.path());
    let place = place.servers([("docs", hangs.server_json().unwrap())]);
    let child = place.spawn(&["mcp", "call", "docs", "stuck"]);
    ledger.wait_for("tools/call", 1).await.unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ran = place.end(child).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (130, ""), "{ran:#?}");
    ran.says(&["interrupted"]);
}

#[tokio::test]
async fn without_a_terminal_a_server_is_not_told_that_it_may_ask() {
    let place = Place::new();
    let ledger = Ledger::at(place.path().join("ledger"));
    let asks = McpFixture::new()
        .tool(FixtureTool::scripted(
            "ask",
            [
                Step::request("elicitation/create", json!({"message": "Who?", "requestedSchema": {}})),
                Step::AwaitReply,
                Step::Answer(Reply::ClientReply),
            ],
        ))
        .ledger(ledger.path());
    let place = place.servers([("docs", asks.server_json().unwrap())]);
    let ran = place.run(&["mcp", "call", "docs", "ask"]).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(ran.stdout.contains("-32601"), "{ran:#?}");
    let initialize = &ledger.of_method("initialize").unwrap()[0];
    assert!(!format!("{initialize:?}").contains("elicitation"), "{initialize:?}");
}
