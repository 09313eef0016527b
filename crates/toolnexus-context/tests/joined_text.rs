//! What is left of a text when something in it was dropped must not be a tag or a handle.

use proptest::prelude::*;
use toolnexus_context::Registry;

fn registry() -> Registry {
    let registry = Registry::new(true);
    registry.register_document("doc-real");
    registry.register_issue("issue-uuid");
    registry
}

fn by_character(registry: &Registry, text: &str) -> String {
    let mut decoder = registry.stream_decoder();
    let mut out: String = text.chars().map(|c| decoder.feed(c.encode_utf8(&mut [0; 4]))).collect();
    out.push_str(&decoder.flush());
    out
}

// CTX-54: public tags are created only from registered handles
#[test]
fn no_tag_comes_of_what_is_left() {
    let registry = registry();
    let long = "x".repeat(2100);
    for (text, expected) in [
        (r#"<k<kb/>b chunk_id="f"/>"#, r#"<k_b chunk_id="f"/>"#),
        (r#"<<kb/>kb chunk_id="f"/>"#, r#"<_kb chunk_id="f"/>"#),
        (r#"<kbres://99 chunk_id="f"/>"#, r#"<kb_ chunk_id="f"/>"#),
        (r#"<W<REF/><kb/>eb url="f"/>"#, r#"<W_eb url="f"/>"#),
        (r#"<k<kb/>b<kb/> chunk_id="f"/>"#, r#"<kb_ chunk_id="f"/>"#),
        (r#"<<kb/>/ref>"#, "<_/ref>"),
        ("<r<kb/>ef", "<r_ef"),
        ("<k<kb/>bd>F", "<kbd>F"),
        ("a <<kb/> b", "a < b"),
        (&format!("<kb chunk_id=\"f\" {long} />"), &format!("<_kb chunk_id=\"f\" {long} />")),
        (
            &format!("<kb chunk_id=\"f\"{} />", " res://99".repeat(300)),
            &format!("<_kb chunk_id=\"f\"{} />", " ".repeat(300)),
        ),
    ] {
        assert_eq!(registry.decode_output_text(text), expected, "{text}");
        assert_eq!(by_character(&registry, text), expected, "{text}");
    }
}

// CTX-54: an id that is the name of a tag makes none
#[test]
fn no_tag_comes_of_what_is_put_in() {
    let registry = Registry::new(true);
    registry.register_issue("kb");
    let text = r#"<i1 chunk_id="f"/> </i1> <i1> i1 <i1-x>"#;
    let expected = r#"<kb_ chunk_id="f"/> </kb_> <kb_> kb <kb-x>"#;
    assert_eq!(registry.decode_output_text(text), expected);
    assert_eq!(by_character(&registry, text), expected);
}

// CTX-1: no handle reaches anybody
#[test]
fn no_handle_comes_of_what_is_left() {
    let registry = registry();
    for (text, expected) in [
        ("do<kb/>c://1.", "do_c://1."),
        ("doc:<ref/>//1", "doc:_//1"),
        ("doc://<web>1", "doc://_1"),
        ("doc://1res://99", "doc://1_"),
        ("doc://1res://99 x", "doc://1_ x"),
        ("re<kb/>s://0001", "re_s://0001"),
        ("i<kb/>1", "i_1"),
        ("i1res://99.", "i1_."),
        ("the doc<ref id=\"chunk://9\"/>: it", "the doc: it"),
        ("vitamin d<kb/>.", "vitamin d."),
        ("doc:<kb/>", "doc:"),
        ("i9<kb/>9", "i99"),
        ("res://99doc://1", "_doc://1"),
        ("a res://99i1", "a _i1"),
        ("res://99res://98x", "x"),
        ("doc://1res://", "doc://1_"),
        ("<kb/>doc://1", "toolnexus://doc/doc-real"),
    ] {
        assert_eq!(registry.decode_output_text(text), expected, "{text}");
        assert_eq!(by_character(&registry, text), expected, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // CTX-54, CTX-57, CTX-1: whatever is dropped, and however the text is cut, nothing is left to decode
    #[test]
    fn nothing_is_left_to_decode(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "<", "k", "b", "<kb/>", "<ref/>", "</", "/", ">", " ", "do", "c", "doc", ":", "//", "://", "1", "9", "doc://1",
            "doc://9", "res://99", "re", "s", "res:", "i", "i1", "i9", "m", "s1", "x", "_", ".", "=", "é",
        ]), 0..14),
        cuts in proptest::collection::vec(0usize..60, 0..4),
    ) {
        let registry = registry();
        let text = parts.concat() + " .";
        let whole = registry.decode_output_text(&text);
        prop_assert_eq!(&registry.decode_output_text(&whole), &whole, "{}", text);
        prop_assert_eq!(&by_character(&registry, &text), &whole);
        let mut decoder = registry.stream_decoder();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| text.floor_char_boundary(at)).collect();
        cuts.sort_unstable();
        let (mut out, mut from) = (String::new(), 0);
        for at in cuts {
            out.push_str(&decoder.feed(&text[from..at]));
            from = at;
        }
        out.push_str(&decoder.feed(&text[from..]));
        out.push_str(&decoder.flush());
        prop_assert_eq!(out, whole);
    }
}

// CTX-57: linear in the text, however much is dropped
#[test]
fn much_may_be_dropped() {
    let registry = registry();
    for part in
        ["<kb/>", "d<kb/>", "<<kb/>", "doc:<kb/>", "res://99i", " doc://1res://99", "doc://1res://99 <r<kb/>"]
    {
        let begin = std::time::Instant::now();
        registry.decode_output_text(&part.repeat(50_000 / part.len()));
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{part}");
    }
}
