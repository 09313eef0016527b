//! `create_toolkit`: every source loaded, isolated from the others, in a fixed order.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{SourceHandle, Tool, ToolSource, Toolkit, ToolkitParts};
use toolnexus_mcp::{
    LoadMcpOptions, McpConfig, McpConfigError, McpContext, McpSource, load_mcp_with_context, parse_mcp_config,
};
use toolnexus_serve::ServeSections;
use toolnexus_skills::{LoadSkillsOptions, SkillDef, SkillSource, fold_disabled, load_skills_with};
use toolnexus_tools::{BuiltinsConfig, builtin_status, is_builtin_name, select_builtins};

use crate::{Error, ToolkitOptions};

/// Builds a toolkit from every source of the options.
///
/// Tools come in this order: MCP servers, the `skill` tool, built-in tools, your own. The first of
/// a name wins, except that your tools replace built-in ones. A source that fails contributes
/// nothing and leaves its reason in [`Toolkit::errors`]; the others load.
///
/// ```
/// use toolnexus::{ToolkitOptions, create_toolkit};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), toolnexus::Error> {
/// let toolkit = create_toolkit(ToolkitOptions::default()).await?;
/// assert!(toolkit.get("read").is_some());
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`Error::Cancelled`] when the options' token fires, [`Error::Builtins`] for a configuration of the
/// built-in tools that cannot be carried out, [`Error::AmbiguousBuiltins`] for one that is given twice, and
/// [`Error::RelayCollision`] for a relay tool with the
/// name of a built-in one.
pub async fn create_toolkit(options: ToolkitOptions) -> Result<Toolkit, Error> {
    let cancel = options.cancel.clone().unwrap_or_default();
    if cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    check_relay_names(&options.extra_tools)?;
    let mut errors = BTreeMap::new();
    let config = match options.mcp_config.as_ref().map(parse_mcp_config).transpose() {
        Ok(config) => config,
        // The option wins over the section, so nothing hangs on what the section means.
        Err(error @ McpConfigError::RepeatedKey { .. }) if options.builtins.is_none() => {
            return Err(Error::AmbiguousBuiltins(error));
        }
        Err(error) => {
            note(&mut errors, "<config>", &error.to_string());
            None
        }
    };
    // What restricts the built-in tools is settled before anything is started.
    let builtins = match (&options.builtins, &config) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(config)) => config.builtins.as_ref().map_or(Ok(None), BuiltinsConfig::from_value)?,
        (None, None) => None,
    };
    let builtin_tools = select_builtins(builtins.as_ref())?;

    let mcp_server = config.as_ref().and_then(|config| config.mcp_server.clone());

    // The servers' load watches the token itself, since it has children to wait for.
    let (servers, skills) = futures::join!(
        load_servers(config, mcp_options(&options), &cancel),
        cancel.run_until_cancelled(load_skills(&options)),
    );
    let servers = servers?;
    let followed = servers.clone();
    let Some(skills) = skills else {
        if let Some(servers) = servers {
            servers.close().await;
        }
        return Err(Error::Cancelled);
    };

    let mut parts = ToolkitParts { wait_for: options.wait_for, errors, ..Default::default() };
    if let Some(servers) = servers {
        parts.tools.extend(servers.tools.iter().cloned());
        parts.mcp_status.extend(servers.status.iter().map(|(name, status)| (name.clone(), *status)));
        parts.errors.extend(servers.errors.iter().map(|(name, error)| (name.clone(), error.clone())));
        parts.sources.push(Arc::new(servers) as Arc<dyn SourceHandle>);
    }
    if let Some((source, failed)) = skills {
        if let Some(failed) = failed {
            tracing::warn!("[toolnexus] {failed}");
            parts.errors.insert("<skills>".into(), failed);
        }
        parts.tools.push(source.tool());
        parts.skills_prompt = source.prompt();
        parts.sources.push(Arc::new(source));
    }
    let replaced: HashSet<&str> = options.extra_tools.iter().map(|tool| tool.name.as_str()).collect();
    parts.tools.extend(builtin_tools.into_iter().filter(|tool| !replaced.contains(tool.name.as_str())));
    parts.builtin_status = Some(builtin_status(builtins.as_ref()));
    parts.tools.extend(options.extra_tools);
    without(&mut parts.tools, &options.disable_tools);
    if mcp_server.is_some() {
        parts.sources.push(Arc::new(ServeSections { mcp_server }));
    }
    let toolkit = Toolkit::from_parts(parts);
    if let Some(servers) = followed {
        follow(&servers, &toolkit, options.disable_tools);
    }
    Ok(toolkit)
}

/// Keeps the toolkit's tools those that its servers have. The servers do not keep the toolkit alive.
fn follow(servers: &McpSource, toolkit: &Toolkit, disabled: Vec<String>) {
    let toolkit = toolkit.downgrade();
    servers.on_tools_change(move |change| {
        if let Some(toolkit) = toolkit.upgrade() {
            let tools = change.tools.iter().filter(|tool| !disabled.contains(&tool.name));
            toolkit.replace_server_tools(&change.server, tools.cloned());
        }
    });
}

fn check_relay_names(extra_tools: &[Tool]) -> Result<(), Error> {
    let relays = extra_tools.iter().filter(|tool| tool.source == ToolSource::Relay);
    let names = relays.map(|tool| tool.name.as_str()).filter(|name| is_builtin_name(name));
    let names: BTreeSet<&str> = names.collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Error::RelayCollision { names: names.into_iter().map(str::to_owned).collect() })
}

/// Records why a source failed, and says it once.
fn note(errors: &mut BTreeMap<String, String>, source: &str, reason: &str) {
    tracing::warn!("[toolnexus] {source}: {reason}");
    errors.insert(source.to_owned(), reason.to_owned());
}

/// The options of the servers' load: who answers for the toolkit answers them too, unless somebody
/// else was named.
fn mcp_options(options: &ToolkitOptions) -> LoadMcpOptions {
    let given = options.mcp_options.clone();
    let resolver = options.elicit_wait_for.as_ref().or(given.wait_for.as_ref()).or(options.wait_for.as_ref());
    LoadMcpOptions { wait_for: resolver.cloned(), ..given }
}

async fn load_servers(
    config: Option<McpConfig>,
    options: LoadMcpOptions,
    cancel: &CancellationToken,
) -> Result<Option<McpSource>, Error> {
    let Some(config) = config else { return Ok(None) };
    let context = McpContext { cancel: cancel.clone(), deadline: None };
    // The only way to fail is the token.
    let source = load_mcp_with_context(&config, &context, options).await.map_err(|_| Error::Cancelled)?;
    Ok(Some(source))
}

/// The skill source, if any was given, and why its provider failed, if it did.
async fn load_skills(options: &ToolkitOptions) -> Option<(SkillSource, Option<String>)> {
    let given =
        !options.skills_dir.is_empty() || !options.skills.is_empty() || options.skill_provider.is_some();
    if !given {
        return None;
    }
    let (provided, failed) = match provided_skills(options).await {
        Ok(provided) => (provided, None),
        Err(reason) => (Vec::new(), Some(format!("skill provider failed: {reason}"))),
    };
    let load = LoadSkillsOptions {
        dirs: options.skills_dir.clone(),
        skills: options.skills.clone(),
        filter: fold_disabled(&options.disable_skills, &options.skills_filter),
        sample_limit: options.skill_sample_limit,
        path_display: options.skill_path_display,
    };
    // Walking directories blocks.
    let source = tokio::task::spawn_blocking(move || load_skills_with(&load, provided)).await;
    match source {
        Ok(source) => Some((source, failed)),
        // Only a runtime that is shutting down refuses the work.
        Err(error) => {
            Some((load_skills_with(&LoadSkillsOptions::default(), Vec::new()), Some(error.to_string())))
        }
    }
}

async fn provided_skills(options: &ToolkitOptions) -> Result<Vec<SkillDef>, String> {
    let Some(provider) = &options.skill_provider else { return Ok(Vec::new()) };
    let provider = Arc::clone(provider);
    let asked = AssertUnwindSafe(async move { provider().await }).catch_unwind().await;
    match asked {
        Ok(Ok(skills)) => Ok(skills),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(text.map_or_else(|| "it panicked".into(), |text| format!("it panicked: {text}")))
        }
    }
}

fn without(tools: &mut Vec<Tool>, disabled: &[String]) {
    if !disabled.is_empty() {
        tools.retain(|tool| !disabled.contains(&tool.name));
    }
}
