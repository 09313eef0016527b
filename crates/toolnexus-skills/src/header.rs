//! What a header says: name, description, and everything else for the host.

use serde_json::{Map, Value};

use crate::yaml::{self, Node};

/// The longest header that is parsed.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// A header that names a skill.
#[derive(Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) meta: Map<String, Value>,
}

/// Why a header names no skill.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// What there is instead of a name.
    MissingName(&'static str),
    /// What the parser said.
    Malformed(String),
}

/// Reads the text between the fences.
pub(crate) fn read(text: &str) -> Result<Header, Refusal> {
    if text.len() > MAX_HEADER_BYTES {
        return Err(Refusal::Malformed(format!("the header is larger than {MAX_HEADER_BYTES} bytes")));
    }
    match yaml::parse(text) {
        Ok(None) => Err(Refusal::MissingName("the header is empty")),
        Ok(Some(Node::Map(entries))) => from_yaml(entries),
        Ok(Some(_)) => rescue(text, "frontmatter is not a YAML mapping".to_owned()),
        Err(why) => rescue(text, why),
    }
}

fn from_yaml(entries: Vec<(Node, Node)>) -> Result<Header, Refusal> {
    let name = match value_of(&entries, "name") {
        None => return Err(Refusal::MissingName("the header has no key name")),
        Some(Node::List(_)) => return Err(Refusal::MissingName("name is a list")),
        Some(Node::Map(_)) => return Err(Refusal::MissingName("name is a mapping")),
        Some(scalar) => text_of(scalar).ok_or(Refusal::MissingName("name is empty"))?,
    };
    let description = value_of(&entries, "description").and_then(text_of);
    let meta = match Node::Map(entries).to_json() {
        Value::Object(meta) => meta,
        _ => Map::new(),
    };
    Ok(Header { name, description, meta })
}

fn value_of<'a>(entries: &'a [(Node, Node)], wanted: &str) -> Option<&'a Node> {
    entries.iter().find_map(|(key, value)| key.is_text(wanted).then_some(value))
}

fn text_of(node: &Node) -> Option<String> {
    match node {
        Node::Scalar { text, value } if !value.is_null() => non_blank(text),
        _ => None,
    }
}

fn non_blank(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads `name` and `description` from a header that is no YAML, as people write them when a
/// sentence holds a colon. Anything that would need guessing is refused with the parser's `why`.
fn rescue(text: &str, why: String) -> Result<Header, Refusal> {
    let value_of = |wanted: &str| text.lines().find_map(|line| rescued(line, wanted));
    let name = value_of("name").ok_or(Refusal::Malformed(why))?;
    Ok(Header { name, description: value_of("description"), meta: Map::new() })
}

fn rescued(line: &str, wanted: &str) -> Option<String> {
    let rest = line.strip_prefix(wanted)?.strip_prefix(':')?;
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    let value = rest.trim();
    if value.starts_with(['|', '>', '&', '*', '[', '{', '!'])
        || matches!(value, "~" | "null" | "Null" | "NULL")
    {
        return None;
    }
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value);
    non_blank(unquoted)
}
