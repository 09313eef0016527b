//! A toolkit as an MCP server: the other direction of this crate.
//!
//! Where to look:
//! * `message`: JSON-RPC as it comes in (request, notification, response, or nothing of use), and
//!   the bodies that go out.
//! * `describe`: a tool as `tools/list` shows it; `result`: a tool's result as `tools/call` gives it.
//! * `call`: one running call, with its reports, its cancellation and its end.
//! * `head`: what the head of an HTTP request says; `sse`, `body`: what an HTTP answer is made of.

#![allow(dead_code, reason = "the handler and the profile are being built on this")]

mod body;
mod call;
mod describe;
mod error;
mod head;
mod message;
mod result;
mod sse;

pub use body::McpBody;
pub use error::McpServeError;
