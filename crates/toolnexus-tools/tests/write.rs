//! The `write` tool.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::fs;

use common::{Place, call, facts, tool};
use serde_json::{Value, json};
use toolnexus_core::ToolResult;

fn failure(text: impl ToString) -> ToolResult {
    ToolResult::failure(text)
}

/// What a successful write says.
async fn wrote(place: &Place, arguments: Value) -> (String, Value) {
    let result = place.call("write", arguments).await;
    assert!(!result.is_error, "{}", result.output);
    let facts = facts(&result);
    (result.output, facts)
}

/// The names in a directory, sorted.
fn names(place: &Place, relative: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path().join(relative)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

// BUILTIN-49, BUILTIN-41: case 10
#[tokio::test]
async fn what_is_written_is_read_again() {
    let place = Place::new();
    let path = place.at("n");
    let (output, facts) = wrote(&place, json!({"path": path, "content": "hello builtins"})).await;
    assert_eq!(output, format!("Wrote 14 bytes to {path}"));
    assert_eq!(facts["bytes"], 14);
    assert_eq!(place.call("read", json!({"path": path})).await, ToolResult::success("hello builtins"));
}

// BUILTIN-49: case 11
#[tokio::test]
async fn bytes_are_counted_and_not_characters() {
    let place = Place::new();
    let (output, facts) = wrote(&place, json!({"path": "n", "content": "naïve"})).await;
    assert_eq!((output.as_str(), &facts["bytes"]), ("Wrote 6 bytes to n", &json!(6)));
}

// BUILTIN-49
#[tokio::test]
async fn content_is_written_as_given() {
    let place = Place::new();
    for content in ["", "no newline", "\u{feff}bom\r\nand\rmixed\nendings", "\0 nul", "trailing \n\n"] {
        wrote(&place, json!({"path": "f", "content": content})).await;
        assert_eq!(place.text("f"), content);
    }
}

// BUILTIN-49
#[tokio::test]
async fn directories_above_are_made() {
    let place = Place::new();
    let (output, _) = wrote(&place, json!({"path": "a/b/../c/./f", "content": "x"})).await;
    assert_eq!(output, "Wrote 1 bytes to a/b/../c/./f");
    assert_eq!(place.text("a/c/f"), "x");
    wrote(&place, json!({"path": "a/c/g", "content": "y"})).await;
    assert_eq!(names(&place, "a/c"), ["f", "g"], "and no temporary file stays");
    for path in ["deep/er/f", &place.at("absolute/f")] {
        let confined = call(&place.confined(), "write", json!({"path": path, "content": "z"})).await;
        assert_eq!(confined.output, format!("Wrote 1 bytes to {path}"));
    }
    assert_eq!(place.text("deep/er/f") + &place.text("absolute/f"), "zz");
}

// BUILTIN-13, BUILTIN-15
#[tokio::test]
async fn path_and_content_are_required() {
    let place = Place::new();
    for arguments in [Value::Null, json!({"content": "x"}), json!({"path": "", "content": "x"})] {
        assert_eq!(place.call("write", arguments).await, failure("write: path is required"));
    }
    for content in [Value::Null, json!(7), json!(true), json!(["x"]), json!({"a": 1})] {
        let refused = place.call("write", json!({"path": "f", "content": content})).await;
        assert_eq!(refused, failure("write: content is required"));
    }
    assert_eq!(names(&place, ""), [""; 0]);
}

// BUILTIN-14, BUILTIN-15
#[tokio::test]
async fn the_path_has_other_names_and_may_be_a_number() {
    let place = Place::new();
    wrote(&place, json!({"filePath": "a", "content": "1"})).await;
    wrote(&place, json!({"file_path": "b", "content": "2", "nonsense": {}})).await;
    assert_eq!(wrote(&place, json!({"path": 3, "content": ""})).await.0, "Wrote 0 bytes to 3");
    assert_eq!(names(&place, ""), ["3", "a", "b"]);
}

// BUILTIN-105, BUILTIN-49: what is no file stays what it is
#[tokio::test]
async fn a_directory_is_not_written() {
    let place = Place::new();
    place.write("dir/f", "x");
    for path in ["dir", "./dir", "dir/", ".", "dir/."] {
        let refused = place.call("write", json!({"path": path, "content": "y"})).await;
        assert_eq!(refused, failure(format!("write: {path} is a directory")));
    }
    let refused = place.call("write", json!({"path": "new/", "content": "y"})).await;
    assert_eq!(refused, failure("write: new/ is a directory"), "that is all it can mean");
    assert_eq!(names(&place, ""), ["dir"]);
}

// BUILTIN-49: the system's reason, and no directory stays behind
#[cfg(unix)]
#[tokio::test]
async fn a_file_has_nothing_below_it() {
    let place = Place::new();
    place.write("f", "x");
    for path in ["f/g", "f/g/h"] {
        let refused = place.call("write", json!({"path": path, "content": "y"})).await;
        assert!(refused.is_error && refused.output.starts_with("write: Not a directory"), "{refused:?}");
    }
    let refused = place.call("write", json!({"path": "f/", "content": "y"})).await;
    assert_eq!(refused, failure("write: f/ is not a directory"));
    let long = "x".repeat(300);
    let refused = place.call("write", json!({"path": format!("a/b/{long}"), "content": "y"})).await;
    assert!(refused.is_error && refused.output.starts_with("write: "), "{refused:?}");
    let refused = place.call("write", json!({"path": "a\0b", "content": "y"})).await;
    assert!(refused.is_error && refused.output.starts_with("write: "), "{refused:?}");
    assert_eq!(names(&place, ""), ["f"]);
    assert_eq!(place.text("f"), "x");
}

// D19
#[tokio::test]
async fn a_write_shows_what_it_changed() {
    let place = Place::new();
    let (_, made) = wrote(&place, json!({"path": "f", "content": "a\nb"})).await;
    let diff = "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n";
    assert_eq!(made, json!({"bytes": 3, "additions": 2, "deletions": 0, "diff": diff}));
    let (_, changed) = wrote(&place, json!({"path": "./f", "content": "a\nc\n"})).await;
    let diff = "--- a/./f\n+++ b/./f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n";
    assert_eq!(changed, json!({"bytes": 4, "additions": 1, "deletions": 1, "diff": diff}));
    let (_, same) = wrote(&place, json!({"path": "f", "content": "a\nc\n"})).await;
    assert_eq!(same, json!({"bytes": 4, "additions": 0, "deletions": 0, "diff": ""}));
}

// D19: what was no text has no lines
#[tokio::test]
async fn the_diff_of_a_binary_file_says_so() {
    let place = Place::new();
    place.write("f", b"\xff\xfe");
    let (_, facts) = wrote(&place, json!({"path": "f", "content": "a\nb\n"})).await;
    let diff = "Binary files a/f and b/f differ\n";
    assert_eq!(facts, json!({"bytes": 4, "additions": 2, "deletions": 0, "diff": diff}));
}

// D19: cut at 64 KiB, and the numbers count everything
#[tokio::test]
async fn a_long_diff_is_cut_and_says_so() {
    let place = Place::new();
    let content = "0123456789abcde\n".repeat(10_000);
    let (_, facts) = wrote(&place, json!({"path": "f", "content": content})).await;
    assert_eq!((&facts["additions"], &facts["deletions"]), (&json!(10_000), &json!(0)));
    let diff = facts["diff"].as_str().unwrap();
    let whole = "--- /dev/null\n+++ b/f\n@@ -0,0 +1,10000 @@\n".len() + 17 * 10_000;
    let marker = format!("[… {} more bytes of diff]\n", whole - 64 * 1024);
    assert!(diff.ends_with(&marker), "{}", &diff[diff.len() - 60..]);
    assert!(diff.len() <= 64 * 1024 + 1 + marker.len());
    // Also within a character, and nothing after the cut comes through.
    for (path, shift) in [("a", ""), ("b", "x"), ("c", "xx"), ("d", "xxx")] {
        let content = format!("{shift}{}\n", "é\n".repeat(40_000));
        let (_, facts) = wrote(&place, json!({"path": path, "content": content})).await;
        let diff = facts["diff"].as_str().unwrap();
        let (kept, _) = diff.rsplit_once("\n[… ").unwrap();
        let lines = kept.split_once(" @@\n").unwrap().1.replace("\n+", "\n");
        assert!(format!("+{content}").starts_with(&lines), "{shift}");
        assert!(kept.len() > 64 * 1024 - 4);
    }
}

// BUILTIN-16: a name is shown as written, and cannot forge lines of a diff
#[cfg(unix)]
#[tokio::test]
async fn a_name_may_hold_anything() {
    let place = Place::new();
    for name in ["new\nline", "tab\t", "ünï", "-rf", "a b", "\"quoted\"", "[x]", "\\back"] {
        let (output, facts) = wrote(&place, json!({"path": name, "content": "x\n"})).await;
        assert_eq!(output, format!("Wrote 2 bytes to {name}"));
        assert_eq!(place.text(name), "x\n");
        assert_eq!(facts["diff"].as_str().unwrap().lines().count(), 4, "{facts}");
    }
    let (_, facts) = wrote(&place, json!({"path": "new\nline", "content": "y\n"})).await;
    assert_eq!(facts["diff"], "--- \"a/new\\nline\"\n+++ \"b/new\\nline\"\n@@ -1 +1 @@\n-x\n+y\n");
}

// BUILTIN-49: a write that fails leaves no directories, wherever it fails
#[tokio::test]
async fn a_failing_write_leaves_no_directory() {
    let place = Place::new();
    let too_long = "x".repeat(300);
    for path in [format!("a/b/{too_long}"), format!("a/b/{too_long}/c/f")] {
        let result = place.call("write", json!({"path": path, "content": ""})).await;
        assert!(result.is_error && result.output.starts_with("write: "), "{}", result.output);
        assert_eq!(names(&place, ""), [""; 0], "{path}");
    }
}

// BUILTIN-20, BUILTIN-49: who fails takes away the directories it made, but not from under another call
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_write_takes_no_directory_from_another() {
    let too_long = "x".repeat(300);
    for _ in 0..200 {
        let place = Place::new();
        let (write, patch) = (tool(&place.config(), "write"), tool(&place.config(), "apply_patch"));
        let mut calls = tokio::task::JoinSet::new();
        for at in 0..4 {
            let bad = json!({"path": format!("d/e/{too_long}{at}"), "content": ""});
            let good = json!({"path": format!("d/e/w{at}"), "content": ""});
            let patched = format!("*** Begin Patch\n*** Add File: d/e/p{at}\n*** End Patch");
            for (tool, arguments, fails) in
                [(&write, bad, true), (&write, good, false), (&patch, json!({"patchText": patched}), false)]
            {
                let tool = tool.clone();
                calls.spawn(async move { (tool.execute(arguments).await, fails) });
            }
        }
        for (result, fails) in calls.join_all().await {
            assert_eq!(result.is_error, fails, "{}", result.output);
        }
        assert_eq!(names(&place, "d/e").len(), 8);
    }
}

// BUILTIN-20, BUILTIN-54: at every moment the file is one of its contents
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_at_once_leave_one_whole_content() {
    let place = Place::new();
    let content = |n: usize| format!("{n}\n").repeat(5_000);
    place.write("f", content(0));
    let writer = tool(&place.config(), "write");
    let writes = (1..=12).map(|n| {
        let (writer, content) = (writer.clone(), content(n));
        tokio::spawn(async move { writer.execute(json!({"path": "f", "content": content})).await })
    });
    let writes: Vec<_> = writes.collect();
    while writes.iter().any(|write| !write.is_finished()) {
        let seen = place.text("f");
        assert!((0..=12).any(|n| seen == content(n)), "{} bytes of something", seen.len());
        tokio::task::yield_now().await;
    }
    let mut before = BTreeSet::new();
    for write in writes {
        let result = write.await.unwrap();
        assert!(!result.is_error, "{}", result.output);
        let facts = facts(&result);
        assert_eq!(facts["deletions"], 5_000);
        let diff = facts["diff"].as_str().unwrap();
        before.insert(diff.lines().nth(3).unwrap().to_owned());
    }
    assert_eq!(before.len(), 12, "each followed upon another one: {before:?}");
    assert_eq!(names(&place, ""), ["f"]);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn mode(place: &Place, relative: &str) -> u32 {
        fs::metadata(place.path().join(relative)).unwrap().permissions().mode() & 0o7777
    }

    // BUILTIN-105: case 85
    #[tokio::test]
    async fn a_device_stays_a_device() {
        let place = Place::new();
        let refused = place.call("write", json!({"path": "/dev/null", "content": "x"})).await;
        assert_eq!(refused, failure("write: /dev/null is not a regular file"));
        assert!(fs::symlink_metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    // BUILTIN-105: neither do a FIFO or a socket hold the call, also behind a link
    #[tokio::test]
    async fn what_is_no_regular_file_is_not_opened() {
        let place = Place::new();
        let made = std::process::Command::new("mkfifo").arg(place.path().join("pipe")).status();
        assert!(made.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
        symlink("pipe", place.path().join("link")).unwrap();
        for path in ["pipe", "socket", "link"] {
            let refused = place.call("write", json!({"path": path, "content": "x"})).await;
            assert_eq!(refused, failure(format!("write: {path} is not a regular file")));
        }
        assert_eq!(names(&place, ""), ["link", "pipe", "socket"]);
        assert!(fs::metadata(place.path().join("link")).unwrap().file_type().is_fifo());
    }

    // BUILTIN-54
    #[tokio::test]
    async fn the_mode_is_kept() {
        let place = Place::new();
        for kept in [0o600, 0o640, 0o755, 0o666, 0o777, 0o4755] {
            place.write("f", "old");
            let file = place.path().join("f");
            fs::set_permissions(&file, fs::Permissions::from_mode(kept)).unwrap();
            let before = fs::metadata(&file).unwrap().ino();
            wrote(&place, json!({"path": "f", "content": "new"})).await;
            assert_eq!((place.text("f").as_str(), mode(&place, "f")), ("new", kept));
            assert_ne!(fs::metadata(&file).unwrap().ino(), before, "a new file took the name");
        }
    }

    // BUILTIN-54: a new file is as any other program would make it
    #[tokio::test]
    async fn a_new_file_has_the_usual_mode() {
        let place = Place::new();
        place.write("usual", "");
        wrote(&place, json!({"path": "new", "content": ""})).await;
        assert_eq!(mode(&place, "new"), mode(&place, "usual"));
    }

    // BUILTIN-54: the link stays a link
    #[tokio::test]
    async fn a_link_is_written_through() {
        let (place, other) = (Place::new(), Place::new());
        other.write("target", "old").write("dir/f", "old");
        place.write("sub/x", "");
        symlink(other.path().join("target"), place.path().join("absolute")).unwrap();
        symlink("absolute", place.path().join("twice")).unwrap();
        symlink(other.path().join("dir"), place.path().join("dir")).unwrap();
        symlink("../new", place.path().join("sub/dangling")).unwrap();
        for (path, target) in [("absolute", "target"), ("twice", "target"), ("dir/f", "dir/f")] {
            wrote(&place, json!({"path": path, "content": path})).await;
            assert_eq!(other.text(target), path);
        }
        wrote(&place, json!({"path": "sub/dangling", "content": "made"})).await;
        assert_eq!(place.text("new"), "made", "writing through a link to nowhere creates its target");
        for link in ["absolute", "twice", "dir", "sub/dangling"] {
            assert!(fs::symlink_metadata(place.path().join(link)).unwrap().is_symlink(), "{link}");
        }
        assert_eq!(names(&other, ""), ["dir", "target"]);
    }

    // BUILTIN-54: documented, and so
    #[tokio::test]
    async fn another_name_of_the_file_keeps_the_old_content() {
        let place = Place::new();
        place.write("f", "old");
        fs::hard_link(place.path().join("f"), place.path().join("g")).unwrap();
        wrote(&place, json!({"path": "f", "content": "new"})).await;
        assert_eq!((place.text("f").as_str(), place.text("g").as_str()), ("new", "old"));
    }

    // BUILTIN-27, BUILTIN-28: case 50, of write: nothing is made outside
    #[tokio::test]
    async fn nothing_outside_the_base_is_written() {
        let (place, other) = (Place::new(), Place::new());
        other.write("x", "theirs");
        place.write("in/f", "mine");
        symlink(other.path(), place.path().join("dir")).unwrap();
        symlink(other.path().join("x"), place.path().join("file")).unwrap();
        symlink(other.path().join("new"), place.path().join("dangling")).unwrap();
        let absolute = other.at("x");
        for path in
            ["../x", "dir/x", "dir/new/f", "file", "dangling", "in/../../x", "missing/../../x", &absolute]
        {
            let refused = call(&place.confined(), "write", json!({"path": path, "content": "y"})).await;
            let base = place.path().display();
            assert_eq!(refused, failure(format!("write: {path} resolves outside baseDir {base}")));
        }
        assert_eq!(names(&other, ""), ["x"]);
        assert_eq!(other.text("x"), "theirs");
        assert_eq!(names(&place, ""), ["dangling", "dir", "file", "in"]);
    }
}
