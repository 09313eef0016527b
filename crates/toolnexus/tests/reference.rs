//! `docs/reference.md` names what is there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]

use std::path::Path;

/// The lines of a doc comment right above an item's definition.
fn documentation<'a>(source: &'a str, item: &str) -> Option<Vec<&'a str>> {
    let defines = |line: &str| {
        let line = line.trim_start();
        let kinds = ["pub fn ", "pub async fn ", "pub struct ", "macro_rules! "];
        kinds.iter().any(|kind| {
            let name = line.strip_prefix(kind).and_then(|rest| rest.strip_prefix(item));
            name.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        })
    };
    let lines: Vec<&str> = source.lines().collect();
    let at = lines.iter().position(|line| defines(line))?;
    let above = lines.get(..at)?.iter().rev();
    Some(
        above
            .map(|line| line.trim_start())
            .take_while(|line| line.starts_with("///") || line.starts_with("#["))
            .collect(),
    )
}

// CORE-139: each topic has a public entry with an example that is compiled with the docs
#[test]
fn the_reference_names_documented_items() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let reference = std::fs::read_to_string(root.join("docs/reference.md")).unwrap();
    let rows = reference.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let item = cells.nth(1)?.trim().strip_prefix('`')?.strip_suffix('`')?;
        Some((item, cells.next()?.trim_end_matches(" |").trim_matches('`')))
    });
    let rows: Vec<_> = rows.collect();
    assert!(rows.len() > 20, "{rows:?}");
    for (item, file) in rows {
        let source =
            std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let docs =
            documentation(&source, item).unwrap_or_else(|| panic!("{file} defines no public `{item}`"));
        let examples = docs.iter().filter(|line| line.starts_with("/// ```")).count();
        assert!(examples >= 2, "`{item}` in {file} has no example: {docs:?}");
    }
    for topic in
        ["ToolkitOptions", "ClientOptions", "list_skills", "load_mcp", "Request", "to_openai", "to_gemini"]
    {
        assert!(reference.contains(&format!("`{topic}`")), "{topic}");
    }
}

// CORE-139: the map leads to files that are there
#[test]
fn the_map_names_paths_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let is_path =
        |text: &&str| text.starts_with("toolnexus") && text.contains('/') && !text.contains(['<', ' ']);
    let paths: Vec<_> = map.split('`').filter(is_path).collect();
    assert!(paths.len() > 50, "{paths:?}");
    for path in paths {
        assert!(root.join("crates").join(path).exists(), "{path}");
    }
}
