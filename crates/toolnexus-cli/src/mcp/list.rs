//! `toolnexus mcp list`.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolnexus::mcp::{McpConnection, McpStatus};
use toolnexus::{BuiltinsConfig, Toolkit, ToolkitSources as _};

use super::document;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::loading::{self, Loaded, Sources};
use crate::render::{count, plain};
use crate::screen::{Paint, Screen};

/// Carries the command out.
pub(crate) async fn servers(
    mcp: Option<PathBuf>,
    json: bool,
    check: bool,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let config = loading::find_config(mcp.as_deref(), ", or name another one with --mcp")?;
    let (path, mcp) = config.unzip();
    let sources = Sources { mcp, builtins: Some(BuiltinsConfig::off()), ..Default::default() };
    let loaded = loading::load(sources, None, screen, interrupt).await?;
    let printed = match (&path, json) {
        (_, true) => document(screen, &as_json(&loaded.toolkit, path.as_deref())),
        (None, false) => {
            screen.note("no mcp.json and no .mcp.json here; name a configuration with --mcp FILE");
            Ok(())
        }
        (Some(path), false) => screen.answer(&text(&loaded, path)),
    };
    loaded.toolkit.close().await;
    printed?;
    Ok(if check && !loaded.failed.is_empty() { Exit::Failed } else { Exit::Done })
}

fn connections(toolkit: &Toolkit) -> Vec<McpConnection> {
    toolkit.mcp().map(|source| source.connections.clone()).unwrap_or_default()
}

fn as_json(toolkit: &Toolkit, path: Option<&std::path::Path>) -> Value {
    let servers: Vec<Value> = connections(toolkit)
        .iter()
        .map(|connection| {
            json!({
                "name": connection.name(),
                "status": connection.status(),
                "tools": connection.tools().iter().map(|tool| &tool.name).collect::<Vec<_>>(),
                "protocolVersion": connection.protocol_version(),
                "error": connection.error().map(ToString::to_string),
                "stderr": connection.error().map(|_| connection.stderr()),
            })
        })
        .collect();
    json!({"config": path, "servers": servers})
}

fn text(Loaded { toolkit, failed }: &Loaded, path: &std::path::Path) -> String {
    let paint = Paint::stdout();
    let connections = connections(toolkit);
    let widest =
        connections.iter().map(|connection| connection.name().chars().count()).max().unwrap_or_default();
    let mut out = String::new();
    for connection in &connections {
        let name = plain(connection.name());
        let gap = " ".repeat(widest.saturating_sub(name.chars().count()) + 2);
        let (mark, rest) = match connection.status() {
            McpStatus::Connected => (paint.good("connected"), count(connection.tools().len(), "tool")),
            McpStatus::Disabled => (paint.dim("disabled "), "switched off in the configuration".to_owned()),
            McpStatus::Failed => {
                let failed = failed.iter().find(|failed| failed.name == connection.name());
                let lines = failed.map(|failed| failed.reason.as_slice()).unwrap_or_default();
                (paint.bad("failed   "), lines.join(&format!("\n{}", " ".repeat(widest + 13))))
            }
        };
        out.push_str(&format!("{}{gap}{mark}  {rest}\n", paint.name(&name)));
    }
    if connections.is_empty() {
        out.push_str(&format!("{} names no server\n", path.display()));
    }
    out
}
