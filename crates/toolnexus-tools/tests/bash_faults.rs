//! The `bash` tool against commands that do not want to end.
//!
//! Where a test turns on time, the clock stands still until the command has done its part (a file
//! it leaves says so) and then runs ahead.

#![cfg(unix)]
// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;
#[path = "common/processes.rs"]
mod processes;

use std::time::{Duration, Instant};

use common::{Place, call, facts, limited, tool, wait_until};
use processes::{alive, appears, assert_gone, read_pid, reaped, started, started_in};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolnexus_core::{ToolContext, ToolResult};
use toolnexus_tools::{BackgroundShells, BuiltinLimits, BuiltinsConfig};

fn grace(place: &Place, kill_grace_ms: u64) -> BuiltinsConfig {
    BuiltinsConfig { kill_grace_ms: Some(kill_grace_ms), ..place.config() }
}

fn failed(result: &ToolResult) -> &str {
    assert!(result.is_error);
    &result.output
}

// BUILTIN-34, BUILTIN-36: case 26
#[tokio::test(start_paused = true)]
async fn past_its_time_a_command_is_ended_and_its_output_kept() {
    let place = Place::new();
    let arguments = json!({"command": "echo x; echo $$ > pid; sleep 600", "timeout": 200});
    let (result, group) = tokio::join!(place.call("bash", arguments), started(&place));
    assert_eq!(failed(&result), "bash: command timed out after 200ms\nx\n");
    assert_eq!(facts(&result), json!({"timedOut": true, "killedTree": true, "shell": "sh -c"}));
    assert_gone(group);
}

// BUILTIN-36: case 27
#[tokio::test(start_paused = true)]
async fn what_ignores_the_request_is_killed_with_all_its_children() {
    let place = Place::new();
    let command = "trap '' TERM; sleep 600 & (sleep 600 & sleep 600) & echo $$ > pid; wait";
    let bash = tool(&grace(&place, 100), "bash");
    let (result, group) =
        tokio::join!(bash.execute(json!({"command": command, "timeout": 100})), started(&place));
    assert_eq!(failed(&result), "bash: command timed out after 100ms\n");
    assert_gone(group);
}

// BUILTIN-36: the call lasts no longer than its time, the grace and a little
#[tokio::test]
async fn a_stubborn_command_does_not_hold_the_call() {
    let place = Place::new();
    let start = Instant::now();
    let command = "trap '' TERM; sleep 600 & echo $$ > pid; wait";
    let result = call(&grace(&place, 50), "bash", json!({"command": command, "timeout": 300})).await;
    assert!(result.is_error);
    assert!(start.elapsed() < Duration::from_secs(10), "took {:?}", start.elapsed());
    if place.path().join("pid").exists() {
        // When the call returns, the group is gone; nothing is left to wait for.
        assert!(!alive(read_pid(&place.path().join("pid"))));
    }
}

// BUILTIN-36: the grace is for saying goodbye
#[tokio::test]
async fn a_command_that_is_asked_to_end_may_clean_up() {
    let place = Place::new();
    let command = "trap 'echo bye; touch cleaned; exit 0' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let bash = tool(&grace(&place, 20_000), "bash");
    let (result, group) = tokio::join!(bash.execute_with(json!({"command": command}), context), async {
        let group = started(&place).await;
        cancel.cancel();
        group
    });
    // The shell may report the end of its `sleep` before.
    let output = failed(&result);
    assert!(output.starts_with("bash: command cancelled\n") && output.ends_with("bye\n"), "{output}");
    assert!(place.path().join("cleaned").exists());
    assert!(!alive(group));
}

// BUILTIN-35: what a command says last is heard, also when its end is seen first
#[tokio::test]
async fn the_last_words_of_a_command_are_heard() {
    let place = Place::new();
    let command = "trap ': > asked; while [ ! -e go ]; do :; done; echo bye; exit 0' TERM; \
                   echo $$ > pid; while :; do :; done";
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let bash = tool(&grace(&place, 600_000), "bash");
    let (result, ()) = tokio::join!(bash.execute_with(json!({"command": command}), context), async {
        let group = started(&place).await;
        cancel.cancel();
        appears(&place, "asked").await;
        place.write("go", "");
        // It holds the only thread, so that nobody reads until the command has gone.
        assert_gone(group);
    });
    assert_eq!(failed(&result), "bash: command cancelled\nbye\n");
}

// BUILTIN-36: every member has the grace, not only the shell
#[tokio::test]
async fn a_child_that_outlives_its_shell_may_clean_up() {
    let place = Place::new();
    place.write(
        "child.sh",
        "trap 'touch asked; while [ ! -e go ]; do sleep 0.01; done; echo bye; exit 0' TERM\n\
         echo $$ > child\nwhile :; do sleep 0.01; done\n",
    );
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let bash = tool(&grace(&place, 600_000), "bash");
    let command = json!({"command": "sh child.sh 2>/dev/null & echo $$ > pid; wait"});
    let (result, group) = tokio::join!(bash.execute_with(command, context), async {
        let group = started(&place).await;
        started_in(&place, "child").await;
        cancel.cancel();
        appears(&place, "asked").await;
        tokio::task::spawn_blocking(move || wait_until("the shell ends", || reaped(group))).await.unwrap();
        assert!(alive(group), "its child still does");
        place.write("go", "");
        group
    });
    assert_eq!(failed(&result), "bash: command cancelled\nbye\n");
    assert!(!alive(group));
}

// BUILTIN-36, BUILTIN-93: two seconds when nobody says otherwise, in the foreground and behind it
#[tokio::test(start_paused = true)]
async fn the_grace_is_two_seconds() {
    let place = Place::new();
    let stubborn = "trap '' TERM; echo $$ > pid; while :; do sleep 600 & wait; done";
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let bash = tool(&place.config(), "bash");
    let (result, asked) = tokio::join!(bash.execute_with(json!({"command": stubborn}), context), async {
        started(&place).await;
        cancel.cancel();
        tokio::time::Instant::now()
    });
    assert_eq!(failed(&result), "bash: command cancelled\n");
    // The clock of the test jumps; beyond the grace there are a second for the kill and the last words.
    let expected = Duration::from_millis(2000)..Duration::from_millis(3300);
    assert!(expected.contains(&asked.elapsed()), "{:?}", asked.elapsed());

    std::fs::remove_file(place.path().join("pid")).unwrap();
    let registry = BackgroundShells::new();
    let config = BuiltinsConfig { background: Some(registry.clone()), ..place.config() };
    call(&config, "bash", json!({"command": stubborn, "run_in_background": true})).await;
    started(&place).await;
    let asked = tokio::time::Instant::now();
    assert!(registry.kill("bg1").await);
    let expected = Duration::from_millis(2000)..Duration::from_millis(3400);
    assert!(expected.contains(&asked.elapsed()), "{:?}", asked.elapsed());
}

// BUILTIN-36: a grace without end is one
#[tokio::test]
async fn the_longest_grace_is_no_failure() {
    let place = Place::new();
    let command = json!({"command": "sleep 600 & echo $$ > pid; echo hi"});
    let result = call(&grace(&place, u64::MAX), "bash", command).await;
    assert_eq!((result.output.as_str(), result.is_error), ("hi\n", false));
    assert!(!alive(read_pid(&place.path().join("pid"))));
}

// BUILTIN-35, BUILTIN-19, BUILTIN-36
#[tokio::test]
async fn a_cancelled_command_is_ended_and_its_output_kept() {
    let place = Place::new();
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let arguments = json!({"command": "echo so far; sleep 600 & echo $$ > pid; wait"});
    let bash = tool(&place.config(), "bash");
    let (result, group) = tokio::join!(bash.execute_with(arguments, context), async {
        let group = started(&place).await;
        cancel.cancel();
        group
    });
    assert_eq!(failed(&result), "bash: command cancelled\nso far\n");
    assert_eq!(facts(&result), json!({"timedOut": false, "killedTree": true, "shell": "sh -c"}));
    assert!(!alive(group));
    assert!(reaped(group));
}

// BUILTIN-37
#[tokio::test]
async fn a_dropped_call_leaves_nothing_behind() {
    let place = Place::new();
    let command = "trap '' TERM; (trap '' TERM; sleep 600) & sleep 600 & echo $$ > pid; wait";
    let bash = tool(&place.config(), "bash");
    let mut call = Box::pin(bash.execute(json!({"command": command})));
    let group = tokio::select! {
        result = &mut call => panic!("ended: {}", result.output),
        group = started(&place) => group,
    };
    assert!(alive(group));
    drop(call);
    assert_gone(group);
}

// BUILTIN-37: also while the group is being ended
#[tokio::test]
async fn a_call_dropped_in_the_grace_leaves_nothing_behind() {
    let place = Place::new();
    let cancel = CancellationToken::new();
    let context = ToolContext { cancel: cancel.clone(), ..Default::default() };
    let command = "trap 'touch asked' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let bash = tool(&grace(&place, 600_000), "bash");
    let mut call = Box::pin(bash.execute_with(json!({"command": command}), context));
    let asked = place.path().join("asked");
    let group = tokio::select! {
        result = &mut call => panic!("ended: {}", result.output),
        group = async {
            let group = started(&place).await;
            cancel.cancel();
            tokio::task::spawn_blocking(move || wait_until("it is asked to end", || asked.exists())).await.unwrap();
            group
        } => group,
    };
    assert!(alive(group));
    drop(call);
    assert_gone(group);
}

// BUILTIN-37: a task that is aborted, a runtime that ends
#[test]
fn a_runtime_that_ends_leaves_nothing_behind() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let bash = tool(&place.config(), "bash");
    let command = json!({"command": "trap '' TERM; sleep 600 & echo $$ > pid; wait"});
    runtime.spawn(async move { bash.execute(command).await });
    let group = read_pid(&place.path().join("pid"));
    assert!(alive(group));
    drop(runtime);
    assert_gone(group);
}

// BUILTIN-38
#[tokio::test]
async fn a_child_that_holds_the_pipe_does_not_hold_the_call() {
    let place = Place::new();
    let start = Instant::now();
    let result = place.call("bash", json!({"command": "sleep 600 & echo $$ > pid; echo hi"})).await;
    assert_eq!((result.output.as_str(), facts(&result)), ("hi\n", json!({"exitCode": 0, "shell": "sh -c"})));
    assert!(start.elapsed() < Duration::from_secs(30), "took {:?}", start.elapsed());
    assert!(!alive(read_pid(&place.path().join("pid"))));
}

// BUILTIN-38: half a second
#[tokio::test(start_paused = true)]
async fn the_pipe_is_read_for_half_a_second() {
    let place = Place::new();
    let (result, ended) =
        tokio::join!(place.call("bash", json!({"command": "echo hi; sleep 600 & echo $$ > pid"})), async {
            let shell = started(&place).await;
            tokio::task::spawn_blocking(move || wait_until("the shell ends", || reaped(shell)))
                .await
                .unwrap();
            tokio::time::Instant::now()
        });
    assert_eq!((result.output.as_str(), result.is_error), ("hi\n", false));
    // After it the child has its grace; the clock of the test jumps.
    let expected = Duration::from_millis(500)..Duration::from_millis(3700);
    assert!(expected.contains(&ended.elapsed()), "{:?}", ended.elapsed());
}

// BUILTIN-38: a child that let go of the pipe is ended as well
#[tokio::test]
async fn what_outlives_the_shell_is_ended() {
    let place = Place::new();
    let command = "sleep 600 >/dev/null 2>&1 & echo $$ > pid; exit 4";
    let result = place.call("bash", json!({"command": command})).await;
    assert_eq!(failed(&result), "\nbash: command exited with code 4");
    assert!(!alive(read_pid(&place.path().join("pid"))));
}

// BUILTIN-38: what a child says soon after the shell has ended is still heard
#[tokio::test(start_paused = true)]
async fn late_output_is_read_to_its_end() {
    let place = Place::new();
    // The clock stands still until the child has spoken.
    let command = "(while kill -0 $$ 2>/dev/null; do :; done; echo late; touch said) & echo first";
    let (result, ()) = tokio::join!(place.call("bash", json!({"command": command})), appears(&place, "said"));
    assert_eq!(result.output, "first\nlate\n");
}

// BUILTIN-38: a child that left the group is out of reach, and still does not hold the call
#[tokio::test]
async fn a_child_that_left_the_group_does_not_hold_the_call() {
    let place = Place::new();
    let command =
        "setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01; done; echo hi";
    let result = place.call("bash", json!({"command": command})).await;
    assert_eq!(result.output, "hi\n");
    let left = read_pid(&place.path().join("pid"));
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
}

/// The most memory this process has had, in KiB.
#[cfg(target_os = "linux")]
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

// BUILTIN-100: a command that prints without end exhausts neither memory nor disk
#[cfg(target_os = "linux")]
#[tokio::test]
async fn endless_output_is_bounded() {
    let place = Place::new();
    let limits = BuiltinLimits { bash_bytes: 4096, bash_spill_bytes: 8192, ..Default::default() };
    let config = BuiltinsConfig { limits, ..place.config() };
    let before = peak_memory();
    // 400 MB, which is far more than may be kept, and a number to check.
    let command = "head -c 400000000 /dev/zero | tr '\\0' y";
    let result = call(&config, "bash", json!({"command": command, "timeout": 600_000})).await;
    assert!(!result.is_error, "{}", result.output);
    let file = facts(&result)["outputFile"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 8192);
    std::fs::remove_file(&file).unwrap();
    let half = "y".repeat(2048);
    let cut = format!("\n[… 399995904 bytes omitted; first 8192 bytes of output in {file}]\n");
    assert_eq!(result.output, format!("{half}{cut}{half}"));
    let grown = peak_memory() - before;
    assert!(grown < 50_000, "memory grew by {grown} KiB");
}

// BUILTIN-34, BUILTIN-100
#[tokio::test]
async fn a_command_that_prints_for_ever_is_ended_in_time() {
    let place = Place::new();
    let limits = BuiltinLimits { bash_bytes: 100, bash_spill_bytes: 200, ..Default::default() };
    let config = BuiltinsConfig { limits, kill_grace_ms: Some(50), ..place.config() };
    let command = "trap '' TERM; echo $$ > pid; while :; do echo y; done";
    let result = tool(&config, "bash").execute_with(json!({"command": command}), limited(300)).await;
    assert!(failed(&result).starts_with("bash: command timed out after 300ms\n"));
    if let Some(file) = facts(&result)["outputFile"].as_str() {
        assert!(std::fs::metadata(file).unwrap().len() <= 200);
        std::fs::remove_file(file).unwrap();
    }
    if place.path().join("pid").exists() {
        assert!(!alive(read_pid(&place.path().join("pid"))));
    }
}

// BUILTIN-100, BUILTIN-37: the file of a dropped call goes with it
#[tokio::test]
async fn a_dropped_call_leaves_no_file() {
    let place = Place::new();
    let limits = BuiltinLimits { bash_bytes: 10, ..Default::default() };
    let bash = tool(&BuiltinsConfig { limits, ..place.config() }, "bash");
    let spills = || {
        let temp = std::fs::read_dir(std::env::temp_dir()).unwrap();
        let mine = |name: &str| name.starts_with("toolnexus-bash-");
        let files = temp.flatten().filter(|entry| entry.file_name().to_str().is_some_and(mine));
        files
            .filter(|entry| {
                std::fs::read_to_string(entry.path()).is_ok_and(|text| text.starts_with(&place.at("")))
            })
            .count()
    };
    let command = format!("printf '%s more than ten bytes' '{}'; echo $$ > pid; sleep 600", place.at(""));
    let mut call = Box::pin(bash.execute(json!({"command": command})));
    let written = async {
        loop {
            if spills() == 1 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        result = &mut call => panic!("ended: {}", result.output),
        () = written => {}
    }
    drop(call);
    wait_until("the file is removed", || spills() == 0);
}
