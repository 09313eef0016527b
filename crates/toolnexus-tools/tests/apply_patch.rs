//! The `apply_patch` tool.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::future::{Future as _, poll_fn};
use std::task::Poll;

use common::{Place, call, facts, tool};
use serde_json::{Value, json};
use toolnexus_core::ToolResult;
use toolnexus_tools::BuiltinsConfig;

/// A patch around its sections.
fn patch(sections: &str) -> Value {
    json!({"patchText": format!("*** Begin Patch\n{sections}\n*** End Patch\n")})
}

async fn apply(place: &Place, sections: &str) -> ToolResult {
    place.call("apply_patch", patch(sections)).await
}

async fn fails(place: &Place, sections: &str) -> String {
    let before = tree(place);
    let result = apply(place, sections).await;
    assert!(result.is_error, "{}", result.output);
    assert_eq!(tree(place), before, "an error leaves everything as it was");
    result.output
}

/// Every file, link and directory below a place.
fn tree(place: &Place) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &std::path::Path, into: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_str().unwrap().to_owned();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            if kind.is_dir() {
                into.insert(name, b"directory".to_vec());
                walk(&path, into);
            } else if kind.is_file() {
                into.insert(name, fs::read(&path).unwrap());
            } else {
                into.insert(name, format!("{kind:?} {:?}", fs::read_link(&path).ok()).into_bytes());
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(place.path(), &mut all);
    all
}

/// The names of all files, sorted.
fn names(place: &Place) -> Vec<String> {
    let prefix = format!("{}/", place.path().display());
    tree(place).into_keys().map(|name| name.strip_prefix(&prefix).unwrap().to_owned()).collect()
}

// Case 44: BUILTIN-79, BUILTIN-85
#[tokio::test]
async fn case_44_a_file_is_added() {
    let place = Place::new();
    let result = apply(&place, "*** Add File: notes.md\n+hello").await;
    assert_eq!(result.output, "Applied 1 file change(s): add notes.md");
    assert!(!result.is_error);
    assert_eq!(place.text("notes.md"), "hello\n");
    let facts = facts(&result);
    assert_eq!((&facts["added"], &facts["updated"], &facts["deleted"]), (&json!(1), &json!(0), &json!(0)));
}

// BUILTIN-79: a file of nothing, one with lines that lack their sign, one with other line ends
#[tokio::test]
async fn what_is_added_is_what_stands_there() {
    let place = Place::new();
    let result =
        apply(&place, "*** Add File: empty\n*** Add File: bare\n+a\nb\n\n c\n*** Add File: crlf\n+a\r\n+b\r")
            .await;
    assert!(!result.is_error, "{}", result.output);
    assert_eq!(
        (place.text("empty"), place.text("bare"), place.text("crlf")),
        ("".into(), "a\nb\n\n c\n".into(), "a\r\nb\r\n".into())
    );
}

// Case 45: BUILTIN-81, BUILTIN-82
#[tokio::test]
async fn case_45_a_file_is_updated() {
    let place = Place::new();
    place.write("a.txt", "line one\nline two\nline three\n");
    let update = "*** Update File: a.txt\n@@\n line one\n-line two\n+line TWO changed\n line three";
    let result = apply(&place, update).await;
    assert_eq!(result.output, "Applied 1 file change(s): update a.txt");
    assert_eq!(place.text("a.txt"), "line one\nline TWO changed\nline three\n");
    assert_eq!(facts(&result)["updated"], 1);
}

// Case 46: BUILTIN-82, BUILTIN-84
#[tokio::test]
async fn case_46_an_error_leaves_everything_as_it_was() {
    let place = Place::new();
    place.write("keep.txt", "alpha\nbeta\n");
    let error = fails(&place, "*** Add File: x\n+new\n*** Update File: keep.txt\n-DOES NOT MATCH").await;
    assert_eq!(error, "apply_patch: hunk does not match file contents: keep.txt");
    assert_eq!(names(&place), ["keep.txt"]);
    assert_eq!(place.text("keep.txt"), "alpha\nbeta\n");
}

// Case 47: BUILTIN-77, BUILTIN-12
#[tokio::test]
async fn case_47_a_text_that_is_no_patch() {
    let result = Place::new().call("apply_patch", json!({"patchText": "hello"})).await;
    assert_eq!(result, ToolResult::failure("apply_patch: missing '*** Begin Patch'"));
    let result = Place::new().call("apply_patch", json!({"patchText": "*** Begin Patch\n"})).await;
    assert_eq!(result, ToolResult::failure("apply_patch: missing '*** End Patch'"));
    let result =
        Place::new().call("apply_patch", json!({"patchText": "*** Begin Patch\n*** End Patch"})).await;
    assert_eq!(result, ToolResult::failure("apply_patch: patch contains no file operations"));
}

// Case 48: BUILTIN-78
#[tokio::test]
async fn case_48_a_line_that_belongs_nowhere() {
    assert_eq!(fails(&Place::new(), "junk").await, "apply_patch: unexpected line: junk");
}

// Case 49: BUILTIN-79, BUILTIN-80
#[tokio::test]
async fn case_49_what_is_there_and_what_is_not() {
    let place = Place::new();
    place.write("a.txt", "old\n");
    assert_eq!(fails(&place, "*** Add File: a.txt\n+x").await, "apply_patch: file already exists: a.txt");
    assert_eq!(fails(&place, "*** Delete File: b.txt").await, "apply_patch: file not found: b.txt");
    // BUILTIN-81
    assert_eq!(fails(&place, "*** Update File: b.txt\n+x").await, "apply_patch: file not found: b.txt");
}

// BUILTIN-13, BUILTIN-15
#[tokio::test]
async fn the_patch_is_the_only_argument_and_has_aliases() {
    for none in
        [json!(null), json!({}), json!({"patchText": ""}), json!({"patchText": ["x"]}), json!({"text": "x"})]
    {
        let result = Place::new().call("apply_patch", none).await;
        assert_eq!(result, ToolResult::failure("apply_patch: patchText is required"));
    }
    for alias in ["patchText", "patch", "patch_text"] {
        let place = Place::new();
        let text = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch";
        let result = place.call("apply_patch", json!({alias: text, "unknown": 1})).await;
        assert_eq!(result.output, "Applied 1 file change(s): add a");
    }
}

// BUILTIN-85, BUILTIN-86, BUILTIN-16
#[tokio::test]
async fn what_was_done_is_told_in_the_order_of_the_sections() {
    let place = Place::new();
    place.write("a", "1\n").write("b", "2\n").write("c", "3\n");
    let sections = format!(
        "*** Update File: ./a\n*** Move to: sub/../d\n-1\n+one\n*** Delete File: {}\n*** Add File: e/f/g\n+x\n*** Update File: c\n+4",
        place.at("b")
    );
    let result = apply(&place, &sections).await;
    let expected = format!(
        "Applied 4 file change(s): move ./a -> sub/../d, delete {}, add e/f/g, update c",
        place.at("b")
    );
    assert_eq!(result.output, expected);
    let facts = facts(&result);
    assert_eq!((&facts["added"], &facts["updated"], &facts["deleted"]), (&json!(1), &json!(2), &json!(1)));
    assert_eq!(names(&place), ["c", "d", "e", "e/f", "e/f/g"]);
    assert_eq!(
        (place.text("c"), place.text("d"), place.text("e/f/g")),
        ("3\n4\n".into(), "one\n".into(), "x\n".into())
    );
}

// D19
#[tokio::test]
async fn the_diff_is_over_all_files() {
    let place = Place::new();
    place
        .write("a", "1\n2\n3\n4\n5\n")
        .write("b", "gone\n")
        .write("m", "same\nold\n")
        .write("n", "x\n")
        .write("bin", [0xff, 0]);
    let sections = "*** Update File: a\n-5\n+five\n*** Delete File: b\n*** Update File: m\n*** Move to: moved\n-old\n+new\n*** Add File: c\n+added\n*** Update File: n\n*** Delete File: bin";
    let result = apply(&place, sections).await;
    let facts = facts(&result);
    let expected = "--- a/a\n+++ b/a\n@@ -2,4 +2,4 @@\n 2\n 3\n 4\n-5\n+five\n\
                    --- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n\
                    --- a/m\n+++ b/moved\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n\
                    --- /dev/null\n+++ b/c\n@@ -0,0 +1 @@\n+added\n\
                    Binary files a/bin and /dev/null differ\n";
    assert_eq!(facts["diff"], expected);
    assert_eq!((&facts["additions"], &facts["deletions"]), (&json!(3), &json!(3)));
}

// BUILTIN-82, BUILTIN-12: why a hunk does not match
#[tokio::test]
async fn a_hunk_that_nearly_matches_says_where() {
    let place = Place::new();
    place.write("a.rs", "fn main() {\n    let answer = 41;\n    run(answer);\n}\n");
    assert_eq!(
        fails(&place, "*** Update File: a.rs\n@@ fn main() {\n-  let answer = 41;\n+  let answer = 42;")
            .await,
        "apply_patch: hunk does not match file contents: a.rs\n\
         line 2 differs only in white space:\n    let answer = 41;"
    );
    assert_eq!(
        fails(&place, "*** Update File: a.rs\n-    let answer = 40;\n+    let answer = 42;").await,
        "apply_patch: hunk does not match file contents: a.rs\n\
         nearest line 2:\n    let answer = 41;"
    );
    assert_eq!(
        fails(&place, "*** Update File: a.rs\n@@\n-fn main() {\n+fn start() {\n@@\n \n-something else\n+x")
            .await,
        "apply_patch: hunk does not match file contents: a.rs\nhunk 2 of 2, which looks for: something else"
    );
    // A part of a line is not the same but for white space.
    place.write("b", "alphabet\n");
    assert_eq!(
        fails(&place, "*** Update File: b\n-beta").await,
        "apply_patch: hunk does not match file contents: b"
    );
}

// BUILTIN-82: where hunks are searched is shown in src/apply_patch/document.rs; here that the file has it
// BUILTIN-82, BUILTIN-83, BUILTIN-86
#[tokio::test]
async fn line_ends_and_the_final_newline_stay() {
    let place = Place::new();
    place.write("crlf", "one\r\ntwo\r\n").write("open", "one\ntwo").write("bom", "\u{feff}one\r\ntwo");
    let sections = "*** Update File: crlf\n one\n-two\n+2\n+3\n*** Update File: open\n-two\n+2\n@@\n+3\n*** Update File: bom\n-one\n+1\n*** End of File";
    assert!(!apply(&place, sections).await.is_error);
    assert_eq!(place.text("crlf"), "one\r\n2\r\n3\r\n");
    assert_eq!(place.text("open"), "one\n2\n3");
    assert_eq!(place.text("bom"), "\u{feff}1\r\ntwo");
}

// BUILTIN-84
#[tokio::test]
async fn later_sections_see_what_earlier_ones_did() {
    let place = Place::new();
    place.write("a", "1\n2\n").write("b", "b\n");
    let sections = "*** Update File: a\n-1\n+one\n*** Update File: ./a\n one\n-2\n+two\n\
                    *** Add File: n\n+x\n*** Update File: n\n-x\n+y\n*** Delete File: b\n*** Add File: b\n+again\n\
                    *** Add File: t\n+x\n*** Delete File: t";
    let result = apply(&place, sections).await;
    assert!(!result.is_error, "{}", result.output);
    assert_eq!(names(&place), ["a", "b", "n"]);
    assert_eq!(
        (place.text("a"), place.text("n"), place.text("b")),
        ("one\ntwo\n".into(), "y\n".into(), "again\n".into())
    );
    for (sections, error) in [
        ("*** Add File: new\n*** Add File: ./new", "file already exists: ./new"),
        ("*** Delete File: a\n*** Update File: a\n+x", "file not found: a"),
        ("*** Update File: a\n*** Move to: ./a", "file already exists: ./a"),
        ("*** Update File: a\n*** Move to: b", "file already exists: b"),
        ("*** Update File: a\n*** Move to: c\n*** Add File: c\n+x", "file already exists: c"),
    ] {
        assert_eq!(fails(&place, sections).await, format!("apply_patch: {error}"));
    }
}

// BUILTIN-86
#[tokio::test]
async fn what_is_no_text_is_not_updated() {
    let place = Place::new();
    place.write("bin", b"a\n\xff\n");
    assert_eq!(
        fails(&place, "*** Update File: bin\n-a\n+b").await,
        "apply_patch: bin is not valid UTF-8 text"
    );
    // It can be moved and deleted all the same.
    assert!(!apply(&place, "*** Update File: bin\n*** Move to: other").await.is_error);
    assert_eq!(fs::read(place.at("other")).unwrap(), b"a\n\xff\n");
    assert!(!apply(&place, "*** Delete File: other").await.is_error);
    assert_eq!(names(&place), [""; 0]);
}

// BUILTIN-105, BUILTIN-79
#[tokio::test]
async fn directories_are_no_files() {
    let place = Place::new();
    place.write("dir/a", "1\n").write("b", "2\n");
    assert_eq!(fails(&place, "*** Add File: dir\n+x").await, "apply_patch: file already exists: dir");
    assert_eq!(fails(&place, "*** Update File: dir\n+x").await, "apply_patch: dir is a directory");
    assert_eq!(fails(&place, "*** Delete File: dir").await, "apply_patch: dir is a directory");
    assert_eq!(
        fails(&place, "*** Update File: b\n*** Move to: dir").await,
        "apply_patch: file already exists: dir"
    );
    assert_eq!(fails(&place, "*** Add File: new/\n+x").await, "apply_patch: new/ is a directory");
    // What is a file has nothing below it.
    assert!(fails(&place, "*** Add File: b/c\n+x").await.starts_with("apply_patch: "));
}

// Case 50: BUILTIN-27, BUILTIN-25
#[tokio::test]
async fn case_50_every_path_of_a_patch_is_confined() {
    let outer = Place::new();
    outer.write("x", "secret\n").write("base/a", "1\n");
    let base = outer.path().join("base");
    let config =
        BuiltinsConfig { base_dir: Some(base.clone()), confine_to_base_dir: true, ..Default::default() };
    for path in ["../x".to_owned(), outer.at("x"), "sub/../../x".to_owned(), "../new".to_owned()] {
        for section in [
            format!("*** Add File: {path}\n+x"),
            format!("*** Update File: {path}\n+x"),
            format!("*** Delete File: {path}"),
            format!("*** Update File: a\n*** Move to: {path}"),
            format!("*** Add File: fine\n+x\n*** Delete File: missing\n*** Delete File: {path}"),
        ] {
            let before = tree(&outer);
            let result = call(&config, "apply_patch", patch(&section)).await;
            let expected = format!("apply_patch: {path} resolves outside baseDir {}", base.display());
            assert_eq!(result, ToolResult::failure(expected));
            assert_eq!(tree(&outer), before);
        }
    }
    // BUILTIN-25: inside, relative and absolute paths work.
    let section = format!("*** Update File: a\n-1\n+2\n*** Add File: {}\n+new", base.join("b").display());
    assert!(!call(&config, "apply_patch", patch(&section)).await.is_error);
    assert_eq!((outer.text("base/a"), outer.text("base/b")), ("2\n".into(), "new\n".into()));

    let unset = BuiltinsConfig { confine_to_base_dir: true, ..Default::default() };
    let result = call(&unset, "apply_patch", patch("*** Add File: a\n+x")).await;
    assert_eq!(result, ToolResult::failure("apply_patch: confineToBaseDir is set but baseDir is empty"));
}

// BUILTIN-20: two patches over the same files, in opposite orders
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_patches_neither_lose_changes_nor_wait_for_each_other() {
    let place = Place::new();
    place.write("a", "").write("b", "");
    let tool = tool(&place.config(), "apply_patch");
    let calls = (0..40).map(|at| {
        let (first, second) = if at % 2 == 0 { ("a", "b") } else { ("b", "a") };
        tool.execute(patch(&format!("*** Update File: {first}\n+{at}\n*** Update File: ./{second}\n+{at}")))
    });
    let results = futures::future::join_all(calls).await;
    assert!(results.iter().all(|result| !result.is_error));
    for name in ["a", "b"] {
        let text = place.text(name);
        let mut numbers: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..40).collect::<Vec<_>>());
    }
}

// BUILTIN-20, BUILTIN-84: a call that nobody waits for any more holds its files until it is through
#[tokio::test]
async fn a_dropped_call_is_done_whole_or_not_at_all() {
    for polls in 1..4 {
        let place = Place::new();
        place.write("a", "0\n").write("b", "0\n");
        let tool = tool(&place.config(), "apply_patch");
        let mut call =
            Box::pin(tool.execute(patch("*** Update File: a\n-0\n+1\n*** Update File: b\n-0\n+1")));
        let mut polled = 0;
        poll_fn(|context| {
            polled += 1;
            let done = call.as_mut().poll(context).is_ready();
            if done || polled == polls { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(call);
        // This one waits for the files.
        let next = tool.execute(patch("*** Update File: a\n*** Update File: b\n+2")).await;
        assert!(!next.is_error, "{}", next.output);
        let both = (place.text("a"), place.text("b"));
        let (undone, done) = (("0\n".into(), "0\n2\n".into()), ("1\n".into(), "1\n2\n".into()));
        assert!(both == undone || both == done, "after {polls} polls: {both:?}");
    }
}

// BUILTIN-84: parent directories are created, and gone after an error
#[tokio::test]
async fn directories_come_and_go_with_their_files() {
    let place = Place::new();
    place.write("dir/file", "x\n");
    let error = fails(&place, "*** Add File: p/q/r\n+x\n*** Add File: dir/file/below\n+x").await;
    assert!(error.starts_with("apply_patch: "), "{error}");
    assert!(!apply(&place, "*** Add File: p/q/r\n+x\n*** Add File: p/q/s\n+y").await.is_error);
    assert_eq!((place.text("p/q/r"), place.text("p/q/s")), ("x\n".into(), "y\n".into()));
}

// BUILTIN-84: two new files that are one to the file system, or that need each other's place
#[tokio::test]
async fn a_write_that_fails_undoes_the_others() {
    let place = Place::new();
    place.write("a", "1\n").write("gone", "2\n");
    // `d` is to be a file and a directory at once; nothing tells before it is tried.
    let error = fails(
        &place,
        "*** Update File: a\n-1\n+one\n*** Delete File: gone\n*** Add File: d\n+x\n*** Add File: d/e\n+y",
    )
    .await;
    assert!(error.starts_with("apply_patch: "), "{error}");
    let error = fails(
        &place,
        "*** Update File: a\n-1\n+one\n*** Delete File: gone\n*** Add File: d/e\n+y\n*** Add File: d\n+x",
    )
    .await;
    assert!(error.starts_with("apply_patch: "), "{error}");
}

// D15: a patch over many files, more than a process may have open
#[tokio::test]
async fn many_files_at_once() {
    let place = Place::new();
    let mut sections = String::new();
    for at in 0..2000 {
        sections += &format!("*** Add File: d{}/f{at}\n+{at}\n", at % 300);
    }
    let result = apply(&place, sections.trim_end()).await;
    assert!(!result.is_error, "{}", result.output);
    assert_eq!(facts(&result)["added"], 2000);
    assert_eq!(place.text("d199/f1999"), "1999\n");
    assert_eq!(tree(&place).len(), 2300);
}
