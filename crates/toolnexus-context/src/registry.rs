//! The registry of one execution: registering sources. What it does with text is in the modules beside.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::encode::SignedBlocks;
use crate::identity::Named;
use crate::settings::{KeyKinds, KindId, Settings, SpaceId};
use crate::tables::{Numbered, Tables, source_handle};
use crate::{ContextError, RegistryConfig};

/// Whether a source was retrieved in this execution, so that an answer may cite it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// It was retrieved: it may be cited.
    Current,
    /// It was only named: it may be used in arguments.
    NavigationOnly,
}

/// What is known of a source. Blank fields are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceRef {
    /// The durable id, or the URL.
    pub id: String,
    /// The document it is a piece of.
    pub document_id: String,
    /// The knowledge base it is in.
    pub knowledge_base_id: String,
    /// What people call it.
    pub title: String,
    /// Its place in the document; 0 is unknown.
    pub index: usize,
    /// What sort of piece it is.
    pub subtype: String,
}

impl SourceRef {
    /// A source of which only the id is known.
    pub fn new(id: impl Into<String>) -> Self {
        SourceRef { id: id.into(), ..Default::default() }
    }
}

/// The identities that one execution knows, and the only place where handles become identities again.
///
/// A clone is the same registry. A handle means something in the registry that issued it, and in no
/// other; keep none.
///
/// ```
/// use toolnexus_context::Registry;
/// let registry = Registry::new(true);
/// assert_eq!(registry.register_document("36283d3d-a495").as_deref(), Some("doc://1"));
/// assert_eq!(registry.compact_known_text("read 36283d3d-a495 first"), "read doc://1 first");
/// assert_eq!(registry.decode_output_text("see doc://1"), "see toolnexus://doc/36283d3d-a495");
/// ```
#[derive(Clone)]
pub struct Registry {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) settings: Arc<Settings>,
    tables: Mutex<Tables>,
    /// The tools of MCP servers, by name.
    mcp_tools: Mutex<HashSet<String>>,
    pub(crate) signed: Mutex<SignedBlocks>,
}

impl Registry {
    /// A registry with the default configuration.
    pub fn new(citations_enabled: bool) -> Self {
        Registry::of(Settings::default_of(citations_enabled))
    }

    /// A registry with a configuration of the application's.
    ///
    /// # Errors
    /// When the configuration contradicts itself; the error names the part.
    pub fn with_config(config: RegistryConfig) -> Result<Self, ContextError> {
        Ok(Registry::of(Arc::new(Settings::new(config)?)))
    }

    pub(crate) fn of(settings: Arc<Settings>) -> Self {
        let tables = Mutex::new(Tables::new(&settings));
        Registry {
            inner: Arc::new(Inner {
                settings,
                tables,
                mcp_tools: Mutex::default(),
                signed: Mutex::default(),
            }),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.inner.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a document for navigation. The handle; `None` for a blank id and for text that is a
    /// handle nobody issued.
    pub fn register_document(&self, id: &str) -> Option<String> {
        let kind = self.settings().roles.document?;
        self.register_as(kind, &SourceRef::new(id), Evidence::NavigationOnly)
    }

    /// Registers a knowledge base for navigation.
    pub fn register_knowledge_base(&self, id: &str) -> Option<String> {
        let kind = self.settings().roles.knowledge_base?;
        self.register_as(kind, &SourceRef::new(id), Evidence::NavigationOnly)
    }

    /// Registers a piece of a document that was retrieved: an answer may cite it.
    pub fn register_chunk(&self, source: SourceRef) -> Option<String> {
        self.register_as(self.settings().roles.chunk?, &source, Evidence::Current)
    }

    /// Registers a piece of a document that a directory lists: it may be read, not yet cited.
    pub fn register_context_chunk(&self, source: SourceRef) -> Option<String> {
        self.register_as(self.settings().roles.chunk?, &source, Evidence::NavigationOnly)
    }

    /// Registers a page that was retrieved: an answer may cite it. URLs that differ in the fragment alone
    /// are one page; its handle stands for the one that came first.
    pub fn register_url(&self, raw: &str, title: &str) -> Option<String> {
        let source = SourceRef { id: raw.to_owned(), title: title.to_owned(), ..Default::default() };
        self.register_as(self.settings().roles.url?, &source, Evidence::Current)
    }

    /// Registers an issue, which is known by its handle in declared keys alone.
    pub fn register_issue(&self, id: &str) -> Option<String> {
        self.register_private(self.settings().space_named("issue")?, id)
    }

    /// Registers a source of any kind of the configuration; `None` also for a kind that it does not have.
    /// Private spaces are no kinds: their ids come from results, by
    /// [`private_encode`](crate::ToolPolicy::private_encode).
    pub fn register(&self, kind: &str, source: SourceRef, evidence: Evidence) -> Option<String> {
        self.register_as(self.settings().kind_named(kind)?, &source, evidence)
    }

    /// Registers what a search found: of each item the document, the knowledge base and the piece itself,
    /// all as current evidence.
    pub fn register_sources(&self, items: &[SourceRef]) {
        let roles = self.settings().roles;
        for item in items {
            for (kind, id) in
                [(roles.document, &item.document_id), (roles.knowledge_base, &item.knowledge_base_id)]
            {
                kind.and_then(|kind| self.register_as(kind, &SourceRef::new(id), Evidence::Current));
            }
            roles.chunk.and_then(|kind| self.register_as(kind, item, Evidence::Current));
        }
    }

    /// The handle of a piece that is known, without registering one.
    pub fn chunk_handle(&self, id: &str) -> Option<String> {
        let (settings, tables) = (self.settings(), self.tables());
        let chunk = settings.roles.chunk?;
        let at = match settings.named(&tables, chunk, id)? {
            Named::Known(at) => at,
            Named::Id(id) => tables.source_place(settings, chunk, &id)?,
        };
        Some(source_handle(settings, at))
    }

    /// Whether a tool of this name has a policy; without one it is dynamic.
    pub fn has_tool_policy(&self, tool: &str) -> bool {
        self.settings().policy(tool).is_some()
    }

    /// Says that these tools are those of MCP servers. Their results are opaque, and their links are
    /// listed. Within a client's run the boundary knows by itself.
    pub fn mark_mcp_tools<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) {
        self.mcp_tools().extend(names.into_iter().map(Into::into));
    }

    pub(crate) fn is_mcp_tool(&self, name: &str) -> bool {
        self.mcp_tools().contains(name)
    }

    fn mcp_tools(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner.mcp_tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a source. Text that is shaped like a handle makes no identity: it is the canonical
    /// handle where it is known, and nothing where it is not.
    pub(crate) fn register_as(&self, kind: KindId, source: &SourceRef, evidence: Evidence) -> Option<String> {
        let settings = self.settings();
        let mut tables = self.tables();
        let id = match settings.named(&tables, kind, &source.id)? {
            Named::Known(at) => return Some(source_handle(settings, at)),
            Named::Id(id) => id,
        };
        let source = SourceRef {
            id,
            document_id: settings.related(&tables, settings.roles.document, &source.document_id),
            knowledge_base_id: settings.related(
                &tables,
                settings.roles.knowledge_base,
                &source.knowledge_base_id,
            ),
            ..source.clone()
        };
        let at = tables.register_source(settings, kind, &source, evidence)?;
        Some(source_handle(settings, at))
    }

    /// Registers the value of a key that holds ids. Of a reference only what stands before the `|` is the
    /// id. Of several kinds it is the one that knows the id; else that of URLs for a page of the web,
    /// which nothing else can be; else the first.
    pub(crate) fn register_keyed(&self, key: &KeyKinds, value: &str, evidence: Evidence) -> Option<String> {
        let id = if key.is_reference { value.split('|').next()? } else { value }.trim();
        let kind = self.settings().kind_of(&self.tables(), key, id)?;
        self.register_as(kind, &SourceRef::new(id), evidence)
    }

    /// Registers an id of a private or routing space, under the same guard.
    pub(crate) fn register_private(&self, space: SpaceId, id: &str) -> Option<String> {
        let settings = self.settings();
        let id = id.trim();
        if settings.is_foreign(id) {
            return None;
        }
        let mut tables = self.tables();
        let table = tables.space_mut(space)?;
        if table.is_shaped(id) {
            return table.resolve(id).is_some().then(|| id.to_owned());
        }
        table.register(id).map(|place| table.handle_of(place))
    }
}

/// Shows sizes: what a registry holds is nobody's to log.
impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tables = self.tables();
        let mut shown = f.debug_struct("Registry");
        for (id, kind) in self.settings().kinds() {
            shown.field(&kind.name, &tables.count(id));
        }
        for (id, space) in self.settings().spaces() {
            shown.field(&space.definition.name, &tables.space(id).map_or(0, Numbered::len));
        }
        shown.field("resources", &tables.resources().len()).finish_non_exhaustive()
    }
}
