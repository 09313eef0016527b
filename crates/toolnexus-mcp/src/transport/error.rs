//! Why the seam says no.

use super::{RedactedSpec, SpecSource};
use crate::failure::McpFailure;
use crate::options::McpContextError;

/// Why a connection was not made, or a request not sent or not answered. Holds and shows no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeamError {
    /// The specification names both a command and a url, or neither.
    #[error(
        "mcp server \"{}\" must have either a command or a url{}",
        .0.name,
        if .0.url.is_some() && .0.command.is_some() { ", not both" } else { "" }
    )]
    InvalidSpec(Box<RedactedSpec>),
    /// A remote server, and no HTTP client can be had.
    #[error("no http client is available for remote mcp servers")]
    NoHttpClient,
    /// The specification is not the user's own and was not allowed: its origin.
    #[error("the mcp server comes from the {0} and was not allowed; set a permit that allows it")]
    Blocked(SpecSource),
    /// There is no connection yet, or never was.
    #[error("the mcp server is not connected")]
    NotConnected,
    /// The connection was closed on this side.
    #[error("the connection to the mcp server is closed")]
    Closed,
    /// A call of a priced tool without a reservation for it.
    #[error("tool {tool:?} is priced and the call has no reservation")]
    UnmeteredCall {
        /// The tool's name on the server.
        tool: String,
    },
    /// A call on a metered server of a tool whose price is not known.
    #[error("tool {tool:?} of a metered server has no price")]
    UnknownPrice {
        /// The tool's name on the server.
        tool: String,
    },
    /// Connecting was ended from outside.
    #[error(transparent)]
    Ended(#[from] McpContextError),
    /// The server, or the way to it, failed.
    #[error(transparent)]
    Failed(Box<McpFailure>),
}

impl From<McpFailure> for SeamError {
    fn from(failure: McpFailure) -> Self {
        SeamError::Failed(Box::new(failure))
    }
}
