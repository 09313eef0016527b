//! A file that is gone, but not for good yet.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use super::prepared::temporary_name;

/// A file, or a link, under another name in its directory. Removed with the value, unless it is put back.
#[derive(Debug)]
pub(crate) struct Aside {
    root: Arc<Dir>,
    path: PathBuf,
    aside: PathBuf,
    back: bool,
}

impl Aside {
    /// Renames what is at `path` below `root`.
    pub(super) fn new(root: &Arc<Dir>, path: &Path) -> io::Result<Self> {
        let aside = temporary_name(path)?;
        // Links are not followed by this.
        root.rename(path, root, &aside)?;
        Ok(Aside { root: Arc::clone(root), path: path.to_path_buf(), aside, back: false })
    }

    /// Puts the file back, with everything that belongs to it.
    ///
    /// # Errors
    /// The system's; the file stays aside then.
    pub(crate) fn put_back(mut self) -> io::Result<()> {
        self.back = true;
        self.root.rename(&self.aside, &self.root, &self.path)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.back {
            let _ = self.root.remove_file(&self.aside);
        }
    }
}
