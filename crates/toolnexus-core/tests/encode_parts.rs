//! The blocks of every style, and what stands in for a part that cannot be sent.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};
use toolnexus_core::Style;
use toolnexus_core::content::{
    ContentPart, EncodeOptions, PartEncoder, PartErrorCode, PartKind, Provenance, UnsupportedPart,
    encode_parts,
};

const STYLES: [Style; 3] = [Style::OpenAI, Style::Anthropic, Style::Gemini];

fn every_kind() -> Vec<(&'static str, ContentPart)> {
    let named = Some("report.pdf".to_owned());
    vec![
        ("text", ContentPart::text("hello")),
        ("image data", ContentPart::from_base64("image/png", "AAAA", None)),
        ("image url", ContentPart::from_link("image/webp", "https://x/a.webp", None)),
        ("file data", ContentPart::from_base64("application/pdf", "JVBERi0x", named)),
        ("file data unnamed", ContentPart::from_base64("application/pdf", "JVBERi0x", None)),
        ("file url", ContentPart::from_link("application/pdf", "https://x/a.pdf", None)),
        ("audio mp3", ContentPart::from_base64("audio/mpeg", "AAAA", None)),
        ("audio x-wav", ContentPart::from_base64("audio/x-wav", "AAAA", None)),
        ("audio flac", ContentPart::from_base64("audio/flac", "AAAA", None)),
        ("audio url", ContentPart::from_link("audio/wav", "https://x/a.wav", None)),
    ]
}

fn one(part: &ContentPart, options: EncodeOptions) -> Result<Value, PartErrorCode> {
    let blocks = encode_parts(std::slice::from_ref(part), options).map_err(|error| error.code)?;
    assert_eq!(blocks.len(), 1);
    Ok(blocks[0].clone())
}

// CORE-37, CORE-38, CORE-39, cases 43, 44, 48, 74
#[test]
fn every_kind_in_every_style() {
    let mut blocks = serde_json::Map::new();
    for (name, part) in every_kind() {
        for style in STYLES {
            let block = one(&part, EncodeOptions { style, ..Default::default() });
            let shown = block.unwrap_or_else(|code| json!(format!("refused: {}", code.as_str())));
            if let Some(map) = shown.as_object() {
                let kind = map
                    .get("type")
                    .map_or_else(|| map.keys().next().unwrap().as_str(), |t| t.as_str().unwrap());
                let known: &[&str] = match style {
                    Style::OpenAI => &["text", "image_url", "file", "input_audio"],
                    Style::Anthropic => &["text", "image", "document"],
                    Style::Gemini => &["text", "inlineData", "fileData"],
                };
                assert!(known.contains(&kind), "{shown}");
            }
            blocks.insert(format!("{name}, {style}"), shown);
        }
    }
    insta::assert_json_snapshot!("blocks", blocks);
}

// CORE-40, CORE-41, CORE-142, case 42
#[test]
fn size_and_mode_decide() {
    let data = "A".repeat(5461) + "A==";
    let part = ContentPart::from_base64("image/png", data, None);
    assert_eq!(part.part_bytes(), 4096);
    for style in STYLES {
        let placeholder = match style {
            Style::Gemini => json!({"text": "[unsupported image part (image/png, 4096 bytes)]"}),
            _ => json!({"type": "text", "text": "[unsupported image part (image/png, 4096 bytes)]"}),
        };
        let encode = |provenance, max: u64, on_unsupported_part| {
            one(&part, EncodeOptions { style, provenance, max_part_bytes: Some(max), on_unsupported_part })
        };
        let (attached, derived) = (Provenance::Attached, Provenance::Derived);
        assert_eq!(encode(attached, 1024, None), Err(PartErrorCode::TooLarge));
        assert_eq!(encode(derived, 1024, None), Ok(placeholder.clone()));
        assert_eq!(encode(attached, 1024, Some(UnsupportedPart::Text)), Ok(placeholder.clone()));
        assert_eq!(encode(derived, 1024, Some(UnsupportedPart::Error)), Err(PartErrorCode::TooLarge));
        assert_ne!(encode(attached, 4096, None).unwrap(), placeholder);
    }
}

// CORE-20, CORE-40, case 40 and 43
#[test]
fn a_part_without_a_block_is_refused_or_replaced() {
    let wav = ContentPart::from_bytes(vec![0; 41984], "audio/wav").unwrap();
    let options = EncodeOptions { style: Style::Anthropic, ..Default::default() };
    let error = encode_parts(std::slice::from_ref(&wav), options).unwrap_err();
    assert_eq!(error.code, PartErrorCode::Unsupported);
    for word in ["anthropic", "audio", "audio/wav"] {
        assert!(error.message.contains(word), "{error}");
    }
    assert!(!error.message.contains("AAAA"));
    let options = EncodeOptions { provenance: Provenance::Derived, ..options };
    assert_eq!(
        one(&wav, options),
        Ok(json!({"type": "text", "text": "[unsupported audio part (audio/wav, 41984 bytes)]"}))
    );
}

// CORE-41: a malformed part is an error in every mode
#[test]
fn a_malformed_part_is_always_an_error() {
    let part = ContentPart::Image { mime_type: "image/png".into(), data: None, url: None };
    for mode in [None, Some(UnsupportedPart::Text), Some(UnsupportedPart::Error)] {
        for provenance in [Provenance::Attached, Provenance::Derived] {
            let options = EncodeOptions { provenance, on_unsupported_part: mode, ..Default::default() };
            assert_eq!(one(&part, options), Err(PartErrorCode::SourceMissing));
        }
    }
}

// CORE-41
#[test]
fn modes_are_read_from_text() {
    assert_eq!("error".parse(), Ok(UnsupportedPart::Error));
    assert_eq!(serde_json::from_str::<UnsupportedPart>("\"text\"").unwrap(), UnsupportedPart::Text);
    assert!("Text".parse::<UnsupportedPart>().unwrap_err().to_string().contains("\"Text\""));
}

// CORE-42: kind and reason of what was replaced
#[test]
fn the_encoder_tells_what_it_replaced() {
    let mut encoder = PartEncoder::new(Style::Anthropic).with_max_part_bytes(Some(2));
    let image = ContentPart::from_base64("image/png", "AAAA", None);
    let linked = ContentPart::from_link("audio/wav", "https://x/a.wav", None);
    encoder.block(&image, Provenance::Derived).unwrap();
    encoder.block(&linked, Provenance::Derived).unwrap();
    let told: Vec<_> = encoder.replaced().iter().map(|part| (part.kind, part.reason)).collect();
    let expected =
        [(PartKind::Image, PartErrorCode::TooLarge), (PartKind::Audio, PartErrorCode::Unsupported)];
    assert_eq!(told, expected);
}
