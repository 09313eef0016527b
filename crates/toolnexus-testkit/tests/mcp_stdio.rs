//! The stdio fixture, driven by hand through raw pipes.
//!
//! The fixture has no rules of its own: each test shows that a behaviour which a client must
//! survive really happens on the wire.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolnexus_testkit::mcp::{
    FixtureTool, Grandchild, Ledger, LedgerEntry, McpFixture, Paging, ProcessFaults, RawJson, Reply,
    StderrSpam, Step,
};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running fixture and the raw lines of its stdout.
struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: mpsc::Receiver<String>,
}

impl Peer {
    fn start(fixture: &McpFixture) -> Self {
        Self::spawn(fixture.command().unwrap().to_std())
    }

    fn spawn(mut command: std::process::Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, stdin, stdout: receiver }
    }

    fn send_line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn send(&mut self, message: Value) {
        self.send_line(&message.to_string());
    }

    fn request(&mut self, id: u64, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        self.request(id, "tools/call", params);
    }

    fn cancel(&mut self, id: u64) {
        self.send(json!({"method": "notifications/cancelled", "params": {"requestId": id}}));
    }

    /// The next line of stdout; `None` at its end.
    fn line(&self) -> Option<String> {
        match self.stdout.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing within {PATIENCE:?}"),
        }
    }

    fn message(&self) -> Value {
        let line = self.line().expect("stdout has ended");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }

    /// The text of the next message, which answers that call.
    fn text(&self, id: u64) -> String {
        let message = self.message();
        assert_eq!(message["id"], id, "{message}");
        message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned()
    }

    fn result(&mut self, method: &str, params: Value) -> Value {
        self.request(900, method, params);
        let message = self.message();
        assert_eq!(message["id"], 900, "{message}");
        message.get("result").unwrap_or_else(|| panic!("{message}")).clone()
    }

    /// Asserts that nothing has come before the answer to a ping.
    fn is_silent(&mut self) {
        assert_eq!(self.result("ping", json!({})), json!({}));
    }

    fn status(&mut self) -> ExitStatus {
        wait(|| self.child.try_wait().unwrap())
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for another process, which can wake nobody here.
fn wait<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "nothing within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn fixture_of(tools: impl IntoIterator<Item = FixtureTool>) -> McpFixture {
    McpFixture::new().tools(tools)
}

fn faulty(faults: ProcessFaults) -> McpFixture {
    McpFixture::new().faults(faults)
}

#[test]
fn a_plain_fixture_shakes_hands_lists_calls_and_ends_with_its_input() {
    let fixture = McpFixture::new()
        .name("plain")
        .version("2.0")
        .instructions("be kind")
        .tool(FixtureTool::new("say").title("Say").description("says"));
    let mut peer = Peer::start(&fixture);
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let result = peer.result("initialize", json!({"protocolVersion": asked, "capabilities": {}}));
        let expected = json!({
            "protocolVersion": agreed, "capabilities": {"tools": {}},
            "serverInfo": {"name": "plain", "version": "2.0"}, "instructions": "be kind",
        });
        assert_eq!(result, expected);
    }
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    peer.is_silent();
    let listed =
        json!({"name": "say", "title": "Say", "description": "says", "inputSchema": {"type": "object"}});
    assert_eq!(peer.result("tools/list", json!({})), json!({"tools": [listed]}));
    peer.call(7, "say", json!({"b": 1, "a": [2]}));
    let expected = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"{\"b\":1,\"a\":[2]}"}],"isError":false}}"#;
    assert_eq!(peer.line().unwrap(), expected);
    for (line, code) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other"}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"?"}}"#, -32602),
        ("[]", -32600),
        ("{oops", -32700),
    ] {
        peer.send_line(line);
        assert_eq!(peer.message()["error"]["code"], code, "{line}");
    }
    peer.send(json!({"jsonrpc": "2.0", "id": "as text", "method": "ping"}));
    assert_eq!(peer.message(), json!({"jsonrpc": "2.0", "id": "as text", "result": {}}));

    // What was asked before the input ended is answered.
    peer.call(8, "say", json!({}));
    drop(peer.stdin.take());
    assert_eq!(peer.text(8), "{}");
    assert_eq!(peer.line(), None);
    assert_eq!(peer.status().code(), Some(0));
}

#[test]
fn json_given_verbatim_is_sent_verbatim() {
    let raw = |text| RawJson::parse(text).unwrap();
    let fixture = fixture_of([
        FixtureTool::new("schema").input_schema(raw("{\"z\": 1e2,\n\"a\":{\"$ref\":\"#\"}, \"z\":3}")),
        FixtureTool::result(
            "result",
            raw(r#"{"content":[],"structuredContent":{"n":18446744073709551615,"b":1.0}}"#),
        ),
    ]);
    // Through JSON and back it is still the same text.
    let mut peer = Peer::start(&McpFixture::from_json(&fixture.to_json()).unwrap());
    peer.request(1, "tools/list", json!({}));
    let line = peer.line().unwrap();
    assert!(line.contains(r##""inputSchema":{"z": 1e2, "a":{"$ref":"#"}, "z":3}"##), "{line}");
    peer.call(2, "result", json!({}));
    let line = peer.line().unwrap();
    assert!(line.contains(r#""structuredContent":{"n":18446744073709551615,"b":1.0}"#), "{line}");
}

#[test]
fn calls_misbehave_as_scripted() {
    let fixture = fixture_of([
        FixtureTool::text("text", "hello"),
        FixtureTool::huge("huge", 3_000_000),
        FixtureTool::error("error", -32050, "no luck"),
        FixtureTool::hangs("hangs"),
        FixtureTool::string_id("string_id"),
        FixtureTool::garbage("garbage", ["no json", r#"{"no":"rpc"}"#, ""]),
        FixtureTool::scripted("bytes", [Step::Bytes(vec![0xff, b'\n']), Step::text("after bytes")]),
        FixtureTool::slow("slow", 1),
        FixtureTool::text("turns", "first").then([Step::error(-1, "second")]),
        FixtureTool::scripted("twice", [Step::text("one"), Step::text("two")]),
        FixtureTool::report("report"),
    ]);
    let mut peer = Peer::start(&fixture);
    peer.call(1, "text", json!({}));
    assert_eq!(peer.text(1), "hello");
    peer.call(2, "huge", json!({}));
    assert_eq!(peer.text(2).len(), 3_000_000);
    peer.call(3, "error", json!({}));
    assert_eq!(peer.message()["error"], json!({"code": -32050, "message": "no luck"}));
    peer.call(4, "hangs", json!({}));
    peer.is_silent();
    peer.call(5, "string_id", json!({}));
    assert_eq!(peer.message()["id"], "5");
    peer.call(6, "garbage", json!({}));
    let lines = [peer.line(), peer.line(), peer.line()].map(Option::unwrap);
    assert_eq!(lines, ["no json", r#"{"no":"rpc"}"#, ""]);
    assert_eq!(peer.text(6), "after garbage");
    peer.call(8, "slow", json!({}));
    assert_eq!(peer.text(8), "slow");
    for (id, expected) in [(9, json!("first")), (10, Value::Null), (11, Value::Null)] {
        peer.call(id, "turns", json!({}));
        assert_eq!(peer.message()["result"]["content"][0]["text"], expected);
    }
    peer.call(12, "twice", json!({}));
    assert_eq!((peer.text(12), peer.text(12)), ("one".to_owned(), "two".to_owned()));
    // A cancelled call is no longer open.
    peer.cancel(4);
    peer.call(13, "report", json!({}));
    let report: Value = serde_json::from_str(&peer.text(13)).unwrap();
    let expected = json!({
        "pid": peer.child.id(), "grandchild": null, "calls": 12, "in_flight_peak": 2, "cancelled": [4],
    });
    assert_eq!(report, expected);
    // Bytes that are no UTF-8 end the line reader of this test, so they come last.
    peer.call(14, "bytes", json!({}));
    assert_eq!(peer.line(), None);
}

#[test]
fn a_late_answer_comes_after_the_cancel_of_its_own_call_only() {
    let mut peer = Peer::start(&fixture_of([FixtureTool::late("late")]));
    peer.call(1, "late", json!({}));
    peer.cancel(2);
    peer.is_silent();
    peer.cancel(1);
    assert_eq!(peer.text(1), "late");
    // An id used again does not hear the old notice.
    peer.call(2, "late", json!({}));
    peer.is_silent();
    peer.cancel(2);
    assert_eq!(peer.text(2), "late");
}

#[test]
fn progress_comes_by_the_clock_or_by_a_gate() {
    let fixture = fixture_of([
        FixtureTool::progress("clock", 2, 1),
        FixtureTool::driven_progress("gate", 1, "g"),
        FixtureTool::opens_gate("open", "g"),
    ]);
    let mut peer = Peer::start(&fixture);
    let progress = |token: Value, progress: u64, total: u64| {
        let params = json!({"progressToken": token, "progress": progress, "total": total});
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    };
    peer.call(1, "clock", json!({}));
    assert_eq!([peer.message(), peer.message()], [progress(json!(1), 1, 2), progress(json!(1), 2, 2)]);
    assert_eq!(peer.text(1), "done");
    peer.request(2, "tools/call", json!({"name": "clock"}));
    assert_eq!(peer.text(2), "done", "without a token nothing is reported");
    peer.call(3, "gate", json!({}));
    peer.is_silent();
    peer.call(4, "open", json!({}));
    assert_eq!(peer.text(4), "opened");
    assert_eq!(peer.message(), progress(json!(3), 1, 1));
    peer.is_silent();
    peer.call(5, "open", json!({}));
    assert_eq!((peer.text(5), peer.text(3)), ("opened".to_owned(), "done".to_owned()));
}

#[test]
fn the_client_is_asked_during_a_call() {
    let own_id = Step::Request { method: "ping".to_owned(), params: None, id: Some(json!("mine").into()) };
    let fixture = fixture_of([
        FixtureTool::asks("roots", "roots/list", json!({})),
        FixtureTool::scripted("own", [own_id, Step::AwaitReply, Step::Answer(Reply::ClientReply)]),
        FixtureTool::scripted(
            "withdrawn",
            [
                Step::request("elicitation/create", json!({"message": "?"})),
                Step::CancelRequest,
                Step::text("never mind"),
            ],
        ),
        FixtureTool::scripted(
            "notes",
            [
                Step::notify("notifications/message", json!({"level": "info", "data": "d"})),
                Step::text("noted"),
            ],
        ),
    ]);
    let mut peer = Peer::start(&fixture);
    peer.call(1, "roots", json!({}));
    assert_eq!(peer.message(), json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list", "params": {}}));
    peer.send(json!({"jsonrpc": "2.0", "id": 99, "result": {}}));
    peer.is_silent();
    peer.send(json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "m"}}));
    assert_eq!(peer.text(1), r#"{"error":{"code":-32601,"message":"m"}}"#);
    peer.call(2, "own", json!({}));
    assert_eq!(peer.message(), json!({"jsonrpc": "2.0", "id": "mine", "method": "ping"}));
    peer.send(json!({"jsonrpc": "2.0", "id": "mine", "result": {}}));
    assert_eq!(peer.text(2), r#"{"result":{}}"#);
    peer.call(3, "withdrawn", json!({}));
    assert_eq!(peer.message()["id"], 2);
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(peer.message(), notice);
    assert_eq!(peer.text(3), "never mind");
    peer.call(4, "notes", json!({}));
    assert_eq!(peer.message()["method"], "notifications/message");
    assert_eq!(peer.text(4), "noted");
}

#[test]
fn the_environment_is_told() {
    let fixture = fixture_of([
        FixtureTool::environment("set", "FIXTURE_TEST_SET"),
        FixtureTool::environment("unset", "FIXTURE_TEST_UNSET"),
        FixtureTool::scripted("names", [Step::Answer(Reply::EnvironmentNames)]),
        FixtureTool::scripted("cwd", [Step::Answer(Reply::WorkingDirectory)]),
        FixtureTool::scripted("args", [Step::Answer(Reply::Arguments)]),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let mut command = fixture.command().unwrap().to_std();
    command.env("FIXTURE_TEST_SET", "värde").env_remove("FIXTURE_TEST_UNSET");
    command.current_dir(&folder).args(["--some", "thing"]);
    let mut peer = Peer::spawn(command);
    peer.call(1, "set", json!({}));
    assert_eq!(peer.text(1), "värde");
    peer.call(2, "unset", json!({}));
    let answer = peer.message();
    assert_eq!(
        (&answer["result"]["isError"], &answer["result"]["content"][0]["text"]),
        (&json!(true), &json!("unset"))
    );
    peer.call(3, "names", json!({}));
    let names: Vec<String> = serde_json::from_str(&peer.text(3)).unwrap();
    assert!(names.contains(&"FIXTURE_TEST_SET".to_owned()) && names.is_sorted(), "{names:?}");
    peer.call(4, "cwd", json!({}));
    assert_eq!(peer.text(4), folder.to_str().unwrap());
    peer.call(5, "args", json!({}));
    assert_eq!(peer.text(5), r#"["--some","thing"]"#);
}

#[cfg(unix)]
#[test]
fn the_process_dies_during_a_call_in_each_way() {
    use std::os::unix::process::ExitStatusExt;
    let fixture = fixture_of([
        FixtureTool::scripted("exit", [Step::Stderr("last words".to_owned()), Step::Exit { code: 7 }]),
        FixtureTool::aborts("abort"),
        FixtureTool::scripted("kill", [Step::Kill]),
        FixtureTool::scripted("half", [Step::Bytes(br#"{"jsonrpc""#.to_vec()), Step::Exit { code: 0 }]),
    ]);
    for (tool, code, signal, stdout) in [
        ("exit", Some(7), None, None),
        ("abort", None, Some(6), None),
        ("kill", None, Some(9), None),
        ("half", Some(0), None, Some(r#"{"jsonrpc""#)),
    ] {
        let mut peer = Peer::start(&fixture);
        peer.call(1, tool, json!({}));
        assert_eq!(peer.line().as_deref(), stdout, "{tool}");
        assert_eq!(peer.line(), None, "{tool}");
        let status = peer.status();
        assert_eq!((status.code(), status.signal()), (code, signal), "{tool}");
        assert_eq!(peer.stderr(), if tool == "exit" { "last words\n" } else { "" });
    }
}

#[cfg(unix)]
#[test]
fn stdout_can_be_closed_by_a_process_that_lives_on() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(folder.path().join("ledger"));
    let fixture = fixture_of([FixtureTool::closes_stdout("close")]).ledger(ledger.path());
    let mut peer = Peer::start(&fixture);
    peer.call(1, "close", json!({}));
    assert_eq!(peer.line(), None);
    peer.request(2, "ping", json!({}));
    wait(|| (ledger.of_method("ping").unwrap().len() == 1).then_some(()));
    assert_eq!(peer.child.try_wait().unwrap(), None);
}

#[test]
fn a_fixture_can_fail_at_its_start() {
    let fixture = McpFixture::new().exits_at_start(3, ["l1", "l2"]);
    let mut peer = Peer::start(&fixture);
    assert_eq!(peer.line(), None);
    assert_eq!(peer.status().code(), Some(3));
    assert_eq!(peer.stderr(), "l1\nl2\n");

    let fixture =
        McpFixture::new().on_start([Step::Line("npm warn".to_owned()), Step::Line("{}".to_owned())]);
    let mut peer = Peer::start(&fixture);
    assert_eq!((peer.line().as_deref(), peer.line().as_deref()), (Some("npm warn"), Some("{}")));
    peer.is_silent();
}

#[test]
fn handshakes_and_lists_can_be_odd() {
    let version = "2025-11-25";
    let info = json!({"name": "fixture", "version": "1.0.0"});
    let no_capability = McpFixture::new().without_tools_capability();
    for (fixture, expected) in [
        (
            McpFixture::new().fails("initialize", -32603, "no"),
            json!({"error": {"code": -32603, "message": "no"}}),
        ),
        (
            McpFixture::new()
                .initialize_with(|result| drop(result.as_object_mut().unwrap().shift_remove("serverInfo"))),
            json!({"result": {"protocolVersion": version, "capabilities": {"tools": {}}}}),
        ),
        (
            McpFixture::new().initialize_with(|result| result["serverInfo"] = json!({"name": "n"})),
            json!({"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "n"}}}),
        ),
        (
            McpFixture::new().capabilities(Value::Null),
            json!({"result": {"protocolVersion": version, "capabilities": null, "serverInfo": info}}),
        ),
        (
            McpFixture::new().protocol_version("1999-01-01"),
            json!({"result": {"protocolVersion": "1999-01-01", "capabilities": {"tools": {}}, "serverInfo": info}}),
        ),
        (
            McpFixture::new().initialize_with(|result| result["protocolVersion"] = json!(5)),
            json!({"result": {"protocolVersion": 5, "capabilities": {"tools": {}}, "serverInfo": info}}),
        ),
        (
            McpFixture::new().delays("initialize", 1).capabilities(json!({})),
            json!({"result": {"protocolVersion": version, "capabilities": {}, "serverInfo": info}}),
        ),
        (
            no_capability.clone(),
            json!({"result": {"protocolVersion": version, "capabilities": {}, "serverInfo": info}}),
        ),
    ] {
        let mut peer = Peer::start(&fixture);
        peer.request(1, "initialize", json!({}));
        let mut answer = peer.message();
        answer.as_object_mut().unwrap().retain(|key, _| key == "result" || key == "error");
        assert_eq!(answer, expected);
    }
    let mut peer = Peer::start(&no_capability);
    peer.request(1, "tools/list", json!({}));
    assert_eq!(peer.message()["error"], json!({"code": -32601, "message": "Method not found"}));
    for method in ["initialize", "tools/list"] {
        let mut peer = Peer::start(&McpFixture::new().never_answers(method));
        peer.request(1, method, json!({}));
        peer.is_silent();
    }
}

#[test]
fn pages_end_in_every_way() {
    let names =
        |page: &Value| page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    for (paging, pages) in [
        (Paging::Normal, vec![(vec!["a", "b"], Some(json!("2"))), (vec!["c"], None)]),
        (Paging::EmptyCursor, vec![(vec!["a", "b"], Some(json!("2"))), (vec!["c"], Some(json!("")))]),
        (Paging::NullCursor, vec![(vec!["a", "b"], Some(json!("2"))), (vec!["c"], Some(Value::Null))]),
        (
            Paging::DuplicateCursor,
            vec![(vec!["a", "b"], Some(json!("again"))), (vec!["a", "b"], Some(json!("again")))],
        ),
        (
            Paging::Endless,
            vec![
                (vec!["a", "b"], Some(json!("2"))),
                (vec!["c"], Some(json!("4"))),
                (vec![], Some(json!("6"))),
                (vec![], Some(json!("8"))),
            ],
        ),
    ] {
        let fixture = fixture_of(["a", "b", "c"].map(FixtureTool::new)).page_size(2).paging(paging);
        let mut peer = Peer::start(&fixture);
        let mut params = json!({});
        for (tools, next) in pages {
            let page = peer.result("tools/list", params);
            let listed: Vec<Value> = names(&page);
            assert_eq!(listed, tools, "{paging:?}");
            assert_eq!(page.get("nextCursor"), next.as_ref(), "{paging:?}");
            params = json!({"cursor": next});
        }
    }
    // Without tools, or with all on one page, the cursors without end still change.
    let mut peer = Peer::start(&McpFixture::new().paging(Paging::Endless));
    let first = peer.result("tools/list", json!({}));
    let second = peer.result("tools/list", json!({"cursor": first["nextCursor"]}));
    assert_ne!(first["nextCursor"], second["nextCursor"]);
}

#[test]
fn listed_entries_can_be_odd() {
    let entries = [json!({"description": "nameless"}), json!(5), json!({"name": 1, "inputSchema": {}})];
    let fixture = McpFixture::new()
        .tools(entries.clone().map(FixtureTool::listed_as))
        .tool(FixtureTool::new("bare").without_input_schema())
        .tool(FixtureTool::new("list").input_schema(json!([1])))
        .tool(
            FixtureTool::new("full")
                .output_schema(json!({"o": 1}))
                .annotations(json!({"readOnlyHint": true})),
        );
    let mut expected = entries.to_vec();
    expected.extend([
        json!({"name": "bare"}),
        json!({"name": "list", "inputSchema": [1]}),
        json!({
            "name": "full", "inputSchema": {"type": "object"}, "outputSchema": {"o": 1},
            "annotations": {"readOnlyHint": true},
        }),
    ]);
    assert_eq!(Peer::start(&fixture).result("tools/list", json!({}))["tools"], json!(expected));
}

#[test]
fn stderr_can_be_noisy_for_a_while_or_for_ever() {
    let spam =
        |lines| ProcessFaults { stderr_spam: Some(StderrSpam { lines, bytes: 10 }), ..Default::default() };
    let mut peer = Peer::start(&faulty(spam(Some(3))));
    peer.is_silent();
    let mut three = vec![0; 33];
    peer.child.stderr.as_mut().unwrap().read_exact(&mut three).unwrap();
    assert_eq!(three, b"ssssssssss\n".repeat(3));
    drop(peer.stdin.take());
    assert_eq!(peer.stderr(), "");

    // Far more than a pipe holds, and still answers come.
    let mut peer = Peer::start(&faulty(spam(None)));
    peer.is_silent();
    let mut much = vec![0; 1 << 20];
    peer.child.stderr.as_mut().unwrap().read_exact(&mut much).unwrap();
    peer.is_silent();
    drop(peer.stdin.take());
    assert_eq!(peer.status().code(), Some(0));
}

#[cfg(unix)]
#[test]
fn a_stubborn_fixture_ends_by_kill_alone_and_leaves_its_grandchild() {
    use rustix::process::{Pid, Signal, kill_process, test_kill_process};
    let folder = tempfile::tempdir().unwrap();
    for grandchild in [Grandchild::Quiet, Grandchild::HoldsPipes] {
        let ledger = Ledger::at(folder.path().join(format!("{grandchild:?}")));
        let fixture = faulty(ProcessFaults {
            ignore_stdin_close: true,
            ignore_signals: true,
            grandchild: Some(grandchild),
            ..Default::default()
        });
        let mut peer = Peer::start(&fixture.tool(FixtureTool::report("report")).ledger(ledger.path()));
        peer.call(1, "report", json!({}));
        let report: Value = serde_json::from_str(&peer.text(1)).unwrap();
        let pid = report["grandchild"].as_u64().unwrap();
        let started = LedgerEntry::Started { pid: peer.child.id(), grandchild: Some(pid as u32) };
        assert_eq!(ledger.entries().unwrap().first(), Some(&started));

        drop(peer.stdin.take());
        wait(|| ledger.entries().unwrap().contains(&LedgerEntry::StdinClosed).then_some(()));
        let fixture = Pid::from_child(&peer.child);
        kill_process(fixture, Signal::TERM).unwrap();
        kill_process(fixture, Signal::INT).unwrap();
        assert_eq!(peer.child.try_wait().unwrap(), None);
        kill_process(fixture, Signal::KILL).unwrap();
        peer.status();
        let sleeper = Pid::from_raw(pid as i32).unwrap();
        assert!(test_kill_process(sleeper).is_ok(), "it outlives the fixture");
        if grandchild == Grandchild::Quiet {
            assert_eq!(peer.line(), None, "nobody holds the pipe");
        } else {
            assert_eq!(peer.stdout.try_recv(), Err(mpsc::TryRecvError::Empty), "the pipe is held");
        }
        kill_process(sleeper, Signal::KILL).unwrap();
        assert_eq!(peer.line(), None);
    }
    // A fixture that ends by itself takes it along.
    let faults = ProcessFaults { grandchild: Some(Grandchild::HoldsPipes), ..Default::default() };
    let mut peer = Peer::start(&faulty(faults));
    peer.is_silent();
    drop(peer.stdin.take());
    assert_eq!(peer.line(), None);
    assert_eq!(peer.status().code(), Some(0));
}

#[test]
fn a_fixture_can_stop_reading() {
    let faults = ProcessFaults { stop_reading_after: Some(2), ..Default::default() };
    let mut peer = Peer::start(&faulty(faults));
    peer.is_silent();
    peer.is_silent();
    // A megabyte is more than a pipe holds: the write does not end while the fixture lives.
    let mut stdin = peer.stdin.take().unwrap();
    let (written, result) = mpsc::channel();
    std::thread::spawn(move || written.send(stdin.write_all(&vec![b'x'; 1 << 20]).is_ok()));
    assert_eq!(result.recv_timeout(Duration::from_millis(50)), Err(mpsc::RecvTimeoutError::Timeout));
    peer.child.kill().unwrap();
    assert!(!result.recv_timeout(PATIENCE).unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_ledger_has_every_message_verbatim() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(folder.path().join("ledger"));
    assert_eq!(ledger.entries().unwrap(), []);
    let mut peer = Peer::start(&fixture_of([FixtureTool::hangs("hang")]).ledger(ledger.path()));
    assert_eq!(ledger.started().await.unwrap(), (peer.child.id(), None));
    peer.send_line(
        r#"{"id":1, "method":"tools/call","params":{"name":"hang","_meta":{"progressToken":1e0}}}"#,
    );
    peer.send_line("no json");
    peer.cancel(1);
    let cancelled = ledger.wait_for("notifications/cancelled", 1).await.unwrap();
    assert_eq!(cancelled[0]["params"]["requestId"], 1);
    let entries = ledger.entries().unwrap();
    let call = r#"{"id":1, "method":"tools/call","params":{"name":"hang","_meta":{"progressToken":1e0}}}"#;
    assert_eq!(entries[1], LedgerEntry::Received(RawJson::parse(call).unwrap()));
    assert_eq!(entries[2], LedgerEntry::Garbage("no json".to_owned()));
    assert_eq!(ledger.messages().unwrap().len(), 2);
    assert_eq!(ledger.of_method("tools/call").unwrap()[0]["params"]["name"], "hang");
}

#[test]
fn a_fixture_travels_as_variable_argument_or_file() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = fixture_of([FixtureTool::text("t", "here")]);
    let file = folder.path().join("fixture.json");
    std::fs::write(&file, fixture.to_json()).unwrap();
    let mut by_argument = McpFixture::new().command().unwrap();
    by_argument.args = vec!["--fixture".to_owned(), fixture.to_json()];
    for command in [fixture.command().unwrap(), by_argument, McpFixture::command_from(&file).unwrap()] {
        let mut peer = Peer::spawn(command.to_std());
        peer.call(1, "t", json!({}));
        assert_eq!(peer.text(1), "here");
    }
    let command = fixture.command().unwrap();
    let entry = json!({
        "command": [command.program.to_str().unwrap()],
        "environment": {"TOOLNEXUS_MCP_FIXTURE": fixture.to_json()},
    });
    assert_eq!(fixture.server_json().unwrap(), entry);
    assert_eq!(fixture.mcp_json("srv").unwrap(), json!({"mcpServers": {"srv": entry}}));

    let error =
        fixture.tools((0..5000).map(|n| FixtureTool::new(format!("tool_{n}")))).command().unwrap_err();
    assert!(error.to_string().contains("use `McpFixture::command_from`"), "{error}");
    let mut peer = Peer::spawn({
        let mut command = McpFixture::new().command().unwrap();
        command.args = vec!["--fixture".to_owned(), r#"{"toolz":[]}"#.to_owned()];
        command.to_std()
    });
    assert_eq!(peer.status().code(), Some(2));
    let stderr = peer.stderr();
    assert!(stderr.contains("unknown field `toolz`"), "{stderr}");
}
