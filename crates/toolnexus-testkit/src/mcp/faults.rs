//! What the process of a stdio fixture does wrong beside its scripts.

use serde::{Deserialize, Serialize};

/// Misbehaviour of the process itself. The default is none.
///
/// ```
/// use toolnexus_testkit::mcp::{Grandchild, ProcessFaults};
///
/// let stubborn = ProcessFaults {
///     ignore_stdin_close: true,
///     ignore_signals: true,
///     grandchild: Some(Grandchild::HoldsPipes),
///     ..ProcessFaults::default()
/// };
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessFaults {
    /// Lines written to stderr from the start on, beside everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_spam: Option<StderrSpam>,
    /// Live on when stdin is closed. Default: the process exits with status 0.
    pub ignore_stdin_close: bool,
    /// Ignore SIGTERM, SIGINT and SIGHUP.
    pub ignore_signals: bool,
    /// Stop reading stdin after that many messages, so that the pipe fills up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reading_after: Option<usize>,
    /// Start a process of its own, which sleeps. It is killed when the fixture ends by itself, and
    /// ends after a minute at the latest; a kill of the fixture alone leaves it running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grandchild: Option<Grandchild>,
}

/// Lines of noise on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StderrSpam {
    /// How many lines; `None`: without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// Length of each line in bytes, its line break not counted.
    pub bytes: usize,
}

/// A process started by the fixture. Its id is in the [`Ledger`](super::Ledger) and in
/// [`Reply::Report`](super::Reply::Report).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grandchild {
    /// It has no pipe of the fixture.
    Quiet,
    /// It inherits stdout and stderr, so these do not end when the fixture dies alone.
    HoldsPipes,
}
