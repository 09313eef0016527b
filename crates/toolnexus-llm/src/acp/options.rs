//! What an agent is started with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::Value;
use toolnexus_core::BoxFuture;

use super::PermissionRequest;

/// Chooses the option of a permission request by its id. `None`, and an id that is no option's,
/// answer `cancelled`; so does a panic.
pub type OnPermission = Arc<dyn Fn(PermissionRequest) -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// Receives the parameters of every `session/update` as they came, in order of arrival. Nothing
/// else is read from the agent meanwhile, so it must return soon.
pub type OnUpdate = Arc<dyn Fn(&Value) + Send + Sync>;

/// How an agent is started and answered.
///
/// `Debug` shows no value of a variable.
#[derive(Clone)]
pub struct AcpOptions {
    /// Where the agent works. `None`: the current directory.
    pub cwd: Option<PathBuf>,
    /// Variables to add to the environment, all of which the agent inherits.
    pub env: IndexMap<String, String>,
    /// How long the agent may take to open a session, in milliseconds. 0 means 30 000.
    pub start_timeout_ms: u64,
    /// How long a turn may take, in milliseconds. 0 means 10 000.
    pub prompt_timeout_ms: u64,
    /// Whether permission requests are answered without asking: with the first option whose kind
    /// begins with `allow`, and `cancelled` if there is none. Default: true. When false and without
    /// `on_permission` all of them are answered `cancelled`.
    pub auto_answer_permission: bool,
    /// Answers permission requests, in place of `auto_answer_permission`.
    pub on_permission: Option<OnPermission>,
    /// Is told what the agent does. Never changes the reply.
    pub on_update: Option<OnUpdate>,
}

impl Default for AcpOptions {
    fn default() -> Self {
        AcpOptions {
            cwd: None,
            env: IndexMap::new(),
            start_timeout_ms: 0,
            prompt_timeout_ms: 0,
            auto_answer_permission: true,
            on_permission: None,
            on_update: None,
        }
    }
}

impl AcpOptions {
    pub(super) fn start_timeout(&self) -> Duration {
        Duration::from_millis(if self.start_timeout_ms == 0 { 30_000 } else { self.start_timeout_ms })
    }

    pub(super) fn prompt_timeout(&self) -> Duration {
        Duration::from_millis(if self.prompt_timeout_ms == 0 { 10_000 } else { self.prompt_timeout_ms })
    }
}

impl std::fmt::Debug for AcpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AcpOptions")
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("start_timeout_ms", &self.start_timeout_ms)
            .field("prompt_timeout_ms", &self.prompt_timeout_ms)
            .field("auto_answer_permission", &self.auto_answer_permission)
            .field("on_permission", &self.on_permission.is_some())
            .field("on_update", &self.on_update.is_some())
            .finish()
    }
}
