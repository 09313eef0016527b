//! The HTTP fixture, driven by hand over raw sockets.
//!
//! The fixture has no rules of its own: each test shows that a behaviour which a client must
//! survive really happens on the wire.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolnexus_testkit::mcp::{
    AnswerMode, FixtureTool, HttpEffect, HttpFault, HttpOptions, McpFixture, McpHttpFixture, MessageRoute,
    Step,
};

/// One request on a connection of its own, and what has come back so far.
struct Exchange {
    socket: TcpStream,
    received: Vec<u8>,
}

/// A whole response.
#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: String,
    /// Whether the body has ended as its framing says.
    complete: bool,
}

impl Exchange {
    async fn start(server: &McpHttpFixture, request: &str, headers: &str, body: &str) -> Self {
        let mut socket = TcpStream::connect(server.origin().strip_prefix("http://").unwrap()).await.unwrap();
        let length = body.len();
        let text = format!(
            "{request} HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        socket.write_all(text.as_bytes()).await.unwrap();
        Self { socket, received: Vec::new() }
    }

    /// Reads until that text has come.
    async fn until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.received).contains(text) {
            let read = self.socket.read_buf(&mut self.received).await.unwrap();
            assert_ne!(read, 0, "no {text:?} in {:?}", String::from_utf8_lossy(&self.received));
        }
    }

    /// Reads to the end of the connection; `None` when no response has come.
    async fn finish(mut self) -> Option<Response> {
        self.socket.read_to_end(&mut self.received).await.unwrap();
        let text = String::from_utf8(self.received).unwrap();
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let head = head.to_lowercase();
        let (body, complete) =
            if head.contains("transfer-encoding: chunked") { unchunk(rest) } else { (rest.to_owned(), true) };
        Some(Response { status, head, body, complete })
    }
}

fn unchunk(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        body.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").unwrap();
    }
    (body, false)
}

impl Response {
    fn json(&self) -> Value {
        assert!(self.head.contains("content-type: application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    /// The messages of a whole event stream.
    fn events(&self) -> Vec<Value> {
        assert!(self.head.contains("content-type: text/event-stream") && self.complete, "{self:?}");
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

fn rpc(id: u64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn call(id: u64, tool: &str) -> String {
    rpc(id, "tools/call", json!({"name": tool, "arguments": {}, "_meta": {"progressToken": id}}))
}

async fn post(server: &McpHttpFixture, headers: &str, body: &str) -> Option<Response> {
    Exchange::start(server, "POST /mcp", headers, body).await.finish().await
}

async fn get(server: &McpHttpFixture, headers: &str) -> Exchange {
    Exchange::start(server, "GET /mcp", headers, "").await
}

async fn start(fixture: McpFixture, options: HttpOptions) -> McpHttpFixture {
    McpHttpFixture::start(fixture, options).await.unwrap()
}

/// A server without sessions that has these tools.
async fn start_with(tools: impl IntoIterator<Item = FixtureTool>, options: HttpOptions) -> McpHttpFixture {
    start(McpFixture::new().tools(tools), HttpOptions { sessions: false, ..options }).await
}

/// The text of a call's answer.
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

const SESSION: &str = "mcp-session-id: session-1\r\n";
const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn a_plain_server_has_sessions_and_keeps_every_request() {
    let server = start(McpFixture::new().tool(FixtureTool::new("say")), HttpOptions::default()).await;
    let early = post(&server, "", &rpc(0, "server/discover", json!({}))).await.unwrap();
    assert_eq!((early.status, &early.json()["error"]["code"]), (400, &json!(-32000)));
    let shaken = post(&server, "authorization: Bearer t\r\n", INITIALIZE).await.unwrap();
    assert_eq!(shaken.status, 200);
    assert!(shaken.head.contains("mcp-session-id: session-1"), "{shaken:?}");
    assert_eq!(shaken.json()["result"]["protocolVersion"], "2025-06-18");
    let noted = post(&server, SESSION, INITIALIZED).await.unwrap();
    assert_eq!((noted.status, noted.body.as_str()), (202, ""));
    let listed = post(&server, SESSION, &rpc(1, "tools/list", json!({}))).await.unwrap();
    assert_eq!(listed.json()["result"]["tools"][0]["name"], "say");
    assert_eq!(post(&server, "mcp-session-id: other\r\n", PING).await.unwrap().status, 404);
    for (body, code) in [("{oops", -32700), ("[]", -32600), ("\"\"", -32600)] {
        let refused = post(&server, SESSION, body).await.unwrap();
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(code)), "{body}");
    }
    for (request, status) in [("PUT /mcp", 405), ("POST /other", 404), ("GET /.well-known/x?y=1", 404)] {
        let refused = Exchange::start(&server, request, SESSION, "").await.finish().await.unwrap();
        assert_eq!(refused.status, status, "{request}");
    }
    assert_eq!(server.sessions(), ["session-1"]);
    let ended = Exchange::start(&server, "DELETE /mcp", SESSION, "").await.finish().await.unwrap();
    assert_eq!(ended.status, 200);
    assert_eq!(server.sessions(), [""; 0]);
    assert_eq!(post(&server, SESSION, PING).await.unwrap().status, 404);

    let requests = server.requests();
    assert_eq!(requests.len(), 13);
    let first = &server.requests_of("initialize")[0];
    assert_eq!(first.header("authorization"), Some("Bearer t"));
    assert_eq!((first.body.as_ref(), first.rpc_method()), (INITIALIZE.as_bytes(), Some("initialize")));
    assert_eq!(requests[10].path, "/.well-known/x?y=1");
    assert_eq!(
        (requests[11].method.as_str(), requests[11].header("mcp-session-id")),
        ("DELETE", Some("session-1"))
    );
    assert!(requests.iter().all(|request| !request.abandoned));
    assert_eq!(server.mcp_json("s"), json!({"mcpServers": {"s": {"url": server.url()}}}));
}

#[tokio::test]
async fn each_answer_mode_frames_as_it_says() {
    let tools = || {
        [
            FixtureTool::text("text", "t"),
            FixtureTool::progress("progress", 1, 1),
            FixtureTool::garbage("garbage", ["no json"]),
        ]
    };
    let note = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": 2, "progress": 1, "total": 1}});
    for (answers, plain_is_json, chatty_is_json) in
        [(AnswerMode::Auto, true, false), (AnswerMode::Json, true, true), (AnswerMode::Sse, false, false)]
    {
        let server =
            start_with(tools(), HttpOptions { answers, event_ids: true, ..Default::default() }).await;
        let plain = post(&server, "", &call(1, "text")).await.unwrap();
        let answer = if plain_is_json { plain.json() } else { plain.events().remove(0) };
        assert_eq!(text(&answer), "t", "{answers:?}");
        let chatty = post(&server, "", &call(2, "progress")).await.unwrap();
        if chatty_is_json {
            assert_eq!(text(&chatty.json()), "done");
            // What the body has no place for waits for a standing stream.
            let mut standing = get(&server, "").await;
            standing.until(&format!("id: 1\ndata: {note}\n\n")).await;
        } else {
            let events = chatty.events();
            assert_eq!((&events[0], text(&events[1]), events.len()), (&note, "done", 2), "{answers:?}");
            assert!(chatty.body.contains("id: 1\n") && chatty.body.contains("id: 2\n"), "{chatty:?}");
        }
        let garbage = post(&server, "", &call(3, "garbage")).await.unwrap();
        assert_eq!(garbage.body.contains("data: no json\n\n"), !chatty_is_json, "{answers:?}");
        assert!(garbage.body.contains("after garbage"));
    }
}

#[tokio::test]
async fn the_client_is_asked_on_the_calls_stream_or_on_the_standing_one() {
    let asks = || [FixtureTool::asks("ask", "elicitation/create", json!({"message": "?"}))];
    let reply = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}"#;
    let server = start_with(asks(), HttpOptions::default()).await;
    let mut asking = Exchange::start(&server, "POST /mcp", "", &call(7, "ask")).await;
    asking.until(r#""id":1,"method":"elicitation/create""#).await;
    assert_eq!(post(&server, "", reply).await.unwrap().status, 202);
    let events = asking.finish().await.unwrap().events();
    assert_eq!(text(&events[1]), r#"{"result":{"action":"decline"}}"#);

    let options = HttpOptions { messages: MessageRoute::Standing, ..Default::default() };
    let server = start_with(asks(), options).await;
    let mut standing = get(&server, "").await;
    server.wait_for_streams(1).await.unwrap();
    let asking = Exchange::start(&server, "POST /mcp", "", &call(7, "ask")).await;
    standing.until(r#""id":1,"method":"elicitation/create""#).await;
    assert_eq!(post(&server, "", reply).await.unwrap().status, 202);
    let answer = asking.finish().await.unwrap().json();
    assert_eq!(text(&answer), r#"{"result":{"action":"decline"}}"#);
}

#[tokio::test]
async fn standing_streams_can_be_fed_ended_and_refused() {
    let server = start(McpFixture::new(), HttpOptions::default()).await;
    assert_eq!(get(&server, "").await.finish().await.unwrap().status, 400);
    post(&server, "", INITIALIZE).await.unwrap();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    server.push(&changed);
    let (mut first, mut second) = (get(&server, SESSION).await, get(&server, SESSION).await);
    server.wait_for_streams(2).await.unwrap();
    server.push(&changed);
    second.until("list_changed").await;
    first.until("list_changed").await;
    assert_eq!(server.streams(), 2);
    server.end_streams();
    let (first, second) = (first.finish().await.unwrap(), second.finish().await.unwrap());
    assert!([&first, &second].iter().all(|stream| !stream.events().is_empty()));
    assert_eq!(first.events().len() + second.events().len(), 3, "what waited went to one of them");

    let options = HttpOptions { standing_stream: false, delete: false, ..Default::default() };
    let server = start(McpFixture::new(), options).await;
    for request in ["GET /mcp", "DELETE /mcp"] {
        let refused = Exchange::start(&server, request, SESSION, "").await.finish().await.unwrap();
        assert_eq!((refused.status, refused.head.contains("allow: post")), (405, true), "{request}");
    }
}

#[tokio::test]
async fn a_notice_can_make_the_server_talk() {
    let fixture = McpFixture::new().on("notifications/initialized", [Step::request("ping", json!({}))]);
    let server = start(fixture, HttpOptions { sessions: false, ..Default::default() }).await;
    let mut standing = get(&server, "").await;
    assert_eq!(post(&server, "", INITIALIZED).await.unwrap().status, 202);
    standing.until(r#""method":"ping""#).await;
}

#[tokio::test]
async fn each_fault_hits_what_it_is_set_on() {
    let cut = "event: message\ndata: {\"jsonrpc\":";
    for (effect, expected) in [
        (HttpEffect::status(401).header("www-authenticate", "Bearer x"), (401, "", true)),
        (HttpEffect::status(403), (403, "", true)),
        (HttpEffect::status(404), (404, "", true)),
        (HttpEffect::status(429).header("retry-after", "1"), (429, "", true)),
        (HttpEffect::status(500).text("oh"), (500, "oh", true)),
        (HttpEffect::status(503), (503, "", true)),
        (HttpEffect::status(202), (202, "", true)),
        (HttpEffect::redirect("http://other.test/mcp"), (307, "", true)),
        (HttpEffect::body("application/json", "{oops"), (200, "{oops", true)),
        (HttpEffect::body("text/html", "<p>"), (200, "<p>", true)),
        (HttpEffect::empty_stream(), (200, "", true)),
        (HttpEffect::CutStream(cut.to_owned()), (200, cut, false)),
    ] {
        let faults = vec![HttpFault::on("ping", effect.clone())];
        let server = start_with([], HttpOptions { faults, ..Default::default() }).await;
        let hit = post(&server, "", PING).await.unwrap();
        assert_eq!((hit.status, hit.body.as_str(), hit.complete), expected, "{effect:?}");
        if let HttpEffect::Respond { headers, .. } = &effect {
            for (name, value) in headers {
                assert!(hit.head.contains(&format!("{name}: {}", value.to_lowercase())), "{hit:?}");
            }
        }
        let missed = post(&server, "", &rpc(1, "tools/list", json!({}))).await.unwrap();
        assert_eq!(missed.status, 200, "{effect:?}");
    }

    let faults = vec![
        HttpFault::on("ping", HttpEffect::HangUp).after(1).once(),
        HttpFault::on("", HttpEffect::status(500)),
        HttpFault::on_http("GET", HttpEffect::status(501)),
        HttpFault::on_http("DELETE", HttpEffect::status(502)).times(2),
    ];
    let server = start_with([], HttpOptions { faults, ..Default::default() }).await;
    assert!(post(&server, "", PING).await.is_some());
    assert!(post(&server, "", PING).await.is_none());
    assert!(post(&server, "", PING).await.is_some());
    assert_eq!(post(&server, "", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await.unwrap().status, 500);
    assert_eq!(get(&server, "").await.finish().await.unwrap().status, 501);
    for status in [502, 502, 200] {
        let ended = Exchange::start(&server, "DELETE /mcp", "", "").await.finish().await.unwrap();
        assert_eq!(ended.status, status);
    }
    let server = start_with(
        [],
        HttpOptions { faults: vec![HttpFault::always(HttpEffect::status(500))], ..Default::default() },
    )
    .await;
    assert_eq!(get(&server, "").await.finish().await.unwrap().status, 500);
    assert_eq!(post(&server, "", "{oops").await.unwrap().status, 500);
}

#[tokio::test]
async fn answers_can_be_slow() {
    let drip = HttpEffect::Drip { bytes: 16, ms: 1 };
    for effect in [HttpEffect::Delay { ms: 20 }, drip] {
        let faults = vec![HttpFault::on("ping", effect.clone())];
        let server = start_with([], HttpOptions { faults, ..Default::default() }).await;
        let begin = Instant::now();
        let slow = post(&server, "", PING).await.unwrap();
        assert_eq!(slow.json(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}), "{effect:?}");
        assert!(begin.elapsed() >= Duration::from_millis(3), "{effect:?}");
    }
}

#[tokio::test]
async fn an_event_can_be_huge() {
    let tools = [FixtureTool::huge("huge", 5_000_000)];
    let server = start_with(tools, HttpOptions { answers: AnswerMode::Sse, ..Default::default() }).await;
    let events = post(&server, "", &call(1, "huge")).await.unwrap().events();
    assert_eq!(text(&events[0]).len(), 5_000_000);
}

#[tokio::test]
async fn a_script_that_would_end_the_process_cuts_its_connection() {
    let tools = [
        FixtureTool::exits("json", 1),
        FixtureTool::scripted("sse", [Step::Line("1".to_owned()), Step::Exit { code: 1 }]),
        FixtureTool::scripted("close", [Step::Line("1".to_owned()), Step::CloseStdout]),
        FixtureTool::text("text", "alive"),
    ];
    let server = start_with(tools, HttpOptions::default()).await;
    assert!(post(&server, "", &call(1, "json")).await.is_none());
    let cut = post(&server, "", &call(2, "sse")).await.unwrap();
    assert_eq!((cut.body.as_str(), cut.complete), ("event: message\ndata: 1\n\n", false));
    let closed = post(&server, "", &call(3, "close")).await.unwrap();
    assert_eq!((closed.body.as_str(), closed.complete), ("event: message\ndata: 1\n\n", true));
    assert_eq!(text(&post(&server, "", &call(4, "text")).await.unwrap().json()), "alive");
}

#[tokio::test]
async fn sessions_can_be_lost_and_headers_required() {
    let server =
        start(McpFixture::new(), HttpOptions { lose_session_after: Some(1), ..Default::default() }).await;
    post(&server, "", INITIALIZE).await.unwrap();
    for status in [200, 404, 404] {
        assert_eq!(post(&server, SESSION, PING).await.unwrap().status, status);
    }
    post(&server, "", INITIALIZE).await.unwrap();
    let second = "mcp-session-id: session-2\r\n";
    for status in [200, 200, 200] {
        assert_eq!(post(&server, second, PING).await.unwrap().status, status);
    }
    server.forget_sessions();
    assert_eq!(post(&server, second, PING).await.unwrap().status, 404);

    let required_header = Some(("authorization".to_owned(), "Bearer t".to_owned()));
    let server = start_with([], HttpOptions { required_header, ..Default::default() }).await;
    for (headers, status) in
        [("", 401), ("authorization: Bearer x\r\n", 401), ("authorization: Bearer t\r\n", 200)]
    {
        let answer = post(&server, headers, PING).await.unwrap();
        assert_eq!(
            (answer.status, answer.head.contains("www-authenticate")),
            (status, status == 401),
            "{headers}"
        );
    }
}

#[tokio::test]
async fn abandoned_requests_are_noticed_in_every_state() {
    let faults = vec![
        HttpFault::on("silence", HttpEffect::Silence),
        HttpFault::on("silent_stream", HttpEffect::SilentStream),
    ];
    let tools = [FixtureTool::hangs("hangs"), FixtureTool::driven_progress("stream", 1, "g")];
    let server = start_with(tools, HttpOptions { faults, ..Default::default() }).await;
    server.open_gate("g");
    let mut open = Vec::new();
    for (body, shows) in [
        (rpc(1, "silence", json!({})), None),
        (rpc(2, "silent_stream", json!({})), Some("event-stream")),
        (call(3, "hangs"), None),
        (call(4, "stream"), Some("notifications/progress")),
    ] {
        let mut exchange = Exchange::start(&server, "POST /mcp", "", &body).await;
        if let Some(text) = shows {
            exchange.until(text).await;
        }
        open.push(exchange);
    }
    server.wait_for_method("tools/call", 2).await.unwrap();
    let mut standing = get(&server, "").await;
    standing.until("event-stream").await;
    server.wait_for(5).await.unwrap();
    assert_eq!((server.in_flight_peak(), server.connections()), (2, 5));
    assert!(server.requests().iter().all(|request| !request.abandoned));
    drop((open, standing));
    let abandoned = server.wait_for_abandoned(5).await.unwrap();
    assert_eq!(abandoned.len(), 5);
    server.wait_for_silence().await.unwrap();
    assert_eq!(server.streams(), 0);
}

#[tokio::test]
async fn the_older_transport_answers_on_its_one_stream() {
    let options = HttpOptions { legacy_sse: Some("/messages?s=1".to_owned()), ..Default::default() };
    let tools = [FixtureTool::progress("progress", 1, 1), FixtureTool::exits("exit", 1)];
    let server = start(McpFixture::new().tools(tools), options).await;
    assert_eq!(post(&server, "", INITIALIZE).await.unwrap().status, 405);
    let mut stream = get(&server, "").await;
    stream.until("event: endpoint\ndata: /messages?s=1\n\n").await;
    for (body, shows) in [
        (INITIALIZE.to_owned(), r#""protocolVersion":"2025-06-18""#),
        (call(1, "progress"), r#""text":"done""#),
        ("{oops".to_owned(), "-32700"),
    ] {
        let taken = Exchange::start(&server, "POST /messages?s=1", "", &body).await.finish().await.unwrap();
        assert_eq!(taken.status, 202);
        stream.until(shows).await;
    }
    let lost = Exchange::start(&server, "POST /other", "", PING).await.finish().await.unwrap();
    assert_eq!(lost.status, 404);
    Exchange::start(&server, "POST /messages", "", &call(2, "exit")).await.finish().await.unwrap();
    assert!(!stream.finish().await.unwrap().complete);
}

#[tokio::test]
async fn a_stopped_server_leaves_nothing() {
    for stop in [true, false] {
        let server = start_with([FixtureTool::hangs("hangs")], HttpOptions::default()).await;
        let hanging = Exchange::start(&server, "POST /mcp", "", &call(1, "hangs")).await;
        let mut standing = get(&server, "").await;
        standing.until("event-stream").await;
        server.wait_for_method("tools/call", 1).await.unwrap();
        if stop {
            server.stop().await
        } else {
            drop(server)
        }
        assert!(hanging.finish().await.is_none());
        assert!(!standing.finish().await.unwrap().complete);
        // The listener and the connections belong to tasks.
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    }
}

#[tokio::test]
async fn a_modern_fixture_is_discovered_and_has_no_sessions() {
    let fixture =
        McpFixture::new().modern().name("lab").instructions("Ask.").tool(FixtureTool::text("a", "x"));
    let options = HttpOptions { path: "/lab".into(), ..HttpOptions::default() };
    let server = start(fixture, options).await;
    assert!(server.url().ends_with("/lab"));
    let ask = async |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let response = Exchange::start(&server, "POST /lab", "", &body).await.finish().await.unwrap();
        assert_eq!(response.status, 200);
        assert!(!response.head.contains("mcp-session-id"));
        serde_json::from_str::<Value>(&response.body).unwrap()
    };
    let discovered = ask("server/discover", json!({})).await;
    assert_eq!(
        discovered["result"],
        json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "lab", "version": "1.0.0"}},
            "instructions": "Ask.",
        })
    );
    let listed = ask("tools/list", json!({})).await;
    assert_eq!(listed["result"]["resultType"], "complete");
    assert_eq!(listed["result"]["tools"][0]["name"], "a");
    assert_eq!(text(&ask("tools/call", json!({"name": "a"})).await), "x");
    assert_eq!(ask("initialize", json!({})).await["error"]["code"], -32601);
    assert_eq!(post(&server, "", "{}").await.unwrap().status, 404, "its own path is the only one");
}
