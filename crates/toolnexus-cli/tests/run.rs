//! `toolnexus run` where everything works.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

mod common;

use common::{Place, offered, run_args};
use serde_json::json;
use toolnexus_testkit::mcp::{FixtureTool, McpFixture};
use toolnexus_testkit::model::{ModelServer, Reply, Script};

/// A model that calls `tool` and then says what it was told.
fn calls(tool: &'static str, args: serde_json::Value) -> Script {
    Script::respond_with(move |request| {
        let request = request.json();
        let last = request["messages"].as_array().unwrap().last().unwrap().clone();
        if last["role"] == "tool" {
            Reply::openai().text(format!("it said: {}", last["content"].as_str().unwrap())).usage(20, 7)
        } else {
            Reply::openai().text("Let me look.").tool_call("c1", tool, args.clone()).usage(10, 5)
        }
    })
}

#[tokio::test]
async fn stdout_is_exactly_the_answer() {
    let place = Place::new()
        .servers([("docs", McpFixture::new().tool(FixtureTool::text("find", "42")).server_json().unwrap())])
        .file("skills/greet/SKILL.md", "---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n");
    let server = ModelServer::start(calls("docs_find", json!({"q": "life"}))).await.unwrap();
    let ran = place.run(&run_args(&server.base_url(), "look it up", &[])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "it said: 42\n"), "{ran:#?}");
    // Everything else is on stderr: what was loaded, what was said before, the call, the sum.
    ran.says(&[
        "m at 127.0.0.1:",
        "12 tools (10 builtin, 1 mcp, 1 skill), 1 skill",
        "Let me look.",
        "✓ docs_find(q: \"life\") → 42 ·",
        "done · 2 turns · 1 tool call · 42 tokens (30 in, 12 out)",
    ]);
    assert!(!ran.stderr.contains('\u{1b}'), "no colours in a pipe: {ran:#?}");
    let names = offered(&server);
    for name in ["docs_find", "skill", "bash", "read"] {
        assert!(names.iter().any(|offered| offered == name), "{name}: {names:?}");
    }
    let request = server.requests()[0].json();
    assert_eq!(request["messages"][0]["role"], "system");
    assert!(request["messages"][0]["content"].as_str().unwrap().contains("**greet**"));
    assert_eq!(request["messages"][1]["content"], "look it up");
    // No key was given and none is wanted, so a placeholder goes out.
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer unused"));
}

#[tokio::test]
async fn json_lines_are_the_events() {
    let place = Place::new()
        .servers([("docs", McpFixture::new().tool(FixtureTool::text("find", "42")).server_json().unwrap())]);
    let server = ModelServer::start(calls("docs_find", json!({}))).await.unwrap();
    let ran = place.run(&run_args(&server.base_url(), "look", &["--json", "--no-builtins"])).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let events = ran.events();
    assert_eq!(
        events[0],
        json!({"type": "toolkit", "model": "m", "style": "openai", "host": server.addr().to_string(),
               "servers": {"docs": "connected"}, "tools": 1, "skills": 0, "errors": {}})
    );
    let mut kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    kinds.dedup();
    assert_eq!(kinds, ["toolkit", "text", "usage", "tool_call", "tool_result", "text", "usage", "done"]);
    let done = events.last().unwrap();
    assert_eq!((&done["result"]["text"], &done["result"]["status"]), (&json!("it said: 42"), &json!("done")));
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert_eq!((&result["output"], &result["isError"]), (&json!("42"), &json!(false)));
}

#[tokio::test]
async fn text_streams_when_it_can_only_be_the_answer() {
    use tokio::io::AsyncReadExt as _;
    let gate = toolnexus_testkit::model::Gate::new();
    let server =
        ModelServer::start(Reply::openai().deltas(["Hel"]).wait(&gate).deltas(["lo"])).await.unwrap();
    let place = Place::new();
    let mut child = place.spawn(&run_args(&server.base_url(), "hi", &["--no-builtins"]));
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 3];
    common::soon(stdout.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"Hel");
    gate.open();
    let mut rest = String::new();
    common::soon(stdout.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "lo\n");
    assert_eq!(place.end(child).await.code, 0);
}

#[tokio::test]
async fn flags_decide_what_is_loaded() {
    let find =
        |answer: &str| McpFixture::new().tool(FixtureTool::text("find", answer)).mcp_json("docs").unwrap();
    let place = Place::new()
        .file(".mcp.json", find("hidden").to_string())
        .file("other.json", find("other").to_string())
        .file("skills/a/SKILL.md", "---\nname: a\n---\nx\n")
        .file("more/b/SKILL.md", "---\nname: b\n---\nx\n")
        .file("even-more/c/SKILL.md", "---\nname: c\n---\nx\n");
    let ask = async |more: &[&str]| {
        let server = ModelServer::start(Reply::openai().text("ok")).await.unwrap();
        let ran = place.run(&run_args(&server.base_url(), "hi", more)).await;
        assert_eq!(ran.code, 0, "{ran:#?}");
        (offered(&server), ran)
    };
    // `.mcp.json` is found without a flag.
    let (names, _) = ask(&[]).await;
    assert!(names.contains(&"docs_find".to_owned()) && names.contains(&"bash".to_owned()), "{names:?}");
    let (names, _) = ask(&["--no-mcp", "--no-builtins"]).await;
    assert_eq!(names, ["skill"]);
    let (names, _) = ask(&["--no-mcp", "--no-builtins", "--no-skills"]).await;
    assert!(names.is_empty(), "{names:?}");
    let (_, ran) = ask(&["--skills", "more", "--skills", "even-more", "--mcp", "other.json"]).await;
    ran.says(&["2 skills"]);
    let server = ModelServer::start(calls("docs_find", json!({}))).await.unwrap();
    let ran = place.run(&run_args(&server.base_url(), "hi", &["--mcp", "other.json"])).await;
    assert_eq!(ran.stdout, "it said: other\n");
}

#[tokio::test]
async fn the_configuration_can_switch_the_built_in_tools_off() {
    let place = Place::new().file("mcp.json", r#"{"mcpServers": {}, "builtins": false}"#);
    let server = ModelServer::start(Reply::openai().text("ok")).await.unwrap();
    let ran = place.run(&run_args(&server.base_url(), "hi", &[])).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(offered(&server).is_empty());
}

#[tokio::test]
async fn options_reach_the_model() {
    let server = ModelServer::start(Reply::openai().text("ok")).await.unwrap();
    let place = Place::new().env("MY_KEY", "sk-very-secret");
    let args =
        run_args(&server.base_url(), "hi", &["--system", "Be brief.", "--api-key-env", "MY_KEY", "-vv"])
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
    let ran = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let request = &server.requests()[0];
    assert_eq!(request.json()["model"], "m");
    assert_eq!(request.json()["messages"][0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(request.header("authorization"), Some("Bearer sk-very-secret"));
    // Not even the most talkative log shows the key.
    assert!(!ran.stderr.contains("sk-very-secret") && !ran.stdout.contains("sk-very-secret"), "{ran:#?}");
}

#[tokio::test]
async fn anthropic_is_spoken_where_it_is_asked_for() {
    let server = ModelServer::start(Reply::anthropic().text("bonjour")).await.unwrap();
    let place = Place::new();
    let ran = place.run(&run_args(&server.origin(), "hi", &["--style", "anthropic"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "bonjour\n"), "{ran:#?}");
    assert_eq!(server.requests()[0].path(), "/v1/messages");
}

#[tokio::test]
async fn variables_stand_for_flags() {
    let server = ModelServer::start(Reply::openai().text("ok")).await.unwrap();
    let place =
        Place::new().env("TOOLNEXUS_BASE_URL", &server.base_url()).env("TOOLNEXUS_MODEL", "from-variable");
    let ran = place.run(&["run", "hi"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ok\n"), "{ran:#?}");
    assert_eq!(server.requests()[0].json()["model"], "from-variable");
}

#[tokio::test]
async fn the_prompt_may_come_from_stdin() {
    let server = ModelServer::start(Script::always(Reply::openai().text("read"))).await.unwrap();
    let place = Place::new();
    let big = "five megabytes ".repeat(5 * 1024 * 1024 / 15 + 1);
    for (prompt, input) in
        [(Some("-"), "from a pipe\n"), (None, "without a dash\n"), (Some("-"), big.as_str())]
    {
        let base_url = server.base_url();
        let mut args = vec!["run", "--base-url", &base_url, "--model", "m"];
        args.extend(prompt);
        let ran = place.run_with_stdin(&args, input).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "read\n"), "{}", ran.stderr);
        let requests = server.requests();
        assert_eq!(requests.last().unwrap().json()["messages"][0]["content"].as_str().unwrap(), input);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_here_document_of_five_megabytes_is_a_prompt() {
    let server = ModelServer::start(Reply::openai().text("read")).await.unwrap();
    let text = "x".repeat(5 * 1024 * 1024);
    let script = format!("exec \"$1\" run - --base-url \"$2\" --model m <<'END'\n{text}\nEND\n");
    let place = Place::new().file("script.sh", script);
    let mut command = place.command(&[]);
    let std = command.as_std_mut();
    let mut shell = tokio::process::Command::new("sh");
    shell.arg("script.sh").arg(std.get_program()).arg(server.base_url());
    shell
        .current_dir(place.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .kill_on_drop(true);
    let output = common::soon(shell.output()).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"read\n");
    let received = server.requests()[0].json()["messages"][0]["content"].as_str().unwrap().len();
    assert_eq!(received, text.len() + 1);
}

#[tokio::test]
async fn a_limit_of_turns_has_its_own_exit_code() {
    let call = Reply::openai().text("again").tool_call("c", "glob", json!({"pattern": "*"}));
    let server = ModelServer::start(Script::always(call)).await.unwrap();
    let place = Place::new();
    let ran = place.run(&run_args(&server.base_url(), "loop", &["--max-turns", "2"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{ran:#?}");
    ran.says(&["incomplete:", "after 2 turns", "--max-turns"]);
    assert_eq!(server.request_count(), 2);
    let server =
        ModelServer::start(Script::always(Reply::openai().tool_call("c", "glob", json!({"pattern": "*"}))))
            .await
            .unwrap();
    let ran = place.run(&run_args(&server.base_url(), "loop", &["--max-turns", "1", "--json"])).await;
    assert_eq!(ran.code, 3, "{ran:#?}");
    let events = ran.events();
    assert_eq!(events.last().unwrap()["result"]["limit"], "maxTurns");
}

#[tokio::test]
async fn a_timeout_has_its_own_exit_code() {
    let server = ModelServer::start(Reply::hang()).await.unwrap();
    let place = Place::new();
    let ran = place.run(&run_args(&server.base_url(), "hi", &["--timeout", "300ms"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (5, ""), "{ran:#?}");
    ran.says(&["--timeout", "the model has not finished"]);
    // The servers' time counts too.
    let silent = McpFixture::new().never_answers("initialize").server_json().unwrap();
    let place = Place::new().servers([("silent", silent)]);
    let ran = place.run(&run_args(&server.base_url(), "hi", &["--timeout", "300ms"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (5, ""), "{ran:#?}");
    ran.says(&["--timeout", "MCP server"]);
}

#[tokio::test]
async fn tool_failures_are_shown_and_the_model_goes_on() {
    for (name, args, shown) in [
        ("nonsense", "{}", "✗ nonsense() → unknown tool: nonsense"),
        ("read", "{not json", "✗ read() →"),
        ("read", r#"{"path": "absent.txt"}"#, "✗ read(path: \"absent.txt\") → "),
    ] {
        let script = Script::new()
            .reply(Reply::openai().tool_call_raw("c1", name, args))
            .reply(Reply::openai().text("recovered"));
        let server = ModelServer::start(script).await.unwrap();
        let ran = Place::new().run(&run_args(&server.base_url(), "hi", &[])).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "recovered\n"), "{ran:#?}");
        ran.says(&[shown]);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn each_call_is_shown_with_its_own_time() {
    // The second call ends long before the first, whose result is told first.
    let slow = json!({"command": "sleep 1"});
    let script = Script::new()
        .reply(Reply::openai().tool_call("c1", "bash", slow).tool_call("c2", "glob", json!({"pattern": "*"})))
        .reply(Reply::openai().text("ok"));
    let server = ModelServer::start(script).await.unwrap();
    let ran = Place::new().run(&run_args(&server.base_url(), "hi", &[])).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let line = |start: &str| ran.stderr.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert!(line("✓ bash").contains("· 1."), "{ran:#?}");
    assert!(line("✓ glob").ends_with(" ms"), "{ran:#?}");
}

#[tokio::test]
async fn calls_with_one_id_keep_their_own_arguments() {
    let [one, two] = ["echo one", "echo two"].map(|command| json!({ "command": command }));
    let twice = Reply::openai().tool_call("same", "bash", one).tool_call("same", "bash", two);
    let script = Script::new().reply(twice).reply(Reply::openai().text("done"));
    let server = ModelServer::start(script).await.unwrap();
    let ran = Place::new().run(&run_args(&server.base_url(), "go", &[])).await;
    ran.says(&[r#"✓ bash(command: "echo one") → one ·"#, r#"✓ bash(command: "echo two") → two ·"#]);
}

#[tokio::test]
async fn the_name_of_a_tool_cannot_steer_the_terminal() {
    let script = Script::new()
        .reply(Reply::openai().tool_call("c", "na\u{1b}[2Jme\u{202e}", json!({})))
        .reply(Reply::openai().text("done"));
    let server = ModelServer::start(script).await.unwrap();
    let ran = Place::new().run(&run_args(&server.base_url(), "go", &[])).await;
    ran.says(&["✗ na␛[2Jme\u{fffd}() → unknown tool"]);
    assert!(!ran.stderr.contains(['\u{1b}', '\u{202e}']), "{ran:#?}");
}

#[tokio::test]
async fn long_arguments_and_outputs_take_one_line() {
    let script = Script::new()
        .reply(Reply::openai().tool_call(
            "c1",
            "bash",
            json!({"command": format!("printf '{}\\n%s' more", "x".repeat(500))}),
        ))
        .reply(Reply::openai().text("ok"));
    let server = ModelServer::start(script).await.unwrap();
    let ran = Place::new().run(&run_args(&server.base_url(), "hi", &[])).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let line = ran.stderr.lines().find(|line| line.starts_with("✓ bash")).unwrap();
    assert!(line.chars().count() <= 120 && line.matches('…').count() == 2, "{line}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_reader_that_goes_away_ends_the_run_quietly() {
    let text = "x".repeat(1 << 20);
    for more in [&["--no-builtins"][..], &["--json"], &[]] {
        let server = ModelServer::start(Reply::openai().deltas([&text, &text])).await.unwrap();
        let place = Place::new();
        let mut child = place.spawn(&run_args(&server.base_url(), "hi", more));
        drop(child.stdout.take());
        let ran = place.end(child).await;
        assert_eq!(ran.code, 141, "{more:?} {ran:#?}");
        assert!(!ran.stderr.contains("error") && !ran.stderr.contains("panic"), "{ran:#?}");
    }
    for args in [&["tools"][..], &["tools", "--json"]] {
        let place = Place::new();
        let mut child = place.spawn(args);
        drop(child.stdout.take());
        let ran = place.end(child).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (141, ""), "{args:?}");
    }
}
