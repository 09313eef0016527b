//! From the working directory and the flags to a toolkit.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use toolnexus::mcp::{LoadMcpOptions, McpConfig, McpConfigError, OnServer, parse_mcp_config_file};
use toolnexus::skills::SkillPathDisplay;
use toolnexus::suspension::WaitFor;
use toolnexus::{BuiltinsConfig, Error, McpConfigInput, Tool, Toolkit, ToolkitOptions, create_toolkit};

use crate::cli::SourceArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::render::{FailedServer, failed_servers};
use crate::screen::Screen;
use crate::sign_in;

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
    /// What the `skill` tool shows of this machine's disk.
    pub(crate) skill_paths: SkillPathDisplay,
}

impl Sources {
    /// Finds the sources; what a flag names has to be there, what is looked for by default need
    /// not. What is there and cannot be used is told.
    pub(crate) fn find(args: &SourceArgs, screen: &Screen) -> Result<Self, Failure> {
        let config = if args.no_mcp {
            None
        } else {
            find_config(args.mcp.as_deref(), ", or leave it out with --no-mcp")?
        };
        Ok(Sources {
            mcp: config.map(|(_, config)| config),
            skills: if args.no_skills {
                Vec::new()
            } else {
                find_skills(&args.skills, ", or leave it out with --no-skills", screen)?
            },
            builtins: args.no_builtins.then(BuiltinsConfig::off),
            extra_tools: Vec::new(),
            skill_paths: SkillPathDisplay::default(),
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
        None => match CONFIGS.map(PathBuf::from).into_iter().find(|path| is_there(path)) {
            Some(path) => path,
            None => return Ok(None),
        },
    };
    let config = parse_mcp_config_file(&path).map_err(|error| {
        let remedy = match (&error, given, std::fs::read_link(&path)) {
            (McpConfigError::Unreadable { .. }, Some(_), _) => "check the path given with --mcp".to_owned(),
            (McpConfigError::Unreadable { .. }, None, Ok(target)) => {
                format!("it is a link to {target:?}: correct or remove it")
            }
            _ => "correct it".to_owned(),
        };
        Failure::usage(format!("{error}; {remedy}{way_out}"))
    })?;
    Ok(Some((path, config)))
}

/// The directories that flags name, else the one of the working directory, if there is one.
///
/// The one of the working directory may be something else by chance, so that is only told, with
/// `way_out` at the end of the advice.
pub(crate) fn find_skills(
    given: &[PathBuf],
    way_out: &str,
    screen: &Screen,
) -> Result<Vec<PathBuf>, Failure> {
    let default = Path::new(SKILLS);
    if given.is_empty() && !has_skills_entry() {
        return Ok(Vec::new());
    }
    if given.is_empty() {
        return Ok(match readable(default) {
            Ok(()) => vec![default.to_owned()],
            Err(error) => {
                screen.note(&format!(
                    "{} no skills: {default:?} cannot be read as a directory: {error}; \
                     correct or remove it{way_out}",
                    screen.paint().warn("warning:")
                ));
                Vec::new()
            }
        });
    }
    for path in given {
        readable(path).map_err(|error| {
            Failure::usage(format!(
                "--skills {path:?} is not a directory that can be read: {error}; check the path"
            ))
        })?;
    }
    Ok(given.to_vec())
}

/// Whether there is something of the name that is looked for, of use or not.
pub(crate) fn has_skills_entry() -> bool {
    is_there(Path::new(SKILLS))
}

/// Whether the name is taken, be it by a link to nowhere or by what cannot be looked at.
fn is_there(path: &Path) -> bool {
    !matches!(path.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// Whether it is a directory whose entries can be listed, and opened.
pub(crate) fn readable(dir: &Path) -> io::Result<()> {
    std::fs::read_dir(dir)?;
    dir.join(".").metadata().map(drop)
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
        skill_path_display: sources.skill_paths,
        builtins: sources.builtins,
        extra_tools: sources.extra_tools,
        wait_for,
        mcp_options: LoadMcpOptions {
            on_server,
            sign_in: sign_in::at_the_terminal(screen),
            token_store: sign_in::token_store(),
            ..Default::default()
        },
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
