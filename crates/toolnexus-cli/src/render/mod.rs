//! What a run looks like: for people, or as lines of JSON.

mod human;
mod json;
mod servers;
mod text;

use std::io;

use toolnexus::{RunResult, RunStatus, StreamEvent};

use crate::exit::Failure;
use crate::loading::Loaded;
use crate::provider::Choice;
use crate::screen::Screen;

pub(crate) use human::Human;
pub(crate) use json::Json;
pub(crate) use servers::{FailedServer, failed_servers};
pub(crate) use text::{count, milliseconds, one_line, plain, plain_lines};

/// Shows a run. An `Err` means that stdout cannot be written, and ends the run.
pub(crate) trait Render: Send {
    /// What was loaded, before anything is sent.
    fn loaded(&mut self, loaded: &Loaded, choice: &Choice) -> io::Result<()>;

    /// One event.
    fn event(&mut self, event: &StreamEvent) -> io::Result<()>;

    /// The run failed; the message itself is shown by whoever called.
    fn failure(&mut self, failure: &Failure) -> io::Result<()>;
}

/// Says that there is no answer, which would look like a command that did nothing.
fn note_empty(result: &RunResult, screen: &Screen) {
    if result.status == RunStatus::Done && result.text.trim().is_empty() {
        screen.note(&format!("{} the model answered nothing", screen.paint().warn("warning:")));
    }
}
