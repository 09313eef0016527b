//! Which files are skills, and in which order they come.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::{Root, names, options, skips};
use proptest::prelude::*;
use toolnexus_skills::{SkillOrigin, SkillSkipReason, list_skills};

// SKILL-4
#[test]
fn a_skill_file_is_found_at_any_depth_and_does_not_end_the_search() {
    let root = Root::new();
    root.skill("", "root").skill("a", "outer").skill("a/b/c", "inner");
    root.write("a/skill.md", "---\nname: lower\n---\n").write("a/SKILL.md.bak", "---\nname: bak\n---\n");
    assert_eq!(names(&root.list()), ["root", "outer", "inner"]);
}

// SKILL-5
#[test]
fn shallow_skills_come_first_then_code_points_decide() {
    let root = Root::new();
    for dir in ["b/deep", "a", "a-b", "B", "é", "z", "a/x"] {
        root.skill(dir, dir);
    }
    // `a-b/SKILL.md` before `a/SKILL.md`: `-` sorts before `/`.
    assert_eq!(names(&root.list()), ["B", "a-b", "a", "z", "é", "a/x", "b/deep"]);
}

// SKILL-5, SKILL-25: case 65
#[test]
fn the_shallower_of_two_equal_names_wins() {
    let root = Root::new();
    root.skill("xlsx", "xlsx").skill("synced/66/xlsx", "xlsx");
    let found = root.list();
    assert_eq!(found.skills[0].location, root.at("xlsx/SKILL.md"));
    assert_eq!(
        skips(&found),
        [(root.at("synced/66/xlsx/SKILL.md").as_str(), SkillSkipReason::DuplicateName)]
    );
}

// SKILL-5, SKILL-25: case 64
#[test]
fn the_earlier_root_wins() {
    let (project, team) = (Root::new(), Root::new());
    project.skill("deploy", "deploy");
    team.skill("deploy", "deploy").skill("a", "other");
    let found = list_skills(&options(&[project.path().into(), team.path().into()]));
    assert_eq!(found.skills[0].location, project.at("deploy/SKILL.md"));
    assert_eq!(names(&found), ["deploy", "other"]);
    assert_eq!(skips(&found), [(team.at("deploy/SKILL.md").as_str(), SkillSkipReason::DuplicateName)]);
}

// SKILL-6: case 81
#[test]
fn hidden_directories_are_entered_and_dependencies_are_not() {
    let root = Root::new();
    root.skill(".hidden/s", "hidden").skill("node_modules/s", "module").skill("x/.git/s", "git");
    assert_eq!(names(&root.list()), ["hidden"]);
    // Where the root itself lies does not matter.
    let inside = list_skills(&options(&[root.path().join("node_modules"), root.path().join("x/.git/s")]));
    assert_eq!(names(&inside), ["module", "git"]);
}

// SKILL-2, SKILL-7
#[test]
fn a_root_that_is_no_directory_contributes_nothing() {
    let root = Root::new();
    root.skill("s", "s").write("file", "");
    let dirs = [root.path().join("missing"), root.path().join("file"), "".into(), root.path().into()];
    let found = list_skills(&options(&dirs));
    assert_eq!(names(&found), ["s"]);
    assert_eq!(found.skipped, []);
}

// SKILL-2, SKILL-18
#[test]
fn each_call_reads_the_tree_again_and_finds_the_same() {
    let root = Root::new();
    root.skill("a", "a");
    assert_eq!(root.list(), root.list());
    root.skill("b", "b");
    assert_eq!(names(&root.list()), ["a", "b"]);
}

// SKILL-10
#[cfg(unix)]
#[test]
fn locations_are_absolute_and_normalised() {
    let root = Root::new();
    root.skill("s", "s").write("bad/SKILL.md", "no header");
    let found = list_skills(&options(&[root.path().join("s/.././.")]));
    let skill = &found.skills[0];
    assert_eq!(skill.location, root.at("s/SKILL.md"));
    assert_eq!(skill.dir, root.at("s"));
    assert_eq!(skill.base, format!("file://{}", root.at("s")));
    assert_eq!(skill.origin, SkillOrigin::Fs);
    assert_eq!(found.skipped[0].location, root.at("bad/SKILL.md"));

    let up = "../".repeat(std::env::current_dir().unwrap().components().count() - 1);
    let relative = format!("{up}{}", root.path().strip_prefix("/").unwrap().display());
    assert_eq!(list_skills(&options(&[relative.into()])), found);
}

// SKILL-9
#[test]
fn a_directory_of_the_files_name_is_searched_like_any_other() {
    let root = Root::new();
    root.skill("SKILL.md/inner", "inner");
    let found = root.list();
    assert_eq!(names(&found), ["inner"]);
    assert_eq!(found.skipped, []);
}

// SKILL-9
#[test]
fn what_is_no_text_is_unreadable() {
    let root = Root::new();
    root.write("latin/SKILL.md", b"---\nname: caf\xe9\n---\n");
    root.write("large/SKILL.md", format!("---\nname: large\n---\n{}", "x".repeat(1024 * 1024)));
    let full = "---\nname: full\n---\n".to_owned();
    root.write("full/SKILL.md", full.clone() + &"x".repeat(1024 * 1024 - full.len()));
    let found = root.list();
    assert_eq!(names(&found), ["full"]);
    assert_eq!(
        skips(&found),
        [
            (root.at("large/SKILL.md").as_str(), SkillSkipReason::Unreadable),
            (root.at("latin/SKILL.md").as_str(), SkillSkipReason::Unreadable),
        ]
    );
    assert!(found.skipped.iter().all(|skip| skip.detail.is_some()));
}

#[cfg(unix)]
mod links {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    // SKILL-9: case 79
    #[test]
    fn a_skill_file_that_leads_nowhere_is_unreadable() {
        let root = Root::new();
        root.write("s/x", "").write("t/x", "");
        symlink(root.path().join("missing"), root.path().join("s/SKILL.md")).unwrap();
        symlink("SKILL.md", root.path().join("t/SKILL.md")).unwrap();
        symlink(root.path().join("missing"), root.path().join("elsewhere")).unwrap();
        let found = root.list();
        assert_eq!(
            skips(&found),
            [
                (root.at("s/SKILL.md").as_str(), SkillSkipReason::Unreadable),
                (root.at("t/SKILL.md").as_str(), SkillSkipReason::Unreadable),
            ]
        );
    }

    // SKILL-9: opening a pipe would wait for ever
    #[test]
    fn a_pipe_of_the_files_name_is_unreadable() {
        let root = Root::new();
        root.write("s/x", "");
        let made = std::process::Command::new("mkfifo").arg(root.path().join("s/SKILL.md")).status();
        assert!(made.unwrap().success());
        let found = root.list();
        assert_eq!(skips(&found), [(root.at("s/SKILL.md").as_str(), SkillSkipReason::Unreadable)]);
        assert_eq!(found.skipped[0].detail.as_deref(), Some("not a regular file"));
    }

    // SKILL-9
    #[test]
    fn an_unreadable_directory_does_not_stop_the_walk() {
        let root = Root::new();
        root.skill("locked/s", "locked").skill("z", "z");
        let locked = root.path().join("locked");
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
        let found = root.list();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
        // The administrator reads it all the same.
        assert!(names(&found).contains(&"z"));
        assert_eq!(found.skipped, []);
    }

    // SKILL-8, SKILL-10: case 80
    #[test]
    fn links_are_followed_and_circles_end() {
        let (root, outside) = (Root::new(), Root::new());
        outside.skill("", "linked").write("file.md", "---\nname: linked-file\n---\n");
        root.skill("real", "real").write("byfile/x", "");
        symlink(outside.path(), root.path().join("link")).unwrap();
        symlink(root.path(), root.path().join("real/up")).unwrap();
        symlink(outside.path().join("file.md"), root.path().join("byfile/SKILL.md")).unwrap();
        let found = root.list();
        assert_eq!(names(&found), ["linked-file", "linked", "real"]);
        assert_eq!(found.skills[1].location, root.at("link/SKILL.md"));
        assert_eq!(found.skipped, []);
    }

    // SKILL-8
    #[test]
    fn of_two_paths_to_a_directory_the_first_in_order_counts() {
        let root = Root::new();
        root.skill("b", "s").write("deep/x", "");
        symlink(root.path().join("b"), root.path().join("a")).unwrap();
        symlink(root.path().join("b"), root.path().join("deep/link")).unwrap();
        let found = root.list();
        assert_eq!(found.skills[0].location, root.at("a/SKILL.md"));
        assert_eq!(found.skipped, [], "the directory is visited once");
    }

    // SKILL-8: once per root, not once for all
    #[test]
    fn a_root_may_be_a_link_and_is_visited_for_itself() {
        let root = Root::new();
        root.skill("b/s", "s");
        symlink(root.path().join("b"), root.path().join("a")).unwrap();
        let found = list_skills(&options(&[root.path().join("a"), root.path().join("b")]));
        assert_eq!(found.skills[0].location, root.at("a/s/SKILL.md"));
        assert_eq!(skips(&found), [(root.at("b/s/SKILL.md").as_str(), SkillSkipReason::DuplicateName)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    // SKILL-5, SKILL-26: the order is that of the paths, whatever order they were made in
    #[test]
    fn the_order_is_depth_then_path(dirs in proptest::collection::vec("[a-cA-C.é-][a-b-]{0,1}(/[ab.-]{1,2}){0,2}", 1..10)) {
        let root = Root::new();
        let mut expected: Vec<String> = Vec::new();
        for dir in dirs.iter().filter(|dir| dir.split('/').all(|name| name != "." && name != "..")) {
            root.skill(dir, &format!("'{dir}'"));
            expected.push(format!("{dir}/SKILL.md"));
        }
        expected.sort_by_key(|path| (path.matches('/').count(), path.clone()));
        expected.dedup();
        let found: Vec<String> = root.list().skills.iter().map(|skill| skill.location.clone()).collect();
        prop_assert_eq!(found, expected.iter().map(|path| root.at(path)).collect::<Vec<_>>());
    }
}
