//! What a run looks like: for people, or as lines of JSON.

mod human;
mod json;
mod servers;
mod text;

use std::io;

use toolnexus::StreamEvent;

use crate::exit::Failure;
use crate::loading::Loaded;
use crate::provider::Choice;

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
