//! What becomes of children when their owner is killed, and when it is not.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{STUBBORN, gone, is_alive, numbers, sh};
use tokio::io::AsyncBufReadExt as _;
use toolnexus_process::{ChildExit, ChildProcess, Job};

/// In the environment of the process that plays the owner; its value is the part to play.
const OWNER: &str = "TOOLNEXUS_PROCESS_TEST_OWNER";

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

/// Plays the owner when it is asked to: starts children, tells their numbers, and waits to be killed.
#[tokio::test(flavor = "multi_thread")]
async fn owner() {
    let Some(part) = std::env::var_os(OWNER) else { return };
    let mut held = Vec::new();
    for _ in 0..3 {
        let (child, pipes) = ChildProcess::spawn(sh(STUBBORN), ()).unwrap();
        let mut lines = tokio::io::BufReader::new(pipes.stdout).lines();
        println!("family {}", lines.next_line().await.unwrap().unwrap());
        held.push((child, lines, pipes.stdin));
    }
    // One of them ends in good order: its number must not be killed later.
    let (child, ..) = held.remove(0);
    child.kill();
    child.view().gone().await;

    #[cfg(target_os = "linux")]
    if part == "without its guardian" {
        let guardians = guardians_of(std::process::id());
        for guardian in &guardians {
            rustix::process::kill_process(pid(*guardian), rustix::process::Signal::KILL).unwrap();
        }
        gone(guardians);
    }
    // After that: it is the next child that notices.
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = sh(STUBBORN);
    command.stdout(writer);
    let job = Job::start(command).unwrap();
    let mut lines = BufReader::new(reader).lines();
    println!("family {}", lines.next().unwrap().unwrap());
    #[cfg(target_os = "linux")]
    if part == "in good order" {
        let guardians = guardians_of(std::process::id());
        drop((job, held));
        // Nobody is left to guard. It stays for a moment, and is reaped.
        gone(guardians.iter().copied());
        while !guardians_of(std::process::id()).is_empty() || threads().contains("toolnexus-guard") {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The next child has one again.
        let job = Job::start(sh("exec sleep 600")).unwrap();
        assert_eq!(guardians_of(std::process::id()).intersection(&guardians).count(), 0);
        println!("ready");
        std::future::pending::<()>().await;
        drop(job);
        return;
    }
    println!("ready {part:?}");
    std::future::pending::<()>().await;
    drop(job);
}

/// The names of this process's threads.
#[cfg(target_os = "linux")]
fn threads() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default())
        .collect()
}

#[cfg(target_os = "linux")]
fn pid(number: u32) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(number.try_into().unwrap()).unwrap()
}

/// Lets an owner play a part until it is ready, and kills it. Its children live until then, or not.
#[cfg(target_os = "linux")]
fn nothing_is_left_of(part: &str, live: bool) {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["owner", "--exact", "--nocapture"])
        .env(OWNER, part)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut families = Vec::new();
    for line in BufReader::new(owner.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.starts_with("ready") {
            break;
        }
        families.extend(line.split_once("family ").map(|(_, family)| numbers(family)));
    }
    assert_eq!(families.len(), 4, "{families:?}");
    gone(families.remove(0));
    assert!(families.iter().flatten().all(|pid| is_alive(*pid) == live), "{families:?}");
    let guardians = guardians_of(owner.id());
    assert_eq!(guardians.len(), 1, "one guardian for all");

    owner.kill().unwrap();
    owner.wait().unwrap();
    gone(families.into_iter().flatten());
    gone(guardians);
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_owner_leaves_nothing_behind() {
    // MCP-75: killed whole, also when our own process is killed
    nothing_is_left_of("with its guardian", true);
}

#[cfg(target_os = "linux")]
#[test]
fn a_guardian_that_was_killed_has_a_successor_that_knows_everybody() {
    // MCP-75
    nothing_is_left_of("without its guardian", true);
}

#[cfg(target_os = "linux")]
#[test]
fn a_guardian_goes_when_there_is_nobody_to_guard() {
    nothing_is_left_of("in good order", false);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_guardian_serves_one_child_after_the_other() {
    let _held = Job::start(sh("exec sleep 600")).unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let (_job, mut exit) = Job::start(sh("exit 0")).unwrap();
        assert!(exit.wait().await.unwrap().success());
        seen.extend(guardians_of(std::process::id()));
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[tokio::test]
async fn dropping_a_child_kills_its_tree_and_reaps_it() {
    // MCP-75, MCP-77
    let (dropped, mut held) = tokio::sync::oneshot::channel::<()>();
    let (child, pipes) = ChildProcess::spawn(sh(STUBBORN), dropped).unwrap();
    let mut lines = tokio::io::BufReader::new(pipes.stdout).lines();
    let family = lines.next_line().await.unwrap().unwrap();
    assert!(held.try_recv().is_err());
    let view = child.view();
    assert!(!view.is_gone());
    drop(child);
    view.gone().await;
    assert_eq!(view.exit(), Some(ChildExit::Signal(9)));
    gone(numbers(&family));
    assert!(held.await.is_err(), "what was held is let go of");
}

#[tokio::test]
async fn what_a_child_leaves_behind_goes_with_it() {
    // MCP-75: a launcher that ends before its own child
    let command = sh("sleep 600 2>&- & echo $!; echo left >&2; exit 7");
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
