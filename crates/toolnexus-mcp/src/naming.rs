//! The name under which a remote tool appears.

use toolnexus_core::sanitize;

/// The name of `tool` of `server` in a toolkit: both parts with every character outside
/// `[a-zA-Z0-9_-]` replaced by `_`, joined by `_`. A pure function; nothing is contacted.
///
/// ```
/// assert_eq!(toolnexus_mcp::mcp_tool_name("remote api", "alpha/stats"), "remote_api_alpha_stats");
/// ```
pub fn mcp_tool_name(server: &str, tool: &str) -> String {
    let mut name = sanitize(server);
    name.push('_');
    name.push_str(&sanitize(tool));
    name
}
