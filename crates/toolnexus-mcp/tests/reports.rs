//! What a server tells while it works on a call: progress and log lines, at the caller's reporter.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod support;

use futures::StreamExt as _;
use serde_json::{Value, json};
use support::{servers, stdio, tool};
use toolnexus_core::{LogLevel, Reports, ToolContext, ToolReport, ToolResult, report_channel};
use toolnexus_mcp::{McpSource, load_mcp};
use toolnexus_testkit::mcp::{FixtureTool, HttpOptions, McpFixture, McpHttpFixture, Step};

fn progress(progress: f64, total: Option<f64>, message: Option<&str>) -> ToolReport {
    ToolReport::Progress { progress, total, message: message.map(str::to_owned) }
}

fn log(level: LogLevel, message: &str) -> ToolReport {
    ToolReport::Log { level, message: message.into(), dropped: 0 }
}

fn step(progress: f64, message: &str) -> Step {
    Step::Progress { progress, total: Some(2.0), message: Some(message.into()) }
}

fn line(params: Value) -> Step {
    Step::notify("notifications/message", params)
}

/// A tool that reports, logs, and answers.
fn worker() -> FixtureTool {
    FixtureTool::scripted(
        "work",
        [
            line(json!({"level": "warning", "logger": "fixture", "data": "cache is cold"})),
            step(1.0, "half"),
            line(json!({"level": "info", "data": {"rows": [1, 2]}})),
            Step::text("done"),
        ],
    )
}

async fn loaded(entry: Value) -> McpSource {
    let source = load_mcp(&servers(json!({ "docs": entry }))).await;
    assert!(source.errors.is_empty(), "{:?}", source.errors);
    source
}

fn listening() -> (ToolContext, Reports) {
    let (reporter, reports) = report_channel();
    (ToolContext { reporter, ..Default::default() }, reports)
}

/// A call's result and all that was told on the way.
async fn worked(source: &McpSource, name: &str) -> (ToolResult, Vec<ToolReport>) {
    let (context, reports) = listening();
    let result = tool(source, name).execute_with(json!({}), context).await;
    (result, reports.take_waiting())
}

// MCP-186, CORE-140: over every wire; nothing of it is kept for the result
#[tokio::test]
async fn progress_and_log_lines_of_a_call_are_forwarded() {
    let told = [
        log(LogLevel::Warning, "cache is cold"),
        progress(1.0, Some(2.0), Some("half")),
        log(LogLevel::Info, r#"{"rows":[1,2]}"#),
    ];
    let stdio = loaded(stdio(&McpFixture::new().tool(worker()), json!({}))).await;
    let (result, reports) = worked(&stdio, "docs_work").await;
    assert_eq!((result.output.as_str(), &reports[..]), ("done", &told[..]));
    assert!(!serde_json::to_string(&result).unwrap().contains("cache"));

    let options = HttpOptions::default();
    let server = McpHttpFixture::start(McpFixture::new().tool(worker()), options).await.unwrap();
    let http = loaded(server.server_json()).await;
    let (result, reports) = worked(&http, "docs_work").await;
    assert_eq!((result.output.as_str(), &reports[..]), ("done", &told[..]));

    // Nobody listens: nothing changes.
    assert_eq!(tool(&http, "docs_work").execute(json!({})).await.output, "done");
}

// MCP-186: reports arrive while the call goes on
#[tokio::test]
async fn progress_arrives_before_the_answer() {
    let fixture = McpFixture::new()
        .tool(FixtureTool::driven_progress("drive", 2, "go"))
        .tool(FixtureTool::opens_gate("open", "go"));
    let source = loaded(stdio(&fixture, json!({}))).await;
    let (context, mut reports) = listening();
    let call = tool(&source, "docs_drive").execute_with(json!({}), context);
    tokio::pin!(call);
    for number in [1.0, 2.0] {
        tool(&source, "docs_open").execute(json!({})).await;
        let report = tokio::select! {
            result = &mut call => panic!("answered before report {number}: {result:?}"),
            report = reports.next() => report.unwrap(),
        };
        assert_eq!(report, progress(number, Some(2.0), None));
    }
    tool(&source, "docs_open").execute(json!({})).await;
    assert_eq!(call.await.output, "done");
}
