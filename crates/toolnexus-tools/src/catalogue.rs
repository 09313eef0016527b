//! Which of the tools exist in a toolkit.

use std::sync::Arc;

use toolnexus_core::Tool;

use crate::config::{BuiltinsConfig, BuiltinsError};
use crate::paths::Paths;
use crate::shell::Shell;
use crate::{bash, glob, read};

/// The built-in tools of this version, in their order.
pub const BUILTIN_NAMES: [&str; 3] = ["bash", "read", "glob"];

/// Every name that a toggle may use in any version, so that one document serves all of them.
pub(crate) const CONTRACT_NAMES: [&str; 14] = [
    "bash",
    "read",
    "write",
    "edit",
    "grep",
    "glob",
    "webfetch",
    "question",
    "apply_patch",
    "todowrite",
    "bash_output",
    "kill_shell",
    "websearch",
    "notebook_edit",
];

/// Whether a configuration leaves the built-in tools on as a whole. `None` is on.
///
/// ```
/// use toolnexus_tools::{BuiltinsConfig, builtins_enabled};
/// assert!(builtins_enabled(None));
/// assert!(!builtins_enabled(Some(&BuiltinsConfig::off())));
/// ```
pub fn builtins_enabled(cfg: Option<&BuiltinsConfig>) -> bool {
    cfg.is_none_or(|cfg| cfg.disabled != Some(true) && cfg.enabled != Some(false))
}

/// Whether a name belongs to a built-in tool, one that must be asked for or is yet to come included.
///
/// ```
/// assert!(toolnexus_tools::is_builtin_name("apply_patch"));
/// ```
pub fn is_builtin_name(name: &str) -> bool {
    CONTRACT_NAMES.contains(&name)
}

/// Every built-in tool, toggles not consulted, in the order of [`BUILTIN_NAMES`].
///
/// Never fails: without a shell, the calls of `bash` do.
///
/// ```
/// let tools = toolnexus_tools::create_builtin_tools(None);
/// assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), toolnexus_tools::BUILTIN_NAMES);
/// ```
pub fn create_builtin_tools(cfg: Option<&BuiltinsConfig>) -> Vec<Tool> {
    let default = BuiltinsConfig::default();
    let cfg = cfg.unwrap_or(&default);
    build(cfg, Shell::of(cfg))
}

/// The built-in tools that a configuration leaves on, in the order of [`BUILTIN_NAMES`].
///
/// A toggle that names no built-in tool is ignored with a warning.
///
/// # Errors
/// [`BuiltinsError::NoShell`] when `bash` is on and there is no shell.
///
/// ```
/// use toolnexus_tools::{BuiltinsConfig, select_builtins};
/// let config = BuiltinsConfig { tools: [("bash".to_string(), false)].into(), ..Default::default() };
/// assert!(select_builtins(Some(&config)).unwrap().iter().all(|tool| tool.name != "bash"));
/// ```
pub fn select_builtins(cfg: Option<&BuiltinsConfig>) -> Result<Vec<Tool>, BuiltinsError> {
    if !builtins_enabled(cfg) {
        return Ok(Vec::new());
    }
    let default = BuiltinsConfig::default();
    let cfg = cfg.unwrap_or(&default);
    cfg.warn_of_unknown_tools();
    let keeps = |name: &str| cfg.tools.get(name) != Some(&false);

    let shell = Shell::of(cfg);
    if keeps("bash")
        && let Err(error) = &shell
    {
        return Err(error.clone());
    }
    let mut tools = build(cfg, shell);
    tools.retain(|tool| keeps(&tool.name));
    Ok(tools)
}

fn build(cfg: &BuiltinsConfig, shell: Result<Shell, BuiltinsError>) -> Vec<Tool> {
    let paths = Arc::new(Paths::of(cfg));
    vec![bash::tool(cfg, shell, &paths), read::tool(cfg, &paths), glob::tool(cfg, &paths)]
}
