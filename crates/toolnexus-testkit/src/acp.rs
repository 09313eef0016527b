//! A fixture ACP agent over stdio, that can also misbehave.
//!
//! It is a test double for *clients* of the Agent Client Protocol. The protocol is JSON-RPC, as MCP
//! is, so the process is that of the MCP fixture with other scripts: [`AcpFixture`] writes these,
//! and the functions beside it write the steps of a turn. Everything the agent receives, answers to
//! its own requests among it, is in its [`Ledger`](crate::mcp::Ledger).
//!
//! ```no_run
//! # fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! use toolnexus_testkit::acp::{self, AcpFixture};
//! use toolnexus_testkit::mcp::Step;
//!
//! let fixture = AcpFixture::new()
//!     .turn([
//!         acp::thought("the user greets"),
//!         acp::message("Good "),
//!         acp::ask_permission([("yes", "allow_once"), ("no", "reject_once")]),
//!         Step::AwaitReply,
//!         acp::message("day."),
//!         acp::end("end_turn"),
//!     ])
//!     .turn([acp::message("I work …"), acp::await_cancel(), acp::end("cancelled")])
//!     .turn([Step::Exit { code: 3 }]);
//! let command = fixture.command()?;
//! # Ok(()) }
//! ```

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::mcp::{FixtureCommand, FixtureCommandError, McpFixture, ProcessFaults, Step};

/// The id of the one session.
pub const SESSION: &str = "session-1";

/// Opened by each `session/cancel`.
const CANCEL_GATE: &str = "session/cancel";

/// A fixture agent, as data.
///
/// The default speaks version 1, opens the session [`SESSION`], takes any mode, and answers every
/// prompt with the message `ok`.
#[derive(Clone, Debug, PartialEq)]
pub struct AcpFixture {
    process: McpFixture,
}

impl Default for AcpFixture {
    fn default() -> Self {
        let process = McpFixture::new()
            .on("initialize", [Step::result(json!({"protocolVersion": 1, "agentCapabilities": {}}))])
            .on("session/new", [Step::result(json!({"sessionId": SESSION}))])
            .on("session/set_mode", [Step::result(json!({}))])
            .on("session/cancel", [Step::OpenGate(CANCEL_GATE.into())]);
        AcpFixture { process }
    }
}

impl AcpFixture {
    /// A well-behaved agent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What happens on the next prompt; the last turn serves all later prompts too. Nothing ends a
    /// turn but [`end`].
    #[must_use]
    pub fn turn(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.process = self.process.on("session/prompt", steps);
        self
    }

    /// What happens on a method, in place of what the agent does by itself.
    #[must_use]
    pub fn instead(mut self, method: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.process.methods.insert(method.to_owned(), vec![steps.into_iter().collect()]);
        self
    }

    /// What happens before anything is read.
    #[must_use]
    pub fn on_start(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.process = self.process.on_start(steps);
        self
    }

    /// What the process does wrong.
    #[must_use]
    pub fn faults(mut self, faults: ProcessFaults) -> Self {
        self.process = self.process.faults(faults);
        self
    }

    /// The file to which received messages are appended.
    #[must_use]
    pub fn ledger(mut self, path: impl Into<PathBuf>) -> Self {
        self.process = self.process.ledger(path);
        self
    }

    /// How to start the agent as a process; see [`McpFixture::command`].
    ///
    /// # Errors
    /// When there is no binary, or the scripts are too large for an environment variable.
    pub fn command(mut self) -> Result<FixtureCommand, FixtureCommandError> {
        if !self.process.methods.contains_key("session/prompt") {
            self = self.turn([message("ok"), end("end_turn")]);
        }
        self.process.command()
    }
}

/// A `session/update`.
#[must_use]
pub fn update(update: Value) -> Step {
    Step::notify("session/update", json!({"sessionId": SESSION, "update": update}))
}

/// A piece of the agent's message.
#[must_use]
pub fn message(text: &str) -> Step {
    chunk("agent_message_chunk", text)
}

/// A piece of the agent's thoughts.
#[must_use]
pub fn thought(text: &str) -> Step {
    chunk("agent_thought_chunk", text)
}

/// A plan with this one entry.
#[must_use]
pub fn plan(entry: &str) -> Step {
    let entry = json!({"content": entry, "priority": "high", "status": "pending"});
    update(json!({"sessionUpdate": "plan", "entries": [entry]}))
}

/// A report that a tool is at work.
#[must_use]
pub fn tool_report(title: &str) -> Step {
    let content = json!([{"type": "content", "content": {"type": "text", "text": "output of a tool"}}]);
    update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "tool-1", "title": title, "kind": "edit",
        "status": "in_progress", "content": content,
    }))
}

/// Asks permission with these options: id and kind of each. [`Step::AwaitReply`] waits for the
/// answer.
#[must_use]
pub fn ask_permission<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Step {
    let options: Vec<Value> = options
        .into_iter()
        .map(|(id, kind)| json!({"optionId": id, "name": format!("Option {id}"), "kind": kind}))
        .collect();
    let tool_call = json!({"toolCallId": "tool-1", "title": "Write a file"});
    let params = json!({"sessionId": SESSION, "toolCall": tool_call, "options": options});
    Step::request("session/request_permission", params)
}

/// Waits for one more `session/cancel`.
#[must_use]
pub fn await_cancel() -> Step {
    Step::AwaitGate(CANCEL_GATE.into())
}

/// Ends the turn for that reason.
#[must_use]
pub fn end(stop_reason: &str) -> Step {
    Step::result(json!({"stopReason": stop_reason}))
}

fn chunk(kind: &str, text: &str) -> Step {
    update(json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}}))
}
