//! Why a toolkit is not served.

use toolnexus_mcp::server::McpServeError;

/// Why a toolkit is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address has no port that is one.
    #[error("address {addr:?} has no port: give it as in 127.0.0.1:8080, port 0 for any that is free")]
    Address {
        /// The address as it was given.
        addr: String,
    },
    /// Nothing can be bound to the address.
    #[error("cannot listen on {addr:?}: {source}")]
    Bind {
        /// The address as it was given.
        addr: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// One of the origins to be allowed could never be matched.
    #[error("allowed origin {origin:?} is no origin: give it as in https://app.example.com")]
    Origin {
        /// The origin as it was given.
        origin: String,
    },
    /// There is one `/mcp`, and two things that want to be there.
    #[error("mcp and mcp_handler are both set: /mcp can be one of them, leave the other out")]
    TwoMcpServers,
    /// The MCP profile cannot be used.
    #[error(transparent)]
    Mcp(#[from] McpServeError),
}
