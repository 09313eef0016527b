//! Skills as data, precedence, filters and the inventory.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::collections::BTreeMap;

use common::{Root, def, names, skips};
use proptest::prelude::*;
use toolnexus_core::{SourceHandle as _, Toolkit, ToolkitParts};
use toolnexus_skills::{
    LoadSkillsOptions, SkillDef, SkillOrigin, SkillSkipReason, SkillSource, fold_disabled, list_skills,
    load_skills, load_skills_with,
};

fn data(skills: &[SkillDef]) -> LoadSkillsOptions {
    LoadSkillsOptions { skills: skills.to_vec(), ..Default::default() }
}

fn abc(filter: &[(&str, bool)]) -> LoadSkillsOptions {
    let filter = filter.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
    LoadSkillsOptions { filter, ..data(&[def("a", "A", ""), def("b", "B", ""), def("c", "C", "")]) }
}

fn loaded(source: &SkillSource) -> Vec<&str> {
    source.skills().iter().map(|skill| skill.name.as_str()).collect()
}

// SKILL-22
#[test]
fn a_definition_never_touches_the_disk() {
    let with_base = SkillDef { base: "db://skills/y".into(), ..def("y", "", "body") };
    let found = list_skills(&data(&[def("x", "d", "body"), with_base]));
    let (x, y) = (&found.skills[0], &found.skills[1]);
    assert_eq!(
        (x.base.as_str(), x.location.as_str(), x.dir.as_str()),
        ("skill://x/", "skill://x/", "skill://x/")
    );
    assert_eq!(
        (y.base.as_str(), y.location.as_str(), y.dir.as_str()),
        ("db://skills/y", "db://skills/y", "db://skills/y")
    );
    assert_eq!((x.origin, y.origin), (SkillOrigin::Logical, SkillOrigin::Logical));
}

// SKILL-23: case 77
#[test]
fn a_definition_without_a_name_is_skipped() {
    let with_base = SkillDef { base: "b://1".into(), ..def(" \t", "d", "c") };
    let found = list_skills(&data(&[def("", "d", "c"), with_base, def("empty", "  ", "")]));
    assert_eq!(
        skips(&found),
        [("skill://", SkillSkipReason::MissingName), ("b://1", SkillSkipReason::MissingName)]
    );
    assert_eq!((names(&found), found.skills[0].description.as_deref()), (vec!["empty"], None));
}

// SKILL-24, SKILL-25, SKILL-26: case 66
#[test]
fn disk_comes_before_definitions_before_the_providers() {
    let root = Root::new();
    root.skill("hello-world", "hello-world").skill("z", "z");
    let opts = LoadSkillsOptions {
        skills: vec![def("hello-world", "", ""), def("b", "", "mine")],
        ..root.options()
    };
    let source = load_skills_with(&opts, vec![def("b", "", "theirs"), def("a", "", ""), def("", "", "")]);
    assert_eq!(loaded(&source), ["hello-world", "z", "b", "a"]);
    assert_eq!(source.get("hello-world").unwrap().origin, SkillOrigin::Fs);
    assert_eq!(source.get("b").unwrap().content, "mine");
    let skipped: Vec<_> = source.skipped().iter().map(|skip| (skip.location.as_str(), skip.reason)).collect();
    assert_eq!(
        skipped,
        [
            ("skill://hello-world/", SkillSkipReason::DuplicateName),
            ("skill://b/", SkillSkipReason::DuplicateName),
            ("skill://", SkillSkipReason::MissingName),
        ]
    );
}

// SKILL-25
#[test]
fn names_are_compared_exactly_and_a_skipped_candidate_claims_none() {
    let root = Root::new();
    root.write("a/SKILL.md", "---\nname: [x]\n---\n").skill("b", "x");
    let opts = LoadSkillsOptions { skills: vec![def("X", "", ""), def("x ", "", "")], ..root.options() };
    assert_eq!(names(&list_skills(&opts)), ["x", "X", "x "]);
}

// SKILL-13, SKILL-16, SKILL-25, SKILL-26: case 67
#[test]
fn every_candidate_that_is_no_skill_is_listed_in_its_place() {
    let root = Root::new();
    root.skill("b-good", "good");
    root.write("c-no-name/SKILL.md", "---\ndescription: only\n---\n");
    root.write("a-broken/SKILL.md", "---\nname: [unclosed\n---\n");
    let found = list_skills(&LoadSkillsOptions { skills: vec![def("good", "", "")], ..root.options() });
    assert_eq!(names(&found), ["good"]);
    assert_eq!(
        skips(&found),
        [
            (root.at("a-broken/SKILL.md").as_str(), SkillSkipReason::MalformedFrontmatter),
            (root.at("c-no-name/SKILL.md").as_str(), SkillSkipReason::MissingName),
            ("skill://good/", SkillSkipReason::DuplicateName),
        ]
    );
}

// SKILL-34, SKILL-35, SKILL-39: case 75
#[test]
fn a_filter_allows_or_drops() {
    for (filter, expected, unmatched) in [
        (&[("a", true), ("b", true)][..], &["a", "b"][..], &[][..]),
        (&[("c", false)], &["a", "b"], &[]),
        (&[("a", true), ("nope", true)], &["a"], &["nope"]),
        (&[("a", true), ("b", false)], &["a"], &[]),
        (&[], &["a", "b", "c"], &[]),
        (&[("nope", true)], &[], &["nope"]),
        (&[("z", false), ("nope", false)], &["a", "b", "c"], &["nope", "z"]),
    ] {
        let source = load_skills(&abc(filter));
        assert_eq!(loaded(&source), expected, "{filter:?}");
        assert_eq!(source.filter_unmatched(), unmatched, "{filter:?}");
    }
}

// SKILL-34: the tool and the catalogue agree
#[test]
fn what_is_filtered_out_is_nowhere() {
    let source = load_skills(&abc(&[("b", false)]));
    assert_eq!(source.load("b", None).output, "Skill \"b\" not found. Available skills: a, c");
    assert!(source.prompt().ends_with("## Available Skills\n- **a**: A\n- **c**: C"));
    assert!(source.get("b").is_none());
    let none = load_skills(&abc(&[("nope", true)]));
    assert_eq!(none.prompt(), "No skills are currently available.");
    assert_eq!(none.load("a", None).output, "Skill \"a\" not found. Available skills: none");
}

// SKILL-34: the filter comes after merging, so what it drops uncovers nothing
#[test]
fn a_dropped_skill_uncovers_no_other() {
    let root = Root::new();
    root.skill("a", "a").skill("b", "b");
    let source = load_skills(&LoadSkillsOptions {
        skills: vec![def("a", "", "data")],
        filter: [("a".to_owned(), false)].into(),
        ..root.options()
    });
    assert_eq!(loaded(&source), ["b"]);
    assert_eq!(source.skipped()[0].reason, SkillSkipReason::DuplicateName);
    // SKILL-35: the name has matched, though nothing of it is left.
    assert!(source.filter_unmatched().is_empty());
}

// SKILL-22, SKILL-23: content may be empty, and a definition shows nothing of this machine
#[test]
fn an_empty_definition_is_a_skill() {
    let source = load_skills(&data(&[SkillDef { base: "  ".into(), ..def("empty", " ", "") }]));
    assert_eq!(
        source.load("empty", None).output,
        "<skill_content name=\"empty\">\n# Skill: empty\n\n\n\nBase directory for this skill: skill://empty/\n\
         Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.\n\
         </skill_content>"
    );
    assert_eq!(source.get("empty").unwrap().description, None);
    assert!(source.get("empty").unwrap().meta.is_empty());
}

// SKILL-36: case 76
#[test]
fn disabled_names_are_folded_in_first() {
    let disabled = ["b".to_owned()];
    let opts = |filter: BTreeMap<String, bool>| LoadSkillsOptions {
        filter: fold_disabled(&disabled, &filter),
        ..data(&[def("a", "", ""), def("b", "", "")])
    };
    assert_eq!(loaded(&load_skills(&opts([].into()))), ["a"]);
    assert_eq!(loaded(&load_skills(&opts([("b".to_owned(), true)].into()))), ["b"]);
}

// SKILL-37: case 82
#[test]
fn the_inventory_ignores_the_filter() {
    let opts = LoadSkillsOptions { sample_limit: -1, ..abc(&[("a", true)]) };
    assert_eq!(names(&list_skills(&opts)), ["a", "b", "c"]);
}

// SKILL-39
#[test]
fn a_toolkit_leads_back_to_its_skills() {
    let source = load_skills(&LoadSkillsOptions { skills: vec![def("", "", "")], ..abc(&[("nope", false)]) });
    let toolkit = Toolkit::from_parts(ToolkitParts {
        tools: vec![source.tool()],
        sources: vec![std::sync::Arc::new(source.clone())],
        ..Default::default()
    });
    let found = toolkit.source::<SkillSource>().unwrap();
    assert_eq!(found.filter_unmatched(), ["nope"]);
    let twice = load_skills(&data(&[def("a", "", ""), def("a", "", "")]));
    assert_eq!(twice.skipped()[0].reason, SkillSkipReason::DuplicateName);
    assert!(source.as_any().is::<SkillSource>());
}

proptest! {
    // SKILL-34, SKILL-35: against the rule said plainly
    #[test]
    fn the_filter_is_that_of_the_rule(
        names in proptest::collection::btree_set("[a-f]", 0..6),
        filter in proptest::collection::btree_map("[a-h]", any::<bool>(), 0..6),
    ) {
        let skills: Vec<_> = names.iter().map(|name| def(name, "", "")).collect();
        let source = load_skills(&LoadSkillsOptions { filter: filter.clone(), ..data(&skills) });
        let allowed: Vec<&String> = filter.iter().filter(|(_, on)| **on).map(|(name, _)| name).collect();
        let expected: Vec<&str> = names
            .iter()
            .filter(|name| if allowed.is_empty() { !filter.contains_key(*name) } else { allowed.contains(name) })
            .map(String::as_str)
            .collect();
        prop_assert_eq!(loaded(&source), expected);
        let unmatched: Vec<&String> = filter.keys().filter(|name| !names.contains(*name)).collect();
        prop_assert_eq!(source.filter_unmatched().iter().collect::<Vec<_>>(), unmatched);
    }

    // SKILL-24, SKILL-25, SKILL-26: the first of a name wins, and nothing is lost
    #[test]
    fn every_definition_is_a_skill_or_a_skip(names in proptest::collection::vec("[a-c]?", 0..10), split in 0usize..10) {
        let defs: Vec<_> = names.iter().enumerate().map(|(at, name)| def(name, "", &at.to_string())).collect();
        let (own, extra) = defs.split_at(split.min(defs.len()));
        let source = load_skills_with(&data(own), extra.to_vec());
        prop_assert_eq!(source.skills().len() + source.skipped().len(), names.len());
        for skill in source.skills() {
            let first = names.iter().position(|name| *name == skill.name).unwrap();
            prop_assert_eq!(&skill.content, &first.to_string());
        }
        let order: Vec<usize> = source.skills().iter().map(|skill| skill.content.parse().unwrap()).collect();
        prop_assert!(order.is_sorted());
    }
}
