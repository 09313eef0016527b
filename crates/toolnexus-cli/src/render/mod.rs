//! What a run looks like: for people, or as lines of JSON.

mod human;
mod json;
mod servers;
mod text;

use std::io;

use toolnexus::{StreamEvent, Toolkit};

use crate::exit::Failure;
use crate::provider::Choice;

pub(crate) use human::Human;
pub(crate) use json::Json;
pub(crate) use servers::{failure_lines, failures};
pub(crate) use text::{count, milliseconds, one_line, plain, plain_lines};

/// Shows a run. An `Err` means that stdout cannot be written, and ends the run.
pub(crate) trait Render: Send {
    /// What was loaded, before anything is sent.
    fn toolkit(&mut self, toolkit: &Toolkit, choice: &Choice) -> io::Result<()>;

    /// One event.
    fn event(&mut self, event: &StreamEvent) -> io::Result<()>;

    /// The run failed; the message itself is shown by whoever called.
    fn failure(&mut self, failure: &Failure) -> io::Result<()>;
}
