//! One entry of the server map.

use std::collections::BTreeMap;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolnexus_core::env;
use tracing::warn;

use crate::auth::{self, McpAuth};
use crate::transport::{SpecSource, redacted};

use super::headers::{HeaderShape, Headers, expand_env_headers, header_shape};

/// How long one phase of a load, or one silent call, may take when the entry does not say:
/// 30 seconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 30_000;

/// How long one call may take whatever its progress when the entry does not say: an hour.
pub const DEFAULT_MAX_TOTAL_TIMEOUT_MS: u64 = 3_600_000;

/// How a server is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ServerKind {
    /// A child process, over its standard input and output.
    Local,
    /// Streamable HTTP.
    Remote,
    /// Neither a command nor a URL was given; the server fails when loaded.
    #[default]
    Unknown,
}

impl ServerKind {
    /// `local`, `remote` or `unknown`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ServerKind::Local => "local",
            ServerKind::Remote => "remote",
            ServerKind::Unknown => "unknown",
        }
    }
}

/// Which generation of the protocol a server is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpEra {
    /// Found out by asking the server.
    Auto,
    /// Revision 2026-07-28 and later: no handshake, no session.
    Modern,
    /// Revisions up to 2025-11-25: a handshake first.
    Legacy,
}

impl McpEra {
    /// `auto`, `modern` or `legacy`.
    pub const fn as_str(self) -> &'static str {
        match self {
            McpEra::Auto => "auto",
            McpEra::Modern => "modern",
            McpEra::Legacy => "legacy",
        }
    }
}

/// How many calls may be under way at once on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConcurrencyPolicy {
    /// Calls have nothing to do with each other.
    Stateless,
    /// Calls share a pool of slots.
    Pooled,
    /// One call at a time.
    Serialized,
}

impl ConcurrencyPolicy {
    /// `stateless`, `pooled` or `serialized`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ConcurrencyPolicy::Stateless => "stateless",
            ConcurrencyPolicy::Pooled => "pooled",
            ConcurrencyPolicy::Serialized => "serialized",
        }
    }
}

/// One configured server. `Debug` shows names and numbers, never a secret.
#[derive(Clone)]
pub struct McpServerConfig {
    /// The key in the server map.
    pub name: String,
    /// How the server is reached.
    pub kind: ServerKind,
    /// The program and its arguments; never handed to a shell.
    pub command: Vec<String>,
    /// The child's working directory. `None`: this process's own.
    pub cwd: Option<PathBuf>,
    /// Variables set for the child on top of those it inherits.
    pub environment: IndexMap<String, String>,
    /// Which of this process's variables the child sees. `None`: as the load says, and everything
    /// when that says nothing. `Some`: a safe base (`PATH`, `HOME`, …) and these.
    pub inherit_env: Option<Vec<String>>,
    /// The endpoint of a remote server.
    pub url: Option<String>,
    /// Whether the legacy HTTP+SSE transport is tried before streamable HTTP.
    pub sse: bool,
    /// The configured headers, placeholders and all.
    pub raw_headers: Headers,
    /// The headers with the environment filled in: secret.
    pub headers: Headers,
    /// How to sign in to a remote server. `None`: not at all. An `Authorization` header wins.
    pub auth: Option<McpAuth>,
    /// `false`: the server is never contacted.
    pub enabled: bool,
    /// The limit of each phase of a load and of a silent call, in milliseconds.
    pub timeout_ms: u64,
    /// The limit of a whole call whatever its progress, in milliseconds; 0 is none.
    pub max_total_timeout_ms: u64,
    /// Which tools to take, by their names on the server. With one `true`: exactly those mapped
    /// `true`. With `false` only: all but those. Empty: all.
    pub tools: BTreeMap<String, bool>,
    /// The protocol era. `None`: as the load says.
    pub era: Option<McpEra>,
    /// How many calls may be under way at once. `None`: as the connection turns out to allow.
    pub concurrency: Option<ConcurrencyPolicy>,
    /// The size of the pool of calls under way. `None`: 8 over HTTP, no limit for a child process.
    pub pool_size: Option<usize>,
    /// How many calls may wait for a slot; more fail at once. `None`: 64.
    pub queue_limit: Option<usize>,
    /// What a call of a tool costs, by the tool's name on the server; 0 is known to be free.
    pub prices: BTreeMap<String, f64>,
    /// Whether tools without a price are refused. `None`: when there are prices.
    pub metered: Option<bool>,
    /// Whether the server is left after listing and reached again with the first call.
    pub lazy: bool,
    /// Where this entry comes from; never read from a document, which cannot vouch for itself. `None`: as
    /// the load says.
    pub source: Option<SpecSource>,
    /// Why this entry cannot be used; the server then fails when loaded. Empty text: the reason is
    /// plain from the entry.
    pub invalid: Option<String>,
}

impl Default for McpServerConfig {
    fn default() -> Self {
        McpServerConfig {
            name: String::new(),
            kind: ServerKind::Unknown,
            command: Vec::new(),
            cwd: None,
            environment: IndexMap::new(),
            inherit_env: None,
            url: None,
            sse: false,
            raw_headers: Headers::new(),
            headers: Headers::new(),
            auth: None,
            enabled: true,
            timeout_ms: DEFAULT_TIMEOUT_MS,
            max_total_timeout_ms: DEFAULT_MAX_TOTAL_TIMEOUT_MS,
            tools: BTreeMap::new(),
            era: None,
            concurrency: None,
            pool_size: None,
            queue_limit: None,
            prices: BTreeMap::new(),
            metered: None,
            lazy: false,
            source: None,
            invalid: None,
        }
    }
}

impl McpServerConfig {
    /// What may be shown of the headers.
    pub fn header_shape(&self) -> HeaderShape {
        header_shape(&self.raw_headers, &self.headers)
    }

    /// The variables that headers refer to and the environment does not have, sorted.
    pub fn missing_env(&self) -> Vec<String> {
        let mut missing: Vec<String> = self
            .raw_headers
            .iter()
            .flat_map(|(_, value)| env::variables(value))
            .filter(|name| std::env::var_os(name).is_none())
            .map(str::to_owned)
            .collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Why the server cannot be contacted at all, looking at the entry only.
    pub(crate) fn defect(&self) -> Option<String> {
        if let Some(reason) = &self.invalid {
            return Some(reason.clone());
        }
        if let Some((tool, _)) = self.prices.iter().find(|(_, price)| !price.is_finite() || **price < 0.0) {
            return Some(format!("prices {tool:?} must be a number that is not negative"));
        }
        match self.kind {
            ServerKind::Unknown => Some(String::new()),
            ServerKind::Local => {
                let named = self.command.first().is_some_and(|program| !program.is_empty());
                (!named).then(|| "command is empty".to_owned())
            }
            ServerKind::Remote => {
                let url = self.url.as_deref().unwrap_or_default();
                if url.is_empty() {
                    return Some("url is empty".to_owned());
                }
                match url::Url::parse(url) {
                    Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.has_host() => None,
                    _ => Some("url is not an http or https url".to_owned()),
                }
            }
        }
    }

    pub(super) fn from_entry(name: &str, entry: &Value) -> Self {
        let mut server = McpServerConfig { name: name.to_owned(), ..Default::default() };
        let Value::Object(entry) = entry else {
            server.invalid = Some("the entry is not an object".to_owned());
            return server;
        };
        server.enabled = enabled(entry);
        server.timeout_ms = milliseconds(entry, "timeout").filter(|ms| *ms > 0).unwrap_or(DEFAULT_TIMEOUT_MS);
        server.max_total_timeout_ms =
            milliseconds(entry, "maxTotalTimeout").unwrap_or(DEFAULT_MAX_TOTAL_TIMEOUT_MS);
        if let Err(reason) = server.read(entry) {
            server.invalid = Some(reason);
        }
        server
    }

    /// Reads what an error in would make the server unusable; `Err` says which key it was.
    fn read(&mut self, entry: &Map<String, Value>) -> Result<(), String> {
        self.kind = kind(&self.name, entry);
        match self.kind {
            ServerKind::Local => self.read_local(entry)?,
            ServerKind::Remote => self.read_remote(entry)?,
            ServerKind::Unknown => {}
        }
        self.tools = tool_filter(entry)?;
        self.era = word(entry, "era", &[McpEra::Auto, McpEra::Modern, McpEra::Legacy], McpEra::as_str)?;
        self.concurrency = word(
            entry,
            "concurrency",
            &[ConcurrencyPolicy::Stateless, ConcurrencyPolicy::Pooled, ConcurrencyPolicy::Serialized],
            ConcurrencyPolicy::as_str,
        )?;
        self.pool_size = count(entry, "poolSize")?;
        self.queue_limit = count(entry, "queueLimit")?;
        self.prices = prices(entry)?;
        self.metered = flag(entry, "metered")?;
        self.lazy = flag(entry, "lazy")?.unwrap_or(false);
        Ok(())
    }

    fn read_local(&mut self, entry: &Map<String, Value>) -> Result<(), String> {
        self.command = match present(entry, "command") {
            None => Vec::new(),
            Some(Value::String(program)) => vec![program.clone()],
            Some(Value::Array(argv)) => texts("command", argv)?,
            Some(_) => return Err("command must be an array or a string".to_owned()),
        };
        match present(entry, "args") {
            None => {}
            Some(Value::Array(args)) => self.command.extend(texts("args", args)?),
            Some(_) => return Err("args must be an array".to_owned()),
        }
        self.cwd = optional_text(entry, "cwd")?.map(PathBuf::from);
        let key = if present(entry, "environment").is_some() { "environment" } else { "env" };
        self.environment = text_map(entry, key)?.into_iter().collect();
        for (name, value) in &self.environment {
            // The system takes no such variable, and a spawn would fail for it with no name.
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(format!("{key} {name:?} is not a valid variable"));
            }
        }
        self.inherit_env = match present(entry, "inheritEnv") {
            None => None,
            Some(Value::Array(names)) => Some(texts("inheritEnv", names)?),
            Some(_) => return Err("inheritEnv must be an array".to_owned()),
        };
        Ok(())
    }

    fn read_remote(&mut self, entry: &Map<String, Value>) -> Result<(), String> {
        self.url = optional_text(entry, "url")?;
        self.sse = entry.get("type").and_then(Value::as_str) == Some("sse");
        for (name, value) in text_map(entry, "headers")? {
            if http::HeaderName::try_from(&name).is_err() {
                return Err(format!("headers {name:?} is not a valid header name"));
            }
            if owned_by_protocol(&name) {
                warn!(
                    "[toolnexus] server \"{}\" header \"{name}\" left out: the protocol sets it itself",
                    self.name
                );
                continue;
            }
            self.raw_headers.insert(name, value);
        }
        self.auth = auth::from_entry(&self.name, entry)?;
        self.headers = expand_env_headers(&self.raw_headers);
        for (name, value) in self.headers.iter() {
            if http::HeaderValue::from_str(value).is_err() {
                return Err(format!("header {name:?} is not a valid header value"));
            }
        }
        Ok(())
    }
}

/// Headers that could break framing or pose as a session.
fn owned_by_protocol(name: &str) -> bool {
    const OWNED: [&str; 6] =
        ["accept", "content-type", "content-length", "transfer-encoding", "connection", "last-event-id"];
    let name = name.to_ascii_lowercase();
    OWNED.contains(&name.as_str()) || name.starts_with("mcp-")
}

/// A key's value; `null` is absent.
fn present<'a>(entry: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    entry.get(key).filter(|value| !value.is_null())
}

fn kind(name: &str, entry: &Map<String, Value>) -> ServerKind {
    match entry.get("type").and_then(Value::as_str) {
        Some("local" | "stdio") => return ServerKind::Local,
        Some("remote" | "http" | "streamable-http" | "streamableHttp" | "sse") => return ServerKind::Remote,
        _ => {}
    }
    let command = present(entry, "command").is_some();
    if present(entry, "url").is_some() {
        if command {
            warn!("[toolnexus] server \"{name}\" has both \"url\" and \"command\": \"command\" is ignored");
        }
        ServerKind::Remote
    } else if command {
        ServerKind::Local
    } else {
        ServerKind::Unknown
    }
}

fn enabled(entry: &Map<String, Value>) -> bool {
    entry.get("disabled") != Some(&Value::Bool(true)) && entry.get("enabled") != Some(&Value::Bool(false))
}

/// A whole, not negative number of milliseconds; `None` for anything else.
fn milliseconds(entry: &Map<String, Value>, key: &str) -> Option<u64> {
    let number = entry.get(key)?.as_number()?;
    if let Some(whole) = number.as_u64() {
        return Some(whole);
    }
    let float = number.as_f64().filter(|ms| *ms >= 0.0)?;
    // A fraction of a millisecond is a positive limit, not zero. The cast saturates.
    Some(float.ceil() as u64)
}

/// A string, or the JSON text of a number or boolean.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

fn texts(key: &str, values: &[Value]) -> Result<Vec<String>, String> {
    values.iter().map(|value| text(value).ok_or_else(|| format!("{key} must hold texts only"))).collect()
}

fn optional_text(entry: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match present(entry, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{key} must be a string")),
    }
}

fn text_map(entry: &Map<String, Value>, key: &str) -> Result<Vec<(String, String)>, String> {
    match present(entry, key) {
        None => Ok(Vec::new()),
        Some(Value::Object(map)) => map
            .iter()
            .map(|(name, value)| match text(value) {
                Some(text) => Ok((name.clone(), text)),
                None => Err(format!("{key} {name:?} must be a text")),
            })
            .collect(),
        Some(_) => Err(format!("{key} must be an object")),
    }
}

/// One of a key's few words.
fn word<T: Copy>(
    entry: &Map<String, Value>,
    key: &str,
    words: &[T],
    text: fn(T) -> &'static str,
) -> Result<Option<T>, String> {
    let Some(value) = present(entry, key) else { return Ok(None) };
    let found = value.as_str().and_then(|value| words.iter().copied().find(|word| text(*word) == value));
    found.map(Some).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|word| text(*word)).collect();
        format!("{key} must be one of {}", words.join(", "))
    })
}

fn flag(entry: &Map<String, Value>, key: &str) -> Result<Option<bool>, String> {
    match present(entry, key) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(format!("{key} must be true or false")),
    }
}

fn count(entry: &Map<String, Value>, key: &str) -> Result<Option<usize>, String> {
    let Some(value) = present(entry, key) else { return Ok(None) };
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
    count.map(Some).ok_or_else(|| format!("{key} must be a whole number that is not negative"))
}

fn prices(entry: &Map<String, Value>) -> Result<BTreeMap<String, f64>, String> {
    match present(entry, "prices") {
        None => Ok(BTreeMap::new()),
        Some(Value::Object(map)) => map
            .iter()
            .map(|(name, value)| match value.as_f64().filter(|price| *price >= 0.0) {
                Some(price) => Ok((name.clone(), price)),
                None => Err(format!("prices {name:?} must be a number that is not negative")),
            })
            .collect(),
        Some(_) => Err("prices must be an object".to_owned()),
    }
}

fn tool_filter(entry: &Map<String, Value>) -> Result<BTreeMap<String, bool>, String> {
    // A broken restriction must not widen to everything.
    match present(entry, "tools") {
        None => Ok(BTreeMap::new()),
        Some(Value::Object(map)) => map
            .iter()
            .map(|(name, value)| match value {
                Value::Bool(wanted) => Ok((name.clone(), *wanted)),
                _ => Err(format!("tools {name:?} must be true or false")),
            })
            .collect(),
        Some(_) => Err("tools must be an object".to_owned()),
    }
}

impl std::fmt::Debug for McpServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServerConfig")
            .field("kind", &self.kind.as_str())
            .field("spec", &redacted(self))
            .field("enabled", &self.enabled)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}
