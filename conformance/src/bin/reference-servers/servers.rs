//! The servers: where they are, how they are configured, how a toolkit is loaded over them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use toolnexus::mcp::McpConnection;
use toolnexus::{
    BuiltinsConfig, McpConfigInput, SourceStatus, ToolContext, ToolResult, Toolkit, ToolkitOptions,
    ToolkitSources as _, create_toolkit,
};

use crate::http_server::HttpServer;

/// The variable by which a check tells its own servers from all others.
pub(crate) const MARK: &str = "TOOLNEXUS_CONFORMANCE_CHECK";

/// What every topic works with.
pub(crate) struct Setting {
    /// The folder with `package.json` and `node_modules`.
    folder: PathBuf,
    /// server-everything, speaking streamable HTTP.
    pub(crate) http: HttpServer,
}

/// How server-everything is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Stdio,
    Http,
}

impl Wire {
    pub(crate) const BOTH: [Wire; 2] = [Wire::Stdio, Wire::Http];

    /// The word at the start of a check's name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Wire::Stdio => "stdio",
            Wire::Http => "http",
        }
    }

    /// The configured name of server-everything; the remote one takes sanitizing.
    pub(crate) const fn server(self) -> &'static str {
        match self {
            Wire::Stdio => "everything",
            Wire::Http => "every.thing",
        }
    }

    /// What the server's tools have before their name.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Wire::Stdio => "everything_",
            Wire::Http => "every_thing_",
        }
    }
}

impl Setting {
    /// Starts what all topics share. Fails when the servers are not installed.
    pub(crate) async fn prepare(folder: &Path) -> Result<Self, String> {
        let folder =
            folder.canonicalize().map_err(|error| format!("folder {}: {error}", folder.display()))?;
        let everything = entry(&folder, "everything");
        if !everything.is_file() {
            return Err("the reference servers are not installed: start this through the script `run`".into());
        }
        let http = HttpServer::start(&folder, &everything, "streamableHttp").await?;
        Ok(Setting { folder, http })
    }

    /// Starts another server-everything, speaking the older HTTP with event streams.
    pub(crate) async fn start_sse(&self) -> Result<HttpServer, String> {
        HttpServer::start(&self.folder, &entry(&self.folder, "everything"), "sse").await
    }

    /// A file of server-everything's own package.
    pub(crate) fn read_everything(&self, file: &str) -> Result<String, String> {
        let path = self.folder.join("node_modules/@modelcontextprotocol/server-everything/dist").join(file);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The entry of a local server: `node <its entry> <args>`.
    pub(crate) fn local(&self, server: &str, args: &[&str]) -> Value {
        let mut command = vec!["node".to_owned(), entry(&self.folder, server).display().to_string()];
        command.extend(args.iter().map(|arg| (*arg).to_owned()));
        json!({"command": command})
    }

    /// The entry of server-everything over a wire, with `more` keys.
    pub(crate) fn everything(&self, wire: Wire, more: Value) -> Value {
        let entry = match wire {
            Wire::Stdio => self.local("everything", &["stdio"]),
            // Most checks are about calls that overlap, which this server takes in a session too.
            Wire::Http => {
                with(self.everything_in_turn(), json!({"concurrency": "stateless", "queueLimit": 256}))
            }
        };
        with(entry, more)
    }

    /// The entry of server-everything over HTTP as it is by default: it has sessions, so its calls go one
    /// after the other.
    pub(crate) fn everything_in_turn(&self) -> Value {
        json!({"type": "remote", "url": self.http.url("/mcp")})
    }

    /// A toolkit over server-everything alone.
    pub(crate) async fn load_everything(&self, wire: Wire) -> Result<Toolkit, String> {
        self.load_everything_with(wire, json!({})).await
    }

    /// [`Setting::load_everything`] with more keys in the server's entry.
    pub(crate) async fn load_everything_with(&self, wire: Wire, more: Value) -> Result<Toolkit, String> {
        load(json!({ wire.server(): self.everything(wire, more) })).await
    }
}

/// An entry with more keys.
pub(crate) fn with(mut entry: Value, more: Value) -> Value {
    if let (Some(entry), Value::Object(more)) = (entry.as_object_mut(), more) {
        entry.extend(more);
    }
    entry
}

/// A local server's entry with a mark in its environment.
pub(crate) fn marked(entry: Value, mark: &str) -> Value {
    with(entry, json!({"environment": {MARK: mark}}))
}

/// A toolkit over these servers and nothing else; every one of them has to connect.
pub(crate) async fn load(servers: Value) -> Result<Toolkit, String> {
    let toolkit = load_any(servers).await?;
    let failed = toolkit.mcp_status().values().any(|status| *status != SourceStatus::Connected);
    if failed { Err(format!("{:?}", toolkit.errors())) } else { Ok(toolkit) }
}

/// [`load`] that takes servers as they come.
pub(crate) async fn load_any(servers: Value) -> Result<Toolkit, String> {
    load_with(servers, ToolkitOptions::default()).await
}

/// [`load_any`] with options of the toolkit.
pub(crate) async fn load_with(servers: Value, options: ToolkitOptions) -> Result<Toolkit, String> {
    let options = ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(json!({"mcpServers": servers}))),
        builtins: Some(BuiltinsConfig::off()),
        ..options
    };
    create_toolkit(options).await.map_err(|error| error.to_string())
}

/// The connection of a server.
pub(crate) fn connection(toolkit: &Toolkit, server: &str) -> Result<McpConnection, String> {
    let source = toolkit.mcp().ok_or("the toolkit has no MCP source")?;
    source.connection(server).cloned().ok_or_else(|| format!("no connection {server:?}"))
}

/// Calls a tool that has to exist.
pub(crate) async fn call(toolkit: &Toolkit, tool: &str, args: Value) -> Result<ToolResult, String> {
    call_with(toolkit, tool, args, ToolContext::default()).await
}

/// [`call`] with a context.
pub(crate) async fn call_with(
    toolkit: &Toolkit,
    tool: &str,
    args: Value,
    context: ToolContext,
) -> Result<ToolResult, String> {
    let tool =
        toolkit.get(tool).ok_or_else(|| format!("no tool {tool:?} among {}", toolkit.tools().len()))?;
    Ok(tool.execute_with(args, context).await)
}

/// A result of plain text, as it serialises.
pub(crate) fn text(server: &str, output: impl Into<String>) -> Value {
    result(server, output, false)
}

/// A failure, as it serialises.
pub(crate) fn failure(server: &str, output: impl Into<String>) -> Value {
    result(server, output, true)
}

fn result(server: &str, output: impl Into<String>, is_error: bool) -> Value {
    json!({"output": output.into(), "isError": is_error, "metadata": {"server": server}})
}

/// A result of structured content, as it serialises.
pub(crate) fn structured(server: &str, content: Value) -> Value {
    let mut result = text(server, content.to_string());
    if let Some(result) = result.as_object_mut() {
        result.insert("structuredContent".into(), content);
    }
    result
}

/// A result as it serialises.
pub(crate) fn json_of(result: &ToolResult) -> Value {
    serde_json::to_value(result).unwrap_or_else(|error| {
        Value::Object(Map::from_iter([("unserialisable".to_owned(), Value::String(error.to_string()))]))
    })
}

fn entry(folder: &Path, server: &str) -> PathBuf {
    folder.join(format!("node_modules/@modelcontextprotocol/server-{server}/dist/index.js"))
}
