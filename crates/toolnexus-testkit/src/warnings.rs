//! What a program says aloud, kept for a test.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::tracing_listener::listen_on_this_thread;

/// The warnings that toolnexus crates log on this thread, from [`Warnings::listen`] until this is
/// dropped. Work on other threads is not heard, so use it with a current-thread runtime.
///
/// Each is its message, then its other fields as ` name=value`. Meanwhile no other subscriber hears
/// this thread.
///
/// ```
/// use toolnexus_testkit::warnings::Warnings;
/// let warnings = Warnings::listen();
/// tracing::warn!(target: "toolnexus_core", attempt = 2, "look out");
/// tracing::warn!(target: "hyper", "not ours");
/// assert_eq!(warnings.take(), ["look out attempt=2"]);
/// assert!(warnings.take().is_empty());
/// ```
#[must_use = "it listens until it is dropped"]
pub struct Warnings {
    heard: Heard,
    _listening: DefaultGuard,
}

impl Warnings {
    /// Starts listening on this thread.
    pub fn listen() -> Self {
        let heard = Heard::default();
        let listening = listen_on_this_thread(tracing_subscriber::registry().with(heard.clone()));
        Warnings { heard, _listening: listening }
    }

    /// What was heard since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lines())
    }

    /// What was heard since the last [`take`](Self::take).
    pub fn all(&self) -> Vec<String> {
        self.heard.lines().clone()
    }

    /// Those of [`all`](Self::all) with this text in them.
    pub fn with(&self, text: &str) -> Vec<String> {
        self.all().into_iter().filter(|line| line.contains(text)).collect()
    }
}

impl std::fmt::Debug for Warnings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Warnings").field("heard", &self.all()).finish_non_exhaustive()
    }
}

/// The lines of one listener.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: tracing::Subscriber> Layer<S> for Heard {
    fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() == tracing::Level::WARN && metadata.target().starts_with("toolnexus") {
            let mut line = Line::default();
            event.record(&mut line);
            self.lines().push(line.message + &line.fields);
        }
    }
}

/// An event as text.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing into a string never fails.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
