//! One writer at a time for each file.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

type Table = Mutex<HashMap<PathBuf, Arc<Turn<()>>>>;

/// The locks of one set of tools, by resolved path. A path that nobody holds or waits for takes
/// no room.
#[derive(Debug, Default)]
pub(crate) struct FileLocks {
    table: Arc<Table>,
}

/// Holds some paths until it is dropped.
#[must_use = "the paths are free again once this is dropped"]
pub(crate) struct FileGuard {
    _held: Vec<Held>,
}

/// One path that is locked. The fields drop in this order: the turn is over before the claim is.
struct Held {
    _turn: OwnedMutexGuard<()>,
    _claim: Claim,
}

/// The wish for one path, from before the wait for it until after its use.
struct Claim {
    path: PathBuf,
    turn: Arc<Turn<()>>,
    table: Arc<Table>,
}

impl FileLocks {
    /// Waits until all of `places` are free, and takes them. They are taken in path order,
    /// whatever their order here, so that no two calls can wait for each other.
    pub(crate) async fn lock(&self, places: impl IntoIterator<Item = PathBuf>) -> FileGuard {
        let mut places: Vec<PathBuf> = places.into_iter().collect();
        places.sort_unstable();
        places.dedup();
        let mut held = Vec::with_capacity(places.len());
        for path in places {
            let claim = Claim::new(path, &self.table);
            let turn = Arc::clone(&claim.turn).lock_owned().await;
            held.push(Held { _turn: turn, _claim: claim });
        }
        FileGuard { _held: held }
    }
}

impl Claim {
    fn new(path: PathBuf, table: &Arc<Table>) -> Self {
        let turn = Arc::clone(entries(table).entry(path.clone()).or_default());
        Claim { path, turn, table: Arc::clone(table) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut entries = entries(&self.table);
        // The table's and this one. More are only made with the table in hand, as it is now.
        if Arc::strong_count(&self.turn) == 2 {
            entries.remove(&self.path);
        }
    }
}

/// The map is whole after every step, so a panic while it was held did no harm.
fn entries(table: &Table) -> MutexGuard<'_, HashMap<PathBuf, Arc<Turn<()>>>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    // BUILTIN-20
    #[tokio::test]
    async fn one_path_has_one_holder_and_other_paths_are_free() {
        let locks = FileLocks::default();
        let first = locks.lock(paths(&["a", "a"])).await;
        assert!(locks.lock(paths(&["b"])).now_or_never().is_some());
        let mut second = Box::pin(locks.lock(paths(&["a"])));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        let _second = second.await;
        assert!(locks.lock(paths(&["a"])).now_or_never().is_none());
    }

    // BUILTIN-20: several are taken in path order
    #[tokio::test]
    async fn opposite_orders_cannot_wait_for_each_other() {
        let locks = FileLocks::default();
        let b = locks.lock(paths(&["b"])).await;
        let mut both = Box::pin(locks.lock(paths(&["b", "a"])));
        assert!((&mut both).now_or_never().is_none());
        assert!(locks.lock(paths(&["a"])).now_or_never().is_none(), "a is taken first, then b waited for");
        let mut other = Box::pin(locks.lock(paths(&["a", "b"])));
        assert!((&mut other).now_or_never().is_none());
        drop(b);
        drop(both.await);
        drop(other.await);
        assert!(entries(&locks.table).is_empty());
    }

    #[tokio::test]
    async fn nothing_stays_behind() {
        let locks = FileLocks::default();
        let held = locks.lock(paths(&["a", "b"])).await;
        let mut waiting = Box::pin(locks.lock(paths(&["b", "c"])));
        assert!((&mut waiting).now_or_never().is_none());
        assert_eq!(entries(&locks.table).len(), 2);
        drop(waiting);
        assert_eq!(entries(&locks.table).len(), 2, "who stops waiting does not free what another holds");
        drop(held);
        assert!(entries(&locks.table).is_empty());
    }
}
