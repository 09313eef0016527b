//! Run logs in files: what crashes leave, what was damaged, several handles and processes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Waker};

use futures::future::join_all;
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;
use toolnexus_core::ToolResult;
use toolnexus_llm::run::{Args, ModelAnswer, RunEvent, RunStarted};
use toolnexus_llm::run_log::{FileRunLog, RunFilter, RunLog, RunLogError};
use toolnexus_llm::{FinishReason, Message, Style, Transcript, Usage};

fn temporary() -> (TempDir, FileRunLog) {
    let dir = tempfile::tempdir().unwrap();
    let log = FileRunLog::open(dir.path().join("runs")).unwrap();
    (dir, log)
}

fn path(dir: &TempDir, run_id: &str) -> PathBuf {
    dir.path().join("runs").join(format!("{run_id}.jsonl"))
}

/// The same directory as another process sees it: without what this one remembers.
fn anew(dir: &TempDir) -> FileRunLog {
    FileRunLog::open(dir.path().join("runs")).unwrap()
}

fn failed(text: impl Into<String>) -> RunEvent {
    RunEvent::Failed { error: text.into() }
}

fn started(run_id: &str) -> RunEvent {
    RunEvent::Started(RunStarted {
        run_id: run_id.into(),
        style: Style::OpenAI,
        model: "m".into(),
        system: String::new(),
        history: Transcript::new(),
        prompt: "naïve ☃".into(),
        max_turns: 3,
        conversation_id: None,
    })
}

fn conflict_at(result: &Result<(), RunLogError>) -> Option<u64> {
    match result {
        Err(RunLogError::Conflict { len, .. }) => Some(*len),
        _ => None,
    }
}

fn corrupt_line(error: &RunLogError) -> Option<u64> {
    match error {
        RunLogError::Corrupt { line, .. } => Some(*line),
        _ => None,
    }
}

/// Nine events in appends of 1, 3, 1, 2 and 2, and how many there are after each append.
const NINE: [usize; 5] = [1, 4, 5, 7, 9];

fn nine() -> Vec<RunEvent> {
    let message = Message::from_json("{\n \"role\":\"assistant\",\n \"content\":\"a\\nb\"}").unwrap();
    let answer = ModelAnswer {
        message: Some(message),
        text: "a\nb".into(),
        calls: vec![],
        usage: Usage::default(),
        finish_reason: FinishReason::Stop,
    };
    vec![
        started("a"),
        RunEvent::ToolsReplaced { names: vec!["x".into()] },
        RunEvent::ModelAnswered(answer),
        RunEvent::Resumed { model: None },
        failed("one\ntwo"),
        RunEvent::ToolStarted { indices: vec![0], args: vec![Args::default()], media: vec![] },
        RunEvent::ToolFinished { index: 0, result: Arc::new(ToolResult::success("é")) },
        RunEvent::Resumed { model: None },
        failed("the end"),
    ]
}

async fn write_nine(log: &FileRunLog) {
    let events = nine();
    let mut at = 0;
    for end in NINE {
        log.append("a", at as u64, &events[at..end]).await.unwrap();
        at = end;
    }
}

/// How many of the nine events lie in whole appends in the first `bytes` of their file.
fn whole_events(text: &[u8], bytes: usize) -> usize {
    let lines = text[..bytes].iter().filter(|byte| **byte == b'\n').count();
    NINE.into_iter().rev().find(|end| *end <= lines).unwrap_or(0)
}

// RUN-13
#[tokio::test]
async fn a_line_is_an_event() {
    let (dir, log) = temporary();
    write_nine(&log).await;
    let text = fs::read_to_string(path(&dir, "a")).unwrap();
    assert!(text.ends_with('\n'));
    assert_eq!(text.lines().count(), 9);
    let mut places = Vec::new();
    for (line, event) in text.lines().zip(nine()) {
        let (checksum, rest) = line.split_once(' ').unwrap();
        assert_eq!(checksum, format!("{:08x}", crc32fast::hash(rest.as_bytes())));
        let [_time, place, json] = rest.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{rest}") };
        places.push(place.to_owned());
        assert!(serde_json::from_str::<RunEvent>(json).unwrap() == event);
    }
    assert_eq!(places, ["1/1", "1/3", "2/3", "3/3", "1/1", "1/2", "2/2", "1/2", "2/2"]);
}

// RUN-9, RUN-13, RUN-32, case 7: wherever the file ends, whole appends are there and the rest is cut off
#[tokio::test]
async fn a_file_cut_anywhere_has_its_whole_appends() {
    let (dir, log) = temporary();
    write_nine(&log).await;
    let text = fs::read(path(&dir, "a")).unwrap();
    for bytes in 0..text.len() {
        fs::write(path(&dir, "a"), &text[..bytes]).unwrap();
        let there = whole_events(&text, bytes);
        let log = anew(&dir);
        match log.read("a", 0).await {
            Ok(events) => assert!(events == nine()[..there] && there > 0, "cut at {bytes}"),
            Err(RunLogError::NotFound { .. }) => assert_eq!(there, 0, "cut at {bytes}"),
            Err(error) => panic!("cut at {bytes}: {error}"),
        }
        assert_eq!(conflict_at(&log.append("a", 99, &[failed("x")]).await), Some(there as u64));
        assert_eq!(fs::read(path(&dir, "a")).unwrap(), text[..bytes], "reading and conflicts cut nothing");

        // By the handle that looked before, and by one that did not.
        let log = if bytes % 2 == 0 { log } else { anew(&dir) };
        log.append("a", there as u64, &[failed("behind"), failed("it")]).await.unwrap();
        let after = [&nine()[..there], &[failed("behind"), failed("it")]].concat();
        assert!(log.read("a", 0).await.unwrap() == after);
        let lines = fs::read(path(&dir, "a")).unwrap().iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, there + 2, "what was torn is gone");
    }
}

// RUN-13, RUN-32, case 8: any byte of any line. A byte that became zero is a hole, which has its own test.
#[tokio::test]
async fn a_changed_byte_is_found_and_nothing_is_written_any_more() {
    let (dir, log) = temporary();
    write_nine(&log).await;
    let text = fs::read(path(&dir, "a")).unwrap();
    for at in 0..text.len() {
        let mut changed = text.clone();
        changed[at] ^= [0x01, 0x20, 0x80][at % 3];
        if changed[at] == 0 {
            continue;
        }
        fs::write(path(&dir, "a"), &changed).unwrap();
        let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count() as u64;
        let log = anew(&dir);
        let error = log.read("a", 0).await.unwrap_err();
        assert_eq!(corrupt_line(&error), Some(line), "byte {at}: {error}");
        for len in [0, 1, 9] {
            let error = log.append("a", len, &[failed("x")]).await.unwrap_err();
            assert_eq!(corrupt_line(&error), Some(line), "byte {at}: {error}");
        }
        assert_eq!(fs::read(path(&dir, "a")).unwrap(), changed, "byte {at}: the file is as it was");
    }
}

// RUN-13, case 8
#[tokio::test]
async fn the_error_names_file_and_line() {
    let (dir, log) = temporary();
    write_nine(&log).await;
    let text = fs::read_to_string(path(&dir, "a")).unwrap();
    fs::write(path(&dir, "a"), text.replacen("a\\nb", "a\\nc", 1)).unwrap();
    let error = log.read("a", 0).await.unwrap_err().to_string();
    let path = std::path::absolute(path(&dir, "a")).unwrap();
    assert_eq!(
        error,
        format!("line 3 of {} is damaged: restore the file, or remove the run", path.display())
    );
    let error = anew(&dir).append("a", 9, &[failed("x")]).await.unwrap_err();
    assert_eq!(corrupt_line(&error), Some(3));
    // The remedy works.
    log.remove("a").await.unwrap();
    log.append("a", 0, &[started("a")]).await.unwrap();
    assert!(log.read("a", 0).await.unwrap() == [started("a")]);
}

// RUN-13: lines that are right, but not in their place
#[tokio::test]
async fn lines_that_were_moved_are_found() {
    let (dir, log) = temporary();
    write_nine(&log).await;
    let text = fs::read_to_string(path(&dir, "a")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (kept, bad) in [
        (vec![0, 2, 3, 4], 2),
        (vec![0, 1, 3, 4], 3),
        (vec![0, 1, 2, 4], 4),
        (vec![0, 2, 1, 3, 4], 2),
        (vec![0, 1, 1, 2, 3], 3),
    ] {
        let changed: String = kept.iter().map(|line| format!("{}\n", lines[*line])).collect();
        fs::write(path(&dir, "a"), changed).unwrap();
        assert_eq!(corrupt_line(&anew(&dir).read("a", 0).await.unwrap_err()), Some(bad), "{kept:?}");
    }
}

// RUN-13: a machine that crashed can leave the new length without the new blocks
#[tokio::test]
async fn holes_in_the_last_append_are_torn_and_elsewhere_damage() {
    let (dir, log) = temporary();
    write_nine(&log).await;
    let text = fs::read(path(&dir, "a")).unwrap();
    let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').map(|at| at + 1).collect();
    let holed = |from: usize, to: usize, len: usize| {
        let mut holed = text[..len].to_vec();
        holed[from..to].fill(0);
        fs::write(path(&dir, "a"), &holed).unwrap();
        anew(&dir)
    };
    let (last, len) = (ends[6], ends[8]);
    // In the last append: its first line, its second, across both, all of it, and zeros behind.
    for (from, to) in [(last + 4, last + 9), (ends[7] + 1, len - 1), (ends[7] - 5, ends[7] + 5), (last, len)]
    {
        let log = holed(from, to, len);
        assert!(log.read("a", 0).await.unwrap() == nine()[..7], "{from}..{to}");
        log.append("a", 7, &[failed("x")]).await.unwrap();
        assert!(log.read("a", 7).await.unwrap() == [failed("x")]);
        assert!(fs::read(path(&dir, "a")).unwrap().starts_with(&text[..last]));
    }
    let mut zeros = text.clone();
    zeros.resize(len + 5000, 0);
    fs::write(path(&dir, "a"), zeros).unwrap();
    assert!(anew(&dir).read("a", 0).await.unwrap() == nine());
    // Before the last append, which would have cut it off.
    for (from, to, line) in [(3, 4, 1), (ends[4] + 20, ends[4] + 30, 6), (ends[5] - 3, ends[5] + 3, 6)] {
        let error = holed(from, to, len).read("a", 0).await.unwrap_err();
        assert_eq!(corrupt_line(&error), Some(line), "{from}..{to}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]

    // RUN-9, RUN-13: whatever is appended and wherever its file ends after a crash, whole appends stay
    #[test]
    fn random_appends_and_crashes(
        appends in prop::collection::vec((prop::collection::vec("[a-c\n\"☃\u{0}]{0,30}", 1..5), any::<Option<u16>>()), 1..12)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (dir, mut log) = temporary();
            let file = path(&dir, "a");
            // The events of each whole append and where it ends in the file.
            let mut there: Vec<(Vec<RunEvent>, u64)> = Vec::new();
            for (texts, crash) in appends {
                let events: Vec<RunEvent> = texts.into_iter().map(failed).collect();
                let at: usize = there.iter().map(|(events, _)| events.len()).sum();
                log.append("a", at as u64, &events).await.unwrap();
                let end = fs::metadata(&file).unwrap().len();
                there.push((events, end));
                if let Some(crash) = crash {
                    let len = u64::from(crash) % (end + 1);
                    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(len).unwrap();
                    there.retain(|(_, end)| *end <= len);
                    if crash % 3 > 0 {
                        log = anew(&dir);
                    }
                }
                let expected: Vec<RunEvent> = there.iter().flat_map(|(events, _)| events.clone()).collect();
                match log.read("a", 0).await {
                    Ok(events) => assert!(events == expected && !events.is_empty()),
                    Err(RunLogError::NotFound { .. }) => assert!(expected.is_empty()),
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
}

// RUN-11, case 10
#[tokio::test]
async fn a_bad_id_touches_no_file() {
    let (dir, log) = temporary();
    let before = fs::metadata(dir.path()).unwrap().modified().unwrap();
    for id in ["../x", "/x", "a/../../x", ".x", ""] {
        for at in [0, 1] {
            let error = log.append(id, at, &[started("x")]).await.unwrap_err();
            assert!(matches!(error, RunLogError::InvalidId { .. }), "{error}");
        }
        assert!(matches!(log.read(id, 0).await, Err(RunLogError::InvalidId { .. })));
        assert!(matches!(log.remove(id).await, Err(RunLogError::InvalidId { .. })));
    }
    assert_eq!(fs::read_dir(dir.path().join("runs")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(fs::metadata(dir.path()).unwrap().modified().unwrap(), before);
}

// RUN-9: a conflict on a run that is not there leaves no file behind
#[tokio::test]
async fn only_a_beginning_creates_a_file() {
    let (dir, log) = temporary();
    assert_eq!(conflict_at(&log.append("a", 1, &[failed("x")]).await), Some(0));
    log.append("a", 0, &[]).await.unwrap();
    assert!(!path(&dir, "a").exists());
}

// RUN-13: two handles know nothing of each other but what is in the file
#[tokio::test]
async fn two_handles_take_turns() {
    let (dir, one) = temporary();
    let two = anew(&dir);
    let mut all = Vec::new();
    for round in 0..20 {
        let (log, other) = if round % 3 == 0 { (&one, &two) } else { (&two, &one) };
        let events = vec![failed(format!("{round}")); 1 + round % 3];
        log.append("a", all.len() as u64, &events).await.unwrap();
        assert_eq!(
            conflict_at(&other.append("a", all.len() as u64, &events).await),
            Some((all.len() + events.len()) as u64)
        );
        all.extend(events);
        assert!(other.read("a", 0).await.unwrap() == all);
    }
    two.remove("a").await.unwrap();
    assert!(matches!(one.read("a", 0).await, Err(RunLogError::NotFound { .. })));
    assert_eq!(conflict_at(&one.append("a", all.len() as u64, &[failed("x")]).await), Some(0));
    one.append("a", 0, &[failed("anew")]).await.unwrap();
    assert!(two.read("a", 0).await.unwrap() == [failed("anew")]);
}

// RUN-13, RUN-24: 64 appenders, each with a handle of its own
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_handles_wins() {
    let (dir, log) = temporary();
    for at in [0, 2, 4] {
        let contest = (0..64).map(|number| {
            let log = anew(&dir);
            tokio::spawn(async move {
                log.append("a", at, &[failed(format!("{number}")), failed(format!("{number}"))]).await
            })
        });
        let results: Vec<_> = join_all(contest).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        assert_eq!(results.iter().filter(|result| conflict_at(result) == Some(at + 2)).count(), 63);
        let events = log.read("a", at).await.unwrap();
        assert!(events.len() == 2 && events[0] == events[1]);
    }
}

// RUN-9, RUN-13: an append that succeeded is there until it is removed, never in a deleted file
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removals_race_with_beginnings() {
    let (dir, log) = temporary();
    let (writer, remover) = (anew(&dir), anew(&dir));
    let write = tokio::spawn(async move {
        let mut begun = 0;
        while begun < 150 {
            match writer.append("a", 0, &[started("a")]).await {
                Ok(()) => begun += 1,
                Err(error) => assert!(matches!(error, RunLogError::Conflict { len: 1, .. }), "{error}"),
            }
        }
        begun
    });
    let remove = async {
        let mut removed = 0;
        while !write.is_finished() {
            match remover.remove("a").await {
                Ok(()) => removed += 1,
                Err(error) => assert!(matches!(error, RunLogError::NotFound { .. }), "{error}"),
            }
            tokio::task::yield_now().await;
        }
        removed
    };
    let removed: usize = remove.await;
    let begun: usize = write.await.unwrap();
    let left = usize::from(log.read("a", 0).await.is_ok());
    assert_eq!(begun, removed + left, "each beginning was removed once, or is there");
}

// RUN-9, RUN-13: who waited for the lock of a file that was removed meanwhile takes the one that is there
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_appended_to_a_removed_file() {
    use std::os::unix::fs::MetadataExt as _;
    for begun_again in [false, true] {
        let (dir, log) = temporary();
        let file = path(&dir, "a");
        // The file of somebody who is about to begin the run, in the hands of somebody who removes it.
        let held = fs::File::create(&file).unwrap();
        held.lock().unwrap();
        let append = tokio::spawn({
            let log = log.clone();
            async move { log.append("a", 0, &[started("a")]).await }
        });
        let inode = format!(":{} ", held.metadata().unwrap().ino());
        let waits = || {
            let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
            locks.lines().any(|line| line.contains("->") && line.contains(&inode))
        };
        // Where the kernel does not tell, the append may as well come later: it must succeed all the same.
        for _ in 0..20_000 {
            if waits() {
                break;
            }
            tokio::task::yield_now().await;
        }
        fs::remove_file(&file).unwrap();
        if begun_again {
            fs::File::create(&file).unwrap();
        }
        drop(held);
        append.await.unwrap().unwrap();
        assert!(log.read("a", 0).await.unwrap() == [started("a")]);
    }
}

fn poll_once<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) {
    drop(future.poll(&mut Context::from_waker(Waker::noop())));
}

// RUN-9: a dropped append happens as a whole, and what follows comes behind it
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_appends_are_whole() {
    let (_dir, log) = temporary();
    for round in 0..50 {
        let at = round * 7;
        let dropped = vec![failed(format!("dropped {round}")); 3];
        poll_once(log.append("a", at, &dropped).as_mut());
        poll_once(log.append("a", at + 3, &dropped).as_mut());
        log.append("a", at + 6, &[failed("next")]).await.unwrap();
        let there = log.read("a", at).await.unwrap();
        assert!(there == [dropped.clone(), dropped, vec![failed("next")]].concat());
    }
}

// RUN-9: one that is not polled for a while holds up nobody, one that was never polled is nothing
#[tokio::test]
async fn appends_depend_on_no_poll_but_the_first() {
    let (_dir, log) = temporary();
    let (first, second, third) = ([started("a")], [failed("2")], [failed("3")]);
    let mut polled = [log.append("a", 0, &first), log.append("a", 1, &second)];
    let never = log.append("a", 2, &[]);
    polled.iter_mut().for_each(|future| poll_once(future.as_mut()));
    log.append("a", 2, &third).await.unwrap();
    assert!(log.read("a", 0).await.unwrap() == [started("a"), failed("2"), failed("3")]);
    for future in polled {
        future.await.unwrap();
    }
    // It takes its place now, behind the others.
    assert_eq!(conflict_at(&never.await), Some(3));
}

/// The environment variable by which a test finds itself in a second process.
const CHILD: &str = "TOOLNEXUS_TEST_RUN_LOG_DIR";

async fn append_until(log: &FileRunLog, name: &str, count: usize) {
    let mut at = 0;
    for number in 0..count {
        loop {
            match log
                .append(
                    "shared",
                    at,
                    &[failed(format!("{name} {number}")), RunEvent::Resumed { model: None }],
                )
                .await
            {
                Ok(()) => {
                    at += 2;
                    break;
                }
                Err(RunLogError::Conflict { len, .. }) => at = len,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// This test again in a process of its own, which has said that it is ready. What it says later, and
/// whether it ends well, is up to the caller.
fn second_process(test: &str, dir: &TempDir) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, dir.path().join("runs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the child ended too early");
    }
    (child, said)
}

/// In the second process: says that it is ready and waits for a line.
fn ready() {
    std::io::stdout().write_all(b"\nready\n").unwrap();
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

// RUN-10
#[tokio::test]
async fn what_was_appended_survives_the_process() {
    if let Some(dir) = std::env::var_os(CHILD) {
        let log = FileRunLog::open(PathBuf::from(dir)).unwrap();
        write_nine(&log).await;
        ready();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut child, _said) = second_process("what_was_appended_survives_the_process", &dir);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(anew(&dir).read("a", 0).await.unwrap() == nine());
    anew(&dir).append("a", 9, &[failed("on")]).await.unwrap();
}

// RUN-13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_a_run() {
    const EACH: usize = 40;
    if let Some(dir) = std::env::var_os(CHILD) {
        let log = FileRunLog::open(PathBuf::from(dir)).unwrap();
        ready();
        append_until(&log, "child", EACH).await;
        return;
    }
    let (dir, log) = temporary();
    let (mut child, mut said) = second_process("two_processes_share_a_run", &dir);
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    append_until(&log, "parent", EACH).await;
    std::io::copy(&mut said, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());

    let events = anew(&dir).read("shared", 0).await.unwrap();
    assert_eq!(events.len(), 4 * EACH);
    for name in ["child", "parent"] {
        let own: Vec<usize> = (0..EACH)
            .map(|number| events.iter().position(|e| *e == failed(format!("{name} {number}"))).unwrap())
            .collect();
        assert!(own.is_sorted() && own.iter().all(|at| events[at + 1] == RunEvent::Resumed { model: None }));
    }
}

// RUN-28: what is no run, and what cannot be read, is not in the list and does not spoil it
#[tokio::test]
async fn lists_ignore_what_is_no_run() {
    let (dir, log) = temporary();
    for id in ["a", "b", "bad", "torn", "newer", "garbage"] {
        log.append(id, 0, &[started(id)]).await.unwrap();
    }
    let runs = dir.path().join("runs");
    let mut changed = fs::read(path(&dir, "bad")).unwrap();
    changed[50] ^= 1;
    fs::write(path(&dir, "bad"), changed).unwrap();
    let torn = fs::read(path(&dir, "torn")).unwrap();
    fs::write(path(&dir, "torn"), &torn[..60]).unwrap();
    let newer = json!({"v": 2, "type": "started"});
    let line = format!("1764489600123 1/1 {newer}");
    fs::write(path(&dir, "newer"), format!("{:08x} {line}\n", crc32fast::hash(line.as_bytes()))).unwrap();
    fs::write(path(&dir, "garbage"), "12345678 1764489600123 what is this\n").unwrap();
    fs::write(runs.join("empty.jsonl"), "").unwrap();
    fs::write(runs.join("notes.txt"), "notes").unwrap();
    fs::write(runs.join(".hidden.jsonl"), torn).unwrap();
    fs::write(runs.join("no id.jsonl"), "x").unwrap();
    fs::create_dir(runs.join("directory.jsonl")).unwrap();

    let mut listed: Vec<String> =
        log.list(RunFilter::default()).await.unwrap().into_iter().map(|run| run.run_id).collect();
    listed.sort();
    assert_eq!(listed, ["a", "b"]);

    let error = log.read("newer", 0).await.unwrap_err();
    assert!(matches!(error, RunLogError::Event(toolnexus_llm::run::RunError::Newer(_))), "{error}");
    assert_eq!(corrupt_line(&log.read("garbage", 0).await.unwrap_err()), Some(1));
    assert!(matches!(log.read("empty", 0).await, Err(RunLogError::NotFound { .. })));
    assert!(matches!(log.remove("empty").await, Err(RunLogError::NotFound { .. })));
    // A run that was never whole can be begun.
    log.append("torn", 0, &[started("torn")]).await.unwrap();
    log.append("empty", 0, &[started("empty")]).await.unwrap();
    assert_eq!(log.list(RunFilter::default()).await.unwrap().len(), 4);
}

// RUN-28: the order is that of the first events, wherever the last ones were
#[tokio::test]
async fn lists_are_ordered_by_the_beginning() {
    let (dir, log) = temporary();
    let write = |id: &str, times: &[u64]| {
        let mut text = String::new();
        for (at, time) in times.iter().enumerate() {
            let event = if at == 0 { started(id) } else { failed("x") };
            let line = format!("{time} 1/1 {}", serde_json::to_string(&event).unwrap());
            text += &format!("{:08x} {line}\n", crc32fast::hash(line.as_bytes()));
        }
        fs::write(path(&dir, id), text).unwrap();
    };
    write("a", &[1_000, 9_000]);
    write("b", &[2_000]);
    write("c", &[2_000, 3_000]);
    write("d", &[500, 20_000]);
    let listed = log.list(RunFilter::default()).await.unwrap();
    let ids: Vec<&str> = listed.iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!(ids, ["c", "b", "a", "d"]);
    let seconds =
        |time: std::time::SystemTime| time.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert_eq!((seconds(listed[2].started_at), seconds(listed[2].updated_at)), (1_000, 9_000));
    let page = RunFilter { after: Some("b".into()), limit: 1, ..Default::default() };
    assert_eq!(log.list(page).await.unwrap()[0].run_id, "a");
}

// RUN-9, RUN-28: one run's summary is that of the list, and its errors are those of reading
#[tokio::test]
async fn one_run_is_summarised_alone() {
    let (dir, log) = temporary();
    log.append("a", 0, &[started("a"), failed("x")]).await.unwrap();
    let listed = log.list(RunFilter::default()).await.unwrap();
    assert_eq!(log.summary("a").await.unwrap(), listed[0]);
    assert!(
        matches!(log.summary("absent").await, Err(RunLogError::NotFound { run_id }) if run_id == "absent")
    );
    assert!(matches!(log.summary("../x").await, Err(RunLogError::InvalidId { .. })));
    let text = fs::read_to_string(path(&dir, "a")).unwrap();
    fs::write(path(&dir, "a"), text.replacen("started", "startle", 1)).unwrap();
    assert_eq!(corrupt_line(&log.summary("a").await.unwrap_err()), Some(1));
}

// RUN-9: what could not be read again is refused before anything is written
#[tokio::test]
async fn an_event_that_is_nested_too_deep_is_refused() {
    let (dir, log) = temporary();
    log.append("a", 0, &[started("a")]).await.unwrap();
    let before = fs::read(path(&dir, "a")).unwrap();
    let nested = |levels: usize| {
        let value = (0..levels).fold(json!("]]]"), |inner, _| json!([inner]));
        let metadata = json!({"nested": value}).as_object().unwrap().clone();
        RunEvent::ToolFinished {
            index: 0,
            result: Arc::new(ToolResult::success("\"[{").with_metadata(metadata)),
        }
    };
    let error = log.append("a", 1, &[failed("x"), nested(130)]).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the run log failed to write event \"tool_finished\" down: it is nested deeper than 120 levels"
    );
    assert_eq!(fs::read(path(&dir, "a")).unwrap(), before);
    log.append("a", 1, &[nested(117)]).await.unwrap();
    assert!(log.read("a", 1).await.unwrap() == [nested(117)]);
    assert!(log.append("a", 2, &[nested(118)]).await.is_err());
}

// RUN-13: an append does not read what is there
#[tokio::test]
async fn an_append_costs_what_its_events_cost() {
    let (dir, log) = temporary();
    log.append("a", 0, &[started("a"), failed("x".repeat(1 << 20))]).await.unwrap();
    // A byte is changed and the time put back: who goes on without reading does not see it.
    let file = path(&dir, "a");
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    let mut text = fs::read(&file).unwrap();
    text[1000] ^= 1;
    fs::write(&file, &text).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    log.append("a", 2, &[failed("y")]).await.unwrap();
    // Who has another time in front of him reads, finds the damage and writes nothing.
    fs::File::options().write(true).open(&file).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let before = fs::read(&file).unwrap();
    assert_eq!(corrupt_line(&log.append("a", 3, &[failed("z")]).await.unwrap_err()), Some(2));
    assert_eq!(fs::read(&file).unwrap(), before);
}

fn store_error(error: &RunLogError, named: &Path) {
    let text = format!("{error}");
    assert!(matches!(error, RunLogError::Store { .. }) && text.contains(named.to_str().unwrap()), "{text}");
}

#[tokio::test]
async fn troubles_with_the_directory_are_errors_that_name_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    store_error(&FileRunLog::open(&file).unwrap_err(), &file);
    store_error(&FileRunLog::open(file.join("below")).unwrap_err(), &file);

    let gone = dir.path().join("gone");
    let log = FileRunLog::open(&gone).unwrap();
    fs::remove_dir(&gone).unwrap();
    store_error(&log.append("a", 0, &[started("a")]).await.unwrap_err(), &gone);
    store_error(&log.list(RunFilter::default()).await.unwrap_err(), &gone);
    assert_eq!(conflict_at(&log.append("a", 1, &[failed("x")]).await), Some(0));

    let log = FileRunLog::open(&gone).unwrap();
    fs::create_dir(gone.join("a.jsonl")).unwrap();
    store_error(&log.append("a", 0, &[started("a")]).await.unwrap_err(), &gone.join("a.jsonl"));
    store_error(&log.read("a", 0).await.unwrap_err(), &gone.join("a.jsonl"));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn runs_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let nested = dir.path().join("one/two");
        let log = FileRunLog::open(&nested).unwrap();
        log.append("a", 0, &[started("a")]).await.unwrap();
        assert_eq!(mode(&dir.path().join("one")), 0o700);
        assert_eq!(mode(&nested), 0o700);
        assert_eq!(mode(&nested.join("a.jsonl")), 0o600);

        // A directory that is there keeps its mode.
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        FileRunLog::open(&open).unwrap();
        assert_eq!(mode(&open), 0o755);
    }

    // RUN-9: a disk that is full. The shell sees to it that files can have 8 blocks and no more.
    #[tokio::test]
    async fn an_append_that_fails_midway_leaves_nothing() {
        if let Some(dir) = std::env::var_os(CHILD) {
            let dir = PathBuf::from(dir);
            let log = FileRunLog::open(&dir).unwrap();
            log.append("a", 0, &[started("a")]).await.unwrap();
            let before = fs::read(dir.join("a.jsonl")).unwrap();
            for _ in 0..2 {
                let large = [failed("x"), failed("y".repeat(1 << 16))];
                store_error(&log.append("a", 1, &large).await.unwrap_err(), &dir.join("a.jsonl"));
                store_error(&log.append("b", 0, &large).await.unwrap_err(), &dir.join("b.jsonl"));
                assert_eq!(fs::read(dir.join("a.jsonl")).unwrap(), before);
                assert!(matches!(log.read("b", 0).await, Err(RunLogError::NotFound { .. })));
            }
            log.append("a", 1, &[failed("small")]).await.unwrap();
            assert!(log.read("a", 0).await.unwrap() == [started("a"), failed("small")]);
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new("sh")
            .args(["-c", r#"trap "" XFSZ; ulimit -f 8; exec "$0" "$@""#])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "unix::an_append_that_fails_midway_leaves_nothing", "--nocapture"])
            .env(CHILD, dir.path().join("runs"))
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        assert!(dir.path().join("runs/a.jsonl").exists());
    }

    #[tokio::test]
    async fn a_directory_that_is_not_writable_can_be_read() {
        let (dir, log) = temporary();
        log.append("a", 0, &[started("a")]).await.unwrap();
        let runs = dir.path().join("runs");
        fs::set_permissions(&runs, fs::Permissions::from_mode(0o500)).unwrap();
        // Permissions do not stop root.
        let is_root = fs::write(runs.join("probe"), "").is_ok();
        let log = anew(&dir);
        if !is_root {
            store_error(&log.append("b", 0, &[started("b")]).await.unwrap_err(), &runs);
            store_error(&log.remove("a").await.unwrap_err(), &runs);
        }
        assert!(log.read("a", 0).await.unwrap() == [started("a")]);
        assert_eq!(log.list(RunFilter::default()).await.unwrap().len(), 1);
        fs::set_permissions(&runs, fs::Permissions::from_mode(0o700)).unwrap();
    }
}
