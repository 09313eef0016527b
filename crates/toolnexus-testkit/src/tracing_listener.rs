//! A subscriber that hears what one thread of a test traces.

use std::sync::OnceLock;

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};

/// Lets `subscriber` hear this thread until the guard is dropped, whatever other threads trace
/// meanwhile; no other subscriber hears this thread then.
///
/// Use it where `tracing::subscriber::set_default` comes to mind. That one may stay deaf: `tracing`
/// remembers which places in the code interest nobody, and while one subscriber is all there is, a
/// place that another thread of the test binary meets first is judged for that thread alone.
///
/// ```
/// use toolnexus_testkit::tracing_listener::listen_on_this_thread;
/// let _listening = listen_on_this_thread(tracing_subscriber::registry());
/// assert!(tracing::enabled!(tracing::Level::TRACE));
/// ```
#[must_use = "it listens until the guard is dropped"]
pub fn listen_on_this_thread(subscriber: impl Into<Dispatch>) -> DefaultGuard {
    // A second subscriber that stays forbids that shortcut.
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| Dispatch::new(NoSubscriber::new()));
    tracing::dispatcher::set_default(&subscriber.into())
}
