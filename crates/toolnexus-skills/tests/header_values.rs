//! What the values of a header become: as written, however they are written.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{Root, list_one};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolnexus_skills::{SkillInfo, SkillSkipReason, load_skills};

/// The one skill of a file with this header; fails when there is none.
#[track_caller]
fn skill(header: &str) -> SkillInfo {
    let found = list_one(format!("---\n{header}\n---\nbody\n"));
    assert_eq!(found.skipped, [], "{header:?}");
    found.skills[0].clone()
}

/// Why a file with this header is no skill, and what the parser said.
#[track_caller]
fn skip(header: &str) -> (SkillSkipReason, Option<String>) {
    let found = list_one(format!("---\n{header}\n---\nbody\n"));
    assert_eq!(found.skills, [], "{header:?}");
    (found.skipped[0].reason, found.skipped[0].detail.clone())
}

#[track_caller]
fn description(header: &str) -> Option<String> {
    skill(&format!("name: n\n{header}")).description
}

// SKILL-12: every kind of block scalar, every chomping, an indentation indicator
#[test]
fn block_scalars_fold_and_chomp_as_yaml_says() {
    for (header, expected) in [
        ("description: |\n  one\n  two\n", "one\ntwo"),
        ("description: |-\n  one\n  two\n\n", "one\ntwo"),
        ("description: |+\n  one\n  two\n\n", "one\ntwo"),
        ("description: >\n  one\n  two\n", "one two"),
        ("description: >-\n  one\n  two\n\n\n", "one two"),
        ("description: >+\n  one\n\n  two\n\n", "one\ntwo"),
        // An indented line of a folded text keeps its line breaks.
        ("description: >\n  one\n    - item\n  two\n", "one\n  - item\ntwo"),
        ("description: |1\n   indented\n  two\n", "indented\n two"),
        ("description: |\n  # no comment\n  key: value\n", "# no comment\nkey: value"),
    ] {
        assert_eq!(description(header).as_deref(), Some(expected), "{header:?}");
        // The kept line breaks are trimmed of name and description, and stay in `meta`.
        assert_eq!(description(&header.replace('\n', "\r\n")).as_deref(), Some(expected), "{header:?}");
    }
    let kept = skill("name: n\ndescription: |+\n  one\n\nnext: 1");
    assert_eq!(kept.meta["description"], json!("one\n\n"));
}

// SKILL-12: a text over several lines, plain or quoted
#[test]
fn texts_go_on_over_lines() {
    for (header, expected) in [
        ("description: plain text that\n  goes on\n\n  and on", "plain text that goes on\nand on"),
        ("description:\n  begins below", "begins below"),
        ("description: \"quoted\n  goes \\\n  on\"", "quoted goes on"),
        ("description: 'single\n\n  quoted'", "single\nquoted"),
        ("description: \"tab\\tbell\\x07 \\U0001F600\"", "tab\tbell\u{7} 😀"),
        ("description: it's 100%#1, [really] {so}", "it's 100%#1, [really] {so}"),
        ("description: 日本語 – emoji 🎉", "日本語 – emoji 🎉"),
        ("description:\tafter a tab", "after a tab"),
    ] {
        assert_eq!(description(header).as_deref(), Some(expected), "{header:?}");
    }
}

// SKILL-13: trimmed at both ends, also of what YAML keeps
#[test]
fn names_and_descriptions_are_trimmed() {
    let found = skill("name: \" \\t padded \\n\"\ndescription: |+\n\n  \n  text\n\n");
    assert_eq!((found.name.as_str(), found.description.as_deref()), ("padded", Some("text")));
}

// SKILL-13: a scalar is the text that was written, whatever value or tag YAML gives it
#[test]
fn tagged_and_quoted_scalars_are_text() {
    for (written, text) in [
        ("'42'", "42"),
        ("\"007\"", "007"),
        ("\"1.0\"", "1.0"),
        ("!!str 42", "42"),
        ("!!int '42'", "42"),
        ("!!float 1", "1"),
        ("!mine tagged", "tagged"),
        ("!!binary aGVsbG8=", "aGVsbG8="),
        ("true", "true"),
        ("off", "off"),
        ("\"~\"", "~"),
        ("'null'", "null"),
        ("!!str ~", "~"),
        ("-0", "-0"),
        ("+1_000", "+1_000"),
        ("0o17", "0o17"),
        (".inf", ".inf"),
        ("1e400", "1e400"),
        ("99999999999999999999", "99999999999999999999"),
        ("2026-01-31T10:00:00Z", "2026-01-31T10:00:00Z"),
        ("|\n  block", "block"),
        ("nUll", "nUll"),
    ] {
        assert_eq!(skill(&format!("name: {written}")).name, text, "{written:?}");
        assert_eq!(description(&format!("description: {written}")).as_deref(), Some(text), "{written:?}");
    }
}

// SKILL-13, SKILL-14, SKILL-15: all spellings of nothing
#[test]
fn nothing_is_nothing_in_every_spelling() {
    for nothing in
        ["", "~", "null", "Null", "NULL", "''", "\"\"", "' \t '", "!!str", "!!null ''", "|\n", ">-\n\n"]
    {
        assert_eq!(skip(&format!("name: {nothing}")).0, SkillSkipReason::MissingName, "{nothing:?}");
        assert_eq!(description(&format!("description: {nothing}")), None, "{nothing:?}");
    }
    for collection in ["[]", "[a]", "{}", "{a: b}", "\n  - a", "\n  a: b", "!!set {a}"] {
        assert_eq!(skip(&format!("name: {collection}")).0, SkillSkipReason::MissingName, "{collection:?}");
        assert_eq!(description(&format!("description: {collection}")), None, "{collection:?}");
    }
}

// SKILL-13: other keys are ignored, also those that look alike or lie deeper
#[test]
fn only_the_top_level_keys_count() {
    let found =
        skill("Name: A\nNAME: B\nname : n\nmetadata: {name: inner, description: inner}\n? description\n: d");
    assert_eq!((found.name.as_str(), found.description.as_deref()), ("n", Some("d")));
    // YAML 1.2 knows no merge keys.
    let merged = "base: &base {name: x}\n<<: *base";
    assert_eq!(skip(merged).0, SkillSkipReason::MissingName);
    let kept = skill(&format!("{merged}\nname: n"));
    assert_eq!((kept.name.as_str(), &kept.meta["<<"]), ("n", &json!({"name": "x"})));
}

// SKILL-3, SKILL-14: what there is instead of a name
#[test]
fn a_missing_name_says_what_there_is_instead() {
    for (text, said) in [
        ("# Title\n", "there is no header: the first line is not ---"),
        ("---\nname: a\n", "the header does not end: there is no second --- line"),
        ("---\n---\n", "the header is empty"),
        ("---\ndescription: d\n---\n", "the header has no key name"),
        ("---\nname: ~\n---\n", "name is empty"),
        ("---\nname: [a]\n---\n", "name is a list"),
        ("---\nname: {a: b}\n---\n", "name is a mapping"),
    ] {
        let found = list_one(text);
        assert_eq!(found.skipped[0].reason, SkillSkipReason::MissingName, "{text:?}");
        assert_eq!(found.skipped[0].detail.as_deref(), Some(said), "{text:?}");
    }
}

// SKILL-16: what YAML refuses, by the kind of refusal; the detail says where in the file
#[test]
fn refusals_carry_the_parsers_message() {
    for (header, said) in [
        ("title: [unclosed", "line"),
        ("title: a\ntitle: b", "duplicate key \"title\" at line 3 column 1"),
        ("title: a\n\"title\": b", "duplicate key \"title\" at line 3 column 1"),
        ("a:\n  b:\n    - {c: 1, c: 2}", "duplicate key \"c\" at line 4 column 14"),
        ("a: [&x b, *y]", "line 2"),
        ("a: &x {b: *x}", "an alias inside its own anchor at line 2 column 11"),
        ("a:\n\tb: c", "line 3"),
        ("a: b\n...\nc: d", "more than one YAML document at line 4 column 1"),
        ("a: 'open", "line"),
        ("a: @at", "line 2"),
        ("a: `tick", "line 2"),
        ("a: \"\\q\"", "line 2"),
    ] {
        let (reason, detail) = skip(header);
        assert_eq!(reason, SkillSkipReason::MalformedFrontmatter, "{header:?}");
        let detail = detail.unwrap();
        assert!(detail.contains(said), "{header:?}: {detail}");
        // SKILL-17: the same refusal, and a name that can be read all the same.
        assert_eq!(skill(&format!("name: n\n{header}")).name, "n", "{header:?}");
    }
    for header in ["text", "- name: a", "[a, b]", "42", "null", "!!map", "|\n  name: a", "\"name: a\""] {
        let (reason, detail) = skip(header);
        assert_eq!(reason, SkillSkipReason::MalformedFrontmatter, "{header:?}");
        assert_eq!(detail.as_deref(), Some("frontmatter is not a YAML mapping"), "{header:?}");
    }
}

// SKILL-17: keys are whole, at column 0, and of letters, digits, `_`, `.`, `-`
#[test]
fn the_rescue_takes_no_key_for_another() {
    let broken = "bad: a: b\n";
    for header in
        ["xname: a", "name-x: a", "name.x: a", "-name: a", "\"name\": a", "? name: a", "\tname: a", "Name: a"]
    {
        assert_eq!(skip(&format!("{broken}{header}")).0, SkillSkipReason::MalformedFrontmatter, "{header:?}");
    }
    // Only name and description are read; `meta` is not guessed.
    let found = skill(&format!("{broken}version: 1\nname: n\ndescription: d"));
    assert_eq!((found.description.as_deref(), found.meta.len()), (Some("d"), 0));
    // The first line that yields a value wins, for each of the two by itself.
    let found = skill(&format!(
        "{broken}description: | no\nname: [no\ndescription: first\nname: n\ndescription: second"
    ));
    assert_eq!((found.name.as_str(), found.description.as_deref()), ("n", Some("first")));
    // One pair of quotes goes, no more; what does not match stays; what is left is trimmed.
    for (written, text) in [
        ("\"''a''\"", "''a''"),
        ("\"a'", "\"a'"),
        ("a\"", "a\""),
        ("\"", "\""),
        ("' a: b '", "a: b"),
        ("a \"b\" c: d", "a \"b\" c: d"),
        ("a # b: c", "a # b: c"),
    ] {
        let found = skill(&format!("{broken}name: n\ndescription: {written}"));
        assert_eq!(found.description.as_deref(), Some(text), "{written:?}");
    }
    for refused in ["|", ">", "> folded", "&anchor a", "*alias", "[a, b]", "{a: b}", "!tag a", "\"\"", "' '"]
    {
        let found = skill(&format!("{broken}name: n\ndescription: {refused}"));
        assert_eq!(found.description, None, "{refused:?}");
    }
}

// SKILL-11, SKILL-17: a file with CRLF is rescued like any other
#[test]
fn windows_line_endings_change_nothing() {
    let text = "---\nname: n\ndescription: When: always\nlist:\n  - a\n---\nbody\n";
    let (lf, crlf) = (list_one(text), list_one(text.replace('\n', "\r\n")));
    assert_eq!(
        (&crlf.skills[0].name, &crlf.skills[0].description),
        (&lf.skills[0].name, &lf.skills[0].description)
    );
    assert_eq!(crlf.skills[0].description.as_deref(), Some("When: always"));
    let fine = "---\nname: n\ndescription: >-\n  one\n  two\nlist:\n  - a\n---\nbody\n";
    let (lf, crlf) = (list_one(fine), list_one(fine.replace('\n', "\r\n")));
    assert_eq!(crlf.skills[0].meta, lf.skills[0].meta);
    assert_eq!(crlf.skills[0].content, "body\r\n");
}

// SKILL-20: aliases may not build what the text may not hold, in width or in depth
#[test]
fn aliases_are_bounded_in_depth_too() {
    let mut ladder = format!("a0: &a0 {}{}\n", "[".repeat(50), "]".repeat(50));
    for level in 1..80 {
        ladder += &format!("a{level}: &a{level} {}*a{}{}\n", "[".repeat(50), level - 1, "]".repeat(50));
    }
    let (reason, detail) = skip(&ladder);
    assert_eq!(reason, SkillSkipReason::MalformedFrontmatter);
    assert!(detail.unwrap().starts_with("nested deeper than 64 levels"));
    // Ordinary use is not hindered, and what is shared is shown in full.
    let found = skill("name: n\nshared: &s {a: [1]}\nfirst: *s\nsecond: [*s, *s]");
    assert_eq!(found.meta["second"], json!([{"a": [1]}, {"a": [1]}]));
    // The name is rescued, as from any header that is refused.
    assert_eq!(skill(&format!("name: n\n{ladder}")).name, "n");
}

// SKILL-21: the structure is kept for hosts, and no output knows of it
#[test]
fn further_keys_change_no_output() {
    let output = |header: &str| {
        let root = Root::new();
        root.write(
            "s/SKILL.md",
            format!("---\nname: n\ndescription: d\n{header}---\nSee [notes](notes.md).\n"),
        );
        root.write("s/notes.md", "SECRET NOTES");
        let source = load_skills(&root.options());
        let at = root.path().display().to_string();
        (source.prompt(), source.load("n", None).output.replace(&at, ""))
    };
    let plain = output("");
    assert_eq!(output("license: MIT\nallowed-tools: [Bash, Read]\nmetadata: {a: {b: c}}\n"), plain);
    // What a body links to is not attached.
    assert!(plain.1.contains("See [notes](notes.md).") && !plain.1.contains("SECRET"), "{}", plain.1);
}

/// Some structure as a header may hold it, and the same as JSON.
fn structure() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~é日\n\t]{0,12}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z ]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // SKILL-12, SKILL-21: JSON is YAML, so any structure comes back as it was
    #[test]
    fn a_structure_comes_back(value in structure()) {
        let found = skill(&format!("name: n\nextra: {value}"));
        prop_assert_eq!(&found.meta["extra"], &value);
    }

    // SKILL-12: a literal block is its lines
    #[test]
    fn a_literal_block_comes_back(lines in proptest::collection::vec("[!-~é日][ -~é日]{0,20}", 1..6)) {
        let block: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        prop_assert_eq!(description(&format!("description: |\n{block}")).unwrap(), lines.join("\n").trim().to_owned());
    }

    // SKILL-17: a sentence with a colon keeps every word
    #[test]
    fn a_sentence_is_rescued_whole(
        words in proptest::collection::vec("[A-Za-z0-9é.,/()-]{1,8}", 1..8),
        rest in proptest::collection::vec("[A-Za-z0-9é.,/()-]{1,8}", 1..8),
    ) {
        let sentence = format!("{}: {}: end", words.join(" "), rest.join(" "));
        prop_assume!(!sentence.starts_with("- "));
        prop_assert_eq!(description(&format!("description: {sentence}")), Some(sentence));
    }
}
