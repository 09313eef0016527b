//! Which tools there are, and what they may do.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::background::BackgroundShells;
use crate::catalogue::is_builtin_name;
use crate::host_policy::{HostPolicy, InvalidHostPattern};
use crate::web_search::WebSearchFn;

/// How the built-in tools are set up. The default has all of them on and nothing confined.
///
/// As JSON (a configuration file's `builtins`): `true`, `false`, or an object with these fields
/// in camelCase. A value of a wrong type is an error and never a default, so that a mistyped
/// lock-down does not arm a tool.
///
/// ```
/// use toolnexus_tools::BuiltinsConfig;
/// let config: BuiltinsConfig = serde_json::from_str(r#"{"tools": {"bash": false}}"#).unwrap();
/// assert_eq!(config.tools.get("bash"), Some(&false));
/// let error = serde_json::from_str::<BuiltinsConfig>(r#"{"tools": {"bash": "false"}}"#).unwrap_err();
/// assert!(error.to_string().contains("builtins.tools.bash must be a boolean"));
/// ```
#[derive(Clone, Default)]
pub struct BuiltinsConfig {
    /// `Some(false)` switches all tools off.
    pub enabled: Option<bool>,
    /// `Some(true)` switches all tools off, whatever `enabled` says.
    pub disabled: Option<bool>,
    /// Tools to drop: those mapped to `false`. `true` changes nothing, and unknown names are
    /// ignored with a warning.
    pub tools: BTreeMap<String, bool>,
    /// Lets `bash` start commands that outlive their call, and adds `bash_output` and `kill_shell`.
    /// The registry is the host's, which closes it. Only from code.
    pub background: Option<Arc<BackgroundShells>>,
    /// Adds `websearch` over a search engine of the host's. Only from code.
    pub web_search: Option<WebSearchFn>,
    /// Adds `notebook_edit`.
    pub notebook_edit: bool,
    /// How long a command's processes may take to end after they were asked to, in milliseconds,
    /// before they are killed. `None`: 2000.
    pub kill_grace_ms: Option<u64>,
    /// The shell of `bash` as the start of an argument list; the command becomes the last
    /// argument. Empty: found once, when the tools are built (`sh -c`; on Windows the first of
    /// `%COMSPEC%`, `pwsh`, `powershell`, `bash` that is there).
    pub shell: Vec<String>,
    /// Where relative paths start, also those of `bash`. `None` or empty: the working directory
    /// of the process, at the time of each call.
    pub base_dir: Option<PathBuf>,
    /// Refuses path arguments that lead out of `base_dir`, links resolved. No sandbox: commands
    /// run by `bash` are not held back by it.
    pub confine_to_base_dir: bool,
    /// Makes searches leave out what `.gitignore`, `.ignore` and git's global excludes name.
    pub respect_gitignore: bool,
    /// Which hosts `webfetch` may reach. The default refuses nothing.
    pub web: HostPolicy,
    /// Sizes and times at which tools stop.
    pub limits: BuiltinLimits,
}

/// Sizes and times at which the tools cut or stop; each says so when it does. `0` is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltinLimits {
    /// Bytes of a command's output that the model sees; the middle is cut. Default 1 MiB.
    pub bash_bytes: u64,
    /// Bytes of the file that keeps the whole output of a command when the model sees only a part
    /// of it. Default 64 MiB.
    pub bash_spill_bytes: u64,
    /// Bytes of a file, or of a window of lines, that `read` returns. Default 16 MiB.
    pub read_bytes: u64,
    /// Bytes of a line that `grep` prints. Default 4096.
    pub line_bytes: u64,
    /// Bytes of a body that `webfetch` reads, after decompression. Default 5 MiB.
    pub web_bytes: u64,
    /// Milliseconds that a search may take. Default 60000.
    pub search_ms: u64,
}

impl Default for BuiltinLimits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        BuiltinLimits {
            bash_bytes: MIB,
            bash_spill_bytes: 64 * MIB,
            read_bytes: 16 * MIB,
            line_bytes: 4096,
            web_bytes: 5 * MIB,
            search_ms: 60_000,
        }
    }
}

/// Why the built-in tools cannot be set up as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuiltinsError {
    /// A configured value has the wrong type.
    #[error("{key} must be {expected}, not {found}")]
    WrongType {
        /// The key's path, for example `builtins.tools.bash`.
        key: String,
        /// What belongs there.
        expected: &'static str,
        /// What was there, shortened.
        found: String,
    },
    /// An entry of [`BuiltinsConfig::web`] cannot be read.
    #[error("builtins.web: {0}")]
    HostPolicy(#[from] InvalidHostPattern),
    /// `bash` is on and there is no shell.
    #[error(
        "no shell interpreter found (tried: {tried}); set builtins.shell, or disable the bash \
         builtin with builtins.tools {{\"bash\": false}}"
    )]
    NoShell {
        /// The shells that were looked for.
        tried: String,
    },
}

impl BuiltinsConfig {
    /// Every tool off.
    pub fn off() -> Self {
        BuiltinsConfig { disabled: Some(true), ..Default::default() }
    }

    /// Reads the `builtins` section of a configuration document. `null` is `None`: nothing is
    /// configured. A key nobody knows is ignored with a warning.
    ///
    /// # Errors
    /// [`BuiltinsError::WrongType`] for a value of a wrong type.
    ///
    /// ```
    /// use toolnexus_tools::BuiltinsConfig;
    /// let section = serde_json::json!({"baseDir": "project", "confineToBaseDir": true});
    /// let config = BuiltinsConfig::from_value(&section).unwrap().unwrap();
    /// assert!(config.confine_to_base_dir);
    /// let off = BuiltinsConfig::from_value(&serde_json::json!(false)).unwrap().unwrap();
    /// assert_eq!(off.disabled, Some(true));
    /// ```
    pub fn from_value(section: &Value) -> Result<Option<Self>, BuiltinsError> {
        match section {
            Value::Null => Ok(None),
            Value::Bool(true) => Ok(Some(BuiltinsConfig::default())),
            Value::Bool(false) => Ok(Some(BuiltinsConfig::off())),
            Value::Object(map) => Self::from_map(map).map(Some),
            other => Err(wrong_type("builtins", "a boolean or an object", other)),
        }
    }

    fn from_map(map: &Map<String, Value>) -> Result<Self, BuiltinsError> {
        let mut config = BuiltinsConfig::default();
        for (key, value) in map {
            let path = format!("builtins.{key}");
            match key.as_str() {
                "enabled" => config.enabled = Some(boolean(&path, value)?),
                "disabled" => config.disabled = Some(boolean(&path, value)?),
                "tools" => config.tools = toggles(&path, value)?,
                "killGraceMs" => config.kill_grace_ms = Some(unsigned(&path, value)?),
                "shell" => config.shell = strings(&path, value)?,
                "baseDir" => {
                    let dir = value.as_str().ok_or_else(|| wrong_type(&path, "a string", value))?;
                    config.base_dir = Some(PathBuf::from(dir));
                }
                "confineToBaseDir" => config.confine_to_base_dir = boolean(&path, value)?,
                "respectGitignore" => config.respect_gitignore = boolean(&path, value)?,
                "limits" => config.limits = limits(&path, value)?,
                "notebookEdit" => config.notebook_edit = boolean(&path, value)?,
                "web" => config.web = web(&path, value)?,
                _ => tracing::warn!("[toolnexus] builtins: unknown key \"{key}\""),
            }
        }
        Ok(config)
    }

    /// Warns of toggles that name nothing: most likely typing errors.
    pub(crate) fn warn_of_unknown_tools(&self) {
        for name in self.tools.keys().filter(|name| !is_builtin_name(name)) {
            tracing::warn!("[toolnexus] builtins.tools: no built-in named \"{name}\"");
        }
    }
}

impl fmt::Debug for BuiltinsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltinsConfig")
            .field("enabled", &self.enabled)
            .field("disabled", &self.disabled)
            .field("tools", &self.tools)
            .field("background", &self.background.is_some())
            .field("web_search", &self.web_search.is_some())
            .field("notebook_edit", &self.notebook_edit)
            .field("kill_grace_ms", &self.kill_grace_ms)
            .field("shell", &self.shell)
            .field("base_dir", &self.base_dir)
            .field("confine_to_base_dir", &self.confine_to_base_dir)
            .field("respect_gitignore", &self.respect_gitignore)
            .field("web", &self.web)
            .field("limits", &self.limits)
            .finish()
    }
}

/// Reads what [`BuiltinsConfig::from_value`] reads; `null` is the default.
impl<'de> Deserialize<'de> for BuiltinsConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let section = Value::deserialize(deserializer)?;
        let config = BuiltinsConfig::from_value(&section).map_err(serde::de::Error::custom)?;
        Ok(config.unwrap_or_default())
    }
}

fn limits(path: &str, value: &Value) -> Result<BuiltinLimits, BuiltinsError> {
    let mut limits = BuiltinLimits::default();
    for (key, value) in object(path, value)? {
        let path = format!("{path}.{key}");
        match key.as_str() {
            "bashBytes" => limits.bash_bytes = unsigned(&path, value)?,
            "bashSpillBytes" => limits.bash_spill_bytes = unsigned(&path, value)?,
            "readBytes" => limits.read_bytes = unsigned(&path, value)?,
            "searchMs" => limits.search_ms = unsigned(&path, value)?,
            "lineBytes" => limits.line_bytes = unsigned(&path, value)?,
            "webBytes" => limits.web_bytes = unsigned(&path, value)?,
            _ => tracing::warn!("[toolnexus] builtins: unknown key \"limits.{key}\""),
        }
    }
    Ok(limits)
}

fn web(path: &str, value: &Value) -> Result<HostPolicy, BuiltinsError> {
    let mut policy = HostPolicy::default();
    for (key, value) in object(path, value)? {
        let path = format!("{path}.{key}");
        match key.as_str() {
            "allow" => policy.allow = strings(&path, value)?,
            "deny" => policy.deny = strings(&path, value)?,
            _ => tracing::warn!("[toolnexus] builtins: unknown key \"web.{key}\""),
        }
    }
    policy.compile()?;
    Ok(policy)
}

fn toggles(path: &str, value: &Value) -> Result<BTreeMap<String, bool>, BuiltinsError> {
    let map = object(path, value)?;
    map.iter().map(|(name, value)| Ok((name.clone(), boolean(&format!("{path}.{name}"), value)?))).collect()
}

fn object<'a>(path: &str, value: &'a Value) -> Result<&'a Map<String, Value>, BuiltinsError> {
    value.as_object().ok_or_else(|| wrong_type(path, "an object", value))
}

fn boolean(path: &str, value: &Value) -> Result<bool, BuiltinsError> {
    value.as_bool().ok_or_else(|| wrong_type(path, "a boolean", value))
}

fn unsigned(path: &str, value: &Value) -> Result<u64, BuiltinsError> {
    value.as_u64().ok_or_else(|| wrong_type(path, "a whole number of at least 0", value))
}

fn strings(path: &str, value: &Value) -> Result<Vec<String>, BuiltinsError> {
    let items =
        value.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
    items.flatten().ok_or_else(|| wrong_type(path, "an array of strings", value))
}

fn wrong_type(key: &str, expected: &'static str, found: &Value) -> BuiltinsError {
    const SHOWN: usize = 60;
    let text = found.to_string();
    let found = match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => text.get(..cut).unwrap_or_default().to_owned() + "…",
        None => text,
    };
    BuiltinsError::WrongType { key: key.to_owned(), expected, found }
}
