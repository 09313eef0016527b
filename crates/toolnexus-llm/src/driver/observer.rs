//! A look at every run of the process, for the tests of this crate: each run must be equal to the fold
//! of its events.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::Driver;
use crate::run::{Run, RunEvent};

static OBSERVER: OnceLock<fn(&[RunEvent], &Run)> = OnceLock::new();

/// Shows every run of this process, when its driver leaves it, with all of its events. Once set it
/// stays.
#[doc(hidden)]
pub fn observe_runs(observer: fn(&[RunEvent], &Run)) {
    let _ = OBSERVER.set(observer);
}

/// The events of a run that is observed.
pub(crate) struct Observed(Mutex<Vec<RunEvent>>);

impl Observed {
    pub(crate) fn is_wanted() -> bool {
        OBSERVER.get().is_some()
    }

    /// Begins with these events, when somebody observes.
    pub(crate) fn begin(events: impl FnOnce() -> Vec<RunEvent>) -> Option<Self> {
        OBSERVER.get().map(|_| Observed(Mutex::new(events())))
    }
}

impl Driver {
    pub(super) fn note_observed(&self, event: &RunEvent) {
        if let Some(Observed(events)) = &self.observed {
            events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        }
    }

    pub(super) fn show_observed(&self, run: &Run) {
        if let (Some(Observed(events)), Some(observer)) = (&self.observed, OBSERVER.get()) {
            observer(&events.lock().unwrap_or_else(PoisonError::into_inner), run);
        }
    }
}
