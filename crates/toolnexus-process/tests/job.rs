//! Jobs: asked to end, killed, dropped, and what is left of them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::io::{BufRead as _, BufReader, PipeReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use common::{STUBBORN, gone, is_alive, numbers, sh};
use toolnexus_process::{Exit, Job};

const LONG: Duration = Duration::from_secs(600);

/// A job and what it prints, after its first line: what that says, in numbers.
async fn started(script: &str) -> (Job, Exit, BufReader<PipeReader>, Vec<u32>) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = sh(script);
    command.stdout(writer);
    let (job, exit) = Job::start(command).unwrap();
    let (reader, line) = tokio::task::spawn_blocking(move || {
        let (mut reader, mut line) = (BufReader::new(reader), String::new());
        reader.read_line(&mut line).unwrap();
        (reader, line)
    })
    .await
    .unwrap();
    (job, exit, reader, numbers(&line))
}

// BUILTIN-36
#[tokio::test]
async fn a_job_that_is_asked_to_end_may_clean_up() {
    let script = "trap 'echo bye; exit 3' TERM; echo $$; while :; do sleep 0.01; done";
    let (job, mut exit, mut output, _) = started(script).await;
    assert!(job.end(LONG).await);
    assert_eq!(exit.wait().await.unwrap().code(), Some(3));
    let mut said = String::new();
    // The end of the output too: nobody holds the pipe, this process included.
    output.read_to_string(&mut said).unwrap();
    assert!(said.ends_with("bye\n"), "{said}");
    assert!(!job.end(LONG).await, "nobody is there to be asked");
}

// BUILTIN-36
#[tokio::test]
async fn what_ignores_the_request_is_killed_with_its_children_when_the_grace_is_over() {
    let (job, mut exit, _output, family) = started(STUBBORN).await;
    assert!(job.end(Duration::ZERO).await);
    assert!(!family.iter().any(|pid| is_alive(*pid)), "gone when `end` returns");
    assert_eq!(exit.wait().await.unwrap().signal(), Some(9));
    assert_eq!(exit.wait().await.unwrap().signal(), Some(9), "the answer stays the same");
    assert!(!std::path::Path::new(&format!("/proc/{}", family[0])).exists(), "it is reaped");
}

// BUILTIN-36: every member, not only the leader
#[tokio::test]
async fn a_job_lasts_as_long_as_its_members() {
    let (job, mut exit, _output, family) = started("sleep 600 & echo $!; exit 0").await;
    assert!(exit.wait().await.unwrap().success());
    assert!(is_alive(family[0]));
    assert!(job.end(LONG).await);
    assert!(!is_alive(family[0]));
}

// BUILTIN-36: asking and waiting go side by side
#[tokio::test]
async fn the_exit_is_told_while_the_job_is_being_ended() {
    let (job, mut exit, _output, _) = started("echo $$; exec sleep 600").await;
    let (asked, status) = tokio::join!(job.end(LONG), exit.wait());
    assert_eq!((asked, status.unwrap().signal()), (true, Some(15)));
}

// BUILTIN-36: whoever sees the end first tells the others
#[tokio::test]
async fn the_exit_is_told_when_a_kill_meets_a_command_that_has_just_ended() {
    let (job, mut exit, _output, family) = started("echo $$; exec sleep 600").await;
    let waiting = tokio::spawn(async move { exit.wait().await.unwrap().signal() });
    tokio::task::yield_now().await;
    let leader = rustix::process::Pid::from_raw(family[0].cast_signed()).unwrap();
    rustix::process::kill_process(leader, rustix::process::Signal::KILL).unwrap();
    // The runtime hears nothing of it meanwhile: this is its only thread.
    while is_alive(family[0]) {
        std::thread::yield_now();
    }
    job.kill();
    let told = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert_eq!(told.unwrap().unwrap(), Some(9));
}

// BUILTIN-37
#[tokio::test]
async fn a_dropped_job_is_killed_whole() {
    let (job, exit, _output, family) = started(STUBBORN).await;
    drop(exit);
    assert!(family.iter().all(|pid| is_alive(*pid)), "nobody needs to wait for it");
    drop(job);
    gone(family);

    let (job, mut exit, _output, family) = started(STUBBORN).await;
    drop(job);
    assert_eq!(exit.wait().await.unwrap().signal(), Some(9));
    gone(family);
}

// BUILTIN-37: also in the grace
#[tokio::test]
async fn a_job_dropped_while_it_is_being_ended_is_killed() {
    let (job, _exit, _output, family) = started(STUBBORN).await;
    let mut ending = Box::pin(job.end(LONG));
    assert!(is_pending(&mut ending).await);
    drop(ending);
    assert!(family.iter().all(|pid| is_alive(*pid)));
    drop(job);
    gone(family);
}

/// Polls once; whether the future is pending.
async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
    })
    .await
}

#[tokio::test]
async fn killing_is_safe_at_any_time() {
    let (job, mut exit, _output, family) = started(STUBBORN).await;
    job.kill();
    job.kill();
    assert_eq!(exit.wait().await.unwrap().signal(), Some(9));
    gone(family);
    job.kill();
    assert!(!job.end(LONG).await);
    job.kill();
}

#[tokio::test]
async fn what_cannot_be_started_is_an_error() {
    let error = Job::start(tokio::process::Command::new("no-such-program")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
