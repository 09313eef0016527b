//! Why a toolkit could not be built.

use toolnexus_mcp::McpConfigError;
use toolnexus_tools::BuiltinsError;

/// Why [`create_toolkit`](crate::create_toolkit) failed. A source that cannot be loaded is not
/// among these: it leaves an entry in [`Toolkit::errors`](crate::Toolkit::errors) instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The `cancel` token of the options fired; nothing is left running.
    #[error("loading the toolkit was cancelled")]
    Cancelled,
    /// Relay tools among the `extra_tools` have names of built-in tools, which a model knows and
    /// would expect to be executed here. Given even when the built-in tools are off.
    #[error(
        "toolnexus: relay tool name collides with a built-in tool: [{}]; rename the relay tool, for example \
         by a prefix of its origin",
        .names.join(", ")
    )]
    RelayCollision {
        /// The names, sorted.
        names: Vec<String>,
    },
    /// The built-in tools are configured in a way that cannot be carried out. A restriction that
    /// is not understood must not leave a tool armed.
    #[error(transparent)]
    Builtins(#[from] BuiltinsError),
    /// The document says something about the built-in tools twice, so it is not known what is meant.
    #[error(transparent)]
    AmbiguousBuiltins(McpConfigError),
}
