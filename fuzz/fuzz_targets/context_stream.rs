//! A model's text, decoded whole and in pieces: the cuts make no difference, and what is held back is bounded. The same
//! of a host's own handles.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use toolnexus_context::{
    HandleStreamDecoder, HandleTable, Registry, RegistryConfig, ResourcePattern, SourceKind, SourceRef,
};

const RESOURCE: &str = "resource://AbCdEfGhIjKlMnOpQrStUv";

/// With tags of every length, with short ones alone, and without citations.
static REGISTRIES: LazyLock<[(Registry, usize); 3]> = LazyLock::new(|| {
    [(2048, true), (24, true), (24, false)].map(|(longest, cites)| (registry(longest, cites), longest))
});

static TABLE: LazyLock<HandleTable> = LazyLock::new(|| {
    let table = HandleTable::new("ref-", 0, 1);
    for value in ["summary/36283d3d", "ref-1", "r"] {
        table.register(value);
    }
    table
});

fn registry(max_tag_len: usize, citations: bool) -> Registry {
    let mut config = RegistryConfig::default()
        .citations(citations)
        .kind(SourceKind::new("page").citable())
        .kind(SourceKind::new("do"))
        .resource_pattern(ResourcePattern::LegacyStorage);
    config.max_tag_len = max_tag_len;
    let registry = Registry::with_config(config).unwrap();
    registry.register_document("36283d3d-a495");
    registry.register_knowledge_base("kb-36283d3d");
    for id in ["chunk-1", "chunk doc://1"] {
        registry.register_chunk(SourceRef {
            title: "T & i1".into(),
            document_id: "d/1".into(),
            ..SourceRef::new(id)
        });
    }
    registry.register_context_chunk(SourceRef::new("chunk-3"));
    registry.register_url("https://example.com/i1?x=1&y=doc://1", "");
    registry.register_issue("issue-uuid");
    assert_eq!(registry.compact_known_text(RESOURCE), "res://0001");
    registry
}

fuzz_target!(|text: &str| {
    let cuts = cuts(text);
    let characters: Vec<&str> = text.split_inclusive(|_| true).collect();
    for (registry, max_tag_len) in &*REGISTRIES {
        let whole = registry.decode_output_text(text);
        for pieces in [&characters, &cuts] {
            let mut decoder = registry.stream_decoder();
            let mut decoded = String::new();
            for piece in pieces {
                decoded += &decoder.feed(piece);
                let shown: String = format!("{decoder:?}").chars().filter(char::is_ascii_digit).collect();
                // A source handle is held for so long.
                assert!(shown.parse::<usize>().unwrap() <= *(max_tag_len.max(&100)), "too much is held");
            }
            decoded += &decoder.flush();
            assert_eq!(decoded, whole, "the cuts made a difference");
        }
    }
    let whole = TABLE.decode_known_text(text);
    for pieces in [&characters, &cuts] {
        let mut decoder = HandleStreamDecoder::new(&TABLE);
        let decoded: String = pieces.iter().map(|piece| decoder.feed(piece)).collect();
        assert_eq!(decoded + &decoder.flush(), whole, "the cuts made a difference");
    }
});

/// The text in pieces that depend on it alone, empty ones among them.
fn cuts(text: &str) -> Vec<&str> {
    let seed =
        text.bytes().fold(0, |seed: u64, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let length = random.usize(0..12).min(rest.len());
        let length = (length..).find(|at| rest.is_char_boundary(*at)).unwrap();
        let (piece, after) = rest.split_at(length);
        pieces.push(piece);
        rest = after;
    }
    pieces
}
