//! Who answers what MCP servers ask, and what a run sees of it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is a test's failure report"
)]

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use toolnexus::client::{InProcessOptions, InProcessResponse, InProcessToolCall};
use toolnexus::mcp::{LoadMcpOptions, resource_tools};
use toolnexus::{
    Answer, BuiltinsConfig, ClientOptions, McpConfigInput, Request, RunStatus, ToolkitOptions,
    ToolkitSources as _, WaitFor, create_in_process_client, create_toolkit, define_tool, pending,
};
use toolnexus_testkit::mcp::{FixtureTool, HttpOptions, McpFixture, McpHttpFixture, Step};

/// Answers with its own name and remembers what was asked.
fn named(name: &'static str, asked: &Arc<Mutex<Vec<String>>>) -> Option<WaitFor> {
    let asked = Arc::clone(asked);
    Some(Arc::new(move |request: Request| {
        asked.lock().unwrap().push(format!("{name}: {}", request.prompt));
        let data = Map::from_iter([("by".to_owned(), Value::from(name))]);
        Box::pin(async move { Ok(Answer { id: request.id, ok: true, data: Some(data), reason: None }) })
    }))
}

fn asking() -> McpFixture {
    McpFixture::new().tool(FixtureTool::asks("ask", "elicitation/create", json!({"message": "Which?"})))
}

fn options(server: &McpHttpFixture) -> ToolkitOptions {
    ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(server.mcp_json("docs"))),
        builtins: Some(BuiltinsConfig::off()),
        ..Default::default()
    }
}

// MCP-60, MCP-93, SUSPEND-50: the narrowest resolver that was given answers the servers
#[tokio::test]
async fn the_narrowest_resolver_answers_servers() {
    let server = McpHttpFixture::start(asking(), HttpOptions::default()).await.unwrap();
    let asked = Arc::default();
    let load = || LoadMcpOptions { wait_for: named("load", &asked), ..Default::default() };
    let cases = [
        (
            ToolkitOptions {
                elicit_wait_for: named("elicit", &asked),
                mcp_options: load(),
                wait_for: named("all", &asked),
                ..options(&server)
            },
            Some("elicit"),
        ),
        (
            ToolkitOptions { mcp_options: load(), wait_for: named("all", &asked), ..options(&server) },
            Some("load"),
        ),
        (ToolkitOptions { wait_for: named("all", &asked), ..options(&server) }, Some("all")),
        (options(&server), None),
    ];
    for (given, expected) in cases {
        let toolkit = create_toolkit(given).await.unwrap();
        let result = toolkit.execute("docs_ask", json!({})).await;
        let expected = match expected {
            Some(name) => json!({"result": {"action": "accept", "content": {"by": name}}}),
            None => json!({"error": {"code": -32601, "message": "Method not found"}}),
        };
        assert_eq!(result.output, expected.to_string());
        toolkit.close().await;
    }
    let asked: Vec<String> = asked.lock().unwrap().clone();
    assert_eq!(asked, ["elicit: Which?", "load: Which?", "all: Which?"]);
}

// MCP-98, SUSPEND-54, D8: one resolver for servers, another for suspended tools; a run sees only its call
#[tokio::test]
async fn a_question_of_a_server_is_no_suspension_of_the_run() {
    let server = McpHttpFixture::start(asking(), HttpOptions::default()).await.unwrap();
    let asked = Arc::default();
    let suspends =
        define_tool("approve", "Asks", None, |_args: Value, context: toolnexus::ToolContext| async move {
            Ok::<_, String>(match context.answer {
                Some(answer) => {
                    toolnexus::ToolResult::success(answer.data.unwrap_or_default()["by"].to_string())
                }
                None => pending(Request {
                    kind: "approval".into(),
                    prompt: "Go on?".into(),
                    ..Default::default()
                }),
            })
        });
    let toolkit = create_toolkit(ToolkitOptions {
        elicit_wait_for: named("elicit", &asked),
        wait_for: named("all", &asked),
        extra_tools: vec![suspends],
        ..options(&server)
    })
    .await
    .unwrap();
    let client = create_in_process_client(InProcessOptions::new(
        // A client's own resolver answers no server.
        ClientOptions { model: "m".into(), wait_for: named("client", &asked), ..Default::default() },
        |request| async move {
            let results = request.messages.iter().filter(|message| message["role"] == "tool").count();
            Ok(match results {
                0 => InProcessResponse {
                    tool_calls: ["docs_ask", "approve"]
                        .map(|name| InProcessToolCall::new(name, json!({})))
                        .to_vec(),
                    ..Default::default()
                },
                _ => InProcessResponse::text("done"),
            })
        },
    ));
    let result = client.run("go", &toolkit).await.unwrap();
    assert_eq!((result.status, result.text.as_str()), (RunStatus::Done, "done"));
    let outputs: Vec<&str> = result.tool_calls.iter().map(|call| call.output.as_str()).collect();
    assert_eq!(outputs, [r#"{"result":{"action":"accept","content":{"by":"elicit"}}}"#, r#""client""#]);
    let mut asked: Vec<String> = asked.lock().unwrap().clone();
    asked.sort();
    assert_eq!(asked, ["client: Go on?", "elicit: Which?"]);
    assert_eq!(server.requests_of("tools/call").len(), 1, "the tool is not run again");
}

// MCP-103: added by whoever wants them
#[tokio::test]
async fn resource_tools_are_registered_by_hand() {
    let fixture =
        McpFixture::new().on("resources/list", [Step::result(json!({"resources": [{"uri": "a:1"}]}))]);
    let server = McpHttpFixture::start(fixture, HttpOptions::default()).await.unwrap();
    let toolkit = create_toolkit(options(&server)).await.unwrap();
    assert!(toolkit.tools().is_empty());
    if let Some(servers) = toolkit.mcp() {
        toolkit.register(resource_tools(&servers));
    }
    let listed = toolkit.execute("list_mcp_resources", json!({})).await;
    assert_eq!(listed.output, r#"[{"uri":"a:1","server":"docs"}]"#);
    toolkit.close().await;
    let closed = toolkit.execute("list_mcp_resources", json!({})).await;
    assert_eq!(closed.output, "mcp server \"docs\" failed at resources/list: closed");
}
