//! `toolnexus serve`: who can call what, over which wire, and how it ends.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic in a test is its failure report"
)]

mod common;

use std::process::Stdio;

use common::{Place, Ran, soon};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr};
use toolnexus::mcp::{McpConfigInput, McpSource, load_mcp, parse_mcp_config};
use toolnexus::reports::{LogLevel, ToolReport, report_channel};
use toolnexus::{Tool, ToolContext};
use toolnexus_testkit::mcp::{FixtureTool, McpFixture, Step};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

/// Tools of an MCP server, one of which talks while it works, and a skill.
fn place() -> Place {
    let talks = FixtureTool::scripted(
        "talks",
        [
            Step::notify("notifications/message", json!({"level": "warning", "data": "cache is cold"})),
            Step::Progress { progress: 1.0, total: Some(2.0), message: Some("half".into()) },
            Step::text("done"),
        ],
    );
    let docs = McpFixture::new().tool(FixtureTool::echo("echo")).tool(talks);
    Place::new()
        .servers([("docs", docs.server_json().unwrap())])
        .file("skills/review/SKILL.md", "---\nname: review\ndescription: Reviews\n---\nLook twice.")
}

fn names(listing: &Value) -> Vec<&str> {
    listing["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// What the command answers to these messages, in any order, by id.
async fn asked(place: &Place, args: &[&str], messages: &[&str]) -> (Ran, Vec<Value>) {
    let ran = place.run_with_stdin(args, messages.join("\n")).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let mut answers: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{ran:#?}")))
        .collect();
    answers.sort_by_key(|answer| answer["id"].as_i64());
    (ran, answers)
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

// MCP-160
#[tokio::test]
async fn over_stdio_nothing_but_the_protocol_is_on_stdout() {
    let place = place();
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"docs_echo","arguments":{"text":"hi"}}}"#;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let args = ["serve", "--mcp-stdio", "--name", "mine"];
    let (ran, answers) = asked(&place, &args, &[HELLO, initialized, LIST, call]).await;
    assert_eq!(answers.len(), 3, "{answers:#?}");
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "mine");
    assert_eq!(names(&answers[1]["result"]), ["docs_echo", "docs_talks", "skill"]);
    assert_eq!(answers[2]["result"]["isError"], false);
    ran.says(&[
        "serving 3 tools over MCP on stdin and stdout: docs_echo, docs_talks, skill",
        "the built-in tools are not served; --builtins adds them",
    ]);
}

// MCP-148
#[tokio::test]
async fn built_in_tools_are_served_when_somebody_asks_for_them() {
    let place = Place::new();
    let served = async |more: &[&str]| {
        let args: Vec<&str> = ["serve", "--mcp-stdio"].iter().chain(more).copied().collect();
        let (ran, answers) = asked(&place, &args, &[LIST]).await;
        let names: Vec<String> = names(&answers[0]["result"]).into_iter().map(str::to_owned).collect();
        (ran, names)
    };
    assert!(served(&[]).await.1.is_empty());
    let (ran, names) = served(&["--builtins"]).await;
    assert!(names.contains(&"bash".to_owned()), "{names:?}");
    ran.says(&["callers can run any command of yours with bash"]);
    let (ran, names) = served(&["--tools", "read, glob,no_such"]).await;
    assert_eq!(names, ["glob", "read"]);
    ran.says(&["there is no tool no_such"]);
    assert!(!ran.stderr.contains("bash"), "{ran:#?}");
}

// MCP-146
#[tokio::test]
async fn the_configuration_may_say_what_is_served() {
    let section =
        json!({"name": "shelf", "version": "7", "protocolVersion": "2025-03-26", "tools": ["read"]});
    let document = json!({"mcpServers": {}, "mcpServer": section});
    let place = Place::new().file("mcp.json", document.to_string());
    let (_, answers) = asked(&place, &["serve", "--mcp-stdio"], &[HELLO, LIST]).await;
    assert_eq!(answers[0]["result"]["serverInfo"], json!({"name": "shelf", "version": "7"}));
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-03-26");
    assert_eq!(names(&answers[1]["result"]), ["read"]);
    // Flags win.
    let (_, answers) = asked(&place, &["serve", "--mcp-stdio", "--tools", "glob"], &[LIST]).await;
    assert_eq!(names(&answers[0]["result"]), ["glob"]);

    let broken = json!({"mcpServers": {}, "mcpServer": {"tools": "read"}});
    let place = Place::new().file("mcp.json", broken.to_string());
    let ran = place.run_with_stdin(&["serve", "--mcp-stdio"], "").await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    ran.says(&["mcpServer.tools must be an array of tool names"]);
}

async fn loaded(document: Value) -> McpSource {
    let source = load_mcp(&parse_mcp_config(&McpConfigInput::Value(document)).unwrap()).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

fn named<'a>(source: &'a McpSource, name: &str) -> &'a Tool {
    source.tools.iter().find(|tool| tool.name == name).unwrap()
}

/// The `mcp.json` entry that starts the command in a place.
fn entry(place: &Place, args: &[&str]) -> Value {
    let command = place.command(args);
    let std = command.as_std();
    let environment: Value = std
        .get_envs()
        .map(|(name, value)| (name.to_str().unwrap().to_owned(), value.unwrap().to_str().unwrap().into()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    json!({
        "command": std.get_program().to_str().unwrap(),
        "args": args,
        "cwd": place.path(),
        "environment": environment,
        "timeout": 60_000,
    })
}

// MCP-160, MCP-186, MCP-188, case 84: this workspace's client starts the command like any server; what a tool
// of the command's own server tells comes through both
#[tokio::test]
async fn our_own_client_hears_progress_and_log_lines_over_stdio() {
    let place = place();
    let source = loaded(json!({"mcpServers": {"tn": entry(&place, &["serve", "--mcp-stdio"])}})).await;
    let names: Vec<&str> = source.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["tn_docs_echo", "tn_docs_talks", "tn_skill"]);
    let (reporter, reports) = report_channel();
    let context = ToolContext { reporter, ..Default::default() };
    let result = named(&source, "tn_docs_talks").execute_with(json!({}), context).await;
    assert_eq!((result.output.as_str(), result.is_error), ("done", false));
    let progress = ToolReport::Progress { progress: 1.0, total: Some(2.0), message: Some("half".into()) };
    let log = ToolReport::Log { level: LogLevel::Warning, message: "cache is cold".into(), dropped: 0 };
    let told = reports.take_waiting();
    assert!(told.len() == 2 && told.contains(&progress) && told.contains(&log), "{told:?}");
    // A local agent can open the files of a skill.
    let skill = named(&source, "tn_skill").execute(json!({"name": "review"})).await;
    assert!(skill.output.contains(place.path().to_str().unwrap()), "{}", skill.output);
    source.close().await;
    place.assert_nothing_left().await;
}

/// The command, serving over HTTP.
struct Listening {
    child: Child,
    url: String,
    stderr: Lines<BufReader<ChildStderr>>,
    said: String,
}

impl Listening {
    async fn at(place: &Place, more: &[&str]) -> Self {
        let args: Vec<&str> = ["serve", "--mcp", "0"].iter().chain(more).copied().collect();
        Self::start(place, &args).await
    }

    async fn start(place: &Place, args: &[&str]) -> Self {
        let mut child = place.spawn(args);
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut listening = Listening { child, url: String::new(), stderr, said: String::new() };
        listening.hear("Ctrl-C ends it").await;
        let at = listening.said.find("http://").unwrap();
        let url = listening.said[at..].split(char::is_whitespace).next().unwrap();
        listening.url = url.trim_end_matches(':').to_owned();
        listening
    }

    /// Reads stderr up to this text.
    async fn hear(&mut self, text: &str) {
        while !self.said.contains(text) {
            let line = soon(self.stderr.next_line()).await.unwrap();
            let line = line.unwrap_or_else(|| panic!("it has ended without {text:?}: {}", self.said));
            self.said.push_str(&line);
            self.said.push('\n');
        }
    }

    /// Sends a signal and expects a clean end.
    async fn end(mut self, place: &Place, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let mut stdout = String::new();
        soon(self.child.stdout.take().unwrap().read_to_string(&mut stdout)).await.unwrap();
        let status = soon(self.child.wait()).await.unwrap();
        assert_eq!((status.code(), stdout.as_str()), (Some(0), ""), "{}", self.said);
        place.assert_nothing_left().await;
    }

    /// The status of a POST with these headers.
    async fn status(&self, headers: &str) -> u16 {
        let address = self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = "POST /mcp HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
        let length = LIST.len();
        stream
            .write_all(format!("{head}{headers}content-length: {length}\r\n\r\n{LIST}").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        soon(stream.read_to_string(&mut answer)).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

// MCP-145, MCP-158, MCP-186, MCP-188
#[tokio::test]
async fn over_http_our_own_client_is_served_until_ctrl_c() {
    let place = place();
    let mut server = Listening::at(&place, &[]).await;
    assert!(server.said.contains("serving 3 tools over MCP at http://127.0.0.1:"), "{}", server.said);
    assert!(server.said.contains("every program on this machine can call"), "{}", server.said);
    let source = loaded(json!({"mcpServers": {"tn": {"url": server.url}}})).await;
    let (reporter, reports) = report_channel();
    let context = ToolContext { reporter, ..Default::default() };
    let result = named(&source, "tn_docs_talks").execute_with(json!({}), context).await;
    assert_eq!(result.output, "done");
    // Without a session there is no log.
    let progress = ToolReport::Progress { progress: 1.0, total: Some(2.0), message: Some("half".into()) };
    assert_eq!(reports.take_waiting(), [progress]);
    server.hear("docs_talks ").await;
    // Callers may be anywhere.
    let skill = named(&source, "tn_skill").execute(json!({"name": "review"})).await;
    assert!(skill.output.contains("Look twice.") && !skill.output.contains(place.path().to_str().unwrap()));
    source.close().await;
    assert_eq!(server.status("origin: https://evil.test\r\n").await, 403);
    server.end(&place, Signal::INT).await;
}

// SERVE-55: a token in the environment is asked for
#[tokio::test]
async fn a_token_is_asked_for() {
    for (variable, more) in [("TOOLNEXUS_TOKEN", &[][..]), ("MINE", &["--token-env", "MINE"])] {
        let place = Place::new().env(variable, "s3cret");
        let server = Listening::at(&place, more).await;
        assert!(server.said.contains("callers must send the token"), "{}", server.said);
        assert!(!server.said.contains("s3cret"), "{}", server.said);
        assert_eq!(server.status("").await, 401);
        assert_eq!(server.status("authorization: Bearer other1\r\n").await, 401);
        assert_eq!(server.status("authorization: Bearer s3cret\r\n").await, 200);
        server.end(&place, Signal::TERM).await;
    }
}

// A token that cannot be read is not one that nobody wants
#[tokio::test]
async fn a_token_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    for args in [
        &["serve", "--mcp", "127.0.0.1:0"][..],
        &["serve", "--mcp", "127.0.0.1:0", "--token-env", "TOOLNEXUS_TOKEN"],
    ] {
        let mut command = place.command(args);
        command.env("TOOLNEXUS_TOKEN", std::ffi::OsStr::from_bytes(b"s3cret\xff"));
        let ran = place.end(command.spawn().unwrap()).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&["TOOLNEXUS_TOKEN is not text in UTF-8"]);
        assert!(!format!("{ran:?}").contains("s3cret"), "{ran:#?}");
    }
}

#[tokio::test]
async fn other_machines_are_let_in_on_purpose_only() {
    let place = Place::new();
    for addr in ["0.0.0.0:0", "[::]:0", "example.test:80"] {
        let ran = place.run(&["serve", "--mcp", addr]).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&[addr, "set TOOLNEXUS_TOKEN", "--open"]);
    }
    let open = Listening::start(&place, &["serve", "--mcp", "0.0.0.0:0", "--open"]).await;
    assert!(open.said.contains("everybody who reaches this address can call"), "{}", open.said);
    assert_eq!(open.status("").await, 200);
    open.end(&place, Signal::INT).await;
    let place = Place::new().env("TOOLNEXUS_TOKEN", "s3cret");
    let open = Listening::at(&place, &["--open"]).await;
    assert!(open.said.contains("as --open says"), "{}", open.said);
    assert_eq!(open.status("").await, 200);
    open.end(&place, Signal::INT).await;
    let guarded = Listening::start(&place, &["serve", "--mcp", "0.0.0.0:0"]).await;
    assert_eq!(guarded.status("").await, 401);
    guarded.end(&place, Signal::INT).await;
}

#[tokio::test]
async fn a_command_line_that_makes_no_sense_is_explained() {
    let place = Place::new();
    for (args, said) in [
        (&["serve"][..], "--mcp"),
        (&["serve", "--mcp", "0", "--mcp-stdio"], "cannot be used with"),
        (&["serve", "--mcp-stdio", "--open"], "cannot be used with"),
        (&["serve", "--mcp-stdio", "--config", "a.json", "--no-mcp"], "cannot be used with"),
        (&["serve", "--mcp", "http"], "address \"http\" has no port"),
        (&["serve", "--mcp", "0", "--token-env", "UNSET"], "--token-env UNSET: the variable is not set"),
        (&["serve", "--mcp", "0", "--allow-origin", "app"], "allowed origin \"app\" is no origin"),
    ] {
        let ran = place.run(args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}: {ran:#?}");
        ran.says(&[said]);
    }
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let ran = place.run(&["serve", "--mcp", &addr]).await;
    assert_eq!(ran.code, 1, "{ran:#?}");
    ran.says(&["cannot listen on", "try another port"]);
}

// A signal ends the service over stdio as well, also while a call runs.
#[tokio::test]
async fn over_stdio_a_signal_ends_it() {
    let docs = McpFixture::new().tool(FixtureTool::hangs("stuck"));
    let place = Place::new().servers([("docs", docs.server_json().unwrap())]);
    let mut child = place.command(&["serve", "--mcp-stdio"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let call = r#"{"id":1,"method":"tools/call","params":{"name":"docs_stuck"}}"#;
    stdin.write_all(format!("{call}\n{HELLO}\n").as_bytes()).await.unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let answer: Value = serde_json::from_str(&soon(stdout.next_line()).await.unwrap().unwrap()).unwrap();
    assert_eq!(answer["id"], 0);
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(soon(child.wait()).await.unwrap().code(), Some(0));
    assert_eq!(soon(stdout.next_line()).await.unwrap(), None);
    drop(stdin);
    place.assert_nothing_left().await;
}
