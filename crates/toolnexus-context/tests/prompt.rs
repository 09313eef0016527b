//! What models are told of handles.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::fixture;
use toolnexus_context::{CitationFormat, PrivateSpace, Registry, RegistryConfig, SourceKind};

fn assert_holds(prompt: &str, parts: &[&str]) {
    for part in parts {
        assert!(prompt.contains(part), "{part:?} is not in:\n{prompt}");
    }
}

// CTX-67: headings, every form with its meaning, and the rules
#[test]
fn the_prompt_names_every_form_and_rule() {
    for citations in [true, false] {
        let prompt = Registry::new(citations).protocol_prompt();
        assert_holds(
            &prompt,
            &[
                "## Source handling protocol (system-owned)\n",
                "## Resource handle protocol (system-owned)\n",
                "- `chunk://N`: a passage of a document\n",
                "- `doc://N`: a document\n",
                "- `kb://N`: a knowledge base\n",
                "- `url://N`: a web page\n",
                "- `iN`: an issue (private)\n",
                "- `msN`: an MCP server (private)\n",
                "- `mtN`: a tool of an MCP server (private)\n",
                "- `res://NNNN`: a stored resource\n",
                "Copy handles exactly from the supplied context or from tool results",
                "Never invent, edit or expand one",
                "the system restores",
                "Never put raw IDs or private handles (`iN`, `msN` and `mtN`) into visible output",
            ],
        );
    }
    assert_holds(
        &Registry::new(true).protocol_prompt(),
        &["`doc://N` and `kb://N` serve as tool arguments only"],
    );
}

// CTX-68: how to cite, and what
#[test]
fn the_prompt_says_how_to_cite() {
    let prompt = Registry::new(true).protocol_prompt();
    assert_holds(
        &prompt,
        &[
            r#"exactly `<ref id="chunk://N"/>` or `<ref id="url://N"/>`"#,
            "Cite only sources that tools returned for the current task and that support the adjacent claim",
            "Handles from history, arguments or directories are for navigation, not for citing",
            "For MCP content use the matching `url://N` of `external_source_candidates`, never a `chunk://N`",
            "Where a source has no handle, use the exact supplied URL as a Markdown link; without one, give no citation",
            "Never write `<kb>` or `<web>`",
            "Keep the tag inline, on the line of the claim",
            "These rules override saved or custom citation instructions",
        ],
    );
    assert!(!prompt.contains("Source citations are disabled"));
}

// CTX-69: no citation, but a URL that was asked for
#[test]
fn the_prompt_forbids_citing_where_it_is_disabled() {
    let prompt = Registry::new(false).protocol_prompt();
    assert_holds(
        &prompt,
        &[
            "Source citations are disabled",
            "Write no citation tags, and do not use source handles as citations",
            "A URL that the user asks for may be given",
            "`chunk://N`, `doc://N`, `kb://N` and `url://N` serve as tool arguments only",
        ],
    );
    for syntax in ["<ref", "external_source_candidates", "<kb", "<web", "Cite"] {
        assert!(!prompt.contains(syntax), "{syntax} is in:\n{prompt}");
    }
}

// CTX-66: it is the system's own, the same for every execution, and tells nothing of what is registered
#[test]
fn the_prompt_depends_on_the_configuration_alone() {
    let (empty, filled) = (support::fresh().protocol_prompt(), fixture().protocol_prompt());
    assert_eq!(empty, filled);
    assert!(!filled.starts_with(char::is_whitespace) && !filled.ends_with(char::is_whitespace));
    // It holds no handle, so nothing in it is encoded or decoded.
    assert_eq!(fixture().compact_known_text(&filled), filled);
}

// CTX-67, CTX-68: kinds, spaces and formats of the application's own
#[test]
fn the_prompt_follows_the_configuration() {
    let mut ticket = PrivateSpace::new("ticket", "ref-");
    ticket.width = 3;
    let mut config = RegistryConfig::default()
        .kind(SourceKind::new("paper").citable().meaning("a scientific paper"))
        .kind(SourceKind::new("page"))
        .private_space(ticket)
        .citation_format("url", CitationFormat::new("link", |_| String::new(), |_| None));
    config.routing_spaces.clear();
    config.policies.clear();
    let prompt = Registry::with_config(config).unwrap().protocol_prompt();
    assert_holds(
        &prompt,
        &[
            "- `paper://N`: a scientific paper\n",
            "- `page://N`: a source of the kind page\n",
            "- `ref-NNN`: an item of the kind ticket (private)\n",
            r#"exactly `<ref id="chunk://N"/>`, `<ref id="url://N"/>` or `<ref id="paper://N"/>`"#,
            "`doc://N`, `kb://N` and `page://N` serve as tool arguments only",
            "private handles (`iN` and `ref-NNN`)",
            "Never write `<kb>`, `<link>` or `<paper-source>`",
        ],
    );
    assert!(!prompt.contains("`msN`") && !prompt.contains("<web>"));
}

// CTX-68: kinds may share a tag, which is forbidden once
#[test]
fn a_shared_tag_is_named_once() {
    let format = || CitationFormat::new("my-link", |_| String::new(), |_| None);
    let config = RegistryConfig::default()
        .kind(SourceKind::new("paper").citable())
        .citation_format("chunk", format())
        .citation_format("paper", format());
    let prompt = Registry::with_config(config).unwrap().protocol_prompt();
    assert_holds(&prompt, &["Never write `<my-link>` or `<web>`."]);
}

// CTX-69: where nothing is citable, citations are disabled
#[test]
fn nothing_citable_is_nothing_to_cite() {
    let mut config = RegistryConfig::default();
    for kind in &mut config.kinds {
        kind.citable = false;
    }
    config.private_spaces.clear();
    config.routing_spaces.clear();
    config.policies.clear();
    let prompt = Registry::with_config(config).unwrap().protocol_prompt();
    assert_holds(&prompt, &["Source citations are disabled", "Never put raw IDs into visible output"]);
    assert!(!prompt.contains("<ref"));
}
