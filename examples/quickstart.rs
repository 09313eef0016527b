//! The quick start of the README: an agent over `mcp.json` and `skills/`.
//!
//! `OPENAI_API_KEY=… cargo run -p toolnexus --example quickstart`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use toolnexus::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let toolkit = create_toolkit(ToolkitOptions {
        mcp_config: Some(McpConfigInput::Path("mcp.json".into())),
        skills_dir: vec!["skills".into()],
        ..Default::default()
    })
    .await?;
    let client = create_client(ClientOptions {
        base_url: "https://api.openai.com/v1".into(), // the key comes from OPENAI_API_KEY
        model: "gpt-5-mini".into(),
        ..Default::default()
    });
    let result = client.run("List the Rust files here and say what each is for.", &toolkit).await?;
    println!("{}", result.text);
    toolkit.close().await;
    Ok(())
}
