//! What a change altered, as a unified diff.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::iter;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use similar::udiff::UnifiedHunkHeader;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Bytes at which the text of a diff ends.
const MOST_DIFF_BYTES: usize = 64 * 1024;

/// Changed lines, on both sides together, up to which the shortest diff is found however long
/// that takes: at most some ten million steps.
const SURELY_FAST: usize = 4000;

/// Changed lines beyond which no short diff is looked for.
const TOO_MANY: usize = 40_000;

/// How long the shortest diff is looked for in between. What is found by then is a right diff,
/// if a longer one.
const PATIENCE: Duration = Duration::from_secs(1);

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
        let old = lines(change.before);
        let new = lines(change.after);
        if change.before == Version::Opaque || change.after == Version::Opaque {
            self.additions += new.len() as u64;
            self.deletions += old.len() as u64;
            self.text.push(&format!("Binary files {old_name} and {new_name} differ\n"));
            return;
        }
        let operations = operations(&old, &new);
        let groups = group_diff_ops(operations, CONTEXT);
        let moved = change.old_path != change.new_path;
        if groups.is_empty() && !moved {
            return;
        }
        self.text.push(&format!("--- {old_name}\n+++ {new_name}\n"));
        for group in groups.iter().filter(|group| !group.is_empty()) {
            self.text.push(&format!("{}\n", UnifiedHunkHeader::new(group)));
            for operation in group {
                self.hunk_part(operation, &old, &new);
            }
        }
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

/// The lines with their ends; only LF ends one.
fn lines(version: Version<'_>) -> Vec<&str> {
    match version {
        Version::Text(text) => text.split_inclusive('\n').collect(),
        Version::Absent | Version::Opaque => Vec::new(),
    }
}

/// How to make `new` of `old`.
fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let shorter = old.len().min(new.len());
    let before = iter::zip(old, new).take_while(|(old, new)| old == new).count();
    let after = iter::zip(old.iter().rev(), new.iter().rev())
        .take(shorter - before)
        .take_while(|(old, new)| old == new)
        .count();
    let old_middle = old.get(before..old.len() - after).unwrap_or_default();
    let new_middle = new.get(before..new.len() - after).unwrap_or_default();
    let changed = old_middle.len() + new_middle.len();
    let deadline = (changed > SURELY_FAST).then(|| Instant::now() + PATIENCE);

    let mut operations = Vec::new();
    if before > 0 {
        operations.push(DiffOp::Equal { old_index: 0, new_index: 0, len: before });
    }
    if changed > TOO_MANY {
        operations.push(DiffOp::Replace {
            old_index: before,
            old_len: old_middle.len(),
            new_index: before,
            new_len: new_middle.len(),
        });
    } else {
        let (old_numbers, new_numbers) = numbered(old_middle, new_middle);
        let middle = capture_diff_slices_deadline(Algorithm::Myers, &old_numbers, &new_numbers, deadline);
        operations.extend(middle.into_iter().map(|operation| shifted(operation, before)));
    }
    if after > 0 {
        operations.push(DiffOp::Equal {
            old_index: old.len() - after,
            new_index: new.len() - after,
            len: after,
        });
    }
    operations
}

/// Lines as numbers, equal ones as equal numbers: comparing them costs the same however long the
/// lines are.
fn numbered<'a>(old: &[&'a str], new: &[&'a str]) -> (Vec<usize>, Vec<usize>) {
    let mut known: HashMap<&'a str, usize> = HashMap::new();
    let mut number = |line: &&'a str| {
        let next = known.len();
        *known.entry(line).or_insert(next)
    };
    (old.iter().map(&mut number).collect(), new.iter().map(&mut number).collect())
}

fn shifted(operation: DiffOp, by: usize) -> DiffOp {
    match operation {
        DiffOp::Equal { old_index, new_index, len } => {
            DiffOp::Equal { old_index: old_index + by, new_index: new_index + by, len }
        }
        DiffOp::Delete { old_index, old_len, new_index } => {
            DiffOp::Delete { old_index: old_index + by, old_len, new_index: new_index + by }
        }
        DiffOp::Insert { old_index, new_index, new_len } => {
            DiffOp::Insert { old_index: old_index + by, new_index: new_index + by, new_len }
        }
        DiffOp::Replace { old_index, old_len, new_index, new_len } => {
            DiffOp::Replace { old_index: old_index + by, old_len, new_index: new_index + by, new_len }
        }
    }
}
