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

use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::place::{MOST_BYTES, without_waiting};

/// How often another name is tried when the temporary file's is taken.
const ATTEMPTS: usize = 8;

/// New content that waits to become a file. Dropped without a commit, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Prepared<'content> {
    parent: Dir,
    name: PathBuf,
    content: &'content [u8],
    exists: bool,
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
    /// Prepares `content` for the file `name` of `parent`, which is a regular file or missing.
    pub(super) fn new(parent: Dir, name: &Path, content: &'content [u8]) -> io::Result<Self> {
        let old = match parent.symlink_metadata(name) {
            Ok(old) if old.is_file() => Some(old),
            Ok(_) => return Err(io::Error::other("something else took the file's place meanwhile")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let stage = match Temporary::create(&parent, old.is_some()) {
            Ok(mut temporary) => {
                temporary.file.write_all(content)?;
                if let Some(old) = &old {
                    take_over(old, &temporary.file)?;
                }
                Stage::Beside(temporary)
            }
            Err(error) if old.is_some() && is_refusal(&error) => Stage::Within(writable(&parent, name)?),
            Err(error) => return Err(error),
        };
        Ok(Prepared { parent, name: name.to_path_buf(), content, exists: old.is_some(), stage })
    }

    /// Makes the content the file's. After a failure the file has its old content.
    pub(super) fn put(self) -> io::Result<()> {
        let file = match self.stage {
            Stage::Within(file) => file,
            Stage::Beside(temporary) => match temporary.rename(&self.name) {
                // A sticky directory, or a file mounted over the name.
                Err(error) if self.exists && is_refusal(&error) => writable(&self.parent, &self.name)?,
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
    parent: Dir,
    name: PathBuf,
    file: File,
    named: bool,
}

impl Temporary {
    /// Creates one; `private` until the mode of the old file is known to fit.
    fn create(parent: &Dir, private: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if private {
            readable_by_owner_alone(&mut options);
        }
        let parent = parent.try_clone()?;
        let mut attempts = 0;
        loop {
            let name = format!(".toolnexus-{:016x}.tmp", getrandom::u64().map_err(io::Error::other)?);
            match parent.open_with(&name, &options) {
                Ok(file) => return Ok(Temporary { parent, name: name.into(), file, named: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn rename(mut self, name: &Path) -> io::Result<()> {
        self.parent.rename(&self.name, &self.parent, name)?;
        self.named = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.named {
            let _ = self.parent.remove_file(&self.name);
        }
    }
}

/// Opens the target itself, as it is. For reading too where that is allowed: the old content is
/// then put back after a failure.
fn writable(parent: &Dir, name: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    without_waiting(&mut options);
    let file = match parent.open_with(name, &options) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            parent.open_with(name, options.read(false))?
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

#[cfg(all(test, unix))]
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
