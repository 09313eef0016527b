//! Where a search starts, and the only way into what lies below.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

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
        let at_fault = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
                format!("path not found: {path}")
            }
            _ => format!("{}: {error}", if path.is_empty() { "." } else { path }),
        };
        let named = paths.behind_base(path)?;
        let place = if paths.confined() { Some(paths.place(path)?) } else { None };
        let real = match &place {
            Some(place) => place.real().to_path_buf(),
            None => fs::canonicalize(&named).map_err(at_fault)?,
        };
        let kind = fs::symlink_metadata(&real).map_err(at_fault)?;
        let only = if kind.is_dir() { None } else { real.file_name().map(PathBuf::from) };
        if only.is_some() && !kind.is_file() {
            return Err(format!("{path} is not a regular file"));
        }
        let above = |path: &Path| path.parent().unwrap_or(path).to_path_buf();
        let directory = if only.is_some() { above(&real) } else { real };
        let handle = match &place {
            None => None,
            Some(place) => {
                let (base, below) = place.held();
                let below = if only.is_some() { above(below) } else { below.to_path_buf() };
                let below = if below.as_os_str().is_empty() { PathBuf::from(".") } else { below };
                Some(base.open_dir(below).map_err(at_fault)?)
            }
        };
        let root = Root { named, directory, only, handle };
        // Of a tree, what cannot be read is passed over; asked for by name, it is an error.
        match &root.only {
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

    /// Whether a file that a walk met is there still. Under confinement this is asked below the
    /// directory that is held; without, the answer is yes.
    ///
    /// # Errors
    /// A link was put there since that leads out of bounds.
    pub(crate) fn still_has(&self, below: &Path) -> Result<bool, String> {
        let Some(handle) = &self.handle else { return Ok(true) };
        match handle.symlink_metadata(below) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            // The refusal to leave the directory is no answer of the operating system.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() =>
            {
                Err("the tree was changed while it was searched; try again".to_owned())
            }
            Err(_) => Ok(true),
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

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::config::BuiltinsConfig;
    use std::os::unix::fs::symlink;

    /// Two directories beside each other, `inside` and `outside`, each with `sub/file`.
    fn two() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let directory = fs::canonicalize(place.path()).unwrap().join(name);
            fs::create_dir_all(directory.join("sub")).unwrap();
            fs::write(directory.join("sub/file"), name).unwrap();
            directory
        };
        let (inside, outside) = (of("inside"), of("outside"));
        (place, inside, outside)
    }

    fn root(base_dir: &Path, confined: bool, path: &str) -> Root {
        let base_dir = Some(base_dir.to_path_buf());
        let config = BuiltinsConfig { base_dir, confine_to_base_dir: confined, ..Default::default() };
        Root::find(&Paths::of(&config), path).unwrap()
    }

    // BUILTIN-27, BUILTIN-55: a directory that becomes a link while it is searched
    #[test]
    fn a_directory_that_is_swapped_for_a_link_leads_nowhere() {
        let (_place, inside, outside) = two();
        let root = root(&inside, true, "");
        assert!(root.open(Path::new("sub/file")).is_ok());
        assert_eq!(root.still_has(Path::new("sub/file")), Ok(true));
        fs::rename(inside.join("sub"), inside.join("was")).unwrap();
        symlink(outside.join("sub"), inside.join("sub")).unwrap();
        assert!(root.open(Path::new("sub/file")).is_err());
        assert!(root.still_has(Path::new("sub/file")).is_err());
        assert_eq!(root.still_has(Path::new("was/gone")), Ok(false));
        assert_eq!(root.check(), Ok(()));
    }

    // BUILTIN-27: the searched directory itself is held
    #[test]
    fn a_root_that_is_swapped_for_a_link_is_noticed_and_not_followed() {
        for path in ["sub", "sub/file"] {
            let (_place, inside, outside) = two();
            let root = root(&inside, true, path);
            fs::rename(inside.join("sub"), inside.join("was")).unwrap();
            symlink(outside.join("sub"), inside.join("sub")).unwrap();
            let content = io::read_to_string(root.open(Path::new("file")).unwrap()).unwrap();
            assert_eq!(content, "inside");
            assert!(root.check().unwrap_err().contains("try again"));
        }
    }

    // BUILTIN-55: a file that becomes a link, a directory or a FIFO between being met and being opened
    #[test]
    fn what_is_opened_is_a_regular_file() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let (_place, inside, outside) = two();
        symlink(outside.join("sub/file"), inside.join("link")).unwrap();
        symlink("sub/file", inside.join("near")).unwrap();
        mknodat(CWD, inside.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        for confined in [false, true] {
            let root = root(&inside, confined, "");
            for other in ["link", "near", "pipe", "sub", "nope", "../outside/sub/file"] {
                let opened = root.open(Path::new(other));
                assert!(opened.is_err() || (!confined && other.starts_with("..")), "{other}");
            }
            assert!(root.has_file("sub/file") && !root.has_file("sub") && !root.has_file("a\0b"));
        }
    }
}
