//! Why a toolkit cannot be served as it was asked.

/// Why a toolkit cannot be served over MCP as it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpServeError {
    /// A profile that a document describes (its `mcpServer` section) cannot be understood. What
    /// restricts must not be guessed at.
    #[error("mcpServer{}{key} must be {expected}", if key.is_empty() { "" } else { "." })]
    Profile {
        /// The key with the odd value; empty for the section itself.
        key: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// A protocol revision that this server does not speak.
    #[error("protocol version {version:?} cannot be served: choose from {}", known.join(", "))]
    ProtocolVersion {
        /// The revision as it was given.
        version: String,
        /// The revisions that can be served.
        known: &'static [&'static str],
    },
}
