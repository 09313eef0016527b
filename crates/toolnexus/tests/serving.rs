//! A toolkit of `create_toolkit` on a listener: what its document says of that, and what its callers see.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};
use toolnexus::mcp::{load_mcp, parse_mcp_config};
use toolnexus::serve::{McpServeConfig, ServeError, ServeHandle, ServeOptions};
use toolnexus::skills::{SkillDef, SkillPathDisplay};
use toolnexus::{BuiltinsConfig, McpConfigInput, Toolkit, ToolkitOptions, create_toolkit};
use toolnexus_testkit::warnings::Warnings;

async fn toolkit(document: Value) -> Toolkit {
    create_toolkit(ToolkitOptions { mcp_config: Some(McpConfigInput::Value(document)), ..Default::default() })
        .await
        .unwrap()
}

/// The server's name and tools as a client sees them; `None`: there is no MCP.
async fn seen(server: &ServeHandle) -> Option<(String, Vec<String>)> {
    let document = json!({"mcpServers": {"s": {"url": format!("{}/mcp", server.url), "era": "legacy"}}});
    let source = load_mcp(&parse_mcp_config(&McpConfigInput::Value(document)).unwrap()).await;
    let names = source.tools.iter().map(|tool| tool.origin.as_ref().unwrap().remote_name.clone()).collect();
    Some((source.connection("s")?.server_info()?.name.clone(), names))
}

// MCP-146, SERVE-5
#[tokio::test]
async fn the_documents_section_is_the_profile_unless_another_is_given() {
    let section = json!({"name": "shelf", "tools": ["read", "bash", "no-such-tool"]});
    let served = toolkit(json!({"mcpServers": {}, "mcpServer": section})).await;
    let server = served.serve("127.0.0.1:0", ServeOptions::default()).await.unwrap();
    assert_eq!(seen(&server).await, Some(("shelf".into(), vec!["bash".into(), "read".into()])));

    // It replaces the section, and takes nothing of it.
    let own = McpServeConfig { tools: Some(vec!["glob".into()]), ..Default::default() };
    let server = served.serve("0", ServeOptions { mcp: Some(own), ..Default::default() }).await.unwrap();
    assert_eq!(seen(&server).await, Some(("toolnexus".into(), vec!["glob".into()])));

    for without in [json!({"mcpServers": {}}), json!({"mcpServer": null})] {
        let server = toolkit(without).await.serve("0", ServeOptions::default()).await.unwrap();
        assert_eq!(seen(&server).await, None);
    }
}

// MCP-146: what restricts must not be guessed at
#[tokio::test]
async fn a_section_that_cannot_be_read_serves_nothing() {
    let broken = toolkit(json!({"mcpServers": {}, "mcpServer": {"tools": "read"}})).await;
    let error = broken.serve("0", ServeOptions::default()).await.unwrap_err();
    assert!(matches!(error, ServeError::Mcp(_)), "{error:?}");
    assert_eq!(error.to_string(), "mcpServer.tools must be an array of tool names");
}

// SERVE-79
#[tokio::test]
async fn skills_that_show_paths_are_warned_of_once() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("review")).unwrap();
    let text = "---\nname: review\ndescription: Reviews\n---\nLook twice.";
    std::fs::write(dir.path().join("review/SKILL.md"), text).unwrap();
    let on_disk = ToolkitOptions {
        skills_dir: vec![dir.path().to_owned()],
        builtins: Some(BuiltinsConfig::off()),
        ..Default::default()
    };
    let heard = async |options: ToolkitOptions, profile: Option<McpServeConfig>| {
        let toolkit = create_toolkit(options).await.unwrap();
        let warnings = Warnings::listen();
        let server = toolkit.serve("0", ServeOptions { mcp: profile, ..Default::default() }).await.unwrap();
        server.stop().await;
        warnings.take()
    };
    let all = Some(McpServeConfig::default());
    let expected = "[toolnexus] results of the tool \"skill\" show callers paths of this machine: set \
                    skill_path_display to Logical, or leave the tool out";
    assert_eq!(heard(on_disk.clone(), all.clone()).await, [expected]);

    let logical = ToolkitOptions { skill_path_display: SkillPathDisplay::Logical, ..on_disk.clone() };
    let skill = SkillDef { name: "review".into(), content: "Look twice.".into(), ..Default::default() };
    let as_data = ToolkitOptions { skills: vec![skill], skills_dir: Vec::new(), ..on_disk.clone() };
    let kept = McpServeConfig { tools: Some(vec![]), ..Default::default() };
    for (options, profile) in
        [(logical, all.clone()), (as_data, all), (on_disk.clone(), Some(kept)), (on_disk, None)]
    {
        assert!(heard(options, profile).await.is_empty());
    }
}
