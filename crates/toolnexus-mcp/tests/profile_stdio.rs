//! A served profile over a pair of pipes: one client, one message a line.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

#[path = "support/profile.rs"]
mod profile;

use std::sync::Arc;
use std::time::Duration;

use profile::{echo, served, tool};
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{BoxError, LogLevel, Tool, ToolContext, ToolResult};
use toolnexus_mcp::server::McpProfile;

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The client's side of a served profile.
struct Client {
    /// `None` once it is closed.
    input: Option<DuplexStream>,
    output: Lines<BufReader<DuplexStream>>,
    server: JoinHandle<std::io::Result<()>>,
    cancel: CancellationToken,
}

impl Client {
    fn of(profile: McpProfile) -> Self {
        let (input, server_input) = tokio::io::duplex(1024);
        let (server_output, output) = tokio::io::duplex(1024);
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let server =
            tokio::spawn(async move { profile.serve_lines(server_input, server_output, stop).await });
        Client { input: Some(input), output: BufReader::new(output).lines(), server, cancel }
    }

    async fn say(&mut self, message: Value) {
        self.say_text(&format!("{message}\n")).await;
    }

    async fn say_text(&mut self, text: &str) {
        self.input.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    async fn call(&mut self, id: Value, params: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
    }

    /// The next line, which is JSON.
    async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await.expect("silence");
        serde_json::from_str(&line.unwrap().expect("the server has closed its side")).unwrap()
    }

    /// What comes until the server has ended, after this side is closed.
    async fn close(mut self) -> Vec<Value> {
        self.input = None;
        let mut heard = Vec::new();
        while let Some(line) = tokio::time::timeout(PATIENCE, self.output.next_line()).await.unwrap().unwrap()
        {
            heard.push(serde_json::from_str(&line).unwrap());
        }
        tokio::time::timeout(PATIENCE, self.server).await.unwrap().unwrap().unwrap();
        heard
    }
}

fn answer(id: Value, text: &str) -> Value {
    let result = json!({"content": [{"type": "text", "text": text}], "isError": false});
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// A tool that waits for the gate, and says over the channel that it has begun and with which token.
fn gated(gate: &Arc<Semaphore>, begun: &mpsc::UnboundedSender<CancellationToken>) -> Tool {
    let (gate, begun) = (Arc::clone(gate), begun.clone());
    tool("gated", move |context| {
        let (gate, begun) = (Arc::clone(&gate), begun.clone());
        async move {
            begun.send(context.cancel.clone()).unwrap();
            gate.acquire().await.unwrap().forget();
            ToolResult::success("passed")
        }
    })
}

// MCP-160
#[tokio::test]
async fn one_message_a_line_until_the_input_ends() {
    let mut client = Client::of(served([echo()]));
    client.say(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}})).await;
    let greeting = client.hear().await;
    assert_eq!(
        greeting["result"],
        json!({
            "protocolVersion": "2025-06-18",
            // There is one client, which can be told things: unlike over HTTP.
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "toolnexus", "version": "0.1.0"},
        })
    );
    // Blank lines, line ends of Windows, what wants no answer.
    client.say_text("\n \r\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\r\n").await;
    client.say_text("{\"id\":\"a\",\"method\":\"ping\"}\r\n").await;
    assert_eq!(client.hear().await, json!({"jsonrpc": "2.0", "id": "a", "result": {}}));
    client.say(json!({"id": 1, "method": "tools/list"})).await;
    assert_eq!(client.hear().await["result"]["tools"][0]["name"], "echo");
    client.call(json!(2), json!({"name": "echo", "arguments": {"text": "line\nbreak"}})).await;
    assert_eq!(client.hear().await, answer(json!(2), "line\nbreak"));
    // The last line counts without a line end.
    client.say_text(r#"{"id":3,"method":"ping"}"#).await;
    assert_eq!(client.close().await, [json!({"jsonrpc": "2.0", "id": 3, "result": {}})]);
}

// MCP-160, MCP-154, MCP-155: the same dispatcher
#[tokio::test]
async fn odd_lines_are_answered_as_over_http() {
    let mut client = Client::of(served([echo()]));
    let error = |id: Value, code: i64, message: &str| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    for (line, expected) in [
        ("{oops", error(json!(null), -32700, "Parse error")),
        ("[]", error(json!(null), -32600, "Invalid Request")),
        (r#"{"id":1,"method":"none"}"#, error(json!(1), -32601, "Method not found")),
        (r#"{"id":2,"method":"tools/call"}"#, error(json!(2), -32602, "Unknown tool: ")),
    ] {
        client.say_text(&format!("{line}\n")).await;
        assert_eq!(client.hear().await, expected, "{line}");
    }
    client.say_text("{\"id\":9,\"result\":{}}\n{\"method\":\"notifications/none\"}\n").await;
    assert!(client.close().await.is_empty());
}

// MCP-160: a line without end costs no memory and no client
#[tokio::test]
async fn a_line_that_is_too_long_is_passed_over() {
    let mut client = Client::of(served([echo()]));
    let mut input = client.input.take().unwrap();
    let writing = tokio::spawn(async move {
        let chunk = vec![b'x'; 1024 * 1024];
        for _ in 0..17 {
            input.write_all(&chunk).await.unwrap();
        }
        input.write_all(b"\n{\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
        input
    });
    assert_eq!(client.hear().await["error"]["code"], -32600);
    assert_eq!(client.hear().await["id"], 1);
    client.input = Some(writing.await.unwrap());
    assert!(client.close().await.is_empty());
}

// MCP-160, MCP-159
#[tokio::test]
async fn calls_run_side_by_side() {
    let gate = Arc::new(Semaphore::new(0));
    let (begun, mut tokens) = mpsc::unbounded_channel();
    let mut client = Client::of(served([gated(&gate, &begun), echo()]));
    for id in [1, 2] {
        client.call(json!(id), json!({"name": "gated"})).await;
        tokens.recv().await.unwrap();
    }
    client.call(json!(3), json!({"name": "echo", "arguments": {"text": "hi"}})).await;
    assert_eq!(client.hear().await, answer(json!(3), "hi"));
    gate.add_permits(2);
    let mut ids = [client.hear().await["id"].clone(), client.hear().await["id"].clone()];
    ids.sort_by_key(|id| id.as_i64());
    assert_eq!(ids, [json!(1), json!(2)]);
    assert!(client.close().await.is_empty());
}

// MCP-160, MCP-152: a call that its client cancels is not answered; an id of another kind is another
#[tokio::test]
async fn a_cancel_notice_ends_its_call_alone() {
    let gate = Arc::new(Semaphore::new(0));
    let (begun, mut tokens) = mpsc::unbounded_channel();
    let mut client = Client::of(served([gated(&gate, &begun)]));
    client.call(json!(1), json!({"name": "gated"})).await;
    let first = tokens.recv().await.unwrap();
    client.call(json!("1"), json!({"name": "gated"})).await;
    let second = tokens.recv().await.unwrap();
    for params in [
        json!({"requestId": 7}),
        json!({"requestId": null}),
        json!({}),
        json!({"requestId": 1, "reason": "enough"}),
    ] {
        client.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    }
    tokio::time::timeout(PATIENCE, first.cancelled()).await.unwrap();
    assert!(!second.is_cancelled());
    gate.add_permits(2);
    assert_eq!(client.hear().await, answer(json!("1"), "passed"));
    assert!(client.close().await.is_empty());
}

// MCP-160, MCP-188: there is one client, so it hears of progress and of the log
#[tokio::test]
async fn progress_and_log_lines_are_told() {
    let talks = tool("talks", |context| async move {
        for level in [LogLevel::Debug, LogLevel::Info, LogLevel::Error] {
            context.log(level, level.as_str());
        }
        context.progress(1.0, Some(2.0), Some("half"));
        tokio::task::yield_now().await;
        context.progress(0.5, None, None);
        ToolResult::success("done")
    });
    let log = |level: &str| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": level}});
    let mut client = Client::of(served([talks]));
    client.call(json!(1), json!({"name": "talks", "_meta": {"progressToken": "p"}})).await;
    let params = json!({"progressToken": "p", "progress": 1, "total": 2, "message": "half"});
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    for expected in [log("info"), log("error"), progress, answer(json!(1), "done")] {
        assert_eq!(client.hear().await, expected);
    }

    client.say(json!({"id": 2, "method": "logging/setLevel", "params": {"level": "error"}})).await;
    assert_eq!(client.hear().await, json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    client.call(json!(3), json!({"name": "talks"})).await;
    for expected in [log("error"), answer(json!(3), "done")] {
        assert_eq!(client.hear().await, expected);
    }
    client.say(json!({"id": 4, "method": "logging/setLevel", "params": {"level": "loud"}})).await;
    let refused = client.hear().await;
    assert_eq!(refused["error"]["code"], -32602);
    assert!(
        refused["error"]["message"].as_str().unwrap().starts_with("unknown log level \"loud\""),
        "{refused}"
    );
    assert!(client.close().await.is_empty());
}

// MCP-160: what was asked before the end is answered, what does not end is cancelled
#[tokio::test(start_paused = true)]
async fn running_calls_have_a_second_when_the_input_ends() {
    let soon = tool("soon", |_| async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        ToolResult::success("just in time")
    });
    let (begun, mut tokens) = mpsc::unbounded_channel();
    let never = gated(&Arc::new(Semaphore::new(0)), &begun);
    let mut client = Client::of(served([soon, never]));
    client.call(json!(1), json!({"name": "soon"})).await;
    client.call(json!(2), json!({"name": "gated"})).await;
    let token = tokens.recv().await.unwrap();
    assert_eq!(client.close().await, [answer(json!(1), "just in time")]);
    assert!(token.is_cancelled());
}

// MCP-160: neither a token nor a client that has gone away leaves anything behind
#[tokio::test]
async fn everything_ends_with_the_server() {
    let gate = Arc::new(Semaphore::new(0));
    let (begun, mut tokens) = mpsc::unbounded_channel();
    let profile = served([gated(&gate, &begun), echo()]);

    let mut client = Client::of(profile.clone());
    client.call(json!(1), json!({"name": "gated"})).await;
    let token = tokens.recv().await.unwrap();
    client.cancel.cancel();
    tokio::time::timeout(PATIENCE, client.server).await.unwrap().unwrap().unwrap();
    assert!(token.is_cancelled());

    // Its output is closed, which the next answer finds out.
    let mut client = Client::of(profile.clone());
    client.call(json!(1), json!({"name": "gated"})).await;
    let token = tokens.recv().await.unwrap();
    drop(std::mem::replace(&mut client.output, BufReader::new(tokio::io::duplex(1).0).lines()));
    client.say(json!({"id": 2, "method": "ping"})).await;
    tokio::time::timeout(PATIENCE, client.server).await.unwrap().unwrap().unwrap();
    assert!(token.is_cancelled());

    let mut client = Client::of(profile);
    client.call(json!(1), json!({"name": "gated"})).await;
    let token = tokens.recv().await.unwrap();
    client.server.abort();
    tokio::time::timeout(PATIENCE, token.cancelled()).await.unwrap();
}

// MCP-160: nor does a tool that cannot be ended hold up the end
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_tool_that_blocks_its_thread_is_left_behind() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(std::sync::Mutex::new(held));
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let blocks = tool("blocks", move |_| {
        let (begun, held) = (begun.clone(), Arc::clone(&held));
        async move {
            begun.send(()).unwrap();
            let _ = held.lock().unwrap().recv();
            ToolResult::default()
        }
    });
    let mut client = Client::of(served([blocks]));
    client.call(json!(1), json!({"name": "blocks"})).await;
    has_begun.recv().await.unwrap();
    client.cancel.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(20), client.server).await;
    ended.expect("it has ended").unwrap().unwrap();
    drop(hold);
}

// MCP-160: a client that does not read holds up its own calls only, and loses no answer
#[tokio::test]
async fn a_client_that_reads_late_gets_every_answer() {
    const CALLS: usize = 600;
    let mut client = Client::of(served([echo()]));
    let mut input = client.input.take().unwrap();
    let writing = tokio::spawn(async move {
        for id in 0..CALLS {
            let params = json!({"name": "echo", "arguments": {"text": "x".repeat(100)}});
            let call = json!({"id": id, "method": "tools/call", "params": params});
            input.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        }
    });
    // Its pipe is full long before; it goes on only when this side reads.
    tokio::task::yield_now().await;
    let mut ids: Vec<u64> = Vec::new();
    while ids.len() < CALLS {
        ids.push(client.hear().await["id"].as_u64().unwrap());
    }
    writing.await.unwrap();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..CALLS as u64));
    assert!(client.close().await.is_empty());
}

// MCP-160: the official SDK's client, with its whole handshake
#[tokio::test]
async fn the_official_client_is_served() {
    let (client_input, server_input) = tokio::io::duplex(4096);
    let (server_output, client_output) = tokio::io::duplex(4096);
    let profile = served([echo()]);
    let server = tokio::spawn(async move {
        profile.serve_lines(server_input, server_output, CancellationToken::new()).await
    });
    let client = ().serve((client_output, client_input)).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0].name, "echo");
    let arguments = json!({"text": "hi"}).as_object().cloned().unwrap();
    let called =
        client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await.unwrap();
    assert_eq!(called.is_error, Some(false));
    assert_eq!(serde_json::to_value(&called.content).unwrap(), json!([{"type": "text", "text": "hi"}]));
    client.cancel().await.unwrap();
    tokio::time::timeout(PATIENCE, server).await.unwrap().unwrap().unwrap();
}

// MCP-160: nothing but messages, each on one line
#[tokio::test]
async fn a_message_never_spans_lines() {
    let (mut input, server_input) = tokio::io::duplex(1024);
    let (server_output, mut output) = tokio::io::duplex(4096);
    let schema = json!({"type": "object", "description": "line\nbreak\r\u{2028}"});
    let profile = served([echo().input_schema(schema).description("a\nb")]);
    let server = tokio::spawn(async move {
        profile.serve_lines(server_input, server_output, CancellationToken::new()).await
    });
    input.write_all(b"{\"id\":1,\"method\":\"tools/list\"}").await.unwrap();
    drop(input);
    let mut text = String::new();
    tokio::time::timeout(PATIENCE, output.read_to_string(&mut text)).await.unwrap().unwrap();
    server.await.unwrap().unwrap();
    assert_eq!((text.matches('\n').count(), text.ends_with('\n'), text.contains('\r')), (1, true, false));
}

/// A tool that asks for a city.
fn asks() -> Tool {
    Tool::new("asks", |_args: Value, context: ToolContext| async move {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let answer = context.elicit("Which city?", schema).await?;
        let said = answer.data.unwrap_or_default().remove("city");
        Ok::<_, BoxError>(format!("{} {:?} {:?}", answer.ok, said, answer.reason))
    })
}

fn hello(capabilities: Value) -> Value {
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

// D16, MCP-160: the person behind the client is asked, if the client can
#[tokio::test]
async fn a_tool_can_ask_the_client() {
    let mut client = Client::of(served([asks()]));
    client.say(hello(json!({"elicitation": {}}))).await;
    client.hear().await;
    let accepted = json!({"action": "accept", "content": {"city": "Kochi"}});
    for (reply, output) in [
        (json!({"result": accepted}), r#"true Some(String("Kochi")) None"#),
        (json!({"result": {"action": "decline"}}), r#"false None Some("declined")"#),
        (json!({"error": {"code": -32601, "message": "no"}}), r#"false None Some("cancelled")"#),
    ] {
        client.call(json!("c"), json!({"name": "asks"})).await;
        let question = client.hear().await;
        assert_eq!(question["method"], "elicitation/create");
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        assert_eq!(question["params"], json!({"message": "Which city?", "requestedSchema": schema}));
        // One to nobody's question changes nothing.
        client.say(json!({"jsonrpc": "2.0", "id": 99, "result": accepted})).await;
        // Some clients send the number back as text.
        let mut answered = json!({"jsonrpc": "2.0", "id": question["id"].to_string()});
        answered.as_object_mut().unwrap().extend(reply.as_object().unwrap().clone());
        client.say(answered).await;
        assert_eq!(client.hear().await, answer(json!("c"), output));
    }
    assert!(client.close().await.is_empty());
}

// MCP-152, MCP-160: who cannot ask a person gets an ordinary suspension
#[tokio::test]
async fn a_client_that_cannot_ask_gets_the_question_as_a_failure() {
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}}), json!({"elicitation": null})] {
        let mut client = Client::of(served([asks()]));
        client.say(hello(capabilities)).await;
        client.hear().await;
        client.call(json!(1), json!({"name": "asks"})).await;
        let result = json!({"content": [{"type": "text", "text": "Which city?"}], "isError": true});
        assert_eq!(client.hear().await, json!({"jsonrpc": "2.0", "id": 1, "result": result}));
        assert!(client.close().await.is_empty());
    }
}

// D16, MCP-160: no question outlives its call, and none waits for ever
#[tokio::test(start_paused = true)]
async fn a_question_ends_with_its_call_or_with_its_time() {
    let mut client = Client::of(served([asks()]));
    client.say(hello(json!({"elicitation": {"form": {}}}))).await;
    client.hear().await;
    let taken_back = |question: &Value, reason: &str| {
        let params = json!({"requestId": question["id"], "reason": reason});
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    };
    client.call(json!(1), json!({"name": "asks"})).await;
    let question = client.hear().await;
    client.say(json!({"method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    assert_eq!(client.hear().await, taken_back(&question, "the call has ended"));

    client.call(json!(2), json!({"name": "asks"})).await;
    let second = client.hear().await;
    assert_ne!(second["id"], question["id"]);
    // Five minutes pass at once.
    let line = client.output.next_line().await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), taken_back(&second, "expired"));
    assert_eq!(client.hear().await, answer(json!(2), r#"false None Some("expired")"#));
    assert!(client.close().await.is_empty());
}
