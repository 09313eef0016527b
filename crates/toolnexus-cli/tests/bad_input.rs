//! Input that cannot be used: what it is, what its value is, what to do, and nothing left running.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

mod common;

use std::time::{Duration, Instant};

use common::{Place, run_args};
use serde_json::json;
use toolnexus_testkit::mcp::{FixtureTool, McpFixture, Step};
use toolnexus_testkit::model::{ModelServer, Reply, Script, free_port_url};

/// An address nobody listens at: what is told before any request must not need it.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

#[tokio::test]
async fn without_a_model_every_way_to_one_is_named() {
    let place = Place::new();
    let ran = place.run(&["run", "hi"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
    ran.says(&[
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "--base-url http://localhost:11434/v1",
        "toolnexus demo",
    ]);
    let ran = place.run(&["run", "hi", "--json"]).await;
    assert_eq!(ran.code, 2);
    let events = ran.events();
    assert_eq!((events.len(), &events[0]["type"], &events[0]["exit_code"]), (1, &json!("error"), &json!(2)));
    assert!(events[0]["message"].as_str().unwrap().contains("OPENAI_API_KEY"));
}

#[tokio::test]
async fn a_configuration_has_to_be_there_when_it_is_named() {
    let place = Place::new();
    for command in [&["tools", "--mcp", "absent.json"][..], &["mcp", "list", "--mcp", "absent.json"]] {
        let ran = place.run(command).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&["absent.json", "cannot be read", "--mcp"]);
    }
    let ran = place.run(&run_args(NOWHERE, "hi", &["--mcp", "absent.json"])).await;
    assert_eq!(ran.code, 2);
    ran.says(&["absent.json"]);
    let ran = place.run(&run_args(NOWHERE, "hi", &["--skills", "absent"])).await;
    assert_eq!(ran.code, 2);
    ran.says(&["--skills \"absent\" is not a directory"]);
}

#[tokio::test]
async fn malformed_json_is_placed_by_line_and_column() {
    let place = Place::new().file("mcp.json", "{\n  \"mcpServers\": {\n    oops\n  }\n}\n");
    let ran = place.run(&run_args(NOWHERE, "hi", &[])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
    ran.says(&["mcp.json", "line 3 column 5", "--no-mcp"]);
    assert_eq!(place.run(&["tools", "--no-mcp"]).await.code, 0);
    let place = Place::new().file("mcp.json", "{\"mcpServers\": []}");
    let ran = place.run(&["tools"]).await;
    assert_eq!(ran.code, 2);
    ran.says(&["mcpServers", "must be a JSON object"]);
    // A lock-down that is not understood must not leave a tool armed.
    let place = Place::new()
        .file("mcp.json", "{\"mcpServers\": {}, \"builtins\": {\"tools\": {\"bash\": \"false\"}}}");
    let ran = place.run(&["tools"]).await;
    assert_eq!(ran.code, 2);
    ran.says(&["builtins.tools.bash must be a boolean"]);
}

#[tokio::test]
async fn bad_servers_cost_the_good_ones_nothing() {
    let never = McpFixture::new().never_answers("initialize").server_json().unwrap();
    let mut never_soon = never.clone();
    never_soon["timeout"] = json!(300);
    let place = Place::new().servers([
        ("good", McpFixture::new().tool(FixtureTool::text("find", "x")).server_json().unwrap()),
        ("absent", json!({"command": "surely-no-such-command", "args": ["--token", "sk-secret"]})),
        ("quits", McpFixture::new().exits_at_start(7, ["cannot open the database"]).server_json().unwrap()),
        (
            "babbles",
            McpFixture::new()
                .on("initialize", [Step::Line("Welcome to babble 1.0!".into()), Step::Exit { code: 0 }])
                .server_json()
                .unwrap(),
        ),
        ("silent", never_soon),
        ("empty", json!({})),
        ("away", json!({"url": "http://127.0.0.1:1/mcp"})),
    ]);
    let server = ModelServer::start(Script::always(Reply::openai().text("ok"))).await.unwrap();
    let ran = place.run(&run_args(&server.base_url(), "hi", &["--no-builtins"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ok\n"), "{ran:#?}");
    ran.says(&[
        "1 tool (1 mcp)",
        "warning: MCP server absent failed at connect",
        "surely-no-such-command cannot be started",
        "no answer within 300 ms",
        "warning: MCP server quits failed at initialize: peer-exited (status 7)",
        "stderr: cannot open the database",
        "warning: MCP server babbles failed at initialize",
        "warning: MCP server silent failed at initialize: timeout",
        "warning: MCP server empty failed at config",
        "warning: MCP server away failed at initialize: transport (connect-failed)",
    ]);
    assert!(!ran.stderr.contains("worker quit"), "said twice, once in the words of rmcp: {ran:#?}");
    for name in ["absent", "quits", "babbles", "silent", "empty", "away"] {
        assert_eq!(ran.stderr.matches(&format!("MCP server {name} ")).count(), 1, "{name}: {}", ran.stderr);
        assert!(!ran.stderr.contains(&format!("MCP server \"{name}\"")), "{}", ran.stderr);
    }
    assert!(!ran.stderr.contains("sk-secret"), "{ran:#?}");
    let ran = place.run(&run_args(&server.base_url(), "hi", &["--no-builtins", "--json"])).await;
    let toolkit = &ran.events()[0];
    assert_eq!(toolkit["servers"]["quits"], "failed");
    assert!(toolkit["errors"]["quits"].as_str().unwrap().contains("status 7"), "{toolkit}");
}

/// Runs against a model that answers so and expects the run to fail.
async fn fails(reply: impl Into<Script>, more: &[&str]) -> (ModelServer, common::Ran) {
    let server = ModelServer::start(reply).await.unwrap();
    let ran =
        Place::new().env("MY_KEY", "sk-very-secret").run(&run_args(&server.base_url(), "hi", more)).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:#?}");
    ran.says(&["error: "]);
    assert!(!ran.stderr.contains("sk-very-secret"), "{ran:#?}");
    (server, ran)
}

#[tokio::test]
async fn an_unreachable_address_is_named() {
    let port = free_port_url().unwrap();
    let ran = Place::new().run(&run_args(&port, "hi", &[])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:#?}");
    let origin = port.trim_end_matches("/v1");
    ran.says(&["error: ", origin, "gave no answer in 3 attempts", "could not connect", "check --base-url"]);
}

#[tokio::test]
async fn a_refused_key_is_named_by_its_variable() {
    let reply = || Reply::status(401).json_body(json!({"error": {"message": "bad key sk-very-secret"}}));
    let (_, ran) = fails(reply(), &["--api-key-env", "MY_KEY"]).await;
    ran.says(&["refused the key (401; the value of MY_KEY)"]);
    let (_, ran) = fails(reply(), &[]).await;
    ran.says(&["401", "--api-key-env"]);
}

#[tokio::test]
async fn failures_of_the_provider_are_told_in_words_of_the_command() {
    let (server, ran) = fails(Reply::redirect(307, "https://elsewhere.test/v1"), &[]).await;
    let host = server.addr().to_string();
    ran.says(&[&host, "redirect (307)", "redirects are not followed", "the final address into --base-url"]);
    let busy = Reply::status(503).header("Retry-After", "0").body("busy");
    let (server, ran) = fails(Script::always(busy), &[]).await;
    let said = format!("the model at {} answered 503 in 3 attempts: busy; try again", server.origin());
    ran.says(&[&said]);
    // The connection breaks; the stream ends too early; the stream has an error.
    let broken = Reply::openai().text("half").cut();
    let ended = Reply::stream().chunk("data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n");
    let told = Reply::openai().text("half").stream_error("overloaded", "Overloaded");
    for (reply, said) in [
        (Script::from(broken), "broke off its answer: "),
        (Script::from(ended), "ended its answer before it was complete; "),
        (Script::from(told), "broke off its answer with an error: "),
    ] {
        let (server, ran) = fails(reply, &[]).await;
        ran.says(&[&format!("the model at {} {said}", server.origin()), "try again, or check the server"]);
        assert_eq!(
            ran.stderr.matches("broke off").count(),
            usize::from(said.contains("broke off")),
            "{ran:#?}"
        );
    }
    let (_, ran) = fails(Reply::status(200).body("pong"), &[]).await;
    ran.says(&["cannot be read: ", "it says: pong; does --base-url lead to a model API?"]);
}

#[tokio::test]
async fn an_answer_of_nothing_is_told() {
    for more in [&[][..], &["--no-builtins"], &["--json"]] {
        let server = ModelServer::start(Reply::openai().text("")).await.unwrap();
        let ran = Place::new().run(&run_args(&server.base_url(), "hi", more)).await;
        assert_eq!(ran.code, 0, "{ran:#?}");
        ran.says(&["warning: the model answered nothing"]);
        if !more.contains(&"--json") {
            assert_eq!(ran.stdout, "");
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_default_configuration_that_is_a_link_to_nowhere_is_no_missing_one() {
    for name in ["mcp.json", ".mcp.json"] {
        for (target, reason) in [("gone.json", "No such file"), (name, "symbolic links")] {
            let place = Place::new();
            std::os::unix::fs::symlink(target, place.path().join(name)).unwrap();
            for args in [&["tools"][..], &["mcp", "list"], &run_args(NOWHERE, "hi", &[])] {
                let ran = place.run(args).await;
                assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}: {ran:#?}");
                ran.says(&[name, reason, &format!("it is a link to {target:?}")]);
            }
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn skills_that_are_no_directory_to_read_are_told() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let link = |target: &str| {
        let place = Place::new();
        symlink(target, place.path().join("skills")).unwrap();
        place
    };
    let mut places = vec![
        (link("gone"), "No such file"),
        (link("skills"), "symbolic links"),
        (Place::new().file("skills", "x"), "Not a directory"),
    ];
    let closed = Place::new().file("skills/a/SKILL.md", "---\nname: a\n---\n");
    let dir = closed.path().join("skills");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o0)).unwrap();
    // The superuser reads it all the same.
    if std::fs::read_dir(&dir).is_err() {
        places.push((closed, "Permission denied"));
    }
    for (place, reason) in places {
        let server = ModelServer::start(Reply::openai().text("ok")).await.unwrap();
        let base_url = server.base_url();
        for args in [&["tools"][..], &["skills", "list"], &run_args(&base_url, "hi", &[])] {
            let ran = place.run(args).await;
            assert_eq!(ran.code, 0, "{args:?}: {ran:#?}");
            ran.says(&["warning: no skills: \"skills\"", reason, "correct or remove it"]);
            assert!(!ran.stderr.contains("no directory skills here"), "{ran:#?}");
        }
        assert!(!place.run(&["tools", "--no-skills"]).await.stderr.contains("warning"));
        let ran = place.run(&["tools", "--skills", "skills"]).await;
        assert_eq!(ran.code, 2);
        ran.says(&["--skills \"skills\" is not a directory", reason]);
    }
}

#[tokio::test]
async fn what_an_entry_of_a_server_lacks_is_named() {
    let refuses = ModelServer::start(Script::always(Reply::status(401))).await.unwrap();
    let place = Place::new().env("HAVE_TOKEN", "x").servers([
        (
            "closed",
            json!({"url": format!("{}/mcp", refuses.origin()), "headers":
                {"Authorization": "Bearer ${TOKEN_OF_NOBODY}", "X-Team": "${TEAM_OF_NOBODY}${HAVE_TOKEN}"}}),
        ),
        ("spaced", json!({"command": "no-such-program server.py --token=sk-secret"})),
    ]);
    let server = ModelServer::start(Reply::openai().text("ok")).await.unwrap();
    let listed = place.run(&["mcp", "list"]).await;
    let ran = place.run(&run_args(&server.base_url(), "hi", &[])).await;
    for text in [&listed.stdout, &ran.stderr] {
        assert!(
            text.contains("TEAM_OF_NOBODY and TOKEN_OF_NOBODY, which \"headers\" refers to, are not set"),
            "{text}"
        );
        assert!(text.contains("goes into \"args\"") && !text.contains("sk-secret"), "{text}");
    }
}

#[tokio::test]
async fn a_wait_before_another_attempt_is_told() {
    let script = Script::new()
        .reply(Reply::status(429).header("Retry-After", "1").body("slow down"))
        .reply(Reply::openai().text("now"));
    let server = ModelServer::start(script).await.unwrap();
    let started = Instant::now();
    let ran = Place::new().run(&run_args(&server.base_url(), "hi", &[])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "now\n"), "{ran:#?}");
    assert!(started.elapsed() >= Duration::from_secs(1));
    ran.says(&["note: ", "tried again (HTTP 429) in 1.0 s"]);
    // Given up in the end.
    let (server, ran) = fails(Script::always(Reply::status(429).header("Retry-After", "0")), &[]).await;
    ran.says(&["429", "rate limit"]);
    assert_eq!(server.request_count(), 3);
}

#[tokio::test]
async fn answers_that_are_none_are_failures() {
    let (_, ran) =
        fails(Reply::status(200).header("Content-Type", "text/html").body("<h1>Hello</h1>"), &[]).await;
    ran.says(&["cannot be read", "<h1>Hello</h1>"]);
    let (_, ran) = fails(Reply::status(404).body("no such model"), &[]).await;
    ran.says(&["404", "no such model", "--model"]);
    fails(Reply::stream().chunk("data: {\"choices\":[{\"delta\":{\"content\":\"Hel").cut(), &[]).await;
    fails(Reply::openai().text("half an answer").cut(), &[]).await;
    let (_, ran) = fails(Reply::openai().text("half").stream_error("overloaded", "Overloaded"), &[]).await;
    ran.says(&["Overloaded"]);
}

#[tokio::test]
async fn a_failure_in_the_middle_keeps_what_was_said() {
    let server = ModelServer::start(Reply::openai().text("half an answer").cut()).await.unwrap();
    let ran = Place::new().run(&run_args(&server.base_url(), "hi", &["--json"])).await;
    assert_eq!(ran.code, 1);
    let events = ran.events();
    let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "half an answer");
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["exit_code"]), (&json!("error"), &json!(1)));
    assert!(last["message"].as_str().unwrap().contains("broke off"), "{last}");
    let server = ModelServer::start(Reply::openai().text("half an answer").cut()).await.unwrap();
    let ran = Place::new().run(&run_args(&server.base_url(), "hi", &[])).await;
    ran.says(&["half an answer"]);
}

#[tokio::test]
async fn bad_command_lines_are_usage_errors() {
    let place = Place::new().env("EMPTY_KEY", "");
    for (args, said) in [
        (&["run", "hi", "--frobnicate"][..], "--frobnicate"),
        (&["run", "hi", "--timeout", "soon"], "soon"),
        (&["run", "hi", "--max-turns", "0"], "--max-turns"),
        (&["run", "hi", "--mcp", "x", "--no-mcp"], "--no-mcp"),
        (&["run", "hi", "--style", "cobol"], "cobol"),
        (&["run", "hi", "--base-url", "localhost:11434", "--model", "m"], "localhost:11434"),
        (&["run", "hi", "--base-url", "http://localhost:11434/v1"], "--model"),
        (&["run", "hi", "--base-url", "https://gateway.example/v1", "--model", "m"], "--api-key-env"),
        (&["run", "hi", "--api-key-env", "EMPTY_KEY"], "EMPTY_KEY"),
        (&["run", "", "--base-url", NOWHERE, "--model", "m"], "prompt is empty"),
        (&["run", "--base-url", NOWHERE, "--model", "m"], "prompt is empty"),
        (&["tools", "--json", "--schema", "openai"], "--schema"),
        (&["frobnicate"], "frobnicate"),
        (&[], "toolnexus demo"),
    ] {
        let ran = place.run(args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}: {ran:#?}");
        ran.says(&[said]);
    }
    let ran =
        place.run_with_stdin(&["run", "-", "--base-url", NOWHERE, "--model", "m"], b"caf\xe9".to_vec()).await;
    assert_eq!(ran.code, 2);
    ran.says(&["not UTF-8", "byte 3"]);
}

#[tokio::test]
async fn help_and_version_are_answers() {
    let place = Place::new();
    let ran = place.run(&["--version"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, concat!("toolnexus ", env!("CARGO_PKG_VERSION"), "\n")));
    let ran = place.run(&["run", "--help"]).await;
    assert_eq!(ran.code, 0);
    for text in ["Exit codes:", "130", "OPENAI_API_KEY", "Examples:", "TOOLNEXUS_BASE_URL"] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
}
