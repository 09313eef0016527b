//! What becomes of commands when this process is killed and can do nothing any more.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
#[path = "common/processes.rs"]
mod processes;

use std::process::{Command, Stdio};

use common::{Place, call};
use processes::{alive, assert_gone, read_pid};
use serde_json::json;
use toolnexus_tools::{BackgroundShells, BuiltinsConfig};

/// In the environment of the process that plays the host; its value is the directory to work in.
const HOST: &str = "TOOLNEXUS_TOOLS_TEST_HOST";

/// Plays the host when it is asked to: runs two commands, one in the background, and waits for the
/// first.
#[tokio::test]
async fn host() {
    let Some(base_dir) = std::env::var_os(HOST) else { return };
    let config = BuiltinsConfig {
        base_dir: Some(base_dir.into()),
        background: Some(BackgroundShells::new()),
        ..Default::default()
    };
    let behind =
        json!({"command": "sleep 600 & echo $$ > behind; exec sleep 600", "run_in_background": true});
    assert!(!call(&config, "bash", behind).await.is_error);
    call(&config, "bash", json!({"command": "trap '' TERM HUP; sleep 600 & echo $$ > before; sleep 600"}))
        .await;
}

// BUILTIN-36, BUILTIN-37, BUILTIN-95: nothing is left of a host that is killed
#[test]
fn a_killed_host_leaves_no_command_behind() {
    let place = Place::new();
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["host", "--exact"])
        .env(HOST, place.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let groups = ["before", "behind"].map(|file| read_pid(&place.path().join(file)));
    assert!(groups.into_iter().all(alive));
    host.kill().unwrap();
    host.wait().unwrap();
    groups.into_iter().for_each(assert_gone);
}
