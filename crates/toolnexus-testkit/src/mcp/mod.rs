//! A fixture MCP server, over stdio and over streamable HTTP, that can also misbehave.
//!
//! It is a test double for MCP *clients*: a scripted JSON-RPC responder, deliberately not a
//! protocol library. [`McpFixture`] says in one value what it does. A well-behaved server answers
//! `initialize`, `ping`, `tools/list` (in pages) and `tools/call`; a list of [`Step`]s in the
//! place of any answer makes it late, silent, wrong, chatty or dead.
//!
//! Over stdio the fixture is a process, started from [`McpFixture::command`] or from an `mcp.json`
//! entry ([`McpFixture::server_json`]), which notes what it receives in a [`Ledger`].
//!
//! Over HTTP it lives in the test's own runtime: [`McpHttpFixture`] keeps every request, and
//! [`HttpOptions`] adds what can go wrong in that layer.
//!
//! ```no_run
//! # fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! use toolnexus_testkit::mcp::{FixtureTool, McpFixture, Reply, Step};
//!
//! let fixture = McpFixture::new()
//!     .tool(FixtureTool::echo("say"))
//!     .tool(FixtureTool::exits("crash", 3))
//!     .tool(FixtureTool::scripted("ask", [
//!         Step::request("elicitation/create", serde_json::json!({"message": "Who are you?"})),
//!         Step::AwaitReply,
//!         Step::Answer(Reply::ClientReply),
//!     ]));
//! let mcp_json = fixture.mcp_json("fixture")?;
//! # Ok(()) }
//! ```

mod command;
mod engine;
mod faults;
mod fixture;
mod http;
mod in_flight;
mod json;
mod ledger;
mod listing;
mod message;
mod outlet;
mod process;
mod reply;
mod run;
mod script;
mod stdio;
mod tool;

pub use command::{BINARY_VARIABLE, FIXTURE_VARIABLE, FixtureCommand, FixtureCommandError};
pub use faults::{Grandchild, ProcessFaults, StderrSpam};
pub use fixture::{McpFixture, Paging};
pub use http::{
    AnswerMode, HttpEffect, HttpFault, HttpOptions, McpHttpFixture, MessageRoute, RecordedHttpRequest,
};
pub use json::RawJson;
pub use ledger::{Ledger, LedgerEntry};
pub use script::{Reply, Step};
pub use stdio::run_stdio;
pub use tool::FixtureTool;
