//! Notes that name the sources of images.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use serde_json::{Value, json};
use support::fixture;
use toolnexus_context::{Registry, SourceRef};
use toolnexus_core::{ContentPart, ToolResult};

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// A result that carries images, and names their sources.
fn result(images: usize, context: Value) -> ToolResult {
    let image = ContentPart::Image { mime_type: "image/png".into(), data: Some("aGk=".into()), url: None };
    let mut parts = vec![ContentPart::Text { text: "not an image".into() }];
    parts.extend(vec![image; images]);
    let metadata = json!({"context": context});
    ToolResult::success("found").with_parts(parts).with_metadata(metadata.as_object().unwrap().clone())
}

// CTX-87: case 53
#[test]
fn a_note_numbers_images_and_names_known_sources() {
    let registry = fixture();
    let note = registry.image_sources_note(&ids(&["chunk-real", "unverified"]), 2);
    assert_eq!(
        note,
        "\n\nImage sources (numbered from 1 within this message):\
         \nImage 3: chunk://1.\
         \nImage 4: source unavailable; do not cite."
    );
    assert!(!note.contains("chunk-real") && !note.contains("unverified"));
    assert_eq!(registry.chunk_handle("unverified"), None);
    assert_eq!(registry.register_context_chunk(SourceRef::new("next-one")).as_deref(), Some("chunk://2"));
}

// CTX-87
#[test]
fn without_images_there_is_no_note() {
    assert_eq!(fixture().image_sources_note(&[], 3), "");
    let registry = fixture();
    let sources = json!({"context_images": ["chunk-real"]});
    assert_eq!(registry.tool_image_sources_note(&result(0, sources)), "");
    assert_eq!(registry.tool_image_sources_note(&result(2, json!({}))), "");
    assert_eq!(registry.tool_image_sources_note(&result(2, json!({"context_images": []}))), "");
    assert_eq!(registry.tool_image_sources_note(&ToolResult::success("text")), "");
}

// CTX-87: a note makes nothing citable
#[test]
fn a_note_is_no_evidence() {
    let registry = Registry::new(true);
    registry.register_context_chunk(SourceRef::new("chunk-listed"));
    let note = registry.image_sources_note(&ids(&["chunk-listed"]), 0);
    assert!(note.ends_with("\nImage 1: chunk://1."));
    assert_eq!(registry.decode_output_text(r#"<ref id="chunk://1"/>"#), "");
}

// CTX-87: the images of a result, from 1, and no more than there are
#[test]
fn a_result_names_the_sources_of_its_images() {
    let registry = fixture();
    let sources = json!({"context_images": ["chunk-real", "stray", "chunk-real"]});
    let heading = "\n\nImage sources (numbered from 1 within this message):";
    let lines =
        ["\nImage 1: chunk://1.", "\nImage 2: source unavailable; do not cite.", "\nImage 3: chunk://1."];
    for images in 1..5 {
        let expected = lines[..images.min(3)].concat();
        let note = registry.tool_image_sources_note(&result(images, sources.clone()));
        assert_eq!(note, format!("{heading}{expected}"));
    }
}

// CTX-87: what is no id is no source
#[test]
fn odd_metadata_names_no_source() {
    let registry = fixture();
    let note = registry
        .tool_image_sources_note(&result(3, json!({"context_images": [7, "", {"id": "chunk-real"}]})));
    assert_eq!(note.matches("source unavailable; do not cite.").count(), 3);
    assert_eq!(registry.tool_image_sources_note(&result(3, json!({"context_images": "chunk-real"}))), "");
    assert_eq!(registry.tool_image_sources_note(&result(3, json!("chunk-real"))), "");
    let note = registry.image_sources_note(&ids(&["chunk-real", "chunk-real"]), usize::MAX);
    assert_eq!(note.matches("chunk://1").count(), 2);
}
