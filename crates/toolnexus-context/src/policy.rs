//! How one tool's arguments and results are treated.

use std::collections::{BTreeMap, BTreeSet};

/// What a key of arguments or of JSON holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySpace {
    /// The names of the kinds it may hold; the first is the one that new ids are registered as.
    pub kinds: Vec<String>,
    /// Whether values are `id|title`, of which only the part before the first `|` is the id.
    pub is_reference: bool,
}

impl KeySpace {
    /// Ids of one kind.
    pub fn of(kind: impl Into<String>) -> Self {
        KeySpace { kinds: vec![kind.into()], is_reference: false }
    }

    /// References `id|title` of one kind.
    pub fn reference(kind: impl Into<String>) -> Self {
        KeySpace { kinds: vec![kind.into()], is_reference: true }
    }
}

/// The key that says where a bridge tool's call goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingKey {
    /// The key, at the top level of the arguments.
    pub key: String,
    /// The routing space of its values.
    pub space: String,
}

/// How one tool's arguments and results are treated. The default decodes no key beyond free text, and
/// shortens known ids in results.
///
/// ```
/// use toolnexus_context::ToolPolicy;
/// let policy = ToolPolicy::default().id_keys(["knowledge_id", "kb_ids"]).text_keys(["sql"]).rendered();
/// assert!(policy.render && policy.id_keys.contains("kb_ids"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolPolicy {
    /// Keys whose whole value is an id; what kind it is says `key_spaces` or
    /// [`kinds_override`](Self::kinds_override).
    pub id_keys: BTreeSet<String>,
    /// Keys of structured text, such as SQL: handles in it become bare ids.
    pub text_keys: BTreeSet<String>,
    /// Keys that are neither decoded nor rejected.
    pub verbatim_keys: BTreeSet<String>,
    /// Keys of arguments whose value is a private handle, and its space.
    pub private_decode: BTreeMap<String, String>,
    /// Keys of JSON results whose values are shown as private handles, and their space.
    pub private_encode: BTreeMap<String, String>,
    /// Private spaces whose known ids are replaced anywhere in results.
    pub encode_known: BTreeSet<String>,
    /// The key that routes the call.
    pub routing_key: Option<RoutingKey>,
    /// Whether results are directories of places to route to.
    pub directory: bool,
    /// Whether results are composed by the application: structured views, labels become evidence.
    pub render: bool,
    /// Whether public citations in results are evidence.
    pub citations: bool,
    /// Whether results stay as they are, but for resources and URIs.
    pub opaque_output: bool,
    /// Whether results come from outside and get their links listed.
    pub external: bool,
    /// Keys of arguments whose values are evidence once the call has succeeded.
    pub evidence_keys: BTreeSet<String>,
    /// Whether observers are told of argument keys alone.
    pub sensitive: bool,
    /// What keys hold for this tool, instead of what `key_spaces` says. These are id keys too.
    pub kinds_override: BTreeMap<String, Vec<String>>,
}

impl ToolPolicy {
    /// Adds keys that hold ids.
    #[must_use]
    pub fn id_keys<K: AsRef<str>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.id_keys.extend(lower_cased(keys));
        self
    }

    /// Adds keys of structured text.
    #[must_use]
    pub fn text_keys<K: AsRef<str>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.text_keys.extend(lower_cased(keys));
        self
    }

    /// Adds keys that are left alone.
    #[must_use]
    pub fn verbatim_keys<K: AsRef<str>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.verbatim_keys.extend(lower_cased(keys));
        self
    }

    /// Decodes private handles of `space` under `key`.
    #[must_use]
    pub fn private_decode(mut self, key: &str, space: impl Into<String>) -> Self {
        self.private_decode.insert(key.to_lowercase(), space.into());
        self
    }

    /// Shows values under `key` of JSON results as private handles of `space`.
    #[must_use]
    pub fn private_encode(mut self, key: &str, space: impl Into<String>) -> Self {
        self.private_encode.insert(key.to_lowercase(), space.into());
        self
    }

    /// Replaces known ids of these private spaces anywhere in results.
    #[must_use]
    pub fn encode_known<S: Into<String>>(mut self, spaces: impl IntoIterator<Item = S>) -> Self {
        self.encode_known.extend(spaces.into_iter().map(Into::into));
        self
    }

    /// Routes calls by `key`.
    #[must_use]
    pub fn routing_key(mut self, key: &str, space: impl Into<String>) -> Self {
        self.routing_key = Some(RoutingKey { key: key.to_lowercase(), space: space.into() });
        self
    }

    /// Says that results are directories.
    #[must_use]
    pub fn directory(mut self) -> Self {
        self.directory = true;
        self
    }

    /// Says that the application composes the results. Never for tools that return foreign text. Views of
    /// structured results are for the run of the call; in later ones the model reads the output.
    #[must_use]
    pub fn rendered(mut self) -> Self {
        self.render = true;
        self
    }

    /// Says that public citations in results are evidence.
    #[must_use]
    pub fn citations(mut self) -> Self {
        self.citations = true;
        self
    }

    /// Says that results stay as they are.
    #[must_use]
    pub fn opaque_output(mut self) -> Self {
        self.opaque_output = true;
        self
    }

    /// Says that results come from outside.
    #[must_use]
    pub fn external(mut self) -> Self {
        self.external = true;
        self
    }

    /// Adds keys whose values are evidence after a successful call.
    #[must_use]
    pub fn evidence_keys<K: AsRef<str>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.evidence_keys.extend(lower_cased(keys));
        self
    }

    /// Keeps argument values from observers.
    #[must_use]
    pub fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }

    /// Adds a key that holds ids of these kinds for this tool, whatever `key_spaces` says of it.
    #[must_use]
    pub fn kinds_of<S: Into<String>>(mut self, key: &str, kinds: impl IntoIterator<Item = S>) -> Self {
        self.kinds_override.insert(key.to_lowercase(), kinds.into_iter().map(Into::into).collect());
        self
    }
}

impl ToolPolicy {
    /// The same policy with lower-case keys, also where fields were set directly; keys whose kinds are
    /// said are among the id keys.
    pub(crate) fn normalized(self) -> Self {
        fn named<V>(keys: BTreeMap<String, V>) -> BTreeMap<String, V> {
            keys.into_iter().map(|(key, value)| (key.to_lowercase(), value)).collect()
        }
        let kinds_override = named(self.kinds_override);
        ToolPolicy {
            id_keys: lower_cased(self.id_keys).chain(kinds_override.keys().cloned()).collect(),
            text_keys: lower_cased(self.text_keys).collect(),
            verbatim_keys: lower_cased(self.verbatim_keys).collect(),
            private_decode: named(self.private_decode),
            private_encode: named(self.private_encode),
            routing_key: self.routing_key.map(|key| RoutingKey { key: key.key.to_lowercase(), ..key }),
            evidence_keys: lower_cased(self.evidence_keys).collect(),
            kinds_override,
            ..self
        }
    }
}

fn lower_cased<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> impl Iterator<Item = String> {
    keys.into_iter().map(|key| key.as_ref().to_lowercase())
}

/// The keys that hold ids by default.
pub(crate) fn default_key_spaces() -> BTreeMap<String, KeySpace> {
    let of = |kind: &'static str, keys: &'static [&'static str]| {
        keys.iter().map(move |key| ((*key).to_owned(), KeySpace::of(kind)))
    };
    of("chunk", &["chunk_id", "chunk_ids", "faq_id", "faq_ids"])
        .chain(of("doc", &["knowledge_id", "knowledge_ids", "suspected_knowledge_ids"]))
        .chain(of("kb", &["knowledge_base", "knowledge_base_id", "knowledge_base_ids", "kb_id", "kb_ids"]))
        .chain(of("url", &["url", "urls"]))
        .chain([("source_refs".to_owned(), KeySpace::reference("doc"))])
        .collect()
}

/// The policies of the toolkit's own tools.
pub(crate) fn default_policies() -> BTreeMap<String, ToolPolicy> {
    let empty = ToolPolicy::default;
    let opaque = || empty().opaque_output();
    let mut policies = BTreeMap::new();
    for name in ["question", "todowrite", "skill", "memory"] {
        policies.insert(name.to_owned(), empty());
    }
    for name in [
        "bash",
        "bash_output",
        "kill_shell",
        "read",
        "write",
        "edit",
        "grep",
        "glob",
        "apply_patch",
        "notebook_edit",
        "tool_search",
        "list_mcp_resources",
    ] {
        policies.insert(name.to_owned(), opaque());
    }
    policies.extend([
        ("webfetch".to_owned(), opaque().id_keys(["url"]).evidence_keys(["url"])),
        ("websearch".to_owned(), opaque().external()),
        ("task".to_owned(), empty().citations()),
        ("read_mcp_resource".to_owned(), opaque().verbatim_keys(["uri"]).external()),
        ("discover_mcp_tools".to_owned(), opaque().routing_key("server_id", "mcp_server").directory()),
        ("call_mcp_tool".to_owned(), opaque().routing_key("tool_ref", "mcp_tool").external()),
    ]);
    policies
}
