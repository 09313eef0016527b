//! A thousand toolkit builds over a server that never answers, each given up, leave nothing.
//!
//! The only test of its file: it counts the descriptors and children of its own process.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is a test's failure report"
)]
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolnexus::{Error, McpConfigInput, ToolkitOptions, create_toolkit};
use toolnexus_testkit::mcp::McpFixture;

const BUILDS: usize = 1000;
const AT_ONCE: usize = 25;

/// Every process below this one, by pid.
fn descendants() -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold anything; the parent is the second field after it.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![std::process::id()];
    let mut at = 0;
    while at < found.len() {
        let above = found[at];
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
        at += 1;
    }
    found.remove(0);
    found
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until nothing is left, for a bounded time: the kernel needs a moment to reap.
fn settles(what: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if what() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// One build, given up after `patience`: by its token, or by dropping its future.
async fn build(options: ToolkitOptions, patience: Duration, by_token: bool) {
    if by_token {
        let cancel = CancellationToken::new();
        let options = ToolkitOptions { cancel: Some(cancel.clone()), ..options };
        let (built, ()) = tokio::join!(create_toolkit(options), async {
            tokio::time::sleep(patience).await;
            cancel.cancel();
        });
        assert!(matches!(built, Err(Error::Cancelled)), "{built:?}");
    } else {
        let built = tokio::time::timeout(patience, create_toolkit(options)).await;
        assert!(built.is_err(), "a server that never answers was built: {built:?}");
    }
}

// MCP-57, MCP-58, CORE-57. The 20 ms are the point of the test: builds are given up wherever they
// happen to be, before the spawn, during the handshake, while the child is still starting.
#[test]
fn a_thousand_builds_given_up_leave_no_process_and_no_descriptor() {
    let mut document = McpFixture::new().never_answers("initialize").mcp_json("hangs").unwrap();
    document["mcpServers"]["sleeps"] = json!({"command": ["sleep", "600"]});
    document["mcpServers"]["forks"] = json!({"command": ["sh", "-c", "sleep 600 & sleep 600"]});
    let options = ToolkitOptions { mcp_config: Some(McpConfigInput::Value(document)), ..Default::default() };

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // What the runtime itself opens is open from here on.
    runtime.block_on(build(options.clone(), Duration::from_millis(20), true));
    assert!(settles(|| descendants().is_empty()), "after one build: {:?}", descendants());
    let descriptors = open_descriptors();

    runtime.block_on(async {
        for round in 0..BUILDS / AT_ONCE {
            let builds = (0..AT_ONCE).map(|n| {
                // From nothing to 40 ms, 20 ms in the middle.
                let patience = Duration::from_millis(((round * AT_ONCE + n) % 41) as u64);
                build(options.clone(), patience, n % 2 == 0)
            });
            futures::future::join_all(builds).await;
        }
    });
    assert!(settles(|| descendants().is_empty()), "left running: {:?}", descendants());
    assert!(
        settles(|| open_descriptors() <= descriptors),
        "{} descriptors before, {} after",
        descriptors,
        open_descriptors()
    );
    let tasks = runtime.metrics().num_alive_tasks();
    assert!(settles(|| runtime.metrics().num_alive_tasks() == 0), "{tasks} tasks are alive");
}
