//! Looking at processes from outside.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::path::Path;

use rustix::process::{Pid, test_kill_process_group};

use crate::common::{Place, wait_until};

/// Waits until the command has written its process id to the file `pid`, which also says that it has
/// got that far. While this runs, a paused clock stands still.
pub(crate) async fn started(place: &Place) -> Pid {
    started_in(place, "pid").await
}

/// The same for a file of another name.
pub(crate) async fn started_in(place: &Place, file: &str) -> Pid {
    let file = place.path().join(file);
    tokio::task::spawn_blocking(move || read_pid(&file)).await.unwrap()
}

/// Waits until a file is there. While this runs, a paused clock stands still.
pub(crate) async fn appears(place: &Place, file: &str) {
    let file = place.path().join(file);
    tokio::task::spawn_blocking(move || wait_until("the file appears", || file.exists())).await.unwrap();
}

pub(crate) fn read_pid(file: &Path) -> Pid {
    let mut pid = None;
    wait_until("the command starts", || {
        // The newline is written last.
        let text = std::fs::read_to_string(file).unwrap_or_default();
        pid = text.strip_suffix('\n').and_then(|text| Pid::from_raw(text.parse().unwrap()));
        pid.is_some()
    });
    pid.unwrap()
}

/// Whether some member of the group still runs. One that has ended may be listed until the
/// system has noticed.
pub(crate) fn alive(group: Pid) -> bool {
    let group = group.as_raw_nonzero().to_string();
    let runs = |stat: String| {
        // `pid (name) state parent group …`
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[2] == group && !matches!(fields[0], "Z" | "X")
    };
    match std::fs::read_dir("/proc") {
        Ok(processes) => processes
            .flatten()
            .any(|process| std::fs::read_to_string(process.path().join("stat")).is_ok_and(runs)),
        Err(_) => test_kill_process_group(Pid::from_raw(group.parse().unwrap()).unwrap()).is_ok(),
    }
}

pub(crate) fn assert_gone(group: Pid) {
    wait_until("the process group goes away", || !alive(group));
}

/// Whether the process was waited for: it is not even listed any more.
pub(crate) fn reaped(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid).is_err()
}
