//! Questions to the person behind a client: before a call, and within one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod handler_support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use handler_support::{Client, Events, error, handler, request, soon, text, tool, until};
use http::StatusCode;
use serde_json::{Value, json};
use toolnexus_core::{Tool, ToolResult};
use toolnexus_mcp::server::{McpDecision, McpHandler, McpHandlerOptions};

/// A handler with one dangerous tool, and how often that ran.
fn dangerous(result: Option<ToolResult>, confirm_timeout_ms: u64) -> (McpHandler, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let delete = tool("delete", move |_args, _context| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok("deleted".into()) }
    });
    let options = McpHandlerOptions {
        before_call: Some(Arc::new(move |_context, _tool, _args| {
            let result = result.clone();
            Box::pin(async move { Ok(McpDecision::Confirm { message: "Delete the record?".into(), result }) })
        })),
        confirm_timeout_ms,
        ..Default::default()
    };
    (handler([delete], options), ran)
}

fn bypass() -> Option<ToolResult> {
    Some(ToolResult::success("repeat with nonce 42"))
}

/// A client that can ask its person.
async fn asking(handler: &McpHandler) -> Client {
    Client::in_session(handler, json!({"elicitation": {}})).await
}

/// Answers a question.
async fn reply(client: &Client, question: &Value, result: Value) {
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    assert_eq!(client.send(answer).await.status(), StatusCode::ACCEPTED);
}

/// Calls, answers the question with `result`, and gives the call's result.
async fn confirmed(client: &Client, result: Value) -> Value {
    let mut events = client.stream("delete", json!({})).await;
    let question = events.message().await;
    reply(client, &question, result).await;
    let mut rest = events.messages().await;
    assert_eq!(rest.len(), 1);
    rest.remove(0)
}

// MCP-169, SERVE-76, case 87
#[tokio::test]
async fn the_person_behind_the_client_is_asked() {
    let (handler, ran) = dangerous(bypass(), 0);
    for form in [json!({}), json!({"form": {}}), json!({"form": {}, "url": {}})] {
        let client = Client::in_session(&handler, json!({ "elicitation": form })).await;
        let mut events = client.stream("delete", json!({})).await;
        let question = events.message().await;
        assert_eq!(question["jsonrpc"], "2.0");
        assert!(question["id"].is_u64());
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(
            question["params"],
            json!({"message": "Delete the record?", "requestedSchema": {"type": "object", "properties": {}}})
        );
        assert!(events.is_quiet());
        reply(&client, &question, json!({"action": "accept", "content": {}})).await;
        let answer = events.message().await;
        assert_eq!((text(&answer), &answer["id"]), ("deleted", &json!(1)));
        assert_eq!(events.next().await, None);
    }
    assert_eq!(ran.load(Ordering::SeqCst), 3);
}

// MCP-169, case 87: what is no consent is none, and the way around is not shown
#[tokio::test]
async fn a_refusal_is_one() {
    let (handler, ran) = dangerous(bypass(), 0);
    let client = asking(&handler).await;
    for answer in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "x"}),
        json!({}),
        json!(null),
    ] {
        let result = confirmed(&client, answer).await;
        assert_eq!(text(&result), "confirmation declined: Delete the record?");
        assert_eq!(result["result"]["isError"], true);
        assert!(!result.to_string().contains("nonce"));
    }
    let mut events = client.stream("delete", json!({})).await;
    let question = events.message().await;
    let failed =
        json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no person"}});
    client.send(failed).await;
    assert_eq!(text(&events.message().await), "confirmation declined: Delete the record?");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

// MCP-169, case 87: nobody answers
#[tokio::test(start_paused = true)]
async fn no_answer_is_a_refusal() {
    for (limit, ms) in [(200, 200), (0, 300_000)] {
        let (handler, ran) = dangerous(bypass(), limit);
        let client = asking(&handler).await;
        let began = tokio::time::Instant::now();
        let mut events = client.stream("delete", json!({})).await;
        let question = events.message().await;
        let withdrawn = events.message().await;
        assert_eq!(began.elapsed().as_millis(), ms);
        assert_eq!(withdrawn["method"], "notifications/cancelled");
        assert_eq!(withdrawn["params"]["requestId"], question["id"]);
        assert_eq!(text(&events.message().await), "confirmation declined: Delete the record?");
        reply(&client, &question, json!({"action": "accept"})).await;
        assert_eq!(events.next().await, None);
        assert_eq!(ran.load(Ordering::SeqCst), 0);
    }
}

// MCP-170, SERVE-76, case 86
#[tokio::test]
async fn a_client_that_cannot_ask_gets_the_result() {
    for (result, said, is_error) in
        [(bypass(), "repeat with nonce 42", false), (None, "confirmation required: Delete the record?", true)]
    {
        let (handler, ran) = dangerous(result.clone(), 0);
        let plain = Client::in_session(&handler, json!({})).await;
        let other = Client::in_session(&handler, json!({"elicitation": {"url": {}}})).await;
        let odd = Client::in_session(&handler, json!({"elicitation": true})).await;
        // MCP-189: nor can one whose answers are JSON
        let json_only = asking(&handler).await.with("accept", "application/json");
        for client in [plain, other, odd, json_only] {
            let answer = client.call("delete", json!({})).await;
            assert_eq!((text(&answer), &answer["result"]["isError"]), (said, &json!(is_error)));
        }
        assert_eq!(ran.load(Ordering::SeqCst), 0);
    }
    let options = McpHandlerOptions {
        stateless: true,
        before_call: Some(Arc::new(|_, _, _| {
            Box::pin(async { Ok(McpDecision::Confirm { message: "Sure?".into(), result: None }) })
        })),
        ..Default::default()
    };
    let stateless = handler([handler_support::echo()], options);
    let answer = Client::new(&stateless).call("echo", json!({})).await;
    assert_eq!(text(&answer), "confirmation required: Sure?");
}

// MCP-169, MCP-181: nobody is asked for a client that is gone
#[tokio::test]
async fn a_question_ends_with_its_stream() {
    let (handler, ran) = dangerous(None, 0);
    let client = asking(&handler).await;
    let mut events = client.stream("delete", json!({})).await;
    let question = events.message().await;
    assert_eq!(handler.call_count(), 1);
    drop(events);
    until("the end of the call", || handler.call_count() == 0).await;
    reply(&client, &question, json!({"action": "accept"})).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);

    // The same when the call is taken back, and when the session ends.
    let mut events = client.stream("delete", json!({})).await;
    events.message().await;
    client.send(handler_support::notification("notifications/cancelled", json!({"requestId": 1}))).await;
    assert_eq!(events.next().await, None);
    let mut events = client.stream("delete", json!({})).await;
    events.message().await;
    assert_eq!(client.raw(http::Method::DELETE, "").await.status(), StatusCode::NO_CONTENT);
    assert_eq!(events.next().await, None);
    until("the end of the call", || handler.call_count() == 0).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

// MCP-163, MCP-169: another session cannot answer
#[tokio::test]
async fn an_answer_counts_in_its_own_session() {
    let (handler, ran) = dangerous(None, 0);
    let client = asking(&handler).await;
    let other = asking(&handler).await;
    let mut events = client.stream("delete", json!({})).await;
    let question = events.message().await;
    reply(&other, &question, json!({"action": "accept"})).await;
    assert!(events.is_quiet());
    // Some clients send the number back as text.
    let answer = json!({"jsonrpc": "2.0", "id": question["id"].to_string(), "result": {"action": "accept"}});
    client.send(answer).await;
    assert_eq!(text(&events.message().await), "deleted");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

/// A tool that asks for a city.
fn weather() -> Tool {
    tool("weather", |_args, context| async move {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string", "x-note": 1}}});
        let answer = context.elicit("Which city?", schema).await?;
        let city = answer.data.unwrap_or_default().remove("city").unwrap_or_default();
        Ok(format!("{} {} {:?}", answer.ok, city, answer.reason))
    })
}

// MCP-189: a tool asks within its call, and goes on with the answer
#[tokio::test]
async fn a_tool_asks_within_its_call() {
    let handler = handler([weather()], McpHandlerOptions::default());
    let client = asking(&handler).await;
    let ask = async |result: Value| {
        let mut events: Events = client.stream("weather", json!({})).await;
        let question = events.message().await;
        assert_eq!(question["method"], "elicitation/create");
        let schema = json!({"type": "object", "properties": {"city": {"type": "string", "x-note": 1}}});
        assert_eq!(question["params"], json!({"message": "Which city?", "requestedSchema": schema}));
        reply(&client, &question, result).await;
        let answer = events.message().await;
        assert_eq!(events.next().await, None);
        text(&answer).to_owned()
    };
    assert_eq!(ask(json!({"action": "accept", "content": {"city": "Kochi"}})).await, r#"true "Kochi" None"#);
    assert_eq!(ask(json!({"action": "decline"})).await, r#"false null Some("declined")"#);
    assert_eq!(ask(json!({"action": "cancel"})).await, r#"false null Some("cancelled")"#);
}

// MCP-189: the limit of a question
#[tokio::test(start_paused = true)]
async fn a_tools_question_expires() {
    let handler = handler([weather()], McpHandlerOptions { confirm_timeout_ms: 200, ..Default::default() });
    let client = asking(&handler).await;
    let mut events = client.stream("weather", json!({})).await;
    events.message().await;
    assert_eq!(events.message().await["method"], "notifications/cancelled");
    assert_eq!(text(&events.message().await), r#"false null Some("expired")"#);
}

// MCP-189, MCP-172: who cannot be asked gets a suspension, which is a failure that says what is asked
#[tokio::test]
async fn a_question_to_nobody_is_a_suspension() {
    let handler = handler([weather()], McpHandlerOptions::default());
    let plain = Client::in_session(&handler, json!({})).await;
    let url_only = Client::in_session(&handler, json!({"elicitation": {"url": {}}})).await;
    let json_only = asking(&handler).await.with("accept", "application/json");
    for client in [plain, url_only, json_only] {
        let answer = client.call("weather", json!({})).await;
        assert_eq!((text(&answer), &answer["result"]["isError"]), ("Which city?", &json!(true)));
    }
    let stateless =
        handler_support::handler([weather()], McpHandlerOptions { stateless: true, ..Default::default() });
    assert_eq!(text(&Client::new(&stateless).call("weather", json!({})).await), "Which city?");
}

// Several calls of one session ask at once
#[tokio::test]
async fn questions_are_told_apart() {
    let handler = handler([weather()], McpHandlerOptions::default());
    let client = asking(&handler).await;
    let mut open = Vec::new();
    for id in 0..3 {
        let call = request(id, "tools/call", json!({"name": "weather"}));
        let mut events = Events::of(client.send(call).await);
        let question = events.message().await;
        open.push((id, events, question));
    }
    for (id, mut events, question) in open.into_iter().rev() {
        reply(&client, &question, json!({"action": "accept", "content": {"city": id}})).await;
        let answer = soon(events.message()).await;
        assert_eq!((text(&answer), &answer["id"]), (format!("true {id} None").as_str(), &json!(id)));
    }
    assert_eq!(error(&client.call("nothing", json!({})).await).0, -32602);
}

// MCP-171, SERVE-77: what came of the question is told
#[tokio::test]
async fn what_came_of_a_question_is_told() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&events);
    let options = McpHandlerOptions {
        before_call: Some(Arc::new(|_, _, _| {
            Box::pin(async { Ok(McpDecision::Confirm { message: "Sure?".into(), result: None }) })
        })),
        on_call: Some(Arc::new(move |event| noted.lock().unwrap().push(event))),
        ..Default::default()
    };
    let delete = tool("delete", |_args, _context| async { Ok("deleted".into()) });
    let handler = handler([delete], options);
    let client = asking(&handler).await;
    confirmed(&client, json!({"action": "accept"})).await;
    confirmed(&client, json!({"action": "decline"})).await;
    let mut gone = client.stream("delete", json!({})).await;
    gone.message().await;
    drop(gone);
    until("the end of the call", || handler.call_count() == 0).await;
    client.with("accept", "application/json").call("delete", json!({})).await;
    let events = std::mem::take(&mut *events.lock().unwrap());
    let told: Vec<_> =
        events.iter().map(|event| (event.decision.to_string(), event.is_error, event.err.clone())).collect();
    assert_eq!(
        told,
        [
            ("confirm-accepted".to_owned(), false, None),
            ("confirm-refused".to_owned(), true, None),
            ("confirm-refused".to_owned(), true, Some("cancelled".to_owned())),
            ("confirm-unavailable".to_owned(), true, None),
        ]
    );
}
