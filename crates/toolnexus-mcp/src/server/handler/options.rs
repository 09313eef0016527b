//! What a handler is made of.

use crate::server::error::McpServeError;

use super::hooks::{
    Authenticate, BeforeCallHook, CompleteHook, GetPromptHook, ListPromptsHook, ListResourceTemplatesHook,
    ListResourcesHook, ListToolsHook, McpSessionIds, McpStatelessSessionId, OnMcpCall, ReadResourceHook,
    ServerInfoHook, SubscriptionHook, WwwAuthenticate,
};

/// The protocol revisions that a handler can speak, newest first.
pub(super) const KNOWN_VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// The revision that a handler speaks when its options do not say.
const DEFAULT_VERSION: &str = "2025-06-18";

/// How large a request's body may be when the options do not say: 4 MiB.
const DEFAULT_MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// How long a person may take to answer when the options do not say: five minutes.
const DEFAULT_CONFIRM_TIMEOUT_MS: u64 = 300_000;

/// Options of [`mcp_handler`](super::mcp_handler). `Default` serves all tools of the toolkit to anybody
/// who gets through to it, in sessions, and asks nobody.
///
/// A hook that fails or panics answers an internal error and never widens what a caller may do. Its text
/// stays on this side unless it is a [`McpHookError`](super::McpHookError).
#[derive(Clone, Default)]
pub struct McpHandlerOptions {
    /// The name of the server. Empty: `toolnexus`.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Its version. Empty: `0.1.0`.
    pub version: String,
    /// How a model should use the server.
    pub instructions: Option<String>,
    /// The protocol revisions to speak: `2025-11-25`, `2025-06-18`, and for old clients `2025-03-26`, of
    /// which batches are not supported. A client that asks for another is offered the newest of
    /// these. Empty: `2025-06-18`.
    pub protocol_versions: Vec<String>,
    /// Runs first for every request: who sends it. `None`: nobody is asked here; the identity is the
    /// `Identity` in the request's extensions, where the host's own layer may have put one, or none.
    pub authenticate: Option<Authenticate>,
    /// The `WWW-Authenticate` header of a request that `authenticate` refused.
    pub www_authenticate: Option<WwwAuthenticate>,
    /// What the server says of itself to this caller; wins over the fields above.
    pub server_info: Option<ServerInfoHook>,
    /// The tools of this caller, asked for every list and every call: what it leaves out cannot be called.
    /// `None`: the toolkit's.
    pub list_tools: Option<ListToolsHook>,
    /// Whether a call may run. `None`: it may.
    pub before_call: Option<BeforeCallHook>,
    /// Told of each call, when it has ended. A panic in it changes nothing.
    pub on_call: Option<OnMcpCall>,
    /// The resources of this caller.
    pub list_resources: Option<ListResourcesHook>,
    /// The resource templates of this caller.
    pub list_resource_templates: Option<ListResourceTemplatesHook>,
    /// Reads a resource.
    pub read_resource: Option<ReadResourceHook>,
    /// Whether a caller may hear of changes of a resource. `None`: subscriptions are not offered.
    pub subscribe: Option<SubscriptionHook>,
    /// A caller no longer wants to hear of a resource. Needs `subscribe`.
    pub unsubscribe: Option<SubscriptionHook>,
    /// The prompts of this caller.
    pub list_prompts: Option<ListPromptsHook>,
    /// Fills in a prompt.
    pub get_prompt: Option<GetPromptHook>,
    /// Completes arguments of prompts and resource templates.
    pub complete: Option<CompleteHook>,
    /// How sessions get, keep and lose their ids.
    pub session_ids: McpSessionIds,
    /// Serves each request by itself: no sessions, no event streams of their own, nobody is asked.
    pub stateless: bool,
    /// What stands for the session id when there are no sessions.
    pub stateless_session_id: Option<McpStatelessSessionId>,
    /// How large a request's body may be, in bytes. 0: 4 MiB.
    pub max_body_bytes: usize,
    /// How long a person may take to answer, in milliseconds. 0: five minutes.
    pub confirm_timeout_ms: u64,
    /// The hosts whose requests are served, an entry without a port standing for all ports; requests for
    /// others are refused with 403. Pages of these hosts are served too. Empty: any host, since the
    /// handler does not know where it is mounted, and the rule for origins below already keeps foreign
    /// pages out.
    pub allowed_hosts: Vec<String>,
    /// The origins of web pages whose requests are served, as browsers spell them, besides those of this
    /// machine (`localhost`, `127.0.0.1`, `[::1]`, any port). `*` stands for all of them. Requests without
    /// an `Origin`, which do not come from web pages, are served; others are refused with 403, so that no
    /// page can reach a server on its visitor's machine by rebinding a name.
    pub allowed_origins: Vec<String>,
}

impl McpHandlerOptions {
    pub(super) fn name(&self) -> &str {
        if self.name.is_empty() { "toolnexus" } else { &self.name }
    }

    pub(super) fn version(&self) -> &str {
        if self.version.is_empty() { "0.1.0" } else { &self.version }
    }

    pub(super) fn max_body_bytes(&self) -> usize {
        if self.max_body_bytes == 0 { DEFAULT_MAX_BODY_BYTES } else { self.max_body_bytes }
    }

    pub(super) fn confirm_timeout(&self) -> std::time::Duration {
        let ms =
            if self.confirm_timeout_ms == 0 { DEFAULT_CONFIRM_TIMEOUT_MS } else { self.confirm_timeout_ms };
        std::time::Duration::from_millis(ms)
    }

    /// The revisions to speak, newest first.
    ///
    /// # Errors
    /// The first one that is unknown.
    pub(super) fn versions(&self) -> Result<Vec<&'static str>, McpServeError> {
        if let Some(unknown) = self.protocol_versions.iter().find(|v| !KNOWN_VERSIONS.contains(&v.as_str())) {
            return Err(McpServeError::ProtocolVersion { version: unknown.clone(), known: &KNOWN_VERSIONS });
        }
        if self.protocol_versions.is_empty() {
            return Ok(vec![DEFAULT_VERSION]);
        }
        let listed = |known: &&str| self.protocol_versions.iter().any(|version| version == known);
        Ok(KNOWN_VERSIONS.into_iter().filter(listed).collect())
    }

    pub(super) fn has_resources(&self) -> bool {
        self.list_resources.is_some()
            || self.read_resource.is_some()
            || self.list_resource_templates.is_some()
    }

    pub(super) fn has_prompts(&self) -> bool {
        self.list_prompts.is_some() || self.get_prompt.is_some()
    }
}

impl std::fmt::Debug for McpHandlerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpHandlerOptions")
            .field("name", &self.name())
            .field("version", &self.version())
            .field("protocol_versions", &self.protocol_versions)
            .field("authenticate", &self.authenticate.is_some())
            .field("stateless", &self.stateless)
            .finish_non_exhaustive()
    }
}
