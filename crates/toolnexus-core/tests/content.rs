//! Content parts: their shapes, sizes and texts, and prompts made of them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;
use serde_json::json;
use toolnexus_core::content::{
    ContentPart, PartErrorCode, PartKind, PartView, Prompt, mime_type_of_path, mime_type_of_url, user_message,
};

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAGUlEQVR42mP4z8AARwyrkBAVJZClkAEVJQBm3VpRJDtqMQAAAABJRU5ErkJggg==";

fn image(data: Option<&str>, url: Option<&str>) -> ContentPart {
    ContentPart::Image {
        mime_type: "image/png".into(),
        data: data.map(str::to_owned),
        url: url.map(str::to_owned),
    }
}

// CORE-20, case 35
#[test]
fn a_part_has_exactly_one_source() {
    let both = image(Some("AAAA"), Some("https://x")).validate(None).unwrap_err();
    assert_eq!((both.code, both.code.as_str()), (PartErrorCode::SourceConflict, "source-conflict"));
    let neither = image(None, None).validate(None).unwrap_err();
    assert_eq!((neither.code, neither.code.as_str()), (PartErrorCode::SourceMissing, "source-missing"));
    for error in [both, neither] {
        assert!(error.message.contains("image") && !error.message.contains("AAAA"), "{error}");
    }
    assert!(ContentPart::text("x").validate(Some(0)).is_ok());
}

// CORE-20, CORE-26: exactly at the limit passes
#[test]
fn validate_counts_decoded_bytes() {
    let part = image(Some(PNG), None);
    assert!(part.validate(Some(82)).is_ok());
    let error = part.validate(Some(81)).unwrap_err();
    assert_eq!(error.code, PartErrorCode::TooLarge);
    assert!(error.message.contains("82") && error.message.contains("81") && !error.message.contains(PNG));
    assert!(image(None, Some("https://x/a.png")).validate(Some(0)).is_ok());
}

// CORE-31..34, cases 37 to 39
#[test]
fn texts_and_estimates() {
    let part = image(Some(PNG), None);
    assert_eq!(part.summarize(), "image (image/png, 82 bytes)");
    assert_eq!(part.describe(), json!({"type": "image", "mimeType": "image/png", "bytes": 82}));
    assert_eq!(part.view().placeholder(), "[unsupported image part (image/png, 82 bytes)]");
    assert_eq!(part.token_estimate(), 85);
    let large = ContentPart::from_bytes(vec![0; 750_000], "image/png").unwrap();
    assert_eq!(large.token_estimate(), 1000);
    assert_eq!(ContentPart::text("fünf!").token_estimate(), 2);
    assert_eq!(ContentPart::text("").token_estimate(), 0);
    let linked = ContentPart::from_url("https://example.com/diagram.webp").unwrap();
    assert_eq!(linked.summarize(), "image (image/webp, 0 bytes)");
    assert_eq!((linked.part_bytes(), linked.token_estimate()), (0, 85));
    assert!(!format!("{part:?} {:?}", part.view()).contains(PNG));
}

// CORE-21, CORE-22
#[test]
fn mime_types_come_from_the_extension_alone() {
    for (path, mime) in [
        ("a.png", Some("image/png")),
        ("a.JPG", Some("image/jpeg")),
        ("a.jpeg", Some("image/jpeg")),
        ("a.gif", Some("image/gif")),
        ("a.webp", Some("image/webp")),
        ("a.b.PDF", Some("application/pdf")),
        ("a.mp3", Some("audio/mpeg")),
        ("a.wav", Some("audio/wav")),
        (r"C:\dir.pdf\Foto ü😀.PNG", Some("image/png")),
        ("dir.png/file", None),
        (r"dir.png\file", None),
        (".png", None),
        ("dir/.png", None),
        ("a.", None),
        ("png", None),
        ("", None),
        ("a.svg", None),
    ] {
        assert_eq!(mime_type_of_path(path), mime, "{path}");
    }
    for (url, mime) in [
        ("https://x/a.png?b=c.pdf#d.gif", Some("image/png")),
        ("https://x/a?b=c.pdf", None),
        ("https://x/a#c.pdf", None),
        ("https://example.png", None),
        ("https://example.png?x", None),
    ] {
        assert_eq!(mime_type_of_url(url), mime, "{url}");
    }
}

// CORE-23
#[test]
fn the_mime_type_decides_the_kind() {
    for (mime, kind) in [
        ("image/anything", PartKind::Image),
        ("audio/x", PartKind::Audio),
        ("text/plain", PartKind::File),
        ("imagery", PartKind::File),
    ] {
        assert_eq!(PartKind::of_mime(mime), kind);
        assert_eq!(ContentPart::from_bytes("x", mime).unwrap().kind(), kind);
    }
}

// CORE-35, case 45; CORE-36: parts stay parts
#[test]
fn a_prompt_is_a_text_or_parts() {
    assert_eq!(user_message(&"hello".into()).to_string(), r#"{"role":"user","content":"hello"}"#);
    let prompt = Prompt::from(["before".into(), image(Some("AAAA"), None)]);
    assert_eq!(
        user_message(&prompt),
        json!({"role": "user", "content": [
            {"type": "text", "text": "before"}, {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        ]})
    );
    let texts: Prompt = ["a", "b"].into_iter().collect();
    assert_eq!(texts, Prompt::from(vec![ContentPart::text("a"), ContentPart::text("b")]));
}

// CORE-46
#[test]
fn native_blocks_are_no_parts() {
    for native in [
        json!({"type": "image", "source": {"type": "url", "url": "https://x"}}),
        json!({"type": "file", "file": {"file_id": "f"}}),
        json!({"type": "image_url", "image_url": {"url": "https://x"}}),
        json!({"type": "image", "mimeType": 5, "data": "AAAA"}),
        json!({"type": "text", "text": {"x": 1}}),
        json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
        json!("text"),
    ] {
        assert_eq!(PartView::read(&native), None, "{native}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CORE-18, CORE-46: what is written down is read back, as a part and in place
    #[test]
    fn parts_survive_json(mime in "(image|audio|text)/[a-z]{1,5}", data in proptest::option::of("[A-Za-z0-9+/]{0,40}"), url in proptest::option::of(".{0,20}"), name in proptest::option::of(".{0,10}")) {
        let mut part = ContentPart::from_base64(mime.clone(), "", name);
        match &mut part {
            ContentPart::Image { data: d, url: u, .. } | ContentPart::Audio { data: d, url: u, .. } | ContentPart::File { data: d, url: u, .. } => {
                (*d, *u) = (data, url);
            }
            ContentPart::Text { .. } => {}
        }
        let json = serde_json::to_value(&part).unwrap();
        prop_assert_eq!(PartView::read(&json), Some(part.view()));
        prop_assert_eq!(serde_json::from_value::<ContentPart>(json).unwrap(), part);
    }

    // CORE-22: never more than the last segment's end
    #[test]
    fn any_path_has_a_known_mime_type_or_none(path in ".{0,40}") {
        if let Some(mime) = mime_type_of_path(&path) {
            let upper = path.to_uppercase();
            prop_assert_eq!(mime_type_of_path(&upper), Some(mime));
            prop_assert_eq!(mime_type_of_path(&format!("x/{path}")), Some(mime));
        }
    }
}
