//! Looking at processes from outside.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::time::{Duration, Instant};

/// Takes no notice of anything but SIGKILL, and has a child of its own. Tells both numbers.
pub(crate) const STUBBORN: &str =
    "trap '' HUP INT TERM; sleep 600 & echo $$ $!; while :; do wait; sleep 1; done";

pub(crate) fn sh(script: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", script]);
    command
}

/// The numbers in a line.
pub(crate) fn numbers(line: &str) -> Vec<u32> {
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// One that has ended does not live, even if nobody has waited for it.
pub(crate) fn is_alive(pid: u32) -> bool {
    if cfg!(target_os = "linux") {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        return stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'));
    }
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::test_kill_process(pid).is_ok()
}

/// Waits until none of the processes lives.
pub(crate) fn gone(pids: impl IntoIterator<Item = u32>) {
    let end = Instant::now() + Duration::from_secs(20);
    for pid in pids {
        while is_alive(pid) {
            assert!(Instant::now() < end, "process {pid} is still alive");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
