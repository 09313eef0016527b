//! The lines of one file that may be shown.

use std::io::{self, Read};

use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::text::{Buffers, Cuts, Text};
use crate::search::Running;

/// The memory that the lines before a match may take while they wait for one.
const CONTEXT_BYTES: usize = 64 * 1024 * 1024;

/// The memory that the lines of a result may take; of more, the later ones are not shown.
pub(super) const SHOWN_BYTES: usize = 16 * 1024 * 1024;

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
    /// How many of `lines` match.
    pub(super) matches: usize,
    /// The memory that `lines` take.
    pub(super) bytes: usize,
    /// What a row takes beside the text of its line.
    row_overhead: usize,
    /// How many lines of the file match, also those that are not held.
    pub(super) total: usize,
    /// How many lines of the file were too long to be searched as a whole.
    pub(super) too_long: usize,
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
    pub(super) fn new(matcher: RegexMatcher, wanted: Wanted) -> Self {
        let mut builder = SearcherBuilder::new();
        // Undecodable text and the ends of lines were dealt with before.
        builder.bom_sniffing(false).heap_limit(Some(CONTEXT_BYTES)).line_number(false);
        let counting = builder.build();
        builder.line_number(true).before_context(wanted.before).after_context(wanted.after);
        FileSearch { matcher, wanted, showing: builder.build(), counting, buffers: Buffers::default() }
    }

    /// What there is in a file; `None` when it is no text, cannot be read or the search is stopped.
    /// Lines are shown in rows that start with `row_path`; without, matches are only counted.
    ///
    /// # Errors
    /// The lines around a match take too much memory.
    pub(super) fn search(
        &mut self,
        file: impl Read,
        row_path: Option<&str>,
        running: &Running,
    ) -> Result<Option<Lines>, String> {
        let cuts = Cuts::default();
        let text = Text::of(file, &mut self.buffers, &cuts, running);
        let Ok(Some(text)) = text else { return Ok(None) };
        let wanted = row_path.map(|_| self.wanted);
        let row_overhead = row_path.unwrap_or_default().len() + size_of::<Line>();
        let lines = Lines { row_overhead, ..Lines::default() };
        let mut found = Collector { wanted, cuts: &cuts, lines, last_match: 0 };
        let searcher = if row_path.is_some() { &mut self.showing } else { &mut self.counting };
        if let Err(error) = searcher.search_reader(&self.matcher, text, &mut found) {
            if cuts.unreadable.get() || running.is_stopped() {
                return Ok(None);
            }
            // A line alone is never that long.
            debug_assert!(self.wanted.has_context(), "{error}");
            return Err(format!(
                "the lines around a match take more than {CONTEXT_BYTES} bytes; ask for less context"
            ));
        }
        let mut lines = found.lines;
        lines.too_long = cuts.lines();
        Ok(Some(lines))
    }
}

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
