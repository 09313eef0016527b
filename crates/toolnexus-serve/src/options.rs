//! What to serve, and to whom.

use std::error::Error;
use std::sync::Arc;

use http::request::Parts;
use toolnexus_core::{BoxError, BoxFuture, Identity, ServeToolkit, Toolkit};
use toolnexus_mcp::server::{McpProfile, McpServeConfig, OnCall};

use crate::address::Address;
use crate::error::ServeError;
use crate::handle::ServeHandle;
use crate::listener;
use crate::origin::Origins;
use crate::sections::{self, ServeSections};
use crate::site::{Guard, Site};

/// How large a request's body may be when the options do not say: 4 MiB.
const DEFAULT_MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Says who sends a request. An error answers 401 without its text.
pub type Authenticate =
    Arc<dyn Fn(Arc<Parts>) -> BoxFuture<'static, Result<Identity, BoxError>> + Send + Sync>;

/// The `WWW-Authenticate` header of a request that was refused, if it shall have one.
pub type WwwAuthenticate = Arc<dyn Fn(&Parts, &(dyn Error + 'static)) -> Option<String> + Send + Sync>;

/// What a listener serves: the argument of [`Toolkit::serve`].
///
/// `Default` serves what the toolkit's document asks for (its `mcpServer` section), else answers 404
/// to everything.
#[derive(Clone, Default)]
pub struct ServeOptions {
    /// Serve the tools over MCP at `/mcp`. It replaces the document's `mcpServer` section; `None`:
    /// what that says, if there is one.
    pub mcp: Option<McpServeConfig>,
    /// Told of each call of a served tool, when it has ended.
    pub on_call: Option<OnCall>,
    /// Says who sends a request, before its body is read: it gets the head, in whose extensions
    /// the peer's `SocketAddr` is. An error or a panic answers 401. `None`: anybody may call.
    pub authenticate: Option<Authenticate>,
    /// The `WWW-Authenticate` header of a request that `authenticate` refused. `None`: none.
    pub www_authenticate: Option<WwwAuthenticate>,
    /// The origins of web pages that may call, as in `https://app.example.com`, beside those of this
    /// machine and of the bound host; `*` is any. They get the CORS headers that a browser asks for.
    pub allowed_origins: Vec<String>,
    /// The largest body of a request, in bytes. 0: 4 MiB.
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
        let mcp = match (self.mcp, toolkit.source::<ServeSections>()) {
            (Some(profile), _) => Some(profile),
            (None, Some(ServeSections { mcp_server: Some(section) })) => {
                Some(McpServeConfig::from_value(section)?)
            }
            (None, _) => None,
        };
        let address = Address::read(addr)?;
        let origins = Origins::new(&self.allowed_origins, address.bound_host())?;
        let (address, listener) = address.bind(addr).await?;
        if let Some(profile) = &mcp {
            sections::warn_of_host_paths(toolkit, profile);
        }
        let is_local = listener.local_addr().is_ok_and(|local| local.ip().is_loopback());
        if !is_local && mcp.is_some() && self.authenticate.is_none() {
            tracing::warn!(
                "[toolnexus] {addr} can be reached from other machines and nobody is asked who calls: \
                 set ServeOptions::authenticate, or listen on 127.0.0.1"
            );
        }
        let mcp = mcp.map(|profile| {
            let profile = McpProfile::new(toolkit, profile);
            match self.on_call {
                Some(on_call) => profile.on_call(on_call),
                None => profile,
            }
        });
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
            .field("on_call", &self.on_call.is_some())
            .field("authenticate", &self.authenticate.is_some())
            .field("allowed_origins", &self.allowed_origins)
            .field("max_body_bytes", &self.max_body_bytes)
            .finish_non_exhaustive()
    }
}
