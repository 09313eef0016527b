//! Conversations in a directory, one file for each.

mod name;

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolnexus_core::{BoxError, BoxFuture};

use crate::files::{Queue, create_dir, private, sync_dir};
use crate::readable::{MAX_DEPTH, depth};
use crate::{ConversationStore, Message, Transcript};

/// What the names of half-written files begin with. No conversation's file name does.
const TEMPORARY: &str = ".tmp-";

/// The version of the files that this build writes, and the newest it reads.
const VERSION: u64 = 1;

/// How often a save begins anew when its half-written file was cleaned away by another process.
const ATTEMPTS: usize = 8;

/// Conversations in the files of a directory. Clones are the same store.
///
/// Any id is legal. The name of a file is `c-`, the id with everything but `a-z`, `0-9`, `_` and `-`
/// written as `%xx`, and `.json`; for ids that would be too long for a file name, `h-` and their
/// SHA-256. The id itself is in the file, in front of the messages.
///
/// * **Crashes.** A transcript is written to a file beside the old one, synced, and renamed over it:
///   after a crash of process or machine either the old or the new one is there, and when
///   [`save`](ConversationStore::save) has returned, the new one. Half-written files are never read,
///   and are deleted when the directory is opened again.
/// * **Processes** can share a directory; of concurrent saves of one conversation the last wins.
/// * **Futures.** Work happens on threads for blocking work, so a tokio runtime is needed. What was
///   asked of one conversation happens in the order in which the futures were polled first, and as a
///   whole: one that is dropped later, or not polled again, stops nothing and holds up nobody.
/// * **Privacy.** On Unix, files are created for their owner alone (mode 0600), and so is the
///   directory if it is not there yet (0700).
///
/// A file that is damaged is an error that names it.
///
/// ```
/// use toolnexus_llm::{ConversationStore, FileConversationStore, Transcript};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let temporary = tempfile::tempdir().unwrap();
/// # let dir = temporary.path().join("conversations");
/// let store = FileConversationStore::open(&dir).unwrap();
/// let messages = Transcript::from(vec![serde_json::json!({"role": "user", "content": "hi"})]);
/// store.save("Ann / 7", &messages).await.unwrap();
///
/// // Another time, in another process:
/// let store = FileConversationStore::open(&dir).unwrap();
/// assert_eq!(store.get("Ann / 7").await.unwrap().unwrap(), messages);
/// # }
/// ```
#[derive(Clone)]
pub struct FileConversationStore {
    dir: Arc<Path>,
    queue: Arc<Queue<()>>,
}

/// A file to be written.
#[derive(Serialize)]
struct ToStore<'a> {
    v: u64,
    id: &'a str,
    messages: &'a Transcript,
}

/// A file that was read. The messages stay byte for byte what they were.
#[derive(Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// What is read of a file first.
#[derive(Deserialize)]
struct Version {
    v: u64,
}

impl FileConversationStore {
    /// The store in a directory, which is created if it is not there.
    ///
    /// # Errors
    /// When the directory cannot be created or read, or is none.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, BoxError> {
        let dir = dir.into();
        let failed = |error| failed("open", &dir, error);
        let opened = create_dir(&dir).map_err(failed)?;
        remove_half_written(&opened).map_err(failed)?;
        Ok(FileConversationStore { dir: opened.into(), queue: Arc::default() })
    }

    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(name::of(id))
    }
}

impl ConversationStore for FileConversationStore {
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Transcript>, BoxError>> {
        Box::pin(async move {
            let (owned, path) = (id.to_owned(), self.path(id));
            self.queue.run(id, move |()| read(&path, &owned)).await?
        })
    }

    fn save<'a>(&'a self, id: &'a str, messages: &'a Transcript) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let (owned, messages) = (id.to_owned(), messages.clone());
            let (dir, path) = (Arc::clone(&self.dir), self.path(id));
            let save = move |(): &mut ()| {
                let text = text(&owned, &messages)?;
                replace(&dir, &path, &text).map_err(|error| failed("save", &path, error))
            };
            self.queue.run(id, save).await?
        })
    }
}

fn read(path: &Path, id: &str) -> Result<Option<Transcript>, BoxError> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| failed("read", path, error))?,
    };
    let version = serde_json::from_slice::<Version>(&text).map_err(|error| damaged(path, &error))?.v;
    if version > VERSION {
        let path = path.display();
        return Err(format!(
            "the conversation file {path} has format version {version}, this build reads up to {VERSION}: \
             read it with a newer toolnexus"
        )
        .into());
    }
    let stored: Stored<'_> = serde_json::from_slice(&text).map_err(|error| damaged(path, &error))?;
    if stored.id != id {
        return Err(damaged(path, &"it holds another conversation"));
    }
    let message = |raw: &&RawValue| Message::from_json(Bytes::copy_from_slice(raw.get().as_bytes()));
    let messages: Result<Transcript, _> = stored.messages.iter().map(message).collect();
    Ok(Some(messages.map_err(|error| damaged(path, &error))?))
}

/// The text of a file.
fn text(id: &str, messages: &Transcript) -> Result<Vec<u8>, BoxError> {
    let text = serde_json::to_vec(&ToStore { v: VERSION, id, messages })?;
    // The messages lie two levels deep.
    if depth(&text) > MAX_DEPTH + 2 {
        return Err(format!(
            "a message of the conversation {id:.100?} is nested deeper than {MAX_DEPTH} levels and could \
             not be read again"
        )
        .into());
    }
    Ok(text)
}

/// Puts a file with this text in the place of the one that is there.
fn replace(dir: &Path, path: &Path, text: &[u8]) -> io::Result<()> {
    for _ in 1..ATTEMPTS {
        match try_replace(dir, path, text) {
            // Between creation and lock it looked like one of a crashed process.
            Err(error) if error.kind() == ErrorKind::NotFound && dir.is_dir() => {}
            done => return done,
        }
    }
    try_replace(dir, path, text)
}

fn try_replace(dir: &Path, path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = dir.join(format!("{TEMPORARY}{}", uuid::Uuid::now_v7()));
    let mut file = private().write(true).create_new(true).open(&temporary)?;
    let written = file
        .lock()
        .and_then(|()| file.write_all(text))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = written {
        drop(std::fs::remove_file(&temporary));
        return Err(error);
    }
    sync_dir(dir)
}

/// Deletes what crashed processes left. Who is still writing holds a lock.
fn remove_half_written(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let is_temporary = entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY));
        if !is_temporary || !entry.file_type()?.is_file() {
            continue;
        }
        // It may be gone by now, or belong to another user: neither is in the way of this store.
        if let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            drop(std::fs::remove_file(entry.path()));
        }
    }
    Ok(())
}

fn damaged(path: &Path, reason: &dyn fmt::Display) -> BoxError {
    format!("the conversation file {} is damaged ({reason}): restore or delete it", path.display()).into()
}

fn failed(what: &str, path: &Path, error: io::Error) -> BoxError {
    io::Error::new(error.kind(), format!("failed to {what} {}: {error}", path.display())).into()
}

impl fmt::Debug for FileConversationStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileConversationStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}
