//! Reading a source's bytes, and no more of them than allowed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{ContentPartError, PartErrorCode};

/// A path that is longer than this in an error is not one but something given by mistake.
const SHOWN_PATH: usize = 1024;

/// As much memory as is set aside for a file before it is read.
const RESERVED: u64 = 16 * 1024 * 1024;

/// What a reader is called in an error.
pub(super) const READER: &str = "the reader's content";

/// A path as an error names it.
pub(super) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.len() > SHOWN_PATH {
        return format!("a path of {} bytes", text.len());
    }
    format!("\"{text}\"")
}

/// A regular file, whole.
pub(super) fn read_path(path: &Path, limit: Option<u64>) -> Result<Vec<u8>, ContentPartError> {
    let what = shown(path);
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(&what, &error))?;
    if metadata.is_dir() {
        return Err(ContentPartError::new(
            PartErrorCode::SourceMissing,
            format!("cannot read {what}: it is a directory; give the path of a file"),
        ));
    }
    // Opening a pipe may wait for ever, and a device may have no end.
    if !metadata.is_file() {
        return Err(ContentPartError::new(
            PartErrorCode::UnsupportedSource,
            format!("{what} is no regular file; open it and give the reader instead"),
        ));
    }
    check_size(&what, metadata.len(), limit)?;
    let file = File::open(path).map_err(|error| unreadable(&what, &error))?;
    read(file, &what, limit, metadata.len())
}

/// A reader to its end; one byte past the limit it is given up.
pub(super) fn read(
    reader: impl Read,
    what: &str,
    limit: Option<u64>,
    expected: u64,
) -> Result<Vec<u8>, ContentPartError> {
    let mut bytes = reserved(expected);
    let read = reader.take(stop(limit)).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(what, &error))?;
    check_size(what, bytes.len() as u64, limit)?;
    Ok(bytes)
}

/// The same for an async reader.
pub(super) async fn read_async(
    reader: impl AsyncRead + Unpin,
    what: &str,
    limit: Option<u64>,
) -> Result<Vec<u8>, ContentPartError> {
    let mut bytes = Vec::new();
    let read = reader.take(stop(limit)).read_to_end(&mut bytes).await;
    read.map_err(|error| unreadable(what, &error))?;
    check_size(what, bytes.len() as u64, limit)?;
    Ok(bytes)
}

/// Refuses what is over the limit.
pub(super) fn check_size(what: &str, bytes: u64, limit: Option<u64>) -> Result<(), ContentPartError> {
    match limit {
        Some(limit) if bytes > limit => Err(ContentPartError::too_large(what, bytes, limit)),
        _ => Ok(()),
    }
}

pub(super) fn unreadable(what: &str, error: &io::Error) -> ContentPartError {
    ContentPartError::new(PartErrorCode::SourceMissing, format!("cannot read {what}: {error}"))
}

fn stop(limit: Option<u64>) -> u64 {
    limit.map_or(u64::MAX, |limit| limit.saturating_add(1))
}

fn reserved(expected: u64) -> Vec<u8> {
    Vec::with_capacity(usize::try_from(expected.min(RESERVED)).unwrap_or_default())
}
