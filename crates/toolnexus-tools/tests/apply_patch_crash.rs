//! A process that is killed while it applies patches.
//!
//! The child is this test binary itself. It brings a few files from one version to the next, again and again,
//! until it is killed at a random instant. `TOOLNEXUS_CRASH_KILLS` says how often; 80 without it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests; the child speaks to its parent over stdout"
)]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Place, call};
use serde_json::json;
use toolnexus_tools::BuiltinsConfig;

/// Many small files, so that much of the child's time is spent between the first and the last of them.
const FILES: usize = 120;
const LINES: usize = 5;

/// How many kills there are time for.
const LONGEST: Duration = Duration::from_secs(8);

fn content(version: u64) -> String {
    (0..LINES).map(|line| format!("version {version} line {line}\n")).collect()
}

/// Where the file that moves from version to version is.
fn moving(version: u64) -> String {
    format!("moving/to-{}", version % 2)
}

/// The file that is there in every other version.
fn passing(version: u64) -> Option<&'static str> {
    version.is_multiple_of(2).then_some("passing/file")
}

/// From one version to the next.
fn patch(version: u64) -> String {
    let mut body = String::new();
    for line in 0..LINES {
        write!(body, "-version {version} line {line}\n+version {} line {line}\n", version + 1).unwrap();
    }
    let mut patch = "*** Begin Patch\n".to_owned();
    for file in 0..FILES {
        write!(patch, "*** Update File: file-{file}\n{body}").unwrap();
    }
    let (from, to) = (moving(version), moving(version + 1));
    write!(patch, "*** Update File: {from}\n*** Move to: {to}\n{body}").unwrap();
    match (passing(version), passing(version + 1)) {
        (Some(path), _) => writeln!(patch, "*** Delete File: {path}").unwrap(),
        (None, path) => {
            writeln!(patch, "*** Add File: {}", path.unwrap()).unwrap();
            for line in content(version + 1).lines() {
                writeln!(patch, "+{line}").unwrap();
            }
        }
    }
    patch + "*** End Patch\n"
}

/// The process that is killed. Run by the test below, never by itself.
#[tokio::test]
#[ignore = "the child of the crash test"]
async fn child() {
    let Ok(dir) = std::env::var("CRASH_DIR").map(PathBuf::from) else { return };
    let config = BuiltinsConfig { base_dir: Some(dir), confine_to_base_dir: true, ..Default::default() };
    for version in 0.. {
        let text = patch(version);
        let began = Instant::now();
        let result = call(&config, "apply_patch", json!({"patchText": text})).await;
        assert!(!result.is_error, "{}", result.output);
        println!("\ntook {}", began.elapsed().as_micros());
    }
}

/// A process that has applied its first patch, and how long that took.
fn start(dir: &Path) -> (Child, Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
        .env("CRASH_DIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let took = lines.find_map(|line| line.strip_prefix("took ")?.parse().ok());
    (child, Duration::from_micros(took.unwrap_or_else(|| panic!("the child never began"))))
}

/// The version that a file has as a whole.
fn version_of(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let version = text.split(' ').nth(1).and_then(|version| version.parse().ok());
    let version = version.unwrap_or_else(|| panic!("{} holds {:?}", path.display(), text.get(..40)));
    assert_eq!(text, content(version), "{} is torn", path.display());
    version
}

// BUILTIN-54, BUILTIN-84
#[test]
fn a_kill_at_any_time_leaves_whole_files() {
    let kills: u32 = std::env::var("TOOLNEXUS_CRASH_KILLS").map_or(80, |count| count.parse().unwrap());
    let began = Instant::now();
    let (mut killed, mut mixed) = (0, 0);
    for _ in 0..kills {
        if began.elapsed() > LONGEST {
            break;
        }
        let place = Place::new();
        for file in 0..FILES {
            place.write(&format!("file-{file}"), content(0));
        }
        place.write(&moving(0), content(0)).write(passing(0).unwrap(), content(0));

        let (mut child, took) = start(place.path());
        // The end of its pipe is gone with this, so it ends by itself after the patch that it is at.
        std::thread::sleep(took.mul_f64(fastrand::f64()));
        child.kill().unwrap();
        child.wait().unwrap();

        let mut versions: BTreeSet<u64> =
            (0..FILES).map(|file| version_of(&place.path().join(format!("file-{file}")))).collect();
        let moved: Vec<PathBuf> =
            (0..2).map(|at| place.path().join(moving(at))).filter(|path| path.exists()).collect();
        assert!(!moved.is_empty(), "the moved file is nowhere");
        versions.extend(moved.iter().map(|path| version_of(path)));
        let (oldest, newest) = (*versions.first().unwrap(), *versions.last().unwrap());
        assert!(newest - oldest <= 1, "files of more than two versions: {versions:?}");
        let passing = place.path().join(passing(0).unwrap());
        if passing.exists() {
            assert!((oldest.saturating_sub(1)..=newest + 1).contains(&version_of(&passing)));
        }
        killed += 1;
        mixed += u32::from(newest != oldest);

        let known = |name: &str| {
            name.starts_with("file-")
                || name.starts_with("to-")
                || ["file", "moving", "passing"].contains(&name)
        };
        for dir in ["", "moving", "passing"] {
            for entry in fs::read_dir(place.path().join(dir)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let temporary = name.starts_with(".toolnexus-") && name.ends_with(".tmp");
                assert!(known(&name) || temporary, "left behind: {name}");
            }
        }
    }
    println!("{killed} kills, {mixed} of them between two files");
}
