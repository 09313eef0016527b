//! The lines of one file that may be shown.

use std::io::{self, Read, Seek};

use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::expression::Expression;
use super::text::{Buffers, Cuts, PIECE, Text};
use crate::search::{Running, SHOWN_BYTES};

/// The memory that the lines before a match may take while they wait for it, beside what the longest
/// line needs: twice its length, since memory grows by doubling.
const CONTEXT_BYTES: usize = 1024 * 1024;

/// How many lines are shown before a match at most. They are looked for again with every piece of a
/// file that is read, so that any number would make a large file take for ever.
const MOST_BEFORE: usize = 10_000;

/// What is looked for in each file, and how much of it is of interest.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// How many matches to show at most.
    pub(super) limit: usize,
    /// Lines to show before a match, and after it.
    pub(super) before: usize,
    pub(super) after: usize,
    /// How long a shown line may be; 0 is any length.
    pub(super) line_bytes: usize,
}

impl Wanted {
    /// Whether lines are shown that do not match.
    pub(super) fn has_context(self) -> bool {
        self.before > 0 || self.after > 0
    }
}

/// A line as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: u64,
    pub(super) text: String,
    pub(super) is_match: bool,
}

/// What was found in one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// In ascending order: the first matches, and what is shown around them.
    pub(super) lines: Vec<Line>,
    /// How many of `lines` match; with too much context, how many of them would.
    pub(super) matches: usize,
    /// The memory that `lines` take.
    pub(super) bytes: usize,
    /// What a row takes beside the text of its line.
    row_overhead: usize,
    /// How many lines of the file match, also those that are not held.
    pub(super) total: usize,
    /// How many lines of the file were too long to be searched as a whole.
    pub(super) too_long: usize,
    /// Whether lines before a match are not among `lines` because they were too many.
    pub(super) incomplete: bool,
    /// Whether `lines` is empty because what stands around matches takes too much memory.
    pub(super) too_much_context: bool,
}

impl Lines {
    /// Keeps the first matches, at most `most`, with the lines around them, as far as they fit into
    /// `most_bytes`. `false`: some did not fit.
    pub(super) fn keep_first(&mut self, most: usize, most_bytes: usize, after: usize) -> bool {
        let (mut matches, mut bytes, mut last_shown) = (0, 0, 0);
        let overhead = self.row_overhead;
        let fitting = self.lines.iter_mut().take_while(|line| {
            bytes += line.text.len() + overhead;
            bytes <= most_bytes
        });
        let mut fit = 0;
        for line in fitting {
            fit += 1;
            if line.is_match && matches < most {
                matches += 1;
                last_shown = line.number.saturating_add(after as u64);
            } else {
                // A match too many is shown as what it is to the one before it.
                line.is_match = false;
            }
        }
        let all_fit = self.lines.get(fit).is_none_or(|line| line.number > last_shown && matches == most);
        self.lines.truncate(fit);
        self.lines.retain(|line| line.number <= last_shown);
        self.matches = matches;
        self.bytes = self.lines.iter().map(|line| line.text.len() + overhead).sum();
        all_fit
    }

    fn push(&mut self, line: Line) {
        self.bytes += line.text.len() + self.row_overhead;
        self.matches += usize::from(line.is_match);
        self.lines.push(line);
    }
}

/// Searches one file after the other.
pub(super) struct FileSearch {
    matcher: RegexMatcher,
    wanted: Wanted,
    /// For a file of which lines may be shown, and for one whose matches are only counted.
    showing: Searcher,
    counting: Searcher,
    buffers: Buffers,
}

impl FileSearch {
    pub(super) fn new(expression: Expression, wanted: Wanted) -> Self {
        let Expression { matcher, longest_line } = expression;
        // All of it may be searched at once, so that less is for an expression that takes long.
        let context_bytes = 2 * longest_line + CONTEXT_BYTES.min(longest_line.max(PIECE));
        let mut builder = SearcherBuilder::new();
        // Undecodable text and the ends of lines were dealt with before.
        builder.bom_sniffing(false).heap_limit(Some(context_bytes)).line_number(false);
        let counting = builder.build();
        let before = wanted.before.min(MOST_BEFORE);
        builder.line_number(true).before_context(before).after_context(wanted.after);
        let buffers = Buffers::new(longest_line);
        FileSearch { matcher, wanted, showing: builder.build(), counting, buffers }
    }

    /// What there is in a file; `None` when it is no text, cannot be read or the search is stopped.
    /// Lines are shown in rows that start with `row_path`; without, matches are only counted.
    pub(super) fn search(
        &mut self,
        mut file: impl Read + Seek,
        row_path: Option<&str>,
        running: &Running,
    ) -> Option<Lines> {
        match self.search_once(&mut file, row_path, running) {
            Err(TooMuchContext) => {
                file.rewind().ok()?;
                let mut found = self.search_once(&mut file, None, running).ok()??;
                found.matches = found.total.min(self.wanted.limit);
                found.too_much_context = true;
                Some(found)
            }
            Ok(found) => found,
        }
    }

    fn search_once(
        &mut self,
        file: &mut impl Read,
        row_path: Option<&str>,
        running: &Running,
    ) -> Result<Option<Lines>, TooMuchContext> {
        let cuts = Cuts::default();
        let text = Text::of(file, &mut self.buffers, &cuts, running);
        let Ok(Some(text)) = text else { return Ok(None) };
        let wanted = row_path.map(|_| self.wanted);
        let row_overhead = row_path.unwrap_or_default().len() + size_of::<Line>();
        let lines = Lines { row_overhead, ..Lines::default() };
        let mut found = Collector { wanted, cuts: &cuts, lines, last_match: 0 };
        let searcher = if row_path.is_some() { &mut self.showing } else { &mut self.counting };
        if searcher.search_reader(&self.matcher, text, &mut found).is_err() {
            // The memory that is allowed is enough for every line alone.
            let for_context = !cuts.unreadable.get() && !running.is_stopped() && wanted.is_some();
            return if for_context { Err(TooMuchContext) } else { Ok(None) };
        }
        let mut lines = found.lines;
        lines.too_long = cuts.lines();
        Ok(Some(lines))
    }
}

/// What stands around matches takes too much memory.
struct TooMuchContext;

/// Takes what the searcher finds in one file.
struct Collector<'a> {
    /// `None`: matches are only counted.
    wanted: Option<Wanted>,
    cuts: &'a Cuts,
    lines: Lines,
    /// The number of the last match that is held.
    last_match: u64,
}

impl Collector<'_> {
    fn take(&mut self, is_match: bool, number: Option<u64>, offset: u64, bytes: &[u8]) {
        let (Some(wanted), Some(number)) = (self.wanted, number) else { return };
        let more = self.lines.matches < wanted.limit;
        let near = self.lines.matches > 0 && number - self.last_match <= wanted.after as u64;
        if self.lines.bytes > SHOWN_BYTES || !(more || near) {
            return;
        }
        let is_match = is_match && more;
        let next = self.lines.lines.last().map_or(1, |last| last.number + 1);
        self.lines.incomplete |= wanted.before > MOST_BEFORE && number > next;
        let text = cut(bytes, self.cuts.missing_at(offset), wanted.line_bytes);
        self.lines.push(Line { number, text, is_match });
        if is_match {
            self.last_match = number;
        }
    }
}

impl Sink for &mut Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.lines.total += 1;
        self.take(true, found.line_number(), found.absolute_byte_offset(), found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        self.take(false, found.line_number(), found.absolute_byte_offset(), found.bytes());
        Ok(true)
    }
}

/// A line as text of at most `most` bytes, 0 being any number, of which `missing` more are not there.
fn cut(line: &[u8], missing: u64, most: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = String::from_utf8_lossy(line);
    let kept = if most == 0 { line.len() } else { line.floor_char_boundary(most) };
    let (kept, rest) = line.split_at(kept);
    match rest.len() as u64 + missing {
        0 => kept.to_owned(),
        more => format!("{kept} [… {more} more bytes]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grep::expression;
    use proptest::prelude::*;
    use std::io::Cursor;

    const WANTED: Wanted = Wanted { limit: 100, before: 0, after: 0, line_bytes: 4096 };

    fn search(expression: &str, wanted: Wanted, content: &[u8]) -> Lines {
        let mut files = FileSearch::new(expression::compile(expression).unwrap(), wanted);
        files.search(Cursor::new(content), Some("path"), &Running::default()).unwrap()
    }

    /// An expression for lines of that length.
    fn short_lines(expression: &str, longest_line: usize) -> Expression {
        Expression { longest_line, ..expression::compile(expression).unwrap() }
    }

    // BUILTIN-59: what is not shown is counted, and not held
    #[test]
    fn a_file_gives_as_many_lines_as_may_be_shown() {
        let content = "x\n".repeat(1000);
        let found = search("x", Wanted { limit: 3, ..WANTED }, content.as_bytes());
        assert_eq!((found.lines.len(), found.matches, found.total), (3, 3, 1000));
        let mut files = FileSearch::new(expression::compile("x").unwrap(), WANTED);
        let counted = files.search(Cursor::new(&content), None, &Running::default()).unwrap();
        assert_eq!((counted.lines.len(), counted.total), (0, 1000));
    }

    // BUILTIN-60, BUILTIN-99: context cannot take any amount of memory
    #[test]
    fn context_that_takes_too_much_memory_is_left_out_and_matches_are_counted() {
        let search = |before, after| {
            let wanted = Wanted { before, after, limit: 2, ..WANTED };
            let mut files = FileSearch::new(short_lines("x", 65_536), wanted);
            let line = [vec![b'y'; 1023], b"\n".to_vec()].concat();
            let content = [line.repeat(2 * CONTEXT_BYTES / line.len()), b"x\nx\nx".to_vec()].concat();
            files.search(Cursor::new(content), Some("path"), &Running::default()).unwrap()
        };
        let found = search(usize::MAX, 0);
        let counted = Lines { matches: 2, total: 3, too_much_context: true, ..Lines::default() };
        assert_eq!(Lines { row_overhead: 0, ..found }, counted);
        assert_eq!(search(1, usize::MAX).lines.len(), 4);
    }

    // BUILTIN-60, BUILTIN-99: what is missing before a match is known
    #[test]
    fn of_very_many_lines_before_a_match_the_last_are_shown() {
        for (lines, incomplete) in [(MOST_BEFORE, false), (MOST_BEFORE + 1, true)] {
            let content = ["\n".repeat(lines).as_str(), "x\n\nx"].concat();
            let found = search("x", Wanted { before: usize::MAX, ..WANTED }, content.as_bytes());
            assert_eq!((found.lines.len(), found.incomplete), (MOST_BEFORE + 3, incomplete));
            let found = search("x", Wanted { before: MOST_BEFORE, ..WANTED }, content.as_bytes());
            assert!(!found.incomplete, "that many are what was asked for");
        }
    }

    // BUILTIN-99
    #[test]
    fn the_longest_line_needs_no_more_memory_than_there_is() {
        for longest in [1, 65_536, 3_000_000] {
            let line = [vec![b'x'; longest - 1], b"y\n".to_vec()].concat();
            for before in [0, 1] {
                let wanted = Wanted { before, line_bytes: 4, ..WANTED };
                let mut files = FileSearch::new(short_lines("y$", longest), wanted);
                let content = Cursor::new(line.repeat(3));
                let found = files.search(content, Some("path"), &Running::default()).unwrap();
                assert_eq!((found.total, found.too_long, found.too_much_context), (3, 0, false), "{longest}");
            }
        }
    }

    // BUILTIN-65
    #[test]
    fn a_file_that_cannot_be_read_to_its_end_counts_for_nothing() {
        struct Broken(Cursor<Vec<u8>>);
        impl Read for Broken {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let length = self.0.read(out)?;
                if length == 0 { Err(io::Error::other("broken")) } else { Ok(length) }
            }
        }
        impl Seek for Broken {
            fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
                self.0.seek(to)
            }
        }
        for length in [10, 9000, 300_000] {
            for row_path in [None, Some("path")] {
                let mut files = FileSearch::new(expression::compile("x").unwrap(), WANTED);
                let file = Broken(Cursor::new(b"x\n".repeat(length)));
                assert_eq!(files.search(file, row_path, &Running::default()), None);
            }
        }
    }

    fn lines() -> impl Strategy<Value = Lines> {
        let line = (1u64..4, 0usize..5, any::<bool>());
        proptest::collection::vec(line, 0..12).prop_map(|parts| {
            let mut lines = Lines { row_overhead: 10, ..Lines::default() };
            let mut number = 0;
            for (step, length, is_match) in parts {
                number += step;
                lines.push(Line { number, text: "x".repeat(length), is_match });
            }
            lines
        })
    }

    proptest! {
        // BUILTIN-60, BUILTIN-99
        #[test]
        fn the_first_matches_are_kept_with_what_is_around_them(
            lines in lines(), most in 0usize..6, most_bytes in 0usize..200, after in 0usize..5,
        ) {
            let mut kept = Lines { lines: lines.lines.clone(), row_overhead: 10, ..Lines::default() };
            let all_fit = kept.keep_first(most, most_bytes, after);
            prop_assert_eq!(kept.matches, kept.lines.iter().filter(|line| line.is_match).count());
            prop_assert!(kept.matches <= most && kept.bytes <= most_bytes);
            let numbers = |lines: &[Line]| lines.iter().map(|line| line.number).collect::<Vec<_>>();
            // They are the start of what there was.
            prop_assert_eq!(numbers(&kept.lines), numbers(&lines.lines[..kept.lines.len()]));
            if let Some(last) = kept.lines.last() {
                let last_match = kept.lines.iter().rfind(|line| line.is_match).unwrap();
                prop_assert!(last.number <= last_match.number + after as u64);
            }
            if all_fit {
                let matching = lines.lines.iter().filter(|line| line.is_match).count();
                prop_assert_eq!(kept.matches, matching.min(most));
            }
        }
    }
}
