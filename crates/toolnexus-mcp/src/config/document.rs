//! From a JSON document to its server map and sibling sections.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::repeated::repeated_key;
use super::{McpConfig, McpConfigError, McpServerConfig};

/// The keys that may hold the server map; the first present one is used, never a mixture.
const WRAPPERS: [&str; 3] = ["mcpServers", "servers", "mcp"];

/// Sections beside the servers. In a document without a wrapper they are not servers.
const RESERVED: [&str; 4] = ["builtins", "agents", "a2a", "mcpServer"];

/// The largest document that is read from a file: 16 MiB.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

pub(super) fn from_file(path: &Path) -> Result<McpConfig, McpConfigError> {
    let text =
        read_text(path).map_err(|source| McpConfigError::Unreadable { path: path.to_owned(), source })?;
    from_text(&text, Some(path))
}

fn read_text(path: &Path) -> io::Result<String> {
    // Asked before opening: opening a named pipe waits for its other end, and a device may have
    // no end at all.
    let about = fs::metadata(path)?;
    if !about.is_file() {
        let what = kind_of(about.file_type());
        return Err(io::Error::other(format!("it is {what}, give the path of a regular file")));
    }
    let too_large = || {
        let limit = MAX_FILE_BYTES / (1024 * 1024);
        io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {limit} MiB, give the path of an mcp.json document"),
        )
    };
    if about.len() > MAX_FILE_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // Some files are longer than they say, and some grow.
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large());
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// What a path leads to when that is no regular file.
fn kind_of(kind: fs::FileType) -> &'static str {
    if kind.is_dir() {
        return "a directory";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if kind.is_fifo() {
            return "a named pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    "no regular file"
}

pub(super) fn from_text(text: &str, path: Option<&Path>) -> Result<McpConfig, McpConfigError> {
    // Editors on Windows write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Value = serde_json::from_str(text).map_err(|error| McpConfigError::Malformed {
        path: path.map(Path::to_owned),
        line: error.line(),
        column: error.column(),
    })?;
    if let Some(key) = repeated_key(text, "builtins") {
        return Err(McpConfigError::RepeatedKey { path: path.map(Path::to_owned), key });
    }
    from_value(&value).map_err(|error| match error {
        McpConfigError::NotAnObject { what, .. } => McpConfigError::NotAnObject {
            path: path.map(Path::to_owned),
            what,
            place: Some(place_of(text, what)),
        },
        other => other,
    })
}

pub(super) fn from_value(value: &Value) -> Result<McpConfig, McpConfigError> {
    let not_an_object = |what| McpConfigError::NotAnObject { path: None, what, place: None };
    let Value::Object(top) = value else { return Err(not_an_object("the top level")) };

    let wrapper = WRAPPERS.iter().find_map(|key| {
        let value = top.get(*key).filter(|value| !value.is_null())?;
        Some((*key, value))
    });
    let mut servers = match wrapper {
        Some((_, Value::Object(map))) => servers_of(map.iter()),
        Some((key, _)) => return Err(not_an_object(key)),
        None => servers_of(bare_servers(top)),
    };
    servers.sort_by(|a, b| a.name.cmp(&b.name));

    let section = |key: &str| top.get(key).filter(|value| !value.is_null()).cloned();
    Ok(McpConfig {
        servers,
        builtins: section("builtins"),
        agents: section("agents"),
        a2a: section("a2a"),
        mcp_server: section("mcpServer"),
    })
}

fn bare_servers(top: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    top.iter().filter(|(key, value)| value.is_object() && !RESERVED.contains(&key.as_str()))
}

fn servers_of<'a>(entries: impl Iterator<Item = (&'a String, &'a Value)>) -> Vec<McpServerConfig> {
    entries.map(|(name, entry)| McpServerConfig::from_entry(name, entry)).collect()
}

/// Line and column of the value that should have been an object.
fn place_of(text: &str, what: &str) -> (usize, usize) {
    let offset = serde_json::from_str::<std::collections::BTreeMap<String, &RawValue>>(text)
        .ok()
        .and_then(|top| {
            // The raw value is a slice of the text, so its address tells where it stands.
            let at = top.get(what)?.get().as_ptr().addr();
            at.checked_sub(text.as_ptr().addr())
        })
        .unwrap_or_else(|| text.len() - text.trim_start().len());
    let before = text.get(..offset).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}
