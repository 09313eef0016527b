//! Which tool a result comes from.

use std::collections::HashMap;

/// The names of the tools that were called, by the calls' ids. An id that comes again names the newer
/// call.
#[derive(Debug, Default)]
pub(crate) struct CallNames(HashMap<String, String>);

impl CallNames {
    pub(super) fn note(&mut self, id: String, tool: &str) {
        if !id.is_empty() && !tool.is_empty() {
            self.0.insert(id, tool.to_owned());
        }
    }

    pub(super) fn name_of(&self, id: &str) -> Option<String> {
        self.0.get(id).cloned()
    }
}
