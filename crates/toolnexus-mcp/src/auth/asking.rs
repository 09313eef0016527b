//! Time that belongs to a person, for those who keep time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Whether a sign-in is under way on a connection, and when the last one ended.
#[derive(Clone, Default)]
pub(crate) struct Asking(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    under_way: usize,
    ended: Option<Instant>,
}

impl Asking {
    /// A sign-in begins; it ends when the guard is dropped.
    pub(super) fn begin(&self) -> UnderWay {
        self.lock().under_way += 1;
        UnderWay(self.clone())
    }

    /// Until when a sign-in has held things up: now while there is one.
    pub(crate) fn last(&self) -> Option<Instant> {
        let state = self.lock();
        if state.under_way > 0 { Some(Instant::now()) } else { state.ended }
    }

    /// Runs `work` for at most `limit`, which begins anew when a sign-in has ended.
    pub(crate) async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let started = Instant::now();
        let timer = tokio::time::sleep(limit);
        tokio::pin!(work, timer);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return Some(result),
                () = &mut timer => {
                    let due = self.last().map_or(started, |last| last.max(started)).checked_add(limit)?;
                    if due <= Instant::now() {
                        return None;
                    }
                    timer.as_mut().reset(due);
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sign-in that is under way.
pub(super) struct UnderWay(Asking);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.under_way -= 1;
        state.ended = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_limit_waits_for_a_person() {
        let asking = Asking::default();
        let limit = Duration::from_secs(10);
        let started = Instant::now();
        let work = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let person = asking.begin();
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(person);
            tokio::time::sleep(Duration::from_secs(9)).await;
        };
        assert_eq!(asking.within(limit, work).await, Some(()));
        assert_eq!(started.elapsed(), Duration::from_secs(110));

        let started = Instant::now();
        assert_eq!(asking.within(limit, std::future::pending::<()>()).await, None);
        assert_eq!(started.elapsed(), limit);
    }
}
