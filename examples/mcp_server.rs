//! Your tools for other programs: a toolkit served over MCP, and a client that uses it.
//!
//! `cargo run -p toolnexus --example mcp_server`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use serde_json::{Value, json};
use toolnexus::mcp::{McpConfigInput, load_mcp, parse_mcp_config};
use toolnexus::serve::{McpServeConfig, ServeOptions};
use toolnexus::{BoxError, ToolContext, Toolkit, define_tool};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let count = define_tool("count", "Counts words", None, |args: Value, context: ToolContext| async move {
        let text = args.get("text").and_then(Value::as_str).ok_or("text must be a string")?;
        let words = text.split_whitespace().count();
        // Reaches the client if it asked for progress.
        context.progress(words as f64, Some(words as f64), Some("counted"));
        Ok::<_, BoxError>(format!("{words} words"))
    });
    let toolkit = Toolkit::from_tools([count]);
    let server = toolkit
        .serve(
            "127.0.0.1:0",
            ServeOptions {
                mcp: Some(McpServeConfig { name: "words".into(), ..Default::default() }),
                ..Default::default()
            },
        )
        .await?;
    println!("serving at {}/mcp", server.url);

    // What any MCP client does; here this library's own.
    let document = json!({"mcpServers": {"words": {"url": format!("{}/mcp", server.url)}}});
    let source = load_mcp(&parse_mcp_config(&McpConfigInput::Value(document))?).await;
    for tool in &source.tools {
        println!("{}: {}", tool.name, tool.execute(json!({"text": "tools for everybody"})).await.output);
    }
    source.close().await;
    server.stop().await;
    Ok(())
}
