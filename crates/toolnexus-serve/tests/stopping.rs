//! How a server ends, and what becomes of whoever is connected.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use support::{begin, call, echo, listens, mcp, post, said, served, soon, tool};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Tool, ToolResult, Toolkit};
use toolnexus_mcp::server::{McpHandlerOptions, mcp_handler};
use toolnexus_serve::ServeOptions;

/// A tool that waits for the gate, and says that it has begun and with which token.
fn gated(gate: &Arc<Semaphore>) -> (Tool, mpsc::UnboundedReceiver<CancellationToken>) {
    let (begun, tokens) = mpsc::unbounded_channel();
    let gate = Arc::clone(gate);
    let tool = tool("gated", move |context| {
        begun.send(context.cancel.clone()).unwrap();
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            ToolResult::success("passed")
        }
    });
    (tool, tokens)
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    soon(stream.read_to_string(&mut text)).await.unwrap();
    text
}

// MCP-159, SERVE-8
#[tokio::test]
async fn an_idle_server_ends_at_once() {
    let server = served([echo()], mcp()).await;
    // One connection that has said nothing, one that waits for its next request.
    let mut silent = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let mut idle = begin(&server, r#"{"id":1,"method":"ping"}"#).await;
    let mut some = [0; 12];
    soon(idle.read_exact(&mut some)).await.unwrap();
    assert_eq!(&some, b"HTTP/1.1 200");

    let began = Instant::now();
    soon(server.stop()).await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(!listens(&server).await);
    assert_eq!(rest(&mut silent).await, "");
    rest(&mut idle).await;
    // Again, and from everywhere.
    let clone = server.clone();
    soon(async { tokio::join!(server.stop(), clone.stop(), clone.close(), server.stopped()) }).await;
}

// MCP-159, SERVE-8: an open request is waited for
#[tokio::test]
async fn requests_in_work_are_finished() {
    let gate = Arc::new(Semaphore::new(0));
    let (tool, mut begun) = gated(&gate);
    let server = served([tool], mcp()).await;
    let mut request = begin(&server, &call("gated", json!({}))).await;
    let token = soon(begun.recv()).await.unwrap();
    let stopping = tokio::spawn({
        let server = server.clone();
        async move { server.stop().await }
    });
    // Nobody comes in any more; the call goes on.
    soon(async {
        while listens(&server).await {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!token.is_cancelled());
    gate.add_permits(1);
    let answer = rest(&mut request).await;
    assert!(answer.contains("passed") && answer.contains("connection: close"), "{answer}");
    soon(stopping).await.unwrap();
}

// MCP-159, SERVE-8: what does not end by itself is cancelled, within five seconds
#[tokio::test]
async fn what_does_not_end_is_cancelled() {
    let gate = Arc::new(Semaphore::new(0));
    let (tool, mut begun) = gated(&gate);
    let server = served([tool], mcp()).await;
    let mut request = begin(&server, &call("gated", json!({}))).await;
    let token = soon(begun.recv()).await.unwrap();
    let began = Instant::now();
    soon(server.stop()).await;
    // The bound is five; the rest is for a busy machine.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(token.is_cancelled());
    let answer = rest(&mut request).await;
    assert!(
        answer.contains(r#"{"code":-32603,"message":"Internal error: the call was cancelled"}"#),
        "{answer}"
    );
    // Nothing of the tool is left: it held its gate.
    assert_eq!(Arc::strong_count(&gate), 1);
}

// MCP-159, SERVE-8: without its owner there is no server
#[tokio::test]
async fn the_last_handle_takes_the_server_with_it() {
    let gate = Arc::new(Semaphore::new(0));
    let (tool, mut begun) = gated(&gate);
    let server = served([tool], mcp()).await;
    let clone = server.clone();
    let mut request = begin(&server, &call("gated", json!({}))).await;
    let token = soon(begun.recv()).await.unwrap();
    drop(server);
    assert!(listens(&clone).await && !token.is_cancelled());
    let (port, began) = (clone.port, Instant::now());
    drop(clone);
    soon(token.cancelled()).await;
    rest(&mut request).await;
    soon(async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

// SERVE-8
#[tokio::test]
async fn a_detached_server_lives_on() {
    let server = served([echo()], mcp()).await;
    server.detach();
    let port = server.port;
    drop(server);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 404"));
}

// MCP-152, MCP-159, SERVE-69: the caller goes away
#[tokio::test]
async fn a_client_that_hangs_up_cancels_its_call_alone() {
    let gate = Arc::new(Semaphore::new(0));
    let (tool, mut begun) = gated(&gate);
    let server = served([tool, echo()], mcp()).await;
    let first = begin(&server, &call("gated", json!({}))).await;
    let gone = soon(begun.recv()).await.unwrap();
    let mut second = begin(&server, &call("gated", json!({}))).await;
    let stays = soon(begun.recv()).await.unwrap();
    drop(first);
    soon(gone.cancelled()).await;
    assert!(!stays.is_cancelled());
    // A slow tool delays nobody.
    let reply = post(&server, &[], &call("echo", json!({"text": "hi"}))).await;
    assert_eq!(reply.json(), said("hi"));
    gate.add_permits(1);
    let mut some = [0; 12];
    soon(second.read_exact(&mut some)).await.unwrap();
    assert_eq!(&some, b"HTTP/1.1 200");
}

// MCP-188, MCP-152: the same while its answer is an event stream
#[tokio::test]
async fn a_client_that_leaves_its_event_stream_cancels_the_call() {
    let (begun, mut tokens) = mpsc::unbounded_channel();
    let reports = tool("reports", move |context| {
        context.progress(1.0, None, None);
        begun.send(context.cancel.clone()).unwrap();
        std::future::pending()
    });
    let server = served([reports], mcp()).await;
    let body = r#"{"id":1,"method":"tools/call","params":{"name":"reports","_meta":{"progressToken":1}}}"#;
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nhost: x\r\naccept: text/event-stream, application/json";
    stream
        .write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes())
        .await
        .unwrap();
    let token = soon(tokens.recv()).await.unwrap();
    let mut heard = String::new();
    while !heard.contains("notifications/progress") {
        let mut chunk = [0; 256];
        let length = soon(stream.read(&mut chunk)).await.unwrap();
        assert_ne!(length, 0, "{heard}");
        heard.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
    }
    assert!(heard.contains("content-type: text/event-stream"), "{heard}");
    assert!(!token.is_cancelled());
    drop(stream);
    soon(token.cancelled()).await;
}

// MCP-153, SERVE-7: a panic costs one call
#[tokio::test]
async fn the_server_outlives_its_tools() {
    let panics = tool("panics", |_| async {
        assert!(std::env::vars().count() == usize::MAX, "out of beans");
        ToolResult::default()
    });
    let options = ServeOptions { on_call: Some(Arc::new(|_| panic!("the host is broken"))), ..mcp() };
    let server = served([panics, echo()], options).await;
    let failed = post(&server, &[], &call("panics", json!({}))).await;
    assert_eq!((failed.status, &failed.json()["result"]["isError"]), (200, &json!(true)));
    assert_eq!(post(&server, &[], &call("echo", json!({"text": "hi"}))).await.json(), said("hi"));
}

/// A tool that blocks its thread until the sender is gone, and says that it has begun.
fn blocking() -> (Tool, mpsc::UnboundedReceiver<()>, std::sync::mpsc::Sender<()>) {
    let (begun, has_begun) = mpsc::unbounded_channel();
    let (hold, held) = std::sync::mpsc::channel();
    let held = Arc::new(std::sync::Mutex::new(held));
    let tool = tool("blocks", move |_| {
        let (begun, held) = (begun.clone(), Arc::clone(&held));
        async move {
            begun.send(()).unwrap();
            let _ = held.lock().unwrap().recv();
            ToolResult::default()
        }
    });
    (tool, has_begun, hold)
}

// MCP-159, SERVE-8: nor does a tool that cannot be ended hold up the end
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_tool_that_blocks_its_thread_is_left_behind() {
    let in_time = Duration::from_secs(20);
    let (tool, mut begun, hold) = blocking();
    let server = served([tool], mcp()).await;
    let _request = begin(&server, &call("blocks", json!({}))).await;
    soon(begun.recv()).await.unwrap();
    tokio::time::timeout(in_time, server.stop()).await.expect("the server has ended");
    assert!(!listens(&server).await);
    drop(hold);

    let (tool, mut begun, hold) = blocking();
    let toolkit = Toolkit::from_tools([tool]);
    let options = McpHandlerOptions { stateless: true, ..Default::default() };
    let handler = mcp_handler(&toolkit, options).unwrap();
    let options = ServeOptions { mcp_handler: Some(handler), ..Default::default() };
    let server = toolkit.serve("127.0.0.1:0", options).await.unwrap();
    let body = call("blocks", json!({}));
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length";
    stream.write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    soon(begun.recv()).await.unwrap();
    tokio::time::timeout(in_time, server.stop()).await.expect("the server has ended");
    drop(hold);
}

// MCP-179: a handler is closed also when its server is only dropped
#[tokio::test]
async fn a_handler_ends_with_the_handle_of_its_server() {
    let toolkit = Toolkit::from_tools([echo()]);
    let handler = mcp_handler(&toolkit, McpHandlerOptions::default()).unwrap();
    let options = ServeOptions { mcp_handler: Some(handler.clone()), ..Default::default() };
    let server = toolkit.serve("0", options).await.unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    assert_eq!(post(&server, &[], hello).await.status, 200);
    assert_eq!(handler.session_count(), 1);
    drop(server);
    soon(async {
        while handler.session_count() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

// MCP-179: the streams of a handler end with the server
#[tokio::test]
async fn a_handlers_streams_do_not_hold_up_the_end() {
    let toolkit = Toolkit::from_tools([echo()]);
    let handler = mcp_handler(&toolkit, McpHandlerOptions::default()).unwrap();
    let options = ServeOptions { mcp_handler: Some(handler), ..Default::default() };
    let server = toolkit.serve("0", options).await.unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let both = [("accept", "application/json, text/event-stream")];
    let reply = post(&server, &both, hello).await;
    let session = reply.header("mcp-session-id").unwrap().to_owned();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let get = format!(
        "GET /mcp HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n"
    );
    stream.write_all(get.as_bytes()).await.unwrap();
    let mut some = [0; 12];
    soon(stream.read_exact(&mut some)).await.unwrap();
    assert_eq!(&some, b"HTTP/1.1 200");
    let began = Instant::now();
    soon(server.stop()).await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    rest(&mut stream).await;
}
