//! The start of the sorted list of all matches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::lines::{Lines, SHOWN_BYTES, Wanted};

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
pub(super) struct Report {
    /// The rows, without a newline at the end.
    pub(super) rows: String,
    /// How many of them are matches.
    pub(super) count: usize,
    /// How many matches there are.
    pub(super) total: usize,
    /// Whether rows were left out for their size, not for their number.
    pub(super) too_much: bool,
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
        if found.lines.is_empty() {
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
    pub(super) fn report(self) -> Report {
        let Wanted { limit, after, .. } = self.wanted;
        let grouped = self.wanted.has_context();
        let mut report = Report {
            rows: String::new(),
            count: 0,
            total: self.total,
            too_much: false,
            too_long: self.too_long,
        };
        let mut bytes = 0;
        for ((path, _), mut found) in self.files {
            report.too_much |= !found.keep_first(limit - report.count, SHOWN_BYTES - bytes, after);
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
            if report.too_much {
                break;
            }
        }
        report
    }
}
