//! What a person sees: the command on a terminal of its own.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

#[path = "../../toolnexus-mcp/tests/support/authorization.rs"]
#[allow(dead_code, reason = "one of its rules is enough here")]
mod authorization;
mod common;

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};

use common::{Place, run_args, soon, suspended, write_run};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;
use tokio::process::Child;
use toolnexus_testkit::mcp::{FixtureTool, McpFixture};
use toolnexus_testkit::model::{Gate, ModelServer, Reply, Script};

/// A terminal and the command on it.
struct Terminal {
    screen: File,
    child: Child,
}

impl Terminal {
    fn run(place: &Place, args: &[&str]) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let path = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        let end = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut command = place.command(args);
        command.stdin(end()).stdout(end()).stderr(end());
        Terminal { child: command.spawn().unwrap(), screen: screen.into() }
    }

    /// Everything that was written until the command ended, and its exit code.
    async fn end(self, place: &Place) -> (String, i32) {
        self.watched(place, |_| {}).await
    }

    /// As [`end`](Self::end); `watch` sees all that is there whenever something was added.
    async fn watched(mut self, place: &Place, mut watch: impl FnMut(&str) + Send + 'static) -> (String, i32) {
        let mut screen = self.screen;
        let reader = tokio::task::spawn_blocking(move || {
            let (mut text, mut piece) = (Vec::new(), [0; 4096]);
            // It ends with an error: the other end is closed.
            while let Ok(read @ 1..) = screen.read(&mut piece) {
                text.extend_from_slice(&piece[..read]);
                watch(&String::from_utf8_lossy(&text));
            }
            String::from_utf8(text).unwrap().replace("\r\n", "\n")
        });
        let code = soon(self.child.wait()).await.unwrap().code().unwrap();
        place.assert_nothing_left().await;
        (soon(reader).await.unwrap(), code)
    }
}

/// A model that calls a tool, thinks a while, and answers with something that a terminal obeys.
fn script() -> Script {
    Script::new()
        .reply(Reply::openai().text("I look.").tool_call("c", "glob", json!({"pattern": "*"})))
        .reply(Reply::openai().delay(std::time::Duration::from_millis(250)).text("\u{1b}[2Jdone\u{7}"))
}

#[tokio::test]
async fn text_calls_and_answer_read_as_one() {
    let server = ModelServer::start(script()).await.unwrap();
    let place = Place::new().env("TERM", "xterm");
    let (seen, code) = Terminal::run(&place, &run_args(&server.base_url(), "hi", &[])).end(&place).await;
    assert_eq!(code, 0, "{seen}");
    // The spinner moved while the model thought, and nothing of it stays behind the answer.
    assert!(seen.matches("waiting for m").count() >= 2, "{seen:?}");
    let plain = console::strip_ansi_codes(&seen).into_owned();
    let (_, rest) = plain.split_once("I look.").unwrap();
    assert!(rest.contains("✓ glob(pattern: \"*\") → (no output)"), "{plain:?}");
    assert!(rest.contains("␛[2Jdone␇\n\ndone · 2 turns"), "{plain:?}");
    // What the model says is shown, not obeyed.
    assert!(!seen.contains("\u{1b}[2J") && !seen.contains('\u{7}'), "{seen:?}");
    assert!(seen.contains("\u{1b}[32m"), "colours on a terminal: {seen:?}");
}

#[tokio::test]
async fn colours_can_be_switched_off() {
    let server = ModelServer::start(script()).await.unwrap();
    let place = Place::new().env("TERM", "xterm").env("NO_COLOR", "1");
    let (seen, code) = Terminal::run(&place, &run_args(&server.base_url(), "hi", &[])).end(&place).await;
    assert_eq!(code, 0, "{seen}");
    let colours = seen
        .split("\u{1b}[")
        .skip(1)
        .filter(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m'));
    assert_eq!(colours.count(), 0, "{seen:?}");
}

#[tokio::test]
async fn an_answer_appears_as_it_is_written() {
    let gate = Gate::new();
    let server =
        ModelServer::start(Reply::openai().deltas(["Hel"]).wait(&gate).deltas(["lo"])).await.unwrap();
    let place = Place::new().env("TERM", "xterm");
    let terminal = Terminal::run(&place, &run_args(&server.base_url(), "hi", &[]));
    let mut watched = terminal.screen.try_clone().unwrap();
    let first = tokio::task::spawn_blocking(move || {
        let mut seen = String::new();
        let mut piece = [0; 256];
        while !seen.contains("Hel") {
            let read = watched.read(&mut piece).unwrap();
            seen.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
        seen
    });
    let first = soon(first).await.unwrap();
    assert!(!first.contains("Hello"), "{first:?}");
    gate.open();
    let (rest, code) = terminal.end(&place).await;
    assert_eq!(code, 0);
    assert!(rest.starts_with("lo\n"), "{rest:?}");
}

/// Reads the screen until it shows `wanted`, and gives what was there.
async fn shown(terminal: &Terminal, wanted: &'static str) -> String {
    let mut watched = terminal.screen.try_clone().unwrap();
    let reader = tokio::task::spawn_blocking(move || {
        let mut seen = Vec::new();
        let mut piece = [0; 256];
        while !console::strip_ansi_codes(&String::from_utf8_lossy(&seen)).contains(wanted) {
            let read = watched.read(&mut piece).unwrap();
            seen.extend_from_slice(&piece[..read]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    });
    soon(reader).await.unwrap()
}

// RUN-21, RUN-23: in a terminal an open question of a stored run is asked, and its answer is the same again
#[tokio::test]
async fn a_run_that_waits_is_answered_at_the_terminal() {
    let find = McpFixture::new().tool(FixtureTool::text("find", "42")).server_json().unwrap();
    let place = Place::new().env("TERM", "xterm").servers([("docs", find)]);
    let server = ModelServer::start(Script::always(Reply::openai().text("thanks"))).await.unwrap();
    let base_url = server.base_url();
    write_run(&place, "input", &suspended("input", json!({})));
    // A question about a call that was running when the process ended.
    write_run(&place, "doubt", &suspended("input", json!({}))[..2]);
    for (run_id, asked, typed, logged) in [
        ("input", "your answer (empty to decline): ", "Zurich\n", r#""data":{"output":"Zurich"}"#),
        ("doubt", "y to run it again, n to leave it: ", "no\n", r#""ok":false,"reason":"declined""#),
    ] {
        let args =
            ["runs", "resume", run_id, "--durable", "runs", "--in-doubt", "ask", "--base-url", &base_url];
        let mut terminal = Terminal::run(&place, &args);
        shown(&terminal, asked).await;
        terminal.screen.write_all(typed.as_bytes()).unwrap();
        let (seen, code) = terminal.end(&place).await;
        assert_eq!(code, 0, "{seen}");
        let plain = console::strip_ansi_codes(&seen).into_owned();
        assert!(plain.contains("thanks\n\ndone · 2 turns"), "{plain:?}");
        let log = std::fs::read_to_string(place.path().join(format!("runs/{run_id}.jsonl"))).unwrap();
        assert!(log.contains(logged), "{log}");
        // The stored answer is shown too, though nobody writes it now.
        let (seen, code) = Terminal::run(&place, &args).end(&place).await;
        assert_eq!(code, 0, "{seen}");
        let plain = console::strip_ansi_codes(&seen).into_owned();
        assert!(plain.starts_with(&format!("run {run_id} in runs\nthanks\n")), "{plain:?}");
    }
    assert_eq!(server.request_count(), 2);
}

// BUILTIN-74: the tool `question` is answered by number or by text, one entry for each question
#[tokio::test]
async fn questions_are_asked_one_after_the_other() {
    let questions = json!({"questions": [
        {"question": "Which color?", "header": "Paint", "options": ["red", "\u{1b}[2Jgreen"]},
        {"question": "Which rooms?", "options": ["attic", "hall", "cellar"], "multiple": true},
        {"question": "Why?"},
    ]});
    for (typed, told, declined) in [
        (
            &["9\n", "2\n", "3, hall\n", "because\n"][..],
            r#"{\"answers\":[\"\\u001b[2Jgreen\",[\"cellar\",\"hall\"],\"because\"]}"#,
            false,
        ),
        (&["red\n", "\n"], "declined/expired: Paint", true),
    ] {
        let server = ModelServer::start(
            Script::new()
                .reply(Reply::openai().tool_call("c", "question", questions.clone()))
                .reply(Reply::openai().text("thanks")),
        )
        .await
        .unwrap();
        let place = Place::new().env("TERM", "xterm");
        let base_url = server.base_url();
        let mut terminal = Terminal::run(&place, &run_args(&base_url, "hi", &[]));
        let mut seen = String::new();
        for line in typed {
            seen.push_str(&shown(&terminal, "(empty to decline): ").await);
            terminal.screen.write_all(line.as_bytes()).unwrap();
        }
        let (rest, code) = terminal.end(&place).await;
        assert_eq!(code, 0, "{rest}");
        let plain = console::strip_ansi_codes(&(seen + &rest)).into_owned();
        assert!(plain.contains("? Paint: Which color?\r\n  1. red\r\n  2. ␛[2Jgreen\r\n"), "{plain:?}");
        assert!(plain.contains("1 to 2, or your own answer (empty to decline): "), "{plain:?}");
        assert!(plain.contains("thanks\n\ndone"), "{plain:?}");
        let sent = server.requests()[1].text();
        match declined {
            false => assert!(sent.contains(told), "{sent}"),
            true => assert!(sent.contains("declined/expired: Which color?"), "{sent}"),
        }
    }
}

// BUILTIN-74: Ctrl-D ends the question at which it is typed, and bytes that are no text end nothing
#[tokio::test]
async fn a_question_declined_with_ctrl_d_is_not_the_last() {
    let ask = |question: &str| json!({"questions": [{"question": question}]});
    let server = ModelServer::start(
        Script::new()
            .reply(Reply::openai().tool_call("a", "question", ask("First?")))
            .reply(Reply::openai().tool_call("b", "question", ask("Second?")))
            .reply(Reply::openai().tool_call("c", "question", ask("Third?")))
            .reply(Reply::openai().text("thanks")),
    )
    .await
    .unwrap();
    let place = Place::new().env("TERM", "xterm");
    let mut terminal = Terminal::run(&place, &run_args(&server.base_url(), "hi", &[]));
    for typed in [&b"\x04"[..], b"caf\xe9\n", b"done\n"] {
        shown(&terminal, "(empty to decline): ").await;
        terminal.screen.write_all(typed).unwrap();
    }
    let (seen, code) = terminal.end(&place).await;
    assert_eq!(code, 0, "{seen}");
    let told: Vec<String> = server.requests().iter().skip(1).map(|request| request.text()).collect();
    assert!(told[0].contains("declined/expired: First?"), "{}", told[0]);
    assert!(told[1].contains("caf\u{fffd}"), "{}", told[1]);
    assert!(told[2].contains(r#"{\"answers\":[\"done\"]}"#), "{}", told[2]);
}

#[tokio::test]
async fn a_closed_terminal_ends_everything() {
    use rustix::process::{Pid, Signal, kill_process};
    let server =
        ModelServer::start(Reply::openai().tool_call("c", "bash", json!({"command": "sleep 300; true"})))
            .await
            .unwrap();
    let place = Place::new().env("TERM", "xterm");
    let terminal = Terminal::run(&place, &run_args(&server.base_url(), "hi", &[]));
    soon(async {
        while place.processes().len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let id = i32::try_from(terminal.child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::HUP).unwrap();
    let (seen, code) = terminal.end(&place).await;
    assert_eq!(code, 129, "{seen}");
}

// MCP-60, MCP-93, MCP-97: what a server asks in the midst of a call is asked at the terminal
#[tokio::test]
async fn a_server_that_asks_is_answered_at_the_terminal() {
    use toolnexus_testkit::mcp::{Reply as McpReply, Step};
    let asks = |params: serde_json::Value| {
        let script = [
            Step::request("elicitation/create", params),
            Step::AwaitReply,
            Step::Answer(McpReply::ClientReply),
        ];
        McpFixture::new().tool(FixtureTool::scripted("ask", script)).server_json().unwrap()
    };
    let schema = json!({"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string", "title": "Your name"}}});
    let place = Place::new().env("TERM", "xterm").servers([
        ("form", asks(json!({"message": "Who are you?", "requestedSchema": schema}))),
        ("link", asks(json!({"mode": "url", "message": "Log in", "url": "https://login.test/", "elicitationId": "e"}))),
    ]);
    for (server, asked, typed, told) in [
        ("form", "Your name: ", "Ada\n", r#"{"result":{"action":"accept","content":{"name":"Ada"}}}"#),
        ("form", "Your name: ", "\u{4}", r#"{"result":{"action":"decline"}}"#),
        ("link", "n to refuse: ", "n\n", r#"{"result":{"action":"decline"}}"#),
    ] {
        let mut terminal = Terminal::run(&place, &["mcp", "call", server, "ask"]);
        shown(&terminal, asked).await;
        terminal.screen.write_all(typed.as_bytes()).unwrap();
        let (seen, code) = terminal.end(&place).await;
        assert_eq!(code, 0, "{seen}");
        let plain = console::strip_ansi_codes(&seen).into_owned();
        assert!(plain.contains(told), "{plain:?}");
    }
}

// BUILTIN-74: what a tool asks is asked at the terminal, and the tool goes on with the answer
#[tokio::test]
async fn a_tool_that_asks_is_answered_at_the_terminal() {
    let place = Place::new().env("TERM", "xterm");
    let asked = r#"{"questions": [{"question": "Ship it?"}]}"#;
    for (typed, told, exit) in [
        ("on Monday\n", r#"{"answers":["on Monday"]}"#, 0),
        ("\n", "declined/expired: Ship it?", 1),
        ("\u{4}", "declined/expired: Ship it?", 1),
    ] {
        let mut terminal = Terminal::run(&place, &["tools", "call", "question", asked]);
        shown(&terminal, "? Ship it?\r\n  your answer (empty to decline): ").await;
        terminal.screen.write_all(typed.as_bytes()).unwrap();
        let (seen, code) = terminal.end(&place).await;
        assert_eq!(code, exit, "{seen}");
        let plain = console::strip_ansi_codes(&seen).into_owned();
        assert!(plain.contains(told), "{plain:?}");
    }
}

// A person signs in where the terminal says, and not again the next time
#[tokio::test]
async fn a_server_that_wants_a_sign_in_says_where() {
    let servers = authorization::Authorization::start(authorization::Rules::default()).await;
    let place = Place::new().env("TERM", "xterm");
    let state = place.path().join("state");
    let place = place.env("XDG_STATE_HOME", state.to_str().unwrap());
    let entry = json!({"url": servers.url(), "auth": true});
    std::fs::write(place.path().join("mcp.json"), json!({"mcpServers": {"docs": entry}}).to_string())
        .unwrap();

    let runtime = tokio::runtime::Handle::current();
    let mut visited = false;
    let browser = move |seen: &str| {
        let shown = seen.split_once("open this in a browser:").and_then(|(_, rest)| rest.split_once("http"));
        let Some((address, _)) = shown.and_then(|(_, rest)| rest.split_once(char::is_whitespace)) else {
            return;
        };
        if !std::mem::replace(&mut visited, true) {
            let address = format!("http{address}");
            runtime.spawn(async move { reqwest::get(address).await.unwrap() });
        }
    };
    let (seen, code) = Terminal::run(&place, &["mcp", "test"]).watched(&place, browser).await;
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("docs wants you to sign in"), "{seen}");
    // The address has the state in it, and has to; nothing else of the sign-in is shown.
    assert!(!seen.contains("access-") && !seen.contains("refresh-"), "{seen}");

    let (seen, code) = Terminal::run(&place, &["mcp", "test"]).end(&place).await;
    assert_eq!((code, seen.contains("sign in")), (0, false), "{seen}");

    // Where nobody reads it nobody is asked.
    servers.forget();
    std::fs::remove_dir_all(state).unwrap();
    let ran = place.run(&["mcp", "test"]).await;
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        said.contains("(HTTP 401)") && said.contains("wants a sign-in: run `toolnexus mcp test`"),
        "{said}"
    );
}
