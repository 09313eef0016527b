//! Servers that mean no good: what they can make this client do, show and keep is bounded.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use support::{gone, noted, output, servers, stdio, tool, with};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use toolnexus_core::ToolContext;
use toolnexus_mcp::transport::{Permit, SpecSource};
use toolnexus_mcp::{LoadMcpOptions, McpState, McpStatus, load_mcp, load_mcp_with};
use toolnexus_testkit::mcp::{FixtureTool, HttpOptions, McpFixture, McpHttpFixture, Reply, Step};
use toolnexus_testkit::tracing_listener::listen_on_this_thread;
use tracing_subscriber::layer::SubscriberExt as _;

/// A server that says what it likes: the raw response to each request's method and message.
async fn raw(respond: impl Fn(&str, &Value) -> String + Send + Sync + 'static) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let respond = Arc::new(respond);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let respond = Arc::clone(&respond);
            tokio::spawn(async move {
                let mut request = Vec::new();
                let body = loop {
                    if socket.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        return;
                    }
                    let text = String::from_utf8_lossy(&request);
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.lines().find_map(|line| {
                        let (name, value) = line.split_once(':')?;
                        name.eq_ignore_ascii_case("content-length")
                            .then(|| value.trim().parse::<usize>())?
                            .ok()
                    });
                    if body.len() >= length.unwrap_or(0) {
                        break serde_json::from_str(body).unwrap_or(Value::Null);
                    }
                };
                let text = String::from_utf8_lossy(&request).into_owned();
                let method = text.split(' ').next().unwrap_or_default();
                let _ = socket.write_all(respond(method, &body).as_bytes()).await;
                let _ = socket.shutdown().await;
            });
        }
    });
    url
}

fn http(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

fn answer(message: &Value, result: Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    http("200 OK", "content-type: application/json\r\nmcp-session-id: s\r\n", &body)
}

/// What a well-behaved server says to everything but what is tried.
fn ordinary(message: &Value) -> String {
    match message["method"].as_str() {
        Some("initialize") => answer(
            message,
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "raw", "version": "1"}}),
        ),
        Some("tools/list") => answer(message, json!({"tools": [{"name": "say"}]})),
        Some("tools/call") => answer(message, json!({"content": [{"type": "text", "text": "said"}]})),
        _ => http("202 Accepted", "", ""),
    }
}

// MCP-185: a standing stream that breaks or ends at once is not asked for without a pause, whatever the
// server says of pauses
#[tokio::test]
async fn a_broken_stream_is_not_resumed_in_a_hurry() {
    let broken = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\
                  content-length: 99\r\n\r\n: cut\n\n";
    let hurried = http("200 OK", "content-type: text/event-stream\r\n", "id: 1\nretry: 0\ndata:\n\n");
    for stream in [broken.to_owned(), hurried] {
        let asked = Arc::new(AtomicUsize::new(0));
        let (count, response) = (Arc::clone(&asked), stream.clone());
        let url = raw(move |method, message| {
            if method != "GET" {
                return ordinary(message);
            }
            count.fetch_add(1, Ordering::Relaxed);
            response.clone()
        })
        .await;
        let began = Instant::now();
        let source = load_mcp(&servers(json!({"x": {"url": url, "era": "legacy"}}))).await;
        assert_eq!(source.status["x"], McpStatus::Connected, "{source:?}");
        for _ in 0..300 {
            assert_eq!(output(&source, "x_say").await, "said");
        }
        let asked = asked.load(Ordering::Relaxed);
        let at_most = 2 + began.elapsed().as_millis() / 100;
        assert!((1..=at_most).contains(&(asked as u128)), "{asked} times for {stream:?}, not {at_most}");
        source.close().await;
    }
}

// MCP-72: what is announced right behind the first list is not missed; MCP-77: and a look at the list that
// takes its time keeps nobody alive
#[tokio::test]
async fn a_dropped_source_ends_a_look_at_its_tools() {
    let fixture = McpFixture::new()
        .on(
            "tools/list",
            [
                Step::result(json!({"tools": [{"name": "a"}]})),
                Step::notify("notifications/tools/list_changed", json!({})),
            ],
        )
        .on("tools/list", []);
    let (fixture, ledger, _folder) = noted(fixture);
    let options = LoadMcpOptions { live_tool_list: true, ..Default::default() };
    let source = load_mcp_with(&servers(json!({"x": stdio(&fixture, json!({}))})), options).await;
    let (pid, _) = ledger.started().await.unwrap();
    ledger.wait_for("tools/list", 2).await.unwrap();
    drop(source);
    gone(pid).await;
}

// MCP-72: a server that announces other tools whenever it is asked for them is asked with pauses
#[tokio::test]
async fn a_list_that_always_changes_is_looked_at_with_pauses() {
    let changes = [
        Step::notify("notifications/tools/list_changed", json!({})),
        Step::result(json!({"tools": [{"name": "a"}]})),
    ];
    let fixture = McpFixture::new().tool(FixtureTool::text("a", "a")).on("tools/list", changes);
    let (fixture, ledger, _folder) = noted(fixture);
    let options = LoadMcpOptions { live_tool_list: true, ..Default::default() };
    let began = Instant::now();
    let source = load_mcp_with(&servers(json!({"x": stdio(&fixture, json!({}))})), options).await;
    ledger.wait_for("tools/list", 4).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    source.close().await;
}

// MCP-69, MCP-74: closed while it restarts, a server is stopped
#[tokio::test]
async fn a_close_during_a_restart_stops_the_server() {
    let fixture = McpFixture::new().on("initialize", [Step::Answer(Reply::Standard)]).on("initialize", []);
    let source = load_mcp(&servers(json!({"x": stdio(&fixture, json!({}))}))).await;
    let other = source.clone();
    let restarting = tokio::spawn(async move { other.restart("x").await });
    while source.state("x") != Some(McpState::Starting) {
        tokio::task::yield_now().await;
    }
    source.close().await;
    assert!(restarting.await.unwrap().is_err());
    assert_eq!(source.state("x"), Some(McpState::Stopped));
}

// MCP-73, MCP-88: a call waits for its server to start no longer than it may take
#[tokio::test]
async fn a_call_does_not_wait_for_a_start_without_end() {
    let asked = Arc::new(AtomicUsize::new(0));
    let permit = Permit::new(move |_| {
        let first = asked.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if !first {
                std::future::pending::<()>().await;
            }
            Ok::<(), ()>(())
        }
    });
    let options =
        LoadMcpOptions { source: SpecSource::Workspace, permit: Some(permit), ..Default::default() };
    let fixture = McpFixture::new().tool(FixtureTool::text("hi", "hi"));
    let source = load_mcp_with(&servers(json!({"x": stdio(&fixture, json!({"lazy": true}))})), options).await;
    let context = ToolContext { timeout_ms: Some(100), ..Default::default() };
    let calling = tool(&source, "x_hi").execute_with(json!({}), context);
    let result = tokio::time::timeout(Duration::from_secs(5), calling).await.unwrap();
    assert_eq!(result.output, "mcp server \"x\" failed at tools/call: timeout");
    source.close().await;
}

// MCP-92, MCP-132: twenty thousand questions whose answers nobody reads leave room for calls, and what is
// asked after them is answered (how many are kept: `open`)
#[tokio::test]
async fn a_flood_of_questions_leaves_room_for_calls() {
    const SCRIPT: &str = r#"
read -r a; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}'
read -r a; read -r a; echo '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t"}]}}'
read -r a; i=0
while [ $i -lt 20000 ]; do i=$((i+1)); echo '{"jsonrpc":"2.0","id":"q'$i'","method":"roots/list"}'; done
echo '{"jsonrpc":"2.0","id":2,"result":{"content":[]}}'
n=0
while read -r a; do case $a in *'"tools/call"'*) break ;; *) n=$((n+1)) ;; esac; done
echo '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"'$n'"}]}}'
echo '{"jsonrpc":"2.0","id":"last","method":"roots/list"}'
last=; call=
while [ -z "$last" ] || [ -z "$call" ]; do
  read -r a || exit
  case $a in *'"last"'*) last=1 ;; *'"tools/call"'*) call=1 ;; esac
done
echo '{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"answered"}]}}'
read -r a
"#;
    let source = load_mcp(&servers(json!({"x": {"command": ["sh", "-c", SCRIPT]}}))).await;
    assert_eq!(source.status["x"], McpStatus::Connected, "{source:?}");
    assert_eq!(output(&source, "x_t").await, "");
    let answered: usize = output(&source, "x_t").await.parse().unwrap();
    assert!(answered > 0);
    assert_eq!(output(&source, "x_t").await, "answered");
    source.close().await;
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        struct Text<'a>(&'a mut String, &'static str);
        impl tracing::field::Visit for Text<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                use std::fmt::Write as _;
                let _ = writeln!(self.0, "{} {field}={value:?}", self.1);
            }
        }
        event.record(&mut Text(&mut self.0.lock().unwrap(), event.metadata().target()));
    }
}

// MCP-16, MCP-22, MCP-48: at whatever level is logged
#[tokio::test]
async fn no_log_level_shows_a_secret() {
    let log = Log::default();
    let _listening = listen_on_this_thread(tracing_subscriber::registry().with(log.clone()));
    let url = raw(|method, message| match message["method"].as_str() {
        Some("tools/list") if message["params"]["cursor"].is_null() => {
            http("307 Temporary Redirect", "location: /mcp?api_key=key-2\r\n", "")
        }
        _ if method == "GET" => http("405 Method Not Allowed", "", ""),
        _ => ordinary(message),
    })
    .await;
    let url = url.replace("http://", "http://user-1:pass-1@") + "?api_key=key-1";
    let fixture = McpFixture::new().tool(FixtureTool::text("hi", "hi"));
    let value = std::env::var("PATH").unwrap();
    let local = stdio(&fixture, json!({"environment": {"SECRET": "env-1"}}));
    let config = servers(json!({
        "remote": {"url": url, "headers": {"Authorization": "Bearer head-1", "x-key": "${PATH}"}},
        "local": local,
        "gone": {"command": ["no-such-program", "--token=arg-1"]},
        "dead": {"url": "http://user-1:pass-1@127.0.0.1:1/mcp?api_key=key-1", "headers": {"a": "head-1"}},
    }));
    let source = load_mcp(&config).await;
    for tool in &source.tools {
        tool.execute(json!({})).await;
    }
    let mut shown = format!("{config:?} {source:?} {:?} {:?}", source.connections, source.tools);
    source.close().await;
    shown += &log.0.lock().unwrap();
    for secret in ["user-1", "pass-1", "key-1", "key-2", "env-1", "head-1", "arg-1", &value] {
        let lines: Vec<&str> = shown.lines().filter(|line| line.contains(secret)).take(5).collect();
        assert!(lines.is_empty(), "{secret} in {lines:#?}");
    }
}

// MCP-72: a list of twenty thousand tools is compared in one go, not each tool with each
#[tokio::test]
async fn a_long_list_is_compared_in_one_go() {
    let looks = AtomicUsize::new(0);
    let url = raw(move |_, message| {
        if message["method"] != "tools/list" {
            return ordinary(message);
        }
        let from = looks.fetch_add(1, Ordering::Relaxed);
        let tools: Vec<Value> = (from..from + 20_000).map(|n| json!({"name": format!("t{n}")})).collect();
        answer(message, json!({ "tools": tools }))
    })
    .await;
    let began = Instant::now();
    let source = load_mcp(&servers(json!({"x": {"url": url, "era": "legacy"}}))).await;
    let loading = began.elapsed();
    assert_eq!(source.tools.len(), 20_000, "{source:?}");
    let began = Instant::now();
    source.refresh("x").await.unwrap();
    assert!(began.elapsed() < loading * 4 + Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(source.current_tools().len(), 20_000);
    source.close().await;
}

// MCP-92, MCP-134, MCP-135, MCP-136: a thousand calls at once over exchanges, eight of them under way
#[tokio::test]
async fn a_thousand_calls_over_http() {
    let fixture = McpFixture::new().tool(FixtureTool::echo("say"));
    let options = HttpOptions { sessions: false, ..Default::default() };
    let http = McpHttpFixture::start(fixture, options).await.unwrap();
    let entry = with(http.server_json(), json!({"era": "legacy", "poolSize": 8, "queueLimit": 1000}));
    let source = load_mcp(&servers(json!({ "x": entry }))).await;
    let say = tool(&source, "x_say");
    let results = join_all((0..1000).map(|n| say.execute(json!({ "n": n })))).await;
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result.output, format!("{{\"n\":{n}}}"));
    }
    assert!(http.in_flight_peak() <= 8, "{}", http.in_flight_peak());
    source.close().await;
    http.wait_for_silence().await.unwrap();
}

// MCP-73, MCP-70: a hundred callers at once start a sleeping server once
#[tokio::test]
async fn a_hundred_callers_start_a_server_once() {
    let (fixture, ledger, _folder) = noted(McpFixture::new().tool(FixtureTool::text("hi", "hi")));
    let source = load_mcp(&servers(json!({"x": stdio(&fixture, json!({"lazy": true}))}))).await;
    let hi = tool(&source, "x_hi");
    let results = join_all((0..100).map(|_| hi.execute(json!({})))).await;
    assert!(results.iter().all(|result| result.output == "hi"), "{results:?}");
    let started = ledger.messages().unwrap();
    assert_eq!(started.iter().filter(|message| message["method"] == "initialize").count(), 2);
    source.close().await;
}
