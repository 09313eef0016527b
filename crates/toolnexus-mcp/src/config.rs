//! The `mcp.json` document: which servers there are and how each is reached.

mod document;
mod headers;
mod repeated;
mod server;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use headers::{HeaderShape, Headers, expand_env_headers, header_shape};
pub use server::{
    ConcurrencyPolicy, DEFAULT_MAX_TOTAL_TIMEOUT_MS, DEFAULT_TIMEOUT_MS, McpEra, McpServerConfig, ServerKind,
};

/// Why an MCP document could not be read. Quotes nothing of the document's content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpConfigError {
    /// The file is missing or unreadable, no regular file, or larger than 16 MiB.
    #[error("mcp config {path:?} cannot be read: {source}")]
    Unreadable {
        /// The path as it was given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not JSON.
    #[error("mcp config{} is not valid JSON at line {line} column {column}", of_file(path))]
    Malformed {
        /// The file, when the text came from one.
        path: Option<PathBuf>,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// The top level, or the server map in it, is no JSON object.
    #[error("mcp config{}: {what}{} must be a JSON object", of_file(path), at_place(place))]
    NotAnObject {
        /// The file, when the text came from one.
        path: Option<PathBuf>,
        /// `the top level`, or the key of the server map.
        what: &'static str,
        /// Line and column, counted from 1, when there is a text.
        place: Option<(usize, usize)>,
    },
    /// The section `builtins` is given twice, or something in it. The last one would win, which may be
    /// the one that takes a restriction back.
    #[error("mcp config{}: the key {key} is given twice; remove one of them", of_file(path))]
    RepeatedKey {
        /// The file, when the text came from one.
        path: Option<PathBuf>,
        /// The key's path, for example `builtins.tools`.
        key: String,
    },
}

fn of_file(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!(" {path:?}")).unwrap_or_default()
}

fn at_place(place: &Option<(usize, usize)>) -> String {
    place.map(|(line, column)| format!(" (line {line} column {column})")).unwrap_or_default()
}

/// An MCP document, in whatever form the host has it. All forms give the same [`McpConfig`].
/// `Debug` shows which form, and nothing of a document's text.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "one of these is made in a program's life")]
pub enum McpConfigInput {
    /// A file to read.
    Path(PathBuf),
    /// The text of a document.
    Json(String),
    /// A parsed document.
    Value(Value),
    /// A document that has been read already.
    Config(McpConfig),
}

impl std::fmt::Debug for McpConfigInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            McpConfigInput::Path(path) => f.debug_tuple("Path").field(path).finish(),
            McpConfigInput::Json(text) => write!(f, "Json({} bytes)", text.len()),
            McpConfigInput::Value(_) => f.write_str("Value(..)"),
            McpConfigInput::Config(config) => f.debug_tuple("Config").field(config).finish(),
        }
    }
}

/// The servers of an MCP document, and its sibling sections. `Debug` tells which sections there
/// are, not what they say: agents have headers, and a served toolkit has tokens.
#[derive(Clone, Default)]
pub struct McpConfig {
    /// Every configured server, disabled ones included, by name in byte order.
    pub servers: Vec<McpServerConfig>,
    /// The `builtins` section, as it stands.
    pub builtins: Option<Value>,
    /// The `agents` section, as it stands.
    pub agents: Option<Value>,
    /// The `a2a` section, as it stands.
    pub a2a: Option<Value>,
    /// The `mcpServer` section, as it stands.
    pub mcp_server: Option<Value>,
}

impl std::fmt::Debug for McpConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpConfig")
            .field("servers", &self.servers)
            .field("builtins", &self.builtins.is_some())
            .field("agents", &self.agents.is_some())
            .field("a2a", &self.a2a.is_some())
            .field("mcp_server", &self.mcp_server.is_some())
            .finish()
    }
}

impl McpConfig {
    /// The server of exactly this name.
    pub fn server(&self, name: &str) -> Option<&McpServerConfig> {
        self.servers.iter().find(|server| server.name == name)
    }
}

/// Reads an MCP document from a file. Starts nothing and sends nothing.
///
/// # Errors
/// The file cannot be read (it must be a regular one of at most 16 MiB; links are followed), is
/// not JSON, or its top level or server map is no object. A broken
/// entry is not an error: that server alone fails when it is loaded.
///
/// ```no_run
/// let config = toolnexus_mcp::parse_mcp_config_file("mcp.json")?;
/// println!("{} servers", config.servers.len());
/// # Ok::<_, toolnexus_mcp::McpConfigError>(())
/// ```
pub fn parse_mcp_config_file(path: impl AsRef<Path>) -> Result<McpConfig, McpConfigError> {
    document::from_file(path.as_ref())
}

/// Reads an MCP document in any of its forms. See [`parse_mcp_config_file`].
///
/// ```
/// use toolnexus_mcp::{McpConfigInput, parse_mcp_config};
/// let text = r#"{"mcpServers":{"docs":{"url":"https://example.com/mcp"}}}"#;
/// let config = parse_mcp_config(&McpConfigInput::Json(text.into()))?;
/// assert_eq!(config.servers[0].name, "docs");
/// # Ok::<_, toolnexus_mcp::McpConfigError>(())
/// ```
///
/// # Errors
/// As [`parse_mcp_config_file`].
pub fn parse_mcp_config(input: &McpConfigInput) -> Result<McpConfig, McpConfigError> {
    match input {
        McpConfigInput::Path(path) => document::from_file(path),
        McpConfigInput::Json(text) => document::from_text(text, None),
        McpConfigInput::Value(value) => document::from_value(value),
        McpConfigInput::Config(config) => Ok(config.clone()),
    }
}
