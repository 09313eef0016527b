//! The `bash` tool: what is told while a command runs.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
#[path = "common/processes.rs"]
mod processes;

use std::pin::pin;

use common::{Place, tool};
use futures::StreamExt as _;
use processes::appears;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{Reports, ToolContext, ToolReport, ToolResult, report_channel};

fn listened() -> (ToolContext, Reports) {
    let (reporter, reports) = report_channel();
    (ToolContext { reporter, ..Default::default() }, reports)
}

fn told(report: &ToolReport) -> (f64, Option<f64>, Option<&str>) {
    match report {
        ToolReport::Progress { progress, total, message } => (*progress, *total, message.as_deref()),
        other => panic!("{other:?}"),
    }
}

/// The result, and the last report.
async fn run(place: &Place, arguments: Value) -> (ToolResult, Option<ToolReport>) {
    let (context, reports) = listened();
    let result = tool(&place.config(), "bash").execute_with(arguments, context).await;
    let mut waiting = reports.take_waiting();
    assert!(waiting.len() <= 1, "only the newest waits");
    (result, waiting.pop())
}

// BUILTIN-103
#[tokio::test]
async fn bytes_and_the_newest_complete_line_are_told() {
    let place = Place::new();
    for (script, bytes, line) in [
        (r"printf 'one\ntwo\npart'", 12.0, Some("two")),
        (r"printf 'no line'", 7.0, None),
        (r"printf 'out\n'; printf 'err\n' >&2", 8.0, Some("err")),
        (r"printf 'a\tb\033[31mred\033[0m\r\n'", 17.0, Some("abred")),
        (r"printf 'said\n\n\n'; exit 3", 7.0, Some("said")),
        (r"printf '\377\n'", 2.0, Some("\u{fffd}")),
    ] {
        let (_, report) = run(&place, json!({"command": script})).await;
        assert_eq!(told(&report.unwrap()), (bytes, None, line), "{script}");
    }
    let (_, silent) = run(&place, json!({"command": "true"})).await;
    assert_eq!(silent, None);
}

// BUILTIN-103: at most 200 characters
#[tokio::test]
async fn a_long_line_is_told_by_its_start() {
    let place = Place::new();
    place.write("long", "日".repeat(100_000) + "\n");
    let (result, report) = run(&place, json!({"command": "cat long"})).await;
    assert_eq!(result.output.len(), 300_001, "the result has it all");
    assert_eq!(told(&report.unwrap()), (300_001.0, None, Some("日".repeat(200).as_str())));
}

// BUILTIN-103: of all output, also of that which is cut from the result
#[tokio::test]
async fn bytes_that_are_cut_count() {
    let place = Place::new();
    let command = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end";
    let (result, report) = run(&place, json!({"command": command})).await;
    std::fs::remove_file(common::facts(&result)["outputFile"].as_str().unwrap()).unwrap();
    assert_eq!(told(&report.unwrap()), (3_000_005.0, None, Some("end")));
}

// BUILTIN-103: while the command runs, and not when it has ended
#[tokio::test]
async fn progress_comes_while_the_command_runs() {
    let place = Place::new();
    let (context, mut reports) = listened();
    let bash = tool(&place.config(), "bash");
    let wait = |n: u8| format!("while [ ! -e go{n} ]; do sleep 0.01; done");
    let command = format!("echo first; {}; echo second; {}; echo third", wait(1), wait(2));
    let mut call = pin!(bash.execute_with(json!({"command": command}), context));
    for (go, expected) in [("go1", (6.0, None, Some("first"))), ("go2", (13.0, None, Some("second")))] {
        tokio::select! {
            result = &mut call => panic!("ended: {}", result.output),
            report = reports.next() => assert_eq!(told(&report.unwrap()), expected),
        }
        place.write(go, "");
    }
    assert_eq!(call.await.output, "first\nsecond\nthird\n");
    assert_eq!(told(&reports.take_waiting()[0]), (19.0, None, Some("third")));
}

// BUILTIN-103: also of a call that does not come to its end
#[tokio::test]
async fn the_last_report_of_a_cancelled_call_has_everything() {
    let place = Place::new();
    let (context, reports) = listened();
    let context = ToolContext { cancel: CancellationToken::new(), ..context };
    let cancel = context.cancel.clone();
    let bash = tool(&place.config(), "bash");
    let command = json!({"command": "echo one; echo two; touch there; sleep 600"});
    let (result, ()) = tokio::join!(bash.execute_with(command, context), async {
        appears(&place, "there").await;
        cancel.cancel();
    });
    assert_eq!(result.output, "bash: command cancelled\none\ntwo\n");
    assert_eq!(told(&reports.take_waiting()[0]), (8.0, None, Some("two")));
}

// BUILTIN-103: a reporter changes nothing, whether or not anybody takes the reports
#[tokio::test]
async fn a_reporter_does_not_change_a_result() {
    let place = Place::new();
    let bash = tool(&place.config(), "bash");
    for command in
        ["printf 'a\\nb'", "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done", "echo x; exit 4"]
    {
        let plain = bash.execute(json!({"command": command})).await;
        let (taken, mut reports) = listened();
        let mut running = pin!(bash.execute_with(json!({"command": command}), taken));
        let result = loop {
            tokio::select! {
                result = &mut running => break result,
                Some(_) = reports.next() => {}
            }
        };
        assert_eq!(result, plain);
        let (ignored, reports) = listened();
        assert_eq!(bash.execute_with(json!({"command": command}), ignored).await, plain);
        assert_eq!(reports.take_waiting().len(), 1);
        let (deaf, reports) = listened();
        drop(reports);
        assert_eq!(bash.execute_with(json!({"command": command}), deaf).await, plain);
    }
}
