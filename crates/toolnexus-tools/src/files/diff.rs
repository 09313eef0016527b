//! What a change altered, as a unified diff.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::iter;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use similar::udiff::UnifiedHunkHeader;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Bytes at which the text of a diff ends.
const MOST_DIFF_BYTES: usize = 64 * 1024;

/// Lines that might stay, on both sides together, up to which the shortest diff is found however
/// long that takes: at most some ten million steps.
const SURELY_FAST: usize = 4000;

/// Such lines beyond which no short diff is looked for.
const TOO_MANY: usize = 40_000;

/// How long the shortest diff is looked for in between. What is found by then is a right diff,
/// if a longer one.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lines, on both sides together, beyond which a change is not looked into at all: each costs memory,
/// and lines may be short and a file large. All of them go and come then.
const MOST_LINES: usize = 2_000_000;

/// Bytes that are compared at once where both sides are the same.
const PIECE: usize = 4096;

/// What a file was, or is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version<'a> {
    /// It was not there, or is not there any more.
    Absent,
    /// This text.
    Text(&'a str),
    /// Something that has no lines to show: no UTF-8, too large, or unreadable.
    Opaque,
}

impl<'a> Version<'a> {
    /// The text there is to show.
    fn text(self) -> &'a str {
        match self {
            Version::Text(text) => text,
            Version::Absent | Version::Opaque => "",
        }
    }
}

/// One changed file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    /// The path before, as the model wrote it.
    pub(crate) old_path: &'a str,
    /// The path after: another one for a move.
    pub(crate) new_path: &'a str,
    pub(crate) before: Version<'a>,
    pub(crate) after: Version<'a>,
}

impl<'a> Change<'a> {
    /// A change of a file that stays where it is.
    pub(crate) fn at(path: &'a str, before: Version<'a>, after: Version<'a>) -> Self {
        Change { old_path: path, new_path: path, before, after }
    }
}

/// Adds `diff`, `additions` and `deletions` to `metadata`: the unified diffs of all `changes` in
/// their order, and how many lines they add and delete.
///
/// The text ends at 64 KiB with a line `[… <n> more bytes of diff]`; the numbers count the whole
/// diff all the same. An opaque version counts as no lines.
pub(crate) fn add_diff(metadata: &mut Map<String, Value>, changes: &[Change<'_>]) {
    let mut diff = Diff::default();
    for change in changes {
        diff.add(change);
    }
    metadata.insert("additions".to_owned(), diff.additions.into());
    metadata.insert("deletions".to_owned(), diff.deletions.into());
    metadata.insert("diff".to_owned(), diff.text.end().into());
}

#[derive(Default)]
struct Diff {
    text: CutText,
    additions: u64,
    deletions: u64,
}

impl Diff {
    fn add(&mut self, change: &Change<'_>) {
        let (old_name, new_name) =
            (name("a/", change.old_path, change.before), name("b/", change.new_path, change.after));
        let (old, new) = (change.before.text(), change.after.text());
        if change.before == Version::Opaque || change.after == Version::Opaque {
            self.additions += count_lines(new) as u64;
            self.deletions += count_lines(old) as u64;
            self.text.push(&format!("Binary files {old_name} and {new_name} differ\n"));
            return;
        }
        let moved = change.old_path != change.new_path;
        if old == new && !moved {
            return;
        }
        self.text.push(&format!("--- {old_name}\n+++ {new_name}\n"));
        let Stretch { skipped, old, new } = Stretch::of(old, new);
        if count_lines(old) + count_lines(new) > MOST_LINES {
            self.whole(skipped, old, new);
            return;
        }
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let groups = group_diff_ops(operations(&old, &new), CONTEXT);
        for group in groups.iter().filter(|group| !group.is_empty()) {
            self.header(skipped, group);
            for operation in group {
                self.hunk_part(operation, &old, &new);
            }
        }
    }

    /// A change of which all lines go and come.
    fn whole(&mut self, skipped: usize, old: &str, new: &str) {
        let (old_len, new_len) = (count_lines(old), count_lines(new));
        self.deletions += old_len as u64;
        self.additions += new_len as u64;
        self.header(skipped, &[DiffOp::Replace { old_index: 0, old_len, new_index: 0, new_len }]);
        old.split_inclusive('\n').for_each(|line| self.text.line('-', line));
        new.split_inclusive('\n').for_each(|line| self.text.line('+', line));
    }

    /// The header of a hunk behind so many lines that are the same.
    fn header(&mut self, skipped: usize, group: &[DiffOp]) {
        let group: Vec<DiffOp> = group.iter().map(|operation| behind(*operation, skipped)).collect();
        self.text.push(&format!("{}\n", UnifiedHunkHeader::new(&group)));
    }

    fn hunk_part(&mut self, operation: &DiffOp, old: &[&str], new: &[&str]) {
        let old_lines = old.get(operation.old_range()).unwrap_or_default();
        if operation.tag() == DiffTag::Equal {
            old_lines.iter().for_each(|line| self.text.line(' ', line));
            return;
        }
        let new_lines = new.get(operation.new_range()).unwrap_or_default();
        self.deletions += old_lines.len() as u64;
        self.additions += new_lines.len() as u64;
        old_lines.iter().for_each(|line| self.text.line('-', line));
        new_lines.iter().for_each(|line| self.text.line('+', line));
    }
}

/// A text that takes no more than [`MOST_DIFF_BYTES`] and counts what comes after.
#[derive(Default)]
struct CutText {
    kept: String,
    dropped: u64,
}

impl CutText {
    fn line(&mut self, sign: char, line: &str) {
        self.push(sign.encode_utf8(&mut [0; 4]));
        self.push(line);
        if !line.ends_with('\n') {
            self.push("\n\\ No newline at end of file\n");
        }
    }

    fn push(&mut self, text: &str) {
        let room = if self.dropped == 0 { MOST_DIFF_BYTES.saturating_sub(self.kept.len()) } else { 0 };
        let taken = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
        self.kept.push_str(taken);
        self.dropped += (text.len() - taken.len()) as u64;
    }

    fn end(mut self) -> String {
        if self.dropped > 0 {
            let newline = if self.kept.ends_with('\n') { "" } else { "\n" };
            let _ = writeln!(self.kept, "{newline}[… {} more bytes of diff]", self.dropped);
        }
        self.kept
    }
}

/// A path in a diff's header; one that would break its line is quoted.
fn name(side: &str, path: &str, version: Version<'_>) -> String {
    match version {
        Version::Absent => "/dev/null".to_owned(),
        _ if path.contains(char::is_control) => format!("{:?}", format!("{side}{path}")),
        _ => format!("{side}{path}"),
    }
}

/// How many lines there are; only LF ends one.
fn count_lines(text: &str) -> usize {
    let rest = usize::from(!text.is_empty() && !text.ends_with('\n'));
    memchr::memchr_iter(b'\n', text.as_bytes()).count() + rest
}

/// The lines of two texts without the same ones at both ends, but for a few around the change: whole files
/// are large, and most changes small.
struct Stretch<'a> {
    /// How many lines stand before.
    skipped: usize,
    old: &'a str,
    new: &'a str,
}

impl<'a> Stretch<'a> {
    fn of(old: &'a str, new: &'a str) -> Self {
        let same = same_at_start(old.as_bytes(), new.as_bytes());
        let start = start_of_line_before(old, same, CONTEXT);
        // Both start with the same bytes, so what begins a line of one does of the other.
        let (before, old) = old.split_at_checked(start).unwrap_or(("", old));
        let new = new.get(start..).unwrap_or_default();
        let rest = |text: &str| text.len().saturating_sub(same - start);
        let same = same_at_end(old.as_bytes(), new.as_bytes()).min(rest(old)).min(rest(new));
        let end = old.get(end_of_line_after(old, old.len() - same, CONTEXT)..).map_or(0, str::len);
        let without = |text: &'a str| text.get(..text.len() - end).unwrap_or(text);
        Stretch { skipped: count_lines(before), old: without(old), new: without(new) }
    }
}

/// The start of the line that is so many lines above the one in which `at` is.
fn start_of_line_before(text: &str, at: usize, lines: usize) -> usize {
    let above = text.as_bytes().get(..at).unwrap_or_default();
    memchr::memrchr_iter(b'\n', above).nth(lines).map_or(0, |newline| newline + 1)
}

/// The end of the line that is so many lines below the one in which `at` is.
fn end_of_line_after(text: &str, at: usize, lines: usize) -> usize {
    let below = text.as_bytes().get(at..).unwrap_or_default();
    memchr::memchr_iter(b'\n', below).nth(lines).map_or(text.len(), |newline| at + newline + 1)
}

fn same_at_start(old: &[u8], new: &[u8]) -> usize {
    let pieces = iter::zip(old.chunks(PIECE), new.chunks(PIECE)).take_while(|(old, new)| old == new);
    let same = pieces.map(|(old, _)| old.len()).sum::<usize>();
    let (old, new) = (old.get(same..).unwrap_or_default(), new.get(same..).unwrap_or_default());
    same + iter::zip(old, new).take_while(|(old, new)| old == new).count()
}

fn same_at_end(old: &[u8], new: &[u8]) -> usize {
    let pieces = iter::zip(old.rchunks(PIECE), new.rchunks(PIECE)).take_while(|(old, new)| old == new);
    let same = pieces.map(|(old, _)| old.len()).sum::<usize>();
    let before = |text: &[u8]| text.len() - same;
    let (old, new) = (old.get(..before(old)).unwrap_or_default(), new.get(..before(new)).unwrap_or_default());
    same + iter::zip(old.iter().rev(), new.iter().rev()).take_while(|(old, new)| old == new).count()
}

/// The operation on lines that stand so many lines further down.
fn behind(operation: DiffOp, skipped: usize) -> DiffOp {
    let (_, old, new) = operation.as_tag_tuple();
    let (old_index, new_index) = (old.start + skipped, new.start + skipped);
    match operation {
        DiffOp::Equal { len, .. } => DiffOp::Equal { old_index, new_index, len },
        DiffOp::Delete { old_len, .. } => DiffOp::Delete { old_index, old_len, new_index },
        DiffOp::Insert { new_len, .. } => DiffOp::Insert { old_index, new_index, new_len },
        DiffOp::Replace { old_len, new_len, .. } => {
            DiffOp::Replace { old_index, old_len, new_index, new_len }
        }
    }
}

/// How to make `new` of `old`: what is between the lines that stay goes and comes.
fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut operations = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    for (old_index, new_index, len) in unchanged(old, new) {
        operations.extend(change(old_at..old_index, new_at..new_index));
        match operations.last_mut() {
            Some(DiffOp::Equal { len: before, .. }) => *before += len,
            _ => operations.push(DiffOp::Equal { old_index, new_index, len }),
        }
        (old_at, new_at) = (old_index + len, new_index + len);
    }
    operations.extend(change(old_at..old.len(), new_at..new.len()));
    operations
}

fn change(old: Range<usize>, new: Range<usize>) -> Option<DiffOp> {
    let (old_index, old_len, new_index, new_len) = (old.start, old.len(), new.start, new.len());
    match (old_len, new_len) {
        (0, 0) => None,
        (_, 0) => Some(DiffOp::Delete { old_index, old_len, new_index }),
        (0, _) => Some(DiffOp::Insert { old_index, new_index, new_len }),
        _ => Some(DiffOp::Replace { old_index, old_len, new_index, new_len }),
    }
}

/// The runs of lines that stay: where they start in `old` and in `new`, and how many they are.
fn unchanged(old: &[&str], new: &[&str]) -> Vec<(usize, usize, usize)> {
    let shorter = old.len().min(new.len());
    let before = iter::zip(old, new).take_while(|(old, new)| old == new).count();
    let after = iter::zip(old.iter().rev(), new.iter().rev())
        .take(shorter - before)
        .take_while(|(old, new)| old == new)
        .count();
    let old_middle = old.get(before..old.len() - after).unwrap_or_default();
    let new_middle = new.get(before..new.len() - after).unwrap_or_default();
    let (old_lines, new_lines) = on_both_sides(old_middle, new_middle);
    let numbers = |lines: &[Line]| lines.iter().map(|line| line.number).collect::<Vec<_>>();

    let mut runs = vec![(0, 0, before)];
    let candidates = old_lines.len() + new_lines.len();
    if candidates <= TOO_MANY {
        let deadline = (candidates > SURELY_FAST).then(|| Instant::now() + PATIENCE);
        let (old, new) = (numbers(&old_lines), numbers(&new_lines));
        let found = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
        for equal in found.iter().filter(|operation| operation.tag() == DiffTag::Equal) {
            let old = old_lines.get(equal.old_range()).unwrap_or_default();
            let new = new_lines.get(equal.new_range()).unwrap_or_default();
            runs.extend(iter::zip(old, new).map(|(old, new)| (before + old.at, before + new.at, 1)));
        }
    }
    runs.push((old.len() - after, new.len() - after, after));
    runs.retain(|(_, _, len)| *len > 0);
    runs
}

/// A line as its place and a number; equal lines have equal numbers, which compare in no time.
struct Line {
    at: usize,
    number: usize,
}

/// The lines that are on the other side too, wherever. No other can stay, and a file of which
/// all is new has none.
fn on_both_sides(old: &[&str], new: &[&str]) -> (Vec<Line>, Vec<Line>) {
    let mut known: HashMap<&str, (usize, bool)> = HashMap::new();
    for line in old {
        let next = known.len();
        known.entry(line).or_insert((next, false));
    }
    let mut line = |at, text: &&str| {
        let (number, in_new) = known.get_mut(*text)?;
        *in_new = true;
        Some(Line { at, number: *number })
    };
    let new_lines = new.iter().enumerate().filter_map(|(at, text)| line(at, text)).collect();
    let old_lines = old.iter().enumerate().filter_map(|(at, text)| {
        let (number, in_new) = known.get(text)?;
        in_new.then_some(Line { at, number: *number })
    });
    (old_lines.collect(), new_lines)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts(changes: &[Change<'_>]) -> (String, u64, u64) {
        let mut metadata = Map::new();
        add_diff(&mut metadata, changes);
        let number = |key: &str| metadata[key].as_u64().unwrap();
        (metadata["diff"].as_str().unwrap().to_owned(), number("additions"), number("deletions"))
    }

    fn text<'a>(path: &'a str, before: &'a str, after: &'a str) -> Change<'a> {
        Change::at(path, Version::Text(before), Version::Text(after))
    }

    /// What a patch program makes of `old` by a diff of one file.
    fn applied(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut at, mut new) = (0, String::new());
        let mut last = ' ';
        for line in diff.split_inclusive('\n').skip(2) {
            let (sign, rest) = line.split_at(1);
            match sign {
                "@" => {
                    let range = rest.split(' ').nth(1).unwrap().trim_start_matches('-');
                    let (start, len) = range.split_once(',').unwrap_or((range, "1"));
                    let start: usize = start.parse().unwrap();
                    let start = if len == "0" { start } else { start - 1 };
                    old[at..start].iter().for_each(|line| new.push_str(line));
                    at = start;
                }
                "\\" if last != '-' => assert_eq!(new.pop(), Some('\n')),
                "\\" => {}
                "+" => new.push_str(rest),
                _ => {
                    assert_eq!(old[at].trim_end_matches('\n'), rest.trim_end_matches('\n'));
                    at += 1;
                    if sign == " " {
                        new.push_str(rest);
                    }
                }
            }
            last = sign.chars().next().unwrap();
        }
        old[at..].iter().for_each(|line| new.push_str(line));
        new
    }

    // D19
    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("2\n3\n", "2\nthree\n").replace("18\n", "");
        let (diff, additions, deletions) = facts(&[text("f", &old, &new)]);
        let expected = "--- a/f\n+++ b/f\n@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n\
                        @@ -15,6 +15,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n";
        assert_eq!((diff.as_str(), additions, deletions), (expected, 1, 2));
    }

    // D19: of several files, moves and deletions
    #[test]
    fn several_files_follow_each_other() {
        let moved = Change { old_path: "b", new_path: "c", ..text("", "1\n", "1\n") };
        let deleted = Change::at("d", Version::Text("x"), Version::Absent);
        let (diff, additions, deletions) = facts(&[text("a", "1\n", "2\n"), moved, deleted]);
        let expected = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n--- a/b\n+++ b/c\n\
                        --- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n";
        assert_eq!((diff.as_str(), additions, deletions), (expected, 1, 2));
    }

    // D19: no time without bound, and no memory; whatever is given up is the shortness
    #[test]
    fn huge_changes_have_right_diffs() {
        let start = Instant::now();
        let tangled = |lines: usize, by: usize| -> String {
            (0..lines).map(|n| if (n * by % 7919).is_multiple_of(2) { "a\n" } else { "b\n" }).collect()
        };
        for (lines, most) in [(3_000, 3_000), (15_000, 15_000), (60_000, 60_000)] {
            let (old, new) = (tangled(lines, 31), tangled(lines, 57));
            let (diff, additions, deletions) = facts(&[text("f", &old, &new)]);
            assert_eq!(additions, deletions, "as long as before");
            assert!(additions <= most && additions > 0);
            assert!(diff.len() < MOST_DIFF_BYTES + 100);
        }
        let number = |by: usize| (0..100_000).map(|n| format!("{}\n", n * by)).collect::<String>();
        let (_, additions, deletions) = facts(&[text("f", &number(2), &number(3))]);
        assert!(additions == deletions && additions <= 100_000);
        assert!(start.elapsed() < 60 * PATIENCE, "{:?}", start.elapsed());
    }

    // D19, D15: what is the same costs no memory, and of very many lines none is looked for
    #[test]
    fn a_change_of_a_file_of_short_lines_is_cut_out() {
        let same = "\n".repeat(3_000_000);
        let (old, new) = (format!("{same}a\nb\n{same}"), format!("{same}a\nc\n{same}"));
        let Stretch { skipped, old: old_part, new: new_part } = Stretch::of(&old, &new);
        assert_eq!((skipped, old_part, new_part), (2_999_998, "\n\na\nb\n\n\n\n", "\n\na\nc\n\n\n\n"));
        let (diff, additions, deletions) = facts(&[text("f", &old, &new)]);
        let expected = "--- a/f\n+++ b/f\n@@ -2999999,7 +2999999,7 @@\n \n \n a\n-b\n+c\n \n \n \n";
        assert_eq!((diff.as_str(), additions, deletions), (expected, 1, 1));
        let (diff, additions, deletions) =
            facts(&[text("f", &format!("a\n{same}a\n"), &format!("b\n{same}b\n"))]);
        assert_eq!((additions, deletions), (3_000_002, 3_000_002));
        assert!(diff.starts_with("--- a/f\n+++ b/f\n@@ -1,3000002 +1,3000002 @@\n-a\n-\n"));
        assert!(diff.len() < MOST_DIFF_BYTES + 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        // D19: of a large file the same is shown as of the lines around the change
        #[test]
        fn a_stretch_holds_every_change(
            before in "([ab]{0,2}\n){0,6}", old in "([abé]{0,2}\n){0,3}[ab]?", new in "([abé]{0,2}\n){0,3}[ab]?",
            after in "(\n[ab]{0,2}){0,6}\n?",
        ) {
            let (old, new) = (format!("{before}{old}{after}"), format!("{before}{new}{after}"));
            let stretch = Stretch::of(&old, &new);
            let start: usize = old.split_inclusive('\n').take(stretch.skipped).map(str::len).sum();
            prop_assert!(old[start..].starts_with(stretch.old) && new[start..].starts_with(stretch.new));
            prop_assert_eq!(&old[..start], &new[..start]);
            prop_assert_eq!(&old[start + stretch.old.len()..], &new[start + stretch.new.len()..]);
            prop_assert!(stretch.old.is_empty() || stretch.old.ends_with('\n') || old.ends_with(stretch.old));
            prop_assert_eq!(&applied(&old, &facts(&[text("f", &old, &new)]).0), &new);
        }

        // D19: the diff is right, and the numbers count its lines
        #[test]
        fn a_diff_makes_the_new_text_of_the_old(old in "([ab -]{0,2}\r?\n){0,12}[ab]?", new in "([ab +]{0,2}\r?\n){0,12}[ab]?") {
            let (diff, additions, deletions) = facts(&[text("f", &old, &new)]);
            prop_assert_eq!(diff.is_empty(), old == new);
            prop_assert_eq!(&applied(&old, &diff), &new);
            let count = |sign| diff.split_inclusive('\n').skip(2).filter(|line| line.starts_with(sign)).count() as u64;
            prop_assert_eq!((count('+'), count('-')), (additions, deletions));
        }

        // D19: what stays is as much as can stay
        #[test]
        fn a_diff_is_as_short_as_can_be(old in "([abc]\n){0,9}", new in "([abc]\n){0,9}") {
            let (old_lines, new_lines): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
            let mut common = vec![vec![0_u64; new_lines.len() + 1]; old_lines.len() + 1];
            for (i, old) in old_lines.iter().enumerate() {
                for (j, new) in new_lines.iter().enumerate() {
                    common[i + 1][j + 1] =
                        if old == new { common[i][j] + 1 } else { common[i][j + 1].max(common[i + 1][j]) };
                }
            }
            let longest = common[old_lines.len()][new_lines.len()];
            let (_, additions, deletions) = facts(&[text("f", &old, &new)]);
            prop_assert_eq!(additions, new_lines.len() as u64 - longest);
            prop_assert_eq!(deletions, old_lines.len() as u64 - longest);
        }
    }
}
