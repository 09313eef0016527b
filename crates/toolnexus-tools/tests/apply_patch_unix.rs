//! The `apply_patch` tool where files have modes, links and stranger neighbours.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use common::{Place, call};
use serde_json::{Value, json};
use toolnexus_core::ToolResult;
use toolnexus_tools::BuiltinsConfig;

fn patch(sections: &str) -> Value {
    json!({"patchText": format!("*** Begin Patch\n{sections}\n*** End Patch\n")})
}

async fn apply(place: &Place, sections: &str) -> ToolResult {
    place.call("apply_patch", patch(sections)).await
}

fn names(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(place: &Place, name: &str) -> u32 {
    fs::metadata(place.at(name)).unwrap().mode() & 0o7777
}

fn set_mode(place: &Place, name: &str, mode: u32) {
    fs::set_permissions(place.at(name), fs::Permissions::from_mode(mode)).unwrap();
}

fn is_link(place: &Place, name: &str) -> bool {
    fs::symlink_metadata(place.at(name)).is_ok_and(|found| found.is_symlink())
}

/// Nothing holds back who may do everything.
fn runs_as_root() -> bool {
    let probe = Place::new();
    probe.write("dir/file", "x");
    set_mode(&probe, "dir", 0o500);
    let everything = fs::write(probe.at("dir/new"), "x").is_ok();
    set_mode(&probe, "dir", 0o700);
    everything
}

/// Each way in which a patch can name a path.
fn sections_on(path: &str) -> [String; 5] {
    [
        format!("*** Add File: {path}\n+x"),
        format!("*** Update File: {path}\n+x"),
        format!("*** Delete File: {path}"),
        format!("*** Update File: {path}\n*** Move to: b"),
        format!("*** Update File: a\n*** Move to: {path}"),
    ]
}

// BUILTIN-105
#[tokio::test]
async fn only_regular_files_are_touched() {
    let place = Place::new();
    place.write("a", "1\n");
    assert!(Command::new("mkfifo").arg(place.at("fifo")).status().unwrap().success());
    let _socket = UnixListener::bind(place.at("socket")).unwrap();
    symlink(place.at("fifo"), place.at("link")).unwrap();
    for path in ["fifo", "socket", "link", "/dev/null"] {
        for section in sections_on(path) {
            let result = apply(&place, &section).await;
            assert_eq!(
                result,
                ToolResult::failure(format!("apply_patch: {path} is not a regular file")),
                "{section}"
            );
        }
    }
    assert_eq!(names(&place), ["a", "fifo", "link", "socket"]);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

// BUILTIN-54
#[tokio::test]
async fn modes_are_kept() {
    let place = Place::new();
    place
        .write("update", "1\n")
        .write("move", "1\n")
        .write("again", "1\n")
        .write("plain", "")
        .write("over", "1\n");
    for (name, mode) in [("update", 0o751), ("move", 0o710), ("again", 0o640), ("over", 0o600)] {
        set_mode(&place, name, mode);
    }
    let sections = "*** Update File: update\n-1\n+2\n*** Delete File: again\n*** Add File: again\n+2\n\
                    *** Delete File: over\n*** Update File: move\n*** Move to: over\n*** Add File: new\n+x\n\
                    *** Add File: dir/new\n+x\n*** Update File: over\n*** Move to: moved\n-1\n+2";
    let result = apply(&place, sections).await;
    assert!(!result.is_error, "{}", result.output);
    assert_eq!((mode(&place, "update"), mode(&place, "again"), mode(&place, "moved")), (0o751, 0o640, 0o710));
    let plain = mode(&place, "plain");
    assert_eq!(
        (mode(&place, "new"), mode(&place, "dir/new")),
        (plain, plain),
        "as the process gives new files"
    );
    assert_eq!(names(&place), ["again", "dir", "moved", "new", "plain", "update"]);

    let result = apply(&place, "*** Delete File: again\n*** Update File: moved\n*** Move to: again").await;
    assert!(!result.is_error, "{}", result.output);
    assert_eq!((mode(&place, "again"), place.text("again")), (0o710, "2\n".to_owned()));
}

// BUILTIN-54
#[tokio::test]
async fn what_is_written_goes_through_a_link() {
    let place = Place::new();
    place.write("dir/a", "1\n2\n");
    symlink("dir/a", place.at("link")).unwrap();
    symlink("dir", place.at("way")).unwrap();
    symlink("dir/later", place.at("dangling")).unwrap();
    // BUILTIN-84: the same file by three names
    let sections = "*** Update File: link\n-1\n+one\n*** Update File: way/a\n-2\n+two\n*** Update File: dir/a\n one\n two\n+three\n\
                    *** Add File: dangling\n+new";
    let result = apply(&place, sections).await;
    assert!(!result.is_error, "{}", result.output);
    assert_eq!(place.text("dir/a"), "one\ntwo\nthree\n");
    assert_eq!(place.text("dir/later"), "new\n");
    assert!(is_link(&place, "link") && is_link(&place, "way") && is_link(&place, "dangling"));
    let result = apply(&place, "*** Update File: link\n*** Move to: way/a").await;
    assert_eq!(result, ToolResult::failure("apply_patch: file already exists: way/a"));
}

// BUILTIN-80, BUILTIN-86: what is taken away is the link, never the file it leads to
#[tokio::test]
async fn a_link_is_deleted_and_moved_itself() {
    let place = Place::new();
    place.write("a", "1\n");
    let link = || symlink("a", place.at("link")).unwrap();
    link();
    assert_eq!(apply(&place, "*** Delete File: link").await.output, "Applied 1 file change(s): delete link");
    assert_eq!((names(&place), place.text("a")), (vec!["a".to_owned()], "1\n".to_owned()));
    link();
    assert!(!apply(&place, "*** Update File: link\n*** Move to: b\n-1\n+2").await.is_error);
    assert_eq!(
        (names(&place), place.text("a"), place.text("b")),
        (vec!["a".to_owned(), "b".to_owned()], "1\n".into(), "2\n".into())
    );
    link();
    let result = apply(&place, "*** Delete File: link\n*** Update File: link\n+x").await;
    assert_eq!(result, ToolResult::failure("apply_patch: file not found: link"));
    let result = apply(&place, "*** Delete File: link\n*** Add File: link\n+x").await;
    assert_eq!(result, ToolResult::failure("apply_patch: link is not a regular file"));
    // A failure puts the link back.
    let result = apply(&place, "*** Delete File: link\n*** Add File: d/e\n+x\n*** Add File: d\n+x").await;
    assert!(result.is_error);
    assert!(is_link(&place, "link"));
    symlink("nowhere", place.at("dangling")).unwrap();
    let result = apply(&place, "*** Delete File: dangling").await;
    assert_eq!(result, ToolResult::failure("apply_patch: file not found: dangling"));
    symlink("a", place.at("dir-link")).unwrap();
    assert_eq!(names(&place), ["a", "b", "dangling", "dir-link", "link"]);
}

// Case 50: BUILTIN-27
#[tokio::test]
async fn case_50_links_do_not_lead_out() {
    let outer = Place::new();
    outer.write("x", "secret\n").write("base/a", "1\n").write("elsewhere/y", "y\n");
    symlink(outer.at("x"), outer.at("base/link")).unwrap();
    symlink(outer.at("elsewhere"), outer.at("base/way")).unwrap();
    symlink(outer.at("elsewhere/new"), outer.at("base/dangling")).unwrap();
    symlink(outer.at("base/a"), outer.at("elsewhere/in")).unwrap();
    let base = outer.path().join("base");
    let config =
        BuiltinsConfig { base_dir: Some(base.clone()), confine_to_base_dir: true, ..Default::default() };
    for path in ["link", "way/y", "way/new", "dangling"] {
        for section in sections_on(path) {
            let result = call(&config, "apply_patch", patch(&section)).await;
            let expected = format!("apply_patch: {path} resolves outside baseDir {}", base.display());
            assert_eq!(result, ToolResult::failure(expected), "{section}");
        }
    }
    // A link outside that leads inside: its file may be changed, the link itself not.
    let section = format!("*** Delete File: {}", outer.at("elsewhere/in"));
    let result = call(&config, "apply_patch", patch(&section)).await;
    assert!(
        result.output.ends_with(&format!("elsewhere/in resolves outside baseDir {}", base.display())),
        "{}",
        result.output
    );
    assert!(is_link(&outer, "elsewhere/in"));
    assert_eq!(
        (outer.text("x"), outer.text("elsewhere/y"), outer.text("base/a")),
        ("secret\n".into(), "y\n".into(), "1\n".into())
    );
    assert!(!outer.path().join("elsewhere/new").exists());
}

// BUILTIN-54, BUILTIN-84
#[tokio::test]
async fn a_directory_that_is_not_writable() {
    if runs_as_root() {
        return;
    }
    let place = Place::new();
    place.write("a", "1\n").write("shut/b", "2\n").write("shut/c", "3\n");
    set_mode(&place, "shut", 0o500);
    let in_place = apply(&place, "*** Update File: a\n-1\n+one\n*** Update File: shut/b\n-2\n+two").await;
    let add = apply(&place, "*** Update File: a\n-one\n+x\n*** Add File: shut/d\n+x").await;
    let delete = apply(&place, "*** Update File: a\n-one\n+x\n*** Update File: shut/b\n-two\n+x\n*** Add File: e\n+x\n*** Delete File: shut/c").await;
    set_mode(&place, "shut", 0o700);
    assert!(!in_place.is_error, "{}", in_place.output);
    for failed in [add, delete] {
        assert_eq!(failed, ToolResult::failure("apply_patch: Permission denied (os error 13)"));
    }
    assert_eq!(
        (place.text("a"), place.text("shut/b"), place.text("shut/c")),
        ("one\n".into(), "two\n".into(), "3\n".into())
    );
    assert_eq!(names(&place), ["a", "shut"]);
    assert_eq!(fs::read_dir(place.at("shut")).unwrap().count(), 2);
}

// BUILTIN-84: what the system says is what the model reads, and nothing was done
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_the_system_refuses() {
    let place = Place::new();
    place.write("a", "1\n").write("b", "2\n");
    // Nobody makes files there.
    let new = "/sys/toolnexus-new";
    let Err(refusal) = fs::File::create(new) else { panic!("{new} can be made") };
    let sections = format!(
        "*** Update File: a\n-1\n+x\n*** Add File: d/c\n+x\n*** Delete File: b\n*** Add File: {new}\n+x"
    );
    let result = apply(&place, &sections).await;
    assert_eq!(result, ToolResult::failure(format!("apply_patch: {refusal}")));
    assert_eq!((names(&place), place.text("a")), (vec!["a".to_owned(), "b".to_owned()], "1\n".to_owned()));
}

// BUILTIN-80: what is deleted need not be readable
#[tokio::test]
async fn what_cannot_be_read() {
    if runs_as_root() {
        return;
    }
    let place = Place::new();
    place.write("a", "1\n");
    set_mode(&place, "a", 0);
    let expected = ToolResult::failure("apply_patch: Permission denied (os error 13)");
    assert_eq!(apply(&place, "*** Update File: a\n-1\n+2").await, expected);
    assert_eq!(apply(&place, "*** Delete File: a\n*** Add File: a\n+2").await, expected);
    assert_eq!(apply(&place, "*** Delete File: a").await.output, "Applied 1 file change(s): delete a");
}
