//! The identities that there are, and how their handles are spelled.

/// One kind of source. Its handles are `NAME://1`, `NAME://2` and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceKind {
    /// The name, `[a-z][a-z0-9]*`.
    pub name: String,
    /// The letter of its bare old form, if it had one.
    pub legacy: Option<char>,
    /// Whether an answer may cite it.
    pub citable: bool,
    /// What stands for it in public text.
    pub text_form: TextForm,
    /// What the model is told that a handle stands for, such as `a web page`. Default: a source of that
    /// name.
    pub meaning: String,
}

impl SourceKind {
    /// A kind that cannot be cited and stands in text as a durable URI.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let meaning = format!("a source of the kind {name}");
        SourceKind { name, legacy: None, citable: false, text_form: TextForm::Uri, meaning }
    }

    /// The same kind, of which the model is told what it is.
    #[must_use]
    pub fn meaning(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = meaning.into();
        self
    }

    /// The same kind with a bare old form.
    #[must_use]
    pub fn legacy(mut self, letter: char) -> Self {
        self.legacy = Some(letter);
        self
    }

    /// The same kind, citable. Without a [`CitationFormat`](crate::CitationFormat) of its own, a source is
    /// cited as `<kb doc="TITLE" chunk_id="ID" kb_id="KB" />` if the kind plays the part of chunks, as
    /// `<web url="ID" title="TITLE" />` if it plays that of URLs, and else as
    /// `<NAME-source id="ID" title="TITLE" />` with the name of the kind.
    #[must_use]
    pub fn citable(mut self) -> Self {
        self.citable = true;
        self
    }

    /// The same kind with another form in text.
    #[must_use]
    pub fn text_form(mut self, form: TextForm) -> Self {
        self.text_form = form;
        self
    }
}

/// What stands for a source in public text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// `<scheme>://<kind>/<id>`.
    Uri,
    /// The id itself, which is a URL. Such ids are the same when they differ in the fragment alone.
    Value,
}

/// Which kind plays which part. `None`: nobody does, and what would need it is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindRoles {
    /// Pieces of documents. Default `chunk`.
    pub chunk: Option<String>,
    /// Documents. Default `doc`.
    pub document: Option<String>,
    /// Collections of documents. Default `kb`.
    pub knowledge_base: Option<String>,
    /// Pages of the web. Default `url`.
    pub url: Option<String>,
}

impl Default for KindRoles {
    fn default() -> Self {
        KindRoles {
            chunk: Some("chunk".into()),
            document: Some("doc".into()),
            knowledge_base: Some("kb".into()),
            url: Some("url".into()),
        }
    }
}

impl KindRoles {
    pub(super) fn names_mut(&mut self) -> impl Iterator<Item = &mut String> {
        [&mut self.chunk, &mut self.document, &mut self.knowledge_base, &mut self.url].into_iter().flatten()
    }
}

/// A space of short names without a scheme: prefix and number.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrivateSpace {
    /// The name that policies use.
    pub name: String,
    /// What stands before the number: `[A-Za-z][A-Za-z0-9_-]*`, no digit at its end.
    pub prefix: String,
    /// To how many digits numbers are padded with zeros; 0 for none. Default 0.
    pub width: usize,
    /// The first number. Default 1.
    pub start: usize,
    /// What the model is told that a handle stands for, such as `an issue`. Default: an item of that name.
    pub meaning: String,
}

impl PrivateSpace {
    /// A space whose numbers begin at 1 and are not padded.
    pub fn new(name: impl Into<String>, prefix: impl Into<String>) -> Self {
        let name = name.into();
        let meaning = format!("an item of the kind {name}");
        PrivateSpace { name, prefix: prefix.into(), width: 0, start: 1, meaning }
    }

    /// The same space, of which the model is told what it is.
    #[must_use]
    pub fn meaning(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = meaning.into();
        self
    }
}

/// What is a reference to a stored resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourcePattern {
    /// `resource://` and 22 characters of `[0-9A-Za-z_-]`.
    Default,
    /// References of object stores: `local`, `minio`, `cos`, `tos`, `s3`, `oss`, `ks3` or `obs` and `://`,
    /// up to whitespace or any of `)`, `]`, `>`, `"`, `'`; with or without `storage://<id>/` before it.
    LegacyStorage,
    /// Slugs of summary pages: `summary/` and a UUID.
    SummarySlug,
    /// A regular expression of the application's.
    Regex(String),
}
