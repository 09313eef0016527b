//! What a host gives: directories, skills as data, and how they are shown.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolnexus_core::{BoxError, BoxFuture};

/// A skill that is data of the host's and never touches the disk.
///
/// Empty fields are absent ones; only `name` is needed.
///
/// ```
/// use toolnexus_skills::SkillDef;
/// let def = SkillDef { name: "review".into(), content: "Read the diff first.".into(), ..Default::default() };
/// assert!(def.description.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SkillDef {
    /// What the model calls it by. Blank: the definition is skipped.
    pub name: String,
    /// When to use it, for the catalogue. Blank: loadable by name, not in the catalogue.
    pub description: String,
    /// The instructions. May be empty.
    pub content: String,
    /// Names of files that the host can provide, shown as they are, in this order.
    pub resources: Vec<String>,
    /// Where relative paths in `content` start. Empty: `skill://<name>/`.
    pub base: String,
}

/// What [`load_skills`](crate::load_skills) and [`list_skills`](crate::list_skills) read.
///
/// ```no_run
/// use toolnexus_skills::{LoadSkillsOptions, list_skills};
/// let inventory = list_skills(&LoadSkillsOptions { dirs: vec!["skills".into()], ..Default::default() });
/// for skip in &inventory.skipped {
///     println!("{}: {}", skip.location, skip.reason);
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct LoadSkillsOptions {
    /// Directories to search for `SKILL.md` files at any depth, in order of precedence. One that
    /// does not exist gives a warning and nothing else; one that cannot be read is also listed
    /// among the skipped, as [`Unreadable`](crate::SkillSkipReason::Unreadable).
    pub dirs: Vec<PathBuf>,
    /// Skills as data; they come after those of `dirs`.
    pub skills: Vec<SkillDef>,
    /// Which skills to expose. Empty: all. With at least one `true`: exactly those mapped to
    /// `true`. With only `false`: all but those.
    pub filter: BTreeMap<String, bool>,
    /// How many files the `skill` tool lists: `0` is 10, a negative number none at all.
    pub sample_limit: i64,
    /// How the `skill` tool shows where a disk skill lives.
    pub path_display: SkillPathDisplay,
}

/// How the `skill` tool shows the paths of disk skills.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillPathDisplay {
    /// File URL and absolute paths, which the file tools of a local agent can open.
    #[default]
    Absolute,
    /// `skill://<name>/` and relative paths: nothing about the host's disk. For toolkits that are
    /// served to others; the files can then be opened only through tools of the host's.
    Logical,
}

/// A function of the host's that supplies skills when a toolkit is built.
pub type SkillProvider = Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<SkillDef>, BoxError>> + Send + Sync>;
