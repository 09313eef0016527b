//! Meeting every file of a tree, on several threads.

use std::borrow::Cow;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{MAIN_SEPARATOR, Path};
use std::sync::{Mutex, PoisonError};

use ignore::{WalkBuilder, WalkState};

use super::{Root, Running};

/// Directories that hold other people's files.
const NOT_ENTERED: [&str; 2] = ["node_modules", ".git"];

/// More threads than this wait for each other, or for the disk.
const MOST_THREADS: usize = 8;

/// One regular file that a walk met.
pub(crate) struct Found<'a> {
    /// Its path below the root, as the operating system spells it.
    pub(crate) below: &'a Path,
}

impl Found<'_> {
    /// The path as text to match: `/`-separated, undecodable bytes replaced.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        slashed(self.below)
    }
}

/// A name as a row shows it: on one line.
pub(crate) fn shown(name: Cow<'_, str>) -> String {
    if name.contains('\n') { name.replace('\n', "\u{fffd}") } else { name.into_owned() }
}

/// The files whose rules say what is ignored in a directory.
const RULES: [&str; 3] = [".gitignore", ".ignore", ".git/info/exclude"];

/// Calls a `visit` for every regular file below a directory, in no particular order, until the search
/// is stopped. Each thread has a `visit` of its own from `make_visit`.
///
/// Links are neither followed nor reported. What cannot be read is passed over.
///
/// # Errors
/// What is ignored in the directory itself cannot be read.
pub(crate) fn walk<V>(
    root: &Root,
    respect_gitignore: bool,
    running: &Running,
    make_visit: impl Fn() -> V,
) -> Result<(), String>
where
    V: FnMut(Found<'_>) + Send,
{
    let above = root.directory().ancestors().take_while(|_| respect_gitignore).enumerate();
    for (levels, directory) in above {
        if let Some(rules) = rules_that_wait(directory) {
            return Err(format!("{}{rules} is not a regular file", "../".repeat(levels)));
        }
    }
    let panicked = Mutex::new(None);
    let mut builder = WalkBuilder::new(root.directory());
    builder
        .threads(std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS))
        .standard_filters(false)
        .ignore(respect_gitignore)
        .git_ignore(respect_gitignore)
        .git_global(respect_gitignore)
        .git_exclude(respect_gitignore)
        .parents(respect_gitignore)
        .require_git(false)
        .filter_entry(move |entry| {
            if entry.depth() == 0 || !entry.file_type().is_some_and(|kind| kind.is_dir()) {
                return true;
            }
            if NOT_ENTERED.iter().any(|name| entry.file_name() == *name) {
                return false;
            }
            !respect_gitignore || rules_that_wait(entry.path()).is_none()
        });
    builder.build_parallel().run(|| {
        let mut visit = make_visit();
        let panicked = &panicked;
        Box::new(move |entry| {
            if running.is_stopped() {
                return WalkState::Quit;
            }
            let Ok(entry) = entry else { return WalkState::Continue };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                return WalkState::Continue;
            }
            let Ok(below) = entry.path().strip_prefix(root.directory()) else { return WalkState::Continue };
            running.visited();
            // The walk's other threads would wait for ever for one that is gone.
            match catch_unwind(AssertUnwindSafe(|| visit(Found { below }))) {
                Ok(()) => WalkState::Continue,
                Err(payload) => {
                    *panicked.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
                    WalkState::Quit
                }
            }
        })
    });
    if let Some(payload) = panicked.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(payload);
    }
    Ok(())
}

/// A file of rules that the walk would wait for, or never read to its end: a FIFO or a device.
fn rules_that_wait(directory: &Path) -> Option<&'static str> {
    let waits = |rules: &&str| {
        fs::metadata(directory.join(rules)).is_ok_and(|found| !found.is_file() && !found.is_dir())
    };
    RULES.into_iter().find(waits)
}

fn slashed(path: &Path) -> Cow<'_, str> {
    let text = path.to_string_lossy();
    if MAIN_SEPARATOR == '/' { text } else { text.replace(MAIN_SEPARATOR, "/").into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BuiltinsConfig;
    use crate::paths::Paths;
    use crate::search::run;
    use toolnexus_core::ToolContext;

    // BUILTIN-12: a panic on a thread of a walk ends it, and is an error
    #[tokio::test]
    async fn a_panic_ends_a_walk() {
        let place = tempfile::tempdir().unwrap();
        for file in 0..100 {
            fs::write(place.path().join(file.to_string()), "").unwrap();
        }
        let base_dir = Some(place.path().to_path_buf());
        let paths = Paths::of(&BuiltinsConfig { base_dir, ..Default::default() });
        let context = ToolContext::default();
        let walked = run(&context, 0, move |running| {
            let root = Root::find(&paths, "")?;
            walk(&root, false, running, || |_: Found<'_>| panic!("lost"))
        });
        assert_eq!(walked.await, Err("lost".to_owned()));
    }
}
