//! What renders a structured result, and the view that it writes.

use std::fmt::Display;

use serde_json::{Map, Value};

use crate::citation::escape_attribute;
use crate::settings::KindId;
use crate::{Evidence, Limits, Registry, SourceRef};

/// Shows structured results of one `display_type`: the object under `context` in a result's metadata. It is
/// asked only for tools whose policy has [`render`](crate::ToolPolicy::render), and for failed results only
/// where the type is `web_fetch_results`.
///
/// ```
/// use serde_json::{Map, Value, json};
/// use toolnexus_context::{Registry, RegistryConfig, Renderer, ResultView, SourceRef, Tag, ToolPolicy};
/// use toolnexus_core::ToolResult;
///
/// struct Tickets;
/// impl Renderer for Tickets {
///     fn render(&self, context: &Map<String, Value>, view: &mut ResultView<'_>) {
///         for ticket in context["tickets"].as_array().into_iter().flatten() {
///             let source = SourceRef::new(ticket["document"].as_str().unwrap_or_default());
///             let Some(handle) = view.register("doc", source) else { continue };
///             view.element(Tag::new("ticket").attribute("doc", handle), ticket["text"].as_str().unwrap_or(""));
///         }
///     }
/// }
///
/// let config = RegistryConfig::default()
///     .renderer("tickets", Tickets)
///     .policy("list_tickets", ToolPolicy::default().rendered());
/// let registry = Registry::with_config(config).unwrap();
/// let tickets = json!([{"document": "36283d3d-a495", "text": "<b> & 36283d3d-a495"}]);
/// let metadata = json!({"context": {"display_type": "tickets", "tickets": tickets}});
/// let result = ToolResult::success("one ticket").with_metadata(metadata.as_object().unwrap().clone());
/// let view = registry.model_tool_result_for_tool("list_tickets", &result);
/// assert_eq!(view, r#"<ticket doc="doc://1">&lt;b&gt; &amp; doc://1</ticket>"#);
/// ```
pub trait Renderer: Send + Sync {
    /// Writes the view of `context`. A view that stays empty means that there was nothing to show: the
    /// model then sees the plain output.
    fn render(&self, context: &Map<String, Value>, view: &mut ResultView<'_>);
}

/// A tag of a view. Blank attributes are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
}

impl Tag {
    /// A tag without attributes.
    pub fn new(name: &'static str) -> Self {
        Tag { name, attributes: Vec::new() }
    }

    /// The tag with one more attribute, unless its value is blank. The value is escaped by the view.
    #[must_use]
    pub fn attribute(mut self, name: &'static str, value: impl Display) -> Self {
        let value = value.to_string();
        if !value.trim().is_empty() {
            self.attributes.push((name, value));
        }
        self
    }
}

/// The view of a structured result while it is written: indented lines of tags and texts.
///
/// Texts and attributes are given as they are. When the view is complete, known identities in them become
/// handles, and what could be taken for a tag is escaped; so no text of a page can pretend to be more than
/// text. Tags that are still open are closed at the end.
pub struct ResultView<'r> {
    registry: &'r Registry,
    evidence: Evidence,
    pieces: Vec<Piece>,
    open: Vec<&'static str>,
}

/// Text as it was given, by where it stands.
enum Piece {
    Markup(String),
    Text(String),
    /// What is left of a word that was cut. It names nothing.
    Fragment(String),
    Attribute(String),
}

impl<'r> ResultView<'r> {
    pub(super) fn new(registry: &'r Registry, evidence: Evidence) -> Self {
        ResultView { registry, evidence, pieces: Vec::new(), open: Vec::new() }
    }

    /// The registry of this execution.
    pub fn registry(&self) -> &'r Registry {
        self.registry
    }

    /// Whether what this result shows is evidence: what failed is for navigation alone.
    pub fn evidence(&self) -> Evidence {
        self.evidence
    }

    /// Registers a source that this result shows, as evidence if the result is. Its handle; `None` as for
    /// [`Registry::register`].
    pub fn register(&self, kind: &str, source: SourceRef) -> Option<String> {
        self.registry.register(kind, source, self.evidence)
    }

    /// Registers a source as a kind that plays a part in the configuration, if one does.
    pub(super) fn register_as(&self, kind: Option<KindId>, source: &SourceRef) -> Option<String> {
        self.registry.register_as(kind?, source, self.evidence)
    }

    pub(super) fn limits(&self) -> Limits {
        self.registry.settings().limits
    }

    /// Begins an element that holds others, on a line of its own.
    pub fn open(&mut self, tag: Tag) {
        self.indent();
        self.tag(&tag, ">\n");
        self.open.push(tag.name);
    }

    /// Ends the element that was opened last.
    pub fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.indent();
            self.markup(&format!("</{name}>\n"));
        }
    }

    /// An element that holds text.
    pub fn element(&mut self, tag: Tag, text: &str) {
        self.indent();
        self.tag(&tag, ">");
        self.pieces.push(Piece::Text(text.to_owned()));
        self.markup(&format!("</{}>\n", tag.name));
    }

    /// An element that holds the first `limit` characters (Unicode scalar values) of a text. If that is
    /// not all, it gets `truncated="true"`. How many characters it holds.
    pub fn element_up_to(&mut self, limit: usize, tag: Tag, text: &str) -> usize {
        let name = tag.name;
        let Some((end, next)) = text.char_indices().nth(limit) else {
            self.element(tag, text);
            return text.chars().count();
        };
        let text = text.get(..end).unwrap_or_default();
        // What was cut in two may look like something else that is known: another page, another file.
        let whole = if ends_token(next) { end } else { text.rfind(ends_token).map_or(0, |last| last + 1) };
        let (text, rest) = text.split_at(text.ceil_char_boundary(whole));
        self.indent();
        self.tag(&tag.attribute("truncated", true), ">");
        self.pieces.push(Piece::Text(text.to_owned()));
        self.pieces.push(Piece::Fragment(rest.to_owned()));
        self.markup(&format!("</{name}>\n"));
        limit
    }

    /// An element without content.
    pub fn empty(&mut self, tag: Tag) {
        self.indent();
        self.tag(&tag, " />\n");
    }

    /// A line of text.
    pub fn line(&mut self, text: &str) {
        if !text.is_empty() {
            self.indent();
            self.pieces.push(Piece::Text(text.to_owned()));
        }
        self.markup("\n");
    }

    fn tag(&mut self, tag: &Tag, end: &str) {
        self.markup(&format!("<{}", tag.name));
        for (name, value) in &tag.attributes {
            self.markup(&format!(" {name}=\""));
            self.pieces.push(Piece::Attribute(value.clone()));
            self.markup("\"");
        }
        self.markup(end);
    }

    fn indent(&mut self) {
        self.markup(&"  ".repeat(self.open.len()));
    }

    fn markup(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Markup(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Markup(text.to_owned())),
        }
    }

    /// The text of the view; `None` if nothing was written.
    pub(super) fn finish(mut self, shorten: &dyn Fn(&str) -> String) -> Option<String> {
        while !self.open.is_empty() {
            self.close();
        }
        let mut text = String::new();
        for piece in &self.pieces {
            // Before escaping: an escaped `&` is no part of a URL, nor a quote of a resource.
            match piece {
                Piece::Markup(markup) => text.push_str(markup),
                Piece::Text(content) => escape_text(&mut text, &shorten(content)),
                Piece::Fragment(cut) => escape_text(&mut text, cut),
                Piece::Attribute(value) => text.push_str(&escape_attribute(&shorten(value))),
            }
        }
        text.truncate(text.trim_end_matches('\n').len());
        (!text.is_empty()).then_some(text)
    }
}

/// Whether no id, URL or reference goes on across this character.
fn ends_token(c: char) -> bool {
    c.is_whitespace() || "\"'<>()[]{},;|，。；！？、（）【】".contains(c)
}

/// Shows how far it is: what a result holds is nobody's to log.
impl std::fmt::Debug for ResultView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultView").field("open", &self.open).finish_non_exhaustive()
    }
}

/// Text between tags.
fn escape_text(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ => out.push(c),
        }
    }
}
