//! Replayed tool arguments: the exact inverse of decoding.

use crate::Registry;

impl Registry {
    /// The sources that declared keys of a replayed call name become known, for navigation.
    pub(crate) fn note_arguments(&self, tool: &str, arguments: &str) {
        let _ = (tool, arguments);
    }

    /// The sources that evidence keys of a call name were retrieved: the call has succeeded.
    pub(crate) fn register_evidence(&self, tool: &str, arguments: &str) {
        let _ = (tool, arguments);
    }

    /// The arguments of a replayed call as the model wrote them; `None` where nothing changes.
    pub(crate) fn encode_arguments(&self, tool: &str, arguments: &str) -> Option<String> {
        let _ = (tool, arguments);
        None
    }
}
