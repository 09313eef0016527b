//! `toolnexus tools call`: any tool of the toolkit called without a model.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::Place;
use serde_json::json;
use toolnexus_testkit::mcp::{FixtureTool, Ledger, McpFixture, Step};

/// The smallest PNG there is.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn place() -> Place {
    Place::new()
        .servers([(
            "docs",
            McpFixture::new()
                .tool(FixtureTool::echo("say it"))
                .tool(FixtureTool::scripted("work", [Step::progress(1.0, 2.0), Step::text("worked")]))
                .tool(FixtureTool::scripted(
                    "paint",
                    [Step::result(json!({"content": [
                        {"type": "text", "text": "here"},
                        {"type": "image", "mimeType": "image/png", "data": PNG},
                        {"type": "resource_link", "uri": "https://example.com/a.png", "name": "a"}
                    ]}))],
                ))
                .server_json()
                .unwrap(),
        )])
        .file("skills/greet/SKILL.md", "---\nname: greet\ndescription: How to greet.\n---\nHello.\n")
        .file("notes.md", "first\nsecond\n")
        .file("arguments.json", "{\"path\": \"notes.md\"}")
}

#[tokio::test]
async fn a_tool_of_every_source_is_called() {
    let place = place();
    for (args, output) in [
        (["docs_say_it", r#"{"q": 1}"#], "{\"q\":1}\n"),
        (["bash", r#"{"command": "printf done"}"#], "done\n"),
        (["read", r#"{"path": "notes.md", "offset": 2}"#], "second\n"),
        (["glob", r#"{"pattern": "*.md", "limit": 1}"#], "notes.md\n"),
    ] {
        let ran = place.run(&["tools", "call", args[0], args[1]]).await;
        // What it reports meanwhile is on stderr.
        assert_eq!((ran.code, ran.stdout.as_str()), (0, output), "{ran:#?}");
    }
    let ran = place.run(&["tools", "call", "skill", r#"{"name": "greet"}"#]).await;
    assert!(ran.stdout.starts_with("<skill_content name=\"greet\">\n# Skill: greet\n\nHello.\n"), "{ran:#?}");
}

#[tokio::test]
async fn arguments_come_from_the_command_line_stdin_or_a_file() {
    let place = place();
    let ran = place.run(&["tools", "call", "read", "@arguments.json", "--no-mcp"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "first\nsecond\n"), "{ran:#?}");
    let args = ["tools", "call", "read", "-", "--no-mcp"];
    let ran = place.run_with_stdin(&args, "{\"path\": \"notes.md\"}\n").await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "first\nsecond\n"), "{ran:#?}");
    // Without any they are empty, and it is the tool that says what is missing.
    let ran = place.run(&["tools", "call", "read", "--no-mcp"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "read: path is required\n"), "{ran:#?}");
}

#[tokio::test]
async fn what_cannot_be_called_is_told_before_anything_is_started() {
    let place = Place::new().servers([("docs", json!({"command": "surely-no-such-command"}))]);
    for (arguments, said) in [
        ("{oops", "the arguments on the command line are not JSON"),
        ("[1]", "the arguments on the command line are an array"),
        ("@absent.json", "the arguments in \"absent.json\" cannot be read"),
    ] {
        let ran = place.run(&["tools", "call", "read", arguments]).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&[said]);
        assert!(!ran.stderr.contains("surely-no-such-command"), "{ran:#?}");
    }
    for (args, said) in [
        (&["tools", "call"][..], "<TOOL>"),
        (&["tools", "call", "read", "{}", "--mcp", "absent.json"], "absent.json"),
        (&["tools", "call", "read", "--timeout", "soon"], "number of seconds"),
        (&["tools", "cull", "read"], "cull"),
    ] {
        let ran = place.run(args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&[said]);
    }
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_told_by_those_that_are() {
    let place = Place::new().servers([
        ("docs", McpFixture::new().tool(FixtureTool::echo("find")).server_json().unwrap()),
        ("broken", McpFixture::new().exits_at_start(3, ["no licence found"]).server_json().unwrap()),
    ]);
    let ran = place.run(&["tools", "call", "broken_find"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
    ran.says(&[
        "warning: MCP server broken",
        "no tool \"broken_find\": there are apply_patch, bash, docs_find, ",
    ]);
    // A server that has nothing to do with it is no news.
    let ran = place.run(&["tools", "call", "docs_find"]).await;
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "{}\n", ""), "{ran:#?}");
    let ran = place.run(&["tools", "call", "x", "--no-mcp", "--no-builtins"]).await;
    assert_eq!(ran.code, 2);
    ran.says(&["no tool \"x\": there is none"]);
}

#[tokio::test]
async fn a_result_is_shown_whole_and_an_error_has_an_exit_code() {
    let place = place();
    let ran = place.run(&["tools", "call", "bash", r#"{"command": "echo out; exit 3"}"#, "--no-mcp"]).await;
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert_eq!(ran.stdout, "out\n\nbash: command exited with code 3\n");
    let args = ["tools", "call", "bash", r#"{"command": "exit 3"}"#, "--no-mcp", "--json"];
    let ran = place.run(&args).await;
    assert_eq!((ran.code, &ran.document()["isError"]), (1, &json!(true)), "{ran:#?}");
    assert_eq!(ran.document()["metadata"]["exitCode"], 3);
    let ran = place.run(&["tools", "call", "docs_work"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "worked\n"), "{ran:#?}");
    assert_eq!(ran.stderr, "docs_work: 50 %\n");
}

#[tokio::test]
async fn parts_are_told_of_or_written() {
    let place = place();
    let ran = place.run(&["tools", "call", "docs_paint"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "here\n"), "{ran:#?}");
    ran.says(&["image (image/png, 70 bytes)", "--json", "--output DIR"]);
    let ran = place.run(&["tools", "call", "docs_paint", "--output", "made/pictures"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "here\n"), "{ran:#?}");
    ran.says(&["image (image/png, 70 bytes) → made/pictures/1.png"]);
    let written = std::fs::read(place.path().join("made/pictures/1.png")).unwrap();
    assert_eq!(written, STANDARD.decode(PNG).unwrap());
    // Nothing is overwritten, and the same goes for `mcp call`.
    let ran = place.run(&["mcp", "call", "docs", "paint", "--output", "made/pictures"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "here\n"), "{ran:#?}");
    ran.says(&["1.png\" cannot be written", "--output"]);
    let args = ["tools", "call", "docs_paint", "--json", "--output", "other"];
    let ran = place.run(&args).await;
    assert_eq!((ran.code, &ran.document()["parts"][0]["data"]), (0, &json!(PNG)), "{ran:#?}");
    assert!(place.path().join("other/1.png").is_file());
    // A built-in tool has parts too.
    std::fs::write(place.path().join("shot.png"), &written).unwrap();
    let args = ["tools", "call", "read", r#"{"path": "shot.png"}"#, "--no-mcp", "--output", "shots"];
    let ran = place.run(&args).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "shot.png (image/png, 70 bytes)\n"), "{ran:#?}");
    assert_eq!(std::fs::read(place.path().join("shots/1.png")).unwrap(), written);
}

#[tokio::test]
async fn a_call_has_a_time_limit() {
    let args = ["tools", "call", "bash", r#"{"command": "sleep 300"}"#, "--timeout", "50ms"];
    let ran = Place::new().run(&args).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "bash: command timed out after 50ms\n"), "{ran:#?}");
}

#[tokio::test]
async fn a_question_to_nobody_has_an_exit_code() {
    let place = Place::new();
    let asked = r#"{"questions": [{"question": "Ship it?", "options": ["yes", "no"]}]}"#;
    let ran = place.run(&["tools", "call", "question", asked]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (4, ""), "{ran:#?}");
    assert_eq!(
        ran.stderr,
        "error: question waits for an answer: Ship it? (options: yes, no)\n\
         call it in a terminal to give the answer\n"
    );
    let ran = place.run(&["tools", "call", "question", asked, "--json"]).await;
    assert_eq!(ran.code, 4);
    assert_eq!(ran.document()["metadata"]["pending"]["kind"], "question");
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_cancels_the_call() {
    use rustix::process::{Pid, Signal, kill_process};
    let place = Place::new();
    let ledger = Ledger::at(place.path().join("ledger"));
    let hangs = McpFixture::new().tool(FixtureTool::hangs("stuck")).ledger(ledger.path());
    let place = place.servers([("docs", hangs.server_json().unwrap())]);
    let child = place.spawn(&["tools", "call", "docs_stuck"]);
    ledger.wait_for("tools/call", 1).await.unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ran = place.end(child).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (130, ""), "{ran:#?}");
    ran.says(&["interrupted"]);
}

#[tokio::test]
async fn tools_alone_is_still_the_listing() {
    let place = place();
    let ran = place.run(&["tools", "--no-mcp"]).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(ran.stdout.starts_with("skills\n  skill  Load a specialized skill"), "{ran:#?}");
    // The flags of the listing are not those of the call.
    let ran = place.run(&["tools", "--no-mcp", "call", "read"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
    let help = place.run(&["tools", "call", "--help"]).await.stdout;
    for text in ["--output", "--timeout", "@FILE", "exit code is 1", "--no-builtins"] {
        assert!(help.contains(text), "{text}: {help}");
    }
    assert!(place.run(&["tools", "--help"]).await.stdout.contains("call"), "the listing names the command");
}
