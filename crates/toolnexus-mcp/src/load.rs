//! Loading: every server at once, each on its own, the result in name order.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio_util::task::TaskTracker;
use toolnexus_core::{Tool, ToolOrigin, ToolSource};
use tracing::warn;

use crate::call::RemoteTool;
use crate::config::{McpConfig, McpServerConfig};
use crate::connect::Unreached;
use crate::failure::McpPhase;
use crate::filter::ToolFilter;
use crate::lifecycle::{McpState, Server};
use crate::listing::{ListedTool, list_tools};
use crate::live::{Facts, settle};
use crate::naming::mcp_tool_name;
use crate::options::{LoadMcpOptions, McpContext, McpContextError, McpServerEvent};
use crate::param_headers::ParamMarks;
use crate::slot::Slot;
use crate::source::{McpConnection, McpSource};
use crate::spend::SpendGate;

/// Loads every server of a document. Never fails: a server that cannot be loaded is `failed` in
/// the source's status and costs the others nothing.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let config = toolnexus_mcp::parse_mcp_config_file("mcp.json")?;
/// let source = toolnexus_mcp::load_mcp(&config).await;
/// for tool in &source.tools {
///     println!("{}: {}", tool.name, tool.description);
/// }
/// source.close().await;
/// # Ok(()) }
/// ```
pub async fn load_mcp(config: &McpConfig) -> McpSource {
    load_mcp_with(config, LoadMcpOptions::default()).await
}

/// [`load_mcp`] with options.
pub async fn load_mcp_with(config: &McpConfig, opts: LoadMcpOptions) -> McpSource {
    // A context that never ends gives no error.
    load_mcp_with_context(config, &McpContext::default(), opts).await.unwrap_or_default()
}

/// [`load_mcp_with`] that can be ended early, as a whole. A server's own time limits fail that
/// server alone.
///
/// # Errors
/// The context ended before the load did. Nothing of the load is left running then, connected
/// servers included; dropping the future does the same.
pub async fn load_mcp_with_context(
    config: &McpConfig,
    ctx: &McpContext,
    opts: LoadMcpOptions,
) -> Result<McpSource, McpContextError> {
    let opts = &opts;
    let connections = each_server(config, ctx, |server, tasks| async move {
        let connection = load_server(server, opts, &tasks).await;
        announce(opts, event_of(&connection));
        Unclaimed(Some(connection))
    })
    .await?;
    Ok(assemble(connections.into_iter().filter_map(Unclaimed::claim).collect()))
}

/// Connects one server and lists its tools. Never fails: see [`McpConnection::error`].
pub async fn connect_mcp_server(server: &McpServerConfig, opts: LoadMcpOptions) -> McpConnection {
    let connection = load_server(server, &opts, &TaskTracker::new()).await;
    announce(&opts, event_of(&connection));
    connection
}

/// A connection of a load that has not returned yet. Dropped unclaimed it is cut, whoever else has
/// got hold of its tools by then.
struct Unclaimed(Option<McpConnection>);

impl Unclaimed {
    fn claim(mut self) -> Option<McpConnection> {
        self.0.take()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.cut();
        }
    }
}

/// Runs `work` for every server at once; the results come in the order of the document. When the
/// context ends first, everything that `work` has started is gone on return.
pub(crate) async fn each_server<'c, T, Fut>(
    config: &'c McpConfig,
    ctx: &McpContext,
    work: impl Fn(&'c McpServerConfig, TaskTracker) -> Fut,
) -> Result<Vec<T>, McpContextError>
where
    Fut: Future<Output = T>,
{
    if let Some(error) = already_ended(ctx) {
        return Err(error);
    }
    let trackers: Vec<TaskTracker> = config.servers.iter().map(|_| TaskTracker::new()).collect();
    let mut done: BTreeMap<usize, T> = BTreeMap::new();
    let mut running = FuturesUnordered::new();
    for (at, (server, tasks)) in config.servers.iter().zip(&trackers).enumerate() {
        let work = work(server, tasks.clone());
        running.push(async move { (at, work.await) });
    }
    let ended = ended(ctx);
    tokio::pin!(ended);
    let error = loop {
        tokio::select! {
            biased;
            error = &mut ended => break error,
            next = running.next() => match next {
                Some((at, result)) => {
                    done.insert(at, result);
                }
                None => return Ok(done.into_values().collect()),
            },
        }
    };
    // Dropping a connection kills its child or aborts its exchanges; their tasks then see the end.
    drop(running);
    drop(done);
    settle(&trackers).await;
    Err(error)
}

/// Runs `work` until it is done or the context ends; then everything that holds a token of `tasks` is
/// gone on return.
pub(crate) async fn until_ended<T>(
    ctx: &McpContext,
    tasks: &TaskTracker,
    work: impl Future<Output = T>,
) -> Result<T, McpContextError> {
    if let Some(error) = already_ended(ctx) {
        return Err(error);
    }
    let mut work = Box::pin(work);
    let error = tokio::select! {
        biased;
        error = ended(ctx) => error,
        done = &mut work => return Ok(done),
    };
    drop(work);
    settle(std::slice::from_ref(tasks)).await;
    Err(error)
}

fn already_ended(ctx: &McpContext) -> Option<McpContextError> {
    if ctx.cancel.is_cancelled() {
        return Some(McpContextError::Cancelled);
    }
    let past = ctx.deadline.is_some_and(|deadline| deadline <= std::time::Instant::now());
    past.then_some(McpContextError::DeadlineExceeded)
}

async fn ended(ctx: &McpContext) -> McpContextError {
    let deadline = async {
        match ctx.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => McpContextError::Cancelled,
        () = deadline => McpContextError::DeadlineExceeded,
    }
}

pub(crate) async fn load_server(
    server: &McpServerConfig,
    opts: &LoadMcpOptions,
    tasks: &TaskTracker,
) -> McpConnection {
    if !server.enabled {
        return McpConnection::disabled(&server.name);
    }
    // On the heap: what it takes to reach a server goes deep, and callers nest it further.
    match Box::pin(reach(server, opts, tasks)).await {
        Ok(reached) => {
            let slot = Arc::clone(&reached.slot);
            let connection = keep(reached);
            if server.lazy
                && let Some(live) = slot.take()
            {
                slot.set_state(McpState::Stopped, None);
                live.close().await;
            }
            connection
        }
        Err(unreached) => {
            let spend = SpendGate::new(server, opts.reserve.clone());
            let slot = Slot::empty(server, spend, Some(opts));
            slot.set_state(McpState::Error, Some(unreached.failure.to_string()));
            McpConnection::unreached(unreached, Some(Server::new(slot, Vec::new())))
        }
    }
}

/// A connection out of a session that stands: its tools are listed.
pub(crate) async fn list_and_keep(slot: Arc<Slot>) -> McpConnection {
    match list(slot).await {
        Ok(reached) => keep(reached),
        Err(unreached) => McpConnection::unreached(unreached, None),
    }
}

fn keep(reached: Reached) -> McpConnection {
    let Reached { slot, facts, listed } = reached;
    for name in ToolFilter::new(&slot.config.tools).unmatched(listed.iter().map(|tool| tool.name.as_str())) {
        warn!("[toolnexus] server \"{}\" tools filter name \"{name}\" matched no tool", slot.server);
    }
    McpConnection::connected(facts, Server::new(slot, listed))
}

/// A server that has answered, with everything it lists.
pub(crate) struct Reached {
    pub(crate) slot: Arc<Slot>,
    pub(crate) facts: Facts,
    pub(crate) listed: Vec<ListedTool>,
}

/// Connects a server and lists its tools; a failure leaves nothing behind.
pub(crate) async fn reach(
    server: &McpServerConfig,
    opts: &LoadMcpOptions,
    tasks: &TaskTracker,
) -> Result<Reached, Unreached> {
    list(Slot::connected(server, opts, tasks).await?).await
}

async fn list(slot: Arc<Slot>) -> Result<Reached, Unreached> {
    match list_tools(&slot, Duration::from_millis(slot.config.timeout_ms)).await {
        Ok(listed) => {
            let facts = slot.current().map(|live| live.facts.clone()).unwrap_or_default();
            Ok(Reached { slot, facts, listed })
        }
        Err(fault) => {
            let failure = slot.failure(fault, McpPhase::ListTools);
            let stderr = slot.current().map(|live| live.wire.stderr()).unwrap_or_default();
            slot.close().await;
            Err(Unreached { failure, stderr })
        }
    }
}

/// The listed tools that the server's filter lets through, under their final names.
/// What is `known` already is not made again.
pub(crate) fn tools_of(
    listed: &[ListedTool],
    slot: &Arc<Slot>,
    known: impl Fn(&ListedTool) -> Option<Tool>,
) -> Vec<Tool> {
    let filter = ToolFilter::new(&slot.config.tools);
    let taken = listed.iter().filter(|tool| filter.takes(&tool.name));
    taken.filter_map(|listed| known(listed).or_else(|| tool(listed, slot))).collect()
}

/// `None` for a tool that the protocol asks clients to leave alone.
fn tool(listed: &ListedTool, slot: &Arc<Slot>) -> Option<Tool> {
    let marks = match ParamMarks::of(&listed.input_schema) {
        Ok(marks) => marks,
        Err(reason) if slot.is_modern() => {
            let (server, name) = (&slot.server, &listed.name);
            warn!("[toolnexus] server \"{server}\" tool \"{name}\" skipped: {reason}");
            return None;
        }
        // Words without a meaning, before there were such marks.
        Err(_) => ParamMarks::default(),
    };
    let (slot, limits) = (Arc::clone(slot), slot.limits());
    let server = slot.server.to_string();
    let remote = Arc::new(RemoteTool { slot, name: listed.name.clone(), limits, marks });
    let mut tool = Tool::new(mcp_tool_name(&server, &listed.name), move |args, context| {
        let remote = Arc::clone(&remote);
        async move { remote.call(args, context).await }
    })
    .description(&listed.description)
    .input_schema(listed.input_schema.clone())
    .source(ToolSource::Mcp)
    .origin(ToolOrigin { server, remote_name: listed.name.clone() });
    tool.title = listed.title.clone();
    tool.hints = listed.hints;
    Some(tool)
}

fn event_of(connection: &McpConnection) -> McpServerEvent {
    McpServerEvent {
        name: connection.name().to_owned(),
        status: connection.status(),
        tools: connection.tools().to_vec(),
        error: connection.error().map(ToString::to_string),
    }
}

pub(crate) fn announce(opts: &LoadMcpOptions, event: McpServerEvent) {
    let Some(on_server) = &opts.on_server else { return };
    let name = event.name.clone();
    if catch_unwind(AssertUnwindSafe(|| on_server(event))).is_err() {
        warn!("[toolnexus] the on_server callback panicked for MCP server \"{name}\"");
    }
}

/// One source out of the servers, in their order.
fn assemble(connections: Vec<McpConnection>) -> McpSource {
    let mut source = McpSource::default();
    for connection in &connections {
        source.status.insert(connection.name().to_owned(), connection.status());
        if let Some(error) = connection.error() {
            source.errors.insert(connection.name().to_owned(), error.to_string());
        }
    }
    source.tools = assembled(&connections, |skipped, owner| {
        warn!(
            "[toolnexus] tool \"{}\" of MCP server \"{}\" skipped: server \"{owner}\" has one of that name",
            skipped.name,
            skipped.origin.as_ref().map_or("", |origin| &origin.server),
        );
    });
    source.connections = connections;
    source
}

/// The tools of all servers by final name: the first of a name wins, `skipped` is told of any other and
/// of the server that has the name.
pub(crate) fn assembled(connections: &[McpConnection], skipped: impl Fn(&Tool, &str)) -> Vec<Tool> {
    let mut owners: HashMap<String, &str> = HashMap::new();
    let mut tools = Vec::new();
    for connection in connections {
        for tool in connection.tools().iter() {
            match owners.entry(tool.name.clone()) {
                Entry::Occupied(owner) => skipped(tool, owner.get()),
                Entry::Vacant(free) => {
                    free.insert(connection.name());
                    tools.push(tool.clone());
                }
            }
        }
    }
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools
}
