//! What a server is reached by, and who says so.

use std::path::PathBuf;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{Permit, redact};
use crate::config::{DEFAULT_TIMEOUT_MS, Headers, McpEra, McpServerConfig, ServerKind};

/// Where a specification comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SpecSource {
    /// The user's own code or configuration: allowed without asking.
    #[default]
    User,
    /// A project that somebody else may have written: the gate decides, and without one it is
    /// refused.
    Workspace,
    /// Some other origin that is not the user's own; treated like `Workspace`.
    Other(String),
}

impl std::fmt::Display for SpecSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SpecSource::User => "user",
            SpecSource::Workspace => "workspace",
            SpecSource::Other(origin) => origin,
        })
    }
}

/// How one server is reached: a program to start or an address. `Debug` shows it
/// [redacted](redact).
///
/// ```
/// use toolnexus_mcp::transport::{ServerSpec, TransportSpec, select};
/// let spec = ServerSpec { name: "docs".into(), url: Some("https://example.com/mcp".into()), ..Default::default() };
/// assert!(matches!(select(spec), Ok(TransportSpec::Http { .. })));
/// ```
#[derive(Clone)]
pub struct ServerSpec {
    /// The server's name in tool names and messages.
    pub name: String,
    /// The program and its arguments; never handed to a shell. Empty: a remote server.
    pub command: Vec<String>,
    /// The child's working directory. `None`: this process's own.
    pub cwd: Option<PathBuf>,
    /// Variables set for the child on top of those it inherits.
    pub env: IndexMap<String, String>,
    /// Which of this process's variables the child sees. `None`: as the load says. `Some`: a safe base
    /// and these.
    pub inherit_env: Option<Vec<String>>,
    /// The address of a remote server.
    pub url: Option<String>,
    /// Headers sent with each request, as they go out.
    pub headers: Headers,
    /// Whether the legacy HTTP+SSE transport is tried before streamable HTTP.
    pub sse: bool,
    /// The limit of each phase of connecting and of a silent call, in milliseconds. Default 30 000.
    pub timeout_ms: u64,
    /// The protocol era. `None`: found out for an address, `legacy` for a program.
    pub era: Option<McpEra>,
    /// Where the specification comes from. Default: the user.
    pub source: SpecSource,
    /// Decides on a specification that is not the user's. `None`: such a one is refused.
    pub permit: Option<Permit>,
}

impl Default for ServerSpec {
    fn default() -> Self {
        ServerSpec {
            name: String::new(),
            command: Vec::new(),
            cwd: None,
            env: IndexMap::new(),
            inherit_env: None,
            url: None,
            headers: Headers::new(),
            sse: false,
            timeout_ms: DEFAULT_TIMEOUT_MS,
            era: None,
            source: SpecSource::User,
            permit: None,
        }
    }
}

impl std::fmt::Debug for ServerSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        redact(self).fmt(f)
    }
}

impl From<&McpServerConfig> for ServerSpec {
    /// The entry of a document, in which the kind has settled whether program or address counts.
    fn from(config: &McpServerConfig) -> Self {
        let remote = config.kind == ServerKind::Remote;
        ServerSpec {
            name: config.name.clone(),
            command: if remote { Vec::new() } else { config.command.clone() },
            cwd: config.cwd.clone(),
            env: config.environment.clone(),
            inherit_env: config.inherit_env.clone(),
            url: config.url.clone().filter(|_| remote),
            headers: config.headers.clone(),
            sse: config.sse,
            timeout_ms: config.timeout_ms,
            era: config.era,
            source: config.source.clone().unwrap_or_default(),
            permit: None,
        }
    }
}

impl From<ServerSpec> for McpServerConfig {
    /// The entry that would say the same. A gate is not part of an entry.
    fn from(spec: ServerSpec) -> Self {
        let remote = spec.url.as_deref().is_some_and(|url| !url.is_empty());
        McpServerConfig {
            name: spec.name,
            kind: if remote { ServerKind::Remote } else { ServerKind::Local },
            command: spec.command,
            cwd: spec.cwd,
            environment: spec.env,
            inherit_env: spec.inherit_env,
            url: spec.url,
            sse: spec.sse,
            raw_headers: spec.headers.clone(),
            headers: spec.headers,
            timeout_ms: spec.timeout_ms,
            era: spec.era,
            source: Some(spec.source),
            ..Default::default()
        }
    }
}
