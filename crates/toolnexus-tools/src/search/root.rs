//! Where a search starts, and the only way into what lies below.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::paths::Paths;

/// The directory that is searched, or the directory of the one file that is.
///
/// Files are opened through it and never by a path that something else could have been put behind:
/// what is opened is a regular file, no link, and under confinement lies below the directory that
/// was checked, whatever happened to the tree since.
pub(crate) struct Root {
    /// What the model named, made absolute.
    named: PathBuf,
    /// The directory, with no link in it.
    directory: PathBuf,
    /// The name of the one file to search.
    only: Option<PathBuf>,
    /// The directory itself, when paths are confined.
    handle: Option<Dir>,
}

impl Root {
    /// The place that a model calls `path`; empty is the base directory. Links in the path itself
    /// are followed.
    ///
    /// # Errors
    /// There is no such place, it is neither a directory nor a regular file, it cannot be opened, or
    /// it is out of bounds.
    pub(crate) fn find(paths: &Paths, path: &str) -> Result<Root, String> {
        let named = paths.resolve(path)?;
        let at_fault = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
                format!("path not found: {path}")
            }
            _ => format!("{}: {error}", if path.is_empty() { "." } else { path }),
        };
        let real = fs::canonicalize(&named).map_err(at_fault)?;
        let kind = fs::metadata(&real).map_err(at_fault)?;
        let (directory, only) = if kind.is_dir() {
            (real, None)
        } else if !kind.is_file() {
            return Err(format!("{path} is not a regular file"));
        } else {
            let name = real.file_name().map(PathBuf::from);
            (real.parent().unwrap_or(Path::new("")).to_path_buf(), name)
        };
        let mut root = Root { named, directory, only, handle: None };
        if paths.confined() {
            root.handle =
                Some(Dir::open_ambient_dir(&root.directory, ambient_authority()).map_err(at_fault)?);
            root.check()?;
        }
        match &root.only {
            // Of a tree, what cannot be read is passed over; asked for by name, it is an error.
            Some(name) => drop(root.open(name).map_err(at_fault)?),
            None => drop(fs::read_dir(&root.directory).map_err(at_fault)?),
        }
        Ok(root)
    }

    /// The directory, with no link in it.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The name of the file, when it is not a directory that is searched.
    pub(crate) fn only(&self) -> Option<&Path> {
        self.only.as_deref()
    }

    /// The paths that this directory goes by.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Path> {
        let named = if self.only.is_some() { self.named.parent() } else { Some(self.named.as_path()) };
        named.into_iter().chain([self.directory.as_path()])
    }

    /// Opens a file below. Never waits for whoever is at the other end of a FIFO.
    ///
    /// # Errors
    /// It cannot be opened, is no regular file, or, under confinement, is out of bounds by now.
    pub(crate) fn open(&self, below: &Path) -> io::Result<File> {
        let file = match &self.handle {
            None => open_unfollowed(&self.directory.join(below))?,
            Some(handle) => open_beneath(handle, below)?,
        };
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Under confinement, makes sure that the directory is still where it was when it was checked:
    /// names are listed by its path.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.handle.is_none() || fs::canonicalize(&self.directory).is_ok_and(|now| now == self.directory) {
            return Ok(());
        }
        Err("the directory was moved while it was searched; try again".to_owned())
    }

    /// Under confinement, makes sure that a file which a walk met lies below the directory and not
    /// behind a link that was put there since.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn check_below(&self, below: &Path) -> Result<(), String> {
        let Some(handle) = &self.handle else { return Ok(()) };
        match handle.symlink_metadata(below) {
            // The refusal to leave the directory is no answer of the operating system.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() =>
            {
                Err("the tree was changed while it was searched; try again".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Whether a regular file goes by this text, taken as a relative path.
    pub(crate) fn has_file(&self, relative: &str) -> bool {
        self.open(Path::new(OsStr::new(relative))).is_ok()
    }
}

/// Opens a file for reading unless it is a link.
#[cfg(unix)]
fn open_unfollowed(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    fs::OpenOptions::new().read(true).custom_flags(unfollowed()).open(path)
}

#[cfg(not(unix))]
fn open_unfollowed(path: &Path) -> io::Result<File> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    File::open(path)
}

/// Opens a file for reading unless it is a link or leads out of the directory.
fn open_beneath(directory: &Dir, below: &Path) -> io::Result<File> {
    let mut options = cap_std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        options.custom_flags(unfollowed());
    }
    #[cfg(not(unix))]
    if !directory.symlink_metadata(below)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    directory.open_with(below, &options).map(cap_std::fs::File::into_std)
}

/// A link is not followed, and a FIFO without a writer is opened at once.
#[cfg(unix)]
fn unfollowed() -> i32 {
    use rustix::fs::OFlags;
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}
