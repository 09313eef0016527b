//! Signs of life of calls in flight.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// When a call was last heard of.
pub(crate) struct CallClock(Mutex<Instant>);

impl CallClock {
    fn start() -> Self {
        CallClock(Mutex::new(Instant::now()))
    }

    pub(crate) fn last(&self) -> Instant {
        *lock(&self.0)
    }

    fn touch(&self) {
        *lock(&self.0) = Instant::now();
    }
}

/// The clocks of the calls in flight on one connection, by progress token. The transport touches
/// them as it reads; a call looks at its own when its idle limit runs out.
#[derive(Default)]
pub(crate) struct ProgressClocks(Mutex<HashMap<i64, Arc<CallClock>>>);

impl ProgressClocks {
    /// Follows a token for as long as the returned guard lives.
    pub(crate) fn follow(self: &Arc<Self>, token: i64) -> FollowedCall {
        let clock = Arc::new(CallClock::start());
        lock(&self.0).insert(token, Arc::clone(&clock));
        FollowedCall { clocks: Arc::clone(self), token, clock }
    }

    /// Notes progress for a token; an unknown one is nobody's.
    pub(crate) fn touch(&self, token: i64) {
        if let Some(clock) = lock(&self.0).get(&token) {
            clock.touch();
        }
    }
}

/// One followed call; dropping it forgets the token.
pub(crate) struct FollowedCall {
    clocks: Arc<ProgressClocks>,
    token: i64,
    clock: Arc<CallClock>,
}

impl FollowedCall {
    pub(crate) fn last(&self) -> Instant {
        self.clock.last()
    }
}

impl Drop for FollowedCall {
    fn drop(&mut self) {
        lock(&self.clocks.0).remove(&self.token);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
