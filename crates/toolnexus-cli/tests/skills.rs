//! `toolnexus skills show` and `skills validate`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

mod common;

use common::Place;
use serde_json::{Value, json};

fn header(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: Use when asked for {name}.\n{more}---\nText.\n")
}

/// One skill that nobody can say anything against.
fn greet() -> Place {
    Place::new()
        .file(
            "skills/greet/SKILL.md",
            "---\nname: greet\ndescription: How to greet.\nlicense: MIT\n---\n\nSee [words](docs/words.md).\n\n",
        )
        .file("skills/greet/docs/words.md", "Hello\n")
}

#[tokio::test]
async fn a_skill_is_shown_as_a_model_gets_it() {
    let place = greet();
    let ran = place.run(&["skills", "show", "greet"]).await;
    let dir = place.path().canonicalize().unwrap().join("skills/greet");
    let dir = dir.display();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    assert_eq!(
        ran.stdout,
        format!(
            "<skill_content name=\"greet\">\n# Skill: greet\n\nSee [words](docs/words.md).\n\n\
             Base directory for this skill: file://{dir}\n\
             Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.\n\
             Note: file list is sampled.\n\n\
             <skill_files>\n<file>{dir}/docs/words.md</file>\n</skill_files>\n</skill_content>\n"
        )
    );
    let document = place.run(&["skills", "show", "greet", "--json"]).await.document();
    assert_eq!(document["meta"], json!({"name": "greet", "description": "How to greet.", "license": "MIT"}));
    assert_eq!((&document["origin"], &document["resources"]), (&json!("fs"), &json!([])));
    assert_eq!(document["content"], "\nSee [words](docs/words.md).\n\n");
    assert_eq!(document["location"], format!("{dir}/SKILL.md"));
}

#[tokio::test]
async fn which_of_two_is_shown_is_said() {
    let place = greet().file("skills/z/greet/SKILL.md", header("greet", ""));
    let ran = place.run(&["skills", "show", "greet"]).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(ran.stdout.contains("See [words]"), "{ran:#?}");
    assert_eq!(ran.stderr.matches("skill \"greet\" at ").count(), 1, "{ran:#?}");
    ran.says(&["skills/z/greet/SKILL.md skipped: the name is taken"]);
}

#[tokio::test]
async fn a_skill_that_is_not_there_is_told_by_those_that_are() {
    let place = greet()
        .file("skills/other/SKILL.md", header("Zeta", ""))
        .file("skills/lost/SKILL.md", "---\nname: [lost\n---\n")
        .file("team/plan/SKILL.md", header("plan", ""));
    for args in [&["skills", "show", "gret"][..], &["skills", "show", "gret", "--json"]] {
        let ran = place.run(args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        assert_eq!(ran.stderr, "error: no skill \"gret\": there are Zeta, greet\n");
    }
    // A file that was meant to be the skill is named with what is wrong with it.
    let ran = place.run(&["skills", "show", "lost"]).await;
    assert_eq!(ran.code, 2);
    ran.says(&["no skill \"lost\"", "skipped skills/lost/SKILL.md  malformed-frontmatter: ", "line 3"]);
    // Other directories.
    let ran = place.run(&["skills", "show", "plan", "--skills", "skills", "--skills", "team"]).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let ran = place.run(&["skills", "show", "greet", "--skills", "team"]).await;
    assert_eq!(ran.code, 2, "{ran:#?}");
    ran.says(&["no skill \"greet\": there are plan"]);
    let ran = place.run(&["skills", "show", "greet", "--skills", "absent"]).await;
    assert_eq!(ran.code, 2);
    ran.says(&["--skills \"absent\" is not a directory"]);
    let ran = Place::new().run(&["skills", "show", "greet"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    ran.says(&["no directory skills here", "--skills DIR"]);
    let ran = Place::new().file("skills/x", "").run(&["skills", "show", "greet"]).await;
    assert_eq!(ran.code, 2);
    ran.says(&["no skill \"greet\": there is none"]);
}

#[tokio::test]
async fn when_all_is_well_that_is_said_and_the_code_is_0() {
    let place = greet().file("team/plan/SKILL.md", header("plan", ""));
    for args in
        [&["skills", "validate"][..], &["skills", "validate", "--strict"], &["skills", "validate", "team"]]
    {
        let ran = place.run(args).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
        assert_eq!(ran.stdout, "1 skill, no problem\n");
    }
    let ran = place.run(&["skills", "validate", "skills", "team"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "2 skills, no problem\n"), "{ran:#?}");
    let document = place.run(&["skills", "validate", "skills", "team", "--json"]).await.document();
    assert_eq!(
        document,
        json!({"ok": true, "skills": ["greet", "plan"], "errors": 0, "warnings": 0, "problems": []})
    );
}

#[tokio::test]
async fn every_error_has_its_place_its_reason_and_its_remedy() {
    let place = greet()
        .file("skills/a/SKILL.md", "# No header\n")
        .file("skills/b/SKILL.md", "---\ntitle: [unclosed\n---\n")
        .file("skills/z/greet/SKILL.md", header("greet", ""));
    std::fs::create_dir(place.path().join("skills/latin")).unwrap();
    std::fs::write(place.path().join("skills/latin/SKILL.md"), b"---\nname: caf\xe9\n---\n").unwrap();
    let ran = place.run(&["skills", "validate"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""), "{ran:#?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    for (line, (start, detail, remedy)) in lines.iter().zip([
        ("error skills/a/SKILL.md  missing-name: ", "the first line is not ---", "begin it with a header"),
        ("error skills/b/SKILL.md  malformed-frontmatter: ", "line 3", "in quotes"),
        ("error skills/latin/SKILL.md  unreadable: ", "utf-8", "make it UTF-8"),
        ("error skills/z/greet/SKILL.md  duplicate-name: ", "/skills/greet/SKILL.md", "another name"),
    ]) {
        assert!(line.starts_with(start) && line.contains(detail) && line.contains(remedy), "{line}");
    }
    assert_eq!((lines.len(), lines[4]), (5, "1 skill, 4 errors"));
    let ran = place.run(&["skills", "validate", "--json"]).await;
    let document = ran.document();
    assert_eq!((ran.code, &document["ok"], &document["errors"]), (1, &json!(false), &json!(4)));
    let problem = &document["problems"][0];
    assert_eq!((&problem["level"], &problem["reason"]), (&json!("error"), &json!("missing-name")));
    assert!(problem["location"].as_str().unwrap().ends_with("/skills/a/SKILL.md"), "{problem}");
    assert!(problem["remedy"].is_string() && problem["detail"].is_string(), "{problem}");
}

#[tokio::test]
async fn what_works_and_will_surprise_is_a_warning() {
    let long = format!("---\nname: long\ndescription: {}\n---\n", "x".repeat(1025));
    let place = Place::new()
        .file(
            "skills/just-right/SKILL.md",
            format!("---\nname: just-right\ndescription: {}\n---\n", "é".repeat(1024)),
        )
        .file("skills/long/SKILL.md", long)
        .file(
            "skills/links/SKILL.md",
            header("links", "").replace("Text.", "[a](gone.md) [b](%6Cost/b.md) [c](SKILL.md)"),
        )
        .file("skills/quiet/SKILL.md", "---\nname: quiet\n---\nText.\n")
        .file("skills/rescued/SKILL.md", "---\nname: rescued\ndescription: Use when: asked\n---\nText.\n")
        .file("skills/Shout It/SKILL.md", header("Shout It", ""))
        .file("skills/folder/SKILL.md", header("other-name", ""));
    let ran = place.run(&["skills", "validate"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    for (line, (start, remedy)) in lines.iter().zip([
        ("warning skills/Shout It/SKILL.md  name-not-portable: \"Shout It\"", "(rename it, as in shout-it)"),
        (
            "warning skills/folder/SKILL.md  name-differs: \"other-name\" is in the folder \"folder\"",
            "(give both the same name)",
        ),
        (
            "warning skills/links/SKILL.md  missing-file: it links to gone.md",
            "(correct the link or add the file)",
        ),
        (
            "warning skills/links/SKILL.md  missing-file: it links to %6Cost/b.md",
            "(correct the link or add the file)",
        ),
        ("warning skills/long/SKILL.md  long-description: 1025 characters", "(shorten it: "),
        ("warning skills/quiet/SKILL.md  no-description: the model is not told of it", "(add description: "),
        ("warning skills/rescued/SKILL.md  rescued-header: the header is no YAML", "(put values "),
    ]) {
        assert!(line.starts_with(start) && line.contains(remedy), "{line}");
    }
    assert_eq!((lines.len(), lines[7]), (8, "7 skills, 7 warnings"));
    let ran = place.run(&["skills", "validate", "--strict"]).await;
    assert_eq!(ran.code, 1, "{ran:#?}");
    let ran = place.run(&["skills", "validate", "--strict", "--json"]).await;
    assert_eq!((ran.code, &ran.document()["ok"], &ran.document()["warnings"]), (1, &json!(false), &json!(7)));
    let reasons: Vec<Value> = ran.document()["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["reason"].clone())
        .collect();
    assert_eq!(reasons[0], "name-not-portable");
    // Every reason is one that the help names.
    let help = place.run(&["skills", "validate", "--help"]).await.stdout;
    for reason in reasons {
        assert!(help.contains(reason.as_str().unwrap()), "{reason}: {help}");
    }
}

#[tokio::test]
async fn nothing_to_check_is_a_failure() {
    let place = Place::new().file("empty/x", "").file("docs/a.md", "");
    for (args, said) in [
        (&["skills", "validate"][..], "no directory skills here"),
        (&["skills", "validate", "empty", "docs"], "there is no SKILL.md below empty, docs"),
    ] {
        let ran = place.run(args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:#?}");
        ran.says(&["error: nothing to check: ", said, "toolnexus skills validate DIR"]);
    }
    let ran = place.run(&["skills", "validate", "--json"]).await;
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.document(),
        json!({"ok": false, "skills": [], "errors": 0, "warnings": 0, "problems": []})
    );
    for (dir, said) in [("absent", "check the path"), ("docs/a.md", "name the directory it is in")] {
        let ran = place.run(&["skills", "validate", dir]).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:#?}");
        ran.says(&[&format!("\"{dir}\" is not a directory that can be read"), said]);
    }
}

#[tokio::test]
async fn directories_within_each_other_show_nothing_twice() {
    let place = greet().file("skills/broken/SKILL.md", "no header\n");
    let ran = place.run(&["skills", "validate", "skills", "skills/greet", "skills/broken", "."]).await;
    assert_eq!(ran.stdout.lines().count(), 2, "{ran:#?}");
    assert!(ran.stdout.ends_with("\n1 skill, 1 error\n"), "{ran:#?}");
}

#[tokio::test]
async fn what_others_wrote_cannot_steer_the_terminal() {
    let place = Place::new()
        .file("skills/a/SKILL.md", "---\nname: \"\\e[2Jevil\"\n---\n[x](\u{1b}[2J.md)\n")
        .file("skills/b/SKILL.md", "---\nname: \"\\e[2Jevil\"\n---\n");
    for args in [&["skills", "validate"][..], &["skills", "list"], &["skills", "show", "\u{1b}[2Jx"]] {
        let ran = place.run(args).await;
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{ran:#?}");
    }
}

/// The library of the skills crate, as somebody would check a folder of skills.
#[tokio::test]
async fn a_whole_library_is_checked() {
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../toolnexus-skills/tests/fixtures/library");
    let ran = Place::new().run(&["skills", "validate", library, "--json"]).await;
    let document = ran.document();
    assert_eq!(ran.code, 1, "{ran:#?}");
    let told = |folder: &str| -> Vec<String> {
        let location = format!("/{folder}/SKILL.md");
        let problems = document["problems"].as_array().unwrap().iter();
        problems
            .filter(|problem| problem["location"].as_str().unwrap().ends_with(&location))
            .map(|problem| problem["reason"].as_str().unwrap().to_owned())
            .collect()
    };
    for (folder, reasons) in [
        ("pdf-forms", &[][..]),
        ("commit-messages", &[]),
        ("nested-metadata", &[]),
        ("changelog", &["rescued-header"]),
        ("linked-files", &["missing-file"]),
        ("long-description", &["long-description"]),
        ("no-description", &["no-description"]),
        ("Upper Case (v2)", &["name-not-portable", "name-differs"]),
        ("会議メモ", &["name-not-portable"]),
        ("deploy-production", &["name-differs"]),
        ("deploy-staging", &["duplicate-name"]),
        ("unclosed", &["missing-name"]),
        ("tab-indented-name", &["malformed-frontmatter"]),
        ("latin1", &["unreadable"]),
    ] {
        assert_eq!(told(folder), reasons, "{folder}");
    }
}
