//! What the tests of this crate share.
#![allow(dead_code, reason = "each test file uses its own part")]

#[cfg(target_os = "linux")]
pub(crate) mod alone;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolnexus_core::{Tool, ToolContext};
use toolnexus_mcp::{McpConfig, McpConfigInput, McpServerConfig, McpSource, parse_mcp_config};
use toolnexus_testkit::mcp::{Ledger, McpFixture};
use toolnexus_testkit::tracing_listener::listen_on_this_thread;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, SubscriberExt as _};

/// A document out of JSON.
pub(crate) fn config(document: Value) -> McpConfig {
    parse_mcp_config(&McpConfigInput::Value(document)).unwrap()
}

/// A document with these servers.
pub(crate) fn servers(servers: Value) -> McpConfig {
    config(json!({ "mcpServers": servers }))
}

/// One server of that entry, named `x`.
pub(crate) fn server(entry: Value) -> McpServerConfig {
    servers(json!({ "x": entry })).servers.remove(0)
}

/// The `mcp.json` entry of a stdio fixture, with more keys.
pub(crate) fn stdio(fixture: &McpFixture, more: Value) -> Value {
    with(fixture.server_json().unwrap(), more)
}

/// An entry with more keys; those of `environment` are added to those there.
pub(crate) fn with(mut entry: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        match (&mut entry[key], value) {
            (Value::Object(there), Value::Object(added)) => there.extend(added.clone()),
            (there, added) => *there = added.clone(),
        }
    }
    entry
}

/// An entry that says which era its server is of, so that nothing is asked to find it out.
pub(crate) fn legacy(entry: Value) -> Value {
    with(json!({"era": "legacy"}), entry)
}

/// A fixture, its ledger, and the folder of that.
pub(crate) type Noted = (McpFixture, Ledger, tempfile::TempDir);

/// A fixture whose ledger is in a folder of its own.
pub(crate) fn noted(fixture: McpFixture) -> Noted {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(folder.path().join("ledger.jsonl"));
    (fixture.ledger(ledger.path()), ledger, folder)
}

/// Whether a process of that id is there and no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    // The state stands behind the name, which is in brackets and may hold anything.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits until that process is gone.
pub(crate) async fn gone(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(1);
    while is_alive(pid) {
        assert!(Instant::now() < deadline, "process {pid} is alive after a second");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The tool of that name.
pub(crate) fn tool<'a>(source: &'a McpSource, name: &str) -> &'a Tool {
    source.tools.iter().find(|tool| tool.name == name).unwrap()
}

/// What a call of that tool with no arguments puts out.
pub(crate) async fn output(source: &McpSource, name: &str) -> String {
    tool(source, name).execute(json!({})).await.output
}

/// What a call of that tool with no arguments puts out when it may be silent for that long. The
/// limit is the call's alone: a server's would also hold for its handshake, on a busy machine.
pub(crate) async fn output_within(source: &McpSource, name: &str, ms: u64) -> String {
    let context = ToolContext { timeout_ms: Some(ms), ..Default::default() };
    tool(source, name).execute_with(json!({}), context).await.output
}

/// Keeps a paused clock from running ahead while everything waits: it moves by `advance` alone.
pub(crate) struct StillClock(#[expect(dead_code, reason = "held")] std::sync::mpsc::Sender<()>);

impl StillClock {
    /// Holds the clock of this runtime until dropped.
    pub(crate) fn hold() -> Self {
        let (held, released) = std::sync::mpsc::channel();
        // No clock runs ahead while a thread may be about to wake somebody.
        tokio::task::spawn_blocking(move || released.recv());
        StillClock(held)
    }
}

/// A variable of this process that no child needs, and its value: it stands for a secret.
pub(crate) fn inherited() -> (String, String) {
    const NEEDED: &str = "PATH HOME TMPDIR TMP TEMP LANG LC_ALL LC_CTYPE USER LOGNAME SHELL TERM";
    std::env::vars()
        .find(|(name, value)| {
            let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
            !NEEDED.split(' ').any(|needed| needed == name)
                && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
                && !value.is_empty()
                && plain(value)
        })
        .unwrap()
}

/// The spans of this library opened on this thread while the guard lives, with their fields.
#[derive(Clone, Default)]
pub(crate) struct Spans(Arc<Mutex<Vec<Seen>>>);

struct Seen {
    id: u64,
    name: String,
    fields: BTreeMap<String, String>,
}

impl Spans {
    /// Starts listening.
    pub(crate) fn listen() -> (Self, tracing::subscriber::DefaultGuard) {
        let spans = Spans::default();
        let subscriber = tracing_subscriber::registry().with(spans.clone());
        (spans, listen_on_this_thread(subscriber))
    }

    /// The fields of the spans of that name, in order.
    pub(crate) fn named(&self, name: &str) -> Vec<BTreeMap<String, String>> {
        let spans = self.0.lock().unwrap();
        spans.iter().filter(|span| span.name == name).map(|span| span.fields.clone()).collect()
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let name = attributes.metadata().name().to_owned();
        self.0.lock().unwrap().push(Seen { id: id.into_u64(), name, fields: fields.0 });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _context: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        if let Some(span) = spans.iter_mut().rev().find(|span| span.id == id.into_u64()) {
            let mut fields = Fields::default();
            values.record(&mut fields);
            span.fields.extend(fields.0);
        }
    }
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}
