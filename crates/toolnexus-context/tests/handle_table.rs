//! The primitive table: its text functions, whole and in pieces.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;
use toolnexus_context::{HandleStreamDecoder, HandleTable};

fn table(prefix: &str, width: usize, start: usize, values: &[&str]) -> HandleTable {
    let table = HandleTable::new(prefix, width, start);
    for value in values {
        table.register(value);
    }
    table
}

fn decoded(table: &HandleTable, pieces: &[&str]) -> String {
    let mut decoder = HandleStreamDecoder::new(table);
    let mut out: String = pieces.iter().map(|piece| decoder.feed(piece)).collect();
    out.push_str(&decoder.flush());
    out
}

/// The text in two and in three pieces at every border of characters, and by character.
fn splits(text: &str) -> Vec<Vec<&str>> {
    let borders: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
    let mut splits = vec![borders.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()];
    for (place, first) in borders.iter().enumerate() {
        splits.push(vec![&text[..*first], &text[*first..]]);
        for second in &borders[place..] {
            splits.push(vec![&text[..*first], &text[*first..*second], &text[*second..]]);
        }
    }
    splits
}

fn assert_decodes(table: &HandleTable, text: &str, expected: &str) {
    assert_eq!(table.decode_known_text(text), expected, "whole {text:?}");
    for pieces in splits(text) {
        assert_eq!(decoded(table, &pieces), expected, "{pieces:?}");
    }
}

// CTX-11
#[test]
fn values_are_trimmed_and_blank_ones_have_no_handle() {
    let table = HandleTable::new("ref-", 0, 1);
    assert!(table.is_empty());
    assert_eq!(table.register(" \t\n "), None);
    assert_eq!(table.register(""), None);
    assert!(table.is_empty());
    assert_eq!(table.register("  page \n").as_deref(), Some("ref-1"));
    assert_eq!(table.register("page").as_deref(), Some("ref-1"));
    assert_eq!(table.len(), 1);
    assert!(!table.is_empty());
    assert_eq!(table.handle(" page ").as_deref(), Some("ref-1"));
    assert_eq!(table.resolve(" ref-1\n").as_deref(), Some("page"));
}

// CTX-11: looking up allocates nothing
#[test]
fn looking_up_allocates_nothing() {
    let table = HandleTable::new("ref-", 0, 1);
    assert_eq!(table.handle("page"), None);
    assert_eq!(table.resolve("ref-1"), None);
    assert_eq!(table.len(), 0);
    assert_eq!(table.register("other").as_deref(), Some("ref-1"));
}

// CTX-9, CTX-11: cases 1, 2, 3
#[test]
fn numbers_are_padded_and_grow() {
    let padded = HandleTable::new("c", 3, 0);
    for (value, handle) in [("chunk-a", "c000"), ("chunk-a", "c000"), ("chunk-b", "c001")] {
        assert_eq!(padded.register(value).as_deref(), Some(handle));
    }
    assert_eq!(padded.resolve("c001").as_deref(), Some("chunk-b"));
    for number in 2..1000 {
        padded.register(&format!("chunk {number}"));
    }
    assert_eq!(padded.register("one more").as_deref(), Some("c1000"));
    assert_eq!(padded.resolve("c1000").as_deref(), Some("one more"));
    assert_eq!(padded.encode_known_text("one more, chunk-a"), "c1000, c000");
    assert_decodes(&padded, "c1000, c000, c00, c0000", "one more, chunk-a, c00, c0000");

    let plain = table("ref-", 0, 1, &["summary/uuid"]);
    assert_eq!(plain.handle("summary/uuid").as_deref(), Some("ref-1"));
    assert_eq!(plain.resolve("c000"), None);
}

// CTX-11: a width or a first number beyond all measure is no reason to panic
#[test]
fn no_number_is_too_large() {
    let wide = HandleTable::new("w", usize::MAX, 1);
    let handle = wide.register("value").unwrap();
    assert_eq!(wide.resolve(&handle).as_deref(), Some("value"));
    assert_eq!(wide.decode_known_text(&wide.encode_known_text("a value.")), "a value.");

    let last = HandleTable::new("n", 0, usize::MAX);
    let handle = last.register("first").unwrap();
    assert_eq!(last.resolve(&handle).as_deref(), Some("first"));
    assert_eq!(last.register("second"), None, "there is no further number");
    assert_eq!(last.register("first").as_deref(), Some(handle.as_str()));
    assert_decodes(
        &last,
        "n99999999999999999999999 n18446744073709551616",
        "n99999999999999999999999 n18446744073709551616",
    );
}

// CTX-11: with an empty prefix the two text functions change nothing
#[test]
fn without_a_prefix_text_stays() {
    let table = table("", 0, 1, &["page", "other"]);
    assert_eq!(table.handle("other").as_deref(), Some("2"));
    assert_eq!(table.resolve("1").as_deref(), Some("page"));
    assert_eq!(table.encode_known_text("page 1 other"), "page 1 other");
    assert_decodes(&table, "page 1 2", "page 1 2");
    // Nothing is held back either.
    let mut decoder = HandleStreamDecoder::new(&table);
    assert_eq!(decoder.feed("see 1"), "see 1");
    assert_eq!(decoder.flush(), "");
}

// CTX-12: case 7
#[test]
fn longer_values_go_first() {
    let table = table("i", 0, 1, &["abc-1", "abc-12"]);
    assert_eq!(table.encode_known_text("abc-12 abc-1"), "i2 i1");
    assert_decodes(&table, "i2 i1", "abc-12 abc-1");
}

// CTX-12: every occurrence; equal lengths: the leftmost of two that overlap
#[test]
fn of_equal_lengths_the_leftmost_is_replaced() {
    let table = table("i", 0, 1, &["a-b", "b-c", "x-y", "y-x"]);
    assert_eq!(table.encode_known_text("a-b-c"), "i1-c");
    assert_eq!(table.encode_known_text("a-b a-b,b-c"), "i1 i1,i2");
    assert_eq!(table.encode_known_text("x-y-x-y"), "i3-i3");
}

// CTX-12: the longest value wins wherever it stands, and what it leaves is looked at again
#[test]
fn the_longest_value_wins_wherever_it_stands() {
    let table = table("i", 0, 1, &["a-b", "b-c-d", "d-e-f-g", "a"]);
    assert_eq!(table.encode_known_text("a-b-c-d"), "i4-i2");
    assert_eq!(table.encode_known_text("a-b-c-d-e-f-g"), "i1-c-i3");
}

// CTX-12: plain substrings, without any edge but the handle's
#[test]
fn values_are_plain_substrings() {
    let table = table("ref-", 0, 1, &["/page", "été", "12", "見る", "🙂"]);
    assert_eq!(table.encode_known_text("a:/page/page"), "a:ref-1/page");
    assert_eq!(table.encode_known_text("l'été-12"), "l'ref-2-ref-3");
    assert_eq!(table.encode_known_text("私は見る。🙂"), "私はref-4。ref-5");
    assert_decodes(&table, "私はref-4。ref-5", "私は見る。🙂");
}

// CTX-12: inserted handles are never rescanned
#[test]
fn inserted_handles_are_not_rescanned() {
    let table = table("ref-", 0, 1, &["page", "1", "ref"]);
    assert_eq!(table.encode_known_text("page 1 ref"), "ref-1 ref-2 ref-3");
    assert_decodes(&table, "ref-1 ref-2 ref-3", "page 1 ref");
}

// CTX-12: case 81, and the same on the left side and between two values
#[test]
fn a_handle_touches_no_word() {
    let ids = table("i", 0, 1, &["zz", "abc-1"]);
    assert_eq!(ids.encode_known_text("abc-12 abc-1"), "abc-12 i2");
    assert_eq!(ids.encode_known_text("xabc-1 _abc-1 9abc-1 abc-1_"), "xabc-1 _abc-1 9abc-1 abc-1_");
    assert_eq!(ids.encode_known_text("-abc-1- 見abc-1見"), "-i2- 見i2見");
    let slashed = table("i", 0, 1, &["/a/", "/b"]);
    assert_eq!(slashed.encode_known_text("/a//b"), "i1/b");
}

// CTX-12: a prefix that continues itself does not swallow what stands before
#[test]
fn no_handle_is_read_out_of_its_surroundings() {
    let table = table("1-", 0, 1, &["page", "other"]);
    for text in ["1-page", "page 1-page", "page-2", "x 1-other 2-page", "page"] {
        assert_eq!(table.decode_known_text(text), text);
        assert_eq!(table.decode_known_text(&table.encode_known_text(text)), text);
    }
    assert_eq!(table.encode_known_text("(page)"), "(1-1)");
}

// CTX-13: cases 4, 5, 6
#[test]
fn handles_are_decoded_at_ascii_edges() {
    assert_decodes(&table("i", 0, 1, &["issue-$1"]), "read i1", "read issue-$1");
    let one = table("i", 0, 1, &["issue-uuid"]);
    assert_decodes(&one, "ri1 i1x i12 i1", "ri1 i1x i12 issue-uuid");
    assert_decodes(&one, "见i1。", "见issue-uuid。");
    assert_decodes(&one, "éi1é _i1 i1_ (i1)", "éissue-uuidé _i1 i1_ (issue-uuid)");
    assert_decodes(&one, "I1 i01 i0 i", "I1 i01 i0 i");
}

// CTX-13: the longer handle is the one that is meant
#[test]
fn longer_handles_go_first() {
    let values: Vec<String> = (1..=12).map(|number| format!("value {number}")).collect();
    let table = table("i", 0, 1, &values.iter().map(String::as_str).collect::<Vec<_>>());
    assert_decodes(&table, "i1 i12 i123", "value 1 value 12 i123");
}

// CTX-13: `-` is a boundary, and values are inserted literally and not decoded again
#[test]
fn values_are_inserted_literally() {
    let table = table("ref-", 0, 1, &["$0 ref-2 \\1", "two"]);
    assert_decodes(&table, "x-ref-1-ref-2", "x-$0 ref-2 \\1-two");
}

// CTX-14, CTX-57: case 94
#[test]
fn a_handle_may_come_in_pieces() {
    let table = table("ref-", 0, 1, &["summary/uuid"]);
    assert_eq!(decoded(&table, &["x-re", "f-1 ref-", "12"]), "x-summary/uuid ref-12");
    assert_decodes(&table, "x-ref-1 ref-12", "x-summary/uuid ref-12");
}

// CTX-14, CTX-57: only what can become a handle is held, and what cannot is released in the same feed
#[test]
fn only_what_may_become_a_handle_is_held() {
    let table = table("ref-", 0, 1, &["page"]);
    let mut decoder = HandleStreamDecoder::new(&table);
    assert_eq!(decoder.feed(""), "");
    assert_eq!(decoder.feed("see x-r"), "see x-");
    assert_eq!(decoder.feed("efe"), "refe");
    assert_eq!(decoder.feed(" ref-"), " ");
    assert_eq!(decoder.feed("1"), "");
    assert_eq!(decoder.feed(","), "page,");
    assert_eq!(decoder.feed("xref-1 "), "xref-1 ");
    // The word that a piece ends with is remembered.
    assert_eq!(decoder.feed("x"), "x");
    assert_eq!(decoder.feed("ref-1 "), "ref-1 ");
    assert_eq!(decoder.feed("ref-1"), "");
    assert_eq!(decoder.flush(), "page");
    // And forgotten at the end of the text.
    assert_eq!(decoder.feed("x"), "x");
    assert_eq!(decoder.flush(), "");
    assert_eq!(decoder.feed("ref-1."), "page.");
}

// CTX-14: a number without end is not held for ever
#[test]
fn a_number_without_end_is_released() {
    let table = table("ref-", 3, 1, &["page"]);
    let mut decoder = HandleStreamDecoder::new(&table);
    let mut released = decoder.feed("ref-");
    for _ in 0..1000 {
        released += &decoder.feed("0");
    }
    assert_eq!(released.len(), "ref-".len() + 1000);
    assert_eq!(decoder.flush(), "");
}

// CTX-14: a table may grow while a text comes in
#[test]
fn what_is_held_knows_what_was_registered_meanwhile() {
    let table = HandleTable::new("ref-", 0, 1);
    let mut decoder = HandleStreamDecoder::new(&table);
    assert_eq!(decoder.feed("ref-1"), "");
    table.register("page");
    assert_eq!(decoder.flush(), "page");
}

/// Prefixes: ordinary ones, one that overlaps itself, one that begins as no word does, CJK, none.
fn prefixes() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["i", "ref-", "c", "a-a-", "見", "$", "-", ""]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["1-", "1-1-", "a1-a", "1", "-1-"]).prop_map(str::to_owned),
        1 => "[ai1$-]{1,4}",
    ]
}

fn values() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[ai1$/-]{1,5}|[a見🙂é-]{1,4}|(ab-){1,4}|ref-[1-3]|\\$[01]", 0..8)
}

/// Texts of values, handles, and whatever is between.
fn texts(values: Vec<String>) -> impl Strategy<Value = (Vec<String>, String)> {
    let mut words = values.clone();
    words.extend(["", " ", "-", "1", "a", "i", "ref-", "1-", "見", "🙂", "/", "."].map(str::to_owned));
    let piece = prop_oneof![3 => prop::sample::select(words), 1 => "[ai1$/ -]{0,3}"];
    let text = prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat());
    (Just(values), text)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // CTX-12: what was encoded is decoded to itself, for every text without handles of the table
    #[test]
    fn encoding_is_undone_by_decoding(
        prefix in prefixes(),
        (values, text) in values().prop_flat_map(texts),
        (width, start) in (0_usize..3, 0_usize..12),
    ) {
        let table = table(&prefix, width, start, &values.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assume!(table.decode_known_text(&text) == text);
        let encoded = table.encode_known_text(&text);
        prop_assert_eq!(table.decode_known_text(&encoded), text, "through {:?}", encoded);
    }

    // CTX-14, CTX-57: however a text is cut
    #[test]
    fn pieces_are_decoded_as_the_whole(
        prefix in prefixes(),
        (values, text) in values().prop_flat_map(texts),
    ) {
        let table = table(&prefix, 0, 1, &values.iter().map(String::as_str).collect::<Vec<_>>());
        let text = table.encode_known_text(&text);
        let whole = table.decode_known_text(&text);
        for pieces in splits(&text) {
            prop_assert_eq!(&decoded(&table, &pieces), &whole, "{:?}", pieces);
        }
    }
}
