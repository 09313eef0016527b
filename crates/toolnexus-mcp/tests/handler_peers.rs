//! The handler and this crate's own client, over a real socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod handler_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handler_support::{echo, soon, tool, until};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{
    ContentPart, Identity, LogLevel, Tool, ToolContext, ToolReport, ToolResult, Toolkit, define_tool,
    report_channel,
};
use toolnexus_mcp::server::{McpHandler, McpHandlerOptions, mcp_close_stream, mcp_handler, mcp_identity};
use toolnexus_mcp::{McpConfigInput, McpSource, load_mcp, parse_mcp_config};

/// A handler on a socket of its own, until it is dropped.
struct Served {
    handler: McpHandler,
    url: String,
    _stop: tokio_util::sync::DropGuard,
}

async fn serve(tools: Vec<Tool>, options: McpHandlerOptions) -> Served {
    let handler = mcp_handler(&Toolkit::from_tools(tools), options).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/deep/mcp", listener.local_addr().unwrap());
    let app = axum::Router::new().route_service("/deep/mcp", handler.clone());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = stopped.cancelled() => {}
            served = async { axum::serve(listener, app).await } => served.unwrap(),
        }
    });
    Served { handler, url, _stop: stop.drop_guard() }
}

/// Loads the handler as a server named `peer`.
async fn load(served: &Served, more: Value) -> McpSource {
    let mut entry = json!({"url": served.url, "timeout": 20_000});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let config = parse_mcp_config(&McpConfigInput::Value(json!({"mcpServers": {"peer": entry}}))).unwrap();
    let source = soon(load_mcp(&config)).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

fn of<'a>(source: &'a McpSource, name: &str) -> &'a Tool {
    source.tools.iter().find(|tool| tool.name == name).unwrap()
}

fn versions(versions: &[&str]) -> McpHandlerOptions {
    let protocol_versions = versions.iter().map(|version| (*version).to_owned()).collect();
    McpHandlerOptions { protocol_versions, ..Default::default() }
}

// MCP-161, MCP-172, MCP-175: what is served is what this crate's client gets, at each revision
#[tokio::test]
async fn the_own_client_gets_what_is_served() {
    let tools = || {
        vec![
            echo(),
            define_tool("calc.sum", "Adds", None, |_, _| async { ToolResult::structured(json!({"sum": 3})) }),
            define_tool("picture", "", None, |_, _| async {
                ToolResult::success("see").with_parts(vec![ContentPart::from_base64(
                    "image/png",
                    "AAAA",
                    None,
                )])
            }),
            define_tool("fails", "", None, |_, _| async { Err::<String, _>("no such file") }),
        ]
    };
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        for stateless in [false, true] {
            let served = serve(tools(), McpHandlerOptions { stateless, ..versions(&[version]) }).await;
            let source = load(&served, json!({})).await;
            let names: Vec<&str> = source.tools.iter().map(|tool| tool.name.as_str()).collect();
            assert_eq!(names, ["peer_calc_sum", "peer_echo", "peer_fails", "peer_picture"]);
            let call = async |name: &str, args: Value| soon(of(&source, name).execute(args)).await;
            assert_eq!(call("peer_echo", json!({"text": "hi"})).await.output, "hi");
            let sum = call("peer_calc_sum", json!({})).await;
            assert_eq!((sum.output.as_str(), sum.structured), (r#"{"sum":3}"#, Some(json!({"sum": 3}))));
            let picture = call("peer_picture", json!({})).await;
            assert_eq!(picture.output, "see");
            assert_eq!(picture.parts, [ContentPart::from_base64("image/png", "AAAA", None)]);
            let failed = call("peer_fails", json!({})).await;
            assert_eq!((failed.is_error, failed.output.as_str()), (true, "no such file"));
            assert_eq!(served.handler.session_count(), usize::from(!stateless));
            soon(source.close()).await;
            assert_eq!(served.handler.session_count(), 0, "closing ends the session");
        }
    }
}

// MCP-189, MCP-186: reports come through
#[tokio::test]
async fn reports_come_through() {
    let (release, gate) = tokio::sync::watch::channel(false);
    let reports = tool("reports", move |_args, context| {
        let mut gate = gate.clone();
        async move {
            context.progress(1.0, Some(2.0), Some("one"));
            gate.wait_for(|open| *open).await?;
            Ok("done".into())
        }
    });
    let served = serve(vec![reports], versions(&["2025-11-25"])).await;
    let source = load(&served, json!({})).await;
    let (reporter, mut heard) = report_channel();
    let context = ToolContext { reporter, ..Default::default() };
    let call = tokio::spawn({
        let tool = of(&source, "peer_reports").clone();
        async move { tool.execute_with(json!({}), context).await }
    });
    let report = soon(futures::StreamExt::next(&mut heard)).await.unwrap();
    let expected = ToolReport::Progress { progress: 1.0, total: Some(2.0), message: Some("one".into()) };
    assert_eq!(report, expected);
    release.send(true).unwrap();
    assert_eq!(soon(call).await.unwrap().output, "done");
}

// MCP-163, MCP-164
#[tokio::test]
async fn headers_say_who_calls() {
    let whoami = tool("whoami", |_args, context| async move {
        Ok(mcp_identity(&context).map_or("nobody".to_owned(), |caller| caller.id))
    });
    let options = McpHandlerOptions {
        authenticate: Some(Arc::new(|request| {
            Box::pin(async move {
                let token = request.headers.get("authorization").ok_or("no token")?.to_str()?.to_owned();
                Ok(Identity::new(token))
            })
        })),
        ..versions(&["2025-06-18"])
    };
    let served = serve(vec![whoami], options).await;
    let source = load(&served, json!({"headers": {"Authorization": "alice"}})).await;
    assert_eq!(soon(of(&source, "peer_whoami").execute(json!({}))).await.output, "alice");
    let config = json!({"mcpServers": {"peer": {"url": served.url}}});
    let refused = soon(load_mcp(&parse_mcp_config(&McpConfigInput::Value(config)).unwrap())).await;
    assert_eq!(refused.errors["peer"], "mcp server \"peer\" failed at initialize: http-status (HTTP 401)");
}

// MCP-181, MCP-90: a call that this crate's client cancels, or times out, ends on the other side
#[tokio::test]
async fn a_withdrawn_call_ends() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let waits = tool("waits", move |args, context| {
        let counted = Arc::clone(&counted);
        async move {
            struct Ends(Arc<AtomicUsize>);
            impl Drop for Ends {
                fn drop(&mut self) {
                    self.0.fetch_add(1, Ordering::SeqCst);
                }
            }
            let _ends = Ends(counted);
            if args["loud"] == true {
                context.progress(1.0, None, None);
            }
            std::future::pending().await
        }
    });
    let served = serve(vec![waits, echo()], versions(&["2025-11-25"])).await;
    let source = load(&served, json!({"concurrency": "stateless"})).await;
    for (at, loud) in [false, true].into_iter().enumerate() {
        let cancel = CancellationToken::new();
        let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
        let call = tokio::spawn({
            let tool = of(&source, "peer_waits").clone();
            async move { tool.execute_with(json!({ "loud": loud }), context).await }
        });
        until_served(&served, 1).await;
        cancel.cancel();
        assert!(soon(call).await.unwrap().is_error);
        until_served(&served, 0).await;
        assert_eq!(ended.load(Ordering::SeqCst), at + 1);
    }
    assert_eq!(soon(of(&source, "peer_echo").execute(json!({"text": "hi"}))).await.output, "hi");
}

async fn until_served(served: &Served, calls: usize) {
    let deadline = tokio::time::Instant::now() + handler_support::PATIENCE;
    while served.handler.call_count() != calls {
        assert!(tokio::time::Instant::now() < deadline, "no {calls} calls in time");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

// The client that went away is noticed by its socket
#[tokio::test]
async fn a_closed_socket_ends_its_call() {
    let waits = tool("waits", |_args, context| async move {
        context.log(LogLevel::Info, "waiting");
        std::future::pending().await
    });
    let served = serve(vec![waits], McpHandlerOptions { stateless: true, ..Default::default() }).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "waits"}});
    let request = reqwest::Client::new()
        .post(&served.url)
        .header("content-type", "application/json")
        .body(call.to_string())
        .send();
    let request = tokio::spawn(request);
    until_served(&served, 1).await;
    request.abort();
    until_served(&served, 0).await;
    until("the end", || served.handler.call_count() == 0).await;
}

// A client that polls gets its answer: this crate's own does
#[tokio::test]
async fn the_own_client_comes_back() {
    let poll = tool("poll", |_args, context| async move {
        context.progress(1.0, None, None);
        tokio::task::yield_now().await;
        let left = mcp_close_stream(&context, Duration::from_millis(10));
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(format!("left: {left}"))
    });
    let served = serve(vec![poll], versions(&["2025-11-25"])).await;
    let source = load(&served, json!({})).await;
    let result = soon(of(&source, "peer_poll").execute(json!({}))).await;
    assert_eq!(result.output, "left: true");
}
