//! Directories that are open already.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

/// Handles of directories, so that the places of one call share theirs: a process may have few
/// files open at a time, and a patch may name many.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    open: HashMap<PathBuf, Arc<Dir>>,
}

impl Roots {
    /// The directory at `path`, which holds no links.
    pub(crate) fn open(&mut self, path: &Path) -> io::Result<Arc<Dir>> {
        if let Some(root) = self.open.get(path) {
            return Ok(Arc::clone(root));
        }
        let root = Arc::new(Dir::open_ambient_dir(path, ambient_authority())?);
        self.open.insert(path.to_path_buf(), Arc::clone(&root));
        Ok(root)
    }

    /// A directory above `path`: one that is open already, or the nearest that exists.
    pub(super) fn above<'path>(&mut self, path: &'path Path) -> io::Result<(Arc<Dir>, &'path Path)> {
        let known =
            path.ancestors().skip(1).find_map(|above| Some((Arc::clone(self.open.get(above)?), above)));
        if let Some(known) = known {
            return Ok(known);
        }
        let mut above = path.parent().unwrap_or(path);
        loop {
            match (self.open(above), above.parent()) {
                (Ok(root), _) => return Ok((root, above)),
                (Err(error), Some(parent)) if is_no_directory(&error) => above = parent,
                (Err(error), _) => return Err(error),
            }
        }
    }
}

/// Whether a path cannot be opened as a directory because there is none.
fn is_no_directory(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
