//! Blocking work on threads of its own, for each key one piece at a time.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// The most pieces of work at once: each has some files open, and a process may have only so many.
const THREADS: usize = 32;

/// Above so many keys, those without work are forgotten.
const KEYS: usize = 4096;

/// Runs blocking work with a state for each key, in the order in which it was asked for.
///
/// A piece of work whose caller went away either never begins or runs to its end, and whoever asks
/// next for the same key waits for that end. The state of a key is [`Default`] at first, and again
/// when there are many keys and this one has had no work for a while: it can hold what is merely
/// known, not what counts.
pub(crate) struct Queue<S> {
    lanes: Mutex<HashMap<String, Arc<tokio::sync::Mutex<S>>>>,
    threads: Arc<Semaphore>,
}

impl<S> Default for Queue<S> {
    fn default() -> Self {
        Queue { lanes: Mutex::default(), threads: Arc::new(Semaphore::new(THREADS)) }
    }
}

impl<S: Default + Send + 'static> Queue<S> {
    /// Runs work on the state of a key.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        key: &str,
        work: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> io::Result<T> {
        let mut state = self.lane(key).lock_owned().await;
        // The guard goes with the work, so that the turn is over when the work is.
        self.unordered(move || work(&mut state)).await
    }

    /// Runs work that belongs to no key.
    pub(crate) async fn unordered<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let permit = Arc::clone(&self.threads).acquire_owned().await.map_err(io::Error::other)?;
        let work = move || {
            let done = work();
            drop(permit);
            done
        };
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
    }

    fn lane(&self, key: &str) -> Arc<tokio::sync::Mutex<S>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(key) {
            return Arc::clone(lane);
        }
        if lanes.len() >= KEYS {
            // Lanes are shared under this lock only: one that nobody else holds has no work.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        Arc::clone(lanes.entry(key.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn idle_keys_are_forgotten_and_busy_ones_keep_their_turn() {
        let queue = Queue::<u64>::default();
        let busy = queue.lane("busy");
        for key in 0..3 * KEYS {
            queue.lane(&key.to_string());
        }
        assert!(queue.lanes.lock().unwrap().len() <= KEYS);
        assert!(Arc::ptr_eq(&busy, &queue.lane("busy")));
        queue.run("counted", |count| *count += 1).await.unwrap();
        assert_eq!(queue.run("counted", |count| *count).await.unwrap(), 1);
    }
}
