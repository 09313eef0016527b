//! The built-in tools: a shell and files for an agent, with no wiring.
//!
//! | tool | what it does |
//! |---|---|
//! | `bash` | runs one command in its own process group |
//! | `read` | reads a text file, whole or by lines, or a media file as a part |
//! | `write`, `edit`, `apply_patch` | change files, each whole or not at all |
//! | `grep`, `glob` | search contents and names |
//! | `webfetch` | fetches a page as Markdown, as text or as it is |
//! | `question` | asks a person |
//! | `todowrite` | keeps the model's list of tasks before its eyes |
//! | `bash_output`, `kill_shell` | look after background shells; with [`BuiltinsConfig::background`] |
//! | `websearch` | asks a search engine of the host's; with [`BuiltinsConfig::web_search`] |
//! | `notebook_edit` | changes cells of Jupyter notebooks; with [`BuiltinsConfig::notebook_edit`] |
//!
//! [`select_builtins`] gives the tools that a [`BuiltinsConfig`] leaves on; they hold nothing
//! between calls and need no shutdown. Whatever goes wrong inside a tool is a result with
//! `is_error` set and a message that starts with the tool's name.
//!
//! ```
//! use toolnexus_tools::{BuiltinsConfig, select_builtins};
//!
//! let config = BuiltinsConfig {
//!     tools: [("bash".to_string(), false)].into(),
//!     base_dir: Some("project".into()),
//!     confine_to_base_dir: true,
//!     ..Default::default()
//! };
//! let names: Vec<String> = select_builtins(Some(&config)).unwrap().into_iter().map(|t| t.name).collect();
//! assert!(names.iter().all(|name| name != "bash"));
//! ```
//!
//! Confinement is a promise about the paths that a model passes as arguments. It is no sandbox: a
//! command run by `bash` reaches whatever the process can reach.

mod apply_patch;
mod args;
mod background;
mod bash;
mod builtin;
mod capture;
mod catalogue;
mod command_output;
mod config;
mod edit;
mod files;
mod glob;
mod grep;
mod host_policy;
mod http_tool;
mod notebook_edit;
mod outbound;
mod output_pipe;
mod output_progress;
mod paths;
mod pattern;
mod question;
mod read;
mod reserved_names;
mod search;
mod shell;
mod todowrite;
mod web_search;
mod webfetch;
mod write;

pub use background::{BackgroundShellInfo, BackgroundShells};
pub use catalogue::{
    BUILTIN_NAMES, builtin_status, builtin_toolkit, builtins_enabled, create_builtin_tools, is_builtin_name,
    select_builtins,
};
pub use config::{BuiltinLimits, BuiltinsConfig, BuiltinsError};
pub use host_policy::{CompiledHostPolicy, HostPolicy, InvalidHostPattern};
pub use http_tool::{HttpBody, HttpToolOptions, InvalidCall, ResultMode, UnknownOption, http_tool};
pub use web_search::{WebSearchFn, WebSearchHit};
