//! What a model reads: the catalogue and the `skill` tool.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::{Root, def, options};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolnexus_core::{ToolResult, ToolSource};
use toolnexus_skills::{LoadSkillsOptions, SkillDef, SkillPathDisplay, SkillSource, load_skills};

const HELLO: &str =
    "---\nname: hello-world\ndescription: A tiny example skill.\n---\n\n# Hello World Skill\n\nRead it.\n\n";

fn hello() -> Root {
    let root = Root::new();
    root.write("hello-world/SKILL.md", HELLO).write("hello-world/scripts/greet.sh", "echo hi\n");
    root
}

fn of(skills: &[SkillDef]) -> SkillSource {
    load_skills(&LoadSkillsOptions { skills: skills.to_vec(), ..Default::default() })
}

fn facts(result: &ToolResult) -> Value {
    Value::Object(result.metadata.clone().unwrap())
}

/// The `<file>` lines of an output.
fn files(result: &ToolResult) -> Vec<&str> {
    result.output.lines().filter_map(|line| line.strip_prefix("<file>")?.strip_suffix("</file>")).collect()
}

// SKILL-1, SKILL-28
#[test]
fn the_tool_says_what_it_is() {
    let tool = of(&[]).tool();
    assert_eq!((tool.name.as_str(), tool.source), ("skill", ToolSource::Skill));
    assert_eq!(
        tool.description,
        "Load a specialized skill when the task at hand matches one of the skills listed in the system prompt.\n\n\
         Use this tool to inject the skill's instructions and resources into current conversation. The output may \
         contain detailed workflow guidance as well as references to scripts, files, etc in the same directory as \
         the skill.\n\n\
         The skill name must match one of the skills listed in your system prompt."
    );
    assert_eq!(
        tool.input_schema.to_string(),
        r#"{"type":"object","properties":{"name":{"type":"string","description":"The name of the skill to load"}},"required":["name"],"additionalProperties":false}"#
    );
}

// BUILTIN-17: the row of `skill`
#[test]
fn the_tool_only_looks() {
    let hints = of(&[]).tool().hints.unwrap();
    assert!(hints.read_only && !hints.destructive && !hints.open_world);
}

// SKILL-19, SKILL-30, SKILL-31, SKILL-32: case 55
#[tokio::test]
async fn a_skill_reads_like_this() {
    let root = hello();
    let result = load_skills(&root.options()).tool().execute(json!({"name": "hello-world"})).await;
    let dir = root.at("hello-world");
    assert_eq!(
        result.output,
        format!(
            "<skill_content name=\"hello-world\">\n# Skill: hello-world\n\n# Hello World Skill\n\nRead it.\n\n\
             Base directory for this skill: file://{dir}\n\
             Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.\n\
             Note: file list is sampled.\n\n\
             <skill_files>\n<file>{dir}/scripts/greet.sh</file>\n</skill_files>\n</skill_content>"
        )
    );
    assert!(!result.is_error);
    assert_eq!(facts(&result).to_string(), json!({"name": "hello-world", "dir": dir}).to_string());
}

// SKILL-29: case 56
#[tokio::test]
async fn an_unknown_name_is_an_error() {
    let unknown = async |source: SkillSource| source.tool().execute(json!({"name": "nope"})).await;
    let result = unknown(load_skills(&hello().options())).await;
    assert_eq!(result, ToolResult::failure("Skill \"nope\" not found. Available skills: hello-world"));
    let result = unknown(of(&[])).await;
    assert_eq!(result, ToolResult::failure("Skill \"nope\" not found. Available skills: none"));
}

// SKILL-29
#[tokio::test]
async fn an_unknown_name_is_answered_with_the_known_ones() {
    let tool = of(&[def("b", "", ""), def("B", "", ""), def("a", "", "")]).tool();
    for (arguments, asked) in [
        (json!({"name": "nope"}), "nope"),
        (json!({"name": " a"}), " a"),
        (json!({"name": "A"}), "A"),
        (json!({}), ""),
        (Value::Null, ""),
        (json!({"name": 5}), ""),
    ] {
        let result = tool.execute(arguments).await;
        assert_eq!(
            result,
            ToolResult::failure(format!("Skill \"{asked}\" not found. Available skills: B, a, b"))
        );
    }
}

// SKILL-38: case 57
#[test]
fn the_catalogue_reads_like_this() {
    assert_eq!(
        load_skills(&hello().options()).prompt(),
        "Skills provide specialized instructions and workflows for specific tasks.\n\
         Use the skill tool to load a skill when a task matches its description.\n\n\
         ## Available Skills\n- **hello-world**: A tiny example skill."
    );
}

// SKILL-38: case 58
#[test]
fn an_empty_catalogue_says_so() {
    assert_eq!(load_skills(&Root::new().options()).prompt(), "No skills are currently available.");
}

// SKILL-38, SKILL-15
#[test]
fn the_catalogue_is_sorted_and_holds_described_skills_only() {
    let prompt =
        of(&[def("b", "line one\nline two", ""), def("quiet", "", ""), def("Z", "first", "")]).prompt();
    assert!(prompt.ends_with("## Available Skills\n- **Z**: first\n- **b**: line one\nline two"));
}

// SKILL-22, SKILL-33: case 59
#[test]
fn a_data_skill_lists_its_resources() {
    let x = SkillDef { resources: vec!["scripts/foo.sh".into()], ..def("x", "d", "body") };
    let source = of(&[x]);
    let result = source.load("x", None);
    assert!(result.output.contains("\nBase directory for this skill: skill://x/\n"));
    assert_eq!(files(&result), ["scripts/foo.sh"]);
    assert!(!result.output.contains("file://"));
    assert!(source.prompt().ends_with("\n- **x**: d"));
    assert_eq!(facts(&result), json!({"name": "x", "dir": "skill://x/"}));
}

// SKILL-30, SKILL-33: case 60
#[test]
fn a_data_skill_without_resources_has_no_list() {
    assert_eq!(
        of(&[def("y", "", "just text")]).load("y", None).output,
        "<skill_content name=\"y\">\n# Skill: y\n\njust text\n\nBase directory for this skill: skill://y/\n\
         Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.\n\
         </skill_content>"
    );
}

// SKILL-30
#[test]
fn names_and_bodies_are_put_in_raw() {
    let output = of(&[def("<a> & \"b\"", "", " \n<x>&amp;\n\t ")]).load("<a> & \"b\"", None).output;
    assert!(
        output.starts_with("<skill_content name=\"<a> & \"b\"\">\n# Skill: <a> & \"b\"\n\n<x>&amp;\n\nBase")
    );
}

// SKILL-32, SKILL-33: case 61
#[test]
fn a_disk_skill_always_has_the_block() {
    let root = Root::new();
    root.skill("s", "s");
    let output = load_skills(&root.options()).load("s", None).output;
    assert!(output.ends_with(
        "directory.\nNote: file list is sampled.\n\n<skill_files>\n\n</skill_files>\n</skill_content>"
    ));
}

// SKILL-33: case 62
#[test]
fn the_limit_cuts_and_can_leave_the_list_out() {
    let resources = ["one", "two", "three"].map(String::from).to_vec();
    let source = of(&[SkillDef { resources, ..def("r", "", "body") }]);
    assert_eq!(files(&source.load("r", Some(2))), ["one", "two"]);
    assert_eq!(files(&source.load("r", Some(0))), ["one", "two", "three"]);
    let none = source.load("r", Some(-1)).output;
    assert!(none.ends_with("are relative to this base directory.\n</skill_content>"));
    assert!(!none.contains("Note:"));

    let root = hello();
    let quiet = load_skills(&LoadSkillsOptions { sample_limit: -1, ..root.options() });
    assert_eq!(quiet.sample_limit(), -1);
    assert!(quiet.load("hello-world", None).output.ends_with("base directory.\n</skill_content>"));
    assert_eq!(files(&quiet.load("hello-world", Some(5))).len(), 1, "a call may override the limit");
}

// SKILL-33
#[test]
fn no_limit_means_ten() {
    let root = Root::new();
    root.skill("s", "s");
    for file in 0..15 {
        root.write(&format!("s/{file:02}"), "");
    }
    let source = load_skills(&root.options());
    assert_eq!(files(&source.load("s", None)).len(), 10);
    assert_eq!(files(&source.load("s", Some(i64::MAX))).len(), 15);
}

// SKILL-32: case 63
#[test]
fn files_are_collected_then_sorted_then_cut() {
    let root = Root::new();
    root.skill("s", "s").write("s/z-root.txt", "").write("s/alpha/f.txt", "").write("s/a-root.txt", "");
    let source = load_skills(&LoadSkillsOptions { sample_limit: 2, ..root.options() });
    assert_eq!(files(&source.load("s", None)), [root.at("s/a-root.txt"), root.at("s/alpha/f.txt")]);
}

// SKILL-32
#[test]
fn the_list_holds_what_there_is_at_the_time_of_the_call() {
    let root = Root::new();
    root.skill("s", "s").skill("s/nested", "nested").write("s/nested/data.txt", "").write("s/.hidden", "");
    root.write("s/node_modules/x", "")
        .write("s/.git/x", "")
        .write("s/alpha-b.txt", "")
        .write("s/alpha/f", "");
    let source = load_skills(&root.options());
    let listed = |source: &SkillSource| {
        let result = source.load("s", None);
        files(&result).iter().map(|file| file.replace(&root.at("s/"), "")).collect::<Vec<_>>()
    };
    assert_eq!(listed(&source), [".hidden", "alpha-b.txt", "alpha/f", "nested/data.txt"]);
    root.write("s/added", "");
    assert_eq!(listed(&source)[1], "added");
    std::fs::remove_dir_all(root.path().join("s")).unwrap();
    assert_eq!(listed(&source), Vec::<String>::new());
}

// SKILL-32
#[cfg(unix)]
#[test]
fn listed_links_are_followed_once() {
    use std::os::unix::fs::symlink;
    let (root, outside) = (Root::new(), Root::new());
    outside.write("far.txt", "");
    root.skill("s", "s").write("s/b/real.txt", "");
    symlink(outside.path().join("far.txt"), root.path().join("s/link.txt")).unwrap();
    symlink(outside.path(), root.path().join("s/out")).unwrap();
    symlink(root.path().join("s"), root.path().join("s/b/up")).unwrap();
    symlink("nowhere", root.path().join("s/broken")).unwrap();
    let result = load_skills(&root.options()).load("s", None);
    assert_eq!(files(&result), ["s/b/real.txt", "s/link.txt", "s/out/far.txt"].map(|file| root.at(file)));
}

// SKILL-40: case 89
#[test]
fn logical_paths_say_nothing_about_the_disk() {
    let root = hello();
    let opts = LoadSkillsOptions { path_display: SkillPathDisplay::Logical, ..root.options() };
    let result = load_skills(&opts).load("hello-world", None);
    assert_eq!(
        result.output,
        "<skill_content name=\"hello-world\">\n# Skill: hello-world\n\n# Hello World Skill\n\nRead it.\n\n\
         Base directory for this skill: skill://hello-world/\n\
         Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.\n\
         Note: file list is sampled.\n\n\
         <skill_files>\n<file>scripts/greet.sh</file>\n</skill_files>\n</skill_content>"
    );
    assert_eq!(facts(&result), json!({"name": "hello-world", "dir": "skill://hello-world/"}));
    let source = load_skills(&opts);
    assert_eq!(source.path_display(), SkillPathDisplay::Logical);
    assert_eq!(source.get("hello-world").unwrap().dir, root.at("hello-world"), "hosts still see the path");

    let mine = SkillDef { base: "db://1".into(), ..def("data", "", "") };
    let data = load_skills(&LoadSkillsOptions {
        skills: vec![mine],
        path_display: SkillPathDisplay::Logical,
        ..options(&[])
    });
    assert!(data.load("data", None).output.contains("Base directory for this skill: db://1\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    // SKILL-32, SKILL-33: against sort and cut
    #[test]
    fn the_sample_is_the_start_of_the_sorted_list(
        paths in proptest::collection::btree_set("[a-c.-]{1,2}x(/[a-c-]{1,2}y){0,2}", 0..12),
        limit in 1i64..8,
    ) {
        let root = Root::new();
        root.skill("s", "s");
        let mut made = Vec::new();
        for path in &paths {
            // A file where a directory is needed, or the other way round, is left out.
            if std::fs::create_dir_all(root.path().join("s").join(path).parent().unwrap()).is_ok()
                && std::fs::write(root.path().join("s").join(path), "").is_ok()
            {
                made.push(path.clone());
            }
        }
        made.sort();
        made.truncate(usize::try_from(limit).unwrap());
        let opts = LoadSkillsOptions { path_display: SkillPathDisplay::Logical, ..root.options() };
        let result = load_skills(&opts).load("s", Some(limit));
        prop_assert_eq!(files(&result), made);
    }

    // SKILL-38: every described skill once, in order
    #[test]
    fn the_catalogue_is_in_code_point_order(names in proptest::collection::hash_set("[a-zA-Zé日0-9-]{1,6}", 1..10)) {
        let skills: Vec<_> = names.iter().map(|name| def(name, "d", "")).collect();
        let prompt = of(&skills).prompt();
        let listed: Vec<&str> = prompt.lines().filter_map(|line| line.strip_prefix("- **")?.strip_suffix("**: d")).collect();
        let mut expected: Vec<&str> = names.iter().map(String::as_str).collect();
        expected.sort_unstable();
        prop_assert_eq!(listed, expected);
    }
}
