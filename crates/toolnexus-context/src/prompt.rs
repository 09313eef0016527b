//! What the model is told of handles: the protocol prompt.

use crate::Registry;

impl Registry {
    /// The system-owned rules for handles and citations. They are appended to the encoded system text,
    /// and stored nowhere.
    pub fn protocol_prompt(&self) -> String {
        String::new()
    }
}
