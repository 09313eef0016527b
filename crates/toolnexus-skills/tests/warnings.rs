//! What is said aloud.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use common::{Root, def, options};
use toolnexus_skills::{LoadSkillsOptions, SkillSkipReason, list_skills, load_skills};
use toolnexus_testkit::warnings::Warnings;

/// The warnings that `work` gives.
fn warnings(work: impl FnOnce()) -> Vec<String> {
    let warnings = Warnings::listen();
    work();
    warnings.take()
}

// SKILL-7, SKILL-25, SKILL-35: a lost skill is said aloud, once
#[test]
fn what_is_lost_is_warned_of() {
    let root = Root::new();
    root.skill("b", "b");
    let mut opts = LoadSkillsOptions { skills: vec![def("b", "", "")], ..root.options() };
    opts.dirs.push(root.path().join("missing"));
    opts.filter = [("nope".to_owned(), false)].into();
    let heard = warnings(|| {
        load_skills(&opts);
    });
    assert_eq!(
        heard,
        [
            format!("[toolnexus] skills dir not found: {}", root.at("missing")),
            "[toolnexus] skill \"b\" at skill://b/ skipped: the name is taken".to_owned(),
            "[toolnexus] skill filter name \"nope\" matched no skill".to_owned(),
        ]
    );
    opts.filter.clear();
    assert!(load_skills(&opts).filter_unmatched().is_empty());
}

// SKILL-35: each name once, sorted, and only where the filter is applied
#[test]
fn filter_names_without_a_skill_are_warned_of() {
    let opts = LoadSkillsOptions {
        skills: vec![def("a", "", ""), def("a", "", "")],
        filter: [("zeta", true), ("a", true), ("Alpha", false)]
            .map(|(name, on)| (name.to_owned(), on))
            .into(),
        ..options(&[])
    };
    let taken = "[toolnexus] skill \"a\" at skill://a/ skipped: the name is taken";
    let heard = warnings(|| assert_eq!(load_skills(&opts).filter_unmatched(), ["Alpha", "zeta"]));
    assert_eq!(
        heard,
        [
            taken,
            "[toolnexus] skill filter name \"Alpha\" matched no skill",
            "[toolnexus] skill filter name \"zeta\" matched no skill",
        ]
    );
    assert_eq!(warnings(|| drop(list_skills(&opts))), [taken]);
}

// SKILL-3, SKILL-7: a root that is there and does not let itself be read is said aloud and listed
#[cfg(unix)]
#[test]
fn a_root_that_cannot_be_read_is_warned_of() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let root = Root::new();
    root.skill("closed", "c").skill("open", "o").write("file", "");
    symlink(root.path().join("circle"), root.path().join("circle")).unwrap();
    let closed = root.path().join("closed");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Whoever may read everything can also read this one.
    let unreadable: &[&str] =
        if std::fs::read_dir(&closed).is_err() { &["circle", "closed"] } else { &["circle"] };
    for name in unreadable {
        let dirs = [root.path().join(name), root.path().join("open"), root.path().join("file/x")];
        let opts = options(&dirs);
        let mut loaded = None;
        let heard = warnings(|| loaded = Some(load_skills(&opts)));
        let loaded = loaded.unwrap();
        let [skip] = loaded.skipped() else { panic!("{:?}", loaded.skipped()) };
        assert_eq!((&skip.location, skip.reason), (&root.at(name), SkillSkipReason::Unreadable));
        let detail = skip.detail.as_deref().unwrap();
        assert_eq!(
            heard,
            [
                format!("[toolnexus] skills dir cannot be read: {}: {detail}", root.at(name)),
                format!("[toolnexus] skills dir not found: {}", root.at("file/x")),
            ]
        );
        assert!(loaded.get("o").is_some(), "the other roots are searched all the same");
        assert_eq!(list_skills(&opts).skipped, loaded.skipped());
    }
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
}
