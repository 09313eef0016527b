//! Blocking work on threads of its own, for each key one piece at a time.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::task::unconstrained;

/// The most pieces of work at once: each has some files open, and a process may have only so many.
const THREADS: usize = 32;

/// Above so many keys, those without work are forgotten.
const KEYS: usize = 4096;

/// Runs blocking work with a state for each key, in the order in which it was asked for.
///
/// Work has its place in the order from the first time its future is polled. From then on it depends
/// on that future no more: whether its caller goes away, or is busy with something else, it is done,
/// and whoever asks later for the same key comes after it.
///
/// The state of a key is [`Default`] at first, and again when there are many keys and this one has had
/// no work for a while: it can hold what is merely known, not what counts.
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
        // Without a budget, so that the first poll takes the place in any case.
        let mut turn = Box::pin(unconstrained(self.lane(key).lock_owned()));
        let at_once = (&mut turn).now_or_never();
        let threads = Arc::clone(&self.threads);
        let task = tokio::spawn(async move {
            let mut state = match at_once {
                Some(state) => state,
                None => turn.await,
            };
            let permit = threads.acquire_owned().await;
            // The guard goes with the work, so that the turn is over when the work is.
            let work = move || {
                let done = work(&mut state);
                drop((state, permit));
                done
            };
            tokio::task::spawn_blocking(work).await
        });
        task.await.and_then(|done| done).map_err(io::Error::other)
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
    async fn work_waits_for_no_caller() {
        let queue = Queue::<Vec<u32>>::default();
        let mut futures: Vec<_> = (0..200).map(|n| Box::pin(queue.run("key", move |s| s.push(n)))).collect();
        // All are polled once. Some go away, some stay and are not polled again.
        futures.iter_mut().for_each(|future| drop(future.now_or_never()));
        futures.truncate(100);
        let seen = queue.run("key", |state| state.clone()).await.unwrap();
        assert_eq!(seen, (0..200).collect::<Vec<_>>());
    }

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
