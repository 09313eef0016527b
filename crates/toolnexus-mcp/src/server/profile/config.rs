//! What a profile says: who the server is, and which tools it lends.

use serde_json::Value;
use toolnexus_core::{Tool, Toolkit};

use crate::server::error::McpServeError;

/// The revision that is answered when neither the profile nor the client wants another.
const DEFAULT_VERSION: &str = "2024-11-05";

/// The revisions that a client may have because it asks for them.
const ECHOED_VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// A toolkit's profile as an MCP server. `Default` serves every tool under the name `toolnexus`.
///
/// ```
/// use toolnexus_mcp::server::McpServeConfig;
/// let profile = McpServeConfig { name: "docs".into(), tools: Some(vec!["search".into()]), ..Default::default() };
/// assert!(profile.exposes("search") && !profile.exposes("bash"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpServeConfig {
    /// The name of the server. Empty: `toolnexus`.
    pub name: String,
    /// Its version. Empty: `0.1.0`.
    pub version: String,
    /// The protocol revision that every client is told, whatever it asks for. Empty: the revision
    /// a client asks for, from 2025-03-26 to 2025-11-25, else `2024-11-05`.
    pub protocol_version: String,
    /// The names of the tools to serve; unknown ones are passed over. `None`: all of the toolkit,
    /// those included that are registered later. Empty: none.
    pub tools: Option<Vec<String>>,
}

impl McpServeConfig {
    /// Reads the `mcpServer` section of an MCP document: `name`, `version`, `protocolVersion`,
    /// `tools`. Other keys are passed over, `null` counts as absent.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolnexus_mcp::server::McpServeConfig;
    /// let profile = McpServeConfig::from_value(&json!({"name": "docs", "tools": ["search"]}))?;
    /// assert_eq!(profile.tools, Some(vec!["search".to_owned()]));
    /// # Ok::<_, toolnexus_mcp::server::McpServeError>(())
    /// ```
    ///
    /// # Errors
    /// [`McpServeError::Profile`]: the section, or the value of a key, is of another type. A list of
    /// tools that cannot be read must not become all tools.
    pub fn from_value(section: &Value) -> Result<Self, McpServeError> {
        let Some(section) = section.as_object() else {
            return Err(McpServeError::Profile { key: "", expected: "a JSON object" });
        };
        let text = |key: &'static str| match section.get(key) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(McpServeError::Profile { key, expected: "a string" }),
        };
        let names = |tools: &Value| -> Option<Vec<String>> {
            tools.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let tools = match section.get("tools") {
            None | Some(Value::Null) => None,
            Some(tools) => Some(
                names(tools)
                    .ok_or(McpServeError::Profile { key: "tools", expected: "an array of tool names" })?,
            ),
        };
        Ok(McpServeConfig {
            name: text("name")?,
            version: text("version")?,
            protocol_version: text("protocolVersion")?,
            tools,
        })
    }

    /// Whether a tool of this name is served, if the toolkit has it.
    pub fn exposes(&self, name: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name))
    }

    pub(super) fn name(&self) -> &str {
        if self.name.is_empty() { "toolnexus" } else { &self.name }
    }

    pub(super) fn version(&self) -> &str {
        if self.version.is_empty() { "0.1.0" } else { &self.version }
    }

    /// The revision to answer a client that asks for `asked`.
    pub(super) fn protocol_version<'a>(&'a self, asked: Option<&'a str>) -> &'a str {
        if !self.protocol_version.is_empty() {
            return &self.protocol_version;
        }
        asked.filter(|asked| ECHOED_VERSIONS.contains(asked)).unwrap_or(DEFAULT_VERSION)
    }
}

/// The tools that a profile serves, by name.
///
/// ```
/// use toolnexus_core::{Toolkit, define_tool};
/// use toolnexus_mcp::server::{McpServeConfig, exposed_tools};
/// let tool = |name| define_tool(name, "", None, |_args, _context| async { Ok::<_, String>("") });
/// let toolkit = Toolkit::from_tools([tool("search"), tool("bash")]);
/// let profile = McpServeConfig { tools: Some(vec!["search".into(), "none".into()]), ..Default::default() };
/// let names: Vec<String> = exposed_tools(&toolkit, &profile).into_iter().map(|tool| tool.name).collect();
/// assert_eq!(names, ["search"]);
/// ```
pub fn exposed_tools(toolkit: &Toolkit, profile: &McpServeConfig) -> Vec<Tool> {
    let snapshot = toolkit.snapshot();
    let mut tools: Vec<&Tool> = snapshot.tools().iter().map(|tool| &**tool).collect();
    tools.retain(|tool| profile.exposes(&tool.name));
    tools.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    tools.into_iter().cloned().collect()
}
