//! `grep` against its definition: read, decode, split, match, sort, cut.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::{Place, call, facts};
use proptest::prelude::*;
use regex::Regex;
use serde_json::{Value, json};
use toolnexus_tools::{BuiltinLimits, BuiltinsConfig};

/// What is searched: contents by path.
type Tree = BTreeMap<String, Vec<u8>>;

/// A call as the definition sees it.
#[derive(Debug, Clone)]
struct Query {
    pattern: String,
    limit: i64,
    before: i64,
    after: i64,
    line_bytes: usize,
}

/// The lines of a file; none of a binary one.
fn lines_of(content: &[u8]) -> Vec<String> {
    if content.iter().take(8192).any(|byte| *byte == 0) {
        return Vec::new();
    }
    let decoded = String::from_utf8_lossy(content);
    let mut lines: Vec<&str> = decoded.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    lines.into_iter().map(|line| line.strip_suffix('\r').unwrap_or(line).to_owned()).collect()
}

fn cut(line: &str, most: usize) -> String {
    let mut kept = most.min(line.len());
    if most == 0 {
        kept = line.len();
    }
    while !line.is_char_boundary(kept) {
        kept -= 1;
    }
    match line.len() - kept {
        0 => line.to_owned(),
        more => format!("{} [… {more} more bytes]", &line[..kept]),
    }
}

/// The output and the metadata, by definition.
fn naive(tree: &Tree, query: &Query) -> (String, Value) {
    let pattern = Regex::new(&query.pattern).unwrap();
    let [limit, before, after] = [query.limit, query.before, query.after].map(|n| n.max(0) as usize);
    let (mut rows, mut total) = (Vec::new(), 0);
    for (path, content) in tree {
        let lines = lines_of(content);
        let matching: Vec<usize> = (0..lines.len()).filter(|n| pattern.is_match(&lines[*n])).collect();
        let shown = &matching[..matching.len().min(limit.saturating_sub(total))];
        total += matching.len();
        let mut last = None;
        for (number, line) in lines.iter().enumerate() {
            let near = shown.iter().any(|shown| number + before >= *shown && number <= *shown + after);
            if !near {
                continue;
            }
            let breaks = last.is_none_or(|last| last + 1 < number);
            if before + after > 0 && breaks && !rows.is_empty() {
                rows.push("--".to_owned());
            }
            last = Some(number);
            let mark = if shown.contains(&number) { ':' } else { '-' };
            rows.push(format!("{path}{mark}{}{mark}{}", number + 1, cut(line, query.line_bytes)));
        }
    }
    let count = total.min(limit);
    let facts = if count < total {
        json!({"count": count, "truncated": true, "total": total})
    } else {
        json!({"count": count})
    };
    (rows.join("\n"), facts)
}

fn real(config: &BuiltinsConfig, query: &Query, more: &Value) -> (String, Value) {
    let limits = BuiltinLimits { line_bytes: query.line_bytes as u64, ..Default::default() };
    let config = BuiltinsConfig { limits, ..config.clone() };
    let mut arguments = json!({
        "pattern": query.pattern, "limit": query.limit, "before": query.before, "after": query.after,
    });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(call(&config, "grep", arguments));
    assert!(!result.is_error, "{}", result.output);
    (result.output.clone(), facts(&result))
}

fn query() -> impl Strategy<Value = Query> {
    let pattern = prop_oneof![
        Just("a".to_owned()),
        Just("".to_owned() + "b*"),
        Just("^$".to_owned()),
        Just("^a|b$".to_owned()),
        Just(r"\bab\b".to_owned()),
        Just(r"\B".to_owned()),
        Just(r"\Aa".to_owned()),
        Just(r"(b|\r)\z".to_owned()),
        Just("(?i)A.É".to_owned()),
        Just("\u{fffd}".to_owned()),
        Just(r"[^a\n]\s*$".to_owned()),
        Just(r"\r".to_owned()),
        Just("(?s).+".to_owned()),
        Just(r"\x00".to_owned()),
        "[abé^$.|]{1,4}",
    ];
    (pattern, -1i64..12, -1i64..4, -1i64..4, prop_oneof![Just(0usize), Just(4096), 1usize..8])
        .prop_filter("a pattern", |(pattern, ..)| Regex::new(pattern).is_ok())
        .prop_map(|(pattern, limit, before, after, line_bytes)| Query {
            pattern,
            limit,
            before,
            after,
            line_bytes,
        })
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => "[abé \n]{0,6}".prop_map(String::into_bytes),
        3 => Just(b"\n".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(vec![0xff]),
        1 => Just(vec![0xf0, 0x9f]),
        1 => Just("\u{feff}".as_bytes().to_vec()),
    ];
    let text = proptest::collection::vec(part, 0..16).prop_map(|parts| parts.concat());
    // Sometimes a NUL, sometimes far down, and sometimes more than is read at once.
    prop_oneof![
        8 => text.clone(),
        1 => text.clone().prop_map(|mut text| { text.push(0); text }),
        1 => (8180usize..8200, text.clone()).prop_map(|(filler, text)| {
            [vec![b'x'; filler], b"\0".to_vec(), text].concat()
        }),
        1 => (1usize..40, text).prop_map(|(seed, text)| {
            let mut line = text;
            line.extend(std::iter::repeat_n(b'b', seed));
            line.extend_from_slice(b"\r\n");
            line.repeat(140_000 / line.len())
        }),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    proptest::collection::btree_map("[a-c]{1,2}x(/[a-cé-]{1,2}y){0,2}", content(), 0..8)
}

/// Writes what can be written: not a file where a directory is.
fn plant(place: &Place, tree: &Tree) -> Tree {
    let mut made = Tree::new();
    for (path, content) in tree {
        let file = place.path().join(path);
        if std::fs::create_dir_all(file.parent().unwrap()).is_ok() && std::fs::write(&file, content).is_ok() {
            made.insert(path.clone(), content.clone());
        }
    }
    made
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    // BUILTIN-57, BUILTIN-58, BUILTIN-59, BUILTIN-60, BUILTIN-65, BUILTIN-66, BUILTIN-99
    #[test]
    fn grep_is_what_it_is_defined_to_be(tree in tree(), query in query(), confined in any::<bool>()) {
        let place = Place::new();
        let tree = plant(&place, &tree);
        let config = if confined { place.confined() } else { place.config() };
        prop_assert_eq!(real(&config, &query, &json!({})), naive(&tree, &query));
    }

    // BUILTIN-61, BUILTIN-64
    #[test]
    fn a_part_of_a_tree_is_searched_like_the_whole(tree in tree(), query in query()) {
        let place = Place::new();
        let tree = plant(&place, &tree);
        let by_name: Tree = tree.iter().filter(|(path, _)| path.ends_with('y'))
            .map(|(path, content)| (path.clone(), content.clone())).collect();
        prop_assert_eq!(real(&place.config(), &query, &json!({"include": "*y"})), naive(&by_name, &query));
        if let Some((path, content)) = tree.last_key_value() {
            let base_name = Path::new(path).file_name().unwrap().to_str().unwrap().to_owned();
            let alone = Tree::from([(base_name, content.clone())]);
            prop_assert_eq!(real(&place.config(), &query, &json!({"path": path})), naive(&alone, &query));
        }
    }
}

/// Every file below, but for what a search does not enter.
fn read_tree(directory: &Path, prefix: &str, tree: &mut Tree) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap().to_owned();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && name != "node_modules" && name != ".git" {
            read_tree(&entry.path(), &format!("{prefix}{name}/"), tree);
        } else if kind.is_file() {
            tree.insert(format!("{prefix}{name}"), std::fs::read(entry.path()).unwrap());
        }
    }
}

// BUILTIN-55, BUILTIN-57, BUILTIN-58, BUILTIN-60, BUILTIN-63: on real files
#[test]
fn sources_are_searched_like_the_definition_says() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tree = Tree::new();
    for part in ["src", "tests"] {
        read_tree(&sources.join(part), &format!("{part}/"), &mut tree);
    }
    let config = BuiltinsConfig { base_dir: Some(sources.to_path_buf()), ..Default::default() };
    for (pattern, limit, before, after) in [
        ("fn ", 100, 0, 0),
        ("(?i)todo|^use .*;$", 37, 1, 2),
        ("^$", 10_000, 3, 0),
        ("Nirgendwo|…", 100, 0, 50),
    ] {
        let query = Query { pattern: pattern.to_owned(), limit, before, after, line_bytes: 80 };
        let found = real(&config, &query, &json!({"include": "{src,tests}/**"}));
        assert_eq!(found, naive(&tree, &query), "{pattern}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (pattern, belongs) in [
        ("src/**", (|path: &str| path.starts_with("src/")) as fn(&str) -> bool),
        ("tests/*.rs", |path| {
            path.starts_with("tests/") && path.ends_with(".rs") && path.matches('/').count() == 1
        }),
        ("**/mod.rs", |path| path.ends_with("/mod.rs")),
        ("{src,tests}/**/[a-m]*", |path| {
            path.rsplit('/').next().unwrap().starts_with(|first: char| ('a'..='m').contains(&first))
        }),
    ] {
        let expected: Vec<&str> = tree.keys().map(String::as_str).filter(|path| belongs(path)).collect();
        // Other files may be there, such as those of a build; these are not.
        let include = if pattern == "**/mod.rs" { "{src,tests}/**/mod.rs" } else { pattern };
        let found = runtime.block_on(call(&config, "glob", json!({"pattern": include, "limit": 10_000})));
        assert_eq!(found.output.lines().collect::<Vec<_>>(), expected, "{pattern}");
        assert_eq!(facts(&found), json!({"count": expected.len()}));
    }
}

/// Sources of others that were downloaded to build this, as far as they are there as a whole.
fn foreign_sources() -> Vec<PathBuf> {
    let home = std::env::home_dir().unwrap_or_default().join(".cargo");
    let home = std::env::var_os("CARGO_HOME").map_or(home, Into::into);
    let below = |directory: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let mut crates: Vec<_> =
        below(&home.join("registry/src")).iter().flat_map(|index| below(index)).collect();
    crates.retain(|place| place.join(".cargo-ok").exists());
    crates.sort();
    crates
}

// BUILTIN-55, BUILTIN-57, BUILTIN-58, BUILTIN-60, BUILTIN-65: on whatever others write
#[test]
fn foreign_sources_are_searched_like_the_definition_says() {
    const ENOUGH: usize = 1024 * 1024;
    let mut searched = 0;
    for place in foreign_sources().iter().step_by(23) {
        let mut tree = Tree::new();
        read_tree(place, "", &mut tree);
        let size: usize = tree.values().map(Vec::len).sum();
        if size > ENOUGH {
            continue;
        }
        searched += size;
        let config = BuiltinsConfig { base_dir: Some(place.clone()), ..Default::default() };
        for (pattern, limit, before, after) in
            [(r"\bfn \w+\(", 50, 0, 1), ("^$|\\r|[^\\x00-\\x7f]", 200, 1, 0)]
        {
            let query = Query { pattern: pattern.to_owned(), limit, before, after, line_bytes: 60 };
            assert_eq!(
                real(&config, &query, &json!({})),
                naive(&tree, &query),
                "{pattern} in {}",
                place.display()
            );
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listed = runtime.block_on(call(&config, "glob", json!({"pattern": "**", "limit": 100_000})));
        assert!(listed.output.lines().eq(tree.keys()), "{}", place.display());
        if searched > ENOUGH {
            break;
        }
    }
}
