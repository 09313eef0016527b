//! MCP inside your own web server: who calls, what they may see, and a person who agrees first.
//!
//! `cargo run -p toolnexus --example mcp_handler`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::sync::Arc;

use serde_json::{Value, json};
use toolnexus::mcp::server::{McpDecision, McpHandlerOptions, mcp_identity};
use toolnexus::mcp::{LoadMcpOptions, McpConfigInput, McpSource, load_mcp_with, parse_mcp_config};
use toolnexus::serve::Identity;
use toolnexus::{Answer, BoxError, Tool, ToolContext, Toolkit, define_tool, mcp_handler};

fn tools() -> Vec<Tool> {
    let search = define_tool("search", "Searches", None, |_args: Value, context: ToolContext| async move {
        let who = mcp_identity(&context).map(|identity| identity.id).unwrap_or_default();
        Ok::<_, BoxError>(format!("3 results for {who}"))
    });
    let wipe =
        define_tool("wipe", "Deletes everything", None, |_args: Value, _context: ToolContext| async move {
            Ok::<_, BoxError>("wiped")
        });
    vec![search, wipe]
}

fn options() -> McpHandlerOptions {
    McpHandlerOptions {
        // Every request says who sends it. A real host looks the token up.
        authenticate: Some(Arc::new(|request| {
            let token = request.headers.get("authorization").and_then(|value| value.to_str().ok());
            let identity = token.and_then(|token| token.strip_prefix("Bearer ")).map(Identity::new);
            Box::pin(async move { identity.ok_or_else(|| "no token".into()) })
        })),
        www_authenticate: Some(Arc::new(|_request, _error| Some("Bearer".into()))),
        // Asked for every list and every call.
        list_tools: Some(Arc::new(|context| {
            let is_admin = context.identity.is_some_and(|identity| identity.id == "alice");
            let visible = tools().into_iter().filter(|tool| is_admin || tool.name != "wipe").collect();
            Box::pin(async move { Ok(visible) })
        })),
        before_call: Some(Arc::new(|_context, tool, _arguments| {
            let decision = if tool.name == "wipe" {
                McpDecision::Confirm { message: "Delete everything?".into(), result: None }
            } else {
                McpDecision::Allow
            };
            Box::pin(async move { Ok(decision) })
        })),
        ..Default::default()
    }
}

/// A client of that server, which answers questions if it can ask somebody.
async fn client(url: &str, token: &str, agrees: Option<bool>) -> Result<McpSource, BoxError> {
    let document = json!({"mcpServers": {"host": {"url": url, "headers": {"Authorization": format!("Bearer {token}")}}}});
    let opts = LoadMcpOptions {
        wait_for: agrees.map(|ok| -> toolnexus::WaitFor {
            Arc::new(move |request| {
                println!("  asked: {}", request.prompt);
                let reason = (!ok).then(|| "declined".to_owned());
                Box::pin(async move { Ok(Answer { id: request.id, ok, reason, ..Default::default() }) })
            })
        }),
        ..Default::default()
    };
    Ok(load_mcp_with(&parse_mcp_config(&McpConfigInput::Value(document))?, opts).await)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The handler is a tower service: here it hangs in an axum router, beside whatever else there is.
    let handler = mcp_handler(&Toolkit::default(), options())?;
    let app = axum::Router::new().route_service("/tools/mcp", handler.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/tools/mcp", listener.local_addr()?);
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });

    for (who, agrees) in [("bob", None), ("alice", None), ("alice", Some(false)), ("alice", Some(true))] {
        println!("{who}, {}", if agrees.is_some() { "at a screen" } else { "with nobody to ask" });
        let source = client(&url, who, agrees).await?;
        for tool in &source.tools {
            println!("  {}: {}", tool.name, tool.execute(json!({})).await.output);
        }
        source.close().await;
    }
    handler.close().await;
    serving.abort();
    Ok(())
}
