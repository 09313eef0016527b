//! Listing what servers offer, without keeping any of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::time::Duration;

use serde_json::json;
use support::{gone, is_alive, noted, servers, stdio};
use toolnexus_mcp::{LoadMcpOptions, McpContext, McpContextError, McpStatus, list_mcp_tools};
use toolnexus_testkit::mcp::{FixtureTool, HttpOptions, McpFixture, McpHttpFixture};

// MCP-64, MCP-65, MCP-66, case 42
#[tokio::test]
async fn an_inventory_lists_everything_and_keeps_nothing() {
    let fixture = McpFixture::new()
        .tool(FixtureTool::echo("b").description("second").input_schema(json!({"type": "object", "x-n": 1})))
        .tool(FixtureTool::echo("a"));
    let remote = McpHttpFixture::start(fixture.clone(), HttpOptions::default()).await.unwrap();
    let (fixture, ledger, _folder) = noted(fixture);
    let config = servers(json!({
        "good": stdio(&fixture, json!({"tools": {"a": true, "zz": true, "b": false, "c": false}})),
        "remote": remote.server_json(),
        "bad": {"url": "http://127.0.0.1:1/mcp"},
        "off": {"command": ["x"], "disabled": true},
    }));
    let inventory = list_mcp_tools(&config, &McpContext::default(), LoadMcpOptions::default()).await.unwrap();

    assert_eq!(
        serde_json::to_value(&inventory).unwrap(),
        json!({
            "tools": {
                "good": [
                    {"name": "b", "description": "second", "inputSchema": {"type": "object", "x-n": 1}},
                    {"name": "a", "description": "", "inputSchema": {"type": "object"}},
                ],
                "remote": [
                    {"name": "b", "description": "second", "inputSchema": {"type": "object", "x-n": 1}},
                    {"name": "a", "description": "", "inputSchema": {"type": "object"}},
                ],
            },
            "status": {"bad": "failed", "good": "connected", "off": "disabled", "remote": "connected"},
        })
    );
    assert_eq!(inventory.errors.keys().collect::<Vec<_>>(), ["bad"]);
    assert_eq!(inventory.unmatched, [("good".to_owned(), vec!["c".to_owned(), "zz".to_owned()])].into());

    assert!(!is_alive(ledger.started().await.unwrap().0));
    assert!(remote.sessions().is_empty(), "the session is ended");
    remote.wait_for_silence().await.unwrap();
    let initialize = &ledger.of_method("initialize").unwrap()[0];
    assert_eq!(initialize["params"]["capabilities"], json!({}));
}

// MCP-65: ended early, it leaves nothing either
#[tokio::test]
async fn an_inventory_can_be_ended() {
    let (fixture, ledger, _folder) = noted(McpFixture::new().never_answers("tools/list"));
    let config = servers(json!({"x": stdio(&fixture, json!({}))}));
    let context = McpContext::default();
    let cancel = context.cancel.clone();
    let (result, ()) = tokio::join!(list_mcp_tools(&config, &context, LoadMcpOptions::default()), async {
        ledger.wait_for("tools/list", 1).await.unwrap();
        cancel.cancel();
    });
    assert_eq!(result.err(), Some(McpContextError::Cancelled));
    assert!(!is_alive(ledger.started().await.unwrap().0));
}

// MCP-65: a server's failure is its own
#[tokio::test]
async fn one_bad_server_costs_the_others_nothing() {
    let hung = noted(McpFixture::new().never_answers("tools/list"));
    let good = McpFixture::new().tool(FixtureTool::echo("t"));
    let config = servers(json!({
        "good": stdio(&good, json!({})), "hung": stdio(&hung.0, json!({"timeout": 1500}))
    }));
    let inventory = list_mcp_tools(&config, &McpContext::default(), LoadMcpOptions::default()).await.unwrap();
    assert_eq!(inventory.status["good"], McpStatus::Connected);
    assert_eq!(inventory.errors["hung"], "mcp server \"hung\" failed at tools/list: timeout");
    assert_eq!(inventory.tools.keys().collect::<Vec<_>>(), ["good"]);
    tokio::time::timeout(Duration::from_secs(1), gone(hung.1.started().await.unwrap().0)).await.unwrap();
}
