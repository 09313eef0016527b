//! Why an event was refused.

use super::event::NEWER;

/// Why a run did not take an event, or an event could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The event does not fit the state; the run is unchanged.
    #[error("run event \"{event}\" does not fit a run that is {state}")]
    Unexpected {
        /// The kind of the event.
        event: &'static str,
        /// The state of the run.
        state: String,
    },
    /// There is no `started` event at the beginning.
    #[error("a run begins with a \"started\" event, not with {found}")]
    NotStarted {
        /// What was there instead.
        found: &'static str,
    },
    /// The event was written by a newer build.
    #[error("{0}; read it with a newer toolnexus")]
    Newer(String),
    /// The event is not readable.
    #[error("not a run event: {0}")]
    Unreadable(String),
}

impl RunError {
    /// What the failure to read an event's JSON means.
    pub fn from_json(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        if text.starts_with(NEWER) { RunError::Newer(text) } else { RunError::Unreadable(text) }
    }
}
