//! Why an agent gave no answer.

/// Why an agent gave no answer. Agents are named by their command, never by its arguments or
/// environment, which may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcpError {
    /// The command cannot be started.
    #[error(
        "the ACP agent \"{command}\" cannot be started: {reason}; is it installed, and is cwd a directory?"
    )]
    Spawn {
        /// The command.
        command: String,
        /// What the system says.
        reason: String,
    },
    /// The agent did not open a session in time.
    #[error(
        "the ACP agent \"{command}\" opened no session within {timeout_ms}ms{said}; does it speak ACP on \
         standard output? start_timeout_ms gives it more time"
    )]
    StartTimeout {
        /// The command.
        command: String,
        /// The time it had.
        timeout_ms: u64,
        /// What it wrote instead, empty if nothing.
        said: String,
    },
    /// The agent answered a request with an error, or in a way that cannot be used, such as another
    /// version of the protocol.
    #[error("the ACP agent \"{command}\" failed at {method}: {message} (code {code})")]
    Failed {
        /// The command.
        command: String,
        /// The request.
        method: &'static str,
        /// What is wrong, as a rule in the agent's own words.
        message: String,
        /// The JSON-RPC code; -32000 asks to sign in first.
        code: i32,
    },
    /// The agent is gone, or closed its standard output.
    #[error("the ACP agent \"{command}\" {exit}{said}")]
    Ended {
        /// The command.
        command: String,
        /// How it ended, for example `ended with exit code 1`.
        exit: String,
        /// The end of what it wrote to standard error, and the first line of standard output that
        /// was no message; empty if nothing.
        said: String,
    },
    /// A turn, or a change of mode, took too long.
    #[error(
        "the ACP agent \"{command}\" did not answer within {timeout_ms}ms; prompt_timeout_ms gives it more time"
    )]
    Timeout {
        /// The command.
        command: String,
        /// The time it had.
        timeout_ms: u64,
    },
    /// The turn was cancelled.
    #[error("the turn of the ACP agent was cancelled")]
    Cancelled,
    /// The client's runtime has ended.
    #[error("the connection to the ACP agent \"{command}\" was closed")]
    Closed {
        /// The command.
        command: String,
    },
}
