//! Warnings of the library, and its log for those who ask for it, on stderr.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use crate::render::{milliseconds, plain};
use crate::screen::{Paint, Screen};
use crate::timing::{CallTimes, is_measured};

/// What the library puts before its warnings, for hosts whose log has many voices. Here it is
/// noise.
const PREFIX: &str = "[toolnexus] ";

/// What is shown: `RUST_LOG` if it is set, else more with every `-v`.
///
/// `rmcp` prints what servers send at info, so it stays at warnings unless asked for by name. Its
/// errors are those of servers that fail or are left, which the command tells of itself.
fn filter(verbose: u8) -> EnvFilter {
    let default = match verbose {
        // A retry is announced at info: a silent wait looks like a hang.
        0 => "warn,toolnexus_llm=info,rmcp=off",
        1 => "info,rmcp=warn",
        2 => "debug,rmcp=warn,hyper=info,hyper_util=info,reqwest=info,rustls=info,h2=info",
        _ => "trace,rmcp=info",
    };
    match std::env::var("RUST_LOG") {
        Ok(given) if !given.trim().is_empty() => EnvFilter::new(given),
        _ => EnvFilter::new(default),
    }
}

/// Starts logging to the screen. `lists_skips`: the command itself tells which skills were skipped.
pub(crate) fn start(screen: &Screen, verbose: u8, lists_skips: bool) {
    let lines = Lines { screen: screen.clone(), paint: Paint::stderr(), verbose, lists_skips };
    // Fails only when there is a subscriber already.
    let _ = tracing_subscriber::registry()
        .with(lines.with_filter(filter(verbose)))
        .with(CallTimes.with_filter(filter_fn(is_measured)))
        .try_init();
}

/// One line for each event: level, message, fields.
struct Lines {
    screen: Screen,
    paint: Paint,
    verbose: u8,
    lists_skips: bool,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let message = text.message.strip_prefix(PREFIX).unwrap_or(&text.message);
        // The command itself tells of servers that failed, in more words.
        if message.starts_with("MCP server \"") && message.contains("\" failed: ") {
            return;
        }
        if self.lists_skips && message.starts_with("skill \"") && message.contains("\" at ") {
            return;
        }
        let level = match *event.metadata().level() {
            Level::ERROR => self.paint.bad("error:"),
            Level::WARN => self.paint.warn("warning:"),
            Level::INFO => self.paint.dim("note:"),
            Level::DEBUG => self.paint.dim("debug:"),
            Level::TRACE => self.paint.dim("trace:"),
        };
        let target = match self.verbose {
            0 => String::new(),
            _ => self.paint.dim(&format!(" ({})", event.metadata().target())),
        };
        self.screen.note(&format!("{level} {}{}{target}", plain(message), plain(&text.fields)));
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let result = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            // The wait before another attempt, in words: the message ends with "is tried again".
            "wait_ms" => match format!("{value:?}").parse() {
                Ok(ms) => write!(self.fields, " in {}", milliseconds(ms)),
                Err(_) => Ok(()),
            },
            "status" => write!(self.fields, " (HTTP {value:?})"),
            "attempt" => Ok(()),
            name => write!(self.fields, " {name}={value:?}"),
        };
        // Writing to a string does not fail.
        debug_assert!(result.is_ok());
    }
}
