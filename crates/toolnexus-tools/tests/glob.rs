//! The `glob` tool.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{Place, call, facts, tool};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolnexus_core::{ToolContext, ToolResult};
use toolnexus_tools::BuiltinsConfig;

async fn rows(place: &Place, arguments: Value) -> Vec<String> {
    let result = place.call("glob", arguments).await;
    assert!(!result.is_error, "{}", result.output);
    result.output.lines().map(str::to_owned).collect()
}

async fn matching(place: &Place, pattern: &str) -> Vec<String> {
    rows(place, json!({"pattern": pattern})).await
}

/// The files of cases 28 to 31.
fn needles() -> Place {
    let place = Place::new();
    place.write("a.txt", "needle here\nplain\n").write("b.txt", "no match\n").write("sub/c.md", "needle\n");
    place
}

// BUILTIN-13
#[tokio::test]
async fn a_pattern_is_required() {
    let result = Place::new().call("glob", json!({"path": "."})).await;
    assert_eq!(result, ToolResult::failure("glob: pattern is required"));
}

// BUILTIN-61, BUILTIN-63: case 31
#[tokio::test]
async fn rows_are_relative_paths() {
    let place = needles();
    for pattern in ["*.md", "**/*.md", "sub/*", "sub/**", "./sub/*.md"] {
        assert_eq!(matching(&place, pattern).await, ["sub/c.md"], "{pattern}");
    }
    let result = place.call("glob", json!({"pattern": "*.txt"})).await;
    assert_eq!((result.output.as_str(), facts(&result)), ("a.txt\nb.txt", json!({"count": 2})));
    let nothing = place.call("glob", json!({"pattern": "*.none"})).await;
    assert_eq!(
        (nothing.output.as_str(), nothing.is_error, facts(&nothing)),
        ("", false, json!({"count": 0}))
    );
}

// BUILTIN-57, BUILTIN-63, BUILTIN-99: case 34
#[tokio::test]
async fn rows_are_sorted_then_cut() {
    let place = Place::new();
    place.write("alpha/f.txt", "").write("alpha-b.txt", "").write("z.txt", "");
    let result = place.call("glob", json!({"pattern": "*.txt", "limit": 2})).await;
    assert_eq!(result.output, "alpha-b.txt\nalpha/f.txt");
    assert_eq!(facts(&result), json!({"count": 2, "truncated": true, "total": 3}));
    for limit in [json!(0), json!(-1)] {
        let none = place.call("glob", json!({"pattern": "*.txt", "limit": limit})).await;
        assert_eq!(
            (none.output.as_str(), facts(&none)),
            ("", json!({"count": 0, "truncated": true, "total": 3}))
        );
    }
}

// BUILTIN-63
#[tokio::test]
async fn a_hundred_rows_are_enough_for_most() {
    let place = Place::new();
    for file in 0..101 {
        place.write(&format!("{file:03}"), "");
    }
    let result = place.call("glob", json!({"pattern": "*"})).await;
    assert_eq!(facts(&result), json!({"count": 100, "truncated": true, "total": 101}));
    assert!(result.output.ends_with("\n099"));
}

// BUILTIN-55
#[tokio::test]
async fn hidden_files_are_seen_and_dependencies_are_not() {
    let place = Place::new();
    for file in [".hidden/.x", "a/node_modules/x", "b/.git/x", ".github/x", "node_modules2/x"] {
        place.write(file, "");
    }
    place.write("c/node_modules", "").write("c/.git", "");
    assert_eq!(
        matching(&place, "**").await,
        [".github/x", ".hidden/.x", "c/.git", "c/node_modules", "node_modules2/x"]
    );
    assert_eq!(rows(&place, json!({"pattern": "*", "path": "a/node_modules"})).await, ["x"]);
    assert_eq!(rows(&place, json!({"pattern": "*", "path": "b/.git"})).await, ["x"]);
}

// BUILTIN-56, BUILTIN-25
#[tokio::test]
async fn a_path_moves_the_root() {
    let place = needles();
    assert_eq!(rows(&place, json!({"pattern": "*", "path": "sub"})).await, ["c.md"]);
    assert_eq!(rows(&place, json!({"pattern": "*", "path": place.at("sub")})).await, ["c.md"]);
    assert_eq!(rows(&place, json!({"pattern": "*", "path": ""})).await.len(), 3);
}

// BUILTIN-64
#[tokio::test]
async fn a_path_that_is_not_there_is_an_error() {
    let place = needles();
    let missing = place.call("glob", json!({"pattern": "*", "path": "nope"})).await;
    assert_eq!(missing, ToolResult::failure("glob: path not found: nope"));
    let file = place.call("glob", json!({"pattern": "*", "path": "a.txt"})).await;
    assert_eq!(file, ToolResult::failure("glob: path is not a directory: a.txt"));
}

// BUILTIN-61
#[tokio::test]
async fn patterns_are_anchored_and_case_sensitive() {
    let place = Place::new();
    place.write("src/a/main.rs", "").write("src/main.rs", "").write("Main.rs", "").write("x/src/main.rs", "");
    assert_eq!(matching(&place, "src/*/main.rs").await, ["src/a/main.rs"]);
    assert_eq!(matching(&place, "src/**/main.rs").await, ["src/a/main.rs", "src/main.rs"]);
    assert_eq!(matching(&place, "main.rs").await, ["src/a/main.rs", "src/main.rs", "x/src/main.rs"]);
    assert_eq!(matching(&place, "main").await, [""; 0]);
    assert_eq!(matching(&place, "src?main.rs").await, [""; 0]);
}

// BUILTIN-62
#[tokio::test]
async fn alternatives_classes_and_paths_that_look_like_patterns() {
    let place = Place::new();
    place
        .write("app/[id]/page.tsx", "")
        .write("app/i/page.tsx", "")
        .write("a.ts", "")
        .write("b.js", "")
        .write("[", "");
    assert_eq!(matching(&place, "*.{ts,js}").await, ["a.ts", "b.js"]);
    assert_eq!(matching(&place, "[ab].ts").await, ["a.ts"]);
    assert_eq!(matching(&place, "app/[id]/page.tsx").await, ["app/[id]/page.tsx", "app/i/page.tsx"]);
    assert_eq!(matching(&place, "[").await, ["["]);
    let bad = place.call("glob", json!({"pattern": "a[x"})).await;
    assert!(bad.is_error && bad.output.starts_with("glob: invalid pattern: "), "{}", bad.output);
}

// BUILTIN-106
#[cfg(unix)]
#[tokio::test]
async fn an_absolute_pattern_must_lead_below_the_root() {
    let place = needles();
    let root = std::fs::canonicalize(place.path()).unwrap();
    assert_eq!(matching(&place, &format!("{}/sub/*.md", root.display())).await, ["sub/c.md"]);
    assert_eq!(matching(&place, &format!("{}/*.txt", root.display())).await, ["a.txt", "b.txt"]);
    let outside = place.call("glob", json!({"pattern": "/nowhere/*.md", "path": "sub"})).await;
    assert_eq!(outside, ToolResult::failure("glob: pattern must be relative to sub"));
    let sibling = place.call("glob", json!({"pattern": format!("{}x/*", root.display())})).await;
    assert_eq!(sibling, ToolResult::failure("glob: pattern must be relative to ."));
}

// BUILTIN-8: `respectGitignore`
#[tokio::test]
async fn ignored_files_are_left_out_when_asked() {
    let place = Place::new();
    place
        .write(".gitignore", "*.log\n")
        .write(".ignore", "secret\n")
        .write("a.log", "")
        .write("secret", "")
        .write("x", "");
    assert_eq!(matching(&place, "*").await, [".gitignore", ".ignore", "a.log", "secret", "x"]);
    let config = BuiltinsConfig { respect_gitignore: true, ..place.config() };
    let result = call(&config, "glob", json!({"pattern": "*"})).await;
    assert_eq!(result.output, ".gitignore\n.ignore\nx");
}

// BUILTIN-66: rules of the directories above hold too, and none of them opens what is never entered
#[tokio::test]
async fn rules_from_above_are_honoured() {
    let place = Place::new();
    place
        .write(".gitignore", "*.log\n/sub/deep/only\n")
        .write("sub/.gitignore", "!kept.log\n")
        .write("sub/kept.log", "")
        .write("sub/a.log", "")
        .write("sub/deep/only", "")
        .write("sub/deep/node_modules/x", "")
        .write("sub/deep/y", "");
    let config = BuiltinsConfig { respect_gitignore: true, ..place.config() };
    let result = call(&config, "glob", json!({"pattern": "*", "path": "sub"})).await;
    assert_eq!(result.output, ".gitignore\ndeep/y\nkept.log");
    let result = call(&config, "glob", json!({"pattern": "*", "path": "sub/deep"})).await;
    assert_eq!(result.output, "y");
}

/// Where [`global_excludes_are_honoured`] tells its child what to search.
const SEARCHED: &str = "TOOLNEXUS_TEST_SEARCHED";

// BUILTIN-66: what git ignores everywhere, which it knows from the environment
#[test]
fn global_excludes_are_honoured() {
    let (place, home) = (Place::new(), Place::new());
    place.write("a.swp", "").write("b", "");
    home.write("git/ignore", "*.swp\n");
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "global_excludes_are_honoured_here"])
        .env(SEARCHED, place.path())
        .envs([("XDG_CONFIG_HOME", home.path()), ("HOME", home.path())])
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

#[tokio::test]
#[ignore = "run by global_excludes_are_honoured, in an environment of its own"]
async fn global_excludes_are_honoured_here() {
    let Some(searched) = std::env::var_os(SEARCHED) else { return };
    let config = BuiltinsConfig { base_dir: Some(searched.into()), ..Default::default() };
    assert_eq!(call(&config, "glob", json!({"pattern": "*"})).await.output, "a.swp\nb");
    let config = BuiltinsConfig { respect_gitignore: true, ..config };
    assert_eq!(call(&config, "glob", json!({"pattern": "*"})).await.output, "b");
}

// BUILTIN-27
#[tokio::test]
async fn a_confined_search_stays_inside() {
    let place = needles();
    let inside = call(&place.confined(), "glob", json!({"pattern": "*"})).await;
    assert_eq!(inside.output, "a.txt\nb.txt\nsub/c.md");
    for path in ["..", "/", "sub/../.."] {
        let outside = call(&place.confined(), "glob", json!({"pattern": "*", "path": path})).await;
        let text = format!("glob: {path} resolves outside baseDir {}", place.path().display());
        assert_eq!(outside, ToolResult::failure(text));
    }
    let config = BuiltinsConfig { confine_to_base_dir: true, ..Default::default() };
    let nowhere = call(&config, "glob", json!({"pattern": "*"})).await;
    assert_eq!(nowhere, ToolResult::failure("glob: confineToBaseDir is set but baseDir is empty"));
    // A pattern cannot lead where a path must not.
    for pattern in ["../*", "sub/../../**", "/**"] {
        let listed = call(&place.confined(), "glob", json!({"pattern": pattern})).await;
        assert!(listed.is_error || listed.output.is_empty(), "{}", listed.output);
    }
}

// BUILTIN-13, BUILTIN-14, BUILTIN-15
#[tokio::test]
async fn arguments_are_read_leniently() {
    let place = needles();
    place.write("7", "");
    for (limit, count) in
        [(json!("2"), 2), (json!(2.9), 2), (json!(true), 4), (json!([1]), 4), (json!(null), 4)]
    {
        let found = rows(&place, json!({"pattern": "*", "limit": limit, "unknown": 1, "path": null})).await;
        assert_eq!(found.len(), count, "{limit}");
    }
    assert_eq!(rows(&place, json!({"pattern": 7})).await, ["7"]);
    for pattern in [json!(""), json!(null), json!(["*"])] {
        let result = place.call("glob", json!({"pattern": pattern})).await;
        assert_eq!(result, ToolResult::failure("glob: pattern is required"));
    }
}

// BUILTIN-62
#[tokio::test]
async fn what_is_no_pattern_is_an_error_with_a_reason() {
    for (pattern, reason) in [
        ("a[x", "unclosed character class: missing ']'; write '\\[' for the character"),
        ("{a,b", "unclosed alternatives: missing '}'; write '[{]' for the character"),
        ("[b-a]", "invalid range: 'b' is behind 'a'"),
    ] {
        let result = needles().call("glob", json!({"pattern": pattern})).await;
        assert_eq!(result, ToolResult::failure(format!("glob: invalid pattern: {reason}")));
    }
}

// BUILTIN-19
#[tokio::test]
async fn a_cancelled_search_says_so() {
    let place = needles();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let context = ToolContext { cancel, ..Default::default() };
    let result = tool(&place.config(), "glob").execute_with(json!({"pattern": "*"}), context).await;
    assert_eq!(result, ToolResult::failure("glob: cancelled"));
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    // BUILTIN-55: case 35
    #[tokio::test]
    async fn links_are_neither_listed_nor_followed() {
        let place = needles();
        symlink("a.txt", place.path().join("l.txt")).unwrap();
        symlink("sub", place.path().join("linked")).unwrap();
        assert_eq!(matching(&place, "*").await, ["a.txt", "b.txt", "sub/c.md"]);
        assert_eq!(
            rows(&place, json!({"pattern": "*", "path": "linked"})).await,
            ["c.md"],
            "the root may be a link"
        );
    }

    // BUILTIN-106: a model knows the base by the name it was given
    #[tokio::test]
    async fn an_absolute_pattern_may_go_through_a_link() {
        let place = needles();
        symlink(place.path(), place.path().join("sub/link")).unwrap();
        let arguments = json!({"pattern": place.at("sub/link/*.txt"), "path": place.at("sub/link")});
        assert_eq!(rows(&place, arguments).await, ["a.txt", "b.txt"]);
        // Also when the base itself goes by the name of a link.
        let base_dir = Some(place.path().join("sub/link"));
        for confine_to_base_dir in [false, true] {
            let config =
                BuiltinsConfig { base_dir: base_dir.clone(), confine_to_base_dir, ..Default::default() };
            let listed = call(&config, "glob", json!({"pattern": place.at("sub/link/*.txt")})).await;
            assert_eq!(listed.output, "a.txt\nb.txt");
        }
    }

    // BUILTIN-55
    #[tokio::test]
    async fn what_cannot_be_read_is_passed_over() {
        let place = needles();
        place.write("locked/x", "");
        let locked = place.path().join("locked");
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
        let found = matching(&place, "*.txt").await;
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found, ["a.txt", "b.txt"]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    // BUILTIN-57, BUILTIN-63: whatever order files were made in
    #[test]
    fn the_rows_are_the_start_of_the_sorted_list(
        paths in proptest::collection::btree_set("[a-cé.-]{1,2}x(/[a-c-]{1,2}y){0,2}", 0..12),
        limit in 0usize..8,
    ) {
        let place = Place::new();
        let mut made = Vec::new();
        for path in &paths {
            // A file where a directory is needed, or the other way round, is left out.
            let file = place.path().join(path);
            if std::fs::create_dir_all(file.parent().unwrap()).is_ok() && std::fs::write(&file, "").is_ok() {
                made.push(path.clone());
            }
        }
        made.sort();
        let total = made.len();
        made.truncate(limit);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result = runtime.block_on(place.call("glob", json!({"pattern": "**", "limit": limit})));
        prop_assert_eq!(result.output.lines().collect::<Vec<_>>(), made);
        prop_assert_eq!(&facts(&result)["count"], &json!(limit.min(total)));
    }
}

// BUILTIN-64, BUILTIN-106: an empty list would read as if nothing were there
#[tokio::test]
async fn a_pattern_that_goes_up_is_refused() {
    let place = needles();
    for pattern in ["../*.md", "sub/../*.txt", "..", "./../**", "sub/.."] {
        for (tool, argument) in [("glob", "pattern"), ("grep", "include")] {
            let arguments = json!({"pattern": pattern, "include": pattern, "path": "sub"});
            let refused = format!("{tool}: {argument} must not contain .., it is matched below sub");
            assert_eq!(place.call(tool, arguments).await, ToolResult::failure(refused), "{pattern}");
        }
    }
    place.write("..b/c..d", "");
    assert_eq!(matching(&place, "..b/c..*").await, ["..b/c..d"]);
}

// BUILTIN-99: no number of rows that a model asks for takes any amount of memory
#[cfg(unix)]
#[tokio::test]
async fn a_list_of_very_many_long_paths_is_cut_and_says_so() {
    let place = Place::new();
    // Paths of 4 KB, of which each is held as a row and as a path.
    let deep = format!("{}/", "d".repeat(250)).repeat(15);
    let deepest = place.path().join(&deep);
    std::fs::create_dir_all(&deepest).unwrap();
    for number in 0..2300 {
        std::fs::write(deepest.join(format!("{number:04}")), "").unwrap();
    }
    let result = place.call("glob", json!({"pattern": "*", "limit": i64::MAX})).await;
    let rows = result.output.as_str();
    let shown = rows.lines().count();
    assert!((2000..2300).contains(&shown), "{shown}");
    assert_eq!(facts(&result), json!({"count": shown, "truncated": true, "total": 2300}));
    assert!(rows.ends_with(&format!("/{:04}", shown - 1)), "the first ones are shown");
}
