//! Public citations: the tags that people and stores see, written from registered sources alone and read
//! back from history.

use std::borrow::Cow;
use std::sync::Arc;

/// The tag by which a model cites: `<ref id="HANDLE"/>`.
pub(crate) const CITATION_TAG: &str = "ref";

/// A source as a public citation shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CitedSource {
    /// The durable id, or the URL.
    pub id: String,
    /// What people call it.
    pub title: String,
    /// The knowledge base it is in; empty where unknown.
    pub knowledge_base_id: String,
    /// The document it is a piece of; empty where unknown.
    pub document_id: String,
}

/// Writes a citation.
type Render = dyn Fn(&CitedSource) -> String + Send + Sync;
/// Reads a tag.
type Parse = dyn Fn(&str) -> Option<CitedSource> + Send + Sync;

/// How citations of a kind are written in public text, and read back.
///
/// ```
/// use toolnexus_context::{CitationFormat, CitedSource, Registry, RegistryConfig};
/// let format = CitationFormat::new(
///     "page-link",
///     |source| format!("<page-link href=\"{}\">", source.id.replace('"', "&quot;")),
///     |tag| {
///         let mut cited = CitedSource::default();
///         cited.id = tag.split('"').nth(1)?.replace("&quot;", "\"");
///         Some(cited)
///     },
/// );
/// let config = RegistryConfig::default().citation_format("url", format);
/// let registry = Registry::with_config(config).unwrap();
/// registry.register_url("https://example.com/", "Example");
/// let answer = r#"It is there <ref id="url://1"/>."#;
/// assert_eq!(registry.decode_output_text(answer), r#"It is there <page-link href="https://example.com/">."#);
/// ```
#[derive(Clone)]
pub struct CitationFormat {
    pub(crate) tag_name: String,
    pub(crate) render: Arc<Render>,
    pub(crate) parse: Arc<Parse>,
}

impl CitationFormat {
    /// A format of the application's. `tag_name` is the one tag that `render` writes, and tags of that name
    /// that a model writes itself are dropped; a dash in the name keeps it apart from the tags of HTML.
    /// Titles are text of any kind, so `render` escapes them. `parse` gets a whole tag of an earlier answer,
    /// from `<` to `>`, with entities as they stand; where it gives `None`, the model sees that tag, and the
    /// id in it, as it is.
    pub fn new(
        tag_name: impl Into<String>,
        render: impl Fn(&CitedSource) -> String + Send + Sync + 'static,
        parse: impl Fn(&str) -> Option<CitedSource> + Send + Sync + 'static,
    ) -> Self {
        CitationFormat { tag_name: tag_name.into(), render: Arc::new(render), parse: Arc::new(parse) }
    }

    /// `<kb doc="TITLE" chunk_id="ID" kb_id="KB" />`, without `kb_id` where it is unknown.
    pub(crate) fn knowledge() -> Self {
        let render = |source: &CitedSource| {
            let mut tag = String::from("<kb");
            push_attribute(&mut tag, "doc", &source.title);
            push_attribute(&mut tag, "chunk_id", &source.id);
            if !source.knowledge_base_id.trim().is_empty() {
                push_attribute(&mut tag, "kb_id", &source.knowledge_base_id);
            }
            tag + " />"
        };
        let parse = |tag: &str| {
            let mut source = CitedSource::default();
            for (name, value) in Attributes::of(tag) {
                match name.to_ascii_lowercase().as_str() {
                    "doc" => fill(&mut source.title, value),
                    "chunk_id" => fill(&mut source.id, value),
                    "kb_id" => fill(&mut source.knowledge_base_id, value),
                    _ => {}
                }
            }
            (!source.id.is_empty()).then_some(source)
        };
        CitationFormat::new("kb", render, parse)
    }

    /// `<web url="URL" title="TITLE" />`.
    pub(crate) fn web() -> Self {
        CitationFormat::titled("web".into(), "url")
    }

    /// `<KIND-source id="ID" title="TITLE" />`. The dash keeps it apart from the tags of HTML.
    pub(crate) fn source(kind: &str) -> Self {
        CitationFormat::titled(format!("{kind}-source"), "id")
    }

    /// A tag of that name with the id in the attribute `id`, and the title.
    fn titled(tag_name: String, id: &'static str) -> Self {
        let opening = format!("<{tag_name}");
        let render = move |source: &CitedSource| {
            let mut tag = opening.clone();
            push_attribute(&mut tag, id, &source.id);
            push_attribute(&mut tag, "title", &source.title);
            tag + " />"
        };
        let parse = move |tag: &str| {
            let mut source = CitedSource::default();
            for (name, value) in Attributes::of(tag) {
                if name.eq_ignore_ascii_case(id) {
                    fill(&mut source.id, value);
                } else if name.eq_ignore_ascii_case("title") {
                    fill(&mut source.title, value);
                }
            }
            (!source.id.is_empty()).then_some(source)
        };
        CitationFormat::new(tag_name, render, parse)
    }
}

impl std::fmt::Debug for CitationFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CitationFormat").field("tag_name", &self.tag_name).finish_non_exhaustive()
    }
}

/// Text as the value of an attribute in double quotes.
pub(crate) fn escape_attribute(text: &str) -> Cow<'_, str> {
    let escape = |byte: u8| match byte {
        b'&' => "&amp;",
        b'<' => "&lt;",
        b'>' => "&gt;",
        b'"' => "&#34;",
        b'\'' => "&#39;",
        _ => "",
    };
    if text.bytes().all(|byte| escape(byte).is_empty()) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let entity = escape(byte);
        if !entity.is_empty() {
            escaped.push_str(text.get(plain..at).unwrap_or_default());
            escaped.push_str(entity);
            plain = at + 1;
        }
    }
    escaped.push_str(text.get(plain..).unwrap_or_default());
    Cow::Owned(escaped)
}

fn push_attribute(tag: &mut String, name: &str, value: &str) {
    for part in [" ", name, "=\"", &escape_attribute(value), "\""] {
        tag.push_str(part);
    }
}

/// Of an attribute that is given twice, the first counts.
fn fill(field: &mut String, value: &str) {
    if field.is_empty() {
        *field = html_escape::decode_html_entities(value).into_owned();
    }
}

/// The attributes of a tag whose values stand in double quotes, as they are written.
struct Attributes<'t> {
    rest: &'t str,
}

impl<'t> Attributes<'t> {
    /// The attributes of a whole tag, from `<` to `>`.
    fn of(tag: &'t str) -> Self {
        let inside = tag.strip_prefix('<').unwrap_or(tag);
        let inside = inside.strip_suffix('>').unwrap_or(inside);
        Attributes { rest: inside.trim_start_matches(|c: char| !c.is_ascii_whitespace()) }
    }
}

impl<'t> Iterator for Attributes<'t> {
    type Item = (&'t str, &'t str);

    fn next(&mut self) -> Option<Self::Item> {
        let is_space = |c: char| c.is_ascii_whitespace();
        loop {
            self.rest = self.rest.trim_start_matches(|c| is_space(c) || c == '/');
            let end = self.rest.find(|c| is_space(c) || matches!(c, '=' | '/' | '"' | '\''));
            let (name, rest) = self.rest.split_at_checked(end?)?;
            let Some(value) = rest.trim_start_matches(is_space).strip_prefix('=') else {
                // No value. A stray quote is no part of a name.
                self.rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
                continue;
            };
            let value = value.trim_start_matches(is_space);
            if let Some(quoted) = value.strip_prefix('"') {
                let (value, rest) = quoted.split_once('"')?;
                self.rest = rest;
                return Some((name, value));
            }
            self.rest = match value.strip_prefix('\'') {
                Some(quoted) => quoted.split_once('\'')?.1,
                None => value.trim_start_matches(|c| !is_space(c)),
            };
        }
    }
}
