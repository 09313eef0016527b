//! Why a toolkit could not be built.

use toolnexus_tools::BuiltinsError;

/// Why [`create_toolkit`](crate::create_toolkit) failed. A source that cannot be loaded is not
/// among these: it leaves an entry in [`Toolkit::errors`](crate::Toolkit::errors) instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The `cancel` token of the options fired; nothing is left running.
    #[error("loading the toolkit was cancelled")]
    Cancelled,
    /// The built-in tools are configured in a way that cannot be carried out. A restriction that
    /// is not understood must not leave a tool armed.
    #[error(transparent)]
    Builtins(#[from] BuiltinsError),
}
