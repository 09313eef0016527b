//! Text as a patch over two files: it is applied whole, or refused and nothing has changed.
//!
//! The input is the content of `a`, that of `d/b`, and sections, with NUL bytes between them.
#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tokio::runtime::Runtime;
use toolnexus_tools::{BuiltinsConfig, create_builtin_tools};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().build().unwrap());

fuzz_target!(|input: &str| {
    let mut parts = input.splitn(3, '\0');
    let (Some(a), Some(b), Some(sections)) = (parts.next(), parts.next(), parts.next()) else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("a"), a).unwrap();
    fs::write(dir.path().join("d/b"), b).unwrap();
    let before = tree(dir.path());

    let config = BuiltinsConfig {
        base_dir: Some(dir.path().to_path_buf()),
        confine_to_base_dir: true,
        ..Default::default()
    };
    let tools = create_builtin_tools(Some(&config));
    let tool = tools.iter().find(|tool| tool.name == "apply_patch").unwrap();
    let text = format!("*** Begin Patch\n{sections}\n*** End Patch");
    let result = RUNTIME.block_on(tool.execute(json!({"patchText": text})));

    let after = tree(dir.path());
    if result.is_error {
        assert!(result.output.starts_with("apply_patch: "), "{}", result.output);
        assert_eq!(after, before, "an error leaves everything as it was: {}", result.output);
        return;
    }
    let facts = result.metadata.unwrap();
    let number = |key: &str| facts[key].as_i64().unwrap();
    let changes = number("added") + number("updated") + number("deleted");
    assert!(result.output.starts_with(&format!("Applied {changes} file change(s): ")), "{}", result.output);
    let temporary = |name: &String| name.rsplit('/').next().unwrap().starts_with(".toolnexus-");
    assert!(!after.keys().any(temporary), "a temporary file is left: {after:?}");
    assert_eq!(lines(&after) - lines(&before), number("additions") - number("deletions"));
});

/// Everything below a directory; what is no file has no content.
fn tree(dir: &Path) -> BTreeMap<String, Option<String>> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let content = path.is_file().then(|| fs::read_to_string(&path).unwrap());
            if path.is_dir() {
                dirs.push(path.clone());
            }
            all.insert(path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned(), content);
        }
    }
    all
}

fn lines(tree: &BTreeMap<String, Option<String>>) -> i64 {
    tree.values().flatten().map(|content| content.split_inclusive('\n').count() as i64).sum()
}
