//! `toolnexus mcp list` and `toolnexus mcp test`.

use std::path::Path;

use toolnexus::mcp::{McpConfig, McpStatus};

use super::args::{ListArgs, TestArgs};
use super::servers::{self, NO_CONFIG, Servers};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::list::document;
use crate::render::{count, plain};
use crate::screen::{Paint, Screen};

/// Carries `list` out.
pub(super) async fn list(args: &ListArgs, screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let (path, config) = servers::find(&args.config)?.unzip();
    show(path.as_deref(), config, args.json, screen, interrupt).await?;
    Ok(Exit::Done)
}

/// Carries `test` out.
pub(super) async fn test(args: &TestArgs, screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let (path, config) = if args.servers.is_empty() {
        servers::find(&args.config)?.ok_or_else(|| Failure::usage(NO_CONFIG))?
    } else {
        servers::only(&args.config, &args.servers)?
    };
    let any_failed = show(Some(&path), Some(config), args.json, screen, interrupt).await?;
    Ok(if any_failed { Exit::Failed } else { Exit::Done })
}

/// Loads the servers and shows them. Gives whether one failed.
async fn show(
    path: Option<&Path>,
    config: Option<McpConfig>,
    json: bool,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<bool, Failure> {
    let servers = Servers::load(config, None, screen, interrupt).await?;
    let printed = match (path, json) {
        (_, true) => document(screen, &servers.as_json(path)),
        (None, false) => {
            screen.note(NO_CONFIG);
            Ok(())
        }
        (Some(path), false) => screen.answer(&text(&servers, path)),
    };
    let any_failed = servers.any_failed();
    servers.close().await;
    printed?;
    Ok(any_failed)
}

fn text(servers: &Servers, path: &Path) -> String {
    let paint = Paint::stdout();
    let width = |name: &str| plain(name).chars().count();
    let widest =
        servers.connections.iter().map(|connection| width(connection.name())).max().unwrap_or_default();
    let mut out = String::new();
    for connection in &servers.connections {
        let name = plain(connection.name());
        let gap = " ".repeat(widest.saturating_sub(name.chars().count()) + 2);
        let (mark, rest) = match connection.status() {
            McpStatus::Connected => (paint.good("connected"), count(connection.tools().len(), "tool")),
            McpStatus::Disabled => (paint.dim("disabled "), "switched off in the configuration".to_owned()),
            McpStatus::Failed => {
                let lines = servers.failure(connection.name()).map(|failed| failed.lines());
                let indent = format!("\n{}", " ".repeat(widest + 13));
                (paint.bad("failed   "), lines.unwrap_or_default().join(&indent))
            }
        };
        out.push_str(&format!("{}{gap}{mark}  {rest}\n", paint.name(&name)));
    }
    if servers.connections.is_empty() {
        out.push_str(&format!("{} names no server\n", path.display()));
    }
    out
}
