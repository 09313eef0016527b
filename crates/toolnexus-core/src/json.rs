//! JSON text that others wrote.

use std::borrow::Cow;

use memchr::memmem;

/// Replaces every half of a surrogate pair that stands alone by the replacement character.
///
/// Strings cut in the middle of an emoji, or made of bytes that are no UTF-8, are written by many
/// programs as a lone `\udXXX` escape. No Rust string can hold that, so a JSON parser refuses the
/// whole text; one lost character is the better loss. Borrowed when there is nothing to do.
///
/// ```
/// use toolnexus_core::json::repair_surrogates;
/// assert_eq!(&*repair_surrogates(br#""hello \ud83d""#), br#""hello \ufffd""#);
/// assert_eq!(&*repair_surrogates(br#""\ud83d\ude00 \\ud83d""#), br#""\ud83d\ude00 \\ud83d""#);
/// ```
pub fn repair_surrogates(json: &[u8]) -> Cow<'_, [u8]> {
    // The usual text has no surrogate escape at all: that is found out quickly.
    if memmem::find(json, b"\\ud").is_none() && memmem::find(json, b"\\uD").is_none() {
        return Cow::Borrowed(json);
    }
    let mut repaired: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(rest) = json.get(at..).filter(|rest| !rest.is_empty()) {
        let step = match (half(rest), rest) {
            (Some(Half::High), _) if rest.get(6..).and_then(half) == Some(Half::Low) => 12,
            (Some(_), _) => {
                let out = repaired.get_or_insert_with(|| json.to_vec());
                if let Some(escape) = out.get_mut(at + 2..at + 6) {
                    escape.copy_from_slice(b"fffd");
                }
                6
            }
            // An escaped backslash, quote or the like: its second character is no beginning.
            (None, [b'\\', _, ..]) => 2,
            (None, _) => 1,
        };
        at += step;
    }
    repaired.map_or(Cow::Borrowed(json), Cow::Owned)
}

#[derive(PartialEq)]
enum Half {
    High,
    Low,
}

/// The half of a surrogate pair that is escaped at the beginning of `text`.
fn half(text: &[u8]) -> Option<Half> {
    let [b'\\', b'u', b'd' | b'D', kind, third, fourth, ..] = text else { return None };
    if !third.is_ascii_hexdigit() || !fourth.is_ascii_hexdigit() {
        return None;
    }
    match kind {
        b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => Some(Half::High),
        b'c'..=b'f' | b'C'..=b'F' => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(json: &str) -> String {
        let repaired = repair_surrogates(json.as_bytes());
        serde_json::from_slice(&repaired).unwrap()
    }

    #[test]
    fn lone_halves_are_replaced_and_pairs_stay() {
        assert_eq!(read(r#""a\ud800b""#), "a\u{fffd}b");
        assert_eq!(read(r#""\udc00\ud83d""#), "\u{fffd}\u{fffd}");
        assert_eq!(read(r#""\ud83d\ud83d\ude00""#), "\u{fffd}😀");
        assert_eq!(read(r#""\uD83D\uDE00""#), "😀");
        assert_eq!(read(r#""\\ud800 \"\\\\ud800""#), "\\ud800 \"\\\\ud800");
        assert_eq!(read(r#""\ud7ff\ue000""#), "\u{d7ff}\u{e000}");
    }

    proptest! {
        // Whatever escapes a string is written with, it can be read afterwards, and what could be read before reads
        // the same.
        #[test]
        fn any_escapes_become_readable(units in proptest::collection::vec(any::<u16>(), 0..20)) {
            let json = format!("\"{}\"", units.iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>());
            prop_assert_eq!(read(&json), String::from_utf16_lossy(&units));
        }

        #[test]
        fn other_text_is_borrowed(text in ".*") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert!(matches!(repair_surrogates(json.as_bytes()), Cow::Borrowed(_)));
        }
    }
}
