//! What a tool tells while it works, and how it asks.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use toolnexus_core::{
    Answer, BoxError, LogLevel, Suspended, Tool, ToolContext, ToolReport, ToolResult, answer_declined,
    define_tool, pending_of, report_channel,
};

fn progress(progress: f64, total: Option<f64>, message: Option<&str>) -> ToolReport {
    ToolReport::Progress { progress, total, message: message.map(str::to_owned) }
}

// CORE-140: nobody listens
#[test]
fn reports_without_a_listener_are_nothing() {
    let context = ToolContext::default();
    assert!(!context.reporter.is_heard());
    context.progress(1.0, None, Some("x"));
    context.log(LogLevel::Emergency, "x");

    let (reporter, reports) = report_channel();
    let context = ToolContext { reporter, ..Default::default() };
    assert!(context.reporter.is_heard());
    drop(reports);
    assert!(!context.reporter.is_heard());
    context.progress(1.0, None, None);
    context.log(LogLevel::Debug, "x");
}

// CORE-140: the newest progress and the newest 64 lines wait; the next line says what was dropped
#[test]
fn what_nobody_takes_is_bounded() {
    let (reporter, reports) = report_channel();
    let context = ToolContext { reporter, ..Default::default() };
    for line in 0..100 {
        context.log(LogLevel::Info, format!("line {line}"));
        context.progress(f64::from(line), Some(100.0), None);
    }
    let waiting = reports.take_waiting();
    assert_eq!(waiting.len(), 65);
    let log = |line: u32, dropped| ToolReport::Log {
        level: LogLevel::Info,
        message: format!("line {line}"),
        dropped,
    };
    assert_eq!(waiting[0], log(36, 36));
    assert_eq!(waiting[1], log(37, 0));
    assert_eq!(waiting[63], log(99, 0));
    assert_eq!(waiting[64], progress(99.0, Some(100.0), None));

    // The count starts again once it was told.
    context.log(LogLevel::Info, "line 100");
    assert_eq!(reports.take_waiting(), [log(100, 0)]);
}

// CORE-140: numbers that no wire carries
#[test]
fn progress_is_a_finite_number() {
    let (reporter, reports) = report_channel();
    reporter.progress(f64::NAN, None, None);
    reporter.progress(f64::INFINITY, None, None);
    assert_eq!(reports.take_waiting(), []);
    reporter.progress(1.0, Some(f64::NAN), None);
    assert_eq!(reports.take_waiting(), [progress(1.0, None, None)]);
}

// CORE-140: a listener is woken, and what is unsent when the tool returns is still there
#[tokio::test]
async fn a_listener_hears_reports_as_they_come() {
    let (reporter, mut reports) = report_channel();
    assert_eq!(reports.next().now_or_never(), None);
    let (told, heard) = tokio::join!(
        async {
            tokio::task::yield_now().await;
            reporter.progress(1.0, None, Some("a"));
            reporter.log(LogLevel::Notice, "b");
        },
        reports.next()
    );
    let () = told;
    assert_eq!(heard, Some(progress(1.0, None, Some("a"))));
    drop(reporter);
    let left = [ToolReport::Log { level: LogLevel::Notice, message: "b".into(), dropped: 0 }];
    assert_eq!(reports.take_waiting(), left);
}

// CORE-140: the eight levels of MCP
#[test]
fn levels_are_those_of_mcp() {
    let spelled: Vec<_> = LogLevel::ALL.iter().map(|level| serde_json::to_value(level).unwrap()).collect();
    let mcp = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    assert_eq!(json!(spelled), json!(mcp));
    assert!(LogLevel::ALL.is_sorted());
    for (level, name) in LogLevel::ALL.into_iter().zip(mcp) {
        assert_eq!((name.parse(), level.to_string()), (Ok(level), name.to_owned()));
    }
    let error = "loud".parse::<LogLevel>().unwrap_err().to_string();
    assert!(error.starts_with("unknown log level \"loud\": use debug, "), "{error}");
}

fn weather() -> Tool {
    define_tool("weather", "", None, |_args: Value, context: ToolContext| async move {
        let answer = context.elicit("Which city?", json!({"type": "object"})).await?;
        if !answer.ok {
            return Ok(format!("refused: {}", answer.reason.unwrap_or_default()));
        }
        Ok::<_, BoxError>(format!("sunny in {}", answer.data.unwrap()["city"].as_str().unwrap()))
    })
}

fn rome(id: String) -> Answer {
    let data = json!({"city": "Rome"}).as_object().cloned();
    Answer { id, ok: true, data, ..Default::default() }
}

// CORE-141, case 71
#[tokio::test]
async fn a_question_suspends_the_tool_until_it_is_answered() {
    let result = weather().execute(json!({})).await;
    let request = pending_of(&result).unwrap();
    assert_eq!((request.kind.as_str(), request.prompt.as_str()), ("input", "Which city?"));
    assert_eq!(request.data.unwrap()["schema"], json!({"type": "object"}));
    assert!(request.id.starts_with("sus-"));
    assert!(result.is_error);
    assert_eq!(result.output, "Which city?");

    let context = ToolContext { answer: Some(rome(request.id)), ..Default::default() };
    assert_eq!(weather().execute_with(json!({}), context).await, ToolResult::success("sunny in Rome"));
}

// CORE-141: a caller that can be asked is asked inline; its refusal is an answer
#[tokio::test]
async fn a_caller_that_can_be_asked_is_asked_inline() {
    let answering = |answer: fn(String) -> Result<Answer, BoxError>| ToolContext {
        ask: Some(Arc::new(move |request| Box::pin(async move { answer(request.id) }))),
        ..Default::default()
    };
    let result = weather().execute_with(json!({}), answering(|id| Ok(rome(id)))).await;
    assert_eq!(result, ToolResult::success("sunny in Rome"));
    let declined = answering(|id| Ok(answer_declined(id, Some("not now"))));
    assert_eq!(weather().execute_with(json!({}), declined).await.output, "refused: not now");
    // Nobody there after all: an ordinary suspension.
    let result = weather().execute_with(json!({}), answering(|_| Err("gone".into()))).await;
    assert_eq!(pending_of(&result).unwrap().prompt, "Which city?");
}

#[derive(Debug, thiserror::Error)]
#[error("could not look it up")]
struct Wrapped(#[source] Suspended);

// CORE-141: bare and boxed
#[tokio::test]
async fn the_error_suspends_however_it_is_carried() {
    async fn asked<E: std::fmt::Display + Send + 'static>(wrap: fn(Suspended) -> E) -> ToolResult {
        let tool = define_tool("t", "", None, move |_args: Value, context: ToolContext| async move {
            context.elicit("?", json!({})).await.map(|_| ()).map_err(wrap)
        });
        tool.execute(json!({})).await
    }
    for result in [
        asked(|error| error).await,
        asked(Box::new).await,
        asked(|error| -> BoxError { error.into() }).await,
        asked(|error| -> Box<dyn std::error::Error + Send> { Box::new(error) }).await,
        asked(|error| -> BoxError { Wrapped(error).into() }).await,
    ] {
        assert_eq!(pending_of(&result).unwrap().prompt, "?");
    }
    let other = asked(|_| "other").await;
    assert_eq!((pending_of(&other), other.output.as_str()), (None, "other"));
}
