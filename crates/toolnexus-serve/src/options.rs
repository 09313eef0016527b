//! What to serve, and to whom.

use toolnexus_core::{BoxFuture, ServeToolkit, Toolkit};
use toolnexus_mcp::server::{Authenticate, McpHandler, McpProfile, McpServeConfig, OnCall, WwwAuthenticate};

use crate::address::Address;
use crate::error::ServeError;
use crate::handle::ServeHandle;
use crate::listener;
use crate::origin::Origins;
use crate::sections::{self, ServeSections};
use crate::site::{Guard, McpServer, Site};

/// How large a request's body may be when the options do not say: 4 MiB.
const DEFAULT_MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// What a listener serves: the argument of [`Toolkit::serve`].
///
/// `Default` serves what the toolkit's document asks for (its `mcpServer` section), else answers 404
/// to everything.
#[derive(Clone, Default)]
pub struct ServeOptions {
    /// Serve the tools over MCP at `/mcp`. It replaces the document's `mcpServer` section; `None`:
    /// what that says, if there is one.
    pub mcp: Option<McpServeConfig>,
    /// An endpoint of your own making at `/mcp`, instead of a profile: with sessions, hooks and event
    /// streams. It has a body limit of its own. Without an `authenticate` of its own it takes the identity
    /// that the one here gives. It is closed when the server stops, which ends its calls at once.
    pub mcp_handler: Option<McpHandler>,
    /// Told of each call of a tool that `mcp` serves, when it has ended.
    pub on_call: Option<OnCall>,
    /// Says who sends a request, before its body is read: it gets the head, in whose extensions
    /// the peer's `SocketAddr` is. An error or a panic answers 401. `None`: anybody may call.
    pub authenticate: Option<Authenticate>,
    /// The `WWW-Authenticate` header of a request that `authenticate` refused. `None`: none.
    pub www_authenticate: Option<WwwAuthenticate>,
    /// The origins of web pages that may call, as in `https://app.example.com`, beside those of this
    /// machine and of the bound host; `*` is any. They get the CORS headers that a browser asks for.
    pub allowed_origins: Vec<String>,
    /// The largest body of a request to `mcp`, in bytes. 0: 4 MiB.
    pub max_body_bytes: usize,
}

impl ServeToolkit for ServeOptions {
    type Handle = ServeHandle;
    type Error = ServeError;

    fn serve_toolkit<'a>(
        self,
        toolkit: &'a Toolkit,
        addr: &'a str,
    ) -> BoxFuture<'a, Result<ServeHandle, ServeError>> {
        Box::pin(self.serve(toolkit, addr))
    }
}

impl ServeOptions {
    async fn serve(self, toolkit: &Toolkit, addr: &str) -> Result<ServeHandle, ServeError> {
        let profile = match (self.mcp, &self.mcp_handler, toolkit.source::<ServeSections>()) {
            (Some(_), Some(_), _) => return Err(ServeError::TwoMcpServers),
            (Some(profile), None, _) => Some(profile),
            (None, None, Some(ServeSections { mcp_server: Some(section) })) => {
                Some(McpServeConfig::from_value(section)?)
            }
            (None, ..) => None,
        };
        let address = Address::read(addr)?;
        let origins = Origins::new(&self.allowed_origins, address.bound_host())?;
        let (address, listener) = address.bind(addr).await?;
        if let Some(profile) = &profile {
            sections::warn_of_host_paths(toolkit, profile);
        }
        let is_local = listener.local_addr().is_ok_and(|local| local.ip().is_loopback());
        if !is_local && profile.is_some() && self.authenticate.is_none() {
            tracing::warn!(
                "[toolnexus] {addr} can be reached from other machines and nobody is asked who calls: \
                 set ServeOptions::authenticate, or listen on 127.0.0.1"
            );
        }
        let mcp = match (profile, self.mcp_handler) {
            (Some(profile), _) => {
                let profile = McpProfile::new(toolkit, profile);
                Some(McpServer::Profile(match self.on_call {
                    Some(on_call) => profile.on_call(on_call),
                    None => profile,
                }))
            }
            (None, Some(handler)) => Some(McpServer::Handler(handler)),
            (None, None) => None,
        };
        let max_body_bytes =
            if self.max_body_bytes == 0 { DEFAULT_MAX_BODY_BYTES } else { self.max_body_bytes };
        let guard = Guard { authenticate: self.authenticate, challenge: self.www_authenticate };
        let site = Site { mcp, origins, guard, max_body_bytes };
        Ok(listener::start(listener, site, address.url(), address.port))
    }
}

impl std::fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeOptions")
            .field("mcp", &self.mcp)
            .field("mcp_handler", &self.mcp_handler)
            .field("on_call", &self.on_call.is_some())
            .field("authenticate", &self.authenticate.is_some())
            .field("allowed_origins", &self.allowed_origins)
            .field("max_body_bytes", &self.max_body_bytes)
            .finish_non_exhaustive()
    }
}
