//! The `edit` tool.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::fs;
use std::ops::Range;

use common::{Place, call, facts, tool};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolnexus_core::ToolResult;

const LINES: &str = "alpha\nbeta\nalpha\n";

fn failure(text: impl ToString) -> ToolResult {
    ToolResult::failure(text)
}

/// Edits `f` of a place.
async fn edit(place: &Place, old: &str, new: &str) -> ToolResult {
    place.call("edit", json!({"path": "f", "oldString": old, "newString": new})).await
}

/// A file `f` with this text.
fn file(text: impl AsRef<[u8]>) -> Place {
    let place = Place::new();
    place.write("f", text);
    place
}

/// The text of a file after one edit that succeeds.
async fn edited(text: &str, old: &str, new: &str) -> String {
    let place = file(text);
    let result = edit(&place, old, new).await;
    assert_eq!(result.output, "Edited f (1 replacement)");
    place.text("f")
}

// BUILTIN-50: case 16
#[tokio::test]
async fn a_text_that_stands_twice_is_not_edited() {
    let place = file(LINES);
    let refused = edit(&place, "alpha", "X").await;
    assert_eq!(refused, failure("edit: oldString is not unique in f (2 occurrences); use replaceAll"));
    assert_eq!(place.text("f"), LINES);
}

// BUILTIN-50: case 17
#[tokio::test]
async fn a_text_that_is_not_there_is_not_edited() {
    let place = file(LINES);
    let path = place.at("f");
    let refused = place.call("edit", json!({"path": path, "oldString": "zzz", "newString": "X"})).await;
    assert_eq!(refused, failure(format!("edit: oldString not found in {path}")));
    assert_eq!(place.text("f"), LINES);
}

// BUILTIN-50, BUILTIN-52: case 18
#[tokio::test]
async fn all_are_replaced_when_asked_for() {
    for all in [json!({"replaceAll": true}), json!({"replace_all": "true"})] {
        let place = file(LINES);
        let mut arguments = json!({"path": "f", "oldString": "alpha", "newString": "OMEGA"});
        arguments.as_object_mut().unwrap().extend(all.as_object().unwrap().clone());
        let result = place.call("edit", arguments).await;
        assert_eq!(result.output, "Edited f (2 replacements)");
        assert_eq!(facts(&result)["replacements"], 2);
        assert_eq!(place.text("f"), "OMEGA\nbeta\nOMEGA\n");
    }
    let place = file(LINES);
    let arguments = json!({"path": "f", "oldString": "beta", "newString": "b", "replaceAll": true});
    assert_eq!(place.call("edit", arguments).await.output, "Edited f (1 replacement)");
}

// BUILTIN-51, BUILTIN-52: case 19
#[tokio::test]
async fn the_new_text_is_taken_literally() {
    for new in ["$&x", "$1", "\\1", "${0}", "\\n", "$$", "%s"] {
        assert_eq!(edited(LINES, "beta", new).await, format!("alpha\n{new}\nalpha\n"));
    }
    assert_eq!(edited(LINES, "beta\n", "").await, "alpha\nalpha\n", "an empty one deletes");
    let place = file(LINES);
    let result = place.call("edit", json!({"path": "f", "oldString": "beta", "newString": ""})).await;
    assert_eq!(facts(&result)["replacements"], 1);
}

// BUILTIN-50
#[tokio::test]
async fn the_old_text_is_taken_literally() {
    let place = file(LINES);
    for old in ["Beta", "b.ta", " beta", "beta ", "beta\n\n", "^beta$", "alpha\nalpha"] {
        let refused = edit(&place, old, "X").await;
        assert!(refused.output.starts_with("edit: oldString not found in f"), "{old:?}");
    }
    assert_eq!(place.text("f"), LINES);
    assert_eq!(edited("a.c\nabc\n", "a.c", "X").await, "X\nabc\n");
    assert_eq!(edited(LINES, "pha\nbeta\nal", "+").await, "al+pha\n", "lines do not matter");
    assert_eq!(edited(" x \n", " x ", "y").await, "y\n", "nothing is trimmed");
}

// BUILTIN-50: occurrences do not overlap, and count from the left
#[tokio::test]
async fn occurrences_do_not_overlap() {
    assert_eq!(edited("aaa", "aa", "b").await, "ba");
    let refused = edit(&file("aaaa"), "aa", "b").await;
    assert_eq!(refused, failure("edit: oldString is not unique in f (2 occurrences); use replaceAll"));
    let place = file("aaaaa");
    let all = json!({"path": "f", "oldString": "aa", "newString": "aaa", "replaceAll": true});
    assert_eq!(place.call("edit", all).await.output, "Edited f (2 replacements)");
    assert_eq!(place.text("f"), "aaaaaaa");
}

// BUILTIN-13, BUILTIN-15, BUILTIN-53
#[tokio::test]
async fn what_is_missing_is_named() {
    let place = file(LINES);
    for (arguments, message) in [
        (Value::Null, "path is required"),
        (json!({"path": "f", "newString": "x"}), "oldString is required"),
        (json!({"path": "f", "oldString": "", "newString": "x"}), "oldString is required"),
        (json!({"path": "f", "oldString": ["beta"], "newString": "x"}), "oldString is required"),
        (json!({"path": "f", "oldString": "beta"}), "newString is required"),
        (json!({"path": "f", "oldString": "beta", "newString": null}), "newString is required"),
        (json!({"path": "f", "oldString": "a", "newString": "a"}), "oldString and newString are identical"),
        (json!({"path": "f", "oldString": "zz", "newString": "zz"}), "oldString and newString are identical"),
    ] {
        assert_eq!(place.call("edit", arguments).await, failure(format!("edit: {message}")));
    }
    assert_eq!(place.text("f"), LINES);
}

// BUILTIN-14, BUILTIN-15
#[tokio::test]
async fn near_misses_of_arguments_are_understood() {
    for arguments in [
        json!({"filePath": "f", "old_string": "beta", "new_string": "7"}),
        json!({"file_path": "f", "oldString": "beta", "newString": 7}),
        json!({"path": "f", "oldString": "beta", "newString": "7", "replaceAll": 1, "more": []}),
    ] {
        let place = file(LINES);
        assert_eq!(place.call("edit", arguments).await.output, "Edited f (1 replacement)");
        assert_eq!(place.text("f"), "alpha\n7\nalpha\n");
    }
    let place = file(LINES);
    let refused = json!({"path": "f", "oldString": "alpha", "newString": "X", "replaceAll": "yes"});
    assert!(place.call("edit", refused).await.is_error, "only true is true");
}

// BUILTIN-52, BUILTIN-105, BUILTIN-16
#[tokio::test]
async fn what_cannot_be_edited_is_named_as_the_model_wrote_it() {
    let place = Place::new();
    place.write("dir/x", "").write("latin", b"caf\xe9");
    for (path, message) in [
        ("./nope", "file not found: ./nope"),
        ("no/such", "file not found: no/such"),
        ("dir", "dir is a directory"),
        ("latin", "latin is not valid UTF-8 text"),
    ] {
        let arguments = json!({"path": path, "oldString": "a", "newString": "b"});
        assert_eq!(place.call("edit", arguments).await, failure(format!("edit: {message}")));
    }
    assert_eq!(fs::read(place.path().join("latin")).unwrap(), b"caf\xe9");
    assert!(!place.path().join("no").exists());
}

// BUILTIN-53
#[tokio::test]
async fn a_file_keeps_its_crlf() {
    let text = "one\r\ntwo\r\nthree\r\n";
    assert_eq!(edited(text, "one\ntwo\n", "1\n2\n2b\n").await, "1\r\n2\r\n2b\r\nthree\r\n");
    assert_eq!(edited(text, "one\ntwo", "1\r\n2").await, "1\r\n2\r\nthree\r\n", "not \\r\\r\\n");
    assert_eq!(edited(text, "one\r\ntwo", "1\n2").await, "1\n2\r\nthree\r\n", "an exact match is literal");
    assert_eq!(edited(text, "two", "2\nb").await, "one\r\n2\nb\r\nthree\r\n", "one line is literal too");
    let twice = edit(&file("a\r\nb\r\na\r\nb\r\n"), "a\nb", "x").await;
    assert_eq!(twice, failure("edit: oldString is not unique in f (2 occurrences); use replaceAll"));
    let mixed = "a\nb\r\na\r\nb\r\n";
    assert_eq!(edited(mixed, "a\nb", "x").await, "x\r\na\r\nb\r\n", "what is found is not looked for again");
    assert_eq!(edited(mixed, "b\na", "x\ny").await, "a\nx\r\ny\r\nb\r\n");
    let both = edit(&file(text), "one\r\ntwo\nthree", "x").await;
    assert!(both.is_error, "who writes CRLF means it");
    let none = edit(&file("a\nb\n"), "x\ny", "z").await;
    assert_eq!(none, failure("edit: oldString not found in f"));
}

// BUILTIN-53
#[tokio::test]
async fn a_byte_order_mark_stays() {
    assert_eq!(edited("\u{feff}one\ntwo\n", "one", "1").await, "\u{feff}1\ntwo\n");
    assert_eq!(edited("\u{feff}one\r\ntwo\r\n", "one\ntwo\n", "1\n").await, "\u{feff}1\r\n");
}

// D19
#[tokio::test]
async fn an_edit_shows_what_it_changed() {
    let place = file("1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let result = edit(&place, "5\n", "five\nand more\n").await;
    let diff = "--- a/f\n+++ b/f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and more\n 6\n 7\n 8\n";
    assert_eq!(facts(&result), json!({"replacements": 1, "additions": 2, "deletions": 1, "diff": diff}));
}

// BUILTIN-50: why a text was not found stands below the message
#[tokio::test]
async fn the_nearest_lines_are_shown() {
    let place = file("fn main() {\n    let value = compute(1, 2);\n    print(value);\n}\n");
    let refused = edit(&place, "let value = compute(1, 3);", "x").await;
    assert_eq!(
        refused,
        failure("edit: oldString not found in f\nnearest line 2:\n    let value = compute(1, 2);")
    );
    let refused = edit(&place, "let value = compute(1, 2);\nprint(value)", "x").await;
    assert_eq!(
        refused,
        failure(
            "edit: oldString not found in f\nlines 2-3 differ only in white space:\n    let value = compute(1, 2);\n    print(value);"
        )
    );
    let refused = edit(&file("a\tb\n"), "a b", "x").await;
    assert_eq!(refused, failure("edit: oldString not found in f\nline 1 differs only in white space:\na\tb"));
}

// BUILTIN-50: also in a large file, and of a large text, an answer comes soon and short
#[tokio::test]
async fn a_large_file_is_searched_in_good_time() {
    let text: String = (0..60_000).map(|n| format!("line number {n} of this file\n")).collect();
    let place = file(&text);
    let wanted: String = (100..3_000).map(|n| format!("line number {n} of that file\n")).collect();
    let refused = edit(&place, &wanted, "x").await;
    assert!(refused.output.starts_with("edit: oldString not found in f\nnearest lines "));
    assert!(refused.output.len() < 6_000, "{}", refused.output.len());
    assert!(refused.output.contains("more lines]"));
    let refused = edit(&place, &"line number\n".repeat(100_000), "x").await;
    assert!(refused.is_error && refused.output.len() < 6_000);
}

// BUILTIN-50, D15: a file does not grow without bound
#[tokio::test]
async fn a_file_does_not_outgrow_the_memory() {
    let place = file("x".repeat(100_000));
    let arguments =
        json!({"path": "f", "oldString": "x", "newString": "y".repeat(100_000), "replaceAll": true});
    assert_eq!(
        place.call("edit", arguments).await,
        failure("edit: f would be 10000000000 bytes, over the limit of 268435456")
    );
    assert_eq!(place.text("f").len(), 100_000);
}

// BUILTIN-20: none is lost
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_at_once_all_land() {
    let text: String = (0..40).map(|n| format!("line <{n}>\n")).collect();
    let place = file(text);
    let editor = tool(&place.config(), "edit");
    // The same file by two names.
    let path = |n: usize| if n.is_multiple_of(2) { "f".to_owned() } else { place.at("sub/../f") };
    let edits = (0..40).map(|n| {
        let arguments =
            json!({"path": path(n), "oldString": format!("<{n}>"), "newString": format!("[{n}]")});
        let editor = editor.clone();
        tokio::spawn(async move { editor.execute(arguments).await })
    });
    for edit in edits.collect::<Vec<_>>() {
        let result = edit.await.unwrap();
        assert!(!result.is_error, "{}", result.output);
    }
    let expected: String = (0..40).map(|n| format!("line [{n}]\n")).collect();
    assert_eq!(place.text("f"), expected);
}

// BUILTIN-20: of two that want the same text, one lands and one fails on its match
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_edits_of_one_place_do_not_both_land() {
    for _ in 0..20 {
        let place = file("one\n");
        let editor = tool(&place.config(), "edit");
        let run = |new: &str| editor.execute(json!({"path": "f", "oldString": "one", "newString": new}));
        let (a, b) = tokio::join!(run("1"), run("uno"));
        assert_ne!(a.is_error, b.is_error);
        assert_eq!(place.text("f"), if b.is_error { "1\n" } else { "uno\n" });
    }
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    // BUILTIN-54
    #[tokio::test]
    async fn mode_and_link_are_kept() {
        let place = Place::new();
        place.write("target", "old\n");
        let target = place.path().join("target");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o750)).unwrap();
        symlink("target", place.path().join("f")).unwrap();
        let result = edit(&place, "old", "new").await;
        assert_eq!(result.output, "Edited f (1 replacement)");
        assert!(fs::symlink_metadata(place.path().join("f")).unwrap().is_symlink());
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o7777, 0o750);
        assert_eq!(place.text("target"), "new\n");
    }

    // BUILTIN-105
    #[tokio::test]
    async fn what_is_no_regular_file_is_not_opened() {
        let place = Place::new();
        let made = std::process::Command::new("mkfifo").arg(place.path().join("f")).status();
        assert!(made.unwrap().success());
        assert_eq!(edit(&place, "a", "b").await, failure("edit: f is not a regular file"));
        let device = json!({"path": "/dev/zero", "oldString": "a", "newString": "b"});
        assert_eq!(place.call("edit", device).await, failure("edit: /dev/zero is not a regular file"));
    }

    // BUILTIN-27, BUILTIN-28: case 50, of edit
    #[tokio::test]
    async fn nothing_outside_the_base_is_edited() {
        let (place, other) = (Place::new(), Place::new());
        other.write("x", "theirs");
        symlink(other.path().join("x"), place.path().join("link")).unwrap();
        let absolute = other.at("x");
        for path in ["link", "../x", &absolute] {
            let arguments = json!({"path": path, "oldString": "theirs", "newString": "mine"});
            let base = place.path().display();
            assert_eq!(
                call(&place.confined(), "edit", arguments).await,
                failure(format!("edit: {path} resolves outside baseDir {base}"))
            );
        }
        assert_eq!(other.text("x"), "theirs");
    }
}

/// Line endings of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Endings {
    Lf,
    CrLf,
    Mixed,
}

/// One change of a text: from this line, so many lines, become these.
type Change = (prop::sample::Index, usize, Vec<String>);

fn lines() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[ab é]{0,3}", 0..6)
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..3_usize, lines()), 1..4)
}

/// Some of the lines with their endings; in a mixed text a seed picks them by the line's number.
fn part(lines: &[String], range: Range<usize>, endings: Endings, seed: u64) -> String {
    let end = |at: usize| match endings {
        Endings::Lf => "\n",
        Endings::CrLf => "\r\n",
        Endings::Mixed => ["\n", "\r\n"][(seed >> (at % 64)) as usize & 1],
    };
    range.map(|at| format!("{}{}", lines[at], end(at))).collect()
}

/// Whether `piece` is in `text` at `at`, and nowhere else, overlaps counted.
fn only_at(text: &str, piece: &str, at: usize) -> bool {
    !piece.is_empty()
        && text
            .as_bytes()
            .windows(piece.len())
            .enumerate()
            .all(|(start, window)| (window == piece.as_bytes()) == (start == at))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    // BUILTIN-50, BUILTIN-51, BUILTIN-53: versions of a file, said as edits with a unique window
    // around each change, follow from each other
    #[test]
    fn a_new_version_is_reached_by_edits(
        start in lines(), changes in changes(), seed in any::<u64>(),
        endings in prop::sample::select(vec![Endings::Lf, Endings::CrLf, Endings::Mixed]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let place = Place::new();
        // A first line that no window can mistake, so that each change has a unique window.
        let mut lines = vec!["first".to_owned()];
        lines.extend(start);
        place.write("f", part(&lines, 0..lines.len(), endings, seed));
        for (at, count, new_lines) in changes {
            let text = part(&lines, 0..lines.len(), endings, seed);
            prop_assert_eq!(&place.text("f"), &text);
            let from = 1 + at.index(lines.len());
            let to = (from + count).min(lines.len());
            let mut next = lines.clone();
            next.splice(from..to, new_lines);
            // Where the endings go by number, what follows the change changes too.
            let behind = if endings == Endings::Mixed { 0 } else { lines.len() - to };
            let (end, next_end) = (lines.len() - behind, next.len() - behind);
            let first = (0..from).rev().find(|&first| {
                let before = part(&lines, 0..first, endings, seed).len();
                let window = part(&lines, first..end, endings, seed);
                // A window of LF that starts with an empty line could start within a CRLF.
                (first == 0 || !lines[first].is_empty()) && only_at(&text, &window, before)
            });
            let first = first.unwrap();
            let mut old = part(&lines, first..end, endings, seed);
            let mut new = part(&next, first..next_end, endings, seed);
            if endings == Endings::CrLf {
                // Models write LF for it.
                (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
            }
            let result = runtime.block_on(edit(&place, &old, &new));
            if old == new {
                prop_assert_eq!(result, failure("edit: oldString and newString are identical"));
            } else {
                prop_assert_eq!(result.output, "Edited f (1 replacement)");
            }
            lines = next;
        }
        prop_assert_eq!(place.text("f"), part(&lines, 0..lines.len(), endings, seed));
    }
}
