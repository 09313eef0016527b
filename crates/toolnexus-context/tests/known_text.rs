//! Known values in text: sources of all kinds together, and issues.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::{R, T, U, fixture, fresh};
use toolnexus_context::{Evidence, PrivateSpace, Registry, RegistryConfig, SourceKind, SourceRef};

fn assert_compacts(registry: &Registry, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let compacted = registry.compact_known_text(text);
        assert_eq!(compacted, *expected, "{text:?}");
        assert_eq!(registry.compact_known_text(&compacted), compacted, "{text:?} again");
    }
}

// CTX-38: sources of all kinds in one pass
#[test]
fn known_sources_of_all_kinds_become_handles() {
    assert_compacts(
        &fixture(),
        &[
            (
                "doc-real in kb-real, piece chunk-real, at https://example.com/page",
                "doc://1 in kb://1, piece chunk://1, at url://1",
            ),
            (
                "(doc-real)[doc-real] \"doc-real\", 见doc-real。",
                "(doc://1)[doc://1] \"doc://1\", 见doc://1。",
            ),
            ("", ""),
            ("nothing known", "nothing known"),
        ],
    );
}

// CTX-38: no identity is ever made up from text, and issue ids are not included
#[test]
fn nothing_is_registered_by_compacting() {
    let registry = fixture();
    let text = format!("doc-unknown {U} https://example.com/other issue-uuid toolnexus://doc/doc-new {T}");
    assert_eq!(registry.compact_known_text(&text), text);
    assert_eq!(registry.register_document("doc-other").as_deref(), Some("doc://2"));
    assert_eq!(registry.register_url("https://example.com/2", "").as_deref(), Some("url://2"));
}

// CTX-38: case 15, whichever was registered first
#[test]
fn the_longest_value_wins_over_all_kinds() {
    let url = format!("https://a.io/d/{U}");
    let text = format!("see {url} and {U}");
    let first_document = fresh();
    first_document.register_document(U);
    first_document.register_url(&url, "");
    assert_compacts(&first_document, &[(&text, "see url://1 and doc://1")]);
    let first_url = fresh();
    first_url.register_url(&url, "");
    first_url.register_document(U);
    assert_compacts(&first_url, &[(&text, "see url://1 and doc://1")]);
}

// CTX-38: the longest value wins globally, equal lengths from the left
#[test]
fn of_equal_lengths_the_leftmost_wins() {
    let registry = fresh();
    registry.register_document("aa/bb/cc");
    registry.register_document("cc/dd/ee");
    registry.register_document("ee/ff/gg/hh");
    assert_compacts(
        &registry,
        &[
            ("aa/bb/cc/dd/ee", "doc://1/dd/ee"),
            ("aa/bb/cc/dd/ee/ff/gg/hh", "doc://1/dd/doc://3"),
            ("cc/dd/ee/ff/gg/hh", "cc/dd/doc://3"),
        ],
    );
}

// CTX-38: a value that must stay gives way to a shorter one
#[test]
fn where_a_longer_value_must_stay_a_shorter_one_is_replaced() {
    let registry = fresh();
    registry.register_document("team/plan");
    registry.register_document("team/plan/2026");
    registry.register_knowledge_base("plan/2026/q1/all");
    assert_compacts(
        &registry,
        &[
            ("team/plan/2026 team/plan/2026x", "doc://2 doc://1/2026x"),
            ("team/plan/2026/q1/all", "team/kb://1"),
        ],
    );
}

// CTX-38: of two sources with one id the one that was registered first
#[test]
fn one_id_of_two_kinds_is_shown_as_the_first() {
    let registry = fresh();
    registry.register_knowledge_base("shared-id");
    registry.register_document("shared-id");
    assert_compacts(&registry, &[("shared-id", "kb://1")]);
}

// CTX-38: case 16
#[test]
fn a_longer_id_is_not_the_known_one() {
    let registry = fresh();
    registry.register_context_chunk(SourceRef::new("chunk-1"));
    assert_compacts(&registry, &[("chunk-10 chunk-1", "chunk-10 chunk://1")]);
}

// CTX-38: case 83
#[test]
fn edges_of_handles_are_respected() {
    assert_compacts(
        &fixture(),
        &[
            (
                "xdoc-real doc-real5 doc-real-2 doc-real.5 doc-real.",
                "xdoc-real doc-real5 doc-real-2 doc-real.5 doc://1.",
            ),
            ("_doc-real doc-real_ édoc-realé", "_doc-real doc-real_ édoc://1é"),
            ("doc-real.x doc-real. 5 doc-real.é", "doc://1.x doc://1. 5 doc://1.é"),
        ],
    );
}

// CTX-38: case 82
#[test]
fn a_homepage_does_not_swallow_its_pages() {
    let registry = fresh();
    registry.register_url("https://a.io/", "");
    assert_compacts(
        &registry,
        &[("https://a.io/page https://a.io/ (https://a.io/)", "https://a.io/page url://1 (url://1)")],
    );
}

// CTX-38: the value is a URL and the text goes on with it
#[test]
fn another_page_does_not_get_the_handle() {
    let registry = fresh();
    registry.register_url("https://a.io/p", "");
    for goes_on in ["/", "/q", "?", "?q=1", "#", "#top", "&x=1", "=", "%20", "+x", "~x", "@x", "-2", "-"] {
        let text = format!("https://a.io/p{goes_on}");
        assert_compacts(&registry, &[(&text, &text)]);
    }
    for goes_on in [".html", ".7z", ".X", ":80", ":a", ":Z"] {
        let text = format!("https://a.io/p{goes_on}");
        assert_compacts(&registry, &[(&text, &text)]);
    }
    for ends in [
        "", " ", ".", ". Next", ":", ": yes", ".)", ".é", ",", ";", "!", ")", "]", ">", "\"", "'", "|", "*",
        "。",
    ] {
        assert_compacts(&registry, &[(&format!("https://a.io/p{ends}"), &format!("url://1{ends}"))]);
    }
}

// CTX-38: the same where a URL is the id of a document
#[test]
fn a_document_may_be_known_by_its_url() {
    let registry = fresh();
    registry.register_document("https://wiki.io/home");
    registry.register_document("wiki/home");
    assert_compacts(
        &registry,
        &[
            ("https://wiki.io/home https://wiki.io/home?v=2", "doc://1 https://wiki.io/home?v=2"),
            ("wiki/home wiki/home?v=2", "doc://2 doc://2?v=2"),
        ],
    );
}

// CTX-38: a neighbour `-` makes a slug longer, but not a UUID
#[test]
fn a_piece_of_a_slug_is_not_the_slug() {
    let registry = fixture();
    registry.register_document(U);
    registry.register_url("https://b.io/", "");
    let upper = "36283D3D-A495-40D2-A13F-E925FC322997";
    registry.register_document(upper);
    let near = "36283d3d-a495-40d2-a13f-e925fc32299g";
    registry.register_document(near);
    let text = format!("a-{U}-b - {U} -{upper}");
    assert_compacts(
        &registry,
        &[
            ("my-doc-real -doc-real doc-real- - doc-real -", "my-doc-real -doc-real doc-real- - doc://1 -"),
            (&text, "a-doc://2-b - doc://2 -doc://3"),
            (&format!("a-{near} {near}"), &format!("a-{near} doc://4")),
        ],
    );
}

// CTX-38: short values, numbers and ordinary words stay in text
#[test]
fn values_that_are_words_or_numbers_stay() {
    let registry = fresh();
    for id in ["ab-12", "1234567890", "introduction", "ab-123", "intro2", "12-345", "größe"] {
        assert!(registry.register_document(id).is_some(), "{id}");
    }
    assert_compacts(
        &registry,
        &[
            ("ab-12 1234567890 introduction", "ab-12 1234567890 introduction"),
            ("ab-123 intro2 12-345 größe", "doc://4 doc://5 doc://6 doc://7"),
        ],
    );
    assert_eq!(registry.register_document("ab-12").as_deref(), Some("doc://1"), "as a field it is known");
    assert_eq!(registry.register_document("introduction").as_deref(), Some("doc://3"));
}

// CTX-38: `min_text_len` is configuration
#[test]
fn how_short_is_too_short_can_be_set() {
    let mut config = RegistryConfig::default();
    config.min_text_len = 2;
    let registry = Registry::with_config(config).unwrap();
    registry.register_document("a1");
    registry.register_document("b");
    assert_compacts(&registry, &[("a1 b", "doc://1 b")]);
}

// CTX-38: existing handles are skipped, of any kind, known or not
#[test]
fn existing_handles_stay() {
    let registry = fresh();
    registry.register_url("https://a.io/doc://1", "");
    registry.register_document("0001/page");
    registry.register_document("doc-one");
    assert_compacts(
        &registry,
        &[
            ("doc://1 DOC://9 doc://1/x res://0001/page", "doc://1 DOC://9 doc://1/x res://0001/page"),
            ("https://a.io/doc://1", "https://a.io/doc://1"),
            // An inserted handle is no piece of a longer value.
            ("https://a.io/doc-one", "https://a.io/doc://2"),
            ("0001/page", "doc://1"),
        ],
    );
}

// CTX-38: what looks like a handle before a fraction is none, and does not become one
#[test]
fn an_address_does_not_become_a_handle() {
    let registry = fresh();
    registry.register_document("1st-page");
    registry.register_document("doc-one");
    assert_compacts(
        &registry,
        &[
            ("doc://2.1st-page", "doc://2.1st-page"),
            ("chunk://127.0.0.1:4242/ 1st-page", "chunk://127.0.0.1:4242/ doc://1"),
            ("doc://2.doc-one doc://2.x", "doc://2.doc://2 doc://2.x"),
        ],
    );
}

// CTX-38: durable URIs are skipped
#[test]
fn durable_uris_stay() {
    let registry = fixture();
    registry.register_document("doc/doc-real");
    registry.register_url("https://a.io/?from=toolnexus://doc/doc-real", "");
    registry.register_url("toolnexus://elsewhere/page", "");
    assert_compacts(
        &registry,
        &[
            ("toolnexus://doc/doc-real, doc-real", "toolnexus://doc/doc-real, doc://1"),
            ("toolnexus://doc/a/doc-real?x=kb-real", "toolnexus://doc/a/doc-real?x=kb-real"),
            ("x=toolnexus://doc/doc-real", "x=toolnexus://doc/doc-real"),
            ("toolnexus://elsewhere/page", "toolnexus://elsewhere/page"),
            // But a page's URL that holds one is that page.
            ("https://a.io/?from=toolnexus://doc/doc-real", "url://2"),
            // Within a word it is no URI.
            ("xtoolnexus://a/doc-real", "xtoolnexus://a/doc://1"),
        ],
    );
}

// CTX-38: replaced values neither overlap nor touch
#[test]
fn handles_do_not_touch() {
    let registry = fresh();
    registry.register_document("/aa/bb/");
    registry.register_document("/cc/dd");
    assert_compacts(&registry, &[("/aa/bb//cc/dd", "doc://1/cc/dd"), ("/aa/bb/ /cc/dd", "doc://1 doc://2")]);
}

// CTX-38: the pass is repeated until nothing changes: an id whose handle stood before a fraction
#[test]
fn the_pass_is_repeated_until_nothing_changes() {
    let registry = fixture();
    registry.register_document(U);
    registry.register_document("x.y/z");
    let chain = format!("doc-real.{U}.{U}.{U}, x.y/z.{U} kb-real.{U}x");
    assert_compacts(
        &registry,
        &[(&chain, &format!("doc://1.doc://2.doc://2.doc://2, x.y/z.doc://2 kb-real.{U}x"))],
    );
}

// CTX-24, CTX-38: resources first, even those that hold a known id
#[test]
fn resources_go_before_known_values() {
    let registry = fixture();
    registry.register_document(U);
    let text = format!("[[summary/{U}|S]] document={U} {R}");
    assert_compacts(&registry, &[(&text, "[[res://0002|S]] document=doc://2 res://0001")]);
}

// CTX-38: kinds of the application's own
#[test]
fn kinds_of_the_application_are_compacted_too() {
    let config = RegistryConfig::default().uri_scheme("weknora").kind(SourceKind::new("note"));
    let registry = Registry::with_config(config).unwrap();
    registry.register("note", SourceRef::new("note-real"), Evidence::NavigationOnly);
    assert_compacts(
        &registry,
        &[
            ("note-real weknora://note/note-real", "note://1 weknora://note/note-real"),
            ("toolnexus://note/note-real note://5", "toolnexus://note/note://1 note://5"),
        ],
    );
}

// CTX-39: registered issue ids by the rule of CTX-12
#[test]
fn issue_ids_become_handles_where_it_is_asked_for() {
    let registry = fixture();
    registry.register_issue("issue-uuid-2");
    registry.register_issue("7");
    for (text, expected) in [
        ("issue-uuid-2, issue-uuid", "i2, i1"),
        // Plain substrings, at the edges that a handle needs.
        ("my-issue-uuid issue-uuid2 xissue-uuid", "my-i1 issue-uuid2 xissue-uuid"),
        ("7 and 77 见7。", "i3 and 77 见i3。"),
        ("issue-uuid.5 (issue-uuid)", "i1.5 (i1)"),
        // Sources are none of its business.
        ("doc-real issue-other", "doc-real issue-other"),
    ] {
        let encoded = registry.encode_known_issues(text);
        assert_eq!(encoded, expected, "{text:?}");
        assert_eq!(registry.encode_known_issues(&encoded), encoded, "{text:?} again");
    }
    assert_eq!(registry.compact_known_text("issue-uuid"), "issue-uuid", "compaction leaves issues");
}

// CTX-39: what is a handle or a durable URI already stays: the id in it is not the issue's
#[test]
fn issue_ids_in_handles_and_uris_stay() {
    let registry = fixture();
    registry.register_issue("1");
    registry.register_issue("5th");
    for text in ["doc://1 res://1 i1", "toolnexus://doc/issue-uuid", "doc://9.5th"] {
        assert_eq!(registry.encode_known_issues(text), text);
    }
    assert_eq!(registry.encode_known_issues("1"), "i2");
}

// CTX-39: inserted handles are not rescanned, in a later call neither
#[test]
fn inserted_private_handles_stay() {
    let mut config = RegistryConfig::default();
    config.private_spaces = vec![PrivateSpace::new("issue", "a-")];
    let registry = Registry::with_config(config).unwrap();
    for id in ["one", "1", "a"] {
        registry.register_issue(id);
    }
    let encoded = registry.encode_known_issues("one 1 a");
    assert_eq!(encoded, "a-1 a-2 a-3");
    assert_eq!(registry.encode_known_issues(&encoded), encoded);
}

// CTX-39: without a space of that name there is nothing to encode
#[test]
fn without_issues_text_stays() {
    let mut config = RegistryConfig::default();
    config.private_spaces.clear();
    config.policies.clear();
    let registry = Registry::with_config(config).unwrap();
    assert_eq!(registry.encode_known_issues("issue-uuid"), "issue-uuid");
}
