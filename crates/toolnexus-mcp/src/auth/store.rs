//! Where tokens are kept.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use toolnexus_core::{BoxError, BoxFuture};

/// Keeps what came of signing in: one record per server, an opaque text that is secret as a whole
/// (it holds tokens, and the secret of a client that registered itself).
///
/// `server` is the URL of the server without userinfo, query and fragment. A store that fails costs
/// a warning, in which its own words are not shown, and another sign-in.
pub trait McpTokenStore: Send + Sync {
    /// The record of a server, or `None` before the first sign-in.
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<SecretString>, BoxError>>;

    /// Replaces the record of a server. Must be atomic: a reader sees the old one or the new one.
    fn save<'a>(&'a self, server: &'a str, record: &'a SecretString) -> BoxFuture<'a, Result<(), BoxError>>;

    /// Forgets a server; one that is not known is no error.
    fn clear<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<(), BoxError>>;
}

/// Tokens in memory, for as long as the store lives.
#[derive(Default)]
pub struct InMemoryTokenStore {
    records: Mutex<HashMap<String, SecretString>>,
}

impl McpTokenStore for InMemoryTokenStore {
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<SecretString>, BoxError>> {
        let found = self.records.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn save<'a>(&'a self, server: &'a str, record: &'a SecretString) -> BoxFuture<'a, Result<(), BoxError>> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.insert(server.to_owned(), record.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn clear<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).remove(server);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Tokens in a directory: one file per server, which only its owner may read, replaced as a whole.
/// They are not encrypted.
///
/// ```
/// use toolnexus_mcp::{FileTokenStore, McpTokenStore};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let home = tempfile::tempdir().unwrap();
/// let store = FileTokenStore::new(home.path().join("tokens"));
/// store.save("https://example.com/mcp", &"secret".into()).await.unwrap();
/// assert!(store.load("https://example.com/mcp").await.unwrap().is_some());
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FileTokenStore {
    dir: PathBuf,
}

impl FileTokenStore {
    /// A store in a directory, which is created with the first record if it is not there.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        FileTokenStore { dir: dir.into() }
    }

    fn file(&self, server: &str) -> PathBuf {
        let digest = Sha256::digest(server.as_bytes());
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.dir.join(format!("{name}.json"))
    }
}

impl McpTokenStore for FileTokenStore {
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<SecretString>, BoxError>> {
        let file = self.file(server);
        Box::pin(blocking(move || match fs::read_to_string(file) {
            Ok(record) => Ok(Some(SecretString::from(record))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }))
    }

    fn save<'a>(&'a self, server: &'a str, record: &'a SecretString) -> BoxFuture<'a, Result<(), BoxError>> {
        let (dir, file, record) = (self.dir.clone(), self.file(server), record.clone());
        Box::pin(blocking(move || replace(&dir, &file, record.expose_secret().as_bytes())))
    }

    fn clear<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<(), BoxError>> {
        let file = self.file(server);
        Box::pin(blocking(move || match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, BoxError> {
    Ok(tokio::task::spawn_blocking(work).await??)
}

/// Writes beside the file and puts the result in its place.
fn replace(dir: &Path, file: &Path, content: &[u8]) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    if !dir.is_dir() {
        #[cfg_attr(not(unix), allow(unused_mut, reason = "there is no mode to set"))]
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(dir)?;
    }
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let beside = file.with_extension(format!("{}-{count}.new", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = (|| {
        let mut out = options.open(&beside)?;
        out.write_all(content)?;
        out.sync_all()?;
        drop(out);
        fs::rename(&beside, file)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
