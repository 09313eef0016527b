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

use cap_std::fs::{Dir, File, Metadata, OpenOptions};

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
    /// mode and the owner are those of `model`, else those of the file it replaces.
    pub(super) fn new(
        root: &Arc<Dir>,
        path: &Path,
        content: &'content [u8],
        model: Option<Metadata>,
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
        let model = model.or(old);
        let stage = match Temporary::create(root, path, model.is_some()) {
            Ok((temporary, mut file)) => {
                file.write_all(content)?;
                if let Some(model) = &model {
                    take_over(model, &file)?;
                }
                Stage::Beside(temporary)
            }
            Err(error) if exists && is_refusal(&error) => Stage::Within(writable(root, path)?),
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

#[cfg(unix)]
fn check_writable(root: &Dir, path: &Path) -> io::Result<()> {
    use rustix::fs::{Access, AtFlags, accessat};

    // Asked of the directory itself: on the way there the call would follow links.
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let opened = if parent.as_os_str().is_empty() { None } else { Some(root.open_dir(parent)?) };
    Ok(accessat(opened.as_ref().unwrap_or(root), name, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// Where there is no such leave, the rename itself is refused.
#[cfg(not(unix))]
fn check_writable(_root: &Dir, _path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn readable_by_owner_alone(options: &mut OpenOptions) {
    use cap_std::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn readable_by_owner_alone(_options: &mut OpenOptions) {}

/// Gives `new` the owner, the group and the mode of `old`. Where the system refuses owner or
/// group, the mode gets narrower rather than opening the file to other people.
#[cfg(unix)]
fn take_over(old: &Metadata, new: &File) -> io::Result<()> {
    use cap_std::fs::{MetadataExt as _, Permissions, PermissionsExt as _};
    use rustix::fs::{Gid, Uid, fchown};

    let mut made = new.metadata()?;
    if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
        let group = Gid::from_raw(old.gid());
        if fchown(new, Some(Uid::from_raw(old.uid())), Some(group)).is_err() {
            let _ = fchown(new, None, Some(group));
        }
        made = new.metadata()?;
    }
    let mode = kept_mode(old.mode(), made.uid() == old.uid(), made.gid() == old.gid());
    new.set_permissions(Permissions::from_mode(mode))
}

/// The part of `mode` that can be kept when the owner or the group is another one now.
#[cfg(unix)]
fn kept_mode(mode: u32, same_owner: bool, same_group: bool) -> u32 {
    const RUNS_AS_ANOTHER: u32 = 0o6000;
    const GROUP: u32 = 0o070;
    let mut mode = mode & 0o7777;
    if !(same_owner && same_group) {
        mode &= !RUNS_AS_ANOTHER;
    }
    if !same_group {
        // The new group was among the others until now.
        mode &= !GROUP | (mode & 0o007) << 3;
    }
    mode
}

#[cfg(not(unix))]
fn take_over(old: &Metadata, new: &File) -> io::Result<()> {
    new.set_permissions(old.permissions())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    // BUILTIN-54: the mode is kept, and never opened to other people
    #[test]
    fn a_mode_is_kept_as_far_as_its_people_are() {
        assert_eq!(kept_mode(0o100_644, true, true), 0o644);
        assert_eq!(kept_mode(0o106_755, true, true), 0o6755);
        assert_eq!(kept_mode(0o106_755, false, true), 0o755);
        assert_eq!(kept_mode(0o100_664, true, false), 0o644);
        assert_eq!(kept_mode(0o100_660, true, false), 0o600);
        assert_eq!(kept_mode(0o100_677, false, false), 0o677);
    }
}
