//! What is left when background shells have ended: nothing. One test in a program of its own, as it
//! counts what the whole process holds.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
#[path = "common/shells.rs"]
mod shells;

use std::collections::BTreeSet;

use serde_json::json;
use shells::{Shells, start};

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The children of this process, the dead included, without the guardian.
fn children() -> BTreeSet<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == Some(std::process::id()) && !command.contains("toolnexus-guardian")
    };
    pids.filter(is_child).collect()
}

// BUILTIN-95, BUILTIN-93, BUILTIN-37
#[test]
fn shells_leave_no_task_no_file_and_no_process() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // The guardian goes a moment after the last child: this one keeps it, so that there is always one.
        let mut command = tokio::process::Command::new("sleep");
        command.arg("600");
        let (_keeps_the_guardian, _exit) = toolnexus_process::Job::start(command).unwrap();
        // What the first call sets up once (the watch over children) stays.
        let first = Shells::new();
        assert!(!first.call("bash", json!({"command": "true"})).await.is_error);
        first.run("sleep 600").await;
        first.registry.close_all().await;
        drop(first);
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = (open_files(), children(), tasks());
        assert_eq!((before.1.len(), before.2), (1, 0));

        let shells = Shells::new();
        for n in 0..12 {
            let id = shells.run("echo said; sleep 600 & exec sleep 600").await;
            match n % 4 {
                0 => assert!(shells.registry.kill(&id).await),
                // Asked for, and not waited for.
                1 => drop(tokio::time::timeout(std::time::Duration::ZERO, shells.registry.kill(&id)).await),
                2 => shells.until_printed(&id, "said\n").await,
                _ => {}
            }
        }
        start(&shells.with_grace(20), "trap '' TERM; while :; do wait; sleep 0.01; done").await;
        shells.run("exit 3").await;
        assert!(shells.call("bash", json!({"command": "exit 3"})).await.is_error);
        shells.registry.close_all().await;
        // The registry is still there and remembers them; they hold nothing any more.
        assert_eq!(shells.registry.list().len(), 14);
        while tasks() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!((open_files(), children(), tasks()), before);

        // And with nobody to close it.
        let dropped = Shells::new();
        for _ in 0..4 {
            dropped.run("sleep 600 & exec sleep 600").await;
        }
        drop(dropped);
        while tasks() > 0 {
            tokio::task::yield_now().await;
        }
        while children() != before.1 {
            shells::pause().await;
        }
        assert_eq!((open_files(), children(), tasks()), before);
    });
}
