//! Why servers could not be loaded, and what to do about it.

use toolnexus::mcp::{McpConnection, McpFailure, McpFailureKind, McpPhase};
use toolnexus::{Toolkit, ToolkitSources as _};

use super::plain;

/// The reason of each server that failed, with what it wrote last, by name.
pub(crate) fn failures(toolkit: &Toolkit) -> Vec<(String, Vec<String>)> {
    let Some(source) = toolkit.mcp() else { return Vec::new() };
    let lines = |connection: &McpConnection| {
        let failure = connection.error()?;
        Some((connection.name().to_owned(), failure_lines(failure)))
    };
    source.connections.iter().filter_map(lines).collect()
}

/// First what failed, then a remedy, then the server's own last words.
pub(crate) fn failure_lines(failure: &McpFailure) -> Vec<String> {
    let text = failure.to_string();
    // The message ends with the lines of stderr, which get lines of their own here.
    let reason = text.split_once("; stderr: ").map_or(text.as_str(), |(reason, _)| reason);
    let reason = reason.strip_prefix(&format!("mcp server \"{}\" ", failure.server())).unwrap_or(reason);
    let mut lines = vec![plain(reason).into_owned()];
    lines.extend(remedy(failure).map(|remedy| format!("  {remedy}")));
    lines.extend(failure.stderr().iter().map(|line| format!("  stderr: {}", plain(line))));
    lines
}

fn remedy(failure: &McpFailure) -> Option<&'static str> {
    match (failure.kind(), failure.phase(), failure.http_status()) {
        (_, McpPhase::Config, _) => {
            Some("correct its entry: \"command\" for a program, \"url\" for a remote server")
        }
        (McpFailureKind::Transport, McpPhase::Connect, _) => {
            Some("check that its command is installed and spelled as in your shell")
        }
        (McpFailureKind::Transport, ..) => Some("check its \"url\" and the network"),
        (McpFailureKind::Timeout, ..) => {
            Some("it did not answer in time: check it, or raise \"timeout\" in its entry")
        }
        (McpFailureKind::PeerEof, ..) => Some("it ended by itself: run its command in a shell to see why"),
        (McpFailureKind::MalformedBody, ..) => {
            Some("what it writes to stdout is not MCP: is it an MCP server?")
        }
        (McpFailureKind::HttpStatus, _, Some(401 | 403)) => {
            Some("it wants a credential: see \"headers\" in its entry")
        }
        (McpFailureKind::HttpStatus, ..) => Some("check its \"url\""),
        _ => None,
    }
}
