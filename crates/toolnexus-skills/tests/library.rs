//! Skill folders as people publish them, and what becomes of each.
//!
//! The folders are in `fixtures/library`; the table below has one line for each `SKILL.md` in them.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::options;
use serde_json::{Value, json};
use toolnexus_skills::SkillSkipReason::{DuplicateName, MalformedFrontmatter, MissingName, Unreadable};
use toolnexus_skills::{LoadSkillsOptions, SkillPathDisplay, SkillSkipReason, list_skills, load_skills};

/// What becomes of one `SKILL.md`.
struct Expected {
    folder: &'static str,
    outcome: Outcome,
}

enum Outcome {
    Skill {
        name: &'static str,
        description: Description,
        meta: &'static [&'static str],
        files: &'static [&'static str],
    },
    /// The reason, and what the detail says.
    Skip(SkillSkipReason, &'static str),
}

enum Description {
    None,
    Is(&'static str),
    /// Begins and ends like this, and has so many characters.
    Long(&'static str, &'static str, usize),
}
use Description::{Is, Long};

/// A skill with this description, these top-level keys in `meta`, and these files.
fn skill(
    folder: &'static str,
    name: &'static str,
    description: Description,
    meta: &'static [&'static str],
    files: &'static [&'static str],
) -> Expected {
    Expected { folder, outcome: Outcome::Skill { name, description, meta, files } }
}

fn skip(folder: &'static str, reason: SkillSkipReason, detail: &'static str) -> Expected {
    Expected { folder, outcome: Outcome::Skip(reason, detail) }
}

/// The keys of a header that YAML takes and that has no others.
const BOTH: &[&str] = &["name", "description"];
/// What is left of a header that had to be rescued.
const RESCUED: &[&str] = &[];
const NO_FILES: &[&str] = &[];

/// In the order in which they are found.
fn table() -> Vec<Expected> {
    vec![
        skill("42", "42", Is("4711"), BOTH, NO_FILES),
        skill("Deploy-capital", "Deploy", Is("Another name, as names are compared exactly."), BOTH, NO_FILES),
        skill(
            "Upper Case (v2)",
            "PDF Filler, v2",
            Is("Has a name that other agents refuse."),
            BOTH,
            NO_FILES,
        ),
        skill(
            "api-design",
            "api-design",
            Is(
                "Reviews HTTP APIs: names, status codes, paging, errors (\"problem details\"). Use when an OpenAPI \
                file – or a route – changes.",
            ),
            BOTH,
            NO_FILES,
        ),
        // YAML takes `**Always**` for an alias; the rescue does not guess at it.
        skill("asterisks", "asterisks", Description::None, RESCUED, NO_FILES),
        skill(
            "backticks",
            "backticks",
            Is("`git bisect` made easy. Use when a bug came from nowhere."),
            RESCUED,
            NO_FILES,
        ),
        skill("blank-description", "blank-description", Description::None, BOTH, NO_FILES),
        skip("blank-line-first", MissingName, "the first line is not ---"),
        skill("brackets", "brackets", Description::None, RESCUED, NO_FILES),
        skill(
            "brand-voice",
            "brand-voice",
            Is("Writes in the voice of the house."),
            &["name", "summary", "description", "audiences", "channels"],
            NO_FILES,
        ),
        skill(
            "changelog",
            "changelog",
            Is("Keeps CHANGELOG.md in order. Trigger on: release, version bump, \"what changed?\""),
            RESCUED,
            NO_FILES,
        ),
        skip("closed-by-dots", MissingName, "there is no second --- line"),
        skip("comment-first", MissingName, "the first line is not ---"),
        skill(
            "commit-messages",
            "commit-messages",
            Is(
                "Writes commit messages in the style of the repository.\n\nUse when the user says \"commit\", asks \
                for a message, or has staged changes.\nDo not use for pull request descriptions.",
            ),
            BOTH,
            NO_FILES,
        ),
        skill(
            "crlf-blocks",
            "crlf-blocks",
            Is("first line\nsecond line"),
            &["name", "description", "notes"],
            NO_FILES,
        ),
        skill(
            "deploy-production",
            "deploy",
            Is("Ships to production. Use when the user says ship it."),
            BOTH,
            NO_FILES,
        ),
        skip("deploy-staging", DuplicateName, "deploy-production"),
        skill(
            "emoji-status",
            "🚦 status",
            Is("🟢 all well, 🟡 look twice, 🔴 stop. Use when a report needs a colour. 👩🏽‍💻"),
            BOTH,
            NO_FILES,
        ),
        skip("empty-header", MissingName, "the header is empty"),
        skill(
            "fence-in-block",
            "fence-in-block",
            Is("Separates slides with\n---\nlines. Use when asked."),
            &["name", "description", "example"],
            NO_FILES,
        ),
        skill(
            "flow-map",
            "flow-map",
            Is("All on one line, with braces"),
            &["name", "description", "metadata"],
            NO_FILES,
        ),
        skill(
            "frontmatter-only",
            "frontmatter-only",
            Is("There is nothing to read. Use when only the files matter."),
            BOTH,
            &["data.csv"],
        ),
        // What follows the closing quote is no YAML, so the quotes are no pair around the value either.
        skill(
            "half-quoted",
            "half-quoted",
            Is("\"Quick\" fixes for typing errors. Use when asked."),
            RESCUED,
            NO_FILES,
        ),
        skill(
            "horizontal-rules",
            "horizontal-rules",
            Is("The body has lines of dashes. Use when slides are wanted."),
            BOTH,
            NO_FILES,
        ),
        skill(
            "incident-review",
            "incident-review",
            Is(
                "Leads a blameless review after an incident. Use when somebody says \"post-mortem\", or asks: what's \
                the timeline?",
            ),
            &["name", "description", "license"],
            &["templates/review.md"],
        ),
        skill(
            "json-header",
            "json-header",
            Is("JSON is YAML: cafés and tabs\tare kept."),
            &["name", "description", "inputs"],
            NO_FILES,
        ),
        // YAML has no pairs of surrogates, and nothing stands at the margin of JSON.
        skip("json-surrogates", MalformedFrontmatter, "at byte 47 line 2 column 44"),
        skip("latin1", Unreadable, "invalid utf-8"),
        skill(
            "linked-files",
            "linked-files",
            Is("Points at files, of which one is missing. Use when links are checked."),
            BOTH,
            &["docs/guide.md"],
        ),
        skill("list-description", "list-description", Description::None, BOTH, NO_FILES),
        skill(
            "long-description",
            "long-description",
            Long("Knows the travel policy of the company by heart: who", "Rule 7 has its own page.", 1294),
            BOTH,
            NO_FILES,
        ),
        skill(
            "many-files",
            "many-files",
            Is("More files than are listed. Use when the list must be cut."),
            BOTH,
            &[
                ".config/settings.yaml",
                "Z.md",
                "assets-extra.md",
                "assets/1.txt",
                "assets/2.txt",
                "assets/3.txt",
                "assets/4.txt",
                "assets/icons/01.svg",
                "assets/icons/02.svg",
                "assets/icons/03.svg",
                "assets/icons/04.svg",
                "assets/icons/05.svg",
                "assets/icons/06.svg",
            ],
        ),
        skill("merge-keys", "merge-keys", Description::None, &["name", "defaults", "<<"], NO_FILES),
        skill("mixed-endings", "mixed-endings", Is("Edited here and there."), BOTH, NO_FILES),
        skip("name-list", MissingName, "name is a list"),
        skip("name-null", MissingName, "name is empty"),
        skip("nameless", MissingName, "the header has no key name"),
        skill(
            "nested-metadata",
            "nested-metadata",
            Is("Keeps everything for hosts. Use when a host asks for more than two keys."),
            &[
                "name",
                "description",
                "license",
                "version",
                "compatibility",
                "metadata",
                "allowed-tools",
                "hooks",
            ],
            &["LICENSE.txt"],
        ),
        skill("no-description", "no-description", Description::None, &["name"], NO_FILES),
        skip("no-frontmatter", MissingName, "the first line is not ---"),
        skill("null-description", "null-description", Description::None, BOTH, NO_FILES),
        skill(
            "pdf-forms",
            "pdf-forms",
            Is(
                "Fill, flatten and check PDF forms, and read the values back out. Use when the user mentions a PDF \
                form, an application form, AcroForm fields, or asks to \"fill in\" a document that ends in .pdf.",
            ),
            &["name", "description", "license", "version"],
            &["reference/fields.md", "scripts/fill.py", "scripts/list_fields.py", "templates/values.json"],
        ),
        skill(
            "release-notes",
            "release-notes",
            Is("Turns merged pull requests into notes for users.\nUse when a tag is about to be made."),
            &["name", "description", "metadata"],
            NO_FILES,
        ),
        skill(
            "scoped-name",
            "@team/scoped-name",
            Is("A sign that YAML keeps for itself."),
            RESCUED,
            NO_FILES,
        ),
        skill("spaced-colon", "spaced-colon", Is("The keys are written in other ways."), BOTH, NO_FILES),
        skill(
            "spreadsheet-tools",
            "spreadsheet-tools",
            Is(
                "Create, edit and analyse spreadsheets (.xlsx, .csv, .tsv). Use when a task needs formulas, pivot \
                tables or charts, or when the user hands over a table and asks a question about it.",
            ),
            &["name", "description", "allowed-tools"],
            &["scripts/recalculate.sh"],
        ),
        skill(
            "sql-tuning",
            "sql-tuning",
            Is(
                "Finds out why a query is slow and what to do about it. Use when the user shows a query plan, \
                mentions a missing index,\nor reports a timeout from the database.",
            ),
            &["name", "description", "compatibility"],
            &["references/mysql.md", "references/postgres/indexes.md", "references/postgres/locks.md"],
        ),
        skill("switch", "yes", Is("no"), BOTH, NO_FILES),
        skill(
            "tab-indented",
            "tab-indented",
            Is("The map below is indented with a tab, which YAML refuses."),
            RESCUED,
            NO_FILES,
        ),
        skip("tab-indented-name", MalformedFrontmatter, "line 3"),
        // The parser wants a blank behind a colon, where the grammar would take a tab too.
        skill("tabs-in-values", "tabs-in-values", Is("After a tab comes text."), RESCUED, NO_FILES),
        skip("toml-header", MissingName, "the first line is not ---"),
        skill("trailing-blanks", "trailing-blanks", Is("Blanks around."), BOTH, NO_FILES),
        skill("twice-described", "twice-described", Is("The first."), RESCUED, NO_FILES),
        skill("two-documents", "two-documents", Is("The first of two."), RESCUED, NO_FILES),
        skip("unclosed", MissingName, "there is no second --- line"),
        skip("utf16", Unreadable, "invalid utf-8"),
        skill("vendored", "vendored", Is("Holds what others wrote. Use never."), BOTH, &["lib/index.js"]),
        skill(
            "version-pin",
            "1.0",
            Is("007"),
            &["name", "description", "version", "updated", "stable"],
            NO_FILES,
        ),
        skill("windows-bom", "windows-bom", Is("Saved by an editor that marks its files."), BOTH, NO_FILES),
        skill(
            "windows-notes",
            "windows-notes",
            Is("Notes for people on Windows. Use when paths hold backslashes."),
            &["name", "description", "tags"],
            NO_FILES,
        ),
        skill("yaml-comments", "yaml-comments", Is("Comments are no part of it."), BOTH, NO_FILES),
        skill(
            "会議メモ",
            "会議メモ",
            Is("会議の議事録を作成します。「議事録」「ミーティング」と言われたら使います:箇条書きで。"),
            BOTH,
            &["テンプレート/議事録.md"],
        ),
        skill(
            "suite/format",
            "suite-format",
            Is("Formats. Use when code was changed."),
            BOTH,
            &["advanced/rules.json", "style.toml"],
        ),
        skill("suite/lint", "suite-lint", Is("Lints. Use when code was changed."), BOTH, &["check.sh"]),
        skill(
            "suite/format/advanced",
            "suite-format-advanced",
            Is("Formats what is generated."),
            BOTH,
            &["rules.json"],
        ),
        skill("vendored/.skills/hidden", "hidden", Is("In a hidden folder."), BOTH, NO_FILES),
    ]
}

fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/library")
}

fn location(folder: &str) -> String {
    library().join(folder).join("SKILL.md").display().to_string()
}

// SKILL-4, SKILL-5, SKILL-11 to SKILL-17, SKILL-21, SKILL-25, SKILL-26, SKILL-32
#[test]
fn every_folder_becomes_what_the_table_says() {
    let found = list_skills(&options(&[library()]));
    let source =
        load_skills(&LoadSkillsOptions { path_display: SkillPathDisplay::Logical, ..options(&[library()]) });
    let (mut skills, mut skipped) = (found.skills.iter(), found.skipped.iter());
    for Expected { folder, outcome } in table() {
        match outcome {
            Outcome::Skill { name, description, meta, files } => {
                let skill = skills.next().unwrap_or_else(|| panic!("no skill left for {folder}"));
                assert_eq!(skill.location, location(folder), "{folder}: {:?}", found.skipped);
                assert_eq!(skill.name, name, "{folder}");
                let shown = skill.description.as_deref();
                match description {
                    Description::None => assert_eq!(shown, None, "{folder}"),
                    Is(text) => assert_eq!(shown, Some(text), "{folder}"),
                    Long(start, end, length) => {
                        let shown = shown.unwrap();
                        assert!(shown.starts_with(start) && shown.ends_with(end), "{folder}: {shown}");
                        assert_eq!(shown.chars().count(), length, "{folder}");
                    }
                }
                assert_eq!(skill.meta.keys().collect::<Vec<_>>(), meta, "{folder}");
                let output = source.load(name, Some(100)).output;
                let listed: Vec<&str> = output
                    .lines()
                    .filter_map(|line| line.strip_prefix("<file>")?.strip_suffix("</file>"))
                    .collect();
                assert_eq!(listed, files, "{folder}");
            }
            Outcome::Skip(reason, detail) => {
                let skip = skipped.next().unwrap_or_else(|| panic!("no skip left for {folder}"));
                assert_eq!(
                    (skip.location.as_str(), skip.reason),
                    (location(folder).as_str(), reason),
                    "{folder}"
                );
                let said = skip.detail.as_deref().unwrap();
                assert!(said.contains(detail), "{folder}: {said}");
            }
        }
    }
    assert_eq!((skills.next(), skipped.next()), (None, None), "a folder is missing from the table");
}

// SKILL-6: what others wrote is not looked at, though it is there
#[test]
fn dependencies_are_in_the_library_and_not_among_the_skills() {
    assert!(library().join("vendored/node_modules/left-pad/SKILL.md").is_file());
    assert!(load_skills(&options(&[library()])).get("left-pad").is_none());
}

// SKILL-38: the catalogue holds the described ones, each once, by name
#[test]
fn the_catalogue_has_every_described_skill() {
    let described: BTreeSet<&str> = table()
        .iter()
        .filter_map(|expected| match expected.outcome {
            Outcome::Skill { description: Description::None, .. } | Outcome::Skip(..) => None,
            Outcome::Skill { name, .. } => Some(name),
        })
        .collect();
    let prompt = load_skills(&options(&[library()])).prompt();
    let listed: Vec<&str> =
        prompt.lines().filter_map(|line| Some(line.strip_prefix("- **")?.split_once("**: ")?.0)).collect();
    assert_eq!(listed, described.into_iter().collect::<Vec<_>>());
}

// SKILL-12, SKILL-21: values keep their types and their structure
#[test]
fn meta_keeps_types_and_structure() {
    let source = load_skills(&options(&[library()]));
    let meta = |name: &str| Value::Object(source.get(name).unwrap().meta.clone());
    assert_eq!(
        meta("nested-metadata"),
        json!({
            "name": "nested-metadata",
            "description": "Keeps everything for hosts. Use when a host asks for more than two keys.",
            "license": "Proprietary. LICENSE.txt has the terms",
            "version": "1.0",
            "compatibility": {"os": ["linux", "macos"], "needs": [{"tool": "git", "at-least": 2.4}, {"tool": "jq"}]},
            "metadata": {"author": "Erika Mustermann", "on-call": true, "weight": 0.5, "nothing": null},
            "allowed-tools": "Bash(git:*) Read",
            "hooks": {}
        })
    );
    assert_eq!(
        meta("1.0"),
        json!({"name": 1.0, "description": 7, "version": 1.1, "updated": "2025-01-02", "stable": true})
    );
    assert_eq!(
        meta("brand-voice")["channels"],
        json!({"mail": ["customers", "partners"], "web": ["customers", "partners"]})
    );
    assert_eq!(meta("flow-map")["metadata"], json!({"level": 3, "tags": ["a", "b"]}));
    assert_eq!(meta("crlf-blocks")["notes"], "kept\n\n");
    assert_eq!(meta("spreadsheet-tools")["allowed-tools"], json!(["bash", "read", "write"]));
    assert_eq!(meta("merge-keys")["<<"], json!({"description": "Of a merge, which YAML 1.2 does not know."}));
}

// SKILL-19, SKILL-30: bodies are kept as they are and trimmed when they are shown
#[test]
fn bodies_are_kept_and_shown_trimmed() {
    let source = load_skills(&options(&[library()]));
    let content = |name: &str| source.get(name).unwrap().content.clone();
    assert_eq!(content("frontmatter-only"), "");
    assert_eq!(content("trailing-blanks"), "   \n   Text.   \n   \n");
    assert_eq!(content("tabs-in-values"), "\tIndented with a tab, as code.\n");
    assert_eq!(content("windows-notes"), "# Windows\r\n\r\n`C:\\Users` is a path.\r\n");
    assert_eq!(content("mixed-endings"), "Line.\r\nLine.\n");
    assert_eq!(content("horizontal-rules"), "\n# One\n\n---\n\n# Two\n\n---\nname: not-a-header\n---\n");
    let shown = |name: &str| source.load(name, Some(-1)).output;
    assert!(shown("trailing-blanks").contains("# Skill: trailing-blanks\n\nText.\n\nBase directory"));
    assert!(shown("frontmatter-only").contains("# Skill: frontmatter-only\n\n\n\nBase directory"));
    assert!(
        shown("windows-bom")
            .starts_with("<skill_content name=\"windows-bom\">\n# Skill: windows-bom\n\nBody.\n")
    );
}

// SKILL-33: ten of the thirteen files, the first ones
#[test]
fn a_long_list_is_cut() {
    let output = load_skills(&options(&[library()])).load("many-files", None).output;
    assert_eq!(output.matches("<file>").count(), 10);
    assert!(output.contains("/assets/icons/03.svg</file>\n</skill_files>"), "{output}");
}
