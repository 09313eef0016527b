//! A test in a process of its own, and what that process holds.

use std::time::{Duration, Instant};

/// Open descriptors and live children of this process.
fn footprint() -> (usize, Vec<String>) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let me = std::process::id().to_string();
    let children = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        (rest.split_whitespace().nth(1)? == me).then_some(stat)
    });
    (descriptors, children.collect())
}

/// Waits until there is no child and no more than `descriptors`; gives the number then.
pub(crate) async fn settled(descriptors: usize) -> usize {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let (open, children) = footprint();
        let quiet = children.is_empty() && (open <= descriptors || descriptors == 0);
        let late = Instant::now() > deadline;
        if quiet || late {
            assert!(children.is_empty(), "{children:?}");
            return open;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until no task of this runtime is alive. A task that has been told to end takes a moment.
pub(crate) async fn no_tasks() {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        if alive == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{alive} tasks are alive");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Runs this test in a process of its own; true in that process.
pub(crate) fn alone(test: &str) -> bool {
    const MARK: &str = "TOOLNEXUS_TEST_ALONE";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
    false
}
