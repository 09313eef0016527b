//! Skills as options of a toolkit.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use serde_json::json;
use tempfile::TempDir;
use toolnexus::skills::{SkillDef, SkillPathDisplay, SkillProvider, SkillSkipReason};
use toolnexus::{BuiltinsConfig, Toolkit, ToolkitOptions, ToolkitSources as _, create_toolkit};
use toolnexus_testkit::warnings::Warnings;

/// A directory with the skill of the chapter's first example.
fn hello() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        "hello-world/SKILL.md",
        "---\nname: hello-world\ndescription: A tiny example skill.\n---\n\n# Hello\n",
    );
    write(root.path(), "hello-world/scripts/greet.sh", "echo hi\n");
    root
}

fn write(root: &Path, file: &str, text: &str) {
    let file = root.join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn def(name: &str) -> SkillDef {
    SkillDef { name: name.into(), description: format!("About {name}."), ..Default::default() }
}

fn provider(skills: Vec<SkillDef>) -> SkillProvider {
    Arc::new(move || {
        let skills = skills.clone();
        Box::pin(async move { Ok(skills) })
    })
}

/// A toolkit with nothing but what is asked for.
async fn build(options: ToolkitOptions) -> Toolkit {
    create_toolkit(ToolkitOptions { builtins: Some(BuiltinsConfig::off()), ..options }).await.unwrap()
}

// SKILL-1: any of the three gives one `skill` tool, also without a skill; none of them gives none
#[tokio::test]
async fn a_source_is_one_tool() {
    let empty = tempfile::tempdir().unwrap();
    let nameless = SkillDef::default();
    for options in [
        ToolkitOptions { skills_dir: vec![empty.path().into()], ..Default::default() },
        ToolkitOptions { skills_dir: vec![empty.path().join("missing")], ..Default::default() },
        ToolkitOptions { skills: vec![nameless], ..Default::default() },
        ToolkitOptions { skill_provider: Some(provider(Vec::new())), ..Default::default() },
        ToolkitOptions {
            skills_dir: vec![empty.path().into()],
            skills: vec![def("a")],
            skill_provider: Some(provider(vec![def("b")])),
            skills_filter: [("c".to_owned(), true)].into(),
            ..Default::default()
        },
    ] {
        let toolkit = build(options).await;
        let names: Vec<String> = toolkit.tools().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["skill"]);
        // SKILL-38
        assert_eq!(toolkit.skills_prompt(), "No skills are currently available.");
        let result = toolkit.execute("skill", json!({"name": "x"})).await;
        assert_eq!(result.output, "Skill \"x\" not found. Available skills: none");
    }
    let toolkit = build(ToolkitOptions {
        skills_filter: [("a".to_owned(), true)].into(),
        skill_sample_limit: 3,
        disable_skills: vec!["a".into()],
        skill_path_display: SkillPathDisplay::Logical,
        ..Default::default()
    })
    .await;
    assert!(toolkit.tools().is_empty() && toolkit.skills().is_none());
    assert_eq!(toolkit.skills_prompt(), "");
}

// SKILL-1, SKILL-24, SKILL-33, SKILL-40: the options reach the source
#[tokio::test]
async fn options_reach_the_source() {
    let root = hello();
    let options = |limit, display| ToolkitOptions {
        skills_dir: vec![root.path().into()],
        skills: vec![def("own")],
        skill_provider: Some(provider(vec![def("provided"), def("own"), def("hello-world")])),
        skill_sample_limit: limit,
        skill_path_display: display,
        ..Default::default()
    };
    let toolkit = build(options(0, SkillPathDisplay::Logical)).await;
    let output = toolkit.execute("skill", json!({"name": "hello-world"})).await.output;
    assert!(output.contains("\nBase directory for this skill: skill://hello-world/\n"), "{output}");
    assert!(output.contains("\n<file>scripts/greet.sh</file>\n"), "{output}");
    let source = toolkit.skills().unwrap();
    let names: Vec<&str> = source.skills().iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["hello-world", "own", "provided"]);
    let toolkit = build(options(-1, SkillPathDisplay::Absolute)).await;
    let output = toolkit.execute("skill", json!({"name": "hello-world"})).await.output;
    assert!(output.contains(&format!("{}/hello-world\n", root.path().display())), "{output}");
    assert!(!output.contains("<skill_files>"), "{output}");
}

// SKILL-36, SKILL-39: case 76, and what was lost can be asked for
#[tokio::test]
async fn what_was_lost_can_be_asked_for() {
    let options = |filter: &[(&str, bool)]| ToolkitOptions {
        skills: vec![def("a"), def("b"), def("a"), SkillDef::default()],
        disable_skills: vec!["b".into(), "nope".into()],
        skills_filter: filter.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect(),
        ..Default::default()
    };
    let loaded = |toolkit: &Toolkit| -> Vec<String> {
        toolkit.skills().unwrap().skills().iter().map(|skill| skill.name.clone()).collect()
    };
    let toolkit = build(options(&[])).await;
    assert_eq!(loaded(&toolkit), ["a"]);
    let source = toolkit.skills().unwrap();
    assert_eq!(source.filter_unmatched(), ["nope"]);
    let skipped: Vec<_> = source.skipped().iter().map(|skip| (skip.location.as_str(), skip.reason)).collect();
    assert_eq!(
        skipped,
        [("skill://a/", SkillSkipReason::DuplicateName), ("skill://", SkillSkipReason::MissingName)]
    );
    // SKILL-36: an explicit `true` overrides, and makes it an allowlist.
    let toolkit = build(options(&[("b", true)])).await;
    assert_eq!(loaded(&toolkit), ["b"]);
    assert_eq!(toolkit.skills_prompt().matches("\n- **").count(), 1);
}

// SKILL-27: case 78
#[tokio::test]
async fn a_provider_that_fails_costs_nothing_else() {
    let root = hello();
    let providers: [(SkillProvider, &str); 4] = [
        (Arc::new(|| Box::pin(async { Err("boom".into()) })), "boom"),
        // A panic while the future is made, and one inside of it.
        (Arc::new(|| panic!("at once")), "it panicked: at once"),
        (
            Arc::new(|| {
                Box::pin(async {
                    tokio::task::yield_now().await;
                    panic!("later, at {}", 5)
                })
            }),
            "it panicked: later, at 5",
        ),
        (Arc::new(|| Box::pin(async { std::panic::panic_any(7) })), "it panicked"),
    ];
    for (failing, message) in providers {
        let warnings = Warnings::listen();
        let toolkit = build(ToolkitOptions {
            skills_dir: vec![root.path().into()],
            skills: vec![def("own")],
            skill_provider: Some(failing),
            ..Default::default()
        })
        .await;
        let failed = format!("skill provider failed: {message}");
        assert_eq!(warnings.take(), [format!("[toolnexus] {failed}")]);
        assert_eq!(toolkit.errors().into_iter().collect::<Vec<_>>(), [("<skills>".to_owned(), failed)]);
        assert!(
            toolkit.skills_prompt().ends_with(
                "## Available Skills\n- **hello-world**: A tiny example skill.\n- **own**: About own."
            ),
            "{}",
            toolkit.skills_prompt()
        );
        assert!(!toolkit.execute("skill", json!({"name": "hello-world"})).await.is_error);
    }
}

// SKILL-27: asked once, and not again by the tool
#[tokio::test]
async fn a_provider_is_asked_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let toolkit = build(ToolkitOptions {
        skill_provider: Some(Arc::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(vec![def("p")]) })
        })),
        ..Default::default()
    })
    .await;
    for _ in 0..2 {
        assert!(!toolkit.execute("skill", json!({"name": "p"})).await.is_error);
        assert!(toolkit.execute("skill", json!({"name": "q"})).await.is_error);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

// SKILL-27: the walk waits for a thread of its own, the async one goes on
#[test]
fn the_walk_is_off_the_async_threads() {
    let root = hello();
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        // The only thread for blocking work is taken until we say so.
        let (release, held) = mpsc::channel::<()>();
        let taken = tokio::task::spawn_blocking(move || held.recv());
        let building = build(ToolkitOptions { skills_dir: vec![root.path().into()], ..Default::default() });
        tokio::pin!(building);
        for _ in 0..20 {
            assert!(futures::poll!(&mut building).is_pending(), "the walk ran on the async thread");
            tokio::task::yield_now().await;
        }
        release.send(()).unwrap();
        taken.await.unwrap().unwrap();
        assert_eq!(building.await.skills().unwrap().skills().len(), 1);
    });
}
