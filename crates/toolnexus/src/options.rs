//! What a toolkit is made from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;
use toolnexus_core::{Tool, WaitFor};
use toolnexus_mcp::{LoadMcpOptions, McpConfigInput};
use toolnexus_skills::{SkillDef, SkillPathDisplay, SkillProvider};
use toolnexus_tools::BuiltinsConfig;

/// The sources of a toolkit. Every field may be left at its default; all defaults give a toolkit
/// with the built-in tools.
///
/// ```
/// use toolnexus::{BuiltinsConfig, ToolkitOptions};
/// let options = ToolkitOptions {
///     skills_dir: vec!["skills".into()],
///     builtins: Some(BuiltinsConfig::off()),
///     ..Default::default()
/// };
/// ```
#[derive(Clone, Default)]
pub struct ToolkitOptions {
    /// The MCP servers. A document that cannot be read leaves an entry `<config>` in `errors()`.
    pub mcp_config: Option<McpConfigInput>,
    /// Directories to search for skills, in order.
    pub skills_dir: Vec<PathBuf>,
    /// Skills given as data, after those of the directories.
    pub skills: Vec<SkillDef>,
    /// Gives more skills, once, while the toolkit is built. Its failure leaves an entry `<skills>`
    /// in `errors()`.
    pub skill_provider: Option<SkillProvider>,
    /// Skill names mapped to whether they are wanted: with at least one `true`, exactly those;
    /// with only `false`, all others. Empty: all.
    pub skills_filter: BTreeMap<String, bool>,
    /// How many files the `skill` tool lists: 0 means 10, negative none at all.
    pub skill_sample_limit: i64,
    /// Whether the `skill` tool shows absolute paths or logical ones.
    pub skill_path_display: SkillPathDisplay,
    /// Skills to leave out; an entry of `skills_filter` for the same name wins.
    pub disable_skills: Vec<String>,
    /// The built-in tools. `None`: what the MCP document's `builtins` section says, else on.
    pub builtins: Option<BuiltinsConfig>,
    /// Your own tools. They replace built-in tools of the same name.
    pub extra_tools: Vec<Tool>,
    /// Final tool names to leave out, whatever source they come from.
    pub disable_tools: Vec<String>,
    /// Answers suspended tools in runs whose client has no resolver of its own, and what MCP servers
    /// ask while they work.
    pub wait_for: Option<WaitFor>,
    /// Answers what MCP servers ask, in place of `mcp_options.wait_for` and of `wait_for`. A client's
    /// own resolver is never asked by a server.
    pub elicit_wait_for: Option<WaitFor>,
    /// How MCP servers are loaded.
    pub mcp_options: LoadMcpOptions,
    /// Ends the build early: it then returns [`Error::Cancelled`](crate::Error::Cancelled) and
    /// leaves nothing running.
    pub cancel: Option<CancellationToken>,
}
