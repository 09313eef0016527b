//! What the fixture does when a message comes in, as data.

use serde::{Deserialize, Serialize};

use super::RawJson;

/// One thing the fixture does. A script is a list of steps, run in order.
///
/// A script answers a request with an [`Answer`](Step::Answer) step; one that ends without it
/// leaves the request open for ever, so the empty script is a hang. A script takes no notice of
/// `notifications/cancelled` except in [`AwaitCancel`](Step::AwaitCancel): what a test reads is
/// what happens.
///
/// As JSON a step is its name in snake case: `"await_cancel"`, `{"sleep":{"ms":20}}`,
/// `{"answer":{"text":"hi"}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Step {
    /// Wait for that many milliseconds.
    Sleep {
        /// Milliseconds.
        ms: u64,
    },
    /// Wait until the named gate has been opened once more ([`Step::OpenGate`] of another script,
    /// or `McpHttpFixture::open_gate`). Openings are counted, so one that comes first is not lost.
    AwaitGate(String),
    /// Let one [`Step::AwaitGate`] of that name pass.
    OpenGate(String),
    /// Wait until the client has sent `notifications/cancelled` for the request being answered.
    AwaitCancel,
    /// Send `notifications/progress` with the token of the request. Nothing is sent when the
    /// request carried no token.
    Progress {
        /// Progress so far.
        progress: f64,
        /// The value at which the work is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        /// What is being done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Send a whole message of yours verbatim, a notification as a rule.
    Notify(RawJson),
    /// Send a request to the client, such as `elicitation/create`, and go on at once.
    Request {
        /// The JSON-RPC method.
        method: String,
        /// The params, left out when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        params: Option<RawJson>,
        /// The id. Default: 1, 2, 3, … over the life of the fixture.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<RawJson>,
    },
    /// Wait for the client's answer to the last [`Step::Request`] of this script.
    AwaitReply,
    /// Send `notifications/cancelled` for the last [`Step::Request`] of this script.
    CancelRequest,
    /// Write a line to stdout as it is (over HTTP: an event with that data).
    Line(String),
    /// Write bytes to stdout, no line break added. Over HTTP they go into the event stream as they
    /// are.
    Bytes(Vec<u8>),
    /// Write a line to stderr. Nothing over HTTP.
    Stderr(String),
    /// Answer the request.
    Answer(Reply),
    /// Answer the request, its id sent as a JSON string even if it came as a number.
    AnswerWithStringId(Reply),
    /// Close stdout and stay alive (over HTTP: end the response).
    CloseStdout,
    /// End the process with that status, all earlier output written (over HTTP: cut the
    /// connection).
    Exit {
        /// The exit status.
        code: i32,
    },
    /// Die by SIGABRT (over HTTP: cut the connection).
    Abort,
    /// Die by SIGKILL (over HTTP: cut the connection).
    Kill,
}

/// What an [`Answer`](Step::Answer) says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Reply {
    /// What the fixture answers to this method when nothing is scripted. For `tools/call`:
    /// [`Reply::Echo`].
    Standard,
    /// The request's `arguments` as one text entry, compact JSON in received order.
    Echo,
    /// One text entry.
    Text(String),
    /// One text entry of that many bytes, all `x`.
    TextOfSize {
        /// Length of the text in bytes.
        bytes: usize,
    },
    /// This `result`, verbatim.
    Result(RawJson),
    /// A JSON-RPC error.
    Error {
        /// The error code.
        code: i64,
        /// The error message.
        message: String,
        /// The error data, left out when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<RawJson>,
    },
    /// The client's last answer to a [`Step::Request`] of this script, as a text entry with
    /// the compact JSON `{"result":…}` or `{"error":…}`; `null` when none has come.
    ClientReply,
    /// The value of an environment variable of the fixture's process as a text entry; an error
    /// result with the text `unset` when it is not set.
    Environment(String),
    /// The names of all environment variables, sorted, as a text entry with a JSON array.
    EnvironmentNames,
    /// The working directory of the fixture's process as a text entry.
    WorkingDirectory,
    /// The arguments of the fixture's process, its program excluded, as a text entry with a JSON
    /// array.
    Arguments,
    /// What the fixture has seen, as a text entry with the JSON object
    /// `{"pid", "grandchild", "calls", "in_flight_peak", "cancelled"}`: its process ids, how many
    /// `tools/call` requests came, how many of them were open at once at most (until answered or
    /// cancelled), and the ids of the cancel notices in order.
    Report,
}

impl Reply {
    /// A text entry.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A verbatim result.
    #[must_use]
    pub fn result(result: impl Into<RawJson>) -> Self {
        Self::Result(result.into())
    }

    /// A JSON-RPC error without data.
    #[must_use]
    pub fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error { code, message: message.into(), data: None }
    }
}

impl Step {
    /// Wait for that many milliseconds.
    #[must_use]
    pub fn sleep(ms: u64) -> Self {
        Self::Sleep { ms }
    }

    /// Answer with one text entry.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Answer(Reply::text(text))
    }

    /// Answer with a verbatim result.
    #[must_use]
    pub fn result(result: impl Into<RawJson>) -> Self {
        Self::Answer(Reply::result(result))
    }

    /// Answer with a JSON-RPC error.
    #[must_use]
    pub fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Answer(Reply::error(code, message))
    }

    /// Report progress without a message.
    #[must_use]
    pub fn progress(progress: f64, total: f64) -> Self {
        Self::Progress { progress, total: Some(total), message: None }
    }

    /// Send a request to the client, with an id of the fixture's choice.
    #[must_use]
    pub fn request(method: impl Into<String>, params: impl Into<RawJson>) -> Self {
        Self::Request { method: method.into(), params: Some(params.into()), id: None }
    }

    /// Send a notification.
    #[must_use]
    pub fn notify(method: &str, params: serde_json::Value) -> Self {
        Self::Notify(serde_json::json!({"jsonrpc": "2.0", "method": method, "params": params}).into())
    }
}

/// Scripts for the first, second, … time something is asked for; the last one serves all later
/// times too.
pub(crate) fn nth(scripts: &[Vec<Step>], count: usize) -> Option<&[Step]> {
    scripts.get(count).or_else(|| scripts.last()).map(Vec::as_slice)
}
