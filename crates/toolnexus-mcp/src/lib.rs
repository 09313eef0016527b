//! MCP, both ways. Servers as sources of tools: the client side, on the official `rmcp` crate. A toolkit as
//! a server for others: [`server`].
//!
//! A document (`mcp.json`) is parsed into an [`McpConfig`], [`load_mcp`] connects every server in
//! it over stdio or streamable HTTP, and each remote tool becomes an ordinary
//! [`Tool`](toolnexus_core::Tool). One bad server never costs the others: it ends as `failed` with
//! a stable message, which never shows a secret.
//!
//! Where to look:
//! * `config`: the document, its entries, headers with placeholders.
//! * `load`, `connect`, `listing`, `pages`: from an entry to tools; `inventory` lists without keeping.
//! * `slot`: a server's place, whose session can be replaced; `live`: a session that stands, and its
//!   end; `source`: all of them together.
//! * `lifecycle`: a server's state, starting it again, tools that change.
//! * [`transport`]: the seam: what is selected, permitted, shown. `reach` and `era`: which transport and
//!   which generation of the protocol a remote server speaks.
//! * `request`, `clock`, `call`, `result`: one call, its limits, what becomes of its result;
//!   `resources`: the same for resources.
//! * `admission`, `spend`: what a request waits for before it is sent, and what it has to pay.
//! * `param_headers`: arguments that a modern server wants to see in headers.
//! * `elicitation`, `handler`, `in_flight`, `rounds`: what servers ask of the host while they work.
//! * `child`, `stdio`, `http`: the wires, streamable HTTP with the legacy HTTP+SSE transport as its
//!   fallback. `wire` reads what comes, before rmcp decodes it; `open` knows who waits for it.
//! * `auth`: signing in to remote servers with OAuth.
//! * `failure`: kinds, phases, and how a failure reads.

mod admission;
pub mod auth;
mod call;
mod child;
mod clock;
mod config;
mod connect;
mod elicitation;
mod era;
mod failure;
mod filter;
mod handler;
mod http;
mod in_flight;
mod inventory;
mod lifecycle;
mod listing;
mod live;
mod load;
mod naming;
mod open;
mod options;
mod pages;
mod param_headers;
mod reach;
mod request;
mod resources;
mod result;
mod rounds;
pub mod server;
mod slot;
mod source;
mod spend;
mod stdio;
mod sync;
pub mod transport;
mod wire;

pub use auth::{FileTokenStore, InMemoryTokenStore, McpAuth, McpSignIn, McpSignInRequest, McpTokenStore};
pub use config::{
    ConcurrencyPolicy, DEFAULT_MAX_TOTAL_TIMEOUT_MS, DEFAULT_TIMEOUT_MS, HeaderShape, Headers, McpConfig,
    McpConfigError, McpConfigInput, McpEra, McpServerConfig, ServerKind, expand_env_headers, header_shape,
    parse_mcp_config, parse_mcp_config_file,
};
pub use connect::McpServerInfo;
pub use elicitation::{answer_to_elicit_result, elicitation_to_request, server_request_response};
pub use failure::{McpFailure, McpFailureKind, McpPhase};
pub use inventory::{McpInventory, ToolInfo, list_mcp_tools};
pub use lifecycle::{AutoRestart, McpState, McpStateChange, McpToolsChange};
pub use load::{connect_mcp_server, load_mcp, load_mcp_with, load_mcp_with_context};
pub use naming::mcp_tool_name;
pub use options::{LoadMcpOptions, McpContext, McpContextError, McpServerEvent, OnServer};
pub use resources::resource_tools;
pub use source::{McpConnection, McpSource};
pub use spend::{PricedCall, Reservation, Reserve, SpendGate};
pub use toolnexus_core::{SourceStatus as McpStatus, sanitize};
