//! A walk through a directory tree whose order depends on names alone.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// How many entries are looked at: more than any folder of skills has, less than a disk that a link leads
/// to by accident.
pub(crate) const MAX_ENTRIES: usize = 1_000_000;

/// Directories that hold other people's files.
const NOT_ENTERED: [&str; 2] = ["node_modules", ".git"];

/// One entry of a visited directory that is no directory itself.
pub(crate) struct Entry<'a> {
    /// The entry's own name.
    pub(crate) name: &'a OsString,
    /// The path below the root, `/`-separated, undecodable names replaced.
    pub(crate) relative: &'a str,
    /// The path to open.
    pub(crate) path: &'a Path,
}

struct Directory {
    /// The path below the root with a final `/`, or nothing for the root.
    prefix: String,
    path: PathBuf,
}

/// How a walk came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Everything was visited.
    Complete,
    /// There is more than is looked at.
    Cut,
    /// Somebody said stop.
    Stopped,
}

/// Calls `visit` for every entry below `root` that is not a directory: files, and links that
/// lead nowhere.
///
/// Directories are visited breadth first, each level in the code-point order of its paths.
/// Links to directories are followed; a directory that several paths lead to is visited once,
/// under the path that comes first. What cannot be read is passed over. `stop` is asked before each
/// directory.
pub(crate) fn walk(root: &Path, stop: &dyn Fn() -> bool, visit: impl FnMut(Entry<'_>)) -> Ended {
    walk_at_most(MAX_ENTRIES, root, stop, visit)
}

/// Cut between two directories, never within one: entries of a directory come in any order.
fn walk_at_most(
    max_entries: usize,
    root: &Path,
    stop: &dyn Fn() -> bool,
    mut visit: impl FnMut(Entry<'_>),
) -> Ended {
    let mut seen = HashSet::new();
    let mut level = vec![Directory { prefix: String::new(), path: root.to_path_buf() }];
    let mut entries = 0;
    while !level.is_empty() {
        let mut below = Vec::new();
        for directory in level {
            if stop() {
                return Ended::Stopped;
            }
            let first_time = fs::canonicalize(&directory.path).is_ok_and(|real| seen.insert(real));
            if !first_time {
                continue;
            }
            if entries >= max_entries {
                return Ended::Cut;
            }
            entries += visit_directory(&directory, &mut below, &mut visit);
        }
        // The final `/` of the prefix counts: `a-b/SKILL.md` sorts before `a/SKILL.md`.
        below.sort_by(|a, b| (&a.prefix, &a.path).cmp(&(&b.prefix, &b.path)));
        level = below;
    }
    Ended::Complete
}

/// Returns how many entries there were.
fn visit_directory(
    directory: &Directory,
    below: &mut Vec<Directory>,
    visit: &mut impl FnMut(Entry<'_>),
) -> usize {
    let Ok(entries) = fs::read_dir(&directory.path) else { return 0 };
    let mut count = 0;
    for entry in entries.flatten() {
        count += 1;
        let (name, path) = (entry.file_name(), entry.path());
        let relative = format!("{}{}", directory.prefix, name.to_string_lossy());
        if !is_directory(&entry, &path) {
            visit(Entry { name: &name, relative: &relative, path: &path });
        } else if !NOT_ENTERED.iter().any(|skipped| name == *skipped) {
            below.push(Directory { prefix: relative + "/", path });
        }
    }
    count
}

fn is_directory(entry: &fs::DirEntry, path: &Path) -> bool {
    match entry.file_type() {
        Ok(kind) if !kind.is_symlink() => kind.is_dir(),
        _ => fs::metadata(path).is_ok_and(|target| target.is_dir()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// `a/1`, `a/2`, `b/1` and `b/2`.
    fn four_files() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for dir in ["a", "b"] {
            fs::create_dir(root.path().join(dir)).unwrap();
            for file in ["1", "2"] {
                fs::write(root.path().join(dir).join(file), "").unwrap();
            }
        }
        root
    }

    // SKILL-18: what is left out does not depend on the order in which a directory is read
    #[test]
    fn a_walk_is_cut_between_directories() {
        let root = four_files();
        for (max_entries, ended, files) in [
            (1, Ended::Cut, 0),
            (2, Ended::Cut, 0),
            (3, Ended::Cut, 2),
            (4, Ended::Cut, 2),
            (5, Ended::Complete, 4),
        ] {
            let mut visited = Vec::new();
            let how = walk_at_most(max_entries, root.path(), &|| false, |entry| {
                visited.push(entry.relative.to_owned());
            });
            visited.sort();
            assert_eq!(visited, ["a/1", "a/2", "b/1", "b/2"][..files], "{max_entries}");
            assert_eq!(how, ended, "{max_entries}");
        }
    }

    #[test]
    fn a_walk_can_be_stopped() {
        let root = four_files();
        let asked = Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) == 2;
        let mut visited = 0;
        assert_eq!(walk(root.path(), &stop, |_| visited += 1), Ended::Stopped);
        // The root, then `a`, then no more.
        assert_eq!(visited, 2);
    }
}
