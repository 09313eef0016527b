//! Text for people: cut to a line, and free of what could move a cursor or hide a word.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};

/// Whether a terminal would obey the character instead of showing it: control characters, and
/// those that turn the reading direction.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

fn shown(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(' '),
        _ => '\u{fffd}',
    }
}

fn without_hidden(text: &str, kept: &[char]) -> String {
    text.chars()
        .filter(|c| *c != '\r')
        .map(|c| if is_hidden(c) && !kept.contains(&c) { shown(c) } else { c })
        .collect()
}

/// Text of others, safe to show on a terminal, line breaks and tabs kept.
pub(crate) fn plain_lines(text: &str) -> Cow<'_, str> {
    if text.chars().any(|c| is_hidden(c) && !matches!(c, '\n' | '\t')) {
        Cow::Owned(without_hidden(text, &['\n', '\t']))
    } else {
        Cow::Borrowed(text)
    }
}

/// Text of others on one line, safe to show on a terminal.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_hidden) {
        let spaced: String = text.chars().map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c }).collect();
        Cow::Owned(without_hidden(&spaced, &[]))
    } else {
        Cow::Borrowed(text)
    }
}

/// The text on one line of at most `width` columns: runs of blanks become one, the end is cut.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    // Every column holds a character, so what is far beyond the width need not be looked at.
    let cut: String = text.trim_start().chars().take(width.saturating_mul(8).saturating_add(1)).collect();
    let words: Vec<&str> = cut.split_whitespace().collect();
    let line = without_hidden(&words.join(" "), &[]);
    console::truncate_str(&line, width, "…").into_owned()
}

/// A line whose blanks mean something, cut and made safe.
pub(crate) fn cut_line(line: &str, width: usize) -> String {
    console::truncate_str(&plain(line), width, "…").into_owned()
}

/// The first lines of a text, cut and made safe, and how many there are more.
pub(crate) fn excerpt(text: &str, lines: usize, width: usize) -> Vec<String> {
    let mut shown: Vec<String> = text.lines().take(lines).map(|line| cut_line(line, width)).collect();
    let left = text.lines().count().saturating_sub(lines);
    if left > 0 {
        shown.push(format!("… {} more", count(left, "line")));
    }
    shown
}

/// The arguments of a call, as in `path: "a.txt", limit: 3`.
pub(crate) fn arguments(args: &Map<String, Value>) -> String {
    let shown: Vec<String> = args.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    shown.join(", ")
}

/// A time for people: `340 ms`, `2.4 s`, `3 min 5 s`.
pub(crate) fn milliseconds(ms: u64) -> String {
    match ms {
        0 => "<1 ms".into(),
        1..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// [`milliseconds`] of a duration.
pub(crate) fn duration(time: Duration) -> String {
    milliseconds(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// A number with its thousands apart: `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 tool`, `3 tools`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number as u64), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_lose_their_power() {
        assert_eq!(plain_lines("a\x1b[31mb\n\tc\r\n"), "a␛[31mb\n\tc\n");
        assert_eq!(plain("a\nb\x07"), "a b␇");
        assert_eq!(plain_lines("safe\u{202e}txt"), "safe\u{fffd}txt");
        assert!(matches!(plain_lines("été\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_are_cut_by_columns() {
        assert_eq!(one_line("  a \n\n b\t c ", 20), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("日本語", 4), "日…");
        assert_eq!(one_line("", 4), "");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 7, 999, 1000, 59_999, 185_000].map(milliseconds),
            ["<1 ms", "7 ms", "999 ms", "1.0 s", "59.9 s", "3 min 5 s"]
        );
        assert_eq!((count(1, "tool"), count(2, "tool")), ("1 tool".into(), "2 tools".into()));
    }

    #[test]
    fn an_excerpt_says_what_it_leaves_out() {
        assert_eq!(excerpt("a\n  bcdef\nc\nd", 2, 5), ["a", "  bc…", "… 2 lines more"]);
        assert_eq!(excerpt("a", 2, 5), ["a"]);
    }

    proptest! {
        #[test]
        fn nothing_shown_can_steer_a_terminal(text in any::<String>(), width in 0_usize..60) {
            let line = one_line(&text, width);
            prop_assert!(!line.chars().any(is_hidden), "{line:?}");
            prop_assert!(console::measure_text_width(&line) <= width.max(1), "{line:?}");
            prop_assert!(!plain_lines(&text).chars().any(|c| is_hidden(c) && !matches!(c, '\n' | '\t')));
        }
    }
}
