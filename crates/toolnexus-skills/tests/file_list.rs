//! Where a disk skill says it is, and which of its files it lists.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{Root, def, options};
use proptest::prelude::*;
use serde_json::json;
use toolnexus_core::ToolResult;
use toolnexus_skills::{LoadSkillsOptions, SkillDef, SkillPathDisplay, SkillSource, load_skills};
use url::Url;

/// The `<file>` lines of an output.
fn files(result: &ToolResult) -> Vec<String> {
    let lines = result.output.lines();
    lines.filter_map(|line| Some(line.strip_prefix("<file>")?.strip_suffix("</file>")?.to_owned())).collect()
}

/// The files of the skill `name`, relative to the skill's directory.
fn relative(root: &Root, name: &str, limit: i64) -> Vec<String> {
    let shown = LoadSkillsOptions { path_display: SkillPathDisplay::Logical, ..root.options() };
    files(&load_skills(&shown).load(name, Some(limit)))
}

fn base(result: &ToolResult) -> &str {
    result.output.lines().find_map(|line| line.strip_prefix("Base directory for this skill: ")).unwrap()
}

// SKILL-31: case 83
#[test]
fn a_blank_is_encoded_in_the_base_and_nowhere_else() {
    let root = Root::new();
    root.skill("my skills/s", "s").write("my skills/s/a b.txt", "");
    let result = load_skills(&root.options()).load("s", None);
    assert_eq!(base(&result), format!("file://{}/my%20skills/s", root.path().display()));
    assert_eq!(files(&result), [root.at("my skills/s/a b.txt")]);
    assert_eq!(
        result.metadata.map(serde_json::Value::Object),
        Some(json!({"name": "s", "dir": root.at("my skills/s")}))
    );
}

// SKILL-31: everything that an URL would read as something else
#[cfg(unix)]
#[test]
fn the_base_is_encoded_as_urls_ask() {
    for (dir, encoded) in [
        ("100% é?#", "100%25%20%C3%A9%3F%23"),
        ("%20", "%2520"),
        ("日本", "%E6%97%A5%E6%9C%AC"),
        ("🎉", "%F0%9F%8E%89"),
        ("a\tb\nc\u{7f}", "a%09b%0Ac%7F"),
        ("q\"<>`{}", "q%22%3C%3E%60%7B%7D"),
        ("back\\slash", "back%5Cslash"),
        ("a+b&c=d;e,f:g@h!i$j'k(l)*~-_.", "a+b&c=d;e,f:g@h!i$j'k(l)*~-_."),
    ] {
        let root = Root::new();
        root.skill(dir, "s");
        let source = load_skills(&root.options());
        let skill = source.get("s").unwrap();
        let expected = format!("file://{}/{encoded}", root.path().display());
        assert_eq!(skill.base, expected, "{dir:?}");
        assert_eq!(base(&source.load("s", Some(-1))), expected, "{dir:?}");
        // Everything else is the path itself.
        assert_eq!((&skill.dir, &skill.location), (&root.at(dir), &root.at(&format!("{dir}/SKILL.md"))));
    }
}

// SKILL-10, SKILL-18, SKILL-31: names that are no UTF-8 are bytes in the URL, and their order is that of the bytes
#[cfg(target_os = "linux")]
#[test]
fn undecodable_names_are_told_apart() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let root = Root::new();
    for (bytes, name) in [(b"x\xfe", "second"), (b"x\xfd", "first")] {
        let dir = root.path().join(OsStr::from_bytes(bytes));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("SKILL.md"), format!("---\nname: {name}\n---\n")).unwrap();
        std::fs::write(dir.join(OsStr::from_bytes(b"f\xff.txt")), "").unwrap();
    }
    let source = load_skills(&root.options());
    let names: Vec<&str> = source.skills().iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    let first = source.get("first").unwrap();
    assert!(first.base.ends_with("/x%FD"), "{}", first.base);
    assert!(first.dir.ends_with("/x\u{fffd}"), "{}", first.dir);
    assert!(Url::parse(&first.base).unwrap().to_file_path().unwrap().join("SKILL.md").is_file());
    assert_eq!(files(&source.load("first", None)), [root.at("x\u{fffd}/f\u{fffd}.txt")]);
}

// SKILL-31: paths are put in as they are
#[cfg(unix)]
#[test]
fn file_names_are_not_escaped() {
    let root = Root::new();
    root.skill("s", "s");
    for file in ["<b>&amp;.txt", "50%.txt", "ü ñ.txt"] {
        root.write(&format!("s/{file}"), "");
    }
    let expected = ["50%.txt", "<b>&amp;.txt", "ü ñ.txt"];
    assert_eq!(
        files(&load_skills(&root.options()).load("s", None)),
        expected.map(|file| root.at(&format!("s/{file}")))
    );
}

// SKILL-32: plain code-point order of the whole relative path, whatever the depth
#[cfg(target_os = "linux")] // where upper and lower case are two files
#[test]
fn the_list_is_in_code_point_order() {
    let root = Root::new();
    root.skill("s", "s");
    for file in ["b", "a/z/deep", "a-b/f", "a.txt", "B", "_x", "é", "zz", "a/A", "~"] {
        root.write(&format!("s/{file}"), "");
    }
    let sorted = ["B", "_x", "a-b/f", "a.txt", "a/A", "a/z/deep", "b", "zz", "~", "é"];
    assert_eq!(relative(&root, "s", 20), sorted);
    for limit in 1..sorted.len() {
        assert_eq!(relative(&root, "s", i64::try_from(limit).unwrap()), sorted[..limit], "cut after sorting");
    }
}

// SKILL-32: which entries are listed, and which are not
#[test]
fn skill_files_and_dependencies_are_not_listed() {
    let root = Root::new();
    root.skill("s", "s").skill("s/nested", "nested").skill("s/a/b/c", "deep");
    for file in
        ["skill.md", "SKILL.md.bak", ".env.example", ".github/x.yml", "node_modules.txt", "nested/n.txt"]
    {
        root.write(&format!("s/{file}"), "");
    }
    root.write("s/node_modules/m/index.js", "").write("s/a/node_modules/x", "").write("s/a/.git/HEAD", "");
    assert_eq!(
        relative(&root, "s", 20),
        [".env.example", ".github/x.yml", "SKILL.md.bak", "nested/n.txt", "node_modules.txt", "skill.md"]
    );
    assert_eq!(relative(&root, "nested", 20), ["n.txt"]);
    assert_eq!(relative(&root, "deep", 20), Vec::<String>::new());
}

// SKILL-33: no limit is ten, a positive one is the most there is, a negative one leaves the block out
#[test]
fn limits_hold_for_disk_and_data_alike() {
    let root = Root::new();
    root.skill("disk", "disk");
    let resources: Vec<String> = (0..12).map(|at| format!("{at:02} <raw> & \"verbatim\"")).rev().collect();
    for resource in &resources {
        root.write(&format!("disk/{}", &resource[..2]), "");
    }
    let data = SkillDef { resources: resources.clone(), ..def("data", "", "") };
    let none = def("none", "", "");
    let with = |sample_limit| {
        load_skills(&LoadSkillsOptions {
            sample_limit,
            skills: vec![data.clone(), none.clone()],
            ..root.options()
        })
    };
    for (limit, listed) in [(0, 10), (1, 1), (11, 11), (12, 12), (13, 12), (i64::MAX, 12)] {
        let source = with(limit);
        assert_eq!(files(&source.load("disk", None)).len(), listed, "{limit}");
        // In the order given, not sorted.
        assert_eq!(files(&source.load("data", None)), resources[..listed], "{limit}");
        assert_eq!(files(&with(3).load("data", Some(limit))), resources[..listed], "{limit}");
    }
    for limit in [-1, -2, i64::MIN] {
        for name in ["disk", "data", "none"] {
            let output = with(limit).load(name, None).output;
            assert!(
                output.ends_with("relative to this base directory.\n</skill_content>"),
                "{limit} {output}"
            );
            assert!(!output.contains("Note:") && !output.contains("skill_files"), "{output}");
        }
    }
    // A data skill without resources has no block at any limit; a disk skill always has it.
    assert!(!with(5).load("none", None).output.contains("skill_files"));
    for resource in &resources {
        std::fs::remove_file(root.path().join("disk").join(&resource[..2])).unwrap();
    }
    assert!(
        with(5).load("disk", None).output.ends_with("\n\n<skill_files>\n\n</skill_files>\n</skill_content>")
    );
}

// SKILL-40: order, cut, note and block are those of `Absolute`; what hosts see is not touched
#[test]
fn the_display_changes_the_paths_and_nothing_else() {
    let root = Root::new();
    root.skill("my skill", "a b#c").write("bad/SKILL.md", "no header");
    for file in ["x y.txt", "a/b.txt", "z.txt"] {
        root.write(&format!("my skill/{file}"), "");
    }
    let shown = |path_display| load_skills(&LoadSkillsOptions { path_display, ..root.options() });
    let (absolute, logical) = (shown(SkillPathDisplay::Absolute), shown(SkillPathDisplay::Logical));
    assert_eq!(LoadSkillsOptions::default().path_display, SkillPathDisplay::Absolute);
    for limit in [-1, 0, 1, 2] {
        let (host, model) = (absolute.load("a b#c", Some(limit)), logical.load("a b#c", Some(limit)));
        assert_eq!(base(&model), "skill://a b#c/");
        assert_eq!(model.metadata.clone().unwrap()["dir"], "skill://a b#c/");
        assert!(!model.output.contains(&root.at("")), "{}", model.output);
        let translated = model
            .output
            .replace("skill://a b#c/", base(&host))
            .replace("<file>", &format!("<file>{}/", root.at("my skill")));
        assert_eq!(translated, host.output, "{limit}");
    }
    assert_eq!(absolute.skills(), logical.skills());
    assert_eq!(absolute.skipped(), logical.skipped());
    assert_eq!(logical.skipped()[0].location, root.at("bad/SKILL.md"));
    assert_eq!(absolute.prompt(), logical.prompt());
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    // SKILL-32: files behind links are sorted under the link's path, and only then is cut
    #[test]
    fn linked_directories_take_part_in_sort_and_cut() {
        let (root, outside) = (Root::new(), Root::new());
        root.skill("s", "s").write("s/b.txt", "").write("s/c/d.txt", "");
        for file in ["1.txt", "2.txt", "3.txt"] {
            outside.write(file, "");
        }
        symlink(outside.path(), root.path().join("s/a")).unwrap();
        symlink(outside.path().join("1.txt"), root.path().join("s/zz.txt")).unwrap();
        let all = ["a/1.txt", "a/2.txt", "a/3.txt", "b.txt", "c/d.txt", "zz.txt"];
        for limit in 1..=all.len() {
            assert_eq!(relative(&root, "s", i64::try_from(limit).unwrap()), all[..limit]);
        }
    }

    // SKILL-8, SKILL-32: of two paths to a directory the shallower counts, also where the deeper sorts first
    #[test]
    fn a_directory_is_listed_once() {
        let (root, outside) = (Root::new(), Root::new());
        outside.write("f.txt", "");
        root.skill("s", "s").write("s/a/x.txt", "").write("s/b/y.txt", "");
        symlink(outside.path(), root.path().join("s/a/link")).unwrap();
        symlink(outside.path(), root.path().join("s/z")).unwrap();
        symlink(root.path().join("s/a"), root.path().join("s/b/to-a")).unwrap();
        symlink(root.path().join("s/b"), root.path().join("s/a/to-b")).unwrap();
        symlink(root.path(), root.path().join("s/a/up")).unwrap();
        // `up` is the root, which leads to `s` again (seen); what lies beside it is listed.
        root.write("beside.txt", "");
        assert_eq!(relative(&root, "s", 20), ["a/up/beside.txt", "a/x.txt", "b/y.txt", "z/f.txt"]);
    }

    // SKILL-32: regular files only; two links to one file are two files
    #[test]
    fn what_is_no_regular_file_is_not_listed() {
        let root = Root::new();
        root.skill("s", "s").write("s/file.txt", "");
        let s = root.path().join("s");
        symlink("file.txt", s.join("one.txt")).unwrap();
        symlink("file.txt", s.join("two.txt")).unwrap();
        symlink("nowhere", s.join("dangling.txt")).unwrap();
        symlink("/dev/null", s.join("device.txt")).unwrap();
        symlink("loop", s.join("loop")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(s.join("pipe")).status().unwrap().success());
        let _socket = UnixListener::bind(s.join("socket")).unwrap();
        // A link of the name is no file of the skill, whatever it leads to.
        root.write("s/sub/x.txt", "");
        symlink("x.txt", s.join("sub/SKILL.md")).unwrap();
        assert_eq!(relative(&root, "s", 20), ["file.txt", "one.txt", "sub/x.txt", "two.txt"]);
    }

    // SKILL-32: an unreadable directory hides its own files, no others
    #[test]
    fn an_unreadable_directory_is_passed_over() {
        let root = Root::new();
        root.skill("s", "s").write("s/locked/x.txt", "").write("s/open/y.txt", "");
        let locked = root.path().join("s/locked");
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
        let listed = relative(&root, "s", 20);
        // Whoever may read everything reads this one too.
        let readable = std::fs::read_dir(&locked).is_ok();
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o755)).unwrap();
        let expected: &[&str] = if readable { &["locked/x.txt", "open/y.txt"] } else { &["open/y.txt"] };
        assert_eq!(listed, expected);
    }

    // SKILL-8, SKILL-10: a skill behind a link lies where it was found
    #[test]
    fn a_linked_skill_shows_the_path_it_was_found_at() {
        let (root, outside) = (Root::new(), Root::new());
        outside.skill("real", "s").write("real/data.txt", "");
        symlink(outside.path().join("real"), root.path().join("link")).unwrap();
        let result = load_skills(&root.options()).load("s", None);
        assert_eq!(base(&result), format!("file://{}", root.at("link")));
        assert_eq!(files(&result), [root.at("link/data.txt")]);
    }
}

/// Directories and files with awkward names, none of which the file system refuses.
fn awkward() -> impl Strategy<Value = String> {
    "[^/\0]{1,12}".prop_filter("a name of its own", |name| {
        !matches!(name.as_str(), "." | ".." | "node_modules" | ".git" | "SKILL.md") && name.len() <= 200
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // SKILL-31: the base leads back to the directory, and is plain ASCII without a final slash
    #[cfg(target_os = "linux")] // where a name is any bytes
    #[test]
    fn the_base_leads_back(name in awkward()) {
        let root = Root::new();
        root.skill(&name, "s");
        let source: SkillSource = load_skills(&root.options());
        let base = &source.get("s").unwrap().base;
        prop_assert!(base.is_ascii() && !base.ends_with('/') && !base.contains([' ', '?', '#', '\n']), "{base}");
        prop_assert_eq!(Url::parse(base).unwrap().to_file_path().unwrap(), root.path().join(&name));
    }
}

// SKILL-2: nothing is kept of a root that is gone
#[test]
fn a_skill_that_was_removed_still_answers() {
    let root = Root::new();
    root.skill("s", "s").write("s/x", "");
    let source = load_skills(&options(&[root.path().to_path_buf()]));
    std::fs::remove_dir_all(root.path()).unwrap();
    let result = source.load("s", None);
    assert!(!result.is_error && result.output.contains("\nBody of s.\n"));
    assert_eq!(files(&result), Vec::<String>::new());
}

// SKILL-32: a search that nobody waits for any more ends; what needs none is answered all the same
#[tokio::test]
async fn a_cancelled_call_looks_for_no_files() {
    let root = Root::new();
    root.skill("disk", "disk").write("disk/x", "");
    let data = def("data", "", "body");
    let tool = load_skills(&LoadSkillsOptions { skills: vec![data], ..root.options() }).tool();
    let context = toolnexus_core::ToolContext::default();
    context.cancel.cancel();
    let call = async |name: &str| tool.execute_with(json!({"name": name}), context.clone()).await;
    assert_eq!(call("disk").await, ToolResult::failure("skill: cancelled"));
    assert!(!call("data").await.is_error);
    assert_eq!(files(&tool.execute(json!({"name": "disk"})).await), [root.at("disk/x")]);
}
