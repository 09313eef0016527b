//! One entry of the file system, found once and then held on to.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, OpenOptions};

use super::aside::Aside;
use super::attributes::Attributes;
use super::prepared::Prepared;
use super::roots::Roots;

/// Bytes of the largest file that is read to be changed: it is in memory whole, more than once.
pub(crate) const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// How often the directories above a file are made anew when they go while it is made.
const ATTEMPTS: usize = 64;

/// What there is at a [`Place`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Missing,
    /// A regular file of so many bytes.
    File {
        /// Its length; some special file systems say 0 of files that are not empty.
        bytes: u64,
    },
    /// A directory.
    Directory,
    /// A device, a FIFO, a socket, or a link put there a moment ago.
    Other,
}

/// A file-system entry that may or may not exist: a directory handle, and a path below it that
/// holds no links.
///
/// Everything goes through the handle. With confinement it is the handle of the base directory,
/// and whatever is swapped for a link in the meantime cannot lead out of it. Methods block, and
/// fail with a text for the model, in which the path stands as the model wrote it.
#[derive(Debug)]
pub(crate) struct Place {
    /// The path as the model wrote it.
    shown: String,
    /// The absolute path without links.
    real: PathBuf,
    root: Arc<Dir>,
    /// Below `root`; empty for `root` itself.
    relative: PathBuf,
    /// What to say when the way leads out of `root` after all.
    outside: Option<String>,
}

impl Place {
    /// The place at `real`, which is below `base` and without links.
    ///
    /// # Errors
    /// `base` cannot be opened.
    pub(crate) fn beneath(
        shown: &str,
        base: &Path,
        real: PathBuf,
        outside: String,
        roots: &mut Roots,
    ) -> Result<Self, String> {
        let root = roots.open(base).map_err(|error| format!("baseDir {}: {error}", base.display()))?;
        let relative = real.strip_prefix(base).map_err(|_| outside.clone())?.to_path_buf();
        Ok(Place { shown: shown.to_owned(), real, root, relative, outside: Some(outside) })
    }

    /// The place at `real`, wherever that is: held by a directory that is open already, or by the
    /// nearest one that exists.
    ///
    /// # Errors
    /// No directory on the way can be opened.
    pub(crate) fn anywhere(shown: &str, real: PathBuf, roots: &mut Roots) -> Result<Self, String> {
        let (root, above) = roots.above(&real).map_err(|error| error.to_string())?;
        let relative = real.strip_prefix(above).unwrap_or(&real).to_path_buf();
        Ok(Place { shown: shown.to_owned(), real, root, relative, outside: None })
    }

    /// The resolved absolute path: what a lock is taken on.
    pub(crate) fn real(&self) -> &Path {
        &self.real
    }

    /// The directory handle, and the path below it.
    pub(crate) fn held(&self) -> (&Dir, &Path) {
        (&self.root, &self.relative)
    }

    /// What is there. Opens nothing, so that no FIFO can hold the call.
    pub(crate) fn kind(&self) -> Result<Kind, String> {
        if self.relative.as_os_str().is_empty() {
            return Ok(Kind::Directory);
        }
        let found = match self.root.symlink_metadata(&self.relative) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kind::Missing),
            Err(error) => return Err(self.reason(&error)),
        };
        let kind = found.file_type();
        if kind.is_file() && self.names_a_directory() {
            return Err(format!("{} is not a directory", self.shown));
        }
        Ok(if kind.is_file() {
            Kind::File { bytes: found.len() }
        } else if kind.is_dir() {
            Kind::Directory
        } else {
            Kind::Other
        })
    }

    /// The length of the regular file that is there; `None` when nothing is.
    ///
    /// # Errors
    /// `<path> is a directory`, `<path> is not a regular file`, or the system's reason.
    pub(crate) fn file_bytes(&self) -> Result<Option<u64>, String> {
        match self.kind()? {
            Kind::File { bytes } => Ok(Some(bytes)),
            Kind::Missing if self.names_a_directory() => Err(self.is_directory()),
            Kind::Missing => Ok(None),
            Kind::Directory => Err(self.is_directory()),
            Kind::Other => Err(self.is_special()),
        }
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// `file not found: <path>`, and what [`Place::file_bytes`] says.
    pub(crate) fn open(&self) -> Result<File, String> {
        if self.file_bytes()?.is_none() {
            return Err(self.not_found());
        }
        let mut options = OpenOptions::new();
        options.read(true);
        self.open_checked(&options)
    }

    /// The content of the file.
    ///
    /// # Errors
    /// As [`Place::open`]; `<path> is <n> bytes, over the limit of <m>` for a file of more than
    /// 256 MiB.
    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        let file = self.open()?;
        let length = file.metadata().map_err(|error| self.reason(&error))?.len();
        let mut bytes = Vec::new();
        if length <= MOST_BYTES {
            file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| self.reason(&error))?;
        }
        match length.max(bytes.len() as u64) {
            length if length > MOST_BYTES => {
                Err(format!("{} is {length} bytes, over the limit of {MOST_BYTES}", self.shown))
            }
            _ => Ok(bytes),
        }
    }

    /// Makes the directories above the file that are missing.
    ///
    /// # Errors
    /// The system's reason; what was made until then is gone again.
    fn create_parents(&self) -> io::Result<CreatedDirectories> {
        let mut created = CreatedDirectories { root: Arc::clone(&self.root), paths: Vec::new() };
        let mut missing: Vec<&Path> = Vec::new();
        for above in self.relative.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            match self.root.symlink_metadata(above) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(above),
                Err(error) => return Err(error),
            }
        }
        for path in missing.into_iter().rev() {
            match self.root.create_dir(path) {
                Ok(()) => created.paths.push(path.to_path_buf()),
                // Another call was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    created.undo();
                    return Err(error);
                }
            }
        }
        Ok(created)
    }

    /// Puts `content` there as a whole: the file has the old content or the new one at every
    /// moment, and the old one after a failure.
    ///
    /// The new content is a new file of the same mode and, where that is allowed, the same owner,
    /// group, access list and extended attributes, renamed to the old name: other names of the
    /// old file (hard links) keep the old content. Where the directory allows no such thing, the
    /// file is written in place. A file that cannot be written is not replaced either. A new file
    /// has the mode that the process gives new files.
    ///
    /// Nothing is forced to the disk: this is whole to other programs, not across a loss of
    /// power. A process that is killed in the middle may leave a `.toolnexus-*.tmp` behind.
    ///
    /// # Errors
    /// `<path> is a directory`, `<path> is not a regular file`, or the system's reason.
    pub(crate) fn replace(&self, content: &[u8]) -> Result<(), String> {
        self.commit(self.prepare(content)?)
    }

    /// The first half of [`Place::replace`], which does all that can well fail. Dropping the
    /// value instead of committing it leaves nothing behind.
    ///
    /// # Errors
    /// As [`Place::replace`].
    pub(crate) fn prepare<'content>(&self, content: &'content [u8]) -> Result<Prepared<'content>, String> {
        self.file_bytes()?;
        self.try_prepare(content, None).map_err(|error| self.reason(&error))
    }

    /// As [`Place::prepare`], for a file that has the attributes of the one at `model`, if there is one,
    /// and with the directories above it.
    ///
    /// Another call may have made these directories, fail, and take them away again before there is
    /// anything in them; they are made anew then.
    ///
    /// # Errors
    /// As [`Place::replace`]; directories that were made are gone again.
    pub(crate) fn prepare_with_parents<'content>(
        &self,
        content: &'content [u8],
        model: Option<&Place>,
    ) -> Result<(CreatedDirectories, Prepared<'content>), String> {
        self.file_bytes()?;
        let mut attempts = 1;
        let mut prepared = self.try_with_parents(content, model);
        while attempts < ATTEMPTS
            && prepared.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            attempts += 1;
            prepared = match self.outside {
                Some(_) => self.try_with_parents(content, model),
                // The directory that is held may be one of those that went.
                None => Place::anywhere(&self.shown, self.real.clone(), &mut Roots::default())?
                    .try_with_parents(content, model),
            };
        }
        prepared.map_err(|error| self.reason(&error))
    }

    fn try_with_parents<'content>(
        &self,
        content: &'content [u8],
        model: Option<&Place>,
    ) -> io::Result<(CreatedDirectories, Prepared<'content>)> {
        let created = self.create_parents()?;
        match self.try_prepare(content, model) {
            Ok(prepared) => Ok((created, prepared)),
            Err(error) => {
                created.undo();
                Err(error)
            }
        }
    }

    fn try_prepare<'content>(
        &self,
        content: &'content [u8],
        model: Option<&Place>,
    ) -> io::Result<Prepared<'content>> {
        let attributes = |model: &Place| -> io::Result<Attributes> {
            let found = model.root.symlink_metadata(&model.relative)?;
            Ok(Attributes::new(&model.root, &model.relative, found))
        };
        Prepared::new(&self.root, &self.relative, content, model.map(attributes).transpose()?)
    }

    /// The second half of [`Place::replace`], for what was prepared here.
    ///
    /// # Errors
    /// The system's reason; the file has its old content then.
    pub(crate) fn commit(&self, prepared: Prepared<'_>) -> Result<(), String> {
        prepared.put().map_err(|error| self.reason(&error))
    }

    /// Removes the file.
    ///
    /// # Errors
    /// `file not found: <path>`, and what [`Place::file_bytes`] says.
    pub(crate) fn remove(&self) -> Result<(), String> {
        if self.file_bytes()?.is_none() {
            return Err(self.not_found());
        }
        self.root.remove_file(&self.relative).map_err(|error| self.reason(&error))
    }

    /// Takes the file, or the link, away in a manner that can be undone.
    ///
    /// # Errors
    /// As [`Place::remove`].
    pub(crate) fn set_aside(&self) -> Result<Aside, String> {
        let is_link = || self.root.symlink_metadata(&self.relative).is_ok_and(|found| found.is_symlink());
        match self.kind()? {
            Kind::File { .. } => {}
            Kind::Other if is_link() => {}
            Kind::Missing => return Err(self.not_found()),
            Kind::Directory => return Err(self.is_directory()),
            Kind::Other => return Err(self.is_special()),
        }
        Aside::new(&self.root, &self.relative).map_err(|error| self.reason(&error))
    }

    /// Opens what was a regular file a moment ago, and looks again.
    fn open_checked(&self, options: &OpenOptions) -> Result<File, String> {
        let mut options = options.clone();
        without_waiting(&mut options);
        let file =
            self.root.open_with(&self.relative, &options).map_err(|error| self.reason(&error))?.into_std();
        match file.metadata().map_err(|error| self.reason(&error))?.file_type() {
            kind if kind.is_file() => Ok(file),
            kind if kind.is_dir() => Err(self.is_directory()),
            _ => Err(self.is_special()),
        }
    }

    /// Whether the path can only name a directory, as written.
    fn names_a_directory(&self) -> bool {
        let end = self.shown.trim_end_matches('.');
        end.len() + 2 >= self.shown.len() && end.ends_with(std::path::is_separator)
    }

    fn is_directory(&self) -> String {
        format!("{} is a directory", self.shown)
    }

    fn is_special(&self) -> String {
        format!("{} is not a regular file", self.shown)
    }

    fn not_found(&self) -> String {
        format!("file not found: {}", self.shown)
    }

    /// What the model reads of an error that came up here.
    fn reason(&self, error: &io::Error) -> String {
        match (error.kind(), &self.outside) {
            (io::ErrorKind::NotFound, _) => self.not_found(),
            (io::ErrorKind::AlreadyExists, _) => format!("file already exists: {}", self.shown),
            // The kernel's refusals have a number; this one is made by cap-std.
            (io::ErrorKind::PermissionDenied, Some(outside)) if error.raw_os_error().is_none() => {
                outside.clone()
            }
            _ => error.to_string(),
        }
    }
}

/// The directories that [`Place::prepare_with_parents`] made, outermost first. They stay unless undone.
#[derive(Debug)]
pub(crate) struct CreatedDirectories {
    root: Arc<Dir>,
    paths: Vec<PathBuf>,
}

impl CreatedDirectories {
    /// Removes them again, those that are still empty.
    pub(crate) fn undo(self) {
        for path in self.paths.iter().rev() {
            if self.root.remove_dir(path).is_err() {
                break;
            }
        }
    }
}

/// Keeps an open from waiting for the other end of a FIFO, and from taking over a terminal.
#[cfg(unix)]
pub(super) fn without_waiting(options: &mut OpenOptions) {
    use cap_std::fs::OpenOptionsExt as _;
    use rustix::fs::OFlags;

    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed());
}

#[cfg(not(unix))]
pub(super) fn without_waiting(_options: &mut OpenOptions) {}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::BuiltinsConfig;
    use crate::paths::Paths;

    fn paths(base: &Path, confined: bool) -> Paths {
        Paths::of(&BuiltinsConfig {
            base_dir: Some(base.to_path_buf()),
            confine_to_base_dir: confined,
            ..Default::default()
        })
    }

    /// A base with `dir/f` in it, and a directory outside with another `f`.
    fn base_and_outside() -> (tempfile::TempDir, tempfile::TempDir) {
        let (base, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(base.path().join("dir")).unwrap();
        fs::write(base.path().join("dir/f"), "mine").unwrap();
        fs::write(outside.path().join("f"), "secret").unwrap();
        (base, outside)
    }

    /// Puts a link to `target` where `dir` was.
    fn swap(base: &Path, target: &Path) {
        fs::rename(base.join("dir"), base.join("away")).unwrap();
        symlink(target, base.join("dir")).unwrap();
    }

    // BUILTIN-27, BUILTIN-28: after the look, the way is still held
    #[test]
    fn what_is_swapped_for_a_link_leads_nowhere() {
        let (base, outside) = base_and_outside();
        let relative = Path::new("..").join(outside.path().file_name().unwrap());
        for target in [outside.path(), &relative] {
            for path in ["dir/f", "dir/new", "dir/sub/new"] {
                let place = paths(base.path(), true).place(path).unwrap();
                swap(base.path(), target);
                let refused = format!("{path} resolves outside baseDir {}", base.path().display());
                assert_eq!(place.kind().unwrap_err(), refused);
                assert_eq!(place.open().unwrap_err(), refused);
                assert_eq!(place.read().unwrap_err(), refused);
                assert_eq!(place.replace(b"theirs").unwrap_err(), refused);
                assert_eq!(place.remove().unwrap_err(), refused);
                // What is directly below `dir` has no parents to make; `dir` is there.
                let made = place.create_parents().map(|_| ()).map_err(|error| place.reason(&error));
                assert_eq!(made, if path == "dir/sub/new" { Err(refused) } else { Ok(()) });
                fs::remove_file(base.path().join("dir")).unwrap();
                fs::rename(base.path().join("away"), base.path().join("dir")).unwrap();
            }
        }
        assert_eq!(fs::read_to_string(outside.path().join("f")).unwrap(), "secret");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(base.path().join("dir")).unwrap().count(), 1);
    }

    // BUILTIN-105: also what is swapped for a FIFO after the look is not waited for
    #[test]
    fn a_file_swapped_for_something_else_is_not_taken_for_one() {
        let (base, outside) = base_and_outside();
        for confined in [true, false] {
            let place = paths(base.path(), confined).place("dir/f").unwrap();
            let file = base.path().join("dir/f");
            fs::remove_file(&file).unwrap();
            let made = std::process::Command::new("mkfifo").arg(&file).status();
            assert!(made.unwrap().success());
            let refused = "dir/f is not a regular file";
            assert_eq!(place.kind(), Ok(Kind::Other));
            assert_eq!(place.read().unwrap_err(), refused);
            let mut options = OpenOptions::new();
            options.read(true);
            assert_eq!(place.open_checked(&options).unwrap_err(), refused, "after the look too");
            fs::remove_file(&file).unwrap();
            symlink(outside.path().join("f"), &file).unwrap();
            assert_eq!(place.read().unwrap_err(), refused);
            assert_eq!(place.replace(b"x").unwrap_err(), refused);
            assert_eq!(place.remove().unwrap_err(), refused);
            fs::remove_file(&file).unwrap();
            assert_eq!(place.kind(), Ok(Kind::Missing));
            assert_eq!(place.read().unwrap_err(), "file not found: dir/f");
            assert_eq!(place.remove().unwrap_err(), "file not found: dir/f");
            fs::create_dir(&file).unwrap();
            assert_eq!(place.read().unwrap_err(), "dir/f is a directory");
            fs::remove_dir(&file).unwrap();
            fs::write(&file, "mine").unwrap();
            assert_eq!(place.read().unwrap(), b"mine");
        }
        assert_eq!(fs::read_to_string(outside.path().join("f")).unwrap(), "secret");
    }

    // BUILTIN-54: prepared content that is dropped leaves nothing, also when it cannot be committed
    #[test]
    fn what_is_prepared_and_not_committed_leaves_nothing() {
        let (base, _outside) = base_and_outside();
        let place = paths(base.path(), true).place("dir/f").unwrap();
        let dir = base.path().join("dir");
        let prepared = place.prepare(b"new").unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2, "it waits beside the file");
        drop(prepared);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        let prepared = place.prepare(b"new").unwrap();
        fs::remove_file(dir.join("f")).unwrap();
        fs::create_dir(dir.join("f")).unwrap();
        assert!(place.commit(prepared).is_err());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }

    // BUILTIN-49: directories that were made go again when asked to, others do not
    #[test]
    fn only_directories_that_were_made_are_undone() {
        let (base, _outside) = base_and_outside();
        let place = paths(base.path(), true).place("dir/a/b/c/new").unwrap();
        fs::create_dir(base.path().join("dir/a")).unwrap();
        let created = place.create_parents().unwrap();
        assert!(base.path().join("dir/a/b/c").is_dir());
        created.undo();
        assert!(base.path().join("dir/a").is_dir() && !base.path().join("dir/a/b").exists());
        let created = place.create_parents().unwrap();
        fs::write(base.path().join("dir/a/b/theirs"), "").unwrap();
        created.undo();
        assert!(base.path().join("dir/a/b/theirs").exists() && !base.path().join("dir/a/b/c").exists());
    }

    // BUILTIN-49: a directory that is gone by now, such as another call made and took away, is made anew
    #[test]
    fn a_directory_that_went_meanwhile_is_made_anew() {
        for confined in [true, false] {
            let (base, _outside) = base_and_outside();
            fs::create_dir_all(base.path().join("a/b")).unwrap();
            let place = paths(base.path(), confined).place("a/b/new").unwrap();
            fs::remove_dir_all(base.path().join("a")).unwrap();
            let (created, prepared) = place.prepare_with_parents(b"new", None).unwrap();
            drop(prepared);
            created.undo();
            assert!(!base.path().join("a").exists());
            let (_created, prepared) = place.prepare_with_parents(b"new", None).unwrap();
            place.commit(prepared).unwrap();
            assert_eq!(fs::read_to_string(base.path().join("a/b/new")).unwrap(), "new");
        }
    }

    // D15
    #[test]
    fn a_file_too_large_to_change_is_not_read() {
        let (base, _outside) = base_and_outside();
        let file = File::create(base.path().join("dir/f")).unwrap();
        file.set_len(MOST_BYTES + 1).unwrap();
        let place = paths(base.path(), true).place("dir/f").unwrap();
        assert_eq!(place.read().unwrap_err(), "dir/f is 268435457 bytes, over the limit of 268435456");
    }

    // BUILTIN-20: one file has one place, whatever it is called
    #[test]
    fn names_of_one_file_are_one_place() {
        let (base, _outside) = base_and_outside();
        symlink("dir", base.path().join("link")).unwrap();
        symlink("dir/new", base.path().join("to-new")).unwrap();
        let real =
            |confined, path: &str| paths(base.path(), confined).place(path).unwrap().real().to_path_buf();
        let file = base.path().canonicalize().unwrap().join("dir/f");
        let new = file.with_file_name("new");
        let absolute = base.path().join("dir/f").to_str().unwrap().to_owned();
        for confined in [true, false] {
            for path in ["dir/f", "./dir//f", "dir/../dir/f", "link/f", "missing/../dir/f", &absolute] {
                assert_eq!(real(confined, path), file, "{path}");
            }
            for path in ["dir/new", "link/new", "to-new", "link/../dir/new"] {
                assert_eq!(real(confined, path), new, "{path}");
            }
        }
    }
}
