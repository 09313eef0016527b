//! Servers that go wrong in every way: each costs itself and nothing else, and leaves nothing behind.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use futures::future::join_all;
use serde_json::{Value, json};
use support::alone::{alone, no_tasks, settled};
use support::{gone, noted, output, output_within, servers, stdio, tool};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use toolnexus_mcp::{LoadMcpOptions, McpSource, McpStatus, load_mcp, load_mcp_with};
use toolnexus_testkit::mcp::{
    FixtureTool, HttpEffect, HttpFault, HttpOptions, McpFixture, McpHttpFixture, Paging, ProcessFaults,
    Reply, StderrSpam, Step,
};

fn good() -> McpFixture {
    McpFixture::new().tool(FixtureTool::text("hi", "hi"))
}

/// Loads `bad` beside a good server, which must not notice; gives the source and why `bad` failed.
async fn beside_a_good_one(bad: Value) -> (McpSource, Option<String>) {
    let config = servers(json!({"bad": bad, "good": stdio(&good(), json!({}))}));
    let source = load_mcp(&config).await;
    assert_eq!(source.status["good"], McpStatus::Connected, "{source:?}");
    assert_eq!(output(&source, "good_hi").await, "hi");
    let error = source.errors.get("bad").cloned();
    (source, error)
}

/// What kills a stdio server, and how that reads.
fn deaths() -> [(Step, &'static str); 4] {
    [
        (Step::Kill, "peer-exited (signal 9)"),
        (Step::Abort, "peer-exited (signal 6)"),
        (Step::Exit { code: 3 }, "peer-exited (status 3)"),
        (Step::CloseStdout, "peer-eof (stdout closed, exit status unknown)"),
    ]
}

// MCP-40, MCP-44, MCP-75: killed in each phase of a load
#[tokio::test]
async fn a_server_that_dies_while_it_is_loaded() {
    for (method, phase) in [("initialize", "initialize"), ("tools/list", "tools/list")] {
        for (death, reads) in deaths() {
            let (fixture, ledger, _folder) = noted(good().on(method, [death]));
            let (source, error) = beside_a_good_one(stdio(&fixture, json!({}))).await;
            let error = error.unwrap();
            assert_eq!(error, format!("mcp server \"bad\" failed at {phase}: {reads}"));
            gone(ledger.started().await.unwrap().0).await;
            source.close().await;
        }
    }
}

// MCP-40, MCP-129: killed before it says anything, and between the pages of its list
#[tokio::test]
async fn a_server_that_dies_at_once_or_between_pages() {
    let (source, error) = beside_a_good_one(json!({"command": ["sh", "-c", "kill -9 $$"]})).await;
    assert_eq!(error.unwrap(), "mcp server \"bad\" failed at initialize: peer-exited (signal 9)");
    source.close().await;

    let two_pages = good().tool(FixtureTool::text("ho", "ho")).page_size(1);
    let fixture = two_pages.on("tools/list", [Step::Answer(Reply::Standard)]).on("tools/list", [Step::Kill]);
    let (source, error) = beside_a_good_one(stdio(&fixture, json!({}))).await;
    assert_eq!(error.unwrap(), "mcp server \"bad\" failed at tools/list: peer-exited (signal 9)");
    source.close().await;
}

// MCP-129, MCP-92: killed in a call, every call of that server ends, none of another
#[tokio::test]
async fn a_server_that_dies_in_a_call() {
    for (death, reads) in deaths() {
        let fixture = good()
            .tool(FixtureTool::scripted("stuck", [Step::OpenGate("stuck".into())]))
            .tool(FixtureTool::scripted("die", [Step::AwaitGate("stuck".into()), death]));
        let (source, error) = beside_a_good_one(stdio(&fixture, json!({}))).await;
        assert_eq!(error, None);
        let (stuck, dying, other) = tokio::join!(
            output(&source, "bad_stuck"),
            output(&source, "bad_die"),
            output(&source, "good_hi")
        );
        let expected = format!("mcp server \"bad\" failed at tools/call: {reads}");
        assert_eq!(
            (stuck.as_str(), dying.as_str(), other.as_str()),
            (expected.as_str(), expected.as_str(), "hi")
        );
        assert_eq!(output(&source, "bad_hi").await, expected, "and later ones with the same reason");
        source.close().await;
    }
}

// MCP-38, MCP-59: a server that accepts and never answers, at each phase over each wire
#[tokio::test]
async fn a_server_that_never_answers() {
    for (method, phase) in [("initialize", "initialize"), ("tools/list", "tools/list")] {
        let silent = good().on(method, []);
        let limit = json!({"timeout": 300});
        let (source, error) = beside_a_good_one(stdio(&silent, limit.clone())).await;
        assert_eq!(error.unwrap(), format!("mcp server \"bad\" failed at {phase}: timeout"), "stdio");
        source.close().await;

        let http = McpHttpFixture::start(silent, HttpOptions::default()).await.unwrap();
        let entry = support::with(http.server_json(), json!({"timeout": 300, "era": "legacy"}));
        let (source, error) = beside_a_good_one(entry).await;
        assert_eq!(error.unwrap(), format!("mcp server \"bad\" failed at {phase}: timeout"), "http");
        source.close().await;
        http.stop().await;
    }
    let silent = good().tool(FixtureTool::hangs("stuck"));
    let http = McpHttpFixture::start(silent.clone(), HttpOptions::default()).await.unwrap();
    for entry in [stdio(&silent, json!({})), http.server_json()] {
        let (source, _) = beside_a_good_one(entry).await;
        assert_eq!(
            output_within(&source, "bad_stuck", 100).await,
            "mcp server \"bad\" failed at tools/call: timeout"
        );
        assert_eq!(output(&source, "bad_hi").await, "hi", "and the connection lives");
        source.close().await;
    }
    http.stop().await;
}

// MCP-38: a socket that takes everything and gives nothing, or stops in the middle of an answer
#[tokio::test]
async fn a_socket_that_never_answers() {
    for beginning in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{\"jsonrpc\"",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"jsonrpc\"",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n",
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let _ = socket.read(&mut request).await;
                let _ = socket.write_all(beginning.as_bytes()).await;
                held.push(socket);
            }
        });
        let entry = json!({"url": url, "timeout": 300, "era": "legacy"});
        let (source, error) = beside_a_good_one(entry).await;
        assert_eq!(error.unwrap(), "mcp server \"bad\" failed at initialize: timeout", "{beginning:?}");
        source.close().await;
        serving.abort();
    }
}

// MCP-55: it does not matter how the bytes arrive
#[tokio::test]
async fn bytes_one_at_a_time() {
    let slow = |text: Value| -> Vec<Step> {
        format!("{text}\n").into_bytes().into_iter().map(|byte| Step::Bytes(vec![byte])).collect()
    };
    let info = json!({"name": "é", "version": "1"});
    let fixture = McpFixture::new()
        .on(
            "initialize",
            slow(json!({"jsonrpc": "2.0", "id": 0, "result":
            {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}})),
        )
        .on("tools/list", slow(json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "täst"}]}})))
        .on(
            "tools/call",
            slow(
                json!({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "grün"}]}}),
            ),
        );
    let (source, error) = beside_a_good_one(stdio(&fixture, json!({}))).await;
    assert_eq!(error, None);
    assert_eq!(output(&source, "bad_t_st").await, "grün");
    assert_eq!(source.connection("bad").unwrap().server_info().unwrap().name, "é");
    source.close().await;
}

// MCP-130: answers that come twice, to nobody, and after a cancel
#[tokio::test]
async fn answers_that_nobody_waits_for() {
    let stray =
        |id: Value| Step::Line(json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}).to_string());
    let twice = [
        stray(json!(4711)),
        stray(json!("x")),
        stray(Value::Null),
        stray(json!(-1)),
        stray(json!(1.5)),
        Step::text("first"),
        Step::text("second"),
        Step::Line(json!({"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "no"}}).to_string()),
    ];
    let late = [Step::AwaitCancel, Step::text("too late"), Step::text("still too late")];
    let fixture =
        good().tool(FixtureTool::scripted("twice", twice)).tool(FixtureTool::scripted("late", late));
    let (source, _) = beside_a_good_one(stdio(&fixture, json!({}))).await;
    for _ in 0..3 {
        assert_eq!(output(&source, "bad_twice").await, "first");
        assert_eq!(
            output_within(&source, "bad_late", 20).await,
            "mcp server \"bad\" failed at tools/call: timeout"
        );
        assert_eq!(output(&source, "bad_hi").await, "hi");
    }
    source.close().await;
}

// MCP-49, MCP-52, MCP-92: a flood on stderr beside calls, and a list without an end
#[tokio::test]
async fn floods() {
    let noise =
        ProcessFaults { stderr_spam: Some(StderrSpam { lines: None, bytes: 4000 }), ..Default::default() };
    let (source, _) = beside_a_good_one(stdio(&good().faults(noise), json!({}))).await;
    let calls = join_all((0..50).map(|_| output(&source, "bad_hi"))).await;
    assert!(calls.iter().all(|text| text == "hi"), "{calls:?}");
    let kept: usize = source.connection("bad").unwrap().stderr().iter().map(String::len).sum();
    assert!(kept <= 128 * 1024, "{kept} bytes kept");
    source.close().await;

    let (source, error) = beside_a_good_one(stdio(&good().paging(Paging::Endless), json!({}))).await;
    assert_eq!(
        error.unwrap(),
        "mcp server \"bad\" failed at tools/list: malformed-body (MCP list exceeded 1000 pages)"
    );
    source.close().await;
}

// MCP-92, MCP-135: 1,000 calls at once over one pipe
#[tokio::test]
async fn a_thousand_calls_on_one_child() {
    let fixture = McpFixture::new().tool(FixtureTool::echo("say"));
    let (source, _) = beside_a_good_one(stdio(&fixture, json!({}))).await;
    let say = tool(&source, "bad_say");
    let results = join_all((0..1000).map(|n| say.execute(json!({"n": n})))).await;
    for (n, result) in results.iter().enumerate() {
        assert_eq!((result.output.as_str(), result.is_error), (format!("{{\"n\":{n}}}").as_str(), false));
    }
    source.close().await;
}

// MCP-39, MCP-40, MCP-43, MCP-58, MCP-75: 200 servers at once, 20 of them bad in ten ways; after the
// close no process, no task and no descriptor is left
#[test]
fn two_hundred_servers_at_once() {
    if !alone("two_hundred_servers_at_once") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let refusing = McpHttpFixture::start(
            good(),
            HttpOptions { faults: vec![HttpFault::always(HttpEffect::status(503))], ..Default::default() },
        )
        .await
        .unwrap();
        // What the runtime and the first exchange keep is there before it is counted.
        load_mcp(&servers(json!({"warm": refusing.server_json()}))).await;
        let before = settled(0).await;

        let bad = |n: usize| match n {
            0 => json!({"command": ["no-such-program"]}),
            1 => json!({"command": ["sh", "-c", "exit 3"]}),
            2 => json!({"command": ["sh", "-c", "echo nonsense; cat > /dev/null"], "timeout": 1000}),
            3 => json!({"command": ["sleep", "600"], "timeout": 1000}),
            4 => json!({"description": "neither"}),
            5 => json!({"url": "http://127.0.0.1:1/mcp"}),
            6 => refusing.server_json(),
            7 => stdio(&good().on("tools/list", [Step::Kill]), json!({})),
            8 => stdio(&good().on("initialize", [Step::error(-32603, "no")]), json!({})),
            _ => stdio(&good().paging(Paging::DuplicateCursor), json!({})),
        };
        let mut entries = serde_json::Map::new();
        for n in 0..200 {
            let (name, entry) = if n % 10 == 0 {
                (format!("bad{n:03}"), bad(n / 10 % 10))
            } else {
                // Starting 180 processes at once takes a busy machine a while.
                (format!("good{n:03}"), stdio(&good(), json!({"timeout": 120_000})))
            };
            entries.insert(name, entry);
        }
        let told = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = std::sync::Arc::clone(&told);
        let opts = LoadMcpOptions {
            on_server: Some(std::sync::Arc::new(move |_| {
                counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            })),
            ..Default::default()
        };
        let source = load_mcp_with(&servers(Value::Object(entries)), opts).await;
        assert_eq!(told.load(std::sync::atomic::Ordering::Relaxed), 200);
        assert_eq!((source.status.len(), source.errors.len(), source.connected_count()), (200, 20, 180));
        assert!(source.errors.keys().all(|name| name.starts_with("bad")), "{:?}", source.errors);
        let answers = join_all(source.tools.iter().map(|tool| tool.execute(json!({})))).await;
        assert_eq!(answers.len(), 180);
        assert!(answers.iter().all(|answer| answer.output == "hi"), "{answers:?}");

        source.close().await;
        drop(source);
        refusing.stop().await;
        let after = settled(before).await;
        assert!(after <= before, "{before} descriptors before, {after} after");
        no_tasks().await;
    });
}

// MCP-77, MCP-90: everything is dropped in the middle of a call
#[test]
fn dropping_everything_in_a_call_leaves_nothing() {
    if !alone("dropping_everything_in_a_call_leaves_nothing") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = McpFixture::new().tool(FixtureTool::hangs("stuck"));
        let http = McpHttpFixture::start(fixture.clone(), HttpOptions::default()).await.unwrap();
        let warm = load_mcp(&servers(json!({"warm": http.server_json()}))).await;
        warm.close().await;
        drop(warm);
        let (noted, ledger, _folder) = noted(fixture);
        let before = settled(0).await;

        let source =
            load_mcp(&servers(json!({"child": stdio(&noted, json!({})), "http": http.server_json()}))).await;
        let calls: Vec<_> = source
            .tools
            .iter()
            .map(|tool| {
                let tool = tool.clone();
                tokio::spawn(async move { tool.execute(json!({})).await })
            })
            .collect();
        ledger.wait_for("tools/call", 1).await.unwrap();
        http.wait_for_method("tools/call", 1).await.unwrap();
        drop(source);
        for call in &calls {
            call.abort();
        }
        for call in calls {
            assert!(call.await.is_err());
        }
        gone(ledger.started().await.unwrap().0).await;
        http.wait_for_silence().await.unwrap();
        http.stop().await;
        let after = settled(before).await;
        assert!(after <= before, "{before} descriptors before, {after} after");
        no_tasks().await;
    });
}
