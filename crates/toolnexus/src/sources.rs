//! Reaching a toolkit's sources again after it was built.

use toolnexus_core::Toolkit;
use toolnexus_mcp::McpSource;
use toolnexus_skills::SkillSource;

/// The sources that [`create_toolkit`](crate::create_toolkit) loaded.
///
/// ```
/// use toolnexus::{Toolkit, ToolkitSources as _};
/// assert!(Toolkit::default().mcp().is_none());
/// ```
pub trait ToolkitSources {
    /// The MCP servers: connections, their output on stderr, closing one of them, their resources.
    ///
    /// ```
    /// use toolnexus::mcp::resource_tools;
    /// use toolnexus::{Toolkit, ToolkitSources as _};
    /// /// Lets models list and read what the servers offer beside tools.
    /// fn with_resources(toolkit: &Toolkit) {
    ///     if let Some(servers) = toolkit.mcp() {
    ///         toolkit.register(resource_tools(&servers));
    ///     }
    /// }
    /// # with_resources(&Toolkit::default());
    /// ```
    fn mcp(&self) -> Option<McpSource>;

    /// The skills: what was loaded, what was skipped and why.
    fn skills(&self) -> Option<SkillSource>;

    /// How many MCP servers are connected now.
    fn connected_servers(&self) -> usize;
}

impl ToolkitSources for Toolkit {
    fn mcp(&self) -> Option<McpSource> {
        self.source::<McpSource>().cloned()
    }

    fn skills(&self) -> Option<SkillSource> {
        self.source::<SkillSource>().cloned()
    }

    fn connected_servers(&self) -> usize {
        self.source::<McpSource>().map_or(0, McpSource::connected_count)
    }
}
