//! A model's text as it comes, in pieces.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::time::{Duration, Instant};

use serde_json::json;
use support::{KB, R, S, T, fixture};
use toolnexus_context::{Registry, StreamDecoder};

/// What each piece gives, then the flush.
fn fed<'p>(decoder: &mut StreamDecoder, pieces: impl IntoIterator<Item = &'p str>) -> Vec<String> {
    let mut told: Vec<String> = pieces.into_iter().map(|piece| decoder.feed(piece)).collect();
    told.push(decoder.flush());
    told
}

/// The pieces, the whole text, and the text character by character all give the same.
fn becomes(registry: &Registry, pieces: &[&str], expected: &str) -> Vec<String> {
    let whole = pieces.concat();
    assert_eq!(registry.decode_output_text(&whole), expected, "{whole:?} whole");
    let mut decoder = registry.stream_decoder();
    let characters: Vec<String> = whole.chars().map(String::from).collect();
    let told = fed(&mut decoder, characters.iter().map(String::as_str));
    assert_eq!(told.concat(), expected, "{whole:?} by character");
    // A decoder that was flushed is as new.
    let told = fed(&mut decoder, pieces.iter().copied());
    assert_eq!(told.concat(), expected, "{pieces:?}");
    let told_anew = fed(&mut registry.stream_decoder(), pieces.iter().copied());
    assert_eq!(told, told_anew);
    told
}

// CTX-57, cases 66, 67, 77
#[test]
fn resource_handles_are_held_until_their_end_is_seen() {
    let registry = fixture();
    let told = becomes(&registry, &["before res://0", "001 after"], &format!("before {R} after"));
    assert_eq!(told, ["before ".to_owned(), format!("{R} afte"), "r".into()]);
    becomes(&registry, &["see re", "s://0001"], &format!("see {R}"));
    becomes(&registry, &["res://0001", "2"], "");
}

// CTX-58, CTX-27, case 68
#[test]
fn unknown_resource_handles_are_removed_in_pieces() {
    becomes(&fixture(), &["broken res:/", "/99", "99 end"], "broken  end");
}

// CTX-57, CTX-54, cases 69, 70
#[test]
fn tags_are_held_until_they_close() {
    let registry = fixture();
    let told =
        becomes(&registry, &["before <ref id=\"", "chunk://1\"/> after"], &format!("before {KB} after"));
    assert_eq!(told[0], "before ");
    becomes(&registry, &["x <we", "b url=\"https://f\" /> y"], "x  y");
}

// CTX-57, cases 71, 72
#[test]
fn private_handles_remember_their_left_edge() {
    let registry = fixture();
    becomes(&registry, &["updated i", "1 successfully"], "updated issue-uuid successfully");
    becomes(&registry, &["ki", "1"], "ki1");
    becomes(&registry, &["x", "i1 "], "xi1 ");
    becomes(&registry, &["é", "i1 "], "éissue-uuid ");
}

// CTX-57, case 73
#[test]
fn source_handles_are_held_until_their_right_edge_is_seen() {
    let registry = fixture();
    let told = becomes(&registry, &["doc:/", "/1", "2 doc://", "1."], " toolnexus://doc/doc-real.");
    assert_eq!(told, ["", "", " ", "", "toolnexus://doc/doc-real."]);
    becomes(&registry, &["doc://1.", "5 doc://1.", " "], "doc://1.5 toolnexus://doc/doc-real. ");
}

// CTX-57, case 74
#[test]
fn routing_handles_in_pieces() {
    let registry = fixture();
    let tool = |name: &str, key: &str, id: &str| {
        json!({"type": "function", "function": {"name": name, "parameters":
            {"type": "object", "properties": {key: {"type": "string", "enum": [id]}}}}})
    };
    registry
        .encode_tools(&[tool("discover_mcp_tools", "server_id", S), tool("call_mcp_tool", "tool_ref", T)]);
    becomes(&registry, &["Use ms1 with mt1."], &format!("Use {S} with {T}."));
    becomes(&registry, &["Use m", "s", "1 with mt", "1", "."], &format!("Use {S} with {T}."));
}

// CTX-58, cases 75, 88
#[test]
fn what_stands_unfinished_at_the_end_of_a_stream() {
    let registry = fixture();
    becomes(&registry, &["here is the url:"], "here is the url:");
    becomes(&registry, &["a <"], "a <");
    becomes(&registry, &["end res:/"], "end ");
    becomes(&registry, &["end <kb do"], "end ");
    let told = becomes(&registry, &["Voici les critères:"], "Voici les critères:");
    assert_eq!(told, ["Voici les critè", "res:"]);
}

// CTX-50, case 76
#[test]
fn restored_text_is_opaque_in_pieces() {
    let registry = fixture();
    assert_eq!(registry.compact_known_text("local://10000/i1/x.png"), "res://0002");
    becomes(&registry, &["see res://00", "02"], "see local://10000/i1/x.png");
}

// CTX-18, CTX-13, case 78
#[test]
fn edges_are_ascii_in_pieces() {
    becomes(&fixture(), &["见DOC:/", "/1。"], "见toolnexus://doc/doc-real。");
}

// CTX-53, CTX-54, case 79
#[test]
fn spellings_of_tags_in_pieces() {
    let registry = fixture();
    becomes(&registry, &["<REF  ID = \"chu", "nk://1\" >"], KB);
    becomes(&registry, &["<ref id=\"c", "1\"/>"], KB);
    becomes(&registry, &["a<", "/kb", ">b"], "ab");
    becomes(&registry, &["<re", "f> <ref/> <ref", "erence>"], "  <reference>");
}

// CTX-52, cases 80, 89
#[test]
fn the_two_characters_before_are_remembered() {
    let registry = fixture();
    becomes(&registry, &["[x]", "(", "chunk://1)"], "[x](toolnexus://doc/doc-real)");
    becomes(&registry, &["doc://007", " x"], " x");
    becomes(&registry, &["im i"], "im i");
    becomes(&registry, &["i9"], "i9");
    let link = r#"<a href="toolnexus://doc/doc-real">x</a> "KB""#.replace("KB", KB);
    becomes(&registry, &["<a href", "=", "\"", "chunk://1\">x</a> \"chunk://1\""], &link);
    becomes(&registry, &["a/", "doc://1", "=", "doc://1"], "a/doc-real=doc-real");
}

// CTX-54, CTX-58, case 90
#[test]
fn a_tag_that_does_not_end_is_released() {
    let registry = fixture();
    let long = format!("a <ref {} z", "x".repeat(2100));
    let told = becomes(&registry, &[&long[..1000], &long[1000..]], &long);
    assert_eq!(told, ["a ", &long[2..], ""]);
    becomes(&registry, &["a <ref ", &"x".repeat(100)], "a ");
}

// CTX-57: "text that cannot begin a token is released in the same feed"
#[test]
fn ordinary_text_is_not_held() {
    let registry = fixture();
    let mut decoder = registry.stream_decoder();
    for piece in [
        "Hello, ", "world", "!", " a < b", " <b", "r>", "<kbd>", "</p>", " pic", "nic", " 12", "3 is ",
        "docx", " uri:", " doc: ", "ID", "é", "见", " 1", "0", "resx", " x-", ".", "i9 ", "doc://x",
        "doc://1x",
    ] {
        assert_eq!(decoder.feed(piece), piece);
    }
    assert_eq!(decoder.flush(), "");
}

// CTX-57: what is held, and no more than that
#[test]
fn only_what_could_become_a_token_is_held() {
    let registry = fixture();
    for (piece, held) in [
        ("word r", "r"),
        ("wordr", "r"),
        ("words res:", "res:"),
        ("wordsres://00", "res://00"),
        ("a d", "d"),
        ("a DO", "DO"),
        ("a doc://1", "doc://1"),
        ("a doc://1.", "doc://1."),
        ("ad", ""),
        ("xdoc://1", ""),
        ("a i", "i"),
        ("a i12", "i12"),
        ("ai", ""),
        ("a-ms", "ms"),
        ("a I", ""),
        ("a MS", ""),
        ("a <", "<"),
        ("a <w", "<w"),
        ("a </KB", "</KB"),
        ("a <ref id", "<ref id"),
        ("a <x", ""),
        ("a </x", ""),
    ] {
        let mut decoder = registry.stream_decoder();
        let released = piece.strip_suffix(held).unwrap();
        assert_eq!(decoder.feed(piece), released, "{piece}");
        // A word that goes on releases it all, unless it was a token already.
        if !["<ref id", "res://00", "doc://1."].contains(&held) {
            assert_eq!(decoder.feed("qq\0"), format!("{held}qq\0"), "{piece}");
        }
    }
}

// CTX-57
#[test]
fn an_empty_piece_gives_nothing() {
    let mut decoder = fixture().stream_decoder();
    assert_eq!(decoder.feed(""), "");
    assert_eq!(decoder.flush(), "");
    assert_eq!(decoder.feed("re"), "");
    assert_eq!(decoder.feed(""), "");
    assert_eq!(decoder.flush(), "re");
}

// CTX-57: each channel has its own decoder
#[test]
fn channels_do_not_meet() {
    let registry = fixture();
    let (mut content, mut reasoning) = (registry.stream_decoder(), registry.stream_decoder());
    assert_eq!(content.feed("see doc:/") + &reasoning.feed("x"), "see x");
    assert_eq!(reasoning.feed("i1 "), "i1 ");
    assert_eq!(content.feed("/1 "), "toolnexus://doc/doc-real ");
}

// CTX-57: digits that cannot matter are not kept
#[test]
fn an_endless_number_is_removed_in_pieces() {
    let registry = fixture();
    let digits = "7".repeat(300);
    becomes(&registry, &["a doc://", &digits, &digits, "x b"], "a x b");
    becomes(&registry, &["a res://0001", &digits, "", &digits, " b"], "a  b");
    becomes(&registry, &["a res://", &digits, "i1 doc://1"], "a _i1 toolnexus://doc/doc-real");
    becomes(&registry, &["a i", &digits, " b"], &format!("a i{digits} b"));
    let mut decoder = registry.stream_decoder();
    decoder.feed("doc://");
    for _ in 0..100_000 {
        assert_eq!(decoder.feed("1234567890"), "");
    }
    let shown = format!("{decoder:?}");
    assert!(shown.contains("held: 0"), "{shown}");
    assert_eq!(decoder.feed("1. x"), ". x");
}

// CTX-1: a decoder shows nothing of its text
#[test]
fn a_decoder_does_not_tell_what_it_holds() {
    let mut decoder = fixture().stream_decoder();
    decoder.feed("<ref secret");
    let shown = format!("{decoder:?}");
    assert!(shown.contains("held: 11") && !shown.contains("secret"), "{shown}");
}

// CTX-57: linear in the text, also character by character. This takes a moment; were what is held searched
// or moved anew with each piece, it would take minutes
#[test]
fn hostile_streams_take_linear_time() {
    let mut config = support::config();
    config.max_tag_len = usize::MAX;
    let endless = Registry::with_config(config).unwrap();
    let registry = fixture();
    let texts = [
        (&endless, "<ref ".to_owned() + &"x".repeat(1_000_000)),
        (&endless, "<ref ".repeat(20_000)),
        (&registry, "<ref ".repeat(20_000)),
        (&registry, "<kb".repeat(30_000)),
        (&registry, "doc://".to_owned() + &"1".repeat(100_000)),
        (&registry, "doc://1.".repeat(12_000)),
        (&registry, "res:/".repeat(20_000)),
        (&registry, "i".to_owned() + &"1".repeat(100_000)),
        (&registry, "i1 ".repeat(30_000)),
    ];
    for (registry, text) in texts {
        let begin = Instant::now();
        let mut decoder = registry.stream_decoder();
        let mut piece = [0; 4];
        for character in text.chars() {
            decoder.feed(character.encode_utf8(&mut piece));
        }
        decoder.flush();
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", &text[..20]);
    }
}
