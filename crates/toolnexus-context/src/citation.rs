//! Public citations: the tags that people and stores see, written from registered sources alone and read
//! back from history.

use std::sync::Arc;

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
/// Reads the inside of a tag's brackets.
type Parse = dyn Fn(&str) -> Option<CitedSource> + Send + Sync;

/// How citations of a kind are written in public text, and read back.
#[derive(Clone)]
pub struct CitationFormat {
    pub(crate) tag_name: String,
    pub(crate) render: Arc<Render>,
    pub(crate) parse: Arc<Parse>,
}

impl CitationFormat {
    /// A format of the application's. `tag_name` is the tag that `render` writes; tags of that name that
    /// a model writes itself are dropped. `parse` gets a whole tag, from `<` to `>`.
    pub fn new(
        tag_name: impl Into<String>,
        render: impl Fn(&CitedSource) -> String + Send + Sync + 'static,
        parse: impl Fn(&str) -> Option<CitedSource> + Send + Sync + 'static,
    ) -> Self {
        CitationFormat { tag_name: tag_name.into(), render: Arc::new(render), parse: Arc::new(parse) }
    }

    /// `<kb doc="TITLE" chunk_id="ID" kb_id="KB" />`.
    pub(crate) fn knowledge() -> Self {
        CitationFormat::new("kb", |_| String::new(), |_| None)
    }

    /// `<web url="URL" title="TITLE" />`.
    pub(crate) fn web() -> Self {
        CitationFormat::new("web", |_| String::new(), |_| None)
    }

    /// `<KIND-source id="ID" title="TITLE" />`. The dash keeps it apart from the tags of HTML.
    pub(crate) fn source(kind: &str) -> Self {
        CitationFormat::new(format!("{kind}-source"), |_| String::new(), |_| None)
    }
}

impl std::fmt::Debug for CitationFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CitationFormat").field("tag_name", &self.tag_name).finish_non_exhaustive()
    }
}
