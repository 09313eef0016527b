//! YAML as a tree that keeps each scalar as it was written.
//!
//! The grammar is the parser crate's. What is decided here is what a header may cost: nesting is
//! bounded, and so is what aliases may unfold to.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::panic::catch_unwind;

use saphyr::Scalar;
use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value};

/// Nesting no header needs, aliases included; deeper trees would cost stack to copy, print and drop.
const MAX_DEPTH: usize = 64;

/// Bytes that all aliases of a document may stand for together.
const MAX_ALIASED_BYTES: usize = 256 * 1024;

/// One node of a document.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// A leaf: its text as written (unquoted, unfolded), and the value that the core schema
    /// gives it.
    Scalar { text: String, value: Value },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the text.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// The node as JSON. Keys become text; the first of equal texts wins.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Node::Scalar { value, .. } => value.clone(),
            Node::List(items) => items.iter().map(Node::to_json).collect(),
            Node::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    map.entry(key.key_text()).or_insert_with(|| value.to_json());
                }
                Value::Object(map)
            }
        }
    }

    /// Whether the node is a leaf of this text.
    pub(crate) fn is_text(&self, wanted: &str) -> bool {
        matches!(self, Node::Scalar { text, .. } if text == wanted)
    }

    fn key_text(&self) -> String {
        match self {
            Node::Scalar { text, .. } => text.clone(),
            other => other.to_json().to_string(),
        }
    }

    /// How many collections lie within each other here.
    fn depth(&self) -> usize {
        match self {
            Node::Scalar { .. } => 0,
            Node::List(items) => 1 + items.iter().map(Node::depth).max().unwrap_or_default(),
            Node::Map(entries) => {
                1 + entries
                    .iter()
                    .map(|(key, value)| key.depth().max(value.depth()))
                    .max()
                    .unwrap_or_default()
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Node::Scalar { text, .. } => text.len() + 1,
            Node::List(items) => 1 + items.iter().map(Node::bytes).sum::<usize>(),
            Node::Map(entries) => 1 + entries.iter().map(|(k, v)| k.bytes() + v.bytes()).sum::<usize>(),
        }
    }
}

/// Parses one document. `Ok(None)`: there is none, only blanks and comments.
///
/// # Errors
/// What the parser said, or which limit was passed. Lines are counted as in the file, whose first one is
/// the fence.
pub(crate) fn parse(text: &str) -> Result<Option<Node>, String> {
    // A comment in the place of the fence, as long as it is.
    let text = format!("#--\n{text}");
    // The parser holds assertions; a header that meets one is refused like any other.
    catch_unwind(|| parse_events(&text)).unwrap_or_else(|_| Err("the YAML parser failed".to_owned()))
}

fn parse_events(text: &str) -> Result<Option<Node>, String> {
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| error.to_string())?;
        builder
            .on_event(event)
            .map_err(|why| format!("{why} at line {} column {}", span.start.line(), span.start.col() + 1))?;
    }
    Ok(builder.root)
}

/// A collection whose end has not been read.
struct Open {
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map { entries: Vec<(Node, Node)>, key: Option<Node>, keys: HashSet<String> },
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    documents: usize,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    aliased: usize,
}

impl Builder {
    fn on_event(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err("more than one YAML document".to_owned());
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => self.close(scalar(text, style, tag.as_ref()), anchor),
            Event::Alias(id) => {
                let node = self.anchors.get(&id).ok_or("an alias inside its own anchor")?;
                self.aliased += node.bytes();
                if self.aliased > MAX_ALIASED_BYTES {
                    return Err(format!("aliases stand for more than {MAX_ALIASED_BYTES} bytes"));
                }
                if self.open.len() + node.depth() > MAX_DEPTH {
                    return Err(too_deep());
                }
                self.close(node.clone(), 0)
            }
            Event::SequenceStart(anchor, _) => self.open(anchor, Items::List(Vec::new())),
            Event::MappingStart(anchor, _) => {
                self.open(anchor, Items::Map { entries: Vec::new(), key: None, keys: HashSet::new() })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(ended) = self.open.pop() else { return Ok(()) };
                let node = match ended.items {
                    Items::List(items) => Node::List(items),
                    Items::Map { entries, .. } => Node::Map(entries),
                };
                self.close(node, ended.anchor)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(&mut self, anchor: usize, items: Items) -> Result<(), String> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep());
        }
        self.open.push(Open { anchor, items });
        Ok(())
    }

    /// Hands a finished node to the collection it stands in.
    fn close(&mut self, node: Node, anchor: usize) -> Result<(), String> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.root = Some(node),
            Some(Items::List(items)) => items.push(node),
            Some(Items::Map { entries, key, keys }) => match key.take() {
                Some(key) => entries.push((key, node)),
                None => {
                    if !keys.insert(node.to_json().to_string()) {
                        return Err(format!("duplicate key \"{}\"", node.key_text()));
                    }
                    *key = Some(node);
                }
            },
        }
        Ok(())
    }
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Cow<'_, Tag>>) -> Node {
    let text = text.into_owned();
    let value = match Scalar::parse_from_cow_and_metadata(Cow::Borrowed(text.as_str()), style, tag) {
        Some(Scalar::Null) => Value::Null,
        Some(Scalar::Boolean(value)) => Value::Bool(value),
        Some(Scalar::Integer(value)) => value.into(),
        // JSON has no infinity and no NaN; they stay text.
        Some(Scalar::FloatingPoint(value)) => {
            serde_json::Number::from_f64(value.0).map_or_else(|| Value::from(text.as_str()), Value::Number)
        }
        Some(Scalar::String(_)) | None => Value::from(text.as_str()),
    };
    Node::Scalar { text, value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // SKILL-2, SKILL-12: the parser itself bears any header
        #[test]
        fn any_text_is_parsed_or_refused(
            text in "([\\[\\]{}:,#&*!|>'\"%@`?~ \t\n-]|name|a|é|\\.\\.\\.|---|\r\n|\u{85}|\u{feff}|!!|&x|\\*x|\\\\u00){0,60}",
        ) {
            let _ = parse_events(&text);
        }
    }
}
