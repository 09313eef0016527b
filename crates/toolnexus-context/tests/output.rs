//! A model's text as people see it, in one piece.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::time::{Duration, Instant};

use serde_json::json;
use support::{KB, R, S, T, chunk, config, fixture, fixture_without_citations, fresh};
use toolnexus_context::{
    CitationFormat, Evidence, PrivateSpace, Registry, RegistryConfig, SourceKind, SourceRef, TextForm,
};

fn same(registry: &Registry, text: &str) {
    assert_eq!(registry.decode_output_text(text), text);
}

fn becomes(registry: &Registry, text: &str, expected: &str) {
    assert_eq!(registry.decode_output_text(text), expected, "{text}");
}

fn with_longest_tag(bytes: usize) -> Registry {
    let mut config = config();
    config.max_tag_len = bytes;
    Registry::with_config(config).unwrap()
}

// CTX-53, case 34
#[test]
fn a_citation_of_what_was_retrieved_expands() {
    becomes(&fixture(), r#"claim <ref id="chunk://1"/>"#, &format!("claim {KB}"));
    let web = r#"<web url="https://example.com/page" title="Example" />"#;
    becomes(&fixture(), r#"<ref id="url://1"/>"#, web);
}

// CTX-53, cases 35, 79
#[test]
fn every_other_citation_disappears() {
    let registry = fixture();
    for tag in [
        r#"<ref id="chunk://999"/>"#,
        r#"<ref id="doc://1"/>"#,
        r#"<ref id="kb://1"/>"#,
        r#"<ref id='chunk://1'/>"#,
        r#"<ref id="chunk://1" title="x"/>"#,
        r#"<ref title="x" id="chunk://1"/>"#,
        r#"<ref id="chunk://01"/>"#,
        r#"<ref id="chunk-real"/>"#,
        r#"<ref id="i1"/>"#,
        r#"<ref id="res://0001"/>"#,
        r#"<ref id=""/>"#,
        "<ref id=chunk://1/>",
        "<ref>",
        "<ref/>",
        "</ref>",
    ] {
        becomes(&registry, &format!("x {tag} y"), "x  y");
    }
    becomes(&registry, r#"x <ref id="chunk://1""#, "x ");
    becomes(&registry, "<ref> <ref/> <reference>", "  <reference>");
}

// CTX-53, CTX-20, case 79
#[test]
fn a_citation_may_be_spelled_in_other_ways() {
    let registry = fixture();
    for tag in [
        r#"<REF  ID = "chunk://1" >"#,
        r#"<ref id="c1"/>"#,
        r#"<ref id="C1">"#,
        "<ref\nid\t=\r\"CHUNK://1\"\x0c/>",
    ] {
        becomes(&registry, tag, KB);
    }
    becomes(&registry, r#"<ref id="d1"/><ref id="c9"/><ref id="c01"/>"#, "");
}

// CTX-20: elsewhere the old forms are prose, and without old forms they name nothing
#[test]
fn old_handles_are_read_in_citations_alone() {
    same(&fixture(), "c1 d1 b1 w1 C1 (d1) <x id=\"c1\">");
    let registry = Registry::with_config(config().legacy_handles(false)).unwrap();
    registry.register_chunk(chunk("chunk-real"));
    becomes(&registry, r#"<ref id="c1"/>|<ref id="chunk://1"/>"#, &format!("|{KB}"));
}

// CTX-54, cases 36, 79
#[test]
fn tags_that_the_model_writes_itself_are_dropped() {
    let registry = fixture();
    for tag in [
        r#"<kb doc="f" chunk_id="f" />"#,
        r#"<KB doc="f" chunk_id="f"/>"#,
        r#"<web url="https://f" />"#,
        "<Web\nurl='x'>",
        "<kb>",
        "<kb/>",
        "</kb>",
        "</KB >",
        "</web>",
        "</ref>",
        "</ref\tx>",
        "<kb <kb <web>",
    ] {
        becomes(&registry, &format!("x {tag} y"), "x  y");
    }
    becomes(&registry, "a</kb>b", "ab");
    for ordinary in
        ["press <kbd>F</kbd>", "<website>", "<reference>", "</refs>", "< kb>", "<kb-x>", "a<b", "<"]
    {
        same(&registry, ordinary);
    }
}

// CTX-54, CTX-58, case 90
#[test]
fn a_tag_that_does_not_end_is_no_tag() {
    let registry = fixture();
    let long = "x".repeat(2100);
    same(&registry, &format!("a <ref {long} z"));
    // A public tag that long would be taken for a citation all the same.
    becomes(&registry, &format!("a <kb {long} z"), &format!("a <_kb {long} z"));
    becomes(&registry, &format!("a <ref {}", "x".repeat(100)), "a ");
    // The `>` is the last byte that counts, and the first that does not.
    let tag = |length: usize| format!("<ref {}>", "x".repeat(length - 6));
    assert_eq!(tag(2048).len(), 2048);
    becomes(&registry, &format!("a {} z", tag(2048)), "a  z");
    same(&registry, &format!("a {} z", tag(2049)));
    // So it is at the end.
    becomes(&registry, &format!("a <ref {}", "x".repeat(2042)), "a ");
    same(&registry, &format!("a <ref {}", "x".repeat(2043)));
    // What stands in such text is decoded.
    becomes(&registry, &format!("<ref {long} i1 <kb> doc://9"), &format!("<ref {long} issue-uuid  "));
}

// CTX-54: the limit is a setting
#[test]
fn the_longest_tag_is_configured() {
    let registry = with_longest_tag(8);
    becomes(&registry, "<ref 67>|<ref 678>|<kb", "|<ref 678>|");
    let registry = with_longest_tag(3);
    becomes(&registry, "<kb> <ref/> <kb", "<_kb> <ref/> <_kb");
}

// CTX-55, case 37
#[test]
fn without_citations_every_tag_is_dropped() {
    let registry = fixture_without_citations();
    becomes(&registry, r#"k <ref id="chunk://1"/> w <ref id="url://1"/>"#, "k  w ");
    becomes(&registry, "a <kb doc=\"x\"/></kb><web></web></ref> b", "a  b");
    becomes(
        &registry,
        "chunk://1 doc://1 kb://1 url://1 i1 res://0001",
        &format!(
            "toolnexus://doc/doc-real toolnexus://doc/doc-real toolnexus://kb/kb-real \
             https://example.com/page issue-uuid {R}"
        ),
    );
}

// CTX-52, case 38
#[test]
fn bare_handles_become_what_they_stand_for() {
    becomes(
        &fixture(),
        "see doc://1, [p](url://1), chunk://1, kb://9.",
        &format!("see toolnexus://doc/doc-real, [p](https://example.com/page), {KB}, ."),
    );
    becomes(&fixture(), "url://1 kb://1", "https://example.com/page toolnexus://kb/kb-real");
}

// CTX-52, cases 80, 89
#[test]
fn in_a_link_or_an_attribute_stands_an_address() {
    let registry = fixture();
    becomes(&registry, "[x](chunk://1)", "[x](toolnexus://doc/doc-real)");
    becomes(
        &registry,
        r#"<a href="chunk://1">x</a> "chunk://1""#,
        &format!(r#"<a href="toolnexus://doc/doc-real">x</a> "{KB}""#),
    );
    becomes(&registry, "<a href='chunk://1'>", "<a href='toolnexus://doc/doc-real'>");
    becomes(&registry, "(chunk://1) 'chunk://1'", &format!("({KB}) '{KB}'"));
    // Nothing is in the way of the edge but the two characters themselves.
    becomes(&registry, "] (chunk://1)", &format!("] ({KB})"));
}

// CTX-52, case 33 as far as text goes
#[test]
fn in_a_path_or_a_query_stands_the_bare_id() {
    let registry = fixture();
    becomes(&registry, "https://a.io/d/doc://1?x=1", "https://a.io/d/doc-real?x=1");
    becomes(&registry, "k=chunk://1&u=url://1", "k=chunk-real&u=https://example.com/page");
    becomes(&registry, "a/doc://9/b", "a//b");
}

// CTX-52, case 39
#[test]
fn a_piece_that_was_only_named_is_its_document() {
    let registry = fixture();
    assert_eq!(registry.register_context_chunk(chunk("chunk-2")).as_deref(), Some("chunk://2"));
    becomes(&registry, "chunk://2", "toolnexus://doc/doc-real");
    becomes(&registry, r#"<ref id="chunk://2"/>"#, "");
    registry.register_context_chunk(SourceRef::new("chunk 3."));
    becomes(&registry, "chunk://3", "toolnexus://chunk/chunk%203%2E");
}

// CTX-52, CTX-19, case 80
#[test]
fn unknown_handles_are_removed() {
    let registry = fixture();
    becomes(&registry, "doc://007 x", " x");
    becomes(&registry, "a doc://0, kb://2; chunk://18446744073709551616.", "a , ; .");
    becomes(&registry, "DOC://9 Kb://9", " ");
}

// CTX-18: the edges of a source handle
#[test]
fn text_that_fails_an_edge_is_ordinary() {
    let registry = fixture();
    for text in [
        "xdoc://1",
        "_doc://1",
        "1doc://1",
        "doc://1x",
        "doc://1_",
        "doc://1.5",
        "c --uri chunk://127.0.0.1:4242/",
        "doc://x",
        "doc:/1",
        "doc//1",
        "doc:// 1",
        "doc://é",
        "toolnexus://doc/doc-new",
    ] {
        same(&registry, text);
    }
    becomes(&registry, "见DOC://1。", "见toolnexus://doc/doc-real。");
    becomes(&registry, "-doc://1-", "-toolnexus://doc/doc-real-");
    becomes(&registry, "doc://1. doc://1..", "toolnexus://doc/doc-real. toolnexus://doc/doc-real..");
    becomes(&registry, "doc://1.x doc://1:5", "toolnexus://doc/doc-real.x toolnexus://doc/doc-real:5");
}

// CTX-18, CTX-57: a number that nobody waits for is removed whatever follows
#[test]
fn an_endless_number_is_removed() {
    let registry = fixture();
    let digits = "1".repeat(5000);
    becomes(&registry, &format!("a doc://{digits}. b"), "a . b");
    becomes(&registry, &format!("a doc://{digits}z b"), "a z b");
    becomes(&registry, &format!("a res://{digits}z b"), "a z b");
    same(&registry, &format!("a i{digits} b"));
    // As long as somebody waits for the edge, it counts.
    let digits = "1".repeat(64);
    becomes(&registry, &format!("a doc://{digits}. b"), "a . b");
    same(&registry, &format!("a doc://{digits}z b"));
}

// CTX-25: exact, lower-case, no edges
#[test]
fn a_resource_handle_needs_no_edge() {
    let registry = fixture();
    becomes(&registry, "![a](res://0001) and res://0001", &format!("![a]({R}) and {R}"));
    becomes(&registry, "xres://0001y _res://0001_", &format!("x{R}y _{R}_"));
    same(&registry, "RES://0001 Res://0001 res://x res:/0001");
    becomes(&registry, "res://00001 res://1 res://001", "  ");
}

// CTX-25: a newer version of a file does not take the older one's handle
#[test]
fn a_resource_keeps_its_handle() {
    let registry = fixture();
    let newer = "resource://AbCdEfGhIjKlMnOpQrStUw";
    assert_eq!(registry.compact_known_text(newer), "res://0002");
    assert_eq!(registry.compact_known_text(R), "res://0001");
    becomes(&registry, "res://0001 res://0002", &format!("{R} {newer}"));
}

// CTX-27
#[test]
fn unknown_resource_handles_are_removed_from_output() {
    becomes(&fixture(), "look at res://0099 and (res://0100)!", "look at  and ()!");
    becomes(&Registry::new(true), "res://0001", "");
}

// CTX-52, case 80
#[test]
fn known_private_handles_are_restored_at_edges() {
    let registry = fixture();
    becomes(
        &registry,
        "i1 (i1) 见i1。 -i1- a/i1.x",
        "issue-uuid (issue-uuid) 见issue-uuid。 -issue-uuid- a/issue-uuid.x",
    );
    same(&registry, "im i i9 I1 xi1 i1x i_1 i12 i01 i1_ _i1 1i1 ms9 mt1");
}

// CTX-52, CTX-50, case 74
#[test]
fn known_routing_handles_are_restored() {
    let registry = fixture();
    route(&registry);
    becomes(&registry, "Use ms1 with mt1, not ms2.", &format!("Use {S} with {T}, not ms2."));
}

/// `ms1` and `mt1`.
fn route(registry: &Registry) {
    let tool = |name: &str, key: &str, id: &str| {
        json!({"type": "function", "function": {"name": name, "parameters":
            {"type": "object", "properties": {key: {"type": "string", "enum": [id]}}}}})
    };
    let tools = [tool("discover_mcp_tools", "server_id", S), tool("call_mcp_tool", "tool_ref", T)];
    let shown = serde_json::to_string(&registry.encode_tools(&tools)).unwrap();
    assert!(shown.contains(r#"["ms1"]"#) && shown.contains(r#"["mt1"]"#), "{shown}");
}

// CTX-50, case 76: what was inserted is not looked at again
#[test]
fn restored_text_is_opaque() {
    let registry = fixture();
    let path = "local://10000/i1/x.png";
    assert_eq!(registry.compact_known_text(path), "res://0002");
    becomes(&registry, "see res://0002", &format!("see {path}"));
    registry.register_chunk(SourceRef { title: "doc://1 i1 <kb> res://0001".into(), ..chunk("c-2") });
    becomes(
        &registry,
        r#"<ref id="chunk://2"/>"#,
        r#"<kb doc="doc://1 i1 &lt;kb&gt; res://0001" chunk_id="c-2" kb_id="kb-real" />"#,
    );
    registry.register_url("https://a.io/doc://1?i=i1", "");
    becomes(&registry, "url://2", "https://a.io/doc://1?i=i1");
}

// CTX-50, CTX-57: edges are those of the model's own text, not of what was inserted
#[test]
fn inserted_text_makes_no_edge() {
    let registry = fixture();
    becomes(&registry, "res://0001doc://1", &format!("{R}doc://1"));
    becomes(&registry, "res://0099i1", "_i1");
    becomes(&registry, "<kb>i1", "issue-uuid");
    becomes(&registry, "x<kb>doc://1", "xtoolnexus://doc/doc-real");
    becomes(&registry, "](<kb>chunk://1", &format!("]({KB}"));
}

// CTX-58, cases 75, 88
#[test]
fn what_stands_unfinished_at_the_end() {
    let registry = fixture();
    for text in [
        "Voici les critères:",
        "here is the url:",
        "a <",
        "a <r",
        "a <re",
        "a </k",
        "end r",
        "end re",
        "end res",
        "end res:",
        "end d",
        "end doc",
        "end DOC:",
        "xdoc:/",
        "xdoc://",
        "end ms",
        "end i",
    ] {
        same(&registry, text);
    }
    for (text, expected) in [
        ("end res:/", "end "),
        ("end res://", "end "),
        ("endres://", "end"),
        ("end <kb do", "end "),
        ("end <ref", "end "),
        ("end </web", "end "),
        ("end doc:/", "end "),
        ("end Chunk://", "end "),
        ("见url://", "见"),
        ("end doc://1", "end toolnexus://doc/doc-real"),
        ("end doc://1.", "end toolnexus://doc/doc-real."),
        ("end res://0001", &format!("end {R}")),
        ("end i1", "end issue-uuid"),
    ] {
        becomes(&registry, text, expected);
    }
    // Only at the very end.
    same(&registry, "res:/ res:// doc:/ doc:// ");
}

// CTX-1: no handle of this registry is left
#[test]
fn no_handle_is_left_in_public_text() {
    let text =
        "kb://1 doc://2,chunk://1;url://9 res://0001res://0007 i1 <ref id=\"url://1\"/> [x](chunk://1)";
    let decoded = fixture().decode_output_text(text);
    for scheme in ["kb://", "doc://", "chunk://", "url://", "res://"] {
        assert!(!decoded.contains(scheme), "{decoded}");
    }
}

// CTX-2
#[test]
fn a_handle_means_nothing_in_another_registry() {
    let text = "doc://1|chunk://1|url://1|kb://1|res://0001|i1|<ref id=\"chunk://1\"/>";
    becomes(&fresh(), text, "|||||i1|");
    let other = fresh();
    other.register_document("other");
    becomes(&other, "doc://1", "toolnexus://doc/other");
    becomes(&fixture(), "doc://1", "toolnexus://doc/doc-real");
}

// CTX-52, CTX-53, CTX-54: kinds, spaces and formats of the application's
#[test]
fn kinds_of_the_application_are_treated_alike() {
    let format = CitationFormat::new("wiki", |source| format!("[[{}]]", source.id), |_| None);
    let mut config = RegistryConfig::default()
        .uri_scheme("weknora")
        .kind(SourceKind::new("wiki").citable())
        .kind(SourceKind::new("docs").legacy('x'))
        .kind(SourceKind::new("rfc"))
        .kind(SourceKind::new("feed").text_form(TextForm::Value))
        .citation_format("wiki", format);
    let mut space = PrivateSpace::new("issue", "is-");
    (space.width, space.start) = (3, 0);
    config.private_spaces = vec![space];
    let registry = Registry::with_config(config).unwrap();
    for kind in ["wiki", "docs", "doc", "feed"] {
        registry.register(kind, SourceRef::new(format!("{kind}/1")), Evidence::Current).unwrap();
    }
    assert_eq!(registry.register_issue("issue-uuid").as_deref(), Some("is-000"));
    becomes(
        &registry,
        "wiki://1 docs://1 doc://1 feed://1",
        "[[wiki/1]] weknora://docs/docs%2F1 weknora://doc/doc%2F1 feed/1",
    );
    becomes(&registry, "](wiki://1", "](weknora://wiki/wiki%2F1");
    becomes(
        &registry,
        r#"<ref id="wiki://1"/><wiki></WIKI><ref id="docs://1"/><ref id="x1"/>"#,
        "[[wiki/1]]",
    );
    becomes(&registry, "is-000 is-0 is-001 xis-000 (is-000)", "issue-uuid is-0 is-001 xis-000 (issue-uuid)");
    becomes(&registry, "see docs:/", "see ");
    // `r` may begin a resource handle within a word, but nothing else.
    becomes(&registry, "rfc://9 xrfc://9 xrfc:/", " xrfc://9 xrfc:/");
    // The URL of a citable kind is not a citation where it stands bare.
    registry.register_url("https://a.io/", "A");
    becomes(&registry, "url://1", "https://a.io/");
}

// CTX-70, CTX-50: formats are code of the application's, which may use the registry
#[test]
fn a_format_may_use_the_registry() {
    use std::sync::{Arc, OnceLock, mpsc};
    let slot: Arc<OnceLock<Registry>> = Arc::default();
    let seen = Arc::clone(&slot);
    let format = CitationFormat::new(
        "kb",
        move |source| {
            let handle = seen.get().and_then(|registry| registry.register_document(&source.document_id));
            format!("({})", handle.unwrap_or_default())
        },
        |_| None,
    );
    let config = support::config().citation_format("chunk", format);
    let registry = Registry::with_config(config).unwrap();
    registry.register_chunk(chunk("chunk-real"));
    slot.set(registry.clone()).ok();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(registry.decode_output_text(r#"<ref id="chunk://1"/>"#)));
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap(), "(doc://1)");
}

// CTX-57: linear in the text. This takes a moment; were any of it searched anew from each place, it would
// take minutes
#[test]
fn hostile_text_takes_linear_time() {
    let decode = |registry: &Registry, text: String| {
        let begin = Instant::now();
        registry.decode_output_text(&text);
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", &text[..20]);
    };
    // The end of a tag is looked for far away, and is not there.
    decode(&with_longest_tag(1_000_000), "<ref ".repeat(400_000));
    let registry = fixture();
    for part in ["<", "<ref ", "<kb \"", "r", "res://", "doc://", "doc://1.", "doc://1.2", "i1", "i1 ", "]("]
    {
        decode(&registry, part.repeat(400_000 / part.len()));
    }
    for start in ["doc://", "res://", "i"] {
        decode(&registry, start.to_owned() + &"1".repeat(400_000));
    }
}
