//! A walk through a directory tree whose order depends on names alone.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

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

/// Calls `visit` for every entry below `root` that is not a directory: files, and links that
/// lead nowhere.
///
/// Directories are visited breadth first, each level in the code-point order of its paths.
/// Links to directories are followed; a directory that several paths lead to is visited once,
/// under the path that comes first. What cannot be read is passed over.
pub(crate) fn walk(root: &Path, mut visit: impl FnMut(Entry<'_>)) {
    let mut seen = HashSet::new();
    let mut level = vec![Directory { prefix: String::new(), path: root.to_path_buf() }];
    while !level.is_empty() {
        let mut below = Vec::new();
        for directory in level {
            let first_time = fs::canonicalize(&directory.path).is_ok_and(|real| seen.insert(real));
            if first_time {
                visit_directory(&directory, &mut below, &mut visit);
            }
        }
        // The final `/` of the prefix counts: `a-b/SKILL.md` sorts before `a/SKILL.md`.
        below.sort_by(|a, b| (&a.prefix, &a.path).cmp(&(&b.prefix, &b.path)));
        level = below;
    }
}

fn visit_directory(directory: &Directory, below: &mut Vec<Directory>, visit: &mut impl FnMut(Entry<'_>)) {
    let Ok(entries) = fs::read_dir(&directory.path) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let relative = format!("{}{}", directory.prefix, name.to_string_lossy());
        if !is_directory(&entry, &path) {
            visit(Entry { name: &name, relative: &relative, path: &path });
        } else if !NOT_ENTERED.iter().any(|skipped| name == *skipped) {
            below.push(Directory { prefix: relative + "/", path });
        }
    }
}

fn is_directory(entry: &fs::DirEntry, path: &Path) -> bool {
    match entry.file_type() {
        Ok(kind) if !kind.is_symlink() => kind.is_dir(),
        _ => fs::metadata(path).is_ok_and(|target| target.is_dir()),
    }
}
