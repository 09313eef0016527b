//! Test servers for programs built on toolnexus.
//!
//! * [`model`]: a scripted model server that speaks OpenAI, Anthropic and Gemini and keeps
//!   the exact bytes of every request.
//! * [`mcp`]: a fixture MCP server over stdio and streamable HTTP that can also misbehave.
//! * [`acp`]: a fixture ACP agent, the same process with other scripts.

pub mod acp;
pub mod mcp;
pub mod model;
