//! What a run looks like: for people, or as lines of JSON.

mod human;
mod json;
mod servers;
mod text;
mod time;

use std::io;

use toolnexus::{RunResult, RunStatus, StreamEvent};

use crate::exit::Failure;
use crate::loading::Loaded;
use crate::provider::Choice;
use crate::runs::{Recorded, TakenUp};
use crate::screen::Screen;

pub(crate) use human::{Human, asked_by, progress_in_words};
pub(crate) use json::Json;
pub(crate) use servers::{FailedServer, failed_servers};
pub(crate) use text::{
    arguments, count, cut_line, excerpt, grouped, milliseconds, one_line, plain, plain_lines,
};
pub(crate) use time::{rfc3339, utc};

/// Shows a run. An `Err` means that stdout cannot be written, and ends the run.
pub(crate) trait Render: Send {
    /// What was loaded, before anything is sent.
    fn loaded(&mut self, loaded: &Loaded, choice: &Choice) -> io::Result<()>;

    /// The run is written down, or goes on where it was.
    fn recorded(&mut self, recorded: &Recorded, taken_up: Option<&TakenUp<'_>>) -> io::Result<()>;

    /// One event.
    fn event(&mut self, event: &StreamEvent) -> io::Result<()>;

    /// The run failed; the message itself is shown by whoever called.
    fn failure(&mut self, failure: &Failure) -> io::Result<()>;
}

/// The way to show a run that a command line asks for.
pub(crate) fn of(json: bool, screen: &Screen) -> Box<dyn Render> {
    if json { Box::new(Json::new(screen)) } else { Box::new(Human::new(screen, screen.stdout_is_terminal())) }
}

/// Says that there is no answer, which would look like a command that did nothing.
fn note_empty(result: &RunResult, screen: &Screen) {
    if result.status == RunStatus::Done && result.text.trim().is_empty() {
        screen.note(&format!("{} the model answered nothing", screen.paint().warn("warning:")));
    }
}
