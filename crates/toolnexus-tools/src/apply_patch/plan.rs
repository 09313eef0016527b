//! What a patch makes of the files there are, decided before anything is written.
//!
//! The plan is made against a view of the files in which what earlier sections did has happened. It reads
//! through [`Files`] and never writes.

use std::hash::Hash;

use bytes::Bytes;
use indexmap::IndexMap;

use super::document::Document;
use super::parse::{Hunk, HunkLine, Patch, Section};
use crate::files::{MOST_BYTES, nearest_lines};

/// Lines that the search for the hunks of one patch may pass over: some seconds of work, and far more than hunks
/// in the order of their files ever need.
const MOST_PASSED: u64 = 500_000_000;

/// Lines of the largest file that hunks are put into: each costs memory, and lines may be short.
const MOST_LINES: usize = 10_000_000;

/// Bytes of all files together that a patch updates or moves: they are in memory until all is written.
const MOST_HELD: u64 = 4 * MOST_BYTES;

/// Bytes of all files together that are read only to show that they went.
const MOST_SHOWN: u64 = 64 * 1024 * 1024;

/// How much of a hunk's line an error quotes, in characters.
const QUOTED: usize = 80;

/// The files that a plan is made for.
pub(super) trait Files {
    /// One place for a file, however a path leads there.
    type Place: Clone + Eq + Hash;

    /// Where a path of the patch leads.
    fn place(&self, path: &str) -> Result<Self::Place, String>;

    /// Where its last name stands: for a link another place than where it leads.
    fn name(&self, path: &str) -> Result<Self::Place, String>;

    /// What is there.
    fn found(&self, place: &Self::Place) -> Result<Found, String>;

    /// The content of the file there.
    fn read(&self, place: &Self::Place) -> Result<Bytes, String>;

    /// The content of the file there if it is easy to have, and no more than so many bytes: what is to go
    /// need not be known.
    fn glance(&self, place: &Self::Place, most: u64) -> Option<Bytes>;
}

/// What is at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    File,
    Directory,
    /// A device, a pipe, a socket.
    Special,
}

/// What is to be written, and how to tell of it.
#[derive(Debug)]
pub(super) struct Plan<P> {
    /// Each place once, in the order in which the patch comes to them.
    pub(super) changes: Vec<Change<P>>,
    /// What was done, in the order of the sections.
    pub(super) steps: Vec<String>,
    pub(super) added: usize,
    pub(super) updated: usize,
    pub(super) deleted: usize,
}

/// The file at one place before and after the patch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change<P> {
    pub(super) place: P,
    /// The path by which the patch first names it.
    pub(super) path: String,
    pub(super) before: Before,
    /// The new content; `None` is no file.
    pub(super) after: Option<Bytes>,
    /// Whose content it was before the patch: the file's own, that of a file which was moved here,
    /// or nobody's. Its mode comes along.
    pub(super) origin: Option<P>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    File(Bytes),
    /// A file that nobody looked into, or a link.
    Unseen,
}

impl<P: Eq> Change<P> {
    /// The place that the file was moved from.
    pub(super) fn moved_from(&self) -> Option<&P> {
        self.origin.as_ref().filter(|origin| self.after.is_some() && **origin != self.place)
    }

    /// Whether anything is to be done.
    fn matters(&self) -> bool {
        let same = match (&self.before, &self.after) {
            (Before::Nothing, None) => true,
            (Before::File(before), Some(after)) => before == after,
            _ => false,
        };
        !same || self.moved_from().is_some()
    }
}

impl<P: Clone + Eq + Hash> Plan<P> {
    /// Plans a patch.
    ///
    /// # Errors
    /// Something cannot be done as it is asked.
    pub(super) fn new(patch: &Patch<'_>, files: &impl Files<Place = P>) -> Result<Self, String> {
        let mut view = View { files, changes: IndexMap::new(), may_hold: MOST_HELD, may_show: MOST_SHOWN };
        let mut patience = MOST_PASSED;
        let (mut added, mut updated, mut deleted) = (0, 0, 0);
        let mut steps = Vec::with_capacity(patch.sections.len());
        for section in &patch.sections {
            match section {
                Section::Add { path, content } => {
                    let new = view.vacant(path)?;
                    new.after = Some(Bytes::copy_from_slice(content.as_bytes()));
                    new.origin = None;
                    added += 1;
                    steps.push(format!("add {path}"));
                }
                Section::Delete { path } => {
                    view.delete(path)?;
                    deleted += 1;
                    steps.push(format!("delete {path}"));
                }
                Section::Update { path, move_to: None, hunks } => {
                    let file = view.existing(path)?;
                    let content = file.after.clone().unwrap_or_default();
                    file.after = Some(update(path, &content, hunks, &mut patience)?);
                    updated += 1;
                    steps.push(format!("update {path}"));
                }
                Section::Update { path, move_to: Some(to), hunks } => {
                    let file = view.existing(path)?;
                    let origin = file.origin.clone();
                    let content = file.after.clone().unwrap_or_default();
                    let content = update(path, &content, hunks, &mut patience)?;
                    let new = view.vacant(to)?;
                    new.after = Some(content);
                    new.origin = origin;
                    view.delete(path)?;
                    updated += 1;
                    steps.push(format!("move {path} -> {to}"));
                }
            }
        }
        let changes = view.changes.into_values().filter(Change::matters).collect();
        Ok(Plan { changes, steps, added, updated, deleted })
    }
}

/// The new content of a file. One that only moves may be anything.
fn update(path: &str, content: &Bytes, hunks: &[Hunk<'_>], patience: &mut u64) -> Result<Bytes, String> {
    if hunks.is_empty() {
        return Ok(content.clone());
    }
    let text = std::str::from_utf8(content).map_err(|_| format!("{path} is not valid UTF-8 text"))?;
    let lines = memchr::memchr_iter(b'\n', content).count();
    if lines > MOST_LINES {
        return Err(format!("{path} has {lines} lines, over the limit of {MOST_LINES}"));
    }
    let mut document = Document::new(text);
    for (at, hunk) in hunks.iter().enumerate() {
        if !document.apply(hunk) {
            let reason = mismatch(&document.text(), hunk, at + 1, hunks.len());
            return Err(format!("hunk does not match file contents: {path}{reason}"));
        }
        *patience = patience.checked_sub(document.take_passed()).ok_or_else(|| {
            format!("{path} takes too long to search; put hunks in the order of the file, or split the patch")
        })?;
    }
    Ok(document.text().into())
}

/// What helps to mend a hunk: which one of several it is, and what comes near to it. Often that is nothing.
fn mismatch(text: &str, hunk: &Hunk<'_>, number: usize, count: usize) -> String {
    let mut wanted = String::new();
    let mut first = None;
    for line in &hunk.lines {
        let (HunkLine::Context(old) | HunkLine::Removed(old)) = line else { continue };
        wanted.push_str(old);
        wanted.push('\n');
        first = first.or(Some(*old).filter(|old| !old.trim().is_empty()));
    }
    let mut reason = String::new();
    if count > 1 {
        reason = format!("\nhunk {number} of {count}");
        if let Some(first) = first {
            let quoted: String = first.chars().take(QUOTED).collect();
            let cut = if quoted.len() < first.len() { "…" } else { "" };
            reason += &format!(", which looks for: {quoted}{cut}");
        }
    }
    if let Some(near) = nearest_lines(text, &wanted) {
        reason += &format!("\n{near}");
    }
    reason
}

/// The files as the sections so far leave them.
struct View<'f, F: Files> {
    files: &'f F,
    changes: IndexMap<F::Place, Change<F::Place>>,
    /// How many bytes more may be read of files that must be known.
    may_hold: u64,
    /// And of files that need not.
    may_show: u64,
}

impl<F: Files> View<'_, F> {
    /// Where a path leads by now: a link that was taken away leads nowhere.
    fn place(&self, path: &str) -> Result<F::Place, String> {
        match self.files.name(path) {
            Ok(name) if self.changes.contains_key(&name) => Ok(name),
            _ => self.files.place(path),
        }
    }

    /// The file at a path that must have one, and what it holds.
    fn existing(&mut self, path: &str) -> Result<&mut Change<F::Place>, String> {
        let place = self.place(path)?;
        if !self.changes.contains_key(&place) {
            self.must_be_file(path, &place)?;
            let content = self.read(&place)?;
            self.insert(path, &place, Before::File(content));
        }
        let file = self.changes.get_mut(&place).filter(|file| file.after.is_some());
        file.ok_or_else(|| not_found(path))
    }

    /// Takes away the file at a path that must have one; of a link, the link alone.
    fn delete(&mut self, path: &str) -> Result<(), String> {
        let place = self.place(path)?;
        match self.changes.get(&place) {
            Some(file) if file.after.is_none() => return Err(not_found(path)),
            Some(_) => {}
            None => self.must_be_file(path, &place)?,
        }
        let name = self.files.name(path)?;
        if !self.changes.contains_key(&name) {
            let glance = self.files.glance(&name, self.may_show);
            self.may_show = self.may_show.saturating_sub(glance.as_ref().map_or(0, Bytes::len) as u64);
            self.insert(path, &name, glance.map_or(Before::Unseen, Before::File));
        }
        self.changes.get_mut(&name).into_iter().for_each(|file| file.after = None);
        Ok(())
    }

    /// The place of a path that must have no file.
    fn vacant(&mut self, path: &str) -> Result<&mut Change<F::Place>, String> {
        let taken = || format!("file already exists: {path}");
        let place = self.place(path)?;
        match self.changes.get(&place) {
            // What is overwritten must be known, for it may have to be put back.
            Some(file) if file.before == Before::Unseen => {
                let content = self.read(&place)?;
                self.changes
                    .get_mut(&place)
                    .into_iter()
                    .for_each(|file| file.before = Before::File(content.clone()));
            }
            Some(_) => {}
            None => match self.files.found(&place)? {
                Found::Nothing => self.insert(path, &place, Before::Nothing),
                Found::File | Found::Directory => return Err(taken()),
                Found::Special => return Err(special(path)),
            },
        }
        self.changes.get_mut(&place).filter(|file| file.after.is_none()).ok_or_else(taken)
    }

    /// The content of a file that must be known.
    fn read(&mut self, place: &F::Place) -> Result<Bytes, String> {
        let content = self.files.read(place)?;
        let left = self.may_hold.checked_sub(content.len() as u64);
        self.may_hold =
            left.ok_or_else(|| format!("the files are over {MOST_HELD} bytes together; split the patch"))?;
        Ok(content)
    }

    fn must_be_file(&self, path: &str, place: &F::Place) -> Result<(), String> {
        match self.files.found(place)? {
            Found::Nothing => Err(not_found(path)),
            Found::File => Ok(()),
            Found::Directory => Err(format!("{path} is a directory")),
            Found::Special => Err(special(path)),
        }
    }

    fn insert(&mut self, path: &str, place: &F::Place, before: Before) {
        let (after, origin) = match &before {
            Before::File(content) => (Some(content.clone()), Some(place.clone())),
            Before::Nothing | Before::Unseen => (None, None),
        };
        let change = Change { place: place.clone(), path: path.to_owned(), before, after, origin };
        self.changes.insert(place.clone(), change);
    }
}

fn not_found(path: &str) -> String {
    format!("file not found: {path}")
}

fn special(path: &str) -> String {
    format!("{path} is not a regular file")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    /// Files in memory. A name that begins with `./` leads where it leads without; `link` leads to `a`.
    #[derive(Default)]
    struct Memory {
        files: BTreeMap<String, Bytes>,
        read: RefCell<Vec<String>>,
        /// Whether large files are looked into as well.
        shows_all: bool,
    }

    impl Memory {
        fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
            let file =
                |(name, text): (&str, &str)| (name.to_owned(), Bytes::copy_from_slice(text.as_bytes()));
            Memory { files: files.into_iter().map(file).collect(), ..Default::default() }
        }

        fn plan(&self, body: &str) -> Result<Plan<String>, String> {
            Plan::new(&Patch::parse(&format!("*** Begin Patch\n{body}\n*** End Patch")).unwrap(), self)
        }

        fn error(&self, body: &str) -> String {
            self.plan(body).unwrap_err()
        }

        /// The changes as `path: before -> after`.
        fn changes(&self, body: &str) -> Vec<String> {
            let show = |content: Option<Bytes>| {
                content.map_or("none".to_owned(), |bytes| format!("{:?}", String::from_utf8_lossy(&bytes)))
            };
            let before = |before| match before {
                Before::Nothing => show(None),
                Before::File(content) => show(Some(content)),
                Before::Unseen => "unseen".to_owned(),
            };
            let changes = self.plan(body).unwrap().changes.into_iter();
            changes
                .map(|change| format!("{}: {} -> {}", change.path, before(change.before), show(change.after)))
                .collect()
        }
    }

    impl Files for Memory {
        type Place = String;

        fn place(&self, path: &str) -> Result<String, String> {
            match path.strip_prefix("./").unwrap_or(path) {
                "outside" => Err("outside resolves outside baseDir b".to_owned()),
                "link" => Ok("a".to_owned()),
                place => Ok(place.to_owned()),
            }
        }

        fn name(&self, path: &str) -> Result<String, String> {
            if path.ends_with("link") { Ok("link".to_owned()) } else { self.place(path) }
        }

        fn found(&self, place: &String) -> Result<Found, String> {
            Ok(match place.as_str() {
                "dir" => Found::Directory,
                "fifo" => Found::Special,
                place if self.files.contains_key(place) => Found::File,
                _ => Found::Nothing,
            })
        }

        fn read(&self, place: &String) -> Result<Bytes, String> {
            self.read.borrow_mut().push(place.clone());
            Ok(self.files.get(place).unwrap().clone())
        }

        fn glance(&self, place: &String, most: u64) -> Option<Bytes> {
            let most = most.min(if self.shows_all { u64::MAX } else { 9 });
            self.files.get(place).filter(|content| content.len() as u64 <= most).cloned()
        }
    }

    // BUILTIN-79, BUILTIN-80, BUILTIN-81, BUILTIN-85
    #[test]
    fn sections_become_changes_and_are_told_in_their_order() {
        let files = Memory::new([("a", "1\n"), ("b", "2\n"), ("c", "3\n")]);
        let body = "*** Delete File: b\n*** Add File: n\n+new\n*** Update File: a\n-1\n+one\n*** Update File: c\n*** Move to: d";
        let changes = [
            "b: \"2\\n\" -> none",
            "n: none -> \"new\\n\"",
            "a: \"1\\n\" -> \"one\\n\"",
            "c: \"3\\n\" -> none",
            "d: none -> \"3\\n\"",
        ];
        assert_eq!(files.changes(body), changes);
        let plan = files.plan(body).unwrap();
        assert_eq!(plan.steps, ["delete b", "add n", "update a", "move c -> d"]);
        assert_eq!((plan.added, plan.updated, plan.deleted), (1, 2, 1));
    }

    // BUILTIN-79, BUILTIN-80, BUILTIN-81, BUILTIN-86, BUILTIN-105
    #[test]
    fn what_must_be_there_is_and_what_must_not_is_not() {
        let files = Memory::new([("a", "1\n"), ("b", "2\n")]);
        let add = |path: &str| files.error(&format!("*** Add File: {path}\n+x"));
        let delete = |path: &str| files.error(&format!("*** Delete File: {path}"));
        let update = |path: &str| files.error(&format!("*** Update File: {path}\n+x"));
        let move_to = |path: &str| files.error(&format!("*** Update File: a\n*** Move to: {path}"));
        assert_eq!(add("a"), "file already exists: a");
        assert_eq!(add("link"), "file already exists: link");
        assert_eq!(add("dir"), "file already exists: dir");
        assert_eq!(add("fifo"), "fifo is not a regular file");
        for missing in [&delete as &dyn Fn(&str) -> String, &update] {
            assert_eq!(missing("none"), "file not found: none");
            assert_eq!(missing("dir"), "dir is a directory");
            assert_eq!(missing("fifo"), "fifo is not a regular file");
        }
        assert_eq!(move_to("b"), "file already exists: b");
        for itself in ["a", "./a", "link"] {
            assert_eq!(move_to(itself), format!("file already exists: {itself}"));
        }
        assert_eq!(move_to("fifo"), "fifo is not a regular file");
        for of in [&add as &dyn Fn(&str) -> String, &delete, &update, &move_to] {
            assert_eq!(of("outside"), "outside resolves outside baseDir b");
        }
        let binary =
            Memory { files: [("x".to_owned(), Bytes::from_static(&[0xff]))].into(), ..Default::default() };
        assert_eq!(binary.error("*** Update File: x\n+y"), "x is not valid UTF-8 text");
        assert!(binary.plan("*** Delete File: x").is_ok());
    }

    // BUILTIN-84
    #[test]
    fn later_sections_see_what_earlier_ones_did() {
        let files = Memory::new([("a", "1\n2\n")]);
        let twice = "*** Update File: a\n-1\n+one\n*** Update File: ./a\n one\n-2\n+two";
        assert_eq!(files.changes(twice), ["a: \"1\\n2\\n\" -> \"one\\ntwo\\n\""]);
        assert_eq!(*files.read.borrow(), ["a"], "once");
        let new = "*** Add File: n\n+1\n*** Update File: n\n-1\n+2";
        assert_eq!(files.changes(new), ["n: none -> \"2\\n\""]);
        assert_eq!(files.changes("*** Add File: n\n*** Delete File: n"), [""; 0]);
        assert_eq!(files.changes("*** Delete File: a\n*** Add File: a\n+x"), ["a: \"1\\n2\\n\" -> \"x\\n\""]);
        assert_eq!(
            files.changes("*** Update File: a\n*** Move to: b\n*** Add File: a\n+x"),
            ["a: \"1\\n2\\n\" -> \"x\\n\"", "b: none -> \"1\\n2\\n\""]
        );
        assert_eq!(
            files.changes("*** Update File: a\n*** Move to: b\n*** Update File: b\n-1\n*** Move to: c"),
            ["a: \"1\\n2\\n\" -> none", "c: none -> \"2\\n\""]
        );
        for (body, error) in [
            ("*** Add File: n\n*** Add File: ./n", "file already exists: ./n"),
            ("*** Delete File: a\n*** Update File: a\n+x", "file not found: a"),
            ("*** Delete File: a\n*** Delete File: link", "file not found: link"),
            ("*** Update File: a\n*** Move to: b\n*** Delete File: a", "file not found: a"),
            ("*** Add File: n\n*** Update File: a\n*** Move to: n", "file already exists: n"),
            ("*** Update File: a\n-1\n+x\n*** Update File: a\n-1", "hunk does not match file contents: a"),
        ] {
            assert_eq!(files.error(body), error);
        }
    }

    // BUILTIN-54, BUILTIN-80: what is written goes through a link, what is taken away is the link
    #[test]
    fn a_link_is_written_through_and_deleted_itself() {
        let files = Memory::new([("a", "1\n")]);
        assert_eq!(files.changes("*** Update File: link\n-1\n+2"), ["link: \"1\\n\" -> \"2\\n\""]);
        assert_eq!(files.plan("*** Update File: link\n-1\n+2").unwrap().changes[0].place, "a");
        assert_eq!(files.changes("*** Delete File: link"), ["link: unseen -> none"]);
        assert_eq!(
            files.changes("*** Update File: a\n-1\n+2\n*** Delete File: ./link\n*** Update File: a\n+3"),
            ["a: \"1\\n\" -> \"2\\n3\\n\"", "./link: unseen -> none"]
        );
        assert_eq!(
            files.changes("*** Update File: link\n*** Move to: b\n+2"),
            ["b: none -> \"1\\n2\\n\"", "link: unseen -> none"]
        );
        for section in
            ["*** Update File: link\n+x", "*** Delete File: link", "*** Update File: link\n*** Move to: b"]
        {
            assert_eq!(files.error(&format!("*** Delete File: link\n{section}")), "file not found: link");
        }
    }

    // BUILTIN-54: a moved file keeps its mode
    #[test]
    fn where_a_file_came_from_is_remembered() {
        let files = Memory::new([("a", "1\n"), ("b", "1\n")]);
        let from = |body: &str| {
            let changes = files.plan(body).unwrap().changes.into_iter();
            changes.map(|change| (change.place.clone(), change.moved_from().cloned())).collect::<Vec<_>>()
        };
        let place = |name: &str| name.to_owned();
        assert_eq!(
            from("*** Update File: a\n*** Move to: c\n*** Update File: c\n*** Move to: d"),
            [(place("a"), None), (place("d"), Some(place("a")))]
        );
        assert_eq!(
            from("*** Delete File: b\n*** Update File: a\n*** Move to: b"),
            [(place("b"), Some(place("a"))), (place("a"), None)]
        );
        assert_eq!(
            from("*** Update File: a\n*** Move to: c\n*** Delete File: c\n*** Add File: c"),
            [(place("a"), None), (place("c"), None)]
        );
    }

    // D15
    #[test]
    fn a_search_without_end_is_given_up() {
        let text: String = (0..100).map(|at| format!("{at}\n")).collect();
        let body: String = (0..100).rev().map(|at| format!("@@\n-{at}\n+x\n")).collect();
        let patch = format!("*** Begin Patch\n*** Update File: a\n{body}*** End Patch");
        let patch = Patch::parse(&patch).unwrap();
        let Some(Section::Update { hunks, .. }) = patch.sections.first() else { panic!("no update") };
        let update = |patience: &mut u64| update("a", &text.clone().into(), hunks, patience);
        let mut patience = 20_000;
        assert_eq!(update(&mut patience).unwrap(), "x\n".repeat(100));
        assert_eq!(
            update(&mut patience).and_then(|_| update(&mut patience)).unwrap_err(),
            "a takes too long to search; put hunks in the order of the file, or split the patch"
        );
    }

    // D15: a line takes more memory than its text does
    #[test]
    fn a_file_of_too_many_lines_is_not_updated() {
        let text = "\n".repeat(MOST_LINES + 1);
        let files = Memory::new([("a", text.as_str())]);
        assert_eq!(files.error("*** Update File: a\n+x"), "a has 10000001 lines, over the limit of 10000000");
        assert!(files.plan("*** Update File: a\n*** Move to: b").is_ok(), "where no line counts");
        assert!(files.plan("*** Delete File: a").is_ok());
    }

    // D15: what a patch holds in memory has an end, however many files it names
    #[test]
    fn the_files_of_a_patch_are_not_held_without_end() {
        // One content for all of them.
        let content = Bytes::from(vec![b'x'; 40 << 20]);
        let names: Vec<String> = (0..30).map(|at| format!("f{at}")).collect();
        let files = names.iter().map(|name| (name.clone(), content.clone())).collect();
        let files = Memory { files, shows_all: true, ..Default::default() };
        let moves = |count: usize| {
            let sections = names
                .iter()
                .take(count)
                .map(|name| format!("*** Update File: {name}\n*** Move to: {name}n\n"));
            sections.collect::<String>()
        };
        assert!(files.plan(&moves(25)).is_ok());
        let error = "the files are over 1073741824 bytes together; split the patch";
        assert_eq!(files.error(&moves(26)), error);
        let delete = |name: &String| format!("*** Delete File: {name}\n");
        let plan = files.plan(&names.iter().map(delete).collect::<String>()).unwrap();
        let seen = plan.changes.iter().filter(|change| change.before != Before::Unseen).count();
        assert_eq!((plan.deleted, seen), (30, 1), "what only goes need not be known");
    }

    // D15: a file of one long line is read and written for every section that names it
    #[test]
    fn sections_without_end_are_given_up() {
        let line = "x".repeat(1 << 20);
        let files = Memory::new([("a", line.as_str())]);
        let patch = format!("*** Begin Patch\n{}*** End Patch", "*** Update File: a\n+y\n".repeat(3));
        let patch = Patch::parse(&patch).unwrap();
        let mut patience = 2 * (1 << 16) + 100;
        let mut content = files.read(&"a".to_owned()).unwrap();
        let mut outcomes = Vec::new();
        for section in &patch.sections {
            let Section::Update { hunks, .. } = section else { panic!("no update") };
            match update("a", &content, hunks, &mut patience) {
                Ok(new) => content = new,
                Err(error) => outcomes.push(error),
            }
        }
        assert_eq!(
            outcomes,
            ["a takes too long to search; put hunks in the order of the file, or split the patch"]
        );
    }

    // BUILTIN-81: an update that asks for nothing changes nothing
    #[test]
    fn an_update_without_hunks_is_fine() {
        let plan = Memory::new([("a", "1\n")]).plan("*** Update File: a").unwrap();
        assert_eq!((plan.changes.len(), plan.updated), (0, 1));
    }
}
