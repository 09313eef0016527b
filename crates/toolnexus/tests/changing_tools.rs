//! A toolkit's tools are those that its servers have.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's failure report")]

use serde_json::{Value, json};
use tokio::sync::watch;
use toolnexus::{
    BuiltinsConfig, McpConfigInput, ToolkitOptions, ToolkitSources as _, create_toolkit, define_tool,
};
use toolnexus_testkit::mcp::{HttpOptions, McpFixture, McpHttpFixture, Step};

fn listed(names: &[&str]) -> [Step; 1] {
    let tools: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    [Step::result(json!({"tools": tools}))]
}

fn names(toolkit: &toolnexus::Toolkit) -> Vec<String> {
    toolkit.tools().into_iter().map(|tool| tool.name).collect()
}

// MCP-72, MCP-33: added, dropped, kept in its place; a run's snapshot stays what it was
#[tokio::test]
async fn a_toolkit_follows_its_servers() {
    let fixture = McpFixture::new()
        .on("tools/list", listed(&["a", "b", "hidden"]))
        .on("tools/list", listed(&["hidden", "c", "b", "mine"]));
    let server = McpHttpFixture::start(fixture, HttpOptions::default()).await.unwrap();
    let mine =
        define_tool("srv_mine", "the host's own", None, |_args, _context| async { Ok::<_, String>("") });
    let mut options = ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(server.mcp_json("srv"))),
        builtins: Some(BuiltinsConfig::off()),
        disable_tools: vec!["srv_hidden".to_owned()],
        extra_tools: vec![mine],
        ..Default::default()
    };
    options.mcp_options.live_tool_list = true;
    let toolkit = create_toolkit(options).await.unwrap();
    assert_eq!(names(&toolkit), ["srv_a", "srv_b", "srv_mine"]);
    let before = toolkit.snapshot();
    let source = toolkit.mcp().unwrap();
    let (sender, mut told) = watch::channel(0);
    // After the toolkit, which listens already.
    source.on_tools_change(move |_| sender.send_modify(|count| *count += 1));
    server.wait_for_streams(1).await.unwrap();
    server.push(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    told.wait_for(|count| *count == 1).await.unwrap();
    assert_eq!(names(&toolkit), ["srv_b", "srv_c", "srv_mine"]);
    assert_eq!(toolkit.get("srv_mine").unwrap().description, "the host's own");
    let frozen: Vec<&str> = before.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(frozen, ["srv_a", "srv_b", "srv_mine"]);

    let weak = toolkit.downgrade();
    drop((toolkit, before));
    assert!(!weak.is_alive(), "its servers do not keep it");
    source.close().await;
}
