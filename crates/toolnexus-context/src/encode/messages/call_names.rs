//! Which tool a result comes from.

use std::collections::HashMap;

use toolnexus_llm::Message;

use super::outline::Outline;

/// The names of the tools that were called.
#[derive(Debug, Default)]
pub(crate) struct CallNames {
    /// By the calls' ids. An id that comes again names the newer call.
    by_id: HashMap<String, String>,
    /// The tools of the newest message with calls, in order: a dialect may give calls no ids.
    newest: Vec<String>,
}

impl CallNames {
    /// The calls in these messages.
    pub(crate) fn of(messages: &[Message]) -> Self {
        let mut names = CallNames::default();
        for message in messages {
            // Reading a message takes note of its calls.
            Outline::read(std::str::from_utf8(message.json()).unwrap_or("null"), &mut names);
        }
        names
    }

    /// Takes note of the calls of one message, in order: the id, which may be empty, and the tool.
    pub(super) fn note(&mut self, calls: Vec<(String, String)>) {
        if calls.is_empty() {
            return;
        }
        self.newest = calls.iter().map(|(_, tool)| tool.clone()).collect();
        self.by_id.extend(calls.into_iter().filter(|(id, tool)| !id.is_empty() && !tool.is_empty()));
    }

    /// The tool of the call with this id; without an id, that of the call at this place of the newest
    /// message with calls.
    pub(super) fn name_of(&self, id: &str, place: usize) -> Option<String> {
        if id.is_empty() { self.newest.get(place).cloned() } else { self.by_id.get(id).cloned() }
    }
}
