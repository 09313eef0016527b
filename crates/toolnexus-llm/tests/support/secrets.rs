//! A watch over everything that is logged: no line of any crate may show a planted credential.

use std::fmt::{Debug, Write as _};
use std::io::Write as _;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::KEY;

/// A second credential, for headers that a host gives.
pub(crate) const HEADER_SECRET: &str = "header-secret-987654";

/// Whether a text shows a planted credential.
pub(crate) fn shows_secret(text: &str) -> bool {
    [KEY, HEADER_SECRET].iter().any(|secret| text.contains(secret))
}

/// Watches the whole process from now on, at every level and for every crate. Ends it when a
/// credential is logged: a panic may be caught, or happen in a task that nobody awaits.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let watcher = Watcher(|line: &str| {
            // Past the capture of the test harness.
            let _ = writeln!(std::io::stderr(), "a credential was logged: {line}");
            std::process::abort();
        });
        // What crates write with `log` comes along. A test binary that has a global subscriber of
        // its own keeps it.
        let _ = tracing_subscriber::registry().with(watcher).try_init();
    });
}

/// Tells of every line that shows a credential.
pub(crate) struct Watcher<F>(pub(crate) F);

impl<F: Fn(&str)> Watcher<F> {
    fn check(&self, target: &str, name: &str, record: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("{target} {name}"));
        record(&mut line);
        if shows_secret(&line.0) {
            (self.0)(&line.0);
        }
    }
}

impl<S: Subscriber, F: Fn(&str) + 'static> Layer<S> for Watcher<F> {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        self.check(metadata.target(), metadata.name(), |line| event.record(line));
    }

    fn on_new_span(&self, span: &Attributes<'_>, _id: &Id, _context: Context<'_, S>) {
        let metadata = span.metadata();
        self.check(metadata.target(), metadata.name(), |line| span.record(line));
    }

    fn on_record(&self, _span: &Id, values: &Record<'_>, _context: Context<'_, S>) {
        self.check("", "", |line| values.record(line));
    }
}

/// An event or span as text, with all of its fields.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, " {}={value}", field.name()).unwrap();
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        write!(self.0, " {}={value} {value:?}", field.name()).unwrap();
    }
}
