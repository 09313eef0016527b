//! Beginnings and ends: no process, session or descriptor outlives its owner.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolnexus::mcp::{
    LoadMcpOptions, McpContext, McpContextError, list_mcp_tools, load_mcp_with_context, parse_mcp_config,
};
use toolnexus::{Error, McpConfigInput, ToolContext, ToolkitOptions, ToolkitSources as _, create_toolkit};
use toolnexus_conformance::processes::{descendants, eventually, is_guardian, with_variable};
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::cancel::{echo, under_way};
use crate::servers::{MARK, Setting, Wire, call, connection, failure, json_of, load, marked, with};

/// How long processes may take to be gone when nobody waits for that.
const GONE: Duration = Duration::from_secs(5);

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    report.check("lifecycle: close leaves no process", closed(setting)).await;
    report.check("lifecycle: close leaves no process behind a shell", closed_tree(setting)).await;
    report.check("lifecycle: disconnect ends one server", disconnected(setting)).await;
    report.check("lifecycle: a dropped toolkit leaves no process", dropped(setting)).await;
    report.check("lifecycle: a toolkit dropped in a call leaves no process", dropped_in_call(setting)).await;
    report.check("lifecycle: a cancelled load leaves no process", load_cancelled(setting)).await;
    report.check("lifecycle: nor does one of the servers alone", servers_cancelled(setting)).await;
    report.check("lifecycle: a dropped load leaves no process", load_dropped(setting)).await;
    report.check("lifecycle: an inventory leaves no process and no session", inventory(setting)).await;
    for wire in Wire::BOTH {
        let name = |what: &str| format!("{}: {what}", wire.as_str());
        report.check(&name("close ends the calls in flight"), closed_in_call(setting, wire)).await;
        report.check(&name("nothing stays open after close and drop"), descriptors(setting, wire)).await;
    }
    report.check("http: close ends the session", session_ended(setting)).await;
    Ok(())
}

/// Three local servers, told apart from all other processes by `mark`.
fn three(setting: &Setting, folder: &str, mark: &str) -> Value {
    json!({
        "everything": marked(setting.everything(Wire::Stdio, json!({})), mark),
        "files": marked(setting.local("filesystem", &[folder]), mark),
        "memory": marked(setting.local("memory", &[]), mark),
    })
}

/// The processes of one check.
struct Watch<'a> {
    before: BTreeSet<u32>,
    mark: &'a str,
}

impl<'a> Watch<'a> {
    fn start(mark: &'a str) -> Self {
        Watch { before: descendants(), mark }
    }

    /// Those that have come since and are still there: children of this program, and whatever runs
    /// with the mark in its environment, whoever its parent is. The guardian of children is none of them.
    fn processes(&self) -> BTreeSet<u32> {
        let descendants = descendants();
        let new = descendants.difference(&self.before).copied().filter(|pid| !is_guardian(*pid));
        new.chain(with_variable(MARK, self.mark)).collect()
    }

    fn count(&self, expected: usize) -> Outcome {
        equal("processes", &self.processes().len(), &expected)
    }

    async fn gone(&self) -> Outcome {
        let gone = eventually(GONE, || self.processes().is_empty()).await;
        holds(gone, || format!("still there: {:?}", self.processes()))
    }
}

fn scratch() -> Result<(tempfile::TempDir, String), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().display().to_string();
    Ok((folder, path))
}

// MCP-74, MCP-75, MCP-77
async fn closed(setting: &Setting) -> Outcome {
    let (_folder, path) = scratch()?;
    let watch = Watch::start("closed");
    let toolkit = load(three(setting, &path, watch.mark)).await?;
    watch.count(3)?;
    equal("connected", &toolkit.connected_servers(), &3)?;
    let started = Instant::now();
    toolkit.close().await;
    watch.count(0)?;
    let took = started.elapsed();
    holds(took < Duration::from_secs(2), || format!("closing took {took:?}"))?;
    equal("connected", &toolkit.connected_servers(), &0)?;
    toolkit.close().await;
    equal("tools", &toolkit.tools().len(), &(13 + 14 + 9))?;
    let result = call(&toolkit, "everything_echo", json!({"message": "anybody?"})).await?;
    let output = "mcp server \"everything\" failed at tools/call: closed";
    equal("a later call", &json_of(&result), &failure("everything", output))
}

async fn closed_tree(setting: &Setting) -> Outcome {
    let watch = Watch::start("tree");
    let direct = setting.everything(Wire::Stdio, json!({}));
    let argv = direct.get("command").and_then(Value::as_array).ok_or("no command")?;
    let mut command = vec![json!("sh"), json!("-c"), json!("sleep 300 & \"$@\"; exit $?"), json!("sh")];
    command.extend(argv.iter().cloned());
    let toolkit = load(json!({"everything": marked(json!({"command": command}), watch.mark)})).await?;
    echo(&toolkit, Wire::Stdio, "through a shell").await?;
    watch.count(3)?;
    toolkit.close().await;
    // The shell's own children are reaped by whoever inherits them.
    watch.gone().await
}

// MCP-74
async fn disconnected(setting: &Setting) -> Outcome {
    let (_folder, path) = scratch()?;
    let watch = Watch::start("disconnected");
    let toolkit = load(three(setting, &path, watch.mark)).await?;
    toolkit.mcp().ok_or("no MCP source")?.disconnect("files").await;
    watch.count(2)?;
    equal("standing", &connection(&toolkit, "files")?.is_connected(), &false)?;
    echo(&toolkit, Wire::Stdio, "still here").await?;
    toolkit.close().await;
    watch.count(0)
}

// MCP-77
async fn dropped(setting: &Setting) -> Outcome {
    let (_folder, path) = scratch()?;
    let watch = Watch::start("dropped");
    let toolkit = load(three(setting, &path, watch.mark)).await?;
    watch.count(3)?;
    drop(toolkit);
    watch.gone().await
}

async fn dropped_in_call(setting: &Setting) -> Outcome {
    let (_folder, path) = scratch()?;
    let watch = Watch::start("dropped in call");
    let toolkit = load(three(setting, &path, watch.mark)).await?;
    let running = under_way(&toolkit, setting, Wire::Stdio, ToolContext::default()).await?;
    running.abort();
    drop(toolkit);
    watch.gone().await
}

// MCP-57, MCP-58, MCP-60
async fn load_cancelled(setting: &Setting) -> Outcome {
    let (_folder, path) = scratch()?;
    let watch = Watch::start("load cancelled");
    let cancel = CancellationToken::new();
    let load =
        create_toolkit(ToolkitOptions { cancel: Some(cancel.clone()), ..options(setting, &path, &watch) });
    let (loaded, started) = tokio::join!(load, async {
        let started = eventually(GONE, || watch.processes().len() == 3).await;
        cancel.cancel();
        started
    });
    watch.count(0)?;
    holds(started, || "the servers were not started".into())?;
    match loaded {
        Err(Error::Cancelled) => Ok(()),
        Err(error) => Err(format!("another error: {error}")),
        Ok(_) => Err("the load was done before the cancel".into()),
    }
}

// The same without the facade around it.
async fn servers_cancelled(setting: &Setting) -> Outcome {
    let (_folder, path) = scratch()?;
    let watch = Watch::start("servers cancelled");
    let document = McpConfigInput::Value(json!({"mcpServers": unending(setting, &path, &watch)}));
    let config = parse_mcp_config(&document).map_err(|error| error.to_string())?;
    let context = McpContext::default();
    let load = load_mcp_with_context(&config, &context, LoadMcpOptions::default());
    let (loaded, started) = tokio::join!(load, async {
        let started = eventually(GONE, || watch.processes().len() == 3).await;
        context.cancel.cancel();
        started
    });
    watch.count(0)?;
    holds(started, || "the servers were not started".into())?;
    equal("outcome", &loaded.err(), &Some(McpContextError::Cancelled))
}

async fn load_dropped(setting: &Setting) -> Outcome {
    let (_folder, path) = scratch()?;
    let watch = Watch::start("load dropped");
    tokio::select! {
        biased;
        _ = create_toolkit(options(setting, &path, &watch)) => return Err("the load was done before the drop".into()),
        started = eventually(GONE, || watch.processes().len() == 3) => {
            holds(started, || "the servers were not started".into())?;
        }
    }
    watch.gone().await
}

/// Servers whose load does not end by itself: one of them never answers.
fn unending(setting: &Setting, folder: &str, watch: &Watch<'_>) -> Value {
    let silent = json!({"memory": marked(json!({"command": ["sleep", "300"]}), watch.mark)});
    with(three(setting, folder, watch.mark), silent)
}

fn options(setting: &Setting, folder: &str, watch: &Watch<'_>) -> ToolkitOptions {
    let servers = unending(setting, folder, watch);
    ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(json!({"mcpServers": servers}))),
        ..Default::default()
    }
}

// MCP-64, MCP-65
async fn inventory(setting: &Setting) -> Outcome {
    const ENDED: &str = "Received session termination request";
    let (_folder, path) = scratch()?;
    let watch = Watch::start("inventory");
    let remote = json!({"every.thing": setting.everything(Wire::Http, json!({}))});
    let servers = with(three(setting, &path, watch.mark), remote);
    let document = McpConfigInput::Value(json!({"mcpServers": servers}));
    let config = parse_mcp_config(&document).map_err(|error| error.to_string())?;
    let ended = setting.http.count(ENDED);
    let inventory = list_mcp_tools(&config, &McpContext::default(), LoadMcpOptions::default())
        .await
        .map_err(|error| error.to_string())?;
    watch.count(0)?;
    let counts: Vec<(&str, usize)> =
        inventory.tools.iter().map(|(name, tools)| (name.as_str(), tools.len())).collect();
    equal("tools", &counts, &[("every.thing", 13), ("everything", 13), ("files", 14), ("memory", 9)])?;
    holds(setting.http.says(ENDED, ended + 1).await, || "the session was not ended".into())
}

// MCP-77
async fn closed_in_call(setting: &Setting, wire: Wire) -> Outcome {
    let toolkit = setting.load_everything(wire).await?;
    let running = under_way(&toolkit, setting, wire, ToolContext::default()).await?;
    let started = Instant::now();
    toolkit.close().await;
    let result = running.await.map_err(|error| error.to_string())??;
    let took = started.elapsed();
    holds(took < Duration::from_secs(3), || format!("it took {took:?}"))?;
    let output = format!("mcp server {:?} failed at tools/call: closed", wire.server());
    equal("result", &json_of(&result), &failure(wire.server(), output))
}

async fn descriptors(setting: &Setting, wire: Wire) -> Outcome {
    let before = open_descriptors();
    let toolkit = setting.load_everything(wire).await?;
    echo(&toolkit, wire, "open").await?;
    let during = open_descriptors();
    holds(during > before, || format!("{before} before, {during} with a connection"))?;
    toolkit.close().await;
    drop(toolkit);
    let closed = eventually(GONE, || open_descriptors() <= before).await;
    holds(closed, || format!("{before} before, {during} with a connection, {} after", open_descriptors()))
}

/// Pipes and sockets of this process.
fn open_descriptors() -> usize {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    let is_open = |target: &str| target.starts_with("pipe:") || target.starts_with("socket:");
    entries
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.to_str().is_some_and(is_open))
        .count()
}

// MCP-76
async fn session_ended(setting: &Setting) -> Outcome {
    let started = setting.http.count("Session initialized with ID");
    let ended = setting.http.count("Transport closed for session");
    let toolkit = setting.load_everything(Wire::Http).await?;
    holds(setting.http.says("Session initialized with ID", started + 1).await, || "no session".into())?;
    toolkit.close().await;
    holds(setting.http.says("Transport closed for session", ended + 1).await, || {
        "the session lives on".into()
    })?;
    equal("connected", &toolkit.connected_servers(), &0)?;
    let result = call(&toolkit, "every_thing_echo", json!({"message": "anybody?"})).await?;
    let output = "mcp server \"every.thing\" failed at tools/call: closed";
    equal("a later call", &json_of(&result), &failure("every.thing", output))
}
