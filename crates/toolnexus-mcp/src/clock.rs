//! The time of one request: how long it may be silent, how long it may take in all, and when
//! neither counts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::request::Limits;

/// Runs from its making. Stands still while anything holds it: a person takes the time it takes.
pub(crate) struct Clock {
    limits: Limits,
    started: Instant,
    hands: Mutex<Hands>,
    resumed: Notify,
}

struct Hands {
    /// When the server was last heard of.
    last: Instant,
    holds: usize,
    held_since: Instant,
    /// How long it has stood still so far.
    stood: Duration,
}

impl Clock {
    pub(crate) fn new(limits: Limits) -> Self {
        let now = Instant::now();
        let hands = Hands { last: now, holds: 0, held_since: now, stood: Duration::ZERO };
        Clock { limits, started: now, hands: Mutex::new(hands), resumed: Notify::new() }
    }

    /// Notes a sign of life.
    pub(crate) fn touch(&self) {
        self.hands().last = Instant::now();
    }

    /// When the server was last heard of.
    #[cfg(test)]
    pub(crate) fn last(&self) -> Instant {
        self.hands().last
    }

    /// Stops the clock until it is released as often as it was held.
    pub(crate) fn hold(&self) {
        let mut hands = self.hands();
        if hands.holds == 0 {
            hands.held_since = Instant::now();
        }
        hands.holds += 1;
    }

    pub(crate) fn release(&self) {
        let resumes = {
            let hands = &mut *self.hands();
            hands.holds = hands.holds.saturating_sub(1);
            if hands.holds == 0 {
                let now = Instant::now();
                hands.stood += now - hands.held_since;
                // What was heard meanwhile counts as heard now; an earlier silence goes on from where
                // it was.
                hands.last += now - hands.held_since.max(hands.last);
            }
            hands.holds == 0
        };
        if resumes {
            self.resumed.notify_one();
        }
    }

    /// Ends when a limit has passed.
    pub(crate) async fn expired(&self) {
        loop {
            let due = {
                let hands = self.hands();
                if hands.holds > 0 { None } else { self.due(&hands) }
            };
            match due {
                Some(due) if due <= Instant::now() => return,
                // It may be later by then: whoever moves the hands has no need to wake this.
                Some(due) => sleep_until(due).await,
                None => self.resumed.notified().await,
            }
        }
    }

    /// The earlier of the two limits; none is so far away that it does not matter.
    fn due(&self, hands: &Hands) -> Option<Instant> {
        let idle = hands.last.checked_add(self.limits.idle);
        let total =
            self.limits.total.and_then(|total| self.started.checked_add(total)?.checked_add(hands.stood));
        [idle, total].into_iter().flatten().min()
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use tokio::time::advance;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock(idle: u64, total: Option<u64>) -> Clock {
        Clock::new(Limits { idle: SECOND * idle as u32, total: total.map(Duration::from_secs) })
    }

    async fn has_expired_after(clock: &Clock, seconds: u32) -> bool {
        advance(SECOND * seconds).await;
        clock.expired().now_or_never().is_some()
    }

    // MCP-88
    #[tokio::test(start_paused = true)]
    async fn signs_of_life_put_off_the_idle_limit_and_not_the_total_one() {
        let clock = clock(3, Some(8));
        for _ in 0..3 {
            assert!(!has_expired_after(&clock, 2).await);
            clock.touch();
        }
        assert!(!has_expired_after(&clock, 1).await);
        clock.touch();
        assert!(has_expired_after(&clock, 1).await);
    }

    // MCP-91
    #[tokio::test(start_paused = true)]
    async fn a_held_clock_stands_still() {
        let clock = clock(3, Some(8));
        assert!(!has_expired_after(&clock, 2).await);
        clock.hold();
        clock.hold();
        assert!(!has_expired_after(&clock, 3600).await);
        clock.release();
        assert!(!has_expired_after(&clock, 3600).await, "held twice");
        clock.release();
        assert!(!has_expired_after(&clock, 0).await);
        // The second that was left of the idle limit.
        assert!(has_expired_after(&clock, 1).await);
        clock.touch();
        assert!(!has_expired_after(&clock, 2).await);
        clock.touch();
        assert!(!has_expired_after(&clock, 2).await);
        clock.touch();
        assert!(has_expired_after(&clock, 1).await, "eight seconds in all, the wait left out");
    }

    // MCP-91: whoever waits for the end is woken
    #[tokio::test(start_paused = true)]
    async fn a_released_clock_goes_on() {
        let clock = clock(3, None);
        clock.hold();
        let expired = clock.expired();
        tokio::pin!(expired);
        assert!(expired.as_mut().now_or_never().is_none());
        advance(SECOND * 60).await;
        clock.touch();
        advance(SECOND * 60).await;
        clock.release();
        let released = Instant::now();
        expired.await;
        assert_eq!(released.elapsed(), 3 * SECOND, "what was heard meanwhile counts");
    }
}
