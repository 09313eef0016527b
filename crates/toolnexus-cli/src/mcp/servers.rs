//! The servers a command is about: chosen, loaded, and how one of them is shown.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use toolnexus::mcp::{McpConfig, McpConnection};
use toolnexus::suspension::WaitFor;
use toolnexus::{BuiltinsConfig, ToolkitSources as _};

use super::args::ConfigArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::loading::{self, Loaded, Sources};
use crate::render::FailedServer;
use crate::screen::Screen;

/// What is said where there is no configuration.
pub(super) const NO_CONFIG: &str = "no mcp.json and no .mcp.json here; name a configuration with --mcp FILE";

/// Loaded servers of a configuration.
pub(super) struct Servers {
    loaded: Loaded,
    pub(super) connections: Vec<McpConnection>,
}

/// The configuration and where it is; `None` when nothing was named and there is none.
pub(super) fn find(args: &ConfigArgs) -> Result<Option<(PathBuf, McpConfig)>, Failure> {
    loading::find_config(args.mcp.as_deref(), ", or name another one with --mcp")
}

/// The configuration with nothing but these servers in it.
pub(super) fn only(args: &ConfigArgs, names: &[String]) -> Result<(PathBuf, McpConfig), Failure> {
    let (path, mut config) = find(args)?.ok_or_else(|| Failure::usage(NO_CONFIG))?;
    for name in names {
        if config.server(name).is_none() {
            let known: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
            let known = if known.is_empty() { "no server".to_owned() } else { known.join(", ") };
            return Err(Failure::usage(format!(
                "{} has no server \"{name}\": it has {known}",
                path.display()
            )));
        }
    }
    config.servers.retain(|server| names.contains(&server.name));
    Ok((path, config))
}

impl Servers {
    /// Loads them. `wait_for` answers what they ask.
    pub(super) async fn load(
        config: Option<McpConfig>,
        wait_for: Option<WaitFor>,
        screen: &Screen,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let sources = Sources { mcp: config, builtins: Some(BuiltinsConfig::off()), ..Default::default() };
        let loaded = loading::load(sources, wait_for, screen, interrupt).await?;
        let connections = loaded.toolkit.mcp().map(|source| source.connections).unwrap_or_default();
        Ok(Servers { loaded, connections })
    }

    /// Why a server failed; `None` when it did not.
    pub(super) fn failure(&self, name: &str) -> Option<&FailedServer> {
        self.loaded.failed.iter().find(|failed| failed.name == name)
    }

    pub(super) fn any_failed(&self) -> bool {
        !self.loaded.failed.is_empty()
    }

    pub(super) async fn close(self) {
        self.loaded.toolkit.close().await;
    }

    /// What a program wants to know of each server; tools by name.
    pub(super) fn as_json(&self, path: Option<&Path>) -> Value {
        let servers: Vec<Value> = self
            .connections
            .iter()
            .map(|connection| {
                let tools = connection.tools().iter().map(|tool| tool.name.as_str().into()).collect();
                Value::Object(self.one_as_json(connection, tools))
            })
            .collect();
        json!({"config": path, "servers": servers})
    }

    /// What a program wants to know of one server.
    pub(super) fn one_as_json(&self, connection: &McpConnection, tools: Vec<Value>) -> Map<String, Value> {
        let error = connection.error();
        let info = connection.server_info().map(|info| {
            json!({
                "name": info.name,
                "version": info.version,
                "title": info.title,
                "instructions": info.instructions,
            })
        });
        let failure = error.map(|error| {
            json!({
                "kind": error.kind(),
                "detail": error.detail(),
                "httpStatus": error.http_status(),
                "rpcCode": error.rpc_code(),
                "exitCode": error.exit_code(),
                "remedy": self.failure(connection.name()).and_then(|failed| failed.remedy.as_deref()),
            })
        });
        let fields = [
            ("name", json!(connection.name())),
            ("status", json!(connection.status())),
            ("phase", json!(connection.phase())),
            ("protocolVersion", json!(connection.protocol_version())),
            ("serverInfo", json!(info)),
            ("tools", Value::Array(tools)),
            ("error", json!(error.map(ToString::to_string))),
            ("failure", json!(failure)),
            ("stderr", json!(connection.stderr())),
        ];
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}
