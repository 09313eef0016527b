//! Why something with a server went wrong, and how that reads.

use serde::{Deserialize, Serialize};
use toolnexus_process::ChildExit;

/// How far a load got, or what was asked of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum McpPhase {
    /// Looking at the entry.
    #[serde(rename = "config")]
    Config,
    /// Starting the child process.
    #[serde(rename = "connect")]
    Connect,
    /// The handshake; for HTTP also reaching the host.
    #[serde(rename = "initialize")]
    Initialize,
    /// Listing the tools.
    #[serde(rename = "tools/list")]
    ListTools,
    /// Calling a tool.
    #[serde(rename = "tools/call")]
    CallTool,
    /// Listing resources.
    #[serde(rename = "resources/list")]
    ListResources,
    /// Reading a resource.
    #[serde(rename = "resources/read")]
    ReadResource,
    /// Any other request.
    #[serde(rename = "request")]
    Request,
    /// Sending a notification of the host's own.
    #[serde(rename = "notification")]
    Notify,
}

impl McpPhase {
    /// The spelling in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            McpPhase::Config => "config",
            McpPhase::Connect => "connect",
            McpPhase::Initialize => "initialize",
            McpPhase::ListTools => "tools/list",
            McpPhase::CallTool => "tools/call",
            McpPhase::ListResources => "resources/list",
            McpPhase::ReadResource => "resources/read",
            McpPhase::Notify => "notification",
            McpPhase::Request => "request",
        }
    }

    /// The phase of a request of that method.
    pub(crate) fn of_method(method: &str) -> Self {
        match method {
            "tools/list" => McpPhase::ListTools,
            "tools/call" => McpPhase::CallTool,
            "resources/list" => McpPhase::ListResources,
            "resources/read" => McpPhase::ReadResource,
            _ => McpPhase::Request,
        }
    }
}

impl AsRef<str> for McpPhase {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl std::fmt::Display for McpPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of failure it was. The same kinds for both transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum McpFailureKind {
    /// The entry cannot be used.
    Config,
    /// The wire failed: DNS, connection, spawn, writing, a stream ending early.
    Transport,
    /// An HTTP status that is no success.
    HttpStatus,
    /// An answer that is not what the protocol allows.
    MalformedBody,
    /// The server answered with an error.
    RpcError,
    /// A time limit passed.
    Timeout,
    /// The server went away.
    PeerEof,
    /// This side closed the connection.
    Closed,
    /// This side cancelled the call.
    Cancelled,
    /// More calls wait than the connection's queue takes.
    Busy,
    /// A priced tool was called without a spend reservation; nothing was sent.
    UnmeteredCall,
    /// A tool without a price was called on a metered server; nothing was sent.
    UnknownPrice,
}

impl McpFailureKind {
    /// The spelling in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            McpFailureKind::Config => "config",
            McpFailureKind::Transport => "transport",
            McpFailureKind::HttpStatus => "http-status",
            McpFailureKind::MalformedBody => "malformed-body",
            McpFailureKind::RpcError => "rpc-error",
            McpFailureKind::Timeout => "timeout",
            McpFailureKind::PeerEof => "peer-eof",
            McpFailureKind::Closed => "closed",
            McpFailureKind::Cancelled => "cancelled",
            McpFailureKind::Busy => "busy",
            McpFailureKind::UnmeteredCall => "unmetered-call",
            McpFailureKind::UnknownPrice => "unknown-price",
        }
    }
}

impl std::fmt::Display for McpFailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What went wrong, before it is known with which server and in which phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: McpFailureKind,
    pub(crate) detail: Option<String>,
    pub(crate) http_status: Option<u16>,
    pub(crate) rpc_code: Option<i64>,
    pub(crate) rpc_message: Option<String>,
    pub(crate) exit: Option<ChildExit>,
}

impl Fault {
    pub(crate) fn new(kind: McpFailureKind) -> Self {
        Fault { kind, detail: None, http_status: None, rpc_code: None, rpc_message: None, exit: None }
    }

    pub(crate) fn with_detail(kind: McpFailureKind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Fault { detail: (!detail.is_empty()).then_some(detail), ..Fault::new(kind) }
    }

    pub(crate) fn transport(detail: &'static str) -> Self {
        Fault::with_detail(McpFailureKind::Transport, detail)
    }

    pub(crate) fn timeout() -> Self {
        Fault::new(McpFailureKind::Timeout)
    }

    pub(crate) fn closed() -> Self {
        Fault::new(McpFailureKind::Closed)
    }

    pub(crate) fn malformed() -> Self {
        Fault::new(McpFailureKind::MalformedBody)
    }

    pub(crate) fn http_status(status: u16) -> Self {
        Fault { http_status: Some(status), ..Fault::new(McpFailureKind::HttpStatus) }
    }

    pub(crate) fn rpc(code: i64, message: String) -> Self {
        Fault { rpc_code: Some(code), rpc_message: Some(message), ..Fault::new(McpFailureKind::RpcError) }
    }

    pub(crate) fn peer_gone(exit: Option<ChildExit>) -> Self {
        Fault { exit, ..Fault::new(McpFailureKind::PeerEof) }
    }

    pub(crate) fn at(self, server: &str, phase: McpPhase, stderr: Vec<String>) -> McpFailure {
        McpFailure { server: server.to_owned(), phase, fault: self, stderr }
    }
}

/// Why a server failed. Its text is
/// `mcp server "<name>" failed at <phase>: <kind>` with what else is known; it never has a URL,
/// header, argument, environment value or body in it. A child's last lines on standard error are
/// quoted as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpFailure {
    server: String,
    phase: McpPhase,
    fault: Fault,
    stderr: Vec<String>,
}

impl McpFailure {
    pub(crate) fn into_fault(self) -> Fault {
        self.fault
    }

    /// The configured name of the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Where it failed.
    pub fn phase(&self) -> McpPhase {
        self.phase
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> McpFailureKind {
        self.fault.kind
    }

    /// More about the kind, for example `spawn-failed`.
    pub fn detail(&self) -> Option<&str> {
        self.fault.detail.as_deref()
    }

    /// The HTTP status of a refused request.
    pub fn http_status(&self) -> Option<u16> {
        self.fault.http_status
    }

    /// The code of the server's error.
    pub fn rpc_code(&self) -> Option<i64> {
        self.fault.rpc_code
    }

    /// The exit status of a child that ended, when it is known.
    pub fn exit_code(&self) -> Option<i32> {
        match self.fault.exit {
            Some(ChildExit::Code(code)) => Some(code),
            _ => None,
        }
    }

    /// The child's last lines on standard error that the message quotes.
    pub fn stderr(&self) -> &[String] {
        &self.stderr
    }
}

/// Lines of standard error on a message, and characters of each.
const STDERR_LINES: usize = 5;
const STDERR_LINE_CHARS: usize = 500;

/// The last lines that are worth quoting, cut to length.
pub(crate) fn quoted_stderr(lines: &[String]) -> Vec<String> {
    let mut last: Vec<String> = lines
        .iter()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(STDERR_LINES)
        .map(|line| cut(line))
        .collect();
    last.reverse();
    last
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(STDERR_LINE_CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

impl std::fmt::Display for McpFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "mcp server \"{}\" failed at {}: ", self.server, self.phase)?;
        let fault = &self.fault;
        match (fault.kind, fault.exit) {
            (McpFailureKind::PeerEof, Some(ChildExit::Code(code))) => {
                write!(f, "peer-exited (status {code})")?
            }
            (McpFailureKind::PeerEof, Some(ChildExit::Signal(signal))) => {
                write!(f, "peer-exited (signal {signal})")?;
            }
            (McpFailureKind::PeerEof, None) if fault.detail.is_none() => {
                f.write_str("peer-eof (stdout closed, exit status unknown)")?
            }
            (kind, _) => f.write_str(kind.as_str())?,
        }
        if let Some(detail) = &fault.detail {
            write!(f, " ({detail})")?;
        }
        if let Some(status) = fault.http_status {
            write!(f, " (HTTP {status})")?;
        }
        if let Some(code) = fault.rpc_code {
            write!(f, " (code {code})")?;
        }
        // A model can often act on what the server says about its arguments; nobody can on the
        // same text from a handshake, where it may also quote the request.
        if self.phase == McpPhase::CallTool
            && let Some(message) = fault.rpc_message.as_deref().filter(|message| !message.is_empty())
        {
            write!(f, ": {message}")?;
        }
        if !self.stderr.is_empty() {
            write!(f, "; stderr: {}", self.stderr.join(" | "))?;
        }
        Ok(())
    }
}

impl std::error::Error for McpFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fault: Fault, phase: McpPhase, stderr: &[&str]) -> String {
        let lines: Vec<String> = stderr.iter().map(|line| (*line).to_owned()).collect();
        fault.at("docs", phase, quoted_stderr(&lines)).to_string()
    }

    // MCP-44, MCP-45, MCP-46: the texts and the order of what is added
    #[test]
    fn messages_have_the_stable_form() {
        let initialize = McpPhase::Initialize;
        let says = |fault| message(fault, initialize, &[]);
        let head = "mcp server \"docs\" failed at initialize: ";
        assert_eq!(says(Fault::transport("connect-failed")), format!("{head}transport (connect-failed)"));
        assert_eq!(says(Fault::http_status(503)), format!("{head}http-status (HTTP 503)"));
        assert_eq!(says(Fault::rpc(-32600, "secret".into())), format!("{head}rpc-error (code -32600)"));
        assert_eq!(says(Fault::timeout()), format!("{head}timeout"));
        assert_eq!(
            says(Fault::peer_gone(None)),
            format!("{head}peer-eof (stdout closed, exit status unknown)")
        );
        assert_eq!(
            says(Fault::peer_gone(Some(ChildExit::Signal(9)))),
            format!("{head}peer-exited (signal 9)")
        );
        let mut all = Fault::transport("stream-failed");
        all.http_status = Some(502);
        all.rpc_code = Some(7);
        assert_eq!(
            message(all, initialize, &["one", "two"]),
            format!("{head}transport (stream-failed) (HTTP 502) (code 7); stderr: one | two")
        );
    }

    // MCP-89: only a call's failure has the server's own words
    #[test]
    fn a_call_shows_the_message_of_the_server() {
        assert_eq!(
            message(Fault::rpc(-32602, "no such file".into()), McpPhase::CallTool, &[]),
            "mcp server \"docs\" failed at tools/call: rpc-error (code -32602): no such file"
        );
    }

    // MCP-49: five lines, each cut to 500 characters
    #[test]
    fn the_last_five_lines_of_stderr_are_quoted() {
        let long = "é".repeat(501);
        let shown = message(
            Fault::peer_gone(Some(ChildExit::Code(3))),
            McpPhase::Initialize,
            &["gone", "1", "2", "", "3", "4", &long],
        );
        assert_eq!(
            shown,
            format!(
                "mcp server \"docs\" failed at initialize: peer-exited (status 3); stderr: 1 | 2 | 3 | 4 | {}…",
                "é".repeat(500)
            )
        );
    }
}
