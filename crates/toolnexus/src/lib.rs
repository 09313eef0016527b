//! A toolkit for LLM agents: MCP servers, skill folders and your own functions become one kind of
//! [`Tool`], and any model runs over them.
//!
//! ```no_run
//! use toolnexus::{ClientOptions, McpConfigInput, ToolkitOptions, create_client, create_toolkit};
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let toolkit = create_toolkit(ToolkitOptions {
//!     mcp_config: Some(McpConfigInput::Path("mcp.json".into())),
//!     skills_dir: vec!["skills".into()],
//!     ..Default::default()
//! }).await?;
//! let client = create_client(ClientOptions {
//!     base_url: "https://api.openai.com/v1".into(), // the key comes from OPENAI_API_KEY
//!     model: "gpt-5-mini".into(),
//!     ..Default::default()
//! });
//! let result = client.run("Which files changed today?", &toolkit).await?;
//! println!("{}", result.text);
//! toolkit.close().await;
//! # Ok(()) }
//! ```
//!
//! # Where things are
//!
//! * [`create_toolkit`] gathers every source; [`define_tool`] and [`define_typed_tool`] make tools
//!   of your functions.
//! * [`create_client`] makes a model client, [`create_in_process_client`] one whose model is a
//!   function of yours; [`client`] has their runs, streams, stores and errors.
//! * [`mcp`], [`skills`] and [`builtins`] are the sources, each usable alone.
//! * `acp`, with the feature of that name, makes a model of an agent that speaks the Agent Client
//!   Protocol.
//! * [`Toolkit::serve`] lends a toolkit to other programs, [`mcp_handler`] does so within your own HTTP
//!   stack; [`serve`] has their options.
//! * [`content`] puts images, files and audio into a prompt or a tool's result.
//! * [`adapters`] writes the tool array of each provider, for a loop of your own.
//! * A tool that needs a person returns [`pending`]; `wait_for` answers it.
//!
//! # Logging
//!
//! Warnings and spans go to `tracing`, with the attribute names of OpenTelemetry's GenAI
//! conventions and without payloads.

mod assemble;
mod collect;
mod error;
mod options;
mod sources;

pub use assemble::create_toolkit;
pub use error::Error;
pub use options::ToolkitOptions;
pub use sources::ToolkitSources;

pub use toolnexus_core::{
    Answer, BoxError, BoxFuture, ContentPart, IntoToolOutcome, IntoToolResult, Json, LogLevel, PartKind,
    Request, Snapshot, SourceHandle, SourceStatus, Style, Suspended, Tool, ToolContext, ToolHints,
    ToolOrigin, ToolResult, ToolSource, Toolkit, ToolkitParts, WaitFor, adapters, answer_declined,
    answer_output, auth_required, define_sync_tool, define_tool, define_typed_tool, new_request_id, pending,
    pending_of, pending_with_output, relay_tool, sanitize,
};
pub use toolnexus_llm::{
    Client, ClientError, ClientOptions, Conversation, Prompt, RunOptions, RunResult, RunStatus, RunStream,
    StreamEvent, create_client, create_in_process_client,
};
pub use toolnexus_macros::{tool, tools};
pub use toolnexus_mcp::McpConfigInput;
pub use toolnexus_mcp::server::mcp_handler;
pub use toolnexus_tools::BuiltinsConfig;

/// The model client: options, runs, streams, conversations, errors.
pub mod client {
    pub use toolnexus_llm::*;
}

/// The model-context boundary: handles for the model, durable identities for everybody else.
pub mod context {
    pub use toolnexus_context::*;
}

/// Agents that speak the Agent Client Protocol as models. Needs the feature `acp`.
#[cfg(feature = "acp")]
pub mod acp {
    pub use toolnexus_llm::acp::*;
}

/// Single-turn translation: OpenAI's shapes in and out, any provider behind the client.
pub mod translate {
    pub use toolnexus_llm::translate::*;
}

/// MCP servers as a source of tools.
pub mod mcp {
    pub use toolnexus_mcp::*;
}

/// A toolkit as a server for others: on a listener of its own, in a host's HTTP stack, over stdio.
pub mod serve {
    pub use toolnexus_mcp::server::*;
    pub use toolnexus_serve::*;
}

/// Skill folders as a source of instructions.
pub mod skills {
    pub use toolnexus_skills::*;
}

/// The built-in shell and file tools.
pub mod builtins {
    pub use toolnexus_tools::*;
}

/// Images, files and audio in prompts and tool results: where they come from, and the blocks that
/// providers read.
pub mod content {
    pub use toolnexus_core::content::*;
}

/// Rust functions as tools.
pub mod native {
    pub use crate::collect_tools;
    pub use toolnexus_macros::{tool, tools};

    pub use toolnexus_core::{
        IntoToolOutcome, IntoToolResult, Json, TypedToolFn, define_sync_tool, define_tool, define_typed_tool,
        schema_of,
    };
}

/// Tools that ask, and the answers they get.
pub mod suspension {
    pub use toolnexus_core::{
        Answer, NotAString, RELAY_KIND, RelayCall, RelayResult, Request, Suspended, WaitFor, answer_declined,
        answer_output, answer_output_error, answer_output_value, auth_required, is_relay_request,
        new_request_id, pending, pending_of, pending_with_output, relay_answer, relay_calls_of,
        relay_result_for, relay_tool,
    };
}

/// HTTP endpoints as tools.
pub mod http {
    pub use toolnexus_tools::{
        CompiledHostPolicy, HostPolicy, HttpBody, HttpToolOptions, InvalidCall, InvalidHostPattern,
        ResultMode, UnknownOption, http_tool,
    };
}

/// What tools tell while they work, for programs that run tools themselves.
pub mod reports {
    pub use toolnexus_core::{LogLevel, Reporter, Reports, ToolReport, UnknownLogLevel, report_channel};
}

/// What a first program needs.
///
/// ```
/// use toolnexus::prelude::*;
/// let toolkit = Toolkit::from_tools([define_tool("hi", "Says hi", None, |_args, _context| async {
///     Ok::<_, String>("hi")
/// })]);
/// ```
pub mod prelude {
    pub use crate::{
        ClientOptions, McpConfigInput, StreamEvent, Style, Tool, ToolContext, ToolResult, Toolkit,
        ToolkitOptions, create_client, create_toolkit, define_tool, define_typed_tool,
    };
}

/// What the macros' output needs. Not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use schemars;
    pub use serde;
    pub use toolnexus_core::define_parsed_tool;
}

/// The guide's programs compile, and those that run say the truth.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/model-context.md")]
pub mod model_context_guide {}
