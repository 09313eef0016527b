//! A toolkit on a listener of its own: other programs call its tools over HTTP.
//!
//! ```no_run
//! use toolnexus_core::{Toolkit, define_tool};
//! use toolnexus_serve::{McpServeConfig, ServeOptions};
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let greet = define_tool("greet", "Greets", None, |_args, _context| async { Ok::<_, String>("hello") });
//! let toolkit = Toolkit::from_tools([greet]);
//! let server = toolkit.serve("127.0.0.1:8080", ServeOptions {
//!     mcp: Some(McpServeConfig::default()),
//!     ..Default::default()
//! }).await?;
//! println!("MCP at {}/mcp", server.url);
//! server.stopped().await;
//! # Ok(()) }
//! ```
//!
//! # Who can call
//!
//! Whoever reaches the port can run the tools, unless [`ServeOptions::authenticate`] says who may.
//! On a loopback address those are the programs of this machine, and web pages are kept out by
//! their `Origin`. Binding beyond loopback is your decision: put authentication in front, and TLS,
//! which is a proxy's.
//!
//! # Where to look
//! * `options`: what can be asked for; `sections`: what the toolkit's document asks for.
//! * `address`, `listener`, `handle`: a port, its connections, and their end.
//! * `site`: one request, from its head to its answer; `body`: how long its body may take; `origin`: whose
//!   pages may send one.

mod address;
mod body;
mod error;
mod handle;
mod listener;
mod options;
mod origin;
mod sections;
mod site;

pub use error::ServeError;
pub use handle::ServeHandle;
pub use options::ServeOptions;
pub use sections::ServeSections;
pub use toolnexus_core::{Identity, ServeToolkit};
pub use toolnexus_mcp::server::{
    Authenticate, McpServeConfig, McpServeError, OnCall, OnCallEvent, WwwAuthenticate, exposed_tools,
    serve_mcp_stdio,
};
