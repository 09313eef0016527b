//! What a listener lets through, and how it turns the rest away.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use support::{call, echo, mcp, post, raw, said, send, served, tool};
use tokio::net::TcpListener;
use toolnexus_core::{Identity, ToolResult, Toolkit};
use toolnexus_mcp::server::{McpHandlerOptions, mcp_handler, mcp_identity, mcp_request, mcp_session_id};
use toolnexus_serve::{ServeError, ServeOptions};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

// MCP-145, MCP-147, SERVE-1, SERVE-2, SERVE-3, SERVE-6
#[tokio::test]
async fn a_toolkit_is_served_at_a_port_of_its_own() {
    let server = served([echo()], mcp()).await;
    assert_eq!(server.url, format!("http://127.0.0.1:{}", server.port));
    assert_ne!(server.port, 0);
    let reply = post(&server, &[], &call("echo", json!({"text": "hi"}))).await;
    assert_eq!((reply.status, reply.json()), (200, said("hi")));
    // The query plays no part.
    let reply = send(&server, "POST /mcp?x=1", &[], PING).await;
    assert_eq!((reply.status, reply.body.as_str()), (200, PONG));
    server.stop().await;
}

// MCP-145, SERVE-1, SERVE-2
#[tokio::test]
async fn addresses_may_be_short_or_wrong() {
    let toolkit = Toolkit::default();
    for short in ["0", ":0", "localhost:0"] {
        let server = toolkit.serve(short, ServeOptions::default()).await.unwrap();
        let host = if short.starts_with('l') { "localhost" } else { "127.0.0.1" };
        assert_eq!(server.url, format!("http://{host}:{}", server.port));
    }
    let error = toolkit.serve("localhost", ServeOptions::default()).await.unwrap_err();
    assert!(matches!(error, ServeError::Address { .. }), "{error}");
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let error = toolkit.serve(&addr, ServeOptions::default()).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot listen on {addr:?}: ")), "{error}");
    let options = ServeOptions { allowed_origins: vec!["app.test".into()], ..Default::default() };
    let error = toolkit.serve("0", options).await.unwrap_err();
    assert!(matches!(error, ServeError::Origin { .. }), "{error}");
}

// MCP-146, MCP-157, SERVE-3, SERVE-4, case 83
#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let without = served([echo()], ServeOptions::default()).await;
    let with = served([echo()], mcp()).await;
    for (server, line) in [
        (&without, "POST /mcp"),
        (&without, "GET /mcp"),
        (&with, "POST /"),
        (&with, "GET /"),
        (&with, "GET /.well-known/agent-card.json"),
        (&with, "POST /mcp/"),
        (&with, "POST /MCP"),
        (&with, "POST /x/mcp"),
        (&with, "OPTIONS *"),
    ] {
        let reply = send(server, line, &[], PING).await;
        assert_eq!((reply.status, reply.body.as_str()), (404, "Not Found"), "{line}");
        assert!(reply.header("content-type").unwrap().starts_with("text/plain"));
    }
}

// MCP-157, SERVE-72
#[tokio::test]
async fn only_post_is_a_method() {
    let server = served([echo()], mcp()).await;
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let reply = send(&server, &format!("{method} /mcp"), &[("accept", "text/event-stream")], "").await;
        assert_eq!(
            (reply.status, reply.header("allow"), reply.body.as_str()),
            (405, Some("POST"), ""),
            "{method}"
        );
    }
}

// MCP-156, SERVE-62
#[tokio::test]
async fn a_body_says_json_or_nothing() {
    let server = served([echo()], mcp()).await;
    for accepted in ["application/json; charset=utf-8", "application/vnd.api+json", "APPLICATION/JSON"] {
        let reply = send(&server, "POST /mcp", &[("content-type", accepted)], PING).await;
        assert_eq!(reply.status, 200, "{accepted}");
    }
    // Case 82: neither Origin nor Accept.
    let bare = send(&server, "POST /mcp", &[], PING).await;
    assert_eq!((bare.status, bare.json()["result"].clone()), (200, json!({})));
    for refused in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"]
    {
        let reply = send(&server, "POST /mcp", &[("content-type", refused)], PING).await;
        assert_eq!(reply.status, 415, "{refused}");
        assert_eq!(
            reply.json(),
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "Unsupported content type"}})
        );
    }
}

fn counting() -> (Arc<AtomicUsize>, toolnexus_core::Tool) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let tool = tool("count", move |_| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        async move { ToolResult::success(number) }
    });
    (count, tool)
}

// MCP-156, SERVE-61
#[tokio::test]
async fn a_body_may_be_of_a_certain_size() {
    let (count, counter) = counting();
    let options = ServeOptions { max_body_bytes: 200, ..mcp() };
    let server = served([counter], options).await;
    let too_large =
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "Request body too large"}});

    let fits = format!("{:<200}", call("count", json!({})));
    assert_eq!(post(&server, &[], &fits).await.json(), said("0"));
    // What is announced is not even read.
    let head = "POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 5242880\r\n\r\n";
    let answer = raw(&server, head.as_bytes()).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 413") && head.contains("connection: close"), "{head}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap(), too_large);
    // What is not announced is counted.
    let chunk = "y".repeat(150);
    let chunks = format!("96\r\n{chunk}\r\n96\r\n{chunk}\r\n");
    let head = "POST /mcp HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = raw(&server, format!("{head}{chunks}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("Request body too large"), "{answer}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

// MCP-156, SERVE-61: four MiB when nothing is said
#[tokio::test]
async fn four_mebibytes_fit() {
    let server = served([echo()], mcp()).await;
    let text = "x".repeat(4 * 1024 * 1024 - 1024);
    let reply = post(&server, &[], &call("echo", json!({"text": text}))).await;
    assert_eq!(reply.json(), said(&text));
    let head = format!("POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 4 * 1024 * 1024 + 1);
    assert!(raw(&server, head.as_bytes()).await.starts_with("HTTP/1.1 413"));
}

// MCP-154, SERVE-64: over a socket as well
#[tokio::test]
async fn a_body_that_is_no_json_is_answered_with_200() {
    let server = served([echo()], mcp()).await;
    let parse_error =
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}});
    for body in ["{oops", ""] {
        let reply = post(&server, &[], body).await;
        assert_eq!((reply.status, reply.json()), (200, parse_error.clone()), "{body}");
    }
    let reply = post(&server, &[], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!((reply.status, reply.body.as_str()), (202, ""));
}

// MCP-156, SERVE-63, case 82
#[tokio::test]
async fn pages_of_elsewhere_are_refused_before_anything_runs() {
    let (count, counter) = counting();
    let server = served([counter], mcp()).await;
    let body = call("count", json!({}));
    for foreign in ["https://evil.test", "null", "http://localhost.evil.test", "file://"] {
        for line in ["POST /mcp", "OPTIONS /mcp", "GET /"] {
            let reply = send(&server, line, &[("origin", foreign)], &body).await;
            assert_eq!((reply.status, reply.header("access-control-allow-origin")), (403, None), "{foreign}");
        }
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    for own in ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:1"] {
        let reply = post(&server, &[("origin", own)], PING).await;
        // No CORS headers: nobody has named it.
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, None), "{own}");
    }
}

// MCP-156, SERVE-63: a page that the host names can use the server from a browser
#[tokio::test]
async fn named_pages_are_let_in_by_their_browser_too() {
    const APP: &str = "https://app.example.com";
    let options = ServeOptions { allowed_origins: vec![APP.into()], ..mcp() };
    let server = served([echo()], options).await;
    let asked = [
        ("origin", APP),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,authorization"),
    ];
    let preflight = send(&server, "OPTIONS /mcp", &asked, "").await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some(APP));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("POST"));
    assert_eq!(preflight.header("access-control-allow-headers"), Some("content-type,authorization"));
    let reply = post(&server, &[("origin", APP)], PING).await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(APP)));
    assert_eq!(reply.header("vary"), Some("Origin"));
    assert_eq!(post(&server, &[("origin", "https://evil.test")], PING).await.status, 403);
    // A plain OPTIONS is a method like any other.
    assert_eq!(send(&server, "OPTIONS /mcp", &[("origin", APP)], "").await.status, 405);
}

fn guarded() -> ServeOptions {
    ServeOptions {
        authenticate: Some(Arc::new(|head| {
            Box::pin(async move {
                assert!(head.extensions.get::<SocketAddr>().unwrap().ip().is_loopback());
                match head.headers.get("authorization").map(|value| value.to_str().unwrap()) {
                    Some("Bearer alice") => Ok(Identity::with_data("alice", 7_u8)),
                    Some("Bearer panic") => panic!("broken"),
                    Some(other) => Err(format!("secret words about {other}").into()),
                    None => Err("none".into()),
                }
            })
        })),
        www_authenticate: Some(Arc::new(|_head, error| {
            (error.to_string() == "none").then(|| "Bearer realm=\"tools\"".to_owned())
        })),
        ..mcp()
    }
}

// MCP-156, MCP-164, SERVE-55
#[tokio::test]
async fn strangers_are_turned_away_and_tools_know_their_caller() {
    let whoami = tool("whoami", |context| async move {
        let identity = mcp_identity(&context).unwrap();
        let agent = mcp_request(&context).unwrap().headers["user-agent"].clone();
        assert_eq!((identity.data::<u8>(), mcp_session_id(&context)), (Some(&7), None));
        assert!(context.data.is_empty());
        ToolResult::success(format!("{} with {}", identity.id, agent.to_str().unwrap()))
    });
    let server = served([whoami], guarded()).await;
    let known = [("authorization", "Bearer alice"), ("user-agent", "test/1")];
    let reply = post(&server, &known, &call("whoami", json!({}))).await;
    assert_eq!(reply.json(), said("alice with test/1"));

    let unknown = post(&server, &[], PING).await;
    assert_eq!((unknown.status, unknown.body.as_str()), (401, ""));
    assert_eq!(unknown.header("www-authenticate"), Some("Bearer realm=\"tools\""));
    for credentials in ["Bearer mallory", "Bearer panic"] {
        let reply = post(&server, &[("authorization", credentials)], PING).await;
        assert_eq!((reply.status, reply.body.as_str()), (401, ""), "{credentials}");
        assert_eq!(reply.header("www-authenticate"), None);
    }
    // Before the body, its type and the method are looked at; but the way there must exist.
    assert_eq!(send(&server, "POST /mcp", &[("content-type", "text/plain")], PING).await.status, 401);
    assert_eq!(send(&server, "GET /mcp", &[], "").await.status, 401);
    let head = "POST /mcp HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 5242880\r\n\r\n";
    assert!(raw(&server, head.as_bytes()).await.starts_with("HTTP/1.1 401"));
    assert_eq!(send(&server, "POST /", &[], PING).await.status, 404);
}

// MCP-161: a handler of the host's own, on the same listener
#[tokio::test]
async fn a_handler_can_take_the_place_of_a_profile() {
    let toolkit = Toolkit::from_tools([echo()]);
    let handler = mcp_handler(&toolkit, McpHandlerOptions { stateless: true, ..Default::default() }).unwrap();
    let options = ServeOptions { mcp_handler: Some(handler.clone()), ..Default::default() };
    let server = toolkit.serve("0", options.clone()).await.unwrap();
    let reply = post(
        &server,
        &[("accept", "application/json, text/event-stream")],
        &call("echo", json!({"text": "hi"})),
    )
    .await;
    assert_eq!((reply.status, reply.json()), (200, said("hi")));
    assert_eq!(send(&server, "GET /mcp", &[], "").await.status, 405);
    server.stop().await;

    let both = ServeOptions { mcp: Some(Default::default()), ..options };
    let error = toolkit.serve("0", both).await.unwrap_err();
    assert!(matches!(error, ServeError::TwoMcpServers), "{error}");
}

// MCP-163, MCP-164: the listener asks who calls, and the handler's sessions are of those callers
#[tokio::test]
async fn a_handler_knows_whom_the_listener_has_let_in() {
    let whoami = tool("whoami", |context| async move {
        ToolResult::success(mcp_identity(&context).map_or("nobody".to_owned(), |identity| identity.id))
    });
    let toolkit = Toolkit::from_tools([whoami]);
    let handler = mcp_handler(&toolkit, McpHandlerOptions::default()).unwrap();
    let by_token: toolnexus_mcp::server::Authenticate = Arc::new(|head| {
        Box::pin(async move {
            Ok(Identity::new(head.headers.get("authorization").ok_or("no token")?.to_str().unwrap()))
        })
    });
    let options = ServeOptions {
        mcp_handler: Some(handler),
        authenticate: Some(Arc::clone(&by_token)),
        ..Default::default()
    };
    let server = toolkit.serve("127.0.0.1:0", options).await.unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    assert_eq!(post(&server, &[], hello).await.status, 401);
    let reply = post(&server, &[("authorization", "alice")], hello).await;
    let session = reply.header("mcp-session-id").unwrap();
    let alice = [("authorization", "alice"), ("mcp-session-id", session)];
    assert_eq!(post(&server, &alice, &call("whoami", json!({}))).await.json(), said("alice"));
    // The id of a session is no credential.
    let thief = [("authorization", "mallory"), ("mcp-session-id", session)];
    assert_eq!(post(&server, &thief, &call("whoami", json!({}))).await.status, 404);
    assert_eq!(send(&server, "DELETE /mcp", &thief, "").await.status, 404);

    // A handler that asks by itself is not told.
    let own = McpHandlerOptions {
        authenticate: Some(Arc::new(|_head| Box::pin(async { Ok(Identity::new("own")) }))),
        stateless: true,
        ..Default::default()
    };
    let options = ServeOptions {
        mcp_handler: Some(mcp_handler(&toolkit, own).unwrap()),
        authenticate: Some(by_token),
        ..Default::default()
    };
    let server = toolkit.serve("127.0.0.1:0", options).await.unwrap();
    let reply = post(&server, &[("authorization", "alice")], &call("whoami", json!({}))).await;
    assert_eq!(reply.json(), said("own"));
}

// SERVE-9: documentation and a warning, since it may be meant
#[tokio::test]
async fn an_open_door_to_the_network_is_said_aloud() {
    let warnings = toolnexus_testkit::warnings::Warnings::listen();
    let toolkit = Toolkit::from_tools([echo()]);
    let _local = toolkit.serve("127.0.0.1:0", mcp()).await.unwrap();
    let _guarded = toolkit.serve("0.0.0.0:0", guarded()).await.unwrap();
    assert!(warnings.take().is_empty());
    let open = toolkit.serve("0.0.0.0:0", mcp()).await.unwrap();
    assert_eq!(open.url, format!("http://127.0.0.1:{}", open.port));
    assert_eq!(warnings.with("can be reached from other machines").len(), 1, "{warnings:?}");
}

// SERVE-64: a head that does not come to its end, whose connection is closed without an answer
#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let server = served([echo()], mcp()).await;
    let began = tokio::time::Instant::now();
    assert_eq!(raw(&server, b"POST /mcp HTTP/1.1\r\nhost: x\r\n").await, "");
    assert!(began.elapsed() >= std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}
