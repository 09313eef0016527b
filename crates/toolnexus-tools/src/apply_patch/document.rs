//! A file as lines, and hunks put into it.
//!
//! A [`Document`] has a cursor: behind the result of the last hunk. The lines before and behind it lie on two
//! stacks whose tops meet at the cursor, so that hunks in the order of the file cost the lines between them
//! and no more, however long the file is. Hunks in another order cost more; the document counts how much.

use std::collections::HashSet;
use std::iter::{Chain, Rev};
use std::slice;

use super::parse::{Hunk, HunkLine};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Bytes of a text that take about as long to read and to write again as a line takes to pass over.
const BYTES_PER_LINE: u64 = 16;

/// A text that is being changed. Untouched lines keep every byte.
pub(super) struct Document<'a> {
    /// Stands apart from the first line, so that a patch need not have it.
    byte_order_mark: bool,
    /// The lines before the cursor.
    before: Vec<Line<'a>>,
    /// The lines behind the cursor, the next one last.
    behind: Vec<Line<'a>>,
    /// The end of added lines: that of most lines.
    end: &'static str,
    /// Whether the last line gets an end.
    final_newline: bool,
    /// Every line there ever was, trimmed: what is no anchor needs no search. Made for the first anchor.
    known: Option<HashSet<&'a str>>,
    /// How many lines were passed over so far, reading them included; a long line counts as several.
    passed: u64,
}

/// Lines over the cursor.
type Lines<'d, 'a> = Chain<slice::Iter<'d, Line<'a>>, Rev<slice::Iter<'d, Line<'a>>>>;

#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    /// Without a line break and without a carriage return before it.
    text: &'a str,
    /// What the text had behind it: `\n` or `\r\n`; at the end of the file also nothing, or `\r`.
    end: &'a str,
}

impl<'a> Line<'a> {
    /// Cuts the text of a line from its end.
    fn of(line: &'a str) -> Self {
        let text = line.strip_suffix('\n').unwrap_or(line);
        let text = text.strip_suffix('\r').unwrap_or(text);
        let end = line.get(text.len()..).unwrap_or_default();
        Line { text, end }
    }
}

impl<'a> Document<'a> {
    pub(super) fn new(content: &'a str) -> Self {
        let (byte_order_mark, text) = match content.strip_prefix(BYTE_ORDER_MARK) {
            Some(text) => (true, text),
            None => (false, content),
        };
        let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let mut behind: Vec<Line<'a>> = Vec::with_capacity(lines + 1);
        behind.extend(text.split_inclusive('\n').map(Line::of));
        let windows = behind.iter().filter(|line| line.end == "\r\n").count();
        let unix = lines - windows;
        behind.reverse();
        Document {
            byte_order_mark,
            before: Vec::new(),
            behind,
            end: if windows > unix { "\r\n" } else { "\n" },
            final_newline: text.is_empty() || text.ends_with('\n'),
            known: None,
            passed: lines as u64 + text.len() as u64 / BYTES_PER_LINE,
        }
    }

    /// How many lines it took to get here since this was last asked.
    pub(super) fn take_passed(&mut self) -> u64 {
        std::mem::take(&mut self.passed)
    }

    /// Puts a hunk in its place and the cursor behind it. False, and nothing changed, when it has none.
    pub(super) fn apply(&mut self, hunk: &Hunk<'a>) -> bool {
        let start = self.behind_anchor(hunk.anchor);
        if self.put(&hunk.lines, start) {
            return true;
        }
        // What sets a hunk apart from the next may have been taken for context.
        let kept =
            hunk.lines.iter().rposition(|line| *line != HunkLine::Context("")).map_or(0, |last| last + 1);
        match hunk.lines.get(..kept) {
            Some(lines) if kept < hunk.lines.len() => self.put(lines, start),
            _ => false,
        }
    }

    fn put(&mut self, lines: &[HunkLine<'a>], start: usize) -> bool {
        let wanted: Vec<&str> = lines.iter().filter_map(|line| self.wanted(*line)).collect();
        let place = if wanted.is_empty() {
            // Nothing says where: at the end.
            Some(self.len())
        } else {
            let block = Block::new(wanted);
            self.search(start, |lines| block.find(lines.map(|line| line.text)))
        };
        let Some(place) = place else { return false };
        self.seek(place);
        for line in lines {
            match line {
                HunkLine::Context(_) => self.before.extend(self.behind.pop()),
                HunkLine::Removed(_) => drop(self.behind.pop()),
                HunkLine::Added(text) => self.add(text),
            }
        }
        self.passed += lines.len() as u64;
        true
    }

    /// Where `find` finds something, counted from the top: from `start` on, else from the top on.
    fn search(&mut self, start: usize, find: impl Fn(Lines<'_, 'a>) -> Option<usize>) -> Option<usize> {
        for start in [start, 0] {
            let found = find(self.lines_from(start));
            let found = found.map(|at| start + at);
            self.passed += (found.unwrap_or_else(|| self.len()) - start) as u64;
            if found.is_some() || start == 0 {
                return found;
            }
        }
        None
    }

    fn len(&self) -> usize {
        self.before.len() + self.behind.len()
    }

    /// What a line of a hunk expects of the file.
    fn wanted(&self, line: HunkLine<'a>) -> Option<&'a str> {
        match line {
            HunkLine::Context(text) | HunkLine::Removed(text) => Some(self.without_mark(text)),
            HunkLine::Added(_) => None,
        }
    }

    fn add(&mut self, text: &'a str) {
        let text = self.without_mark(text);
        if let Some(known) = &mut self.known {
            known.insert(text.trim());
        }
        self.before.push(Line { text, end: self.end });
    }

    /// A line as it stands in a file whose byte order mark is kept apart.
    fn without_mark(&self, text: &'a str) -> &'a str {
        if self.byte_order_mark { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text }
    }

    /// Where the search for a hunk starts: behind its anchor, or at the cursor.
    fn behind_anchor(&mut self, anchor: &str) -> usize {
        let cursor = self.before.len();
        if anchor.is_empty() {
            return cursor;
        }
        let (before, behind) = (&self.before, &self.behind);
        let lines = || before.iter().chain(behind).map(|line| line.text.trim()).collect();
        if !self.known.get_or_insert_with(lines).contains(anchor) {
            return cursor;
        }
        let found = self.search(cursor, |mut lines| lines.position(|line| line.text.trim() == anchor));
        found.map_or(cursor, |at| at + 1)
    }

    /// The lines from one on, counted from 0, over the cursor.
    fn lines_from(&self, start: usize) -> Lines<'_, 'a> {
        let skipped = start.saturating_sub(self.before.len());
        let before = self.before.get(start..).unwrap_or_default();
        let behind = self.behind.get(..self.behind.len().saturating_sub(skipped)).unwrap_or_default();
        before.iter().chain(behind.iter().rev())
    }

    fn seek(&mut self, place: usize) {
        self.passed += place.abs_diff(self.before.len()) as u64;
        if let Some(back) = self.before.len().checked_sub(place) {
            let lines = self.before.drain(self.before.len() - back..);
            self.behind.extend(lines.rev());
        } else {
            let forth = self.behind.len().saturating_sub(place - self.before.len());
            let lines = self.behind.drain(forth..);
            self.before.extend(lines.rev());
        }
    }

    /// The text as it is now.
    pub(super) fn text(&self) -> String {
        let size = self.lines_from(0).map(|line| line.text.len() + 2).sum::<usize>();
        let mut text = String::with_capacity(size + BYTE_ORDER_MARK.len_utf8());
        text.extend(self.byte_order_mark.then_some(BYTE_ORDER_MARK));
        let mut lines = self.lines_from(0).peekable();
        while let Some(line) = lines.next() {
            text.push_str(line.text);
            let ended = line.end.ends_with('\n');
            match (lines.peek().is_some() || self.final_newline, line.end) {
                (true, end) if ended => text.push_str(end),
                // The line was the last one and is it no more.
                (true, "\r") => text.push_str("\r\n"),
                (true, _) => text.push_str(self.end),
                // The line has become the last one of a text that ends without a line break.
                (false, _) if ended => {}
                (false, end) => text.push_str(end),
            }
        }
        text
    }
}

/// Lines to find one behind the other, in time proportional to the lines searched whatever they repeat
/// (Knuth, Morris and Pratt).
struct Block<'b> {
    lines: Vec<&'b str>,
    /// For each line: how many lines up to it are also the block's first.
    overlaps: Vec<usize>,
}

impl<'b> Block<'b> {
    fn new(lines: Vec<&'b str>) -> Self {
        let mut block = Block { overlaps: Vec::with_capacity(lines.len()), lines };
        let mut matched = 0;
        for at in 0..block.lines.len() {
            if let (Some(line), true) = (block.lines.get(at), at > 0) {
                matched = block.step(matched, line);
            }
            block.overlaps.push(matched);
        }
        block
    }

    /// How many lines match up to `line`, when `matched` did before it.
    fn step(&self, mut matched: usize, line: &str) -> usize {
        loop {
            if self.lines.get(matched).is_some_and(|wanted| *wanted == line) {
                return matched + 1;
            }
            match matched.checked_sub(1).and_then(|last| self.overlaps.get(last)) {
                Some(overlap) => matched = *overlap,
                None => return 0,
            }
        }
    }

    /// How many lines stand before the first place.
    fn find<'t>(&self, lines: impl Iterator<Item = &'t str>) -> Option<usize> {
        let mut matched = 0;
        for (at, line) in lines.enumerate() {
            matched = self.step(matched, line);
            if matched == self.lines.len() {
                return Some(at + 1 - matched);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::{Patch, Section};
    use super::*;
    use proptest::prelude::*;

    /// The text after an update with this body; `None` when a hunk has no place.
    fn updated(text: &str, body: &str) -> Option<String> {
        let patch = format!("*** Begin Patch\n*** Update File: a\n{body}\n*** End Patch");
        let Section::Update { hunks, .. } = Patch::parse(&patch).unwrap().sections.swap_remove(0) else {
            panic!("no update");
        };
        let mut document = Document::new(text);
        hunks.iter().all(|hunk| document.apply(hunk)).then(|| document.text())
    }

    fn after(text: &str, body: &str) -> String {
        updated(text, body).unwrap()
    }

    // BUILTIN-82
    #[test]
    fn a_block_of_whole_lines_is_replaced() {
        assert_eq!(after("a\nb\nc\n", " a\n-b\n+B\n c"), "a\nB\nc\n");
        assert_eq!(after("a\nb\nc\n", "-a\n-b\n-c"), "");
        assert_eq!(after("a\nb\n", "-b\n+$& \\1 $1"), "a\n$& \\1 $1\n");
        assert_eq!(after("a\nb\n", "-a\n+1\n b\n+2"), "1\nb\n2\n");
        // Not a part of a line, not lines apart, not another case, no trimming.
        for body in ["-a", "-ab\n-d", "-ABC", "- abc"] {
            assert_eq!(updated("abc\nx\nd\n", body), None, "{body}");
        }
    }

    // BUILTIN-82
    #[test]
    fn the_search_goes_forward_first_and_then_from_the_top() {
        assert_eq!(after("a\nb\na\n", "-a\n+x"), "x\nb\na\n");
        assert_eq!(after("a\nb\na\n", "@@\n-b\n+y\n@@\n-a\n+x"), "a\ny\nx\n");
        assert_eq!(after("a\nb\nc\n", "@@\n-c\n+z\n@@\n-a\n+x"), "x\nb\nz\n");
        // Behind the result of the last one, not in it.
        assert_eq!(after("a\na\n", "@@\n-a\n+a\n+1\n@@\n-a\n+2"), "a\n1\n2\n");
        // From the top includes results, and places across the last one's end.
        assert_eq!(after("a\nb\nc\n", "@@\n-a\n+x\n@@\n-x\n-b\n+y"), "y\nc\n");
        assert_eq!(after("a\nb\nc\n", "@@\n-a\n+x\n b\n@@\n b\n-c"), "x\nb\n");
    }

    // BUILTIN-82
    #[test]
    fn repeated_lines_are_searched_whole() {
        assert_eq!(after("a\na\na\nb\n", " a\n a\n-b\n+c"), "a\na\na\nc\n");
        assert_eq!(after("a\nb\na\nb\na\nc\n", " a\n b\n a\n-c"), "a\nb\na\nb\na\n");
    }

    // BUILTIN-82, BUILTIN-83
    #[test]
    fn the_state_of_the_final_newline_is_kept() {
        assert_eq!(after("a\nb", "-b\n+c"), "a\nc");
        assert_eq!(after("a\nb", "-b"), "a");
        assert_eq!(after("a\nb", "-a"), "b");
        assert_eq!(after("a\nb\n", "-b"), "a\n");
        assert_eq!(after("a\nb", "+c\n+d"), "a\nb\nc\nd");
        assert_eq!(after("a\nb\n", "+c"), "a\nb\nc\n");
        assert_eq!(after("", "+c"), "c\n");
        assert_eq!(after("\n", "+c"), "\nc\n");
        assert_eq!(after("a\n", "@@\n-a\n@@\n+b"), "b\n");
    }

    // BUILTIN-83
    #[test]
    fn lines_without_context_are_appended() {
        assert_eq!(after("a\nb\n", "@@\n-a\n+x\n@@\n+c\n@@\n-b\n+y"), "x\ny\nc\n");
        assert_eq!(after("a\nb\n", "@@ a\n+c"), "a\nb\nc\n");
    }

    // BUILTIN-86
    #[test]
    fn an_anchor_says_where_to_search() {
        let text = "one\n  x\ntwo\n  x\n";
        assert_eq!(after(text, "@@ two\n-  x\n+  y"), "one\n  x\ntwo\n  y\n");
        assert_eq!(after(text, "@@ x\n-  x\n+  y"), "one\n  x\ntwo\n  y\n");
        assert_eq!(after(text, "@@   two  \n-  x\n+  y"), "one\n  x\ntwo\n  y\n");
        // What is no line is ignored; what does not match behind it is searched from the top.
        assert_eq!(after(text, "@@ -1,3 +1,4 @@\n-  x\n+  y"), "one\n  y\ntwo\n  x\n");
        assert_eq!(after(text, "@@ two\n-one\n+1"), "1\n  x\ntwo\n  x\n");
        // The next such line, or one before; one that was added counts, one that was removed does not.
        let text = "f\na\nf\na\n";
        assert_eq!(after(text, "@@ f\n-a\n+1\n@@ f\n-a\n+2"), "f\n1\nf\n2\n");
        assert_eq!(after(text, "@@\n f\n-a\n f\n-a\n+z\n@@ f\n+y\n f"), "f\ny\nf\nz\n");
        assert_eq!(after("a\nb\na\n", "@@ b\n-b\n+c\n@@ c\n-a\n+x"), "a\nc\nx\n");
        assert_eq!(after("a\nb\na\n", "@@ b\n-b\n+c\n+a\n@@ b\n-a\n+x"), "a\nc\na\nx\n");
    }

    // BUILTIN-86
    #[test]
    fn empty_lines_at_the_end_of_a_hunk_may_be_missing() {
        assert_eq!(after("a\nb\n", "-a\n+x\n\n \n"), "x\nb\n");
        assert_eq!(after("a\n\nb\n", "-b\n+y\n\n@@\n-a\n+x\n\n"), "x\n\ny\n");
        assert_eq!(after("a\nb\na\n\n", "-a\n+x\n"), "a\nb\nx\n\n", "where they are, they count");
        assert_eq!(updated("a\nb\n", "\n-a\n+x"), None, "only at the end");
        assert_eq!(after("a\n", "@@ a\n+x\n \n"), "a\nx\n");
    }

    // BUILTIN-86
    #[test]
    fn line_ends_are_no_difference_and_added_lines_take_the_files() {
        assert_eq!(after("a\r\nb\r\nc\r\n", " a\n-b\n+B\n c"), "a\r\nB\r\nc\r\n");
        assert_eq!(after("a\nb\nc\n", " a\r\n-b\r\n+B\r\n c\r"), "a\nB\nc\n");
        assert_eq!(after("a\r\nb", "+c"), "a\r\nb\r\nc");
        assert_eq!(after("a\r\nb\r\n", "-b"), "a\r\n");
        assert_eq!(after("a\r\nb", "-b"), "a");
        // Most lines decide; untouched ones stay as they are, also in the context.
        assert_eq!(after("a\r\nb\nc\r\n", " b\n+x\n c"), "a\r\nb\nx\r\nc\r\n");
        assert_eq!(after("a\r\nb\n", "+x"), "a\r\nb\nx\n");
        assert_eq!(after("a\rb\nc\r", "+x"), "a\rb\nc\r\nx");
    }

    #[test]
    fn a_byte_order_mark_stays_and_need_not_be_in_the_patch() {
        for first in ["a", "\u{feff}a"] {
            assert_eq!(after("\u{feff}a\nb\n", &format!("-{first}\n+x\n b")), "\u{feff}x\nb\n");
            assert_eq!(after("\u{feff}a\nb\n", &format!("+{first}\n b")), "\u{feff}a\na\nb\n");
        }
        assert_eq!(after("\u{feff}", "+a"), "\u{feff}a\n");
    }

    // Takes a minute if a hunk costs more than the lines it passes, or an anchor that is no line is searched.
    #[test]
    fn many_hunks_in_order_take_their_lines_time() {
        let old: String = (0..20_000).map(|at| format!("line {at}\n}}\n")).collect();
        let new: String = (0..20_000).map(|at| format!("row {at}\n}}\n")).collect();
        let hunk = |at| format!("@@ -{},2 +{},2 @@\n-line {at}\n+row {at}\n }}\n", at * 2, at * 2);
        let body: String = (0..20_000).map(hunk).collect();
        assert_eq!(after(&old, body.trim_end()), new);
        // Lines that are all the same, and a block that nearly matches everywhere.
        let same = "a\n".repeat(20_000);
        let block = " a\n".repeat(10_000);
        assert_eq!(updated(&same, &format!("{block}-b")), None);
    }

    // BUILTIN-82: what is passed over is counted, so that there can be an end to it
    #[test]
    fn hunks_in_order_pass_each_line_a_few_times() {
        let text: String = (0..1000).map(|at| format!("{at}\n")).collect();
        let passed = |order: &mut dyn Iterator<Item = usize>| {
            let body: String = order.map(|at| format!("@@\n-{at}\n+x\n")).collect();
            let patch = format!("*** Begin Patch\n*** Update File: a\n{body}*** End Patch");
            let Section::Update { hunks, .. } = Patch::parse(&patch).unwrap().sections.swap_remove(0) else {
                panic!("no update");
            };
            let mut document = Document::new(&text);
            assert!(hunks.iter().all(|hunk| document.apply(hunk)));
            document.take_passed()
        };
        let forward = passed(&mut (0..1000));
        let backward = passed(&mut (0..1000).rev());
        assert!(forward < 10_000, "{forward}");
        let long = "x".repeat(1_600_000);
        assert_eq!(Document::new(&long).take_passed(), 100_000, "a file of one line costs its bytes");
        assert!(backward > 900_000, "{backward}");
    }

    proptest! {
        // BUILTIN-82
        #[test]
        fn nothing_done_is_nothing_changed(text in "(\u{feff})?([ab]{0,2}(\n|\r\n|\r)){0,6}[ab]{0,2}") {
            prop_assert_eq!(Document::new(&text).text(), text);
        }

        // BUILTIN-82: the first place from the start on, as a plain search finds it
        #[test]
        fn a_block_is_found_where_a_plain_search_finds_it(
            lines in prop::collection::vec("[ab]", 0..24), wanted in prop::collection::vec("[ab]", 1..6), start in 0usize..8,
        ) {
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let rest: Vec<&str> = lines.iter().skip(start).map(String::as_str).collect();
            let plain = rest.windows(wanted.len()).position(|window| window == wanted);
            prop_assert_eq!(Block::new(wanted).find(rest.into_iter()), plain);
        }

        // BUILTIN-81, BUILTIN-82: hunks with enough context make the new version of the old one
        #[test]
        fn a_difference_is_applied(
            old in prop::collection::vec("[a-c]", 0..20), new in prop::collection::vec("[a-c]", 0..20),
            newline in any::<bool>(), end in prop_oneof![Just("\n"), Just("\r\n")],
        ) {
            // One hunk over the whole file needs no search at all.
            let text = |lines: &[String]| {
                let text = lines.join(end);
                if newline && !lines.is_empty() { text + end } else { text }
            };
            // With one line there may be no line end to go by.
            prop_assume!(old.len() > 1);
            let removed = old.iter().map(|line| format!("-{line}"));
            let body: Vec<String> = removed.chain(new.iter().map(|line| format!("+{line}"))).collect();
            prop_assert_eq!(after(&text(&old), &body.join("\n")), text(&new));
        }
    }
}
