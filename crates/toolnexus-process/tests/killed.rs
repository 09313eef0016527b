//! What becomes of children when their owner is killed, and when it is not.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::AsyncBufReadExt as _;
use toolnexus_process::{ChildExit, ChildProcess};

/// In the environment of the process that plays the owner.
const OWNER: &str = "TOOLNEXUS_PROCESS_TEST_OWNER";

/// A server that takes no notice of anything but SIGKILL, with a child of its own. Tells both
/// numbers.
const STUBBORN: &str = "trap '' HUP INT TERM; sleep 600 & echo $$ $!; while :; do wait; sleep 1; done";

fn stubborn() -> tokio::process::Command {
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", STUBBORN]);
    command
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn gone(pids: impl IntoIterator<Item = u32>) {
    let end = Instant::now() + Duration::from_secs(10);
    for pid in pids {
        while is_alive(pid) {
            assert!(Instant::now() < end, "process {pid} is still alive");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The shells that guard this process's children.
#[cfg(target_os = "linux")]
fn guardians_of(owner: u32) -> BTreeSet<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == Some(owner) && command.ends_with("toolnexus-guardian\0")
    })
    .collect()
}

/// Plays the owner when it is asked to: starts three children, tells their numbers, and waits to be
/// killed.
#[tokio::test(flavor = "multi_thread")]
async fn owner() {
    if std::env::var_os(OWNER).is_none() {
        return;
    }
    let mut held = Vec::new();
    for _ in 0..3 {
        let (child, pipes) = ChildProcess::spawn(stubborn(), ()).unwrap();
        let mut lines = tokio::io::BufReader::new(pipes.stdout).lines();
        println!("family {}", lines.next_line().await.unwrap().unwrap());
        held.push((child, lines, pipes.stdin));
    }
    // One of them ends in good order: its number must not be killed later.
    let (child, ..) = held.remove(0);
    child.kill();
    child.view().gone().await;
    println!("ready");
    std::future::pending::<()>().await;
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_owner_leaves_nothing_behind() {
    // MCP-75: killed whole, also when our own process is killed
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["owner", "--exact", "--nocapture"])
        .env(OWNER, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut families = Vec::new();
    for line in BufReader::new(owner.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.ends_with("ready") {
            break;
        }
        if let Some((_, numbers)) = line.split_once("family ") {
            families.push(numbers.split(' ').map(|n| n.parse::<u32>().unwrap()).collect::<Vec<_>>());
        }
    }
    assert_eq!(families.len(), 3, "{families:?}");
    gone(families.remove(0));
    assert!(families.iter().flatten().all(|pid| is_alive(*pid)), "{families:?}");
    let guardians = guardians_of(owner.id());
    assert_eq!(guardians.len(), 1, "one guardian for all");

    owner.kill().unwrap();
    owner.wait().unwrap();
    gone(families.into_iter().flatten());
    gone(guardians);
}

#[tokio::test]
async fn dropping_a_child_kills_its_tree_and_reaps_it() {
    // MCP-75, MCP-77
    let (dropped, mut held) = tokio::sync::oneshot::channel::<()>();
    let (child, pipes) = ChildProcess::spawn(stubborn(), dropped).unwrap();
    let mut lines = tokio::io::BufReader::new(pipes.stdout).lines();
    let family = lines.next_line().await.unwrap().unwrap();
    assert!(held.try_recv().is_err());
    let view = child.view();
    assert!(!view.is_gone());
    drop(child);
    view.gone().await;
    assert_eq!(view.exit(), Some(ChildExit::Signal(9)));
    gone(family.split(' ').map(|n| n.parse::<u32>().unwrap()));
    assert!(held.await.is_err(), "what was held is let go of");
}

#[tokio::test]
async fn what_a_child_leaves_behind_goes_with_it() {
    // MCP-75: a launcher that ends before its own child
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", "sleep 600 2>&- & echo $!; echo left >&2; exit 7"]);
    let (child, pipes) = ChildProcess::spawn(command, ()).unwrap();
    let mut lines = tokio::io::BufReader::new(pipes.stdout).lines();
    let left: u32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    assert_eq!(child.view().ended(Duration::from_secs(10)).await, Some(ChildExit::Code(7)));
    assert_eq!(child.view().stderr(), ["left"]);
    gone([left]);
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_an_error() {
    let error = ChildProcess::spawn(tokio::process::Command::new("no-such-program"), ()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
