//! Time that belongs to a person, for those who keep time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Whether somebody signs in on a connection, and how long that has taken so far.
#[derive(Clone, Default)]
pub(crate) struct Asking(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    under_way: usize,
    since: Option<Instant>,
    held: Duration,
}

impl Asking {
    /// A sign-in begins; it ends when the guard is dropped.
    pub(super) fn begin(&self) -> UnderWay {
        let mut state = self.lock();
        state.under_way += 1;
        state.since.get_or_insert_with(Instant::now);
        UnderWay(self.clone())
    }

    /// How long sign-ins have held things up.
    pub(crate) fn held(&self) -> Duration {
        let state = self.lock();
        state.held + state.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Runs `work` for at most `limit`, in which the time of sign-ins does not count.
    pub(crate) async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let (started, held) = (Instant::now(), self.held());
        let timer = tokio::time::sleep(limit);
        tokio::pin!(work, timer);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return Some(result),
                () = &mut timer => {
                    let spent = started.elapsed().saturating_sub(self.held() - held);
                    match limit.checked_sub(spent) {
                        Some(left) if left > Duration::ZERO => timer.as_mut().reset(Instant::now() + left),
                        _ => return None,
                    }
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
        if state.under_way == 0 {
            let since = state.since.take();
            state.held += since.map(|since| since.elapsed()).unwrap_or_default();
        }
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
