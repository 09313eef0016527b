//! What an application says about its identities.

mod identities;
mod limits;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use identities::{KindRoles, PrivateSpace, ResourcePattern, SourceKind, TextForm};
pub use limits::Limits;

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

    /// Gives a kind another name, in everything that speaks of it. This is the way out where a name
    /// collides with URIs of somebody else's, such as an MCP server's `doc://42`. A name that no kind has
    /// changes nothing.
    ///
    /// ```
    /// use toolnexus_context::{Registry, RegistryConfig};
    /// let registry = Registry::with_config(RegistryConfig::default().rename_kind("doc", "document")).unwrap();
    /// assert_eq!(registry.register_document("36283d3d-a495").as_deref(), Some("document://1"));
    /// ```
    #[must_use]
    pub fn rename_kind(mut self, from: &str, to: &str) -> Self {
        let kinds = self.kinds.iter_mut().map(|kind| &mut kind.name);
        let keys = self.key_spaces.values_mut().flat_map(|space| &mut space.kinds);
        let tools =
            self.policies.values_mut().flat_map(|policy| policy.kinds_override.values_mut().flatten());
        for name in kinds.chain(self.roles.names_mut()).chain(keys).chain(tools).filter(|name| *name == from)
        {
            to.clone_into(name);
        }
        if let Some(format) = self.citation_formats.remove(from) {
            self.citation_formats.insert(to.to_owned(), format);
        }
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
