//! What the toolkit's document says about serving it.

use std::any::Any;

use serde_json::Value;
use toolnexus_core::{BoxFuture, SourceHandle, Toolkit};
use toolnexus_mcp::server::McpServeConfig;
use toolnexus_skills::SkillOrigin;
use toolnexus_skills::{SkillPathDisplay, SkillSource};

/// The sections of an MCP document that say how its toolkit is served. Among a toolkit's sources, so
/// that [`Toolkit::serve`](toolnexus_core::Toolkit::serve) finds them; `create_toolkit` puts them
/// there.
///
/// ```
/// use std::sync::Arc;
/// use serde_json::json;
/// use toolnexus_core::{Toolkit, ToolkitParts};
/// use toolnexus_serve::ServeSections;
/// let sections = ServeSections { mcp_server: Some(json!({"name": "docs"})) };
/// let toolkit = Toolkit::from_parts(ToolkitParts { sources: vec![Arc::new(sections)], ..Default::default() });
/// assert!(toolkit.source::<ServeSections>().is_some());
/// ```
#[derive(Clone, Default)]
pub struct ServeSections {
    /// The `mcpServer` section, as it stands.
    pub mcp_server: Option<Value>,
}

impl SourceHandle for ServeSections {
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl std::fmt::Debug for ServeSections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeSections").field("mcp_server", &self.mcp_server.is_some()).finish()
    }
}

/// Says that callers will see paths of this machine, if they will.
pub(crate) fn warn_of_host_paths(toolkit: &Toolkit, profile: &McpServeConfig) {
    let Some(skills) = toolkit.source::<SkillSource>() else { return };
    let on_disk = skills.skills().iter().any(|skill| skill.origin == SkillOrigin::Fs);
    if on_disk
        && skills.path_display() == SkillPathDisplay::Absolute
        && profile.exposes("skill")
        && toolkit.get("skill").is_some()
    {
        tracing::warn!(
            "[toolnexus] results of the tool \"skill\" show callers paths of this machine: set \
             skill_path_display to Logical, or leave the tool out"
        );
    }
}
