//! A file as the text that is searched.
//!
//! [`Text`] stands between a file and the searcher and gives out what the lines of the file are by
//! definition: UTF-8, undecodable bytes replaced, each line without the `\r` at its end. It works on
//! a piece at a time: one that is so already passes through; another is copied and put right.
//!
//! A line must be in memory as a whole to be matched. Of one that is longer than [`LONGEST_LINE`],
//! only the start is given out, and how much is missing is told through [`Cuts`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;

use memchr::{memchr, memrchr};

use crate::search::Running;

/// How much of a file's start is searched for a NUL byte.
const BINARY_CHECK: usize = 8192;

/// How much is read at once.
pub(super) const PIECE: usize = 64 * 1024;

/// The bytes of a line that are searched: 16 MiB.
pub(super) const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// Memory that one text after the other uses.
pub(super) struct Buffers {
    /// What was read.
    raw: Vec<u8>,
    /// What was put right, when something had to be.
    repaired: Vec<u8>,
    longest_line: usize,
}

impl Buffers {
    /// For texts whose lines are given out to a length of `longest_line`.
    pub(super) fn new(longest_line: usize) -> Self {
        Buffers { raw: vec![0; PIECE], repaired: Vec::new(), longest_line }
    }
}

/// What a text kept back, for whoever reads it through a searcher.
#[derive(Default)]
pub(super) struct Cuts {
    /// The bytes that are missing at the end of a line, by the offset of its start in the text.
    lines: RefCell<BTreeMap<u64, u64>>,
    /// Whether the file could not be read to its end.
    pub(super) unreadable: Cell<bool>,
}

impl Cuts {
    /// How many bytes of the line that starts at an offset were left out.
    pub(super) fn missing_at(&self, offset: u64) -> u64 {
        self.lines.borrow().get(&offset).copied().unwrap_or(0)
    }

    /// How many lines there were of which something was left out.
    pub(super) fn lines(&self) -> usize {
        self.lines.borrow().len()
    }
}

/// The text of a file. Fails to read when the search is stopped.
pub(super) struct Text<'a, R> {
    source: R,
    buffers: &'a mut Buffers,
    cuts: &'a Cuts,
    running: &'a Running,
    /// How many bytes of `raw` were read, and how many of them, at the end, still wait for what
    /// follows: whether a `\r` ends its line, and what a character is.
    filled: usize,
    undecided: usize,
    at_end: bool,
    /// What is ready to be given out, in `raw` or in `repaired`.
    ready: Range<usize>,
    in_raw: bool,
    /// The length of the text so far, `ready` included.
    offset: u64,
    line: Line,
}

/// The line that is being read.
#[derive(Default)]
struct Line {
    /// Where it starts in the text.
    start: u64,
    /// Its length in the text so far.
    length: usize,
    /// What was left out of it.
    missing: u64,
}

impl<'a, R: Read> Text<'a, R> {
    /// The text of `source`; `None` when it is no text, but has a NUL byte near its start.
    ///
    /// # Errors
    /// It cannot be read, or the search was stopped.
    pub(super) fn of(
        source: R,
        buffers: &'a mut Buffers,
        cuts: &'a Cuts,
        running: &'a Running,
    ) -> io::Result<Option<Self>> {
        let mut text = Text {
            source,
            buffers,
            cuts,
            running,
            filled: 0,
            undecided: 0,
            at_end: false,
            ready: 0..0,
            in_raw: true,
            offset: 0,
            line: Line::default(),
        };
        while text.filled < BINARY_CHECK && !text.at_end {
            text.read_more()?;
        }
        text.undecided = text.filled;
        let start = text.buffers.raw.get(..text.filled.min(BINARY_CHECK)).unwrap_or_default();
        Ok(if memchr(0, start).is_some() { None } else { Some(text) })
    }

    /// Reads once, if there is room.
    fn read_more(&mut self) -> io::Result<()> {
        if self.running.is_stopped() {
            return Err(io::Error::other("the search was stopped"));
        }
        let room = self.buffers.raw.get_mut(self.filled..).unwrap_or_default();
        if room.is_empty() {
            return Ok(());
        }
        match self.source.read(room) {
            Ok(0) => self.at_end = true,
            Ok(length) => self.filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                self.cuts.unreadable.set(true);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes the next piece ready. `false`: there is none.
    fn next_piece(&mut self) -> io::Result<bool> {
        loop {
            self.buffers.raw.copy_within(self.filled - self.undecided..self.filled, 0);
            self.filled = self.undecided;
            if !self.at_end {
                self.read_more()?;
            }
            self.put_right();
            self.cut_long_lines();
            if !self.ready.is_empty() {
                return Ok(true);
            }
            if self.at_end && self.filled == self.undecided {
                return Ok(false);
            }
        }
    }

    fn put_right(&mut self) {
        let Buffers { raw, repaired, .. } = &mut *self.buffers;
        let read = raw.get(..self.filled).unwrap_or_default();
        self.undecided = if self.at_end { 0 } else { undecided_end(read) };
        let piece = read.get(..self.filled - self.undecided).unwrap_or_default();
        self.in_raw = memchr(b'\r', piece).is_none() && std::str::from_utf8(piece).is_ok();
        if self.in_raw {
            self.ready = 0..piece.len();
            return;
        }
        repaired.clear();
        for chunk in piece.utf8_chunks() {
            push_lines(repaired, chunk.valid().as_bytes());
            if !chunk.invalid().is_empty() {
                repaired.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
        if self.at_end && piece.ends_with(b"\r") {
            // A line that is nothing but its end is a line still.
            repaired.pop();
            repaired.push(b'\n');
        }
        self.ready = 0..repaired.len();
    }

    /// Leaves out of what is ready what makes a line too long, and keeps account of lines.
    fn cut_long_lines(&mut self) {
        let longest = self.buffers.longest_line;
        let ready = self.ready();
        if ready.len() + self.line.length <= longest {
            match memrchr(b'\n', ready) {
                None => self.line.length += ready.len(),
                Some(end) => {
                    let length = ready.len() - end - 1;
                    self.line = Line { start: self.offset + end as u64 + 1, length, missing: 0 };
                }
            }
            self.offset += self.ready.len() as u64;
            return;
        }
        let whole = ready.to_vec();
        let short = &mut self.buffers.repaired;
        short.clear();
        for piece in whole.split_inclusive(|byte| *byte == b'\n') {
            let content = std::str::from_utf8(piece.strip_suffix(b"\n").unwrap_or(piece)).unwrap_or_default();
            // Once something is left out, so is what follows.
            let room = if self.line.missing > 0 { 0 } else { longest - self.line.length };
            let (kept, rest) = content.split_at(content.floor_char_boundary(room));
            short.extend_from_slice(kept.as_bytes());
            self.line.length += kept.len();
            if !rest.is_empty() {
                self.line.missing += rest.len() as u64;
                self.cuts.lines.borrow_mut().insert(self.line.start, self.line.missing);
            }
            if piece.ends_with(b"\n") {
                short.push(b'\n');
                self.line = Line { start: self.offset + short.len() as u64, length: 0, missing: 0 };
            }
        }
        self.offset += short.len() as u64;
        self.ready = 0..short.len();
        self.in_raw = false;
    }

    fn ready(&self) -> &[u8] {
        let place = if self.in_raw { &self.buffers.raw } else { &self.buffers.repaired };
        place.get(self.ready.clone()).unwrap_or_default()
    }
}

impl<R: Read> Read for Text<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.ready.is_empty() && !self.next_piece()? {
            return Ok(0);
        }
        let length = self.ready().read(out)?;
        self.ready.start += length;
        Ok(length)
    }
}

/// How many bytes at the end can only be understood together with what follows.
fn undecided_end(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\r") {
        return 1;
    }
    let is_started = |length: &usize| {
        let end = bytes.len().checked_sub(*length).and_then(|start| bytes.get(start..)).unwrap_or_default();
        let error = std::str::from_utf8(end).err();
        error.is_some_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=3).find(is_started).unwrap_or(0)
}

/// Appends lines, each without the `\r` at its end.
fn push_lines(to: &mut Vec<u8>, lines: &[u8]) {
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            None => to.extend_from_slice(line),
            Some(content) => {
                to.extend_from_slice(content);
                to.push(b'\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives out a text in pieces of certain lengths.
    struct Pieces<'a>(&'a [u8], Vec<usize>);

    impl Read for Pieces<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let most = self.1.pop().unwrap_or(usize::MAX).min(out.len());
            self.0.read(&mut out[..most])
        }
    }

    fn text_of(content: &[u8], pieces: Vec<usize>, buffers: &mut Buffers, cuts: &Cuts) -> Option<Vec<u8>> {
        let running = Running::default();
        let mut text = Text::of(Pieces(content, pieces), buffers, cuts, &running).unwrap()?;
        let mut all = Vec::new();
        text.read_to_end(&mut all).unwrap();
        Some(all)
    }

    /// The lines by definition.
    fn lines_of(content: &[u8]) -> Vec<String> {
        let decoded = String::from_utf8_lossy(content);
        let mut lines: Vec<&str> = decoded.split('\n').collect();
        if lines.last() == Some(&"") {
            lines.pop();
        }
        lines.into_iter().map(|line| line.strip_suffix('\r').unwrap_or(line).to_owned()).collect()
    }

    fn content() -> impl Strategy<Value = Vec<u8>> {
        let odd = prop_oneof![
            Just(b"\r".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just("é".as_bytes().to_vec()),
            Just("😀".as_bytes().to_vec()),
            Just(vec![0xf0, 0x9f, 0x98]),
            Just(vec![0xe2, 0x82]),
            Just(vec![0xff]),
            Just(b"abc".to_vec()),
            proptest::collection::vec(1u8.., 0..4),
        ];
        proptest::collection::vec(odd, 0..24).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        // BUILTIN-58, BUILTIN-65: wherever the reads end
        #[test]
        fn a_text_is_its_lines(content in content(), pieces in proptest::collection::vec(1usize..9, 0..40)) {
            // The first bytes are looked at together, so what is to be cut apart comes behind them.
            for start in [0, BINARY_CHECK] {
                let mut whole = vec![b'x'; start];
                whole.extend(&content);
                let mut buffers = Buffers { raw: vec![0; BINARY_CHECK + 8], ..Buffers::new(LONGEST_LINE) };
                let cuts = Cuts::default();
                let mut pieces = pieces.clone();
                pieces.push(start.max(1));
                let text = text_of(&whole, pieces, &mut buffers, &cuts).unwrap();
                let text = String::from_utf8(text).unwrap();
                // What is searched has no other ends of lines than `\n`.
                let lines: Vec<&str> = text.strip_suffix('\n').unwrap_or(&text).split('\n').collect();
                let expected = lines_of(&whole);
                if expected.is_empty() {
                    prop_assert_eq!(text, "");
                } else {
                    prop_assert_eq!(lines, expected);
                }
                prop_assert_eq!(cuts.lines(), 0);
            }
        }

        // BUILTIN-99: what is left out of a long line is counted
        #[test]
        fn a_line_that_is_too_long_is_cut_and_the_rest_counted(
            content in content(), pieces in proptest::collection::vec(1usize..9, 0..40), longest in 1usize..12,
        ) {
            let mut buffers = Buffers { raw: vec![0; BINARY_CHECK], ..Buffers::new(longest) };
            let cuts = Cuts::default();
            let text = text_of(&content, pieces, &mut buffers, &cuts).unwrap();
            let text = String::from_utf8(text).unwrap();
            let mut offset = 0;
            let mut cut = 0;
            for line in lines_of(&content) {
                let kept = &line[..line.floor_char_boundary(longest)];
                prop_assert_eq!(text.get(offset..offset + kept.len()), Some(kept));
                prop_assert_eq!(cuts.missing_at(offset as u64), (line.len() - kept.len()) as u64);
                cut += usize::from(kept.len() < line.len());
                offset += kept.len() + 1;
            }
            prop_assert!(text.len() == offset || text.len() + 1 == offset || offset == 0);
            prop_assert_eq!(cuts.lines(), cut);
        }
    }

    // BUILTIN-65
    #[test]
    fn a_nul_byte_near_the_start_makes_it_no_text() {
        let mut buffers = Buffers::new(LONGEST_LINE);
        for (at, is_text) in [(0, false), (BINARY_CHECK - 1, false), (BINARY_CHECK, true)] {
            let mut content = vec![b'x'; at];
            content.push(0);
            let text = text_of(&content, vec![7; 100], &mut buffers, &Cuts::default());
            assert_eq!(text.is_some(), is_text, "{at}");
        }
    }

    // BUILTIN-19: within one file
    #[test]
    fn a_stopped_search_reads_no_further() {
        let running = Running::default();
        let (mut buffers, cuts) = (Buffers::new(LONGEST_LINE), Cuts::default());
        let mut text = Text::of(io::repeat(b'x'), &mut buffers, &cuts, &running).unwrap().unwrap();
        let mut some = [0; 100];
        text.read_exact(&mut some).unwrap();
        running.stop();
        assert!(text.read_to_end(&mut Vec::new()).is_err());
        assert!(!cuts.unreadable.get());
    }
}
