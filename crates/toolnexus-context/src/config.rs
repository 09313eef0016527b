//! What an application says about its identities.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::policy::{default_key_spaces, default_policies};
use crate::{CitationFormat, KeySpace, Renderer, ToolPolicy};

/// The kinds of identity, their spelling, and how each tool treats them.
///
/// The default knows chunks, documents, knowledge bases, URLs and issues, the routing handles of MCP
/// bridges, and the policies of every tool of the toolkit.
///
/// ```
/// use toolnexus_context::{Registry, RegistryConfig, ToolPolicy};
/// let config = RegistryConfig::default()
///     .policy("read_document", ToolPolicy::default().id_keys(["knowledge_id"]).rendered());
/// let registry = Registry::with_config(config).unwrap();
/// assert_eq!(registry.register_document("36283d3d").as_deref(), Some("doc://1"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RegistryConfig {
    /// Whether answers may cite. Default `true`.
    pub citations: bool,
    /// The scheme of durable URIs. Default `toolnexus`.
    pub uri_scheme: String,
    /// Whether bare old forms (`d1`) are read where a whole id is expected. Then no id of that form can
    /// be registered. Default `true`.
    pub legacy_handles: bool,
    /// The kinds of source. Default `chunk`, `doc`, `kb`, `url`.
    pub kinds: Vec<SourceKind>,
    /// Which kinds play the parts that [`Registry::register_chunk`](crate::Registry::register_chunk) and
    /// its like, and the renderers, speak of.
    pub roles: KindRoles,
    /// Ids that models know by a short name in declared keys alone. Default `issue` (`iN`).
    pub private_spaces: Vec<PrivateSpace>,
    /// Ids that say where a call goes. Default `mcp_server` (`msN`) and `mcp_tool` (`mtN`).
    pub routing_spaces: Vec<PrivateSpace>,
    /// What is a stored resource, in any text. Default `resource://` with 22 characters.
    pub resource_patterns: Vec<ResourcePattern>,
    /// The keys of arguments and of JSON that hold ids, lower-case, and what each holds.
    pub key_spaces: BTreeMap<String, KeySpace>,
    /// The tools whose arguments and results are known; a tool without an entry is dynamic.
    pub policies: BTreeMap<String, ToolPolicy>,
    /// The views of structured results by `display_type`, instead of or beside those of the crate.
    pub renderers: HashMap<String, Arc<dyn Renderer>>,
    /// How citable kinds are cited in public text, by kind name, instead of the forms that
    /// [`SourceKind::citable`] gives.
    pub citation_formats: BTreeMap<String, CitationFormat>,
    /// The shortest value, in bytes, that is found inside text. Default 6.
    pub min_text_len: usize,
    /// The longest tag, in bytes from its `<`, that is taken for one. Default 2048.
    pub max_tag_len: usize,
    /// How much of a result a view shows.
    pub limits: Limits,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        RegistryConfig {
            citations: true,
            uri_scheme: "toolnexus".into(),
            legacy_handles: true,
            kinds: vec![
                SourceKind::new("chunk").legacy('c').citable().meaning("a passage of a document"),
                SourceKind::new("doc").legacy('d').meaning("a document"),
                SourceKind::new("kb").legacy('b').meaning("a knowledge base"),
                SourceKind::new("url").legacy('w').citable().text_form(TextForm::Value).meaning("a web page"),
            ],
            roles: KindRoles::default(),
            private_spaces: vec![PrivateSpace::new("issue", "i").meaning("an issue")],
            routing_spaces: vec![
                PrivateSpace::new("mcp_server", "ms").meaning("an MCP server"),
                PrivateSpace::new("mcp_tool", "mt").meaning("a tool of an MCP server"),
            ],
            resource_patterns: vec![ResourcePattern::Default],
            key_spaces: default_key_spaces(),
            policies: default_policies(),
            renderers: HashMap::new(),
            citation_formats: BTreeMap::new(),
            min_text_len: 6,
            max_tag_len: 2048,
            limits: Limits::default(),
        }
    }
}

impl RegistryConfig {
    /// Sets whether answers may cite.
    #[must_use]
    pub fn citations(mut self, enabled: bool) -> Self {
        self.citations = enabled;
        self
    }

    /// Sets the scheme of durable URIs.
    #[must_use]
    pub fn uri_scheme(mut self, scheme: impl Into<String>) -> Self {
        self.uri_scheme = scheme.into();
        self
    }

    /// Sets whether bare old forms are read.
    #[must_use]
    pub fn legacy_handles(mut self, read: bool) -> Self {
        self.legacy_handles = read;
        self
    }

    /// Adds a kind of source.
    #[must_use]
    pub fn kind(mut self, kind: SourceKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Adds a private space.
    #[must_use]
    pub fn private_space(mut self, space: PrivateSpace) -> Self {
        self.private_spaces.push(space);
        self
    }

    /// Adds a pattern of stored resources.
    #[must_use]
    pub fn resource_pattern(mut self, pattern: ResourcePattern) -> Self {
        self.resource_patterns.push(pattern);
        self
    }

    /// Says what a key holds, instead of what was said before.
    #[must_use]
    pub fn key_space(mut self, key: &str, space: KeySpace) -> Self {
        self.key_spaces.insert(key.to_lowercase(), space);
        self
    }

    /// Gives a tool a policy, instead of the one it had.
    #[must_use]
    pub fn policy(mut self, tool: impl Into<String>, policy: ToolPolicy) -> Self {
        self.policies.insert(tool.into(), policy);
        self
    }

    /// Shows structured results of this `display_type` with `renderer`.
    #[must_use]
    pub fn renderer(mut self, display_type: impl Into<String>, renderer: impl Renderer + 'static) -> Self {
        self.renderers.insert(display_type.into(), Arc::new(renderer));
        self
    }

    /// Cites sources of a kind in this format.
    #[must_use]
    pub fn citation_format(mut self, kind: impl Into<String>, format: CitationFormat) -> Self {
        self.citation_formats.insert(kind.into(), format);
        self
    }
}

impl std::fmt::Debug for RegistryConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryConfig")
            .field("citations", &self.citations)
            .field("uri_scheme", &self.uri_scheme)
            .field("kinds", &self.kinds)
            .field("private_spaces", &self.private_spaces)
            .field("routing_spaces", &self.routing_spaces)
            .field("policies", &self.policies.keys().collect::<BTreeSet<_>>())
            .finish_non_exhaustive()
    }
}

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

    /// The same kind, citable. Without a [`CitationFormat`] of its own, a source is cited as
    /// `<kb doc="TITLE" chunk_id="ID" kb_id="KB" />` if the kind plays the part of chunks, as
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

/// How much of a result a view shows. Counted in Unicode scalar values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Each evidence text of a web search. Default 500.
    pub search_evidence: usize,
    /// The summary of a fetched page. Default 4000.
    pub fetch_summary: usize,
    /// The content of a fetched page. Default 8000.
    pub fetch_content: usize,
    /// Summaries and contents of all fetched pages together. Default 16000.
    pub fetch_total: usize,
    /// Links listed below an external result. Default 50.
    pub sidecar_links: usize,
    /// The longest link that is listed, in bytes. Default 2048.
    pub sidecar_link_len: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            search_evidence: 500,
            fetch_summary: 4000,
            fetch_content: 8000,
            fetch_total: 16000,
            sidecar_links: 50,
            sidecar_link_len: 2048,
        }
    }
}
