//! Our client against their servers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use toolnexus::mcp::resource_tools;
use toolnexus::reports::{LogLevel, ToolReport, report_channel};
use toolnexus::{
    Answer, BuiltinsConfig, ContentPart, McpConfigInput, Request, ToolContext, ToolResult, Toolkit,
    ToolkitOptions, ToolkitSources as _, WaitFor, answer_declined, create_toolkit,
};
use toolnexus_conformance::processes::{descendants, eventually};
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::peers::{Peer, Setting};

/// The revision without a handshake.
const MODERN: &str = "2026-07-28";

/// The PNG of every server.
const PIXEL: &str = "iVBORw0KGgo=";

/// One of their servers, loaded over some way.
struct Loaded {
    peer: Peer,
    /// The revision that is to be agreed on.
    revision: &'static str,
    /// Whether its questions reach the client at all.
    asks: bool,
    toolkit: Toolkit,
    asked: Arc<Mutex<Vec<Request>>>,
}

pub(crate) async fn checks(report: &mut Report, setting: &Setting, peer: Peer) {
    let http = match setting.http_server(peer).await {
        Ok(http) => http,
        Err(reason) => return report.record(&format!("{} server starts", peer.as_str()), Err(reason)),
    };
    let stdio = setting.stdio_server(peer);
    let remote = json!({"url": http.url});
    let mut ways = vec![("stdio", stdio.clone(), peer.revision())];
    if peer.is_modern() {
        ways.push(("stdio, modern", with(stdio, "era", "modern"), MODERN));
        ways.push(("http, legacy", with(remote.clone(), "era", "legacy"), peer.revision()));
        ways.push(("http", remote, MODERN));
    } else {
        ways.push(("http", remote, peer.revision()));
    }
    for (way, entry, revision) in ways {
        let name = |what: &str| format!("{} server, {way}: {what}", peer.as_str());
        let before = descendants();
        let (toolkit, asked) = match load(entry).await {
            Ok(loaded) => loaded,
            Err(reason) => {
                report.record(&name("it loads"), Err(reason));
                continue;
            }
        };
        // That one serves the older era without sessions over HTTP, so it cannot ask there.
        let asks = peer.knows_elicitation() && (peer, way) != (Peer::Typescript, "http, legacy");
        let loaded = Loaded { peer, revision, asks, toolkit, asked };
        report.check(&name("what it says of itself"), introduction(&loaded)).await;
        report.check(&name("results"), results(&loaded)).await;
        report.check(&name("what it reports"), reports(&loaded)).await;
        report.check(&name("resources"), resources(&loaded)).await;
        if loaded.asks {
            report.check(&name("what it asks"), questions(&loaded)).await;
        }
        report.check(&name("its end"), end(loaded, &before)).await;
    }
}

fn with(mut entry: Value, key: &str, value: &str) -> Value {
    if let Some(entry) = entry.as_object_mut() {
        entry.insert(key.into(), value.into());
    }
    entry
}

/// A toolkit over the server, and what the server asks. The first question is answered, others are declined.
async fn load(entry: Value) -> Result<(Toolkit, Arc<Mutex<Vec<Request>>>), String> {
    let asked: Arc<Mutex<Vec<Request>>> = Arc::default();
    let kept = Arc::clone(&asked);
    let wait_for: WaitFor = Arc::new(move |request| {
        let mut asked = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = if asked.is_empty() {
            let data = json!({"name": "ada"}).as_object().cloned();
            Answer { id: request.id.clone(), ok: true, data, ..Default::default() }
        } else {
            answer_declined(&request.id, Some("declined"))
        };
        asked.push(request);
        Box::pin(async move { Ok(answer) })
    });
    let options = ToolkitOptions {
        mcp_config: Some(McpConfigInput::Value(json!({"mcpServers": {"peer": entry}}))),
        builtins: Some(BuiltinsConfig::off()),
        wait_for: Some(wait_for),
        ..Default::default()
    };
    let toolkit = create_toolkit(options).await.map_err(|error| error.to_string())?;
    match toolkit.errors().values().next() {
        Some(error) => Err(error.clone()),
        None => Ok((toolkit, asked)),
    }
}

async fn call(toolkit: &Toolkit, tool: &str, args: Value) -> Result<ToolResult, String> {
    call_with(toolkit, tool, args, ToolContext::default()).await
}

async fn call_with(
    toolkit: &Toolkit,
    tool: &str,
    args: Value,
    context: ToolContext,
) -> Result<ToolResult, String> {
    let tool = toolkit.get(&format!("peer_{tool}")).ok_or_else(|| format!("no tool {tool:?}"))?;
    Ok(tool.execute_with(args, context).await)
}

// MCP-37, MCP-41, MCP-34, MCP-117, MCP-118, MCP-119
async fn introduction(loaded: &Loaded) -> Outcome {
    let toolkit = &loaded.toolkit;
    let source = toolkit.mcp().ok_or("the toolkit has no MCP source")?;
    let server = source.connection("peer").ok_or("no connection")?;
    equal("revision", &server.protocol_version(), &Some(loaded.revision))?;
    let info = server.server_info().ok_or("no server info")?;
    equal("name", info.name.as_str(), "peer")?;
    equal("instructions", &info.instructions.as_deref(), &Some("Ask in English."))?;
    let mut names = vec!["peer_add", "peer_ask", "peer_fail", "peer_picture", "peer_work"];
    names.retain(|name| loaded.peer.knows_elicitation() || *name != "peer_ask");
    equal("tools", &toolkit.tools().iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), &names)?;
    let add = toolkit.get("peer_add").ok_or("no tool")?;
    equal("description", add.description.as_str(), "Adds two whole numbers")?;
    equal("required", &add.input_schema.get("required"), &Some(&json!(["a", "b"])))
}

// MCP-78, MCP-79, MCP-80, MCP-81, MCP-83
async fn results(loaded: &Loaded) -> Outcome {
    let toolkit = &loaded.toolkit;
    let sum = call(toolkit, "add", json!({"a": 1, "b": 2})).await?;
    equal("sum", sum.output.as_str(), r#"{"sum":3}"#)?;
    let structured = loaded.peer.knows_elicitation().then(|| json!({"sum": 3}));
    equal("structured", &sum.structured, &structured)?;
    let picture = call(toolkit, "picture", json!({})).await?;
    equal("text", picture.output.as_str(), "a pixel")?;
    equal("parts", &picture.parts, &vec![ContentPart::from_base64("image/png", PIXEL, None)])?;
    let failed = call(toolkit, "fail", json!({})).await?;
    holds(failed.is_error && failed.output.ends_with("out of order"), || format!("{failed:?}"))?;
    let refused = call(toolkit, "add", json!({"a": "one"})).await?;
    holds(refused.is_error, || format!("bad arguments: {refused:?}"))
}

// MCP-186
async fn reports(loaded: &Loaded) -> Outcome {
    let (reporter, reports) = report_channel();
    let context = ToolContext { reporter, ..Default::default() };
    let result = call_with(&loaded.toolkit, "work", json!({}), context).await?;
    equal("output", result.output.as_str(), "worked")?;
    let told = reports.take_waiting();
    let done = ToolReport::Progress { progress: 2.0, total: Some(2.0), message: Some("done".into()) };
    holds(told.contains(&done), || format!("progress: {told:?}"))?;
    // In the era without handshakes a client has to ask for logs, which this one does not.
    let line = ToolReport::Log { level: LogLevel::Info, message: "halfway".into(), dropped: 0 };
    equal("log", &told.contains(&line), &(loaded.revision != MODERN))
}

// MCP-103, MCP-105, MCP-106
async fn resources(loaded: &Loaded) -> Outcome {
    let source = loaded.toolkit.mcp().ok_or("no MCP source")?;
    let tools = resource_tools(&source);
    let [list, read] = tools.as_slice() else { return Err(format!("{} resource tools", tools.len())) };
    let listed: Value = serde_json::from_str(&list.execute(json!({})).await.output)
        .map_err(|error| format!("the list is no JSON: {error}"))?;
    let first = listed.get(0).and_then(|entry| Some((entry.get("uri")?, entry.get("server")?)));
    equal("listed", &first, &Some((&json!("note://one"), &json!("peer"))))?;
    let text = read.execute(json!({"server": "peer", "uri": "note://one"})).await;
    equal("text", text.output.as_str(), "first note")?;
    let none = read.execute(json!({"server": "peer", "uri": "note://none"})).await;
    holds(none.is_error, || format!("{none:?}"))
}

// MCP-93, MCP-94, MCP-97, MCP-102
async fn questions(loaded: &Loaded) -> Outcome {
    let answered = call(&loaded.toolkit, "ask", json!({})).await?;
    equal("answered", answered.output.as_str(), "hello ada")?;
    let declined = call(&loaded.toolkit, "ask", json!({})).await?;
    equal("declined", declined.output.as_str(), "decline")?;
    let asked = loaded.asked.lock().unwrap_or_else(PoisonError::into_inner);
    let [request, _] = asked.as_slice() else { return Err(format!("asked: {asked:?}")) };
    equal("kind", request.kind.as_str(), "input")?;
    equal("prompt", request.prompt.as_str(), "Who are you?")?;
    let schema = request.data.as_ref().and_then(|data| data.get("schema"));
    let kind = schema.and_then(|schema| schema.pointer("/properties/name/type"));
    equal("type", &kind, &Some(&json!("string")))
}

// MCP-74, MCP-75, MCP-76
async fn end(loaded: Loaded, before: &BTreeSet<u32>) -> Outcome {
    loaded.toolkit.close().await;
    let gone = || descendants().is_subset(before);
    holds(eventually(Duration::from_secs(5), gone).await, || "its process is still there".into())
}
