//! The start of the sorted list of all matches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::lines::{Lines, Wanted};
use crate::search::SHOWN_BYTES;

/// The first matches of a tree in the order of their paths, whatever order its files are searched
/// in, and how many there are in all.
///
/// Holds the lines of no more files than it takes to have enough matches.
pub(super) struct FirstMatches {
    wanted: Wanted,
    /// By the path as it is shown; the path itself tells two apart that are shown alike.
    files: BTreeMap<(String, PathBuf), Lines>,
    /// Matches and memory of `files`.
    matches: usize,
    bytes: usize,
    total: usize,
    too_long: usize,
}

/// What is told of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// The rows, without a newline at the end.
    pub(super) rows: String,
    /// How many of them are matches.
    pub(super) count: usize,
    /// How many matches there are.
    pub(super) total: usize,
    /// Whether rows were left out that belong to matches which are shown, or would be but for their
    /// size.
    pub(super) incomplete: bool,
    /// How many lines were too long to be searched as a whole.
    pub(super) too_long: usize,
}

impl FirstMatches {
    pub(super) fn new(wanted: Wanted) -> Self {
        FirstMatches { wanted, files: BTreeMap::new(), matches: 0, bytes: 0, total: 0, too_long: 0 }
    }

    /// Whether lines of a file could be shown: enough may have been found in files before it.
    pub(super) fn may_show(&self, row_path: &str) -> bool {
        let full = self.matches >= self.wanted.limit || self.bytes > SHOWN_BYTES;
        let before_the_last =
            || self.files.last_key_value().is_some_and(|((last, _), _)| row_path <= last.as_str());
        !full || before_the_last()
    }

    /// Adds what was found in a file.
    pub(super) fn add(&mut self, row_path: String, path: &Path, found: Lines) {
        self.total += found.total;
        self.too_long += found.too_long;
        if found.matches == 0 {
            return;
        }
        self.matches += found.matches;
        self.bytes += found.bytes;
        self.files.insert((row_path, path.to_path_buf()), found);
        while let Some(last) = self.files.last_entry() {
            let enough = self.matches - last.get().matches >= self.wanted.limit
                || self.bytes - last.get().bytes > SHOWN_BYTES;
            if !enough {
                break;
            }
            self.matches -= last.get().matches;
            self.bytes -= last.get().bytes;
            last.remove();
        }
    }

    /// The rows of the first matches.
    ///
    /// # Errors
    /// What stands around one of them takes too much memory.
    pub(super) fn report(self) -> Result<Report, String> {
        let Wanted { limit, after, .. } = self.wanted;
        let grouped = self.wanted.has_context();
        let mut report = Report {
            rows: String::new(),
            count: 0,
            total: self.total,
            incomplete: false,
            too_long: self.too_long,
        };
        let mut bytes = 0;
        for ((path, _), mut found) in self.files {
            if found.too_much_context {
                return Err(format!(
                    "{path}: the lines around a match take too much memory; ask for less context"
                ));
            }
            let all_fit = found.keep_first(limit - report.count, SHOWN_BYTES - bytes, after);
            report.incomplete |= found.incomplete || !all_fit;
            report.count += found.matches;
            bytes += found.bytes;
            let mut next = None;
            for line in found.lines {
                if !report.rows.is_empty() {
                    report.rows.push('\n');
                    if grouped && next != Some(line.number) {
                        report.rows.push_str("--\n");
                    }
                }
                next = Some(line.number + 1);
                let mark = if line.is_match { ':' } else { '-' };
                report.rows.push_str(&format!("{path}{mark}{}{mark}{}", line.number, line.text));
            }
            if !all_fit {
                break;
            }
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::grep::expression;
    use crate::grep::lines::FileSearch;
    use crate::search::Running;
    use proptest::prelude::*;

    /// Searches files in this order, as a thread does.
    fn report(files: &[(String, String)], wanted: Wanted) -> Result<Report, String> {
        let mut first = FirstMatches::new(wanted);
        let mut search = FileSearch::new(expression::compile("x").unwrap(), wanted);
        for (path, content) in files {
            let row_path = first.may_show(path).then_some(path.as_str());
            let mut found = search.search(Cursor::new(content), row_path, &Running::default()).unwrap();
            // One that has too much around its matches.
            if path.starts_with('!') && row_path.is_some() && found.total > 0 {
                found.lines.clear();
                (found.matches, found.bytes) = (found.total.min(wanted.limit), 0);
                found.too_much_context = true;
            }
            first.add(path.clone(), Path::new(path), found);
            assert!(
                first.matches
                    < wanted.limit + first.files.last_key_value().map_or(0, |(_, last)| last.matches).max(1)
            );
        }
        first.report()
    }

    proptest! {
        // BUILTIN-57, BUILTIN-66: the order in which files are searched does not matter
        #[test]
        fn the_report_does_not_depend_on_who_was_first(
            files in proptest::collection::btree_map("!?[a-d]{1,2}", "[xy\n]{0,8}", 0..10),
            (limit, around) in (0usize..8, 0usize..3),
            order in any::<proptest::sample::Index>(),
        ) {
            let wanted = Wanted { limit, before: around, after: around, line_bytes: 4096 };
            let sorted: Vec<_> = files.into_iter().collect();
            let expected = report(&sorted, wanted);
            let mut other = sorted;
            other.reverse();
            prop_assert_eq!(&report(&other, wanted), &expected);
            if !other.is_empty() {
                let turn = order.index(other.len());
                other.rotate_left(turn);
                prop_assert_eq!(&report(&other, wanted), &expected);
            }
        }
    }
}
