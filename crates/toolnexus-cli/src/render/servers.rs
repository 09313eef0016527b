//! Why servers could not be loaded, and what to do about it.

use toolnexus::mcp::{McpConfig, McpFailure, McpFailureKind, McpPhase, McpServerConfig};
use toolnexus::{Toolkit, ToolkitSources as _};
use url::Url;

use super::plain;

/// A server that could not be loaded.
#[derive(Debug)]
pub(crate) struct FailedServer {
    pub(crate) name: String,
    /// What failed, without the server's name.
    message: String,
    /// What to do about it.
    pub(crate) remedy: Option<String>,
    /// The server's own last words.
    stderr: Vec<String>,
}

impl FailedServer {
    fn new(failure: &McpFailure, server: Option<&McpServerConfig>) -> Self {
        let text = failure.to_string();
        // The message ends with the lines of stderr, which get lines of their own here.
        let message = text.split_once("; stderr: ").map_or(text.as_str(), |(message, _)| message);
        let name = failure.server();
        let message = message.strip_prefix(&format!("mcp server \"{name}\" ")).unwrap_or(message);
        FailedServer {
            name: name.to_owned(),
            message: message.to_owned(),
            remedy: remedy(failure, server),
            stderr: failure.stderr().to_vec(),
        }
    }

    /// What failed, and indented a remedy and the server's own last words.
    pub(crate) fn lines(&self) -> Vec<String> {
        let remedy = self.remedy.iter().map(|remedy| format!("  {}", plain(remedy)));
        let stderr = self.stderr.iter().map(|line| format!("  stderr: {}", plain(line)));
        std::iter::once(plain(&self.message).into_owned()).chain(remedy).chain(stderr).collect()
    }

    /// `MCP server docs failed at …`, with the lines below it indented.
    pub(crate) fn text(&self) -> String {
        format!("MCP server {} {}", plain(&self.name), self.lines().join("\n"))
    }
}

/// The servers that could not be loaded, by name.
pub(crate) fn failed_servers(toolkit: &Toolkit, config: &McpConfig) -> Vec<FailedServer> {
    let Some(source) = toolkit.mcp() else { return Vec::new() };
    let failures = source.connections.iter().filter_map(|connection| connection.error());
    failures.map(|failure| FailedServer::new(failure, config.server(failure.server()))).collect()
}

fn remedy(failure: &McpFailure, server: Option<&McpServerConfig>) -> Option<String> {
    let program = server.and_then(|server| server.command.first()).map_or("its command", String::as_str);
    let host = server.and_then(|server| server.url.as_deref()).and_then(origin);
    let host = host.as_deref().unwrap_or("its url");
    let missing = server.map(McpServerConfig::missing_env).unwrap_or_default();
    let text = match (failure.kind(), failure.phase(), failure.http_status()) {
        (_, McpPhase::Config, _) => {
            match failure.detail() {
                // It says which key.
                Some(_) => "correct that in its entry".to_owned(),
                None => {
                    "correct its entry: \"command\" for a program, \"url\" for a remote server".to_owned()
                }
            }
        }
        (McpFailureKind::Transport, McpPhase::Connect, _) if program.contains(char::is_whitespace) => {
            // Only the first word: a secret may be among the others.
            let first = program.split_whitespace().next().unwrap_or_default();
            format!(
                "it cannot be started: \"command\" takes the program alone; \
                 if what comes after {first} is arguments, it goes into \"args\""
            )
        }
        (McpFailureKind::Transport, McpPhase::Connect, _) => {
            format!("{program} cannot be started: is it installed, and on the PATH?")
        }
        (McpFailureKind::Transport, ..) => format!("{host} cannot be reached: check \"url\" and the network"),
        (McpFailureKind::Timeout, ..) => match server {
            Some(server) => format!(
                "no answer within {}: check the server, or raise \"timeout\" in its entry",
                super::milliseconds(server.timeout_ms)
            ),
            None => "check the server, or raise \"timeout\" in its entry".to_owned(),
        },
        (McpFailureKind::PeerEof, ..) => format!("{program} ended by itself: run it in a shell to see why"),
        (McpFailureKind::MalformedBody, ..) => "what it says is not MCP: is it an MCP server?".to_owned(),
        (McpFailureKind::HttpStatus, _, Some(401 | 403)) if !missing.is_empty() => {
            let (are, them) = if missing.len() == 1 { ("is", "it") } else { ("are", "them") };
            format!(
                "{host} wants a credential: {}, which \"headers\" refers to, {are} not set: export {them}",
                missing.join(" and ")
            )
        }
        (McpFailureKind::HttpStatus, _, Some(401 | 403))
            if server.is_some_and(|server| server.auth.is_some()) =>
        {
            format!("{host} wants a sign-in: run `toolnexus mcp test` in a terminal to be shown where")
        }
        (McpFailureKind::HttpStatus, _, Some(401 | 403)) => {
            format!(
                "{host} wants a credential: \"headers\" in its entry can hold one, \"auth\": true signs in"
            )
        }
        (McpFailureKind::HttpStatus, ..) => {
            format!("{host} answers, but not as an MCP server: check \"url\"")
        }
        _ => return None,
    };
    Some(text)
}

/// Scheme, host and port: the rest of a URL may be secret.
fn origin(url: &str) -> Option<String> {
    Url::parse(url).ok().map(|url| url.origin().ascii_serialization())
}
