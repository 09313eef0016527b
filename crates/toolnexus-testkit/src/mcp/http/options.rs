//! How a fixture is served over HTTP.

use super::HttpFault;

/// How a fixture is served over HTTP. The default is a well-behaved server with sessions.
///
/// ```
/// use toolnexus_testkit::mcp::{HttpEffect, HttpFault, HttpOptions};
///
/// let options = HttpOptions {
///     sessions: false,
///     faults: vec![HttpFault::on("tools/call", HttpEffect::status(503)).once()],
///     ..HttpOptions::default()
/// };
/// ```
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The path of the MCP endpoint. A path of its own makes a server that no client has met before,
    /// whatever port it gets. Default `/mcp`.
    pub path: String,
    /// Issue an `Mcp-Session-Id` (`session-1`, `session-2`, …) at `initialize` and insist on it:
    /// a request without one gets 400, one with an unknown one 404. Default `true`; a modern fixture
    /// has none.
    pub sessions: bool,
    /// How requests are answered.
    pub answers: AnswerMode,
    /// Where notifications and requests of the server's own go during a call.
    pub messages: MessageRoute,
    /// Whether a GET opens a standing event stream; else it gets 405. Default `true`.
    pub standing_stream: bool,
    /// Whether a DELETE ends the session; else it gets 405. Default `true`.
    pub delete: bool,
    /// Number the events (`id: 1`, `id: 2`, …) of each stream. Default `false`.
    pub event_ids: bool,
    /// Forget the first session once it has taken that many requests (its `initialize` not
    /// counted): the next one gets 404. Default: never.
    pub lose_session_after: Option<usize>,
    /// A header, name and value, without which every request gets 401. Default: none.
    pub required_header: Option<(String, String)>,
    /// Misbehaviour; the first fault that applies to a request is the one.
    pub faults: Vec<HttpFault>,
    /// Speak the HTTP+SSE transport of 2024-11-05 instead: a GET opens the event stream and names,
    /// in an `endpoint` event, where to post; a POST to the url itself gets 405. The text is that
    /// endpoint, `/messages` as a rule. Sessions and answer modes play no part.
    pub legacy_sse: Option<String>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            path: "/mcp".to_owned(),
            sessions: true,
            answers: AnswerMode::default(),
            messages: MessageRoute::default(),
            standing_stream: true,
            delete: true,
            event_ids: false,
            lose_session_after: None,
            required_header: None,
            faults: Vec::new(),
            legacy_sse: None,
        }
    }
}

/// How requests are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerMode {
    /// By one JSON body, unless something else has to be said before the answer; then by an event
    /// stream.
    #[default]
    Auto,
    /// By one JSON body. Messages of the server's own go to the standing streams; lines and bytes
    /// of a script, and what follows its answer, are dropped.
    Json,
    /// By an event stream that ends with the script.
    Sse,
}

/// Where notifications and requests of the server's own go during a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageRoute {
    /// Onto the stream that answers the call.
    #[default]
    Call,
    /// Onto the standing streams; they wait for the first one if there is none.
    Standing,
}
