//! The handler's HTTP side: what is refused, in which order, with which status.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod handler_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use handler_support::{
    Client, echo, error, handler, json_of, notification, request, soon, text, text_of, tool,
};
use http::{Method, Request, StatusCode};
use http_body_util::StreamBody;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolnexus_core::{Identity, Toolkit};
use toolnexus_mcp::server::{McpHandlerOptions, McpServeError, mcp_handler};
use tower::ServiceExt as _;

fn both() -> McpHandlerOptions {
    McpHandlerOptions {
        protocol_versions: vec!["2025-06-18".into(), "2025-11-25".into()],
        ..Default::default()
    }
}

/// A handler that knows one token, `good`.
fn guarded() -> McpHandlerOptions {
    McpHandlerOptions {
        authenticate: Some(Arc::new(|request| {
            Box::pin(async move {
                match request.headers.get("authorization").and_then(|token| token.to_str().ok()) {
                    Some("good") => Ok(Identity::new("alice")),
                    Some("panic") => panic!("secret reason"),
                    _ => Err("secret reason".into()),
                }
            })
        })),
        ..Default::default()
    }
}

// MCP-161, SERVE-73: a service for one request, whatever its path and the type of its body
#[tokio::test]
async fn it_is_a_service_without_a_listener() {
    let handler = handler([echo()], McpHandlerOptions::default());
    let mut client = Client::new(&handler);
    let answer = client.initialize("2025-06-18", json!({})).await;
    assert_eq!(answer["id"], 0);
    let call = request("a", "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}})).to_string();
    let (first, second) = call.split_at(20);
    let pieces = [first, second]
        .map(|piece| Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from(piece.to_owned()))));
    let body = StreamBody::new(futures::stream::iter(pieces));
    let mut request = Request::post("/any/path").body(body).unwrap();
    *request.headers_mut() = client.headers.clone();
    let answer = json_of(soon(handler.clone().oneshot(request)).await.unwrap()).await;
    assert_eq!(answer["id"], "a");
    assert_eq!(text(&answer), "hi");
}

// MCP-176, MCP-178, SERVE-78, case 89
#[tokio::test]
async fn what_cannot_be_served_has_its_status() {
    let handler = handler([echo()], McpHandlerOptions::default());
    let client = Client::in_session(&handler, json!({})).await;
    let ping = || request(1, "ping", json!({})).to_string();
    let bare = client.with("mcp-session-id", "");

    let answer = bare.raw(Method::POST, ping()).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let answer = client.with("mcp-session-id", "unknown").raw(Method::POST, ping()).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    for method in [Method::PUT, Method::PATCH, Method::HEAD, Method::OPTIONS] {
        let answer = client.raw(method, ping()).await;
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.headers()["allow"], "GET, POST, DELETE");
    }
    for accept in ["application/json", "*/*", ""] {
        let answer = client.with("accept", accept).raw(Method::GET, "").await;
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{accept}");
    }
    for content in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let answer = client.with("content-type", content).raw(Method::POST, ping()).await;
        assert_eq!(answer.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{content}");
    }
    let answer = client.raw(Method::POST, vec![b' '; 5 * 1024 * 1024]).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    for (body, code) in [
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("{oops", -32700),
        ("", -32700),
    ] {
        let answer = client.raw(Method::POST, body).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{body}");
        let answer = json_of(answer).await;
        assert_eq!((error(&answer).0, &answer["id"]), (code, &Value::Null), "{body}");
    }
    for (client, status) in [(&client, StatusCode::OK), (&bare, StatusCode::BAD_REQUEST)] {
        let answer = client.raw(Method::POST, r#"{"id":7,"method":"ping","params":[1]}"#).await;
        assert_eq!(answer.status(), status);
        let answer = json_of(answer).await;
        assert_eq!(answer["id"], 7);
        assert_eq!(error(&answer).0, if status == StatusCode::OK { -32602 } else { -32600 });
    }
    assert_eq!(client.ask("ping", json!({})).await, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(error(&client.ask("no/such", json!({})).await), (-32601, "Method not found"));
}

// MCP-178: each check comes before the next
#[tokio::test]
async fn checks_come_in_their_order() {
    let handler = handler([echo()], McpHandlerOptions { max_body_bytes: 200, ..guarded() });
    let mut client = Client::new(&handler);
    client.set("authorization", "bad");
    client.set("origin", "http://evil.test");
    client.set("content-type", "text/plain");
    client.set("mcp-protocol-version", "1999-01-01");
    let large = vec![b'{'; 300];
    let status = async |client: &Client, method: Method| client.raw(method, large.clone()).await.status();
    assert_eq!(status(&client, Method::PUT).await, StatusCode::UNAUTHORIZED);
    client.set("authorization", "good");
    assert_eq!(status(&client, Method::PUT).await, StatusCode::FORBIDDEN);
    client.set("origin", "");
    assert_eq!(status(&client, Method::PUT).await, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(status(&client, Method::POST).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    client.set("content-type", "application/json");
    assert_eq!(status(&client, Method::POST).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(client.raw(Method::POST, "{").await.status(), StatusCode::BAD_REQUEST);
    let ping = request(1, "ping", json!({})).to_string();
    let unknown = client.with("mcp-session-id", "unknown");
    assert_eq!(unknown.raw(Method::POST, ping.clone()).await.status(), StatusCode::NOT_FOUND);
    client.initialize("2025-06-18", json!({})).await;
    assert_eq!(client.raw(Method::POST, ping.clone()).await.status(), StatusCode::BAD_REQUEST);
    client.set("mcp-protocol-version", "2025-06-18");
    assert_eq!(client.raw(Method::POST, ping).await.status(), StatusCode::OK);
}

// MCP-178: a body is counted while it is read, whatever its head says
#[tokio::test]
async fn a_body_is_limited_while_it_is_read() {
    let handler = handler([echo()], McpHandlerOptions { max_body_bytes: 100, ..Default::default() });
    let client = Client::new(&handler);
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let endless = futures::stream::repeat_with(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from_static(&[b' '; 40])))
    });
    let mut request = Request::post("/mcp").body(StreamBody::new(endless)).unwrap();
    *request.headers_mut() = client.headers.clone();
    let answer = soon(handler.clone().oneshot(request)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(read.load(Ordering::SeqCst), 3);
    assert_eq!(error(&json_of(answer).await), (-32600, "Request body too large"));

    let announced = client.with("content-length", "101").raw(Method::POST, "{}").await;
    assert_eq!(announced.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let padded = format!("{:100}", request_text());
    assert_eq!(client.raw(Method::POST, padded).await.status(), StatusCode::BAD_REQUEST, "no session");
    let broken = [Ok(http_body::Frame::data(Bytes::from_static(b"{"))), Err(std::io::Error::other("gone"))];
    let mut request = Request::post("/mcp").body(StreamBody::new(futures::stream::iter(broken))).unwrap();
    *request.headers_mut() = client.headers.clone();
    let answer = soon(handler.clone().oneshot(request)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
}

fn request_text() -> String {
    request(1, "ping", json!({})).to_string()
}

// MCP-163: who calls is asked first, and why not is nobody's business
#[tokio::test]
async fn who_is_not_known_is_told_nothing() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let options = McpHandlerOptions {
        www_authenticate: Some(Arc::new(move |request, error| {
            counted.fetch_add(1, Ordering::SeqCst);
            let known = error.to_string() == "secret reason";
            request
                .headers
                .get("authorization")
                .map(|_| format!("Bearer error=\"invalid_token\", known={known}"))
        })),
        ..guarded()
    };
    let handler = handler([echo()], options);
    let client = Client::new(&handler);
    for method in [Method::GET, Method::POST, Method::DELETE, Method::PUT] {
        let answer = client.raw(method, "{oops").await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        assert!(!answer.headers().contains_key("www-authenticate"));
        assert_eq!(text_of(answer).await, "");
    }
    let answer = client.with("authorization", "bad").raw(Method::POST, "").await;
    assert_eq!(answer.headers()["www-authenticate"], "Bearer error=\"invalid_token\", known=true");
    let answer = client.with("authorization", "panic").raw(Method::POST, "").await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(answer.headers()["www-authenticate"], "Bearer error=\"invalid_token\", known=false");
    assert_eq!(asked.load(Ordering::SeqCst), 6);
    let mut alice = client.with("authorization", "good");
    assert_eq!(alice.initialize("2025-06-18", json!({})).await["result"]["serverInfo"]["name"], "toolnexus");
}

// MCP-163: the host's own layer may know already who calls
#[tokio::test]
async fn a_layer_in_front_may_have_asked() {
    let whoami = tool("whoami", |_args, context| async move {
        Ok(format!("{:?}", toolnexus_mcp::server::mcp_identity(&context).map(|identity| identity.id)))
    });
    let handler = handler([whoami], McpHandlerOptions::default());
    let send = async |client: &Client, who: Option<&str>, message: Value| {
        let mut request =
            Request::post("/mcp").body(http_body_util::Full::new(Bytes::from(message.to_string()))).unwrap();
        *request.headers_mut() = client.headers.clone();
        if let Some(who) = who {
            request.extensions_mut().insert(Identity::new(who));
        }
        soon(handler.clone().oneshot(request)).await.unwrap()
    };
    let hello = || request(0, "initialize", json!({"protocolVersion": "2025-06-18"}));
    let call = || request(1, "tools/call", json!({"name": "whoami"}));
    let mut client = Client::new(&handler);
    let begun = send(&client, Some("alice"), hello()).await;
    client.headers.insert("mcp-session-id", begun.headers()["mcp-session-id"].clone());
    let answer = json_of(send(&client, Some("alice"), call()).await).await;
    assert_eq!(text(&answer), r#"Some("alice")"#);
    for other in [Some("bob"), None] {
        assert_eq!(send(&client, other, call()).await.status(), StatusCode::NOT_FOUND);
    }
}

// MCP-175, SERVE-73, SERVE-78
#[tokio::test]
async fn protocol_revisions_are_those_listed() {
    for unknown in ["2024-11-05", "2026-07-28", "", "2025"] {
        let options = McpHandlerOptions {
            protocol_versions: vec!["2025-06-18".into(), unknown.into()],
            ..Default::default()
        };
        let refused = mcp_handler(&Toolkit::default(), options).unwrap_err();
        assert!(matches!(&refused, McpServeError::ProtocolVersion { version, .. } if version == unknown));
        assert!(refused.to_string().contains(&format!("{unknown:?}")), "{refused}");
    }
    let agreed = async |options: McpHandlerOptions, asked: &str| {
        let handler = handler([], options);
        let answer = Client::new(&handler).initialize(asked, json!({})).await;
        answer["result"]["protocolVersion"].as_str().unwrap().to_owned()
    };
    assert_eq!(agreed(McpHandlerOptions::default(), "2025-11-25").await, "2025-06-18");
    assert_eq!(agreed(McpHandlerOptions::default(), "2025-06-18").await, "2025-06-18");
    assert_eq!(agreed(both(), "2025-11-25").await, "2025-11-25");
    assert_eq!(agreed(both(), "2025-06-18").await, "2025-06-18");
    for other in ["2024-11-05", "2025-03-26", "2026-07-28", "x"] {
        assert_eq!(agreed(both(), other).await, "2025-11-25", "{other}");
    }
    let old = || McpHandlerOptions {
        protocol_versions: vec!["2025-03-26".into(), "2025-06-18".into()],
        ..Default::default()
    };
    assert_eq!(agreed(old(), "2025-03-26").await, "2025-03-26");
    assert_eq!(agreed(old(), "2025-11-25").await, "2025-06-18");

    let handler = handler([], McpHandlerOptions::default());
    let client = Client::in_session(&handler, json!({})).await;
    let ping = request_text();
    for (version, status) in
        [("2025-06-18", 200), ("", 200), ("2025-11-25", 400), ("2025-03-26", 400), ("x", 400)]
    {
        let client = client.with("mcp-protocol-version", version);
        assert_eq!(client.raw(Method::POST, ping.clone()).await.status(), status, "{version}");
        let listening = client.raw(Method::GET, "").await.status();
        assert_eq!(listening, status, "{version}");
    }
    let answer = client.with("mcp-protocol-version", "x").raw(Method::DELETE, "").await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
}

// MCP-178: nothing is said where no answer is wanted
#[tokio::test]
async fn notifications_and_responses_are_accepted() {
    let handler = handler([], McpHandlerOptions::default());
    let client = Client::in_session(&handler, json!({})).await;
    for message in [
        notification("notifications/initialized", json!({})),
        notification("no/such", json!({})),
        json!({"jsonrpc": "2.0", "id": 7, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "no"}}),
    ] {
        let answer = client.send(message.clone()).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        assert_eq!(text_of(answer).await, "");
        let nobody = client.with("mcp-session-id", "").send(message).await;
        assert_eq!(nobody.status(), StatusCode::BAD_REQUEST);
    }
}

// MCP-182: a client of the era without a handshake learns that this is not its kind of server
#[tokio::test]
async fn the_modern_era_is_not_served() {
    let handler = handler([], both());
    let discover = request(1, "server/discover", json!({"_meta": {}}));
    let modern = Client::new(&handler).with("mcp-protocol-version", "2026-07-28");
    let answer = modern.send(discover.clone()).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(error(&json_of(answer).await).0, -32601);
    let client = Client::in_session(&handler, json!({})).await;
    assert_eq!(error(&client.ask("server/discover", json!({})).await).0, -32601);
    let stateless = handler_support::handler([], McpHandlerOptions { stateless: true, ..Default::default() });
    assert_eq!(error(&Client::new(&stateless).ask("server/discover", json!({})).await).0, -32601);
}

// A page of somewhere else cannot reach a server on its visitor's machine
#[tokio::test]
async fn a_rebound_name_gets_nowhere() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let count = tool("count", move |_args, _context| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok("ran".into()) }
    });
    let handler = handler([count], McpHandlerOptions { stateless: true, ..Default::default() });
    let client = Client::new(&handler);
    let call = request(1, "tools/call", json!({"name": "count"}));
    let evil = client.with("host", "evil.example.com").with("origin", "http://evil.example.com");
    let answer = evil.send(call.clone()).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert_eq!(error(&json_of(answer).await).1, "Origin is not allowed");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let local = client.with("host", "localhost:3000").with("origin", "http://localhost:3000");
    assert_eq!(local.send(call).await.status(), StatusCode::OK);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

/// Something that could be a message, or nearly.
fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let methods = [
        "initialize",
        "ping",
        "tools/list",
        "tools/call",
        "logging/setLevel",
        "resources/read",
        "notifications/cancelled",
        "completion/complete",
        "",
    ];
    let value = prop_oneof![
        Just(json!(null)),
        Just(json!([1])),
        Just(json!({})),
        any::<i32>().prop_map(|number| json!(number)),
        ".{0,6}".prop_map(|text| json!(text)),
        Just(json!({"name": "echo", "arguments": {"text": "hi"}})),
        Just(json!({"name": "echo", "arguments": [], "_meta": 7})),
        Just(json!({"requestId": 1, "protocolVersion": 7, "capabilities": {"elicitation": []}})),
    ];
    let message = (proptest::sample::select(methods.to_vec()), proptest::collection::vec(value, 4), 0..32_u8);
    let message = message.prop_map(|(method, values, keys)| {
        let mut message = json!({});
        let named =
            [("id", &values[0]), ("params", &values[1]), ("result", &values[2]), ("error", &values[3])];
        for (bit, (key, value)) in named.into_iter().enumerate() {
            if keys >> bit & 1 == 1 {
                message[key] = value.clone();
            }
        }
        if keys >> 4 & 1 == 1 {
            message["method"] = method.into();
        }
        message.to_string().into_bytes()
    });
    prop_oneof![4 => message, 1 => proptest::collection::vec(any::<u8>(), 0..60)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..Default::default() })]

    // MCP-178: whatever is sent, it is answered, in one of the ways that are agreed
    #[test]
    fn any_body_is_answered(body in any_body(), stateless in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async move {
            let handler = handler([echo()], McpHandlerOptions { stateless, ..Default::default() });
            let mut client = Client::new(&handler);
            client.initialize("2025-06-18", json!({})).await;
            let answer = client.raw(Method::POST, body).await;
            match answer.status().as_u16() {
                202 => assert_eq!(text_of(answer).await, ""),
                status @ (200 | 400) => {
                    let answer = json_of(answer).await;
                    assert_eq!(answer["jsonrpc"], "2.0");
                    assert!(answer.get("id").is_some());
                    assert_ne!(answer.get("result").is_some(), answer.get("error").is_some());
                    let code = answer["error"]["code"].as_i64();
                    assert_eq!(status == 400, matches!(code, Some(-32700 | -32600)), "{answer}");
                    assert_ne!(code, Some(-32603));
                }
                status => panic!("{status}"),
            }
            assert_eq!(handler.call_count(), 0);
        });
    }
}
