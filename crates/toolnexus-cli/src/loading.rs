//! From the working directory and the flags to a toolkit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use toolnexus::mcp::{LoadMcpOptions, McpConfig, McpConfigError, OnServer, parse_mcp_config_file};
use toolnexus::suspension::WaitFor;
use toolnexus::{BuiltinsConfig, Error, McpConfigInput, Tool, Toolkit, ToolkitOptions, create_toolkit};

use crate::cli::SourceArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::render::{FailedServer, failed_servers};
use crate::screen::Screen;

/// Where a configuration is looked for, in this order.
const CONFIGS: [&str; 2] = ["mcp.json", ".mcp.json"];

/// Where skills are looked for.
const SKILLS: &str = "skills";

/// What there is to load.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) mcp: Option<McpConfig>,
    pub(crate) skills: Vec<PathBuf>,
    /// `None`: what the configuration says, else all.
    pub(crate) builtins: Option<BuiltinsConfig>,
    pub(crate) extra_tools: Vec<Tool>,
}

impl Sources {
    /// Finds the sources; what a flag names has to be there, what is looked for by default need
    /// not.
    pub(crate) fn find(args: &SourceArgs) -> Result<Self, Failure> {
        let config = if args.no_mcp {
            None
        } else {
            find_config(args.mcp.as_deref(), ", or leave it out with --no-mcp")?
        };
        Ok(Sources {
            mcp: config.map(|(_, config)| config),
            skills: if args.no_skills { Vec::new() } else { find_skills(&args.skills)? },
            builtins: args.no_builtins.then(BuiltinsConfig::off),
            extra_tools: Vec::new(),
        })
    }
}

/// The configuration that a flag names, else the one of the working directory, if there is one.
/// `way_out` ends the advice when it cannot be used.
pub(crate) fn find_config(
    given: Option<&Path>,
    way_out: &str,
) -> Result<Option<(PathBuf, McpConfig)>, Failure> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => match CONFIGS.map(PathBuf::from).into_iter().find(|path| path.exists()) {
            Some(path) => path,
            None => return Ok(None),
        },
    };
    let config = parse_mcp_config_file(&path).map_err(|error| {
        let remedy = match (&error, given) {
            (McpConfigError::Unreadable { .. }, Some(_)) => "check the path given with --mcp",
            _ => "correct it",
        };
        Failure::usage(format!("{error}; {remedy}{way_out}"))
    })?;
    Ok(Some((path, config)))
}

/// The directories that flags name, else the one of the working directory, if there is one.
pub(crate) fn find_skills(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    if given.is_empty() {
        return Ok([PathBuf::from(SKILLS)].into_iter().filter(|path| path.is_dir()).collect());
    }
    match given.iter().find(|path| !path.is_dir()) {
        Some(path) => Err(Failure::usage(format!("--skills {path:?} is not a directory; check the path"))),
        None => Ok(given.to_vec()),
    }
}

/// What was loaded.
pub(crate) struct Loaded {
    pub(crate) toolkit: Toolkit,
    /// The servers that are missing from it.
    pub(crate) failed: Vec<FailedServer>,
}

/// Loads everything; servers that fail are left out.
pub(crate) async fn load(
    sources: Sources,
    wait_for: Option<WaitFor>,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Loaded, Failure> {
    let config = sources.mcp.clone().unwrap_or_default();
    let on_server = sources.mcp.as_ref().and_then(|config| watch_servers(config, screen));
    let toolkit = create_toolkit(ToolkitOptions {
        mcp_config: sources.mcp.map(McpConfigInput::Config),
        skills_dir: sources.skills,
        builtins: sources.builtins,
        extra_tools: sources.extra_tools,
        wait_for,
        mcp_options: LoadMcpOptions { on_server, ..Default::default() },
        cancel: Some(interrupt.token()),
        ..Default::default()
    })
    .await;
    screen.idle();
    let toolkit = toolkit.map_err(|error| match error {
        Error::Cancelled => interrupt.failure(),
        other => Failure::usage(other.to_string()),
    })?;
    Ok(Loaded { failed: failed_servers(&toolkit, &config), toolkit })
}

/// Shows which servers are still awaited.
fn watch_servers(config: &McpConfig, screen: &Screen) -> Option<OnServer> {
    let waiting: BTreeSet<String> =
        config.servers.iter().filter(|server| server.enabled).map(|server| server.name.clone()).collect();
    if waiting.is_empty() {
        return None;
    }
    let all = waiting.len();
    let show = move |screen: &Screen, waiting: &BTreeSet<String>| {
        let names: Vec<&str> = waiting.iter().map(String::as_str).collect();
        let ready = all - waiting.len();
        screen.busy(&format!("connecting MCP servers ({ready}/{all}): {}", names.join(", ")));
    };
    show(screen, &waiting);
    let screen = screen.clone();
    let waiting = Mutex::new(waiting);
    Some(Arc::new(move |event| {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&event.name);
        if waiting.is_empty() {
            screen.idle();
        } else {
            show(&screen, &waiting);
        }
    }))
}
