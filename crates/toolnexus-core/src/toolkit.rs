//! A set of tools, and where they came from.
//!
//! [`Toolkit`] is a cheap clone over shared state. Its tools live in an immutable [`Snapshot`]
//! that writers replace as a whole: a reader takes the current one without a lock and keeps it
//! for as long as it likes, so a run sees one list of tools from its first turn to its last.
//! A snapshot also keeps the serialised tool array of each style, which is why a run with 500
//! tools pays for that JSON once and not once a turn.

use std::any::Any;
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BoxFuture, Style, Tool, ToolContext, ToolResult, WaitFor, adapters};

/// How a source fared when the toolkit was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceStatus {
    /// It is there.
    Connected,
    /// Configuration switched it off; it was not contacted.
    Disabled,
    /// It could not be loaded; `errors()` says why.
    Failed,
}

impl SourceStatus {
    /// The spelling in listings: `connected`, `disabled`, `failed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            SourceStatus::Connected => "connected",
            SourceStatus::Disabled => "disabled",
            SourceStatus::Failed => "failed",
        }
    }
}

impl std::fmt::Display for SourceStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A source that a toolkit keeps alive: connections to close, facts to reach again by type.
pub trait SourceHandle: Any + Send + Sync {
    /// Ends whatever the source keeps open. Idempotent and bounded; never fails.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// The source as [`Any`], so that [`Toolkit::source`] can find it by its type.
    fn as_any(&self) -> &dyn Any;
}

/// An immutable list of tools with what is derived from it.
#[derive(Default)]
pub struct Snapshot {
    tools: Vec<Arc<Tool>>,
    index: HashSet<ByName>,
    request_json: [OnceLock<Bytes>; 3],
}

impl Snapshot {
    /// This list with more tools behind it, those whose name is still free. Shares the tools that
    /// are there already.
    fn with(&self, added: impl IntoIterator<Item = Tool>) -> Self {
        let (mut tools, mut index) = (self.tools.clone(), self.index.clone());
        for tool in added.into_iter().map(Arc::new) {
            if tool.name.is_empty() {
                tracing::warn!("[toolnexus] a tool with an empty name was skipped");
            } else if index.insert(ByName(Arc::clone(&tool))) {
                tools.push(tool);
            } else {
                tracing::warn!(
                    "[toolnexus] tool \"{}\" ({}) skipped: the name is taken",
                    tool.name,
                    tool.source
                );
            }
        }
        Snapshot { tools, index, request_json: Default::default() }
    }

    /// The tools in their order. Snapshots of one toolkit share them.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// The tool of exactly this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.index.get(name).map(|ByName(tool)| tool)
    }

    fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().map(|tool| &**tool)
    }

    /// The tool array as a request of `style` carries it, serialised once for this snapshot.
    /// `None` when there are no tools.
    pub fn request_json(&self, style: Style) -> Option<Bytes> {
        if self.tools.is_empty() {
            return None;
        }
        let [openai, anthropic, gemini] = &self.request_json;
        let slot = match style {
            Style::OpenAI => openai,
            Style::Anthropic => anthropic,
            Style::Gemini => gemini,
        };
        Some(slot.get_or_init(|| adapters::request_json(style, self.iter()).into()).clone())
    }
}

/// A tool that is found by its name.
#[derive(Clone)]
struct ByName(Arc<Tool>);

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As `str` hashes, which `Borrow` asks for.
        self.0.name.as_str().hash(state);
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

/// Everything a toolkit is assembled from.
#[derive(Default)]
pub struct ToolkitParts {
    /// The tools in their final order; the first of a name wins.
    pub tools: Vec<Tool>,
    /// What the system prompt says about skills; empty without a skill source.
    pub skills_prompt: String,
    /// The status of every MCP server.
    pub mcp_status: BTreeMap<String, SourceStatus>,
    /// The status of the built-in tools.
    pub builtin_status: Option<SourceStatus>,
    /// Why sources failed, by server name, `<config>` or `<skills>`.
    pub errors: BTreeMap<String, String>,
    /// The resolver that runs use when their client has none.
    pub wait_for: Option<WaitFor>,
    /// Sources to keep alive, and to close with the toolkit.
    pub sources: Vec<Arc<dyn SourceHandle>>,
}

struct Inner {
    snapshot: ArcSwap<Snapshot>,
    /// Serialises writers; readers never take it.
    writer: Mutex<()>,
    skills_prompt: String,
    mcp_status: BTreeMap<String, SourceStatus>,
    builtin_status: Option<SourceStatus>,
    errors: BTreeMap<String, String>,
    wait_for: Option<WaitFor>,
    sources: Vec<Arc<dyn SourceHandle>>,
}

/// A set of tools that a run, a server or your own loop works with.
///
/// Clones are the same toolkit. `Toolkit::default()` has no tools.
///
/// ```
/// use toolnexus_core::{Toolkit, define_tool};
/// let greet = define_tool("greet", "Greets", None, |_args, _context| async { Ok::<_, String>("hello") });
/// let toolkit = Toolkit::from_tools([greet]);
/// assert_eq!(toolkit.tool_names(), ["greet"]);
/// ```
#[derive(Clone)]
pub struct Toolkit {
    inner: Arc<Inner>,
}

impl Default for Toolkit {
    fn default() -> Self {
        Toolkit::from_parts(ToolkitParts::default())
    }
}

impl Toolkit {
    /// A toolkit of these tools and nothing else. The first tool of a name wins; later ones are
    /// skipped with a warning.
    pub fn from_tools(tools: impl IntoIterator<Item = Tool>) -> Self {
        Toolkit::from_parts(ToolkitParts { tools: tools.into_iter().collect(), ..Default::default() })
    }

    /// A toolkit assembled by hand, for hosts that load the sources themselves.
    pub fn from_parts(parts: ToolkitParts) -> Self {
        Toolkit {
            inner: Arc::new(Inner {
                snapshot: ArcSwap::from_pointee(Snapshot::default().with(parts.tools)),
                writer: Mutex::new(()),
                skills_prompt: parts.skills_prompt,
                mcp_status: parts.mcp_status,
                builtin_status: parts.builtin_status,
                errors: parts.errors,
                wait_for: parts.wait_for,
                sources: parts.sources,
            }),
        }
    }

    /// The current list of tools. It never changes under its holder.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.snapshot.load_full()
    }

    /// A copy of every tool, in order.
    pub fn tools(&self) -> Vec<Tool> {
        self.snapshot().iter().cloned().collect()
    }

    /// The tool of exactly this name.
    pub fn get(&self, name: &str) -> Option<Tool> {
        self.inner.snapshot.load().get(name).map(|tool| (**tool).clone())
    }

    /// All names, sorted by code point.
    pub fn tool_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.snapshot().iter().map(|tool| tool.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Adds tools at the end of the list. A name that is taken keeps its tool; the new one is
    /// skipped with a warning.
    pub fn register(&self, tools: impl IntoIterator<Item = Tool>) -> &Self {
        let added: Vec<Tool> = tools.into_iter().collect();
        let _writer = self.inner.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.inner.snapshot.load().with(added);
        self.inner.snapshot.store(Arc::new(snapshot));
        self
    }

    /// Puts `tools` in the place of the tools that come from that MCP server. Those that keep their name
    /// keep their place, the others come behind the last tool of any server. A name that is taken keeps
    /// its tool.
    ///
    /// ```
    /// use toolnexus_core::{Tool, ToolOrigin, Toolkit};
    /// let of_docs = |name: &str| {
    ///     let origin = ToolOrigin { server: "docs".into(), remote_name: name.into() };
    ///     Tool::new(format!("docs_{name}"), |_, _| async { Ok::<_, String>("") }).origin(origin)
    /// };
    /// let toolkit = Toolkit::from_tools([of_docs("read"), of_docs("find")]);
    /// toolkit.replace_server_tools("docs", [of_docs("find"), of_docs("write")]);
    /// assert_eq!(toolkit.tool_names(), ["docs_find", "docs_write"]);
    /// ```
    pub fn replace_server_tools(&self, server: &str, tools: impl IntoIterator<Item = Tool>) -> &Self {
        let mut new: Vec<Option<Tool>> = tools.into_iter().map(Some).collect();
        let _writer = self.inner.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.inner.snapshot.load_full();
        let mut list: Vec<Tool> = Vec::with_capacity(current.tools.len() + new.len());
        let mut behind_servers = 0;
        for tool in &current.tools {
            match &tool.origin {
                Some(origin) if origin.server == server => {
                    let is_it =
                        |new: &&mut Option<Tool>| new.as_ref().is_some_and(|new| new.name == tool.name);
                    list.extend(new.iter_mut().find(is_it).and_then(Option::take));
                    behind_servers = list.len();
                }
                Some(_) => {
                    list.push((**tool).clone());
                    behind_servers = list.len();
                }
                None => list.push((**tool).clone()),
            }
        }
        let taken: HashSet<&str> = list.iter().map(|tool| tool.name.as_str()).collect();
        let added: Vec<Tool> =
            new.into_iter().flatten().filter(|tool| !taken.contains(tool.name.as_str())).collect();
        list.splice(behind_servers..behind_servers, added);
        self.inner.snapshot.store(Arc::new(Snapshot::default().with(list)));
        self
    }

    /// What the system prompt says about skills; empty without a skill source.
    pub fn skills_prompt(&self) -> &str {
        &self.inner.skills_prompt
    }

    /// The status of every MCP server, as the load found it.
    pub fn mcp_status(&self) -> BTreeMap<String, SourceStatus> {
        self.inner.mcp_status.clone()
    }

    /// [`Toolkit::mcp_status`] and, under `builtin`, that of the built-in tools.
    pub fn statuses(&self) -> BTreeMap<String, SourceStatus> {
        let mut statuses = self.mcp_status();
        if let Some(status) = self.inner.builtin_status {
            statuses.insert("builtin".into(), status);
        }
        statuses
    }

    /// Why sources failed: by server name, `<config>` for the MCP document, `<skills>` for the
    /// skill provider.
    pub fn errors(&self) -> BTreeMap<String, String> {
        self.inner.errors.clone()
    }

    /// The resolver that runs use when their client has none.
    pub fn wait_for(&self) -> Option<WaitFor> {
        self.inner.wait_for.clone()
    }

    /// A source of this toolkit, found by its type.
    pub fn source<S: SourceHandle>(&self) -> Option<&S> {
        self.inner.sources.iter().find_map(|source| source.as_any().downcast_ref())
    }

    /// [`adapters::to_openai`] over the current tools.
    pub fn to_openai(&self) -> Vec<Value> {
        adapters::to_openai(self.snapshot().iter())
    }

    /// [`adapters::to_anthropic`] over the current tools.
    pub fn to_anthropic(&self) -> Vec<Value> {
        adapters::to_anthropic(self.snapshot().iter())
    }

    /// [`adapters::to_gemini`] over the current tools.
    pub fn to_gemini(&self) -> Vec<Value> {
        adapters::to_gemini(self.snapshot().iter())
    }

    /// A handle to this toolkit that does not keep it alive.
    ///
    /// ```
    /// use toolnexus_core::Toolkit;
    /// let toolkit = Toolkit::default();
    /// let handle = toolkit.downgrade();
    /// assert!(handle.refers_to(&toolkit.clone()) && !handle.refers_to(&Toolkit::default()));
    /// drop(toolkit);
    /// assert!(!handle.is_alive());
    /// ```
    pub fn downgrade(&self) -> WeakToolkit {
        WeakToolkit { inner: Arc::downgrade(&self.inner) }
    }

    /// Runs one tool by name, outside any run. See [`Toolkit::execute_with`].
    pub async fn execute(&self, name: &str, args: Value) -> ToolResult {
        self.execute_with(name, args, ToolContext::default()).await
    }

    /// Runs one tool by name. An unknown name gives the failure `unknown tool: <name>`.
    pub async fn execute_with(&self, name: &str, args: Value, context: ToolContext) -> ToolResult {
        let snapshot = self.snapshot();
        match snapshot.get(name) {
            Some(tool) => tool.execute_with(args, context).await,
            None => ToolResult::failure(format!("unknown tool: {name}")),
        }
    }

    /// Ends every connection and child process of the toolkit's sources, all at once.
    ///
    /// Idempotent; never fails. The toolkit still lists its tools and runs those that need no
    /// connection; the others give failures.
    pub async fn close(&self) {
        futures::future::join_all(self.inner.sources.iter().map(|source| source.close())).await;
    }
}

/// Which toolkit something belongs to, without keeping that toolkit alive. Made by
/// [`Toolkit::downgrade`].
#[derive(Clone)]
pub struct WeakToolkit {
    inner: Weak<Inner>,
}

impl WeakToolkit {
    /// Whether `toolkit` is that toolkit, or a clone of it.
    pub fn refers_to(&self, toolkit: &Toolkit) -> bool {
        // The address is not given out again while this handle is there.
        std::ptr::eq(self.inner.as_ptr(), Arc::as_ptr(&toolkit.inner))
    }

    /// Whether a clone of the toolkit is left.
    pub fn is_alive(&self) -> bool {
        self.inner.strong_count() > 0
    }

    /// The toolkit, if a clone of it is left.
    pub fn upgrade(&self) -> Option<Toolkit> {
        self.inner.upgrade().map(|inner| Toolkit { inner })
    }
}

impl std::fmt::Debug for WeakToolkit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeakToolkit").field("alive", &self.is_alive()).finish()
    }
}

impl std::fmt::Debug for Toolkit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toolkit")
            .field("tools", &self.snapshot().tools.len())
            .field("statuses", &self.statuses())
            .finish_non_exhaustive()
    }
}
