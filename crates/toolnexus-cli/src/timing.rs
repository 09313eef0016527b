//! How long each tool call took by itself.
//!
//! Calls of one turn run side by side and their results are told in call order, so the time between
//! two events is not that of a call. The span around each execution is.

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The client's span around the execution of a tool, and its field with the call's id.
const SPAN: &str = "execute_tool";
const CALL_ID: &str = "gen_ai.tool.call.id";

/// Global, because the subscriber is.
static TIMES: LazyLock<Mutex<HashMap<String, Duration>>> = LazyLock::new(Mutex::default);

fn times() -> MutexGuard<'static, HashMap<String, Duration>> {
    TIMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time of a call that has ended, once.
pub(crate) fn take(call_id: &str) -> Option<Duration> {
    times().remove(call_id)
}

/// Whether a span is one of those that are measured.
pub(crate) fn is_measured(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.name() == SPAN
}

/// Measures the spans that [`is_measured`] lets through. A call that asked a person ran twice: its
/// time is that of both executions, without the wait.
pub(crate) struct CallTimes;

struct Started {
    call_id: String,
    at: Instant,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for CallTimes {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut call = CallId(String::new());
        attributes.record(&mut call);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Started { call_id: call.0, at: Instant::now() });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(started) = span.extensions_mut().remove::<Started>() {
            *times().entry(started.call_id).or_default() += started.at.elapsed();
        }
    }
}

struct CallId(String);

impl Visit for CallId {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == CALL_ID {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn fmt::Debug) {}
}
