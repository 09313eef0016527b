//! How a load is done, and what may end it early.

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use toolnexus_core::{Tool, WaitFor};

use crate::transport::{Permit, SpecSource};
use crate::{AutoRestart, McpEra, McpSignIn, McpStatus, McpTokenStore, Reserve};

/// Told of each server the moment it is connected, failed or found disabled.
pub type OnServer = Arc<dyn Fn(McpServerEvent) + Send + Sync>;

/// One server is done.
#[derive(Debug, Clone)]
pub struct McpServerEvent {
    /// The configured name.
    pub name: String,
    /// How it fared.
    pub status: McpStatus,
    /// Its tools, filtered and with their final names; empty unless connected. Collisions with
    /// other servers are settled only in the finished source.
    pub tools: Vec<Tool>,
    /// Why it failed.
    pub error: Option<String>,
}

/// Options of a load. `Default` inherits the whole environment and tells nobody.
#[derive(Clone, Default)]
pub struct LoadMcpOptions {
    /// Called once per configured server, in the order in which they get ready. A panic in it is
    /// caught and changes nothing.
    pub on_server: Option<OnServer>,
    /// Answers what servers ask of the person behind the client (MCP elicitation). `None`: servers are
    /// not told that they may ask, and are refused when they do.
    pub wait_for: Option<WaitFor>,
    /// The protocol era of servers whose entry does not say. `None`: found out for remote servers,
    /// `legacy` for child processes.
    pub era: Option<McpEra>,
    /// Asked once per call of a priced tool whether it may be paid. `None`, or no reservation: the call
    /// fails without being sent.
    pub reserve: Option<Reserve>,
    /// Decides on servers that are not the user's own. `None`: those are refused.
    pub permit: Option<Permit>,
    /// Where the document comes from. Default: the user. A server's own
    /// [`source`](crate::McpServerConfig::source) goes before it.
    pub source: SpecSource,
    /// How a person signs in to servers whose entry has `auth` and does not say. `None`: nobody is
    /// asked, and a server that wants a sign-in fails.
    pub sign_in: Option<McpSignIn>,
    /// Where the tokens of servers with `auth` are kept, unless that says. `None`: in memory.
    pub token_store: Option<Arc<dyn McpTokenStore>>,
    /// Whether a server that is lost is started again, and how often. `None`: it stays lost. A call that is
    /// lost with it is not sent again: it may have had effects.
    pub auto_restart: Option<AutoRestart>,
    /// Whether a server that announces other tools is listed again. Default: what a load has listed
    /// stays.
    pub live_tool_list: bool,
    /// What children see of this process's environment when their entry has no `inheritEnv`.
    /// `None`: everything. `Some`: a safe base and these variables.
    pub default_inherit_env: Option<Vec<String>>,
}

impl std::fmt::Debug for LoadMcpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadMcpOptions")
            .field("on_server", &self.on_server.is_some())
            .field("wait_for", &self.wait_for.is_some())
            .field("sign_in", &self.sign_in)
            .field("token_store", &self.token_store.is_some())
            .field("era", &self.era)
            .field("auto_restart", &self.auto_restart)
            .field("live_tool_list", &self.live_tool_list)
            .field("reserve", &self.reserve.is_some())
            .field("permit", &self.permit.is_some())
            .field("source", &self.source)
            .field("default_inherit_env", &self.default_inherit_env)
            .finish()
    }
}

/// What ends a load as a whole. `Default` never ends it. It matters during the load only: what the
/// load has returned is not touched by it.
#[derive(Debug, Clone, Default)]
pub struct McpContext {
    /// Ends the load when cancelled.
    pub cancel: CancellationToken,
    /// Ends the load when passed. `None`: never.
    pub deadline: Option<Instant>,
}

/// A load was ended from outside. Nothing of it is left running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum McpContextError {
    /// Its token was cancelled.
    #[error("loading the mcp servers was cancelled")]
    Cancelled,
    /// Its deadline passed.
    #[error("loading the mcp servers took longer than its deadline allows")]
    DeadlineExceeded,
}
