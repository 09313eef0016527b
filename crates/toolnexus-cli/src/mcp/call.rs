//! `toolnexus mcp call`.

use std::io::{self, IsTerminal as _};

use toolnexus::Tool;
use toolnexus::mcp::{McpConnection, McpStatus};

use super::args::CallArgs;
use super::inspect::remote_name;
use super::servers::{self, Servers};
use crate::calling::{Call, named, read_arguments};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::person;
use crate::screen::Screen;

/// Carries the command out.
pub(super) async fn call(args: &CallArgs, screen: &Screen, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let (_, config) = servers::only(&args.config, std::slice::from_ref(&args.server))?;
    // Everything that can be wrong by itself is looked at before the server is started.
    let arguments = read_arguments(&args.arguments, screen, interrupt).await?;
    let wait_for = io::stdin().is_terminal().then(|| person::resolver(screen));
    let servers = Servers::load(Some(config), wait_for.clone(), screen, interrupt).await?;
    let ended = match wanted(&servers, args) {
        Ok(tool) => {
            let (name, timeout, result) = (remote_name(&tool), args.timeout, &args.result);
            let call = Call { tool: &tool, name, arguments, timeout, wait_for, result };
            call.carry_out(screen, interrupt).await
        }
        Err(failure) => Err(failure),
    };
    servers.close().await;
    ended
}

/// The tool that is asked for, of a server that works.
fn wanted(servers: &Servers, args: &CallArgs) -> Result<Tool, Failure> {
    if let Some(failed) = servers.failure(&args.server) {
        return Err(Failure::new(Exit::Failed, failed.text()));
    }
    let connection = servers.connections.first();
    let Some(connection) = connection.filter(|connection| connection.status() == McpStatus::Connected) else {
        return Err(Failure::usage(format!(
            "MCP server {} is switched off in the configuration: remove \"disabled\", or set \"enabled\" to true",
            args.server
        )));
    };
    find(connection, &args.tool).ok_or_else(|| Failure::usage(no_such_tool(connection, &args.tool)))
}

/// A server may call one tool as another reads to a model: its own names win.
fn find(connection: &McpConnection, name: &str) -> Option<Tool> {
    let tools = connection.tools();
    let by_remote_name = tools.iter().find(|tool| remote_name(tool) == name);
    by_remote_name.or_else(|| tools.iter().find(|tool| tool.name == name)).cloned()
}

fn no_such_tool(connection: &McpConnection, name: &str) -> String {
    let tools = connection.tools();
    let names: Vec<&str> = tools.iter().map(remote_name).collect();
    let listed = if names.is_empty() { "no tool".to_owned() } else { named(&names) };
    format!("MCP server {} has no tool \"{name}\": it has {listed}", connection.name())
}
