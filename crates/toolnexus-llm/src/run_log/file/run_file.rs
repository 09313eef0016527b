//! What is done to the file of one run, all of it blocking.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use same_file::Handle;

use super::lines::{self, Contents};
use crate::files::{private, sync_dir};
use crate::run::{RunError, RunEvent};
use crate::run_log::{RunLogError, RunSummary};

/// The file of one run.
pub(super) struct RunFile {
    run_id: String,
    dir: PathBuf,
    path: PathBuf,
}

/// What was in a file when this process last had it locked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    events: u64,
    /// The length of the whole appends.
    bytes: u64,
    /// Length and time of change: a file that still has both was not touched by anybody else.
    stamp: Stamp,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Stamp { len: metadata.len(), modified: metadata.modified().ok() })
    }
}

impl RunFile {
    /// The file of the run of this id, which must have been checked.
    pub(super) fn new(dir: &Path, run_id: &str) -> Self {
        let path = dir.join(format!("{run_id}{}", super::SUFFIX));
        RunFile { run_id: run_id.to_owned(), dir: dir.to_owned(), path }
    }

    /// Adds events. `known` saves reading what is there.
    pub(super) fn append(
        &self,
        at: u64,
        events: &[RunEvent],
        known: &mut Option<Known>,
    ) -> Result<(), RunLogError> {
        let text = lines::encode(events, SystemTime::now())?;
        let before = known.take();
        let begins = at == 0 && !events.is_empty();
        let locked = self.lock(begins).map_err(|error| self.failed("open", error))?;
        let Some(mut handle) = locked else {
            return if at == 0 { Ok(()) } else { Err(self.conflict(0)) };
        };
        let file = handle.as_file_mut();
        let there = self.known(file, before)?;
        if there.events != at || events.is_empty() {
            *known = Some(there);
            return if there.events == at { Ok(()) } else { Err(self.conflict(there.events)) };
        }
        match self.write(file, there, &text) {
            Ok(stamp) => {
                let events = at + events.len() as u64;
                *known = Some(Known { events, bytes: there.bytes + text.len() as u64, stamp });
                Ok(())
            }
            Err(error) => {
                // The caller is told that nothing was added, so nothing may be found later. If this
                // fails as well, the disk has other troubles than ours.
                drop(file.set_len(there.bytes).and_then(|()| file.sync_data()));
                Err(self.failed("append to", error))
            }
        }
    }

    fn write(&self, file: &mut File, there: Known, text: &[u8]) -> io::Result<Stamp> {
        if there.stamp.len > there.bytes {
            file.set_len(there.bytes)?;
        }
        file.seek(SeekFrom::Start(there.bytes))?;
        file.write_all(text)?;
        file.sync_data()?;
        if there.events == 0 {
            // Whether this process created the file or one that crashed before it got here.
            sync_dir(&self.dir)?;
        }
        Stamp::of(file)
    }

    /// The events from a position on.
    pub(super) fn read(&self, from: u64) -> Result<Vec<RunEvent>, RunLogError> {
        let Some(text) = self.text()? else { return Err(self.not_found()) };
        let contents = self.parse(&text)?;
        if contents.lines.is_empty() {
            return Err(self.not_found());
        }
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        events(contents.lines.get(from..).unwrap_or_default())
    }

    /// The summary, or `None` where there is no run.
    pub(super) fn summary(&self) -> Result<Option<RunSummary>, RunLogError> {
        let Some(text) = self.text()? else { return Ok(None) };
        let contents = self.parse(&text)?;
        let (Some(first), Some(last)) = (contents.lines.first(), contents.lines.last()) else {
            return Ok(None);
        };
        let events = events(&contents.lines)?;
        let summary = RunSummary::of(self.run_id.as_str(), &events, first.written_at(), last.written_at())?;
        Ok(Some(summary))
    }

    /// When the run began, as its first line says, or `None` where there is none.
    pub(super) fn begun_at(&self) -> Result<Option<SystemTime>, RunLogError> {
        let Some(file) = self.open_to_read()? else { return Ok(None) };
        let mut beginning = Vec::new();
        file.take(lines::BEGINNING)
            .read_to_end(&mut beginning)
            .map_err(|error| self.failed("read", error))?;
        Ok(lines::begun_at(&beginning))
    }

    /// Deletes the file.
    pub(super) fn remove(&self, known: &mut Option<Known>) -> Result<(), RunLogError> {
        *known = None;
        let locked = self.lock(false).map_err(|error| self.failed("open", error))?;
        let Some(handle) = locked else { return Err(self.not_found()) };
        let removed = handle.as_file().metadata().and_then(|metadata| {
            std::fs::remove_file(&self.path)?;
            sync_dir(&self.dir)?;
            Ok(metadata.len())
        });
        match removed {
            // Somebody is about to begin the run, or failed to.
            Ok(0) => Err(self.not_found()),
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed("remove", error)),
        }
    }

    /// The file, locked against all other users, or `None` where there is none.
    fn lock(&self, create: bool) -> io::Result<Option<Handle>> {
        loop {
            let opened = private().read(true).write(true).create(create).truncate(false).open(&self.path);
            let file = match opened {
                Err(error) if error.kind() == ErrorKind::NotFound && !create => return Ok(None),
                opened => opened?,
            };
            uninterrupted(|| file.lock())?;
            let ours = Handle::from_file(file)?;
            // It may have been removed before the lock was ours, and even begun again since.
            match Handle::from_path(&self.path) {
                Ok(there) if there == ours => return Ok(Some(ours)),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The file for reading, locked against those who write, or `None` where there is none.
    fn open_to_read(&self) -> Result<Option<File>, RunLogError> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| self.failed("open", error))?,
        };
        uninterrupted(|| file.lock_shared()).map_err(|error| self.failed("lock", error))?;
        Ok(Some(file))
    }

    fn text(&self) -> Result<Option<Vec<u8>>, RunLogError> {
        let Some(mut file) = self.open_to_read()? else { return Ok(None) };
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|error| self.failed("read", error))?;
        Ok(Some(text))
    }

    /// What is in the locked file: what was there before, or by reading it.
    fn known(&self, file: &mut File, before: Option<Known>) -> Result<Known, RunLogError> {
        let failed = |error| self.failed("read", error);
        let stamp = Stamp::of(file).map_err(failed)?;
        if let Some(before) = before
            && before.stamp == stamp
            && stamp.modified.is_some()
        {
            return Ok(before);
        }
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut text)).map_err(failed)?;
        let contents = self.parse(&text)?;
        Ok(Known { events: contents.lines.len() as u64, bytes: contents.bytes as u64, stamp })
    }

    fn parse<'t>(&self, text: &'t [u8]) -> Result<Contents<'t>, RunLogError> {
        lines::parse(text).map_err(|line| RunLogError::Corrupt { path: self.path.clone(), line })
    }

    fn conflict(&self, len: u64) -> RunLogError {
        RunLogError::Conflict { run_id: self.run_id.clone(), len }
    }

    fn not_found(&self) -> RunLogError {
        RunLogError::NotFound { run_id: self.run_id.clone() }
    }

    fn failed(&self, what: &str, error: io::Error) -> RunLogError {
        RunLogError::Store { action: format!("{what} {}", self.path.display()), source: error.into() }
    }
}

/// A wait for a lock that no signal ends.
fn uninterrupted(mut lock: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match lock() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn events(lines: &[lines::Line<'_>]) -> Result<Vec<RunEvent>, RunLogError> {
    let event = |line: &lines::Line<'_>| {
        serde_json::from_slice(line.event).map_err(|error| RunError::from_json(&error).into())
    };
    lines.iter().map(event).collect()
}
