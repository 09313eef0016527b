//! For the tests of programs built on toolnexus.
//!
//! * [`model`]: a scripted model server that speaks OpenAI, Anthropic and Gemini and keeps
//!   the exact bytes of every request.
//! * [`mcp`]: a fixture MCP server over stdio and streamable HTTP that can also misbehave.
//! * [`acp`]: a fixture ACP agent, the same process with other scripts.
//! * [`run_log_suite`] and [`conversation_store_suite`]: everything that the traits `RunLog` and
//!   `ConversationStore` promise, to be run over an implementation of your own.
//! * [`tracing_listener`]: a subscriber of a test's own, heard for certain.
//! * [`warnings`]: what toolnexus crates log as warnings on a test's thread.
//!
//! The servers know no crate of toolnexus: what they say on the wire is spelled out here once more.
//! The suites know `toolnexus-llm`, whose traits they are about; its own integration tests use this
//! crate in turn, by a dev-dependency on the path.

pub mod acp;
pub mod mcp;
pub mod model;
mod suite;
pub mod tracing_listener;
pub mod warnings;

pub use suite::{RunLogSuite, conversation_store_suite, run_log_suite};
