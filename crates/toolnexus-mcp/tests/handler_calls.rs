//! Calls through the handler: who may see and call what, and what comes back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod handler_support;
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use handler_support::{Client, echo, error, handler, request, soon, text, tool, until};
use http::StatusCode;
use serde_json::{Map, Value, json};
use toolnexus_core::{
    ContentPart, Identity, Tool, ToolContext, ToolHints, ToolResult, Toolkit, auth_required, define_tool,
};
use toolnexus_mcp::server::{
    McpCallEvent, McpDecision, McpHandlerOptions, McpHookError, McpServerDetails, mcp_handler, mcp_identity,
    mcp_request, mcp_request_meta, mcp_session_id,
};

/// Whoever sends a token has it as its identity.
fn by_token() -> McpHandlerOptions {
    McpHandlerOptions {
        authenticate: Some(Arc::new(|request| {
            Box::pin(async move {
                let token = request.headers.get("authorization").ok_or("no token")?;
                let id = token.to_str()?.trim_start_matches("Bearer ").to_owned();
                Ok(Identity::with_data(id.clone(), format!("data of {id}")))
            })
        })),
        www_authenticate: Some(Arc::new(|_, _| Some("Bearer".into()))),
        ..Default::default()
    }
}

fn both_versions() -> Vec<String> {
    vec!["2025-06-18".into(), "2025-11-25".into()]
}

/// A tool that counts how often it ran.
fn counting(name: &'static str) -> (Tool, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let tool = tool(name, move |_args, _context| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok(format!("{name} ran")) }
    });
    (tool, ran)
}

type Events = Arc<Mutex<Vec<McpCallEvent>>>;

fn noted() -> (Events, McpHandlerOptions) {
    let events = Events::default();
    let noted = Arc::clone(&events);
    let on_call: toolnexus_mcp::server::OnMcpCall = Arc::new(move |event| noted.lock().unwrap().push(event));
    (events, McpHandlerOptions { on_call: Some(on_call), ..Default::default() })
}

// MCP-162, SERVE-74
#[tokio::test]
async fn the_server_says_what_it_is() {
    let introduced = async |options: McpHandlerOptions| {
        let handler = handler([], options);
        Client::new(&handler).initialize("2025-06-18", json!({})).await["result"].take()
    };
    assert_eq!(
        introduced(McpHandlerOptions::default()).await,
        json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": true}, "logging": {}},
            "serverInfo": {"name": "toolnexus", "version": "0.1.0"},
        })
    );
    let named = || McpHandlerOptions {
        name: "n".into(),
        title: Some("T".into()),
        version: "2".into(),
        instructions: Some("Use it".into()),
        ..Default::default()
    };
    assert_eq!(
        introduced(named()).await,
        json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": true}, "logging": {}},
            "serverInfo": {"name": "n", "title": "T", "version": "2"},
            "instructions": "Use it",
        })
    );
    let hooked = McpHandlerOptions {
        server_info: Some(Arc::new(|context| {
            Box::pin(async move {
                assert!(context.session_id.is_some() && context.request.is_some());
                let instructions = context.meta.map(|meta| meta.to_string());
                Ok(McpServerDetails { name: Some("h".into()), instructions, ..Default::default() })
            })
        })),
        ..named()
    };
    let result = introduced(hooked).await;
    assert_eq!(result["serverInfo"], json!({"name": "h", "title": "T", "version": "2"}));
    assert_eq!(result["instructions"], "Use it");
    let all = McpHandlerOptions {
        server_info: Some(Arc::new(|_context| {
            let some = |text: &str| Some(text.to_owned());
            let (name, title, version, instructions) = (some("h"), some("H"), some("3"), some("Or do not"));
            Box::pin(async move { Ok(McpServerDetails { name, title, version, instructions }) })
        })),
        ..named()
    };
    let result = introduced(all).await;
    assert_eq!(result["serverInfo"], json!({"name": "h", "title": "H", "version": "3"}));
    assert_eq!(result["instructions"], "Or do not");
    let stateless = introduced(McpHandlerOptions { stateless: true, ..Default::default() }).await;
    assert_eq!(stateless["capabilities"], json!({"tools": {"listChanged": true}}));

    let failing = McpHandlerOptions {
        server_info: Some(Arc::new(|_| Box::pin(async { Err("secret".into()) }))),
        ..named()
    };
    let failing = handler([], failing);
    let answer = Client::new(&failing).initialize("2025-06-18", json!({})).await;
    assert_eq!(error(&answer), (-32603, "Internal error"));
    assert_eq!(failing.session_count(), 0);
}

// MCP-163, MCP-165, SERVE-74, SERVE-75, case 85
#[tokio::test]
async fn each_caller_has_its_own_tools() {
    let (wipe, wiped) = counting("wipe");
    let (search, _) = counting("search");
    let options = McpHandlerOptions {
        list_tools: Some(Arc::new(move |context| {
            let alice = context.identity.is_some_and(|caller| caller.id == "alice");
            let tools = if alice { vec![wipe.clone(), search.clone()] } else { vec![search.clone()] };
            Box::pin(async move { Ok(tools) })
        })),
        ..by_token()
    };
    // What the toolkit has is of no account then.
    let handler = handler([echo()], options);
    let names = |answer: &Value| -> Vec<String> {
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut alice = Client::new(&handler).with("authorization", "Bearer alice");
    alice.initialize("2025-06-18", json!({})).await;
    assert_eq!(names(&alice.ask("tools/list", json!({})).await), ["wipe", "search"], "in the hook's order");
    let mut bob = Client::new(&handler).with("authorization", "Bearer bob");
    bob.initialize("2025-06-18", json!({})).await;
    assert_eq!(names(&bob.ask("tools/list", json!({})).await), ["search"]);
    assert_eq!(error(&bob.call("wipe", json!({})).await), (-32602, "tool not found: wipe"));
    assert_eq!(error(&alice.call("echo", json!({})).await), (-32602, "tool not found: echo"));
    assert_eq!(wiped.load(Ordering::SeqCst), 0);
    assert_eq!(text(&alice.call("wipe", json!({})).await), "wipe ran");
    let nobody = alice.with("authorization", "");
    let answer = nobody.send(request(1, "tools/list", json!({}))).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    // A session is its first caller's.
    let thief = bob.with("mcp-session-id", &alice.session_id());
    let answer = thief.send(request(1, "tools/list", json!({}))).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
}

// MCP-165: without its list, nothing is listed and nothing is run
#[tokio::test]
async fn a_list_that_fails_lets_nothing_through() {
    let (count, ran) = counting("count");
    for panics in [false, true] {
        let options = McpHandlerOptions {
            list_tools: Some(Arc::new(move |_| {
                assert!(!panics, "secret reason");
                Box::pin(async { Err("secret reason".into()) })
            })),
            ..Default::default()
        };
        let handler = handler([count.clone()], options);
        let client = Client::in_session(&handler, json!({})).await;
        assert_eq!(error(&client.ask("tools/list", json!({})).await), (-32603, "Internal error"));
        assert_eq!(error(&client.call("count", json!({})).await), (-32603, "Internal error"));
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

// MCP-166
#[tokio::test]
async fn a_listing_shows_all_of_a_tool() {
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false});
    let full =
        define_tool("b.full", "Does", Some(schema.clone()), |_args, _context| async { Ok::<_, String>("") })
            .title("Full")
            .hints(ToolHints { read_only: true, ..Default::default() });
    let plain = define_tool("a plain", "", None, |_args, _context| async { Ok::<_, String>("") });
    let handler = handler([full, plain], McpHandlerOptions::default());
    let client = Client::in_session(&handler, json!({})).await;
    assert_eq!(
        client.ask("tools/list", json!({"cursor": "x"})).await["result"],
        json!({"tools": [
            {"name": "a plain", "description": "", "inputSchema": {"type": "object"}},
            {"name": "b.full", "title": "Full", "description": "Does", "inputSchema": schema, "annotations":
                {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false}},
        ]})
    );
    assert_eq!(error(&client.call("a_plain", json!({})).await), (-32602, "tool not found: a_plain"));
}

// MCP-164: a tool and a hook know the request; the result and the tool's data do not
#[tokio::test]
async fn a_tool_knows_for_whom_it_works() {
    let seen = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&seen);
    let look = tool("look", move |_args, context| {
        *noted.lock().unwrap() = Some(context);
        async { Ok("looked".into()) }
    });
    let hooked = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&hooked);
    let options = McpHandlerOptions {
        before_call: Some(Arc::new(move |context, _tool, _args| {
            *noted.lock().unwrap() = Some(context);
            Box::pin(async { Ok(McpDecision::Allow) })
        })),
        ..by_token()
    };
    let handler = handler([look], options);
    let mut client = Client::new(&handler).with("authorization", "Bearer alice");
    client.initialize("2025-06-18", json!({})).await;
    let params = json!({"name": "look", "_meta": {"progressToken": 1, "trace": "t"}});
    let answer = client.ask("tools/call", params).await;
    assert_eq!(answer["result"], json!({"content": [{"type": "text", "text": "looked"}], "isError": false}));

    let context = seen.lock().unwrap().take().unwrap();
    let identity = mcp_identity(&context).unwrap();
    assert_eq!(
        (identity.id.as_str(), identity.data::<String>().unwrap().as_str()),
        ("alice", "data of alice")
    );
    let request = mcp_request(&context).unwrap();
    assert_eq!(request.uri.query(), Some("key=value"));
    assert_eq!(request.headers["authorization"], "Bearer alice");
    assert_eq!(mcp_session_id(&context), Some(client.session_id()));
    assert_eq!(mcp_request_meta(&context), Some(json!({"progressToken": 1, "trace": "t"})));
    assert!(context.data.is_empty());

    let hooked = hooked.lock().unwrap().take().unwrap();
    assert_eq!(hooked.identity, Some(Identity::new("alice")));
    assert_eq!(hooked.session_id, Some(client.session_id()));
    assert_eq!(hooked.meta, Some(json!({"progressToken": 1, "trace": "t"})));
    assert!(Arc::ptr_eq(&hooked.request.clone().unwrap(), &request));
    assert!(!format!("{hooked:?} {context:?}").contains("Bearer"));

    let outside = ToolContext::default();
    assert!(mcp_identity(&outside).is_none() && mcp_request(&outside).is_none());
    assert!(mcp_session_id(&outside).is_none() && mcp_request_meta(&outside).is_none());
}

// MCP-167, MCP-168, SERVE-76
#[tokio::test]
async fn a_call_may_be_denied() {
    let (count, ran) = counting("count");
    let denied = |result: Option<ToolResult>| McpDecision::Deny { message: "not today".into(), result };
    let given = ToolResult::success("use the other one").with_parts(vec![ContentPart::text("really")]);
    let decide = move |args: &Map<String, Value>| -> Result<McpDecision, toolnexus_core::BoxError> {
        Ok(match args["how"].as_str().unwrap() {
            "allow" => McpDecision::Allow,
            "deny" => denied(None),
            "result" => denied(Some(given.clone())),
            "told" => return Err(McpHookError::invalid_params("ask your admin").into()),
            "panic" => panic!("secret reason"),
            _ => return Err("secret reason".into()),
        })
    };
    let options = McpHandlerOptions {
        before_call: Some(Arc::new(move |_context, tool, args| {
            assert_eq!(tool.name, "count");
            let decided = decide(&args);
            Box::pin(async move { decided })
        })),
        ..Default::default()
    };
    let handler = handler([count], options);
    let client = Client::in_session(&handler, json!({})).await;
    let call = async |how: &str| client.call("count", json!({"how": how})).await["result"].take();
    let failure = |text: &str| json!({"content": [{"type": "text", "text": text}], "isError": true});
    assert_eq!(call("deny").await, failure("not today"));
    let content = json!([{"type": "text", "text": "use the other one"}, {"type": "text", "text": "really"}]);
    assert_eq!(call("result").await, json!({"content": content, "isError": false}));
    assert_eq!(call("fail").await, failure("the call could not be checked"));
    assert_eq!(call("panic").await, failure("the call could not be checked"));
    assert_eq!(call("told").await, failure("ask your admin"));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(call("allow").await["isError"], false);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    // Not even asked about what could not run.
    assert_eq!(error(&client.call("count", json!(["deny"])).await), (-32602, "arguments must be an object"));
    assert_eq!(error(&client.call("nothing", json!({"how": "panic"})).await).0, -32602);
}

// MCP-171, SERVE-77
#[tokio::test]
async fn each_call_is_told_of() {
    let (events, on_call) = noted();
    let fails = tool("fails", |_args, _context| async { Err("no such file".into()) });
    let panics = tool("panics", |_args, _context| async { panic!("boom") });
    let options = McpHandlerOptions {
        on_call: on_call.on_call,
        before_call: Some(Arc::new(|_context, _tool, args| {
            Box::pin(async move {
                let message = "no".to_owned();
                Ok(match args.get("how").and_then(Value::as_str) {
                    Some("deny") => McpDecision::Deny { message, result: None },
                    Some("confirm") => McpDecision::Confirm { message, result: None },
                    _ => McpDecision::Allow,
                })
            })
        })),
        ..by_token()
    };
    let handler = handler([echo(), fails, panics], options);
    let mut client = Client::new(&handler).with("authorization", "Bearer alice");
    client.initialize("2025-06-18", json!({})).await;
    let answer = client.call("echo", json!({"text": "hi"})).await;
    client.call("fails", json!({})).await;
    client.call("panics", json!({})).await;
    client.call("echo", json!({"how": "deny"})).await;
    client.call("echo", json!({"how": "confirm"})).await;
    client.call("nothing", json!({})).await;
    client.call("echo", json!([1])).await;

    let events = std::mem::take(&mut *events.lock().unwrap());
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.name.as_str(), event.decision.as_str(), event.is_error, event.err.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("echo", "allow", false, None),
            ("fails", "allow", true, Some("no such file")),
            ("panics", "allow", true, Some("boom")),
            ("echo", "deny", true, None),
            ("echo", "confirm-unavailable", true, None),
        ]
    );
    for event in &events {
        assert_eq!(event.source.as_str(), "native");
        assert_eq!(event.identity.as_deref(), Some("alice"));
        assert_eq!(event.session_id, Some(client.session_id()));
    }
    assert_eq!(events[0].result_bytes, answer["result"].to_string().len());
}

// MCP-171: a panic in it changes nothing
#[tokio::test]
async fn who_is_told_changes_nothing() {
    let options = McpHandlerOptions { on_call: Some(Arc::new(|_| panic!("boom"))), ..Default::default() };
    let handler = handler([echo()], options);
    let client = Client::in_session(&handler, json!({})).await;
    for _ in 0..2 {
        assert_eq!(text(&client.call("echo", json!({"text": "hi"})).await), "hi");
    }
}

// MCP-172
#[tokio::test]
async fn data_goes_out_beside_its_text() {
    let tools = [
        define_tool("data", "", None, |_, _| async { ToolResult::structured(json!({"b": 1, "a": [2]})) }),
        define_tool("picture", "", None, |_, _| async {
            ToolResult::success("see").with_parts(vec![ContentPart::from_base64("image/png", "AAAA", None)])
        }),
        define_tool("login", "", None, |_, _| async { auth_required("https://login.example", None) }),
        define_tool("panics", "", None, |_, _| async {
            if true { panic!("boom") } else { ToolResult::default() }
        }),
    ];
    let handler = handler(tools, McpHandlerOptions::default());
    let client = Client::in_session(&handler, json!({})).await;
    let result = async |name: &str| client.call(name, json!(null)).await["result"].to_string();
    assert_eq!(
        result("data").await,
        r#"{"content":[{"type":"text","text":"{\"b\":1,\"a\":[2]}"}],"structuredContent":{"b":1,"a":[2]},"isError":false}"#
    );
    assert_eq!(
        result("picture").await,
        r#"{"content":[{"type":"text","text":"see"},{"type":"image","data":"AAAA","mimeType":"image/png"}],"isError":false}"#
    );
    assert_eq!(
        result("login").await,
        r#"{"content":[{"type":"text","text":"Login required: https://login.example"}],"isError":true}"#
    );
    assert_eq!(result("panics").await, r#"{"content":[{"type":"text","text":"boom"}],"isError":true}"#);
}

// MCP-173, SERVE-75, case 88
#[tokio::test]
async fn arguments_are_an_object() {
    let (count, ran) = counting("count");
    let options = McpHandlerOptions { protocol_versions: both_versions(), ..Default::default() };
    let handler = handler([count.clone()], options);
    let old = Client::at(&handler, "2025-06-18", json!({})).await;
    let new = Client::at(&handler, "2025-11-25", json!({})).await;
    for arguments in [json!([1]), json!("x"), json!(1), json!(true)] {
        let answer = old.call("count", arguments.clone()).await;
        assert_eq!(error(&answer), (-32602, "arguments must be an object"));
        let answer = new.call("count", arguments).await;
        assert_eq!(
            (text(&answer), &answer["result"]["isError"]),
            ("arguments must be an object", &json!(true))
        );
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(text(&old.call("count", json!(null)).await), "count ran");
    assert_eq!(text(&new.ask("tools/call", json!({"name": "count"})).await), "count ran");
    for params in [json!({}), json!({"name": 5}), json!(null)] {
        assert_eq!(error(&old.ask("tools/call", params).await), (-32602, "tool not found: "));
    }

    let options =
        McpHandlerOptions { protocol_versions: both_versions(), stateless: true, ..Default::default() };
    let stateless = handler_support::handler([count], options);
    let client = Client::new(&stateless);
    assert_eq!(error(&client.call("count", json!([1])).await).0, -32602);
    let new = client.with("mcp-protocol-version", "2025-11-25");
    assert_eq!(text(&new.call("count", json!([1])).await), "arguments must be an object");
}

// MCP-181: the client takes one call back, or goes away
#[tokio::test]
async fn a_call_is_cancelled_by_its_client() {
    let (events, options) = noted();
    let cancelled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&cancelled);
    let waits = tool("waits", move |_args, context| {
        let counted = Arc::clone(&counted);
        tokio::spawn(async move {
            context.cancel.cancelled().await;
            counted.fetch_add(1, Ordering::SeqCst);
        });
        std::future::pending()
    });
    let handler = handler([waits, echo()], options);
    let client = Client::in_session(&handler, json!({})).await;
    let other = Client::in_session(&handler, json!({})).await;
    let start = |client: &Client, id: Value| {
        let client = client.clone();
        let call = request(id, "tools/call", json!({"name": "waits"}));
        tokio::spawn(async move { handler_support::json_of(client.send(call).await).await })
    };
    // Whatever may be the id of a request can be taken back.
    for id in ["1e2", "1.0", "123456789012345678901234567890", r#""\u00e9""#] {
        let call = format!(r#"{{"id":{id},"method":"tools/call","params":{{"name":"waits"}}}}"#);
        let call = tokio::spawn(client.begin(http::Method::POST, call));
        until("a call", || handler.call_count() == 1).await;
        let notice = format!(r#"{{"method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
        assert_eq!(client.raw(http::Method::POST, notice).await.status(), StatusCode::ACCEPTED);
        let answer = handler_support::json_of(soon(call).await.unwrap()).await;
        assert_eq!(error(&answer).0, -32800, "{id}");
        until("no call", || handler.call_count() == 0).await;
    }
    until("four ends", || cancelled.load(Ordering::SeqCst) == 4).await;
    cancelled.store(0, Ordering::SeqCst);
    events.lock().unwrap().clear();
    let mine = start(&client, json!(7));
    let text_id = start(&client, json!("7"));
    let theirs = start(&other, json!(7));
    until("three calls", || handler.call_count() == 3).await;
    let notice = handler_support::notification("notifications/cancelled", json!({"requestId": 7}));
    assert_eq!(client.send(notice).await.status(), StatusCode::ACCEPTED);
    assert_eq!(error(&soon(mine).await.unwrap()), (-32800, "request cancelled"));
    until("its end", || handler.call_count() == 2 && cancelled.load(Ordering::SeqCst) == 1).await;

    theirs.abort();
    until("the other's end", || handler.call_count() == 1 && cancelled.load(Ordering::SeqCst) == 2).await;
    assert_eq!(text(&client.call("echo", json!({"text": "still here"})).await), "still here");
    text_id.abort();
    until("no calls", || handler.call_count() == 0).await;
    until("three ends", || cancelled.load(Ordering::SeqCst) == 3).await;
    let events = events.lock().unwrap();
    let waited: Vec<_> = events.iter().filter(|event| event.name == "waits").collect();
    assert_eq!(waited.len(), 3);
    assert!(waited.iter().all(|event| event.err.as_deref() == Some("cancelled") && event.is_error));
}

// RUN-22: the other end of what a call of this library carries
#[tokio::test]
async fn an_idempotency_key_reaches_the_tool() {
    let key = tool("key", |_args, context| async move { Ok(format!("{:?}", context.idempotency_key)) });
    let handler = handler([key], McpHandlerOptions::default());
    let client = Client::in_session(&handler, json!({})).await;
    for (meta, seen) in [
        (json!({"toolnexus/idempotencyKey": "run/1/0"}), r#"Some("run/1/0")"#),
        (json!({"toolnexus/idempotencyKey": 7}), "None"),
        (json!(null), "None"),
    ] {
        let answer = client.ask("tools/call", json!({"name": "key", "_meta": meta})).await;
        assert_eq!(text(&answer), seen);
    }
}

// MCP-165: requests of other kinds are withdrawn as well
#[tokio::test]
async fn a_listing_is_cancelled_by_its_client() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let options = McpHandlerOptions {
        list_tools: Some(Arc::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::pending())
        })),
        ..Default::default()
    };
    let handler = handler([], options);
    let client = Client::in_session(&handler, json!({})).await;
    let listing = tokio::spawn({
        let client = client.clone();
        async move { client.ask("tools/list", json!({})).await }
    });
    until("the hook", || asked.load(Ordering::SeqCst) == 1).await;
    client.send(handler_support::notification("notifications/cancelled", json!({"requestId": 1}))).await;
    assert_eq!(error(&soon(listing).await.unwrap()).0, -32800);
}

// MCP-165: the toolkit is asked each time
#[tokio::test]
async fn tools_come_and_are_there() {
    let toolkit = Toolkit::from_tools([echo()]);
    let handler = mcp_handler(&toolkit, McpHandlerOptions::default()).unwrap();
    let client = Client::in_session(&handler, json!({})).await;
    let (late, _) = counting("late");
    assert_eq!(error(&client.call("late", json!({})).await).0, -32602);
    toolkit.register([late]);
    assert_eq!(text(&client.call("late", json!({})).await), "late ran");
}

// Each call has a span, with names and without payloads
#[tokio::test]
async fn each_call_has_a_span() {
    let fails = tool("fails", |_args, _context| async { Err("secret text".into()) });
    let handler = handler([echo(), fails], McpHandlerOptions::default());
    let client = Client::in_session(&handler, json!({})).await;
    let (spans, _listening) = support::Spans::listen();
    client.call("echo", json!({"text": "secret text"})).await;
    client.call("fails", json!({})).await;
    let seen = spans.named("mcp.call");
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0]["gen_ai.tool.name"], "\"echo\"");
    assert_eq!((seen[0].get("error.type"), seen[1]["error.type"].as_str()), (None, "\"tool_error\""));
    assert!(!format!("{seen:?}").contains("secret"));
}
