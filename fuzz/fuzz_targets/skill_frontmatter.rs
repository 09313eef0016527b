//! Bytes as a `SKILL.md`: it becomes one skill or one skip, and never takes the search down.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use toolnexus_skills::{LoadSkillsOptions, SkillSkipReason, list_skills, load_skills};

/// A folder with the one skill that is written anew for every input.
static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("target/skills/{}", std::process::id()));
    fs::create_dir_all(root.join("skill")).unwrap();
    root
});

// The library catches what its YAML parser panics with; the fuzzer's own hook would abort there.
// A panic that gets out of the library still fails the input.
fuzz_target!(
    init: std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))),
    |text: &[u8]| {
    fs::write(ROOT.join("skill/SKILL.md"), text).unwrap();
    let options = LoadSkillsOptions { dirs: vec![ROOT.clone()], ..Default::default() };
    let found = list_skills(&options);
    assert_eq!(found.skills.len() + found.skipped.len(), 1, "one file is one candidate");

    let Ok(text) = std::str::from_utf8(text) else {
        assert_eq!(found.skipped[0].reason, SkillSkipReason::Unreadable);
        return;
    };
    let source = load_skills(&options);
    assert_eq!(source.skills(), found.skills.as_slice());
    assert_eq!(source.skipped(), found.skipped.as_slice());
    let Some(skill) = source.skills().first() else {
        assert_ne!(source.skipped()[0].reason, SkillSkipReason::Unreadable);
        return;
    };
    assert!(!skill.name.is_empty() && skill.name == skill.name.trim());
    assert!(skill.description.as_deref().is_none_or(|it| !it.is_empty() && it == it.trim()));
    assert!(text.ends_with(&skill.content), "the instructions are the end of the file");
    assert!(skill.meta.values().map(depth).max().unwrap_or_default() <= 64, "deeper than any host can take");
    let json = serde_json::to_string(&skill.meta).unwrap();
    let read: serde_json::Value = serde_json::from_str(&json).expect("the header is JSON");
    assert_eq!(read.to_string(), json);
    let loaded = source.load(&skill.name, None);
    assert!(!loaded.is_error && loaded.output.contains(skill.content.trim()), "{}", loaded.output);
    let listed = source.prompt().contains("- **");
    assert_eq!(listed, skill.description.is_some(), "{}", source.prompt());
});

/// How many lists and maps lie within each other.
fn depth(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        serde_json::Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
