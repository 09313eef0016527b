//! Tool definitions, directories and text that name places to route to.

use std::borrow::Cow;

use serde_json::Value;

use crate::Registry;

impl Registry {
    /// Tool definitions as the model shall see them, in any dialect.
    pub fn encode_tools(&self, tools: &[Value]) -> Vec<Value> {
        tools.to_vec()
    }

    /// `server_id="…"` of a known server in system and user text.
    pub(crate) fn encode_routing_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }

    /// The result of `tool_search`: the definitions in it as [`encode_tools`](Self::encode_tools) gives
    /// them.
    pub(crate) fn encode_found_tools<'t>(&self, output: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(output)
    }

    /// The result of a directory tool.
    pub(crate) fn encode_directory<'t>(&self, output: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(output)
    }
}
