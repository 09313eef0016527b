//! Tool arguments, fail closed: what is no handle of this registry stays, and the call is not run.

use crate::{ArgumentResolution, ModelToolCall, Registry};

/// What decoding made of the arguments of one call.
pub(crate) struct DecodedArguments {
    /// The new text, where it differs.
    pub(crate) text: Option<String>,
    pub(crate) resolution: ArgumentResolution,
    /// Each once, sorted.
    pub(crate) unresolved: Vec<String>,
}

impl Registry {
    /// Decodes the arguments of tool calls. Do it before anything parses, checks, shows or stores them. A
    /// call that was decoded before is left alone.
    pub fn decode_tool_calls(&self, calls: &mut [ModelToolCall]) {
        let _ = calls;
    }

    /// Decodes the arguments of one call.
    pub(crate) fn decode_arguments(&self, tool: &str, arguments: &str) -> DecodedArguments {
        let _ = (tool, arguments);
        DecodedArguments { text: None, resolution: ArgumentResolution::Unchanged, unresolved: Vec::new() }
    }
}
