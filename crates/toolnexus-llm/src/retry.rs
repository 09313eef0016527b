//! When a model call is tried again, and how long that waits.

use std::sync::Arc;
use std::time::Duration;

/// What a host's classifier makes of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Worth another attempt, if the budget has one left.
    Retry,
    /// Final.
    Fail,
}

/// One failed attempt of a model call, as [`OnError`] sees it.
///
/// Exactly one of `status` and `error` is set. Cancellation and the run's deadline are no failed
/// attempts and never get here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorInfo {
    /// What went wrong, when no HTTP answer was obtained.
    pub error: Option<String>,
    /// The status of the HTTP answer.
    pub status: Option<u16>,
    /// Which attempt failed, from 0.
    pub attempt: u32,
    /// Whether it would be tried again without a classifier.
    pub retryable: bool,
    /// The answer's `Retry-After` header as it came.
    pub retry_after: Option<String>,
}

/// Decides whether a failed attempt is worth another one. It has the last word over the default
/// set and over `retryable_statuses`; the number of attempts stays bounded by `retries`.
///
/// ```
/// use std::sync::Arc;
/// use toolnexus_llm::{ClientOptions, ErrorInfo, Tier};
/// // A local server that answers 400 while it loads the model.
/// let options = ClientOptions {
///     on_error: Some(Arc::new(|info: &ErrorInfo| match info.status {
///         Some(400) => Tier::Retry,
///         _ if info.retryable => Tier::Retry,
///         _ => Tier::Fail,
///     })),
///     ..Default::default()
/// };
/// # assert!(options.on_error.is_some());
/// ```
pub type OnError = Arc<dyn Fn(&ErrorInfo) -> Tier + Send + Sync>;

/// Statuses that are worth another attempt. Not "all 5xx": the others mean the same next time.
pub const RETRYABLE_STATUSES: [u16; 6] = [429, 500, 502, 503, 504, 529];

/// The largest `Retry-After` that is believed, in seconds.
const RETRY_AFTER_LIMIT: u64 = 2_147_483_647;

/// Reads a `Retry-After` header: whole seconds in ASCII digits, or nothing.
///
/// Dates, fractions, signs and anything out of range are no opinion, and the backoff applies.
///
/// ```
/// use std::time::Duration;
/// use toolnexus_llm::retry_after;
/// assert_eq!(retry_after("  7  "), Some(Duration::from_secs(7)));
/// assert_eq!(retry_after("Wed, 21 Oct 2026 07:28:00 GMT"), None);
/// ```
pub fn retry_after(header: &str) -> Option<Duration> {
    let text = header.trim();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let seconds: u64 = text.parse().ok()?;
    (seconds <= RETRY_AFTER_LIMIT).then(|| Duration::from_secs(seconds))
}

/// The wait before the attempt after `attempt` (from 0), doubling, with up to 99 ms of jitter.
pub(crate) fn backoff(base_ms: u64, attempt: u32, jitter_ms: u64) -> Duration {
    let factor = 1_u64.checked_shl(attempt).unwrap_or(u64::MAX);
    Duration::from_millis(base_ms.saturating_mul(factor).saturating_add(jitter_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    // CLIENT-95, cases R1 and R2
    #[test]
    fn retry_after_is_whole_ascii_seconds_or_nothing() {
        for (header, seconds) in [("2", 2), ("0", 0), ("  7  ", 7), ("2147483647", 2_147_483_647)] {
            assert_eq!(retry_after(header), Some(Duration::from_secs(seconds)), "{header}");
        }
        for header in [
            "0.5",
            "5.9",
            "-5",
            "+5",
            "2147483648",
            "99999999999999999999",
            "",
            " ",
            "abc",
            "٣",
            "1e3",
            "Wed, 21 Oct 2015 07:28:00 GMT",
        ] {
            assert_eq!(retry_after(header), None, "{header}");
        }
    }

    // CLIENT-94
    #[test]
    fn the_backoff_doubles_and_saturates() {
        assert_eq!(backoff(500, 0, 0), Duration::from_millis(500));
        assert_eq!(backoff(500, 3, 99), Duration::from_millis(4099));
        assert_eq!(backoff(500, 64, 5), Duration::from_millis(u64::MAX));
        assert_eq!(backoff(u64::MAX, 40, 99), Duration::from_millis(u64::MAX));
    }
}
