//! What `grep` and `glob` have in common: when they end, and what they must not wait for.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::path::Path;

use common::{Place, call, limited, tool};
use futures::StreamExt as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{ToolContext, ToolReport, ToolResult, report_channel};
use toolnexus_tools::{BuiltinLimits, BuiltinsConfig};

/// A file that no search comes to the end of while a test waits. It takes no room on the disk.
fn endless() -> Place {
    let place = Place::new();
    place.write("endless", vec![b'x'; 8192]);
    let file = std::fs::OpenOptions::new().write(true).open(place.path().join("endless")).unwrap();
    file.set_len(1 << 42).unwrap();
    place
}

/// A runtime that waits for every thread of its calls when it is dropped.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

// BUILTIN-19: within one file, and no thread goes on
#[test]
fn a_search_ends_within_a_file_when_it_is_cancelled() {
    let (place, runtime) = (endless(), runtime());
    runtime.block_on(async {
        let (reporter, mut reports) = report_channel();
        let cancel = CancellationToken::new();
        let context = ToolContext { cancel: cancel.clone(), reporter, ..Default::default() };
        let grep = tool(&place.config(), "grep");
        let cancelling = async {
            // It has begun when it says so.
            while !matches!(reports.next().await, Some(ToolReport::Progress { progress: 1.0, .. })) {}
            cancel.cancel();
        };
        let (result, ()) = tokio::join!(grep.execute_with(json!({"pattern": "never"}), context), cancelling);
        assert_eq!(result, ToolResult::failure("grep: cancelled"));
    });
    drop(runtime);
}

// BUILTIN-19: a call that nobody waits for any more leaves nothing behind
#[test]
fn a_search_ends_within_a_file_when_it_is_dropped() {
    let (place, runtime) = (endless(), runtime());
    runtime.block_on(async {
        let (reporter, mut reports) = report_channel();
        let context = ToolContext { reporter, ..Default::default() };
        let grep = tool(&place.config(), "grep");
        let mut searching = Box::pin(grep.execute_with(json!({"pattern": "never"}), context));
        let begun = async {
            while !matches!(reports.next().await, Some(ToolReport::Progress { progress: 1.0, .. })) {}
        };
        tokio::select! {
            result = &mut searching => panic!("there was an end: {result:?}"),
            () = begun => {}
        }
        drop(searching);
    });
    drop(runtime);
}

// BUILTIN-106, BUILTIN-102, BUILTIN-99
#[test]
fn a_search_past_its_time_is_an_error_and_no_partial_list() {
    let (place, runtime) = (endless(), runtime());
    place.write("a", "needle\n");
    let limits = BuiltinLimits { search_ms: 2, ..Default::default() };
    let brief = BuiltinsConfig { limits, ..place.config() };
    runtime.block_on(async {
        let result = call(&brief, "grep", json!({"pattern": "needle"})).await;
        assert_eq!(result, ToolResult::failure("grep: timed out after 2ms; narrow path or pattern"));
        let grep = tool(&place.config(), "grep");
        let result = grep.execute_with(json!({"pattern": "needle"}), limited(1)).await;
        assert_eq!(result, ToolResult::failure("grep: timed out after 1ms; narrow path or pattern"));
    });
    drop(runtime);
}

// BUILTIN-55, BUILTIN-66: a tree cannot make a search wait through the files that say what is ignored
#[cfg(unix)]
#[tokio::test]
async fn rules_that_would_never_end_are_not_read() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let place = Place::new();
    place
        .write("a", "x")
        .write("fifo/b", "x")
        .write("zero/c", "x")
        .write("sub/.gitignore", "d\n")
        .write("sub/d", "x");
    let fifo = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    fifo(&place.path().join("fifo/.gitignore"));
    std::os::unix::fs::symlink("/dev/zero", place.path().join("zero/.ignore")).unwrap();
    let config = BuiltinsConfig { respect_gitignore: true, ..place.config() };
    let listed = call(&config, "glob", json!({"pattern": "*"})).await;
    assert_eq!(listed.output, "a\nsub/.gitignore", "such a directory is one that cannot be read");
    let found = call(&config, "grep", json!({"pattern": "x"})).await;
    assert_eq!(found.output, "a:1:x");
    for path in ["fifo", "fifo/b"] {
        let named = call(&config, "grep", json!({"pattern": "x", "path": path})).await;
        if path == "fifo" {
            assert_eq!(named, ToolResult::failure("grep: .gitignore is not a regular file"));
        } else {
            assert_eq!(named.output, "b:1:x", "a file that is named is not ignored");
        }
    }
    std::fs::create_dir(place.path().join("fifo/deep")).unwrap();
    let below = call(&config, "glob", json!({"pattern": "x", "path": "fifo/deep"})).await;
    assert_eq!(below, ToolResult::failure("glob: ../.gitignore is not a regular file"));
    let without = place.call("glob", json!({"pattern": "*"})).await;
    assert_eq!(without.output, "a\nfifo/b\nsub/.gitignore\nsub/d\nzero/c");
}

// BUILTIN-27, BUILTIN-55: whoever moves links while a confined search goes on gains nothing
#[cfg(unix)]
#[test]
fn a_link_that_comes_and_goes_leads_nowhere() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (place, outside, runtime) = (Place::new(), Place::new(), runtime());
    for file in 0..40 {
        place.write(&format!("sub/deep/file{file}"), "inside\n");
        outside
            .write(&format!("deep/file{file}"), "outside\n")
            .write(&format!("deep/secret{file}"), "outside\n");
    }
    std::os::unix::fs::symlink(outside.path(), place.path().join("link")).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let at = |name: &str| place.path().join(name);
            let rename = |from: &str, to: &str| std::fs::rename(at(from), at(to)).unwrap();
            while !over.load(Ordering::Relaxed) {
                rename("sub", "was");
                rename("link", "sub");
                std::thread::yield_now();
                rename("sub", "link");
                rename("was", "sub");
            }
        });
        let search = |tool: &str, path: &str| {
            let arguments = match tool {
                "grep" => json!({"pattern": "side", "path": path, "limit": 1000}),
                _ => json!({"pattern": "*", "path": path, "limit": 1000}),
            };
            runtime.block_on(call(&place.confined(), tool, arguments)).output
        };
        let outputs: Vec<String> = (0..60)
            .flat_map(|_| [("grep", ""), ("grep", "sub"), ("glob", ""), ("glob", "sub")])
            .map(|(tool, path)| search(tool, path))
            .collect();
        over.store(true, Ordering::Relaxed);
        // While it is away, it is away; anything else is inside.
        for output in outputs {
            assert!(!output.contains(":outside") && !output.contains("secret"), "{output}");
        }
    });
}

// BUILTIN-12: the message starts with the name of the tool, also where the system gives it
#[tokio::test]
async fn failures_start_with_the_name_of_the_tool() {
    let place = Place::new();
    let long = "x".repeat(5000);
    for name in ["grep", "glob"] {
        let result = place.call(name, json!({"pattern": "x", "path": long})).await;
        assert!(
            result.is_error && result.output.starts_with(&format!("{name}: {long}: ")),
            "{}",
            result.output
        );
    }
}
