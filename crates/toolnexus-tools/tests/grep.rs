//! The `grep` tool.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{Place, call, facts, limited, tool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{ToolContext, ToolReport, ToolResult, report_channel};
use toolnexus_tools::{BuiltinLimits, BuiltinsConfig};

/// The rows and the metadata of a search that succeeds.
async fn grep(place: &Place, arguments: Value) -> (String, Value) {
    let result = place.call("grep", arguments).await;
    assert!(!result.is_error, "{}", result.output);
    let facts = facts(&result);
    (result.output, facts)
}

async fn rows(place: &Place, arguments: Value) -> Vec<String> {
    grep(place, arguments).await.0.lines().map(str::to_owned).collect()
}

/// The files of cases 28 to 30.
fn needles() -> Place {
    let place = Place::new();
    place
        .write("a.txt", "needle here\nplain\n")
        .write("b.txt", "no match\nneedle again\n")
        .write("sub/c.md", "needle in md\n");
    place
}

// BUILTIN-13
#[tokio::test]
async fn a_pattern_is_required() {
    for arguments in [json!({}), Value::Null, json!({"pattern": ""}), json!({"pattern": ["a"]})] {
        let result = Place::new().call("grep", arguments).await;
        assert_eq!(result, ToolResult::failure("grep: pattern is required"));
    }
}

// BUILTIN-56, BUILTIN-57, BUILTIN-58, BUILTIN-59: case 28
#[tokio::test]
async fn rows_are_path_line_and_text() {
    let found = grep(&needles(), json!({"pattern": "needle"})).await;
    let rows = "a.txt:1:needle here\nb.txt:2:needle again\nsub/c.md:1:needle in md";
    assert_eq!(found, (rows.to_owned(), json!({"count": 3})));
}

// BUILTIN-61: case 29
#[tokio::test]
async fn include_chooses_the_files() {
    let place = needles();
    let found = grep(&place, json!({"pattern": "needle", "include": "*.txt"})).await;
    assert_eq!(found, ("a.txt:1:needle here\nb.txt:2:needle again".to_owned(), json!({"count": 2})));
    for include in ["*.md", "**/*.md", "sub/*", "./sub/c.md", "*.{md,rs}", "[a-c].md"] {
        let rows = rows(&place, json!({"pattern": "needle", "include": include})).await;
        assert_eq!(rows, ["sub/c.md:1:needle in md"], "{include}");
    }
    // A model that has nothing to say says it this way.
    assert_eq!(rows(&place, json!({"pattern": "needle", "include": ""})).await.len(), 3);
}

// BUILTIN-62
#[tokio::test]
async fn an_include_that_is_a_path_finds_that_file() {
    let place = Place::new();
    place.write("app/[id]/page.tsx", "x\n").write("[", "x\n");
    for include in ["app/[id]/page.tsx", "./app/[id]/page.tsx"] {
        assert_eq!(
            rows(&place, json!({"pattern": "x", "include": include})).await,
            ["app/[id]/page.tsx:1:x"]
        );
    }
    assert_eq!(rows(&place, json!({"pattern": "x", "include": "["})).await, ["[:1:x"]);
    let bad = place.call("grep", json!({"pattern": "x", "include": "a["})).await;
    assert!(bad.is_error && bad.output.starts_with("grep: invalid include: "), "{}", bad.output);
}

// BUILTIN-106: what holds for a pattern of glob holds for include
#[cfg(unix)]
#[tokio::test]
async fn an_absolute_include_must_lead_below_the_root() {
    let place = needles();
    let root = std::fs::canonicalize(place.path()).unwrap();
    let include = format!("{}/sub/*", root.display());
    assert_eq!(rows(&place, json!({"pattern": "needle", "include": include})).await.len(), 1);
    let outside = place.call("grep", json!({"pattern": "x", "include": "/nowhere/*", "path": "sub"})).await;
    assert_eq!(outside, ToolResult::failure("grep: include must be relative to sub"));
}

// BUILTIN-59: case 30
#[tokio::test]
async fn a_limit_cuts_after_sorting() {
    let place = needles();
    let found = grep(&place, json!({"pattern": "needle", "limit": 1})).await;
    let cut = json!({"count": 1, "truncated": true, "total": 3});
    assert_eq!(found, ("a.txt:1:needle here".to_owned(), cut));
    let found = grep(&place, json!({"pattern": "needle", "limit": 3})).await;
    assert_eq!(found.1, json!({"count": 3}), "a limit that cuts nothing is not told");
    for limit in [json!(0), json!(-1), json!(-2.5), json!("0")] {
        let found = grep(&place, json!({"pattern": "needle", "limit": limit, "context": 2})).await;
        assert_eq!(found, (String::new(), json!({"count": 0, "truncated": true, "total": 3})));
    }
    let nothing = grep(&place, json!({"pattern": "nowhere", "limit": 0})).await;
    assert_eq!(nothing, (String::new(), json!({"count": 0})));
}

// BUILTIN-59
#[tokio::test]
async fn a_hundred_matches_are_enough_for_most() {
    let place = Place::new();
    place.write("a", "x\n".repeat(60)).write("b", "x\n".repeat(41));
    let (rows, facts) = grep(&place, json!({"pattern": "x"})).await;
    assert_eq!(facts, json!({"count": 100, "truncated": true, "total": 101}));
    assert!(rows.ends_with("\nb:40:x"), "{rows}");
}

// BUILTIN-56, BUILTIN-57: `-` sorts before `/`, and numbers as numbers
#[tokio::test]
async fn rows_are_sorted_by_path_and_by_number() {
    let place = Place::new();
    place.write("alpha/f.txt", "x").write("alpha-b.txt", "x").write("é", "x").write("z", "x\n".repeat(10));
    let found = rows(&place, json!({"pattern": "x"})).await;
    let mut expected = vec!["alpha-b.txt:1:x".to_owned(), "alpha/f.txt:1:x".to_owned()];
    expected.extend((1..=10).map(|number| format!("z:{number}:x")));
    expected.push("é:1:x".to_owned());
    assert_eq!(found, expected);
}

// BUILTIN-58
#[tokio::test]
async fn a_line_is_searched_not_compared() {
    let place = Place::new();
    place.write("f", "Alpha beta\nalpha\n\nbeta alphabet\n");
    for (pattern, lines) in [
        ("alpha", vec![2, 4]),
        ("(?i)alpha", vec![1, 2, 4]),
        ("^alpha$", vec![2]),
        ("^$", vec![3]),
        (r"\balpha\b", vec![2]),
        (r"\Abeta", vec![4]),
        (r"beta\z", vec![1]),
        ("", vec![]),
        ("a$", vec![1, 2]),
        (r"\S+\s\S+", vec![1, 4]),
        ("[^x]", vec![1, 2, 4]),
        ("(?s)a.b", vec![1]),
        (r"\n|alphabet", vec![]),
    ] {
        let result = place.call("grep", json!({"pattern": pattern})).await;
        if lines.is_empty() {
            assert!(result.is_error, "{pattern}");
            continue;
        }
        let numbers: Vec<u32> =
            result.output.lines().map(|row| row.split(':').nth(1).unwrap().parse().unwrap()).collect();
        assert_eq!(numbers, lines, "{pattern}");
    }
}

// BUILTIN-58: no match is no error
#[tokio::test]
async fn nothing_found_is_an_empty_output() {
    let result = needles().call("grep", json!({"pattern": "haystack"})).await;
    assert_eq!((result.output.as_str(), result.is_error, facts(&result)), ("", false, json!({"count": 0})));
}

// BUILTIN-58: case 86
#[tokio::test]
async fn a_final_newline_starts_no_line() {
    let place = Place::new();
    place.write("f", "a\n");
    assert_eq!(grep(&place, json!({"pattern": "^$"})).await, (String::new(), json!({"count": 0})));
    place.write("f", "a\n\n");
    assert_eq!(rows(&place, json!({"pattern": "^$"})).await, ["f:2:"]);
    place.write("f", "a\n\nb");
    assert_eq!(rows(&place, json!({"pattern": "b|^$"})).await, ["f:2:", "f:3:b"]);
    place.write("f", "");
    assert_eq!(rows(&place, json!({"pattern": ".*"})).await, [""; 0]);
}

// BUILTIN-58: case 36
#[tokio::test]
async fn a_pattern_that_is_none_is_an_error() {
    let place = needles();
    for (pattern, reason) in [
        ("(", "unclosed group"),
        ("a)|(b", "unopened group"),
        ("x(?=y)", "look-around, including look-ahead and look-behind, is not supported"),
        (r"(a)\1", "backreferences are not supported"),
        (r"here\nplain", r"no line holds a \n; search for the lines one by one, with context"),
        (r"((\w{100}){100}){100}", "compiled regex exceeds size limit of 10485760"),
    ] {
        let result = place.call("grep", json!({"pattern": pattern})).await;
        assert_eq!(result, ToolResult::failure(format!("grep: invalid regex: {reason}")), "{pattern}");
    }
}

// BUILTIN-60: case 32
#[tokio::test]
async fn context_lines_have_dashes_and_are_printed_once() {
    let place = Place::new();
    place.write("f", "a\nneedle\nb\nc\nneedle\nd\n");
    let found = grep(&place, json!({"pattern": "needle", "context": 1})).await;
    let expected = "f-1-a\nf:2:needle\nf-3-b\nf-4-c\nf:5:needle\nf-6-d";
    assert_eq!(found, (expected.to_owned(), json!({"count": 2})));
    // Lines that belong to two matches.
    let found = grep(&place, json!({"pattern": "needle", "context": 100})).await;
    assert_eq!(found.0, expected);
}

// BUILTIN-60: case 33
#[tokio::test]
async fn groups_that_do_not_touch_are_set_apart() {
    let place = Place::new();
    place.write("f", "1\nneedle\n3\n4\n5\nneedle\n7\n");
    let found = rows(&place, json!({"pattern": "needle", "context": 1})).await;
    assert_eq!(found, ["f-1-1", "f:2:needle", "f-3-3", "--", "f-5-5", "f:6:needle", "f-7-7"]);
    // Two files never touch, not even by the numbers of their lines.
    place.write("g", "needle\n").write("h", "x\nneedle\n");
    let found = rows(&place, json!({"pattern": "needle", "path": "", "include": "[gh]", "after": 1})).await;
    assert_eq!(found, ["g:1:needle", "--", "h:2:needle"]);
}

// BUILTIN-60
#[tokio::test]
async fn each_side_has_its_own_argument() {
    let place = Place::new();
    place.write("f", "1\n2\n3\nneedle\n5\n6\n7\n");
    for (arguments, expected) in [
        (json!({"before": 1}), vec!["f-3-3", "f:4:needle"]),
        (json!({"after": 1}), vec!["f:4:needle", "f-5-5"]),
        (json!({"context": 2, "after": 0}), vec!["f-2-2", "f-3-3", "f:4:needle"]),
        (json!({"context": 1, "before": 2}), vec!["f-2-2", "f-3-3", "f:4:needle", "f-5-5"]),
        (json!({"context": 1, "before": -2}), vec!["f:4:needle", "f-5-5"]),
        (json!({"context": -1}), vec!["f:4:needle"]),
        (json!({"context": 1.9}), vec!["f-3-3", "f:4:needle", "f-5-5"]),
        (json!({"context": "1"}), vec!["f-3-3", "f:4:needle", "f-5-5"]),
        (json!({"context": true}), vec!["f:4:needle"]),
    ] {
        let mut all = json!({"pattern": "needle"});
        all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        assert_eq!(rows(&place, all).await, expected, "{arguments}");
    }
    let everything = json!({"pattern": "needle", "context": i64::MAX});
    assert_eq!(rows(&place, everything).await.len(), 7);
}

// BUILTIN-60: no `--` without context
#[tokio::test]
async fn without_context_nothing_stands_between_rows() {
    let place = Place::new();
    place.write("f", "needle\n2\n3\nneedle\n");
    for arguments in [json!({"pattern": "needle"}), json!({"pattern": "needle", "context": 0})] {
        assert_eq!(rows(&place, arguments).await, ["f:1:needle", "f:4:needle"]);
    }
}

// BUILTIN-60: a limit counts matches only, and what stood around those it drops is dropped too
#[tokio::test]
async fn context_of_dropped_matches_is_dropped() {
    let place = Place::new();
    place.write("f", "1\nneedle\n3\n4\nneedle\n6\n").write("g", "1\nneedle\n");
    let found = grep(&place, json!({"pattern": "needle", "context": 1, "limit": 1})).await;
    let cut = json!({"count": 1, "truncated": true, "total": 3});
    assert_eq!(found, ("f-1-1\nf:2:needle\nf-3-3".to_owned(), cut));
    // A dropped match next to one that is shown is context like any other line.
    let found = rows(&place, json!({"pattern": "needle", "context": 3, "limit": 1})).await;
    assert_eq!(found, ["f-1-1", "f:2:needle", "f-3-3", "f-4-4", "f-5-needle"]);
}

// BUILTIN-64, BUILTIN-25
#[tokio::test]
async fn a_path_is_a_directory_or_a_file() {
    let place = needles();
    for path in ["sub", "./sub", &place.at("sub")] {
        assert_eq!(rows(&place, json!({"pattern": "needle", "path": path})).await, ["c.md:1:needle in md"]);
    }
    for path in ["sub/c.md", &place.at("sub/c.md")] {
        assert_eq!(rows(&place, json!({"pattern": "needle", "path": path})).await, ["c.md:1:needle in md"]);
    }
    let other = json!({"pattern": "needle", "path": "sub/c.md", "include": "*.txt"});
    assert_eq!(rows(&place, other).await, [""; 0]);
    for path in ["nope", "a.txt/nope", "sub/../nope", "a\0b"] {
        let missing = place.call("grep", json!({"pattern": "needle", "path": path})).await;
        assert_eq!(missing, ToolResult::failure(format!("grep: path not found: {path}")));
    }
}

// BUILTIN-27
#[tokio::test]
async fn a_confined_search_stays_inside() {
    let place = needles();
    let inside = call(&place.confined(), "grep", json!({"pattern": "needle"})).await;
    assert_eq!(inside.output.lines().count(), 3);
    let file = call(&place.confined(), "grep", json!({"pattern": "needle", "path": "sub/c.md"})).await;
    assert_eq!(file.output, "c.md:1:needle in md");
    for path in ["..", "/", "sub/../.."] {
        let outside = call(&place.confined(), "grep", json!({"pattern": "x", "path": path})).await;
        let text = format!("grep: {path} resolves outside baseDir {}", place.path().display());
        assert_eq!(outside, ToolResult::failure(text));
    }
    let config = BuiltinsConfig { confine_to_base_dir: true, ..Default::default() };
    let nowhere = call(&config, "grep", json!({"pattern": "x"})).await;
    assert_eq!(nowhere, ToolResult::failure("grep: confineToBaseDir is set but baseDir is empty"));
}

// BUILTIN-65
#[tokio::test]
async fn binary_files_are_skipped() {
    let place = Place::new();
    let mut late = vec![b'x'; 8192];
    late.extend_from_slice(b"\nneedle\0\n");
    place
        .write("early", b"needle\n\0")
        .write("just", [vec![b'x'; 8185], b"needle\0".to_vec()].concat())
        .write("late", late)
        .write("utf-16", "\u{feff}needle".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
    assert_eq!(rows(&place, json!({"pattern": "needle"})).await, ["late:2:needle\0"]);
}

// BUILTIN-65: decoded first, then matched
#[tokio::test]
async fn what_is_not_utf_8_is_decoded_before_it_is_matched() {
    let place = Place::new();
    place.write("f", b"caf\xe9 \xff\xfe\nna\xc3\xafve\n\xe2\x82\n");
    assert_eq!(rows(&place, json!({"pattern": "caf. "})).await, ["f:1:caf\u{fffd} \u{fffd}\u{fffd}"]);
    assert_eq!(rows(&place, json!({"pattern": "^\u{fffd}$"})).await, ["f:3:\u{fffd}"]);
    assert_eq!(rows(&place, json!({"pattern": "na.ve"})).await, ["f:2:naïve"]);
}

// BUILTIN-65: one `\r` belongs to the end of a line
#[tokio::test]
async fn one_carriage_return_is_stripped_before_matching_and_printing() {
    let place = Place::new();
    place.write("f", "a\r\nb\r\r\nc\rd\ne\r");
    let found = grep(&place, json!({"pattern": "[abde]$"})).await;
    assert_eq!(found.0, "f:1:a\nf:3:c\rd\nf:4:e");
    assert_eq!(grep(&place, json!({"pattern": "b\r$"})).await.0, "f:2:b\r");
    place.write("f", "\r").write("g", "x\n\r");
    assert_eq!(rows(&place, json!({"pattern": "^$"})).await, ["f:1:", "g:2:"]);
}

// BUILTIN-65, BUILTIN-99
#[tokio::test]
async fn long_lines_are_cut_at_a_character_and_say_so() {
    let place = Place::new();
    place.write("f", format!("{}éx\r\nshort\n", "a".repeat(4095)));
    let (rows, _) = grep(&place, json!({"pattern": "x$", "after": 1})).await;
    assert_eq!(rows, format!("f:1:{} [… 3 more bytes]\nf-2-short", "a".repeat(4095)));
    let with = |line_bytes| BuiltinsConfig {
        limits: BuiltinLimits { line_bytes, ..Default::default() },
        ..place.config()
    };
    for (line_bytes, row) in
        [(5, "f:2:short"), (4, "f:2:shor [… 1 more bytes]"), (1, "f:2:s [… 4 more bytes]")]
    {
        assert_eq!(call(&with(line_bytes), "grep", json!({"pattern": "short"})).await.output, row);
    }
    let whole = call(&with(0), "grep", json!({"pattern": "x$"})).await;
    assert_eq!(whole.output, format!("f:1:{}éx", "a".repeat(4095)));
}

// BUILTIN-19, BUILTIN-99: nobody could stop the search of a long line for what takes very long to find
#[tokio::test]
async fn what_takes_long_to_find_is_looked_for_in_less_of_a_line() {
    let place = Place::new();
    // Room for 30,000 characters times 65,536 bytes and a little more, no step of which is costly here.
    let line = ["x".repeat(100_000).as_bytes(), b"y\ny\n"].concat();
    place.write("f", line);
    for (pattern, total, whole) in [("y{1,2}", 2, true), ("y{1,30000}", 1, false)] {
        let (rows, facts) = grep(&place, json!({"pattern": pattern, "limit": 0})).await;
        let mut expected = json!({"count": 0, "truncated": true, "total": total});
        if !whole {
            expected["linesNotSearchedWhole"] = 1.into();
        }
        assert_eq!((rows.as_str(), facts), ("", expected), "{pattern}");
    }
    let refused = place.call("grep", json!({"pattern": "[xy]{40000}"})).await;
    let reason = "grep: invalid regex: it takes too much time; repeat less, or search for a part of it";
    assert_eq!(refused, ToolResult::failure(reason));
}

// BUILTIN-99: a line that is too long to be matched as a whole is searched as far as it goes
#[tokio::test]
async fn a_line_of_many_megabytes_is_searched_to_a_bound_and_that_is_said() {
    const BOUND: usize = 16 * 1024 * 1024;
    let place = Place::new();
    let mut line = vec![b'x'; BOUND + 10];
    line[..5].copy_from_slice(b"early");
    line[BOUND + 5..].copy_from_slice(b"late!");
    line.extend_from_slice(b"\nnext late!");
    place.write("f", line);
    let found = grep(&place, json!({"pattern": "early|late"})).await;
    let start = format!("early{}", "x".repeat(4091));
    let expected = format!("f:1:{start} [… {} more bytes]\nf:2:next late!", BOUND + 10 - 4096);
    assert_eq!(found, (expected, json!({"count": 2, "linesNotSearchedWhole": 1})));
}

// BUILTIN-99: what a result may hold has a bound too
#[tokio::test]
async fn a_result_of_many_megabytes_is_cut_and_that_is_said() {
    let place = Place::new();
    let line = format!("needle{}\n", "x".repeat(4000));
    for name in ["a", "b", "c"] {
        place.write(name, line.repeat(2000));
    }
    for arguments in
        [json!({"pattern": "needle", "limit": 1_000_000}), json!({"pattern": "needle.*\\b", "limit": 5000})]
    {
        let (rows, facts) = grep(&place, arguments).await;
        assert!(rows.len() <= 16 * 1024 * 1024 && rows.len() > 15 * 1024 * 1024, "{}", rows.len());
        let count = rows.lines().count();
        assert_eq!(facts, json!({"count": count, "truncated": true, "total": 6000}));
        assert!(rows.lines().last().unwrap().starts_with(&format!("c:{}:", count - 4000)));
    }
    let around = json!({"pattern": "needle", "limit": 1, "after": 1_000_000});
    let (rows, facts) = grep(&place, around).await;
    assert_eq!(rows.lines().count(), 2000, "{}", rows.len());
    assert_eq!(facts, json!({"count": 1, "truncated": true, "total": 6000}));
}

// BUILTIN-60, BUILTIN-99: what is not shown although it was asked for is said
#[tokio::test]
async fn very_many_lines_before_a_match_are_cut_and_that_is_said() {
    let place = Place::new();
    place.write("f", ["\n".repeat(10_005).as_str(), "needle\n"].concat());
    let (rows, facts) = grep(&place, json!({"pattern": "needle", "before": 1_000_000})).await;
    assert!(rows.starts_with("f-6-\nf-7-\n") && rows.ends_with("\nf-10005-\nf:10006:needle"));
    assert_eq!(facts, json!({"count": 1, "truncated": true, "total": 1}));
    let (_, facts) = grep(&place, json!({"pattern": "needle", "before": 10_000})).await;
    assert_eq!(facts, json!({"count": 1}));
}

// BUILTIN-66, BUILTIN-8
#[tokio::test]
async fn ignored_files_are_left_out_when_asked() {
    let place = Place::new();
    place
        .write(".gitignore", "*.log\n")
        .write("sub/.ignore", "secret\n")
        .write("a.log", "x")
        .write("sub/secret", "x")
        .write("sub/.hidden", "x")
        .write("b", "x");
    assert_eq!(
        rows(&place, json!({"pattern": "^x"})).await,
        ["a.log:1:x", "b:1:x", "sub/.hidden:1:x", "sub/secret:1:x"]
    );
    let config = BuiltinsConfig { respect_gitignore: true, ..place.config() };
    let result = call(&config, "grep", json!({"pattern": "^x"})).await;
    assert_eq!(result.output, "b:1:x\nsub/.hidden:1:x");
}

// BUILTIN-55
#[tokio::test]
async fn hidden_files_are_searched_and_dependencies_are_not() {
    let place = Place::new();
    for file in [".hidden/.x", "a/node_modules/x", "b/.git/x", ".github/x"] {
        place.write(file, "x");
    }
    assert_eq!(rows(&place, json!({"pattern": "x"})).await, [".github/x:1:x", ".hidden/.x:1:x"]);
    assert_eq!(rows(&place, json!({"pattern": "x", "path": "a/node_modules"})).await, ["x:1:x"]);
    assert_eq!(rows(&place, json!({"pattern": "x", "path": "b/.git"})).await, ["x:1:x"]);
}

// BUILTIN-19
#[tokio::test]
async fn a_cancelled_search_says_so() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let context = ToolContext { cancel, ..Default::default() };
    let result = tool(&needles().config(), "grep").execute_with(json!({"pattern": "x"}), context).await;
    assert_eq!(result, ToolResult::failure("grep: cancelled"));
}

// BUILTIN-103
#[tokio::test]
async fn a_listener_hears_of_the_files_that_were_visited() {
    let place = needles();
    for (name, arguments, files, message) in [
        ("grep", json!({"pattern": "needle"}), 3.0, "3 files visited"),
        ("grep", json!({"pattern": "needle", "path": "a.txt"}), 1.0, "1 file visited"),
        ("glob", json!({"pattern": "*.md"}), 3.0, "3 files visited"),
    ] {
        let (reporter, reports) = report_channel();
        let context = ToolContext { reporter, ..Default::default() };
        let heard = tool(&place.config(), name).execute_with(arguments.clone(), context).await;
        assert_eq!(heard, place.call(name, arguments).await, "a listener changes nothing");
        let message = Some(message.to_owned());
        assert_eq!(reports.take_waiting(), [ToolReport::Progress { progress: files, total: None, message }]);
    }
}

// BUILTIN-102: the host's limit is the one that counts
#[tokio::test]
async fn the_host_can_give_a_search_more_time() {
    let place = needles();
    let limits = BuiltinLimits { search_ms: 1, ..Default::default() };
    let config = BuiltinsConfig { limits, ..place.config() };
    let result = tool(&config, "grep").execute_with(json!({"pattern": "needle"}), limited(60_000)).await;
    assert_eq!(result.output.lines().count(), 3);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use super::*;

    fn make_fifo(path: &Path) {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
    }

    // BUILTIN-55: case 35
    #[tokio::test]
    async fn links_are_not_followed_but_at_the_start() {
        let place = needles();
        symlink("a.txt", place.path().join("l.txt")).unwrap();
        symlink("sub", place.path().join("linked")).unwrap();
        symlink(".", place.path().join("loop")).unwrap();
        assert_eq!(rows(&place, json!({"pattern": "needle"})).await.len(), 3);
        let linked = json!({"pattern": "needle", "path": "linked"});
        assert_eq!(rows(&place, linked.clone()).await, ["c.md:1:needle in md"]);
        assert_eq!(call(&place.confined(), "grep", linked).await.output, "c.md:1:needle in md");
        assert_eq!(
            rows(&place, json!({"pattern": "needle", "path": "l.txt"})).await,
            ["a.txt:1:needle here"]
        );
    }

    // BUILTIN-55, BUILTIN-105: nobody waits at a FIFO
    #[tokio::test]
    async fn fifos_and_sockets_are_never_opened() {
        let place = needles();
        make_fifo(&place.path().join("pipe"));
        let _socket = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
        for config in [place.config(), place.confined()] {
            let result = call(&config, "grep", json!({"pattern": "needle"})).await;
            assert_eq!(result.output.lines().count(), 3);
            let listed = call(&config, "glob", json!({"pattern": "*"})).await;
            assert_eq!(listed.output, "a.txt\nb.txt\nsub/c.md");
            for path in ["pipe", "socket"] {
                let named = call(&config, "grep", json!({"pattern": "x", "path": path})).await;
                assert_eq!(named, ToolResult::failure(format!("grep: {path} is not a regular file")));
                let named = call(&config, "glob", json!({"pattern": "x", "path": path})).await;
                assert_eq!(named, ToolResult::failure(format!("glob: {path} is not a regular file")));
            }
        }
    }

    // BUILTIN-55; where everything is readable, as for an administrator, nothing is passed over
    #[tokio::test]
    async fn what_cannot_be_read_is_passed_over_unless_it_was_named() {
        let place = needles();
        place.write("locked/x", "needle");
        let modes = |mode| {
            for locked in ["locked", "a.txt"] {
                std::fs::set_permissions(place.path().join(locked), std::fs::Permissions::from_mode(mode))
                    .unwrap();
            }
        };
        modes(0o000);
        let readable = std::fs::read(place.path().join("a.txt")).is_ok();
        let found = rows(&place, json!({"pattern": "needle"})).await;
        let named = place.call("grep", json!({"pattern": "needle", "path": "a.txt"})).await;
        let listed = place.call("glob", json!({"pattern": "*", "path": "locked"})).await;
        modes(0o755);
        assert_eq!(found.len(), if readable { 4 } else { 2 });
        assert_eq!((named.is_error, listed.is_error), (!readable, !readable));
        if !readable {
            assert!(named.output.starts_with("grep: a.txt: "), "{}", named.output);
            assert!(listed.output.starts_with("glob: locked: "), "{}", listed.output);
        }
    }

    // BUILTIN-56: each file has its rows, however it is called
    #[tokio::test]
    async fn names_that_cannot_be_shown_are_shown_nearly() {
        let place = Place::new();
        for name in [&b"x\xff"[..], b"x\xfe", b"x\ny"] {
            std::fs::write(place.path().join(std::ffi::OsStr::from_bytes(name)), "1\nneedle\n3\n").unwrap();
        }
        let found = grep(&place, json!({"pattern": "needle"})).await;
        let expected = "x\u{fffd}:2:needle\nx\u{fffd}:2:needle\nx\u{fffd}y:2:needle";
        assert_eq!(found, (expected.to_owned(), json!({"count": 3})));
        let found = rows(&place, json!({"pattern": "needle", "before": 1})).await;
        assert_eq!(found.len(), 8, "two files never touch, even if they are shown alike: {found:?}");
        let listed = place.call("glob", json!({"pattern": "x*"})).await;
        assert_eq!(listed.output, "x\u{fffd}\nx\u{fffd}\nx\u{fffd}y");
        assert_eq!(facts(&listed), json!({"count": 3}));
        let itself = place.call("glob", json!({"pattern": "x\ny"})).await;
        assert_eq!(itself.output, "x\u{fffd}y");
    }
}
