//! What the header of a `SKILL.md` says.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::{Root, list_one, names};
use proptest::prelude::*;
use serde_json::json;
use toolnexus_skills::{LoadSkillsOptions, SkillInfo, SkillSkip, SkillSkipReason, load_skills};

/// The skill whose header is this.
fn skill(header: &str) -> SkillInfo {
    let found = list_one(format!("---\n{header}\n---\nbody\n"));
    assert_eq!(found.skipped, [], "{header:?}");
    found.skills[0].clone()
}

/// Why there is no skill with this header.
fn skip(header: &str) -> SkillSkip {
    let found = list_one(format!("---\n{header}\n---\nbody\n"));
    assert_eq!(found.skills, [], "{header:?}");
    found.skipped[0].clone()
}

fn name(header: &str) -> String {
    skill(header).name
}

fn description(header: &str) -> Option<String> {
    skill(&format!("name: n\n{header}")).description
}

// SKILL-3
#[test]
fn reasons_have_fixed_spellings() {
    for (reason, text) in [
        (SkillSkipReason::MissingName, "missing-name"),
        (SkillSkipReason::MalformedFrontmatter, "malformed-frontmatter"),
        (SkillSkipReason::DuplicateName, "duplicate-name"),
        (SkillSkipReason::Unreadable, "unreadable"),
    ] {
        assert_eq!(reason.to_string(), text);
        assert_eq!(serde_json::to_value(reason).unwrap(), json!(text));
        assert_eq!(serde_json::from_value::<SkillSkipReason>(json!(text)).unwrap(), reason);
    }
    let quiet = SkillSkip { location: "l".into(), reason: SkillSkipReason::MissingName, detail: None };
    assert_eq!(serde_json::to_value(&quiet).unwrap(), json!({"location": "l", "reason": "missing-name"}));
}

// SKILL-11, SKILL-19
#[test]
fn lf_crlf_and_a_byte_order_mark_are_the_same_header() {
    for text in [
        "---\nname: a\ndescription: d\n---\nbody\n",
        "\u{feff}---\nname: a\ndescription: d\n---\nbody\n",
        "--- \t\nname: a\ndescription: d\n---\t\nbody\n",
    ] {
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            let found = list_one(&text);
            let skill = &found.skills[0];
            assert_eq!((skill.name.as_str(), skill.description.as_deref()), ("a", Some("d")), "{text:?}");
            assert_eq!(skill.content.trim_end(), "body");
        }
    }
}

// SKILL-19
#[test]
fn the_body_is_kept_as_it_stands() {
    assert_eq!(list_one("---\nname: a\n---\n\n  body \r\n\n").skills[0].content, "\n  body \r\n\n");
    assert_eq!(list_one("---\nname: a\n---").skills[0].content, "");
}

// SKILL-11: case 72
#[test]
fn without_both_fences_there_is_no_name() {
    for text in ["name: a\n", "\n---\nname: a\n---\n", "---\nname: a\n", "", "---", "----\nname: a\n----\n"] {
        let found = list_one(text);
        assert_eq!(found.skipped[0].reason, SkillSkipReason::MissingName, "{text:?}");
    }
}

// SKILL-12: cases 68, 69
#[test]
fn block_scalars_are_yaml() {
    assert_eq!(description("description: >\n  first line\n  second line").unwrap(), "first line second line");
    assert_eq!(description("description: |\n  line one\n  line two").unwrap(), "line one\nline two");
    assert_eq!(description("description: |-\n  a\n\n  b\n\n").unwrap(), "a\n\nb");
    assert_eq!(description("description: >+\n  a\n  b\n\n").unwrap(), "a b");
}

// SKILL-12
#[test]
fn quotes_flow_anchors_and_comments_are_yaml() {
    assert_eq!(description(r#"description: "a: \"b\" \u00e9""#).unwrap(), "a: \"b\" é");
    assert_eq!(description("description: 'it''s'").unwrap(), "it's");
    assert_eq!(description("description: plain\n  goes on # not this").unwrap(), "plain goes on");
    assert_eq!(description("base: &d shared text\ndescription: *d").unwrap(), "shared text");
    assert_eq!(skill("{name: flow, description: in braces}").description.unwrap(), "in braces");
    assert_eq!(name("# comment\n\nname: \"a # b\" # c"), "a # b");
    assert_eq!(name("\"name\": quoted key"), "quoted key");
}

// SKILL-13: case 74
#[test]
fn scalars_are_taken_as_they_were_written() {
    for (written, text) in [
        ("42", "42"),
        ("1.0", "1.0"),
        ("007", "007"),
        ("0x1F", "0x1F"),
        ("1e3", "1e3"),
        ("True", "True"),
        ("no", "no"),
        ("2024-01-01", "2024-01-01"),
        ("'  spaced  '", "spaced"),
        ("'null'", "null"),
        ("!!str null", "null"),
    ] {
        assert_eq!(name(&format!("name: {written}")), text);
        assert_eq!(description(&format!("description: {written}")).unwrap(), text);
    }
}

// SKILL-13, SKILL-14
#[test]
fn a_name_that_is_no_text_is_missing() {
    for header in [
        "description: only",
        "name:",
        "name: null",
        "name: ~",
        "name: ''",
        "name: '  '",
        "name: [a]",
        "name: {a: b}",
        "Name: a",
        "nested:\n  name: a",
        "? [name]\n: a",
    ] {
        assert_eq!(skip(header).reason, SkillSkipReason::MissingName, "{header:?}");
    }
}

// SKILL-14
#[test]
fn an_empty_header_has_no_name() {
    for text in ["---\n---\n", "---\n\n\n---\nname: a\n", "---\n# only a comment\n---\n"] {
        assert_eq!(list_one(text).skipped[0].reason, SkillSkipReason::MissingName, "{text:?}");
    }
}

// SKILL-14
#[test]
fn any_other_name_will_do() {
    let long = "x".repeat(500);
    for wanted in ["Two Words", "a/b", "日本語", "UPPER_case-1.2", "<tag>", long.as_str()] {
        assert_eq!(name(&format!("name: \"{wanted}\"")), wanted);
    }
}

// SKILL-13, SKILL-15: case 73
#[test]
fn a_description_may_be_missing() {
    for header in ["", "description:", "description: ~", "description: '  '", "description: [a, b]"] {
        assert_eq!(description(header), None, "{header:?}");
    }
    let root = Root::new();
    root.write("s/SKILL.md", "---\nname: quiet\ndescription:\n---\nbody");
    let source = load_skills(&root.options());
    assert_eq!(source.prompt(), "No skills are currently available.");
    assert!(source.load("quiet", None).output.contains("body"));
    assert_eq!(source.load("nope", None).output, "Skill \"nope\" not found. Available skills: quiet");
}

// SKILL-16, SKILL-3
#[test]
fn what_yaml_refuses_is_malformed_with_its_reason() {
    for header in [
        "title: [unclosed",
        "title: a\ntitle: b",
        "title: {a: 1, a: 2}",
        "title: *nowhere",
        "title:\n\t- tab",
        "title: 'open",
        "%YAML 1.2",
        "a: &x [*x]",
    ] {
        let skip = skip(header);
        assert_eq!(skip.reason, SkillSkipReason::MalformedFrontmatter, "{header:?}");
        assert!(skip.detail.is_some_and(|detail| !detail.is_empty()), "{header:?}");
    }
    for header in ["just text", "- a\n- b", "42", "~"] {
        let skip = skip(header);
        assert_eq!(skip.reason, SkillSkipReason::MalformedFrontmatter, "{header:?}");
        assert_eq!(skip.detail.as_deref(), Some("frontmatter is not a YAML mapping"));
    }
}

// SKILL-17: cases 70, 71
#[test]
fn a_sentence_with_a_colon_is_rescued() {
    let found = skill("name: sheets\ndescription: Fills sheets. Trigger on: update it");
    assert_eq!(found.name, "sheets");
    assert_eq!(found.description.as_deref(), Some("Fills sheets. Trigger on: update it"));
    let lost = skip("name: [unterminated\ndescription: broken: : :");
    assert_eq!(lost.reason, SkillSkipReason::MalformedFrontmatter);
}

// SKILL-17
#[test]
fn the_rescue_reads_plain_lines_and_guesses_nothing() {
    let broken = "bad: a: b\n";
    assert_eq!(name(&format!("{broken}name: \"quoted\"")), "quoted");
    assert_eq!(name(&format!("{broken}name: 'it'")), "it");
    assert_eq!(name(&format!("{broken}name: \"half")), "\"half");
    assert_eq!(name(&format!("{broken}name:\nname: second\nname: third")), "second");
    assert_eq!(name(&format!("{broken}name:  padded \t")), "padded");
    for refused in [
        "name: | x",
        "name: > x",
        "name: &x y",
        "name: *x",
        "name: [x",
        "name: {x",
        "name: !x y",
        "name:",
        "name: ''",
        " name: indented",
        "name:nospace",
        "names: a",
        "name : a",
    ] {
        assert_eq!(
            skip(&format!("{broken}{refused}")).reason,
            SkillSkipReason::MalformedFrontmatter,
            "{refused:?}"
        );
    }
    assert_eq!(skill(&format!("{broken}name: a\ndescription: | x")).description, None);
}

// SKILL-17: what YAML accepts is read by YAML alone
#[test]
fn an_accepted_header_is_never_rescued() {
    let skip = skip("text: |\n  x\nother: 1\nname: [a]");
    assert_eq!(skip.reason, SkillSkipReason::MissingName);
    assert_eq!(name("text: |\n  name: inside\nname: outside"), "outside");
}

// SKILL-20
#[test]
fn a_large_header_is_malformed() {
    let header = |bytes: usize| format!("name: a\n# {}", "x".repeat(bytes - 11));
    assert_eq!(name(&header(64 * 1024)), "a");
    let skip = skip(&header(64 * 1024 + 1));
    assert_eq!(skip.reason, SkillSkipReason::MalformedFrontmatter);
    assert_eq!(skip.detail.as_deref(), Some("the header is larger than 65536 bytes"));
}

// SKILL-20
#[test]
fn aliases_and_nesting_are_bounded() {
    let mut bomb = "a0: &a0 [xxxxxxxxxx, xxxxxxxxxx]\n".to_owned();
    for level in 1..40 {
        let below = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{below}, {below}, {below}]\n");
    }
    assert!(skip(&bomb).detail.unwrap().contains("aliases stand for more than"));
    let nested = |levels: usize| format!("name: a\nx: {}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(name(&nested(60)), "a");
    let deep = list_one(format!("---\n{}\n---\n", nested(100).replace("name", "title")));
    assert!(deep.skipped[0].detail.as_deref().unwrap().contains("nested deeper than"));
    for hostile in ["[", "{x: ", "- ", "? ", "&a ", "a:\n ", "\"", "a: "] {
        list_one(format!("---\n{}\n---\n", hostile.repeat(60_000 / hostile.len())));
    }
}

// SKILL-21
#[test]
fn the_whole_header_is_kept_for_hosts() {
    let skill = skill(
        "name: a\nversion: 1.5\ntags: [x, \"2\", 3]\nowner:\n  team: core\n  on-call: true\nempty:\n1: one\nalias: &v\n  - q\nsame: *v",
    );
    assert_eq!(
        serde_json::Value::Object(skill.meta),
        json!({
            "name": "a", "version": 1.5, "tags": ["x", "2", 3],
            "owner": {"team": "core", "on-call": true}, "empty": null, "1": "one",
            "alias": ["q"], "same": ["q"]
        })
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // SKILL-2: any bytes at all
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let found = list_one(bytes);
        prop_assert_eq!(found.skills.len() + found.skipped.len(), 1);
    }

    // SKILL-2, SKILL-16: headers made of what YAML is made of
    #[test]
    fn random_headers_never_panic(header in "([\\[\\]{}:,#&*!|>'\"%@`?~ \t\n-]|name|description|a|é|\\.\\.\\.|---|\r\n|\u{85}|\u{feff}){0,40}") {
        let found = list_one(format!("---\n{header}\n---\nbody"));
        prop_assert_eq!(found.skills.len() + found.skipped.len(), 1);
        prop_assert_eq!(&found, &found);
    }

    // SKILL-13, SKILL-17: a name is what was written, whether YAML takes the rest or not
    #[test]
    fn a_name_survives_a_broken_neighbour(wanted in "[A-Za-z][A-Za-z0-9_-]{0,20}", broken in any::<bool>()) {
        prop_assume!(!matches!(wanted.to_lowercase().as_str(), "null" | "true" | "false"));
        let header = if broken { "bad: a: b\n" } else { "fine: a\n" };
        let found = list_one(format!("---\n{header}name: {wanted}\n---\n"));
        prop_assert_eq!(names(&found), [wanted.as_str()]);
    }

    // SKILL-12: a quoted text comes back whole
    #[test]
    fn a_quoted_description_comes_back(text in "[^\\p{C}]{1,60}") {
        prop_assume!(!text.trim().is_empty());
        let header = format!("name: n\ndescription: {}", serde_json::to_string(&text).unwrap());
        let found = list_one(format!("---\n{header}\n---\n"));
        prop_assert_eq!(found.skills[0].description.as_deref(), Some(text.trim()));
    }
}

// SKILL-2
#[test]
fn no_options_no_skills() {
    let source = load_skills(&LoadSkillsOptions::default());
    assert!(source.skills().is_empty() && source.skipped().is_empty());
}
