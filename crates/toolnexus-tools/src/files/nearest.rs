//! Why a text was not found: the lines of the file that come nearest to it.
//!
//! First the same text with other white space is looked for, which is what models get wrong most
//! often. Then the window of as many lines as the text has whose pairs of characters are most
//! like the text's. Both take time that grows with the file and not with the text.

use std::fmt;
use std::ops::Range;

use memchr::memmem;

/// Bytes of a file, or of a text, beyond which nothing is looked for.
const MOST_SEARCHED: usize = 16 * 1024 * 1024;

/// The share of equal pairs, in percent, from which lines are worth showing.
const NEAR: u64 = 60;

/// How many lines are shown, and how many bytes of them.
const MOST_SHOWN_LINES: usize = 40;
const MOST_SHOWN_BYTES: usize = 4096;

/// Lines of a file that are not what was looked for, but nearly. Shows as the text for the model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Near<'a> {
    text: &'a str,
    /// Counted from 0.
    lines: Range<usize>,
    /// Whether only white space differs.
    white_space: bool,
}

/// The lines of `text` nearest to `wanted`, if some are near at all.
pub(crate) fn nearest<'a>(text: &'a str, wanted: &str) -> Option<Near<'a>> {
    if !is_searched(text, wanted) {
        return None;
    }
    but_for_white_space(text, wanted).or_else(|| most_alike(text, wanted))
}

/// The lines of `text` nearest to the whole lines `wanted`: a part of a line is not the same but
/// for white space.
pub(crate) fn nearest_lines<'a>(text: &'a str, wanted: &str) -> Option<Near<'a>> {
    if !is_searched(text, wanted) {
        return None;
    }
    whole_lines_but_for_white_space(text, wanted).or_else(|| most_alike(text, wanted))
}

fn is_searched(text: &str, wanted: &str) -> bool {
    text.len() <= MOST_SEARCHED && wanted.len() <= MOST_SEARCHED
}

/// Where the lines of `wanted` stand one behind the other, with other white space in them.
fn whole_lines_but_for_white_space<'a>(text: &'a str, wanted: &str) -> Option<Near<'a>> {
    let squeezed = |text: &str| {
        let line = |line: &str| line.chars().filter(|c| !c.is_whitespace()).chain(['\n']).collect::<String>();
        text.lines().map(line).collect::<String>()
    };
    // With a line break before each, a match begins where a line does.
    let wanted = format!("\n{}", squeezed(wanted));
    if wanted.trim().is_empty() {
        return None;
    }
    let text_squeezed = format!("\n{}", squeezed(text));
    let start = memmem::find(text_squeezed.as_bytes(), wanted.as_bytes())?;
    let breaks = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let first = breaks(text_squeezed.get(..start).unwrap_or_default());
    let lines = first..first + breaks(&wanted) - 1;
    Some(Near { text, lines, white_space: true })
}

/// Where `wanted` stands with other white space, or without.
fn but_for_white_space<'a>(text: &'a str, wanted: &str) -> Option<Near<'a>> {
    let squeezed = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let wanted = squeezed(wanted);
    if wanted.is_empty() {
        return None;
    }
    let start = memmem::find(squeezed(text).as_bytes(), wanted.as_bytes())?;
    let first = line_of(text, start);
    let last = line_of(text, start + wanted.len() - 1);
    Some(Near { text, lines: first..last + 1, white_space: true })
}

/// The line in which the byte stands that has `before` bytes before it, white space not counted.
fn line_of(text: &str, before: usize) -> usize {
    let mut left = before;
    let mut line = 0;
    for character in text.chars() {
        if character == '\n' {
            line += 1;
        } else if !character.is_whitespace() {
            match left.checked_sub(character.len_utf8()) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    }
    line
}

/// The first of the windows with the greatest share of pairs in common.
fn most_alike<'a>(text: &'a str, wanted: &str) -> Option<Near<'a>> {
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = wanted.trim_matches(['\n', '\r']).lines().collect();
    let height = wanted.len().min(lines.len()).max(1);
    let mut alike = Alike::to(&wanted);
    let mut best = (0, 0);
    for (at, line) in lines.iter().enumerate() {
        alike.enter(line);
        if let Some(left) = at.checked_sub(height) {
            lines.get(left).into_iter().for_each(|line| alike.leave(line));
        }
        if at + 1 >= height {
            let percent = alike.percent();
            if percent > best.0 {
                best = (percent, at + 1 - height);
            }
        }
    }
    let (percent, start) = best;
    (percent >= NEAR).then_some(Near { text, lines: start..start + height, white_space: false })
}

/// How many pairs of neighbouring bytes a moving window shares with a text: the Dice coefficient
/// of both bags of pairs, kept up to date line by line.
struct Alike {
    wanted: Vec<u32>,
    window: Vec<u32>,
    wanted_total: u64,
    window_total: u64,
    shared: u64,
}

impl Alike {
    fn to(lines: &[&str]) -> Self {
        const PAIRS: usize = 1 << 16;
        let mut wanted = vec![0; PAIRS];
        let mut total = 0;
        for pair in lines.iter().flat_map(|line| pairs(line)) {
            wanted.get_mut(pair).into_iter().for_each(|count| *count += 1);
            total += 1;
        }
        Alike { wanted, window: vec![0; PAIRS], wanted_total: total, window_total: 0, shared: 0 }
    }

    fn enter(&mut self, line: &str) {
        for pair in pairs(line) {
            if let (Some(wanted), Some(count)) = (self.wanted.get(pair), self.window.get_mut(pair)) {
                self.shared += u64::from(*count < *wanted);
                *count += 1;
                self.window_total += 1;
            }
        }
    }

    fn leave(&mut self, line: &str) {
        for pair in pairs(line) {
            if let (Some(wanted), Some(count)) = (self.wanted.get(pair), self.window.get_mut(pair)) {
                *count -= 1;
                self.shared -= u64::from(*count < *wanted);
                self.window_total -= 1;
            }
        }
    }

    fn percent(&self) -> u64 {
        (200 * self.shared).checked_div(self.wanted_total + self.window_total).unwrap_or(0)
    }
}

/// The pairs of neighbouring bytes of a line, white space left out.
fn pairs(line: &str) -> impl Iterator<Item = usize> {
    let bytes = || line.bytes().filter(|byte| !byte.is_ascii_whitespace());
    bytes().zip(bytes().skip(1)).map(|(first, second)| usize::from(first) << 8 | usize::from(second))
}

impl fmt::Display for Near<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.lines;
        let (plural, s, numbers) = match end - start {
            1 => ("", "s", format!("{end}")),
            _ => ("s", "", format!("{}-{end}", start + 1)),
        };
        match self.white_space {
            true => write!(f, "line{plural} {numbers} differ{s} only in white space:")?,
            false => write!(f, "nearest line{plural} {numbers}:")?,
        }
        let mut room = MOST_SHOWN_BYTES;
        for (shown, line) in self.text.lines().skip(start).take(end - start).enumerate() {
            let part = line.get(..line.floor_char_boundary(room)).unwrap_or_default();
            if shown == MOST_SHOWN_LINES || part.is_empty() && !line.is_empty() {
                return write!(f, "\n[… {} more lines]", end - start - shown);
            }
            write!(f, "\n{part}")?;
            if part.len() < line.len() {
                return write!(f, "[… {} more bytes]", line.len() - part.len());
            }
            room -= part.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str, wanted: &str) -> Option<String> {
        nearest(text, wanted).map(|near| near.to_string())
    }

    const CODE: &str = "one = first(1)\n\n  two = second(2)\n  three = third(3)\nfour\n";

    // BUILTIN-50
    #[test]
    fn nothing_near_is_nothing_said() {
        for (text, wanted) in [
            ("alpha\nbeta\nalpha\n", "zzz"),
            ("", "alpha"),
            ("alpha", " \n "),
            ("alpha\nbeta\n", "something else entirely\nand more of it"),
            ("\n\n\n", "alpha"),
        ] {
            assert_eq!(nearest(text, wanted), None, "{text:?} {wanted:?}");
        }
    }

    // BUILTIN-50
    #[test]
    fn white_space_is_named_as_such() {
        for (wanted, expected) in [
            ("two=second(2)", "line 3 differs only in white space:\n  two = second(2)"),
            (
                "two = second(2)\nthree",
                "lines 3-4 differ only in white space:\n  two = second(2)\n  three = third(3)",
            ),
            ("two = second( 2)\n", "line 3 differs only in white space:\n  two = second(2)"),
            (
                "one = first(1)\n\n\n two",
                "lines 1-3 differ only in white space:\none = first(1)\n\n  two = second(2)",
            ),
        ] {
            assert_eq!(shown(CODE, wanted).unwrap(), expected);
        }
        let breaks = shown("a\nb\n", "a\r\nb\r\n").unwrap();
        assert_eq!(breaks, "lines 1-2 differ only in white space:\na\nb");
        let wide = shown("\u{a0}é\u{3000}ü\n", "é ü").unwrap();
        assert_eq!(wide, "line 1 differs only in white space:\n\u{a0}é\u{3000}ü");
    }

    // BUILTIN-50
    #[test]
    fn the_nearest_window_is_found() {
        assert_eq!(shown(CODE, "three = thirt(3)").unwrap(), "nearest line 4:\n  three = third(3)");
        assert_eq!(
            shown(CODE, "two = second(2)\n# a comment\nthree = third(3)\n").unwrap(),
            "nearest lines 2-4:\n\n  two = second(2)\n  three = third(3)"
        );
        assert_eq!(shown("same(1)\nsame(1)\n", "same(2)").unwrap(), "nearest line 1:\nsame(1)");
        assert_eq!(shown("function()", "function()\nand\n").unwrap(), "nearest line 1:\nfunction()");
    }

    // BUILTIN-50, D15
    #[test]
    fn what_is_shown_has_an_end() {
        let long = "é".repeat(10_000);
        let cut = shown(&format!("{long}\n"), &format!("x{long}")).unwrap();
        assert!(cut.len() < MOST_SHOWN_BYTES + 100 && cut.ends_with("more bytes]"), "{}", cut.len());
        let many = "line of text\n".repeat(100);
        let cut = shown(&many, &many.replace("text\n", "test\n")).unwrap();
        assert!(cut.starts_with("nearest lines 1-100:") && cut.ends_with("\n[… 60 more lines]"), "{cut}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        // BUILTIN-50: the lines named are the lines shown, and nothing panics
        #[test]
        fn the_lines_are_those_of_the_text(text in "([abé \t]{0,6}\r?\n){0,8}[ab]?", wanted in "[abé \t\r\n]{1,20}") {
            if let Some(near) = nearest(&text, &wanted) {
                let lines: Vec<&str> = text.lines().skip(near.lines.start).take(near.lines.len()).collect();
                prop_assert_eq!(lines.len(), near.lines.len());
                let shown = near.to_string();
                prop_assert_eq!(shown.split_once('\n').unwrap().1, lines.join("\n"));
                if near.white_space {
                    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
                    prop_assert!(squeeze(&lines.concat()).contains(&squeeze(&wanted)));
                }
            }
        }

        // BUILTIN-82: of whole lines, only whole lines are the same but for white space
        #[test]
        fn whole_lines_stay_whole(text in "([ab \t]{0,4}\r?\n){0,8}[ab]?", wanted in prop::collection::vec("[ab ]{0,4}", 1..4)) {
            let squeeze = |text: &str| text.split_whitespace().collect::<String>();
            let squeezed = |lines: &[&str]| lines.iter().map(|line| squeeze(line)).collect::<Vec<_>>();
            let lines: Vec<&str> = text.lines().collect();
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let expected = lines.windows(wanted.len()).position(|window| squeezed(window) == squeezed(&wanted));
            let expected = expected.filter(|_| wanted.iter().any(|line| !squeeze(line).is_empty()));
            let near = nearest_lines(&text, &(wanted.join("\n") + "\n")).filter(|near| near.white_space);
            prop_assert_eq!(near.map(|near| near.lines), expected.map(|at| at..at + wanted.len()));
        }

        // BUILTIN-50: a window that moves counts as one that is counted anew
        #[test]
        fn a_moving_window_counts_right(lines in prop::collection::vec("[ab]{0,5}", 1..8), wanted in "[ab]{0,8}", height in 1..4_usize) {
            let mut moving = Alike::to(&[&wanted]);
            for at in 0..lines.len() {
                moving.enter(&lines[at]);
                if at >= height {
                    moving.leave(&lines[at - height]);
                }
                let mut anew = Alike::to(&[&wanted]);
                lines[(at + 1).saturating_sub(height)..=at].iter().for_each(|line| anew.enter(line));
                prop_assert_eq!((moving.shared, moving.window_total), (anew.shared, anew.window_total));
            }
        }
    }
}
