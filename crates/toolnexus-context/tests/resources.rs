//! Stored resources in text.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::{R, U, fixture, fresh};
use toolnexus_context::{Registry, RegistryConfig, ResourcePattern};

fn encoded(registry: &Registry, text: &str) -> String {
    let encoded = registry.compact_known_text(text);
    assert_eq!(registry.compact_known_text(&encoded), encoded, "{text:?} again");
    encoded
}

fn with_pattern(pattern: &str) -> Registry {
    Registry::with_config(RegistryConfig::default().resource_pattern(ResourcePattern::Regex(pattern.into())))
        .unwrap()
}

// CTX-23, CTX-25: case 11
#[test]
fn one_resource_has_one_handle() {
    let registry = fresh();
    let text = format!("![a]({R}) and {R}");
    let short = encoded(&registry, &text);
    assert_eq!(short, "![a](res://0001) and res://0001");
    assert_eq!(registry.decode_output_text(&short), text);
}

// CTX-23: each distinct match gets a handle, in the order of the text
#[test]
fn each_resource_has_its_own_handle() {
    let registry = fresh();
    let other = "resource://____------____------AA";
    assert_eq!(encoded(&registry, &format!("{other},{R},{other}")), "res://0001,res://0002,res://0001");
}

// CTX-25: a handle is kept for the registry's life
#[test]
fn a_newer_version_is_another_resource() {
    let registry = fresh();
    let newer = "resource://AbCdEfGhIjKlMnOpQrStU2";
    assert_eq!(encoded(&registry, R), "res://0001");
    assert_eq!(encoded(&registry, newer), "res://0002");
    assert_eq!(encoded(&registry, R), "res://0001");
    assert_eq!(registry.decode_output_text("res://0001 res://0002"), format!("{R} {newer}"));
}

// CTX-23: the default alone knows nothing but `resource://` and 22 characters
#[test]
fn the_default_knows_resources_alone() {
    let registry = Registry::new(true);
    let storage = format!("local://1/a.png minio://b summary/{U} resource://short storage://x/s3://y");
    assert_eq!(encoded(&registry, &storage), storage);
    assert_eq!(encoded(&registry, &format!("x{R}")), "xres://0001");
    assert_eq!(encoded(&registry, "Resource://AbCdEfGhIjKlMnOpQrStUv"), "Resource://AbCdEfGhIjKlMnOpQrStUv");
}

// CTX-23: case 12
#[test]
fn a_reference_with_its_store_is_one_resource() {
    let registry = fresh();
    let text = "![image](storage://c0d93536-702c-4977-aa5e-fe670073c3cb/local://10000/exports/image.png)";
    assert_eq!(encoded(&registry, text), "![image](res://0001)");
}

// CTX-23: the schemes of the legacy stores, and where their references end
#[test]
fn references_of_object_stores_end_at_their_delimiters() {
    for scheme in ["local", "minio", "cos", "tos", "s3", "oss", "ks3", "obs"] {
        let registry = fresh();
        for (number, end) in [" ", "\n", ")", "]", ">", "\"", "'"].iter().enumerate() {
            let text = format!("{scheme}://a/{number}.png{end}rest");
            assert_eq!(encoded(&registry, &text), format!("res://{:04}{end}rest", number + 1));
        }
        assert_eq!(encoded(&registry, &format!("storage://id/{scheme}://b")), "res://0008");
    }
    let registry = fresh();
    assert_eq!(
        encoded(&registry, "gcs://a/b http://a storage://id/http://a"),
        "gcs://a/b http://a storage://id/http://a"
    );
}

// CTX-23: case 13
#[test]
fn readable_slugs_stay() {
    let registry = fresh();
    for text in ["[[entity/some-title|T]]", "summary/some-title", "summary/36283d3d-a495-40d2-a13f"] {
        assert_eq!(encoded(&registry, text), text);
    }
    assert_eq!(encoded(&registry, &format!("[[summary/{U}|T]]")), "[[res://0001|T]]");
}

// CTX-24: a resource that holds a document's id stays whole, whenever the document was registered
#[test]
fn a_handle_is_never_put_into_a_resource() {
    let registry = fresh();
    registry.register_document(U);
    assert_eq!(
        encoded(&registry, &format!("[[summary/{U}|S]] document={U}")),
        "[[res://0001|S]] document=doc://1"
    );
    registry.register_document("exports");
    registry.register_document("10000/exports");
    assert_eq!(encoded(&registry, "local://10000/exports 10000/exports"), "res://0002 doc://3");
}

// CTX-23: several patterns: the leftmost match, and of several at one place the longest
#[test]
fn the_leftmost_then_the_longest_match_wins() {
    let registry = Registry::with_config(
        RegistryConfig::default()
            .resource_pattern(ResourcePattern::Regex("file:[a-z]+".into()))
            .resource_pattern(ResourcePattern::Regex("file:[a-z]+/[a-z]+".into()))
            .resource_pattern(ResourcePattern::Regex("b/file".into())),
    )
    .unwrap();
    assert_eq!(encoded(&registry, "file:ab file:ab/cd"), "res://0001 res://0002");
    assert_eq!(encoded(&registry, "ab/file:ab"), "ares://0003:ab");
    assert_eq!(registry.decode_output_text("res://0002,res://0003"), "file:ab/cd,b/file");
}

// CTX-109: case 84
#[test]
fn a_match_stays_where_its_handle_would_not_come_back() {
    let registry = fresh();
    for (text, expected) in [
        (format!("{R}5"), format!("{R}5")),
        (format!("{R}X"), format!("{R}X")),
        (format!("{R}_ {R}-"), format!("{R}_ {R}-")),
        (format!("{R}."), "res://0001.".to_owned()),
        (format!("{R}é"), "res://0001é".to_owned()),
        (format!("{R}5 {R}"), format!("{R}5 res://0001")),
    ] {
        assert_eq!(encoded(&registry, &text), expected);
    }
}

// CTX-109: for another pattern a digit alone is in the way, and a shorter match may do
#[test]
fn another_pattern_may_go_on_with_a_letter() {
    let registry = fresh();
    let slug = format!("summary/{U}");
    assert_eq!(
        encoded(&registry, &format!("{slug}7 {slug}x {slug}-x")),
        format!("{slug}7 res://0001x res://0001-x")
    );
    assert_eq!(registry.decode_output_text("res://0001x"), format!("{slug}x"));

    let either = Registry::with_config(
        RegistryConfig::default()
            .resource_pattern(ResourcePattern::Regex("file:a/b".into()))
            .resource_pattern(ResourcePattern::Regex("file:a".into())),
    )
    .unwrap();
    assert_eq!(encoded(&either, "file:a/b7 file:a/b"), "res://0001/b7 res://0002");
}

// CTX-109: a match that is no word at its edge is not glued to a word beside it
#[test]
fn a_resource_handle_makes_no_other_handle_unreadable() {
    let registry = with_pattern("<[a-z]+>");
    registry.register_document("doc-real");
    assert_eq!(encoded(&registry, "<image>doc://1"), "<image>doc://1");
    assert_eq!(encoded(&registry, "doc://1<image>"), "doc://1<image>");
    assert_eq!(encoded(&registry, "doc-real<image>doc-real"), "doc://1<image>doc://1");
    assert_eq!(encoded(&registry, "doc-real <image> 见<image>。"), "doc://1 res://0001 见res://0001。");
}

// CTX-23, CTX-32: what is a handle already is no resource, whatever a pattern says
#[test]
fn a_handle_is_no_resource() {
    let registry = with_pattern("[a-z]+://[^ ]+|[0-9]{4}");
    registry.register_document("doc-real");
    for text in ["res://0001", "res://0042, doc://1", "doc://1"] {
        assert_eq!(encoded(&registry, text), text);
    }
    assert_eq!(encoded(&registry, "ftp://a/doc://1 2026"), "res://0001 res://0002");
}

// CTX-23: edges in a pattern take nothing by themselves
#[test]
fn a_pattern_may_have_edges() {
    let registry = with_pattern(r"\b~?x+\b");
    assert_eq!(encoded(&registry, "é xx axx x"), "é res://0001 axx res://0002");
}

// CTX-26: case 14; first appearance first, each once
#[test]
fn orphans_are_listed_in_their_order() {
    let text = "look at res://0099 and res://0099";
    assert_eq!(Registry::new(true).orphan_resource_handles(text), ["res://0099"], "an empty registry");
    let registry = fixture();
    assert_eq!(registry.orphan_resource_handles(text), ["res://0099"]);
    assert_eq!(
        registry.orphan_resource_handles(
            "xres://7y,res://0001 res://00012 res://1 res://7 res:// res://a RES://0009"
        ),
        ["res://7", "res://00012", "res://1"]
    );
    assert!(registry.orphan_resource_handles(&format!("res://0001 {R} doc://9")).is_empty());
    assert!(registry.orphan_resource_handles("").is_empty());
}

// CTX-26: nothing is registered by looking
#[test]
fn looking_for_orphans_registers_nothing() {
    let registry = fresh();
    assert_eq!(registry.orphan_resource_handles("res://0001"), ["res://0001"]);
    assert_eq!(registry.orphan_resource_handles("res://0001"), ["res://0001"]);
    assert_eq!(encoded(&registry, R), "res://0001");
    assert!(registry.orphan_resource_handles("res://0001").is_empty());
}

// CTX-28: the data of attachments is no text; a data URI in a text is not touched
#[test]
fn data_uris_stay() {
    let registry = fresh();
    let text = "![x](data:image/png;base64,iVBORw0KGgoAAAANSUhEUg==)";
    assert_eq!(encoded(&registry, text), text);
}
