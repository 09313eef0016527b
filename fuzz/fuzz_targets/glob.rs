//! A pattern and a path as `glob` sees them: a file is found by its own path, by its escaped path and
//! by `**`; without alternatives and classes, a pattern matches what a naive reference says.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tokio::runtime::Runtime;
use toolnexus_core::Tool;
use toolnexus_tools::{BuiltinsConfig, create_builtin_tools};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap());

fuzz_target!(|input: (&str, &str)| {
    let (pattern, path) = input;
    let Some(path) = usable(path) else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join(&path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "").unwrap();
    let config = BuiltinsConfig { base_dir: Some(place.path().to_path_buf()), ..Default::default() };
    let glob = create_builtin_tools(Some(&config)).into_iter().find(|tool| tool.name == "glob").unwrap();

    assert_eq!(matches(&glob, "**", &path), Some(true));
    assert_eq!(matches(&glob, &path, &path), Some(true), "a path finds itself");
    assert_eq!(matches(&glob, &escaped(&path), &path), Some(true), "so does an escaped one");
    assert_eq!(matches(&glob, &escaped(&format!("{path}x")), &path), Some(false), "and nothing else");
    let found = matches(&glob, pattern, &path);
    let simple = !pattern.contains(['[', ']', '{', '}', '\\', '\0']) && !pattern.starts_with(['.', '/']);
    if simple && !pattern.is_empty() && pattern.len() <= 200 {
        let components: Vec<&str> = path.split('/').collect();
        let subject = if pattern.contains('/') { &components[..] } else { &components[components.len() - 1..] };
        let expected = reference(&pattern.split('/').collect::<Vec<_>>(), subject);
        assert_eq!(found, Some(expected || subject.join("/") == pattern));
    }
});

/// Whether the one file is listed; `None` when the pattern is refused.
fn matches(glob: &Tool, pattern: &str, path: &str) -> Option<bool> {
    let result = RUNTIME.block_on(glob.execute(json!({"pattern": pattern})));
    if result.is_error {
        let refusals =
            ["glob: invalid pattern: ", "glob: pattern is required", "glob: pattern must be relative to ."];
        assert!(refusals.iter().any(|refusal| result.output.starts_with(refusal)), "{}", result.output);
        return None;
    }
    assert!(result.output.is_empty() || result.output == path.replace('\n', "\u{fffd}"));
    Some(!result.output.is_empty())
}

/// A relative path that a file can have and that is searched.
fn usable(path: &str) -> Option<String> {
    let usable = |name: &&str| {
        !matches!(*name, "" | "." | ".." | ".git" | "node_modules") && name.len() <= 200 && !name.contains('\0')
    };
    let names: Vec<&str> = path.split('/').filter(usable).take(8).collect();
    if names.is_empty() { None } else { Some(names.join("/")) }
}

fn escaped(path: &str) -> String {
    path.chars().flat_map(|c| if c == '/' { vec![c] } else { vec!['\\', c] }).collect()
}

fn reference(pattern: &[&str], path: &[&str]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((&"**", [])) => !path.is_empty(),
        Some((&"**", rest)) => (0..=path.len()).any(|start| reference(rest, &path[start..])),
        Some((component, rest)) => {
            let (pattern, name): (Vec<char>, Vec<char>) =
                (component.chars().collect(), path.first().map(|name| name.chars().collect()).unwrap_or_default());
            !path.is_empty() && component_matches(&pattern, &name) && reference(rest, &path[1..])
        }
    }
}

/// By the table of what of the pattern matches what of the name.
fn component_matches(pattern: &[char], name: &[char]) -> bool {
    let mut ends = vec![false; name.len() + 1];
    ends[0] = true;
    for part in pattern {
        if *part == '*' {
            let first = ends.iter().position(|end| *end).unwrap_or(ends.len());
            ends[first..].fill(true);
        } else {
            for end in (0..name.len()).rev() {
                ends[end + 1] = ends[end] && (*part == '?' || *part == name[end]);
            }
            ends[0] = false;
        }
    }
    ends[name.len()]
}
