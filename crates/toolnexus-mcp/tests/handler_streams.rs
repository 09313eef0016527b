//! Event streams: what goes out on which, how they are bounded, and how a client comes back to one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod handler_support;

use std::sync::Arc;
use std::time::Duration;

use handler_support::{Client, Events, error, handler, json_of, request, text, tool, until};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolnexus_core::{LogLevel, Tool};
use toolnexus_mcp::server::{McpHandler, McpHandlerOptions, mcp_close_stream};

fn newest() -> McpHandlerOptions {
    McpHandlerOptions {
        protocol_versions: vec!["2025-06-18".into(), "2025-11-25".into()],
        ..Default::default()
    }
}

/// A tool that tells its progress and two log lines, each after the one before has been taken.
fn reports() -> Tool {
    tool("reports", |_args, context| async move {
        let pause = || tokio::time::sleep(Duration::from_millis(1));
        context.progress(1.0, Some(3.0), Some("one"));
        pause().await;
        context.log(LogLevel::Info, "half way");
        pause().await;
        context.progress(1.0, Some(3.0), Some("again"));
        pause().await;
        context.log(LogLevel::Error, "trouble");
        pause().await;
        context.progress(2.5, None, None);
        Ok("done".into())
    })
}

/// What a client is told of a call of that tool, shortened.
async fn told(client: &Client, meta: Value) -> Vec<String> {
    let params = json!({"name": "reports", "_meta": meta});
    let answer = client.send(request(1, "tools/call", params)).await;
    if answer.headers()["content-type"] == "application/json" {
        let answer = json_of(answer).await;
        return vec![format!("json {}", text(&answer))];
    }
    let messages = Events::of(answer).messages().await;
    let short = |message: &Value| match message["method"].as_str() {
        Some("notifications/progress") => format!("progress {}", message["params"]),
        Some("notifications/message") => format!("log {}", message["params"]),
        _ => format!("answer {} {}", message["id"], text(message)),
    };
    messages.iter().map(short).collect()
}

// MCP-189
#[tokio::test(start_paused = true)]
async fn reports_go_to_who_wants_them() {
    let handler = handler([reports()], newest());
    let client = Client::in_session(&handler, json!({})).await;
    let token = || json!({"progressToken": "p"});
    let progress = [
        r#"progress {"progressToken":"p","progress":1,"total":3,"message":"one"}"#,
        r#"progress {"progressToken":"p","progress":2.5}"#,
    ];
    let info = r#"log {"level":"info","logger":"reports","data":"half way"}"#;
    let trouble = r#"log {"level":"error","logger":"reports","data":"trouble"}"#;
    let done = "answer 1 done";

    assert_eq!(told(&client, json!({})).await, ["json done"]);
    assert_eq!(told(&client, token()).await, [progress[0], progress[1], done]);
    assert_eq!(told(&client.with("accept", "application/json"), token()).await, ["json done"]);
    assert_eq!(told(&client.with("accept", ""), token()).await, ["json done"]);

    assert_eq!(client.ask("logging/setLevel", json!({"level": "error"})).await["result"], json!({}));
    assert_eq!(told(&client, json!({})).await, [trouble, done]);
    client.ask("logging/setLevel", json!({"level": "debug"})).await;
    assert_eq!(told(&client, token()).await, [progress[0], info, trouble, progress[1], done]);
    // The level is the session's own.
    let other = Client::in_session(&handler, json!({})).await;
    assert_eq!(told(&other, json!({})).await, ["json done"]);
    for level in [json!("loud"), json!("INFO"), json!(""), json!(3), json!(null)] {
        let answer = client.ask("logging/setLevel", json!({ "level": level })).await;
        assert_eq!(error(&answer).0, -32602);
    }
    assert_eq!(told(&client, json!({})).await, [info, trouble, done], "as it was");

    let stateless =
        handler_support::handler([reports()], McpHandlerOptions { stateless: true, ..Default::default() });
    let client = Client::new(&stateless);
    assert_eq!(told(&client, token()).await, [progress[0], progress[1], done]);
    assert_eq!(told(&client, json!({})).await, ["json done"]);
}

// MCP-180, SERVE-78, case 90
#[tokio::test]
async fn all_that_listen_hear_of_changes() {
    let handler = handler([], newest());
    handler.notify_tools_changed();
    let client = Client::at(&handler, "2025-06-18", json!({})).await;
    handler.notify_tools_changed();
    let mut first = client.listen().await;
    let mut second = client.listen().await;
    let mut other = Client::at(&handler, "2025-06-18", json!({})).await.listen().await;
    handler.notify_tools_changed();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    for stream in [&mut first, &mut second, &mut other] {
        assert_eq!(stream.message().await, changed);
        assert!(stream.is_quiet());
    }
    drop(second);
    handler.notify_resources_changed();
    handler.notify_prompts_changed();
    for stream in [&mut first, &mut other] {
        assert_eq!(stream.message().await["method"], "notifications/resources/list_changed");
        assert_eq!(stream.message().await["method"], "notifications/prompts/list_changed");
        assert!(stream.is_quiet());
    }
}

// MCP-180, MCP-190: one that does not read loses its stream, the others lose nothing
#[tokio::test]
async fn a_slow_stream_is_closed() {
    let handler = handler([], newest());
    let client = Client::at(&handler, "2025-06-18", json!({})).await;
    let mut slow = client.listen().await;
    let mut brisk = client.listen().await;
    for _ in 0..256 {
        handler.notify_tools_changed();
        brisk.message().await;
    }
    handler.notify_tools_changed();
    brisk.message().await;
    assert_eq!(slow.next().await, None);
    // The session lives, and listens again.
    let mut again = client.listen().await;
    handler.notify_tools_changed();
    again.message().await;
}

// MCP-189: a tool that tells more than its client reads neither waits nor costs the client its call
#[tokio::test]
async fn a_client_that_reads_late_misses_reports_and_nothing_else() {
    let chatty = tool("chatty", |_args, context| async move {
        for line in 0..1_000 {
            context.log(LogLevel::Info, format!("{line}"));
            context.progress(f64::from(line), None, None);
            tokio::task::yield_now().await;
        }
        Ok("done".into())
    });
    let handler = handler([chatty], newest());
    let client = Client::in_session(&handler, json!({})).await;
    client.ask("logging/setLevel", json!({"level": "info"})).await;
    let stream = client.stream("chatty", json!({"progressToken": 1})).await;
    until("its end", || handler.call_count() == 0).await;
    let mut messages = stream.messages().await;
    assert_eq!(text(&messages.pop().unwrap()), "done");
    assert!(messages.len() < 256, "{}", messages.len());
    let told: Vec<&str> = messages.iter().filter_map(|message| message["params"]["data"].as_str()).collect();
    let lines: Vec<u32> = told.iter().filter_map(|line| line.parse().ok()).collect();
    assert!(lines.is_sorted() && lines.last() == Some(&999), "{lines:?}");
    let dropped = told.iter().filter_map(|line| line.strip_suffix(" lines were dropped here"));
    let dropped: usize = dropped.map(|count| count.parse::<usize>().unwrap()).sum();
    assert_eq!(lines.len() + dropped, 1_000);
    let newest = messages.iter().filter_map(|message| message["params"]["progress"].as_u64()).next_back();
    assert_eq!(newest, Some(999));
}

// MCP-189: what a client that does not read costs is not the client's choice
#[tokio::test]
async fn a_large_token_does_not_fill_the_memory() {
    let chatty = tool("chatty", |_args, context| async move {
        for step in 0..200 {
            context.progress(f64::from(step), None, None);
            tokio::task::yield_now().await;
        }
        Ok("done".into())
    });
    let handler = handler([chatty], newest());
    let client = Client::in_session(&handler, json!({})).await;
    let token = "t".repeat(512 * 1024);
    let stream = client.stream("chatty", json!({ "progressToken": token })).await;
    until("its end", || handler.call_count() == 0).await;
    let mut messages = stream.messages().await;
    assert_eq!(text(&messages.pop().unwrap()), "done");
    assert!(messages.len() <= 4, "{}", messages.len());
    assert_eq!(messages.last().unwrap()["params"]["progress"], 199);
}

// MCP-179
#[tokio::test(start_paused = true)]
async fn silence_is_broken_by_comments() {
    let slow = tool("slow", |_args, context| async move {
        context.progress(0.0, None, None);
        tokio::time::sleep(Duration::from_secs(40)).await;
        Ok("done".into())
    });
    let handler = handler([slow], newest());
    let client = Client::at(&handler, "2025-06-18", json!({})).await;
    let mut listening = client.listen().await;
    let began = tokio::time::Instant::now();
    for round in 1..4 {
        assert!(listening.next().await.unwrap().comment);
        assert_eq!(began.elapsed(), Duration::from_secs(15 * round));
    }
    handler.notify_tools_changed();
    assert!(listening.next().await.unwrap().data.is_some());

    let mut calling = client.stream("slow", json!({"progressToken": 1})).await;
    assert_eq!(calling.message().await["params"]["progress"], 0);
    assert!(calling.next().await.unwrap().comment);
    assert!(calling.next().await.unwrap().comment);
    assert_eq!(text(&calling.message().await), "done");
    assert_eq!(calling.next().await, None);
}

// Several calls stream at once, and neither waits for the other
#[tokio::test]
async fn streams_of_one_session_are_independent() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let slow = tool("slow", move |_args, context| {
        let held = Arc::clone(&held);
        async move {
            context.progress(1.0, None, None);
            held.acquire().await?.forget();
            Ok("slow".into())
        }
    });
    let handler = handler([slow, handler_support::echo()], newest());
    let client = Client::in_session(&handler, json!({})).await;
    let mut open = Vec::new();
    for token in 0..5 {
        let mut stream = client.stream("slow", json!({"progressToken": token})).await;
        assert_eq!(stream.message().await["params"]["progressToken"], token);
        open.push(stream);
    }
    assert_eq!(text(&client.call("echo", json!({"text": "hi"})).await), "hi");
    gate.add_permits(5);
    for mut stream in open {
        assert_eq!(text(&stream.message().await), "slow");
        assert_eq!(stream.next().await, None);
    }
}

/// A handler with a tool that sends its client away, and then waits for a permit.
fn polling() -> (McpHandler, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let poll = tool("poll", move |_args, context| {
        let held = Arc::clone(&held);
        async move {
            let left = mcp_close_stream(&context, Duration::from_millis(50));
            held.acquire().await?.forget();
            context.log(LogLevel::Info, "back at work");
            held.acquire().await?.forget();
            Ok(format!("left: {left}"))
        }
    });
    (handler([poll], newest()), gate)
}

// MCP-189 and polling: the stream is ended before the answer is there, and the client comes back for it
#[tokio::test]
async fn a_client_comes_back_for_its_answer() {
    let (handler, gate) = polling();
    let client = Client::in_session(&handler, json!({})).await;
    client.ask("logging/setLevel", json!({"level": "info"})).await;
    let mut stream = client.stream("poll", json!({})).await;
    let primed = stream.next().await.unwrap();
    assert_eq!((primed.retry, primed.data.as_deref()), (Some(50), Some("")));
    let id = primed.id.unwrap();
    assert_eq!(stream.next().await, None);
    drop(stream);
    assert_eq!(handler.call_count(), 1, "it goes on");
    gate.add_permits(1);

    let back = client.with("last-event-id", &id);
    let mut stream = back.listen().await;
    let line = stream.next().await.unwrap();
    assert_eq!(line.message()["params"]["data"], "back at work");
    // The line breaks here, and what came last did not arrive.
    drop(stream);
    gate.add_permits(1);
    until("the end of the call", || handler.call_count() == 0).await;
    let mut stream = back.listen().await;
    assert_eq!(stream.next().await.unwrap(), line);
    let answer = stream.next().await.unwrap();
    assert_eq!(text(&answer.message()), "left: true");
    assert_eq!(stream.next().await, None);

    // And once more, behind the answer: nothing is left.
    let mut stream = client.with("last-event-id", answer.id.as_deref().unwrap()).listen().await;
    assert_eq!(stream.next().await, None);
    // Another session has nothing of it.
    let other = Client::at(&handler, "2025-06-18", json!({})).await;
    assert!(other.with("last-event-id", &id).listen().await.is_quiet());
}

// A client that would not come back keeps its stream
#[tokio::test]
async fn who_cannot_come_back_is_not_sent_away() {
    let (handler, gate) = polling();
    gate.add_permits(6);
    let old = Client::at(&handler, "2025-06-18", json!({})).await;
    let json_only = Client::in_session(&handler, json!({})).await.with("accept", "application/json");
    for client in [old, json_only] {
        assert_eq!(text(&client.call("poll", json!({})).await), "left: false");
    }
    let stateless = handler_support::handler(
        [tool("poll", |_args, context| async move {
            Ok(format!("left: {}", mcp_close_stream(&context, Duration::ZERO)))
        })],
        McpHandlerOptions { stateless: true, ..newest() },
    );
    let client = Client::new(&stateless).with("mcp-protocol-version", "2025-11-25");
    assert_eq!(text(&client.call("poll", json!({})).await), "left: false");
    assert!(!mcp_close_stream(&toolnexus_core::ToolContext::default(), Duration::ZERO));
}

// MCP-181: nobody works for ever for a client that stays away
#[tokio::test(start_paused = true)]
async fn who_stays_away_is_not_waited_for() {
    let (handler, _gate) = polling();
    let client = Client::in_session(&handler, json!({})).await;
    let stream = client.stream("poll", json!({})).await;
    drop(stream);
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(handler.call_count(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(handler.call_count(), 0);

    // Coming back starts the time anew, and cancelling ends it at once.
    let mut stream = client.stream("poll", json!({})).await;
    let id = stream.next().await.unwrap().id.unwrap();
    drop(stream);
    tokio::time::sleep(Duration::from_secs(200)).await;
    drop(client.with("last-event-id", &id).listen().await);
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(handler.call_count(), 1);
    client.send(handler_support::notification("notifications/cancelled", json!({"requestId": 1}))).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(handler.call_count(), 0);
}

// A standing stream that broke is taken up where it was
#[tokio::test(start_paused = true)]
async fn a_standing_stream_is_resumed() {
    let handler = handler([], newest());
    let client = Client::in_session(&handler, json!({})).await;
    let mut stream = client.listen().await;
    let primed = stream.next().await.unwrap();
    assert_eq!(primed.data.as_deref(), Some(""));
    handler.notify_tools_changed();
    let seen = stream.next().await.unwrap();
    drop(stream);
    handler.notify_prompts_changed();
    let back = client.with("last-event-id", seen.id.as_deref().unwrap());
    let mut stream = back.listen().await;
    assert_eq!(stream.message().await["method"], "notifications/prompts/list_changed");
    assert!(stream.is_quiet());
    let mut stream = client.with("last-event-id", primed.id.as_deref().unwrap()).listen().await;
    assert_eq!(stream.next().await.unwrap(), seen);
    drop(stream);

    // Too late, or nonsense: a new stream.
    tokio::time::advance(Duration::from_secs(301)).await;
    handler.notify_tools_changed();
    for id in [seen.id.as_deref().unwrap(), "nonsense", "0-0", "99-1"] {
        let mut stream = client.with("last-event-id", id).listen().await;
        assert_eq!(stream.next().await.unwrap().data.as_deref(), Some(""));
        assert!(stream.is_quiet());
    }
    // Older clients do not know events without data.
    let old = Client::at(&handler, "2025-06-18", json!({})).await;
    assert!(old.listen().await.is_quiet());
}

// Streams that nobody comes back to do not add up
#[tokio::test]
async fn few_streams_wait_for_their_client() {
    let handler = handler([], newest());
    let client = Client::in_session(&handler, json!({})).await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        let mut stream = client.listen().await;
        ids.push(stream.next().await.unwrap().id.unwrap());
    }
    handler.notify_tools_changed();
    let back = async |id: &String| {
        let mut stream = client.with("last-event-id", id).listen().await;
        stream.next().await.unwrap().data.as_deref() != Some("")
    };
    assert!(back(&ids[49]).await);
    assert!(!back(&ids[0]).await);
}

// MCP-179: a stream needs a session
#[tokio::test]
async fn a_stream_is_of_a_session() {
    let handler = handler([], newest());
    let answer = Client::new(&handler).raw(Method::GET, "").await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let client = Client::in_session(&handler, json!({})).await;
    let mut stream = client.with("accept", "text/event-stream").with("content-type", "").listen().await;
    assert!(stream.next().await.unwrap().id.is_some());
    client.raw(Method::DELETE, "").await;
    assert_eq!(stream.next().await, None);
}
