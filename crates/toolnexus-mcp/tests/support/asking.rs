//! Servers that ask, over every wire, and hosts that answer.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use toolnexus_core::{Answer, BoxError, Request, ToolResult, WaitFor};
use toolnexus_mcp::{LoadMcpOptions, McpSource, load_mcp_with};
use toolnexus_testkit::mcp::{
    AnswerMode, FixtureTool, HttpOptions, Ledger, McpFixture, McpHttpFixture, RawJson, Step,
};

use crate::support::{noted, output, servers, stdio, tool, with};

/// The ways on which a question comes and its answer goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wire {
    Stdio,
    /// The event stream that answers the call.
    Stream,
    /// The session's standing stream, while the call is answered by one JSON body.
    Standing,
    /// HTTP+SSE of 2024-11-05.
    Legacy,
    /// A child of the era without requests from servers.
    ModernStdio,
    /// Streamable HTTP of that era.
    Modern,
}

/// Those on which a server can ask by itself.
pub(crate) const WIRES: [Wire; 4] = [Wire::Stdio, Wire::Stream, Wire::Standing, Wire::Legacy];

/// A loaded server, and what it has received.
pub(crate) struct Connected {
    pub(crate) source: McpSource,
    pub(crate) peer: Peer,
}

pub(crate) enum Peer {
    Child(Ledger, tempfile::TempDir),
    Http(McpHttpFixture),
}

/// Loads the fixture as `docs`, calls side by side.
pub(crate) async fn connect(wire: Wire, fixture: McpFixture, wait_for: Option<WaitFor>) -> Connected {
    connect_with(wire, fixture, wait_for, json!({})).await
}

pub(crate) async fn connect_with(
    wire: Wire,
    fixture: McpFixture,
    wait_for: Option<WaitFor>,
    more: Value,
) -> Connected {
    let modern = matches!(wire, Wire::Modern | Wire::ModernStdio);
    let fixture = fixture.tool(FixtureTool::text("ready", "yes"));
    let fixture = if modern { fixture.on("server/discover", [Step::result(discovered())]) } else { fixture };
    let era = if modern { "modern" } else { "legacy" };
    let (entry, peer) = match wire {
        Wire::Stdio | Wire::ModernStdio => {
            let (fixture, ledger, folder) = noted(fixture);
            (stdio(&fixture, json!({})), Peer::Child(ledger, folder))
        }
        Wire::Stream | Wire::Standing | Wire::Legacy | Wire::Modern => {
            let mut options = HttpOptions::default();
            match wire {
                Wire::Standing => options.answers = AnswerMode::Json,
                Wire::Legacy => options.legacy_sse = Some("/messages".into()),
                Wire::Modern => options.sessions = false,
                _ => {}
            }
            let server = McpHttpFixture::start(fixture, options).await.unwrap();
            (server.server_json(), Peer::Http(server))
        }
    };
    let entry = with(with(entry, json!({"concurrency": "stateless", "era": era})), more);
    let options = LoadMcpOptions { wait_for, ..Default::default() };
    let source = load_mcp_with(&servers(json!({ "docs": entry })), options).await;
    assert!(source.errors.is_empty(), "{wire:?}: {:?}", source.errors);
    Connected { source, peer }
}

/// What a server of the modern era tells of itself.
pub(crate) fn discovered() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "private",
    })
}

impl Connected {
    pub(crate) async fn call(&self, name: &str) -> ToolResult {
        tool(&self.source, name).execute(json!({})).await
    }

    /// Everything the server has received so far.
    pub(crate) fn received(&self) -> Vec<Value> {
        match &self.peer {
            Peer::Child(ledger, _) => ledger.messages().unwrap(),
            Peer::Http(server) => server.requests().into_iter().map(|request| request.json).collect(),
        }
    }

    pub(crate) fn received_of(&self, method: &str) -> Vec<Value> {
        self.received().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// The answer to the server's first question, once it is there.
    pub(crate) async fn answer(&self) -> Value {
        match &self.peer {
            Peer::Child(ledger, _) => ledger.wait_for_answer(1).await.unwrap(),
            Peer::Http(server) => server.wait_for_answer(1).await.unwrap(),
        }
    }

    /// Whether an answer to the server's first question has come so far.
    pub(crate) fn is_answered(&self) -> bool {
        self.received().iter().any(|message| message["id"] == 1 && message.get("method").is_none())
    }

    /// Lets one step of a script pass. A child has the tool `open_<gate>` for it.
    pub(crate) async fn open(&self, gate: &str) {
        match &self.peer {
            Peer::Child(..) => assert_eq!(output(&self.source, &format!("docs_open_{gate}")).await, "opened"),
            Peer::Http(server) => server.open_gate(gate),
        }
    }
}

/// A question that waits for the test.
pub(crate) struct Question {
    pub(crate) request: Request,
    reply: oneshot::Sender<Answer>,
}

impl Question {
    pub(crate) fn accept(self, data: Value) {
        let Value::Object(data) = data else { panic!("{data}") };
        let answer = Answer { id: self.request.id, ok: true, data: Some(data), reason: None };
        self.reply.send(answer).unwrap();
    }

    /// Waits until nobody listens for the answer any more.
    pub(crate) async fn dropped(mut self) {
        self.reply.closed().await;
    }
}

/// A host that leaves every question to the test.
pub(crate) fn host() -> (Option<WaitFor>, mpsc::UnboundedReceiver<Question>) {
    let (questions, asked) = mpsc::unbounded_channel();
    let wait_for: WaitFor = Arc::new(move |request| {
        let questions = questions.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            questions.send(Question { request, reply })?;
            Ok(answer.await?)
        })
    });
    (Some(wait_for), asked)
}

/// A host that answers every question the same way, at once.
pub(crate) fn answering(
    answer: impl Fn(Request) -> Result<Answer, BoxError> + Send + Sync + 'static,
) -> WaitFor {
    Arc::new(move |request| {
        let answer = answer(request);
        Box::pin(async move { answer })
    })
}

pub(crate) fn accepting(data: Value) -> WaitFor {
    answering(move |request| {
        Ok(Answer { id: request.id, ok: true, data: data.as_object().cloned(), reason: None })
    })
}

pub(crate) fn asking(params: Value) -> Step {
    Step::request("elicitation/create", params)
}

pub(crate) fn asks(name: &str) -> FixtureTool {
    FixtureTool::asks(name, "elicitation/create", json!({"message": "Who are you?"}))
}

/// What a call of a tool that `asks` puts out for this answer of the client's.
pub(crate) fn told(result: Value) -> String {
    json!({ "result": result }).to_string()
}

pub(crate) fn failed(text: &str) -> String {
    format!("mcp server \"docs\" failed at tools/call: {text}")
}

pub(crate) fn json_text(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

/// What the server has received, a message a line, as it is kept in a snapshot.
pub(crate) fn transcript(connected: &Connected) -> String {
    let lines: Vec<String> = connected.received().iter().map(Value::to_string).collect();
    lines.join("\n").replace(env!("CARGO_PKG_VERSION"), "[version]")
}
