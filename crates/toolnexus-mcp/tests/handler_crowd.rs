//! Many clients at once, on several threads, that come, ask, stay and go as they like.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod handler_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handler_support::{Client, PATIENCE, error, handler, notification, request, text, tool};
use http::Method;
use serde_json::json;
use toolnexus_core::LogLevel;
use toolnexus_mcp::server::{McpHandlerOptions, mcp_close_stream};

const CLIENTS: usize = 60;

// MCP-92, MCP-176, MCP-181, MCP-190: nobody gets another's answer, and nothing is left
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_leaves_nothing_behind() {
    let running = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&running);
    let work = tool("work", move |args, context| {
        struct Ends(Arc<AtomicUsize>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        counted.fetch_add(1, Ordering::SeqCst);
        let ends = Ends(Arc::clone(&counted));
        async move {
            let _ends = ends;
            for step in 0..20 {
                context.log(LogLevel::Info, format!("step {step}"));
                context.progress(f64::from(step), Some(20.0), None);
                tokio::task::yield_now().await;
            }
            match args["how"].as_str() {
                Some("for ever") => std::future::pending().await,
                Some("ask") => {
                    Ok(format!("{:?}", context.elicit("?", json!({"type": "object"})).await?.data))
                }
                Some("away") => {
                    mcp_close_stream(&context, Duration::from_millis(1));
                    Ok("away".into())
                }
                _ => Ok(args["text"].to_string()),
            }
        }
    });
    let options = McpHandlerOptions { protocol_versions: vec!["2025-11-25".into()], ..Default::default() };
    let handler = handler([work], options);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let client = Client::new(&handler);
        clients.spawn(async move { visit(client, number).await });
    }
    while let Some(visited) = clients.join_next().await {
        visited.unwrap();
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while handler.call_count() > 0 || running.load(Ordering::SeqCst) > 0 {
        assert!(tokio::time::Instant::now() < deadline, "{} calls are left", handler.call_count());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(handler.session_count(), CLIENTS / 2);
    handler.close().await;
    assert_eq!(handler.session_count(), 0);
}

async fn visit(mut client: Client, number: usize) {
    client.initialize("2025-11-25", json!({"elicitation": {}})).await;
    client.ask("logging/setLevel", json!({"level": "debug"})).await;
    let mut listening = client.listen().await;
    let call = |id: usize, how: &str| {
        let arguments = json!({"how": how, "text": format!("{number}-{id}")});
        request(
            id,
            "tools/call",
            json!({"name": "work", "arguments": arguments, "_meta": {"progressToken": id}}),
        )
    };
    let plain = client.with("accept", "application/json");
    for id in 0..4 {
        let answer = handler_support::json_of(plain.send(call(id, "")).await).await;
        assert_eq!((text(&answer), &answer["id"]), (format!("\"{number}-{id}\"").as_str(), &json!(id)));

        let mut stream = handler_support::Events::of(client.send(call(10 + id, "ask")).await);
        let question = loop {
            let message = stream.message().await;
            if message["method"] == "elicitation/create" {
                break message;
            }
        };
        client.handler.notify_resource_updated("mem:nobody");
        let content = json!({"number": number, "id": id});
        let reply = json!({"id": question["id"], "result": {"action": "accept", "content": content}});
        client.send(reply).await;
        let answer = stream.messages().await.pop().unwrap();
        assert_eq!(answer["id"], 10 + id);
        assert!(text(&answer).contains(&format!("Number({number})")), "{answer}");

        drop(client.send(call(20 + id, "for ever")).await);
        let withdrawn = tokio::spawn(plain.begin(Method::POST, call(30 + id, "for ever").to_string()));
        while !withdrawn.is_finished() {
            client.send(notification("notifications/cancelled", json!({"requestId": 30 + id}))).await;
            // None of this waits for anything, and the call needs a turn.
            tokio::task::yield_now().await;
        }
        let answer = handler_support::json_of(withdrawn.await.unwrap()).await;
        assert_eq!(error(&answer).0, -32800);

        let mut stream = handler_support::Events::of(client.send(call(40 + id, "away")).await);
        let mut last = String::new();
        let mut answered = false;
        while !answered {
            while let Some(event) = stream.next().await {
                last = event.id.clone().unwrap_or(last);
                let data = event.data.as_deref().unwrap_or_default();
                answered |= !data.is_empty() && event.message()["id"] == 40 + id;
            }
            if !answered {
                stream = client.with("last-event-id", &last).listen().await;
            }
        }
    }
    if number.is_multiple_of(2) {
        client.raw(Method::DELETE, "").await;
        while listening.next().await.is_some() {}
    }
}
