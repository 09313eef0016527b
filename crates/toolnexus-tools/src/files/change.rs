//! The change of one file, as every tool that changes one makes it.

use std::sync::Arc;

use super::{FileLocks, Place};
use crate::builtin::off_thread;
use crate::paths::Paths;

/// Finds the place of `path`, waits for its turn, and runs `work` there, off the async threads.
///
/// A call that is dropped while `work` runs keeps its lock until that is through.
///
/// # Errors
/// The path leads nowhere or out of bounds; those of `work`.
pub(crate) async fn change_file<R, F>(
    paths: Arc<Paths>,
    locks: &FileLocks,
    path: String,
    work: F,
) -> Result<R, String>
where
    R: Send + 'static,
    F: FnOnce(&str, &Place) -> Result<R, String> + Send + 'static,
{
    let (path, place) = off_thread(move || paths.place(&path).map(|place| (path, place))).await?;
    let guard = locks.lock([place.real().to_path_buf()]).await;
    off_thread(move || {
        let _guard = guard;
        work(&path, &place)
    })
    .await
}
