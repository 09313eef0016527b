//! What a loaded toolkit tells of the servers: names, hints, schemas, the servers themselves.

use serde_json::json;
use toolnexus::{SourceStatus, Tool, ToolHints, ToolOrigin, ToolSource, Toolkit};
use toolnexus_conformance::{Outcome, Report, equal};

use crate::servers::{Setting, Wire, connection, load};

/// The tools that server-everything has for a client without special capabilities, sorted.
const EVERYTHING: &[&str] = &[
    "echo",
    "get-annotated-message",
    "get-env",
    "get-resource-links",
    "get-resource-reference",
    "get-structured-content",
    "get-sum",
    "get-tiny-image",
    "gzip-file-as-resource",
    "simulate-research-query",
    "toggle-simulated-logging",
    "toggle-subscriber-updates",
    "trigger-long-running-operation",
];

const FILESYSTEM: &[&str] = &[
    "create_directory",
    "directory_tree",
    "edit_file",
    "get_file_info",
    "list_allowed_directories",
    "list_directory",
    "list_directory_with_sizes",
    "move_file",
    "read_file",
    "read_media_file",
    "read_multiple_files",
    "read_text_file",
    "search_files",
    "write_file",
];

const MEMORY: &[&str] = &[
    "add_observations",
    "create_entities",
    "create_relations",
    "delete_entities",
    "delete_observations",
    "delete_relations",
    "open_nodes",
    "read_graph",
    "search_nodes",
];

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    for wire in Wire::BOTH {
        let toolkit = setting.load_everything(wire).await?;
        let name = |what: &str| format!("{}: {what}", wire.as_str());
        report
            .check(&name("every tool, by final name"), all_named(&toolkit, wire.prefix(), EVERYTHING))
            .await;
        report.check(&name("a tool as listed"), echo_as_listed(&toolkit, wire)).await;
        report.check(&name("the server's own facts"), facts(&toolkit, setting, wire)).await;
        toolkit.close().await;
        report.check(&name("a filter takes the tools it names"), filtered(setting, wire)).await;
    }
    report.check("stdio: three servers in one toolkit", three_servers(setting)).await;
    Ok(())
}

// MCP-23, MCP-24, MCP-26
async fn all_named(toolkit: &Toolkit, prefix: &str, names: &[&str]) -> Outcome {
    equal("names", &toolkit.tool_names(), &named(prefix, names))?;
    let listed: Vec<String> = toolkit.tools().into_iter().map(|tool| tool.name).collect();
    equal("order", &listed, &named(prefix, names))
}

fn named(prefix: &str, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{prefix}{name}")).collect()
}

fn tool(toolkit: &Toolkit, name: &str) -> Result<Tool, String> {
    toolkit.get(name).ok_or_else(|| format!("no tool {name:?}"))
}

// MCP-25, MCP-34, MCP-35
async fn echo_as_listed(toolkit: &Toolkit, wire: Wire) -> Outcome {
    let echo = tool(toolkit, &format!("{}echo", wire.prefix()))?;
    equal("source", &echo.source, &ToolSource::Mcp)?;
    equal("title", &echo.title.as_deref(), &Some("Echo Tool"))?;
    equal("description", echo.description.as_str(), "Echoes back the input string")?;
    let origin = ToolOrigin { server: wire.server().into(), remote_name: "echo".into() };
    equal("origin", &echo.origin, &Some(origin))?;
    let hints = ToolHints { read_only: true, destructive: false, open_world: false, idempotent: true };
    equal("hints", &echo.hints, &Some(hints))?;
    let schema = concat!(
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","#,
        r#""properties":{"message":{"type":"string","description":"Message to echo"}},"#,
        r#""required":["message"]}"#
    );
    equal("schema", echo.input_schema.to_string().as_str(), schema)
}

// MCP-37, MCP-41
async fn facts(toolkit: &Toolkit, setting: &Setting, wire: Wire) -> Outcome {
    let connection = connection(toolkit, wire.server())?;
    equal("status", &connection.status(), &SourceStatus::Connected)?;
    equal("protocol", &connection.protocol_version(), &Some("2025-11-25"))?;
    let info = connection.server_info().ok_or("no server info")?;
    equal("name", info.name.as_str(), "mcp-servers/everything")?;
    equal("version", info.version.as_str(), "2.0.0")?;
    equal("title", &info.title.as_deref(), &Some("Everything Reference Server"))?;
    let instructions = setting.read_everything("docs/instructions.md")?;
    equal("instructions", &info.instructions.as_deref(), &Some(instructions.as_str()))
}

// MCP-28, MCP-30
async fn filtered(setting: &Setting, wire: Wire) -> Outcome {
    let filter = json!({"tools": {"echo": true, "get-sum": true, "everything_get-env": true}});
    let toolkit = setting.load_everything_with(wire, filter).await?;
    equal("names", &toolkit.tool_names(), &named(wire.prefix(), &["echo", "get-sum"]))?;
    toolkit.close().await;
    Ok(())
}

async fn three_servers(setting: &Setting) -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let toolkit = load(json!({
        "memory": setting.local("memory", &[]),
        "files": setting.local("filesystem", &[&folder.path().display().to_string()]),
        "everything": setting.everything(Wire::Stdio, json!({})),
    }))
    .await?;
    let names =
        [named("everything_", EVERYTHING), named("files_", FILESYSTEM), named("memory_", MEMORY)].concat();
    equal("names", &toolkit.tool_names(), &names)?;
    // A hint that a server leaves out has the protocol's own default.
    let read = tool(&toolkit, "files_read_text_file")?;
    let hints = ToolHints { read_only: true, destructive: false, open_world: false, idempotent: false };
    equal("hints of a reading tool", &read.hints, &Some(hints))?;
    let write = tool(&toolkit, "files_write_file")?;
    let hints = ToolHints { read_only: false, destructive: true, open_world: false, idempotent: true };
    equal("hints of a writing tool", &write.hints, &Some(hints))?;
    equal("connected", &toolkit.mcp_status().len(), &3)?;
    toolkit.close().await;
    Ok(())
}
