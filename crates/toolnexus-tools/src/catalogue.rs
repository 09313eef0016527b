//! Which of the tools exist in a toolkit.

use std::sync::Arc;

use toolnexus_core::{SourceStatus, Tool, Toolkit, ToolkitParts};

use crate::config::{BuiltinsConfig, BuiltinsError};
use crate::files::FileLocks;
use crate::paths::Paths;
use crate::shell::Shell;
use crate::{
    apply_patch, background, bash, edit, glob, grep, notebook_edit, question, read, todowrite, web_search,
    webfetch, write,
};

/// The tools that there are without being asked for, in their order.
pub const BUILTIN_NAMES: [&str; 10] =
    ["bash", "read", "write", "edit", "grep", "glob", "webfetch", "question", "apply_patch", "todowrite"];

/// The tools that must be asked for, in their order behind the others.
const OPT_IN_NAMES: [&str; 4] = ["bash_output", "kill_shell", "websearch", "notebook_edit"];

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

/// Whether a name belongs to a built-in tool, one that must be asked for included.
///
/// ```
/// assert!(toolnexus_tools::is_builtin_name("apply_patch"));
/// ```
pub fn is_builtin_name(name: &str) -> bool {
    BUILTIN_NAMES.contains(&name) || OPT_IN_NAMES.contains(&name)
}

/// Every built-in tool, toggles not consulted, in the order of [`BUILTIN_NAMES`]; then those that the
/// configuration asks for: `bash_output`, `kill_shell`, `websearch`, `notebook_edit`.
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

/// The built-in tools that a configuration leaves on, in the order of [`create_builtin_tools`].
///
/// A toggle that names no built-in tool is ignored with a warning.
///
/// # Errors
/// [`BuiltinsError::NoShell`] when `bash` is on and there is no shell, [`BuiltinsError::HostPolicy`]
/// when an entry of `web` cannot be read.
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
    cfg.web.compile()?;
    let on = |name: &str| cfg.tools.get(name) != Some(&false);
    // Without the tool that starts background shells, those that look after them have no use.
    let keeps = |name: &str| on(name) && (!matches!(name, "bash_output" | "kill_shell") || on("bash"));

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

/// The tools of [`select_builtins`] as a toolkit, for hosts that assemble their sources by hand. Its
/// source status for `builtin` says whether they are on.
///
/// # Errors
/// Those of [`select_builtins`].
///
/// ```
/// use toolnexus_core::SourceStatus;
/// use toolnexus_tools::{BuiltinsConfig, builtin_toolkit};
/// let toolkit = builtin_toolkit(Some(&BuiltinsConfig::off())).unwrap();
/// assert!(toolkit.tools().is_empty());
/// ```
pub fn builtin_toolkit(cfg: Option<&BuiltinsConfig>) -> Result<Toolkit, BuiltinsError> {
    let parts = ToolkitParts {
        tools: select_builtins(cfg)?,
        builtin_status: Some(builtin_status(cfg)),
        ..Default::default()
    };
    Ok(Toolkit::from_parts(parts))
}

/// What a toolkit says of this source.
pub fn builtin_status(cfg: Option<&BuiltinsConfig>) -> SourceStatus {
    if builtins_enabled(cfg) { SourceStatus::Connected } else { SourceStatus::Disabled }
}

fn build(cfg: &BuiltinsConfig, shell: Result<Shell, BuiltinsError>) -> Vec<Tool> {
    let paths = Arc::new(Paths::of(cfg));
    let locks = Arc::new(FileLocks::default());
    let mut tools = vec![
        bash::tool(cfg, shell, &paths),
        read::tool(cfg, &paths),
        write::tool(&paths, &locks),
        edit::tool(&paths, &locks),
        grep::tool(cfg, &paths),
        glob::tool(cfg, &paths),
        webfetch::tool(cfg),
        question::tool(),
        apply_patch::tool(&paths, &locks),
        todowrite::tool(),
    ];
    if let Some(shells) = &cfg.background {
        tools.extend([background::output_tool(shells), background::kill_tool(shells)]);
    }
    tools.extend(cfg.web_search.clone().map(web_search::tool));
    if cfg.notebook_edit {
        tools.push(notebook_edit::tool(&paths, &locks));
    }
    tools
}
