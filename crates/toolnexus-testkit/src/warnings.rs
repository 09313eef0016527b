//! What a program says aloud, kept for a test.
//!
//! One listener is installed for the whole process, when the first test listens; what a thread logs
//! is kept with that thread. A listener that came and went with each test would miss places in the
//! code that other threads met while nobody listened: `tracing` remembers those as uninteresting.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::marker::PhantomData;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

thread_local! {
    /// `None` while nobody listens on this thread.
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// The warnings that toolnexus crates log on this thread, from [`Warnings::listen`] until this is
/// dropped. Work on other threads is not heard, so use it with a current-thread runtime.
///
/// Each is its message, then its other fields as ` name=value`.
///
/// A subscriber that the test sets for its own thread hides it.
///
/// ```
/// use toolnexus_testkit::warnings::Warnings;
/// let warnings = Warnings::listen();
/// tracing::warn!(target: "toolnexus_core", attempt = 2, "look out");
/// tracing::warn!(target: "hyper", "not ours");
/// assert_eq!(warnings.take(), ["look out attempt=2"]);
/// assert!(warnings.take().is_empty());
/// ```
#[derive(Debug)]
#[must_use = "it listens until it is dropped"]
pub struct Warnings {
    /// It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl Warnings {
    /// Starts listening on this thread.
    pub fn listen() -> Self {
        static LISTENER: Once = Once::new();
        LISTENER.call_once(|| {
            // A program with a subscriber of its own keeps it, and hears for itself.
            let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Listener));
        });
        HEARD.set(Some(Vec::new()));
        Warnings { not_send: PhantomData }
    }

    /// What was heard since the last call.
    pub fn take(&self) -> Vec<String> {
        HEARD.with_borrow_mut(|heard| heard.as_mut().map(std::mem::take)).unwrap_or_default()
    }

    /// What was heard, from the last [`take`](Self::take) on.
    pub fn all(&self) -> Vec<String> {
        HEARD.with_borrow(Option::clone).unwrap_or_default()
    }

    /// Those of [`all`](Self::all) with this text in them.
    pub fn with(&self, text: &str) -> Vec<String> {
        self.all().into_iter().filter(|line| line.contains(text)).collect()
    }
}

impl Drop for Warnings {
    fn drop(&mut self) {
        HEARD.set(None);
    }
}

/// Hears the warnings of the whole process.
struct Listener;

impl<S: tracing::Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() == tracing::Level::WARN && metadata.target().starts_with("toolnexus") {
            HEARD.with_borrow_mut(|heard| {
                if let Some(heard) = heard {
                    let mut line = Line::default();
                    event.record(&mut line);
                    heard.push(line.message + &line.fields);
                }
            });
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
