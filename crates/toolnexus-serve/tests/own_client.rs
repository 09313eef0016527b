//! This workspace's own MCP client against a served toolkit: both directions of tools, progress, logs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value, json};
use support::{echo, mcp, served, soon, tool};
use tokio::sync::Semaphore;
use toolnexus_core::{
    ContentPart, Tool, ToolContext, ToolHints, ToolReport, ToolResult, Toolkit, report_channel,
};
use toolnexus_mcp::{McpConfigInput, McpSource, load_mcp, parse_mcp_config};
use toolnexus_serve::{ServeHandle, ServeOptions};

/// The tools of a served toolkit, for a document entry with these keys more.
async fn loaded(server: &ServeHandle, more: Value) -> McpSource {
    let mut entry = json!({"url": format!("{}/mcp", server.url)});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let document = json!({"mcpServers": {"peer": entry}});
    let source = load_mcp(&parse_mcp_config(&McpConfigInput::Value(document)).unwrap()).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

fn named<'a>(source: &'a McpSource, name: &str) -> &'a Tool {
    source.tools.iter().find(|tool| tool.name == name).unwrap()
}

// MCP-118, MCP-151, case 84: the same tools with the server's prefix, whatever the era that is tried
#[tokio::test]
async fn a_served_toolkit_is_loaded_like_any_server() {
    let schema = json!({"properties": {"text": {"type": "string"}}, "type": "object", "x-a": 1});
    let fails = Tool::new("calc.fail", |_args, _context| async { Err::<(), _>("no beans") })
        .hints(ToolHints::default());
    let server = served([echo().input_schema(schema.clone()).description("Echoes"), fails], mcp()).await;
    for era in ["legacy", "auto"] {
        let source = loaded(&server, json!({ "era": era })).await;
        let names: Vec<&str> = source.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["peer_calc_fail", "peer_echo"]);
        let tool = named(&source, "peer_echo");
        assert_eq!((tool.description.as_str(), &tool.input_schema), ("Echoes", &schema));
        let connection = source.connection("peer").unwrap();
        assert_eq!(connection.protocol_version(), Some("2025-11-25"));
        assert_eq!(connection.server_info().unwrap().name, "toolnexus");
        assert_eq!(tool.execute(json!({"text": "hi"})).await.output, "hi");
        let failed = named(&source, "peer_calc_fail").execute(json!({})).await;
        assert_eq!((failed.output.as_str(), failed.is_error), ("no beans", true));
        source.close().await;
    }
    server.stop().await;
}

// MCP-118, MCP-151: also where another revision is configured
#[tokio::test]
async fn a_configured_revision_is_accepted() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let mut options = mcp();
        options.mcp.as_mut().unwrap().protocol_version = revision.into();
        let server = served([echo()], options).await;
        let source = loaded(&server, json!({"era": "legacy"})).await;
        assert_eq!(source.connection("peer").unwrap().protocol_version(), Some(revision));
        assert_eq!(named(&source, "peer_echo").execute(json!({"text": "hi"})).await.output, "hi");
    }
}

// MCP-152, MCP-83: parts arrive as they left
#[tokio::test]
async fn parts_come_through() {
    let parts = vec![
        ContentPart::from_base64("image/png", "iVBORw==", None),
        ContentPart::from_base64("application/pdf", "AAAA", Some("plan.pdf".into())),
        ContentPart::from_link("text/plain", "https://example.com/a.txt", Some("a.txt".into())),
    ];
    let sent = parts.clone();
    let media = tool("media", move |_| {
        let result = ToolResult::success("see").with_parts(sent.clone());
        async move { result }
    });
    let server = served([media], mcp()).await;
    let source = loaded(&server, json!({})).await;
    let result = named(&source, "peer_media").execute(json!({})).await;
    assert_eq!((result.output.as_str(), result.parts), ("see", parts));
}

// MCP-188, MCP-186, CORE-140: progress on both ends of the same call, while it goes on
#[tokio::test]
async fn progress_reaches_the_caller_while_the_tool_works() {
    let gate = Arc::new(Semaphore::new(0));
    let passed = Arc::clone(&gate);
    let work = tool("work", move |context| {
        let gate = Arc::clone(&passed);
        async move {
            for step in [1.0, 2.0] {
                gate.acquire().await.unwrap().forget();
                context.progress(step, Some(2.0), Some("working"));
            }
            gate.acquire().await.unwrap().forget();
            ToolResult::success("done")
        }
    });
    let server = served([work], mcp()).await;
    let source = loaded(&server, json!({})).await;
    let (reporter, mut reports) = report_channel();
    let context = ToolContext { reporter, ..Default::default() };
    let call = named(&source, "peer_work").execute_with(json!({}), context);
    tokio::pin!(call);
    for step in [1.0, 2.0] {
        gate.add_permits(1);
        let report = soon(async {
            tokio::select! {
                result = &mut call => panic!("answered before report {step}: {result:?}"),
                report = reports.next() => report.unwrap(),
            }
        })
        .await;
        let message = Some("working".to_owned());
        assert_eq!(report, ToolReport::Progress { progress: step, total: Some(2.0), message });
    }
    gate.add_permits(1);
    assert_eq!(soon(call).await.output, "done");
}

// MCP-90, MCP-152: a cancel here is a cancel there
#[tokio::test]
async fn a_cancelled_call_is_cancelled_on_the_other_side() {
    let (begun, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let hangs = tool("hangs", move |context| {
        begun.send(context.cancel).unwrap();
        std::future::pending()
    });
    let server = served([hangs], mcp()).await;
    let source = loaded(&server, json!({})).await;
    let context = ToolContext::default();
    let cancel = context.cancel.clone();
    let call = tokio::spawn({
        let tool = named(&source, "peer_hangs").clone();
        async move { tool.execute_with(json!({}), context).await }
    });
    let there = soon(tokens.recv()).await.unwrap();
    cancel.cancel();
    assert!(soon(call).await.unwrap().is_error);
    soon(there.cancelled()).await;
}

// MCP-148, MCP-158: a toolkit that lends what it has borrowed
#[tokio::test]
async fn tools_pass_through_two_servers() {
    let inner = served([echo()], mcp()).await;
    let borrowed = loaded(&inner, json!({})).await;
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    let options = ServeOptions {
        on_call: Some(Arc::new(move |event| noted.lock().unwrap().push((event.name, event.source)))),
        ..mcp()
    };
    let outer = Toolkit::from_tools(borrowed.tools.clone()).serve("0", options).await.unwrap();
    let source = loaded(&outer, json!({})).await;
    assert_eq!(named(&source, "peer_peer_echo").execute(json!({"text": "hi"})).await.output, "hi");
    assert_eq!(*told.lock().unwrap(), [("peer_echo".to_owned(), toolnexus_core::ToolSource::Mcp)]);
}
