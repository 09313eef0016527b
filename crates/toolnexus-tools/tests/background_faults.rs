//! Background shells whose readers, owners and runtimes go away, and that do not want to end.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
#[path = "common/processes.rs"]
mod processes;
#[path = "common/shells.rs"]
mod shells;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use common::{call, facts, tool};
use processes::{alive, appears, assert_gone, read_pid, reaped, started, started_in};
use serde_json::json;
use shells::{Shells, pause, start};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{ToolContext, Toolkit};
use toolnexus_tools::{BackgroundShells, builtin_toolkit};

const STUBBORN: &str = "trap '' TERM; (trap '' TERM; sleep 600) & echo $$ > pid; while :; do wait; done";

/// Says when it was asked to end, and ends when the file `go` is there.
const ASKED: &str = "trap 'touch asked; while [ ! -e go ]; do sleep 0.01; done; echo bye; exit 0' TERM; \
                     echo $$ > pid; while :; do sleep 0.01; done";

/// A grace that no test waits for.
const LONG: u64 = 600_000;

/// Polls once; whether the future is pending.
async fn is_pending(future: &mut Pin<&mut impl Future>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

// BUILTIN-93: dropping the call does not keep the shell from ending, and loses none of its output
#[tokio::test]
async fn a_dropped_kill_goes_on() {
    let shells = Shells::new();
    let id = start(&shells.with_grace(LONG), ASKED).await;
    let group = started(&shells.place).await;
    let kill_shell = tool(&shells.config(), "kill_shell");
    {
        let mut killing = pin!(kill_shell.execute(json!({"id": id})));
        tokio::select! {
            result = &mut killing => panic!("ended: {}", result.output),
            () = appears(&shells.place, "asked") => {}
        }
    }
    assert!(alive(group), "it has its grace");
    assert_eq!(shells.read(&id).await.1["status"], "running");
    shells.place.write("go", "");
    let (printed, end) = shells.until_ended(&id).await;
    assert!(printed.ends_with("bye\n"), "{printed}");
    assert_eq!(end["status"], "killed");
    assert!(!alive(group) && reaped(group));
}

// BUILTIN-19, BUILTIN-93: a cancelled call returns, and the shell ends
#[tokio::test]
async fn a_cancelled_kill_goes_on() {
    let shells = Shells::new();
    let id = start(&shells.with_grace(LONG), ASKED).await;
    started(&shells.place).await;
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let kill_shell = tool(&shells.config(), "kill_shell");
    let (result, ()) = tokio::join!(kill_shell.execute_with(json!({"id": id}), context), async {
        appears(&shells.place, "asked").await;
        cancel.cancel();
    });
    assert_eq!((result.output.as_str(), result.is_error), ("kill_shell: cancelled", true));
    shells.place.write("go", "");
    assert_eq!(shells.until_ended(&id).await.1["status"], "killed");
}

// BUILTIN-93: two callers end one shell; both are told that they did
#[tokio::test]
async fn two_kills_of_one_shell_are_one() {
    let shells = Shells::new();
    let id = start(&shells.with_grace(LONG), ASKED).await;
    started(&shells.place).await;
    let (result, killed, ()) =
        tokio::join!(shells.call("kill_shell", json!({"id": id})), shells.registry.kill(&id), async {
            appears(&shells.place, "asked").await;
            shells.place.write("go", "");
        });
    assert_eq!((facts(&result), killed), (json!({"killed": true}), true));
    assert_eq!(shells.read(&id).await.1["status"], "killed");
}

// BUILTIN-90: a call of bash_output that is dropped before it did anything takes nothing along
#[tokio::test]
async fn a_dropped_read_loses_nothing() {
    let shells = Shells::new();
    shells.run("printf all").await;
    while shells.registry.list()[0].running {
        pause().await;
    }
    let bash_output = tool(&shells.config(), "bash_output");
    drop(bash_output.execute(json!({"id": "bg1"})));
    // Once polled, it is done: there is no moment in between at which it could be dropped.
    let mut reading = pin!(bash_output.execute(json!({"id": "bg1"})));
    let result = std::future::poll_fn(|context| match reading.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => panic!("waits"),
    })
    .await;
    assert_eq!(result.output, "all\n[status: exited with code 0]");
}

// BUILTIN-91, BUILTIN-93: a shell that ends by itself while something of it is still there
#[tokio::test]
async fn killing_what_is_left_of_an_exited_shell_is_no_kill() {
    let shells = Shells::new();
    // The shell is gone, a child of it holds the pipe: for half a second its status is not final.
    let command = "sh -c 'trap \"\" TERM; echo $$ > child; exec sleep 600' & echo $$ > pid; exit 6";
    let id = start(&shells.with_grace(50), command).await;
    let group = started(&shells.place).await;
    started_in(&shells.place, "child").await;
    while !reaped(group) {
        pause().await;
    }
    let result = shells.call("kill_shell", json!({"id": id})).await;
    assert_eq!(result.output, "Background shell bg1 already finished (exited with code 6)");
    assert_eq!(facts(&result)["killed"], false);
    assert!(!alive(group));
}

// BUILTIN-95: side by side. Each ends only when all have been asked
#[tokio::test]
async fn closing_asks_all_before_it_waits() {
    let shells = Shells::new();
    for n in 1..=3 {
        let command = format!(
            "trap 'touch asked{n}; while [ ! -e asked1 -o ! -e asked2 -o ! -e asked3 ]; do sleep 0.01; done; exit 0' TERM; \
             echo $$ > pid{n}; while :; do sleep 0.01; done"
        );
        start(&shells.with_grace(LONG), &command).await;
        started_in(&shells.place, &format!("pid{n}")).await;
    }
    // Twice at once, too.
    tokio::join!(shells.registry.close_all(), shells.registry.close_all());
    let codes: Vec<_> =
        shells.registry.list().into_iter().map(|info| (info.killed, info.exit_code)).collect();
    assert_eq!(codes, [(true, Some(0)); 3]);
}

// BUILTIN-95, BUILTIN-36
#[tokio::test]
async fn closing_kills_what_ignores_the_request() {
    let shells = Shells::new();
    start(&shells.with_grace(20), STUBBORN).await;
    let group = started(&shells.place).await;
    shells.registry.close_all().await;
    assert!(!alive(group));
}

// BUILTIN-95: nothing slips in while it closes
#[tokio::test]
async fn nothing_starts_while_shells_are_being_closed() {
    let shells = Shells::new();
    let id = start(&shells.with_grace(LONG), ASKED).await;
    started(&shells.place).await;
    {
        let mut closing = pin!(shells.registry.close_all());
        assert!(is_pending(&mut closing).await);
        let result = shells.call("bash", json!({"command": "touch ran", "run_in_background": true})).await;
        assert_eq!(result.output, "bash: background shells are closed");
        assert!(is_pending(&mut closing).await, "it waits for the shell");
        // Dropping it does not keep the shell from ending.
    }
    shells.place.write("go", "");
    assert_eq!(shells.until_ended(&id).await.1["status"], "killed");
    assert!(!shells.place.path().join("ran").exists());
}

// BUILTIN-95: whichever comes first, a start or a close, nothing runs in the end
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn starts_and_a_close_race_and_nothing_is_left() {
    let shells = Arc::new(Shells::new());
    let starts: Vec<_> = (0..12)
        .map(|_| {
            let shells = Arc::clone(&shells);
            tokio::spawn(async move {
                let arguments = json!({"command": "exec sleep 600", "run_in_background": true});
                shells.call("bash", arguments).await
            })
        })
        .collect();
    tokio::task::yield_now().await;
    shells.registry.close_all().await;
    let mut begun = 0;
    for call in starts {
        let result = call.await.unwrap();
        match result.is_error {
            true => assert_eq!(result.output, "bash: background shells are closed"),
            false => begun += 1,
        }
    }
    // A start that came before the close has been closed by it.
    let list = shells.registry.list();
    assert_eq!(list.len(), begun);
    assert!(list.iter().all(|info| info.killed && !info.running));
}

// BUILTIN-95: the last handle is that of whoever holds on longest, tools and toolkits included
#[tokio::test]
async fn the_last_handle_takes_the_shells_along() {
    let shells = Shells::new();
    start(&shells.with_grace(LONG), STUBBORN).await;
    let group = started(&shells.place).await;
    let toolkit: Toolkit = builtin_toolkit(Some(&shells.config())).unwrap();
    let tool = tool(&shells.config(), "bash");
    let Shells { place, registry } = shells;
    drop(registry);
    drop(tool);
    assert!(alive(group), "the toolkit still has it");
    let read = toolkit.execute("bash_output", json!({"id": "bg1"})).await;
    assert_eq!(read.output, "\n[status: running]");
    drop(toolkit);
    assert_gone(group);
    // Its task needs a turn for that.
    while !reaped(group) {
        pause().await;
    }
    drop(place);
}

// BUILTIN-95: a runtime that ends takes along what was started on it, and nobody waits for that in vain
#[test]
fn a_runtime_that_ends_takes_its_shells_along() {
    let shells = Shells::new();
    let first = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    first.block_on(start(&shells.with_grace(LONG), STUBBORN));
    let group = read_pid(&shells.place.path().join("pid"));
    assert!(alive(group));
    drop(first);
    assert_gone(group);
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    second.block_on(async {
        shells.registry.close_all().await;
        assert_eq!(shells.read("bg1").await.1["status"], "killed");
    });
}

// BUILTIN-95: a runtime that stands still cannot hold a close on another one for ever
#[test]
fn a_runtime_that_stands_still_does_not_hold_a_close() {
    let shells = Shells::new();
    let first = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    first.block_on(start(&shells.with_grace(0), STUBBORN));
    let group = read_pid(&shells.place.path().join("pid"));
    let second =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    second.block_on(shells.registry.close_all());
    assert_gone(group);
    let info = shells.registry.list().remove(0);
    assert!(info.killed && !info.running);
    drop(first);
}

// BUILTIN-96: a command that prints without end exhausts nothing, and still can be read and ended
#[tokio::test]
async fn endless_output_is_bounded() {
    let shells = Shells::new();
    let id = start(&shells.with_grace(50), "trap '' TERM; echo $$ > pid; yes").await;
    let group = started(&shells.place).await;
    let begun = Instant::now();
    let mut dropped = false;
    while !dropped {
        let (printed, end) = shells.read(&id).await;
        assert_eq!(end["status"], "running");
        assert!(printed.len() <= 1024 * 1024 + 60, "{}", printed.len());
        dropped = printed.starts_with("[… ") && printed.contains(" bytes dropped]\n");
        assert!(begun.elapsed() < Duration::from_secs(60));
        pause().await;
        pause().await;
    }
    assert!(shells.registry.kill(&id).await);
    assert!(!alive(group));
}

// BUILTIN-92, BUILTIN-38: a child that left the group, and prints for ever, holds nobody
#[tokio::test]
async fn a_child_that_left_the_group_does_not_hold_the_status() {
    let shells = Shells::new();
    let command = "setsid sh -c 'echo $$ > pid; exec yes' & while [ ! -s pid ]; do sleep 0.01; done; echo first; exit 2";
    let id = shells.run(command).await;
    let left = started(&shells.place).await;
    let (_, end) = shells.until_ended(&id).await;
    assert_eq!(end["exitCode"], 2);
    // The reader has gone, so it ends at its next word; no later output appears.
    assert_eq!(shells.read(&id).await.0, "");
    let _ = rustix::process::kill_process(left, rustix::process::Signal::KILL);
    assert_gone(left);
}

// BUILTIN-31: a command that closes its output goes on
#[tokio::test]
async fn a_shell_without_output_still_runs() {
    let shells = Shells::new();
    let id = shells.run("echo last; exec >&- 2>&-; while [ ! -e go ]; do sleep 0.01; done; exit 9").await;
    shells.until_printed(&id, "last\n").await;
    assert_eq!(shells.read(&id).await.1["status"], "running");
    shells.place.write("go", "");
    let (printed, end) = shells.until_ended(&id).await;
    assert_eq!((printed.as_str(), &end["exitCode"]), ("", &json!(9)));
}

// BUILTIN-89, BUILTIN-95: many shells, started and ended side by side by several toolkits
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_shells_do_not_get_mixed_up() {
    let shells = Arc::new(Shells::new());
    let workers: Vec<_> = (0..12)
        .map(|n| {
            let shells = Arc::clone(&shells);
            tokio::spawn(async move {
                for round in 0..4 {
                    let id = start(&shells.config(), &format!("echo {n} {round}; exit {n}")).await;
                    let (printed, end) = shells.until_ended(&id).await;
                    assert_eq!((printed, &end["exitCode"]), (format!("{n} {round}\n"), &json!(n)));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let ids: std::collections::BTreeSet<String> =
        shells.registry.list().into_iter().map(|info| info.id).collect();
    assert_eq!(ids.len(), 48);
}

// BUILTIN-95
#[tokio::test]
async fn an_empty_registry_closes_at_once() {
    let registry = BackgroundShells::new();
    let mut closing = pin!(registry.close_all());
    assert!(!is_pending(&mut closing).await);
    assert_eq!(registry.list(), []);
    let config =
        toolnexus_tools::BuiltinsConfig { background: Some(Arc::clone(&registry)), ..Default::default() };
    let result = call(&config, "bash", json!({"command": "true", "run_in_background": true})).await;
    assert_eq!(result.output, "bash: background shells are closed");
}
