//! What servers offer, without keeping any of them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::McpStatus;
use crate::config::{McpConfig, McpServerConfig};
use crate::filter::ToolFilter;
use crate::load::{announce, each_server, reach};
use crate::options::{LoadMcpOptions, McpContext, McpContextError, McpServerEvent};

/// A tool as its server lists it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfo {
    /// The name on the server.
    pub name: String,
    /// The server's description; may be empty.
    pub description: String,
    /// The schema of the arguments, untouched.
    pub input_schema: Value,
}

/// The tools of every server that could be reached. Serialises as `tools` and `status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct McpInventory {
    /// By server, everything it lists, in its order and without regard to its filter. Only
    /// connected servers have an entry.
    pub tools: BTreeMap<String, Vec<ToolInfo>>,
    /// How every configured server fared.
    pub status: BTreeMap<String, McpStatus>,
    /// Why servers failed.
    #[serde(skip)]
    pub errors: BTreeMap<String, String>,
    /// By server, the names in its filter that no listed tool has, sorted. Servers without such a
    /// name have no entry.
    #[serde(skip)]
    pub unmatched: BTreeMap<String, Vec<String>>,
}

/// Connects every enabled server, lists its tools, disconnects, and tells what there is. No tool
/// can be called through it. Isolation and early ending are those of
/// [`load_mcp_with_context`](crate::load_mcp_with_context).
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use toolnexus_mcp::{LoadMcpOptions, McpContext, list_mcp_tools, parse_mcp_config_file};
/// let config = parse_mcp_config_file("mcp.json")?;
/// let inventory = list_mcp_tools(&config, &McpContext::default(), LoadMcpOptions::default()).await?;
/// println!("{}", serde_json::to_string(&inventory)?);
/// # Ok(()) }
/// ```
///
/// # Errors
/// The context ended first. Nothing is left running then.
pub async fn list_mcp_tools(
    config: &McpConfig,
    ctx: &McpContext,
    opts: LoadMcpOptions,
) -> Result<McpInventory, McpContextError> {
    // Nobody is there to be asked.
    let opts = &LoadMcpOptions { wait_for: None, ..opts };
    let servers = each_server(config, ctx, |server, tasks| async move {
        let entry = Entry::of(server, opts, &tasks).await;
        announce(
            opts,
            McpServerEvent {
                name: server.name.clone(),
                status: entry.status,
                tools: Vec::new(),
                error: entry.error.clone(),
            },
        );
        entry
    })
    .await?;

    let mut inventory = McpInventory::default();
    for (server, entry) in config.servers.iter().zip(servers) {
        let name = &server.name;
        inventory.status.insert(name.clone(), entry.status);
        if let Some(error) = entry.error {
            inventory.errors.insert(name.clone(), error);
        }
        if let Some(tools) = entry.tools {
            let unmatched =
                ToolFilter::new(&server.tools).unmatched(tools.iter().map(|tool| tool.name.as_str()));
            if !unmatched.is_empty() {
                inventory.unmatched.insert(name.clone(), unmatched);
            }
            inventory.tools.insert(name.clone(), tools);
        }
    }
    Ok(inventory)
}

/// One server of an inventory.
struct Entry {
    status: McpStatus,
    tools: Option<Vec<ToolInfo>>,
    error: Option<String>,
}

impl Entry {
    async fn of(server: &McpServerConfig, opts: &LoadMcpOptions, tasks: &TaskTracker) -> Self {
        if !server.enabled {
            return Entry { status: McpStatus::Disabled, tools: None, error: None };
        }
        match reach(server, opts, tasks).await {
            Ok(reached) => {
                reached.slot.close().await;
                let tools = reached.listed.into_iter().map(|tool| ToolInfo {
                    name: tool.name,
                    description: tool.description,
                    input_schema: tool.input_schema,
                });
                Entry { status: McpStatus::Connected, tools: Some(tools.collect()), error: None }
            }
            Err(unreached) => {
                Entry { status: McpStatus::Failed, tools: None, error: Some(unreached.failure.to_string()) }
            }
        }
    }
}
