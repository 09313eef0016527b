//! A plan becomes files.
//!
//! ```text
//! prepare   every new content in a temporary file beside its target, directories made
//! commit    the temporary files get their names
//! remove    files that are to go are renamed, and removed when all are
//! ```
//!
//! Nearly everything that can fail does in the first step, before any file has changed. Whatever fails later,
//! what was done is undone in reverse.

use std::collections::HashMap;
use std::path::PathBuf;

use bytes::Bytes;

use super::plan::{Before, Change, Files, Found, Plan};
use crate::files::{self, Aside, CreatedDirectories, Kind, Place, Version};
use crate::paths::NamedPlace;

/// Bytes of the largest file that is read only to show that it went.
const MOST_SHOWN: u64 = 16 * 1024 * 1024;

/// The files that a patch names, found. Places are told apart by their resolved paths.
pub(super) struct Disk {
    /// By the path as the patch has it: where it leads, and where its name stands.
    paths: HashMap<String, (PathBuf, Result<PathBuf, String>)>,
    places: HashMap<PathBuf, Place>,
}

impl Disk {
    pub(super) fn new(found: Vec<NamedPlace>) -> Self {
        let mut disk = Disk { paths: HashMap::new(), places: HashMap::new() };
        for NamedPlace { path, place, link } in found {
            let real = disk.add(place);
            let name = link.map(|link| link.map_or_else(|| real.clone(), |link| disk.add(link)));
            disk.paths.insert(path, (real, name));
        }
        disk
    }

    fn add(&mut self, place: Place) -> PathBuf {
        let real = place.real().to_path_buf();
        // Of several paths to one place, the first stands in messages.
        self.places.entry(real.clone()).or_insert(place);
        real
    }

    /// What is to be locked.
    pub(super) fn real_paths(&self) -> Vec<PathBuf> {
        self.places.keys().cloned().collect()
    }

    fn at(&self, real: &PathBuf) -> Result<&Place, String> {
        self.places.get(real).ok_or_else(|| not_looked_for(&real.display()))
    }
}

impl Files for Disk {
    type Place = PathBuf;

    fn place(&self, path: &str) -> Result<PathBuf, String> {
        self.paths.get(path).map(|(place, _)| place.clone()).ok_or_else(|| not_looked_for(&path))
    }

    fn name(&self, path: &str) -> Result<PathBuf, String> {
        self.paths.get(path).map_or_else(|| Err(not_looked_for(&path)), |(_, name)| name.clone())
    }

    fn found(&self, place: &PathBuf) -> Result<Found, String> {
        Ok(match self.at(place)?.kind()? {
            Kind::Missing => Found::Nothing,
            Kind::File { .. } => Found::File,
            Kind::Directory => Found::Directory,
            Kind::Other => Found::Special,
        })
    }

    fn read(&self, place: &PathBuf) -> Result<Bytes, String> {
        self.at(place)?.read().map(Bytes::from)
    }

    fn glance(&self, place: &PathBuf, most: u64) -> Option<Bytes> {
        let place = self.at(place).ok()?;
        let small = place.file_bytes().ok()? <= Some(MOST_SHOWN.min(most));
        if small { place.read().ok().map(Bytes::from) } else { None }
    }
}

/// Cannot happen: every path of the patch was.
fn not_looked_for(path: &dyn std::fmt::Display) -> String {
    format!("{path} was not looked for")
}

/// Makes the files what the plan says.
///
/// # Errors
/// The system's reason. All files are as they were then, and the directories that were made are gone. What
/// cannot be put back, since the system refuses that too, is named.
pub(super) fn apply(plan: &Plan<PathBuf>, disk: &Disk) -> Result<(), String> {
    let mut done = Done::default();
    change_all(plan, disk, &mut done).map_err(|reason| match done.undo().as_slice() {
        [] => reason,
        lost => format!("{reason}; not put back: {}", lost.join(", ")),
    })
}

fn change_all<'a>(plan: &'a Plan<PathBuf>, disk: &'a Disk, done: &mut Done<'a>) -> Result<(), String> {
    let mut prepared = Vec::with_capacity(plan.changes.len());
    for change in &plan.changes {
        let Some(content) = &change.after else { continue };
        let place = disk.at(&change.place)?;
        let model = change.moved_from().map(|origin| disk.at(origin)).transpose()?;
        let (directories, mut new) = place.prepare_with_parents(content, model)?;
        done.directories.push(directories);
        if change.before == Before::Nothing {
            new = new.exclusive();
        }
        prepared.push((change, place, new));
    }
    for (change, place, new) in prepared {
        place.commit(new)?;
        done.written.push((change, place));
    }
    // Last, so that the content of a moved file is always somewhere.
    for change in plan.changes.iter().filter(|change| change.after.is_none()) {
        done.aside.push((change, disk.at(&change.place)?.set_aside()?));
    }
    Ok(())
}

/// What was done so far. Dropped, it is done for good.
#[derive(Default)]
struct Done<'a> {
    directories: Vec<CreatedDirectories>,
    written: Vec<(&'a Change<PathBuf>, &'a Place)>,
    aside: Vec<(&'a Change<PathBuf>, Aside)>,
}

impl<'a> Done<'a> {
    /// Undoes it. The paths of files for which the system did not allow that.
    fn undo(self) -> Vec<&'a str> {
        let mut lost = Vec::new();
        for (change, aside) in self.aside.into_iter().rev() {
            if aside.put_back().is_err() {
                lost.push(change.path.as_str());
            }
        }
        for (change, place) in self.written.into_iter().rev() {
            let undone = match &change.before {
                Before::File(content) => place.replace(content),
                Before::Nothing | Before::Unseen => place.remove(),
            };
            if undone.is_err() {
                lost.push(&change.path);
            }
        }
        self.directories.into_iter().rev().for_each(CreatedDirectories::undo);
        lost
    }
}

/// The changes as a diff shows them: a move is one change.
pub(super) fn shown(plan: &Plan<PathBuf>) -> Vec<files::Change<'_>> {
    let gone = plan.changes.iter().filter(|change| change.after.is_none());
    let mut gone: HashMap<&PathBuf, &Change<PathBuf>> = gone.map(|change| (&change.place, change)).collect();
    let mut moved: HashMap<&PathBuf, &Change<PathBuf>> = HashMap::new();
    for change in plan.changes.iter().filter(|change| change.before == Before::Nothing) {
        if let Some(from) = change.moved_from().and_then(|origin| gone.remove(origin)) {
            moved.insert(&change.place, from);
        }
    }
    let told_by_its_move =
        |change: &Change<PathBuf>| change.after.is_none() && !gone.contains_key(&change.place);
    let changes = plan.changes.iter().filter(|change| !told_by_its_move(change));
    let shown = changes.map(|change| {
        let old = moved.get(&change.place).copied().unwrap_or(change);
        let before = match &old.before {
            Before::Nothing => Version::Absent,
            Before::File(content) => version(content),
            Before::Unseen => Version::Opaque,
        };
        let after = change.after.as_ref().map_or(Version::Absent, version);
        files::Change { old_path: &old.path, new_path: &change.path, before, after }
    });
    shown.collect()
}

fn version(content: &Bytes) -> Version<'_> {
    std::str::from_utf8(content).map_or(Version::Opaque, Version::Text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::parse::Patch;
    use super::*;
    use crate::config::BuiltinsConfig;
    use crate::paths::Paths;

    /// Plans a patch, lets something happen, and then makes the files what the plan says.
    fn applied_after(base: &Path, sections: &str, meanwhile: impl FnOnce()) -> Result<(), String> {
        let paths = Paths::of(&BuiltinsConfig { base_dir: Some(base.to_path_buf()), ..Default::default() });
        let text = format!("*** Begin Patch\n{sections}\n*** End Patch");
        let patch = Patch::parse(&text).unwrap();
        let disk = Disk::new(paths.places(patch.paths()).unwrap());
        let plan = Plan::new(&patch, &disk).unwrap();
        meanwhile();
        apply(&plan, &disk)
    }

    // BUILTIN-79, BUILTIN-84: what other programs make in the meantime is not overwritten either
    #[test]
    fn a_file_that_came_meanwhile_stays() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for sections in
            ["*** Update File: a\n+2\n*** Add File: n\n+mine", "*** Update File: a\n*** Move to: n\n+2"]
        {
            fs::write(at("a"), "1\n").unwrap();
            let result = applied_after(base.path(), sections, || fs::write(at("n"), "theirs").unwrap());
            assert_eq!(result.unwrap_err(), "file already exists: n");
            assert_eq!(fs::read_to_string(at("n")).unwrap(), "theirs");
            assert_eq!(fs::read_to_string(at("a")).unwrap(), "1\n");
            assert_eq!(fs::read_dir(base.path()).unwrap().count(), 2, "nothing is left beside them");
            fs::remove_file(at("n")).unwrap();
        }
    }

    // BUILTIN-84: a file that is to go and is gone makes the patch fail, and the rest is undone
    #[test]
    fn a_file_that_went_meanwhile_undoes_the_rest() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        fs::write(at("a"), "1\n").unwrap();
        fs::write(at("b"), "2\n").unwrap();
        fs::write(at("c"), "3\n").unwrap();
        let sections =
            "*** Add File: d/n\n+mine\n*** Update File: a\n+2\n*** Delete File: b\n*** Delete File: c";
        let result = applied_after(base.path(), sections, || fs::remove_file(at("c")).unwrap());
        assert_eq!(result.unwrap_err(), "file not found: c");
        assert_eq!(fs::read_to_string(at("a")).unwrap(), "1\n");
        assert_eq!(fs::read_to_string(at("b")).unwrap(), "2\n");
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 2);
    }
}
