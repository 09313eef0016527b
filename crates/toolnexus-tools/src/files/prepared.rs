//! New content for a file, whole or not at all, in two steps.
//!
//! ```text
//! prepare: a temporary file beside the target, with the content and the old file's mode
//!          (or, where there can be none, the target itself opened for writing)
//! commit:  rename over the target
//!          (or, where that is refused, write into the target)
//! ```
//!
//! What fails, fails in the first step: no room, no permission, no directory. Who changes several
//! files prepares all of them before committing the first.

use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, File, OpenOptions};

use super::attributes::Attributes;
use super::place::{MOST_BYTES, without_waiting};

/// How often another name is tried when the temporary file's is taken.
const ATTEMPTS: usize = 8;

/// New content that waits to become a file. Dropped without a commit, it leaves nothing behind.
///
/// Holds no file open, so that many can wait at once; but for one that must be written in place.
#[derive(Debug)]
pub(crate) struct Prepared<'content> {
    root: Arc<Dir>,
    /// The target, below `root`.
    path: PathBuf,
    content: &'content [u8],
    exists: bool,
    exclusive: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// It is in this file, which is to be renamed.
    Beside(Temporary),
    /// It is to be written into the target itself.
    Within(File),
}

impl<'content> Prepared<'content> {
    /// Prepares `content` for the file `path` below `root`, which is a regular file or missing. The
    /// attributes are those of `model`, else those of the file it replaces.
    pub(super) fn new(
        root: &Arc<Dir>,
        path: &Path,
        content: &'content [u8],
        model: Option<Attributes>,
    ) -> io::Result<Self> {
        let old = match root.symlink_metadata(path) {
            Ok(old) if old.is_file() => Some(old),
            Ok(_) => return Err(io::Error::other("something else took the file's place meanwhile")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let exists = old.is_some();
        if exists {
            // A rename needs no leave of the file's own, but a file closed to writing is so on purpose.
            check_writable(root, path)?;
        }
        let model = model.or_else(|| old.map(|old| Attributes::new(root, path, old)));
        let stage = match Temporary::create(root, path, model.is_some()) {
            Ok((temporary, mut file)) => {
                file.write_all(content)?;
                if let Some(model) = &model {
                    model.give(&file)?;
                }
                Stage::Beside(temporary)
            }
            Err(error) if exists && has_no_room_beside(&error) => Stage::Within(writable(root, path)?),
            Err(error) => return Err(error),
        };
        let (root, path) = (Arc::clone(root), path.to_path_buf());
        Ok(Prepared { root, path, content, exists, exclusive: false, stage })
    }

    /// Makes the commit fail when there is a file by then, however it came there.
    pub(crate) fn exclusive(self) -> Self {
        Prepared { exclusive: true, ..self }
    }

    /// Makes the content the file's. After a failure the file has its old content.
    pub(super) fn put(self) -> io::Result<()> {
        let file = match self.stage {
            Stage::Within(file) => file,
            Stage::Beside(temporary) if self.exclusive => return temporary.link(&self.path),
            Stage::Beside(temporary) => match temporary.rename(&self.path) {
                // A sticky directory, or a file mounted over the name.
                Err(error) if self.exists && is_refusal(&error) => writable(&self.root, &self.path)?,
                other => return other,
            },
        };
        overwrite(file, self.content)
    }
}

/// Whether no file can be made in a directory, for other reasons than a full disk: it is not ours
/// to write, or its file system makes files of itself alone.
fn has_no_room_beside(error: &io::Error) -> bool {
    is_refusal(error) || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported)
}

/// Whether a rename is not allowed that would be possible.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy)
}

/// A file that is removed with the value, unless it got its name.
#[derive(Debug)]
struct Temporary {
    root: Arc<Dir>,
    path: PathBuf,
    named: bool,
}

impl Temporary {
    /// Creates one beside `target`; `private` until the mode it is to have is known to fit.
    fn create(root: &Arc<Dir>, target: &Path, private: bool) -> io::Result<(Self, File)> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if private {
            readable_by_owner_alone(&mut options);
        }
        let mut attempts = 0;
        loop {
            let path = temporary_name(target)?;
            match root.open_with(&path, &options) {
                Ok(file) => return Ok((Temporary { root: Arc::clone(root), path, named: false }, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn rename(mut self, target: &Path) -> io::Result<()> {
        self.root.rename(&self.path, &self.root, target)?;
        self.named = true;
        Ok(())
    }

    /// Gives the file a second name, which must not be taken, and drops the first.
    fn link(self, target: &Path) -> io::Result<()> {
        match self.root.hard_link(&self.path, &self.root, target) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // Some file systems have no links. What is left to do there has a gap.
                match self.root.symlink_metadata(target) {
                    Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                    Err(_) => self.rename(target),
                }
            }
            other => other,
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.named {
            let _ = self.root.remove_file(&self.path);
        }
    }
}

/// A name beside `target` that nobody can guess.
pub(super) fn temporary_name(target: &Path) -> io::Result<PathBuf> {
    let random = getrandom::u64().map_err(io::Error::other)?;
    Ok(target.with_file_name(format!(".toolnexus-{random:016x}.tmp")))
}

/// Opens the target itself, as it is. For reading too where that is allowed: the old content is
/// then put back after a failure.
fn writable(root: &Dir, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    without_waiting(&mut options);
    let file = match root.open_with(path, &options) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            root.open_with(path, options.read(false))?
        }
        other => other?,
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn overwrite(mut file: File, content: &[u8]) -> io::Result<()> {
    let mut old = Vec::new();
    let kept = file.metadata()?.len() <= MOST_BYTES && file.read_to_end(&mut old).is_ok();
    let written = fill(&mut file, content);
    if written.is_err() && kept {
        let _ = fill(&mut file, &old);
    }
    written
}

fn fill(file: &mut File, content: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(content)?;
    file.set_len(content.len() as u64)
}

/// Opens the file for writing and leaves it as it is: only to hear whether that is allowed.
fn check_writable(root: &Dir, path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    without_waiting(&mut options);
    match root.open_with(path, &options) {
        // A program that runs can be replaced though not be written.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Ok(()),
        opened => opened.map(drop),
    }
}

#[cfg(unix)]
fn readable_by_owner_alone(options: &mut OpenOptions) {
    use cap_std::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn readable_by_owner_alone(_options: &mut OpenOptions) {}
