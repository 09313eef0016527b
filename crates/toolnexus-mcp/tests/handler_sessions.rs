//! Sessions: how they begin, whose they are, when they end, and that nothing is left of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod handler_support;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handler_support::{Client, echo, error, handler, json_of, request, text, text_of, tool, until};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use toolnexus_core::{Identity, LogLevel, Tool};
use toolnexus_mcp::server::{
    McpHandlerOptions, McpSessionIds, McpStatelessSessionId, mcp_close_stream, mcp_session_id,
};

const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);

/// The status that a ping gets.
async fn ping(client: &Client) -> StatusCode {
    client.send(request(1, "ping", json!({}))).await.status()
}

/// A tool that never ends.
fn waits() -> Tool {
    tool("waits", |_args, context| async move {
        context.log(LogLevel::Error, "waiting");
        std::future::pending().await
    })
}

/// A tool that tells its session.
fn session() -> Tool {
    tool("session", |_args, context| async move { Ok(format!("{:?}", mcp_session_id(&context))) })
}

// MCP-176
#[tokio::test]
async fn ids_are_random() {
    let handler = handler([], McpHandlerOptions::default());
    let mut ids = HashSet::new();
    for _ in 0..100 {
        let id = Client::in_session(&handler, json!({})).await.session_id();
        assert!(id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{id}");
        assert!(ids.insert(id));
    }
    assert_eq!(handler.session_count(), 100);
    // What each of the 128 bits is, is open.
    for bit in 0..128 {
        let set = |id: &String| u128::from_str_radix(id, 16).unwrap() >> bit & 1 == 1;
        assert!(ids.iter().any(set) && !ids.iter().all(set));
    }
}

// MCP-176, SERVE-74: ids of the host's own
#[tokio::test]
async fn a_host_gives_ids_and_takes_them_back() {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&ended);
    let next = Arc::new(AtomicUsize::new(0));
    let options = McpHandlerOptions {
        authenticate: Some(Arc::new(|request| {
            Box::pin(async move {
                let id = request.headers.get("authorization").ok_or("no token")?.to_str()?.to_owned();
                Ok(Identity::new(id))
            })
        })),
        session_ids: McpSessionIds {
            generate: Some(Arc::new(move |context| {
                let number = next.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move {
                    match (context.identity.unwrap().id.as_str(), number) {
                        ("odd", _) => Ok("with space".into()),
                        ("empty", _) => Ok(String::new()),
                        ("same", _) => Ok("alice-0".into()),
                        ("fail", _) => Err("secret".into()),
                        ("panic", _) => panic!("secret"),
                        (id, number) => Ok(format!("{id}-{number}")),
                    }
                })
            })),
            // Whatever identity: what counts is the name in front.
            validate: Some(Arc::new(|id, identity| {
                Box::pin(async move {
                    let identity = identity.ok_or("nobody")?;
                    assert_ne!(identity.id, "panic");
                    if identity.id == "fail" { Err("secret".into()) } else { Ok(id.starts_with("alice")) }
                })
            })),
            terminate: Some(Arc::new(move |id, identity| {
                let noted = Arc::clone(&noted);
                Box::pin(async move {
                    noted.lock().unwrap().push((id, identity.unwrap().id));
                })
            })),
        },
        ..Default::default()
    };
    let handler = handler([session()], options);
    let client = Client::new(&handler);
    let mut alice = client.with("authorization", "alice");
    alice.initialize("2025-06-18", json!({})).await;
    assert_eq!(alice.session_id(), "alice-0");
    assert_eq!(text(&alice.call("session", json!({})).await), r#"Some("alice-0")"#);
    let mut bob = client.with("authorization", "bob");
    bob.initialize("2025-06-18", json!({})).await;
    assert_eq!(bob.session_id(), "bob-1");
    assert_eq!(ping(&bob).await, StatusCode::NOT_FOUND, "the host does not want it");
    assert_eq!(ping(&bob.with("mcp-session-id", "alice-0")).await, StatusCode::OK, "the host decides");
    for fails in ["fail", "panic"] {
        assert_eq!(ping(&alice.with("authorization", fails)).await, StatusCode::NOT_FOUND);
    }
    for fails in ["odd", "empty", "same", "fail", "panic"] {
        let mut client = client.with("authorization", fails);
        assert_eq!(
            error(&client.initialize("2025-06-18", json!({})).await),
            (-32603, "Internal error"),
            "{fails}"
        );
        assert!(!client.headers.contains_key("mcp-session-id"));
    }
    assert_eq!(handler.session_count(), 2);
    // What nobody began is unknown, whatever the host says.
    assert_eq!(ping(&alice.with("mcp-session-id", "alice-9")).await, StatusCode::NOT_FOUND);

    assert_eq!(alice.raw(Method::DELETE, "").await.status(), StatusCode::NO_CONTENT);
    assert_eq!(*ended.lock().unwrap(), [("alice-0".to_owned(), "alice".to_owned())]);
    assert_eq!(ping(&alice).await, StatusCode::NOT_FOUND);
    assert_eq!(alice.raw(Method::DELETE, "").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(ended.lock().unwrap().len(), 1);
}

// MCP-176: an id that the host gives out a second time is of the second session
#[tokio::test]
async fn a_late_end_does_not_hit_the_next_session_of_that_id() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (held, asked) = (Arc::clone(&gate), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&asked);
    let options = McpHandlerOptions {
        session_ids: McpSessionIds {
            generate: Some(Arc::new(|_context| Box::pin(async { Ok("the-only-one".into()) }))),
            // The first question has to wait.
            validate: Some(Arc::new(move |_id, _identity| {
                let (held, first) = (Arc::clone(&held), counted.fetch_add(1, Ordering::SeqCst) == 0);
                Box::pin(async move {
                    if first {
                        held.acquire().await?.forget();
                    }
                    Ok(true)
                })
            })),
            ..Default::default()
        },
        ..Default::default()
    };
    let handler = handler([], options);
    let client = Client::in_session(&handler, json!({})).await;
    let late = tokio::spawn(client.begin(Method::DELETE, ""));
    until("the question", || asked.load(Ordering::SeqCst) == 1).await;
    assert_eq!(client.raw(Method::DELETE, "").await.status(), StatusCode::NO_CONTENT);
    let next = Client::in_session(&handler, json!({})).await;
    gate.add_permits(1);
    assert_eq!(late.await.unwrap().status(), StatusCode::NOT_FOUND);
    assert_eq!(handler.session_count(), 1);
    assert_eq!(ping(&next).await, StatusCode::OK);
}

// MCP-163: a session id is no credential
#[tokio::test]
async fn a_session_is_its_first_callers() {
    let options = McpHandlerOptions {
        authenticate: Some(Arc::new(|request| {
            Box::pin(async move {
                let id = request.headers.get("authorization").map(|id| id.to_str().unwrap().to_owned());
                Ok(Identity::with_data(id.unwrap_or("anonymous".into()), Arc::clone(&request)))
            })
        })),
        ..Default::default()
    };
    let handler = handler([waits()], options);
    let mut alice = Client::new(&handler).with("authorization", "alice");
    alice.initialize("2025-06-18", json!({})).await;
    for other in ["bob", ""] {
        let thief = alice.with("authorization", other);
        for method in [Method::POST, Method::GET, Method::DELETE] {
            let answer = thief.raw(method, request(1, "ping", json!({})).to_string()).await;
            assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        }
    }
    // Two identities are the same when their ids are.
    assert_eq!(ping(&alice).await, StatusCode::OK);
}

// MCP-176, MCP-179, SERVE-78
#[tokio::test]
async fn a_session_ends_with_all_that_happens_in_it() {
    let handler = handler([waits()], McpHandlerOptions::default());
    let client = Client::in_session(&handler, json!({})).await;
    let other = Client::in_session(&handler, json!({})).await;
    client.ask("logging/setLevel", json!({"level": "debug"})).await;
    let mut listening = client.listen().await;
    let mut calling = client.stream("waits", json!({})).await;
    assert_eq!(calling.message().await["params"]["data"], "waiting");
    let quiet = tokio::spawn({
        let client = client.with("accept", "application/json");
        async move { client.call("waits", json!({})).await }
    });
    until("both calls", || handler.call_count() == 2).await;
    let mut elsewhere = other.listen().await;

    let answer = client.raw(Method::DELETE, "").await;
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!(text_of(answer).await, "");
    assert_eq!(listening.next().await, None);
    assert_eq!(calling.next().await, None);
    assert_eq!(error(&quiet.await.unwrap()).0, -32800);
    until("no calls", || handler.call_count() == 0).await;
    assert_eq!(ping(&client).await, StatusCode::NOT_FOUND);
    assert_eq!(handler.session_count(), 1);
    assert!(elsewhere.is_quiet());
    assert_eq!(ping(&other).await, StatusCode::OK);
}

// MCP-176: idle for half an hour
#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_used_is_dropped() {
    let handler = handler([waits()], McpHandlerOptions::default());
    let client = Client::in_session(&handler, json!({})).await;
    for _ in 0..3 {
        tokio::time::advance(HALF_AN_HOUR - Duration::from_secs(1)).await;
        assert_eq!(ping(&client).await, StatusCode::OK);
    }
    tokio::time::advance(HALF_AN_HOUR).await;
    assert_eq!(handler.session_count(), 0);
    assert_eq!(ping(&client).await, StatusCode::NOT_FOUND);

    // An open stream is use, and so is a call; idleness begins at their end.
    let client = Client::in_session(&handler, json!({})).await;
    let listening = client.listen().await;
    tokio::time::advance(HALF_AN_HOUR * 3).await;
    assert_eq!(handler.session_count(), 1);
    drop(listening);
    tokio::time::advance(HALF_AN_HOUR - Duration::from_secs(1)).await;
    assert_eq!(handler.session_count(), 1);
    let call = request(1, "tools/call", json!({"name": "waits"})).to_string();
    let calling = tokio::spawn(client.begin(Method::POST, call));
    until("the call", || handler.call_count() == 1).await;
    tokio::time::advance(HALF_AN_HOUR * 3).await;
    assert_eq!(handler.session_count(), 1);
    calling.abort();
    until("its end", || handler.call_count() == 0).await;
    tokio::time::advance(HALF_AN_HOUR).await;
    assert_eq!(handler.session_count(), 0);
    assert_eq!(client.raw(Method::GET, "").await.status(), StatusCode::NOT_FOUND);
}

// MCP-190: there are at most so many
#[tokio::test(start_paused = true)]
async fn too_many_sessions_cost_the_idlest() {
    let handler = handler([], McpHandlerOptions::default());
    let first = Client::in_session(&handler, json!({})).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    let second = Client::in_session(&handler, json!({})).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ping(&first).await, StatusCode::OK);
    let listening = second.listen().await;
    tokio::time::advance(Duration::from_secs(1)).await;
    let mut others = Vec::new();
    for _ in 2..10_000 {
        others.push(Client::in_session(&handler, json!({})).await);
    }
    // `second` is older, but listens.
    let last = Client::in_session(&handler, json!({})).await;
    assert_eq!(handler.session_count(), 10_000);
    assert_eq!(ping(&first).await, StatusCode::NOT_FOUND);
    assert_eq!(ping(&second).await, StatusCode::OK);
    assert_eq!(ping(&last).await, StatusCode::OK);

    let mut all = vec![listening];
    for client in others.iter().chain([&last]) {
        all.push(client.listen().await);
    }
    let refused = Client::new(&handler)
        .send(request(1, "initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}})))
        .await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(json_of(refused).await["id"], 1);
    all.pop();
    Client::in_session(&handler, json!({})).await;
    assert_eq!(ping(&last).await, StatusCode::NOT_FOUND);
}

// MCP-177, SERVE-74
#[tokio::test]
async fn without_sessions_each_request_stands_alone() {
    let told = async |id: Option<McpStatelessSessionId>| {
        let options = McpHandlerOptions { stateless: true, stateless_session_id: id, ..Default::default() };
        let handler = handler([session()], options);
        let mut client = Client::new(&handler).with("x-shard", "seven");
        client.initialize("2025-06-18", json!({})).await;
        assert!(!client.headers.contains_key("mcp-session-id"));
        assert_eq!(handler.session_count(), 0);
        for method in [Method::GET, Method::DELETE, Method::PUT] {
            let answer = client.raw(method, "").await;
            assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(answer.headers()["allow"], "POST");
        }
        // One that is sent all the same is not looked at.
        let told = text(&client.with("mcp-session-id", "x").call("session", json!({})).await).to_owned();
        assert_eq!(text(&client.call("session", json!({})).await), told);
        for quiet in [
            handler_support::notification("notifications/cancelled", json!({"requestId": 1})),
            json!({"id": 1, "result": {}}),
        ] {
            assert_eq!(client.send(quiet).await.status(), StatusCode::ACCEPTED);
        }
        assert_eq!(error(&client.ask("logging/setLevel", json!({"level": "info"})).await).0, -32601);
        told
    };
    assert_eq!(told(None).await, "None");
    assert_eq!(told(Some(McpStatelessSessionId::Fixed("one".into()))).await, r#"Some("one")"#);
    let of: McpStatelessSessionId = McpStatelessSessionId::Of(Arc::new(|request| {
        request.headers.get("x-shard").map(|shard| shard.to_str().unwrap().to_owned())
    }));
    assert_eq!(told(Some(of)).await, r#"Some("seven")"#);
    let panics = McpStatelessSessionId::Of(Arc::new(|_| panic!("boom")));
    assert_eq!(told(Some(panics)).await, "None");
}

/// How many tasks the runtime has.
fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// A handler with a call that streams, one that does not, one that waits for its client to come back,
/// and a listening client; nobody reads.
async fn busy()
-> (toolnexus_mcp::server::McpHandler, Vec<tokio::task::JoinHandle<Value>>, Vec<handler_support::Events>) {
    let away = tool("away", |_args, context| async move {
        assert!(mcp_close_stream(&context, Duration::from_millis(1)));
        std::future::pending().await
    });
    let options = McpHandlerOptions { protocol_versions: vec!["2025-11-25".into()], ..Default::default() };
    let handler = handler([waits(), away], options);
    let client = Client::in_session(&handler, json!({})).await;
    client.ask("logging/setLevel", json!({"level": "debug"})).await;
    let streams = vec![client.listen().await, client.stream("waits", json!({})).await];
    drop(client.stream("away", json!({})).await);
    let quiet = client.with("accept", "application/json");
    // Not the handler's task, and not a clone of it that would keep it alive.
    let call = tokio::spawn(async move { quiet.call("waits", json!({})).await });
    until("the calls", || handler.call_count() == 3).await;
    (handler, vec![call], streams)
}

// No task outlives the handler, and nothing in it waits for another
#[tokio::test]
async fn nothing_outlives_the_handler() {
    assert_eq!(tasks(), 0);
    let (handler, calls, mut streams) = busy().await;
    assert_eq!(tasks(), 4);
    handler.close().await;
    assert_eq!((handler.call_count(), handler.session_count()), (0, 0));
    for stream in &mut streams {
        while stream.next().await.is_some() {}
    }
    for call in calls {
        assert_eq!(error(&call.await.unwrap()).0, -32800);
    }
    until("no tasks", || tasks() == 0).await;
    handler.close().await;
    let late = Client::new(&handler).send(request(1, "initialize", json!({}))).await;
    assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);

    // The same when it is only dropped, with its requests.
    let (handler, calls, streams) = busy().await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    drop(handler);
    until("no tasks", || tasks() == 0).await;
    drop(streams);
}

// MCP-176, MCP-181: a client that goes away takes its call with it, answered or not
#[tokio::test]
async fn no_call_outlives_its_client() {
    let handler = handler([waits(), echo()], McpHandlerOptions::default());
    let client = Client::in_session(&handler, json!({})).await;
    client.ask("logging/setLevel", json!({"level": "debug"})).await;
    for _ in 0..20 {
        let mut stream = client.stream("waits", json!({})).await;
        stream.message().await;
        drop(stream);
        drop(client.stream("waits", json!({})).await);
    }
    until("no calls", || handler.call_count() == 0).await;
    assert_eq!(handler.session_count(), 1);
    assert_eq!(text(&client.call("echo", json!({"text": "hi"})).await), "hi");
}
