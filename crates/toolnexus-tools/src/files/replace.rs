//! New content for a file, whole or not at all.

use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::place::{MOST_BYTES, without_waiting};

/// How often another name is tried when the temporary file's is taken.
const ATTEMPTS: usize = 8;

/// Puts `content` into the file `name` of `parent`, which `exists` as a regular file or is
/// missing.
pub(super) fn replace(parent: &Dir, name: &Path, exists: bool, content: &[u8]) -> io::Result<()> {
    match by_renaming(parent, name, content) {
        // A directory that is not ours to write, a sticky one, a file mounted over a name.
        Err(error) if exists && is_refusal(&error) => in_place(parent, name, content),
        other => other,
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy)
}

/// Writes a new file beside the old one and gives it the old one's name.
fn by_renaming(parent: &Dir, name: &Path, content: &[u8]) -> io::Result<()> {
    let old = match parent.symlink_metadata(name) {
        Ok(old) if old.is_file() => Some(old),
        Ok(_) => return Err(io::Error::other("the file was replaced by something else meanwhile")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut temporary = Temporary::create(parent, old.is_some())?;
    temporary.file.write_all(content)?;
    if let Some(old) = &old {
        take_over(old, &temporary.file)?;
    }
    temporary.rename(name)
}

/// A file that is removed with the value, unless it got its name.
struct Temporary<'dir> {
    parent: &'dir Dir,
    name: PathBuf,
    file: File,
    named: bool,
}

impl<'dir> Temporary<'dir> {
    /// Creates one; `private` until the mode of the old file is known to fit.
    fn create(parent: &'dir Dir, private: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if private {
            readable_by_owner_alone(&mut options);
        }
        let mut attempts = 0;
        loop {
            let name =
                PathBuf::from(format!(".toolnexus-{:016x}.tmp", getrandom::u64().map_err(io::Error::other)?));
            match parent.open_with(&name, &options) {
                Ok(file) => return Ok(Temporary { parent, name, file, named: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn rename(mut self, name: &Path) -> io::Result<()> {
        self.parent.rename(&self.name, self.parent, name)?;
        self.named = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.named {
            let _ = self.parent.remove_file(&self.name);
        }
    }
}

/// Overwrites the file itself; puts the old content back when that fails.
fn in_place(parent: &Dir, name: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    without_waiting(&mut options);
    let mut file = parent.open_with(name, &options)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let old = if file.metadata()?.len() <= MOST_BYTES { parent.read(name).ok() } else { None };
    let written = overwrite(&mut file, content);
    if let (Err(_), Some(old)) = (&written, &old) {
        let _ = overwrite(&mut file, old);
    }
    written
}

fn overwrite(file: &mut File, content: &[u8]) -> io::Result<()> {
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
