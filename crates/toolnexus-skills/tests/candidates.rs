//! What counts as a candidate, what cannot be read, and where skips stand.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{Root, def, names, options, skips};
use toolnexus_skills::{LoadSkillsOptions, SkillSkipReason, list_skills, load_skills};

// SKILL-4: exactly this name
#[test]
fn only_the_exact_name_counts() {
    let root = Root::new();
    for file in [
        "skill.md",
        "Skill.md",
        "SKILL.MD",
        "SKILL.md ",
        "SKILL.md~",
        "MY-SKILL.md",
        "SKILL.markdown",
        "SKILL",
    ] {
        // A directory each: not every file system tells upper from lower case.
        root.write(&format!("{}/{file}", file.to_lowercase().len()), "---\nname: no\n---\n");
    }
    root.skill("real", "real");
    let found = root.list();
    assert_eq!((names(&found), found.skipped.len()), (vec!["real"], 0));
}

// SKILL-6: by name, wherever they are; a file of the name, or a name that only begins so, is nothing special
#[cfg(target_os = "linux")] // where upper and lower case are two directories
#[test]
fn two_names_are_not_entered() {
    let root = Root::new();
    root.skill("a/node_modules/m", "m").skill("a/.git/hooks", "g").skill("node_modules/.hidden", "h");
    root.skill(".github/s", "github").skill("node_modules2/s", "modules").skill("Node_Modules/s", "upper");
    root.write("sub/.git", "gitdir: elsewhere").skill("sub", "sub");
    assert_eq!(names(&root.list()), ["sub", "github", "upper", "modules"]);
}

// SKILL-5: the root's own file first, then each depth by itself, `/` counted as a character
#[cfg(target_os = "linux")] // where upper and lower case are two directories
#[test]
fn every_depth_is_sorted_by_itself() {
    let root = Root::new();
    for dir in ["", "b", "a/z", "a/a", "a-/q", "a b", "A", "a/a/a", "B/0/1", "ß", "ｚ", "😀"] {
        root.skill(dir, &format!("'/{dir}'"));
    }
    let found = root.list();
    // Code points, not UTF-16 units: U+FF5A (ｚ) before U+1F600 (😀).
    assert_eq!(
        names(&found),
        ["/", "/A", "/a b", "/b", "/ß", "/ｚ", "/😀", "/a-/q", "/a/a", "/a/z", "/B/0/1", "/a/a/a"]
    );
}

// SKILL-25, SKILL-26: skips stand in the order of the candidates, duplicates in their place
#[test]
fn skips_keep_the_order_of_the_candidates() {
    let (one, two) = (Root::new(), Root::new());
    one.write("a/SKILL.md", b"\xff")
        .skill("b", "x")
        .write("c/SKILL.md", "---\nname: [\n---\n")
        .skill("d", "x");
    one.write("a/deep/SKILL.md", "no header");
    two.skill("a", "x").write("b/SKILL.md", "---\nname:\n---\n").skill("c", "y").skill("c/d", "y");
    let opts = LoadSkillsOptions {
        skills: vec![def("y", "", ""), def("", "", ""), def("z", "", ""), def("z", "", "")],
        ..options(&[one.path().into(), two.path().into(), one.path().into()])
    };
    let found = list_skills(&opts);
    assert_eq!(names(&found), ["x", "y", "z"]);
    use SkillSkipReason::{DuplicateName, MalformedFrontmatter, MissingName, Unreadable};
    let expected = [
        (one.at("a/SKILL.md"), Unreadable),
        (one.at("c/SKILL.md"), MalformedFrontmatter),
        (one.at("d/SKILL.md"), DuplicateName),
        (one.at("a/deep/SKILL.md"), MissingName),
        (two.at("a/SKILL.md"), DuplicateName),
        (two.at("b/SKILL.md"), MissingName),
        (two.at("c/d/SKILL.md"), DuplicateName),
        // The first root again: each of its skills is there already.
        (one.at("a/SKILL.md"), Unreadable),
        (one.at("b/SKILL.md"), DuplicateName),
        (one.at("c/SKILL.md"), MalformedFrontmatter),
        (one.at("d/SKILL.md"), DuplicateName),
        (one.at("a/deep/SKILL.md"), MissingName),
        ("skill://y/".to_owned(), DuplicateName),
        ("skill://".to_owned(), MissingName),
        ("skill://z/".to_owned(), DuplicateName),
    ];
    let expected: Vec<_> = expected.iter().map(|(location, reason)| (location.as_str(), *reason)).collect();
    assert_eq!(skips(&found), expected);
    assert_eq!(load_skills(&opts).skipped(), found.skipped, "SKILL-37, SKILL-39: one list for both");
}

// SKILL-9, SKILL-3: the detail says what is wrong
#[test]
fn what_is_no_utf8_says_where() {
    let root = Root::new();
    let utf16: Vec<u8> = "\u{feff}---\nname: a\n---\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    root.write("utf16/SKILL.md", utf16).write("body/SKILL.md", b"---\nname: a\n---\nlatin \xe9\n");
    let found = root.list();
    let details: Vec<&str> = found.skipped.iter().map(|skip| skip.detail.as_deref().unwrap()).collect();
    assert!(details[0].contains("index 22") && details[1].contains("index 0"), "{details:?}");
    assert!(found.skipped.iter().all(|skip| skip.reason == SkillSkipReason::Unreadable));
    // The text of a file is no part of what is told of it.
    assert!(!format!("{:?}", found.skipped).contains("latin"));
}

// SKILL-25: a candidate that is skipped claims no name, whatever it was skipped for
#[test]
fn a_skipped_candidate_leaves_its_name() {
    let root = Root::new();
    root.write("a/SKILL.md", b"---\nname: x\n---\n\xff");
    root.write("b/SKILL.md", format!("---\nname: x\n# {}\n---\n", "x".repeat(64 * 1024)));
    root.write("c/SKILL.md", "name: x\n");
    root.skill("d", "x");
    let found = root.list();
    assert_eq!((found.skills[0].location.as_str(), found.skipped.len()), (root.at("d/SKILL.md").as_str(), 3));
}

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    // SKILL-9: every kind of file that cannot be read as one
    #[test]
    fn what_cannot_be_read_is_listed() {
        let root = Root::new();
        for dir in ["device", "zero", "loop", "socket"] {
            root.write(&format!("{dir}/x"), "");
        }
        let at = |dir: &str| root.path().join(dir).join("SKILL.md");
        symlink("/dev/null", at("device")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        symlink("SKILL.md", at("loop")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        root.skill("locked", "locked").skill("ok", "ok");
        fs::set_permissions(at("locked"), fs::Permissions::from_mode(0o000)).unwrap();
        let found = root.list();
        // Whoever may read everything reads this one too.
        let expected: &[&str] = if fs::read(at("locked")).is_ok() {
            &["device", "loop", "socket", "zero"]
        } else {
            &["device", "locked", "loop", "socket", "zero"]
        };
        let locations: Vec<String> = expected.iter().map(|dir| root.at(&format!("{dir}/SKILL.md"))).collect();
        let expected: Vec<_> =
            locations.iter().map(|at| (at.as_str(), SkillSkipReason::Unreadable)).collect();
        assert_eq!(skips(&found), expected);
        assert!(found.skipped.iter().all(|skip| skip.detail.is_some()));
        assert!(names(&found).contains(&"ok"));
    }

    // SKILL-9: a file system that hides a whole tree hides nothing else, whoever asks
    #[test]
    fn a_directory_that_is_no_candidate_stops_nothing() {
        let root = Root::new();
        root.skill("a", "a").skill("z", "z").write("real/x", "");
        symlink("missing", root.path().join("broken")).unwrap();
        symlink("itself", root.path().join("itself")).unwrap();
        // A link of the file's name that leads to a directory is a directory of that name.
        root.skill("elsewhere/inner", "inner").write("b/x", "");
        symlink("../elsewhere", root.path().join("b/SKILL.md")).unwrap();
        let found = root.list();
        assert_eq!((names(&found), found.skipped.len()), (vec!["a", "z", "inner"], 0));
        // The directory itself is shallower than the link to it.
        assert_eq!(found.skills[2].location, root.at("elsewhere/inner/SKILL.md"));
    }

    // SKILL-8: circles of all sizes end, and each directory is visited once for each root
    #[test]
    fn circles_end() {
        let root = Root::new();
        root.skill("a", "a").skill("b", "b").skill("a/c", "c");
        symlink("../b", root.path().join("a/to-b")).unwrap();
        symlink("../a", root.path().join("b/to-a")).unwrap();
        symlink("..", root.path().join("a/c/up")).unwrap();
        symlink(".", root.path().join("here")).unwrap();
        symlink(root.path(), root.path().join("a/c/root")).unwrap();
        let found = root.list();
        assert_eq!((names(&found), found.skipped.len()), (vec!["a", "b", "c"], 0));
        assert_eq!(found.skills[2].location, root.at("a/c/SKILL.md"));
    }

    // SKILL-8: the path that sorts first counts: by depth, then by name
    #[test]
    fn the_first_path_to_a_directory_counts() {
        let (root, outside) = (Root::new(), Root::new());
        outside.skill("s", "s");
        root.write("a/b/x", "").write("c/x", "");
        for link in ["a/b/deep", "c/link", "a/link", "z"] {
            symlink(outside.path(), root.path().join(link)).unwrap();
            let found = root.list();
            assert_eq!(found.skills[0].location, root.at(&format!("{link}/s/SKILL.md")), "{link}");
            assert_eq!((found.skills.len(), found.skipped.len()), (1, 0));
        }
    }

    // SKILL-6, SKILL-8: a link is entered by its own name, not by that of its target
    #[test]
    fn links_are_judged_by_their_own_name() {
        let (root, outside) = (Root::new(), Root::new());
        outside.skill("s", "s");
        symlink(outside.path(), root.path().join("node_modules")).unwrap();
        symlink(outside.path(), root.path().join(".git")).unwrap();
        assert_eq!(root.list().skills, []);
    }

    // SKILL-8, SKILL-10: a linked file is read, and stands where the link stands
    #[test]
    fn a_linked_file_is_the_skill_of_its_directory() {
        let (root, outside) = (Root::new(), Root::new());
        outside.write("shared.md", "---\nname: shared\n---\nx\n");
        for dir in ["a", "b"] {
            root.write(&format!("{dir}/x"), "");
            symlink(outside.path().join("shared.md"), root.path().join(dir).join("SKILL.md")).unwrap();
        }
        let found = root.list();
        assert_eq!(
            (&found.skills[0].location, &found.skills[0].dir),
            (&root.at("a/SKILL.md"), &root.at("a"))
        );
        // Two files are two candidates, whatever they lead to.
        assert_eq!(skips(&found), [(root.at("b/SKILL.md").as_str(), SkillSkipReason::DuplicateName)]);
    }

    // SKILL-2: nothing stays open
    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_stays_open() {
        let root = Root::new();
        root.skill("a", "a").write("b/SKILL.md", b"\xff").write("a/x/y", "");
        let source = load_skills(&root.options());
        source.load("a", None);
        let open: Vec<_> = fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .filter(|target| target.starts_with(root.path()))
            .collect();
        assert!(open.is_empty(), "{open:?}");
    }
}
