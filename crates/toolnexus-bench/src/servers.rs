//! The cases with MCP servers, which are processes of the testkit's fixture.

use std::process::Stdio;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use serde_json::{Map, Value, json};
use tokio::process::{Child, Command};
use toolnexus::{
    BoxError, BuiltinsConfig, McpConfigInput, ToolContext, Toolkit, ToolkitOptions, create_toolkit,
};
use toolnexus_testkit::mcp::{FixtureTool, McpFixture};

use crate::cases::{Sides, Work};

/// How many servers the toolkit of [`many_builds`] has.
const SERVERS: u64 = 20;

/// How much later each of them greets than the one before it, in milliseconds: the slowest takes the
/// half second that a server in a scripting language takes to start.
const LATER_BY: u64 = 25;

fn arguments() -> Map<String, Value> {
    let arguments = json!({"city": "Chennai", "unit": "celsius", "days": [1, 2, 3]});
    arguments.as_object().cloned().unwrap_or_default()
}

/// One call after the other through a stdio server; the floor is the same with a bare `rmcp` client
/// over a server of its own.
pub(crate) async fn one_call() -> Result<Sides, BoxError> {
    let fixture = McpFixture::new().tool(FixtureTool::echo("say"));
    let toolkit = toolkit(json!({"fixture": fixture.server_json()?})).await?;
    let tool = toolkit.get("fixture_say").ok_or("the server has no tool \"say\"")?;
    // The toolkit keeps the server alive.
    let kept = Arc::new((toolkit, tool));
    let work: Work = Box::new(move || {
        let kept = Arc::clone(&kept);
        Box::pin(async move {
            let args = Value::Object(arguments());
            let result = kept.1.execute_with(args, ToolContext::default()).await;
            if result.is_error || result.output.is_empty() { Err(result.output.into()) } else { Ok(()) }
        })
    });

    let mut child = start(&fixture)?;
    let pipes = child.stdout.take().zip(child.stdin.take()).ok_or("the server has no pipes")?;
    let client = ().serve(pipes).await?;
    client.list_all_tools().await?;
    let kept = Arc::new((client, child));
    let floor: Work = Box::new(move || {
        let kept = Arc::clone(&kept);
        Box::pin(async move {
            let params = CallToolRequestParams::new("say").with_arguments(arguments());
            let result = kept.0.call_tool(params).await?;
            let text = result.content.first().and_then(|content| content.as_text()).map(|text| &text.text);
            if text.is_some_and(|text| !text.is_empty()) { Ok(()) } else { Err("a text was expected".into()) }
        })
    });
    Ok(Sides { floor, work })
}

fn start(fixture: &McpFixture) -> Result<Child, BoxError> {
    let mut command = Command::from(fixture.command()?.to_std());
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Ok(piped.kill_on_drop(true).spawn()?)
}

/// A toolkit over many servers, the later ones slow; the floor is one over the slowest alone.
pub(crate) async fn many_builds() -> Result<Sides, BoxError> {
    let mut all = Map::new();
    let mut slowest = Map::new();
    for nth in 1..=SERVERS {
        let fixture = McpFixture::new().tool(FixtureTool::echo("say")).delays("initialize", nth * LATER_BY);
        let entry = fixture.server_json()?;
        slowest = Map::from_iter([(format!("server{nth}"), entry.clone())]);
        all.insert(format!("server{nth}"), entry);
    }
    Ok(Sides { floor: build(slowest), work: build(all) })
}

fn build(servers: Map<String, Value>) -> Work {
    Box::new(move || {
        let servers = servers.clone();
        Box::pin(async move {
            let expected = servers.len();
            let toolkit = toolkit(Value::Object(servers)).await?;
            let tools = toolkit.tools().len();
            toolkit.close().await;
            if tools == expected { Ok(()) } else { Err(format!("{expected} tools were expected").into()) }
        })
    })
}

async fn toolkit(servers: Value) -> Result<Toolkit, BoxError> {
    let options = ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(json!({"mcpServers": servers}))),
        builtins: Some(BuiltinsConfig::off()),
        ..Default::default()
    };
    Ok(create_toolkit(options).await?)
}
