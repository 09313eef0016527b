//! From a path as a model writes it to a path to open, and no further than the host allows.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::config::BuiltinsConfig;
use crate::files::{Place, Roots};
use crate::reserved_names::names_a_device;

/// How many links one path may lead through; what kernels allow.
const MAX_LINKS: usize = 40;

/// Bytes of the longest path that is looked at: no system opens a longer one, and to follow one takes
/// time that grows with its square.
const MOST_PATH_BYTES: usize = 32 * 1024;

/// Where relative paths start, and whether other places are allowed.
pub(crate) struct Paths {
    base_dir: Option<PathBuf>,
    confined: bool,
}

impl Paths {
    pub(crate) fn of(cfg: &BuiltinsConfig) -> Self {
        let base_dir = cfg.base_dir.clone().filter(|dir| !dir.as_os_str().is_empty());
        Paths { base_dir, confined: cfg.confine_to_base_dir }
    }

    /// Whether path arguments are held inside the base directory.
    pub(crate) fn confined(&self) -> bool {
        self.confined
    }

    /// The path to open for `path`, for those who work by path; the empty path is the base
    /// directory.
    ///
    /// Without confinement, that is `path` put behind the base directory. With it, links are
    /// resolved, and what is returned holds none. The path need not exist. Reads the disk, so
    /// call it off the async threads.
    ///
    /// # Errors
    /// The path leads out of the base directory, or cannot be followed.
    pub(crate) fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        if self.confined { Ok(self.beneath_base(path)?.real) } else { self.behind_base(path) }
    }

    /// The place of `path`, links resolved and held by a handle: with confinement, what is
    /// swapped for a link afterwards cannot lead out of the base directory any more. It need not
    /// exist. Reads the disk, so call it off the async threads.
    ///
    /// # Errors
    /// As [`Paths::resolve`].
    pub(crate) fn place(&self, path: &str) -> Result<Place, String> {
        self.place_from(path, &mut Roots::default())
    }

    /// The places of many paths, as [`Paths::place`] finds each, once for each path. Those below
    /// the base directory share its handle.
    ///
    /// # Errors
    /// As [`Paths::resolve`], for the first path that has no place.
    pub(crate) fn places<'path>(
        &self,
        paths: impl IntoIterator<Item = &'path str>,
    ) -> Result<Vec<NamedPlace>, String> {
        let mut roots = Roots::default();
        if let Ok(base) = self.behind_base("").and_then(|base| canonical(&base).map_err(|e| e.to_string())) {
            // What is wrong with it shows with the first path.
            let _ = roots.open(&base);
        }
        let mut known = HashSet::new();
        let new = paths.into_iter().filter(|path| known.insert(*path));
        let named = new.map(|path| {
            let place = self.place_from(path, &mut roots)?;
            Ok(NamedPlace { path: path.to_owned(), place, link: self.link(path, &mut roots) })
        });
        named.collect()
    }

    /// The place of the link that `path` itself is, if it is one; a link on the way does not count.
    fn link(&self, path: &str, roots: &mut Roots) -> Result<Option<Place>, String> {
        let full = self.behind_base(path)?;
        let (Some(parent), Some(name)) = (full.parent(), full.file_name()) else { return Ok(None) };
        let real = canonical(parent).map_err(|error| error.to_string())?.join(name);
        if !fs::symlink_metadata(&real).is_ok_and(|found| found.is_symlink()) {
            return Ok(None);
        }
        if !self.confined {
            return Place::anywhere(path, real, roots).map(Some);
        }
        let base = canonical(&self.behind_base("")?).map_err(|error| error.to_string())?;
        Place::beneath(path, &base, real, self.outside(path), roots).map(Some)
    }

    fn place_from(&self, path: &str, roots: &mut Roots) -> Result<Place, String> {
        if self.confined {
            let Beneath { base, real, outside } = self.beneath_base(path)?;
            return Place::beneath(path, &base, real, outside, roots);
        }
        let real = canonical(&self.behind_base(path)?).map_err(|error| error.to_string())?;
        Place::anywhere(path, real, roots)
    }

    /// `path` as it is, put behind the base directory.
    pub(crate) fn behind_base(&self, path: &str) -> Result<PathBuf, String> {
        check_length(path)?;
        let base = match &self.base_dir {
            Some(base) => base.clone(),
            None => std::env::current_dir().map_err(|error| error.to_string())?,
        };
        Ok(if path.is_empty() { base } else { base.join(path) })
    }

    fn outside(&self, path: &str) -> String {
        let base = self.base_dir.as_deref().unwrap_or(Path::new(""));
        format!("{path} resolves outside baseDir {}", base.display())
    }

    /// `path` with its links resolved, refused when it leads out of the base directory.
    fn beneath_base(&self, path: &str) -> Result<Beneath, String> {
        let Some(base_dir) = &self.base_dir else {
            return Err("confineToBaseDir is set but baseDir is empty".to_owned());
        };
        check_length(path)?;
        if cfg!(windows) && names_a_device(path) {
            return Err(format!(
                "{path} names a reserved device, which is not a file inside {}",
                base_dir.display()
            ));
        }
        let base = canonical(base_dir).map_err(|error| error.to_string())?;
        let outside = self.outside(path);
        // Why a path outside cannot be followed is nothing to tell.
        let real = canonical(&base.join(path))
            .map_err(|stuck| if stuck.at.starts_with(&base) { stuck.to_string() } else { outside.clone() })?;
        if real.starts_with(&base) { Ok(Beneath { base, real, outside }) } else { Err(outside) }
    }
}

fn check_length(path: &str) -> Result<(), String> {
    match path.len() {
        bytes if bytes > MOST_PATH_BYTES => Err(format!("a path of {bytes} bytes is too long")),
        _ => Ok(()),
    }
}

/// A path with the place that it leads to.
pub(crate) struct NamedPlace {
    pub(crate) path: String,
    pub(crate) place: Place,
    /// The link that the path itself is, or why it must not be touched.
    pub(crate) link: Result<Option<Place>, String>,
}

/// A path below the base directory, both without links.
struct Beneath {
    base: PathBuf,
    real: PathBuf,
    /// What to say should it lead out of there later.
    outside: String,
}

/// A path that cannot be followed to its end.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
struct Stuck {
    /// How far it could be, without links.
    at: PathBuf,
    error: io::Error,
}

/// The absolute path without links that `path` stands for, whether or not it exists.
///
/// Components are followed one by one, as opening the path would. A link to nowhere is followed
/// too: writing through it would create its target.
fn canonical(path: &Path) -> Result<PathBuf, Stuck> {
    // Of what is there as a whole the system knows best, and in one call.
    if let Ok(real) = fs::canonicalize(path) {
        return Ok(real);
    }
    let mut rest: VecDeque<OsString> = VecDeque::new();
    let mut real = PathBuf::new();
    let absolute = std::path::absolute(path).map_err(|error| Stuck { at: path.to_path_buf(), error })?;
    push_front(&mut rest, &absolute, &mut real);
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        match fs::canonicalize(&next) {
            Ok(existing) => real = existing,
            Err(error) => match fs::read_link(&next) {
                Ok(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Stuck { at: real, error });
                    }
                    push_front(&mut rest, &target, &mut real);
                }
                Err(_) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(Stuck { at: real, error });
                }
                Err(_) => real = next,
            },
        }
    }
    Ok(real)
}

/// Puts the components of `path` before `rest`; an absolute path starts `real` anew.
fn push_front(rest: &mut VecDeque<OsString>, path: &Path, real: &mut PathBuf) {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Prefix(_) | Component::RootDir => real.push(component),
            Component::CurDir => {}
            Component::ParentDir | Component::Normal(_) => names.push(component.as_os_str().to_owned()),
        }
    }
    for name in names.into_iter().rev() {
        rest.push_front(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // BUILTIN-29
    #[cfg(windows)]
    #[test]
    fn a_device_is_refused_where_it_would_be_one() {
        let base = tempfile::tempdir().unwrap();
        let paths = Paths { base_dir: Some(base.path().to_path_buf()), confined: true };
        let base = base.path().display();
        let refused = format!("nul.txt names a reserved device, which is not a file inside {base}");
        assert_eq!(paths.place("nul.txt").unwrap_err(), refused);
        assert_eq!(paths.resolve("nul.txt").unwrap_err(), refused);
    }

    #[cfg(unix)]
    mod links {
        use std::os::unix::fs::symlink;

        use proptest::prelude::*;

        use super::*;

        // BUILTIN-24, BUILTIN-27, BUILTIN-28: a path is where the system says it is, and one that
        // does not exist is where writing to it would make it
        #[test]
        fn a_place_is_where_the_system_says() {
            let outer = tempfile::tempdir().unwrap();
            let outer = outer.path().canonicalize().unwrap();
            let base = outer.join("base");
            fs::create_dir_all(base.join("a/b")).unwrap();
            fs::create_dir_all(outer.join("other/a")).unwrap();
            for file in ["base/f", "base/a/f", "base/a/b/f", "other/f"] {
                fs::write(outer.join(file), file).unwrap();
            }
            symlink("..", base.join("a/b/up")).unwrap();
            symlink("../..", base.join("a/up")).unwrap();
            symlink(outer.join("other"), base.join("out")).unwrap();
            symlink(base.join("a/b"), base.join("in")).unwrap();
            symlink("self", base.join("self")).unwrap();
            symlink("a/new", base.join("nowhere")).unwrap();
            let name = prop::sample::select(vec![
                "a", "b", "f", ".", "..", "up", "out", "in", "self", "new", "", "nowhere",
            ]);
            let free = Paths { base_dir: Some(base.clone()), confined: false };
            let confined = Paths { base_dir: Some(base.clone()), confined: true };
            proptest!(ProptestConfig::with_cases(256), |(names in prop::collection::vec(name, 1..7))| {
                let path = names.join("/");
                let path = path.trim_start_matches('/');
                let outside = format!("{path} resolves outside baseDir {}", base.display());
                let (free, held) = (free.place(path), confined.place(path));
                match (fs::canonicalize(base.join(path)), &free) {
                    (Ok(real), Ok(place)) => prop_assert_eq!(place.real(), &real),
                    (Ok(_), Err(error)) => prop_assert!(false, "{}", error),
                    (Err(_), _) => {}
                }
                match (free, held) {
                    (Ok(free), Ok(held)) => {
                        prop_assert_eq!(free.real(), held.real());
                        prop_assert!(held.real().starts_with(&base));
                        prop_assert_eq!(free.kind(), held.kind());
                        prop_assert_eq!(free.read(), held.read());
                    }
                    (Ok(free), Err(error)) => {
                        prop_assert_eq!(error, outside);
                        prop_assert!(!free.real().starts_with(&base));
                    }
                    // A circle of links.
                    (Err(free), held) => prop_assert_eq!(held.unwrap_err(), free),
                }
            });
        }
    }
}
